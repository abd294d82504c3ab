// tier: check
/*
 * The nursery under a real muxlet: what its children are, and that a program inside that stops it, kills it, bends it
 * or holds it up loses nobody's round and runs none twice. Its group is /dev/null here: test_cgroup.c and the story
 * nursery.sh have real ones. The rest of what muxlet does is tried with a nursery by RIG_NURSERY=1 before test_link*.
 */
#include "tests/lib/link_rig.h"

#include "muxd/muxlet/nursery.h"

#include <sys/ptrace.h>
#include <sys/stat.h>

static struct rig *rig_nursery(void)
{
	setenv("RIG_NURSERY", "1", 1);
	return rig_create();
}

static bool is_nursery(pid_t pid, pid_t parent)
{
	char path[64], text[512], *at;
	int ppid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	at = fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;
	fclose(f);
	return at && sscanf(at + 1, " %*c %d", &ppid) == 1 && ppid == parent && strstr(text, "(muxlet-nursery)");
}

/* The one that lives; 0: none. A child of it that is no program yet has its name, and came later. */
static pid_t nursery_of(struct rig *r)
{
	char path[64], line[32];
	pid_t found = 0, pid;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)r->pid, (int)r->pid);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fscanf(f, "%31s", line) == 1) {
		pid = (pid_t)strtol(line, NULL, 10);
		if (!found && is_nursery(pid, r->pid))
			found = pid;
	}
	fclose(f);
	return found;
}

static pid_t wait_nursery(struct rig *r)
{
	pid_t pid = 0;

	assert_true(rig_until(r, 5000, (pid = nursery_of(r)) != 0));
	return pid;
}

static void programs_are_muxlets_children(void **state)
{
	struct rig *r = rig_nursery();
	pid_t nursery = wait_nursery(r);
	char parent[32];

	(void)state;
	rig_open(r, 1, "echo $PPID; tr '\\0' ' ' </proc/$PPID/comm; ls /proc/self/fd | wc -w", (struct rig_call){0});
	rig_wait_exit(r, 1);
	snprintf(parent, sizeof(parent), "%d\n", (int)r->pid);
	assert_memory_equal(rig_text(r, 1, 1), parent, strlen(parent));
	assert_non_null(strstr(rig_text(r, 1, 1), "muxlet\n4\n")); /* 0, 1, 2 and that of ls */
	/* The nursery holds nothing but its socket: no listener, no secret, no stream. */
	for (int fd = 3; fd < 64; fd++) {
		char path[64], link[128];
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)nursery, fd);
		n = readlink(path, link, sizeof(link) - 1);
		if (n > 0 && fd != 3)
			fail_msg("the nursery has descriptor %d: %.*s", fd, (int)n, link);
	}
	rig_destroy(r);
}

/* The nursery is told to go on, again and again, and rounds wait for no more than that. */
static void a_stopped_one_goes_on(void **state)
{
	struct rig *r = rig_nursery();
	pid_t nursery = wait_nursery(r);

	(void)state;
	for (uint32_t i = 1; i <= 5; i++) {
		uint64_t begun = clock_boot_ns();

		assert_int_equal(kill(nursery, SIGSTOP), 0);
		rig_open(r, i, "echo fine", (struct rig_call){0});
		rig_wait_exit(r, i);
		assert_string_equal(rig_text(r, i, 1), "fine\n");
		assert_true(clock_boot_ns() - begun < 3 * NS_PER_SEC);
	}
	assert_int_equal(nursery_of(r), nursery);
	rig_destroy(r);
}

static void read_text(const char *path, char *out, size_t size)
{
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(out, 1, size - 1, f) : 0;

	if (f)
		fclose(f);
	out[n] = '\0';
}

/*
 * Killed at any moment, by turns while it is idle, is asked and is about to answer: each round that is said to have
 * ended well ran once, each that is said not to have begun never did, and all are answered.
 */
static void killed_at_any_moment(void **state)
{
	enum { ROUNDS = 400 };
	static char all[ROUNDS * 16];
	struct rig *r = rig_nursery();
	char path[120], line[200], name[32];
	int ran = 0, not = 0, hit = 0;

	(void)state;
	snprintf(path, sizeof(path), "%s/ran", r->dir);
	srandom(20261123);
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		pid_t nursery = nursery_of(r);

		snprintf(line, sizeof(line), "echo '<%u>' >>%s", i, path);
		if (i % 3 == 0 && nursery)
			kill(nursery, SIGKILL);
		rig_open(r, i, line, (struct rig_call){0});
		if (i % 3 == 1) {
			(void)rig_until(r, random() % 3, false);
			if ((nursery = nursery_of(r)) != 0)
				kill(nursery, i % 2 ? SIGKILL : SIGTERM);
		}
		if (i % 20 == 0)
			for (uint32_t k = i - 19; k <= i; k++)
				rig_wait_exit(r, k);
	}
	assert_int_equal(r->downs, 0);
	read_text(path, all, sizeof(all));
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		const struct rig_channel *c = &r->ch[i];
		int times = 0;

		snprintf(name, sizeof(name), "<%u>", i);
		for (const char *at = all; (at = strstr(at, name)); at++)
			times++;
		assert_int_equal(c->opened, 1);
		if (c->exit.signal == SIGKILL || c->exit.signal == SIGTERM) { /* it was hit itself, before its exec */
			assert_true(times <= 1);
			hit++;
			continue;
		}
		if (times != (c->exit.cause != EXIT_NOT_STARTED))
			fail_msg("round %u ran %d times, its end: %s, code %d, signal %d, %s", i, times,
				 exit_cause_name(c->exit.cause), c->exit.code, c->exit.signal, c->exit.error_at);
		assert_int_equal(c->exit.code, times ? 0 : -1);
		ran += times;
		not += !times;
	}
	unlink(path);
	print_message("%d ran once, %d did not begin, %d were hit themselves\n", ran, not, hit);
	assert_int_equal(ran + not +hit, ROUNDS);
	assert_true(ran > ROUNDS / 2);
	rig_destroy(r);
}

/* Waits for the stop of pid that PTRACE_SEIZE brings with this event; 0: the first stop of a child. */
static void await_stop(struct rig *r, pid_t pid, int event)
{
	int status = 0;

	assert_true(rig_until(r, 10000, status || waitpid(pid, &status, __WALL | WNOHANG) == pid));
	assert_true(WIFSTOPPED(status));
	assert_int_equal(status >> 16, event ? event : PTRACE_EVENT_STOP);
}

/*
 * A signal or an end comes for a program that has a pid and is no program yet: held by a debugger between the two. The
 * file is not there: whoever asked hears so, though muxlet had taken the program for begun.
 */
static void a_failure_after_the_pid_is_told(void **state)
{
	static const char *const nobody[] = {"/nonexistent/program", NULL};
	struct rig *r;

	(void)state;
	if (geteuid() != 0)
		skip();
	for (int kill_it = 0; kill_it < 2; kill_it++) {
		pid_t nursery;
		unsigned long child = 0;

		r = rig_nursery();
		nursery = wait_nursery(r);
		assert_int_equal(ptrace(PTRACE_SEIZE, nursery, 0, PTRACE_O_TRACEVFORK), 0);
		assert_int_equal(rig_open_argv(r, 1, nobody, &(struct rig_call){0}), 0);
		await_stop(r, nursery, PTRACE_EVENT_VFORK);
		assert_int_equal(ptrace(PTRACE_GETEVENTMSG, nursery, 0, &child), 0);
		await_stop(r, (pid_t)child, 0);
		assert_int_equal(link_signal(r->link, 1, SIGWINCH), 0);
		(void)rig_until(r, 10000, r->ch[1].opened);
		assert_int_equal(r->ch[1].opened, 1);
		if (kill_it) {
			assert_int_equal(kill(nursery, SIGKILL), 0);
			assert_int_equal(waitpid(nursery, NULL, __WALL),
					 nursery); /* before its parent, as who traces it */
		} else {
			assert_int_equal(ptrace(PTRACE_DETACH, nursery, 0, 0), 0);
		}
		assert_int_equal(ptrace(PTRACE_DETACH, (pid_t)child, 0, 0), 0);
		rig_wait_exit(r, 1);
		assert_int_equal(r->ch[1].exit.cause, EXIT_NOT_STARTED);
		assert_string_equal(r->ch[1].exit.error_at, "exec");
		rig_open(r, 2, "echo fine", (struct rig_call){0});
		rig_wait_exit(r, 2);
		assert_string_equal(rig_text(r, 2, 1), "fine\n");
		rig_destroy(r);
	}
}

/* Limits and priority of what it starts are its own; lowered by another they would be everybody's. */
static void a_bent_one_is_made_anew(void **state)
{
	struct rig *r = rig_nursery();
	pid_t first = wait_nursery(r);
	struct rlimit low = {5, 5};

	(void)state;
	assert_int_equal(prlimit(first, RLIMIT_NOFILE, &low, NULL), 0);
	rig_open(r, 1, "ulimit -n; nice", (struct rig_call){0});
	rig_wait_exit(r, 1);
	assert_true(atoi(rig_text(r, 1, 1)) > 5);
	assert_true(nursery_of(r) != first);
	rig_destroy(r);
}

/* What comes for a program that is being made is kept: input, its end, a signal, a kill. */
static void what_comes_meanwhile_is_kept(void **state)
{
	struct rig *r = rig_nursery();
	pid_t nursery = wait_nursery(r);

	(void)state;
	assert_int_equal(kill(nursery, SIGSTOP), 0); /* until muxlet has waited long enough */
	rig_open(r, 1, "cat; echo end", (struct rig_call){.with_stdin = true});
	(void)rig_type(r, 1, 0, "typed ", 6);
	assert_int_equal(link_input_eof(r->link, 1, 6), 0);
	rig_open(r, 2, "sleep 60", (struct rig_call){0});
	assert_int_equal(link_signal(r->link, 2, SIGUSR1), 0);
	rig_open(r, 3, "echo never", (struct rig_call){0});
	assert_int_equal(link_kill(r->link, 3, EXIT_KILLED), 0);
	rig_open(r, 4, "sleep 60", (struct rig_call){.timeout_ms = 1});
	for (uint32_t i = 1; i <= 4; i++)
		rig_wait_exit(r, i);
	assert_int_equal(r->downs, 0);
	assert_string_equal(rig_text(r, 1, 1), "typed end\n");
	assert_int_equal(r->ch[2].exit.signal, SIGUSR1);
	assert_int_equal(r->ch[3].exit.cause, EXIT_KILLED);
	assert_string_equal(rig_text(r, 3, 1), "");
	assert_int_equal(r->ch[4].exit.cause, EXIT_TIMEOUT);
	for (uint32_t i = 1; i <= 4; i++)
		assert_int_equal(r->ch[i].opened, 1);
	rig_destroy(r);
}

/* The hub goes and comes back while it is made: listed once, not opened again, and its output is whole. */
static void a_new_link_finds_it(void **state)
{
	struct rig *r = rig_nursery();
	pid_t nursery = wait_nursery(r);
	static const uint64_t none[3];

	(void)state;
	assert_int_equal(kill(nursery, SIGSTOP), 0);
	rig_open(r, 1, "echo fine; exit 3", (struct rig_call){0});
	rig_sleep(r, 10);
	rig_break(r);
	rig_attach(r);
	assert_int_equal(r->nlist, 1);
	assert_int_equal(link_resume(r->link, 1, none, RIG_WINDOW), 0);
	rig_wait_exit(r, 1);
	assert_int_equal(r->downs, 0);
	assert_string_equal(rig_text(r, 1, 1), "fine\n");
	assert_int_equal(r->ch[1].exit.code, 3);
	rig_destroy(r);
}

/* Everything inside is ended while one is being made, and muxlet itself: nobody waits for what will not come. */
static void all_ends_meanwhile(void **state)
{
	struct rig *r = rig_nursery();
	pid_t nursery = wait_nursery(r);

	(void)state;
	assert_int_equal(kill(nursery, SIGSTOP), 0);
	for (uint32_t i = 1; i <= 3; i++)
		rig_open(r, i, "sleep 60", (struct rig_call){0});
	assert_int_equal(link_clear(r->link), 0);
	for (uint32_t i = 1; i <= 3; i++)
		rig_wait_exit(r, i);
	assert_true(rig_until(r, 10000, r->cleared));
	assert_int_equal(r->cleared_rc, 0);
	rig_open(r, 4, "echo again", (struct rig_call){0}); /* by another */
	rig_wait_exit(r, 4);
	assert_string_equal(rig_text(r, 4, 1), "again\n");
	assert_int_equal(kill(wait_nursery(r), SIGSTOP), 0);
	rig_open(r, 5, "sleep 60", (struct rig_call){0});
	rig_destroy(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(programs_are_muxlets_children), cmocka_unit_test(a_stopped_one_goes_on),
	    cmocka_unit_test(killed_at_any_moment),          cmocka_unit_test(a_failure_after_the_pid_is_told),
	    cmocka_unit_test(a_bent_one_is_made_anew),       cmocka_unit_test(what_comes_meanwhile_is_kept),
	    cmocka_unit_test(a_new_link_finds_it),           cmocka_unit_test(all_ends_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
