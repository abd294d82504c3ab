// tier: check
/* What a group of memory says, and whom it costs his program. */
#define SHARED_MEMORY "/proc"
#include "muxd/muxlet/canary.c"
#include "muxd/muxlet/loop.c"
#include "muxd/muxlet/memory.c"
#include "muxd/muxlet/spool.c"
#include "muxd/muxlet/tree.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>

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

void child_ends_first(void) {}

pid_t child_make(int (*run)(void *arg), void *arg)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(run(arg));
	return pid;
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

static void looks_come_before_the_room_is_taken(void **state)
{
	(void)state;
	for (uint64_t room = 0; room < 4096 * MIB; room += MIB) {
		uint64_t ns = memory_next_ns(room);

		assert_true(ns >= LOOK_LEAST && ns <= LOOK_MOST);
		assert_true(ns == LOOK_LEAST || (double)ns * (double)MEMORY_RATE / 1e9 <= (double)room);
	}
	assert_int_equal(memory_canary(64 * MIB), 0); /* muxlet has as much itself: it would be no larger */
	assert_int_equal(memory_canary(256 * MIB), 6 * MIB);
	assert_int_equal(memory_canary(64 * 1024 * MIB), 16 * MIB);
}

/* ---- a group in files of the test's own */

struct group {
	struct muxlet m;
	char dir[64];
	struct channel round, shell;
};

static void group_says(struct group *g, const char *name, const char *fmt, uint64_t n)
{
	char path[128];
	FILE *f;

	assert_true(snprintf(path, sizeof(path), "%s/%s", g->dir, name) < (int)sizeof(path));
	f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fprintf(f, fmt, (unsigned long long)n) > 0);
	assert_int_equal(fclose(f), 0);
}

static void group_uses(struct group *g, uint64_t bytes, uint64_t processes)
{
	group_says(g, "memory.stat", "active_anon %llu\n", bytes);
	group_says(g, "pids.current", "%llu\n", processes);
}

static pid_t sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)setpgid(0, 0);
		for (;;)
			(void)pause();
	}
	assert_true(pid > 0);
	(void)setpgid(pid, pid);
	return pid;
}

static struct group *group_new(void)
{
	struct group *g = calloc(1, sizeof(*g));

	assert_non_null(g);
	(void)snprintf(g->dir, sizeof(g->dir), "/tmp/test_muxlet_memory.XXXXXX");
	assert_non_null(mkdtemp(g->dir));
	TAILQ_INIT(&g->m.alive);
	assert_int_equal(loop_init(&g->m.loop), 0);
	assert_int_equal(timer_reserve(&g->m.loop, 4), 0);
	g->m.null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	g->m.workdir = "/proc";
	g->m.loop.now_ns = monotonic_ns();
	g->round.pid = sleeper();
	g->shell.pid = sleeper();
	g->shell.staff = true;
	TAILQ_INSERT_TAIL(&g->m.alive, &g->round, place);
	TAILQ_INSERT_TAIL(&g->m.alive, &g->shell, place);
	group_says(g, "memory.max", "%llu\n", 256 * MIB);
	group_uses(g, 10 * MIB, 4);
	memory_open(&g->m, g->dir);
	assert_true(g->m.memory.stat_fd >= 0);
	return g;
}

static void group_free(struct group *g)
{
	static const char *const names[] = {"memory.max", "memory.stat", "pids.current"};
	char path[128];

	canaries_let_go(&g->m.memory.canaries);
	for (size_t i = 0; i < CANARIES; i++)
		if (g->m.memory.canaries.pid[i])
			assert_true(waitpid(g->m.memory.canaries.pid[i], NULL, 0) > 0);
	(void)kill(g->round.pid, SIGKILL);
	(void)kill(g->shell.pid, SIGKILL);
	assert_true(waitpid(g->round.pid, NULL, 0) > 0);
	assert_true(waitpid(g->shell.pid, NULL, 0) > 0);
	memory_close(&g->m);
	loop_finish(&g->m.loop);
	close(g->m.null_fd);
	for (size_t i = 0; i < 3; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", g->dir, names[i]);
		assert_int_equal(unlink(path), 0);
	}
	assert_int_equal(rmdir(g->dir), 0);
	free(g);
}

static void look_after(struct group *g, uint64_t ns)
{
	g->m.loop.now_ns += ns;
	memory_tick(&g->m.memory.timer);
}

/* Bytes of no file that a process holds, once it has them; 0: it never had. */
static uint64_t holds(pid_t pid, uint64_t wanted)
{
	char path[64];
	unsigned long long all, resident = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	for (int i = 0; i < 500 && resident * 4096 < wanted; i++) {
		FILE *f = fopen(path, "r");

		if (!f || fscanf(f, "%llu %llu", &all, &resident) != 2)
			resident = 0;
		if (f)
			(void)fclose(f);
		(void)usleep(10000);
	}
	return resident * 4096 >= wanted ? resident * 4096 : 0;
}

static void canaries_are_there_while_memory_is_short(void **state)
{
	struct group *g = group_new();
	struct canaries *c = &g->m.memory.canaries;

	(void)state;
	look_after(g, 0);
	assert_int_equal(canaries_count(c), 0);
	group_uses(g, 130 * MIB, 4);
	look_after(g, MS_NS);
	assert_int_equal(canaries_count(c), 1); /* one at a time */
	for (size_t i = 2; i <= CANARIES; i++) {
		look_after(g, AGAIN_NS);
		assert_int_equal(canaries_count(c), i);
	}
	assert_true(holds(c->pid[0], 6 * MIB) > 0);
	assert_true(holds(c->pid[1], 6 * MIB) > 0);
	group_uses(g, 10 * MIB, 4);
	look_after(g, MS_NS);
	look_after(g, CALM_NS - MS_NS);
	assert_int_equal(kill(c->pid[0], 0), 0);
	look_after(g, MS_NS);
	for (size_t i = 0; i < CANARIES; i++) {
		pid_t pid = c->pid[i];

		assert_int_equal(waitpid(pid, NULL, 0), pid);
		memory_reaped(&g->m, pid);
	}
	assert_int_equal(canaries_count(c), 0);
	assert_false(g->round.out_of_memory);
	group_free(g);
}

/* A crowd that is quicker than the looks: the kernel has ended a canary, and what is not staff's goes at once. */
static void a_canary_that_goes_ends_the_crowd(void **state)
{
	struct group *g = group_new();
	struct canaries *c = &g->m.memory.canaries;
	int status;
	pid_t pid;

	(void)state;
	group_uses(g, 130 * MIB, 400);
	look_after(g, 0);
	pid = c->pid[0];
	assert_true(pid > 0);
	group_uses(g, 250 * MIB, 900);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	memory_reaped(&g->m, pid);
	assert_true(g->round.out_of_memory);
	assert_int_equal(waitpid(g->round.pid, &status, 0), g->round.pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(waitpid(g->shell.pid, &status, WNOHANG), 0);
	g->round.pid = sleeper();
	group_free(g);
}

/* Whoever ends a canary although there is room has ended that alone. */
static void a_canary_that_was_killed_costs_nobody_his_program(void **state)
{
	struct group *g = group_new();
	pid_t pid;

	(void)state;
	group_uses(g, 130 * MIB, 400);
	look_after(g, 0);
	pid = g->m.memory.canaries.pid[0];
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	memory_reaped(&g->m, pid);
	assert_false(g->round.out_of_memory);
	look_after(g, AGAIN_NS);
	assert_true(canaries_count(&g->m.memory.canaries) > 0);
	group_free(g);
}

static int all_tests(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_can_go_is_not_held),
	    cmocka_unit_test(without_a_limit_nothing_is_kept),
	    cmocka_unit_test(what_is_kept_is_bounded),
	    cmocka_unit_test(the_largest_go_first_and_staff_last),
	    cmocka_unit_test(looks_come_before_the_room_is_taken),
	    cmocka_unit_test(canaries_are_there_while_memory_is_short),
	    cmocka_unit_test(a_canary_that_goes_ends_the_crowd),
	    cmocka_unit_test(a_canary_that_was_killed_costs_nobody_his_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--canary") == 0)
		return canary_run(strtoull(argv[2], NULL, 10));
	return all_tests();
}
