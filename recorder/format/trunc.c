#include "recorder/format/trunc.h"

#include "base/err.h"
#include "recorder/format/event.h"
#include "recorder/format/trunc_queue.h"

#include <stdlib.h>
#include <string.h>

void trunc_rule_choose(const struct conf_rule *rules, size_t n, const char *principal_kind, const char *session,
		       bool pty, struct trunc_rule *out)
{
	struct trunc_rule r = {.kind = RULE_FULL, .burst = pty || strcmp(session, "terminal") == 0};
	bool file = strcmp(session, "file") == 0 || strcmp(session, "port") == 0;

	if (file) /* whole files and what servers say are not what "everything" is meant to keep */
		r.kind = RULE_METADATA;
	for (size_t i = 0; i < n; i++) {
		const struct conf_rule *c = &rules[i];
		if (strcmp(c->kind, "*") != 0 && strcmp(c->kind, principal_kind) != 0)
			continue;
		if ((file || strcmp(c->session, "*") != 0) && strcmp(c->session, session) != 0)
			continue;
		r.kind = c->rule;
		r.head = c->head;
		r.tail = c->tail;
		break;
	}
	*out = r;
}

const char *trunc_rule_name(enum conf_rule_kind k)
{
	return k == RULE_FULL ? "full" : k == RULE_TRUNCATED ? "truncated" : "metadata";
}

static uint64_t head_budget(const struct trunc *t)
{
	return t->rule.kind == RULE_TRUNCATED ? t->rule.head : 0;
}

int trunc_create(const struct trunc_rule *rule, trunc_emit *emit, void *arg, struct trunc **out)
{
	struct trunc *t = calloc(1, sizeof *t);

	if (!t)
		return ERR_NOMEM;
	t->rule = *rule;
	if (rule->kind != RULE_TRUNCATED)
		t->rule.head = t->rule.tail = 0;
	if (t->rule.tail > TRUNC_TAIL_MAX)
		t->rule.tail = TRUNC_TAIL_MAX;
	t->emit = emit;
	t->arg = arg;
	t->direction = TRUNC_NO_DIRECTION;
	TAILQ_INIT(&t->queue);
	for (int i = 0; i < STREAM_COUNT; i++) {
		TAILQ_INIT(&t->streams[i].held);
		digest_init(&t->streams[i].digest);
		t->streams[i].head_left = head_budget(t);
	}
	*out = t;
	return 0;
}

void trunc_destroy(struct trunc *t)
{
	if (!t)
		return;
	trunc_queue_clear(t);
	free(t);
}

uint64_t trunc_expected(const struct trunc *t, unsigned stream)
{
	return t->streams[stream].expected;
}

void trunc_digest(const struct trunc *t, unsigned stream, uint8_t out[32])
{
	const struct trunc_stream *s = &t->streams[stream];
	struct digest d = s->digest;
	const struct trunc_item *it;

	TAILQ_FOREACH(it, &s->held, same)
	digest_update(&d, it->rec.payload + it->skip, it->rec.len - it->skip);
	digest_peek(&d, out);
}

void trunc_totals(const struct trunc *t, unsigned stream, struct trunc_totals *out)
{
	const struct trunc_stream *s = &t->streams[stream];

	out->total = s->digest.bytes;
	out->kept = s->kept;
	out->omitted = s->omitted;
	out->missing = s->missing;
	digest_peek(&s->digest, out->sha256);
}

/* A slice of a DATA record goes out; the caller has hashed it. */
static int emit_data(struct trunc *t, const struct ring_record *rec, size_t from, size_t n, struct err *e)
{
	struct ring_record part = *rec;
	int rc;

	part.offset += from;
	part.payload += from;
	part.len = (uint32_t)n;
	rc = t->emit(t->arg, &part, e);
	if (!rc)
		t->streams[rec->stream].kept += n;
	return rc;
}

static int emit_gap(struct trunc *t, struct trunc_item *it, struct err *e)
{
	struct trunc_stream *s = &t->streams[it->rec.stream];
	uint8_t payload[EVENT_GAP_SIZE];
	struct ring_record rec = it->rec;

	event_gap_encode(&s->gap, payload);
	rec.payload = payload;
	rec.len = sizeof payload;
	s->omitted += s->gap.bytes;
	s->gap_item = NULL;
	memset(&s->gap, 0, sizeof s->gap);
	return t->emit(t->arg, &rec, e);
}

static int emit_item(struct trunc *t, struct trunc_item *it, struct err *e)
{
	switch (it->kind) {
	case TRUNC_GAP:
		return emit_gap(t, it, e);
	case TRUNC_HELD:
		digest_update(&t->streams[it->rec.stream].digest, it->rec.payload + it->skip, it->rec.len - it->skip);
		return emit_data(t, &it->rec, it->skip, it->rec.len - it->skip, e);
	default:
		return it->rec.type == RING_DATA ? emit_data(t, &it->rec, 0, it->rec.len, e)
						 : t->emit(t->arg, &it->rec, e);
	}
}

/* The digest of a gap must be taken before the tail behind it is hashed. */
static void close_gaps(struct trunc *t)
{
	for (int i = 0; i < STREAM_COUNT; i++) {
		struct trunc_stream *s = &t->streams[i];
		if (!s->gap_item)
			continue;
		s->gap.rule = (uint8_t)t->rule.kind;
		digest_peek(&s->digest, s->gap.sha256);
	}
}

int trunc_flush(struct trunc *t, struct err *e)
{
	struct trunc_item *it;
	int rc = 0;

	close_gaps(t);
	while (!rc && (it = TAILQ_FIRST(&t->queue))) {
		rc = emit_item(t, it, e);
		trunc_queue_remove(t, it);
	}
	return rc;
}

/* Take n bytes off the front of the oldest held record of a stream: they are left out. */
static int drop_front(struct trunc *t, struct trunc_stream *s, struct trunc_item *it, size_t n)
{
	if (!s->gap_item) {
		s->gap_item = trunc_queue_gap(it);
		if (!s->gap_item)
			return ERR_NOMEM;
	}
	digest_update(&s->digest, it->rec.payload + it->skip, n);
	s->gap.bytes += n;
	s->gap.last_ns = it->rec.boot_ns;
	s->gap.last_seq = it->rec.seq;
	s->held_bytes -= n;
	it->skip += (uint32_t)n;
	if (it->skip == it->rec.len)
		trunc_queue_remove(t, it);
	return 0;
}

static int drop_excess(struct trunc *t, struct trunc_stream *s)
{
	int rc = 0;

	while (!rc && (s->held_bytes > t->rule.tail || s->held_items > TRUNC_ITEMS_MAX)) {
		struct trunc_item *it = TAILQ_FIRST(&s->held);
		size_t n = it->rec.len - it->skip;
		if (s->held_items <= TRUNC_ITEMS_MAX && n > s->held_bytes - t->rule.tail)
			n = (size_t)(s->held_bytes - t->rule.tail);
		rc = drop_front(t, s, it, n);
	}
	return rc;
}

/* Kept for certain; behind what waits it has to wait too, so that the order stays. */
static int pass(struct trunc *t, const struct ring_record *rec, struct err *e)
{
	if (TAILQ_EMPTY(&t->queue))
		return rec->type == RING_DATA ? emit_data(t, rec, 0, rec->len, e) : t->emit(t->arg, rec, e);
	if (!trunc_queue_add(t, TRUNC_PASS, rec))
		return err_set(e, ERR_NOMEM, "no memory for the events that wait behind a tail");
	if (t->pass_bytes > TRUNC_PASS_MAX || t->pass_items > TRUNC_ITEMS_MAX)
		return trunc_flush(t, e);
	return 0;
}

/* In a terminal each change of direction begins a burst with budgets of its own. */
static int trunc_turn(struct trunc *t, const struct ring_record *rec, struct err *e)
{
	enum trunc_direction direction = rec->stream == STREAM_INPUT || rec->type == RING_SECRET ? TRUNC_IN : TRUNC_OUT;
	int rc = 0;

	if (!t->rule.burst || direction == t->direction)
		return 0;
	if (t->rule.kind == RULE_TRUNCATED)
		rc = trunc_flush(t, e);
	t->direction = direction;
	for (int i = 0; i < STREAM_COUNT; i++)
		t->streams[i].head_left = head_budget(t);
	return rc;
}

static int trunc_put_data(struct trunc *t, const struct ring_record *rec, struct err *e)
{
	struct trunc_stream *s = &t->streams[rec->stream];
	struct ring_record part = *rec;
	size_t head = t->rule.kind == RULE_FULL || s->head_left > rec->len ? rec->len : (size_t)s->head_left;
	int rc = 0;

	s->expected += rec->len;
	if (head) {
		part.len = (uint32_t)head;
		digest_update(&s->digest, rec->payload, head);
		s->head_left -= t->rule.kind == RULE_FULL ? 0 : head;
		rc = pass(t, &part, e);
	}
	if (rc || head == rec->len)
		return rc;
	part.offset = rec->offset + head;
	part.payload = rec->payload + head;
	part.len = rec->len - (uint32_t)head;
	if (!trunc_queue_add(t, TRUNC_HELD, &part) || drop_excess(t, s))
		return err_set(e, ERR_NOMEM, "no memory for the tail of a stream");
	return 0;
}

/* Bytes that the journal lacks: a gap of the rule must not reach over them. */
static int put_missing(struct trunc *t, const struct ring_record *rec, struct err *e)
{
	struct trunc_stream *s = &t->streams[rec->stream];
	uint64_t n = event_extent(rec);
	int rc = trunc_flush(t, e);

	if (!rc)
		rc = t->emit(t->arg, rec, e);
	if (!rc) {
		s->expected += n;
		s->missing += n;
	}
	return rc;
}

int trunc_put(struct trunc *t, const struct ring_record *rec, struct err *e)
{
	int rc = 0;

	if (rec->type == EVENT_MISSING)
		return put_missing(t, rec, e);
	if (rec->type == RING_DATA || rec->type == RING_SECRET)
		rc = trunc_turn(t, rec, e);
	if (rc)
		return rc;
	return rec->type == RING_DATA && rec->len ? trunc_put_data(t, rec, e) : pass(t, rec, e);
}
