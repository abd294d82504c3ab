// tier: check
/* What is typed ahead of a password prompt is masked; whatever happens while it waits, nothing is lost nor out of
 * order. */
#include "muxd/hub/core/hub.h"
#include "muxd/hub/session/session_input.h"
#include "tests/lib/hub_rig.h"

#include <signal.h>

#define TEXT      "one\ntwo\n"
#define BOTH      "echo th''ere; read a; read b; echo got-$a-$b; cat"
#define LONG_WAIT (3600 * NS_PER_SEC) /* nothing here waits for its end */
#define WAIT      (50 * NS_PER_MS)

static void type(struct hub_client *c, const char *text)
{
	assert_int_equal(attachment_input(c->a, text, strlen(text)), strlen(text));
}

/* A terminal that runs command, and that says when it has begun. */
static struct hub_rig *start(struct hub_client *c, const char *command, uint64_t wait_ns)
{
	struct hub_rig *r = hub_rig_create(NULL);

	r->hub->conf->typed_ahead_ns = wait_ns;
	hub_open(r, c, SESSION_TERMINAL, command);
	assert_true(hub_until(r, hub_shows(c, "there")));
	return r;
}

/* The same of one that reads by itself: a shell that is about to start another program may swallow an interrupt. */
static struct hub_rig *start_cat(struct hub_client *c, uint64_t wait_ns)
{
	struct hub_rig *r = start(c, "echo th''ere; exec cat", wait_ns);

	type(c, TEXT);
	assert_true(hub_until(r, hub_shows(c, "one\r\none\r\n"))); /* the terminal's and its own */
	assert_int_equal(buf_len(&c->s->in_queue), 4);
	return r;
}

static bool recorded(const struct hub_rig *r, const char *text)
{
	return buf_len(&r->input) == strlen(text) && memcmp(buf_ptr(&r->input), text, strlen(text)) == 0;
}

static void went(struct hub_client *c)
{
	if (c->a)
		client_leaves(c);
	buf_finish(&c->got);
}

static void finish(struct hub_rig *r, struct hub_client *c)
{
	went(c);
	hub_rig_destroy(r);
}

static void a_password_typed_ahead_is_masked(void **state)
{
	struct hub_client c;
	struct hub_rig *r = start(&c, "echo th''ere; read a; stty -echo; read b; stty echo; echo got-$a-$b", LONG_WAIT);

	(void)state;
	type(&c, TEXT);
	assert_true(hub_until(r, c.ends));
	assert_true(hub_shows(&c, "got-one-two"));
	assert_true(hub_until(r, recorded(r, "one\n****")));
	finish(r, &c);
}

static void a_half_close_comes_behind_it(void **state)
{
	struct hub_client c;
	struct hub_rig *r = start(&c, BOTH, WAIT);

	(void)state;
	type(&c, TEXT);
	assert_int_equal(buf_len(&c.s->in_queue), 4);
	assert_int_equal(attachment_input_eof(c.a), 0);
	assert_true(hub_until(r, c.ends));
	assert_true(hub_shows(&c, "got-one-two"));
	assert_true(hub_until(r, recorded(r, TEXT)));
	finish(r, &c);
}

/* The end of a terminal's input is a character: what is typed behind it stays behind it, and behind what waits. */
static void an_end_keeps_its_place(void **state)
{
	struct hub_client c;
	struct hub_rig *r = start(&c, "echo th''ere; cat; echo th''en; exec cat", WAIT);

	(void)state;
	type(&c, TEXT);
	assert_int_equal(attachment_input_eof(c.a), 0);
	assert_int_equal(attachment_input(c.a, "after\n", 6), 0); /* not now */
	assert_true(hub_until(r, c.writables));
	assert_true(hub_until(r, hub_shows(&c, "two\r\nthen")));
	type(&c, "after\n");
	assert_true(hub_until(r, hub_shows(&c, "after\r\nafter\r\n")));
	assert_true(hub_until(r, recorded(r, TEXT "after\n")));
	finish(r, &c);
}

static void an_interrupt_lets_it_go(void **state)
{
	struct hub_client c;
	struct hub_rig *r = start_cat(&c, LONG_WAIT);

	(void)state;
	type(&c, "more\n");
	type(&c, "\003");
	assert_true(hub_until(r, c.ends));
	assert_true(hub_until(r, recorded(r, TEXT "more\n\003")));
	finish(r, &c);
}

static void a_signal_lets_it_go(void **state)
{
	struct hub_client c;
	struct hub_rig *r = start_cat(&c, LONG_WAIT);

	(void)state;
	assert_int_equal(attachment_signal(c.a, SIGINT), 0);
	assert_true(hub_until(r, c.ends));
	assert_true(hub_until(r, recorded(r, TEXT)));
	finish(r, &c);
}

static void a_kill_lets_it_go(void **state)
{
	struct hub_client c;
	struct hub_rig *r = start(&c, BOTH, LONG_WAIT);

	(void)state;
	type(&c, TEXT);
	session_kill(c.s, EXIT_KILLED, "by the test");
	assert_true(hub_until(r, c.ends));
	assert_true(hub_until(r, recorded(r, TEXT)));
	finish(r, &c);
}

static void a_stop_lets_it_go(void **state)
{
	struct hub_client c;
	struct hub_rig *r = start(&c, BOTH, LONG_WAIT);

	(void)state;
	type(&c, TEXT);
	hub_stop(r->hub);
	assert_true(hub_until(r, recorded(r, TEXT)));
	finish(r, &c);
}

static void it_goes_though_its_typist_went(void **state)
{
	struct hub_client c;
	struct hub_rig *r = start(&c, BOTH, WAIT);

	(void)state;
	type(&c, TEXT);
	client_leaves(&c);
	assert_true(hub_until(r, recorded(r, TEXT)));
	finish(r, &c);
}

static void it_outlasts_a_break_of_the_link(void **state)
{
	struct hub_client c;
	struct hub_rig *r = start(&c, BOTH, LONG_WAIT);

	(void)state;
	type(&c, TEXT);
	assert_true(hub_until(r, hub_shows(&c, "one"))); /* echoed: keys that a break swallows are not sent again */
	r->deaf = true;
	hub_break(r, c.s);
	session_ahead_flush(c.s); /* as when its time is over */
	assert_int_equal(buf_len(&c.s->in_queue), 4);
	assert_int_equal(attachment_resize(c.a, 100, 30, 0, 0), 0);
	r->deaf = false;
	assert_true(hub_until(r, hub_shows(&c, "got-one-two")));
	assert_true(hub_until(r, recorded(r, TEXT)));
	finish(r, &c);
}

static void others_wait_for_it(void **state)
{
	struct hub_client ada, bob;
	struct hub_rig *r = start_cat(&ada, LONG_WAIT);

	(void)state;
	hub_join(r, &bob, ada.s, ROLE_DRIVER);
	assert_int_equal(attachment_input(bob.a, "x\n", 2), 0);
	type(&ada, "three\n");
	type(&bob, "\003"); /* but for this */
	assert_true(hub_until(r, ada.ends && bob.ends));
	assert_true(hub_until(r, recorded(r, TEXT "three\n\003")));
	went(&bob);
	finish(r, &ada);
}

static void who_waited_is_told(void **state)
{
	struct hub_client ada, bob;
	struct hub_rig *r = start(&ada, BOTH, WAIT);
	ssize_t took = 0;

	(void)state;
	hub_join(r, &bob, ada.s, ROLE_DRIVER);
	type(&ada, TEXT);
	assert_int_equal(attachment_input(bob.a, "x\n", 2), 0);
	while (took == 0 && hub_until(r, bob.writables)) {
		bob.writables = 0;
		took = attachment_input(bob.a, "x\n", 2);
	}
	assert_int_equal(took, 2);
	assert_true(hub_until(r, recorded(r, TEXT "x\n")));
	went(&bob);
	finish(r, &ada);
}

static size_t any_text(char *p, size_t max)
{
	static const char *const pieces[] = {"ls",        "\r",        "\n",   "\r\n", "word",
					     "\033[200~", "\033[201~", "\003", "\032"};
	size_t n = 0, want = 1 + (size_t)rand() % (rand() % 4 ? 60 : max - 10);

	while (n < want) {
		const char *s = pieces[rand() % 9];

		memcpy(p + n, s, strlen(s));
		n += strlen(s);
	}
	return n;
}

/* Two people, anything typed: the program reads what was taken, in the order in which it was, and the record has that.
 */
static void nothing_is_lost_nor_out_of_order(void **state)
{
	struct hub_client c[2];
	struct hub_rig *r = start(&c[0], "stty raw -echo; echo th''ere; cat", 3 * NS_PER_MS);
	struct buf want;
	char text[3000];

	(void)state;
	srand(1);
	buf_init(&want, 4 << 20);
	buf_clear(&c[0].got);
	hub_join(r, &c[1], c[0].s, ROLE_DRIVER);
	for (unsigned i = 0; i < 300; i++) {
		size_t n = any_text(text, sizeof(text)), done = 0;
		struct hub_client *who = &c[rand() % 2];

		while (done < n) {
			ssize_t took = attachment_input(who->a, text + done, n - done);

			assert_true(took >= 0);
			assert_int_equal(buf_append(&want, text + done, (size_t)took), 0);
			done += (size_t)took;
			if (!took || rand() % 3 == 0)
				hub_turn(r);
		}
	}
	assert_true(hub_until(r, buf_len(&r->input) == buf_len(&want) && buf_len(&c[0].got) == buf_len(&want)));
	assert_memory_equal(buf_ptr(&r->input), buf_ptr(&want), buf_len(&want));
	assert_memory_equal(buf_ptr(&c[0].got), buf_ptr(&want), buf_len(&want));
	buf_finish(&want);
	went(&c[1]);
	finish(r, &c[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_password_typed_ahead_is_masked),
	    cmocka_unit_test(a_half_close_comes_behind_it),
	    cmocka_unit_test(an_end_keeps_its_place),
	    cmocka_unit_test(an_interrupt_lets_it_go),
	    cmocka_unit_test(a_signal_lets_it_go),
	    cmocka_unit_test(a_kill_lets_it_go),
	    cmocka_unit_test(a_stop_lets_it_go),
	    cmocka_unit_test(it_goes_though_its_typist_went),
	    cmocka_unit_test(it_outlasts_a_break_of_the_link),
	    cmocka_unit_test(others_wait_for_it),
	    cmocka_unit_test(who_waited_is_told),
	    cmocka_unit_test(nothing_is_lost_nor_out_of_order),
	};

	return cmocka_run_group_tests_name("hub_ahead", tests, NULL, NULL);
}
