/* The lines of a text that match, with the lines around them. */
#include "files/grep.h"

#include <string.h>

/* A buffer while it is searched. */
struct window {
	struct grep *g;
	const char *p;
	size_t n, at; /* at: where the next line begins */
};

static uint64_t newlines(const char *p, size_t n)
{
	const char *end = p + n;
	uint64_t count = 0;

	while (p < end && (p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
		count++;
		p++;
	}
	return count;
}

/* Where the line that ends before `at` begins. */
static size_t line_before(const char *p, size_t at)
{
	const char *newline = at > 1 ? memrchr(p, '\n', at - 1) : NULL;

	return newline ? (size_t)(newline + 1 - p) : 0;
}

/* Over `count` lines backward from `at`, not before `floor`; *out_count: how many there were. */
static size_t lines_before(const char *p, size_t at, size_t floor, unsigned count, unsigned *out_count)
{
	*out_count = 0;
	while (*out_count < count && at > floor) {
		at = line_before(p, at);
		++*out_count;
	}
	return at < floor ? floor : at;
}

static bool window_tell(struct window *w, size_t from, size_t to, uint64_t number, const struct match_span *span)
{
	struct grep_line line = {.number = number,
				 .offset = w->g->offset + from,
				 .p = w->p + from,
				 .n = match_line_text(w->p + from, to - from),
				 .match = span != NULL};

	if (span)
		line.span = *span;
	w->g->shown = to;
	return w->g->told(w->g->arg, &line);
}

/* The lines before a match that were not told yet. */
static bool window_tell_before(struct window *w)
{
	unsigned count;
	size_t at = lines_before(w->p, w->at, w->g->shown, w->g->before, &count);

	for (; count; count--) {
		size_t to = (size_t)((const char *)memchr(w->p + at, '\n', w->at - at) + 1 - w->p);

		if (!window_tell(w, at, to, w->g->lines + 1 - count, NULL))
			return false;
		at = to;
	}
	return true;
}

/* The line at w->at, which ends before `to`. */
static enum grep_result window_line(struct window *w, size_t to)
{
	struct grep *g = w->g;
	const char *p = w->p + w->at;
	struct match_span span = {0, 0};
	enum match_result found = match_line(g->match, p, match_line_text(p, to - w->at), g->invert ? NULL : &span);

	if (found == MATCH_TOO_COMPLEX)
		return GREP_TOO_COMPLEX;
	if ((found == MATCH_YES) != g->invert) {
		g->owed = g->after;
		if (!window_tell_before(w) || !window_tell(w, w->at, to, g->lines + 1, &span))
			return GREP_ENOUGH;
	} else if (g->owed) {
		g->owed--;
		if (!window_tell(w, w->at, to, g->lines + 1, NULL))
			return GREP_ENOUGH;
	}
	return GREP_DONE;
}

/* Passes over lines that cannot match, because they lack the text that every match holds. */
static void window_skip(struct window *w)
{
	size_t n_needs, to;
	const char *needs = match_needs(w->g->match, &n_needs), *held;

	if (n_needs == 0 || w->g->invert || w->g->owed)
		return;
	held = memmem(w->p + w->at, w->n - w->at, needs, n_needs);
	to = line_before(w->p, (held ? (size_t)(held - w->p) : w->n) + 1);
	if (to <= w->at)
		return;
	w->g->lines += newlines(w->p + w->at, to - w->at);
	w->at = to;
}

/* Bytes of the buffer that have to stay for the next call. */
static size_t window_drop(struct window *w)
{
	struct grep *g = w->g;
	unsigned count;
	size_t drop = lines_before(w->p, w->at, g->shown < w->at ? g->shown : w->at, g->before, &count);

	g->offset += drop;
	g->kept = w->at - drop;
	g->shown = g->shown > drop ? g->shown - drop : 0;
	return drop;
}

enum grep_result grep_run(struct grep *g, const void *p, size_t n, enum grep_part part, size_t *out_drop)
{
	struct window w = {.g = g, .p = p, .n = n, .at = g->kept};
	enum grep_result result = GREP_DONE;

	while (w.at < n && result == GREP_DONE) {
		window_skip(&w);
		const char *end = w.at < n ? memchr(w.p + w.at, '\n', n - w.at) : NULL;
		size_t to = end ? (size_t)(end + 1 - w.p) : n;

		if (w.at == n || (!end && part == GREP_MORE))
			break;
		result = window_line(&w, to);
		w.at = to;
		g->lines += end != NULL;
		if (!end) /* a piece of a line is no line beside another */
			g->shown = to;
	}
	*out_drop = window_drop(&w);
	return result;
}
