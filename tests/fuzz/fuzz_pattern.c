// tier: check
/* What somebody looks for, up to the first NUL (its first byte: flags), in what stands behind it. */
#include "base/err.h"
#include "recorder/output/pattern.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pattern *p;
	struct err e = {0};
	const uint8_t *end;
	size_t n;
	bool once;

	if (size < 2)
		return 0;
	end = memchr(data + 1, 0, size - 1);
	n = end ? (size_t)(end - data - 1) : size - 1;
	if (pattern_create((const char *)data + 1, n, data[0] & 3u, &p, &e)) {
		if (!e.message[0])
			abort();
		return 0;
	}
	data += 1 + n;
	size -= 1 + n;
	once = pattern_matches(p, data, size);
	if (pattern_matches(p, data, size) != once) /* by what it remembers */
		abort();
	pattern_destroy(p);
	return 0;
}
