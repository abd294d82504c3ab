// tier: check
/* A hog of the processors goes behind the others and comes back: by rows, and with two groups of this host. */
#include "base/clock.h"
#include "base/err.h"
#include "control/local/cgroup.h"
#include "control/local/hogs.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MS 1000000u

/* Within 100 ms, on two processors unless a row says otherwise. 'B': behind, '.': beside. */
struct row {
	const char *what;
	const char *before, *after;
	unsigned used_ms[4], weight[4];
	unsigned processors;
};

static const struct row rows[] = {
    {"nobody does much", "...", "...", {10, 20, 30}, {100, 100, 100}, 2},
    {"one takes what the others leave", "...", "..B", {5, 5, 170}, {100, 100, 100}, 2},
    {"half a processor is a hog's", "....", "..BB", {49, 1, 50, 51}, {100, 100, 100, 100}, 2},
    {"a free processor is nobody's loss", "..", "..", {5, 100}, {100, 100}, 2},
    {"three quarters of one processor", "..", ".B", {5, 70}, {100, 100}, 1},
    {"on many processors one alone is no hog", "..", "..", {5, 400}, {100, 100}, 64},
    {"behind it stays while it takes a quarter of one", "..B", "..B", {40, 40, 25}, {100, 100, 100}, 2},
    {"held off by all the others it comes back", "..B", "BB.", {95, 95, 5}, {100, 100, 100}, 2},
    {"the machine is half free again", ".B", "..", {10, 80}, {100, 100}, 2},
    {"less than three quarters keeps it behind", ".B", ".B", {10, 100}, {100, 100}, 2},
    {"two share what is left", "...", "BB.", {90, 90, 5}, {100, 100, 100}, 2},
    {"where the others do nothing there is nobody to be behind", "...", "...", {100, 98, 0}, {100, 100, 100}, 2},
    {"and nobody to stay behind", ".B", "..", {0, 200}, {100, 100}, 2},
    {"those of different weights stay where these hold", "..", "..", {140, 55}, {400, 100}, 2},
    {"and come back to them", "BB", "..", {150, 40}, {400, 100}, 2},
    {"a light one's weight is of no account", "..", "B.", {150, 10}, {50, 100}, 2},
    {"none is there", "", "", {0}, {0}, 2},
};

static void what_becomes_of_each(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		size_t n = strlen(r->before);
		struct hog_use v[4];
		char got[5] = "";

		for (size_t k = 0; k < n; k++)
			v[k] = (struct hog_use){.state = r->before[k] == 'B' ? HOG_BEHIND : HOG_BESIDE,
						.weight = r->weight[k],
						.used_ns = (uint64_t)r->used_ms[k] * MS};
		hogs_decide(v, n, 100 * MS, r->processors);
		for (size_t k = 0; k < n; k++)
			got[k] = v[k].state == HOG_BEHIND ? 'B' : '.';
		if (strcmp(got, r->after) != 0)
			fail_msg("%s: %s, wanted %s", r->what, got, r->after);
	}
}

/* ---- this host */

static struct cgroup_layout layout;
static char instance[40];

static void member_make(const char *agent, struct cgroup *out)
{
	struct cgroup_limits lim = {.cpu_milli = 64000, .weight = 50};

	cgroup_make(&layout, instance, agent, &lim, out);
}

/* A program of the group that computes; or, lightly, only now and then. */
static pid_t worker(const struct cgroup *g, bool lightly)
{
	int fds[CGROUP_KINDS], n = cgroup_open_procs(g, fds, NULL), ready[2];
	char c;
	pid_t pid;

	assert_true(n > 0);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (int i = 0; i < n; i++)
			if (write(fds[i], "0", 1) != 1)
				_exit(99);
		if (write(ready[1], "", 1) != 1)
			_exit(98);
		for (volatile unsigned i = 0;; i++)
			if (lightly)
				usleep(1000);
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	for (int i = 0; i < n; i++)
		close(fds[i]);
	return pid;
}

/* As hogs_look() sees it: the group has used all of the machine since the last look, however long that took. */
static uint64_t after_all_of_it(const struct cgroup *g, uint64_t looked_ns)
{
	uint64_t before, now;
	cpu_set_t set;

	assert_int_equal(cgroup_used(g, &before), 0);
	do {
		usleep(20000);
		assert_int_equal(cgroup_used(g, &now), 0);
	} while (now < before + 50 * MS);
	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	return looked_ns + (now - before) / (uint64_t)CPU_COUNT(&set);
}

static void text_of(const struct cgroup *g, const char *name, char out[16])
{
	char path[CGROUP_PATH_MAX + 32];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", g->path[CGROUP_CPU], name);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(out, 16, f));
	fclose(f);
	out[strcspn(out, "\n")] = '\0';
}

static void a_group_goes_behind_and_comes_back(void **state)
{
	struct cgroup busy, quiet;
	char text[16];
	uint64_t used, t = 1000 * MS;
	struct hogs *h;
	const char *weight_file;
	pid_t pid, other;

	(void)state;
	snprintf(instance, sizeof(instance), "test-hogs-%d", (int)getpid());
	cgroup_layout_read(&layout);
	member_make("busy", &busy);
	member_make("quiet", &quiet);
	if (!busy.path[CGROUP_CPU][0] || cgroup_used(&busy, &used) != 0 || cgroup_set_behind(&busy, false, 50) != 0) {
		(void)cgroup_remove(&busy, 0, NULL);
		(void)cgroup_remove(&quiet, 0, NULL);
		print_message("SKIP: no groups for processor time, or none that can go behind, can be made here\n");
		skip();
	}
	weight_file = busy.v2[CGROUP_CPU] ? "cpu.weight" : "cpu.shares";
	h = hogs_new(&layout, instance, "busy=50,quiet=50");
	assert_non_null(h);
	other = worker(&quiet, true);
	pid = worker(&busy, false);
	assert_int_equal(hogs_look(h, t), HOGS_REST_MS); /* the first look knows no time that has passed */
	t = after_all_of_it(&busy, t);
	assert_int_equal(hogs_look(h, t), HOGS_BUSY_MS);
	assert_true(cgroup_is_behind(&busy));
	assert_false(cgroup_is_behind(&quiet));
	/* Another group of the same name would be beside the others: the next look puts it where its sandbox is. */
	assert_int_equal(cgroup_set_behind(&busy, false, 50), 0);
	t = after_all_of_it(&busy, t);
	assert_int_equal(hogs_look(h, t), HOGS_BUSY_MS);
	assert_true(cgroup_is_behind(&busy));
	/* The next daemon finds it there, and what it was given when it is beside the others again. */
	hogs_free(h);
	h = hogs_new(&layout, instance, "busy=50,quiet=50");
	assert_non_null(h);
	assert_false(cgroup_is_behind(&busy));
	assert_int_equal(cgroup_set_behind(&busy, true, 50), 0);
	assert_int_equal(hogs_look(h, t), HOGS_BUSY_MS);
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(hogs_look(h, t += 100000 * MS), HOGS_REST_MS);
	assert_false(cgroup_is_behind(&busy));
	text_of(&busy, weight_file, text);
	assert_string_equal(text, busy.v2[CGROUP_CPU] ? "50" : "512");
	(void)kill(other, SIGKILL);
	assert_int_equal(waitpid(other, NULL, 0), other);
	/* One that ended is forgotten. */
	assert_int_equal(cgroup_remove(&busy, clock_boot_ns() + 5 * NS_PER_SEC, NULL), 0);
	assert_int_equal(hogs_look(h, t += 100 * MS), HOGS_REST_MS);
	hogs_free(h);
	assert_int_equal(cgroup_remove(&quiet, clock_boot_ns() + 5 * NS_PER_SEC, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_becomes_of_each),
	    cmocka_unit_test(a_group_goes_behind_and_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
