/*
 * msg.h - length-prefixed messages on a local stream socket (recorder.sock, hub.sock).
 *
 *   u32 length of what follows | u8 kind: 'J' JSON, 'B' bytes | payload
 *
 * Little-endian. A 'B' payload begins with one byte that its conversation
 * defines (a stream number). Length 1 to MSG_MAX; anything else is ERR_PROTOCOL.
 */
#ifndef BASE_MSG_H
#define BASE_MSG_H

#include "base/json.h"

#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

#define MSG_MAX    (1024 * 1024)
#define MSG_HEADER 5

struct msg {
	char kind;              /* 'J' or 'B' */
	const uint8_t *payload; /* borrowed from the buffer until it changes */
	size_t len;
};

int msg_put_json(struct buf *out, const json_t *o);
int msg_put_bytes(struct buf *out, uint8_t first, const void *p, size_t n);
/* Next whole message at the front of in: 1 and *out, 0 when more is needed, ERR_PROTOCOL. *out_size to consume after.
 */
int msg_next(const struct buf *in, struct msg *out, size_t *out_size);
/* Blocking client helpers (muxctl, tests). */
int msg_send_json(int fd, const json_t *o, struct err *e);
/* Reads until one whole message is in `in`; the previous one must have been consumed. ERR_EOF. */
int msg_recv(int fd, struct buf *in, struct msg *out, size_t *out_size, struct err *e);

#endif
