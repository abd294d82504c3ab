// tier: check
/* Terminals over a link to a real muxlet. */
#include "tests/lib/link_rig.h"

#define FRESH(r) struct rig *r = rig_create()

static void a_terminal_is_one(void **state)
{
	FRESH(r);
	uint64_t at = 0;

	(void)state;
	rig_open(r, 1,
		 "tty; stty size; stty -a | grep -o iutf8; trap 'stty size' WINCH; echo $TERM; until read x; do :; "
		 "done; echo \"<$x>\"; " /* the trap may interrupt read */
		 "read y",
		 (struct rig_call){.pty = true});
	assert_true(rig_until(r, 5000, strstr(rig_text(r, 1, 1), "xterm-256color")));
	assert_non_null(strstr(rig_text(r, 1, 1), "/dev/pts/"));
	assert_non_null(strstr(rig_text(r, 1, 1), "24 80\r\niutf8\r\n"));
	assert_int_equal(link_resize(r->link, 1, 132, 50, 1000, 700), 0);
	at = rig_type(r, 1, at, "hi\r", 3);
	assert_true(rig_until(r, 5000, strstr(rig_text(r, 1, 1), "<hi>")));
	assert_non_null(strstr(rig_text(r, 1, 1), "50 132"));
	assert_true(rig_until(r, 5000, r->ch[1].consumed == 3));
	at = rig_type(r, 1, at, "\003", 1);
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].exit.signal, SIGINT);
	assert_int_equal(r->ch[1].exit.total[0], 4);
	rig_destroy(r);
}

static void a_password_prompt_is_seen_before_it_is_shown(void **state)
{
	FRESH(r);

	(void)state;
	rig_open(r, 1, "stty -echo; printf 'Password: '; read x; stty echo; echo; echo \"len ${#x}\"; sleep 0.3",
		 (struct rig_call){.pty = true});
	assert_true(rig_until(r, 5000, strstr(rig_text(r, 1, 1), "Password: ")));
	assert_int_equal(r->ch[1].echo_off, 1);
	assert_int_equal(r->ch[1].len_at_echo_off, 0);
	rig_type(r, 1, 0, "secret\r", 7);
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].echo_on, 1);
	assert_string_equal(rig_text(r, 1, 1), "Password: \r\nlen 6\r\n");
	rig_destroy(r);
}

static void echo_is_seen_while_someone_types(void **state)
{
	FRESH(r);

	(void)state;
	rig_open(r, 1, "read a; sleep 0.3; stty -echo; read b", (struct rig_call){.pty = true});
	rig_type(r, 1, 0, "x\r", 2);
	assert_true(rig_until(r, 1500, r->ch[1].echo_off)); /* nothing is printed: only the timer can see it */
	rig_type(r, 1, 2, "y\r", 2);
	rig_wait_exit(r, 1);
	rig_destroy(r);
}

static void end_of_input_on_a_terminal_is_typed(void **state)
{
	FRESH(r);

	(void)state;
	rig_open(r, 1, "cat; echo end", (struct rig_call){.pty = true});
	assert_int_equal(rig_type(r, 1, 0, "line\rpart", 9), 9);
	assert_int_equal(link_input_eof(r->link, 1, 9), 0); /* a line has been begun: it takes two */
	rig_wait_exit(r, 1);
	assert_string_equal(rig_text(r, 1, 1), "line\r\npartline\r\npartend\r\n");
	rig_destroy(r);
}

static void a_blocked_terminal_keeps_its_input(void **state)
{
	static uint8_t keys[200000];
	FRESH(r);
	uint64_t at;

	(void)state;
	memset(keys, 'k', sizeof(keys));
	for (size_t i = 79; i < sizeof(keys); i += 80)
		keys[i] = '\n';
	rig_open(r, 1, "stty -echo; echo ready; sleep 0.5; head -c 200000 | wc -c", (struct rig_call){.pty = true});
	assert_true(rig_until(r, 5000, strstr(rig_text(r, 1, 1), "ready")));
	at = rig_type(r, 1, 0, keys, sizeof(keys));
	assert_int_equal(at, sizeof(keys));
	rig_sleep(r, 100);
	assert_true(r->ch[1].consumed < sizeof(keys)); /* a kernel takes some 64 KiB ahead of a reader */
	rig_wait_exit(r, 1);
	assert_non_null(strstr(rig_text(r, 1, 1), "200000"));
	rig_destroy(r);
}

static void a_login_shell_of_the_sandbox(void **state)
{
	static const char *const argv[] = {"", "-c", "echo $0 $SHELL", NULL};
	FRESH(r);

	(void)state;
	assert_int_equal(rig_open_argv(r, 1, argv, &(struct rig_call){.login = true}), 0);
	rig_wait_exit(r, 1);
	assert_non_null(strstr(rig_text(r, 1, 1), "-sh "));
	rig_destroy(r);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_terminal_is_one),
	    cmocka_unit_test(a_password_prompt_is_seen_before_it_is_shown),
	    cmocka_unit_test(echo_is_seen_while_someone_types),
	    cmocka_unit_test(end_of_input_on_a_terminal_is_typed),
	    cmocka_unit_test(a_blocked_terminal_keeps_its_input),
	    cmocka_unit_test(a_login_shell_of_the_sandbox),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
