#include "muxd/ctl/sink.h"

#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *sink_into(const char *to, const char *from)
{
	const char *slash = strrchr(from, '/');
	size_t n = strlen(to);
	char *out = NULL;

	if (!n || to[n - 1] != '/')
		return strdup(to);
	return asprintf(&out, "%s%s", to, slash ? slash + 1 : from) < 0 ? NULL : out;
}

static int open_as_it_is(const char *local, const struct stat *st, struct sink *out, struct err *e)
{
	if (S_ISDIR(st->st_mode))
		return err_set(e, ERR_INVAL, "%s is a directory: name a file in it, or end it with /", local);
	out->fd = open(local, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	return out->fd < 0 ? err_sys(e, errno, "open %s", local) : 0;
}

/* In the directory of its name; without one of its own it vanishes with muxctl, however that ends. */
static int open_unnamed(const char *real)
{
	char dir[PATH_MAX];
	char *slash;

	if (access("/proc/self/fd", X_OK)) /* by which it gets its name */
		return -1;
	strcpy(dir, real); /* of the same size */
	slash = strrchr(dir, '/');
	if (slash)
		slash[1] = '\0';
	else
		strcpy(dir, ".");
	return open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
}

int sink_open(const char *local, struct sink *out, struct err *e)
{
	struct stat st;

	*out = (struct sink){.fd = -1};
	if (strcmp(local, "-") == 0) {
		out->fd = STDOUT_FILENO;
		return 0;
	}
	if (stat(local, &st) == 0 && !S_ISREG(st.st_mode))
		return open_as_it_is(local, &st, out, e);
	if ((!realpath(local, out->real) && snprintf(out->real, PATH_MAX, "%s", local) >= PATH_MAX) ||
	    snprintf(out->temporary, PATH_MAX, "%s.XXXXXX", out->real) >= PATH_MAX) {
		out->temporary[0] = '\0';
		return err_set(e, ERR_INVAL, "the name of the file is too long");
	}
	out->fd = open_unnamed(out->real);
	out->unnamed = out->fd >= 0;
	if (!out->unnamed)
		out->fd = mkostemp(out->temporary, O_CLOEXEC);
	if (out->fd >= 0)
		return 0;
	out->temporary[0] = '\0';
	return err_sys(e, errno, "make a file beside %s", local);
}

/*
 * What the sandbox says of permissions does not count: nothing that comes out of it can be executed, or read by more
 * than the umask allows, because a program inside wished so. Who wants that asks for it.
 */
static mode_t permissions(const char *real, long asked)
{
	struct stat st;
	mode_t mask = umask(0);

	(void)umask(mask);
	if (asked >= 0)
		return (mode_t)asked;
	if (stat(real, &st) == 0)
		return st.st_mode & 0666;
	return 0666 & ~mask;
}

/* link() replaces nothing, rename() does: so it has a name beside its own in between. */
static int sink_name(struct sink *s)
{
	char fd[40];

	snprintf(fd, sizeof(fd), "/proc/self/fd/%d", s->fd);
	if (s->unnamed) {
		int own = mkostemp(s->temporary, O_CLOEXEC); /* a name that nobody has */

		if (own < 0)
			return -1;
		close(own);
		if (unlink(s->temporary) || linkat(AT_FDCWD, fd, AT_FDCWD, s->temporary, AT_SYMLINK_FOLLOW))
			return -1;
		s->unnamed = false;
	}
	return rename(s->temporary, s->real);
}

int sink_settle(struct sink *s, long mode, struct err *e)
{
	sigset_t all, before;
	int rc;

	if (!s->temporary[0])
		return 0;
	sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &before); /* no signal comes between the two names */
	rc = fchmod(s->fd, permissions(s->real, mode)) < 0 || fsync(s->fd) < 0 || sink_name(s) < 0
		 ? err_sys(e, errno, "write %s", s->real)
		 : 0;
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	if (!rc)
		s->temporary[0] = '\0';
	return rc;
}

void sink_close(struct sink *s)
{
	if (s->temporary[0] && !s->unnamed)
		(void)unlink(s->temporary);
	s->temporary[0] = '\0';
	if (s->fd > STDERR_FILENO)
		close(s->fd);
	s->fd = -1;
}
