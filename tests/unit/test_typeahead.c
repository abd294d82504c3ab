/* Input behind an Enter: waits for the terminal's mode, and never longer than its bounds. */
#include "muxd/base/clock.h"
#include "muxd/hub/typeahead.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BEGIN (1000 * NS_PER_SEC)

static uint64_t ms(uint64_t n)
{
	return BEGIN + n * NS_PER_MS;
}

/* One step: what may go goes; the wait otherwise. */
static size_t step(struct typeahead *t, const char *p, size_t n, uint64_t now, uint64_t *out_wait)
{
	size_t take = typeahead_take(t, p, n, now, out_wait);

	assert_true(take <= n);
	if (take)
		typeahead_sent(t, p, take, now);
	return take;
}

static void a_password_behind_its_command_waits_for_the_prompt(void **state)
{
	static const char text[] = "sudo x\rsecret\r";
	struct typeahead t = {0};
	uint64_t wait = 0;

	(void)state;
	assert_int_equal(step(&t, text, 14, ms(0), &wait), 7);
	assert_int_equal(step(&t, text + 7, 7, ms(0), &wait), 0);
	assert_true(wait > 0 && wait <= 100 * NS_PER_MS);
	typeahead_mode(&t, false, ms(1)); /* the command begins */
	assert_int_equal(step(&t, text + 7, 7, ms(20), &wait), 0);
	typeahead_mode(&t, true, ms(30)); /* it asks */
	assert_int_equal(step(&t, text + 7, 7, ms(30), &wait), 7);
}

static void who_types_by_hand_waits_for_nothing(void **state)
{
	struct typeahead t = {0};
	uint64_t wait = 0;

	(void)state;
	for (uint64_t i = 0; i < 100; i++) {
		assert_int_equal(step(&t, "a", 1, ms(1000 * i), &wait), 1);
		assert_int_equal(step(&t, "\r", 1, ms(1000 * i + 300), &wait), 1);
	}
}

static void a_paste_is_held_for_5_ms_where_nothing_changes(void **state)
{
	static char text[32 * 1024];
	struct typeahead t = {0};
	uint64_t wait = 0;

	(void)state;
	memset(text, '\n', sizeof(text));
	assert_int_equal(step(&t, text, sizeof(text), ms(0), &wait), 1);
	assert_int_equal(step(&t, text, sizeof(text), ms(0), &wait), 0);
	assert_true(wait <= 5 * NS_PER_MS);
	for (uint64_t i = 0; i < 50; i++)
		assert_int_equal(step(&t, text, sizeof(text), ms(6 + i), &wait), sizeof(text));
}

/* Whatever is written, and whatever the terminal does: every byte goes, in order, and a burst waits 600 ms at most. */
static void every_burst_is_bounded(void **state)
{
	static char text[4096];
	uint64_t wait, held;

	(void)state;
	srand(1);
	for (unsigned round = 0; round < 300; round++) {
		struct typeahead t = {0};
		size_t n = 1 + (size_t)rand() % sizeof(text), at = 0;
		uint64_t now = BEGIN;

		for (size_t i = 0; i < n; i++)
			text[i] = rand() % 20 ? 'x' : rand() % 2 ? '\r' : '\n';
		for (held = 0; at < n;) {
			size_t take = step(&t, text + at, n - at, now, &wait);

			at += take;
			if (!take) {
				uint64_t part = rand() % 2 ? wait : wait / 2 + 1;

				held += part;
				now += part;
			}
			if (rand() % 3 == 0)
				typeahead_mode(&t, rand() % 2, now);
		}
		assert_true(held <= 601 * NS_PER_MS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_password_behind_its_command_waits_for_the_prompt),
	    cmocka_unit_test(who_types_by_hand_waits_for_nothing),
	    cmocka_unit_test(a_paste_is_held_for_5_ms_where_nothing_changes),
	    cmocka_unit_test(every_burst_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
