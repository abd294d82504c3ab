/*
 * child.h - starting a program: a child on our memory, a session of its own, descriptors, exec.
 *
 * As vfork() makes one, because a round should cost what posix_spawn costs, which cannot give a
 * child a controlling terminal. Parent and child share memory until exec, so
 * what fails there is simply written to a struct. vfork() itself waits for as long as the child is stopped, which any
 * program of the same user can do to it; child_make() does not.
 */
#ifndef MUXD_MUXLET_CHILD_H
#define MUXD_MUXLET_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

#define CHILD_SECRET_FIRST 3
#define CHILD_SECRET_LAST  255

struct guard;

/*
 * Where muxlet may not go before others (in a pod, without root), what nobody of staff waits at goes behind: else as
 * many programs as an agent can start would hold up a shell for seconds.
 */
#define CHILD_NICE_WORK 10
#define CHILD_NICE_POD  19 /* in a pod of our own, where nobody else shares its processors */

/*
 * Where the program really is once it begins, and which file it is, every link followed: of a script the script, not
 * its interpreter. "" where the kernel tells none. What is too long ends, behind a whole character, with an ellipsis.
 */
#define CHILD_PATH_MAX 1024
struct child_place {
	char cwd[CHILD_PATH_MAX], program[CHILD_PATH_MAX];
};

struct child_fd {
	int from, to; /* from > CHILD_SECRET_LAST */
};

struct child {
	const char *file; /* with a slash: as it is, else looked for in path */
	char **argv;      /* argv[-1] is a slot for the interpreter of a script without #! */
	char **envp;
	const char *path; /* PATH of the child */
	const char *cwd;
	bool cwd_optional; /* stay where muxlet is when it does not exist */
	bool tty;          /* fd[0] becomes the controlling terminal */
	int fd[3];         /* all >= 3 */
	const struct child_fd *more;
	size_t nmore; /* sorted by `to` */
	struct rlimit files, procs;
	const struct guard *guard; /* laid over it; NULL: none */
	int nice;                  /* of what does not go first */
	bool first;                /* goes before others of the sandbox when the processor is short, as muxlet does */
	struct child_place *place; /* filled before the program begins; NULL: nobody asks */
};

enum child_at { CHILD_AT_SPAWN, CHILD_AT_TTY, CHILD_AT_CWD, CHILD_AT_GUARD, CHILD_AT_EXEC };

/* Why a program did not begin; error 0: it did, or has not yet. */
struct child_failure {
	int error;
	enum child_at at;
};

const char *child_at_name(enum child_at at); /* "spawn", "tty", "cwd", "guard", "exec" */
/*
 * A child that runs `run` on the caller's memory until it is a program or ends; the caller waits for that. A child that
 * is stopped meanwhile is told to go on, and is ended when it is stopped again and again. Its pid; or -1 and errno,
 * EAGAIN for one that was ended. `run` makes system calls alone, and does not return.
 */
pid_t child_make(int (*run)(void *arg), void *arg);
/* Since the last look, by somebody inside. */
bool child_was_stopped(pid_t pid);
/* 0 and the pid; else errno, and where. */
int child_spawn(const struct child *c, pid_t *out_pid, const char **out_at);
/*
 * The calling process becomes the program, or ends by 127 with the reason in *f. System calls alone, in the memory of
 * whoever made it (child_make).
 */
void child_become(const struct child *c, volatile struct child_failure *f) __attribute__((noreturn));
/* Where the kernel has to end somebody for want of memory: the caller, and what it starts, before muxlet. */
void child_ends_first(void);

#endif
