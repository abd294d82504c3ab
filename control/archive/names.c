#include "control/archive/names.h"

#include "base/err.h"
#include "control/archive/item.h"
#include "control/archive/walk.h"

#include <search.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int names_bad(const char *what, const char *name, struct err *e)
{
	char shown[160];

	walk_show(name, shown, sizeof(shown));
	return err_set(e, ERR_CORRUPT, "%s: %s", what, shown);
}

static int names_no_memory(struct err *e)
{
	return err_set(e, ERR_NOMEM, "no memory for the directories of an archive");
}

static int place_compare(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->parent != y->parent)
		return (uintptr_t)x->parent < (uintptr_t)y->parent ? -1 : 1;
	return strcmp(x->name, y->name);
}

static struct place *child(const struct names *n, struct place *parent, char *name)
{
	struct place key = {.parent = parent, .name = name};
	void *found = tfind(&key, &n->tree, place_compare);

	return found ? *(struct place **)found : NULL;
}

/* "../K" at the beginning; *rest is behind it. */
static struct place *chapter(const struct names *n, char *name, char **rest)
{
	char *end;
	unsigned long k;

	if (name[3] < '0' || name[3] > '9')
		return NULL;
	k = strtoul(name + 3, &end, 10);
	*rest = end;
	return (*end == '/' || *end == '\0') && k < n->nchapters ? n->chapters[k] : NULL;
}

/* A directory by its whole name, which is cut into its parts. */
static struct place *directory(const struct names *n, char *name)
{
	struct place *at = NULL;
	char *rest = name;

	if (strncmp(name, "../", 3) == 0)
		at = chapter(n, name, &rest);
	else if (name[0] == '.' && (name[1] == '/' || name[1] == '\0')) {
		at = n->n ? n->all[0] : NULL;
		rest = name + 1;
	}
	while (at && *rest) {
		char *part = rest + 1, *end = strchrnul(part, '/');
		char was = *end;

		*end = '\0';
		at = child(n, at, part);
		*end = was;
		rest = end;
	}
	return at;
}

static int names_remember(struct names *n, const char *name, size_t len, struct place **out, struct err *e)
{
	char *copy;

	if (n->last_place && len == n->last_len && memcmp(name, n->last, len) == 0) {
		*out = n->last_place;
		return 0;
	}
	copy = strndup(name, len);
	if (!copy)
		return names_no_memory(e);
	*out = directory(n, copy);
	free(n->last);
	n->last = copy;
	n->last_len = len;
	n->last_place = *out;
	return *out ? 0 : names_bad("what it lies in is not in the archive", name, e);
}

int names_find(struct names *n, const char *name, struct place **out, const char **out_base, struct err *e)
{
	const char *base = strrchr(name, '/');
	struct place *at;
	int rc;

	if (strcmp(name, ".") == 0) {
		*out = NULL;
		*out_base = name;
		return 0;
	}
	if (!base || !base[1] || strcmp(base, "/.") == 0 || strcmp(base, "/..") == 0 ||
	    (base - name == 2 && name[0] == '.' && name[1] == '.'))
		return names_bad("not the name of a file in a workspace", name, e);
	rc = names_remember(n, name, (size_t)(base - name), &at, e);
	if (rc)
		return rc;
	*out = at;
	*out_base = base + 1;
	return 0;
}

static int list_add(struct place ***list, size_t *n, size_t *cap, struct place *p)
{
	if (*n == *cap) {
		size_t more = *cap ? *cap * 2 : 64;
		struct place **q = reallocarray(*list, more, sizeof(struct place *));

		if (!q)
			return ERR_NOMEM;
		*list = q;
		*cap = more;
	}
	(*list)[(*n)++] = p;
	return 0;
}

int names_add(struct names *n, const char *name, struct place *parent, const char *base, struct place **out,
	      struct err *e)
{
	struct place *p;

	if (!parent != !n->n)
		return names_bad("the workspace itself is not the first in the archive, or not once", name, e);
	if (parent && child(n, parent, (char *)base))
		return names_bad("it is in the archive twice", name, e);
	p = calloc(1, sizeof(*p));
	if (!p)
		return names_no_memory(e);
	p->name = strdup(base);
	p->parent = parent;
	p->depth = parent ? parent->depth + 1 : 0;
	if (!p->name || list_add(&n->all, &n->n, &n->cap, p)) {
		free(p->name);
		free(p);
		return names_no_memory(e);
	}
	if ((parent && !tsearch(p, &n->tree, place_compare)) ||
	    (strlen(name) > ITEM_NAME_LONG && list_add(&n->chapters, &n->nchapters, &n->chapters_cap, p)))
		return names_no_memory(e);
	*out = p;
	return 0;
}

static void names_keep(void *p)
{
	(void)p;
}

void names_finish(struct names *n)
{
	tdestroy(n->tree, names_keep);
	for (size_t i = 0; i < n->n; i++) {
		free(n->all[i]->name);
		free(n->all[i]);
	}
	free(n->all);
	free(n->chapters);
	free(n->last);
	*n = (struct names){0};
}
