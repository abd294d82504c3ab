#include "control/kube/exec/rc_wire.h"

#include "base/err.h"

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <string.h>

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

static uint8_t opcode(const struct rc_wire *w)
{
	return w->head[0] & 0x0f;
}

static bool final(const struct rc_wire *w)
{
	return w->head[0] & 0x80;
}

static bool is_control(uint8_t op)
{
	return op & 8;
}

/* Bytes of the head, as far as the first two tell; 2 before that. */
static size_t head_len(const struct rc_wire *w)
{
	uint8_t n = w->have < 2 ? 0 : w->head[1] & 0x7f;

	return n == 127 ? 10 : n == 126 ? 4 : 2;
}

static uint64_t payload_len(const struct rc_wire *w)
{
	size_t n = head_len(w);
	uint64_t len = 0;

	if (n == 2)
		return w->head[1] & 0x7f;
	for (size_t i = 2; i < n; i++)
		len = len << 8 | w->head[i];
	return len;
}

/* What section 5 forbids. */
static const char *broken(const struct rc_wire *w, uint64_t len)
{
	uint8_t op = opcode(w);

	if (w->head[0] & 0x70)
		return "a reserved bit is set";
	if (w->head[1] & 0x80)
		return "a server's frame is masked";
	if (op > RC_OP_PONG || (op > RC_OP_BINARY && op < RC_OP_CLOSE))
		return "an opcode that is not known";
	if (is_control(op))
		return !final(w)                   ? "a control frame in fragments"
		       : len > RC_WIRE_CONTROL_MAX ? "a control frame that is too long"
						   : NULL;
	if (op == RC_OP_CONT && !w->in_message)
		return "a continuation of nothing";
	if (op != RC_OP_CONT && w->in_message)
		return "a message inside a message";
	return len >> 63 ? "a length with the highest bit set" : NULL;
}

/* Takes bytes of the head. 1 when it is whole. */
static int rc_wire_take_head(struct rc_wire *w, const uint8_t **p, size_t *n, struct err *e)
{
	const char *why;

	while (*n > 0 && w->have < head_len(w)) {
		w->head[w->have++] = *(*p)++;
		(*n)--;
	}
	if (w->have < 2 || w->have < head_len(w))
		return 0;
	w->left = payload_len(w);
	why = broken(w, w->left);
	if (why)
		return err_set(e, ERR_PROTOCOL, "the server broke the WebSocket protocol: %s", why);
	w->in_frame = true;
	w->control_len = 0;
	if (!is_control(opcode(w)))
		w->in_message = true;
	return 1;
}

static void frame_over(struct rc_wire *w)
{
	w->in_frame = false;
	w->have = 0;
	if (!is_control(opcode(w)) && final(w))
		w->in_message = false;
}

static void control_event(struct rc_wire *w, struct rc_wire_event *ev)
{
	uint8_t op = opcode(w);

	ev->kind = op == RC_OP_PING ? RC_WIRE_PING : op == RC_OP_PONG ? RC_WIRE_PONG : RC_WIRE_CLOSE;
	ev->p = w->control;
	ev->n = w->control_len;
}

ssize_t rc_wire_decode(struct rc_wire *w, const uint8_t *p, size_t n, struct rc_wire_event *ev, struct err *e)
{
	const uint8_t *from = p;
	size_t take;
	int rc = 1;

	*ev = (struct rc_wire_event){.kind = RC_WIRE_NOTHING};
	if (!w->in_frame)
		rc = rc_wire_take_head(w, &p, &n, e);
	if (rc <= 0)
		return rc < 0 ? rc : p - from;
	take = n < w->left ? n : (size_t)w->left;
	w->left -= take;
	if (is_control(opcode(w))) {
		memcpy(w->control + w->control_len, p, take);
		w->control_len = (uint8_t)(w->control_len + take);
		if (w->left == 0)
			control_event(w, ev);
	} else if (take > 0 || w->left == 0) {
		ev->kind = RC_WIRE_DATA;
		ev->p = p;
		ev->n = take;
		ev->last = w->left == 0 && final(w);
	}
	if (w->left == 0)
		frame_over(w);
	return p + take - from;
}

size_t rc_wire_head(enum rc_opcode op, size_t n, const uint8_t mask[4], uint8_t out[RC_WIRE_HEAD_MAX])
{
	size_t len = n < 126 ? 0 : n < 65536 ? 2 : 8;

	out[0] = (uint8_t)(0x80 | op);
	out[1] = (uint8_t)(0x80 | (len == 0 ? n : len == 2 ? 126 : 127));
	for (size_t i = 0; i < len; i++)
		out[2 + i] = (uint8_t)((uint64_t)n >> (8 * (len - 1 - i)));
	memcpy(out + 2 + len, mask, 4);
	return 2 + len + 4;
}

void rc_wire_mask(const uint8_t *from, uint8_t *to, size_t n, const uint8_t mask[4], size_t at)
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

int rc_wire_key(char out[RC_WIRE_KEY_LEN + 1])
{
	uint8_t raw[16];

	if (RAND_bytes(raw, sizeof(raw)) != 1)
		return ERR_INTERNAL;
	EVP_EncodeBlock((unsigned char *)out, raw, sizeof(raw));
	return 0;
}

void rc_wire_accept(const char *key, char out[RC_WIRE_ACCEPT_LEN + 1])
{
	char text[RC_WIRE_KEY_LEN + sizeof(GUID)] = "";
	uint8_t digest[SHA_DIGEST_LENGTH];

	strncat(text, key, RC_WIRE_KEY_LEN);
	strcat(text, GUID);
	SHA1((const unsigned char *)text, strlen(text), digest);
	EVP_EncodeBlock((unsigned char *)out, digest, sizeof(digest));
}
