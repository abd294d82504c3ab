// tier: check
/*
 * Expressions: a byte of flags, an expression, and behind the first newline a text. A match lies within its line and is
 * one by itself; a search over the text in pieces tells the same lines as a search over the whole.
 */
#include "files/grep.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

struct heard {
	uint64_t sum, lines;
};

static bool hear(void *arg, const struct grep_line *line)
{
	struct heard *h = arg;

	must(line->span.from <= line->span.to && line->span.to <= line->n);
	must(!memchr(line->p ? line->p : "", '\n', line->n));
	h->sum = h->sum * 31 + line->number * 7 + line->offset * 3 + line->span.from + 5 * line->span.to + line->match;
	h->lines++;
	return true;
}

static enum grep_result search(struct match *m, const char *p, size_t n, size_t part, bool invert, struct heard *h)
{
	struct grep g = {.match = m, .before = 1, .after = 1, .invert = invert, .told = hear, .arg = h};
	enum grep_result rc = GREP_DONE;
	size_t at = 0, drop = 0;

	/* The buffer of a stream holds p[at..end): the search gets no more. */
	for (size_t end = part < n ? part : n; rc == GREP_DONE; end = end + part < n ? end + part : n) {
		rc = grep_run(&g, p + at, end - at, end == n ? GREP_LAST : GREP_MORE, &drop);
		must(drop <= end - at);
		at += drop;
		if (end == n)
			break;
	}
	return rc;
}

static void look(struct match *m, const char *p, size_t n)
{
	size_t line = n ? strcspn(p, "\n") : 0;
	struct match_span span = {0, 0};
	enum match_result whether = match_line(m, p, line, NULL), where = match_line(m, p, line, &span);

	must(whether == where || whether == MATCH_TOO_COMPLEX || where == MATCH_TOO_COMPLEX);
	if (where == MATCH_YES)
		must(span.from <= span.to && span.to <= line);
	match_begins(m, p, line);
	for (int invert = 0; invert < 2; invert++) {
		struct heard whole = {0, 0}, parts = {0, 0};

		if (search(m, p, n, n + 1, invert, &whole) == GREP_DONE &&
		    search(m, p, n, 7, invert, &parts) == GREP_DONE)
			must(whole.sum == parts.sum && whole.lines == parts.lines);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *newline = size > 1 ? memchr(data + 1, '\n', size - 1) : NULL;
	size_t n = size < 1 ? 0 : newline ? (size_t)(newline - data) - 1 : size - 1;
	struct match_error err;

	if (size < 1 || size > 4096)
		return 0;
	struct match *m = match_new((const char *)data + 1, n, data[0] & 31, &err);
	if (!m) {
		must(err.why[0] && err.at <= n);
		return 0;
	}
	size_t n_text = newline ? size - n - 2 : 0;
	char *text = malloc(n_text + 1);
	must(text != NULL);
	memcpy(text, newline ? newline + 1 : data, n_text);
	text[n_text] = 0;
	look(m, text, n_text);
	free(text);
	match_free(m);
	return 0;
}
