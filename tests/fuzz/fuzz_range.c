// tier: check
/* The Range header of a stranger, as text. */
#include "base/err.h"
#include "muxd/doors/https/range.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[64];
	struct range r;
	struct err e = {0};

	if (size >= sizeof(text) || memchr(data, 0, size))
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	if (range_parse(text, &r, &e) == 0 && r.given && !r.suffix && r.last < r.first)
		abort();
	return 0;
}
