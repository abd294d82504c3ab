// tier: check
/* What is typed behind an Enter: what waits for the terminal, what lets it go, and that it never waits longer than it
 * may.
 */
#include "base/clock.h"
#include "muxd/hub/session/typeahead.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WAIT   (30 * NS_PER_MS)
#define PROMPT "\033[?2004h$ "
#define READ   "\033[?2004l\r"

static uint64_t ms(uint64_t n)
{
	return 1000 * NS_PER_SEC + n * NS_PER_MS;
}

/* Types text at once: how many bytes go; the rest is held. */
static size_t type_some(struct typeahead *t, const char *text, size_t n, uint64_t now)
{
	size_t cut = typeahead_cut(t, text, n, now, WAIT);

	assert_in_range(cut, 1, n);
	typeahead_went(t, text, cut, n, now, WAIT);
	if (cut < n)
		typeahead_hold(t, now);
	return cut;
}

static size_t type(struct typeahead *t, const char *text, uint64_t now)
{
	return type_some(t, text, strlen(text), now);
}

static bool says(struct typeahead *t, const char *text)
{
	return typeahead_output(t, text, strlen(text));
}

static void a_line_waits_for_the_password_prompt_behind_it(void **state)
{
	struct typeahead t = {0};

	(void)state;
	assert_false(typeahead_mode(&t, LINK_ECHO_KEYS));
	assert_int_equal(type(&t, "sudo x\rsecret\r", ms(0)), 7);
	assert_int_equal(t.state, TYPEAHEAD_HELD);
	assert_int_equal(typeahead_until(&t, WAIT), ms(10));
	assert_false(says(&t, "sudo x\r\n" READ)); /* there is a line editor */
	assert_int_equal(typeahead_until(&t, WAIT), ms(30));
	assert_false(typeahead_mode(&t, LINK_ECHO_LINES));
	assert_true(typeahead_mode(&t, LINK_ECHO_OFF));
	typeahead_let_go(&t, ms(5), WAIT, false);
	assert_int_equal(t.used_ns, 5 * NS_PER_MS);
	assert_int_equal(t.state, TYPEAHEAD_FREE);
}

static void a_line_that_the_terminal_edits_waits_less(void **state)
{
	struct typeahead t = {.mode = LINK_ECHO_LINES, .told = true};

	(void)state;
	assert_int_equal(type(&t, "a\nb\nc\n", ms(0)), 2);
	assert_int_equal(typeahead_until(&t, WAIT), ms(10));
	assert_false(typeahead_mode(&t, LINK_ECHO_KEYS)); /* nor is it more then */
	assert_int_equal(typeahead_until(&t, WAIT), ms(10));
	assert_false(typeahead_mode(&t, LINK_ECHO_LINES)); /* one that had the terminal has let it go */
	assert_int_equal(typeahead_until(&t, WAIT), ms(30));
	typeahead_let_go(&t, ms(10), WAIT, true);
	assert_int_equal(type(&t, "b\nc\n", ms(10)), 4);
	assert_int_equal(type(&t, "a\nb\n", ms(29)), 4);
	assert_int_equal(type(&t, "a\nb\n", ms(10 + 200)), 2); /* a twentieth of what has passed */
	assert_int_equal(typeahead_until(&t, WAIT), ms(210 + 10));
}

static void a_marked_prompt_waits_for_all_of_the_time(void **state)
{
	struct typeahead t = {0};

	(void)state;
	typeahead_mode(&t, LINK_ECHO_KEYS);
	says(&t, PROMPT);
	type(&t, "a\rb\r", ms(0));
	assert_int_equal(typeahead_until(&t, WAIT), ms(30));
	typeahead_let_go(&t, ms(0), WAIT, false);
	typeahead_mode(&t, LINK_ECHO_LINES); /* it runs something, which then reads keys by itself */
	typeahead_mode(&t, LINK_ECHO_KEYS);
	type(&t, "a\rb\r", ms(5000));
	assert_int_equal(typeahead_until(&t, WAIT), ms(5010));
}

static void a_prompt_counts_once_the_line_was_read(void **state)
{
	static const char *const line_read[] = {READ, "\033]133;C\a", "\033]633;C\a"};
	static const char *const stands[] = {PROMPT, "\033]133;A\a", "\033]133;B\a$ ", "\033]633;A\a", "\033]633;B\a"};

	(void)state;
	for (size_t i = 0; i < 3; i++)
		for (size_t k = 0; k < 5; k++) {
			struct typeahead t = {.mode = LINK_ECHO_KEYS, .told = true};

			type(&t, "ls\rpwd\r", ms(0));
			assert_false(says(&t, stands[k])); /* one that was on its way */
			assert_false(says(&t, line_read[i]));
			for (const char *p = stands[k]; p[1] && !strchr("hAB", *p); p++)
				assert_false(typeahead_output(&t, p, 1)); /* however it is cut */
			assert_true(typeahead_output(&t, strpbrk(stands[k], "hAB"), 1));
		}
}

static void an_editor_without_marks_is_known_by_the_mode_and_its_prompt(void **state)
{
	struct typeahead t = {0};

	(void)state;
	typeahead_mode(&t, LINK_ECHO_KEYS);
	type(&t, "ls\rpwd\r", ms(0));
	assert_false(says(&t, "ls\r\n"));
	assert_false(typeahead_mode(&t, LINK_ECHO_LINES));
	assert_false(says(&t, "a b c\r\n"));
	assert_false(typeahead_mode(&t, LINK_ECHO_KEYS));
	assert_true(says(&t, "$ "));
	typeahead_let_go(&t, ms(0), WAIT, false);
	/* where there are marks the mode alone is not enough: it may be that of the prompt before */
	type(&t, "ls\rpwd\r", ms(5000));
	typeahead_let_go(&t, ms(5000), WAIT, false);
	assert_false(says(&t, "x" PROMPT));
	assert_true(t.marks);
	type(&t, "ls\rpwd\r", ms(10000));
	assert_false(typeahead_mode(&t, LINK_ECHO_LINES));
	assert_false(typeahead_mode(&t, LINK_ECHO_KEYS));
	assert_false(says(&t, "a b c"));
	assert_true(says(&t, PROMPT));
}

/* Of each: how many bytes go at once. */
static void what_waits_for_nothing(void **state)
{
	static const struct {
		const char *text;
		size_t goes;
	} rows[] = {
	    {"a", 1},
	    {"\r", 1},
	    {"ls\r\n", 4},
	    {"ls\r\npwd", 4},
	    {"\033[200~ls\rpwd\r\033[201~", 19},
	    {"\033[200~ls\rpwd\r\033[201~\r", 20},
	    {"\033[200~ls\rpwd\r\033[201~\rpwd\r", 20},
	    {"\033[200~ls\rpwd\r", 13},
	    {"x\033[200~a\rb\033[201~\033[200~a\rb\033[201~\rpwd", 32},
	    {"ls\rpwd\003", 7},
	    {"ls\rpwd\032", 7},
	    {"ls\r\034", 4},
	    {"\003ls\rpwd", 4},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct typeahead t = {0};

		assert_int_equal(type(&t, rows[i].text, ms(0)), rows[i].goes);
	}
}

static void a_terminal_whose_mode_nobody_knows_waits_for_nothing(void **state)
{
	struct typeahead t = {0};

	(void)state;
	assert_false(typeahead_mode(&t, LINK_ECHO_OFF));
	assert_int_equal(type(&t, "ls\rpwd\r", ms(0)), 7);
	assert_false(typeahead_mode(&t, LINK_ECHO_LINES)); /* it can be known after all */
	assert_int_equal(type(&t, "ls\rpwd\r", ms(1)), 3);
}

/* However a paste is cut into writes, its brackets are known; of bytes that did not go nothing is. */
static void brackets_may_come_in_pieces(void **state)
{
	static const char paste[] = "\033[200~ls\rpwd\r\033[201~";

	(void)state;
	for (size_t i = 1; i < sizeof(paste) - 1; i++) {
		struct typeahead t = {.mode = LINK_ECHO_KEYS, .told = true};

		assert_int_equal(typeahead_cut(&t, paste, i, ms(0), WAIT), i); /* and is not taken: it comes again */
		assert_int_equal(type_some(&t, paste, i, ms(0)), i);
		assert_int_equal(type(&t, paste + i, ms(1)), sizeof(paste) - 1 - i);
		assert_int_equal(type(&t, "ls\rpwd\r", ms(2)), 3);
	}
	for (size_t i = 1; i < sizeof(paste) - 1; i++) { /* who stopped in the middle of one is gone */
		struct typeahead t = {.mode = LINK_ECHO_KEYS, .told = true};

		(void)type_some(&t, paste, i, ms(0));
		assert_int_equal(type(&t, "ls\rpwd\r", ms(1000)), 3);
	}
}

static void a_paste_does_not_wait_nor_does_its_end(void **state)
{
	static char much[TYPEAHEAD_MAX + 1];
	struct typeahead t = {0};

	(void)state;
	memset(much, '\r', sizeof(much));
	assert_int_equal(typeahead_cut(&t, much, sizeof(much), ms(0), WAIT), sizeof(much));
	assert_int_equal(typeahead_cut(&t, much, sizeof(much) - 1, ms(0), WAIT), 1);
	typeahead_went(&t, much, 1, sizeof(much), ms(0), WAIT); /* there was room for one */
	assert_int_equal(type(&t, "ls\rpwd\r", ms(1)), 7);
	assert_int_equal(type(&t, "ls\rpwd\r", ms(1000)), 3);
}

/* One turn of somebody who types and of a terminal that does anything; returns how much waited. */
static uint64_t any_turn(struct typeahead *t, const char *text, size_t n, size_t *sent, uint64_t *now)
{
	static const char *const said[] = {READ, PROMPT, "x", "\033[?2004", "l"};
	uint64_t held = 0;
	size_t cut = typeahead_cut(t, text, n, *now, WAIT);

	assert_in_range(cut, 1, n);
	*sent += cut;
	assert_true(cut == n || strchr("\r\n", text[cut - 1]));
	typeahead_went(t, text, cut, n, *now, WAIT);
	if (cut == n)
		return 0;
	assert_in_range(n, 1, TYPEAHEAD_MAX);
	typeahead_hold(t, *now);
	while (t->state == TYPEAHEAD_HELD) {
		uint64_t until = typeahead_until(t, WAIT), step = (uint64_t)(rand() % 8) * NS_PER_MS;
		const char *o = said[rand() % 5];
		bool goes = rand() % 2 ? typeahead_mode(t, (enum link_echo)(rand() % 3)) : says(t, o);

		step = *now + step > until ? until - *now : step;
		*now += step;
		held += step;
		if (goes || *now >= until)
			typeahead_let_go(t, *now, WAIT, !goes);
	}
	return held;
}

/* Whatever is typed, and whatever the terminal does: each byte goes, in its order, and the waits are WAIT and a
 * twentieth of the time at most. */
static void every_byte_goes_and_waits_are_bounded(void **state)
{
	static const char *const pieces[] = {"ls -l",     "\r",        "\n",   "\r\n", "secret",
					     "\033[200~", "\033[201~", "\003", "x"};
	char text[4096];

	(void)state;
	srand(1);
	for (unsigned round = 0; round < 2000; round++) {
		struct typeahead t = {0};
		uint64_t now = ms(0), held = 0;

		for (unsigned writes = 0; writes < 20; writes++) {
			size_t n = 0, at = 0, want = 1 + (size_t)rand() % (rand() % 4 ? 100 : 2000);

			while (n < want) {
				const char *p = pieces[rand() % 9];

				memcpy(text + n, p, strlen(p));
				n += strlen(p);
			}
			while (at < n)
				held += any_turn(&t, text + at, n - at, &at, &now);
			now += (uint64_t)(rand() % 50) * NS_PER_MS;
			assert_true(held <= WAIT + (now - ms(0)) / TYPEAHEAD_SHARE);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_line_waits_for_the_password_prompt_behind_it),
	    cmocka_unit_test(a_line_that_the_terminal_edits_waits_less),
	    cmocka_unit_test(a_marked_prompt_waits_for_all_of_the_time),
	    cmocka_unit_test(a_prompt_counts_once_the_line_was_read),
	    cmocka_unit_test(an_editor_without_marks_is_known_by_the_mode_and_its_prompt),
	    cmocka_unit_test(what_waits_for_nothing),
	    cmocka_unit_test(a_terminal_whose_mode_nobody_knows_waits_for_nothing),
	    cmocka_unit_test(brackets_may_come_in_pieces),
	    cmocka_unit_test(a_paste_does_not_wait_nor_does_its_end),
	    cmocka_unit_test(every_byte_goes_and_waits_are_bounded),
	};

	return cmocka_run_group_tests_name("typeahead", tests, NULL, NULL);
}
