#include "base/wsframe.h"

#include "base/err.h"

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <string.h>

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

static uint8_t opcode(const struct wsframe *w)
{
	return w->head[0] & 0x0f;
}

static bool final(const struct wsframe *w)
{
	return w->head[0] & 0x80;
}

static bool is_control(uint8_t op)
{
	return op & 8;
}

/* Bytes that the length stands in, behind the first two. */
static size_t wide(const struct wsframe *w)
{
	uint8_t n = w->have < 2 ? 0 : w->head[1] & 0x7f;

	return n == 127 ? 8 : n == 126 ? 2 : 0;
}

/* Bytes of the head, as far as the first two tell; 2 before that. */
static size_t head_len(const struct wsframe *w)
{
	return 2 + wide(w) + (w->server && w->have >= 2 ? 4 : 0);
}

static uint64_t payload_len(const struct wsframe *w)
{
	uint64_t len = 0;

	if (wide(w) == 0)
		return w->head[1] & 0x7f;
	for (size_t i = 0; i < wide(w); i++)
		len = len << 8 | w->head[2 + i];
	return len;
}

/* What the first byte says that section 5 forbids. */
static const char *wrong_kind(const struct wsframe *w)
{
	uint8_t op = opcode(w);

	if (w->head[0] & 0x70)
		return "a frame has reserved bits set";
	if (op > WSFRAME_OP_PONG || (op > WSFRAME_OP_BINARY && op < WSFRAME_OP_CLOSE))
		return "a frame has an opcode that is not known";
	if (is_control(op))
		return final(w) ? NULL : "a control frame comes in pieces";
	if (op == WSFRAME_OP_CONT && !w->in_message)
		return "a frame continues a message that was not begun";
	return op != WSFRAME_OP_CONT && w->in_message ? "a message begins inside another one" : NULL;
}

/* The same of the second. */
static const char *wrong_length(const struct wsframe *w)
{
	uint8_t n = w->head[1] & 0x7f;

	if (!(w->head[1] & 0x80) == w->server)
		return w->server ? "a client's frames are masked" : "a server's frames are not masked";
	if (is_control(opcode(w)) && n > WSFRAME_CONTROL_MAX)
		return "a control frame has more than 125 bytes";
	return opcode(w) == WSFRAME_OP_CLOSE && n == 1 ? "a close frame has half a code" : NULL;
}

/* And of a length in several bytes. */
static const char *wrong_size(const struct wsframe *w)
{
	uint64_t len = payload_len(w), least = wide(w) == 8 ? 65536 : wide(w) == 2 ? 126 : 0;

	if (len >> 63)
		return "a frame is longer than 2^63 bytes";
	return w->server && len < least ? "a frame's length is in more bytes than it needs" : NULL;
}

static const char *wrong_so_far(const struct wsframe *w)
{
	if (w->have == 1)
		return wrong_kind(w);
	if (w->have == 2)
		return wrong_length(w);
	if (w->have == 3 && wide(w) == 8)
		return w->head[2] & 0x80 ? "a frame is longer than 2^63 bytes" : NULL;
	return w->have == 2 + wide(w) ? wrong_size(w) : NULL;
}

/* Takes bytes of the head, each judged as it comes. 1 when it is whole. */
static int wsframe_take_head(struct wsframe *w, uint8_t **p, size_t *n, struct err *e)
{
	const char *why;

	while (*n > 0 && w->have < head_len(w)) {
		w->head[w->have++] = *(*p)++;
		(*n)--;
		why = wrong_so_far(w);
		if (why)
			return err_set(e, ERR_PROTOCOL, "%s", why);
	}
	if (w->have < 2 || w->have < head_len(w))
		return 0;
	w->left = payload_len(w);
	w->done = 0;
	w->in_frame = true;
	w->control_len = 0;
	if (!is_control(opcode(w))) {
		w->text = w->in_message ? w->text : opcode(w) == WSFRAME_OP_TEXT;
		w->in_message = true;
	}
	return 1;
}

static void frame_over(struct wsframe *w)
{
	w->in_frame = false;
	w->have = 0;
	if (!is_control(opcode(w)) && final(w))
		w->in_message = false;
}

static void control_event(struct wsframe *w, struct wsframe_event *ev)
{
	uint8_t op = opcode(w);

	ev->kind = op == WSFRAME_OP_PING ? WSFRAME_PING : op == WSFRAME_OP_PONG ? WSFRAME_PONG : WSFRAME_CLOSE;
	ev->p = w->control;
	ev->n = w->control_len;
}

ssize_t wsframe_decode(struct wsframe *w, uint8_t *p, size_t n, struct wsframe_event *ev, struct err *e)
{
	const uint8_t *from = p;
	size_t take;
	int rc = 1;

	*ev = (struct wsframe_event){.kind = WSFRAME_NOTHING};
	if (!w->in_frame)
		rc = wsframe_take_head(w, &p, &n, e);
	if (rc <= 0)
		return rc < 0 ? rc : p - from;
	take = n < w->left ? n : (size_t)w->left;
	if (w->server)
		wsframe_mask(p, p, take, w->head + head_len(w) - 4, w->done & 3);
	w->left -= take;
	w->done += take;
	if (is_control(opcode(w))) {
		memcpy(w->control + w->control_len, p, take);
		w->control_len = (uint8_t)(w->control_len + take);
		if (w->left == 0)
			control_event(w, ev);
	} else if (take > 0 || w->left == 0) {
		ev->kind = WSFRAME_DATA;
		ev->p = p;
		ev->n = take;
		ev->last = w->left == 0 && final(w);
		ev->text = w->text;
	}
	if (w->left == 0)
		frame_over(w);
	return p + take - from;
}

size_t wsframe_head(enum wsframe_opcode op, size_t n, const uint8_t mask[4], uint8_t out[WSFRAME_HEAD_MAX])
{
	size_t len = n < 126 ? 0 : n < 65536 ? 2 : 8;

	out[0] = (uint8_t)(0x80 | op);
	out[1] = (uint8_t)(0x80 | (len == 0 ? n : len == 2 ? 126 : 127));
	for (size_t i = 0; i < len; i++)
		out[2 + i] = (uint8_t)((uint64_t)n >> (8 * (len - 1 - i)));
	memcpy(out + 2 + len, mask, 4);
	return 2 + len + 4;
}

void wsframe_mask(const uint8_t *from, uint8_t *to, size_t n, const uint8_t mask[4], size_t at)
{
	uint8_t turned[8];
	uint64_t m, v;
	size_t i = 0;

	for (size_t k = 0; k < sizeof(turned); k++)
		turned[k] = mask[(at + k) & 3];
	memcpy(&m, turned, sizeof(m));
	for (; i + sizeof(v) <= n; i += sizeof(v)) {
		memcpy(&v, from + i, sizeof(v));
		v ^= m;
		memcpy(to + i, &v, sizeof(v));
	}
	for (; i < n; i++)
		to[i] = from[i] ^ turned[i & 7];
}

int wsframe_key(char out[WSFRAME_KEY_LEN + 1])
{
	uint8_t raw[16];

	if (RAND_bytes(raw, sizeof(raw)) != 1)
		return ERR_INTERNAL;
	EVP_EncodeBlock((unsigned char *)out, raw, sizeof(raw));
	return 0;
}

void wsframe_accept(const char *key, char out[WSFRAME_ACCEPT_LEN + 1])
{
	char text[WSFRAME_KEY_LEN + sizeof(GUID)] = "";
	uint8_t digest[SHA_DIGEST_LENGTH];

	strncat(text, key, WSFRAME_KEY_LEN);
	strcat(text, GUID);
	SHA1((const unsigned char *)text, strlen(text), digest);
	EVP_EncodeBlock((unsigned char *)out, digest, sizeof(digest));
}
