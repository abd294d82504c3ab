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

/* Where a file is put together here; the handler takes it away. */
static char temporary[PATH_MAX];

static void sink_on_end(int signum)
{
	if (temporary[0])
		(void)unlink(temporary);
	_exit(128 + signum);
}

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

int sink_open(const char *local, struct sink *out, struct err *e)
{
	struct stat st;

	*out = (struct sink){.fd = -1};
	if (strcmp(local, "-") == 0) {
		out->fd = STDOUT_FILENO;
		return 0;
	}
	(void)signal(SIGINT, sink_on_end);
	(void)signal(SIGTERM, sink_on_end);
	(void)signal(SIGHUP, sink_on_end);
	if (stat(local, &st) == 0 && !S_ISREG(st.st_mode))
		return open_as_it_is(local, &st, out, e);
	if (!realpath(local, out->real) && snprintf(out->real, PATH_MAX, "%s", local) >= PATH_MAX)
		return err_set(e, ERR_INVAL, "the name of the file is too long");
	if (snprintf(temporary, sizeof(temporary), "%s.XXXXXX", out->real) >= (int)sizeof(temporary)) {
		temporary[0] = '\0';
		return err_set(e, ERR_INVAL, "the name of the file is too long");
	}
	out->fd = mkostemp(temporary, O_CLOEXEC);
	if (out->fd >= 0)
		return 0;
	temporary[0] = '\0';
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

int sink_settle(struct sink *s, long mode, struct err *e)
{
	if (!temporary[0])
		return 0;
	if (fchmod(s->fd, permissions(s->real, mode)) < 0 || fsync(s->fd) < 0 || rename(temporary, s->real) < 0)
		return err_sys(e, errno, "write %s", s->real);
	temporary[0] = '\0';
	return 0;
}

void sink_close(struct sink *s)
{
	if (temporary[0])
		(void)unlink(temporary);
	temporary[0] = '\0';
	if (s->fd > STDERR_FILENO)
		close(s->fd);
	s->fd = -1;
}
