/*
 * stream.h - one byte stream from a hub: handshake, frames in, frames out.
 *
 * States: STREAM_HELLO (waits for the hub's) -> STREAM_PROOF -> STREAM_UP; any
 * of them -> closed and freed. Only the stream that is UP carries channels, and
 * there is one of it. Output goes out once per turn of the loop, in one writev.
 */
#ifndef MUXD_MUXLET_STREAM_H
#define MUXD_MUXLET_STREAM_H

#include "muxd/link/frame.h"
#include "muxd/muxlet/loop.h"

struct muxlet;
struct channel;
struct output;

enum stream_state { STREAM_HELLO, STREAM_PROOF, STREAM_UP };

#define STREAM_BATCH       16
#define STREAM_HEAD        144 /* an EXIT and its text, or the header of DATA */
#define STREAM_BATCH_MAX   (256 * 1024)
#define STREAM_QUANTUM     (64 * 1024) /* of one output in one batch */
#define STREAM_HOLD        3           /* turns that a flood alone waits, to go in one write */
#define STREAM_CTRL_MAX    (1024 * 1024)
#define STREAM_HELLO_MS    10000
#define STREAM_CONSUMED_MS 10
#define STREAM_OPENED_MS   5

/* A frame that was written in part: what is left of it goes first. */
struct rest {
	uint8_t head[STREAM_HEAD];
	size_t head_len, head_at;
	const uint8_t *data;
	size_t data_len;
	size_t frame_len;      /* payload of the whole frame */
	uint8_t *copy;         /* data's owner, when its spool went away */
	struct output *output; /* NULL: an EXIT, or the spool went away */
};

struct stream {
	struct muxlet *m;
	enum stream_state state;
	struct source r, w; /* a socket is r alone: then w.fd is -1 */
	struct timer timer; /* handshake; then frames that wait for company */
	struct frame_hello theirs, ours;
	uint8_t *in;
	size_t in_len, in_cap;
	uint8_t *ctrl; /* frames that are not DATA or EXIT */
	size_t ctrl_at, ctrl_len, ctrl_cap;
	struct rest rest;
	uint64_t heard_ns; /* the last byte from the hub */
	uint64_t lazy_ns;  /* when what waits for company must go; 0: nothing waits */
	unsigned held;     /* turns that a flood has waited */
	bool blocked;      /* the last write did not take everything */
	bool parting;      /* GOODBYE is the last of it: no frame goes behind that */
	bool broken;       /* to be closed at the end of the turn */
};

/* Takes both descriptors (the same one twice for a socket). NULL when out of memory; then they are closed. */
struct stream *stream_create(struct muxlet *m, int rfd, int wfd);
void stream_destroy(struct stream *s);
/* Where its program began. Left out where much else is queued: names are no reason to cut a hub. */
void stream_put_begun(struct stream *s, struct channel *c);
/* Queues a frame that is not DATA or EXIT. A hub that reads nothing while it asks is cut at STREAM_CTRL_MAX. */
void stream_put(struct stream *s, const struct frame *f);
/* Writes what there is, at the end of a turn. Failure marks it broken. */
void stream_flush(struct stream *s);
void stream_goodbye(struct stream *s, uint16_t code, const char *text);
/* An output's spool goes away: the frame of it that is half written must not. */
void stream_let_go(struct stream *s, struct output *o);
/* Bytes at the end of what was sent of o that the hub cannot have yet. */
size_t stream_on_the_way(const struct stream *s, const struct output *o);

/* handshake.c: a frame before STREAM_UP; -1 when the stream ends here. */
int handshake_frame(struct stream *s, const struct frame *f);

#endif
