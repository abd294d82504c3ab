// tier: check
/* The hub's end of a link against a real muxlet: rounds, what they are given and what comes back. */
#include "tests/lib/link_nap.h"
#include "tests/lib/link_rig.h"
#include "tests/lib/own_processes.h"

#define FRESH(r) struct rig *r = rig_create()

static void a_round_answers_stdout_stderr_and_code(void **state)
{
	FRESH(r);

	(void)state;
	rig_open(r, 1, "echo out; echo err >&2; exit 7", (struct rig_call){0});
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].opened, 1);
	assert_int_equal(r->ch[1].opened_rc, 0);
	assert_string_equal(rig_text(r, 1, 1), "out\n");
	assert_string_equal(rig_text(r, 1, 2), "err\n");
	assert_int_equal(r->ch[1].exit.cause, EXIT_EXITED);
	assert_int_equal(r->ch[1].exit.code, 7);
	assert_int_equal(r->ch[1].exit.signal, 0);
	assert_int_equal(r->ch[1].exit.total[1], 4);
	assert_int_equal(r->ch[1].exit.total[2], 4);
	rig_destroy(r);
}

static void a_signal_is_not_a_code(void **state)
{
	FRESH(r);

	(void)state;
	rig_open(r, 1, "kill -USR1 $$", (struct rig_call){0});
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].exit.code, -1);
	assert_int_equal(r->ch[1].exit.signal, SIGUSR1);
	assert_int_equal(r->ch[1].exit.cause, EXIT_EXITED);
	rig_destroy(r);
}

static void what_cannot_start_says_where_and_why(void **state)
{
	static const char *const nothing[] = {"no-such-program-here", NULL}, *const locked[] = {"/etc/passwd", NULL},
				 *const fine[] = {"true", NULL};
	FRESH(r);

	(void)state;
	assert_int_equal(rig_open_argv(r, 1, nothing, &(struct rig_call){0}), 0);
	assert_int_equal(rig_open_argv(r, 2, locked, &(struct rig_call){0}), 0);
	assert_int_equal(rig_open_argv(r, 3, fine, &(struct rig_call){.cwd = "/no/such/place"}), 0);
	assert_int_equal(rig_open_argv(r, 4, fine, &(struct rig_call){.pty = true, .cwd = "/no/such/place"}), 0);
	assert_int_equal(rig_open_argv(r, 5, fine, &(struct rig_call){0}), 0);
	for (int i = 1; i <= 5; i++)
		rig_wait_exit(r, i);
	for (int i = 1; i <= 4; i++) {
		assert_int_equal(r->ch[i].opened, 1);
		assert_int_equal(r->ch[i].opened_rc, ERR_SYS);
		assert_int_equal(r->ch[i].exit.cause, EXIT_NOT_STARTED);
		assert_int_equal(r->ch[i].exit.code, -1);
	}
	assert_int_equal(r->ch[1].exit.error, ENOENT);
	assert_string_equal(r->ch[1].exit.error_at, "exec");
	assert_int_equal(r->ch[2].exit.error, EACCES);
	assert_string_equal(r->ch[3].exit.error_at, "cwd");
	assert_string_equal(r->ch[4].exit.error_at, "cwd");
	assert_int_equal(r->ch[5].exit.code, 0);
	rig_destroy(r);
}

static void environment_and_place_are_as_said(void **state)
{
	static const char *const env[] = {"GREETING=hello there", "PATH=/bin:/usr/bin", "MUXD_CHANNEL=mine", NULL};
	FRESH(r);

	(void)state;
	rig_open(
	    r, 1,
	    "echo \"$GREETING|$PATH|$PWD\"; echo ${#MUXD_CHANNEL}; cat; ls /proc/self/fd; ps -o pid=,sid=,pgid= -p $$",
	    (struct rig_call){.env = env, .cwd = "/usr"});
	rig_wait_exit(r, 1);
	assert_non_null(strstr(rig_text(r, 1, 1), "hello there|/bin:/usr/bin|/usr\n36\n0\n1\n2\n3\n"));
	rig_destroy(r);
}

static void stdin_arrives_whole_and_ends(void **state)
{
	size_t n = 3 * 1024 * 1024 + 17;
	uint8_t *sent = malloc(n);
	FRESH(r);
	uint64_t at;

	(void)state;
	assert_non_null(sent);
	for (size_t i = 0; i < n; i++)
		sent[i] = (uint8_t)(i * 2654435761u >> 13);
	rig_open(r, 1, "cat; echo done >&2", (struct rig_call){.with_stdin = true});
	at = rig_type(r, 1, 0, sent, n);
	assert_int_equal(at, n);
	assert_int_equal(link_input_eof(r->link, 1, at), 0);
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].len[1], n);
	assert_memory_equal(r->ch[1].text[1], sent, n);
	assert_string_equal(rig_text(r, 1, 2), "done\n");
	assert_int_equal(r->ch[1].exit.total[0], n);
	free(sent);
	rig_destroy(r);
}

static void a_program_that_ends_does_not_hang_its_stdin(void **state)
{
	static uint8_t zeros[1024 * 1024];
	FRESH(r);

	(void)state;
	rig_open(r, 1, "head -c 10 | wc -c", (struct rig_call){.with_stdin = true});
	rig_type(r, 1, 0, zeros, sizeof(zeros));
	rig_wait_exit(r, 1);
	assert_string_equal(rig_text(r, 1, 1), "10\n");
	assert_true(r->ch[1].exit.total[0] >= 10 && r->ch[1].exit.total[0] <= sizeof(zeros));
	assert_int_equal(link_forget(r->link, 1), 0);
	rig_open(r, 2, "exec 0<&-; echo closed; sleep 0.3", (struct rig_call){.with_stdin = true});
	assert_true(rig_until(r, 5000, r->ch[2].len[1] > 0));
	rig_type(r, 2, 0, zeros, sizeof(zeros)); /* all of it is taken, and thrown away */
	rig_wait_exit(r, 2);
	/* muxlet's own copy of the reading end is closed by a thread: until then the pipe takes what it can hold. */
	assert_true(r->ch[2].exit.total[0] <= 65536);
	assert_int_equal(r->downs, 0);
	rig_destroy(r);
}

static void output_at_exit_is_complete(void **state)
{
	FRESH(r);

	(void)state;
	for (uint32_t i = 1; i <= 100; i++) {
		bool pty = i % 2;
		size_t n = i % 4 < 2 ? 10 : 1024 * 1024;
		char script[80];

		snprintf(script, sizeof(script), "head -c %zu /dev/zero | tr '\\0' x", n);
		rig_open(r, i, script, (struct rig_call){.pty = pty});
		rig_wait_exit(r, i);
		assert_int_equal(r->ch[i].len[1], n);
		assert_int_equal(r->ch[i].exit.code, 0);
		assert_int_equal(link_forget(r->link, i), 0);
	}
	rig_destroy(r);
}

static void a_window_holds_output_back(void **state)
{
	FRESH(r);

	(void)state;
	r->no_grant = true;
	rig_open(r, 1, "head -c 300000 /dev/zero; echo end >&2", (struct rig_call){.window = 1000});
	assert_true(rig_until(r, 5000, r->ch[1].len[1] == 1000));
	rig_sleep(r, 100);
	assert_int_equal(r->ch[1].len[1], 1000);
	assert_false(r->ch[1].exited);
	assert_int_equal(link_window(r->link, 1, 1, 200000), 0);
	assert_true(rig_until(r, 5000, r->ch[1].len[1] == 200000));
	assert_false(r->ch[1].exited);
	assert_int_equal(link_window(r->link, 1, 1, 1000000), 0);
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].len[1], 300000);
	rig_destroy(r);
}

static void a_spool_that_is_not_acknowledged_fills(void **state)
{
	FRESH(r);

	(void)state;
	r->no_ack = true;
	rig_open(r, 1, "head -c 20000000 /dev/zero", (struct rig_call){0});
	assert_true(rig_until(r, 5000, r->ch[1].len[1] >= LINK_SPOOL_MAX - 65536));
	rig_sleep(r, 200);
	assert_true(r->ch[1].len[1] <= LINK_SPOOL_MAX);
	r->no_ack = false;
	assert_int_equal(link_ack(r->link, 1, 1, r->ch[1].next[1]), 0);
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].len[1], 20000000);
	rig_destroy(r);
}

static void a_secret_is_a_descriptor(void **state)
{
	FRESH(r);

	(void)state;
	assert_int_equal(link_secret(r->link, 1, 5, "first", 5), 0);
	assert_int_equal(link_secret(r->link, 1, 9, "token", 5), 0);
	assert_int_equal(link_secret(r->link, 1, 2, "x", 1), ERR_INVAL);
	rig_open(r, 1, "cat <&9; cat <&5; ls /proc/self/fd | tr '\\n' ' '; (echo x >&9) 2>/dev/null || echo sealed",
		 (struct rig_call){0});
	rig_open(r, 2, "ls /proc/self/fd | tr '\\n' ' '", (struct rig_call){0});
	rig_wait_exit(r, 1);
	rig_wait_exit(r, 2);
	assert_string_equal(rig_text(r, 1, 1), "tokenfirst0 1 2 3 5 9 sealed\n");
	assert_string_equal(rig_text(r, 2, 1), "0 1 2 3 ");
	rig_destroy(r);
}

static void many_at_once(void **state)
{
	FRESH(r);

	(void)state;
	for (uint32_t i = 1; i <= 200; i++)
		rig_open(r, i, "echo $$; head -c 5000 /dev/zero | tr '\\0' y", (struct rig_call){.pty = i % 3 == 0});
	for (uint32_t i = 1; i <= 200; i++) {
		rig_wait_exit(r, i);
		assert_true(r->ch[i].len[1] > 5000);
	}
	rig_destroy(r);
}

static void there_is_a_limit_to_living_programs(void **state)
{
	const char *const argv[] = {"sleep", nap(), NULL};
	FRESH(r);

	(void)state;
	for (uint32_t i = 1; i <= 1030; i++)
		assert_int_equal(rig_open_argv(r, i, argv, &(struct rig_call){0}), 0);
	assert_true(rig_until(r, 30000, r->ch[1030].exited));
	for (uint32_t i = 1; i <= 1024; i++)
		assert_int_equal(r->ch[i].opened_rc, 0);
	for (uint32_t i = 1025; i <= 1030; i++) {
		assert_int_equal(r->ch[i].opened_rc, ERR_LIMIT);
		assert_int_equal(r->ch[i].exit.cause, EXIT_NOT_STARTED);
		assert_string_equal(r->ch[i].exit.error_at, "programs");
	}
	rig_destroy(r);
	assert_int_equal(nappers(), 0);
}

static void arguments_have_a_limit_and_large_ones_arrive(void **state)
{
	char *big = malloc(120001);
	const char *argv[12] = {"printf", "%s"};
	FRESH(r);

	(void)state;
	assert_non_null(big);
	memset(big, 'b', 120000);
	big[120000] = 0;
	for (int i = 2; i < 9; i++)
		argv[i] = big;
	assert_int_equal(rig_open_argv(r, 1, argv, &(struct rig_call){0}), 0);
	for (int i = 9; i < 11; i++)
		argv[i] = big;
	assert_int_equal(rig_open_argv(r, 2, argv, &(struct rig_call){0}), 0);
	argv[11] = NULL;
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].len[1], 7 * 120000);
	rig_wait_exit(r, 2);
	assert_int_equal(r->ch[2].len[1], 9 * 120000);
	argv[1] = big;
	argv[11] = NULL;
	{
		const char *more[16] = {"printf"};

		for (int i = 1; i < 15; i++)
			more[i] = big;
		assert_int_equal(rig_open_argv(r, 3, more, &(struct rig_call){0}), ERR_TOO_LARGE);
	}
	free(big);
	rig_destroy(r);
}

static void calls_in_the_wrong_state_are_refused(void **state)
{
	static const char *const argv[] = {"true", NULL};
	struct link_params p = {.name = "x"};
	uv_loop_t loop;
	struct link *l;
	uint64_t have[3] = {0};
	struct link_open o = {.channel = 1, .argv = argv};

	(void)state;
	uv_loop_init(&loop);
	assert_int_equal(link_create(&loop, &p, &rig_ops, NULL, &l), 0);
	assert_int_equal(link_state(l), LINK_IDLE);
	assert_int_equal(link_open(l, &o, NULL), ERR_BAD_STATE);
	assert_int_equal(link_resume(l, 1, have, 1), ERR_BAD_STATE);
	assert_int_equal(link_input(l, 1, 0, "x", 1), ERR_BAD_STATE);
	assert_int_equal(link_input_room(l, 1, 0), 0);
	assert_int_equal(link_kill(l, 1, EXIT_KILLED), ERR_BAD_STATE);
	assert_int_equal(link_forget(l, 1), ERR_BAD_STATE);
	assert_int_equal(link_queued(l), 0);
	link_destroy(l);
	link_destroy(NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
}

struct suicide {
	struct link *link;
	bool on_data;
	int calls;
};

static void die_on_data(void *arg, uint32_t channel, int s, uint64_t offset, const uint8_t *p, size_t n)
{
	struct suicide *d = arg;

	(void)channel, (void)s, (void)offset, (void)p, (void)n;
	d->calls++;
	link_destroy(d->link);
}

static void up_opens(void *arg, const struct link_channel_info *list, size_t n)
{
	static const char *const argv[] = {"/bin/sh", "-c", "echo a; sleep 0.05; echo b", NULL};
	struct suicide *d = arg;
	struct link_open o = {.channel = 1, .argv = argv, .window = 1000};

	(void)list, (void)n;
	id_new(&o.session);
	assert_int_equal(link_open(d->link, &o, NULL), 0);
}

static void ignore_opened(void *arg, uint32_t channel, int rc, const char *why)
{
	(void)arg, (void)channel, (void)rc, (void)why;
}

static void never_exited(void *arg, uint32_t channel, const struct link_exit *x)
{
	(void)arg, (void)channel, (void)x;
	fail();
}

static void a_callback_may_destroy_the_link(void **state)
{
	static const struct link_ops ops = {
	    .up = up_opens, .opened = ignore_opened, .data = die_on_data, .exited = never_exited};
	struct link_params p = {.name = "x"};
	struct suicide d = {0};
	FRESH(r);

	(void)state;
	memcpy(p.secret, r->secret, sizeof(p.secret));
	assert_int_equal(link_create(&r->loop, &p, &ops, &d, &d.link), 0);
	assert_int_equal(link_attach(d.link, rig_dial(r), ++r->epoch), 0);
	assert_true(rig_until(r, 5000, d.calls));
	rig_sleep(r, 200);
	assert_int_equal(d.calls, 1);
	r->downs = 0;
	rig_destroy(r);
}

static void causes_have_names(void **state)
{
	enum exit_cause c;

	(void)state;
	for (int i = EXIT_EXITED; i <= EXIT_IDLE_TIMEOUT; i++) {
		assert_int_equal(exit_cause_parse(exit_cause_name((enum exit_cause)i), &c), 0);
		assert_int_equal(c, i);
	}
	assert_int_equal(exit_cause_parse("gone", &c), ERR_INVAL);
}

/* ---- where a start stands in muxlet's life (link_mark) */

static void only_what_is_sure_never_came(void **state)
{
	static const struct {
		struct link_mark start, now;
		bool never_came;
	} rows[] = {
	    {{7, 3}, {7, 2}, true},                    /* the OPEN before it was the last that came */
	    {{7, 3}, {7, 0}, true},                    /* none came */
	    {{7, 3}, {7, 3}, false},                   /* it came */
	    {{7, 3}, {7, 9}, false},                   /* and others behind it */
	    {{7, 3}, {8, 2}, false},                   /* another muxlet: the one of then may have had it */
	    {{7, 3}, {0, 0}, false},                   /* one that does not tell */
	    {{0, 0}, {7, 2}, false},                   /* a record from before */
	    {{0, 0}, {0, 0}, false},                   /* neither tells: a part of the daemon that plays muxlet */
	    {{7, UINT64_MAX}, {7, UINT64_MAX}, false}, /* what a sandbox may say */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(link_mark_never_came(&rows[i].start, &rows[i].now), rows[i].never_came);
}

/* Every OPEN counts, whatever became of it, and the same muxlet says the same over its streams. */
static void a_life_counts_what_came(void **state)
{
	static const char *const nothing[] = {"no-such-program-here", NULL};
	FRESH(r);
	struct link_mark begin = link_mark(r->link), now;

	(void)state;
	assert_int_not_equal(begin.life, 0);
	assert_int_equal(begin.opens, 0);
	rig_open(r, 1, "true", (struct rig_call){0});
	assert_int_equal(rig_open_argv(r, 2, nothing, &(struct rig_call){0}), 0);
	assert_int_not_equal(rig_open_argv(r, 2, nothing, &(struct rig_call){0}), 0); /* that one is not sent */
	assert_int_equal(link_mark(r->link).opens, 2);
	rig_wait_exit(r, 1);
	rig_wait_exit(r, 2);
	assert_int_equal(link_forget(r->link, 1), 0);
	rig_break(r);
	rig_attach(r);
	now = link_mark(r->link);
	assert_int_equal(now.life, begin.life);
	assert_int_equal(now.opens, 2);
	rig_destroy(r);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_round_answers_stdout_stderr_and_code),
	    cmocka_unit_test(only_what_is_sure_never_came),
	    cmocka_unit_test(a_life_counts_what_came),
	    cmocka_unit_test(a_signal_is_not_a_code),
	    cmocka_unit_test(what_cannot_start_says_where_and_why),
	    cmocka_unit_test(environment_and_place_are_as_said),
	    cmocka_unit_test(stdin_arrives_whole_and_ends),
	    cmocka_unit_test(a_program_that_ends_does_not_hang_its_stdin),
	    cmocka_unit_test(output_at_exit_is_complete),
	    cmocka_unit_test(a_window_holds_output_back),
	    cmocka_unit_test(a_spool_that_is_not_acknowledged_fills),
	    cmocka_unit_test(a_secret_is_a_descriptor),
	    cmocka_unit_test(many_at_once),
	    cmocka_unit_test(there_is_a_limit_to_living_programs),
	    cmocka_unit_test(arguments_have_a_limit_and_large_ones_arrive),
	    cmocka_unit_test(calls_in_the_wrong_state_are_refused),
	    cmocka_unit_test(a_callback_may_destroy_the_link),
	    cmocka_unit_test(causes_have_names),
	};

	own_processes();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
