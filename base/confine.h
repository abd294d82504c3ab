/*
 * confine.h - what a process gives up for good, by seccomp.
 *
 * Called once, before threads start and after everything that needs the lost
 * rights is done. It cannot be undone. No state.
 */
#ifndef BASE_CONFINE_H
#define BASE_CONFINE_H

struct err;

/*
 * No network and no other program: socket() of any family but AF_UNIX is EACCES,
 * so are execve() and execveat(). Needs PR_SET_NO_NEW_PRIVS or CAP_SYS_ADMIN.
 * ERR_UNSUPPORTED where the kernel has no seccomp filters.
 */
int confine_local(struct err *e);

/* No other program: execve() and execveat() are EACCES. The same needs, the same ERR_UNSUPPORTED. */
int confine_programs(struct err *e);

/*
 * Nothing but to read and write what is open, to get memory that holds no code, and to end: any other system call kills
 * the process (SIGSYS). The same needs, the same ERR_UNSUPPORTED.
 */
int confine_pure(struct err *e);

#endif
