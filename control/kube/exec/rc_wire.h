/*
 * rc_wire.h - WebSocket frames as a client sees them: RFC 6455, without extensions. Pure.
 *
 * Why not libwebsockets: 4.1.6 takes frames apart byte by byte, 4 ns each, which alone is more than the rest of an exec
 * stream costs; docs/architecture.md has the figures and the other reasons.
 */
#ifndef CONTROL_KUBE_EXEC_RC_WIRE_H
#define CONTROL_KUBE_EXEC_RC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum rc_opcode { RC_OP_CONT = 0, RC_OP_TEXT = 1, RC_OP_BINARY = 2, RC_OP_CLOSE = 8, RC_OP_PING = 9, RC_OP_PONG = 10 };

#define RC_WIRE_HEAD_MAX    14  /* of a frame of ours */
#define RC_WIRE_CONTROL_MAX 125 /* payload of ping, pong, close */

/* Zeroed at the start; belongs to one connection. */
struct rc_wire {
	uint8_t head[10]; /* of the frame that is begun */
	uint8_t have;     /* bytes of it */
	bool in_frame;    /* its head is whole, `left` bytes of payload are to come */
	bool in_message;  /* a message was begun and not ended */
	uint64_t left;
	uint8_t control[RC_WIRE_CONTROL_MAX];
	uint8_t control_len;
};

enum rc_wire_kind {
	RC_WIRE_NOTHING, /* all was taken, nothing came of it */
	RC_WIRE_DATA,    /* the next bytes of a message, perhaps none; last: its end */
	RC_WIRE_PING,
	RC_WIRE_PONG,
	RC_WIRE_CLOSE, /* p: two bytes of code and a reason, or nothing */
};

struct rc_wire_event {
	enum rc_wire_kind kind;
	const uint8_t *p; /* DATA: inside what was given; else inside the rc_wire, until the next call */
	size_t n;
	bool last;
};

/* Takes what makes one event, at most n. Returns the bytes taken (0 only for n = 0); ERR_PROTOCOL and what broke it. */
ssize_t rc_wire_decode(struct rc_wire *w, const uint8_t *p, size_t n, struct rc_wire_event *ev, struct err *e);

/* A whole message or control frame: its head, with the mask in it. Returns the head's length. */
size_t rc_wire_head(enum rc_opcode op, size_t n, const uint8_t mask[4], uint8_t out[RC_WIRE_HEAD_MAX]);
/* Masked bytes n of from into to (may be the same). at: how many of the frame went before. */
void rc_wire_mask(const uint8_t *from, uint8_t *to, size_t n, const uint8_t mask[4], size_t at);

#define RC_WIRE_KEY_LEN    24 /* Sec-WebSocket-Key and -Accept: 24 and 28 characters of base64 */
#define RC_WIRE_ACCEPT_LEN 28
/* 16 random bytes make a key. ERR_INTERNAL when there is no randomness. */
int rc_wire_key(char out[RC_WIRE_KEY_LEN + 1]);
void rc_wire_accept(const char *key, char out[RC_WIRE_ACCEPT_LEN + 1]);

#endif
