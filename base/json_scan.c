#include "base/json_scan.h"

#include "base/err.h"
#include "base/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define DIGITS_MAX 18 /* fits 64 bits, whatever they are */

struct key {
	const uint8_t *p;
	size_t n;
};

/* An object or a list that is not closed yet. */
struct level {
	bool object;
	unsigned members; /* of an object: its keys so far */
	struct key keys[JSON_SCAN_KEYS];
};

struct scan {
	const uint8_t *p, *end;
	const char *const *own;
	unsigned depth;
	struct level levels[JSON_SCAN_DEPTH];
};

static bool take(struct scan *s, uint8_t byte)
{
	if (s->p == s->end || *s->p != byte)
		return false;
	s->p++;
	return true;
}

static bool take_word(struct scan *s, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
		return false;
	s->p += n;
	return true;
}

/* ---- texts and numbers */

static bool is_hex(uint8_t c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Behind a backslash. Of characters in hexadecimal those below U+0100 alone, and no NUL. */
static bool take_escape(struct scan *s)
{
	const uint8_t *p = s->p;

	if (s->p == s->end)
		return false;
	s->p++;
	if (*p != 'u')
		return memchr("\"\\/bfnrt", *p, 8) != NULL;
	if (s->end - s->p < 4 || p[1] != '0' || p[2] != '0' || !is_hex(p[3]) || !is_hex(p[4]) ||
	    (p[3] == '0' && p[4] == '0'))
		return false;
	s->p += 4;
	return true;
}

static bool take_character(struct scan *s)
{
	size_t n = utf8_step(s->p, (size_t)(s->end - s->p), NULL);

	s->p += n;
	return n > 0;
}

/* Bytes that stand for themselves: in text from a sandbox nearly all. */
static void skip_plain(struct scan *s)
{
	const uint8_t *p = s->p;

	while (p < s->end && *p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\')
		p++;
	s->p = p;
}

static bool take_text(struct scan *s)
{
	if (!take(s, '"'))
		return false;
	for (;;) {
		skip_plain(s);
		if (take(s, '"'))
			return true;
		if (take(s, '\\') ? !take_escape(s) : s->p == s->end || *s->p < 0x20 || !take_character(s))
			return false;
	}
}

static bool json_scan_take_number(struct scan *s)
{
	const uint8_t *first;

	(void)take(s, '-');
	first = s->p;
	while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
		s->p++;
	/* no "-0", no "007", and no more than fits */
	return s->p > first && s->p - first <= DIGITS_MAX && (*first != '0' || (s->p - first == 1 && first[-1] != '-'));
}

static bool take_plain_value(struct scan *s)
{
	if (s->p == s->end)
		return false;
	switch (*s->p) {
	case '"':
		return take_text(s);
	case 't':
		return take_word(s, "true");
	case 'f':
		return take_word(s, "false");
	case 'n':
		return take_word(s, "null");
	default:
		return json_scan_take_number(s);
	}
}

/* ---- objects and lists */

static bool equals(const struct key *a, const void *p, size_t n)
{
	return a->n == n && memcmp(a->p, p, n) == 0;
}

static bool key_is_free(const struct scan *s, const struct level *l, const struct key *k)
{
	for (unsigned i = 0; i < l->members; i++)
		if (equals(k, l->keys[i].p, l->keys[i].n))
			return false;
	for (size_t i = 0; s->depth == 1 && s->own[i]; i++)
		if (equals(k, s->own[i], strlen(s->own[i])))
			return false;
	return true;
}

/* A key has no escapes, so that each has one spelling. */
static bool json_scan_take_key(struct scan *s, struct level *l)
{
	struct key k;

	if (l->members == JSON_SCAN_KEYS || !take(s, '"'))
		return false;
	k.p = s->p;
	skip_plain(s);
	k.n = (size_t)(s->p - k.p);
	if (k.n > JSON_SCAN_KEY || !take(s, '"') || !take(s, ':') || !key_is_free(s, l, &k))
		return false;
	l->keys[l->members] = k;
	return true;
}

static bool begin_level(struct scan *s)
{
	struct level *l = &s->levels[s->depth];

	if (s->depth == JSON_SCAN_DEPTH)
		return false;
	s->depth++;
	l->object = *s->p++ == '{';
	l->members = 0;
	return true;
}

/* Closing brackets, as many as stand here. */
static bool end_levels(struct scan *s)
{
	while (s->depth && s->p < s->end && (*s->p == '}' || *s->p == ']')) {
		if ((*s->p == '}') != s->levels[s->depth - 1].object)
			return false;
		s->p++;
		s->depth--;
	}
	return true;
}

/* One member, with what stands before it; one that is an object or a list is begun. */
static bool take_member(struct scan *s)
{
	struct level *l = &s->levels[s->depth - 1];

	if (l->members && !take(s, ','))
		return false;
	if (l->object && !json_scan_take_key(s, l))
		return false;
	l->members += l->object || !l->members;
	if (s->p < s->end && (*s->p == '{' || *s->p == '['))
		return begin_level(s) && end_levels(s);
	return take_plain_value(s) && end_levels(s);
}

bool json_scan_object(const void *p, size_t n, const char *const *own, size_t *out_len)
{
	struct scan s;
	size_t len;

	s.p = p;
	s.end = s.p + n;
	s.own = own;
	s.depth = 0;
	if (!n || *s.p != '{' || !begin_level(&s) || !end_levels(&s))
		return false;
	while (s.depth)
		if (!take_member(&s))
			return false;
	len = (size_t)(s.p - (const uint8_t *)p);
	(void)take(&s, '\n');
	if (s.p != s.end)
		return false;
	*out_len = len;
	return true;
}

/* ---- one member */

/* From the quote that opens a text to behind the one that closes it; end: it is not closed. */
static const char *behind_text(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++)
		if (*p == '\\' && p + 1 < end)
			p++;
	return p < end ? p + 1 : end;
}

int json_scan_true(const void *bytes, size_t n, const char *key, bool *out)
{
	const char *p = bytes, *end = p + n;
	char want[JSON_SCAN_KEY + 8];
	size_t len = (size_t)snprintf(want, sizeof(want), "\"%s\":true", key);
	size_t depth = 0;
	bool found = false;

	if (!n || *p != '{')
		return ERR_INVAL;
	do {
		if (*p == '"') {
			found |= depth == 1 && (size_t)(end - p) > len && memcmp(p, want, len) == 0;
			p = behind_text(p, end);
			continue;
		}
		if (*p == '{' || *p == '[')
			depth++;
		else if (*p == '}' || *p == ']')
			depth--;
		p++;
	} while (depth && p < end);
	if (depth || p < end)
		return ERR_INVAL;
	*out = found;
	return 0;
}

static bool json_scan_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static const char *behind_blanks(const char *p, const char *end)
{
	while (p < end && json_scan_is_blank(*p))
		p++;
	return p;
}

/* Behind a value of any kind that begins at p; NULL: it is not closed. */
static const char *behind_value(const char *p, const char *end)
{
	size_t depth = 0;

	if (p == end || *p == '}' || *p == ']')
		return NULL;
	do {
		if (p >= end)
			return NULL;
		if (*p == '"') {
			p = behind_text(p, end);
			if (p[-1] != '"')
				return NULL;
			continue;
		}
		if (*p == '{' || *p == '[')
			depth++;
		else if (*p == '}' || *p == ']')
			depth--;
		else if (!depth) { /* a number, a word */
			const char *first = p;

			while (p < end && !strchr(",}] \t\n\r", *p))
				p++;
			return p > first ? p : NULL;
		}
		p++;
	} while (depth);
	return p;
}

bool json_scan_member(const void *bytes, size_t n, const char *key, struct json_scan_span *out)
{
	const char *p = bytes, *end = p + n, *name, *colon, *value;
	size_t len = strlen(key);
	bool found = false;

	p = behind_blanks(p, end);
	if (p == end || *p != '{')
		return false;
	do {
		name = behind_blanks(p + 1, end);
		if (name == end || *name != '"')
			return false; /* an object without members, too */
		colon = behind_blanks(behind_text(name, end), end);
		value = colon < end && *colon == ':' ? behind_blanks(colon + 1, end) : end;
		p = value < end ? behind_value(value, end) : NULL;
		if (!p)
			return false;
		if ((size_t)(colon - name) >= len + 2 && memcmp(name + 1, key, len) == 0 && name[len + 1] == '"') {
			*out = (struct json_scan_span){value, (size_t)(p - value)};
			found = true;
		}
		p = behind_blanks(p, end);
	} while (p < end && *p == ',');
	return found && p < end && *p == '}';
}
