/* A patch as operations: which form stands where. */
#include "files/patch.h"

#include "files/patch_forms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int patch_split(struct patch_reader *r, size_t n)
{
	const char *p = r->out->text;
	uint32_t lines = 0;

	for (size_t i = 0; i < n; i++)
		lines += p[i] == '\n';
	if (lines > PATCH_LINES_MAX)
		return reader_bad(r, PATCH_TOO_LARGE, PATCH_LINES_MAX, "more than %d lines", PATCH_LINES_MAX);
	r->starts = malloc((lines + 2) * sizeof(*r->starts));
	if (!r->starts)
		return reader_bad(r, PATCH_NO_MEMORY, 0, "out of memory");
	r->starts[0] = 0;
	for (size_t i = 0; i < n; i++)
		if (p[i] == '\n')
			r->starts[++r->n] = (uint32_t)i + 1;
	if (r->starts[r->n] < n)
		r->starts[++r->n] = (uint32_t)n;
	return 0;
}

/* Lines that no form begins with are prose, unless they look like a part of one that lost its beginning. */
static int stray(struct patch_reader *r)
{
	struct patch_text t = reader_line(r, r->at);

	if (text_begins(t, "@@ -"))
		return reader_bad(r, PATCH_MALFORMED, r->at,
				  "a hunk without the names of its file (--- and +++) before it");
	if (text_begins(t, "*** Update File:") || text_begins(t, "*** Add File:") || text_begins(t, "*** Delete File:"))
		return reader_bad(r, PATCH_MALFORMED, r->at, "no *** Begin Patch before it");
	if (text_begins(t, "Binary files ") && t.n > 7 && memcmp(t.p + t.n - 7, " differ", 7) == 0)
		return reader_bad(r, PATCH_UNSUPPORTED, r->at,
				  "patches of binary files are not supported: write the file whole");
	r->at++;
	return 0;
}

static int read_all(struct patch_reader *r)
{
	uint32_t floor = 0; /* behind the last block */
	int rc = 0;

	while (rc == 0 && r->at < r->n) {
		if (envelope_begins(r, r->at)) {
			rc = envelope_read(r);
			floor = r->at;
		} else if (blocks_begin(r, r->at)) {
			rc = blocks_read(r, floor);
			floor = r->at;
		} else if (unified_begins(r, r->at)) {
			rc = unified_read(r);
			floor = r->at;
		} else {
			rc = stray(r);
		}
	}
	if (rc == 0 && r->out->n_ops == 0) {
		*r->err = (struct patch_error){.code = PATCH_NONE};
		snprintf(r->err->why, sizeof(r->err->why),
			 "no patch found: write a unified diff, *** Begin Patch, or <<<<<<< SEARCH blocks");
		rc = -1;
	}
	return rc;
}

int patch_parse(const char *text, size_t n, struct patch **out_patch, struct patch_error *err)
{
	struct patch_reader r = {.err = err};
	int rc = -1;

	memset(err, 0, sizeof(*err));
	r.out = calloc(1, sizeof(*r.out));
	if (!r.out || n > PATCH_TEXT_MAX) {
		reader_bad(&r, r.out ? PATCH_TOO_LARGE : PATCH_NO_MEMORY, 0,
			   r.out ? "a patch has 4 MiB at most" : "out of memory");
		goto out;
	}
	r.out->text = malloc(n + 1);
	if (!r.out->text) {
		reader_bad(&r, PATCH_NO_MEMORY, 0, "out of memory");
		goto out;
	}
	if (n)
		memcpy(r.out->text, text, n);
	r.out->text[n] = 0;
	rc = patch_split(&r, n);
	if (rc == 0)
		rc = read_all(&r);
out:
	free(r.starts);
	if (rc == 0)
		*out_patch = r.out;
	else
		patch_free(r.out);
	return rc;
}

void patch_free(struct patch *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; i < p->n_ops; i++) {
		free(p->ops[i].path);
		free(p->ops[i].to);
	}
	free(p->ops);
	free(p->hunks);
	free(p->lines);
	free(p->anchors);
	free(p->text);
	free(p);
}

const char *patch_code_name(enum patch_code code)
{
	static const char *const names[] = {
	    [PATCH_OK] = "ok",
	    [PATCH_NONE] = "no_patch",
	    [PATCH_MALFORMED] = "malformed",
	    [PATCH_UNSUPPORTED] = "unsupported",
	    [PATCH_TOO_LARGE] = "too_large",
	    [PATCH_TOO_COMPLEX] = "too_complex",
	    [PATCH_NOT_FOUND] = "not_found",
	    [PATCH_AMBIGUOUS] = "ambiguous",
	    [PATCH_OVERLAP] = "overlap",
	    [PATCH_REMAINS] = "remains",
	    [PATCH_NO_MEMORY] = "no_memory",
	};

	return names[code];
}
