#include "muxd/doors/https/stream_text.h"

#include "base/buf.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static void stream_text_put_bytes(struct buf *b, const json_t *stream, const char *key, const char *encoding)
{
	const char *text = json_get_text(stream, key);
	uint8_t *raw = NULL;
	size_t n = 0;

	if (strcmp(json_get_text(stream, encoding), "base64") != 0)
		(void)buf_append_str(b, text);
	else if (base64_decode(text, strlen(text), false, &raw, &n) == 0)
		(void)buf_append(b, raw, n);
	free(raw);
}

json_t *stream_text(const json_t *stream, size_t max, const char *gap, const char *more)
{
	struct buf b;
	json_t *text;

	buf_init(&b, max);
	stream_text_put_bytes(&b, stream, "data", "encoding");
	if (json_is_true(json_object_get(stream, "truncated"))) {
		(void)buf_append_str(&b, gap);
		stream_text_put_bytes(&b, stream, "tail", "tail_encoding");
	}
	(void)buf_append_str(&b, more);
	text = buf_len(&b) ? json_stringn((const char *)buf_ptr(&b), buf_len(&b)) : json_string("");
	buf_finish(&b);
	return text;
}
