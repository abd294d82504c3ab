/*
 * workers.h - the screen workers that muxctl starts, to draw keyframes of a recording again.
 *
 * What a program once wrote is not parsed in muxctl: as with the daemon, muxd-screen does that, a process without
 * rights. Root's workers run as the uid that the daemon's have. One at a time: whoever asks for the next is done with
 * the one before. Owned by the command, and passed to verify as its drawers.
 */
#ifndef MUXD_CTL_WORKERS_H
#define MUXD_CTL_WORKERS_H

#include "muxd/monitor/screens.h"

struct drawers;

struct workers {
	struct screens screens;
	struct drawers *drawers; /* to be asked for them */
};

/* ERR_MISSING: muxd-screen is not there. w must stay where it is until workers_finish(). */
int workers_begin(struct workers *w, struct err *e);
void workers_finish(struct workers *w); /* also of one that is all zeros */

#endif
