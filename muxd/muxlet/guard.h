/*
 * guard.h - the system calls by which a program that muxlet started could change muxlet.
 *
 * In a pod both are of one user and in one pid namespace, and muxlet is not its process 1: limits, priorities,
 * processors and signals of muxlet are anybody's there. A filter of its own forbids them to what muxlet starts, and
 * to all that comes of it. Locally bwrap lays the same (control/local/seccomp.c), and more, before muxlet is begun.
 */
#ifndef MUXD_MUXLET_GUARD_H
#define MUXD_MUXLET_GUARD_H

#include <linux/filter.h>
#include <stdbool.h>
#include <sys/types.h>

#define GUARD_MAX 256 /* instructions */

struct guard {
	struct sock_filter code[GUARD_MAX];
	unsigned short n; /* 0: there is none to be laid */
};

/* For that muxlet, with the threads it has when this is called (pipes.h: a row of numbers); n 0 on a machine whose
 * calls are not known here. */
void guard_make(struct guard *g, pid_t self, pid_t group);
/*
 * Can it be laid here? Only where no program can gain rights anyway (no_new_privs, which every pod of muxd's has):
 * elsewhere it would take setuid programs from people.
 */
bool guard_applies(void);
/*
 * Does whoever runs the container let it be laid? Not where its profile refuses the calls for it, to everybody: there
 * programs run without, since nothing could run with it.
 */
bool guard_allowed(void);
/* Over the caller, for good. System calls alone: it is called between a child's start and its exec. 0, or -1 with
 * errno. */
int guard_lay(const struct guard *g);

#endif
