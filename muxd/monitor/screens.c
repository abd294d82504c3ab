#define LOG_SUBSYS "monitor"
#include "muxd/monitor/screens.h"

#include "base/err.h"
#include "base/log.h"
#include "base/sock.h"
#include "muxd/monitor/child.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILES 16

int screens_find(struct screens *s, struct err *e)
{
	return child_find("muxd-screen", s->path, e);
}

int screens_start(struct screens *s, int nice, int *out_fd, struct err *e)
{
	static const char *const argv[] = {"muxd-screen", NULL};
	struct child_spec spec = {
	    .path = s->path, .argv = argv, .cwd = "/", .who = s->who, .files = FILES, .nice = nice};
	int fds[2], rc;

	if (s->n == SCREENS_MAX)
		return err_limit(e, ERR_LIMIT, &(struct err_share){"fixed.screens", "daemon", SCREENS_MAX, s->n, 1},
				 "%d screens are drawn already", SCREENS_MAX);
	if (sock_pair(SOCK_STREAM, fds))
		return err_set(e, ERR_SYS, "a socket pair for a screen could not be made");
	spec.ipc_fd = fds[1];
	rc = child_spawn(&spec, &s->pids[s->n], e);
	close(fds[1]);
	if (rc) {
		close(fds[0]);
		return rc;
	}
	s->n++;
	*out_fd = fds[0];
	return 0;
}

void screens_reap(struct screens *s)
{
	for (size_t i = 0; i < s->n;) {
		int status;

		if (waitpid(s->pids[i], &status, WNOHANG) != s->pids[i]) {
			i++;
			continue;
		}
		if (WIFSIGNALED(status))
			log_warn(NULL,
				 "a screen worker (pid %ld) was killed by signal %d (%s): only its screen is lost",
				 (long)s->pids[i], WTERMSIG(status), strsignal(WTERMSIG(status)));
		else if (WEXITSTATUS(status))
			log_warn(NULL, "a screen worker (pid %ld) ended with status %d", (long)s->pids[i],
				 WEXITSTATUS(status));
		s->pids[i] = s->pids[--s->n];
	}
}

void screens_finish(struct screens *s)
{
	for (size_t i = 0; i < s->n; i++) {
		kill(s->pids[i], SIGKILL);
		while (waitpid(s->pids[i], NULL, 0) < 0 && errno == EINTR)
			;
	}
	s->n = 0;
}
