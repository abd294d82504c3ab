// tier: check
/* Ring to segment log: every record once, in order, whoever is killed and whatever the disk does. */
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/ring_format.h"
#include "base/ring_record.h"
#include "recorder/write/drain.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (1024 * 1024)

struct place {
	char dir[64], ring[96], cursor[96], seg[96];
	int ring_fd, cursor_fd, dir_fd;
	int bell_fd, moved_fd; /* 0: nobody rings */
	struct ring_writer *w;
	struct live *live;
	struct drain *d;
	uint64_t sent; /* records appended */
};

/* A disk that tests can break. */
static atomic_int disk_write_errno, disk_sync_errno;
static atomic_bool disk_hangs;
static _Atomic uint64_t disk_free;

static ssize_t sick_pwrite(int fd, const void *p, size_t n, off_t at)
{
	if (disk_write_errno) {
		errno = disk_write_errno;
		/* Half of it arrives, as on a real disk that fills up. */
		return n > 64 && errno == ENOSPC ? pwrite(fd, p, n / 2, at) < 0 ? -1 : (errno = ENOSPC, -1) : -1;
	}
	return pwrite(fd, p, n, at);
}

static int sick_fdatasync(int fd)
{
	while (disk_hangs)
		usleep(10000);
	if (disk_sync_errno) {
		errno = disk_sync_errno;
		return -1;
	}
	return fdatasync(fd);
}

static int sick_free(int fd, uint64_t *out)
{
	(void)fd;
	*out = disk_free;
	return 0;
}

static const struct segment_io sick_io = {sick_pwrite, sick_fdatasync, fallocate, sick_free};

static void writer_open(struct place *p)
{
	struct err e = {0};
	if (ring_writer_create(p->ring_fd, p->cursor_fd, &p->w, &e))
		fail_msg("%s", e.message);
}

static int place_make(void **state)
{
	struct place *p = calloc(1, sizeof(*p));
	if (!p)
		return -1;
	disk_write_errno = disk_sync_errno = 0;
	disk_hangs = false;
	disk_free = UINT64_MAX;
	snprintf(p->dir, sizeof(p->dir), "/tmp/test-drain-XXXXXX");
	if (!mkdtemp(p->dir))
		return -1;
	snprintf(p->ring, sizeof(p->ring), "%s/ring", p->dir);
	snprintf(p->cursor, sizeof(p->cursor), "%s/cursor", p->dir);
	snprintf(p->seg, sizeof(p->seg), "%s/segments", p->dir);
	if (ring_file_prepare(p->ring, 2 * MIB, NULL) || ring_cursor_prepare(p->cursor, NULL) || mkdir(p->seg, 0700))
		return -1;
	p->ring_fd = open(p->ring, O_RDWR | O_CLOEXEC);
	p->cursor_fd = open(p->cursor, O_RDWR | O_CLOEXEC);
	p->dir_fd = open(p->seg, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	writer_open(p);
	*state = p;
	return live_create(&p->live);
}

static int place_remove(void **state)
{
	struct place *p = *state;
	char cmd[128];
	drain_destroy(p->d);
	live_destroy(p->live);
	ring_writer_destroy(p->w);
	close(p->ring_fd);
	close(p->cursor_fd);
	close(p->dir_fd);
	if (p->bell_fd) {
		close(p->bell_fd);
		close(p->moved_fd);
	}
	snprintf(cmd, sizeof(cmd), "rm -r %s", p->dir);
	int rc = system(cmd);
	free(p);
	return rc;
}

static void drain_open(struct place *p)
{
	struct err e = {0};
	struct drain_params params = {.ring_fd = p->ring_fd,
				      .cursor_fd = p->cursor_fd,
				      .bell_fd = p->bell_fd,
				      .moved_fd = p->moved_fd,
				      .dir_fd = p->dir_fd,
				      .segment_size = 3 * MIB,
				      .min_free = MIB,
				      .io = &sick_io};
	if (drain_create(&params, p->live, &p->d, &e) || drain_start(p->d, &e))
		fail_msg("%s", e.message);
}

static void drain_close(struct place *p)
{
	drain_destroy(p->d);
	p->d = NULL;
}

static size_t pattern(uint64_t seq, uint8_t *out, size_t max)
{
	uint64_t x = seq * UINT64_C(0x9e3779b97f4a7c15) + 1;
	size_t n = (size_t)(x >> 33) % max;
	for (size_t i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		out[i] = (uint8_t)x;
	}
	return n;
}

/* The next record of a fixed series; false when the ring is full. */
static bool send_one(struct place *p)
{
	uint8_t bytes[30000];
	struct ring_record rec = {.type = RING_DATA, .stream = STREAM_OUTPUT, .session.b[0] = 1};
	struct iovec iov = {bytes, pattern(p->sent + 1, bytes, sizeof(bytes))};
	struct ring_cursor c;
	if (ring_append(p->w, &rec, &iov, 1, false) == 0) {
		p->sent++;
		return true;
	}
	(void)ring_writer_refresh(p->w, &c);
	return false;
}

static void send_all(struct place *p, uint64_t n, unsigned timeout_ms)
{
	uint64_t until = clock_boot_ns() + timeout_ms * NS_PER_MS;
	for (uint64_t end = p->sent + n; p->sent < end;) {
		if (!send_one(p)) {
			if (clock_boot_ns() > until)
				fail_msg("the ring stayed full");
			usleep(500);
		}
	}
}

static void flush(struct place *p)
{
	uint64_t lsn;
	assert_int_equal(drain_flush(p->d, 10 * NS_PER_SEC, &lsn), 0);
}

/* Everything that was sent is in the segments, once, in order; own records may stand between. Returns those. */
static uint64_t check_log(struct place *p)
{
	uint64_t *list, seq = 0, own = 0, lsn = 0;
	size_t n;
	static uint8_t want[30000];
	assert_int_equal(segment_list(p->dir_fd, &list, &n, NULL), 0);
	for (size_t i = 0; i < n; i++) {
		struct segment_reader *r;
		struct segment_record rec;
		struct err e = {0};
		int rc;
		assert_int_equal(segment_reader_create(p->dir_fd, list[i], &r, NULL), 0);
		if (lsn)
			assert_int_equal(segment_reader_lsn(r), lsn);
		while ((rc = segment_read(r, UINT64_MAX, &rec, &e)) == 1) {
			if (rec.own) {
				own++;
				continue;
			}
			assert_int_equal(rec.rec.seq, ++seq);
			assert_int_equal(rec.rec.len, pattern(seq, want, sizeof(want)));
			assert_memory_equal(rec.rec.payload, want, rec.rec.len);
		}
		if (rc)
			fail_msg("%s", e.message);
		lsn = segment_reader_lsn(r);
		segment_reader_destroy(r);
	}
	free(list);
	assert_int_equal(seq, p->sent);
	return own;
}

static void every_record_arrives_once_over_rotations(void **state)
{
	struct place *p = *state;
	drain_open(p);
	send_all(p, 1500, 10000);
	flush(p);
	struct ring_cursor c;
	assert_int_equal(ring_cursor_read(p->cursor_fd, &c), 0);
	assert_int_equal(c.durable, ring_head(p->w));
	assert_int_equal(c.durable_seq, p->sent);
	assert_int_equal(c.state, RING_READER_OK);
	assert_int_equal(c.reader_pid, getpid());
	assert_int_equal(check_log(p), 0);
}

static void restart_stores_nothing_twice(void **state)
{
	struct place *p = *state;
	static const struct id nobody;
	for (int i = 0; i < 6; i++) {
		send_all(p, 40, 1000); /* while nobody drains */
		drain_open(p);
		send_all(p, 60, 5000);
		assert_int_equal(drain_append_own(p->d, RING_AUDIT, &nobody, "{\"event\":\"test\"}"), 0);
		drain_close(p); /* a clean stop takes everything with it */
		struct ring_cursor c;
		assert_int_equal(ring_cursor_read(p->cursor_fd, &c), 0);
		assert_int_equal(c.durable, ring_head(p->w));
		assert_int_equal(check_log(p), i + 1);
	}
}

static void lost_or_foreign_cursor_changes_nothing(void **state)
{
	struct place *p = *state;
	drain_open(p);
	send_all(p, 100, 5000);
	drain_close(p);
	struct ring_cursor c = {.durable = 0};
	assert_int_equal(ring_cursor_write(p->cursor_fd, &c), 0);
	drain_open(p);
	send_all(p, 100, 5000);
	drain_close(p);
	assert_int_equal(ftruncate(p->cursor_fd, 0), 0);
	drain_open(p);
	flush(p);
	check_log(p);
}

static void new_ring_begins_a_new_segment(void **state)
{
	struct place *p = *state;
	drain_open(p);
	send_all(p, 20, 1000);
	drain_close(p);
	ring_writer_destroy(p->w);
	close(p->ring_fd);
	/* As after a reboot: tmpfs is empty, the cursor with it. */
	unlink(p->ring);
	unlink(p->cursor);
	close(p->cursor_fd);
	assert_int_equal(ring_file_prepare(p->ring, MIB, NULL), 0);
	assert_int_equal(ring_cursor_prepare(p->cursor, NULL), 0);
	p->ring_fd = open(p->ring, O_RDWR | O_CLOEXEC);
	p->cursor_fd = open(p->cursor, O_RDWR | O_CLOEXEC);
	writer_open(p);
	uint64_t before = p->sent;
	p->sent = 0;
	send_all(p, 5, 1000);
	drain_open(p);
	flush(p);
	struct segment_tail t;
	drain_durable(p->d, &t);
	assert_int_equal(t.number, 2);
	assert_int_equal(t.lsn, before + 5 + 1);
	assert_int_equal(t.ring_seq, 6);
	assert_int_equal(t.ring_pos, ring_head(p->w));
}

static void damage_in_the_ring_is_told_and_skipped(void **state)
{
	struct place *p = *state;
	send_all(p, 10, 1000);
	uint64_t good = ring_head(p->w);
	send_all(p, 1, 1000);
	uint8_t bad = 0xff;
	assert_int_equal(pwrite(p->ring_fd, &bad, 1, (off_t)(RING_HEADER_SIZE + good + 8)), 1);
	drain_open(p);
	flush(p);
	struct drain_status s;
	drain_status(p->d, &s);
	assert_int_equal(s.damages, 1);
	assert_int_equal(s.damage_position, good);
	assert_int_equal(s.state, RING_READER_OK);
	assert_int_equal(s.durable.ring_pos, ring_head(p->w));
	/* What follows is stored; the log itself says what is missing. */
	send_all(p, 3, 1000);
	flush(p);
	drain_status(p->d, &s);
	assert_int_equal(s.durable.ring_seq, 15);
	struct segment_reader *r;
	struct segment_record rec;
	assert_int_equal(segment_reader_create(p->dir_fd, 2, &r, NULL), 0);
	assert_int_equal(segment_read(r, UINT64_MAX, &rec, NULL), 1);
	assert_true(rec.own);
	assert_int_equal(rec.rec.type, RING_AUDIT);
	assert_non_null(memmem(rec.rec.payload, rec.rec.len, "journal.damaged", 15));
	assert_int_equal(segment_read(r, UINT64_MAX, &rec, NULL), 1);
	assert_int_equal(rec.rec.seq, 12);
	segment_reader_destroy(r);
	drain_close(p);
	drain_open(p);
	flush(p);
	drain_status(p->d, &s);
	assert_int_equal(s.damages, 0);
}

static void hub_cannot_write_in_the_recorders_name(void **state)
{
	struct place *p = *state;
	struct ring_record rec = {.type = RING_AUDIT, .flags = RING_ORIGIN_RECORDER};
	struct iovec iov = {(void *)(uintptr_t) "{}", 2};
	assert_int_equal(ring_append(p->w, &rec, &iov, 1, true), 0);
	drain_open(p);
	flush(p);
	struct segment_reader *r;
	struct segment_record got;
	assert_int_equal(segment_reader_create(p->dir_fd, 1, &r, NULL), 0);
	assert_int_equal(segment_read(r, UINT64_MAX, &got, NULL), 1);
	assert_false(got.own);
	segment_reader_destroy(r);
}

static enum ring_reader_state cursor_state(struct place *p)
{
	struct ring_cursor c = {.state = RING_READER_STARTING};
	(void)ring_cursor_read(p->cursor_fd, &c);
	return c.state;
}

static void wait_state(struct place *p, enum ring_reader_state want, unsigned ms)
{
	for (unsigned i = 0; i < ms / 5; i++) {
		if (cursor_state(p) == want)
			return;
		usleep(5000);
	}
	fail_msg("state is %d, expected %d", cursor_state(p), want);
}

static void full_disk_keeps_all_in_the_ring(void **state)
{
	struct place *p = *state;
	drain_open(p);
	send_all(p, 50, 2000);
	flush(p);
	disk_write_errno = ENOSPC;
	send_all(p, 20, 1000);
	wait_state(p, RING_READER_DISK_FULL, 2000);
	disk_write_errno = 0;
	wait_state(p, RING_READER_OK, 2000);
	flush(p);
	disk_free = MIB - 1;
	wait_state(p, RING_READER_DISK_FULL, 2000);
	send_all(p, 20, 1000);
	disk_free = UINT64_MAX;
	wait_state(p, RING_READER_OK, 2000);
	flush(p);
	check_log(p);
}

static void failed_sync_is_written_again(void **state)
{
	struct place *p = *state;
	static const struct id nobody;
	drain_open(p);
	send_all(p, 50, 2000);
	flush(p);
	disk_sync_errno = EIO;
	send_all(p, 20, 1000);
	assert_int_equal(drain_append_own(p->d, RING_AUDIT, &nobody, "{\"event\":\"test\"}"), 0);
	wait_state(p, RING_READER_FAILED, 2000);
	struct segment_tail t;
	drain_durable(p->d, &t);
	assert_int_equal(t.ring_seq, 51);
	/* It does not say OK before a sync has worked. */
	for (int i = 0; i < 250; i++) {
		assert_int_equal(cursor_state(p), RING_READER_FAILED);
		usleep(5000);
	}
	disk_sync_errno = 0;
	wait_state(p, RING_READER_OK, 3000);
	send_all(p, 20, 1000);
	flush(p);
	assert_int_equal(check_log(p), 1);
}

static void hanging_disk_is_told_after_five_seconds(void **state)
{
	struct place *p = *state;
	struct ring_cursor a, b;
	drain_open(p);
	send_all(p, 5, 1000);
	flush(p);
	disk_hangs = true;
	send_all(p, 5, 1000);
	usleep(1000000);
	assert_int_equal(ring_cursor_read(p->cursor_fd, &a), 0);
	assert_int_equal(a.state, RING_READER_OK);
	usleep(150000);
	assert_int_equal(ring_cursor_read(p->cursor_fd, &b), 0);
	assert_true(b.heartbeat_ns > a.heartbeat_ns);
	wait_state(p, RING_READER_FAILED, 6000);
	disk_hangs = false;
	wait_state(p, RING_READER_OK, 2000);
	flush(p);
	check_log(p);
}

static void live_table_knows_the_rings_head(void **state)
{
	struct place *p = *state;
	struct ring_record rec = {.type = RING_OPEN, .session.b[0] = 1};
	struct iovec iov = {(void *)(uintptr_t) "{\"v\":1}", 7};
	drain_open(p);
	flush(p);
	disk_free = 0; /* nothing is drained any more */
	wait_state(p, RING_READER_DISK_FULL, 2000);
	assert_int_equal(ring_append(p->w, &rec, &iov, 1, true), 0);
	rec = (struct ring_record){.type = RING_DATA, .stream = STREAM_STDERR, .session.b[0] = 1, .offset = 100};
	assert_int_equal(ring_append(p->w, &rec, &iov, 1, true), 0);
	struct live *now;
	struct live_session s;
	assert_int_equal(drain_live_now(p->d, &now, NULL), 0);
	assert_int_equal(live_get(now, &rec.session, &s), 0);
	assert_int_equal(s.offsets[STREAM_STDERR], 107);
	assert_string_equal(s.open, "{\"v\":1}");
	live_session_finish(&s);
	live_destroy(now);
	disk_free = UINT64_MAX;
}

static void drain_until_killed(struct place *p)
{
	struct drain_params params = {.ring_fd = p->ring_fd,
				      .cursor_fd = p->cursor_fd,
				      .dir_fd = p->dir_fd,
				      .segment_size = MIB,
				      .io = &segment_io_system};
	(void)log_setup("killed", "error", LOG_TEXT, 2, NULL);
	if (drain_create(&params, p->live, &p->d, NULL) || drain_start(p->d, NULL))
		_exit(1);
	for (;;)
		pause();
}

static void killed_recorders_lose_and_repeat_nothing(void **state)
{
	struct place *p = *state;
	unsigned seed = 815;
	for (int round = 0; round < 60; round++) {
		pid_t pid = fork();
		if (pid == 0)
			drain_until_killed(p);
		uint64_t until = clock_boot_ns() + (uint64_t)(rand_r(&seed) % 60000) * 1000;
		while (clock_boot_ns() < until) {
			if (!send_one(p))
				usleep(200);
		}
		kill(pid, SIGKILL);
		int status;
		waitpid(pid, &status, 0);
		assert_true(WIFSIGNALED(status));
	}
	drain_open(p);
	flush(p);
	assert_true(p->sent > 300);
	assert_int_equal(check_log(p), 0);
}

/* ---- bells */

static bool rests(struct place *p)
{
	struct ring_cursor c = {0};

	return ring_cursor_read(p->cursor_fd, &c) == 0 && c.flags & RING_CURSOR_RESTS;
}

/* As the hub does: told of the cursor, it rings when the recorder rests and has not seen all. */
static bool hear(struct place *p, int ms)
{
	struct pollfd moved = {.fd = p->moved_fd, .events = POLLIN};

	if (poll(&moved, 1, ms) != 1)
		return false;
	bell_answer(p->moved_fd);
	return true;
}

static void wait_rest(struct place *p)
{
	while (!rests(p))
		assert_true(hear(p, 5000));
}

static void open_with_bells(struct place *p)
{
	assert_int_equal(bell_create(&p->bell_fd, NULL), 0);
	assert_int_equal(bell_create(&p->moved_fd, NULL), 0);
	drain_open(p);
	wait_rest(p);
}

static long wakeups(void)
{
	struct rusage u;

	assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
	return u.ru_nvcsw;
}

static uint64_t processor_ns(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
	return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

static void who_rests_wakes_once_a_second(void **state)
{
	struct place *p = *state;
	long before;

	open_with_bells(p);
	usleep(300000); /* the last sync of what made it begin */
	before = wakeups();
	usleep(2000000);
	/* The pulse twice, and this sleep; the clock alone would be 140. */
	assert_in_range(wakeups() - before, 1, 12);
	assert_true(rests(p));
}

static void the_bell_wakes_who_rests(void **state)
{
	struct place *p = *state;

	open_with_bells(p);
	for (int i = 0; i < 20; i++) {
		struct ring_cursor c;

		wait_rest(p);
		assert_true(send_one(p));
		bell_ring(p->bell_fd);
		do {
			assert_true(hear(p, 5000));
			assert_int_equal(ring_cursor_read(p->cursor_fd, &c), 0);
		} while (c.durable < ring_head(p->w));
	}
	flush(p);
	check_log(p);
}

/* The writer died between its record and the bell, or a hostile one never rings. */
static void a_record_nobody_rang_for_is_stored(void **state)
{
	struct place *p = *state;
	struct ring_cursor c;

	open_with_bells(p);
	assert_true(send_one(p));
	do {
		assert_true(hear(p, 5000));
		assert_int_equal(ring_cursor_read(p->cursor_fd, &c), 0);
	} while (c.durable < ring_head(p->w));
	check_log(p);
}

/* A disk that others fill is told though nothing is to be written. */
static void who_rests_sees_the_disk_fill_up(void **state)
{
	struct place *p = *state;

	open_with_bells(p);
	disk_free = MIB - 1;
	wait_state(p, RING_READER_DISK_FULL, 5000);
	disk_free = UINT64_MAX;
	wait_state(p, RING_READER_OK, 5000);
	wait_rest(p);
	assert_true(send_one(p));
	bell_ring(p->bell_fd);
	flush(p);
	check_log(p);
}

/* A hub gone bad costs the recorder a look each 5 ms, and no core. */
static void who_rings_for_nothing_wakes_it_now_and_then(void **state)
{
	struct place *p = *state;
	uint64_t until, before;

	open_with_bells(p);
	before = processor_ns();
	until = clock_boot_ns() + NS_PER_SEC;
	while (clock_boot_ns() < until) {
		bell_ring(p->bell_fd);
		usleep(200);
	}
	assert_in_range(processor_ns() - before, 1,
			400 * NS_PER_MS); /* this loop's, and 200 looks; a spin is the second */
	assert_true(send_one(p));
	flush(p);
	check_log(p);
}

/* Bells that nobody means cost a look each, and lose nothing. */
static void a_flood_with_bells_arrives_once(void **state)
{
	struct place *p = *state;

	open_with_bells(p);
	for (int i = 0; i < 600; i++) {
		if (!send_one(p))
			usleep(500);
		bell_ring(p->bell_fd);
	}
	flush(p);
	assert_int_equal(check_log(p), 0);
	drain_close(p); /* while it rests */
	assert_false(rests(p));
}

static int quiet(void **state)
{
	(void)state;
	/* Broken disks are the point here; what the drain says about them is checked by state. */
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	return log_setup("test", "error", LOG_TEXT, null, NULL);
}

int main(void)
{
#define DRAIN_TEST(f) cmocka_unit_test_setup_teardown(f, place_make, place_remove)
	const struct CMUnitTest tests[] = {
	    DRAIN_TEST(every_record_arrives_once_over_rotations),
	    DRAIN_TEST(restart_stores_nothing_twice),
	    DRAIN_TEST(lost_or_foreign_cursor_changes_nothing),
	    DRAIN_TEST(new_ring_begins_a_new_segment),
	    DRAIN_TEST(damage_in_the_ring_is_told_and_skipped),
	    DRAIN_TEST(hub_cannot_write_in_the_recorders_name),
	    DRAIN_TEST(full_disk_keeps_all_in_the_ring),
	    DRAIN_TEST(failed_sync_is_written_again),
	    DRAIN_TEST(hanging_disk_is_told_after_five_seconds),
	    DRAIN_TEST(live_table_knows_the_rings_head),
	    DRAIN_TEST(killed_recorders_lose_and_repeat_nothing),
	    DRAIN_TEST(who_rests_wakes_once_a_second),
	    DRAIN_TEST(the_bell_wakes_who_rests),
	    DRAIN_TEST(a_record_nobody_rang_for_is_stored),
	    DRAIN_TEST(who_rests_sees_the_disk_fill_up),
	    DRAIN_TEST(a_flood_with_bells_arrives_once),
	    DRAIN_TEST(who_rings_for_nothing_wakes_it_now_and_then),
	};
	return cmocka_run_group_tests_name("recorder_drain", tests, quiet, NULL);
}
