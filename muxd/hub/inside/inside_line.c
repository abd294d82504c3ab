#include "muxd/hub/inside/inside_line.h"

#include "base/err.h"

#include <string.h>

#define KEPT_ROOM (1024u * 1024) /* of a buffer that is empty */

/* ---- messages */

static bool is_id(const json_t *v)
{
	return json_is_string(v) || json_is_integer(v);
}

static void read_answer(struct inside_line *l)
{
	if (!is_id(l->id) || (l->result != NULL) == (l->error != NULL) || (l->error && !json_is_object(l->error)))
		return;
	l->kind = l->error ? INSIDE_ERROR : INSIDE_RESULT;
	if (json_is_integer(l->id) && json_integer_value(l->id) > 0)
		l->number = json_integer_value(l->id);
}

static void read_call(struct inside_line *l, const json_t *method)
{
	l->params = json_object_get(l->root, "params");
	if (!json_is_string(method) || (l->id && !is_id(l->id)) || l->result || l->error ||
	    (l->params && !json_is_object(l->params)))
		return;
	l->method = json_string_value(method);
	l->kind = l->id ? INSIDE_REQUEST : INSIDE_NOTIFICATION;
}

void inside_line_read(const void *p, size_t n, struct inside_line *out)
{
	const json_t *method;

	*out = (struct inside_line){.values = json_count_values(p, n)};
	if (out->values > INSIDE_VALUES_MAX || json_parse(p, n, INSIDE_LINE_MAX, &out->root, NULL))
		return;
	method = json_object_get(out->root, "method");
	out->id = json_object_get(out->root, "id");
	out->result = json_object_get(out->root, "result");
	out->error = json_object_get(out->root, "error");
	if (strcmp(json_get_text(out->root, "jsonrpc"), "2.0") == 0) {
		if (method)
			read_call(out, method);
		else
			read_answer(out);
	}
	if (out->kind == INSIDE_GARBAGE) {
		size_t values = out->values;

		inside_line_finish(out);
		out->values = values;
	}
}

void inside_line_finish(struct inside_line *l)
{
	json_decref(l->root);
	*l = (struct inside_line){0};
}

/* ---- lines */

void inside_lines_init(struct inside_lines *l)
{
	buf_init(&l->buf, 2 * INSIDE_LINE_MAX);
	l->looked = 0;
}

void inside_lines_finish(struct inside_lines *l)
{
	buf_finish(&l->buf);
	l->looked = 0;
}

int inside_lines_feed(struct inside_lines *l, const void *p, size_t n)
{
	int rc = buf_append(&l->buf, p, n);

	if (rc || buf_len(&l->buf) <= INSIDE_LINE_MAX || l->looked > INSIDE_LINE_MAX)
		return rc;
	return memchr(buf_ptr(&l->buf) + l->looked, '\n', INSIDE_LINE_MAX + 1 - l->looked) ? 0 : ERR_TOO_LARGE;
}

static bool inside_line_is_blank(const uint8_t *p, size_t n)
{
	while (n && (*p == ' ' || *p == '\t' || *p == '\r'))
		p++, n--;
	return n == 0;
}

bool inside_lines_next(struct inside_lines *l, const uint8_t **out_p, size_t *out_n)
{
	for (;;) {
		const uint8_t *p = buf_ptr(&l->buf), *end;
		size_t len = buf_len(&l->buf), n;

		end = len > l->looked ? memchr(p + l->looked, '\n', len - l->looked) : NULL;
		if (!end) {
			l->looked = len;
			if (!len && l->buf.cap > KEPT_ROOM)
				inside_lines_finish(l);
			return false;
		}
		n = (size_t)(end - p);
		l->looked = 0;
		*out_p = p;
		*out_n = n;
		buf_consume(&l->buf, n + 1);
		if (!inside_line_is_blank(p, n))
			return true;
	}
}
