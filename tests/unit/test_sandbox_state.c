// tier: check
/*
 * sandbox.json: what is written is read back, and a file cut anywhere is refused, never half believed.
 */
#include "base/err.h"
#include "control/local/dir.h"
#include "control/local/state.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char top[64];
static int dir;

static void sample(struct state *s)
{
	state_init(s);
	s->state = SANDBOX_RUNNING;
	assert_int_equal(id_new(&s->sandbox_id), 0);
	s->slot = 7;
	s->uid = 64907;
	s->init = (struct found){.pid = 4242, .start = UINT64_C(123456789012)};
	s->outer = (struct found){.pid = 4241, .start = 5};
	snprintf(s->boot_id, sizeof(s->boot_id), "%s", clock_boot_id());
	s->created_wall_ns = INT64_C(1795254598317775274);
	s->epoch = UINT64_C(6555578934915);
	memset(s->secret, 0xa5, sizeof(s->secret));
	snprintf(s->cgroup.path[CGROUP_PIDS], CGROUP_PATH_MAX, "/sys/fs/cgroup/pids/muxd-i/demo");
	snprintf(s->cgroup.path[CGROUP_CPU], CGROUP_PATH_MAX, "/sys/fs/cgroup/unified/muxd-i/demo");
	s->cgroup.v2[CGROUP_CPU] = true;
	s->cap_enforced = s->cpu_enforced = true;
	snprintf(s->detail, sizeof(s->detail), "limits not enforced (memory): \"quoted\" \\ text");
}

static void put(const char *text, size_t n)
{
	struct err e = {0};

	if (dir_write_file(dir, STATE_NAME, text, n, &e) != 0)
		fail_msg("%s", e.message);
}

static size_t get(char *text, size_t size)
{
	int fd = openat(dir, STATE_NAME, O_RDONLY);
	ssize_t n = read(fd, text, size);

	assert_true(n > 0 && (size_t)n < size);
	close(fd);
	text[n] = '\0';
	return (size_t)n;
}

static void test_round_trip(void **state)
{
	struct state a, b;
	struct err e = {0};
	struct stat st;

	(void)state;
	sample(&a);
	assert_int_equal(state_save(dir, &a, &e), 0);
	assert_int_equal(fstatat(dir, STATE_NAME, &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(state_load(dir, &b, &e), 0);
	assert_true(id_equal(&a.sandbox_id, &b.sandbox_id));
	assert_int_equal(b.state, SANDBOX_RUNNING);
	assert_int_equal(b.slot, 7);
	assert_int_equal(b.uid, 64907);
	assert_true(b.init.pid == 4242 && b.init.start == a.init.start && b.outer.pid == 4241 && b.outer.start == 5);
	assert_string_equal(a.boot_id, b.boot_id);
	assert_true(a.created_wall_ns == b.created_wall_ns && a.epoch == b.epoch);
	assert_memory_equal(a.secret, b.secret, sizeof(a.secret));
	for (int k = 0; k < CGROUP_KINDS; k++) {
		assert_string_equal(a.cgroup.path[k], b.cgroup.path[k]);
		assert_true(a.cgroup.v2[k] == b.cgroup.v2[k]);
	}
	assert_true(b.cap_enforced && !b.memory_enforced && !b.pids_enforced && b.cpu_enforced);
	assert_string_equal(a.detail, b.detail);
}

static void test_cut_anywhere(void **state)
{
	char text[8192];
	struct state a, b;
	size_t n;

	(void)state;
	sample(&a);
	assert_int_equal(state_save(dir, &a, NULL), 0);
	n = get(text, sizeof(text));
	for (size_t cut = 0; cut + 2 < n; cut++) {
		struct err e = {0};

		put(text, cut);
		memset(&b, 0x5a, sizeof(b));
		assert_int_equal(state_load(dir, &b, &e), ERR_CORRUPT);
		assert_true(strstr(e.message, STATE_NAME) != NULL);
		assert_int_equal(((unsigned char *)&b)[100], 0x5a); /* untouched */
	}
	put(text, n);
	assert_int_equal(state_load(dir, &b, NULL), 0);
}

static void test_wrong_values(void **state)
{
	static const struct {
		const char *from, *to;
	} rows[] = {{"\"version\":1", "\"version\":2"},
		    {"\"running\"", "\"walking\""},
		    {"\"pid\":4242", "\"pid\":-1"},
		    {"\"slot\":7", "\"slot\":\"7\""},
		    {"\"secret\":\"paWl", "\"secret\":\"pa=l"},
		    {"\"secret\":\"paWlpaWl", "\"secret\":\"paWl"},
		    {"\"uid\":64907", "\"uid\":4294967296"},
		    {"\"sandbox_id\":\"0", "\"sandbox_id\":\"x"},
		    {"\"cap_enforced\":true", "\"cap_enforced\":1"}};
	char text[8192], other[8200];
	struct state a, b;

	(void)state;
	sample(&a);
	assert_int_equal(state_save(dir, &a, NULL), 0);
	get(text, sizeof(text));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *at = strstr(text, rows[i].from);

		if (!at)
			fail_msg("no %s in %s", rows[i].from, text);
		snprintf(other, sizeof(other), "%.*s%s%s", (int)(at - text), text, rows[i].to,
			 at + strlen(rows[i].from));
		put(other, strlen(other));
		if (state_load(dir, &b, NULL) != ERR_CORRUPT)
			fail_msg("%s was believed", rows[i].to);
	}
}

/* Alive means: this boot, this pid, this start time. */
static void test_alive(void **state)
{
	struct state s;

	(void)state;
	sample(&s);
	assert_int_equal(found_take(getpid(), &s.init), 0);
	assert_true(state_alive(&s));
	s.init.start++;
	assert_false(state_alive(&s));
	s.init.start--;
	s.boot_id[0] = s.boot_id[0] == '0' ? '1' : '0';
	assert_false(state_alive(&s));
	snprintf(s.boot_id, sizeof(s.boot_id), "%s", clock_boot_id());
	s.state = SANDBOX_STOPPED;
	assert_false(state_alive(&s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_round_trip),
	    cmocka_unit_test(test_cut_anywhere),
	    cmocka_unit_test(test_wrong_values),
	    cmocka_unit_test(test_alive),
	};
	char command[128];
	int rc;

	snprintf(top, sizeof(top), "/tmp/test-state.XXXXXX");
	if (!mkdtemp(top) || (dir = open(top, O_RDONLY | O_DIRECTORY)) < 0)
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	close(dir);
	snprintf(command, sizeof(command), "rm -rf '%s'", top);
	return system(command) != 0 ? 1 : rc;
}
