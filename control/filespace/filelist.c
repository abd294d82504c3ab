#include "control/filespace/filelist.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

int filespace_list_add(struct filespace_list *l, const char *path, const struct filespace_file *f)
{
	struct filespace_file *p = l->p;

	if (l->n == l->room) {
		size_t room = l->room ? 2 * l->room : 64;

		p = realloc(p, room * sizeof(*p));
		if (!p)
			return ERR_NOMEM;
		l->p = p;
		l->room = room;
	}
	p[l->n] = *f;
	p[l->n].path = strdup(path);
	if (!p[l->n].path)
		return ERR_NOMEM;
	if (f->side.key[0])
		l->bytes += f->size;
	l->n++;
	return 0;
}

static int filelist_order(const void *a, const void *b)
{
	return strcmp(((const struct filespace_file *)a)->path, ((const struct filespace_file *)b)->path);
}

bool filespace_list_sort(struct filespace_list *l)
{
	if (l->n)
		qsort(l->p, l->n, sizeof(*l->p), filelist_order);
	for (size_t i = 1; i < l->n; i++)
		if (strcmp(l->p[i - 1].path, l->p[i].path) == 0)
			return false;
	return true;
}

struct filespace_file *filespace_list_find(const struct filespace_list *l, const char *path)
{
	const struct filespace_file key = {.path = (char *)(uintptr_t)path};

	return l->n ? bsearch(&key, l->p, l->n, sizeof(*l->p), filelist_order) : NULL;
}

bool filespace_list_skips(const struct filespace_list *l, const char *path)
{
	char head[FILESPACE_PATH_MAX + 1];
	size_t n = strlen(path);

	if (n > FILESPACE_PATH_MAX)
		return true;
	memcpy(head, path, n + 1);
	for (;;) {
		const struct filespace_file *f = filespace_list_find(l, head);
		char *slash = strrchr(head, '/');

		if (f && f->skipped)
			return true;
		if (!slash)
			return false;
		*slash = '\0';
	}
}

static int by_inode(const void *a, const void *b)
{
	const struct filespace_file *const *x = a, *const *y = b;

	return (*x)->inode < (*y)->inode ? -1 : (*x)->inode > (*y)->inode;
}

uint64_t filespace_list_used(const struct filespace_list *l)
{
	const struct filespace_file **p = calloc(l->n + 1, sizeof(const struct filespace_file *));
	uint64_t sum = 0;

	if (!p)
		return UINT64_MAX;
	for (size_t i = 0; i < l->n; i++)
		p[i] = &l->p[i];
	qsort(p, l->n, sizeof(const struct filespace_file *), by_inode);
	for (size_t i = 0; i < l->n; i++)
		if (!i || !p[i]->inode || p[i]->inode != p[i - 1]->inode)
			sum += p[i]->used;
	free(p);
	return sum;
}

void filespace_list_finish(struct filespace_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->p[i].path);
	free(l->p);
	*l = (struct filespace_list){0};
}
