/*
 * drawer.h - a conversation with a screen worker of one's own, for threads that read recordings.
 *
 * What a program once wrote is parsed in a screen worker, a process without rights. The monitor starts it, or muxctl
 * for itself: the recorder starts nothing. A thread takes a fresh worker from the drawers and talks with it, blocking
 * (frame.h), until it lets it go. `drawers` belong to the process: asked by any thread, answered by the one that hears
 * the monitor.
 *
 * A worker that dies, or says what no frame is, ends the conversation with ERR_EOF: what killed it would kill the next.
 */
#ifndef RECORDER_DRAW_DRAWER_H
#define RECORDER_DRAW_DRAWER_H

#include "base/buf.h"
#include "base/ring.h"

#include <stdint.h>

#define DRAWER_VERSION_MAX 25

struct err;
struct drawers;
struct screen_frame;

struct drawers_params {
	int (*ask)(void *arg, struct err *e); /* asks for a worker, from any thread. The answer is drawers_answer() */
	void *arg;
};

int drawers_create(const struct drawers_params *p, struct drawers **out, struct err *e);
void drawers_destroy(struct drawers *d); /* nobody waits any more; NULL-safe */
/* A connected socket to a fresh worker, theirs now; -1: there is none to be had. */
void drawers_answer(struct drawers *d, int fd);
/* Whoever waits goes on without one, now and from here on. */
void drawers_stop(struct drawers *d);

struct drawer {
	int fd;
	struct buf out, in;
	uint64_t offset; /* of output: where the worker stands */
};

/* An empty screen. ERR_UNAVAILABLE: no worker is to be had now, and e is what the asking said. drawer_end() also after
 * an error. */
int drawer_begin(struct drawer *d, struct drawers *from, uint16_t cols, uint16_t rows, struct err *e);
void drawer_end(struct drawer *d);
int drawer_tell(struct drawer *d, uint8_t type, const void *head, size_t nhead, const void *body, size_t nbody);
int drawer_feed(struct drawer *d, const uint8_t *p, size_t n);
int drawer_cut(struct drawer *d, uint64_t to);
int drawer_resize(struct drawer *d, uint16_t cols, uint16_t rows);
/* An event of a recording that changes the screen: output, a hole in it, a resize. Others pass. */
int drawer_show(struct drawer *d, const struct ring_record *rec);
/* By which drawing the worker draws (muxd/screen/version.h): printable, never empty. To be asked before it is fed. */
int drawer_version(struct drawer *d, char out[DRAWER_VERSION_MAX], struct err *e);
/* The worker's next frame, valid until drawer_taken(). */
int drawer_hear(struct drawer *d, struct screen_frame *out);
void drawer_taken(struct drawer *d);

#endif
