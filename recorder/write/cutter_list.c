/* The recordings that are being cut: sorted by the ids of their sessions, which of them are suspects, what was printed.
 */
#define LOG_SUBSYS "cutter"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "recorder/chain/chain_text.h"
#include "recorder/write/cutter_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* First place whose id is not below `id`. New sessions have the highest ids, so adding is cheap. */
static size_t cut_place(const struct cutter *c, const struct id *id)
{
	size_t lo = 0, hi = c->n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (memcmp(c->sessions[mid]->id.b, id->b, 16) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct cut_session *cut_find(struct cutter *c, const struct id *id)
{
	if (c->last && id_equal(&c->last->id, id))
		return c->last;
	size_t at = cut_place(c, id);
	if (at == c->n || !id_equal(&c->sessions[at]->id, id))
		return NULL;
	return c->last = c->sessions[at];
}

int cut_add(struct cutter *c, const struct id *id, struct builder *b, struct cut_session **out, struct err *e)
{
	struct cut_session *s = calloc(1, sizeof(*s));
	if (!s || list_insert(&c->sessions, &c->n, cut_place(c, id), &s, sizeof(s))) {
		free(s);
		return err_set(e, ERR_NOMEM, "out of memory");
	}
	s->id = *id;
	s->b = b;
	memory_moved(&c->rest, clock_boot_ns());
	*out = s;
	return 0;
}

void cut_remove(struct cutter *c, struct cut_session *s)
{
	size_t at = cut_place(c, &s->id);
	memmove(c->sessions + at, c->sessions + at + 1, (c->n - at - 1) * sizeof(struct cut_session *));
	c->n--;
	c->last = NULL;
	memory_moved(&c->rest, clock_boot_ns());
	builder_destroy(s->b);
	free(s);
}

void cut_clear(struct cutter *c)
{
	for (size_t i = 0; i < c->n; i++) {
		builder_destroy(c->sessions[i]->b);
		free(c->sessions[i]);
	}
	c->n = 0;
	c->last = NULL;
}

/*
 * Suspects: open recordings that are not what the record says of them, because their file was changed or because the
 * journal lacks what they wait for. The cutter stops at the first and restores itself; cutter_restore.c has them cut
 * anew.
 */

static int suspect_add(struct cutter *c, const struct id *id, const char *why, struct err *e)
{
	struct cut_suspect s = {.id = *id};

	text_put(s.why, sizeof(s.why), why);
	return list_append(&c->suspects.list, &c->suspects.n, &s, sizeof(s)) ? err_set(e, ERR_NOMEM, "out of memory")
									     : 0;
}

const char *cut_suspected(const struct cutter *c, const struct id *id)
{
	for (size_t i = 0; i < c->suspects.n; i++)
		if (id_equal(&c->suspects.list[i].id, id))
			return c->suspects.list[i].why;
	return NULL;
}

int cut_read_back(struct cutter *c, struct cut_session *s, bool whole, struct err *e)
{
	struct err why = {0};
	int rc = builder_read_back(s->b, whole, &why);

	if (rc == ERR_CORRUPT || rc == ERR_NOT_FOUND) {
		rc = suspect_add(c, &s->id, why.message, e);
		return rc ? rc : err_set(e, ERR_CORRUPT, "%s", why.message);
	}
	return rc ? err_set(e, rc, "%s", why.message) : 0;
}

struct gap {
	struct cutter *c;
	struct err *e;
	char why[100];
};

/*
 * The index was told of an OPEN or an EXIT that no recording has: the record may have gone with the gap. Should it
 * still come, then the recording is cut anew with it, and nothing is lost by that.
 */
static int gap_row(void *arg, const struct index_unsealed *u)
{
	struct gap *g = arg;
	const struct cut_session *s = cut_find(g->c, &u->id);

	return !s || (u->ended && !builder_ended(s->b)) ? suspect_add(g->c, &u->id, g->why, g->e) : 0;
}

int cut_gap(struct cutter *c, uint64_t lsn, struct err *e)
{
	static const struct id nobody;
	struct gap g = {.c = c, .e = e};
	char json[256];

	snprintf(g.why, sizeof(g.why), "the journal lacks its records %llu to %llu", (unsigned long long)c->next_lsn,
		 (unsigned long long)lsn - 1);
	int rc = index_unsealed(c->index, gap_row, &g, e);
	if (rc == 0 && c->suspects.n)
		rc = err_set(e, ERR_CORRUPT, "%s", g.why);
	if (rc)
		return rc;
	log_error(NULL, "%s", g.why);
	snprintf(json, sizeof(json),
		 "{\"event\":\"journal.damaged\",\"outcome\":\"error\",\"principal\":\"recorder\","
		 "\"first_lost\":%llu,\"last_lost\":%llu}",
		 (unsigned long long)c->next_lsn, (unsigned long long)lsn - 1);
	return drain_append_own(c->p.drain, RING_AUDIT, &nobody, json);
}

/* The output of a terminal or an exec, in bytes and digests, as an audit event. */

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

/* Typed input is short enough to be guessed from a digest: it has the count alone. */
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
	struct part p;

	builder_part(s->b, &p);
	if (strcmp(p.kind, "terminal") != 0 && strcmp(p.kind, "exec") != 0)
		return; /* the hub told of the others */
	if (drain_audit(c->p.drain, NULL, streams_event(s, &p)))
		log_error(NULL, "the digests of a session that ended are in its recording, and could not be audited");
}

void cut_tell_full(struct cutter *c, const struct cut_session *s)
{
	char id[ID_STR_LEN];
	struct part p;

	builder_part(s->b, &p);
	id_format(&s->id, id);
	log_error(
	    &(struct log_ids){.session = id},
	    "its recording has as many blocks as a file may have: what follows is counted and hashed, and not kept");
	if (drain_audit(c->p.drain, &s->id,
			json_pack("{s:s, s:s, s:s, s:s, s:{s:s, s:I}}", "event", "record.full", "outcome", "error",
				  "principal", "recorder", "agent", p.agent, "detail", "session", id, "size",
				  (json_int_t)p.size)))
		log_error(NULL, "that a recording is full could not be audited");
}

/* The builders' knowledge of streams that go on: for the hub, which has forgotten them by a restart. */

#define LOOK_NS (5 * NS_PER_MS)

static bool reached(const struct cut_session *s, const uint64_t totals[STREAM_COUNT])
{
	for (unsigned i = 0; i < STREAM_COUNT; i++)
		if (builder_offset(s->b, i) < totals[i])
			return false;
	return true;
}

/* ERR_AGAIN: not yet. */
static int cutter_digest_look(struct cutter *c, const struct id *session, const uint64_t totals[STREAM_COUNT],
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

	cut_wait_begin(c);
	while ((rc = cutter_digest_look(c, session, totals, out, e)) == ERR_AGAIN && clock_boot_ns() < until)
		nanosleep(&pause, NULL);
	cut_wait_end(c);
	return rc == ERR_AGAIN ? err_set(e, ERR_TIMEOUT, "the recorder did not get there in time") : rc;
}
