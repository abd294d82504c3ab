#include "muxd/ctl/listed.h"

#include "base/err.h"
#include "base/slurp.h"

#include <string.h>
#include <unistd.h>

int listed_read(const char *path, size_t max, const char *what, json_t **out, struct err *e)
{
	char *text = NULL;
	size_t n = 0;
	int rc = strcmp(path, "-") == 0 ? slurp_fd(STDIN_FILENO, what, max, &text, &n, e)
					: slurp_operand(path, max, &text, &n, e);

	if (!rc)
		rc = json_parse(text, n, max, out, e);
	slurp_free(text, n);
	return rc;
}

void listed_forget(json_t *list, const char *const *keys)
{
	size_t i;
	json_t *v;

	json_array_foreach(list, i, v) for (size_t k = 0; keys[k]; k++) json_object_del(v, keys[k]);
}
