/* The lines of a patch, and where its parts go. */
#include "files/patch_read.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct patch_text reader_line(const struct patch_reader *r, uint32_t line)
{
	struct patch_text t = {NULL, 0, false};

	if (line >= r->n)
		return t;
	t.p = r->out->text + r->starts[line];
	t.n = r->starts[line + 1] - r->starts[line];
	if (t.n && t.p[t.n - 1] == '\n')
		t.n--;
	t.cr = t.n && t.p[t.n - 1] == '\r';
	t.n -= t.cr;
	return t;
}

bool text_begins(struct patch_text t, const char *s)
{
	size_t n = strlen(s);

	return t.p && t.n >= n && memcmp(t.p, s, n) == 0;
}

struct patch_text text_trim(struct patch_text t)
{
	while (t.n && (t.p[t.n - 1] == ' ' || t.p[t.n - 1] == '\t'))
		t.n--;
	while (t.n && (*t.p == ' ' || *t.p == '\t')) {
		t.p++;
		t.n--;
	}
	return t;
}

bool text_is(struct patch_text t, const char *s)
{
	return text_begins(t, s) && text_trim(t).n == strlen(s);
}

struct patch_text text_after(struct patch_text t, const char *s)
{
	t.p += strlen(s);
	t.n -= (uint32_t)strlen(s);
	return text_trim(t);
}

int reader_bad(struct patch_reader *r, enum patch_code code, uint32_t line, const char *fmt, ...)
{
	struct patch_error *e = r->err;
	va_list ap;
	int n;

	*e = (struct patch_error){.code = code, .line = line + 1};
	n = snprintf(e->why, sizeof(e->why), "line %u of the patch: ", (unsigned)e->line);
	va_start(ap, fmt);
	vsnprintf(e->why + n, sizeof(e->why) - (size_t)n, fmt, ap);
	va_end(ap);
	return -1;
}

/* Room for one more; 0 or -1. */
static int reader_grow(struct patch_reader *r, void **p, uint32_t n, uint32_t *room, size_t size, uint32_t max,
		       uint32_t line, const char *what)
{
	if (n == max)
		return reader_bad(r, PATCH_TOO_LARGE, line, "more than %u %s", (unsigned)max, what);
	if (n < *room)
		return 0;
	uint32_t more = *room ? *room * 2 : 16;
	void *grown = realloc(*p, more * size);

	if (!grown)
		return reader_bad(r, PATCH_NO_MEMORY, line, "out of memory");
	*p = grown;
	*room = more;
	return 0;
}

static char *reader_path(struct patch_reader *r, struct patch_text t, uint32_t line)
{
	char *path;

	if (t.n == 0 || t.n > PATCH_PATH_MAX || memchr(t.p, 0, t.n)) {
		reader_bad(r, PATCH_MALFORMED, line,
			   t.n ? "not a path: NUL in it, or longer than 4095 bytes" : "no path");
		return NULL;
	}
	path = strndup(t.p, t.n);
	if (!path)
		reader_bad(r, PATCH_NO_MEMORY, line, "out of memory");
	return path;
}

struct patch_op *reader_op(struct patch_reader *r, enum patch_kind kind, enum patch_form form, struct patch_text path,
			   uint32_t line)
{
	struct patch *p = r->out;
	char *copy;

	if (reader_grow(r, (void **)&p->ops, p->n_ops, &r->room_ops, sizeof(*p->ops), PATCH_OPS_MAX, line, "files") < 0)
		return NULL;
	copy = reader_path(r, path, line);
	if (!copy)
		return NULL;
	struct patch_op *op = &p->ops[p->n_ops++];
	*op = (struct patch_op){.kind = kind, .form = form, .path = copy, .line = line + 1, .first_hunk = p->n_hunks};
	return op;
}

int reader_to(struct patch_reader *r, struct patch_text to, uint32_t line)
{
	struct patch_op *op = &r->out->ops[r->out->n_ops - 1];

	op->to = reader_path(r, to, line);
	return op->to ? 0 : -1;
}

struct patch_hunk *reader_hunk(struct patch_reader *r, uint32_t line)
{
	struct patch *p = r->out;

	if (reader_grow(r, (void **)&p->hunks, p->n_hunks, &r->room_hunks, sizeof(*p->hunks), PATCH_HUNKS_MAX, line,
			"hunks") < 0)
		return NULL;
	p->ops[p->n_ops - 1].hunks++;
	struct patch_hunk *h = &p->hunks[p->n_hunks++];
	*h = (struct patch_hunk){.first_line = p->n_lines, .number = line + 1, .first_anchor = p->n_anchors};
	return h;
}

int reader_add(struct patch_reader *r, char sign, struct patch_text t, uint32_t line)
{
	struct patch *p = r->out;

	if (reader_grow(r, (void **)&p->lines, p->n_lines, &r->room_lines, sizeof(*p->lines), PATCH_LINES_MAX, line,
			"lines") < 0)
		return -1;
	p->lines[p->n_lines++] = (struct patch_line){.p = t.p, .n = t.n, .number = line + 1, .sign = sign, .cr = t.cr};
	p->hunks[p->n_hunks - 1].lines++;
	return 0;
}

int reader_anchor(struct patch_reader *r, struct patch_text t, uint32_t line)
{
	struct patch *p = r->out;

	if (reader_grow(r, (void **)&p->anchors, p->n_anchors, &r->room_anchors, sizeof(*p->anchors), PATCH_HUNKS_MAX,
			line, "@@ lines") < 0)
		return -1;
	p->anchors[p->n_anchors++] = (struct patch_line){.p = t.p, .n = t.n, .number = line + 1, .sign = ' '};
	p->hunks[p->n_hunks - 1].anchors++;
	return 0;
}

struct patch_line *reader_newest(struct patch_reader *r)
{
	const struct patch *p = r->out;

	return p->n_hunks && p->hunks[p->n_hunks - 1].lines ? &p->lines[p->n_lines - 1] : NULL;
}

void reader_strip_cr(struct patch_reader *r)
{
	struct patch *p = r->out;
	const struct patch_op *op = &p->ops[p->n_ops - 1];

	if (op->hunks == 0 || !reader_line(r, op->line - 1).cr)
		return;
	for (uint32_t i = p->hunks[op->first_hunk].first_line; i < p->n_lines; i++)
		p->lines[i].cr = false;
}
