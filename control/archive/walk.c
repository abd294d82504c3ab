#include "control/archive/walk.h"

#include "base/err.h"
#include "control/archive/item.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct frame {
	char **names; /* sorted, NULL-ended */
	size_t at;    /* the next one */
	dev_t dev;
	ino_t ino;
	size_t back; /* the name's length without this directory; */
	char *saved; /* with a chapter's: that name itself */
};

struct walk {
	int fd; /* of the last frame's directory */
	struct frame *frames;
	size_t n, cap;
	unsigned long chapters;
	bool begun;
	/* In the archive: of where we are, of the last entry. */
	char dir[ITEM_NAME_LONG + 1], name[ITEM_NAME_LONG + 2 + NAME_MAX];
	struct stat last; /* the last entry's */
};

/* ---- names of one directory */

static int name_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_free(char **names)
{
	for (char **p = names; p && *p; p++)
		free(*p);
	free(names);
}

static int walk_names_add(char ***names, size_t *n, size_t *cap, const char *name)
{
	if (*n + 1 >= *cap) {
		size_t more = *cap ? *cap * 2 : 16;
		char **p = reallocarray(*names, more, sizeof(*p));

		if (!p)
			return ERR_NOMEM;
		*names = p;
		*cap = more;
		p[*n] = NULL;
	}
	(*names)[*n] = strdup(name);
	if (!(*names)[*n])
		return ERR_NOMEM;
	(*names)[++*n] = NULL;
	return 0;
}

/* A directory that changes while it is listed may tell a name twice. */
static void names_once(char **names, size_t n)
{
	size_t k = 0;

	if (n < 2)
		return;
	qsort(names, n, sizeof(*names), name_compare);
	for (size_t i = 1; i < n; i++) {
		if (strcmp(names[k], names[i]) == 0)
			free(names[i]);
		else
			names[++k] = names[i];
	}
	names[k + 1] = NULL;
}

static int names_read(int dir, char ***out, struct err *e)
{
	int fd = openat(dir, ".", DIR_FLAGS), rc = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	char **names = NULL;
	size_t n = 0, cap = 0;
	struct dirent *de;

	if (!d) {
		rc = err_sys(e, errno, "cannot list a directory");
		if (fd >= 0)
			close(fd);
		return rc;
	}
	while (rc == 0 && (errno = 0, de = readdir(d)))
		if (strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0)
			rc = walk_names_add(&names, &n, &cap, de->d_name);
	if (rc)
		err_set(e, rc, "no memory for the names of a directory");
	else if (errno)
		rc = err_sys(e, errno, "cannot list a directory");
	closedir(d);
	if (rc) {
		names_free(names);
		return rc;
	}
	names_once(names, n);
	*out = names;
	return 0;
}

/* ---- frames */

static int push(struct walk *w, int fd, const struct stat *st, struct err *e)
{
	struct frame f = {.dev = st->st_dev, .ino = st->st_ino};
	int rc;

	if (w->n == w->cap) {
		size_t more = w->cap ? w->cap * 2 : 64;
		struct frame *p = reallocarray(w->frames, more, sizeof(*p));

		if (!p)
			return err_set(e, ERR_NOMEM, "no memory for a tree of this depth");
		w->frames = p;
		w->cap = more;
	}
	rc = names_read(fd, &f.names, e);
	if (rc)
		return rc;
	w->frames[w->n++] = f;
	close(w->fd);
	w->fd = fd;
	return 0;
}

static int pop(struct walk *w, struct err *e)
{
	struct frame *f = &w->frames[w->n - 1];
	struct stat st;
	int fd;

	if (f->saved)
		snprintf(w->dir, sizeof(w->dir), "%s", f->saved);
	else
		w->dir[f->back] = '\0';
	free(f->saved);
	names_free(f->names);
	w->n--;
	if (w->n == 0)
		return 0;
	fd = openat(w->fd, "..", DIR_FLAGS);
	if (fd < 0)
		return err_sys(e, errno, "cannot go back to a directory");
	close(w->fd);
	w->fd = fd;
	f--;
	if (fstat(fd, &st) != 0 || st.st_dev != f->dev || st.st_ino != f->ino)
		return err_set(e, ERR_SNAPSHOT, "a directory was moved while it was read");
	return 0;
}

int walk_open(const char *top, struct walk **out, struct err *e)
{
	struct walk *w = calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return err_set(e, ERR_NOMEM, "no memory for a walk");
	w->fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w->fd < 0) {
		rc = err_sys(e, errno, "cannot open the workspace");
		free(w);
		return rc;
	}
	*out = w;
	return 0;
}

static const char *base_of(const struct walk *w)
{
	const struct frame *f = w->n ? &w->frames[w->n - 1] : NULL;

	return f && f->at ? f->names[f->at - 1] : ".";
}

/* Bytes, not text: a name in the archive is the one that the directory has. */
static void name_make(struct walk *w)
{
	char *at = stpcpy(stpcpy(w->name, w->dir), "/");
	size_t n = strnlen(base_of(w), NAME_MAX);

	memcpy(at, base_of(w), n);
	at[n] = '\0';
}

int walk_next(struct walk *w, struct walk_entry *out, struct err *e)
{
	int rc = 0;

	if (!w->begun) {
		w->begun = true;
		snprintf(w->name, sizeof(w->name), ".");
		if (fstat(w->fd, &w->last) != 0)
			return err_sys(e, errno, "cannot read the workspace");
		*out = (struct walk_entry){.dir = w->fd, .base = ".", .name = w->name, .st = w->last};
		return 1;
	}
	while (rc == 0 && w->n > 0) {
		struct frame *f = &w->frames[w->n - 1];

		if (!f->names || !f->names[f->at]) {
			rc = pop(w, e);
			continue;
		}
		f->at++;
		if (fstatat(w->fd, base_of(w), &w->last, AT_SYMLINK_NOFOLLOW) == 0) {
			name_make(w);
			*out = (struct walk_entry){.dir = w->fd, .base = base_of(w), .name = w->name, .st = w->last};
			return 1;
		}
		if (errno != ENOENT)
			rc = err_sys(e, errno, "cannot read a file's state");
	}
	return rc;
}

/* The members of the directory of that name go under this one, or under the chapter that it opens. */
static int dir_name(struct walk *w, struct frame *f, struct err *e)
{
	bool chapter = strlen(w->name) > ITEM_NAME_LONG;

	f->back = strlen(w->dir);
	f->saved = NULL;
	if (chapter) {
		f->saved = strdup(w->dir);
		if (!f->saved)
			return err_set(e, ERR_NOMEM, "no memory for a tree of this depth");
		snprintf(w->dir, sizeof(w->dir), "../%lu", w->chapters - 1);
	} else {
		memcpy(w->dir, w->name, strlen(w->name) + 1);
	}
	return 0;
}

int walk_enter(struct walk *w, bool *out_there, struct err *e)
{
	int fd = openat(w->fd, base_of(w), DIR_FLAGS), rc = 0;
	struct stat st;

	*out_there = false;
	if (strlen(w->name) > ITEM_NAME_LONG)
		w->chapters++;
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
		return 0;
	if (fd < 0 || fstat(fd, &st) != 0)
		rc = err_sys(e, errno, "cannot open a directory");
	rc = rc ? rc : push(w, fd, &st, e);
	if (rc) {
		if (fd >= 0)
			close(fd);
		return rc;
	}
	*out_there = true;
	return dir_name(w, &w->frames[w->n - 1], e);
}

/* ---- for people */

void walk_show(const char *path, char *out, size_t size)
{
	size_t len = strlen(path), room = size - 1, n = 0;
	size_t part = (room - 5) / 8; /* of the path at either end, each byte at its longest */

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)path[i];

		if (len > 2 * part && i == part) {
			n += (size_t)snprintf(out + n, size - n, " ... ");
			i = len - part;
			c = (unsigned char)path[i];
		}
		n += (size_t)snprintf(out + n, size - n, c > ' ' && c < 0x7f && c != '\\' ? "%c" : "\\x%02x", c);
	}
	out[n] = '\0';
}

void walk_where(const struct walk *w, char *out, size_t size)
{
	char *path = NULL;
	size_t len;
	FILE *f = open_memstream(&path, &len);

	for (size_t i = 0; f && i < w->n; i++)
		if (w->frames[i].at)
			fprintf(f, "%s%s", i ? "/" : "", w->frames[i].names[w->frames[i].at - 1]);
	if (f)
		fclose(f);
	walk_show(path && *path ? path : "/", out, size);
	free(path);
}

void walk_close(struct walk *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->n; i++) {
		names_free(w->frames[i].names);
		free(w->frames[i].saved);
	}
	free(w->frames);
	close(w->fd);
	free(w);
}
