// tier: check
/* What disks and hands do to the parts of a record, and that it goes on without losing what is left. */
#include "tests/lib/cutter_rig.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>

static atomic_int chain_syncs_fail, chain_syncs_failed;

/* In place of the C library's: a disk that loses what it was to write to the chain log. */
int fdatasync(int fd)
{
	char link[64], path[256] = "";
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof(path) - 1);
	if (n > 7 && strcmp(path + n - 7, ".mchain") == 0 && atomic_load(&chain_syncs_fail) > 0) {
		atomic_fetch_sub(&chain_syncs_fail, 1);
		atomic_fetch_add(&chain_syncs_failed, 1);
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

static void tell(void *arg, const struct verify_finding *f)
{
	(void)arg;
	print_message("%s: %s\n", f->code, f->message);
}

static void verify_whole(struct place *p, uint64_t tombstones)
{
	struct grant_public_key key = *signer_public(p->signer);
	struct grant_keyset keys = {&key, 1};
	struct verify_summary sum;
	assert_int_equal(verify_all(&(struct verify_ask){.dir = p->dir, .keys = &keys, .sink = tell}, &sum, NULL), 0);
	assert_true(sum.intact);
	assert_int_equal(sum.missing, 0);
	assert_int_equal(sum.unknown, 0);
	assert_int_equal(sum.tombstones, tombstones);
}

static void a_failed_sync_of_the_chain_is_tried_again(void **state)
{
	struct place *p = *state;
	struct id id;
	uint64_t at = 0;
	start(p);
	for (int fails = 1; fails <= 2; fails++) {
		session_open(p, &id);
		send_bytes(p, &id, &at, 5000);
		text(p, RING_AUDIT, &id, "{\"event\":\"test.audit\",\"principal\":\"pat\"}");
		atomic_store(&chain_syncs_failed, 0);
		atomic_store(&chain_syncs_fail, fails);
		text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
		wait_state(p, &id, "sealed");
		assert_int_equal(atomic_load(&chain_syncs_failed), fails);
		verify(p, &id, true);
		at = 0;
	}
	stop(p);
	verify_whole(p, 0);
}

static void remove_segments(struct place *p)
{
	uint64_t *list;
	size_t n;
	assert_int_equal(segment_list(p->segments_fd, &list, &n, NULL), 0);
	assert_true(n >= 3);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(segment_delete(p->segments_fd, list[i], NULL), 0);
	free(list);
}

static void damage_newest_segment(struct place *p)
{
	uint64_t *list;
	size_t n;
	char name[SEGMENT_NAME_MAX];
	uint8_t byte;
	assert_int_equal(segment_list(p->segments_fd, &list, &n, NULL), 0);
	segment_name(list[n - 1], name);
	free(list);
	int fd = openat(p->segments_fd, name, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &byte, 1, 20), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, 20), 1);
	close(fd);
}

/* The index stands at a segment that is gone: what comes next is read all the same, and not deleted unread. */
static void lost_segments_lose_only_themselves(void **state)
{
	static void (*const losses[])(struct place *) = {remove_segments, damage_newest_segment};
	struct place *p = *state;
	struct id id;
	uint64_t at = 0;
	start(p);
	for (int i = 0; i < 2; i++) {
		session_open(p, &id);
		at = 0;
		send_bytes(p, &id, &at, 9 * MIB); /* more than the ring holds: what is lost stays lost */
		text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
		consumed(p, &id);
		stop(p);
		losses[i](p);
		start(p);
		session_open(p, &id);
		at = 0;
		send_bytes(p, &id, &at, 5 * MIB / 2);
		text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
		wait_state(p, &id, "sealed");
		verify(p, &id, true);
		stop(p);
		start(p);
	}
	stop(p);
	verify_whole(p, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CUTTER_TEST(a_failed_sync_of_the_chain_is_tried_again),
	    CUTTER_TEST(lost_segments_lose_only_themselves),
	};
	return cmocka_run_group_tests_name("recorder_damage", tests, quiet, NULL);
}
