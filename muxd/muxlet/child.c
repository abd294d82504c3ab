#include "muxd/muxlet/child.h"

#include "muxd/muxlet/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#define STACK      (64 * 1024) /* of a child until its exec */
#define LOOK_NS    2000000     /* one that is no program by then may have been stopped */
#define STOPS_MOST 100         /* found so often stopped, it is not let go on any more */

const char *child_at_name(enum child_at at)
{
	static const char *const names[] = {"spawn", "tty", "cwd", "guard", "exec"};

	return (unsigned)at < sizeof(names) / sizeof(names[0]) ? names[at] : names[CHILD_AT_SPAWN];
}

/* Everything in here runs in the child on the parent's memory: only system calls and this struct. */
static void child_fail(volatile struct child_failure *f, enum child_at at) __attribute__((noreturn));
static void child_fail(volatile struct child_failure *f, enum child_at at)
{
	f->error = errno;
	f->at = at;
	_exit(127);
}

/* Whatever is not meant for the child is close-on-exec; this also takes what muxlet itself inherited. */
static void close_others(const struct child *c)
{
	unsigned from = 3;

	for (size_t i = 0; i < c->nmore; i++) {
		if ((unsigned)c->more[i].to > from)
			(void)close_range(from, (unsigned)c->more[i].to - 1, 0);
		from = (unsigned)c->more[i].to + 1;
	}
	(void)close_range(from, ~0U, 0);
}

static void take_fds(const struct child *c, volatile struct child_failure *f)
{
	if (setsid() < 0)
		child_fail(f, CHILD_AT_SPAWN);
	if (c->tty && ioctl(c->fd[0], TIOCSCTTY, 0) < 0)
		child_fail(f, CHILD_AT_TTY);
	for (int i = 0; i < 3; i++)
		if (dup2(c->fd[i], i) < 0)
			child_fail(f, CHILD_AT_SPAWN);
	for (size_t i = 0; i < c->nmore; i++)
		if (dup2(c->more[i].from, c->more[i].to) < 0)
			child_fail(f, CHILD_AT_SPAWN);
	close_others(c);
}

static void reset_signals(void)
{
	struct sigaction sa;
	sigset_t none;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = SIG_DFL;
	(void)sigaction(SIGPIPE, &sa, NULL); /* the only one muxlet ignores */
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* ---- where it is and what it is */

static void keep_path(char out[CHILD_PATH_MAX], const char *path, size_t n)
{
	static const char ellipsis[] = "\xe2\x80\xa6";
	const size_t most = CHILD_PATH_MAX - sizeof(ellipsis);
	size_t cut = n < CHILD_PATH_MAX ? n : most;

	while (cut < n && cut > most - 4 && ((unsigned char)path[cut] & 0xc0) == 0x80)
		cut--;
	memcpy(out, path, cut);
	if (cut < n)
		memcpy(out + cut, ellipsis, sizeof(ellipsis));
	else
		out[cut] = '\0';
}

static void keep_link(char out[CHILD_PATH_MAX], const char *link, const char *otherwise)
{
	char path[PATH_MAX];
	ssize_t n = readlink(link, path, sizeof(path));

	if (n > 0)
		keep_path(out, path, (size_t)n);
	else
		keep_path(out, otherwise, strlen(otherwise));
}

/* The link of /proc names a directory that is gone, too. */
static void note_cwd(struct child_place *place)
{
	char path[PATH_MAX];
	long n = syscall(SYS_getcwd, path, sizeof(path));

	if (n > 1)
		keep_path(place->cwd, path, (size_t)n - 1);
	else
		keep_link(place->cwd, "/proc/self/cwd", "");
}

/* False with ENOENT: there is no such file. */
static bool note_program(struct child_place *place, const char *file)
{
	static const char dir[] = "/proc/self/fd/";
	char link[sizeof(dir) + 12], *at = link + sizeof(link) - 1;
	int fd = open(file, O_PATH | O_CLOEXEC);

	if (fd < 0) {
		keep_path(place->program, file, strlen(file));
		return errno != ENOENT;
	}
	*at = '\0';
	for (int i = fd; i || !*at; i /= 10)
		*--at = (char)('0' + i % 10);
	at -= sizeof(dir) - 1;
	memcpy(at, dir, sizeof(dir) - 1);
	keep_link(place->program, at, file);
	close(fd);
	return true;
}

/* A text without #! is run by the shell, as execvp does. */
static void exec_file(const struct child *c, const char *file)
{
	static const char sh[] = "/bin/sh";
	char **argv = c->argv;

	if (c->place && !note_program(c->place, file))
		return;
	execve(file, argv, c->envp);
	if (errno != ENOEXEC)
		return;
	argv[-1] = (char *)(uintptr_t)sh;
	argv[0] = (char *)(uintptr_t)file;
	execve(sh, argv - 1, c->envp);
}

static void exec_search(const struct child *c)
{
	char file[PATH_MAX];
	const char *dir = c->path, *end;
	size_t len = strlen(c->file);
	int denied = 0;

	for (;; dir = end + 1) {
		size_t n;

		end = strchrnul(dir, ':');
		n = (size_t)(end - dir);
		if (n + len + 2 <= sizeof(file)) {
			memcpy(file, dir, n);
			if (n)
				file[n++] = '/';
			memcpy(file + n, c->file, len + 1);
			exec_file(c, file);
			if (errno == EACCES)
				denied = EACCES;
			else if (errno != ENOENT && errno != ENOTDIR && errno != ENODEV && errno != ESTALE)
				return;
		}
		if (!*end)
			break;
	}
	errno = denied ? denied : ENOENT;
}

void child_become(const struct child *c, volatile struct child_failure *f)
{
	take_fds(c, f);
	if (chdir(c->cwd) < 0 && !(c->cwd_optional && errno == ENOENT))
		child_fail(f, CHILD_AT_CWD);
	if (c->place)
		note_cwd(c->place);
	(void)setrlimit(RLIMIT_NOFILE, &c->files);
	(void)setrlimit(RLIMIT_NPROC, &c->procs);
	if (!c->first)
		(void)setpriority(PRIO_PROCESS, 0,
				  c->nice); /* muxlet carries keys and goes first; what it starts does not */
	reset_signals();
	if (c->guard && guard_lay(c->guard))
		child_fail(f, CHILD_AT_GUARD);
	if (strchr(c->file, '/'))
		exec_file(c, c->file);
	else
		exec_search(c);
	child_fail(f, CHILD_AT_EXEC);
}

/* ---- making it */

bool child_was_stopped(pid_t pid)
{
	siginfo_t si = {0};

	return waitid(P_PID, (id_t)pid, &si, WSTOPPED | WNOHANG) == 0 && si.si_pid == pid;
}

/* Until the kernel empties the word, which wakes who waits, or LOOK_NS. By hand: libc would set errno. */
static void wait_for_word(const volatile pid_t *word, pid_t is)
{
	const struct timespec t = {.tv_nsec = LOOK_NS};
#if defined(__x86_64__)
	long rc = SYS_futex;
	register const struct timespec *r10 __asm__("r10") = &t;

	__asm__ volatile("syscall"
			 : "+a"(rc)
			 : "D"(word), "S"((long)FUTEX_WAIT), "d"((long)is), "r"(r10)
			 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = SYS_futex, x1 __asm__("x1") = FUTEX_WAIT, x2 __asm__("x2") = is;
	register const volatile pid_t *x0 __asm__("x0") = word;
	register const struct timespec *x3 __asm__("x3") = &t;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
#else
	(void)word, (void)is;
	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
#endif
}

/*
 * Until the kernel has emptied the word: the child is a program, or has ended. False: it was ended here. No call in
 * here fails: the child has our errno.
 */
static bool let_become(pid_t pid, const volatile pid_t *word)
{
	unsigned stops = 0;
	pid_t is;

	while ((is = *word)) {
		wait_for_word(word, is);
		if (!*word || !child_was_stopped(pid) || !*word) /* stopped as a program it is none of our business */
			continue;
		(void)kill(pid, ++stops < STOPS_MOST ? SIGCONT : SIGKILL);
	}
	return stops < STOPS_MOST;
}

pid_t child_make(int (*run)(void *arg), void *arg)
{
	_Alignas(64) uint8_t stack[STACK];
	volatile pid_t word = 0;
	bool became;
	pid_t pid = clone(run, stack + sizeof(stack), CLONE_VM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD,
			  arg, &word, NULL, &word);

	if (pid < 0)
		return -1;
	became = let_become(pid, &word);
#ifdef __SANITIZE_ADDRESS__
	/* The child left its frames by exec, still marked as frames are. */
	__asan_unpoison_memory_region(stack, sizeof(stack));
#endif
	if (became)
		return pid;
	errno = EAGAIN;
	return -1;
}

struct spawning {
	const struct child *child;
	volatile struct child_failure *failure;
};

static int muxlet_child_become(void *arg)
{
	const struct spawning *s = arg;

	child_become(s->child, s->failure);
}

int child_spawn(const struct child *c, pid_t *out_pid, const char **out_at)
{
	volatile struct child_failure f = {0, CHILD_AT_SPAWN};
	struct spawning s = {c, &f};
	pid_t pid = child_make(muxlet_child_become, &s);

	if (pid < 0)
		f = (struct child_failure){errno, CHILD_AT_SPAWN};
	if (f.error == 0) {
		*out_pid = pid;
		return 0;
	}
	*out_at = child_at_name(f.at);
	return f.error; /* the corpse is reaped by SIGCHLD like any orphan */
}

void child_ends_first(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, "1000", 4);
	close(fd);
}
