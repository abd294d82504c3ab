// tier: check
/* The segment log: torn tails are cut, damage is kept aside, nothing whole is lost. */
#include "base/err.h"
#include "base/ring_record.h"
#include "recorder/write/segment_log.h"
#include "tests/lib/folders_fail.h"

#include <errno.h>
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

struct place {
	char dir[64];
	int fd;
	struct segment_log *log;
};

static int place_make(void **state)
{
	struct place *p = calloc(1, sizeof(*p));
	if (!p)
		return -1;
	snprintf(p->dir, sizeof(p->dir), "/tmp/test-segment-XXXXXX");
	if (!mkdtemp(p->dir))
		return -1;
	p->fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = p;
	return segment_log_create(p->fd, 65536, &segment_io_system, &p->log);
}

static int place_remove(void **state)
{
	struct place *p = *state;
	char cmd[128];
	segment_log_destroy(p->log);
	close(p->fd);
	snprintf(cmd, sizeof(cmd), "rm -r %s", p->dir);
	int rc = system(cmd);
	free(p);
	return rc;
}

static void append(struct place *p, struct segment_tail *t, uint64_t seq, const char *text, bool own)
{
	uint8_t bytes[4096];
	struct ring_record rec = {.seq = seq,
				  .type = RING_DATA,
				  .flags = own ? RING_ORIGIN_RECORDER : 0,
				  .len = (uint32_t)strlen(text),
				  .payload = (const uint8_t *)text};
	size_t n = ring_record_encode(bytes, &rec, 1);
	assert_int_equal(segment_log_write(p->log, t, bytes, n, NULL), 0);
	t->offset += n;
	t->lsn++;
	if (!own) {
		t->ring_pos += n;
		t->ring_seq = seq + 1;
	}
}

static struct segment_tail begin(struct place *p)
{
	struct segment_tail t = {.lsn = 100, .ring_pos = 4096, .ring_seq = 7, .ring.b[3] = 9};
	assert_int_equal(segment_log_begin(p->log, &t, NULL), 0);
	return t;
}

static void reopen(struct place *p)
{
	segment_log_destroy(p->log);
	assert_int_equal(segment_log_create(p->fd, 65536, &segment_io_system, &p->log), 0);
}

static void recover(struct place *p, struct segment_tail *t, struct segment_tear *tear)
{
	struct err e = {0};
	reopen(p);
	if (segment_log_recover(p->log, t, tear, &e))
		fail_msg("%s", e.message);
}

static void empty_folder_begins_at_lsn_one(void **state)
{
	struct segment_tail t;
	struct segment_tear tear;
	recover(*state, &t, &tear);
	assert_int_equal(t.number, 0);
	assert_int_equal(t.lsn, 1);
	assert_int_equal(tear.bytes, 0);
}

static void recovery_finds_ring_place_and_lsn(void **state)
{
	struct place *p = *state;
	struct segment_tail t = begin(p), got;
	struct segment_tear tear;
	append(p, &t, 7, "first", false);
	append(p, &t, 101, "{\"own\":1}", true);
	append(p, &t, 8, "second", false);
	recover(p, &got, &tear);
	assert_memory_equal(&got, &t, sizeof(t));
	assert_int_equal(got.ring_seq, 9);
	assert_int_equal(got.lsn, 103);
	assert_int_equal(tear.bytes, 0);

	/* A segment with nothing in it yet says the same. */
	assert_int_equal(segment_log_begin(p->log, &t, NULL), 0);
	recover(p, &got, &tear);
	assert_memory_equal(&got, &t, sizeof(t));
	assert_int_equal(got.number, 2);
}

static void tail_torn_at_any_byte_is_cut(void **state)
{
	struct place *p = *state;
	struct segment_tail t = begin(p), whole, got;
	struct segment_tear tear;
	append(p, &t, 7, "stays", false);
	whole = t;
	append(p, &t, 8, "this one is torn somewhere", false);
	char path[128];
	snprintf(path, sizeof(path), "%s/0000000000000001.seg", p->dir);
	for (uint64_t end = t.offset - 1; end > whole.offset; end--) {
		assert_int_equal(truncate(path, (off_t)end), 0);
		/* Zero padding that is missing is a tear as well: a record is whole or it is not. */
		recover(p, &got, &tear);
		assert_int_equal(got.offset, whole.offset);
		assert_int_equal(got.lsn, whole.lsn);
		assert_int_equal(got.ring_pos, whole.ring_pos);
		assert_int_equal(tear.bytes, end - whole.offset);
		assert_false(tear.set_aside);
		t = got;
		append(p, &t, 8, "this one is torn somewhere", false);
	}
}

static void damage_before_whole_records_is_kept_aside(void **state)
{
	struct place *p = *state;
	struct segment_tail t = begin(p), first, got;
	struct segment_tear tear;
	struct stat st;
	append(p, &t, 7, "good", false);
	first = t;
	append(p, &t, 8, "bad", false);
	append(p, &t, 9, "good again", false);
	char path[128], torn[160];
	snprintf(path, sizeof(path), "%s/0000000000000001.seg", p->dir);
	snprintf(torn, sizeof(torn), "%s.torn", path);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "X", 1, (off_t)first.offset + RING_RECORD_HEADER), 1);
	close(fd);
	recover(p, &got, &tear);
	assert_int_equal(got.offset, first.offset);
	assert_true(tear.set_aside);
	assert_int_equal(stat(torn, &st), 0);
	assert_int_equal(st.st_size, t.offset - first.offset);
}

static void damaged_header_is_set_aside(void **state)
{
	struct place *p = *state;
	struct segment_tail t = begin(p), before, got;
	struct segment_tear tear;
	append(p, &t, 7, "kept", false);
	before = t;
	assert_int_equal(segment_log_begin(p->log, &t, NULL), 0);
	char path[128];
	snprintf(path, sizeof(path), "%s/0000000000000002.seg", p->dir);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "\xff", 1, 30), 1);
	close(fd);
	recover(p, &got, &tear);
	assert_int_equal(got.number, before.number);
	assert_int_equal(got.offset, before.offset);
	assert_true(tear.set_aside);
	assert_int_equal(tear.number, 2);
}

static void reader_stops_at_limit_and_goes_on(void **state)
{
	struct place *p = *state;
	struct segment_tail t = begin(p), mid;
	struct segment_reader *r;
	struct segment_record rec;
	append(p, &t, 7, "one", false);
	mid = t;
	append(p, &t, 8, "two", false);
	assert_int_equal(segment_reader_create(p->fd, 1, &r, NULL), 0);
	assert_int_equal(segment_read(r, mid.offset, &rec, NULL), 1);
	assert_int_equal(rec.lsn, 100);
	assert_int_equal(segment_read(r, mid.offset, &rec, NULL), 0);
	assert_int_equal(segment_read(r, t.offset, &rec, NULL), 1);
	assert_memory_equal(rec.rec.payload, "two", 3);
	assert_int_equal(segment_read(r, UINT64_MAX, &rec, NULL), 0);
	append(p, &t, 9, "three", false);
	assert_int_equal(segment_delete(p->fd, 1, NULL), 0);
	assert_int_equal(segment_read(r, UINT64_MAX, &rec, NULL), 1);
	assert_int_equal(rec.rec.seq, 9);
	segment_reader_destroy(r);
	assert_int_equal(segment_reader_create(p->fd, 1, &r, NULL), ERR_NOT_FOUND);
}

static void rewind_forgets_what_is_not_durable(void **state)
{
	struct place *p = *state;
	struct segment_tail t = begin(p), durable, got;
	struct segment_tear tear;
	append(p, &t, 7, "durable", false);
	durable = t;
	append(p, &t, 8, "not durable", false);
	assert_int_equal(segment_log_rewind(p->log, &durable, NULL), 0);
	t = durable;
	assert_true(segment_log_full(p->log, &t, 1));
	assert_int_equal(segment_log_begin(p->log, &t, NULL), 0);
	append(p, &t, 8, "written anew", false);
	recover(p, &got, &tear);
	assert_memory_equal(&got, &t, sizeof(t));

	struct segment_reader *r;
	struct segment_record rec;
	assert_int_equal(segment_reader_create(p->fd, 1, &r, NULL), 0);
	assert_int_equal(segment_read(r, UINT64_MAX, &rec, NULL), 1);
	assert_int_equal(segment_read(r, UINT64_MAX, &rec, NULL), 0);
	segment_reader_destroy(r);
}

static int no_space(int fd, int mode, off_t at, off_t n)
{
	(void)fd, (void)mode, (void)at, (void)n;
	errno = ENOSPC;
	return -1;
}

static void full_disk_leaves_the_log_as_it_was(void **state)
{
	struct place *p = *state;
	struct segment_io io = segment_io_system;
	struct segment_tail t = begin(p), before;
	append(p, &t, 7, "kept", false);
	before = t;
	segment_log_destroy(p->log);
	io.fallocate = no_space;
	assert_int_equal(segment_log_create(p->fd, 65536, &io, &p->log), 0);
	assert_int_equal(segment_log_begin(p->log, &t, NULL), ERR_DISK_FULL);
	assert_memory_equal(&t, &before, sizeof(t));
	uint64_t *list;
	size_t n;
	assert_int_equal(segment_list(p->fd, &list, &n, NULL), 0);
	assert_int_equal(n, 1);
	free(list);
}

static void a_segment_whose_name_is_not_stored_was_never_begun(void **state)
{
	struct place *p = *state;
	struct segment_tail t = begin(p), before;
	uint64_t *list;
	size_t n;

	append(p, &t, 7, "kept", false);
	before = t;
	folders_fail = true;
	assert_int_equal(segment_log_begin(p->log, &t, NULL), ERR_DISK_FULL);
	folders_fail = false;
	assert_memory_equal(&t, &before, sizeof(t));
	append(p, &t, 8, "kept too", false);
	assert_int_equal(segment_list(p->fd, &list, &n, NULL), 0);
	assert_int_equal(n, 1);
	free(list);
	assert_int_equal(segment_log_begin(p->log, &t, NULL), 0);
}

int main(void)
{
#define SEGMENT_TEST(f) cmocka_unit_test_setup_teardown(f, place_make, place_remove)
	const struct CMUnitTest tests[] = {
	    SEGMENT_TEST(empty_folder_begins_at_lsn_one),
	    SEGMENT_TEST(recovery_finds_ring_place_and_lsn),
	    SEGMENT_TEST(tail_torn_at_any_byte_is_cut),
	    SEGMENT_TEST(damage_before_whole_records_is_kept_aside),
	    SEGMENT_TEST(damaged_header_is_set_aside),
	    SEGMENT_TEST(reader_stops_at_limit_and_goes_on),
	    SEGMENT_TEST(rewind_forgets_what_is_not_durable),
	    SEGMENT_TEST(full_disk_leaves_the_log_as_it_was),
	    SEGMENT_TEST(a_segment_whose_name_is_not_stored_was_never_begun),
	};
	return cmocka_run_group_tests_name("segment", tests, NULL, NULL);
}
