#include "muxd/ctl/outside.h"

#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_MAX  (64 * 1024)
#define HEADS_MAX (1024 * 1024)

int outside_add(struct outside *o, const struct chain_head *h, const char *from, struct err *e)
{
	struct verify_outside *grown;
	char *copy;

	if (o->n >= HEADS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d heads from outside", HEADS_MAX);
	grown = realloc(o->heads, (o->n + 1) * sizeof *grown);
	if (grown)
		o->heads = grown;
	copy = grown ? strdup(from) : NULL;
	if (!copy)
		return err_set(e, ERR_NOMEM, "no memory for heads");
	o->heads[o->n++] = (struct verify_outside){.head = *h, .from = copy};
	return 0;
}

static int outside_load(const char *path, struct chain_head *out, struct err *e)
{
	char text[HEAD_MAX];
	FILE *f = fopen(path, "re");

	if (!f)
		return err_sys(e, errno, "open %s", path);
	size_t n = fread(text, 1, sizeof(text), f);
	bool bad = ferror(f) || n == sizeof(text);
	fclose(f);
	if (bad)
		return err_set(e, ERR_INVAL, "%s is not an exported head", path);
	return chain_head_import(text, n, out, e);
}

int outside_expected(struct outside *o, const struct ctl_args *a, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < a->nvalues; i++) {
		struct chain_head h;

		if (strcmp(a->values[i].name, "expect-head") != 0)
			continue;
		rc = outside_load(a->values[i].value, &h, e);
		if (rc == 0)
			rc = outside_add(o, &h, a->values[i].value, e);
	}
	return rc;
}

void outside_finish(struct outside *o)
{
	for (size_t i = 0; i < o->n; i++)
		free((char *)o->heads[i].from);
	free(o->heads);
	*o = (struct outside){NULL, 0};
}
