// tier: check
/* Heads of WebSocket frames: pieces (the first byte says how long) change nothing, and refused stays refused. */
#include "muxd/doors/https/frames.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frames whole = {0}, part = {0};
	const char *a, *b = NULL;
	size_t step;

	if (size < 2)
		return 0;
	step = data[0] % 32 + 1u;
	data++, size--;
	a = frames_look(&whole, data, size);
	for (size_t at = 0; at < size && !b; at += step)
		b = frames_look(&part, data + at, size - at < step ? size - at : step);
	if (a != b || (!a && (whole.state != part.state || whole.left != part.left)))
		abort();
	return 0;
}
