/*
 * frame.h - what hub and screen worker say to each other (docs/protocol.md, "Screen workers").
 *
 *   u32 length of what follows | u8 type | payload         little-endian, over a stream socket
 *
 * Values; the frame's payload is borrowed from the buffer until that changes.
 */
#ifndef MUXD_SCREEN_FRAME_H
#define MUXD_SCREEN_FRAME_H

#include <stddef.h>
#include <stdint.h>

struct buf;

#define SCREEN_HEADER    5
#define SCREEN_FEED_MAX  (64 * 1024)   /* bytes of output in one frame */
#define SCREEN_SHOT_MAX  (1024 * 1024) /* bytes of one drawn screen */
#define SCREEN_SHOT_HEAD 16            /* what stands before them */
#define SCREEN_GRID_HEAD 12            /* of a GRID */
#define SCREEN_KEYS_HEAD 19
#define SCREEN_FOUND_MAX 256 /* commands between two questions */
#define SCREEN_FRAME_MAX (1 + SCREEN_SHOT_HEAD + SCREEN_SHOT_MAX)

enum screen_frame_type {
	/* to the worker */
	SCREEN_OPEN = 'O',   /* u64 offset, u16 cols, u16 rows: an empty screen; the first frame */
	SCREEN_FEED = 'F',   /* u64 offset, bytes: output from there on, without a hole */
	SCREEN_CUT = 'C',    /* u64 offset: the output up to there is missing */
	SCREEN_DRAW = 'D',   /* bytes that are no output: an earlier shot */
	SCREEN_RESIZE = 'R', /* u16 cols, u16 rows */
	SCREEN_SHOOT = 'S',  /* u32 tag: a shot of what was fed so far, please */
	SCREEN_LOOK = 'G',   /* u32 tag: the same as values, please */
	SCREEN_KEYS = 'K',   /* u64 offset of input, u64 when, u16 whose, u8 1: hidden, bytes: what was typed there */
	SCREEN_WHICH = 'V',  /* by which drawing do you draw? */
	SCREEN_ASK = 'A',    /* u8 1: nothing more comes, for now. The commands that were found since, please */
	/* from the worker */
	SCREEN_COMMAND = 'L', /* command.h; each before what follows */
	SCREEN_ASKED = 'E',   /* u32: so many more were found, and not kept */
	SCREEN_DRAWS = 'W',   /* text, at most 24 bytes: a version (version.h) */
	SCREEN_SHOT = 'P',    /* u32 tag, u64 offset, u16 cols, u16 rows, bytes; none: it is too large */
	SCREEN_GRID = 'Q',    /* u32 tag, u64 offset, picture.h; nothing behind these: it is too large */
};

struct screen_frame {
	uint8_t type;
	const uint8_t *payload;
	size_t len;
};

/* head and body are joined; body may be NULL. ERR_TOO_LARGE, ERR_NOMEM. */
int screen_frame_put(struct buf *out, uint8_t type, const void *head, size_t nhead, const void *body, size_t nbody);
/* The frame at the front of in: 1 and *out, 0 when more is needed, ERR_PROTOCOL. *out_size to consume afterwards. */
int screen_frame_next(const struct buf *in, struct screen_frame *out, size_t *out_size);

#endif
