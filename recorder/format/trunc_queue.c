#include "recorder/format/trunc_queue.h"

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

#include <stdlib.h>
#include <string.h>

#define STATE_VERSION 1
#define FRONT_SIZE    24
#define STREAM_SIZE   (6 * 8 + DIGEST_STATE_SIZE + EVENT_GAP_SIZE)
#define ITEM_SIZE     64

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

struct trunc_item *trunc_queue_add(struct trunc *t, enum trunc_kind kind, const struct ring_record *rec)
{
	struct trunc_item *it = item_create(kind, rec);

	if (it)
		link_last(t, it);
	return it;
}

struct trunc_item *trunc_queue_gap(struct trunc_item *before)
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

void trunc_queue_remove(struct trunc *t, struct trunc_item *it)
{
	account(t, it, -1);
	TAILQ_REMOVE(&t->queue, it, all);
	if (it->kind == TRUNC_HELD)
		TAILQ_REMOVE(&t->streams[it->rec.stream].held, it, same);
	free(it);
}

void trunc_queue_clear(struct trunc *t)
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
