#include "muxd/doors/https/chunked.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/hex.h"

#define EXTRA_MAX 4096

/* RFC 9112, 7.1: blanks only before an extension, or at the end. */
static enum chunked_state behind_size(struct chunked *c, uint8_t b)
{
	if (b == '\r')
		return CHUNKED_SIZE_LF;
	if (b == ';')
		return CHUNKED_EXT;
	return (b == ' ' || b == '\t') && ++c->extra <= EXTRA_MAX ? CHUNKED_BLANK : CHUNKED_BROKEN;
}

static enum chunked_state in_size(struct chunked *c, uint8_t b)
{
	int v = hex_value(b);

	if (v >= 0) {
		if (++c->digits > 8)
			return CHUNKED_BROKEN;
		c->left = c->left << 4 | (uint32_t)v;
		return CHUNKED_SIZE;
	}
	return c->digits ? behind_size(c, b) : CHUNKED_BROKEN;
}

static enum chunked_state in_extra(struct chunked *c, uint8_t b, enum chunked_state stay, enum chunked_state at_cr)
{
	if (b == '\r')
		return at_cr;
	if ((b < 0x20 && b != '\t') || b == 0x7f || ++c->extra > EXTRA_MAX)
		return CHUNKED_BROKEN;
	return stay;
}

static enum chunked_state after_size(struct chunked *c, uint8_t b)
{
	c->digits = 0;
	if (b != '\n')
		return CHUNKED_BROKEN;
	return c->left ? CHUNKED_DATA : CHUNKED_TRAILER;
}

static enum chunked_state next_state(struct chunked *c, uint8_t b)
{
	switch (c->state) {
	case CHUNKED_SIZE:
		return in_size(c, b);
	case CHUNKED_BLANK:
		return behind_size(c, b);
	case CHUNKED_EXT:
		return in_extra(c, b, CHUNKED_EXT, CHUNKED_SIZE_LF);
	case CHUNKED_SIZE_LF:
		return after_size(c, b);
	case CHUNKED_DATA_CR:
		return b == '\r' ? CHUNKED_DATA_LF : CHUNKED_BROKEN;
	case CHUNKED_DATA_LF:
		return b == '\n' ? CHUNKED_SIZE : CHUNKED_BROKEN;
	case CHUNKED_TRAILER:
		return in_extra(c, b, CHUNKED_TRAILER_LINE, CHUNKED_LAST_LF);
	case CHUNKED_TRAILER_LINE:
		return in_extra(c, b, CHUNKED_TRAILER_LINE, CHUNKED_TRAILER_LF);
	case CHUNKED_TRAILER_LF:
		return b == '\n' ? CHUNKED_TRAILER : CHUNKED_BROKEN;
	case CHUNKED_LAST_LF:
		return b == '\n' ? CHUNKED_DONE : CHUNKED_BROKEN;
	default: /* DATA is taken in pieces; nothing may follow DONE */
		return CHUNKED_BROKEN;
	}
}

int chunked_feed(struct chunked *c, const uint8_t *p, size_t n, struct buf *out)
{
	while (n && c->state != CHUNKED_BROKEN) {
		size_t take = 1;

		if (c->state == CHUNKED_DATA) {
			int rc;

			take = n < c->left ? n : c->left;
			rc = buf_append(out, p, take);
			if (rc)
				return rc;
			c->left -= (uint32_t)take;
			if (!c->left)
				c->state = CHUNKED_DATA_CR;
		} else if (c->state == CHUNKED_DONE) {
			break;
		} else {
			c->state = next_state(c, *p);
		}
		p += take;
		n -= take;
	}
	return c->state == CHUNKED_BROKEN ? ERR_INVAL : 0;
}
