#include "control/local/tool.h"

#include "base/clock.h"
#include "base/err.h"
#include "control/local/found.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 200 /* whether it is given up */

int tool_find(const char *name, char *out, size_t size, struct err *e)
{
	static const char *const dirs[] = {"/usr/bin", "/usr/sbin",      "/bin",
					   "/sbin",    "/usr/local/bin", "/usr/local/sbin"};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		int n = snprintf(out, size, "%s/%s", dirs[i], name);

		if (n > 0 && (size_t)n < size && access(out, X_OK) == 0)
			return 0;
	}
	return err_set(e, ERR_MISSING, "%s is not installed", name);
}

void tool_text_clean(char *text)
{
	char *to = text;

	for (const char *p = text; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if (c > ' ')
			*to++ = c < 0x7f ? *p : '?';
		else if (to > text && to[-1] != ' ')
			*to++ = ' ';
	}
	while (to > text && to[-1] == ' ')
		to--;
	*to = '\0';
}

/* dir -1: where we are; in -1: nothing to read. */
static int tool_spawn(int dir, const char *const *argv, int in_fd, int out_fd, int err_fd, pid_t *out_pid)
{
	static const char *const env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", NULL};
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	sigset_t none, all;
	int rc = posix_spawn_file_actions_init(&fa);

	if (rc)
		return rc;
	rc = posix_spawnattr_init(&at);
	if (rc) {
		posix_spawn_file_actions_destroy(&fa);
		return rc;
	}
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_setsigmask(&at, &none);
	posix_spawnattr_setsigdefault(&at, &all);
	posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	rc = in_fd < 0 ? posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0)
		       : posix_spawn_file_actions_adddup2(&fa, in_fd, 0);
	rc = rc ? rc : posix_spawn_file_actions_adddup2(&fa, out_fd, 1);
	rc = rc ? rc : posix_spawn_file_actions_adddup2(&fa, err_fd, 2);
	if (rc == 0 && dir >= 0)
		rc = posix_spawn_file_actions_addfchdir_np(&fa, dir);
	rc = rc ? rc : posix_spawn(out_pid, argv[0], &fa, &at, (char *const *)argv, (char *const *)env);
	posix_spawnattr_destroy(&at);
	posix_spawn_file_actions_destroy(&fa);
	return rc;
}

static int tool_wait(int fd, uint64_t deadline, const atomic_bool *given_up)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int ms;

	do {
		if (given_up && atomic_load(given_up))
			return ERR_CANCELLED;
		ms = deadline_ms(deadline);
		if (poll(&p, 1, given_up && ms > LOOK_MS ? LOOK_MS : ms) != 0)
			return 0;
	} while (given_up && deadline_ms(deadline) > 0);
	return ERR_TIMEOUT;
}

/* Reads to the end; what does not fit is read and dropped, so that the tool never waits for us. */
static int tool_read(int fd, uint64_t deadline, const atomic_bool *given_up, char *out, size_t size)
{
	size_t len = 0;
	int rc;

	for (;;) {
		char chunk[1024];
		ssize_t n;

		rc = tool_wait(fd, deadline, given_up);
		if (rc)
			return rc;
		n = read(fd, chunk, sizeof(chunk));
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return n == 0 ? 0 : ERR_SYS;
		for (ssize_t i = 0; i < n && len + 1 < size; i++)
			out[len++] = chunk[i] ? chunk[i] : ' ';
		out[len] = '\0';
	}
}

static int tool_reap(pid_t pid, int *out_code)
{
	int status;
	pid_t got;

	do
		got = waitpid(pid, &status, 0);
	while (got < 0 && errno == EINTR);
	if (got != pid)
		return -1;
	*out_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return 0;
}

static int tool_do(int dir, const char *const *argv, const struct tool_io *io, uint64_t timeout_ns, int *out_code,
		   char *out, size_t size, struct err *e)
{
	int pipes[2], rc, code;
	pid_t pid;

	out[0] = '\0';
	if (pipe2(pipes, O_CLOEXEC) != 0)
		return err_sys(e, errno, "cannot make a pipe for %s", argv[0]);
	rc = tool_spawn(dir, argv, io->in, io->out < 0 ? pipes[1] : io->out, pipes[1], &pid);
	close(pipes[1]);
	if (rc) {
		close(pipes[0]);
		return err_sys(e, rc, "cannot start %s", argv[0]);
	}
	rc = tool_read(pipes[0], clock_boot_ns() + timeout_ns, io->given_up, out, size);
	close(pipes[0]);
	if (rc)
		kill(pid, SIGKILL);
	if (tool_reap(pid, &code) != 0)
		return err_sys(e, errno, "cannot wait for %s", argv[0]);
	if (rc == ERR_CANCELLED)
		return err_set(e, rc, "the daemon is ending");
	if (rc)
		return err_set(e, rc, "%s did not end in time", argv[0]);
	tool_text_clean(out);
	*out_code = code;
	return 0;
}

int tool_run(int dir, const char *const *argv, uint64_t timeout_ns, int *out_code, char *out, size_t size,
	     struct err *e)
{
	return tool_do(dir, argv, &(struct tool_io){.in = -1, .out = -1}, timeout_ns, out_code, out, size, e);
}

int tool_run_held(int dir, const char *const *argv, int held, uint64_t timeout_ns, int *out_code, char *out,
		  size_t size, struct err *e)
{
	return tool_do(dir, argv, &(struct tool_io){.in = held, .out = -1}, timeout_ns, out_code, out, size, e);
}

int tool_run_io(const char *const *argv, const struct tool_io *io, uint64_t timeout_ns, int *out_code, char *out,
		size_t size, struct err *e)
{
	return tool_do(-1, argv, io, timeout_ns, out_code, out, size, e);
}
