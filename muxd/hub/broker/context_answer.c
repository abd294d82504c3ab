#include "muxd/hub/broker/context_answer.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/session/contexts.h"

#include <stdlib.h>
#include <string.h>

#define MEDIA_MAX     100
#define ENDINGS       4            /* lines that were left out, of which an error and an end are read after all */
#define ENDING_MAX    (512 * 1024) /* bytes and values of such a one */
#define ENDING_VALUES 10000
#define VALUE_BYTES   300 /* of memory, at the most */

struct line {
	const uint8_t *p;
	size_t n;
};

struct told {
	struct buf text[2];
	int64_t total[2];
	size_t room, shown; /* bytes of text and of results that there is room for */
	bool cut[2];
	size_t lines, values; /* that may still be read */
	struct line last[ENDINGS];
	size_t left_out, results_left_out;
	bool ended; /* it said how much it printed */
	json_t *results, *error, *count, *cause, *message;
};

/* ---- its parts */

static json_t *context_answer_text_of(const json_t *o, const char *key, size_t max)
{
	const json_t *v = json_object_get(o, key);
	const char *s = json_string_value(v) ?: "";

	return json_stringn(s, text_cut(s, json_string_length(v), max));
}

static void answer_take_text(struct told *t, int which, const json_t *o)
{
	const json_t *text = json_object_get(o, "text"), *coded = json_object_get(o, "base64");
	const uint8_t *p = (const uint8_t *)json_string_value(text);
	size_t n = json_string_length(text), fits;
	uint8_t *owned = NULL;

	if (!p && json_is_string(coded) &&
	    base64_decode(json_string_value(coded), json_string_length(coded), false, &owned, &n) == 0)
		p = owned;
	if (p) {
		fits = text_cut(p, n, t->room);
		t->cut[which] = t->cut[which] || fits < n;
		t->room = fits < n ? 0 : t->room - fits;
		if (buf_append(&t->text[which], p, fits))
			t->cut[which] = true;
		t->total[which] += (int64_t)n;
	}
	free(owned);
}

/* RFC 6838, 4.2 */
static bool is_media(const char *s)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-_!#$&^";
	size_t type = strspn(s, allowed), sub = s[type] == '/' ? strspn(s + type + 1, allowed) : 0;

	return type && sub && type + 1 + sub == strlen(s) && strlen(s) <= MEDIA_MAX;
}

/* JSON stands there as JSON; as its text where it is none. */
static json_t *answer_value_of(struct told *t, const char *media, const json_t *v)
{
	const char *s = json_string_value(v);
	size_t n = json_string_length(v), values;
	json_t *inner = NULL;

	if (strcmp(media, "application/json") == 0 && (values = json_count_values(s, n)) <= t->values &&
	    json_parse(s, n, CONTEXT_SHOWN_MAX, &inner, NULL) == 0)
		t->values -= values;
	return inner ? inner : json_stringn(json_string_value(v), json_string_length(v));
}

static void take_result(struct told *t, const json_t *o)
{
	json_t *data = json_object(), *capped = json_object(), *v;
	const char *media;

	json_object_foreach(json_object_get(o, "data"), media, v)
	{
		size_t n = json_string_length(v);

		if (!json_is_string(v) || !is_media(media) || json_object_size(data) >= CONTEXT_RESULTS_MAX)
			continue;
		if (n > CONTEXT_SHOWN_MAX || n > t->shown) {
			json_object_set_new(capped, media, json_integer((json_int_t)n));
			continue;
		}
		t->shown -= n;
		json_object_set_new(data, media, answer_value_of(t, media, v));
	}
	json_object_foreach(json_object_get(o, "capped"), media,
			    v) if (json_is_integer(v) && json_integer_value(v) >= 0 && is_media(media) &&
				   json_object_size(capped) < CONTEXT_RESULTS_MAX) json_object_set(capped, media, v);
	json_array_append_new(t->results, json_pack("{s:b,s:o,s:o}", "main", json_is_true(json_object_get(o, "main")),
						    "data", data, "capped", capped));
}

static json_t *frame_of(const json_t *f)
{
	return json_pack("{s:o,s:I,s:o,s:o}", "file", context_answer_text_of(f, "file", 4096), "line",
			 json_integer_value(json_object_get(f, "line")), "function",
			 context_answer_text_of(f, "function", 256), "source",
			 context_answer_text_of(f, "source", 1024));
}

static void take_error(struct told *t, const json_t *o)
{
	json_t *frames = json_array();
	const json_t *from = json_object_get(o, "frames");

	for (size_t i = 0; i < json_array_size(from) && i < CONTEXT_FRAMES_MAX; i++)
		json_array_append_new(frames, frame_of(json_array_get(from, i)));
	json_decref(t->error);
	t->error = json_pack("{s:o,s:o,s:o,s:o,s:I}", "name", context_answer_text_of(o, "name", 256), "value",
			     context_answer_text_of(o, "value", CONTEXT_TRACEBACK_MAX / 4), "traceback",
			     context_answer_text_of(o, "traceback", CONTEXT_TRACEBACK_MAX), "frames", frames,
			     "frames_left_out", json_integer_value(json_object_get(o, "frames_left_out")));
}

/* The interpreter's word, then that of who looked after its time. */
static const char *cause_of(const json_t *o)
{
	static const char *const causes[][2] = {{"done", "ok"},
						{"error", "error"},
						{"interrupted", "interrupted"},
						{"timeout", NULL},
						{"context_died", NULL}};
	const char *cause = json_get_text(o, "cause"), *status = json_get_text(o, "status");

	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
		if (strcmp(cause, causes[i][0]) == 0 || (causes[i][1] && strcmp(status, causes[i][1]) == 0))
			return causes[i][0];
	return NULL;
}

static void take_end(struct told *t, const json_t *o)
{
	static const char *const totals[] = {"stdout_bytes", "stderr_bytes"};
	const char *cause = cause_of(o);
	const json_t *count = json_object_get(o, "count");

	for (int i = 0; i < 2; i++) {
		int64_t n = json_integer_value(json_object_get(o, totals[i]));

		t->total[i] = n > t->total[i] ? n : t->total[i];
	}
	t->ended = t->ended || json_object_get(o, totals[0]);
	if (cause) {
		json_decref(t->cause);
		t->cause = json_string(cause);
	}
	if (json_is_integer(count)) {
		json_decref(t->count);
		t->count = json_integer(json_integer_value(count));
	}
	if (*json_get_text(o, "message")) {
		json_decref(t->message);
		t->message = context_answer_text_of(o, "message", 200);
	}
}

/* ---- its lines */

/* The last lines say how the execution ended, however much stands before them. */
static void take_endings(struct told *t)
{
	size_t left = t->left_out;

	for (size_t i = left > ENDINGS ? left - ENDINGS : 0; i < left; i++) {
		const struct line *l = &t->last[i % ENDINGS];
		const char *type;
		json_t *o = NULL;

		if (json_parse_values(l->p, l->n, ENDING_MAX, ENDING_VALUES, &o, NULL))
			continue;
		type = json_get_text(o, "type");
		t->left_out -= strcmp(type, "error") == 0 || strcmp(type, "end") == 0;
		if (strcmp(type, "error") == 0)
			take_error(t, o);
		else if (strcmp(type, "end") == 0)
			take_end(t, o);
		json_decref(o);
	}
}

static bool is_left_out(struct told *t, const uint8_t *p, size_t n)
{
	size_t values = json_count_values(p, n);

	if (!t->lines || values > t->values) {
		t->last[t->left_out++ % ENDINGS] = (struct line){p, n};
		return true;
	}
	t->lines--;
	t->values -= values;
	return false;
}

static void context_answer_take_line(struct told *t, const uint8_t *p, size_t n)
{
	const char *type;
	json_t *o = NULL;

	if (!n || *p != '{' || is_left_out(t, p, n) || json_parse(p, n, n, &o, NULL))
		return;
	type = json_get_text(o, "type");
	if (strcmp(type, "stdout") == 0)
		answer_take_text(t, 0, o);
	else if (strcmp(type, "stderr") == 0)
		answer_take_text(t, 1, o);
	else if (strcmp(type, "result") == 0 && json_array_size(t->results) < CONTEXT_RESULTS_MAX)
		take_result(t, o);
	else if (strcmp(type, "result") == 0)
		t->results_left_out++;
	else if (strcmp(type, "error") == 0)
		take_error(t, o);
	else if (strcmp(type, "end") == 0)
		take_end(t, o);
	json_decref(o);
}

static json_t *stream_json(const struct told *t, int i)
{
	const uint8_t *p = buf_ptr(&t->text[i]);
	size_t n = buf_len(&t->text[i]);
	json_t *o = json_object();

	if (json_set_bytes(o, "data", "encoding", p ? p : (const uint8_t *)"", n)) {
		json_decref(o);
		return NULL;
	}
	json_object_set_new(o, "total_bytes", json_integer((json_int_t)t->total[i]));
	json_object_set_new(o, "truncated",
			    json_boolean(t->cut[i] || t->total[i] > (int64_t)n || (t->left_out && !t->ended)));
	return o;
}

json_t *context_answer(const uint8_t *p, size_t n)
{
	struct told t = {.room = CONTEXT_TEXT_MAX,
			 .shown = CONTEXT_ALL_SHOWN_MAX,
			 .lines = CONTEXT_LINES_MAX,
			 .values = CONTEXT_VALUES_MAX,
			 .results = json_array()};
	const uint8_t *end, *last = p + (n < CONTEXT_OUTPUT_MAX ? n : CONTEXT_OUTPUT_MAX);
	json_t *answer;

	for (int i = 0; i < 2; i++)
		buf_init(&t.text[i], CONTEXT_TEXT_MAX);
	for (; p < last && (end = memchr(p, '\n', (size_t)(last - p))); p = end + 1)
		context_answer_take_line(&t, p, (size_t)(end - p));
	take_endings(&t);
	answer =
	    json_pack("{s:o,s:o,s:o,s:o?,s:o?,s:o?,s:o?,s:I}", "stdout", stream_json(&t, 0), "stderr",
		      stream_json(&t, 1), "results", t.results, "error", t.error, "execution_count", t.count, "cause",
		      t.cause, "message", t.message, "lines_left_out", (json_int_t)(t.left_out + t.results_left_out));
	for (int i = 0; i < 2; i++)
		buf_finish(&t.text[i]);
	return answer;
}

static size_t held_by(const json_t *v)
{
	size_t n = VALUE_BYTES + json_string_length(v), i;
	const char *key;
	const json_t *member;

	if (json_is_array(v))
		for (i = 0; i < json_array_size(v); i++)
			n += held_by(json_array_get(v, i));
	/* jansson iterates a mutable object, and does not change it. */
	json_object_foreach((json_t *)(uintptr_t)v, key, member) n += strlen(key) + held_by(member);
	return n;
}

size_t context_answer_held(const json_t *answer)
{
	return held_by(answer);
}
