/*
 * cutter_rig.h - a record with its ring, drain and cutter in this process, for tests of cutting.
 *
 * A test gets a struct place of its own (CUTTER_TEST). Static functions, for inclusion by one test.
 */
#ifndef TESTS_LIB_CUTTER_RIG_H
#define TESTS_LIB_CUTTER_RIG_H

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/ring.h"
#include "recorder/chain/sign.h"
#include "recorder/format/event.h"
#include "recorder/format/recording.h"
#include "recorder/index/index_rebuild.h"
#include "recorder/serve/lost.h"
#include "recorder/verify/verify.h"
#include "recorder/write/cutter.h"
#include "recorder/write/follower.h"
#include "recorder/write/source.h"
#include "tests/lib/ring_feed.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define CUTTER_TEST(f) cmocka_unit_test_setup_teardown(f, place_make, place_remove)
#define MIB            (1024 * 1024)

struct place {
	char dir[64], path[96];
	int ring_fd, cursor_fd, segments_fd;
	struct ring_writer *w;
	struct conf *conf;
	struct signer *signer;
	struct live *live;
	struct drain *drain;
	struct cutter *cutter;
	struct index *reader;
};

static inline void make_folder(struct place *p, const char *name)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	assert_int_equal(mkdir(path, 0700), 0);
}

/* runs false: nothing is cut and no checkpoint stored, as in one that is killed at once. */
static inline void start_cutter(struct place *p, bool runs)
{
	struct err e = {0};
	struct index *ix;
	struct index_cursor cursor;
	struct segment_tail tail;
	struct segment_record sr;
	struct follower *f;
	struct drain_params d = {.ring_fd = p->ring_fd,
				 .cursor_fd = p->cursor_fd,
				 .dir_fd = p->segments_fd,
				 .segment_size = MIB,
				 .io = &segment_io_system};
	uint8_t key[32];
	if (signer_derive(p->signer, "muxd index 1", key, &e) || index_open_or_rebuild(p->dir, key, NULL, &ix, &e) ||
	    index_last_lsn(ix, &d.min_lsn, &e) || index_cursor(ix, &cursor, &e))
		fail_msg("%s", e.message);
	d.min_segment = cursor.segment;
	if (live_create(&p->live) || drain_create(&d, p->live, &p->drain, &e))
		fail_msg("%s", e.message);
	/* As the process does it: the live table from the segments that are not cut. */
	assert_int_equal(follower_create(p->segments_fd, &cursor, &f, NULL), 0);
	drain_durable(p->drain, &tail);
	while (follower_read(f, &tail, &sr, NULL) == 1)
		assert_int_equal(live_apply(p->live, &sr.rec, sr.lsn), 0);
	follower_destroy(f);
	struct cutter_params c = {.dir = p->dir,
				  .segments_fd = p->segments_fd,
				  .index = ix,
				  .drain = p->drain,
				  .live = p->live,
				  .signer = p->signer,
				  .conf = p->conf};
	snprintf(p->path, sizeof(p->path), "%s/audit.db", p->dir);
	if (drain_start(p->drain, &e) || cutter_create(&c, &p->cutter, &e) || (runs && cutter_start(p->cutter, &e)) ||
	    index_open_reader(p->path, &p->reader, &e))
		fail_msg("%s", e.message);
	index_use_key(p->reader, key);
}

static inline void start(struct place *p)
{
	start_cutter(p, true);
}

static inline void stop(struct place *p)
{
	index_close(p->reader);
	if (p->cutter)
		cutter_settle(p->cutter);
	if (p->drain)
		drain_stop(p->drain);
	cutter_destroy(p->cutter);
	drain_destroy(p->drain);
	live_destroy(p->live);
	p->reader = NULL;
	p->cutter = NULL;
	p->drain = NULL;
	p->live = NULL;
}

static inline int place_make(void **state)
{
	static const char text[] =
	    "record:\n  segment_size: 1MiB\n  retain_wait: 0\n  rules:\n    - {kind: \"*\", rule: full}\n";
	struct place *p = calloc(1, sizeof(*p));
	char ring[96], cursor[96], segments[96];
	uint8_t seed[32] = {7};
	if (!p)
		return -1;
	snprintf(p->dir, sizeof(p->dir), "/tmp/test-cutter-XXXXXX");
	if (!mkdtemp(p->dir))
		return -1;
	snprintf(ring, sizeof(ring), "%s/ring", p->dir);
	snprintf(cursor, sizeof(cursor), "%s/cursor", p->dir);
	snprintf(segments, sizeof(segments), "%s/segments", p->dir);
	make_folder(p, "segments");
	make_folder(p, "open");
	make_folder(p, "sealed");
	make_folder(p, "chain");
	if (ring_file_prepare(ring, 4 * MIB, NULL) || ring_cursor_prepare(cursor, NULL) ||
	    conf_parse(text, sizeof(text) - 1, "test", &p->conf, NULL) || signer_create(seed, &p->signer, NULL))
		return -1;
	p->ring_fd = open(ring, O_RDWR | O_CLOEXEC);
	p->cursor_fd = open(cursor, O_RDWR | O_CLOEXEC);
	p->segments_fd = open(segments, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = p;
	return ring_writer_create(p->ring_fd, p->cursor_fd, &p->w, NULL);
}

static inline int place_remove(void **state)
{
	struct place *p = *state;
	char cmd[128];
	stop(p);
	ring_writer_destroy(p->w);
	conf_destroy(p->conf);
	signer_destroy(p->signer);
	close(p->ring_fd);
	close(p->cursor_fd);
	close(p->segments_fd);
	snprintf(cmd, sizeof(cmd), "rm -r %s", p->dir);
	int rc = system(cmd);
	free(p);
	return rc;
}

static inline void append(struct place *p, uint8_t type, uint8_t stream, const struct id *id, uint64_t offset,
			  const void *bytes, size_t n)
{
	struct ring_record rec = {.type = type, .stream = stream, .session = *id, .offset = offset};

	ring_feed(p->w, &rec, bytes, n);
}

static inline void text(struct place *p, uint8_t type, const struct id *id, const char *json)
{
	append(p, type, 0, id, 0, json, strlen(json));
}

static inline void session_open(struct place *p, struct id *out)
{
	char json[256];
	assert_int_equal(id_new(out), 0);
	snprintf(json, sizeof(json),
		 "{\"v\":1,\"kind\":\"terminal\",\"agent\":\"demo\",\"principal\":\"pat\",\"principal_kind\":\"staff\","
		 "\"wall_ns\":%lld,\"boot_id\":\"%s\"}",
		 (long long)clock_wall_ns(), clock_boot_id());
	text(p, RING_OPEN, out, json);
}

static inline uint8_t byte_at(uint64_t offset)
{
	return (uint8_t)((offset * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
}

static inline void send_bytes(struct place *p, const struct id *id, uint64_t *offset, size_t n)
{
	uint8_t bytes[16384];
	while (n) {
		size_t k = n < sizeof(bytes) ? n : sizeof(bytes);
		for (size_t i = 0; i < k; i++)
			bytes[i] = byte_at(*offset + i);
		append(p, RING_DATA, STREAM_OUTPUT, id, *offset, bytes, k);
		*offset += k;
		n -= k;
	}
}

static inline void consumed(struct place *p, const struct id *sealed)
{
	uint64_t lsn;
	struct err e = {0};
	assert_int_equal(drain_flush(p->drain, 10 * NS_PER_SEC, &lsn), 0);
	if (cutter_wait(p->cutter, lsn, sealed, 10 * NS_PER_SEC, &e))
		fail_msg("%s", e.message);
}

static inline struct source *source_of(struct place *p, const struct id *id)
{
	struct source_place sp = {
	    .dir = p->dir, .segments_fd = p->segments_fd, .drain = p->drain, .live = p->live, .index = p->reader};
	struct source *s = NULL;
	struct err e = {0};
	if (source_create(&sp, id, &s, &e))
		fail_msg("%s", e.message);
	return s;
}

/* Reads up to `until` bytes of output and checks each against its place. */
static inline uint64_t read_bytes(struct source *s, uint64_t from, uint64_t until)
{
	struct ring_record rec;
	struct err e = {0};
	int rc = 1;
	while (from < until && (rc = source_next(s, &rec, &e)) == 1) {
		if (rec.type != RING_DATA || rec.stream != STREAM_OUTPUT)
			continue;
		assert_int_equal(rec.offset, from);
		for (uint32_t i = 0; i < rec.len; i++)
			assert_int_equal(rec.payload[i], byte_at(from + i));
		from += rec.len;
	}
	if (rc < 0)
		fail_msg("%s", e.message);
	return from;
}

static inline size_t segments(struct place *p, uint64_t *out_first)
{
	uint64_t *list;
	size_t n;
	assert_int_equal(segment_list(p->segments_fd, &list, &n, NULL), 0);
	*out_first = n ? list[0] : 0;
	free(list);
	return n;
}

/* The cutter stores a checkpoint each 32 MiB, and every 10 s; that lets segments go. */
static inline void let_segments_go(struct place *p, const struct id *id, uint64_t *at)
{
	uint64_t before, first;
	(void)segments(p, &before);
	send_bytes(p, id, at, 36 * MIB);
	consumed(p, NULL);
	/* On a slow machine one came by the clock: the next is 32 MiB behind that. */
	for (int i = 0; segments(p, &first) >= 12 && i < 36; i++) {
		send_bytes(p, id, at, MIB);
		consumed(p, NULL);
	}
	assert_true(segments(p, &first) < 12);
	assert_true(first > before + 20);
}

static inline void print_finding(void *arg, const struct verify_finding *f)
{
	if (*(const bool *)arg && f->class != VERIFY_NOTE)
		print_message("%s: %s\n", f->code, f->message);
}

static inline void verify(struct place *p, const struct id *id, bool complete)
{
	struct verify_result v;
	struct err e = {0};
	struct grant_public_key key = *signer_public(p->signer);
	struct grant_keyset keys = {&key, 1};
	if (verify_session(&(struct verify_ask){.dir = p->dir, .keys = &keys, .sink = print_finding, .arg = &complete},
			   id, &v, &e))
		fail_msg("%s", e.message);
	assert_true(v.sealed && v.intact);
	assert_int_equal(v.complete, complete);
}

static inline const char *state_of(struct place *p)
{
	struct cutter_status s;
	cutter_status(p->cutter, &s);
	return s.state;
}

static inline void wait_state(struct place *p, const struct id *id, const char *want)
{
	char now[8] = "";
	for (int i = 0; strcmp(now, want) != 0; i++) {
		if (i > 4000)
			fail_msg("it is still %s", now);
		usleep(5000);
		(void)index_session_state(p->reader, id, now, NULL); /* it may not be there yet */
	}
}

static inline int count_row(void *arg, json_t *o)
{
	(void)o;
	++*(unsigned *)arg;
	return 0;
}

static inline int quiet(void **state)
{
	(void)state;
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	return log_setup("test", "error", LOG_TEXT, null, NULL);
}

#endif
