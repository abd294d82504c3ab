/*
 * child.h - starting a program of ours with nothing but descriptor 3.
 *
 * The child gets a session of its own (a Ctrl-C at the terminal is the
 * monitor's to handle), its uid and gid without supplementary groups,
 * no_new_privs, no core dumps, umask 077, an environment of a few harmless
 * names, and fd 3; every other descriptor but stderr is closed.
 *
 * PR_SET_PDEATHSIG is not used: it fires when the thread that forked ends, not
 * the process, and would kill a recorder between a write and its fdatasync. A
 * child sees the end of the monitor as end-of-file on fd 3 and ends in order.
 */
#ifndef MUXD_MONITOR_CHILD_H
#define MUXD_MONITOR_CHILD_H

#include "muxd/monitor/file.h"

#include <sys/resource.h>
#include <sys/types.h>

struct err;

struct child_spec {
	const char *path;
	const char *const *argv;
	const char *cwd;
	struct file_owner who; /* uid (uid_t)-1: stays as it is */
	rlim_t files;          /* RLIMIT_NOFILE wanted, as far as the hard limit allows */
	int ipc_fd;            /* becomes 3; stays open here */
	int nice;              /* 0: as this process */
};

/* Returns once the program runs; a failure before that (setresuid, execve ...) is named. */
int child_spawn(const struct child_spec *spec, pid_t *out_pid, struct err *e);
/* Path of a program beside this one, or in ../libexec/muxd. ERR_MISSING. out: PATH_MAX bytes. */
int child_find(const char *name, char *out, struct err *e);

#endif
