/*
 * spawn_child.h - the side of a spawn that runs between fork and exec.
 *
 * The monitor may have threads, so only calls that are safe in a signal handler
 * are made here. Every failure is one spawn_report on the status socket.
 */
#ifndef CONTROL_LOCAL_SPAWN_CHILD_H
#define CONTROL_LOCAL_SPAWN_CHILD_H

#include "control/local/spawn.h"

/* X(NAME, what was being done) */
#define SPAWN_STAGES(X)                                                                                                \
	X(FORK, "start a process")                                                                                     \
	X(NAMESPACE, "make a mount namespace")                                                                         \
	X(PRIVATE, "make mounts private (is the root directory a plain chroot, not a mount of its own?)")              \
	X(STAGING, "mount the staging directory")                                                                      \
	X(WORKSPACE, "mount the workspace")                                                                            \
	X(OWNER, "give the workspace to the sandbox's uid")                                                            \
	X(MUXLET, "bind muxlet")                                                                                       \
	X(IMAGE, "bind the root of its image")                                                                         \
	X(CGROUP, "join the control groups")                                                                           \
	X(LIMITS, "set resource limits")                                                                               \
	X(IDS, "take the sandbox's uid")                                                                               \
	X(DESCRIPTORS, "arrange descriptors")                                                                          \
	X(EXEC, "run bwrap")

enum spawn_stage {
#define SPAWN_ENUM_(name, text) STAGE_##name,
	SPAWN_STAGES(SPAWN_ENUM_)
#undef SPAWN_ENUM_
	    STAGE_END
};

struct spawn_report {
	int32_t pid;   /* first report: who I am */
	int32_t stage; /* last report: what failed */
	int32_t error;
};

/* Everything prepared before the fork, nothing allocated after. */
struct spawn_child {
	const struct spawn_params *p;
	int status;                                  /* socket to the parent */
	int fds[CMDLINE_FD_DATA + CMDLINE_DATA_MAX]; /* fds[i] becomes descriptor i; all are far above */
	int nfds;
	char workspace[64], muxlet[64], image[64]; /* paths below staging */
	char owner[32];                            /* "uid:gid" */
};

/* Never returns. */
void spawn_child_run(const struct spawn_child *c) __attribute__((noreturn));

#endif
