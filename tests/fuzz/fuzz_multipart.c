// tier: check
/* A stranger's form with a file: the Content-Type's parameters are the first line, the body is the rest. */
#include "base/err.h"
#include "muxd/doors/https/multipart.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nl = memchr(data, '\n', size), *body = nl ? nl + 1 : data + size;
	size_t head = nl ? (size_t)(nl - data) : size, n = size - (size_t)(body - data);
	static struct multipart_file f;
	struct err e = {0};
	char type[256], *copy = malloc(n + 1);
	int rc;

	if (!copy || head > 200 || memchr(data, 0, head)) {
		free(copy);
		return 0;
	}
	snprintf(type, sizeof(type), "multipart/form-data;%.*s", (int)head, (const char *)data);
	memcpy(copy, body, n); /* of its exact length: what reads behind it is found out */
	rc = multipart_find(type, copy, n, "file", &f, &e);
	if (rc == 0 && (!f.name[0] || f.content < copy || f.len > n || f.content + f.len > copy + n))
		abort();
	if (rc && rc != ERR_INVAL)
		abort();
	free(copy);
	return 0;
}
