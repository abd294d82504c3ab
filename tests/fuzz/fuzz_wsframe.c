// tier: check
/* WebSocket frames, of either end: pieces (the first byte says how long) change nothing, and refused stays refused. */
#include "base/err.h"
#include "base/wsframe.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What came of the bytes: how many of payload, and a sum of them; what was wrong, or "". */
struct told {
	size_t n, events;
	uint32_t sum;
	char wrong[ERR_MESSAGE_MAX];
};

static struct told feed(const uint8_t *data, size_t size, size_t step, bool server)
{
	struct wsframe f = {.server = server};
	struct told t = {0};
	struct err e = {0};
	uint8_t *p = malloc(size ? size : 1);

	memcpy(p, data, size);
	for (size_t at = 0; at < size && !t.wrong[0];) {
		struct wsframe_event ev;
		ssize_t took = wsframe_decode(&f, p + at, size - at < step ? size - at : step, &ev, &e);

		if (took <= 0) {
			memcpy(t.wrong, e.message, sizeof(t.wrong));
			break;
		}
		at += (size_t)took;
		for (size_t i = 0; i < ev.n && ev.kind != WSFRAME_NOTHING; i++)
			t.sum = t.sum * 31 + ev.p[i];
		t.n += ev.n;
		t.events += ev.kind > WSFRAME_DATA || ev.last;
	}
	free(p);
	return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	for (int server = 0; server < 2; server++) {
		struct told whole = feed(data + 1, size - 1, size, server),
			    part = feed(data + 1, size - 1, data[0] % 32 + 1u, server);

		if (whole.n != part.n || whole.sum != part.sum || whole.events != part.events ||
		    strcmp(whole.wrong, part.wrong) != 0)
			abort();
	}
	return 0;
}
