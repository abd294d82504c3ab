/*
 * cmdline.h - the command line of bwrap: everything that a sandbox can see, and nothing else.
 *
 * An allowlist: /usr read-only, the few files of /etc that programs need (some
 * made here, some the host's), fresh /proc, /dev, /tmp, /run and /var/tmp of
 * bounded size, /workspace, and muxlet as process 1. The files made here travel
 * in memory files, numbered from CMDLINE_FD_DATA on.
 */
#ifndef CONTROL_LOCAL_CMDLINE_H
#define CONTROL_LOCAL_CMDLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* Descriptor numbers as bwrap and muxlet find them. */
enum {
	CMDLINE_FD_LISTEN = 3,
	CMDLINE_FD_SECRET = 4,
	CMDLINE_FD_INFO = 5,
	CMDLINE_FD_SECCOMP = 6,
	CMDLINE_FD_PROGRAMS = 7,
	CMDLINE_FD_DATA = 8
};

#define CMDLINE_DATA_MAX 8
#define CMDLINE_ARGS_MAX 400

/* The root that stands in the place of the host's programs (rootfs.h). */
struct cmdline_image {
	const char *root; /* its path, as bwrap's uid can reach it */
	int fd;           /* it */
	const char *env;  /* NAME=VALUE, each with its NUL */
	size_t env_len;
};

struct cmdline_params {
	const char *bwrap;
	const char *agent;     /* host name inside */
	const char *workspace; /* path of the directory that becomes /workspace, as bwrap's uid can reach it */
	const char *muxlet;    /* likewise */
	const char *shell;     /* "" = bash where there is one, else sh; with an image never "" */
	const char *persist;   /* paths that are links into the workspace (base/persist.h) */
	const struct cmdline_image *image; /* NULL: the host's */
	bool read_only;                    /* the workspace */
	uint32_t pids;                     /* that programs may be at once; 0: muxlet sets no limit */
	bool programs; /* they have a group of memory of their own, whose cgroup.procs and directory are handed over */
	uint64_t memory_max; /* sizes of the memory file systems follow it */
};

struct cmdline {
	char *argv[CMDLINE_ARGS_MAX + 1];
	size_t n;
	int data[CMDLINE_DATA_MAX]; /* memory files, to be CMDLINE_FD_DATA + i */
	size_t ndata;
};

int cmdline_make(const struct cmdline_params *p, struct cmdline *out, struct err *e);
/* Frees the strings and closes the memory files. */
void cmdline_finish(struct cmdline *c);
/* A close-on-exec memory file with these bytes, read from the start. */
int cmdline_memfile(const char *name, const void *p, size_t n, int *out_fd, struct err *e);

#endif
