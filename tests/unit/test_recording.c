// tier: check
/* Recordings: what goes into a builder comes out of a reader, at once and from any place, over crashes too. */
#include "tests/lib/recordings.h"

#include "recorder/chain/digest.h"
#include "recorder/format/block.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static int setup(void **state)
{
	static struct record r;

	record_begin(&r, 7);
	*state = &r;
	return 0;
}

static int teardown(void **state)
{
	record_end(*state);
	return 0;
}

static struct recording *open_sealed(struct record *r, const struct chain_seal *s)
{
	struct recording *rec = NULL;
	struct err e = {0};
	char path[256];

	record_path(r, s, path);
	need(recording_open(path, &rec, &e), &e, "recording_open");
	return rec;
}

static void next_is(struct recording *rec, unsigned type, const char *payload)
{
	struct ring_record ev;
	struct err e = {0};

	assert_int_equal(recording_next(rec, &ev, &e), 1);
	assert_int_equal(ev.type, type);
	if (payload) {
		assert_int_equal(ev.len, strlen(payload));
		assert_memory_equal(ev.payload, payload, ev.len);
	}
}

static void a_session_comes_back_as_it_was(void **state)
{
	struct record *r = *state;
	struct id id = record_id(1);
	struct builder *b = record_open(r, &id, "terminal", NULL);
	struct chain_seal seal;
	struct ring_record ev;
	struct err e = {0};

	record_text(r, b, STREAM_OUTPUT, "$ ");
	record_text(r, b, STREAM_INPUT, "ls\r");
	record_resize(r, b, 120, 40);
	record_json(r, b, RING_EVENT, "{\"event\":\"detach\"}");
	record_exit(r, b, 3);
	record_seal(r, b, NULL, &seal);
	assert_string_equal(seal.day, "2026-11-21");

	struct recording *rec = open_sealed(r, &seal);
	const struct recording_info *info = recording_info(rec);
	assert_true(info->sealed);
	assert_true(id_equal(&info->session, &id));
	assert_string_equal(info->boot_id, "6f1b7a0e-0000-4000-8000-000000000001");
	assert_string_equal(info->kid, r->key.kid);
	assert_int_equal(info->events, 6);
	assert_int_equal(info->streams[STREAM_OUTPUT].total, 2);
	assert_int_equal(info->streams[STREAM_INPUT].kept, 3);
	assert_non_null(strstr(info->exit_json, "\"code\":3"));
	next_is(rec, RING_OPEN, info->open_json);
	next_is(rec, RING_DATA, "$ ");
	next_is(rec, RING_DATA, "ls\r");
	next_is(rec, RING_RESIZE, NULL);
	next_is(rec, RING_EVENT, "{\"event\":\"detach\"}");
	assert_int_equal(recording_next(rec, &ev, &e), 1);
	assert_int_equal(ev.type, RING_EXIT);
	assert_int_equal(ev.seq, 6);
	assert_int_equal(recording_wall_ns(rec, ev.boot_ns), WALL + 5 * NS_PER_MS);
	assert_int_equal(recording_next(rec, &ev, &e), 0);
	recording_close(rec);
}

static void records_seen_before_change_nothing(void **state)
{
	struct record *r = *state;
	struct id id = record_id(1), other = record_id(2);
	struct builder *b = record_open(r, &id, "terminal", NULL);
	struct ring_record rec = record_make(r, &id, RING_DATA, "once", 4);
	struct err e = {0};

	rec.stream = STREAM_OUTPUT;
	record_put(b, &rec);
	record_put(b, &rec);
	assert_int_equal(builder_offset(b, STREAM_OUTPUT), 4);
	/* A part that was journaled before and comes again under a new sequence (the hub sent it twice). */
	rec = record_make(r, &id, RING_DATA, "ce and more", 11);
	rec.stream = STREAM_OUTPUT;
	rec.offset = 2;
	record_put(b, &rec);
	assert_int_equal(builder_offset(b, STREAM_OUTPUT), 13);
	rec = record_make(r, &other, RING_DATA, "x", 1);
	assert_int_equal(builder_append(b, &rec, &e), ERR_INVAL);
	rec = record_make(r, &id, RING_DATA, "x", 1);
	rec.stream = 3;
	assert_int_equal(builder_append(b, &rec, &e), ERR_INVAL);
	record_text(r, b, STREAM_OUTPUT, "!");
	builder_abort(b);
}

static void lost_bytes_are_told(void **state)
{
	struct record *r = *state;
	struct id id = record_id(1);
	struct builder *b = record_open(r, &id, "terminal", NULL);
	struct ring_record rec = record_make(r, &id, RING_DATA, "tail", 4), ev;
	struct chain_seal seal;
	struct err e = {0};

	rec.stream = STREAM_OUTPUT;
	rec.offset = 1000;
	record_put(b, &rec);
	record_seal(r, b, NULL, &seal);
	struct recording *rd = open_sealed(r, &seal);
	next_is(rd, RING_OPEN, NULL);
	assert_int_equal(recording_next(rd, &ev, &e), 1);
	assert_int_equal(ev.type, EVENT_MISSING);
	assert_int_equal(event_extent(&ev), 1000);
	next_is(rd, RING_DATA, "tail");
	assert_int_equal(recording_info(rd)->streams[STREAM_OUTPUT].missing, 1000);
	recording_close(rd);
}

/* Text that packs like terminal output does. */
static void fill(uint8_t *p, size_t n, unsigned seed)
{
	static const char *const words[] = {"drwxr-xr-x", "root", "\033[01;34m",  "src",
					    "\033[0m",    "4096", "Makefile\r\n", " "};
	size_t at = 0;

	while (at < n) {
		const char *w = words[(seed = seed * 1103515245 + 12345) >> 16 & 7];
		size_t len = strlen(w) < n - at ? strlen(w) : n - at;
		memcpy(p + at, w, len);
		at += len;
	}
}

#define LONG_PIECE 5000
#define LONG_COUNT 400

static void build_long(struct record *r, const struct id *id, struct chain_seal *out, uint8_t *all)
{
	struct builder *b = record_open(r, id, "terminal", NULL);

	for (unsigned i = 0; i < LONG_COUNT; i++) {
		if (i % 50 == 0)
			record_resize(r, b, 80 + i, 24);
		if (i % 10 == 0)
			record_text(r, b, STREAM_INPUT, "key");
		fill(all + (size_t)i * LONG_PIECE, LONG_PIECE, i);
		record_data(r, b, STREAM_OUTPUT, all + (size_t)i * LONG_PIECE, LONG_PIECE);
	}
	record_exit(r, b, 0);
	record_seal(r, b, NULL, out);
}

static void every_moment_is_reached(void **state)
{
	struct record *r = *state;
	struct id id = record_id(1);
	uint8_t *all = malloc(LONG_COUNT * LONG_PIECE);
	struct chain_seal seal;
	struct ring_record ev, want;
	struct err e = {0};

	build_long(r, &id, &seal, all);
	struct recording *rd = open_sealed(r, &seal), *scan = open_sealed(r, &seal);
	assert_true(recording_info(rd)->blocks > 5);
	while (recording_next(scan, &want, &e) == 1) {
		assert_int_equal(recording_seek_time(rd, want.boot_ns, &e), 0);
		assert_int_equal(recording_next(rd, &ev, &e), 1);
		assert_int_equal(ev.seq, want.seq);
		assert_int_equal(recording_wall_ns(rd, ev.boot_ns), recording_wall_ns(scan, want.boot_ns));
	}
	/* Behind a sequence: what comes first is of its block at the earliest. */
	assert_int_equal(recording_rewind(scan, &e), 0);
	while (recording_next(scan, &want, &e) == 1) {
		size_t before = 0;

		assert_int_equal(recording_seek_seq(rd, want.seq - 1, &e), 0);
		while (recording_next(rd, &ev, &e) == 1 && ev.seq < want.seq)
			before++;
		assert_int_equal(ev.seq, want.seq);
		assert_int_equal(ev.offset, want.offset);
		assert_in_range(before, 0, 70); /* a block has 53 of these pieces, and keys and sizes between them */
	}
	assert_int_equal(recording_seek_seq(rd, UINT64_MAX, &e), 0);
	assert_int_equal(recording_next(rd, &ev, &e), 0);
	/* Before the beginning is the beginning; behind the end is the end. */
	assert_int_equal(recording_seek_time(rd, 0, &e), 0);
	next_is(rd, RING_OPEN, NULL);
	assert_int_equal(recording_seek_time(rd, UINT64_MAX, &e), 0);
	assert_int_equal(recording_next(rd, &ev, &e), 0);
	for (uint64_t at = 0; at < LONG_COUNT * LONG_PIECE; at += 77777) {
		assert_int_equal(recording_seek_offset(rd, STREAM_OUTPUT, at, &e), 0);
		do
			assert_int_equal(recording_next(rd, &ev, &e), 1);
		while (ev.stream != STREAM_OUTPUT || ev.type != RING_DATA);
		assert_in_range(at, ev.offset, ev.offset + ev.len - 1);
	}
	recording_close(rd);
	recording_close(scan);
	free(all);
}

static void digests_cover_every_byte(void **state)
{
	struct record *r = *state;
	struct id id = record_id(1);
	uint8_t *all = malloc(LONG_COUNT * LONG_PIECE), want[32];
	struct chain_seal seal;

	build_long(r, &id, &seal, all);
	struct recording *rd = open_sealed(r, &seal);
	EVP_Digest(all, LONG_COUNT * LONG_PIECE, want, NULL, EVP_sha256(), NULL);
	assert_memory_equal(recording_info(rd)->streams[STREAM_OUTPUT].sha256, want, 32);
	EVP_Digest("", 0, want, NULL, EVP_sha256(), NULL);
	assert_memory_equal(recording_info(rd)->streams[STREAM_STDERR].sha256, want, 32);
	recording_close(rd);
	free(all);
}

static void a_digest_is_taken_up_again(void **state)
{
	uint8_t data[1000], saved[DIGEST_STATE_SIZE], want[32], got[32];
	struct digest d;

	(void)state;
	fill(data, sizeof data, 1);
	EVP_Digest(data, sizeof data, want, NULL, EVP_sha256(), NULL);
	for (size_t cut = 0; cut <= sizeof data; cut++) {
		digest_init(&d);
		digest_update(&d, data, cut);
		digest_save(&d, saved);
		memset(&d, 0xee, sizeof d);
		digest_load(&d, saved);
		digest_update(&d, data + cut, sizeof data - cut);
		digest_peek(&d, got);
		assert_memory_equal(got, want, 32);
	}
}

static uint64_t events_of(struct recording *rd)
{
	struct ring_record rec;
	struct err e = {0};
	uint64_t n = 0;
	int rc;

	while ((rc = recording_next(rd, &rec, &e)) == 1)
		n++;
	need(rc, &e, "next");
	return n;
}

/*
 * A crash at any record: the file holds whatever was written after the checkpoint, the caller feeds from the
 * checkpoint on (or from further back), and the result is what an undisturbed run gives.
 */
static void after_a_crash_it_goes_on(void **state)
{
	struct record *r = *state;
	static const struct trunc_rule rules[] = {
	    {.kind = RULE_FULL}, {.kind = RULE_TRUNCATED, .head = 300, .tail = 200}, {.kind = RULE_METADATA}};
	struct id id = record_id(1);
	struct ring_record recs[60];
	static uint8_t data[60][700];
	struct err e = {0};

	for (unsigned rule = 0; rule < 3; rule++) {
		struct builder_options o = {.dir = r->dir, .rule = rules[rule]};
		struct trunc_totals totals[STREAM_COUNT];
		uint64_t events = 0;

		for (int run = 0; run < 8; run++) {
			uint64_t offset[STREAM_COUNT] = {0};
			struct chain_seal seal;
			struct builder *b;
			struct buf saved;
			bool crashed = false;

			r->seq = 0;
			r->ns = BOOT;
			id = record_id(100 + rule * 10 + (unsigned)run);
			b = record_open(r, &id, "round", &rules[rule]);
			buf_init(&saved, 1 << 20);
			for (unsigned i = 0; i < 60; i++) {
				unsigned stream = i % 7 == 3 ? STREAM_STDERR : STREAM_OUTPUT;
				size_t n = 1 + i * 37 % 700;
				fill(data[i], n, i);
				recs[i] = record_make(r, &id, RING_DATA, data[i], n);
				recs[i].stream = (uint8_t)stream;
				recs[i].offset = offset[stream];
				offset[stream] += n;
			}
			for (unsigned i = 0; i < 60; i++) {
				record_put(b, &recs[i]);
				if (run && !crashed && i == (unsigned)run * 4)
					need(builder_checkpoint(b, &saved, &e), &e, "checkpoint");
				if (run && !crashed && i == (unsigned)run * 7) { /* gone in the middle of a write */
					struct buf lost;
					char path[256], name[ID_STR_LEN];
					buf_init(&lost, 1 << 20);
					need(builder_checkpoint(b, &lost, &e), &e, "lost checkpoint");
					buf_finish(&lost);
					builder_destroy(b);
					id_format(&id, name);
					snprintf(path, sizeof path, "%s/open/%s.mrec", r->dir, name);
					int fd = open(path, O_WRONLY | O_APPEND);
					assert_int_equal(write(fd, "half a block", 12), 12);
					close(fd);
					need(builder_reopen(&o, &id, buf_ptr(&saved), buf_len(&saved), &b, &e), &e,
					     "reopen");
					assert_int_equal(builder_seq(b), recs[run * 4].seq);
					crashed = true;
					i = 0; /* what it has seen before it skips */
				}
			}
			record_exit(r, b, 0);
			record_seal(r, b, NULL, &seal);
			buf_finish(&saved);
			struct recording *rd = open_sealed(r, &seal);
			const struct recording_info *info = recording_info(rd);
			if (run == 0) {
				memcpy(totals, info->streams, sizeof totals);
				events = info->events;
			}
			assert_memory_equal(totals, info->streams, sizeof totals);
			assert_int_equal(events, info->events);
			assert_int_equal(info->streams[STREAM_OUTPUT].total, offset[STREAM_OUTPUT]);
			recording_close(rd);
		}
	}
}

/* A session that prints a little for months: a checkpoint each ten seconds must not be a block each. */
struct trickle {
	struct record *r;
	struct builder_options options;
	struct digest all;
	uint64_t bytes;
};

static struct builder *trickle_on(struct trickle *t, struct builder *b, unsigned checkpoints)
{
	struct id id = *builder_session(b);
	struct err e = {0};
	struct buf state;
	uint8_t text[40];

	buf_init(&state, 1 << 20);
	for (unsigned i = 0; i < checkpoints; i++) {
		size_t n = 1 + i % sizeof text;

		fill(text, n, i);
		digest_update(&t->all, text, n);
		t->bytes += n;
		record_data(t->r, b, STREAM_OUTPUT, text, n);
		record_resize(t->r, b, 80 + i % 9, 24);
		buf_clear(&state);
		need(builder_checkpoint(b, &state, &e), &e, "checkpoint");
		if (i % 31)
			continue;
		record_data(t->r, b, STREAM_OUTPUT, "lost", 4); /* behind the checkpoint: it is fed again */
		builder_destroy(b);
		need(builder_reopen(&t->options, &id, buf_ptr(&state), buf_len(&state), &b, &e), &e, "reopen");
	}
	buf_finish(&state);
	return b;
}

static void checkpoints_of_a_trickle_are_no_blocks(void **state)
{
	struct record *r = *state;
	struct id id = record_id(1);
	struct trickle t = {.r = r, .options = {.dir = r->dir, .rule = {.kind = RULE_FULL}}};
	struct builder *b = record_open(r, &id, "terminal", NULL);
	struct recording *rd;
	struct chain_seal seal;
	uint8_t want[32];

	digest_init(&t.all);
	b = trickle_on(&t, b, 8000);
	record_exit(r, b, 0);
	record_seal(r, b, NULL, &seal);
	rd = open_sealed(r, &seal);
	digest_peek(&t.all, want);
	assert_memory_equal(recording_info(rd)->streams[STREAM_OUTPUT].sha256, want, 32);
	assert_int_equal(recording_info(rd)->streams[STREAM_OUTPUT].kept, t.bytes);
	assert_int_equal(recording_info(rd)->events, 2 * 8000 + 2);
	assert_in_range(recording_info(rd)->blocks, 1025, 1200);
	assert_int_equal(events_of(rd), recording_info(rd)->events);
	recording_close(rd);
}

/* All the blocks that a file may have are there, and the session goes on: what follows is a gap with its digest. */
static void a_recording_that_is_full_goes_on_counting(void **state)
{
	struct record *r = *state;
	struct id id = record_id(1);
	struct trickle t = {.r = r, .options = {.dir = r->dir, .rule = {.kind = RULE_FULL}, .blocks_most = 64}};
	struct builder *b = record_open(r, &id, "terminal", NULL);
	struct recording *rd;
	struct chain_seal seal;
	struct err e = {0};
	uint8_t want[32];

	builder_abort(b);
	r->seq = 0;
	b = NULL;
	static const char open[] = "{\"kind\":\"terminal\",\"wall_ns\":1795248000000000000}";
	struct ring_record rec = record_make(r, &id, RING_OPEN, open, strlen(open));
	need(builder_create(&t.options, &rec, &b, &e), &e, "create");
	digest_init(&t.all);
	b = trickle_on(&t, b, 500);
	assert_true(builder_full(b));
	for (unsigned i = 0; i < 200; i++) { /* as segments are let go of */
		struct buf saved;

		buf_init(&saved, 1 << 20);
		b = trickle_on(&t, b, 1);
		need(builder_settle(b, &e), &e, "settle");
		need(builder_checkpoint(b, &saved, &e), &e, "checkpoint");
		buf_finish(&saved);
	}
	record_exit(r, b, 0);
	record_seal(r, b, NULL, &seal);
	rd = open_sealed(r, &seal);
	digest_peek(&t.all, want);
	assert_memory_equal(recording_info(rd)->streams[STREAM_OUTPUT].sha256, want, 32);
	assert_int_equal(recording_info(rd)->streams[STREAM_OUTPUT].total, t.bytes);
	assert_in_range(recording_info(rd)->streams[STREAM_OUTPUT].kept, 500, t.bytes - 5000);
	assert_in_range(recording_info(rd)->blocks, 56, 64);
	assert_int_equal(events_of(rd), recording_info(rd)->events);
	recording_close(rd);
}

static void a_checkpoint_of_another_file_is_refused(void **state)
{
	struct record *r = *state;
	struct id a = record_id(1), b_id = record_id(2);
	struct builder *b = record_open(r, &a, "round", NULL), *other = NULL;
	struct builder_options o = {.dir = r->dir};
	struct err e = {0};
	struct buf saved;

	buf_init(&saved, 1 << 20);
	record_text(r, b, STREAM_OUTPUT, "hello");
	need(builder_checkpoint(b, &saved, &e), &e, "checkpoint");
	builder_destroy(b);
	b = record_open(r, &b_id, "round", NULL);
	record_text(r, b, STREAM_OUTPUT, "world");
	builder_destroy(b);
	assert_int_equal(builder_reopen(&o, &b_id, buf_ptr(&saved), buf_len(&saved), &other, &e), ERR_CORRUPT);
	for (size_t n = 0; n < buf_len(&saved); n += 13)
		assert_int_equal(builder_reopen(&o, &a, buf_ptr(&saved), n, &other, &e), ERR_CORRUPT);
	need(builder_reopen(&o, &a, buf_ptr(&saved), buf_len(&saved), &other, &e), &e, "reopen");
	builder_abort(other);
	assert_int_equal(builder_reopen(&o, &a, buf_ptr(&saved), buf_len(&saved), &other, &e), ERR_NOT_FOUND);
	buf_finish(&saved);
}

static void an_open_recording_can_be_read(void **state)
{
	struct record *r = *state;
	struct id id = record_id(1);
	struct builder *b = record_open(r, &id, "terminal", NULL);
	struct recording *rd = NULL;
	struct err e = {0};
	char path[256];
	struct buf saved;

	buf_init(&saved, 1 << 20);
	record_text(r, b, STREAM_OUTPUT, "so far");
	need(builder_checkpoint(b, &saved, &e), &e, "checkpoint");
	need(recording_find(r->dir, &id, path, sizeof path, &e), &e, "find");
	need(recording_open(path, &rd, &e), &e, "open");
	assert_false(recording_info(rd)->sealed);
	assert_false(recording_info(rd)->torn);
	next_is(rd, RING_OPEN, NULL);
	next_is(rd, RING_DATA, "so far");
	recording_close(rd);
	builder_abort(b);
	assert_int_equal(recording_find(r->dir, &id, path, sizeof path, &e), ERR_NOT_FOUND);
	buf_finish(&saved);
}

/* The cutter's move, at the moment when somebody looks for the open file: before the look, or behind it. */
static struct {
	char open[FILE_PATH_MAX], sealed[FILE_PATH_MAX];
	bool before;
} moving;

static void move_now(void)
{
	if (moving.open[0])
		assert_int_equal(rename(moving.open, moving.sealed), 0);
	moving.open[0] = '\0';
}

int access(const char *path, int mode)
{
	bool open = strcmp(path, moving.open) == 0;
	int rc;

	if (open && moving.before)
		move_now();
	rc = faccessat(AT_FDCWD, path, mode, 0);
	if (open)
		move_now();
	return rc;
}

static void one_that_is_sealed_while_it_is_looked_for_is_found(void **state)
{
	struct record *r = *state;
	struct id id = record_id(1);
	struct recording *rd = NULL;
	char path[FILE_PATH_MAX], name[ID_STR_LEN];
	struct chain_seal seal;
	struct err e = {0};

	record_seal(r, record_open(r, &id, "terminal", NULL), NULL, &seal);
	id_format(&id, name);
	for (int before = 0; before < 2; before++) {
		record_path(r, &seal, moving.sealed);
		moving.before = before;
		need(file_path(path, &e, "%s/open/%s.mrec", r->dir, name), &e, "path");
		assert_int_equal(rename(moving.sealed, path), 0);
		memcpy(moving.open, path, sizeof path);
		need(recording_open_found(r->dir, &id, path, &rd, &e), &e, "recording_open_found");
		assert_string_equal(moving.open, "");
		assert_string_equal(path, moving.sealed);
		assert_true(recording_info(rd)->sealed);
		recording_close(rd);
	}
}

static void nothing_is_sealed_twice(void **state)
{
	struct record *r = *state;
	struct id id = record_id(1);
	struct builder *b = record_open(r, &id, "terminal", NULL), *again = NULL;
	struct builder_options o = {.dir = r->dir};
	struct chain_seal seal, read;
	struct err e = {0};
	char path[256], json[64];

	record_seal(r, b, NULL, &seal);
	snprintf(json, sizeof json, "{\"wall_ns\":%lld}", (long long)WALL);
	struct ring_record open = record_make(r, &id, RING_OPEN, json, strlen(json));
	assert_int_equal(builder_create(&o, &open, &again, &e), ERR_CONFLICT);
	record_path(r, &seal, path);
	need(recording_sealed(path, &read, &e), &e, "recording_sealed");
	assert_memory_equal(read.leaf, seal.leaf, sizeof read.leaf);
	assert_int_equal(read.size, seal.size);
	assert_int_equal(read.journal_seq, seal.journal_seq);
	assert_string_equal(read.day, seal.day);
}

static void a_clock_record_moves_the_wall(void **state)
{
	struct record *r = *state;
	struct id id = record_id(1), nobody = {{0}};
	struct builder *b = record_open(r, &id, "terminal", NULL);
	struct ring_record clock, ev;
	struct chain_seal seal;
	struct err e = {0};
	char json[100];

	snprintf(json, sizeof json, "{\"wall_ns\":%lld,\"boot_id\":\"x\"}", (long long)(WALL + 3600 * NS_PER_SEC));
	clock = record_make(r, &nobody, RING_CLOCK, json, strlen(json));
	record_put(b, &clock);
	record_text(r, b, STREAM_OUTPUT, "later");
	record_seal(r, b, NULL, &seal);
	struct recording *rd = open_sealed(r, &seal);
	for (int i = 0; i < 3; i++)
		assert_int_equal(recording_next(rd, &ev, &e), 1);
	assert_int_equal(recording_wall_ns(rd, ev.boot_ns), WALL + 3600 * NS_PER_SEC + NS_PER_MS);
	recording_close(rd);
}

static void codecs_give_back_the_same(void **state)
{
	struct record *r = *state;
	static uint8_t data[100000];
	struct err e = {0};

	fill(data, sizeof data, 5);
	for (int codec = CODEC_NONE; codec <= CODEC_ZLIB; codec++) {
		struct id id = record_id((unsigned)codec);
		struct builder_options o = {.dir = r->dir, .codec = codec};
		struct ring_record open = record_make(r, &id, RING_OPEN, "{}", 2), ev;
		struct builder *b = NULL;
		struct chain_seal seal;

		need(builder_create(&o, &open, &b, &e), &e, "create");
		record_data(r, b, STREAM_OUTPUT, data, sizeof data);
		record_seal(r, b, NULL, &seal);
		if (codec != CODEC_NONE)
			assert_true(seal.size < sizeof data / 2);
		struct recording *rd = open_sealed(r, &seal);
		next_is(rd, RING_OPEN, "{}");
		assert_int_equal(recording_next(rd, &ev, &e), 1);
		assert_int_equal(ev.len, sizeof data);
		assert_memory_equal(ev.payload, data, sizeof data);
		recording_close(rd);
	}
}

/* Two readers must see the same in a block: a second frame, or rubbish behind the first, belongs to nobody. */
static void nothing_stands_behind_a_frame(void **state)
{
	static uint8_t data[10000], longer[20000];

	(void)state;
	fill(data, sizeof data, 5);
	for (int codec = CODEC_ZSTD; codec <= CODEC_ZLIB; codec++) {
		struct block_coder *c = NULL;
		struct block_header h = {.type = BLOCK_EVENTS};
		const uint8_t *stored = NULL, *raw = NULL;
		struct err e = {0};

		need(block_coder_create(&c), &e, "coder");
		need(block_compress(c, codec, data, sizeof data, &h, &stored, &e), &e, "compress");
		memcpy(longer, stored, h.stored_len);
		memcpy(longer + h.stored_len, stored, h.stored_len);
		need(block_expand(c, &h, longer, &raw, &e), &e, "expand");
		assert_memory_equal(raw, data, sizeof data);
		h.stored_len++;
		assert_int_equal(block_expand(c, &h, longer, &raw, &e), ERR_CORRUPT);
		h.stored_len = 2 * h.stored_len - 2;
		assert_int_equal(block_expand(c, &h, longer, &raw, &e), ERR_CORRUPT);
		block_coder_destroy(c);
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(a_session_comes_back_as_it_was),
	    T(records_seen_before_change_nothing),
	    T(lost_bytes_are_told),
	    T(every_moment_is_reached),
	    T(digests_cover_every_byte),
	    T(a_digest_is_taken_up_again),
	    T(after_a_crash_it_goes_on),
	    T(checkpoints_of_a_trickle_are_no_blocks),
	    T(a_recording_that_is_full_goes_on_counting),
	    T(a_checkpoint_of_another_file_is_refused),
	    T(an_open_recording_can_be_read),
	    T(one_that_is_sealed_while_it_is_looked_for_is_found),
	    T(nothing_is_sealed_twice),
	    T(a_clock_record_moves_the_wall),
	    T(codecs_give_back_the_same),
	    T(nothing_stands_behind_a_frame),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
