/*
 * spawn.h - from a prepared command line to a running sandbox that is nobody's child.
 *
 * The process that becomes bwrap is a grandchild, so it is reaped by the
 * system's init and not bound to the monitor's life. Between fork and exec it
 * does, as root, what only root can: a mount namespace of its own, the
 * workspace mounted in it, cgroups joined, then its own uid without any group.
 * It waits for a word of ours before it starts, and muxlet waits for its
 * secret: a monitor that dies in between leaves nothing running.
 *
 * States: SPAWN_NONE -> SPAWN_STARTED (bwrap made process 1) -> SPAWN_READY
 * (muxlet took its secret); any failure ends with spawn_abort().
 */
#ifndef CONTROL_LOCAL_SPAWN_H
#define CONTROL_LOCAL_SPAWN_H

#include "control/local/cgroup.h"
#include "control/local/cmdline.h"
#include "control/local/found.h"

struct err;

#define SPAWN_SECRET_LEN 32
#define SPAWN_TAIL_MAX   4096

enum spawn_state { SPAWN_NONE, SPAWN_STARTED, SPAWN_READY };

struct spawn_params {
	const char *agent; /* for the log */
	const struct cmdline *cmdline;
	int listen_fd, seccomp_fd;
	int programs_fd; /* cgroup.procs of the group for programs; -1: there is none */
	bool root;
	/* root only */
	uid_t uid;
	gid_t gid;
	const char *staging; /* a directory of the host that is covered, for this sandbox alone, by what bwrap binds */
	const char *loop;    /* device to mount as the workspace; NULL: workspace_fd is bound instead */
	int workspace_fd;    /* plain directory, -1 with loop */
	const char *muxlet;  /* the program's file */
	const char *image;   /* the root of an image; NULL: none */
	bool fresh;          /* a new file system: its lost+found goes */
	int cgroup_fds[CGROUP_KINDS];
	int ncgroup_fds;
	bool own_cpu;       /* a group shares out its processor time, so priorities count within the sandbox alone */
	uint32_t nproc_max; /* resource limit of processes, for the uid is this sandbox's alone; 0 = none */
};

struct spawn {
	enum spawn_state state;
	struct found outer, init;
	int outer_fd, init_fd;         /* pidfds */
	int secret_fd;                 /* write end */
	int secret_read_fd;            /* kept until the secret is written: no SIGPIPE when the reader has died */
	int stderr_fd;                 /* read end */
	char tail[SPAWN_TAIL_MAX + 1]; /* the last of what bwrap said */
	size_t tail_len;
};

/* Paths below staging, for cmdline_params. */
#define SPAWN_WORKSPACE "workspace"
#define SPAWN_MUXLET    "muxlet"
#define SPAWN_IMAGE     "image"

/* The first directory of this host that can serve as staging. ERR_MISSING. */
int spawn_staging(const char **out, struct err *e);
/* Until bwrap made process 1. ERR_SANDBOX_CREATE with the step or bwrap's own words; ERR_SANDBOX_TIMEOUT. */
int spawn_start(const struct spawn_params *p, uint64_t deadline_ns, struct spawn *out, struct err *e);
/* Hands over the secret and waits until muxlet took it. */
int spawn_finish_start(struct spawn *s, const char *agent, const uint8_t secret[SPAWN_SECRET_LEN], uint64_t deadline_ns,
		       struct err *e);
/* Kills what was started. The tail stays readable. */
void spawn_abort(struct spawn *s, const char *agent);
/* Closes descriptors; ends nothing. */
void spawn_close(struct spawn *s);

#endif
