// tier: check
/*
 * Children as the monitor starts, watches and restarts them. This program is its own child: called with
 * a word, it plays the part of net or of the recorder on descriptor 3.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/sock.h"
#include "muxd/monitor/audit.h"
#include "muxd/monitor/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int say(json_t *o)
{
	int rc = sock_send_packet(3, o, NULL, 0, NULL);

	json_decref(o);
	return rc;
}

static int open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = -1; /* the directory's own */

	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

/* The niceness of this session beside others; where the kernel does not group by session, that of the process. */
static int session_nice(void)
{
	FILE *f = fopen("/proc/self/autogroup", "r");
	int nice = getpriority(PRIO_PROCESS, 0);

	if (!f)
		return nice;
	if (fscanf(f, "/autogroup-%*d nice %d", &nice) != 1)
		nice = getpriority(PRIO_PROCESS, 0);
	fclose(f);
	return nice;
}

/* What this process has become, told to the test. */
static int play_describe(void)
{
	struct rlimit core, files;
	char cwd[256] = "";
	mode_t mask = umask(077);

	getrlimit(RLIMIT_CORE, &core);
	getrlimit(RLIMIT_NOFILE, &files);
	if (!getcwd(cwd, sizeof cwd))
		return 1;
	return say(json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:b, s:b, s:i, s:i, s:i, s:i}", "op", "ready",
			     "fds", open_descriptors(), "uid", (int)getuid(), "gid", (int)getgid(), "groups",
			     getgroups(0, NULL), "umask", (int)mask, "core", (int)core.rlim_cur, "cwd", cwd, "secret",
			     getenv("MUXD_TEST_SECRET") != NULL, "path", getenv("PATH") != NULL, "no_new_privs",
			     prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), "leader", getsid(0) == getpid(), "nice",
			     getpriority(PRIO_PROCESS, 0), "session_nice", session_nice()));
}

/* Longer than SLOW_MS in all, and never silent for as long as that. */
#define SLOW_MS 1000
static void play_slow(void)
{
	for (int i = 0; i < 15; i++) {
		usleep(SLOW_MS * 100);
		say(json_pack("{s:s, s:i}", "op", "starting", "done", i + 1));
	}
	say(json_pack("{s:s}", "op", "ready"));
}

static int play(const char *part)
{
	json_t *msg = NULL;

	if (strcmp(part, "describe") == 0)
		play_describe();
	else if (strcmp(part, "die") == 0)
		return 3;
	else if (strcmp(part, "garbage") == 0)
		(void)!send(3, "{\"op\":", 6, 0);
	else if (strcmp(part, "mute") == 0)
		pause();
	else if (strcmp(part, "slow") == 0)
		play_slow();
	else
		say(json_pack("{s:s}", "op", "ready"));
	while (sock_recv_packet(3, &msg, NULL, NULL, NULL) == 0) {
		const char *op = "";
		bool stop;

		json_opt_str(msg, "op", &op, NULL);
		stop = strcmp(op, "stop") == 0 && strcmp(part, "deaf") != 0;
		if (strcmp(op, "audit") == 0 && strcmp(part, "forgetful") != 0)
			say(json_pack("{s:O, s:i}", "tag", json_object_get(msg, "tag"), "rc", 0));
		json_decref(msg);
		if (stop)
			return 0;
	}
	while (strcmp(part, "deaf") == 0)
		pause();
	return 0;
}

struct fixture {
	uv_loop_t loop;
	uv_signal_t sigchld;
	uv_timer_t limit;
	struct proc proc;
	struct audit *audit;
	const char *part;
	int may_start;
	bool greet_late; /* once it is gone */
	json_t *first;   /* packet */
	unsigned ready, ended, ended_ready;
	unsigned limit_to, limit_ended; /* stop the loop at so many; 0: do not */
	int audited, audit_rc;
	char how[ERR_MESSAGE_MAX];
};

static void on_spec(void *arg, struct child_spec *out)
{
	static const char *argv[3];
	struct fixture *f = arg;

	argv[0] = "child";
	argv[1] = f->part;
	out->path = "/proc/self/exe";
	out->argv = argv;
	out->cwd = "/tmp";
	out->files = 256;
	out->nice = getpriority(PRIO_PROCESS, 0) + 3;
}

static int on_hello(void *arg, struct channel *c, struct err *e)
{
	struct fixture *f = arg;
	json_t *o = json_pack("{s:s}", "op", "start");
	siginfo_t gone;
	int rc;

	if (f->greet_late)
		assert_int_equal(waitid(P_PID, (id_t)f->proc.pid, &gone, WEXITED | WNOWAIT), 0);
	rc = channel_send(c, o, NULL, 0);
	(void)e;
	json_decref(o);
	return rc;
}

static void on_packet(void *arg, const json_t *msg)
{
	struct fixture *f = arg;
	const char *op = "";
	int64_t tag = 0;

	json_opt_str(msg, "op", &op, NULL);
	if (strcmp(op, "ready") == 0) {
		f->ready++;
		json_decref(f->first);
		f->first = json_deep_copy(msg);
		proc_set_ready(&f->proc);
		audit_net_ready(f->audit);
		if (f->limit_to && f->ready >= f->limit_to)
			uv_stop(&f->loop);
	} else if (strcmp(op, "starting") == 0) {
		proc_progress(&f->proc);
	} else if (json_opt_int(msg, "tag", 1, INT64_MAX, &tag, NULL) == 0 && tag) {
		audit_answer(f->audit, tag, 0);
	}
}

static int on_may_start(void *arg, struct err *e)
{
	int rc = ((struct fixture *)arg)->may_start;

	return rc ? err_set(e, rc, "not now") : 0;
}

static void on_ended(void *arg, bool was_ready, const struct err *how)
{
	struct fixture *f = arg;

	f->ended++;
	f->ended_ready += was_ready;
	snprintf(f->how, sizeof f->how, "%s", how ? how->message : "");
	if (f->proc.state == PROC_DOWN || (f->limit_ended && f->ended >= f->limit_ended))
		uv_stop(&f->loop);
}

static const struct proc_ops ops = {
    .name = "child",
    .spec = on_spec,
    .hello = on_hello,
    .packet = on_packet,
    .may_start = on_may_start,
    .ended = on_ended,
};

static void on_sigchld(uv_signal_t *s, int signum)
{
	(void)signum;
	proc_reap(&((struct fixture *)s->data)->proc);
}

static void on_limit(uv_timer_t *t)
{
	uv_stop(t->loop);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	uv_loop_init(&f->loop);
	uv_signal_init(&f->loop, &f->sigchld);
	f->sigchld.data = f;
	uv_signal_start(&f->sigchld, on_sigchld, SIGCHLD);
	uv_timer_init(&f->loop, &f->limit);
	if (proc_init(&f->proc, &f->loop, &ops, f) || audit_create(&f->loop, &f->proc, &f->audit))
		return -1;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	proc_finish(&f->proc);
	audit_destroy(f->audit);
	uv_close((uv_handle_t *)&f->sigchld, NULL);
	uv_close((uv_handle_t *)&f->limit, NULL);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	json_decref(f->first);
	int rc = uv_loop_close(&f->loop);
	free(f);
	return rc;
}

/* Run until something stops the loop; ms is the most it may take. */
static void run(struct fixture *f, uint64_t ms)
{
	uv_update_time(&f->loop);
	uv_timer_start(&f->limit, on_limit, ms, 0);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	uv_timer_stop(&f->limit);
}

static void start(struct fixture *f, const char *part)
{
	f->part = part;
	f->limit_to = 1;
	proc_start(&f->proc);
	run(f, 20000);
	f->limit_to = 0;
}

static int64_t number(const struct fixture *f, const char *key)
{
	const json_t *v = json_object_get(f->first, key);

	return json_is_boolean(v) ? json_is_true(v) : json_integer_value(v);
}

static void a_child_gets_descriptor_3_and_little_else(void **state)
{
	struct fixture *f = *state;
	int leaked = open("/dev/null", O_RDONLY); /* not close-on-exec, on purpose */

	setenv("MUXD_TEST_SECRET", "x", 1);
	start(f, "describe");
	close(leaked);
	assert_int_equal(f->proc.state, PROC_READY);
	assert_int_equal(number(f, "fds"), 4);
	assert_int_equal(number(f, "core"), 0);
	assert_int_equal(number(f, "umask"), 077);
	assert_int_equal(number(f, "secret"), 0);
	assert_int_equal(number(f, "path"), 1);
	assert_int_equal(number(f, "no_new_privs"), 1);
	assert_int_equal(number(f, "leader"), 1);
	assert_int_equal(number(f, "nice"), getpriority(PRIO_PROCESS, 0) + 3);
	if (!getuid()) /* the kernel takes one such wish of others' each tenth of a second, of all of them */
		assert_int_equal(number(f, "session_nice"), number(f, "nice"));
	assert_int_equal(number(f, "uid"), getuid());
	assert_string_equal(json_string_value(json_object_get(f->first, "cwd")), "/tmp");
}

static void as_root_it_becomes_another_user(void **state)
{
	const char *argv[] = {"sh", "-c", "test $(id -u) = 64801 && test $(id -g) = 64801 && test \"$(id -G)\" = 64801",
			      NULL};
	struct child_spec spec = {.path = "/bin/sh", .argv = argv, .cwd = "/", .who = {64801, 64801}, .files = 64};
	int pair[2], status = -1;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(sock_pair(SOCK_SEQPACKET, pair), 0);
	spec.ipc_fd = pair[1];
	assert_int_equal(child_spawn(&spec, &pid, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(pair[0]);
	close(pair[1]);
}

static void what_kept_it_from_starting_is_named(void **state)
{
	static const struct {
		const char *path, *cwd, *named;
	} cases[] = {
	    {"/nonexistent/program", "/", "/nonexistent/program"},
	    {"/bin/sh", "/nonexistent", "enter the state directory"},
	    {"/etc/passwd", "/", "execute"},
	};
	const char *argv[] = {"x", NULL};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct child_spec spec = {
		    .path = cases[i].path, .argv = argv, .cwd = cases[i].cwd, .who = FILE_OWNER_SELF, .files = 64};
		struct err e = {0};
		pid_t pid = -7;

		spec.ipc_fd = 2;
		assert_true(child_spawn(&spec, &pid, &e) < 0);
		if (!strstr(e.message, cases[i].named))
			fail_msg("%s", e.message);
		assert_int_equal(pid, -7);
	}
}

static void a_start_that_gets_on_may_take_its_time(void **state)
{
	struct fixture *f = *state;

	f->proc.ready_ms = SLOW_MS;
	start(f, "slow");
	assert_int_equal(f->proc.state, PROC_READY);
	assert_int_equal(f->ended, 0);
}

static void a_start_that_is_silent_is_killed(void **state)
{
	struct fixture *f = *state;

	f->proc.ready_ms = 200;
	f->limit_ended = 1;
	f->part = "mute";
	proc_start(&f->proc);
	run(f, 20000);
	assert_int_equal(f->ended, 1);
	assert_int_equal(f->ended_ready, 0);
	assert_non_null(strstr(f->how, "signal 9"));
	assert_int_equal(f->proc.state, PROC_BACKOFF);
}

static void a_child_that_is_told_to_stop_ends(void **state)
{
	struct fixture *f = *state;

	start(f, "good");
	assert_int_equal(f->proc.state, PROC_READY);
	proc_stop(&f->proc, 10000);
	assert_int_equal(f->proc.state, PROC_STOPPING);
	run(f, 5000);
	assert_int_equal(f->proc.state, PROC_DOWN);
	assert_int_equal(f->ended, 1);
	assert_non_null(strstr(f->how, "status 0"));
	assert_int_equal(f->proc.pid, 0);
}

static void one_that_does_not_listen_is_killed(void **state)
{
	struct fixture *f = *state;

	start(f, "deaf");
	proc_stop(&f->proc, 200);
	run(f, 5000);
	assert_int_equal(f->proc.state, PROC_DOWN);
	assert_non_null(strstr(f->how, "signal 9"));
}

static void one_that_was_killed_comes_again(void **state)
{
	struct fixture *f = *state;
	pid_t first;

	start(f, "good");
	first = f->proc.pid;
	kill(first, SIGKILL);
	f->limit_to = 2;
	run(f, 10000);
	assert_int_equal(f->proc.state, PROC_READY);
	assert_int_equal(f->ready, 2);
	assert_int_equal(f->ended, 1);
	assert_int_equal(f->ended_ready, 1);
	assert_int_equal(f->proc.restarts, 1);
	assert_int_equal(f->proc.generation, 2);
	assert_true(f->proc.pid != first);
}

static void one_that_keeps_dying_is_tried_ever_more_seldom(void **state)
{
	struct fixture *f = *state;

	uint64_t began = clock_boot_ns();

	f->part = "die";
	for (unsigned n = 1; n <= 4; n++) {
		f->limit_ended = n;
		if (n == 1)
			proc_start(&f->proc);
		run(f, 30000);
		assert_int_equal(f->ended, n);
		assert_int_equal(f->proc.state, PROC_BACKOFF);
		assert_int_equal(f->proc.delay_ms, 100u << (n - 1));
	}
	assert_true(clock_boot_ns() - began >= (100 + 200 + 400) * NS_PER_MS); /* and the waits were real */
	assert_int_equal(f->ended_ready, 0);
	assert_non_null(strstr(f->how, "status 3"));
	proc_stop(&f->proc, 100); /* between two lives */
	assert_int_equal(f->proc.state, PROC_DOWN);
	run(f, 300);
	assert_int_equal(f->proc.pid, 0);
}

static void one_that_is_gone_before_it_is_greeted_tells_how_it_ended(void **state)
{
	struct fixture *f = *state;

	f->part = "die";
	f->greet_late = true;
	f->limit_ended = 1;
	proc_start(&f->proc);
	run(f, 30000);
	assert_int_equal(f->ended, 1);
	assert_non_null(strstr(f->how, "status 3"));
}

static void one_that_breaks_the_conversation_is_killed(void **state)
{
	struct fixture *f = *state;

	f->part = "garbage";
	f->limit_ended = 1;
	proc_start(&f->proc);
	run(f, 30000);
	assert_int_equal(f->ended, 1);
	assert_non_null(strstr(f->how, "signal 9"));
}

static void it_waits_until_it_may_start(void **state)
{
	struct fixture *f = *state;

	f->may_start = ERR_AGAIN;
	f->part = "good";
	proc_start(&f->proc);
	assert_int_equal(f->proc.state, PROC_DOWN);
	assert_int_equal(f->proc.pid, 0);
	assert_int_equal(proc_send(&f->proc, NULL, NULL, 0), ERR_UNAVAILABLE);
	f->may_start = 0;
	start(f, "good");
	assert_int_equal(f->proc.state, PROC_READY);
}

static void what_it_needs_is_asked_for_again(void **state)
{
	struct fixture *f = *state;

	f->may_start = ERR_LIMIT;
	f->part = "good";
	f->limit_ended = 2;
	proc_start(&f->proc);
	assert_int_equal(f->ended, 1);
	assert_string_equal(f->how, "not now");
	assert_int_equal(f->proc.state, PROC_BACKOFF);
	run(f, 20000);
	assert_int_equal(f->ended, 2);
	f->limit_ended = 0;
	f->may_start = 0;
	f->limit_to = 1;
	run(f, 20000);
	assert_int_equal(f->proc.state, PROC_READY);
}

static void on_audited(void *arg, int rc)
{
	struct fixture *f = arg;

	f->audited++;
	f->audit_rc = rc;
	uv_stop(&f->loop);
}

static json_t *event(void)
{
	return json_pack("{s:s}", "event", "grant.create");
}

static void an_audit_record_is_confirmed(void **state)
{
	struct fixture *f = *state;

	start(f, "good");
	assert_int_equal(audit_put(f->audit, event(), 5000, on_audited, f), 0);
	assert_int_equal(f->audited, 0); /* not before the answer */
	run(f, 4000);
	assert_int_equal(f->audited, 1);
	assert_int_equal(f->audit_rc, 0);
	assert_int_equal(audit_waiting(f->audit), 0);
}

static void an_audit_record_waits_for_net_and_is_sent_again(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(audit_put(f->audit, event(), 0, on_audited, f), 0); /* nobody is there yet */
	start(f, "forgetful");                                               /* takes it and never answers */
	run(f, 300);
	assert_int_equal(audit_waiting(f->audit), 1);
	f->part = "good";
	kill(f->proc.pid, SIGKILL);
	run(f, 10000);
	assert_int_equal(f->audited, 1);
	assert_int_equal(f->audit_rc, 0);
}

static void an_audit_record_with_a_deadline_fails_in_time(void **state)
{
	struct fixture *f = *state;

	start(f, "forgetful");
	assert_int_equal(audit_put(f->audit, event(), 300, on_audited, f), 0);
	run(f, 5000);
	assert_int_equal(f->audited, 1);
	assert_int_equal(f->audit_rc, ERR_TIMEOUT);
	assert_int_equal(audit_waiting(f->audit), 0);
	audit_answer(f->audit, 1, 0); /* too late: nothing happens */
	assert_int_equal(f->audited, 1);
}

static void only_so_many_audit_records_wait(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < AUDIT_MAX; i++)
		assert_int_equal(audit_put(f->audit, event(), 0, NULL, NULL), 0);
	assert_int_equal(audit_put(f->audit, event(), 0, NULL, NULL), ERR_LIMIT);
	assert_int_equal(audit_waiting(f->audit), AUDIT_MAX);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_child_gets_descriptor_3_and_little_else),
	    cmocka_unit_test(as_root_it_becomes_another_user),
	    cmocka_unit_test(what_kept_it_from_starting_is_named),
	    TEST(a_start_that_gets_on_may_take_its_time),
	    TEST(a_start_that_is_silent_is_killed),
	    TEST(a_child_that_is_told_to_stop_ends),
	    TEST(one_that_does_not_listen_is_killed),
	    TEST(one_that_was_killed_comes_again),
	    TEST(one_that_keeps_dying_is_tried_ever_more_seldom),
	    TEST(one_that_is_gone_before_it_is_greeted_tells_how_it_ended),
	    TEST(one_that_breaks_the_conversation_is_killed),
	    TEST(it_waits_until_it_may_start),
	    TEST(what_it_needs_is_asked_for_again),
	    TEST(an_audit_record_is_confirmed),
	    TEST(an_audit_record_waits_for_net_and_is_sent_again),
	    TEST(an_audit_record_with_a_deadline_fails_in_time),
	    TEST(only_so_many_audit_records_wait),
	};

	if (argc > 1 && strcmp(argv[0], "child") == 0)
		return play(argv[1]);
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("monitor_child", tests, NULL, NULL);
}
