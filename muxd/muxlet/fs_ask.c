#include "muxd/muxlet/fs_ask.h"
#include "base/hex.h"
#include "base/utf8.h"

#include "muxd/muxlet/fs_text.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum kind { KIND_TEXT, KIND_PATH, KIND_NUMBER, KIND_FLAG, KIND_TEXTS };

#define NUMBER_MAX (LLONG_MAX / 4)

static const struct field {
	const char *key;
	enum kind kind;
	size_t to;
	long long min, max;
} fields[] = {
    {"op", KIND_TEXT, offsetof(struct fs_ask, op), 0, 0},
    {"path", KIND_PATH, offsetof(struct fs_ask, path), 0, 0},
    {"to", KIND_PATH, offsetof(struct fs_ask, to), 0, 0},
    {"pattern", KIND_TEXT, offsetof(struct fs_ask, pattern), 0, 0},
    {"if_match", KIND_TEXT, offsetof(struct fs_ask, if_match), 0, 0},
    {"cursor", KIND_PATH, offsetof(struct fs_ask, cursor), 0, 0},
    {"ignore", KIND_TEXTS, offsetof(struct fs_ask, ignore), 0, 0},
    {"mode", KIND_NUMBER, offsetof(struct fs_ask, mode), 0, 07777},
    {"offset", KIND_NUMBER, offsetof(struct fs_ask, offset), -NUMBER_MAX, NUMBER_MAX},
    {"length", KIND_NUMBER, offsetof(struct fs_ask, length), 0, NUMBER_MAX},
    {"from_line", KIND_NUMBER, offsetof(struct fs_ask, from_line), 1, NUMBER_MAX},
    {"to_line", KIND_NUMBER, offsetof(struct fs_ask, to_line), 1, NUMBER_MAX},
    {"depth", KIND_NUMBER, offsetof(struct fs_ask, depth), 0, 1000},
    {"limit", KIND_NUMBER, offsetof(struct fs_ask, limit), 1, 100000},
    {"context", KIND_NUMBER, offsetof(struct fs_ask, context), 0, 100},
    {"parents", KIND_FLAG, offsetof(struct fs_ask, parents), 0, 0},
    {"recursive", KIND_FLAG, offsetof(struct fs_ask, recursive), 0, 0},
    {"overwrite", KIND_FLAG, offsetof(struct fs_ask, overwrite), 0, 0},
    {"merge", KIND_FLAG, offsetof(struct fs_ask, merge), 0, 0},
    {"create_only", KIND_FLAG, offsetof(struct fs_ask, create_only), 0, 0},
    {"follow", KIND_FLAG, offsetof(struct fs_ask, follow), 0, 0},
    {"sha256", KIND_FLAG, offsetof(struct fs_ask, sha256), 0, 0},
    {"regex", KIND_FLAG, offsetof(struct fs_ask, regex), 0, 0},
    {"ignore_case", KIND_FLAG, offsetof(struct fs_ask, ignore_case), 0, 0},
    {"dry_run", KIND_FLAG, offsetof(struct fs_ask, dry_run), 0, 0},
    {"gitignore", KIND_FLAG, offsetof(struct fs_ask, gitignore), 0, 0},
    {"text_only", KIND_FLAG, offsetof(struct fs_ask, text_only), 0, 0},
    {"no_links", KIND_FLAG, offsetof(struct fs_ask, no_links), 0, 0},
    {"only_read", KIND_TEXTS, offsetof(struct fs_ask, only_read), 0, 0},
    {"only_write", KIND_TEXTS, offsetof(struct fs_ask, only_write), 0, 0},
    {"size_max", KIND_NUMBER, offsetof(struct fs_ask, size_max), 0, NUMBER_MAX},
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

/* Where the reader is; strings go to store, which has as many bytes as the text: none grows by being decoded. */
struct reader {
	const char *p, *end;
	char *store;
	const char *why;
};

static int ask_fault(struct reader *r, const char *why)
{
	r->why = why;
	return EINVAL;
}

static void skip_space(struct reader *r)
{
	while (r->p < r->end && strchr(" \t\r\n", *r->p) && *r->p)
		r->p++;
}

/* The next sign, behind space; 0: the text is over. */
static char next_sign(struct reader *r)
{
	skip_space(r);
	return r->p < r->end ? *r->p : '\0';
}

static bool take_sign(struct reader *r, char c)
{
	if (next_sign(r) != c)
		return false;
	r->p++;
	return true;
}

static bool take_word(struct reader *r, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0)
		return false;
	r->p += n;
	return true;
}

static int take_hex(struct reader *r, unsigned *out)
{
	*out = 0;
	if (r->end - r->p < 4)
		return ask_fault(r, "an escape is cut short");
	for (int i = 0; i < 4; i++) {
		int v = hex_value(*r->p++);

		if (v < 0)
			return ask_fault(r, "an escape is not four hexadecimal digits");
		*out = *out << 4 | (unsigned)v;
	}
	return 0;
}

/* Behind \u: a character, or the two halves of one. */
static int take_code(struct reader *r)
{
	unsigned c, low;
	int err = take_hex(r, &c);

	if (!err && c >= 0xd800 && c < 0xdc00) {
		if (!take_word(r, "\\u"))
			return ask_fault(r, "half a character");
		err = take_hex(r, &low);
		if (!err && (low < 0xdc00 || low > 0xdfff))
			return ask_fault(r, "half a character");
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	} else if (!err && c >= 0xdc00 && c <= 0xdfff) {
		return ask_fault(r, "half a character");
	}
	if (!err && !c)
		return ask_fault(r, "a text holds NUL");
	if (!err)
		r->store += utf8_put(c, r->store);
	return err;
}

static int take_escape(struct reader *r)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	char c = r->p < r->end ? *r->p++ : '\0';
	const char *at = c ? strchr(from, c) : NULL;

	if (c == 'u')
		return take_code(r);
	if (!at)
		return ask_fault(r, "an escape is not known");
	*r->store++ = to[at - from];
	return 0;
}

static int ask_take_text(struct reader *r, const char **out)
{
	char *begin = r->store;

	if (!take_sign(r, '"'))
		return ask_fault(r, "a text was expected");
	while (r->p < r->end && *r->p != '"') {
		int err = 0;

		if ((unsigned char)*r->p < 0x20)
			return ask_fault(r, "a text holds a control character");
		if (*r->p == '\\')
			r->p++, err = take_escape(r);
		else
			*r->store++ = *r->p++;
		if (err)
			return err;
	}
	if (r->p == r->end)
		return ask_fault(r, "a text does not end");
	r->p++;
	if (!utf8_valid((const uint8_t *)begin, (size_t)(r->store - begin)))
		return ask_fault(r, "a text is not UTF-8");
	*r->store++ = '\0';
	*out = begin;
	return 0;
}

static int fs_ask_take_path(struct reader *r, const char **out)
{
	const char *key, *text;
	size_t n;
	int err;

	if (next_sign(r) == '"')
		return ask_take_text(r, out);
	if (!take_sign(r, '{'))
		return ask_fault(r, "a path was expected");
	err = ask_take_text(r, &key);
	if (err)
		return err;
	if (strcmp(key, "base64") != 0 || !take_sign(r, ':'))
		return ask_fault(r, "a path is a text or {\"base64\": ...}");
	err = ask_take_text(r, &text);
	if (err)
		return err;
	if (!take_sign(r, '}'))
		return ask_fault(r, "a path is a text or {\"base64\": ...}");
	n = fs_base64_decode(text, (char *)(uintptr_t)text); /* in place: it becomes shorter */
	if (n == SIZE_MAX || memchr(text, 0, n))
		return ask_fault(r, "a path is not base64, or holds NUL");
	((char *)(uintptr_t)text)[n] = '\0';
	*out = text;
	return 0;
}

static int fs_ask_take_number(struct reader *r, const struct field *f, long long *out)
{
	bool minus = take_sign(r, '-');
	long long v = 0;
	const char *begin = r->p;

	while (r->p < r->end && *r->p >= '0' && *r->p <= '9') {
		if (v > (LLONG_MAX - 9) / 10)
			return ask_fault(r, "a number is out of bounds");
		v = v * 10 + (*r->p++ - '0');
	}
	if (r->p == begin || (*begin == '0' && r->p > begin + 1))
		return ask_fault(r, "a whole number was expected");
	v = minus ? -v : v;
	if (v < f->min || v > f->max)
		return ask_fault(r, "a number is out of bounds");
	*out = v;
	return 0;
}

static int take_texts(struct reader *r, const char **out)
{
	size_t n = 0;

	if (!take_sign(r, '['))
		return ask_fault(r, "a list was expected");
	if (take_sign(r, ']'))
		return 0;
	do {
		int err = n < FS_RULES_MAX ? ask_take_text(r, &out[n++]) : ask_fault(r, "a list is too long");

		if (err)
			return err;
	} while (take_sign(r, ','));
	return take_sign(r, ']') ? 0 : ask_fault(r, "a list does not end");
}

static int take_flag(struct reader *r, bool *out)
{
	(void)next_sign(r);
	*out = take_word(r, "true");
	return *out || take_word(r, "false") ? 0 : ask_fault(r, "true or false was expected");
}

static int take_value(struct reader *r, const struct field *f, struct fs_ask *a)
{
	void *to = (char *)a + f->to;

	switch (f->kind) {
	case KIND_TEXT:
		return ask_take_text(r, to);
	case KIND_PATH:
		return fs_ask_take_path(r, to);
	case KIND_NUMBER:
		return fs_ask_take_number(r, f, to);
	case KIND_FLAG:
		return take_flag(r, to);
	case KIND_TEXTS:
		return take_texts(r, to);
	}
	return EINVAL;
}

static int take_field(struct reader *r, struct fs_ask *a, uint64_t *seen)
{
	const char *key;
	int err = ask_take_text(r, &key);

	if (err)
		return err;
	if (!take_sign(r, ':'))
		return ask_fault(r, "a colon was expected");
	for (size_t i = 0; i < FIELDS; i++) {
		if (strcmp(fields[i].key, key) != 0)
			continue;
		if (*seen & UINT64_C(1) << i)
			return ask_fault(r, "a key stands twice");
		*seen |= UINT64_C(1) << i;
		return take_value(r, &fields[i], a);
	}
	return ask_fault(r, "a key is not known");
}

static int take_object(struct reader *r, struct fs_ask *a)
{
	uint64_t seen = 0;

	if (!take_sign(r, '{'))
		return ask_fault(r, "an object was expected");
	do {
		int err = take_field(r, a, &seen);

		if (err)
			return err;
	} while (take_sign(r, ','));
	if (!take_sign(r, '}') || next_sign(r) || r->p != r->end)
		return ask_fault(r, "the object does not end where the text does");
	return a->op && a->path ? 0 : ask_fault(r, "op and path are needed");
}

_Static_assert(FIELDS <= 64, "a bit each");

int fs_ask_parse(const char *text, size_t n, struct fs_ask *out, const char **out_why)
{
	struct fs_ask a = {.mode = -1,
			   .length = -1,
			   .from_line = -1,
			   .to_line = -1,
			   .depth = -1,
			   .limit = -1,
			   .context = -1,
			   .size_max = -1};
	struct reader r = {.p = text, .end = text + n};
	int err;

	if (n > FS_ASK_MAX) {
		*out_why = "the request is too long";
		return EINVAL;
	}
	r.store = a.store = malloc(n + 1); /* decoded and ended, no text is longer than in its quotes */
	if (!a.store) {
		*out_why = "no memory";
		return ENOMEM;
	}
	err = take_object(&r, &a);
	if (err) {
		*out_why = r.why;
		free(a.store);
		return err;
	}
	*out = a;
	return 0;
}

void fs_ask_finish(struct fs_ask *a)
{
	free(a->store);
	a->store = NULL;
}
