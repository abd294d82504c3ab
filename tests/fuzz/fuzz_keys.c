// tier: check
/* The name of a key, from a stranger: what it sends is short unless it is text, and never half of a character. */
#include "base/buf.h"
#include "base/err.h"
#include "base/utf8.h"
#include "muxd/doors/https/keys.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *key = (const char *)data;
	bool text = size >= 5 && memcmp(data, "text:", 5) == 0;

	if (size > 4096 || !utf8_valid(data, size))
		return 0;
	for (int application = 0; application < 2; application++) {
		struct err e = {0};
		struct buf b;
		int rc;

		buf_init(&b, 8192);
		rc = key_put(key, size, application, &b, &e);
		if (rc && (rc != ERR_INVAL || !e.message[0]))
			abort();
		if (rc == 0 && (text ? buf_len(&b) != size - 5 : !buf_len(&b) || buf_len(&b) > 12))
			abort();
		if (rc == 0 && !utf8_valid(buf_ptr(&b), buf_len(&b)))
			abort();
		buf_finish(&b);
	}
	return 0;
}
