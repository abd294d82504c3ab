#include "files/paths.h"

#include "files/glob.h"

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

static bool matches(const char *pattern, size_t n, const char *path)
{
	struct match_error e;
	struct glob *g = glob_new(pattern, n, 0, &e);
	bool yes = g && glob_path(g, path, strlen(path), true) == MATCH_YES;

	glob_free(g);
	return yes;
}

static bool allows(const char *pattern, const char *path, bool tree)
{
	size_t n = strlen(pattern);
	bool below = n >= 3 && memcmp(pattern + n - 3, "/**", 3) == 0;

	if (strcmp(pattern, "**") == 0)
		return true;
	if (strcmp(path, ".") == 0 || (tree && !below))
		return false;
	return matches(pattern, n, path) || (below && matches(pattern, n - 3, path));
}

bool paths_allow(const char *const *patterns, const char *path, bool tree)
{
	if (leads_up(path))
		return false;
	for (; *patterns; patterns++)
		if (allows(*patterns, path, tree))
			return true;
	return false;
}
