/* `<<<<<<< SEARCH` to `>>>>>>> REPLACE`. */
#include "files/patch_forms.h"

#include <string.h>

#define SEARCH  "<<<<<<< SEARCH"
#define DIVIDER "======="
#define REPLACE ">>>>>>> REPLACE"

bool blocks_begin(const struct patch_reader *r, uint32_t line)
{
	return text_begins(reader_line(r, line), SEARCH);
}

static bool is_fence(struct patch_text t)
{
	return text_begins(t, "```") || text_begins(t, "~~~");
}

static bool decoration(char c)
{
	return strchr("#*`\"' \t", c) != NULL;
}

/* "**`src/a.c`**:", "### src/a.c", "File: src/a.c" are src/a.c. */
static struct patch_text name_clean(struct patch_text t)
{
	static const char *const words[] = {"File:", "file:", "Path:", "path:", "Filename:", "filename:"};

	while (t.n && (decoration(t.p[t.n - 1]) || t.p[t.n - 1] == ':'))
		t.n--;
	while (t.n && decoration(*t.p)) {
		t.p++;
		t.n--;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (text_begins(t, words[i])) {
			t = text_after(t, words[i]);
			while (t.n && decoration(*t.p)) {
				t.p++;
				t.n--;
			}
		}
	}
	return t;
}

/* The name of the file: behind SEARCH, or in the line before, over a fence and empty lines, not before `floor`. */
static struct patch_text name_find(const struct patch_reader *r, uint32_t line, uint32_t floor)
{
	struct patch_text t = text_after(reader_line(r, line), SEARCH);

	for (unsigned tries = 0; t.n == 0 && line > floor && tries < 3; tries++) {
		t = text_trim(reader_line(r, --line));
		if (is_fence(t))
			t.n = 0;
	}
	return name_clean(t);
}

/* The line where `mark` stands, before any other mark; r->n when there is none. */
static uint32_t mark_find(const struct patch_reader *r, uint32_t line, const char *mark)
{
	for (; line < r->n; line++) {
		struct patch_text t = reader_line(r, line);

		if (text_is(t, mark))
			return line;
		if (blocks_begin(r, line) || text_is(t, REPLACE))
			return r->n;
	}
	return r->n;
}

/* The operation that the block belongs to: one file's blocks that follow each other are one. */
static int block_op(struct patch_reader *r, struct patch_text name, uint32_t line, bool adds)
{
	struct patch *p = r->out;
	struct patch_op *op = p->n_ops ? &p->ops[p->n_ops - 1] : NULL;
	bool goes_on = op && op->form == PATCH_BLOCKS && op->kind == PATCH_UPDATE && !adds;

	if (name.n == 0 && (!op || op->form != PATCH_BLOCKS))
		return reader_bad(r, PATCH_MALFORMED, line, "no file is named in the line before " SEARCH);
	if (name.n == 0) {
		if (goes_on)
			return 0;
		name = (struct patch_text){op->path, (uint32_t)strlen(op->path), false};
	}
	if (goes_on && strlen(op->path) == name.n && memcmp(op->path, name.p, name.n) == 0)
		return 0;
	return reader_op(r, adds ? PATCH_ADD : PATCH_UPDATE, PATCH_BLOCKS, name, line) ? 0 : -1;
}

static int lines_add(struct patch_reader *r, char sign, uint32_t from, uint32_t to, bool cr_came)
{
	for (; from < to; from++) {
		struct patch_text t = reader_line(r, from);

		t.cr = t.cr && !cr_came;
		if (reader_add(r, sign, t, from) < 0)
			return -1;
	}
	return 0;
}

int blocks_read(struct patch_reader *r, uint32_t floor)
{
	uint32_t line = r->at, divider = mark_find(r, line + 1, DIVIDER), end;
	bool cr_came = reader_line(r, line).cr;

	if (divider == r->n)
		return reader_bad(r, PATCH_MALFORMED, line, SEARCH " without " DIVIDER " behind it");
	end = mark_find(r, divider + 1, REPLACE);
	if (end == r->n)
		return reader_bad(r, PATCH_MALFORMED, line, SEARCH " without " REPLACE ": was it cut off?");
	uint32_t second = mark_find(r, divider + 1, DIVIDER);
	if (second != r->n)
		return reader_bad(r, PATCH_MALFORMED, second,
				  "a second " DIVIDER
				  " in one block, the first is in line %u: use another form for this file",
				  (unsigned)divider + 1);
	if (block_op(r, name_find(r, line, floor), line, divider == line + 1) < 0 || !reader_hunk(r, line))
		return -1;
	if (lines_add(r, '-', line + 1, divider, cr_came) < 0 || lines_add(r, '+', divider + 1, end, cr_came) < 0)
		return -1;
	r->at = end + 1;
	return 0;
}
