/*
 * keyframer.h - makes keyframes of sealed recordings, one after the other, in the background.
 *
 * One thread of its own, which draws (drawing.h) and writes. A worker that dies costs the keyframes behind that place.
 *
 * States: IDLE -> DRAWING -> IDLE.
 */
#ifndef RECORDER_DRAW_KEYFRAMER_H
#define RECORDER_DRAW_KEYFRAMER_H

#include "base/ids.h"
#include "recorder/draw/keyframes.h"

struct drawers;
struct err;
struct keyframer;

#define KEYFRAMER_QUEUE_MAX 1024

struct keyframer_params {
	const char *dir; /* the state directory's record/ */
	struct drawers *drawers;
	/* What the chain log says of a recording's file: its root, or "" (hex); ERR_*. */
	int (*known)(void *arg, const struct id *session, char out_root[65], struct err *e);
	/* A file was made: into the log with it. Only then is it used. */
	int (*made)(void *arg, const struct id *session, const struct keyframes_digest *d, struct err *e);
	void *arg;
};

int keyframer_create(const struct keyframer_params *p, struct keyframer **out, struct err *e);
void keyframer_destroy(struct keyframer *k); /* ends what is being drawn; NULL-safe */
/* A recording that was sealed, or whose keyframes somebody missed. From any thread; the queue full: it is not taken. */
void keyframer_want(struct keyframer *k, const struct id *session);

#endif
