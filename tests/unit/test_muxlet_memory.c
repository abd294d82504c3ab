/* What a group of memory says, and whom it costs his program. */
#include "muxd/muxlet/loop.c"
#include "muxd/muxlet/memory.c"
#include "muxd/muxlet/tree.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct channel *muxlet_find_pid(struct muxlet *m, pid_t pid)
{
	(void)m, (void)pid;
	return NULL;
}

bool spares_have(const struct muxlet *m, pid_t pid)
{
	(void)m, (void)pid;
	return false;
}

void muxlet_note(const struct muxlet *m, const char *fmt, ...)
{
	(void)m, (void)fmt;
}

static const char v1[] = "cache 36864\nrss 167936\ninactive_anon 1\nactive_anon 1\n"
			 "hierarchical_memory_limit 268435456\n"
			 "total_cache 400000000\ntotal_inactive_anon 1048576\ntotal_active_anon 2097152\n"
			 "total_inactive_file 90000000\ntotal_active_file 90000000\ntotal_unevictable 4194304\n";
static const char v2[] = "anon 9\nfile 400000000\nkernel 77777777\nkernel_stack 1048576\npagetables 1048576\n"
			 "sec_pagetables 0\npercpu 1048576\nsock 1048576\nshmem 4\ninactive_anon 2097152\n"
			 "active_anon 1048576\ninactive_file 9\nactive_file 9\nunevictable 1048576\n"
			 "slab_reclaimable 99999999\nslab_unreclaimable 1048576\nslab 100000000\n";

static void what_can_go_is_not_held(void **state)
{
	struct memory_use u;

	(void)state;
	assert_int_equal(memory_read(false, v1, NULL, "104857600", "100\n", &u), 0);
	assert_int_equal(u.limit, 256 * MIB);
	assert_int_equal(u.processes, 100);
	assert_int_equal(u.held, 7 * MIB + 100 * 128 * 1024); /* not the kernel's caches of files */
	assert_int_equal(memory_read(false, v1, NULL, "1048576", "100\n", &u), 0);
	assert_int_equal(u.held, 8 * MIB);
	assert_int_equal(memory_read(true, v2, "268435456\n", NULL, "7\n", &u), 0);
	assert_int_equal(u.limit, 256 * MIB);
	assert_int_equal(u.held, 9 * MIB);
	assert_int_equal(u.processes, 7);
}

static void without_a_limit_nothing_is_kept(void **state)
{
	struct memory_use u;

	(void)state;
	assert_int_equal(memory_read(true, v2, "max\n", NULL, "7\n", &u), ERANGE);
	assert_int_equal(memory_read(true, v2, "", NULL, "7\n", &u), ERANGE);
	assert_int_equal(memory_read(false, "hierarchical_memory_limit 9223372036854771712\n", NULL, "", "", &u),
			 ERANGE);
	assert_int_equal(memory_read(false, "", NULL, "", "", &u), ERANGE);
}

static void what_is_kept_is_bounded(void **state)
{
	(void)state;
	assert_int_equal(memory_kept(16 * MIB), 4 * MIB);
	assert_int_equal(memory_kept(256 * MIB), 32 * MIB);
	assert_int_equal(memory_kept(64 * 1024 * MIB), 128 * MIB);
}

/* 200 crowds: enough is given back, nobody who need not go goes, and staff only when it is said. */
static void the_largest_go_first_and_staff_last(void **state)
{
	struct tree_proc v[64];

	(void)state;
	for (unsigned seed = 0; seed < 200; seed++) {
		uint64_t need = 0, sum = 0, agents = 0, all = 0;
		size_t n, chosen, staff = 0;

		srand(seed);
		n = (size_t)rand() % 64;
		for (size_t i = 0; i < n; i++) {
			v[i] = (struct tree_proc){
			    .pid = (int)i + 2, .resident = (uint64_t)(rand() % 1000), .ours = rand() % 4 == 0};
			all += v[i].resident;
			agents += v[i].ours ? 0 : v[i].resident;
		}
		need = 1 + (uint64_t)rand() % (all + 10);
		chosen = memory_choose(v, n, need, seed % 2);
		assert_true(chosen <= n);
		for (size_t i = 0; i < chosen; i++) {
			assert_true(sum < need); /* without this one it was not enough */
			sum += v[i].resident;
			staff += v[i].ours;
			assert_true(i == 0 || v[i].ours > v[i - 1].ours || v[i].resident <= v[i - 1].resident);
		}
		if (seed % 2 == 0)
			assert_int_equal(staff, 0);
		assert_true(staff == 0 || sum >= agents);
		assert_true(sum >= need || sum == (seed % 2 ? all : agents));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_can_go_is_not_held),
	    cmocka_unit_test(without_a_limit_nothing_is_kept),
	    cmocka_unit_test(what_is_kept_is_bounded),
	    cmocka_unit_test(the_largest_go_first_and_staff_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
