/* The terminal of a round, over calls: keys by name, its size, and what its screen shows. */
#include "base/clock.h"
#include "base/schema.h"
#include "base/text.h"
#include "base/wire.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/keys.h"
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/core/hub.h"
#include "muxd/screen/picture.h"

#include <stdlib.h>
#include <string.h>

#define KEYS_MAX  1024
#define TYPED_MAX (64 * 1024)

/* ---- keys */

/*
 * Keys of one call, in both forms that they may have. Where these are the same nothing else is needed; where
 * they are not, the screen says which one the program wants.
 */
struct typing {
	struct http_exchange *x;
	struct buf usual, application;
	size_t keys;
	uint64_t offset; /* of the output before it */
};

static void typing_free(struct typing *t)
{
	buf_finish(&t->usual);
	buf_finish(&t->application);
	free(t);
}

static int check_keys(const struct schema *s, const struct schema_at *at, const json_t *list)
{
	struct typing *t = s->out;
	int rc = schema_texts(s, at, list, TYPED_MAX);
	size_t i;
	json_t *v;

	if (rc)
		return rc;
	json_array_foreach((json_t *)(uintptr_t)list, i, v)
	{
		struct schema_at here = {.up = at, .index = i};
		const char *key = json_string_value(v);
		size_t n = json_string_length(v);
		struct err why = {0};

		rc = key_put(key, n, false, &t->usual, &why);
		rc = rc ? rc : key_put(key, n, true, &t->application, &why);
		if (rc == ERR_TOO_LARGE)
			return schema_fault(s, at, rc, "is more than %d bytes to type", TYPED_MAX);
		if (rc)
			return schema_fault(s, &here, rc, "%.160s", why.message[0] ? why.message : err_name(rc));
	}
	t->keys = json_array_size(list);
	return 0;
}

static int typing_parse(struct http_exchange *x, struct typing *t, struct err *e)
{
	static const struct schema_field fields[] = {
	    {"keys", SCHEMA_LIST, true, 1, KEYS_MAX, check_keys, 0},
	};
	struct schema s = {.out = t, .e = e};
	json_t *o = NULL;
	int rc = rest_body_any(x, &o, e);

	if (rc == 0 && !o)
		rc = err_set(e, ERR_INVAL, "the body is empty; send {\"keys\": [...]}");
	if (rc == 0)
		rc = schema_object(&s, NULL, o, SCHEMA_FIELDS(fields));
	json_decref(o);
	return rc;
}

/* All of it or nothing: half of a sequence would be other keys. */
static void typing_send(struct typing *t, const struct buf *b)
{
	struct http_exchange *x = t->x;
	struct err e = {0};
	json_t *o = NULL;
	int rc = broker_round_type(x->hub, &x->rq, &x->object, buf_ptr(b), buf_len(b), &e);

	if (rc == 0)
		o = json_pack("{s:s,s:I,s:I,s:I}", "round_id", x->params[0], "keys", (json_int_t)t->keys, "bytes",
			      (json_int_t)buf_len(b), "offset", (json_int_t)t->offset);
	http_reply_result(x, rc, &e, o);
	json_decref(o);
	typing_free(t);
}

static void pty_on_mode(void *arg, int rc, const struct err *e, uint64_t offset, bool exact, const struct picture *pic)
{
	struct typing *t = arg;

	(void)offset, (void)exact;
	if (rc == ERR_TIMEOUT || rc == ERR_UNAVAILABLE || rc == ERR_TOO_LARGE) { /* as a terminal begins */
		typing_send(t, &t->usual);
	} else if (rc) {
		http_reply_error(t->x, rc, e);
		typing_free(t);
	} else {
		typing_send(t, pic->flags & PICTURE_CURSOR_KEYS ? &t->application : &t->usual);
	}
}

void rest_round_keys(struct http_exchange *x)
{
	struct typing *t = calloc(1, sizeof(*t));
	struct err e = {0};
	int rc = ERR_NOMEM;

	if (t) {
		t->x = x;
		buf_init(&t->usual, TYPED_MAX);
		buf_init(&t->application, TYPED_MAX);
		rc = typing_parse(x, t, &e);
	}
	if (rc == 0)
		rc = broker_round_typable(x->hub, &x->rq, &x->object, &t->offset, &e);
	if (rc) {
		http_reply_error(x, rc, &e);
		if (t)
			typing_free(t);
		return;
	}
	if (buf_len(&t->usual) == buf_len(&t->application) &&
	    memcmp(buf_ptr(&t->usual), buf_ptr(&t->application), buf_len(&t->usual)) == 0)
		typing_send(t, &t->usual);
	else
		broker_round_mode(x->hub, &x->rq, &x->object, pty_on_mode, t);
}

/* ---- size */

struct size_fields {
	int64_t cols, rows;
};

void rest_round_resize(struct http_exchange *x)
{
	static const struct schema_field fields[] = {
	    {"cols", SCHEMA_INTEGER, true, 1, WIRE_SIZE_MAX, NULL, SCHEMA_TO(struct size_fields, cols)},
	    {"rows", SCHEMA_INTEGER, true, 1, WIRE_SIZE_MAX, NULL, SCHEMA_TO(struct size_fields, rows)},
	};
	struct size_fields f = {0};
	struct err e = {0};
	struct schema s = {.out = &f, .e = &e};
	json_t *o = NULL, *result = NULL;
	int rc = rest_body_any(x, &o, &e);

	if (rc == 0 && !o)
		rc = err_set(&e, ERR_INVAL, "the body is empty; send {\"cols\": ..., \"rows\": ...}");
	if (rc == 0)
		rc = schema_object(&s, NULL, o, SCHEMA_FIELDS(fields));
	if (rc == 0)
		rc = broker_round_resize(x->hub, &x->rq, &x->object, (unsigned)f.cols, (unsigned)f.rows, &e);
	if (rc == 0)
		result = json_pack("{s:s,s:I,s:I}", "round_id", x->params[0], "cols", f.cols, "rows", f.rows);
	http_reply_result(x, rc, &e, result);
	json_decref(result);
	json_decref(o);
}

/* ---- the screen */

/* Every row has its line; blanks at its end are left out. */
static int screen_text(const struct picture *pic, struct buf *out)
{
	static const char blanks[] = "                ";
	struct picture_run r;
	unsigned row = 0, col = 0;
	size_t at = 0;
	int rc = 0;

	while (rc == 0 && picture_next(pic, &at, NULL, &r) == 1) {
		for (; rc == 0 && row < r.row; row++, col = 0)
			rc = buf_append_str(out, "\n");
		while (rc == 0 && col < r.col) {
			unsigned n = r.col - col < sizeof(blanks) - 1 ? r.col - col : sizeof(blanks) - 1;

			rc = buf_append(out, blanks, n);
			col += n;
		}
		if (rc == 0)
			rc = buf_append(out, r.text, r.len);
		col = r.col + r.cells;
	}
	for (; rc == 0 && row < pic->rows; row++)
		rc = buf_append_str(out, "\n");
	return rc;
}

/* In place: no line grows. */
static void trim_lines(struct buf *b)
{
	uint8_t *p = (uint8_t *)(uintptr_t)buf_ptr(b);
	size_t n = buf_len(b), to = 0, end = 0;

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\n')
			to = end;
		p[to++] = p[i];
		if (p[i] != ' ')
			end = to;
	}
	buf_truncate(b, to);
}

static json_t *color_json(uint32_t c)
{
	char text[8];

	if (!c)
		return NULL;
	if (c & PICTURE_RGB) {
		text_format(text, sizeof(text), "#%06x", c & 0xffffff);
		return json_string(text);
	}
	return json_integer(c & 0xff);
}

static json_t *attrs_json(const struct picture_run *r)
{
	static const char *const attrs[] = {"bold",    "faint",  "italic", "blink",
					    "reverse", "hidden", "struck", "overlined"};
	json_t *a = json_array();

	for (unsigned i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++)
		if (r->attrs & 1U << i)
			json_array_append_new(a, json_string(attrs[i]));
	if (r->underline)
		json_array_append_new(a, json_string("underlined"));
	if (!json_array_size(a)) {
		json_decref(a);
		return NULL;
	}
	return a;
}

static json_t *runs_json(const struct picture *pic)
{
	json_t *a = json_array();
	struct picture_run r;
	size_t at = 0;

	while (picture_next(pic, &at, NULL, &r) == 1)
		json_array_append_new(a, json_pack("{s:i,s:i,s:i,s:s%,s:o*,s:o*,s:o*}", "row", (int)r.row, "col",
						   (int)r.col, "cells", (int)r.cells, "text", r.text, r.len, "fg",
						   color_json(r.fg), "bg", color_json(r.bg), "attrs", attrs_json(&r)));
	return a;
}

static json_t *cells_json(const struct http_exchange *x, uint64_t offset, bool exact, const struct picture *pic)
{
	return json_pack("{s:s,s:i,s:i,s:I,s:b,s:{s:i,s:i,s:b},s:s%,s:b,s:b,s:b,s:o}", "round_id", x->params[0], "cols",
			 (int)pic->cols, "rows", (int)pic->rows, "offset", (json_int_t)offset, "exact", exact, "cursor",
			 "row", (int)pic->row, "col", (int)pic->col, "visible", (pic->flags & PICTURE_CURSOR) != 0,
			 "title", pic->title, pic->title_len, "alternate", (pic->flags & PICTURE_ALTERNATE) != 0,
			 "application_cursor_keys", (pic->flags & PICTURE_CURSOR_KEYS) != 0, "bracketed_paste",
			 (pic->flags & PICTURE_PASTE) != 0, "runs", runs_json(pic));
}

static void reply_text(struct http_exchange *x, uint64_t offset, bool exact, const struct picture *pic)
{
	int rc = screen_text(pic, &x->out);

	if (rc == 0)
		rc = buf_printf(&x->headers, "Muxd-Offset: %llu\r\nMuxd-Size: %ux%u\r\nMuxd-Cursor: %u,%u\r\n%s",
				(unsigned long long)offset, pic->cols, pic->rows, pic->row, pic->col,
				exact ? "" : "Muxd-Exact: false\r\n");
	if (rc) {
		buf_clear(&x->out);
		http_reply_error(x, rc, NULL);
		return;
	}
	trim_lines(&x->out);
	http_reply_text(x, 200, "text/plain; charset=utf-8", "", 0);
}

static void pty_on_text(void *arg, int rc, const struct err *e, uint64_t offset, bool exact, const struct picture *pic)
{
	if (rc)
		http_reply_error(arg, rc, e);
	else
		reply_text(arg, offset, exact, pic);
}

static void pty_on_cells(void *arg, int rc, const struct err *e, uint64_t offset, bool exact, const struct picture *pic)
{
	json_t *o = rc ? NULL : cells_json(arg, offset, exact, pic);

	http_reply_result(arg, rc, e, o);
	json_decref(o);
}

void rest_round_screen(struct http_exchange *x)
{
	const char *format = http_query_str(x, "format");
	bool cells = format && strcmp(format, "cells") == 0;
	uint64_t max = hub_conf(x->hub)->round_wait_max_ns;
	int64_t after = 0, wait_ms = 0;
	struct round_wait wait;
	struct err e = {0};
	int rc = http_query_int(x, "after", 0, INT64_MAX, &after, &e);

	if (rc == 0)
		rc = http_query_int(x, "wait_ms", 0, INT64_C(365) * 24 * 3600 * 1000, &wait_ms, &e);
	if (rc == 0 && format && !cells && strcmp(format, "text") != 0)
		rc = err_set(&e, ERR_INVAL, "query parameter format must be text or cells");
	if (rc) {
		http_reply_error(x, rc, &e);
		return;
	}
	wait = (struct round_wait){.after = (uint64_t)after, .wait_ns = (uint64_t)wait_ms * NS_PER_MS};
	if (wait.wait_ns > max)
		wait.wait_ns = max;
	broker_round_screen(x->hub, &x->rq, &x->object, &wait, cells ? pty_on_cells : pty_on_text, x);
}
