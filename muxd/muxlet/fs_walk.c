#include "muxd/muxlet/fs_walk.h"

#include "muxd/muxlet/newfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMES_MAX (1024 * 1024) /* in one directory */

struct names {
	char **p;
	size_t n, size;
};

static void names_free(struct names *v)
{
	for (size_t i = 0; i < v->n; i++)
		free(v->p[i]);
	free(v->p);
}

static int names_add(struct names *v, const char *name)
{
	if (v->n == NAMES_MAX)
		return EFBIG;
	if (v->n == v->size) {
		size_t size = v->size ? v->size * 2 : 64;
		char **p = realloc(v->p, size * sizeof(*p));

		if (!p)
			return ENOMEM;
		v->p = p;
		v->size = size;
	}
	v->p[v->n] = strdup(name);
	return v->p[v->n] ? (v->n++, 0) : ENOMEM;
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Takes fd over. */
static int names_read(int fd, struct names *out)
{
	DIR *d = fdopendir(fd);
	const struct dirent *e;
	int err = 0;

	if (!d) {
		err = errno;
		close(fd);
		return err;
	}
	while (!err && (errno = 0, e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			err = names_add(out, e->d_name);
	if (!err)
		err = errno;
	closedir(d);
	if (!err && out->n)
		qsort(out->p, out->n, sizeof(*out->p), by_bytes);
	return err;
}

static int walk_dir(struct fs_walk *w, int dir_fd, char *path, size_t n, const char *after, int depth);

/* A path as rules see it: below where the walk began. */
static const char *walk_below(const struct fs_walk *w, const char *path)
{
	return path + w->prefix_len;
}

static enum match_result left_out(const struct fs_walk *w, const char *path, mode_t mode)
{
	const char *rest = walk_below(w, path);

	return w->ignore ? ignore_here(w->ignore, rest, strlen(rest), S_ISDIR(mode)) : MATCH_NO;
}

/* The rules that a directory has for itself; a file that is none, or too long, has none. */
static void add_rules(const struct fs_walk *w, int dir_fd, const char *path)
{
	int fd = w->ignore && w->gitignore
		     ? openat(dir_fd, ".gitignore", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
		     : -1;
	struct match_error e;
	struct stat st;
	char *text = NULL;
	ssize_t n = 0;

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= IGNORE_TEXT_MAX &&
	    (text = malloc((size_t)st.st_size + 1)))
		n = newfile_read(fd, text, (size_t)st.st_size);
	if (n > 0)
		(void)ignore_add(w->ignore, *path ? walk_below(w, path) : "", text, (size_t)n, &e);
	free(text);
	close(fd);
}

/* Into the directory that was just visited. */
static int walk_into(struct fs_walk *w, int dir_fd, const char *base, char *path, size_t n, const char *after,
		     int depth)
{
	int fd, err;

	if (depth + 1 >= w->depth) {
		w->unread += w->depth == FS_WALK_DEPTH;
		return 0;
	}
	fd = openat(dir_fd, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		w->unread += errno != ENOENT && errno != ENOTDIR; /* else it went meanwhile */
		return 0;
	}
	err = walk_dir(w, fd, path, n, after, depth + 1);
	close(fd);
	return err;
}

/* Where the walk goes on: names before it are over, its own directory is entered and not told again. */
static int place_of(const char *base, const char *after, const char **out_rest)
{
	size_t n = after ? strcspn(after, "/") : 0;
	int c = after ? strncmp(base, after, n) : 1;

	*out_rest = NULL;
	if (after && !c && base[n])
		c = 1;
	if (after && !c && after[n])
		*out_rest = after + n + 1;
	return c;
}

static int walk_name(struct fs_walk *w, int dir_fd, const char *base, char *path, size_t n, const char *after,
		     int depth)
{
	size_t len = strlen(base);
	enum fs_walk_next next = FS_WALK_ON;
	enum match_result out;
	const char *rest;
	struct stat st;
	int err = 0, c = place_of(base, after, &rest);

	if (c < 0 || fstatat(dir_fd, base, &st, AT_SYMLINK_NOFOLLOW)) /* it went meanwhile */
		return 0;
	if (n + len + 2 > PATH_MAX) {
		w->unread++;
		w->too_long++;
		return 0;
	}
	snprintf(path + n, PATH_MAX - n, "%s%s", n ? "/" : "", base);
	n += len + (n != 0);
	out = left_out(w, path, st.st_mode);
	if (out != MATCH_NO)
		return out == MATCH_YES ? 0 : ENOMEM;
	if (c > 0)
		next = w->visit(w->arg, dir_fd, base, path, &st);
	if (next == FS_WALK_ON && S_ISDIR(st.st_mode)) {
		err = walk_into(w, dir_fd, base, path, n, rest, depth);
		path[n] = '\0';
		if (!err && w->leave)
			next = w->leave(w->arg, dir_fd, base, path, &st);
	}
	return err ? err : next == FS_WALK_STOP ? ECANCELED : 0;
}

static int walk_dir(struct fs_walk *w, int dir_fd, char *path, size_t n, const char *after, int depth)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct names v = {0};
	size_t mark = w->ignore ? ignore_mark(w->ignore) : 0;
	int err = fd < 0 ? errno : names_read(fd, &v);

	if (!err)
		add_rules(w, dir_fd, n >= w->prefix_len ? path : "");
	for (size_t i = 0; !err && i < v.n; i++)
		err = walk_name(w, dir_fd, v.p[i], path, n, after, depth);
	names_free(&v);
	if (w->ignore)
		ignore_release(w->ignore, mark);
	return err;
}

int fs_walk_run(struct fs_walk *w, int dir_fd, const char *prefix)
{
	char path[PATH_MAX];
	size_t n = strlen(prefix);
	int err;

	if (n >= sizeof(path))
		return ENAMETOOLONG;
	memcpy(path, prefix, n + 1);
	w->prefix_len = n ? n + 1 : 0;
	err = walk_dir(w, dir_fd, path, n, w->after, 0);
	return err == ECANCELED ? 0 : err;
}
