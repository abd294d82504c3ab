// tier: check
/* Local sandboxes begin, end, are found again, whoever is killed meanwhile; and say why they do not begin. */
#include "tests/lib/local_box.h"

#include "base/clock.h"
#include "control/local/cgroup.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static void test_found_again(void **state)
{
	struct sandbox_info before, after;
	struct err e = {0};
	struct box b;
	char *o;
	int fd;

	(void)state;
	box_open(&b, "again");
	ask(&b, "demo", "echo kept > file; (setsid sleep 300 >/dev/null 2>&1 </dev/null & )");
	assert_int_equal(local_stat(b.l, "demo", &before, &e), 0);
	local_destroy(b.l);
	b.l = box_local(&b, true);
	assert_int_equal(local_connect(b.l, "demo", &after, &fd, &e), 0);
	o = ask_fd(fd, "cat file; ls /proc | grep '^[0-9]' | xargs -I% cat /proc/%/comm 2>/dev/null | grep -c sleep");
	assert_string_equal(o, "kept\n1\n");
	assert_true(id_equal(&before.sandbox_id, &after.sandbox_id));
	assert_int_equal(before.pid, after.pid);
	assert_memory_equal(before.secret, after.secret, sizeof(before.secret));
	assert_true(after.epoch > before.epoch);
	assert_true(after.cap_enforced == before.cap_enforced && after.pids_enforced == before.pids_enforced);
	box_wipe(&b);
	assert_nothing_left();
}

/* The monitor died between taking its name away and ending it: by its state it would run, and nobody could reach it. */
static void test_an_end_that_was_cut_short(void **state)
{
	struct sandbox_info before, after;
	struct err e = {0};
	char path[512];
	struct box b;
	int fd;

	(void)state;
	box_open(&b, "cut");
	ask(&b, "demo", "echo kept > file");
	assert_int_equal(local_stat(b.l, "demo", &before, &e), 0);
	local_destroy(b.l);
	snprintf(path, sizeof(path), "%s/sandboxes/demo/link.sock", b.dir);
	assert_int_equal(unlink(path), 0);
	b.l = box_local(&b, true);
	assert_int_equal(local_stat(b.l, "demo", &after, &e), 0);
	assert_int_equal(after.state, SANDBOX_STOPPED);
	assert_int_equal(local_connect(b.l, "demo", &after, &fd, &e), ERR_NOT_FOUND);
	assert_string_equal(ask(&b, "demo", "cat file"), "kept\n");
	box_wipe(&b);
	assert_nothing_left();
}

/* The monitor died between the instance's group and the sandbox's, of a start or of an end: an end takes it away. */
static void test_a_group_that_was_left_alone(void **state)
{
	static struct cgroup_layout layout;
	char path[CGROUP_PATH_MAX + 64];
	struct err e = {0};
	int made = 0;
	struct box b;

	(void)state;
	box_open(&b, "group");
	ask(&b, "demo", "true");
	assert_int_equal(local_destroy_all(b.l, &e), 0);
	assert_nothing_left();
	cgroup_layout_read(&layout);
	for (int k = 0; k <= CGROUP_KINDS; k++) {
		const struct cgroup_place *place = k < CGROUP_KINDS ? &layout.v1[k] : &layout.v2;

		snprintf(path, sizeof(path), "%s/muxd-%s", place->dir[0], instance);
		made += place->dir[0][0] && mkdir(path, 0755) == 0;
	}
	assert_true(made > 0 || geteuid() != 0);
	assert_int_equal(local_destroy_all(b.l, &e), 0);
	assert_nothing_left();
	box_wipe(&b);
}

static void test_killed_and_made_anew(void **state)
{
	struct sandbox_info first, now, second;
	struct err e = {0};
	struct box b;
	int fd;

	(void)state;
	box_open(&b, "kill");
	assert_int_equal(local_stat(b.l, "demo", &now, &e), 0);
	assert_int_equal(now.state, SANDBOX_ABSENT);
	assert_int_equal(local_connect(b.l, "demo", &now, &fd, &e), ERR_NOT_FOUND);
	ask(&b, "demo", "echo survives > file");
	assert_int_equal(local_stat(b.l, "demo", &first, &e), 0);
	assert_int_equal(kill(first.pid, SIGKILL), 0);
	for (int i = 0; i < 500; i++) {
		assert_int_equal(local_stat(b.l, "demo", &now, &e), 0);
		if (now.state != SANDBOX_RUNNING)
			break;
		usleep(2000);
	}
	assert_int_equal(now.state, SANDBOX_STOPPED);
	assert_int_equal(local_connect(b.l, "demo", &now, &fd, &e), ERR_NOT_FOUND);
	assert_string_equal(ask(&b, "demo", "cat file"), "survives\n");
	assert_int_equal(local_stat(b.l, "demo", &second, &e), 0);
	assert_false(id_equal(&first.sandbox_id, &second.sandbox_id));
	assert_memory_not_equal(first.secret, second.secret, sizeof(first.secret));
	/* Ended on purpose: the same, and twice is no error. */
	assert_int_equal(local_destroy_sandbox(b.l, "demo", false, &e), 0);
	assert_int_equal(local_destroy_sandbox(b.l, "demo", false, &e), 0);
	assert_nothing_left();
	assert_string_equal(ask(&b, "demo", "cat file"), "survives\n");
	assert_int_equal(local_destroy_sandbox(b.l, "demo", true, &e), 0);
	assert_int_equal(local_destroy_sandbox(b.l, "demo", true, &e), 0);
	assert_int_equal(local_stat(b.l, "demo", &now, &e), 0);
	assert_int_equal(now.state, SANDBOX_ABSENT);
	assert_true(strstr(ask(&b, "demo", "cat file"), "No such file") != NULL);
	box_wipe(&b);
	assert_nothing_left();
}

static void test_bwrap_says_why(void **state)
{
	struct sandbox_info info;
	struct err e = {0};
	struct box b;
	char path[4200], text[512] = "";
	int fd;
	ssize_t n;

	(void)state;
	/* A script whose interpreter does not exist: bwrap fails at the exec. */
	snprintf(self_path, sizeof(self_path), "%s/no-program", top);
	fd = open(self_path, O_WRONLY | O_CREAT, 0755);
	assert_true(fd >= 0 && write(fd, "#!/not/there\n", 13) == 13);
	close(fd);
	box_open(&b, "why");
	assert_int_equal(local_ensure(b.l, "demo", &info, &fd, &e), ERR_SANDBOX_CREATE);
	assert_true(has(e.message, "bwrap: execvp /.muxlet/muxlet: No such file or directory"));
	assert_int_equal(local_stat(b.l, "demo", &info, &e), 0);
	assert_int_equal(info.state, SANDBOX_ERROR);
	assert_true(has(info.detail, "No such file or directory"));
	snprintf(path, sizeof(path), "%s/sandboxes/demo/log", b.dir);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	assert_true(n > 0 && has(text, "No such file or directory"));
	assert_nothing_left();
	/* With a program again it starts, and the error is forgotten. */
	local_destroy(b.l);
	memcpy(self_path, real_self, sizeof(self_path));
	b.l = box_local(&b, true);
	assert_string_equal(ask(&b, "demo", "echo well"), "well\n");
	box_wipe(&b);
}

/* A program that ends at once, without taking its secret. */
static void test_muxlet_ends_at_once(void **state)
{
	struct sandbox_info info;
	struct err e = {0};
	struct box b;
	int fd;

	(void)state;
	snprintf(self_path, sizeof(self_path), "/bin/true");
	box_open(&b, "once");
	assert_int_equal(local_ensure(b.l, "demo", &info, &fd, &e), ERR_SANDBOX_CREATE);
	assert_true(has(e.message, "ended"));
	box_wipe(&b);
	assert_nothing_left();
}

struct job {
	struct box *b;
	int number, rc;
	struct err e;
	uint64_t ns;
};

static void *job_run(void *arg)
{
	struct job *j = arg;
	struct sandbox_info info;
	char agent[32];
	uint64_t begin = clock_boot_ns();
	int fd;

	snprintf(agent, sizeof(agent), "agent-%d", j->number);
	j->rc = local_ensure(j->b->l, agent, &info, &fd, &j->e);
	if (j->rc == 0)
		close(fd);
	j->ns = clock_boot_ns() - begin;
	return NULL;
}

static void test_twenty_at_once(void **state)
{
	pthread_t threads[24];
	struct job jobs[24] = {0};
	struct sandbox_info *list;
	struct err e = {0};
	struct box b;
	size_t n;
	bool more;

	(void)state;
	box_open(&b, "twenty");
	for (int i = 0; i < 24; i++) {
		/* The last four ask for agents that others make just now. */
		jobs[i] = (struct job){.b = &b, .number = i < 20 ? i : i - 20};
		assert_int_equal(pthread_create(&threads[i], NULL, job_run, &jobs[i]), 0);
	}
	for (int i = 0; i < 24; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 24; i++) {
		if (jobs[i].rc)
			fail_msg("agent-%d: %s", jobs[i].number, jobs[i].e.message);
	}
	assert_int_equal(local_list(b.l, NULL, SIZE_MAX, &list, &n, &more, &e), 0);
	assert_int_equal(n, 20);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(list[i].pid, list[k].pid);
	free(list);
	assert_string_equal(ask(&b, "agent-7", "hostname"), "agent-7\n");
	if (local_destroy_all(b.l, &e) != 0)
		fail_msg("%s", e.message);
	assert_nothing_left();
	box_wipe(&b);
}

/* As the next daemon does that is to end all sandboxes: what the last one began is among them, known or not. */
static void end_by_the_next(struct box *b)
{
	struct local *l = box_local(b, true);
	struct err e = {0};

	if (local_destroy_all(l, &e) != 0)
		fail_msg("%s", e.message);
	local_destroy(l);
	assert_nothing_left();
}

/*
 * The monitor is killed at any moment of a start or an end: the next one goes on, with the same files, or ends all that
 * there is.
 */
static void test_monitor_killed_anywhere(void **state)
{
	struct sandbox_info info;
	struct err e = {0};
	unsigned seed = 4711;
	struct box b;
	int fd, status;

	(void)state;
	/* Without a group the limit is the uid's and counts the dead whom a slow init has not reaped yet. */
	pids_max = 2000;
	box_open(&b, "monitor");
	ask(&b, "demo", "echo text > file");
	for (int i = 0; i < 25; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (pid == 0) {
			struct local *l = box_local(&b, true);

			for (;;) {
				if (local_destroy_sandbox(l, "demo", false, NULL) != 0 ||
				    local_ensure(l, "demo", &info, &fd, NULL) != 0)
					_exit(1);
				close(fd);
			}
		}
		usleep((useconds_t)(2000 + rand_r(&seed) % 40000));
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		if (i % 2)
			end_by_the_next(&b);
		assert_string_equal(ask(&b, "demo", "cat file; ls"), "text\nfile\n");
	}
	if (local_destroy_all(b.l, &e) != 0)
		fail_msg("%s", e.message);
	assert_nothing_left();
	box_wipe(&b);
}

static void test_start_time(void **state)
{
	struct err e = {0};
	uint64_t sum = 0;
	struct box b;
	int rounds = 10;

	(void)state;
	pids_max = 2000;
	box_open(&b, "time");
	ask(&b, "agent-0", "true");
	for (int i = 0; i < rounds; i++) {
		struct job j = {.b = &b};

		assert_int_equal(local_destroy_sandbox(b.l, "agent-0", false, &e), 0);
		job_run(&j);
		assert_int_equal(j.rc, 0);
		sum += j.ns;
	}
	print_message("a start with an existing workspace takes %.1f ms (mean of %d)\n",
		      (double)sum / (double)rounds / 1e6, rounds);
	assert_true(sum / (uint64_t)rounds < 2 * NS_PER_SEC);
	box_wipe(&b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(test_found_again, box_leftover),
	    cmocka_unit_test_teardown(test_an_end_that_was_cut_short, box_leftover),
	    cmocka_unit_test_teardown(test_a_group_that_was_left_alone, box_leftover),
	    cmocka_unit_test_teardown(test_killed_and_made_anew, box_leftover),
	    cmocka_unit_test_teardown(test_bwrap_says_why, box_leftover),
	    cmocka_unit_test_teardown(test_muxlet_ends_at_once, box_leftover),
	    cmocka_unit_test_teardown(test_twenty_at_once, box_leftover),
	    cmocka_unit_test_teardown(test_monitor_killed_anywhere, box_leftover),
	    cmocka_unit_test_teardown(test_start_time, box_leftover),
	};
	int rc;

	if (!box_begin(argc, argv, &rc))
		return rc;
	return box_end(cmocka_run_group_tests(tests, NULL, NULL));
}
