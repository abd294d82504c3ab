// tier: check
/* Net's turn ahead of ordinary programs: who gives it, when it goes back, and that the kernel takes it from who spins.
 */
#include "base/niceness.h"
#include "muxd/net/precedence.h"

#include "base/clock.h"

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void who_waits_asks_and_who_is_busy_goes_back(void **state)
{
	static const struct {
		enum precedence_state now;
		unsigned used, waited, held_s; /* per cent */
		enum precedence_state next;
	} rows[] = {
	    {PRECEDENCE_USUAL, 29, 2, 0, PRECEDENCE_ASKED},   {PRECEDENCE_USUAL, 0, 99, 99, PRECEDENCE_ASKED},
	    {PRECEDENCE_USUAL, 29, 1, 99, PRECEDENCE_USUAL},  {PRECEDENCE_USUAL, 30, 50, 0, PRECEDENCE_USUAL},
	    {PRECEDENCE_ASKED, 90, 90, 99, PRECEDENCE_ASKED}, {PRECEDENCE_AHEAD, 50, 0, 9, PRECEDENCE_AHEAD},
	    {PRECEDENCE_AHEAD, 51, 0, 0, PRECEDENCE_USUAL},   {PRECEDENCE_AHEAD, 0, 0, 10, PRECEDENCE_USUAL},
	    {PRECEDENCE_NONE, 0, 99, 99, PRECEDENCE_NONE},
	};
	const struct precedence_times much = {1, 1};

	(void)state;
	assert_int_equal(niceness_ahead(0, true), -EINVAL); /* a process that has ended, and never who asks for it */
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct precedence_times spent = {rows[i].used * NS_PER_MS, rows[i].waited * NS_PER_MS};

		assert_int_equal(precedence_next(rows[i].now, &spent, 100 * NS_PER_MS, rows[i].held_s * NS_PER_SEC),
				 rows[i].next);
	}
	assert_int_equal(precedence_next(PRECEDENCE_AHEAD, &much, 0, 0), PRECEDENCE_AHEAD);
}

static void let_ahead(void *arg)
{
	bool *may = arg;

	*may = niceness_ahead(getpid(), true) == 0;
}

static void test_timer(uv_timer_t *t)
{
	(void)t;
}

static void spin_ms(unsigned ms)
{
	uint64_t until = clock_boot_ns() + ms * NS_PER_MS;

	while (clock_boot_ns() < until)
		;
}

static void who_spins_is_sent_back(void **state)
{
	struct precedence p;
	uv_loop_t loop;
	uv_timer_t tick;
	bool may = false;

	(void)state;
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(uv_timer_init(&loop, &tick), 0);
	assert_int_equal(uv_timer_start(&tick, test_timer, 20, 20), 0);
	precedence_begin(&p, &loop, let_ahead, &may);
	assert_int_equal(p.state, PRECEDENCE_USUAL);
	let_ahead(&may);
	if (may) { /* root, where the system lets it */
		/* A look that still sees the beginning may find it busy, and the kernel may, too. */
		while (p.state != PRECEDENCE_AHEAD) {
			if (!niceness_is_ahead(getpid()))
				let_ahead(&may);
			p.state = PRECEDENCE_ASKED;
			(void)uv_run(&loop, UV_RUN_ONCE);
		}
		assert_int_equal(p.state, PRECEDENCE_AHEAD);
		assert_true(niceness_is_ahead(getpid()));
		for (int i = 0; i < 100 && niceness_is_ahead(getpid()); i++)
			spin_ms(50);
		assert_false(niceness_is_ahead(getpid()));
		while (p.state == PRECEDENCE_AHEAD)
			(void)uv_run(&loop, UV_RUN_ONCE);
		assert_int_equal(p.state, PRECEDENCE_USUAL);
	}
	precedence_end(&p);
	uv_close((uv_handle_t *)&tick, NULL);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
}

static void refused(void *arg)
{
	(*(int *)arg)++;
}

/* It asks once, and is content with its niceness when nothing came of it. */
static void who_may_not_stays_as_it_is(void **state)
{
	struct precedence p;
	uv_loop_t loop;
	uv_timer_t tick;
	int asked = 0;

	(void)state;
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(uv_timer_init(&loop, &tick), 0);
	assert_int_equal(uv_timer_start(&tick, test_timer, 20, 20), 0);
	precedence_begin(&p, &loop, refused, &asked);
	p.state = PRECEDENCE_ASKED;
	p.since_ns = clock_boot_ns() - PRECEDENCE_WAIT_MS * NS_PER_MS;
	while (p.state == PRECEDENCE_ASKED)
		(void)uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(p.state, PRECEDENCE_NONE);
	precedence_end(&p);
	uv_close((uv_handle_t *)&tick, NULL);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	precedence_end(&(struct precedence){0}); /* one that never began */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(who_waits_asks_and_who_is_busy_goes_back),
	    cmocka_unit_test(who_spins_is_sent_back),
	    cmocka_unit_test(who_may_not_stays_as_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
