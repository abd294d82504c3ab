// tier: check
/*
 * Control groups: where they may be made is read from texts of real hosts; that
 * limits hold is tried on this one, as root.
 */
#include "base/clock.h"
#include "base/err.h"
#include "control/local/cgroup.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

struct row {
	const char *what, *mountinfo, *self;
	const char *memory[3], *pids[3], *cpu[3], *v2[3];
};

static const struct row rows[] = {
    {.what = "version 2 alone, in a session of systemd",
     .mountinfo = "24 30 0:22 / /proc rw - proc proc rw\n"
		  "29 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
     .self = "0::/user.slice/user-0.slice/session-3.scope\n",
     .v2 = {"/sys/fs/cgroup/user.slice/user-0.slice/session-3.scope", "/sys/fs/cgroup/user.slice/user-0.slice",
	    "/sys/fs/cgroup"}},
    {.what = "both: version 1 for the controllers, co-mounted cpu and cpuacct",
     .mountinfo = "32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		  "33 24 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
		  "34 24 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
		  "35 24 0:31 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n",
     .self = "9:pids:/\n4:memory:/jobs/7\n2:cpu,cpuacct:/\n0::/\n",
     .memory = {"/sys/fs/cgroup/memory/jobs/7", "/sys/fs/cgroup/memory"},
     .pids = {"/sys/fs/cgroup/pids"},
     .cpu = {"/sys/fs/cgroup/cpu,cpuacct"},
     .v2 = {"/sys/fs/cgroup/unified"}},
    {.what = "a container that sees a part of the hierarchy",
     .mountinfo = "40 24 0:30 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
     .self = "4:memory:/docker/abc\n",
     .memory = {"/sys/fs/cgroup/memory"}},
    {.what = "our own group lies outside of what is mounted",
     .mountinfo = "40 24 0:30 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
     .self = "4:memory:/docker/abcdef\n",
     .memory = {"/sys/fs/cgroup/memory"}},
    {.what = "a mount point with a blank in its name",
     .mountinfo = "40 24 0:30 / /my\\040groups rw - cgroup cgroup rw,memory\n",
     .self = "4:memory:/\n",
     .memory = {"/my groups"}},
    {.what = "a path that leaves its mount is not followed",
     .mountinfo = "40 24 0:30 / /cg rw - cgroup2 cgroup2 rw\n",
     .self = "0::/../../outside\n",
     .v2 = {"/cg"}},
    {.what = "broken lines are skipped",
     .mountinfo = "\n40\n40 24 0:30 / /cg rw cgroup2 cgroup2 rw\n - \n40 24 0:30 / /cg rw - cgroup2\n",
     .self = ":\n::\n0:\n"},
    {.what = "nothing", .mountinfo = "", .self = ""},
};

static void check_place(const char *what, const struct cgroup_place *p, const char *const want[3])
{
	for (int i = 0; i < 3; i++)
		if (strcmp(p->dir[i], want[i] ? want[i] : "") != 0)
			fail_msg("%s: place %d is '%s', wanted '%s'", what, i, p->dir[i], want[i] ? want[i] : "");
}

static void test_layout(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cgroup_layout l;

		cgroup_layout_parse(rows[i].mountinfo, rows[i].self, &l);
		check_place(rows[i].what, &l.v1[CGROUP_MEMORY], rows[i].memory);
		check_place(rows[i].what, &l.v1[CGROUP_PIDS], rows[i].pids);
		check_place(rows[i].what, &l.v1[CGROUP_CPU], rows[i].cpu);
		check_place(rows[i].what, &l.v2, rows[i].v2);
	}
}

/* --- version 2 on a directory of plain files: what would be written where --- */

static char top[64];

static void put(const char *dir, const char *name, const char *text)
{
	char path[CGROUP_PATH_MAX + 64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static char *get(const char *dir, const char *name)
{
	static char text[256];
	char path[CGROUP_PATH_MAX + 64];
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "re");
	if (!f)
		return NULL;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	return text;
}

static void test_version_2_files(void **state)
{
	struct cgroup_limits lim = {.memory_max = 64 * MIB, .pids_max = 30, .cpu_milli = 250};
	struct cgroup_layout l = {0};
	struct cgroup g;
	char inst[128], agent[192], keep[256], programs[256];
	int fds[CGROUP_KINDS];
	struct err e = {0};

	(void)state;
	snprintf(l.v2.dir[0], sizeof(l.v2.dir[0]), "%s/own", top);  /* hands nothing down, like a session's scope */
	snprintf(l.v2.dir[1], sizeof(l.v2.dir[1]), "%s/root", top); /* hands down what systemd hands down */
	snprintf(inst, sizeof(inst), "%s/root/muxd-i", top);
	snprintf(agent, sizeof(agent), "%s/demo", inst);
	assert_int_equal(mkdir(l.v2.dir[0], 0755) | mkdir(l.v2.dir[1], 0755) | mkdir(inst, 0755) | mkdir(agent, 0755),
			 0);
	put(l.v2.dir[0], "cgroup.controllers", "");
	put(l.v2.dir[0], "cgroup.subtree_control", "");
	put(l.v2.dir[1], "cgroup.controllers", "cpuset cpu io memory pids\n");
	put(l.v2.dir[1], "cgroup.subtree_control", "cpu memory pids\n");
	put(inst, "cgroup.controllers", "cpu memory pids\n");
	put(inst, "cgroup.subtree_control", "memory pids\n");
	put(agent, "memory.max", "max");
	put(agent, "memory.swap.max", "max");
	put(agent, "pids.max", "max");
	/* cpu.max is missing: the kernel refuses the controller there */
	cgroup_make(&l, "i", "demo", &lim, &g);
	assert_string_equal(g.path[CGROUP_MEMORY], agent);
	assert_string_equal(g.path[CGROUP_PIDS], agent);
	assert_string_equal(g.path[CGROUP_CPU], "");
	assert_true(g.v2[CGROUP_MEMORY] && g.v2[CGROUP_PIDS]);
	assert_string_equal(get(agent, "memory.max"), "67108864");
	assert_string_equal(get(agent, "memory.swap.max"), "0ax"); /* a plain file keeps its tail */
	assert_string_equal(get(agent, "pids.max"), "30x");
	put(agent, "cpu.max", "");
	put(agent, "memory.events", "low 0\nhigh 0\nmax 4\noom 2\noom_kill 3\noom_group_kill 9\n");
	cgroup_make(&l, "i", "demo", &lim, &g);
	assert_string_equal(g.path[CGROUP_CPU], agent);
	assert_string_equal(get(agent, "cpu.max"), "25000 100000");
	assert_int_equal(cgroup_oom_kills(&g), 3);
	/* The leaves: made where the group hands memory down, and all kills below count, wherever they are written. */
	snprintf(keep, sizeof(keep), "%s/keep", agent);
	snprintf(programs, sizeof(programs), "%s/programs", agent);
	assert_int_equal(access(keep, F_OK), -1);
	put(agent, "cgroup.controllers", "memory pids\n");
	put(agent, "cgroup.subtree_control", "");
	cgroup_make(&l, "i", "demo", &lim, &g);
	assert_int_equal(access(keep, F_OK), -1); /* there is no memory.max in a directory: both are taken away again */
	assert_string_equal(get(agent, "cgroup.subtree_control"), "-memory"); /* and the group takes processes itself */
	put(agent, "cgroup.procs", "");
	assert_int_equal(cgroup_open_procs(&g, fds, &e), 1);
	close(fds[0]);
	assert_int_equal(cgroup_open_programs(&g), -1);
	put(agent, "cgroup.subtree_control", "memory");
	assert_int_equal(mkdir(keep, 0755) | mkdir(programs, 0755), 0);
	put(programs, "memory.max", "max");
	put(programs, "memory.swap.max", "max");
	put(programs, "cgroup.procs", "");
	put(keep, "cgroup.procs", "");
	cgroup_make(&l, "i", "demo", &lim, &g);
	assert_string_equal(get(programs, "memory.max"), "50331648");
	assert_int_equal(cgroup_open_procs(&g, fds, &e), 1);
	assert_int_equal(write(fds[0], "0", 1), 1);
	close(fds[0]);
	assert_string_equal(get(keep, "cgroup.procs"), "0");
	fds[0] = cgroup_open_programs(&g);
	assert_int_equal(write(fds[0], "0", 1), 1);
	close(fds[0]);
	assert_string_equal(get(programs, "cgroup.procs"), "0");
	put(programs, "memory.events", "oom_kill 2\n");
	assert_int_equal(cgroup_oom_kills(&g), 3); /* it has those below */
	put(keep, "memory.events", "oom_kill 2\n");
	assert_int_equal(cgroup_oom_kills(&g), 4); /* ... or not: memory_localevents */
	/* Nothing is asked for: nothing is said to be enforced. */
	lim = (struct cgroup_limits){0};
	cgroup_make(&l, "i", "demo", &lim, &g);
	for (int k = 0; k < CGROUP_KINDS; k++)
		assert_string_equal(g.path[k], "");
}

static void test_reserve(void **state)
{
	static const uint64_t table[][2] = {{16, 4},   {64, 16},    {128, 32},   {256, 32},
					    {512, 64}, {1024, 128}, {65536, 128}};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		assert_int_equal(cgroup_reserve(table[i][0] * MIB), table[i][1] * MIB);
}

/* --- this host --- */

/* A process of the group that runs that; of its leaf for programs, as the nursery joins it. */
static pid_t member_of(const struct cgroup *g, bool program, void (*run)(void))
{
	int fds[CGROUP_KINDS + 1];
	struct err e = {0};
	int n = cgroup_open_procs(g, fds, &e), joined[2];
	char c;
	pid_t pid;

	assert_true(n >= 0);
	if (program)
		fds[n++] = cgroup_open_programs(g);
	assert_int_equal(pipe(joined), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		for (int i = 0; i < n; i++)
			if (write(fds[i], "0", 1) != 1)
				_exit(99);
		close(joined[0]);
		if (write(joined[1], "", 1) != 1)
			_exit(98);
		close(joined[1]);
		run();
		_exit(0);
	}
	close(joined[1]);
	assert_int_equal(read(joined[0], &c, 1), 1); /* it is in the group from here on */
	close(joined[0]);
	for (int i = 0; i < n; i++)
		close(fds[i]);
	return pid;
}

static pid_t member(const struct cgroup *g, void (*run)(void))
{
	return member_of(g, false, run);
}

static void eat_memory(void)
{
	for (int i = 0; i < 100; i++) {
		char *p = malloc(MIB);

		if (!p)
			_exit(1);
		memset(p, i, MIB);
	}
}

static void sleep_long(void)
{
	sleep(60);
}

/* What fits into the limit of 32 MiB but not into that of programs. */
static void eat_some(void)
{
	for (int i = 0; i < 28; i++) {
		char *p = malloc(MIB);

		if (!p)
			_exit(1);
		memset(p, i, MIB);
	}
}

static void fork_many(void)
{
	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (pid < 0)
			_exit(i);
		if (pid == 0) {
			pause();
			_exit(0);
		}
	}
	_exit(100);
}

static void test_this_host(void **state)
{
	struct cgroup_limits lim = {.memory_max = 32 * MIB, .pids_max = 8, .cpu_milli = 500};
	struct cgroup_layout l;
	struct cgroup g, found;
	struct err e = {0};
	char name[40]; /* two runs on one machine do not share a group */
	pid_t pid, other = 0;
	int status;

	(void)state;
	snprintf(name, sizeof(name), "test-cgroup-%d", (int)getpid());
	if (geteuid() != 0) {
		print_message("SKIP: needs root to make control groups\n");
		skip();
	}
	cgroup_layout_read(&l);
	cgroup_make(&l, name, "demo", &lim, &g);
	for (int k = 0; k < CGROUP_KINDS; k++)
		if (!g.path[k][0])
			print_message("SKIP %s: not writable here\n", cgroup_kind_name((enum cgroup_kind)k));
	cgroup_find(&l, name, "demo", &found);
	assert_memory_equal(&found, &g, sizeof(g));
	assert_int_equal(cgroup_oom_kills(&g), 0);
	if (g.path[CGROUP_MEMORY][0]) {
		pid = member(&g, eat_memory);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		assert_int_equal(cgroup_oom_kills(&g), 1);
		pid = member(&g, eat_some);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		pid = member_of(&g, true, eat_some);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		assert_int_equal(cgroup_oom_kills(&g), 2);
	}
	if (g.path[CGROUP_PIDS][0]) {
		pid = member(&g, fork_many);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 7); /* itself is the eighth */
	}
	/* Removal ends what is still in it: the seven from above and one more. */
	pid = member(&g, sleep_long);
	if (g.path[CGROUP_MEMORY][0])
		other = member_of(&g, true, sleep_long);
	if (cgroup_remove(&g, clock_boot_ns() + 5 * NS_PER_SEC, &e) != 0)
		fail_msg("%s", e.message);
	if (g.path[0][0] || g.path[1][0] || g.path[2][0]) {
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (!WIFSIGNALED(status))
			fail_msg("what was in the group ended by itself: status %#x", status);
	} else {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	if (other) {
		assert_int_equal(waitpid(other, &status, 0), other);
		assert_true(WIFSIGNALED(status));
	}
	cgroup_find(&l, name, "demo", &found);
	for (int k = 0; k < CGROUP_KINDS; k++)
		assert_string_equal(found.path[k], "");
	assert_int_equal(cgroup_remove(&g, 0, &e), 0); /* once more is fine */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_layout),
	    cmocka_unit_test(test_version_2_files),
	    cmocka_unit_test(test_reserve),
	    cmocka_unit_test(test_this_host),
	};
	char command[128];
	int rc;

	snprintf(top, sizeof(top), "/tmp/test-cgroup.XXXXXX");
	if (!mkdtemp(top))
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf '%s'", top);
	return system(command) != 0 ? 1 : rc;
}
