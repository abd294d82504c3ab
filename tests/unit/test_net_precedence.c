// tier: check
/* Net's turn ahead of ordinary programs: who gives it, when it goes back, and that the kernel takes it from who spins.
 */
#include "muxd/net/precedence.c"

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

/* A loop that turns every 20 ms, and who is asked for its turn ahead. */
struct rig {
	struct precedence p;
	uv_loop_t loop;
	uv_timer_t tick;
	unsigned asked;
	bool gives, gave;
};

static void rig_ask(void *arg)
{
	struct rig *r = arg;

	r->asked++;
	r->gave = r->gives && niceness_ahead(getpid(), true) == 0;
}

static void rig_tick(uv_timer_t *t)
{
	(void)t;
}

static void rig_begin(struct rig *r, bool gives)
{
	*r = (struct rig){.gives = gives};
	assert_int_equal(uv_loop_init(&r->loop), 0);
	assert_int_equal(uv_timer_init(&r->loop, &r->tick), 0);
	assert_int_equal(uv_timer_start(&r->tick, rig_tick, 20, 20), 0);
	precedence_begin(&r->p, &r->loop, rig_ask, r);
	assert_int_equal(r->p.state, PRECEDENCE_USUAL);
}

static void rig_end(struct rig *r)
{
	precedence_end(&r->p);
	uv_close((uv_handle_t *)&r->tick, NULL);
	(void)uv_run(&r->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&r->loop), 0);
	(void)niceness_ahead(getpid(), false);
}

static void rig_until(struct rig *r, enum precedence_state s)
{
	uint64_t end = clock_boot_ns() + 20 * NS_PER_SEC;

	while (r->p.state != s && clock_boot_ns() < end)
		(void)uv_run(&r->loop, UV_RUN_ONCE);
	assert_int_equal(r->p.state, s);
}

/* Gives the turn as the monitor does, where the system lets this process. The kernel counts on from the spin of another
 * test until the first sleep ahead, so that the first tick before that sleep takes the turn away.
 */
static bool turn_given(void)
{
	for (int i = 0; i < 1000 && niceness_ahead(getpid(), true) == 0; i++) {
		(void)usleep(1000);
		if (niceness_is_ahead(getpid()))
			return true;
	}
	assert_int_not_equal(niceness_ahead(getpid(), true), 0);
	return false;
}

/* A look by hand, at a loop that did nothing: the loop's own finds it busy where others take its processor. */
static void rig_look_again(struct rig *r)
{
	const struct precedence_times idle = {0, 0};
	uint64_t now = clock_boot_ns();

	precedence_set_state(&r->p, precedence_next(r->p.state, &idle, NS_PER_SEC, now - r->p.since_ns), now);
}

/* A look that still sees the beginning may find the loop busy: then it is asked for anew. */
static void rig_ahead(struct rig *r)
{
	for (int i = 0; i < 1000 && r->p.state != PRECEDENCE_AHEAD; i++) {
		if (r->p.state == PRECEDENCE_USUAL || r->p.state == PRECEDENCE_NONE)
			precedence_set_state(&r->p, PRECEDENCE_ASKED, clock_boot_ns());
		if (!r->gave)
			return;
		(void)uv_run(&r->loop, UV_RUN_ONCE);
	}
	assert_int_equal(r->p.state, PRECEDENCE_AHEAD);
}

static void spin_ms(unsigned ms)
{
	uint64_t until = clock_boot_ns() + ms * NS_PER_MS;

	while (clock_boot_ns() < until)
		;
}

/* Where the system lets this process: as root. */
static void who_spins_is_sent_back(void **state)
{
	struct rig r;

	(void)state;
	rig_begin(&r, true);
	rig_ahead(&r);
	if (r.gave) {
		for (int i = 0; i < 100 && niceness_is_ahead(getpid()); i++)
			spin_ms(50);
		assert_false(niceness_is_ahead(getpid()));
		rig_until(&r, PRECEDENCE_USUAL);
	}
	rig_end(&r);
}

/* The monitor is asked once. A turn that it gives when nobody waits for it any more is known as such, and given back.
 */
static void who_gets_nothing_stays_as_it_is(void **state)
{
	struct rig r;

	(void)state;
	rig_begin(&r, false);
	precedence_set_state(&r.p, PRECEDENCE_ASKED, clock_boot_ns() - PRECEDENCE_WAIT_MS * NS_PER_MS);
	rig_until(&r, PRECEDENCE_NONE);
	assert_int_equal(r.asked, 1);
	if (turn_given()) {
		precedence_note(&r.p, clock_boot_ns());
		assert_int_equal(r.p.state, PRECEDENCE_AHEAD);
		r.p.since_ns -= PRECEDENCE_HOLD_MS * NS_PER_MS;
		rig_look_again(&r);
		assert_int_equal(r.p.state, PRECEDENCE_USUAL);
		assert_false(niceness_is_ahead(getpid()));
	}
	rig_end(&r);
	precedence_end(&(struct precedence){0}); /* one that never began */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(who_waits_asks_and_who_is_busy_goes_back),
	    cmocka_unit_test(who_spins_is_sent_back),
	    cmocka_unit_test(who_gets_nothing_stays_as_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
