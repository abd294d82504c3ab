#include "recorder/format/trunc.h"

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/record_rule.h"
#include "recorder/chain/digest.h"
#include "recorder/format/event.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define STATE_VERSION 1
#define FRONT_SIZE    24
#define STREAM_SIZE   (6 * 8 + DIGEST_STATE_SIZE + EVENT_GAP_SIZE)
#define ITEM_SIZE     64

/*
 * One queue in the order of the journal. HELD items are bytes that may still be
 * left out, linked a second time per stream; PASS items wait behind them; a GAP
 * item stands where its stream's first byte was left out.
 */
enum trunc_kind { TRUNC_PASS, TRUNC_HELD, TRUNC_GAP };
enum trunc_direction { TRUNC_NO_DIRECTION, TRUNC_IN, TRUNC_OUT };

struct trunc_item {
	TAILQ_ENTRY(trunc_item) all;
	TAILQ_ENTRY(trunc_item) same; /* HELD only */
	enum trunc_kind kind;
	uint32_t skip;          /* bytes at the front that were left out */
	struct ring_record rec; /* payload: data[] */
	uint8_t data[];
};
TAILQ_HEAD(trunc_items, trunc_item);

struct trunc_stream {
	uint64_t expected;  /* offset of the next byte */
	uint64_t head_left; /* of the budget */
	uint64_t kept, omitted, missing;
	struct digest digest; /* of the bytes that were decided on */
	struct trunc_items held;
	uint64_t held_bytes;
	size_t held_items;
	struct trunc_item *gap_item; /* NULL: none open */
	struct event_gap gap;
};

struct trunc {
	struct trunc_rule rule;
	trunc_emit *emit;
	void *arg;
	enum trunc_direction direction;
	struct trunc_items queue;
	uint64_t pass_bytes;
	size_t pass_items;
	struct trunc_stream streams[STREAM_COUNT];
};

static struct trunc_item *item_create(enum trunc_kind kind, const struct ring_record *rec)
{
	struct trunc_item *it = malloc(sizeof *it + rec->len);

	if (!it)
		return NULL;
	memset(it, 0, sizeof *it);
	it->kind = kind;
	it->rec = *rec;
	it->rec.payload = it->data;
	if (rec->len)
		memcpy(it->data, rec->payload, rec->len);
	return it;
}

static void account(struct trunc *t, struct trunc_item *it, int sign)
{
	struct trunc_stream *s = &t->streams[it->rec.stream];

	if (it->kind == TRUNC_HELD) {
		s->held_bytes =
		    sign > 0 ? s->held_bytes + (it->rec.len - it->skip) : s->held_bytes - (it->rec.len - it->skip);
		s->held_items = sign > 0 ? s->held_items + 1 : s->held_items - 1;
	} else if (it->kind == TRUNC_PASS) {
		t->pass_bytes = sign > 0 ? t->pass_bytes + it->rec.len : t->pass_bytes - it->rec.len;
		t->pass_items = sign > 0 ? t->pass_items + 1 : t->pass_items - 1;
	}
}

static void link_last(struct trunc *t, struct trunc_item *it)
{
	TAILQ_INSERT_TAIL(&t->queue, it, all);
	if (it->kind == TRUNC_HELD)
		TAILQ_INSERT_TAIL(&t->streams[it->rec.stream].held, it, same);
	account(t, it, 1);
}

/* Copies the record to the end of the queue. NULL: no memory. */
static struct trunc_item *trunc_queue_add(struct trunc *t, enum trunc_kind kind, const struct ring_record *rec)
{
	struct trunc_item *it = item_create(kind, rec);

	if (it)
		link_last(t, it);
	return it;
}

/* A gap item in front of `before`, the first record that loses bytes. */
static struct trunc_item *trunc_queue_gap(struct trunc_item *before)
{
	struct ring_record rec = before->rec;
	struct trunc_item *it;

	rec.type = EVENT_GAP;
	rec.flags = 0;
	rec.offset += before->skip;
	rec.len = 0;
	it = item_create(TRUNC_GAP, &rec);
	if (it)
		TAILQ_INSERT_BEFORE(before, it, all);
	return it;
}

static void trunc_queue_remove(struct trunc *t, struct trunc_item *it)
{
	account(t, it, -1);
	TAILQ_REMOVE(&t->queue, it, all);
	if (it->kind == TRUNC_HELD)
		TAILQ_REMOVE(&t->streams[it->rec.stream].held, it, same);
	free(it);
}

static void trunc_queue_clear(struct trunc *t)
{
	struct trunc_item *it, *next;

	for (it = TAILQ_FIRST(&t->queue); it; it = next) {
		next = TAILQ_NEXT(it, all);
		free(it);
	}
	TAILQ_INIT(&t->queue);
	t->pass_bytes = 0;
	t->pass_items = 0;
	for (int i = 0; i < STREAM_COUNT; i++) {
		TAILQ_INIT(&t->streams[i].held);
		t->streams[i].held_bytes = 0;
		t->streams[i].held_items = 0;
		t->streams[i].gap_item = NULL;
	}
}

static void save_stream(const struct trunc_stream *s, uint8_t out[STREAM_SIZE])
{
	put_u64(out, s->expected);
	put_u64(out + 8, s->head_left);
	put_u64(out + 16, s->kept);
	put_u64(out + 24, s->omitted);
	put_u64(out + 32, s->missing);
	put_u64(out + 40, 0);
	digest_save(&s->digest, out + 48);
	event_gap_encode(&s->gap, out + 48 + DIGEST_STATE_SIZE);
}

static void load_stream(struct trunc_stream *s, const uint8_t *p)
{
	struct ring_record gap = {.type = EVENT_GAP, .len = EVENT_GAP_SIZE, .payload = p + 48 + DIGEST_STATE_SIZE};

	s->expected = get_u64(p);
	s->head_left = get_u64(p + 8);
	s->kept = get_u64(p + 16);
	s->omitted = get_u64(p + 24);
	s->missing = get_u64(p + 32);
	digest_load(&s->digest, p + 48);
	(void)event_gap_decode(&gap, &s->gap); /* type and length were set right above */
}

static int save_item(const struct trunc_item *it, struct buf *out)
{
	uint8_t head[ITEM_SIZE] = {0};
	int rc;

	head[0] = (uint8_t)it->kind;
	head[1] = it->rec.type;
	head[2] = it->rec.stream;
	put_u16(head + 4, it->rec.flags);
	put_u32(head + 8, it->skip);
	put_u32(head + 12, it->rec.len);
	put_u64(head + 16, it->rec.seq);
	put_u64(head + 24, it->rec.boot_ns);
	put_u64(head + 32, it->rec.offset);
	memcpy(head + 40, it->rec.session.b, 16);
	rc = buf_append(out, head, sizeof head);
	return rc || !it->rec.len ? rc : buf_append(out, it->data, it->rec.len);
}

int trunc_save(const struct trunc *t, struct buf *out)
{
	uint8_t front[FRONT_SIZE] = {0}, stream[STREAM_SIZE];
	const struct trunc_item *it;
	uint32_t n = 0;
	int rc;

	TAILQ_FOREACH(it, &t->queue, all)
	n++;
	put_u32(front, STATE_VERSION);
	put_u32(front + 4, (uint32_t)t->direction);
	put_u32(front + 8, n);
	rc = buf_append(out, front, sizeof front);
	for (int i = 0; !rc && i < STREAM_COUNT; i++) {
		save_stream(&t->streams[i], stream);
		rc = buf_append(out, stream, sizeof stream);
	}
	TAILQ_FOREACH(it, &t->queue, all)
	{
		if (!rc)
			rc = save_item(it, out);
	}
	return rc;
}

/* Bytes used, or an error. */
static int load_item(struct trunc *t, const uint8_t *p, size_t n)
{
	struct ring_record rec = {.len = 0};
	struct trunc_item *it;

	if (n < ITEM_SIZE || p[0] > TRUNC_GAP || p[2] >= STREAM_COUNT)
		return ERR_CORRUPT;
	rec.type = p[1];
	rec.stream = p[2];
	rec.flags = get_u16(p + 4);
	rec.len = get_u32(p + 12);
	rec.seq = get_u64(p + 16);
	rec.boot_ns = get_u64(p + 24);
	rec.offset = get_u64(p + 32);
	memcpy(rec.session.b, p + 40, 16);
	rec.payload = p + ITEM_SIZE;
	if (rec.len > RING_RECORD_MAX || rec.len > n - ITEM_SIZE || get_u32(p + 8) > rec.len)
		return ERR_CORRUPT;
	if (p[0] == TRUNC_GAP && t->streams[rec.stream].gap_item)
		return ERR_CORRUPT;
	it = item_create((enum trunc_kind)p[0], &rec);
	if (!it)
		return ERR_NOMEM;
	it->skip = get_u32(p + 8);
	link_last(t, it);
	if (it->kind == TRUNC_GAP)
		t->streams[rec.stream].gap_item = it;
	return (int)(ITEM_SIZE + rec.len);
}

int trunc_restore(struct trunc *t, const uint8_t *p, size_t n, struct err *e)
{
	const size_t fixed = FRONT_SIZE + STREAM_COUNT * STREAM_SIZE;
	size_t at = fixed;
	uint32_t items;

	if (n < fixed || get_u32(p) != STATE_VERSION || get_u32(p + 4) > TRUNC_OUT)
		return err_set(e, ERR_CORRUPT, "the saved state of a recording is not one of this version");
	trunc_queue_clear(t);
	t->direction = (enum trunc_direction)get_u32(p + 4);
	items = get_u32(p + 8);
	for (int i = 0; i < STREAM_COUNT; i++)
		load_stream(&t->streams[i], p + FRONT_SIZE + i * STREAM_SIZE);
	for (uint32_t i = 0; i < items; i++) {
		int used = load_item(t, p + at, n - at);
		if (used < 0)
			return err_set(e, used, "the saved state of a recording is damaged");
		at += (size_t)used;
	}
	return at == n ? 0 : err_set(e, ERR_CORRUPT, "the saved state of a recording is damaged");
}

/* ---- the rule */

void trunc_rule_choose(const struct conf_rule *rules, size_t n, const char *principal_kind, const char *session,
		       bool pty, const struct record_rule *named, struct trunc_rule *out)
{
	struct record_rule r;

	record_rule_choose(rules, n, principal_kind, session, named, &r);
	*out = (struct trunc_rule){
	    .kind = r.kind, .burst = pty || strcmp(session, "terminal") == 0, .head = r.head, .tail = r.tail};
}

void trunc_close(struct trunc *t)
{
	t->rule.kind = RULE_METADATA;
	t->rule.burst = false;
	t->rule.head = t->rule.tail = 0;
	for (int i = 0; i < STREAM_COUNT; i++)
		t->streams[i].head_left = 0;
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
