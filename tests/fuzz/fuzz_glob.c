// tier: check
/* Patterns of names: a pattern or a file of ignore rules, and behind the first NUL a path. */
#include "files/glob.h"
#include "files/ignore.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* A path that matches may also be walked to. */
static void ask(struct glob *g, const char *path, size_t n)
{
	enum match_result file = glob_path(g, path, n, false), dir = glob_path(g, path, n, true);
	const char *slash = n ? memrchr(path, '/', n) : NULL;

	must(file != MATCH_YES || dir == MATCH_YES);
	if (dir == MATCH_YES && slash)
		must(glob_below(g, path, (size_t)(slash - path)) == MATCH_YES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
	size_t n = nul ? (size_t)(nul - data) : size, n_path = nul ? size - n - 1 : 0;
	const char *path = nul ? (const char *)nul + 1 : "";
	struct match_error err;

	if (size > 4096)
		return 0;
	for (unsigned flags = 0; flags < 4; flags++) {
		struct glob *g = glob_new(text, n, flags, &err);

		must(g || (err.why[0] && err.at <= n));
		if (g)
			ask(g, path, n_path);
		glob_free(g);
	}
	struct ignore *list = ignore_new();
	must(list != NULL);
	must(ignore_add(list, "", text, n, &err) == 0);
	must(ignore_path(list, path, n_path, true) != MATCH_NO || ignore_here(list, path, n_path, true) == MATCH_NO);
	ignore_free(list);
	return 0;
}
