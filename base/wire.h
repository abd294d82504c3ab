/*
 * wire.h - the messages of a session's WebSocket (docs/protocol.md, "The browser door"): a page's terminal, and
 * muxctl's exec and attach.
 *
 * Every message is one binary WebSocket message: a byte that says its type, then
 * fields, little-endian. Pure: bytes in, a struct or ERR_INVAL with a sentence out.
 */
#ifndef BASE_WIRE_H
#define BASE_WIRE_H

#include "base/json.h"

#include <stddef.h>
#include <stdint.h>

struct err;
struct buf;

#define WIRE_SUBPROTOCOL "muxd.v1"
#define WIRE_CLIENT_MAX  (64 * 1024 + 1) /* of a client's message; START is as long as a body */
#define WEB_SCREEN_HEAD  13              /* type, offset and size in front of a screen */
#define WIRE_OUTPUT_HEAD 9               /* type and offset in front of output */
#define WIRE_OUTPUT_MAX  (45 * 1024)     /* bytes of output in one message */
#define WIRE_PING_MAX    32
#define WIRE_SIZE_MAX    4096        /* columns, rows */
#define WIRE_TAKEN_STEP  (32 * 1024) /* of input: a TAKEN each */
#define WIRE_TAKEN_LEN   9

enum web_type {
	/* from the client */
	WIRE_INPUT = 0x00,
	WIRE_RESIZE = 0x20,
	WIRE_WINDOW = 0x21,
	WIRE_PING = 0x22,
	WIRE_SIGNAL = 0x23,
	WIRE_EOF = 0x24,
	WIRE_START = 0x25,
	/* from the server */
	WIRE_OUTPUT = 0x01,
	WIRE_STDERR = 0x02,
	WIRE_OPENED = 0x10,
	WIRE_NOTICE = 0x11,
	WIRE_SKIPPED = 0x12,
	WIRE_EXIT = 0x13,
	WIRE_ERROR = 0x14,
	WIRE_PONG = 0x15,
	WIRE_SCREEN = 0x16,
	WIRE_RESIZED = 0x17,
	WIRE_TAKEN = 0x18,
	WIRE_ROUND = 0x19,
	WIRE_FILE = 0x1a,
};

struct web_message {
	enum web_type type;
	const uint8_t *p; /* INPUT, PING, START: borrowed */
	size_t n;
	uint16_t cols, rows, xpixel, ypixel; /* RESIZE: within bounds */
	uint8_t stream;                      /* WINDOW: 1 or 2 */
	uint64_t offset;                     /* WINDOW: up to which output may be sent */
	uint8_t signal;                      /* SIGNAL: 1 to 64 */
};

/* ERR_INVAL, with the sentence that the client is told. */
int web_wire_parse(const uint8_t *p, size_t n, struct web_message *out, struct err *e);

/* Appends one message to b, with its length (u32) in front. ERR_TOO_LARGE, ERR_NOMEM: nothing was added. */
int web_wire_put(struct buf *b, enum web_type type, const void *p, size_t n);
int web_wire_put_json(struct buf *b, enum web_type type, const json_t *o);
int web_wire_put_skipped(struct buf *b, int stream, uint64_t from, uint64_t to);
int web_wire_put_resized(struct buf *b, unsigned cols, unsigned rows);
/* The head of an OUTPUT or STDERR message: WIRE_OUTPUT_HEAD bytes. */
void web_wire_screen_head(uint8_t *p, uint64_t offset, unsigned cols, unsigned rows); /* WEB_SCREEN_HEAD bytes */
void web_wire_output_head(uint8_t *p, int stream, uint64_t offset);
void web_wire_taken(uint8_t *p, uint64_t total); /* the message: WIRE_TAKEN_LEN bytes */

#endif
