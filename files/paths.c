#include "files/paths.h"

#include "files/glob.h"

#include <stdlib.h>
#include <string.h>

static bool leads_up(const char *path)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 2 && memcmp(path, "..", 2) == 0)
			return true;
		path += n;
		path += *path == '/';
	}
	return false;
}

/* A pattern as it is asked: whole, and of `x/` + `**` the `x`. */
struct path_pattern {
	struct glob *whole, *stem;
	char *dir;  /* of `x/` + `**` the `x`, where it is a name as it stands: no expression is needed */
	bool every; /* ** */
};
struct paths {
	size_t n;
	struct path_pattern list[];
};

static struct glob *pattern_read(const char *pattern, size_t n)
{
	struct match_error e;

	return glob_new(pattern, n, 0, &e);
}

static void pattern_finish(struct path_pattern *p)
{
	glob_free(p->whole);
	glob_free(p->stem);
	free(p->dir);
}

static bool is_plain(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strchr("*?[]{}\\", p[i]))
			return false;
	return true;
}

static bool is_below(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* False: the pattern is none, or there is no memory; *out is freed by pattern_finish() either way. */
static bool pattern_begin(const char *pattern, struct path_pattern *out)
{
	size_t n = strlen(pattern);
	bool below = n >= 3 && memcmp(pattern + n - 3, "/**", 3) == 0;

	*out = (struct path_pattern){.every = strcmp(pattern, "**") == 0};
	if (out->every)
		return true;
	if (below && n > 3 && *pattern != '/' && *pattern != '.' && is_plain(pattern, n - 3))
		return (out->dir = strndup(pattern, n - 3)) != NULL;
	out->whole = pattern_read(pattern, n);
	out->stem = below ? pattern_read(pattern, n - 3) : NULL;
	return out->whole && (out->stem || !below);
}

static bool is_match(struct glob *g, const char *path)
{
	return g && glob_path(g, path, strlen(path), true) == MATCH_YES;
}

static bool allows(const struct path_pattern *p, const char *path, bool tree)
{
	if (p->every)
		return true;
	if (strcmp(path, ".") == 0 || (tree && !p->stem && !p->dir))
		return false;
	if (p->dir)
		return is_below(p->dir, path);
	return is_match(p->whole, path) || is_match(p->stem, path);
}

bool paths_allow(const char *const *patterns, const char *path, bool tree)
{
	bool yes = false;

	if (leads_up(path))
		return false;
	for (; *patterns && !yes; patterns++) {
		struct path_pattern p;

		yes = pattern_begin(*patterns, &p) && allows(&p, path, tree);
		pattern_finish(&p);
	}
	return yes;
}

struct paths *paths_new(const char *const *patterns)
{
	struct paths *p;
	size_t n = 0;

	while (patterns[n])
		n++;
	p = calloc(1, sizeof(*p) + n * sizeof(p->list[0]));
	for (size_t i = 0; p && i < n; i++) {
		p->n = i + 1;
		if (!pattern_begin(patterns[i], &p->list[i])) {
			paths_free(p);
			return NULL;
		}
	}
	return p;
}

void paths_free(struct paths *p)
{
	for (size_t i = 0; p && i < p->n; i++)
		pattern_finish(&p->list[i]);
	free(p);
}

bool paths_have(const struct paths *p, const char *path, bool tree)
{
	if (leads_up(path))
		return false;
	for (size_t i = 0; i < p->n; i++)
		if (allows(&p->list[i], path, tree))
			return true;
	return false;
}
