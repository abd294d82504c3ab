#include "muxd/hub/session/tail.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* The rest of a character that was cut. */
static size_t tail_cut(const uint8_t *p, size_t n)
{
	size_t at = 0;

	while (at < 3 && at < n && (p[at] & 0xc0) == 0x80)
		at++;
	return at;
}

void tail_add(struct buf *tail, size_t most, const char *head, const void *p, size_t n)
{
	if (!tail->max)
		buf_init(tail, 2 * most);
	if (n > most / 2) {
		p = (const uint8_t *)p + (n - most / 2);
		n = most / 2;
	}
	(void)buf_append(tail, head, strlen(head));
	(void)buf_append(tail, p, n);
	if (buf_len(tail) <= most)
		return;
	buf_consume(tail, buf_len(tail) - most);
	buf_consume(tail, tail_cut(buf_ptr(tail), buf_len(tail)));
}

json_t *tail_json(const struct buf *tail, size_t most)
{
	size_t n = buf_len(tail), at = n > most ? n - most : 0;
	const uint8_t *p = n ? buf_ptr(tail) : (const uint8_t *)"";
	char *text;
	json_t *v;

	at += at ? tail_cut(p + at, n - at) : 0;
	text = malloc(n - at + 1);
	if (!text)
		return NULL;
	text_put_bytes(text, n - at + 1, p + at, n - at);
	v = json_string(text);
	free(text);
	return v;
}

void tail_last_line(const struct buf *tail, char *out, size_t size)
{
	const char *p = (const char *)buf_ptr(tail);
	size_t n = buf_len(tail), at;

	while (n && (p[n - 1] == '\n' || p[n - 1] == '\r' || p[n - 1] == ' '))
		n--;
	for (at = n; at && p[at - 1] != '\n';)
		at--;
	text_put_bytes(out, size, p ? p + at : "", n - at);
}
