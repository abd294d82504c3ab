/* Cutting: recordings whatever happens to segments, disk and journal meanwhile; reading them at any time. */
#include "muxd/base/clock.h"
#include "muxd/base/err.h"
#include "muxd/base/json.h"
#include "muxd/base/log.h"
#include "muxd/base/ring.h"
#include "recorder/cutter.h"
#include "recorder/event.h"
#include "recorder/follower.h"
#include "recorder/index_rebuild.h"
#include "recorder/lost.h"
#include "recorder/recording.h"
#include "recorder/sign.h"
#include "recorder/source.h"
#include "recorder/verify.h"

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

#define MIB (1024 * 1024)

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

static void make_folder(struct place *p, const char *name)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	assert_int_equal(mkdir(path, 0700), 0);
}

static void start(struct place *p)
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
	if (index_open_or_rebuild(p->dir, &ix, &e) || live_create(&p->live) || drain_create(&d, p->live, &p->drain, &e))
		fail_msg("%s", e.message);
	/* As the process does it: the live table from the segments that are not cut. */
	assert_int_equal(index_cursor(ix, &cursor, NULL), 0);
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
	if (drain_start(p->drain, &e) || cutter_create(&c, &p->cutter, &e) || cutter_start(p->cutter, &e) ||
	    index_open_reader(p->path, &p->reader, &e))
		fail_msg("%s", e.message);
}

static void stop(struct place *p)
{
	index_close(p->reader);
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

static int place_make(void **state)
{
	static const char text[] = "record:\n  segment_size: 1MiB\n  rules:\n    - {kind: \"*\", rule: full}\n";
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

static int place_remove(void **state)
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

static void append(struct place *p, uint8_t type, uint8_t stream, const struct id *id, uint64_t offset,
		   const void *bytes, size_t n)
{
	struct ring_record rec = {.type = type, .stream = stream, .session = *id, .offset = offset};
	struct iovec iov = {(void *)(uintptr_t)bytes, n};
	struct ring_cursor c;
	for (int i = 0; ring_append(p->w, &rec, &iov, 1, true); i++) {
		if (i > 20000)
			fail_msg("the ring stayed full for 10 s");
		usleep(500);
		(void)ring_writer_refresh(p->w, &c);
	}
}

static void text(struct place *p, uint8_t type, const struct id *id, const char *json)
{
	append(p, type, 0, id, 0, json, strlen(json));
}

static void session_open(struct place *p, struct id *out)
{
	char json[256];
	assert_int_equal(id_new(out), 0);
	snprintf(json, sizeof(json),
		 "{\"v\":1,\"kind\":\"terminal\",\"agent\":\"demo\",\"principal\":\"pat\",\"principal_kind\":\"staff\","
		 "\"wall_ns\":%lld,\"boot_id\":\"%s\"}",
		 (long long)clock_wall_ns(), clock_boot_id());
	text(p, RING_OPEN, out, json);
}

static uint8_t byte_at(uint64_t offset)
{
	return (uint8_t)((offset * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
}

static void send_bytes(struct place *p, const struct id *id, uint64_t *offset, size_t n)
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

static void consumed(struct place *p, const struct id *sealed)
{
	uint64_t lsn;
	struct err e = {0};
	assert_int_equal(drain_flush(p->drain, 10 * NS_PER_SEC, &lsn), 0);
	if (cutter_wait(p->cutter, lsn, sealed, 10 * NS_PER_SEC, &e))
		fail_msg("%s", e.message);
}

static struct source *source_of(struct place *p, const struct id *id)
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
static uint64_t read_bytes(struct source *s, uint64_t from, uint64_t until)
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

static size_t segments(struct place *p, uint64_t *out_first)
{
	uint64_t *list;
	size_t n;
	assert_int_equal(segment_list(p->segments_fd, &list, &n, NULL), 0);
	*out_first = n ? list[0] : 0;
	free(list);
	return n;
}

/* The cutter stores a checkpoint each 32 MiB; that lets segments go. */
static void let_segments_go(struct place *p, const struct id *id, uint64_t *at)
{
	uint64_t before, first;
	(void)segments(p, &before);
	send_bytes(p, id, at, 36 * MIB);
	consumed(p, NULL);
	assert_true(segments(p, &first) < 12);
	assert_true(first > before + 20);
}

static void verify(struct place *p, const struct id *id, bool complete)
{
	struct verify_result v;
	struct err e = {0};
	struct grant_public_key key = *signer_public(p->signer);
	struct grant_keyset keys = {&key, 1};
	if (verify_session(p->dir, id, &keys, NULL, NULL, &v, &e))
		fail_msg("%s", e.message);
	assert_true(v.sealed && v.intact);
	assert_int_equal(v.complete, complete);
}

static void long_session_outlives_its_segments(void **state)
{
	struct place *p = *state;
	struct id id;
	uint64_t at = 0;
	start(p);
	session_open(p, &id);
	consumed(p, NULL);
	struct source *slow = source_of(p, &id);
	send_bytes(p, &id, &at, 100000);
	consumed(p, NULL);
	uint64_t read = read_bytes(slow, 0, 50000);
	let_segments_go(p, &id, &at);
	send_bytes(p, &id, &at, 12345);
	consumed(p, NULL);
	/* Somebody new sees it all: first from the recording, then from the log. */
	struct source *s = source_of(p, &id);
	assert_int_equal(read_bytes(s, 0, UINT64_MAX), at);
	assert_false(source_info(s)->ended);
	source_destroy(s);
	/* Who was slow goes on where they were. */
	assert_int_equal(read_bytes(slow, read, UINT64_MAX), at);
	/* And both see what comes, and the end. */
	read = at;
	send_bytes(p, &id, &at, 777);
	text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
	consumed(p, &id);
	assert_int_equal(read_bytes(slow, read, UINT64_MAX), at);
	assert_true(source_info(slow)->ended);
	source_destroy(slow);
	verify(p, &id, true);
}

static void restart_goes_on_with_open_recordings(void **state)
{
	struct place *p = *state;
	struct id id;
	uint64_t at = 0;
	start(p);
	session_open(p, &id);
	for (int i = 0; i < 5; i++) {
		send_bytes(p, &id, &at, 3 * MIB / 2);
		consumed(p, NULL);
		stop(p);
		send_bytes(p, &id, &at, 4000);
		start(p);
	}
	text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
	consumed(p, &id);
	struct source *s = source_of(p, &id);
	assert_true(source_info(s)->sealed);
	assert_int_equal(read_bytes(s, 0, UINT64_MAX), at);
	source_destroy(s);
	verify(p, &id, true);
}

static const char *state_of(struct place *p)
{
	struct cutter_status s;
	cutter_status(p->cutter, &s);
	return s.state;
}

static void what_cannot_be_written_is_cut_later(void **state)
{
	struct place *p = *state;
	struct id id, other;
	uint64_t at = 0;
	char open_dir[96], away[96];
	start(p);
	session_open(p, &other);
	session_open(p, &id);
	send_bytes(p, &id, &at, 5000);
	consumed(p, NULL);
	/* A folder that is gone fails like a disk that is full: no new recording can be begun. */
	snprintf(open_dir, sizeof(open_dir), "%s/open", p->dir);
	snprintf(away, sizeof(away), "%s/away", p->dir);
	assert_int_equal(rename(open_dir, away), 0);
	int file = open(open_dir, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(file);
	struct id third;
	uint64_t third_at = 0;
	session_open(p, &third);
	send_bytes(p, &third, &third_at, 5000);
	for (int i = 0; strcmp(state_of(p), "waiting") != 0; i++) {
		if (i > 1000)
			fail_msg("the cutter does not say that it waits");
		usleep(5000);
	}
	/* The live path does not care. */
	struct drain_status d;
	uint64_t lsn;
	assert_int_equal(drain_flush(p->drain, 5 * NS_PER_SEC, &lsn), 0);
	drain_status(p->drain, &d);
	assert_int_equal(d.state, RING_READER_OK);
	unlink(open_dir);
	assert_int_equal(rename(away, open_dir), 0);
	text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
	text(p, RING_EXIT, &third, "{\"cause\":\"exit\",\"code\":0}");
	consumed(p, &id);
	consumed(p, &third);
	verify(p, &id, true);
	verify(p, &third, true);
	struct source *s = source_of(p, &third);
	assert_int_equal(read_bytes(s, 0, UINT64_MAX), third_at);
	source_destroy(s);
}

static int count_row(void *arg, json_t *o)
{
	(void)o;
	++*(unsigned *)arg;
	return 0;
}

static void session_without_its_open_is_kept(void **state)
{
	struct place *p = *state;
	struct id id;
	uint64_t at = 100;
	start(p);
	assert_int_equal(id_new(&id), 0);
	text(p, RING_EVENT, &id, "{\"event\":\"attach\"}"); /* of no use without a session */
	send_bytes(p, &id, &at, 1000);
	text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
	consumed(p, &id);
	verify(p, &id, false);
	struct source *s = source_of(p, &id);
	assert_non_null(strstr(source_info(s)->open, "open_lost"));
	struct ring_record rec;
	assert_int_equal(source_next(s, &rec, NULL), 1);
	assert_int_equal(rec.type, RING_OPEN);
	assert_int_equal(source_next(s, &rec, NULL), 1);
	assert_int_equal(rec.type, EVENT_MISSING);
	source_destroy(s);
}

static void records_after_the_seal_open_nothing(void **state)
{
	struct place *p = *state;
	struct id id;
	uint64_t at = 0;
	unsigned n = 0;
	start(p);
	session_open(p, &id);
	send_bytes(p, &id, &at, 10);
	text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
	text(p, RING_EVENT, &id, "{\"event\":\"detach\"}"); /* in time: part of the recording */
	consumed(p, &id);
	text(p, RING_EVENT, &id, "{\"event\":\"detach\"}");
	send_bytes(p, &id, &at, 10);
	text(p, RING_OPEN, &id, "{\"v\":1}");
	consumed(p, &id);
	struct index_filter f = {.limit = 10};
	assert_int_equal(index_sessions(p->reader, &f, count_row, &n, NULL), 0);
	assert_int_equal(n, 1);
	verify(p, &id, true);
	struct cutter_status s;
	cutter_status(p->cutter, &s);
	assert_int_equal(s.open, 0);
}

static void damaged_open_recording_is_kept_and_begun_anew(void **state)
{
	struct place *p = *state;
	struct id id;
	uint64_t at = 0;
	char name[ID_STR_LEN], path[160], kept[176];
	struct stat st;
	start(p);
	session_open(p, &id);
	send_bytes(p, &id, &at, 100000);
	consumed(p, NULL);
	stop(p);
	id_format(&id, name);
	snprintf(path, sizeof(path), "%s/open/%s.mrec", p->dir, name);
	snprintf(kept, sizeof(kept), "%s/open/%s.damaged", p->dir, name);
	assert_int_equal(truncate(path, 100), 0);
	start(p);
	uint64_t before = at;
	send_bytes(p, &id, &at, 1000);
	text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
	consumed(p, &id);
	assert_int_equal(stat(kept, &st), 0);
	verify(p, &id, false);
	struct source *s = source_of(p, &id);
	struct ring_record rec;
	uint64_t missing = 0, data = 0;
	while (source_next(s, &rec, NULL) == 1) {
		if (rec.type == EVENT_MISSING)
			missing += event_extent(&rec);
		if (rec.type == RING_DATA)
			data += rec.len;
	}
	assert_int_equal(missing, before);
	assert_int_equal(data, 1000);
	source_destroy(s);
	unsigned n = 0;
	struct index_filter f = {.event = "record.damaged", .limit = 10};
	consumed(p, NULL);
	assert_int_equal(index_audit(p->reader, &f, count_row, &n, NULL), 0);
	assert_int_equal(n, 1);
}

static void sessions_of_a_lost_hub_are_ended(void **state)
{
	struct place *p = *state;
	struct id id[3];
	uint64_t at = 0;
	char text_state[8];
	struct lost lost;
	start(p);
	for (int i = 0; i < 3; i++)
		session_open(p, &id[i]);
	send_bytes(p, &id[1], &at, 500);
	consumed(p, NULL);
	lost_init(&lost, p->drain, p->live, NULL);
	lost.after_ns = 3600 * NS_PER_SEC;
	assert_int_equal(lost_check(&lost), 0);
	lost.after_ns = 0;
	assert_int_equal(lost_check(&lost), 3);
	assert_int_equal(lost_check(&lost), 0);
	for (int i = 0; i < 3; i++) {
		consumed(p, &id[i]);
		assert_int_equal(index_session_state(p->reader, &id[i], text_state, NULL), 0);
		assert_string_equal(text_state, "sealed");
		verify(p, &id[i], true);
	}
	struct source *s = source_of(p, &id[1]);
	struct ring_record rec, last = {0};
	char exit[256] = "";
	while (source_next(s, &rec, NULL) == 1) {
		last = rec;
		if (rec.type == RING_EXIT)
			snprintf(exit, sizeof(exit), "%.*s", (int)rec.len, (const char *)rec.payload);
	}
	assert_int_equal(last.type, RING_EXIT);
	assert_non_null(strstr(exit, "\"daemon lost\""));
	assert_non_null(strstr(exit, "[0,500,0]"));
	source_destroy(s);
}

static void old_recordings_leave_a_tombstone(void **state)
{
	struct place *p = *state;
	struct id old, open;
	uint64_t at = 0;
	char now[8] = "", path[160];
	start(p);
	session_open(p, &old);
	send_bytes(p, &old, &at, 1000);
	text(p, RING_EXIT, &old, "{\"cause\":\"exit\",\"code\":0}");
	session_open(p, &open);
	consumed(p, &old);
	assert_int_equal(recording_find(p->dir, &old, path, sizeof(path), NULL), 0);
	p->conf->record_retain_ns = 1;
	assert_int_equal(cutter_configure(p->cutter, p->conf, NULL), 0);
	for (int i = 0; strcmp(now, "expired") != 0; i++) {
		if (i > 1000)
			fail_msg("it is still %s", now);
		usleep(5000);
		assert_int_equal(index_session_state(p->reader, &old, now, NULL), 0);
	}
	assert_int_equal(access(path, F_OK), -1);
	struct source_place sp = {
	    .dir = p->dir, .segments_fd = p->segments_fd, .drain = p->drain, .live = p->live, .index = p->reader};
	struct source *s;
	struct err e = {0};
	assert_int_equal(source_create(&sp, &old, &s, &e), ERR_NOT_FOUND);
	assert_int_equal(index_session_state(p->reader, &open, now, NULL), 0);
	assert_string_equal(now, "open");
	/* Late records do not bring it back. */
	text(p, RING_EXIT, &old, "{\"cause\":\"exit\",\"code\":0}");
	consumed(p, &old);
	stop(p);
	struct verify_summary sum;
	struct grant_public_key key = *signer_public(p->signer);
	struct grant_keyset keys = {&key, 1};
	assert_int_equal(verify_all(p->dir, &keys, NULL, NULL, NULL, NULL, &sum, &e), 0);
	assert_true(sum.intact);
	assert_int_equal(sum.tombstones, 1);
	assert_int_equal(sum.missing, 0);
}

static int quiet(void **state)
{
	(void)state;
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	return log_setup("test", "error", LOG_TEXT, null, NULL);
}

int main(void)
{
#define CUTTER_TEST(f) cmocka_unit_test_setup_teardown(f, place_make, place_remove)
	const struct CMUnitTest tests[] = {
	    CUTTER_TEST(long_session_outlives_its_segments),
	    CUTTER_TEST(restart_goes_on_with_open_recordings),
	    CUTTER_TEST(what_cannot_be_written_is_cut_later),
	    CUTTER_TEST(session_without_its_open_is_kept),
	    CUTTER_TEST(records_after_the_seal_open_nothing),
	    CUTTER_TEST(damaged_open_recording_is_kept_and_begun_anew),
	    CUTTER_TEST(sessions_of_a_lost_hub_are_ended),
	    CUTTER_TEST(old_recordings_leave_a_tombstone),
	};
	return cmocka_run_group_tests_name("recorder_cutter", tests, quiet, NULL);
}
