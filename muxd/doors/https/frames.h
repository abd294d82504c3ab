/*
 * frames.h - the heads of a client's WebSocket frames, looked at before libwebsockets reads them.
 *
 * libwebsockets 4.1.6 takes unmasked frames from clients, lengths in more bytes than they need, and a close of one
 * byte, all of which RFC 6455 wants refused (5.1, 5.2, 5.5.1); and it answers a frame that continues no message (5.4)
 * with a close of its own, of which the door would not know. Payload is skipped, not copied.
 *
 * Pure. States: HEAD (first byte) -> LENGTH -> (MORE: of a long length) -> MASK -> PAYLOAD -> HEAD.
 */
#ifndef MUXD_DOORS_HTTPS_FRAMES_H
#define MUXD_DOORS_HTTPS_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum frames_state { FRAMES_HEAD, FRAMES_LENGTH, FRAMES_MORE, FRAMES_MASK, FRAMES_PAYLOAD };

struct frames {
	enum frames_state state; /* all zero at first */
	uint8_t opcode;
	bool in_message;    /* the last data frame was not its message's last */
	uint8_t more, wide; /* bytes of a long length still to come; all of them */
	uint8_t mask;       /* bytes of it still to come */
	uint64_t left;      /* of the payload */
};

/* The next n bytes. NULL: fine so far; else what is wrong, a static sentence, and nothing behind it means anything. */
const char *frames_look(struct frames *f, const uint8_t *p, size_t n);

#endif
