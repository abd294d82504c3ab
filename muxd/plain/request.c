/* What the hub says, from muxlet's side of the link protocol: handshake, then one function per frame. */
#define LOG_SUBSYS "plain"
#include "base/ids.h"
#include "base/log.h"
#include "muxd/plain/peer.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <string.h>

static int break_off(struct plain_peer *p, const char *why)
{
	log_error(&(struct log_ids){.agent = p->agent}, "the hub broke the protocol: %s", why);
	p->why = why;
	return -1;
}

/* ---- handshake */

static int prove(const struct plain_peer *p, const char *who, uint8_t out[FRAME_PROOF_LEN])
{
	uint8_t text[FRAME_TRANSCRIPT];
	unsigned n = 0;

	frame_transcript(who, &p->theirs, &p->ours, text);
	return HMAC(EVP_sha256(), p->secret, sizeof(p->secret), text, sizeof(text), out, &n) ? 0 : -1;
}

static int request_on_hello(struct plain_peer *p, const struct frame *f)
{
	struct frame answer = {.type = FRAME_HELLO};

	p->theirs = f->u.hello;
	p->ours = (struct frame_hello){.major = FRAME_MAJOR, .minor = FRAME_MINOR, .features = FEATURE_QUEUE};
	if (p->visitor)
		p->ours.features |= FEATURE_FILES | FEATURE_PORTS | FEATURE_FS;
	if (random_bytes(p->ours.nonce, sizeof(p->ours.nonce)))
		return break_off(p, "no randomness");
	answer.u.hello = p->ours;
	if (p->theirs.major != FRAME_MAJOR || prove(p, "muxd-let", answer.u.hello.proof))
		return break_off(p, "another version, or no proof");
	wire_put(p, &answer);
	p->state = PEER_PROOF;
	return 0;
}

/* Nothing is known here of what an earlier peer began: an empty list. */
static int request_on_proof(struct plain_peer *p, const struct frame *f)
{
	uint8_t want[FRAME_PROOF_LEN];

	if (prove(p, "muxd-hub", want) || CRYPTO_memcmp(want, f->u.proof, sizeof(want)) != 0)
		return break_off(p, "the proof is wrong");
	p->state = PEER_UP;
	wire_put(p, &(struct frame){.type = FRAME_LISTED});
	return 0;
}

/* ---- channels */

static void request_on_window(struct plain_channel *c, const struct frame *f)
{
	if (f->stream && f->offset > c->window[f->stream]) {
		c->window[f->stream] = f->offset;
		channel_pump(c);
	}
}

static void request_on_resize(struct plain_channel *c, const struct frame *f)
{
	c->open.cols = f->u.resize.cols;
	c->open.rows = f->u.resize.rows;
	if (!(c->open.flags & OPEN_PTY))
		wire_error(c->peer, c->number, CODE_INVALID, "a new size for a program without a terminal");
	else if (c->exec && c->open.cols && c->open.rows)
		plain_exec_resize(c->exec, c->open.cols, c->open.rows);
}

static void request_on_signal(struct plain_channel *c, const struct frame *f)
{
	if (c->over || c->state == CHANNEL_ENDED)
		wire_error(c->peer, c->number, CODE_STATE, "a signal to an ended program");
	else if (!c->leader.pid)
		wire_error(c->peer, c->number, CODE_STATE,
			   "no signal can be sent: there is no shell or /proc, or it has not begun");
	else if (sweep_signal(c->peer, c, f->u.number))
		wire_error(c->peer, c->number, CODE_SYSTEM, "out of memory for a signal");
	else if (f->u.number < 64)
		c->signals |= UINT64_C(1) << f->u.number;
}

static void request_on_forget(struct plain_channel *c)
{
	c->forgotten = true;
	if (!c->told)
		channel_kill(c, CAUSE_KILLED);
	else
		channel_settle(c);
}

static int request_on_channel(struct plain_peer *p, struct plain_channel *c, const struct frame *f)
{
	const char *why = "a frame that has no place here";
	int rc = 0;

	switch (f->type) {
	case FRAME_DATA:
		rc = channel_input(c, f, &why);
		break;
	case FRAME_EOF:
		rc = channel_input_eof(c, f, &why);
		break;
	case FRAME_WINDOW:
		request_on_window(c, f);
		break;
	case FRAME_ACK: /* nothing is kept for a later stream */
		break;
	case FRAME_RESIZE:
		request_on_resize(c, f);
		break;
	case FRAME_SIGNAL:
		request_on_signal(c, f);
		break;
	case FRAME_KILL:
		channel_kill(c, f->u.number);
		break;
	case FRAME_FORGET:
		request_on_forget(c);
		break;
	case FRAME_RESUME:
		wire_error(p, f->channel, CODE_STATE, "resumed already");
		break;
	default:
		rc = -1;
	}
	return rc ? break_off(p, why) : 0;
}

static int request_on_up(struct plain_peer *p, const struct frame *f)
{
	struct plain_channel *c;

	switch (f->type) {
	case 0: /* unknown, not critical */
	case FRAME_PONG:
		return 0;
	case FRAME_PING:
		wire_put(p, &(struct frame){.type = FRAME_PONG, .offset = f->offset});
		return 0;
	case FRAME_GOODBYE:
		p->why = "the hub said goodbye";
		return -1;
	case FRAME_OPEN:
		channel_open(p, f);
		return 0;
	case FRAME_SECRET:
		p->secret_for = f->channel;
		return 0;
	case FRAME_HELLO:
	case FRAME_PROOF:
		return break_off(p, "a second handshake");
	default:
		break;
	}
	c = channel_find(p, f->channel);
	if (!c || c->forgotten) {
		wire_error(p, f->channel, CODE_NOT_FOUND, "no such channel");
		return 0;
	}
	return request_on_channel(p, c, f);
}

int request_handle(struct plain_peer *p, const struct frame *f)
{
	if (p->state == PEER_UP)
		return request_on_up(p, f);
	if (p->state == PEER_HELLO && f->type == FRAME_HELLO)
		return request_on_hello(p, f);
	if (p->state == PEER_PROOF && f->type == FRAME_PROOF)
		return request_on_proof(p, f);
	return f->type == 0 ? 0 : break_off(p, "the handshake comes first");
}
