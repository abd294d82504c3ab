#include "muxd/monitor/child.h"

#include "base/err.h"
#include "base/niceness.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define IPC_FD     3
#define REPORT_FD  4
#define PROGRAM_FD 5
#define ENV_MAX    18

/* What the child says when it could not become what it should: which step, and errno. */
struct failure {
	int step;
	int errnum;
};
enum step { STEP_FDS, STEP_CWD, STEP_LIMITS, STEP_UID, STEP_PRIVS, STEP_EXEC };
static const char *const step_names[] = {
    [STEP_FDS] = "arrange its descriptors", [STEP_CWD] = "enter the state directory", [STEP_LIMITS] = "set its limits",
    [STEP_UID] = "change its user",         [STEP_PRIVS] = "drop its privileges",     [STEP_EXEC] = "execute",
};

extern char **environ;

/* Names that carry no secret and that libraries or sanitizers look for. */
static void filter_environment(char *out[ENV_MAX])
{
	static const char *const keep[] = {"PATH=",
					   "TZ=",
					   "LANG=",
					   "LC_ALL=",
					   "LC_CTYPE=",
					   "ASAN_OPTIONS=",
					   "UBSAN_OPTIONS=",
					   "LSAN_OPTIONS=",
					   "TSAN_OPTIONS=",
					   "POOL_SIZE=",
					   "SANDBOX_IMAGE=",
					   "SANDBOX_TIMEOUT_SECONDS=",
					   "LEASE_TTL_SECONDS=",
					   "AUTH_TOKEN_ISSUER=",
					   "JWKS_URL="};
	size_t n = 0;

	for (char **v = environ; v && *v && n + 1 < ENV_MAX; v++) {
		for (size_t i = 0; i < sizeof keep / sizeof keep[0]; i++) {
			if (strncmp(*v, keep[i], strlen(keep[i])) == 0) {
				out[n++] = *v;
				break;
			}
		}
	}
	out[n] = NULL;
}

/* From here to the exec only async-signal-safe calls: other threads may have held any lock at the fork. */
static _Noreturn void child_give_up(enum step step)
{
	struct failure f = {step, errno};

	(void)!write(REPORT_FD, &f, sizeof f);
	_exit(127);
}

/* Each to its number by way of high ones, so that none is overwritten before it is moved. */
static void arrange_fds(int ipc, int report, int program)
{
	int null = open("/dev/null", O_RDWR);
	int high[3] = {fcntl(ipc, F_DUPFD, 64), fcntl(report, F_DUPFD, 64), fcntl(program, F_DUPFD, 64)};

	if (high[1] >= 0)
		dup2(high[1], REPORT_FD); /* first, so that a failure can be told */
	if (null < 0 || high[0] < 0 || high[1] < 0 || high[2] < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
	    dup2(high[0], IPC_FD) < 0 || dup2(high[2], PROGRAM_FD) < 0 || fcntl(REPORT_FD, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(PROGRAM_FD, F_SETFD, FD_CLOEXEC) < 0 || syscall(SYS_close_range, PROGRAM_FD + 1, ~0U, 0) < 0)
		child_give_up(STEP_FDS);
}

static void set_limits(rlim_t files)
{
	const struct rlimit none = {0, 0};
	struct rlimit r;

	if (setrlimit(RLIMIT_CORE, &none) < 0 || getrlimit(RLIMIT_NOFILE, &r) < 0)
		child_give_up(STEP_LIMITS);
	/* More than the hard limit only where this root may (not in every container). */
	if (r.rlim_max < files) {
		const struct rlimit more = {files, files};

		if (setrlimit(RLIMIT_NOFILE, &more) == 0)
			return;
	}
	r.rlim_cur = r.rlim_max < files ? r.rlim_max : files;
	if (setrlimit(RLIMIT_NOFILE, &r) < 0)
		child_give_up(STEP_LIMITS);
}

static void monitor_child_become(const struct file_owner *who)
{
	if (who->uid != (uid_t)-1) {
		gid_t none = who->gid;

		/* The bare calls: glibc's would signal threads that do not exist in this process. */
		if (syscall(SYS_setgroups, 0, &none) < 0 || syscall(SYS_setresgid, who->gid, who->gid, who->gid) < 0 ||
		    syscall(SYS_setresuid, who->uid, who->uid, who->uid) < 0)
			child_give_up(STEP_UID);
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		child_give_up(STEP_PRIVS);
}

static void reset_signals(void)
{
	const struct sigaction dfl = {.sa_handler = SIG_DFL};
	sigset_t none;

	for (int s = 1; s < NSIG; s++)
		sigaction(s, &dfl, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void child_run(const struct child_spec *spec, int report, int program, char *const *env)
{
	reset_signals();
	setsid();
	umask(077);
	arrange_fds(spec->ipc_fd, report, program);
	if (chdir(spec->cwd) < 0)
		child_give_up(STEP_CWD);
	set_limits(spec->files);
	if (spec->nice)
		niceness_set(spec->nice);
	monitor_child_become(&spec->who);
	/* By descriptor when the path is closed to this uid; by path first, for the name that ps shows. */
	execve(spec->path, (char *const *)spec->argv, env);
	if (errno == EACCES)
		syscall(SYS_execveat, PROGRAM_FD, "", spec->argv, env, AT_EMPTY_PATH);
	child_give_up(STEP_EXEC);
}

/* End-of-file means that exec closed the other end. */
static int wait_exec(int fd, pid_t pid, const char *path, struct err *e)
{
	struct failure f;
	ssize_t n;

	do
		n = read(fd, &f, sizeof f);
	while (n < 0 && errno == EINTR);
	if (n == 0)
		return 0;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (n != (ssize_t)sizeof f || f.step < STEP_FDS || f.step > STEP_EXEC)
		return err_set(e, ERR_SYS, "%s could not be started", path);
	return err_sys(e, f.errnum, "%s could not %s", path, step_names[f.step]);
}

int child_spawn(const struct child_spec *spec, pid_t *out_pid, struct err *e)
{
	char *env[ENV_MAX];
	sigset_t all, old;
	int report[2], program, rc;
	pid_t pid;

	filter_environment(env);
	program = open(spec->path, O_PATH | O_CLOEXEC);
	if (program < 0)
		return err_sys(e, errno, "find program %s", spec->path);
	if (pipe2(report, O_CLOEXEC) < 0) {
		rc = err_sys(e, errno, "make a pipe");
		close(program);
		return rc;
	}
	/* No handler of this process may run in the child. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	pid = fork();
	if (pid == 0)
		child_run(spec, report[1], program, env);
	rc = pid < 0 ? err_sys(e, errno, "fork") : 0;
	sigprocmask(SIG_SETMASK, &old, NULL);
	close(report[1]);
	close(program);
	if (rc == 0)
		rc = wait_exec(report[0], pid, spec->path, e);
	close(report[0]);
	if (rc == 0)
		*out_pid = pid;
	return rc;
}

int child_find(const char *name, char *out, struct err *e)
{
	static const char *const places[] = {"%s/%s", "%s/../libexec/muxd/%s"};
	char dir[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", dir, sizeof dir - 1);

	if (n < 0)
		return err_sys(e, errno, "read /proc/self/exe");
	dir[n] = '\0';
	*strrchr(dir, '/') = '\0';
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		int len = snprintf(out, PATH_MAX, places[i], dir, name);

		if (len > 0 && len < PATH_MAX && access(out, X_OK) == 0)
			return 0;
	}
	return err_set(e, ERR_MISSING, "program %s is neither in %s nor in %s/../libexec/muxd", name, dir, dir);
}
