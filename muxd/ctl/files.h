/*
 * files.h - one file between this machine and a sandbox, over a WebSocket of the API.
 *
 * Used by `muxctl put`, `muxctl get` and `muxctl demo`. A get's content goes to
 * a descriptor as it comes; whether it was whole is known at the end only, so the
 * caller gives the file its name after that.
 */
#ifndef MUXD_CTL_FILES_H
#define MUXD_CTL_FILES_H

#include "muxd/ctl/ctl.h"

struct file_wish {
	const char *agent, *path; /* path: any bytes but NUL */
	const char *task, *reason;
	long long mode;                     /* put: -1 = as it is there */
	long long size;                     /* put: -1 = until the end of fd */
	bool parents;                       /* put */
	bool raw;                           /* get: all of it onto a terminal, too */
	unsigned long long timeout_ns, ttl; /* 0: the daemon's defaults */
};

/* fd to the sandbox. *out: {op, path, size, mode, sha256, duration_ms}, the caller's. */
int files_put(struct ctl *c, const struct file_wish *w, int fd, json_t **out, struct err *e);
/* The other way; *out also has the mode and mtime that the file has there. */
int files_get(struct ctl *c, const struct file_wish *w, int fd, json_t **out, struct err *e);

#endif
