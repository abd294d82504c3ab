// tier: check
/*
 * Patches: a patch, and behind the first NUL the content of every file it names. Whatever is read is whole and within
 * its bounds; whatever is refused says why, in text that can be shown.
 */
#include "files/content.h"
#include "files/patch.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void must_say(const struct patch_error *e)
{
	must(e->code != PATCH_OK && e->why[0] != 0);
	must(memchr(e->why, 0, sizeof(e->why)) && memchr(e->expected, 0, PATCH_QUOTE) &&
	     memchr(e->found, 0, PATCH_QUOTE));
	for (const char *p = e->expected; *p; p++)
		must((unsigned char)*p >= 0x20 && *p != 0x7f);
	must(patch_code_name(e->code) != NULL);
}

static void check(const struct patch *p)
{
	must(p->n_ops > 0 && p->n_ops <= PATCH_OPS_MAX && p->n_hunks <= PATCH_HUNKS_MAX);
	for (uint32_t i = 0; i < p->n_ops; i++) {
		const struct patch_op *op = &p->ops[i];

		must(op->path[0] && strlen(op->path) <= PATCH_PATH_MAX && (!op->to || op->to[0]));
		must(op->first_hunk + op->hunks <= p->n_hunks && op->line > 0);
	}
	for (uint32_t i = 0; i < p->n_hunks; i++)
		must(p->hunks[i].first_line + p->hunks[i].lines <= p->n_lines &&
		     p->hunks[i].first_anchor + p->hunks[i].anchors <= p->n_anchors);
}

static void apply(const struct patch *p, uint32_t op, const char *content, size_t n)
{
	struct patch_error err;
	size_t out_n = 0;
	char *out = NULL;

	if (patch_apply(p, op, content, n, &out, &out_n, &err) < 0) {
		must(out == NULL);
		must_say(&err);
		return;
	}
	must(out && out[out_n] == 0 && out_n <= PATCH_FILE_MAX);
	must(p->ops[op].hunks || p->ops[op].kind != PATCH_UPDATE || (out_n == n && memcmp(out, content, n) == 0));
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
	size_t n = nul ? (size_t)(nul - data) : size;
	struct patch *p = NULL;
	struct patch_error err;

	if (patch_parse((const char *)data, n, &p, &err) < 0) {
		must(p == NULL);
		must_say(&err);
		return 0;
	}
	check(p);
	for (uint32_t i = 0; i < p->n_ops && i < 8; i++)
		apply(p, i, nul ? (const char *)nul + 1 : "", nul ? size - n - 1 : 0);
	patch_free(p);
	return 0;
}
