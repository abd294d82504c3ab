#include "base/visible.h"

#include "base/utf8.h"
#include "base/visible_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char visible_ellipsis[] = "\xe2\x80\xa6";
#define ELLIPSIS_LEN (sizeof(visible_ellipsis) - 1)

static bool in_table(const struct visible_range *t, size_t n, uint32_t cp)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (cp > t[mid].last)
			low = mid + 1;
		else if (cp < t[mid].first)
			high = mid;
		else
			return true;
	}
	return false;
}

bool visible_is_plain(uint32_t cp)
{
	if (cp < 0x7f)
		return cp >= 0x20;
	return cp <= 0x10ffff && !in_table(visible_hidden, sizeof(visible_hidden) / sizeof(visible_hidden[0]), cp);
}

static bool is_mark(uint32_t cp)
{
	return cp >= 0x300 && in_table(visible_marks, sizeof(visible_marks) / sizeof(visible_marks[0]), cp);
}

/* May it be shown as it is, after what came before? */
static bool is_shown(struct visible *v, uint32_t cp, unsigned flags)
{
	bool mark = is_mark(cp), begun = v->begun;

	v->begun = true;
	if (mark && begun && v->marks < VISIBLE_MARKS_MAX) {
		v->marks++;
		return true;
	}
	if (mark)
		return false;
	v->marks = 0;
	if (visible_is_plain(cp))
		return true;
	/* Nothing to stand on: a mark after an escape would be drawn over its brace. */
	v->marks = VISIBLE_MARKS_MAX;
	return (flags & VISIBLE_LINES) && (cp == '\n' || cp == '\t');
}

static int escape(char out[VISIBLE_STEP_MAX], uint32_t cp)
{
	switch (cp) {
	case '\n':
		return snprintf(out, VISIBLE_STEP_MAX, "\\n");
	case '\r':
		return snprintf(out, VISIBLE_STEP_MAX, "\\r");
	case '\t':
		return snprintf(out, VISIBLE_STEP_MAX, "\\t");
	default:
		return snprintf(out, VISIBLE_STEP_MAX, cp < 0x80 ? "\\x%02x" : "\\u{%x}", (unsigned)cp);
	}
}

size_t visible_step(struct visible *v, const void *p, size_t n, unsigned flags, char out[VISIBLE_STEP_MAX],
		    size_t *out_len)
{
	const uint8_t *b = p;
	uint32_t cp = 0;
	size_t took = utf8_step(b, n, &cp);

	if (took == 0) {
		*v = (struct visible){.begun = true, .marks = VISIBLE_MARKS_MAX};
		*out_len = (size_t)snprintf(out, VISIBLE_STEP_MAX, "\\x%02x", b[0]);
		return 1;
	}
	if (!is_shown(v, cp, flags)) {
		*out_len = (size_t)escape(out, cp);
		return took;
	}
	*out_len = 0;
	if (cp == '\\' && (flags & VISIBLE_BACKSLASH))
		out[(*out_len)++] = '\\';
	memcpy(out + *out_len, b, took);
	*out_len += took;
	out[*out_len] = '\0';
	return took;
}

size_t visible_put(char *out, size_t size, const void *p, size_t n, unsigned flags)
{
	const uint8_t *b = p;
	struct visible v = {0};
	char one[VISIBLE_STEP_MAX];
	size_t len = 0, whole = 0, one_len; /* whole: as much as leaves room for an ellipsis */

	while (n) {
		size_t took = visible_step(&v, b, n, flags, one, &one_len);

		if (len + one_len >= size) {
			memcpy(out + whole, visible_ellipsis, ELLIPSIS_LEN);
			len = whole + ELLIPSIS_LEN;
			break;
		}
		memcpy(out + len, one, one_len);
		len += one_len;
		if (len + ELLIPSIS_LEN < size)
			whole = len;
		b += took;
		n -= took;
	}
	out[len] = '\0';
	return len;
}

char *visible_dup(const void *p, size_t n, size_t max, unsigned flags)
{
	size_t room = max ? max : VISIBLE_TEXT_MAX;

	/* A text that needs no escape, the common case, takes its own length. */
	if (n < room && visible_check(p, n, NULL) && !(flags & VISIBLE_BACKSLASH))
		room = n;
	room = room < ELLIPSIS_LEN ? ELLIPSIS_LEN : room;
	char *out = malloc(room + 1);
	char *fit = out ? realloc(out, visible_put(out, room + 1, p, n, flags) + 1) : NULL;
	return fit ? fit : out; /* sessions keep such a text for as long as they live */
}

bool visible_check(const void *p, size_t n, size_t *out_at)
{
	const uint8_t *b = p;
	struct visible v = {0};

	for (size_t at = 0; at < n;) {
		uint32_t cp = 0;
		size_t took = utf8_step(b + at, n - at, &cp);

		if (took == 0 || !is_shown(&v, cp, 0)) {
			if (out_at)
				*out_at = at;
			return false;
		}
		at += took;
	}
	return true;
}

/* \u202e, and \udb40\udc01 for what is past the first plane. */
static size_t json_escape(char out[VISIBLE_STEP_MAX], uint32_t cp)
{
	if (cp < 0x10000)
		return (size_t)snprintf(out, VISIBLE_STEP_MAX, "\\u%04x", (unsigned)cp);
	cp -= 0x10000;
	return (size_t)snprintf(out, VISIBLE_STEP_MAX, "\\u%04x\\u%04x", (unsigned)(0xd800 + (cp >> 10)),
				(unsigned)(0xdc00 + (cp & 0x3ff)));
}

char *visible_json(const char *json)
{
	const uint8_t *b = (const uint8_t *)json;
	size_t n = strlen(json), len = 0;
	/* Of one byte six may be made, of four twelve. */
	char *out = n < SIZE_MAX / 6 ? malloc(n * 6 + 1) : NULL;
	struct visible v = {0};

	while (out && n) {
		uint32_t cp = 0xfffd;
		size_t took = utf8_step(b, n, &cp);

		if (took && is_shown(&v, cp, VISIBLE_LINES)) {
			memcpy(out + len, b, took);
			len += took;
		} else {
			len += json_escape(out + len, cp);
		}
		if (cp == '"') /* no mark is drawn over a quote */
			v.marks = VISIBLE_MARKS_MAX;
		b += took ? took : 1;
		n -= took ? took : 1;
	}
	if (out)
		out[len] = '\0';
	return out;
}
