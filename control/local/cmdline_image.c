#include "control/local/cmdline_image.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/persist.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES_MAX 2000 /* bwrap takes 9000 words, three for each */
#define DIR_FLAGS   (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct build {
	const struct cmdline_image *image;
	const char *persist;
	struct buf *b;
	unsigned entries;
};

static int cmdline_image_put(struct build *w, const char *word)
{
	return buf_append(w->b, word, strlen(word) + 1);
}

static int put_three(struct build *w, const char *a, const char *b, const char *c)
{
	int rc = cmdline_image_put(w, a);

	rc = rc ? rc : cmdline_image_put(w, b);
	return rc ? rc : cmdline_image_put(w, c);
}

/* below: one that lies in it; else it itself. */
static bool persists(const struct build *w, const char *path, bool below)
{
	size_t n = strlen(path), at = 0;
	char one[256];

	while (w->persist && persist_next(w->persist, &at, one, sizeof(one)))
		if (below ? strncmp(one, path, n) == 0 && one[n] == '/' : strcmp(one, path) == 0)
			return true;
	return false;
}

static int add_all(struct build *w, int dir, const char *path, struct err *e);

static int add_below(struct build *w, int dir, const char *name, const char *path, struct err *e)
{
	int fd = openat(dir, name, DIR_FLAGS), rc;

	if (fd < 0)
		return err_sys(e, errno, "cannot look into the image");
	rc = cmdline_image_put(w, "--dir") || cmdline_image_put(w, path) ? ERR_NOMEM : add_all(w, fd, path, e);
	close(fd);
	return rc;
}

static int add_link(struct build *w, int dir, const char *name, const char *path, struct err *e)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return err_sys(e, errno, "cannot read a link of the image");
	target[n] = '\0';
	return put_three(w, "--symlink", target, path);
}

static int add_one(struct build *w, int dir, const char *name, const char *in, struct err *e)
{
	char path[PATH_MAX], from[2 * PATH_MAX];
	struct stat st;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", in, name) >= sizeof(path) || ++w->entries > ENTRIES_MAX)
		return err_set(e, ERR_IMAGE, "more than %d names lie in / and in directories above paths that persist",
			       ENTRIES_MAX);
	if (persists(w, path, false))
		return 0;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return err_sys(e, errno, "cannot look into the image");
	/* bwrap would make the persisting path's link along this one, which may lead out of what it builds. */
	if (!S_ISDIR(st.st_mode) && persists(w, path, true))
		return err_set(e, ERR_IMAGE, "%.100s is no directory in it, and a path of sandbox.persist lies below",
			       path);
	if (S_ISLNK(st.st_mode))
		return add_link(w, dir, name, path, e);
	if (S_ISDIR(st.st_mode) && persists(w, path, true))
		return add_below(w, dir, name, path, e);
	snprintf(from, sizeof(from), "%s%s", w->image->root, path);
	return put_three(w, "--ro-bind", from, path);
}

static int add_all(struct build *w, int dir, const char *path, struct err *e)
{
	int fd = openat(dir, ".", DIR_FLAGS), rc = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *x;

	if (!d) {
		rc = err_sys(e, errno, "cannot look into the image");
		if (fd >= 0)
			close(fd);
		return rc;
	}
	while (rc == 0 && (x = readdir(d)))
		if (strcmp(x->d_name, ".") != 0 && strcmp(x->d_name, "..") != 0)
			rc = add_one(w, dir, x->d_name, path, e);
	closedir(d);
	return rc;
}

static int add_env(struct build *w)
{
	const char *at = w->image->env, *end = at + w->image->env_len;
	int rc = 0;

	for (; rc == 0 && at < end; at += strlen(at) + 1) {
		const char *value = strchr(at, '=');

		if (!value)
			continue;
		rc = cmdline_image_put(w, "--setenv");
		rc = rc ? rc : buf_append(w->b, at, (size_t)(value - at));
		rc = rc ? rc : buf_append(w->b, "", 1);
		rc = rc ? rc : cmdline_image_put(w, value + 1);
	}
	return rc;
}

const char *cmdline_image_env(const struct cmdline_image *image, const char *name)
{
	const char *at = image->env, *end = at + image->env_len;
	size_t n = strlen(name);

	for (; at < end; at += strlen(at) + 1)
		if (strncmp(at, name, n) == 0 && at[n] == '=')
			return at + n + 1;
	return NULL;
}

int cmdline_image(const struct cmdline_image *image, const char *persist, struct buf *out, struct err *e)
{
	struct build w = {.image = image, .persist = persist, .b = out};
	struct err why = {0};
	int rc = add_all(&w, image->fd, "", &why);

	rc = rc ? rc : add_env(&w);
	return rc ? err_set(e, rc, "%s", why.message[0] ? why.message : "no memory for the image's root") : 0;
}
