#include "muxd/doors/https/frames.h"

enum { CONTINUATION, TEXT, BINARY, CLOSE = 8, PING, PONG };

static bool is_control(const struct frames *f)
{
	return f->opcode & 8;
}

/* A data frame: the first of a message, or one that continues it. */
static const char *fragment(struct frames *f, bool final)
{
	bool continues = f->opcode == CONTINUATION;

	if (continues && !f->in_message)
		return "a frame continues a message that was not begun";
	if (!continues && f->in_message)
		return "a message begins inside another one";
	f->in_message = !final;
	return NULL;
}

static const char *head(struct frames *f, uint8_t b)
{
	f->opcode = b & 0x0f;
	f->left = 0;
	f->state = FRAMES_LENGTH;
	if (b & 0x70)
		return "a frame has reserved bits set";
	if (f->opcode > BINARY && (f->opcode < CLOSE || f->opcode > PONG))
		return "a frame has an opcode that is not known";
	if (!is_control(f))
		return fragment(f, b & 0x80);
	return b & 0x80 ? NULL : "a control frame comes in pieces";
}

static const char *length(struct frames *f, uint8_t b)
{
	uint8_t n = b & 0x7f;

	if (!(b & 0x80))
		return "a client's frames are masked";
	if (is_control(f) && n > 125)
		return "a control frame has more than 125 bytes";
	if (f->opcode == CLOSE && n == 1)
		return "a close frame has half a code";
	f->more = f->wide = n == 127 ? 8 : n == 126 ? 2 : 0;
	f->left = f->wide ? 0 : n;
	f->mask = 4;
	f->state = f->wide ? FRAMES_MORE : FRAMES_MASK;
	return NULL;
}

static const char *more(struct frames *f, uint8_t b)
{
	if (f->more == 8 && b & 0x80)
		return "a frame is longer than 2^63 bytes";
	f->left = f->left << 8 | b;
	if (--f->more)
		return NULL;
	f->state = FRAMES_MASK;
	return f->left < (f->wide == 2 ? 126u : 65536u) ? "a frame's length is in more bytes than it needs" : NULL;
}

static void mask(struct frames *f)
{
	if (!--f->mask)
		f->state = f->left ? FRAMES_PAYLOAD : FRAMES_HEAD;
}

static const char *frames_step(struct frames *f, uint8_t b)
{
	switch (f->state) {
	case FRAMES_HEAD:
		return head(f, b);
	case FRAMES_LENGTH:
		return length(f, b);
	case FRAMES_MORE:
		return more(f, b);
	default:
		mask(f);
		return NULL;
	}
}

const char *frames_look(struct frames *f, const uint8_t *p, size_t n)
{
	const char *wrong = NULL;

	while (n && !wrong) {
		size_t take = 1;

		if (f->state == FRAMES_PAYLOAD) {
			take = n < f->left ? n : (size_t)f->left;
			f->left -= take;
			if (!f->left)
				f->state = FRAMES_HEAD;
		} else {
			wrong = frames_step(f, *p);
		}
		p += take;
		n -= take;
	}
	return wrong;
}
