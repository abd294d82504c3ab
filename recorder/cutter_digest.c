/* What the builders know of streams: for the hub, which has forgotten them by a restart, and for the audit log. */
#define LOG_SUBSYS "cutter"
#include "muxd/base/clock.h"
#include "muxd/base/err.h"
#include "muxd/base/log.h"
#include "recorder/chain_text.h"
#include "recorder/cutter_state.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_NS (5 * NS_PER_MS)

static bool reached(const struct cut_session *s, const uint64_t totals[STREAM_COUNT])
{
	for (unsigned i = 0; i < STREAM_COUNT; i++)
		if (builder_offset(s->b, i) < totals[i])
			return false;
	return true;
}

/* ERR_AGAIN: not yet. */
static int look(struct cutter *c, const struct id *session, const uint64_t totals[STREAM_COUNT],
		uint8_t out[STREAM_COUNT][32], struct err *e)
{
	const struct cut_session *s;
	int rc = ERR_AGAIN;

	pthread_mutex_lock(&c->turn);
	s = cut_find(c, session);
	if (s && reached(s, totals)) {
		rc = 0;
		for (unsigned i = 0; rc == 0 && i < STREAM_COUNT; i++)
			if (builder_offset(s->b, i) != totals[i] || builder_digest(s->b, i, out[i]))
				rc = err_set(e, ERR_EOF, "the record has other bytes of the session than were counted");
	}
	pthread_mutex_unlock(&c->turn);
	return rc;
}

int cutter_digests(struct cutter *c, const struct id *session, const uint64_t totals[STREAM_COUNT], uint64_t timeout_ns,
		   uint8_t out[STREAM_COUNT][32], struct err *e)
{
	uint64_t until = clock_boot_ns() + timeout_ns;
	struct timespec pause = {.tv_nsec = LOOK_NS};
	int rc;

	atomic_fetch_add(&c->waiters, 1);
	while ((rc = look(c, session, totals, out, e)) == ERR_AGAIN && clock_boot_ns() < until)
		nanosleep(&pause, NULL);
	atomic_fetch_sub(&c->waiters, 1);
	return rc == ERR_AGAIN ? err_set(e, ERR_TIMEOUT, "the recorder did not get there in time") : rc;
}

/* Bytes of a stream, and their digest: none where the journal lacks some of them. */
static void put_stream(json_t *detail, const struct builder *b, unsigned stream, const char *bytes, const char *sha256)
{
	uint8_t digest[32];
	char hex[2 * sizeof digest + 1];

	json_object_set_new(detail, bytes, json_integer((json_int_t)builder_offset(b, stream)));
	if (!sha256 || builder_digest(b, stream, digest))
		return;
	chain_hex(digest, sizeof digest, hex);
	json_object_set_new(detail, sha256, json_string(hex));
}

/* What is typed is short enough to be guessed: of input the count alone. */
static json_t *streams_event(const struct cut_session *s, const struct part *p)
{
	char id[ID_STR_LEN];
	json_t *detail;

	id_format(&s->id, id);
	detail = json_pack("{s:s}", "session", id);
	if (!detail)
		return NULL;
	put_stream(detail, s->b, STREAM_INPUT, "stdin_bytes", NULL);
	put_stream(detail, s->b, STREAM_OUTPUT, "stdout_bytes", "stdout_sha256");
	put_stream(detail, s->b, STREAM_STDERR, "stderr_bytes", "stderr_sha256");
	return json_pack("{s:s, s:s, s:s, s:s, s:o}", "event", "session.streams", "outcome", "ok", "principal",
			 "recorder", "agent", p->agent, "detail", detail);
}

void cut_tell_streams(struct cutter *c, const struct cut_session *s)
{
	static const struct id nobody;
	struct part p;
	json_t *o;
	char *text;

	builder_part(s->b, &p);
	if (strcmp(p.kind, "terminal") != 0 && strcmp(p.kind, "exec") != 0)
		return; /* the hub told of the others */
	o = streams_event(s, &p);
	text = o ? json_text(o) : NULL;
	if (!text || drain_append_own(c->p.drain, RING_AUDIT, &nobody, text))
		log_error(NULL, "the digests of a session that ended are in its recording, and could not be audited");
	free(text);
	json_decref(o);
}
