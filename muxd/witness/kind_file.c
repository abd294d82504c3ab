/*
 * A file, best on a mount that this machine can only append to: a line of JSON for each head, synced. It is opened anew
 * each time, so that a rotation takes nothing from it.
 */
#include "base/clock.h"
#include "base/err.h"
#include "muxd/witness/home.h"
#include "muxd/witness/kind.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LAST_MAX 8192

/* The last whole line that is a head; NULL: none. */
static json_t *last_head(int fd, off_t size, bool *out_torn)
{
	char text[LAST_MAX];
	size_t want = size < (off_t)sizeof text ? (size_t)size : sizeof text;
	ssize_t n = pread(fd, text, want, size - (off_t)want);
	json_t *o = NULL;

	*out_torn = n > 0 && text[n - 1] != '\n';
	while (n > 0 && !o) {
		ssize_t end = n;
		while (n > 0 && text[n - 1] != '\n')
			n--;
		if (end > n)
			(void)json_parse(text + n, (size_t)(end - n), sizeof text, &o, NULL);
		n--;
	}
	return o;
}

/* In one write: beside other writers of the file lines stay whole. */
static int write_line(int fd, const char *path, const char *text, bool torn, struct err *e)
{
	char *line = NULL;
	int len = asprintf(&line, "%s%s\n", torn ? "\n" : "", text), rc = 0;

	if (len < 0)
		return err_set(e, ERR_NOMEM, "no memory for a line");
	ssize_t n = write(fd, line, (size_t)len);
	if (n < 0)
		rc = err_sys(e, errno, "write to %s", path);
	else if (n < len)
		rc = err_set(e, ERR_DISK_FULL, "%s took a part of a line only", path);
	else if (fsync(fd) < 0)
		rc = err_sys(e, errno, "sync %s", path);
	free(line);
	return rc;
}

static int sync_folder(const char *path, struct err *e)
{
	char copy[PATH_MAX];
	int fd, rc = 0;

	if ((size_t)snprintf(copy, sizeof copy, "%s", path) >= sizeof copy)
		return err_set(e, ERR_INVAL, "the path of the file is too long");
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0)
		rc = err_sys(e, errno, "sync the folder of %s", path);
	if (fd >= 0)
		close(fd);
	return rc;
}

static int kind_file_append(const struct kind_call *c, int fd, off_t size, struct err *e)
{
	char *text = json_text(c->head);
	bool torn = false;
	json_t *last = size ? last_head(fd, size, &torn) : NULL;
	int rc = text ? 0 : err_set(e, ERR_NOMEM, "no memory for a line");

	if (rc == 0 && json_object_get(last, "seq"))
		rc = home_known(c->home, c->conf->name, last, e);
	if (rc == 0)
		rc = write_line(fd, c->conf->path, text, torn, e);
	if (rc == 0 && !size)
		rc = sync_folder(c->conf->path, e);
	json_decref(last);
	free(text);
	return rc;
}

int kind_file_send(const struct kind_call *c, json_t **out, struct err *e)
{
	const char *path = c->conf->path;
	struct stat st;
	int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0644), rc;

	if (fd < 0)
		return err_sys(e, errno, "open %s", path);
	if (fstat(fd, &st) < 0)
		rc = err_sys(e, errno, "look at %s", path);
	else if (!S_ISREG(st.st_mode))
		rc = err_set(e, ERR_NOT_A_FILE, "%s is no regular file", path);
	else
		rc = kind_file_append(c, fd, st.st_size, e);
	if (close(fd) < 0 && rc == 0)
		rc = err_sys(e, errno, "close %s", path);
	if (rc == 0 && !(*out = json_pack("{s:s, s:I, s:I}", "path", path, "position", (json_int_t)st.st_size,
					  "witness_wall_ns", (json_int_t)clock_wall_ns())))
		rc = err_set(e, ERR_NOMEM, "no memory for a receipt");
	return rc;
}
