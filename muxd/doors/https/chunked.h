/*
 * chunked.h - the framing of Transfer-Encoding: chunked, taken off a request body.
 *
 * libwebsockets hands a chunked body over with its framing. Strict: sizes of at
 * most 8 hex digits, CRLF line ends, extensions and trailers bounded and
 * dropped; bytes after the end are not looked at. Values, no ownership.
 *
 * States: SIZE -> (BLANK -> EXT) -> SIZE_LF -> DATA -> DATA_CR -> DATA_LF -> SIZE ...;
 * size 0: -> TRAILER (lines) -> DONE. BROKEN is final.
 */
#ifndef MUXD_DOORS_HTTPS_CHUNKED_H
#define MUXD_DOORS_HTTPS_CHUNKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

enum chunked_state {
	CHUNKED_SIZE,
	CHUNKED_BLANK,
	CHUNKED_EXT,
	CHUNKED_SIZE_LF,
	CHUNKED_DATA,
	CHUNKED_DATA_CR,
	CHUNKED_DATA_LF,
	CHUNKED_TRAILER,
	CHUNKED_TRAILER_LINE,
	CHUNKED_TRAILER_LF,
	CHUNKED_LAST_LF,
	CHUNKED_DONE,
	CHUNKED_BROKEN,
};

struct chunked {
	enum chunked_state state;
	uint32_t left;   /* of the chunk; the size while it is read */
	uint32_t digits; /* of the size read */
	uint32_t extra;  /* bytes of extensions and trailers so far */
};

/*
 * Bytes of the wire; payload goes to out. 0: more is needed or done (see
 * chunked_done), ERR_INVAL: broken framing, ERR_TOO_LARGE: out is full.
 */
int chunked_feed(struct chunked *c, const uint8_t *p, size_t n, struct buf *out);
static inline bool chunked_done(const struct chunked *c)
{
	return c->state == CHUNKED_DONE;
}

#endif
