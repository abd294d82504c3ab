// tier: check
/* The journal ring: what is appended comes out again, byte for byte, whoever is killed when. */
#include "base/bytes.h"
#include "base/err.h"
#include "base/ring.h"
#include "base/ring_format.h"
#include "base/ring_record.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (1024 * 1024)

struct place {
	char dir[64], ring[96], cursor[96];
	int ring_fd, cursor_fd;
};

static int place_make(void **state)
{
	struct place *p = calloc(1, sizeof(*p));
	snprintf(p->dir, sizeof(p->dir), "/tmp/test-ring-XXXXXX");
	if (!p || !mkdtemp(p->dir))
		return -1;
	snprintf(p->ring, sizeof(p->ring), "%s/ring", p->dir);
	snprintf(p->cursor, sizeof(p->cursor), "%s/cursor", p->dir);
	if (ring_file_prepare(p->ring, MIB, NULL) || ring_cursor_prepare(p->cursor, NULL))
		return -1;
	p->ring_fd = open(p->ring, O_RDWR | O_CLOEXEC);
	p->cursor_fd = open(p->cursor, O_RDWR | O_CLOEXEC);
	*state = p;
	return p->ring_fd < 0 || p->cursor_fd < 0;
}

static int place_remove(void **state)
{
	struct place *p = *state;
	close(p->ring_fd);
	close(p->cursor_fd);
	unlink(p->ring);
	unlink(p->cursor);
	rmdir(p->dir);
	free(p);
	return 0;
}

static struct ring_writer *writer_open(struct place *p)
{
	struct ring_writer *w = NULL;
	struct err e = {0};
	int rc = ring_writer_create(p->ring_fd, p->cursor_fd, &w, &e);
	if (rc)
		fail_msg("%s", e.message);
	return w;
}

static struct ring_reader *reader_open(struct place *p, uint64_t from)
{
	struct ring_reader *r = NULL;
	assert_int_equal(ring_reader_create(p->ring_fd, from, &r, NULL), 0);
	return r;
}

static int put(struct ring_writer *w, const void *p, size_t n, bool reserve)
{
	struct ring_record rec = {.type = RING_DATA, .stream = STREAM_OUTPUT, .session.b[0] = 7, .offset = 42};
	struct iovec iov[2] = {{(void *)(uintptr_t)p, n / 3}, {(char *)(uintptr_t)p + n / 3, n - n / 3}};
	return ring_append(w, &rec, iov, 2, reserve);
}

static void free_up_to(struct place *p, struct ring_writer *w, uint64_t durable)
{
	struct ring_cursor c = {.durable = durable, .state = RING_READER_OK}, seen;
	assert_int_equal(ring_cursor_write(p->cursor_fd, &c), 0);
	assert_int_equal(ring_writer_refresh(w, &seen), 0);
	assert_int_equal(seen.durable, durable);
}

static void record_comes_back_as_it_went_in(void **state)
{
	struct place *p = *state;
	struct ring_writer *w = writer_open(p);
	struct ring_record in = {
	    .type = RING_EVENT, .stream = STREAM_STDERR, .flags = RING_MASKED, .offset = 9, .boot_ns = 5};
	memset(in.session.b, 0xab, 16);
	struct iovec iov = {(void *)(uintptr_t) "{\"event\":\"attach\"}", 18};
	assert_int_equal(ring_append(w, &in, &iov, 1, true), 0);
	assert_int_equal(in.seq, 1);
	assert_int_equal(ring_append(w, &in, NULL, 0, true), 0);

	struct ring_reader *r = reader_open(p, 0);
	struct ring_record out;
	assert_int_equal(ring_read(r, &out, NULL), 1);
	assert_int_equal(out.seq, 1);
	assert_int_equal(out.type, RING_EVENT);
	assert_int_equal(out.stream, STREAM_STDERR);
	assert_int_equal(out.flags, RING_MASKED);
	assert_int_equal(out.offset, 9);
	assert_int_equal(out.boot_ns, 5);
	assert_true(id_equal(&out.session, &in.session));
	assert_int_equal(out.len, 18);
	assert_memory_equal(out.payload, "{\"event\":\"attach\"}", 18);
	assert_int_equal(ring_read(r, &out, NULL), 1);
	assert_int_equal(out.len, 0);
	assert_int_equal(ring_read(r, &out, NULL), 0);
	assert_int_equal(ring_reader_position(r), ring_head(w));
	ring_reader_destroy(r);
	ring_writer_destroy(w);
}

static void full_ring_refuses_and_keeps_an_eighth(void **state)
{
	struct place *p = *state;
	struct ring_writer *w = writer_open(p);
	static uint8_t block[4096 - RING_RECORD_HEADER];
	size_t n = 0, more = 0;
	while (put(w, block, sizeof(block), false) == 0)
		n++;
	assert_int_equal(n, MIB / 8 * 7 / 4096);
	assert_int_equal(ring_room(w, false), 0);
	assert_int_equal(ring_room(w, true), MIB / 8);
	while (put(w, block, sizeof(block), true) == 0)
		more++;
	assert_int_equal(more, MIB / 8 / 4096);
	assert_int_equal(put(w, "", 0, true), ERR_AGAIN);

	free_up_to(p, w, 4096 * 8);
	assert_int_equal(ring_room(w, true), 4096 * 8);
	assert_int_equal(put(w, block, sizeof(block), false), ERR_AGAIN);
	assert_int_equal(put(w, block, sizeof(block), true), 0);
	ring_writer_destroy(w);
}

static void too_large_a_payload_is_refused(void **state)
{
	struct place *p = *state;
	struct ring_writer *w = writer_open(p);
	char *big = calloc(1, RING_RECORD_MAX + 1);
	assert_int_equal(put(w, big, RING_RECORD_MAX + 1, true), ERR_TOO_LARGE);
	assert_int_equal(ring_head(w), 0);
	assert_int_equal(put(w, big, RING_RECORD_MAX, true), 0);
	free(big);
	ring_writer_destroy(w);
}

/* Deterministic bytes for a sequence number, so that a reader knows what must be there. */
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

static void bytes_survive_many_turns_around_the_end(void **state)
{
	struct place *p = *state;
	struct ring_writer *w = writer_open(p);
	struct ring_reader *r = reader_open(p, 0);
	static uint8_t want[90000];
	struct ring_record out;
	uint64_t written = 0, read = 0;

	while (ring_head(w) < 20 * MIB) {
		size_t n = pattern(written + 1, want, sizeof(want));
		if (put(w, want, n, false) == 0) {
			written++;
			continue;
		}
		while (ring_read(r, &out, NULL) == 1) {
			n = pattern(++read, want, sizeof(want));
			assert_int_equal(out.seq, read);
			assert_int_equal(out.len, n);
			assert_memory_equal(out.payload, want, n);
		}
		assert_int_equal(read, written);
		free_up_to(p, w, ring_reader_position(r));
	}
	ring_reader_destroy(r);
	ring_writer_destroy(w);
}

/* Over the end of the file, in pieces, until other bytes stand in its place; and never another record. */
static void what_was_appended_is_recalled(void **state)
{
	struct place *p = *state;
	struct ring_writer *w = writer_open(p);
	struct ring_record meant = {.type = RING_DATA, .stream = STREAM_OUTPUT, .session.b[0] = 7, .offset = 42};
	static uint8_t in[100000], out[100000];
	uint64_t at = 0;

	for (int turn = 0; turn < 40; turn++) {
		memset(in, turn + 1, sizeof(in));
		in[50000] = 200;
		at = ring_head(w);
		assert_int_equal(put(w, in, sizeof(in), false), 0);
		assert_int_equal(ring_recall(w, at, &meant, 0, out, sizeof(out)), sizeof(in));
		assert_memory_equal(out, in, sizeof(in));
		assert_int_equal(ring_recall(w, at, &meant, 49999, out, 3), 3);
		assert_memory_equal(out, in + 49999, 3);
		free_up_to(p, w, ring_head(w));
	}
	assert_int_equal(ring_recall(w, at, &meant, sizeof(in), out, 1), 0);
	assert_int_equal(ring_recall(w, at, &meant, sizeof(in) + 1, out, 1), ERR_NOT_FOUND);
	assert_int_equal(ring_recall(w, at, &meant, 0, NULL, 0), 0);
	for (int i = 0; i < 4; i++) { /* of each thing that names a record another */
		struct ring_record other = meant;

		other.type = i == 0 ? RING_EVENT : other.type;
		other.stream = i == 1 ? STREAM_STDERR : other.stream;
		other.session.b[15] = i == 2;
		other.offset += i == 3;
		assert_int_equal(ring_recall(w, at, &other, 0, out, 1), ERR_NOT_FOUND);
	}
	assert_int_equal(ring_recall(w, at + 8, &meant, 0, out, 1), ERR_NOT_FOUND);
	assert_int_equal(ring_recall(w, ring_head(w), &meant, 0, out, 1), ERR_NOT_FOUND);
	assert_int_equal(ring_recall(w, ring_head(w) + 8, &meant, 0, out, 1), ERR_NOT_FOUND);
	assert_int_equal(ring_recall(w, 0, &meant, 0, out, 1), ERR_NOT_FOUND); /* what stands there now is newer */
	while (ring_head(w) - at <= MIB) {
		assert_int_equal(put(w, in, 1000, false), 0);
		free_up_to(p, w, ring_head(w));
	}
	assert_int_equal(ring_recall(w, at, &meant, 0, out, 1), ERR_NOT_FOUND);
	ring_writer_destroy(w);
}

static void next_writer_goes_on_with_sequence_and_epoch(void **state)
{
	struct place *p = *state;
	struct ring_record out;
	for (int i = 0; i < 5; i++) {
		struct ring_writer *w = writer_open(p);
		for (int k = 0; k <= i; k++)
			assert_int_equal(put(w, "abc", 3, false), 0);
		ring_writer_destroy(w);
	}
	struct ring_reader *r = reader_open(p, 0);
	uint64_t seq = 0;
	uint32_t epoch = 0;
	while (ring_read(r, &out, NULL) == 1) {
		assert_int_equal(out.seq, ++seq);
		assert_true(ring_reader_epoch(r) >= epoch);
		epoch = ring_reader_epoch(r);
	}
	assert_int_equal(seq, 15);
	assert_int_equal(epoch, 5);
	ring_reader_destroy(r);
}

static void second_writer_waits_for_the_first(void **state)
{
	struct place *p = *state;
	struct ring_writer *w = writer_open(p);
	pid_t pid = fork();
	if (pid == 0) {
		/* The first writer's mapping and lock belong to the parent; this one has to wait for them. */
		struct ring_writer *second = NULL;
		int fd = open(p->ring, O_RDWR | O_CLOEXEC);
		_exit(ring_writer_create(fd, p->cursor_fd, &second, NULL) == ERR_TIMEOUT ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	ring_writer_destroy(w);
	ring_writer_destroy(writer_open(p));
}

static void reader_names_the_damage_and_stays_before_it(void **state)
{
	struct place *p = *state;
	struct err e = {0};
	struct ring_record out;
	struct ring_writer *w = writer_open(p);
	for (int i = 0; i < 3; i++)
		assert_int_equal(put(w, "0123456789abcdef", 16, false), 0);
	size_t size = ring_record_size(16);

	for (size_t bit = 0; bit < (RING_RECORD_HEADER + 16) * 8; bit++) {
		uint8_t byte, flipped;
		off_t at = (off_t)(RING_HEADER_SIZE + size + bit / 8);
		assert_int_equal(pread(p->ring_fd, &byte, 1, at), 1);
		flipped = (uint8_t)(byte ^ 1u << bit % 8);
		assert_int_equal(pwrite(p->ring_fd, &flipped, 1, at), 1);
		struct ring_reader *r = reader_open(p, 0);
		assert_int_equal(ring_read(r, &out, &e), 1);
		assert_int_equal(ring_read(r, &out, &e), ERR_CORRUPT);
		assert_non_null(strstr(e.message, "position 72"));
		assert_int_equal(ring_reader_position(r), size);
		/* The bytes come right again: so does the reader, which did not move. */
		assert_int_equal(pwrite(p->ring_fd, &byte, 1, at), 1);
		assert_int_equal(ring_read(r, &out, &e), 1);
		assert_int_equal(out.seq, 2);
		ring_reader_destroy(r);
	}
	ring_writer_destroy(w);
}

static void overwritten_position_and_foreign_head_are_corrupt(void **state)
{
	struct place *p = *state;
	struct ring_writer *w = writer_open(p);
	struct ring_record out;
	static uint8_t block[65536];
	for (int i = 0; i < 40; i++) {
		assert_int_equal(put(w, block, sizeof(block), true), 0);
		free_up_to(p, w, ring_head(w));
	}
	struct ring_reader *r = reader_open(p, 0);
	assert_int_equal(ring_read(r, &out, NULL), ERR_CORRUPT);
	ring_reader_destroy(r);
	r = reader_open(p, ring_head(w) + 64);
	assert_int_equal(ring_read(r, &out, NULL), ERR_CORRUPT);
	ring_reader_destroy(r);
	ring_writer_destroy(w);
}

static void expected_sequence_is_checked(void **state)
{
	struct place *p = *state;
	struct ring_record out;
	struct ring_writer *w = writer_open(p);
	assert_int_equal(put(w, "x", 1, false), 0);
	struct ring_reader *r = reader_open(p, 0);
	ring_reader_expect(r, 2);
	assert_int_equal(ring_read(r, &out, NULL), ERR_CORRUPT);
	ring_reader_expect(r, 1);
	assert_int_equal(ring_read(r, &out, NULL), 1);
	ring_reader_destroy(r);
	ring_writer_destroy(w);
}

static void cursor_keeps_the_old_value_when_torn(void **state)
{
	struct place *p = *state;
	struct ring_cursor c = {.durable = 1, .durable_seq = 2, .heartbeat_ns = 3, .state = 4, .reader_pid = 5}, got;
	assert_int_equal(ring_cursor_write(p->cursor_fd, &c), 0);
	memset(&got, 0, sizeof(got));
	assert_int_equal(ring_cursor_read(p->cursor_fd, &got), 0);
	assert_memory_equal(&c, &got, sizeof(c));
	for (off_t at = 0; at < CURSOR_SIZE; at++) {
		uint8_t byte, flipped;
		if (at >= CURSOR_AT_MAJOR + 2 && at < CURSOR_AT_CRC)
			continue; /* minor version: newer ones are read as well */
		assert_int_equal(pread(p->cursor_fd, &byte, 1, at), 1);
		flipped = byte ^ 0x10;
		assert_int_equal(pwrite(p->cursor_fd, &flipped, 1, at), 1);
		assert_int_equal(ring_cursor_read(p->cursor_fd, &got), ERR_CORRUPT);
		assert_int_equal(pwrite(p->cursor_fd, &byte, 1, at), 1);
	}
	assert_int_equal(got.durable, 1);
}

static void prepare_keeps_what_is_there_and_refuses_what_is_no_ring(void **state)
{
	struct place *p = *state;
	struct err e = {0};
	struct ring_writer *w = writer_open(p);
	assert_int_equal(put(w, "kept", 4, false), 0);
	ring_writer_destroy(w);
	assert_int_equal(ring_file_prepare(p->ring, 2 * MIB, &e), 0);
	w = writer_open(p);
	assert_int_equal(ring_size(w), MIB);
	assert_int_equal(ring_head(w), ring_record_size(4));
	ring_writer_destroy(w);

	assert_int_equal(ring_file_prepare(p->ring, 3 * MIB, &e), ERR_INVAL);
	assert_int_equal(ftruncate(p->ring_fd, MIB), 0);
	assert_int_equal(ring_file_prepare(p->ring, MIB, &e), ERR_CORRUPT);
	assert_int_equal(pwrite(p->ring_fd, "PNG", 3, 0), 3);
	assert_int_equal(ring_file_prepare(p->ring, MIB, &e), ERR_CORRUPT);
}

/* Two together, or none: then there was no room for both. */
static bool write_two(struct ring_writer *w, uint64_t seq)
{
	static uint8_t bytes[20000];
	bool both = true;

	ring_hold(w);
	for (uint64_t i = 1; i < 3 && both; i++) {
		struct ring_record rec = {.type = RING_DATA, .stream = STREAM_OUTPUT};
		struct iovec iov = {bytes, pattern(seq + i, bytes, sizeof(bytes))};

		both = ring_append(w, &rec, &iov, 1, false) == 0;
	}
	ring_let(w, both);
	return both;
}

static void write_until_killed(struct place *p)
{
	struct ring_writer *w;
	struct ring_cursor c;
	int fd = open(p->ring, O_RDWR | O_CLOEXEC);
	if (ring_writer_create(fd, p->cursor_fd, &w, NULL))
		_exit(1);
	for (uint64_t seq = 0;;) {
		struct ring_record rec = {.type = RING_DATA, .stream = STREAM_OUTPUT};
		/* The pattern depends on the sequence, which the first append tells. */
		if (seq == 0 && ring_append(w, &rec, NULL, 0, true) == 0)
			seq = rec.seq;
		if (seq && write_two(w, seq))
			seq += 2;
		else
			(void)ring_writer_refresh(w, &c);
	}
}

static void killed_writers_leave_no_torn_and_no_lost_record(void **state)
{
	struct place *p = *state;
	static uint8_t want[20000];
	struct ring_reader *r = reader_open(p, 0);
	struct ring_record out;
	struct err e = {0};
	uint64_t seq = 0, wraps = 0, begun;
	unsigned seed = 4711;

	for (int round = 0; round < 60; round++) {
		pid_t pid = fork();
		if (pid == 0)
			write_until_killed(p);
		long ns = 500000 + rand_r(&seed) % 8000000;
		begun = seq;
		struct timespec until, now;
		clock_gettime(CLOCK_MONOTONIC, &until);
		bool alive = true;
		for (;;) {
			int rc = ring_read(r, &out, &e);
			if (rc < 0)
				fail_msg("round %d: %s", round, e.message);
			if (rc == 1) {
				seq++;
				assert_int_equal(out.seq, seq);
				/* A writer's first record is empty. */
				if (out.len) {
					assert_int_equal(out.len, pattern(seq, want, sizeof(want)));
					assert_memory_equal(out.payload, want, out.len);
				}
			} else if (!alive) {
				assert_true(seq == begun || (seq - begun) % 2 == 1); /* the empty one, then pairs */
				break;
			}
			struct ring_cursor c = {.durable = ring_reader_position(r), .durable_seq = seq};
			assert_int_equal(ring_cursor_write(p->cursor_fd, &c), 0);
			clock_gettime(CLOCK_MONOTONIC, &now);
			if (alive && (now.tv_sec - until.tv_sec) * 1000000000L + now.tv_nsec - until.tv_nsec > ns) {
				kill(pid, SIGKILL);
				waitpid(pid, NULL, 0);
				alive = false;
			}
		}
	}
	wraps = ring_reader_position(r) / MIB;
	assert_true(wraps > 3);
	ring_reader_destroy(r);
}

/* Two that are held are two or none: for a reader, for the next writer, and where they are taken back. */
static void what_is_held_comes_together_or_not_at_all(void **state)
{
	struct place *p = *state;
	struct ring_writer *w = writer_open(p);
	struct ring_reader *r = reader_open(p, 0);
	struct ring_record out;
	uint64_t head;

	for (uint64_t seq = 1; seq < 20;) {
		head = ring_head(w);
		ring_hold(w);
		assert_int_equal(put(w, "end", 3, true), 0);
		assert_int_equal(put(w, "told", 4, true), 0);
		assert_int_equal(ring_read(r, &out, NULL), 0);
		ring_let(w, false);
		assert_int_equal(ring_head(w), head);
		ring_hold(w);
		assert_int_equal(put(w, "end", 3, true), 0);
		assert_int_equal(put(w, "told", 4, true), 0);
		assert_int_equal(ring_read(r, &out, NULL), 0);
		if (seq % 4 == 1) { /* killed: the next one goes on at the head that was shown */
			ring_writer_destroy(w);
			w = writer_open(p);
			assert_int_equal(ring_head(w), head);
			assert_int_equal(ring_read(r, &out, NULL), 0);
			assert_int_equal(put(w, "one", 3, true), 0);
			assert_int_equal(ring_read(r, &out, NULL), 1);
			assert_int_equal(out.seq, seq++);
			continue;
		}
		ring_let(w, true);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(ring_read(r, &out, NULL), 1);
			assert_int_equal(out.seq, seq++);
		}
		assert_int_equal(ring_read(r, &out, NULL), 0);
	}
	ring_reader_destroy(r);
	ring_writer_destroy(w);
}

int main(void)
{
#define RING_TEST(f) cmocka_unit_test_setup_teardown(f, place_make, place_remove)
	const struct CMUnitTest tests[] = {
	    RING_TEST(record_comes_back_as_it_went_in),
	    RING_TEST(full_ring_refuses_and_keeps_an_eighth),
	    RING_TEST(too_large_a_payload_is_refused),
	    RING_TEST(bytes_survive_many_turns_around_the_end),
	    RING_TEST(what_was_appended_is_recalled),
	    RING_TEST(what_is_held_comes_together_or_not_at_all),
	    RING_TEST(next_writer_goes_on_with_sequence_and_epoch),
	    RING_TEST(second_writer_waits_for_the_first),
	    RING_TEST(reader_names_the_damage_and_stays_before_it),
	    RING_TEST(overwritten_position_and_foreign_head_are_corrupt),
	    RING_TEST(expected_sequence_is_checked),
	    RING_TEST(cursor_keeps_the_old_value_when_torn),
	    RING_TEST(prepare_keeps_what_is_there_and_refuses_what_is_no_ring),
	    RING_TEST(killed_writers_leave_no_torn_and_no_lost_record),
	};
	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
