/* Patterns of names as expressions over bytes. */
#include "files/glob.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct glob {
	struct match *match;
	bool dirs_only;
};

#define EXPRESSION_MAX MATCH_PATTERN_MAX

/* A pattern on its way to an expression. */
struct translator {
	const char *p;
	size_t n, at;
	unsigned flags, depth;
	char out[EXPRESSION_MAX];
	size_t n_out;
	bool full;
	struct match_error *err;
};

static int glob_bad(struct translator *t, size_t at, const char *why)
{
	t->err->at = at;
	snprintf(t->err->why, sizeof(t->err->why), "%s", why);
	return -1;
}

static void glob_put(struct translator *t, const char *text, size_t n)
{
	if (n > sizeof(t->out) - t->n_out) {
		t->full = true;
		return;
	}
	memcpy(t->out + t->n_out, text, n);
	t->n_out += n;
}

static void put_text(struct translator *t, const char *text)
{
	glob_put(t, text, strlen(text));
}

static void glob_put_char(struct translator *t, char c)
{
	bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (unsigned char)c >= 0x80;

	if (!plain)
		glob_put(t, "\\", 1);
	glob_put(t, &c, 1);
}

/* --- [classes] */

static void bits_add(bool bits[256], unsigned lo, unsigned hi)
{
	for (; lo <= hi; lo++)
		bits[lo] = true;
}

static const struct {
	const char *name;
	uint8_t r[8];
} named[] = {
    {"alpha", "AZaz"}, {"digit", "09"},      {"alnum", "09AZaz"},   {"upper", "AZ"},
    {"lower", "az"},   {"space", "\t\r  "},  {"blank", "\t\t  "},   {"print", " ~"},
    {"graph", "!~"},   {"xdigit", "09AFaf"}, {"punct", "!/:@[`{~"}, {"cntrl", "\1\037\177\177"},
};

/* [:name:] at p, which is behind "[:": its length with ":]", 0 when there is none, -1 when no class has this name. */
static int class_named(const char *p, size_t n, bool bits[256])
{
	const char *end = memchr(p, ']', n);

	if (!end || end == p || end[-1] != ':')
		return 0;
	size_t length = (size_t)(end - p) - 1;
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
		if (strlen(named[i].name) != length || memcmp(named[i].name, p, length) != 0)
			continue;
		for (size_t k = 0; k < sizeof(named[i].r) && named[i].r[k]; k += 2)
			bits_add(bits, named[i].r[k], named[i].r[k + 1]);
		return (int)length + 2;
	}
	return -1;
}

static void put_bits(struct translator *t, const bool bits[256])
{
	char range[16];
	bool any = false;

	glob_put(t, "[", 1);
	for (unsigned lo = 0; lo < 256; lo++) {
		unsigned hi = lo;

		if (!bits[lo])
			continue;
		while (hi < 255 && bits[hi + 1])
			hi++;
		glob_put(t, range, (size_t)snprintf(range, sizeof(range), "\\x%02x-\\x%02x", lo, hi));
		any = true;
		lo = hi;
	}
	put_text(t, any ? "]" : "^\\x00-\\xff]"); /* a class of nothing matches nothing */
}

/* A member of a class at t->at; *prev is what a range may begin with, or 0. */
static int class_member(struct translator *t, bool bits[256], unsigned *prev)
{
	size_t left = t->n - t->at;
	const char *p = t->p + t->at;
	unsigned c = (unsigned char)*p;

	if (c == '-' && *prev && left > 1 && p[1] != ']') {
		size_t escaped = p[1] == '\\' && left > 2;
		unsigned hi = (unsigned char)p[1 + escaped];

		if (hi >= *prev)
			bits_add(bits, *prev, hi);
		*prev = 0;
		t->at += 2 + escaped;
		return 0;
	}
	if (c == '[' && left > 2 && p[1] == ':') {
		int length = class_named(p + 2, left - 2, bits);

		if (length < 0)
			return glob_bad(t, t->at,
					"unknown class name: write [:alpha:], [:digit:], [:alnum:] or [:space:]");
		if (length > 0) {
			*prev = 0;
			t->at += 2 + (size_t)length;
			return 0;
		}
	}
	if (c == '\\' && left > 1) {
		c = (unsigned char)p[1];
		t->at++;
	}
	bits[c] = true;
	*prev = c;
	t->at++;
	return 0;
}

static int translate_class(struct translator *t)
{
	size_t start = t->at++;
	bool negated = t->at < t->n && (t->p[t->at] == '!' || t->p[t->at] == '^');
	bool bits[256] = {false};
	unsigned prev = 0;

	t->at += negated;
	for (bool first = true; t->at < t->n && (first || t->p[t->at] != ']'); first = false)
		if (class_member(t, bits, &prev) < 0)
			return -1;
	if (t->at == t->n)
		return glob_bad(t, start, "[ without its ]: write \\[ for the character");
	t->at++;
	for (unsigned i = 0; i < 256 && negated; i++)
		bits[i] = !bits[i];
	bits['/'] = false;
	put_bits(t, bits);
	return 0;
}

/* --- stars */

/* Is the place before or behind stars the border of a name? */
static bool border(const struct translator *t, size_t at, bool before)
{
	char c;

	if (before ? at == 0 : at == t->n)
		return true;
	c = t->p[before ? at - 1 : at];
	if (t->depth && (c == ',' || c == (before ? '{' : '}')))
		return true;
	return c == '/' || (!before && c == '\\' && at + 1 < t->n && t->p[at + 1] == '/');
}

static void translate_stars(struct translator *t)
{
	size_t from = t->at;

	while (t->at < t->n && t->p[t->at] == '*')
		t->at++;
	if (t->at - from < 2 || !border(t, from, true) || !border(t, t->at, false)) {
		put_text(t, "[^/]*");
	} else if (t->at < t->n && t->p[t->at] == '/') {
		put_text(t, "(?:[\\x00-\\xff]*/)?");
		t->at++;
	} else {
		put_text(t, "[\\x00-\\xff]*");
	}
}

/* --- {alternatives} */

/* Does a } follow for the { at `at`? */
static bool brace_closes(const struct translator *t, size_t at)
{
	unsigned depth = 0;

	for (; at < t->n; at++) {
		if (t->p[at] == '\\')
			at++;
		else if (t->p[at] == '{')
			depth++;
		else if (t->p[at] == '}' && --depth == 0)
			return true;
	}
	return false;
}

static int translate_brace(struct translator *t, char c)
{
	if (c == '{') {
		/* One look ahead for all of them: what closes the outermost closes those in it, or is their error. */
		if (t->depth == 0 && !brace_closes(t, t->at))
			return glob_bad(t, t->at, "{ without its }: write \\{ for the character");
		if (++t->depth > MATCH_DEPTH_MAX)
			return glob_bad(t, t->at, "too many { in each other");
		put_text(t, "(?:");
	} else if (c == '}') {
		t->depth--;
		glob_put(t, ")", 1);
	} else {
		glob_put(t, "|", 1);
	}
	t->at++;
	return 0;
}

static int translate_one(struct translator *t)
{
	char c = t->p[t->at];
	bool braces = t->flags & GLOB_BRACES && (c == '{' || (t->depth && (c == '}' || c == ',')));

	if (braces)
		return translate_brace(t, c);
	switch (c) {
	case '*':
		translate_stars(t);
		return 0;
	case '?':
		put_text(t, "[^/]");
		break;
	case '[':
		return translate_class(t);
	case '\\':
		if (++t->at == t->n)
			return glob_bad(t, t->n - 1, "the pattern ends in a backslash: write \\\\ for the character");
		glob_put_char(t, t->p[t->at]);
		break;
	default:
		glob_put_char(t, c);
	}
	t->at++;
	return 0;
}

static int translate(struct translator *t)
{
	if (t->n > GLOB_PATTERN_MAX)
		return glob_bad(t, GLOB_PATTERN_MAX, "a pattern of names has 1024 bytes at most");
	while (t->at < t->n && !t->full)
		if (translate_one(t) < 0)
			return -1;
	return t->full ? glob_bad(t, t->at, "the pattern has too many classes and stars") : 0;
}

/* Calls may say "./x" and "//x"; of a rule git passes over one "/". */
static size_t skip_front(const char *p, size_t n, unsigned flags)
{
	size_t at = 0;

	if (!(flags & GLOB_BRACES))
		return n && p[0] == '/';
	while (at < n && (p[at] == '/' || (p[at] == '.' && at + 1 < n && p[at + 1] == '/')))
		at++;
	return at;
}

/* "x/": but not "x\/". */
static bool ends_in_slash(const char *p, size_t n)
{
	size_t slashes = 0;

	if (n == 0 || p[n - 1] != '/')
		return false;
	while (slashes + 1 < n && p[n - 2 - slashes] == '\\')
		slashes++;
	return slashes % 2 == 0;
}

struct glob *glob_new(const char *pattern, size_t n, unsigned flags, struct match_error *err)
{
	size_t front = skip_front(pattern, n, flags);
	struct translator *t = calloc(1, sizeof(*t));
	struct glob *g = calloc(1, sizeof(*g));

	*err = (struct match_error){.why = "out of memory"};
	if (!t || !g)
		goto bad;
	*t = (struct translator){.p = pattern + front, .n = n - front, .flags = flags, .err = err};
	g->dirs_only = ends_in_slash(t->p, t->n);
	t->n -= g->dirs_only;
	if (translate(t) < 0) {
		err->at += front;
		goto bad;
	}
	g->match =
	    match_new(t->out, t->n_out, MATCH_BYTES | MATCH_WHOLE | (flags & GLOB_NOCASE ? MATCH_NOCASE : 0), err);
	if (!g->match)
		goto bad;
	free(t);
	return g;
bad:
	free(t);
	free(g);
	return NULL;
}

void glob_free(struct glob *g)
{
	if (!g)
		return;
	match_free(g->match);
	free(g);
}

enum match_result glob_path(struct glob *g, const char *path, size_t n, bool is_dir)
{
	if (g->dirs_only && !is_dir)
		return MATCH_NO;
	match_refuel(g->match);
	return match_line(g->match, path, n, NULL);
}

enum match_result glob_below(struct glob *g, const char *dir, size_t n)
{
	char buf[4097];

	if (n == 0)
		return MATCH_YES;
	if (n >= sizeof(buf))
		return MATCH_NO;
	memcpy(buf, dir, n);
	buf[n] = '/';
	match_refuel(g->match);
	return match_begins(g->match, buf, n + 1);
}
