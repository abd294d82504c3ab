/* Which paths a walk leaves out. */
#include "files/ignore.h"

#include "files/glob.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rule {
	struct glob *glob;
	char *dir; /* the rule is for paths below it; "" for all */
	size_t n_dir;
	bool takes_back;
	bool by_name; /* asks for the path's last name alone */
};

struct ignore {
	struct rule *rules;
	size_t n, room;
};

struct ignore *ignore_new(void)
{
	return calloc(1, sizeof(struct ignore));
}

size_t ignore_mark(const struct ignore *list)
{
	return list->n;
}

void ignore_release(struct ignore *list, size_t mark)
{
	while (list->n > mark) {
		struct rule *r = &list->rules[--list->n];

		glob_free(r->glob);
		free(r->dir);
	}
}

void ignore_free(struct ignore *list)
{
	if (!list)
		return;
	ignore_release(list, 0);
	free(list->rules);
	free(list);
}

static int rule_push(struct ignore *list, struct rule r)
{
	if (list->n == list->room) {
		size_t room = list->room ? list->room * 2 : 16;
		struct rule *grown = realloc(list->rules, room * sizeof(*grown));

		if (!grown)
			return -1;
		list->rules = grown;
		list->room = room;
	}
	list->rules[list->n++] = r;
	return 0;
}

/* A line's end without spaces that no backslash keeps. */
static size_t line_trim(const char *p, size_t n)
{
	size_t end = 0;

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\\' && i + 1 < n)
			i++;
		else if (p[i] == ' ')
			continue;
		end = i + 1;
	}
	return end;
}

/* A "/" in front or within ties a rule to its directory. */
static bool line_is_name(const char *p, size_t n)
{
	n -= n && p[n - 1] == '/';
	return memchr(p, '/', n) == NULL;
}

/* One line: 0 also when it is no rule, -1 when a bound was passed. */
static int line_add(struct ignore *list, const char *dir, const char *p, size_t n, struct match_error *err)
{
	struct rule r = {.n_dir = strlen(dir)};

	n = line_trim(p, n);
	if (n == 0 || p[0] == '#')
		return 0;
	if (p[0] == '!') {
		r.takes_back = true;
		p++;
		n--;
	}
	r.by_name = line_is_name(p, n);
	if (n == 0 || (n == 1 && p[0] == '/') || (n > 1 && p[0] == '/' && p[1] == '/'))
		return 0;
	if (list->n >= IGNORE_RULES_MAX) {
		snprintf(err->why, sizeof(err->why), "more than %d ignore rules", IGNORE_RULES_MAX);
		return -1;
	}
	r.glob = glob_new(p, n, 0, err);
	if (!r.glob)
		return 0; /* no pattern: git's rule too matches nothing */
	r.dir = strdup(dir);
	if (r.dir && rule_push(list, r) == 0)
		return 0;
	glob_free(r.glob);
	free(r.dir);
	snprintf(err->why, sizeof(err->why), "out of memory");
	return -1;
}

int ignore_add(struct ignore *list, const char *dir, const char *text, size_t n, struct match_error *err)
{
	const size_t mark = list->n;
	const char *end = text + n;

	if (n > IGNORE_TEXT_MAX) {
		*err = (struct match_error){.why = "a file of ignore rules has 1 MiB at most"};
		return -1;
	}
	if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3;
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text)), *line = text;
		size_t length = (size_t)((newline ? newline : end) - line);

		text = newline ? newline + 1 : end;
		length -= newline && length && line[length - 1] == '\r';
		if (line_add(list, dir, line, length, err) < 0) {
			ignore_release(list, mark);
			return -1;
		}
	}
	return 0;
}

static enum match_result rule_asks(struct rule *r, const char *path, size_t n, bool is_dir)
{
	if (r->n_dir) {
		if (n <= r->n_dir || path[r->n_dir] != '/' || memcmp(path, r->dir, r->n_dir) != 0)
			return MATCH_NO;
		path += r->n_dir + 1;
		n -= r->n_dir + 1;
	}
	if (r->by_name) {
		const char *slash = memrchr(path, '/', n);

		if (slash) {
			n -= (size_t)(slash + 1 - path);
			path = slash + 1;
		}
	}
	return glob_path(r->glob, path, n, is_dir);
}

enum match_result ignore_here(struct ignore *list, const char *path, size_t n, bool is_dir)
{
	for (size_t i = list->n; i-- > 0;) {
		struct rule *r = &list->rules[i];
		enum match_result found = rule_asks(r, path, n, is_dir);

		if (found == MATCH_YES)
			return r->takes_back ? MATCH_NO : MATCH_YES;
		if (found != MATCH_NO)
			return found;
	}
	return MATCH_NO;
}

enum match_result ignore_path(struct ignore *list, const char *path, size_t n, bool is_dir)
{
	for (size_t i = 1; i < n; i++) {
		if (path[i] == '/') {
			enum match_result found = ignore_here(list, path, i, true);

			if (found != MATCH_NO)
				return found;
		}
	}
	return ignore_here(list, path, n, is_dir);
}
