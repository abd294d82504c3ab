// tier: check
/* How programs end over a link to a real muxlet: timeouts, kills, signals, and what stays in the background. */
#include "tests/lib/link_nap.h"
#include "tests/lib/link_rig.h"
#include "tests/lib/own_processes.h"

#define FRESH(r) struct rig *r = rig_create()

static void a_timeout_ends_the_whole_tree(void **state)
{
	FRESH(r);

	(void)state;
	rig_open(
	    r, 1,
	    "echo before; trap '' TERM; sleep $NAP & setsid sleep $NAP & (setsid sh -c 'sleep $NAP & sleep $NAP' &); "
	    "env -i sleep $NAP",
	    (struct rig_call){.env = nap_env(), .timeout_ms = 4000, .grace_ms = 200});
	assert_true(rig_until(r, 5000, nappers() == 5));
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].exit.cause, EXIT_TIMEOUT);
	assert_string_equal(rig_text(r, 1, 1), "before\n");
	assert_int_equal(nappers(), 0);
	rig_destroy(r);
}

static void a_kill_says_who_did_it(void **state)
{
	FRESH(r);

	(void)state;
	rig_open(r, 1, "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done", (struct rig_call){0});
	rig_open(r, 2, "trap '' TERM HUP; echo ready; sleep $NAP; sleep $NAP",
		 (struct rig_call){.env = nap_env(), .pty = true, .grace_ms = 300});
	assert_true(rig_until(r, 5000, r->ch[1].len[1] && r->ch[2].len[1]));
	assert_int_equal(link_kill(r->link, 1, EXIT_KILLED), 0);
	assert_int_equal(link_kill(r->link, 2, EXIT_TIMEOUT), 0);
	rig_wait_exit(r, 1);
	rig_wait_exit(r, 2);
	assert_int_equal(r->ch[1].exit.cause, EXIT_KILLED);
	assert_int_equal(r->ch[1].exit.code, 3);
	assert_string_equal(rig_text(r, 1, 1), "ready\nbye\n");
	assert_int_equal(r->ch[2].exit.cause, EXIT_TIMEOUT);
	assert_int_equal(r->ch[2].exit.signal, SIGKILL);
	assert_int_equal(link_kill(r->link, 1, EXIT_KILLED), ERR_ENDED);
	rig_destroy(r);
}

static void the_background_of_a_round_lives_on(void **state)
{
	uint64_t begun = clock_boot_ns();
	FRESH(r);

	(void)state;
	rig_open(r, 1, "(sleep 0.8; echo late; echo later; sleep $NAP) & echo early",
		 (struct rig_call){.env = nap_env()});
	rig_wait_exit(r, 1);
	assert_true(clock_boot_ns() - begun < 20 * NS_PER_SEC);
	assert_string_equal(rig_text(r, 1, 1), "early\n");
	assert_true(rig_until(r, 5000, nappers() == 1)); /* not killed by SIGPIPE, nor by us */
	rig_destroy(r);
	assert_int_equal(nappers(), 0); /* but it goes with the sandbox */
}

/* The hub takes it slower than it comes, so that there is never silence: the round ends all the same. */
static void a_background_that_never_stops_writing_holds_no_round(void **state)
{
	uint64_t begun = clock_boot_ns(), until = 10000;
	FRESH(r);

	(void)state;
	r->no_grant = true;
	rig_open(r, 1, "yes & echo began >&2", (struct rig_call){.window = until});
	while (!r->ch[1].exited && clock_boot_ns() - begun < 15000 * NS_PER_MS) {
		until += 40000;
		assert_int_equal(link_window(r->link, 1, 1, until), 0);
		rig_sleep(r, 10);
	}
	assert_true(r->ch[1].exited);
	assert_string_equal(rig_text(r, 1, 2), "began\n");
	assert_int_equal(r->ch[1].exit.code, 0);
	rig_destroy(r);
}

/* Nor where the hub takes it as fast as it comes, so that a thread is always at a read. */
static void a_background_that_is_always_read_holds_no_round(void **state)
{
	uint64_t begun = clock_boot_ns();
	FRESH(r);

	(void)state;
	r->no_keep = true;
	rig_open(r, 1, "yes & yes >&2 &", (struct rig_call){.pty = false});
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].exit.code, 0);
	assert_true(clock_boot_ns() - begun < 10 * NS_PER_SEC);
	rig_destroy(r);
}

static void a_signal_reaches_the_group(void **state)
{
	FRESH(r);

	(void)state;
	rig_open(r, 1, "trap 'echo got; exit 0' USR1; echo ready; while :; do sleep 0.05; done", (struct rig_call){0});
	assert_true(rig_until(r, 5000, r->ch[1].len[1] == 6));
	assert_int_equal(link_signal(r->link, 1, SIGUSR1), 0);
	rig_wait_exit(r, 1);
	assert_non_null(strstr(rig_text(r, 1, 1), "got\n"));
	assert_int_equal(link_signal(r->link, 1, 0), ERR_INVAL);
	assert_int_equal(link_signal(r->link, 9, SIGTERM), ERR_BAD_STATE);
	rig_destroy(r);
}

/* muxlet is not process 1 here, as in a pod: it looks for its own, stops them, and kills who stands still. */
static void a_clear_ends_everything(void **state)
{
	FRESH(r);

	(void)state;
	rig_open(r, 1, "trap '' TERM HUP; echo ready; env -i setsid sleep $NAP & sleep $NAP",
		 (struct rig_call){.env = nap_env()});
	rig_open(r, 2, "(setsid sh -c 'while :; do sleep $NAP & sleep 0.01; done' &)",
		 (struct rig_call){.env = nap_env()});
	rig_open(r, 3, "trap '' TERM HUP; sleep $NAP; sleep $NAP", (struct rig_call){.env = nap_env(), .pty = true});
	rig_wait_exit(r, 2);
	assert_true(rig_until(r, 5000, r->ch[1].len[1] && nappers() >= 20));
	assert_true(link_has_clear(r->link));
	assert_int_equal(link_clear(r->link), 0);
	assert_int_equal(link_clear(r->link), ERR_CONFLICT);
	assert_true(rig_until(r, 5000, r->cleared));
	assert_int_equal(r->cleared_rc, 0);
	assert_int_equal(nappers(), 0);
	rig_wait_exit(r, 1);
	rig_wait_exit(r, 3);
	assert_int_equal(r->ch[1].exit.cause, EXIT_KILLED);
	assert_int_equal(r->ch[3].exit.cause, EXIT_KILLED);
	assert_int_equal(r->ch[3].exit.signal, SIGKILL);
	rig_open(r, 4, "echo on", (struct rig_call){0}); /* it serves on, and again */
	rig_wait_exit(r, 4);
	assert_string_equal(rig_text(r, 4, 1), "on\n");
	assert_int_equal(link_clear(r->link), 0);
	assert_true(rig_until(r, 5000, r->cleared == 2));
	rig_destroy(r);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_timeout_ends_the_whole_tree),
	    cmocka_unit_test(a_kill_says_who_did_it),
	    cmocka_unit_test(the_background_of_a_round_lives_on),
	    cmocka_unit_test(a_background_that_never_stops_writing_holds_no_round),
	    cmocka_unit_test(a_background_that_is_always_read_holds_no_round),
	    cmocka_unit_test(a_signal_reaches_the_group),
	    cmocka_unit_test(a_clear_ends_everything),
	};

	own_processes();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
