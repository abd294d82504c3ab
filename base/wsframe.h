/*
 * wsframe.h - WebSocket frames, read by either end and written by a client: RFC 6455, without extensions. Pure.
 *
 * Why not libwebsockets: 4.1.6 takes frames apart byte by byte, 4 ns each, which alone is more than the rest of an exec
 * stream costs; and of a client it takes unmasked frames, lengths in more bytes than they need and a close of one byte,
 * which the RFC wants refused (5.1, 5.2, 5.5.1). docs/architecture.md has the figures and the other reasons.
 */
#ifndef BASE_WSFRAME_H
#define BASE_WSFRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum wsframe_opcode {
	WSFRAME_OP_CONT = 0,
	WSFRAME_OP_TEXT = 1,
	WSFRAME_OP_BINARY = 2,
	WSFRAME_OP_CLOSE = 8,
	WSFRAME_OP_PING = 9,
	WSFRAME_OP_PONG = 10
};

#define WSFRAME_HEAD_MAX    14  /* of a frame of ours */
#define WSFRAME_CONTROL_MAX 125 /* payload of ping, pong, close */

/* Zeroed at the start but for `server`; belongs to one connection. */
struct wsframe {
	bool server;         /* the frames are a client's, which masks them; else a server's */
	uint8_t head[14];    /* of the frame that is begun */
	uint8_t have;        /* bytes of it */
	bool in_frame;       /* its head is whole, `left` bytes of payload are to come */
	bool in_message;     /* a message was begun and not ended */
	bool text;           /* it is one of text */
	uint64_t left, done; /* of the payload */
	uint8_t control[WSFRAME_CONTROL_MAX];
	uint8_t control_len;
};

enum wsframe_kind {
	WSFRAME_NOTHING, /* all was taken, nothing came of it */
	WSFRAME_DATA,    /* the next bytes of a message, perhaps none; last: its end; text: it is not binary */
	WSFRAME_PING,
	WSFRAME_PONG,
	WSFRAME_CLOSE, /* p: two bytes of code and a reason, or nothing */
};

struct wsframe_event {
	enum wsframe_kind kind;
	const uint8_t *p; /* DATA: inside what was given; else inside the wsframe, until the next call */
	size_t n;
	bool last, text;
};

/*
 * Takes what makes one event, at most n. Returns the bytes taken (0 only for n = 0); ERR_PROTOCOL and what broke it.
 * Masks are taken off where the bytes lie.
 */
ssize_t wsframe_decode(struct wsframe *w, uint8_t *p, size_t n, struct wsframe_event *ev, struct err *e);

/* A whole message or control frame: its head, with the mask in it. Returns the head's length. */
size_t wsframe_head(enum wsframe_opcode op, size_t n, const uint8_t mask[4], uint8_t out[WSFRAME_HEAD_MAX]);
/* Masked bytes n of from into to (may be the same). at: how many of the frame went before. */
void wsframe_mask(const uint8_t *from, uint8_t *to, size_t n, const uint8_t mask[4], size_t at);

#define WSFRAME_KEY_LEN    24 /* Sec-WebSocket-Key and -Accept: 24 and 28 characters of base64 */
#define WSFRAME_ACCEPT_LEN 28
/* 16 random bytes make a key. ERR_INTERNAL when there is no randomness. */
int wsframe_key(char out[WSFRAME_KEY_LEN + 1]);
void wsframe_accept(const char *key, char out[WSFRAME_ACCEPT_LEN + 1]);

#endif
