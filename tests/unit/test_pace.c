// tier: check
/* Observers are told some at a time, not more often than PACE_MS, and share what they may take. */
#include "muxd/hub/core/hub_state.h"
#include "muxd/hub/session/session_state.h"
#include "muxd/hub/session/wake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <uv.h>

#include <cmocka.h>

#define WATCHERS 40

struct watcher {
	struct attachment a;
	unsigned told;
	uint64_t told_ms;
};

struct world {
	uv_loop_t loop;
	struct hub hub;
	struct session session;
	struct watcher w[WATCHERS];
};

static void on_readable(void *arg)
{
	struct watcher *w = arg;

	w->told++;
	w->told_ms = uv_now(w->a.session->hub->loop);
}

static const struct attachment_ops ops = {.readable = on_readable};

static int begin(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	uv_loop_init(&w->loop);
	w->hub.loop = &w->loop;
	w->session.hub = &w->hub;
	w->session.observers = WATCHERS;
	assert_int_equal(clients_create(&w->hub, &w->hub.clients), 0);
	for (int i = 0; i < WATCHERS; i++) {
		struct attachment *a = &w->w[i].a;

		a->session = &w->session;
		a->role = ROLE_OBSERVER;
		a->ops = &ops;
		a->arg = &w->w[i];
		a->armed = true;
		pace_begin(a);
	}
	*state = w;
	return 0;
}

static int end(void **state)
{
	struct world *w = *state;

	clients_destroy(w->hub.clients);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&w->loop), 0);
	free(w);
	return 0;
}

static unsigned told(const struct world *w)
{
	unsigned n = 0;

	for (int i = 0; i < WATCHERS; i++)
		n += w->w[i].told;
	return n;
}

/* The loop ends by itself: nothing waits any more. */
static void everybody_is_told_once_and_some_at_a_time(void **state)
{
	struct world *w = *state;
	unsigned before = 0;

	for (int i = 0; i < WATCHERS; i++)
		attachment_wake(&w->w[i].a, WAKE_READABLE);
	assert_int_equal(told(w), 0);
	while (told(w) < WATCHERS) {
		uv_run(&w->loop, UV_RUN_ONCE);
		assert_true(told(w) - before <= 2 * PACE_TURN); /* a turn of the loop looks at its timers twice */
		before = told(w);
	}
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_int_equal(told(w), WATCHERS);
}

static void nobody_is_told_more_often_than_that(void **state)
{
	struct world *w = *state;
	struct watcher *one = &w->w[0];
	uint64_t first;

	attachment_wake(&one->a, WAKE_READABLE);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_int_equal(one->told, 1);
	first = one->told_ms;
	one->a.armed = true;
	attachment_wake(&one->a, WAKE_READABLE);
	attachment_wake(&one->a, WAKE_READABLE);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_int_equal(one->told, 2);
	assert_true(one->told_ms - first >= PACE_MS);
}

static void a_share_that_is_gone_comes_again(void **state)
{
	struct world *w = *state;
	struct attachment *a = &w->w[0].a;

	assert_int_equal(a->share, PACE_SHARE / WATCHERS);
	pace_took(a, a->share - 1);
	assert_true(pace_allows(a));
	assert_false(a->paced);
	pace_took(a, 100);
	assert_false(pace_allows(a));
	assert_true(a->paced);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_int_equal(w->w[0].told, 1);
	assert_true(pace_allows(a));
	w->session.observers = 10000;
	pace_took(a, a->share);
	assert_false(pace_allows(a));
	a->armed = true;
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_int_equal(a->share, PACE_PIECE);
}

static void who_goes_is_not_told(void **state)
{
	struct world *w = *state;

	attachment_wake(&w->w[0].a, WAKE_READABLE);
	attachment_wake(&w->w[1].a, WAKE_READABLE);
	pace_forget(&w->w[0].a);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_int_equal(w->w[0].told, 0);
	assert_int_equal(w->w[1].told, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(everybody_is_told_once_and_some_at_a_time, begin, end),
	    cmocka_unit_test_setup_teardown(nobody_is_told_more_often_than_that, begin, end),
	    cmocka_unit_test_setup_teardown(a_share_that_is_gone_comes_again, begin, end),
	    cmocka_unit_test_setup_teardown(who_goes_is_not_told, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
