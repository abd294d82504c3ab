/*
 * screens.h - the screen workers that net and recorder asked for: started, counted, reaped.
 *
 * Embedded in the monitor. A worker gets one end of a stream and nothing else, net the other; it ends when that does,
 * by itself, and is not started again: net asks for another. The monitor reads nothing of what they say.
 */
#ifndef MUXD_MONITOR_SCREENS_H
#define MUXD_MONITOR_SCREENS_H

#include "muxd/monitor/file.h"

#include <limits.h>
#include <stddef.h>

struct err;

#define SCREENS_MAX 96 /* net keeps to fewer; the rest are on their way out */

struct screens {
	char path[PATH_MAX];   /* of muxd-screen */
	struct file_owner who; /* whom they run as */
	pid_t pids[SCREENS_MAX];
	size_t n;
};

/* ERR_MISSING: the program is not where the others are. */
int screens_find(struct screens *s, struct err *e);
#define SCREENS_NICE_WATCHED  5  /* somebody waits for it; people's keys come first */
#define SCREENS_NICE_RECORDED 10 /* nobody does */
/* nice: one of the two. *out_fd: net's or the recorder's end, the caller's. ERR_LIMIT. */
int screens_start(struct screens *s, int nice, int *out_fd, struct err *e);
void screens_reap(struct screens *s); /* after SIGCHLD */
void screens_finish(struct screens *s);

#endif
