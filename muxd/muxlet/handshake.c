/* Who is at the other end: versions, proofs, epochs. */
#include "muxd/muxlet/muxlet.h"
#include "muxd/muxlet/sha256.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

static int fill_random(uint8_t *p, size_t n)
{
	while (n) {
		ssize_t got = getrandom(p, n, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -1;
		p += got;
		n -= (size_t)got;
	}
	return 0;
}

static void proof_of(const struct stream *s, const char who[9], uint8_t out[FRAME_PROOF_LEN])
{
	uint8_t text[FRAME_TRANSCRIPT];

	frame_transcript(who, &s->theirs, &s->ours, text);
	hmac_sha256(s->m->secret, SECRET_LEN, text, sizeof(text), out);
}

static int handshake_on_hello(struct stream *s, const struct frame *f)
{
	struct frame answer = {.type = FRAME_HELLO};

	s->theirs = f->u.hello;
	if (s->theirs.major != FRAME_MAJOR) {
		stream_goodbye(s, CODE_VERSION, "this muxlet speaks version 1 of the link protocol");
		return -1;
	}
	s->ours = (struct frame_hello){.major = FRAME_MAJOR,
				       .minor = FRAME_MINOR,
				       .features = FEATURE_FILES | FEATURE_PORTS | FEATURE_SYNC | FEATURE_FREEZE |
						   FEATURE_CLEAR | FEATURE_FS | FEATURE_IDLE | FEATURE_SURVEY |
						   FEATURE_CHANGES | FEATURE_STARTS | FEATURE_PROBE | FEATURE_FILESPACE,
				       .epoch = s->m->epoch};
	if (fill_random(s->ours.nonce, sizeof(s->ours.nonce))) {
		stream_goodbye(s, CODE_SYSTEM, "no randomness");
		return -1;
	}
	answer.u.hello = s->ours;
	proof_of(s, "muxd-let", answer.u.hello.proof);
	stream_put(s, &answer);
	s->state = STREAM_PROOF;
	return 0;
}

static void handshake_take_over(struct stream *s)
{
	struct muxlet *m = s->m;
	struct stream *old = m->stream;

	for (int i = 0; i < STREAMS_PENDING; i++)
		if (m->pending[i] == s)
			m->pending[i] = NULL;
	if (old) {
		stream_goodbye(old, CODE_STALE, "a newer stream took over");
		muxlet_detached(m);
		stream_destroy(old);
	}
	m->epoch = s->theirs.epoch;
	m->stream = s;
	m->first_wall_ns = 0;
	s->state = STREAM_UP;
	timer_cancel(&m->loop, &s->timer);
	muxlet_note(m, "stream of epoch %llu is up", (unsigned long long)m->epoch);
	request_list(m);
}

static int handshake_on_proof(struct stream *s, const struct frame *f)
{
	uint8_t want[FRAME_PROOF_LEN];
	bool right;

	proof_of(s, "muxd-hub", want);
	right = bytes_equal_ct(want, f->u.proof, sizeof(want));
	explicit_bzero(want, sizeof(want));
	if (!right) {
		stream_goodbye(s, CODE_AUTH, "the proof is wrong");
		return -1;
	}
	if (s->theirs.epoch <= s->m->epoch) {
		stream_goodbye(s, CODE_STALE, "the epoch is not newer than the one before");
		return -1;
	}
	handshake_take_over(s);
	return 0;
}

int handshake_frame(struct stream *s, const struct frame *f)
{
	if (s->state == STREAM_HELLO && f->type == FRAME_HELLO)
		return handshake_on_hello(s, f);
	if (s->state == STREAM_PROOF && f->type == FRAME_PROOF)
		return handshake_on_proof(s, f);
	if (f->type == 0)
		return 0;
	stream_goodbye(s, CODE_PROTOCOL, "the handshake comes first");
	return -1;
}
