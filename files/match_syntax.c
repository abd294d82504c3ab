/*
 * Patterns as trees: a recursive descent, one function for each rule of
 *
 *	alternation = sequence { "|" sequence }
 *	sequence    = { atom { repeat } }
 *	atom        = "(" alternation ")" | class | escape | anchor | character
 */
#include "files/match_syntax.h"
#include "base/hex.h"
#include "base/utf8.h"

#include "files/content.h"
#include "files/match_fold.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX  (2 * MATCH_PATTERN_MAX + 64)
#define RANGES_MAX (8 * MATCH_PATTERN_MAX)
#define SET_MAX    4096

/* A class while it is read: at most SET_MAX ranges, in any order and overlapping until set_tidy(). */
struct set {
	struct syntax_range r[SET_MAX];
	uint32_t n;
};

struct parser {
	struct syntax *out;
	const char *p;
	size_t n, at;
	unsigned flags; /* those of the group */
	unsigned depth;
	struct match_error *err;
	struct set set;
};

static uint32_t parse_alternation(struct parser *x);

static uint32_t __attribute__((format(printf, 3, 4))) bad(struct parser *x, size_t at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	x->err->at = at;
	vsnprintf(x->err->why, sizeof(x->err->why), fmt, ap);
	va_end(ap);
	return SYNTAX_NONE;
}

/* --- nodes */

static uint32_t node_new(struct parser *x, enum syntax_kind kind)
{
	struct syntax *s = x->out;

	if (s->n_nodes == NODES_MAX)
		return bad(x, x->at, "pattern too large");
	s->nodes[s->n_nodes] = (struct syntax_node){
	    .kind = (uint8_t)kind, .child = SYNTAX_NONE, .last = SYNTAX_NONE, .next = SYNTAX_NONE, .prev = SYNTAX_NONE};
	return s->n_nodes++;
}

static void node_append(struct parser *x, uint32_t parent, uint32_t child)
{
	struct syntax_node *all = x->out->nodes;

	all[child].prev = all[parent].last;
	if (all[parent].last == SYNTAX_NONE)
		all[parent].child = child;
	else
		all[all[parent].last].next = child;
	all[parent].last = child;
}

static uint32_t node_assert(struct parser *x, enum syntax_assert a)
{
	uint32_t id = node_new(x, SYNTAX_ASSERT);

	if (id != SYNTAX_NONE)
		x->out->nodes[id].assert = (uint8_t)a;
	return id;
}

/* --- sets of characters */

static int range_order(const void *a, const void *b)
{
	const struct syntax_range *x = a, *y = b;

	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

static void set_tidy(struct set *s)
{
	uint32_t n = 0;

	qsort(s->r, s->n, sizeof(s->r[0]), range_order);
	for (uint32_t i = 0; i < s->n; i++) {
		if (n && s->r[i].lo <= s->r[n - 1].hi + 1) {
			if (s->r[i].hi > s->r[n - 1].hi)
				s->r[n - 1].hi = s->r[i].hi;
		} else {
			s->r[n++] = s->r[i];
		}
	}
	s->n = n;
}

static int set_add(struct parser *x, uint32_t lo, uint32_t hi)
{
	struct set *s = &x->set;

	if (s->n == SET_MAX)
		set_tidy(s);
	if (s->n == SET_MAX) {
		bad(x, x->at, "class too large");
		return -1;
	}
	s->r[s->n++] = (struct syntax_range){lo, hi};
	return 0;
}

static uint32_t set_top(const struct parser *x)
{
	return x->flags & MATCH_BYTES ? 0xff : 0x10ffff;
}

static void set_negate(struct parser *x)
{
	struct set *s = &x->set;
	uint32_t from = 0, n = 0, top = set_top(x);

	set_tidy(s);
	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t lo = s->r[i].lo, hi = s->r[i].hi;

		if (lo > from)
			s->r[n++] = (struct syntax_range){from, lo - 1}; /* n <= i: what is read is not written over */
		from = hi + 1;
	}
	if (from <= top && n < SET_MAX)
		s->r[n++] = (struct syntax_range){from, top};
	s->n = n;
}

static int set_fold(struct parser *x)
{
	struct set *s = &x->set;
	uint32_t end = x->flags & MATCH_BYTES ? 0x80 : FOLD_END;

	set_tidy(s);
	for (uint32_t i = 0, n = s->n; i < n; i++) {
		struct syntax_range r = s->r[i];

		for (uint32_t c = r.lo; c <= r.hi && c < end; c++) {
			uint32_t other = fold_other(c);

			if (other == c || (other >= r.lo && other <= r.hi))
				continue;
			if (s->n == SET_MAX) {
				bad(x, x->at, "class too large");
				return -1;
			}
			s->r[s->n++] = (struct syntax_range){other, other};
		}
	}
	set_tidy(s);
	return 0;
}

/* The set as a node. */
static uint32_t set_node(struct parser *x)
{
	struct syntax *s = x->out;
	uint32_t id;

	if (x->flags & MATCH_NOCASE && set_fold(x) < 0)
		return SYNTAX_NONE;
	set_tidy(&x->set);
	if (s->n_ranges + x->set.n > RANGES_MAX)
		return bad(x, x->at, "classes too large");
	id = node_new(x, SYNTAX_SET);
	if (id == SYNTAX_NONE)
		return id;
	s->nodes[id].first_range = s->n_ranges;
	s->nodes[id].ranges = x->set.n;
	memcpy(s->ranges + s->n_ranges, x->set.r, x->set.n * sizeof(x->set.r[0]));
	s->n_ranges += x->set.n;
	return id;
}

static uint32_t char_node(struct parser *x, uint32_t cp)
{
	x->set.n = 0;
	return set_add(x, cp, cp) < 0 ? SYNTAX_NONE : set_node(x);
}

/* --- classes with a name */

struct named {
	const char *name;
	struct syntax_range r[6];
};

static const struct named posix[] = {
    {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
    {"digit", {{'0', '9'}}},
    {"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
    {"upper", {{'A', 'Z'}}},
    {"lower", {{'a', 'z'}}},
    {"space", {{'\t', '\r'}, {' ', ' '}}},
    {"blank", {{'\t', '\t'}, {' ', ' '}}},
    {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
    {"cntrl", {{1, 31}, {127, 127}}},
    {"print", {{' ', '~'}}},
    {"graph", {{'!', '~'}}},
    {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
    {"word", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
};
static const struct named shorthand[] = {
    {"d", {{'0', '9'}}},
    {"w", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
    {"s", {{'\t', '\r'}, {' ', ' '}}},
};

static int add_named(struct parser *x, const struct named *c, bool negated)
{
	uint32_t from = 0;

	for (const struct syntax_range *r = c->r; r->hi; r++) {
		if (!negated && set_add(x, r->lo, r->hi) < 0)
			return -1;
		if (negated && r->lo > from && set_add(x, from, r->lo - 1) < 0)
			return -1;
		from = r->hi + 1;
	}
	return negated ? set_add(x, from, set_top(x)) : 0;
}

/* \d and its like: 1 when letter is one and was added, 0 when not, -1 on an error. */
static int add_shorthand(struct parser *x, char letter)
{
	for (size_t i = 0; i < sizeof(shorthand) / sizeof(shorthand[0]); i++) {
		char low = shorthand[i].name[0];

		if (letter == low || letter == low - 32)
			return add_named(x, &shorthand[i], letter != low) < 0 ? -1 : 1;
	}
	return 0;
}

/* --- escapes */

/* Digits behind \x or \u: `want` of them, or any number in braces. */
static int read_hex(struct parser *x, size_t want, uint32_t *out_cp)
{
	size_t start = x->at;
	bool braces = x->at < x->n && x->p[x->at] == '{';
	uint32_t cp = 0;
	size_t digits = 0;

	x->at += braces;
	while (x->at < x->n && hex_value(x->p[x->at]) >= 0 && digits < (braces ? 8 : want)) {
		cp = cp << 4 | (uint32_t)hex_value(x->p[x->at++]);
		digits++;
	}
	bool closed = !braces || (x->at < x->n && x->p[x->at++] == '}');
	if (!closed || (braces ? digits == 0 : digits != want) || cp > set_top(x) || (cp >= 0xd800 && cp <= 0xdfff)) {
		bad(x, start, "not a character's number: write \\x41, \\x{41} or \\u0041");
		return -1;
	}
	*out_cp = cp;
	return 0;
}

/* The character of an escape that stands for one; x->at is behind the backslash. */
static int read_escape(struct parser *x, uint32_t *out_cp)
{
	static const char from[] = "tnrfvae", to[] = "\t\n\r\f\v\a\033";
	size_t at = x->at;
	const char *known;
	unsigned char c;

	if (x->at == x->n) {
		bad(x, x->n - 1, "the pattern ends in a backslash: write \\\\ for the character");
		return -1;
	}
	c = (unsigned char)x->p[x->at++];
	known = memchr(from, c, sizeof(from) - 1);
	if (known) {
		*out_cp = (unsigned char)to[known - from];
	} else if (c == 'x' || c == 'u') {
		return read_hex(x, c == 'x' ? 2 : 4, out_cp);
	} else if (c >= '1' && c <= '9') {
		bad(x, at - 1, "backreferences (\\%c) are not supported", c);
		return -1;
	} else if ((c | 0x20) == 'p') {
		bad(x, at - 1, "\\%c{...} is not supported: write a class, [A-Za-z] or [[:alpha:]]", c);
		return -1;
	} else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '0') {
		bad(x, at - 1, "unknown escape \\%c: write %c without the backslash, or \\\\%c", c, c, c);
		return -1;
	} else {
		size_t step = c >= 0x80 && !(x->flags & MATCH_BYTES)
				  ? utf8_step((const uint8_t *)x->p + at, x->n - at, out_cp)
				  : 0;

		if (step == 0)
			*out_cp = c;
		else
			x->at = at + step;
	}
	return 0;
}

/* A character as it stands. */
static int read_char(struct parser *x, uint32_t *out_cp)
{
	size_t step;

	if (x->flags & MATCH_BYTES) {
		*out_cp = (unsigned char)x->p[x->at++];
		return 0;
	}
	step = utf8_step((const uint8_t *)x->p + x->at, x->n - x->at, out_cp);
	if (step == 0) {
		bad(x, x->at, "the pattern is not UTF-8 here");
		return -1;
	}
	x->at += step;
	return 0;
}

/* --- [classes] */

/* [:name:] at x->at: 1 when there was one, 0 when not, -1 on an error. */
static int read_posix(struct parser *x)
{
	size_t at = x->at, left = x->n - at;
	const char *p = x->p + at, *end;

	if (left < 2 || p[0] != '[' || (p[1] != ':' && p[1] != '.' && p[1] != '='))
		return 0;
	end = memchr(p + 2, ']', left - 2);
	if (!end || end[-1] != p[1] || end - p < 3)
		return 0;
	bool negated = p[1] == ':' && p[2] == '^';
	size_t n = (size_t)(end - p) - 3 - negated;
	for (size_t i = 0; p[1] == ':' && i < sizeof(posix) / sizeof(posix[0]); i++) {
		if (strlen(posix[i].name) == n && memcmp(posix[i].name, p + 2 + negated, n) == 0) {
			x->at += (size_t)(end - p) + 1;
			return add_named(x, &posix[i], negated) < 0 ? -1 : 1;
		}
	}
	bad(x, at,
	    "unknown class name: write [:alpha:], [:digit:], [:alnum:], [:space:], [:upper:], [:lower:] or [:punct:]");
	return -1;
}

/* One end of a range, or a character alone; a shorthand is added at once and *out_set says so. */
static int read_member(struct parser *x, uint32_t *out_cp, bool *out_set)
{
	int found = read_posix(x);

	*out_set = found > 0;
	if (found)
		return found < 0 ? -1 : 0;
	if (x->p[x->at] != '\\')
		return read_char(x, out_cp);
	x->at++;
	if (x->at < x->n) {
		if (x->p[x->at] == 'b') { /* as everywhere: a backspace, in a class */
			x->at++;
			*out_cp = '\b';
			return 0;
		}
		found = add_shorthand(x, x->p[x->at]);
		if (found) {
			x->at++;
			*out_set = true;
			return found < 0 ? -1 : 0;
		}
	}
	return read_escape(x, out_cp);
}

static int read_class_item(struct parser *x)
{
	size_t start = x->at;
	uint32_t lo = 0, hi = 0;
	bool set;

	if (read_member(x, &lo, &set) < 0)
		return -1;
	if (x->n - x->at < 2 || x->p[x->at] != '-' || x->p[x->at + 1] == ']')
		return set ? 0 : set_add(x, lo, lo);
	if (set) { /* [\d-x]: the hyphen is itself */
		return 0;
	}
	x->at++;
	if (read_member(x, &hi, &set) < 0)
		return -1;
	if (set) {
		bad(x, start, "a range cannot end in a class: put the - last");
		return -1;
	}
	if (hi < lo) {
		bad(x, start, "the range is backwards: write its lower end first, or put the - last");
		return -1;
	}
	return set_add(x, lo, hi);
}

static uint32_t parse_class(struct parser *x)
{
	size_t start = x->at++;
	bool negated = x->at < x->n && x->p[x->at] == '^';
	bool first = true;

	x->set.n = 0;
	x->at += negated;
	for (; x->at < x->n && (first || x->p[x->at] != ']'); first = false)
		if (read_class_item(x) < 0)
			return SYNTAX_NONE;
	if (x->at == x->n)
		return bad(x, start, "[ without its ]: write \\[ for the character");
	x->at++;
	if (negated && x->flags & MATCH_NOCASE && set_fold(x) < 0)
		return SYNTAX_NONE;
	if (negated)
		set_negate(x);
	return set_node(x);
}

/* --- atoms */

/* Flags of "(?i)" and "(?i:"; x->at is behind the question mark. -1 on an error, else the character that ended them. */
static int read_flags(struct parser *x, unsigned *out_flags)
{
	bool off = false;

	for (size_t start = x->at; x->at < x->n; x->at++) {
		char c = x->p[x->at];

		if (c == ':' || c == ')') {
			x->at++;
			return c;
		}
		if (c == '-')
			off = true;
		else if (c == 'i')
			*out_flags = off ? *out_flags & ~MATCH_NOCASE : *out_flags | MATCH_NOCASE;
		else if (c != 's' && c != 'm') /* a line has no newline: both are as without them */
			return (int)bad(x, start - 2,
					"unknown kind of group: (?:...), (?i), (?i:...) and (?P<name>...) are known");
	}
	return (int)bad(x, x->at, "( without its ): write \\( for the character");
}

/* Reads behind "(?": 0 when the group's content comes, 1 when it was flags alone, -1 on an error. */
static int read_group_kind(struct parser *x, size_t start, unsigned *out_flags)
{
	const char *p = x->p + x->at;
	size_t left = x->n - x->at, name;
	int end;

	if (left && (p[0] == '=' || p[0] == '!')) {
		bad(x, start, "lookahead is not supported: search for less, and filter what comes");
		return -1;
	}
	if (left > 1 && p[0] == '<' && (p[1] == '=' || p[1] == '!')) {
		bad(x, start, "lookbehind is not supported: search for less, and filter what comes");
		return -1;
	}
	name = left > 1 && p[0] == 'P' && p[1] == '<' ? 2 : left && p[0] == '<' ? 1 : 0;
	if (name) {
		const char *close = memchr(p, '>', left);

		if (!close || close == p + name) {
			bad(x, start, "a group's name ends with >: (?P<name>...)");
			return -1;
		}
		x->at += (size_t)(close - p) + 1;
		return 0;
	}
	end = read_flags(x, out_flags);
	return end < 0 ? -1 : end == ')';
}

static uint32_t parse_group(struct parser *x)
{
	size_t start = x->at++;
	unsigned flags = x->flags;
	uint32_t id;

	if (x->at < x->n && x->p[x->at] == '?') {
		x->at++;
		int kind = read_group_kind(x, start, &flags);

		if (kind < 0)
			return SYNTAX_NONE;
		if (kind == 1) { /* (?i): from here on, in this group */
			x->flags = flags;
			return node_new(x, SYNTAX_EMPTY);
		}
	}
	if (++x->depth > MATCH_DEPTH_MAX)
		return bad(x, start, "more than %d groups in each other", MATCH_DEPTH_MAX);
	unsigned outer = x->flags;
	x->flags = flags;
	id = parse_alternation(x);
	x->flags = outer;
	x->depth--;
	if (id == SYNTAX_NONE)
		return id;
	if (x->at == x->n)
		return bad(x, start, "( without its ): write \\( for the character");
	x->at++;
	return id;
}

static uint32_t parse_escape(struct parser *x)
{
	static const struct {
		char letter;
		enum syntax_assert a;
	} asserts[] = {{'b', ASSERT_WORD}, {'B', ASSERT_NO_WORD},    {'A', ASSERT_BEGIN},   {'z', ASSERT_END},
		       {'Z', ASSERT_END},  {'<', ASSERT_WORD_BEGIN}, {'>', ASSERT_WORD_END}};
	char c = x->at + 1 < x->n ? x->p[x->at + 1] : 0;
	uint32_t cp = 0;
	int found;

	for (size_t i = 0; c && i < sizeof(asserts) / sizeof(asserts[0]); i++) {
		if (asserts[i].letter == c) {
			x->at += 2;
			return node_assert(x, asserts[i].a);
		}
	}
	x->set.n = 0;
	found = add_shorthand(x, c);
	if (found) {
		x->at += 2;
		return found < 0 ? SYNTAX_NONE : set_node(x);
	}
	x->at++;
	return read_escape(x, &cp) < 0 ? SYNTAX_NONE : char_node(x, cp);
}

static uint32_t parse_dot(struct parser *x)
{
	x->at++;
	x->set.n = 0;
	if (set_add(x, '\n', '\n') < 0)
		return SYNTAX_NONE;
	set_negate(x);
	return set_node(x);
}

/* {n}, {n,}, {,m} or {n,m} at x->at: its length, 0 when there is none. */
static size_t read_bounds(const struct parser *x, uint32_t *out_min, uint32_t *out_max)
{
	const char *p = x->p + x->at, *end = x->p + x->n;
	uint32_t v[2] = {0, SYNTAX_NONE};
	bool digits[2] = {false, false}, comma = false;

	if (p == end || *p++ != '{')
		return 0;
	for (; p < end && *p != '}'; p++) {
		if (*p == ',' && !comma) {
			comma = true;
		} else if (*p >= '0' && *p <= '9') {
			uint32_t old = digits[comma] ? v[comma] : 0;

			v[comma] = old > 100000 ? old : old * 10 + (uint32_t)(*p - '0');
			digits[comma] = true;
		} else {
			return 0;
		}
	}
	if (p == end || (!digits[0] && !digits[1]))
		return 0;
	*out_min = v[0];
	*out_max = comma ? v[1] : v[0];
	return (size_t)(p + 1 - (x->p + x->at));
}

/* The repeat at x->at: its length, 0 when there is none. */
static size_t read_repeat(const struct parser *x, uint32_t *out_min, uint32_t *out_max)
{
	char c = x->at < x->n ? x->p[x->at] : 0;

	*out_min = c == '+';
	*out_max = c == '?' ? 1 : SYNTAX_NONE;
	return c == '*' || c == '+' || c == '?' ? 1 : read_bounds(x, out_min, out_max);
}

static uint32_t parse_atom(struct parser *x)
{
	uint32_t cp = 0, min, max;

	if (read_repeat(x, &min, &max))
		return bad(x, x->at, "nothing before %c to repeat: write \\%c for the character", x->p[x->at],
			   x->p[x->at]);
	switch (x->p[x->at]) {
	case '(':
		return parse_group(x);
	case '[':
		return parse_class(x);
	case '\\':
		return parse_escape(x);
	case '.':
		return parse_dot(x);
	case '^':
		x->at++;
		return node_assert(x, ASSERT_BEGIN);
	case '$':
		x->at++;
		return node_assert(x, ASSERT_END);
	default:
		return read_char(x, &cp) < 0 ? SYNTAX_NONE : char_node(x, cp);
	}
}

static uint32_t parse_repeats(struct parser *x, uint32_t atom)
{
	uint32_t min, max;
	size_t n;

	for (unsigned times = 0; (n = read_repeat(x, &min, &max)) != 0; times++) {
		size_t at = x->at;
		uint32_t id;

		if (times == 8)
			return bad(x, at, "more than 8 repeats of a repeat");
		if (min > MATCH_REPEAT_MAX || (max != SYNTAX_NONE && max > MATCH_REPEAT_MAX))
			return bad(x, at, "a repeat above %d", MATCH_REPEAT_MAX);
		if (max < min)
			return bad(x, at, "the repeat is backwards: {%u,%u}", (unsigned)min, (unsigned)max);
		x->at += n;
		if (x->at < x->n && x->p[x->at] == '+')
			return bad(x, x->at,
				   "possessive repeats are not supported: there is no backtracking to forbid");
		if (x->at < x->n && x->p[x->at] == '?') /* lazy: matches the same lines */
			x->at++;
		id = node_new(x, SYNTAX_REPEAT);
		if (id == SYNTAX_NONE)
			return id;
		x->out->nodes[id].min = min;
		x->out->nodes[id].max = max;
		node_append(x, id, atom);
		atom = id;
	}
	return atom;
}

static uint32_t parse_sequence(struct parser *x)
{
	uint32_t cat = node_new(x, SYNTAX_CAT);

	while (cat != SYNTAX_NONE && x->at < x->n && x->p[x->at] != '|' && x->p[x->at] != ')') {
		uint32_t atom = parse_atom(x);

		if (atom != SYNTAX_NONE)
			atom = parse_repeats(x, atom);
		if (atom == SYNTAX_NONE)
			return atom;
		node_append(x, cat, atom);
	}
	return cat;
}

static uint32_t parse_alternation(struct parser *x)
{
	uint32_t first = parse_sequence(x), alt;

	if (first == SYNTAX_NONE || x->at == x->n || x->p[x->at] != '|')
		return first;
	alt = node_new(x, SYNTAX_ALT);
	while (alt != SYNTAX_NONE && first != SYNTAX_NONE) {
		node_append(x, alt, first);
		if (x->at == x->n || x->p[x->at] != '|')
			return alt;
		x->at++;
		first = parse_sequence(x);
	}
	return SYNTAX_NONE;
}

static uint32_t parse_literal(struct parser *x)
{
	uint32_t cat = node_new(x, SYNTAX_CAT), cp = 0, id;

	while (cat != SYNTAX_NONE && x->at < x->n) {
		if (read_char(x, &cp) < 0)
			return SYNTAX_NONE;
		id = char_node(x, cp);
		if (id == SYNTAX_NONE)
			return id;
		node_append(x, cat, id);
	}
	return cat;
}

static uint32_t parse_whole(struct parser *x)
{
	uint32_t id = x->flags & MATCH_LITERAL ? parse_literal(x) : parse_alternation(x);

	if (id != SYNTAX_NONE && x->at < x->n)
		return bad(x, x->at, ") without its (: write \\) for the character");
	return id;
}

/* The root between two asserts. */
static uint32_t parse_between(struct parser *x, uint32_t root, enum syntax_assert before, enum syntax_assert after)
{
	uint32_t cat = node_new(x, SYNTAX_CAT), a = node_assert(x, before), b = node_assert(x, after);

	if (cat == SYNTAX_NONE || a == SYNTAX_NONE || b == SYNTAX_NONE)
		return SYNTAX_NONE;
	node_append(x, cat, a);
	node_append(x, cat, root);
	node_append(x, cat, b);
	return cat;
}

int syntax_parse(struct syntax *s, const char *pattern, size_t n, unsigned flags, struct match_error *err)
{
	struct parser *x = calloc(1, sizeof(*x));
	uint32_t root = SYNTAX_NONE;

	memset(s, 0, sizeof(*s));
	memset(err, 0, sizeof(*err));
	s->nodes = malloc(NODES_MAX * sizeof(*s->nodes));
	s->ranges = malloc(RANGES_MAX * sizeof(*s->ranges));
	if (!x || !s->nodes || !s->ranges) {
		snprintf(err->why, sizeof(err->why), "out of memory");
		goto out;
	}
	*x = (struct parser){.out = s, .p = pattern, .n = n, .flags = flags, .err = err};
	if (n > MATCH_PATTERN_MAX) {
		bad(x, MATCH_PATTERN_MAX, "longer than %d bytes", MATCH_PATTERN_MAX);
		goto out;
	}
	root = parse_whole(x);
	if (root != SYNTAX_NONE && flags & MATCH_WORD)
		root = parse_between(x, root, ASSERT_WORD, ASSERT_WORD);
	if (root != SYNTAX_NONE && flags & MATCH_WHOLE)
		root = parse_between(x, root, ASSERT_BEGIN, ASSERT_END);
	s->root = root;
	s->flags = flags;
out:
	free(x);
	if (root == SYNTAX_NONE)
		syntax_free(s);
	return root == SYNTAX_NONE ? -1 : 0;
}

void syntax_free(struct syntax *s)
{
	free(s->nodes);
	free(s->ranges);
	memset(s, 0, sizeof(*s));
}
