// tier: check
/* The Last-Event-ID of a stranger, as text: what is taken is written again as it came, but for leading zeros. */
#include "base/buf.h"
#include "base/err.h"
#include "muxd/doors/https/event_id.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[EVENT_ID_MAX];
	struct event_id id, again;
	struct err e = {0};
	struct buf b;

	if (size >= sizeof(text) || memchr(data, 0, size))
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	if (event_id_parse(text, &id, &e))
		return 0;
	buf_init(&b, sizeof(text));
	if (event_id_put(&id, &b) || buf_append(&b, "", 1) || event_id_parse((const char *)buf_ptr(&b), &again, &e) ||
	    again.out != id.out || again.err != id.err || again.end != id.end || buf_len(&b) > size + 1)
		abort();
	buf_finish(&b);
	return 0;
}
