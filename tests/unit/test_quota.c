// tier: check
/* Who gets one more session: the table of every limit and each side of it, and loads of one principal up to a refusal.
 */
#include "base/conf.h"
#include "base/err.h"
#include "muxd/hub/quota.h"
#include "muxd/muxlet/muxlet.h"
#include "policy/grant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

_Static_assert(QUOTA_CHANNELS == CHANNELS_MAX, "what muxlet holds");

static int ask(unsigned max, unsigned per_agent, bool staff, struct quota_load l, struct err *e)
{
	struct conf c = {.sessions_max = max, .sessions_max_per_agent = per_agent};

	l.agent = "demo", l.principal = "somebody";
	return quota_check(&c, staff, &l, e);
}

static void the_table(void **state)
{
	static const struct {
		unsigned max, per_agent;
		bool staff;
		unsigned all, mine, here, mine_here;
		const char *refused; /* a word of why; NULL: it gets in */
	} rows[] = {
	    {2000, 500, false, 0, 0, 0, 0, NULL},
	    {2000, 500, false, 499, 499, 499, 499, NULL},
	    {2000, 500, false, 500, 500, 500, 500, "sessions.max_per_agent"},
	    {2000, 500, false, 500, 0, 500, 0, "sessions.max_per_agent"},
	    {2000, 500, true, 500, 0, 500, 0, NULL},
	    {2000, 500, true, 515, 3, 515, 3, NULL},
	    {2000, 500, true, 516, 0, 516, 0, "sessions.max_per_agent"},
	    {2000, 500, true, 507, 4, 507, 4, NULL},
	    {2000, 500, true, 508, 4, 508, 4, "sessions.max_per_agent"}, /* the other half is for the next person */
	    {2000, 500, true, 508, 3, 508, 3, NULL},
	    {2000, 500, false, 1499, 1499, 10, 10, NULL},
	    {2000, 500, false, 1500, 1500, 10, 10, "one principal's share of sessions.max"},
	    {2000, 500, false, 1999, 499, 10, 10, NULL},
	    {2000, 500, false, 2000, 499, 10, 10, "sessions.max is reached"},
	    {2000, 500, true, 2000, 2000, 10, 10, NULL}, /* staff have no share */
	    {2000, 500, true, 2031, 4, 10, 4, NULL},
	    {2000, 500, true, 2032, 4, 10, 4, "sessions.max is reached"},
	    {2000, 500, true, 2063, 3, 10, 3, NULL},
	    {2000, 500, true, 2064, 0, 10, 0, "sessions.max is reached"},
	    {1, 1, false, 0, 0, 0, 0, NULL}, /* the smallest that can be configured */
	    {1, 1, false, 1, 1, 1, 1, "sessions.max is reached"},
	    {1, 1, true, 1, 0, 1, 0, NULL},
	    {1000000, 1000000, false, 999, 999, 999, 999, NULL}, /* muxlet's channels bound it */
	    {1000000, 1000000, false, 1000, 0, 1000, 0, "sessions.max_per_agent"},
	    {1000000, 1000000, true, 1000, 1000, 1000, 1000, NULL},
	    {1000000, 1000000, true, 1015, 0, 1015, 0, NULL},
	    {1000000, 1000000, true, 1016, 0, 1016, 0, "sessions.max_per_agent"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct quota_load l = {
		    .all = rows[i].all, .mine = rows[i].mine, .here = rows[i].here, .mine_here = rows[i].mine_here};
		struct err e = {0};
		int rc = ask(rows[i].max, rows[i].per_agent, rows[i].staff, l, &e);

		if (rc != (rows[i].refused ? ERR_LIMIT : 0) || (rc && !strstr(e.message, rows[i].refused)))
			fail_msg("row %zu: %s", i, rc ? e.message : "it got in");
	}
}

/* One principal opens all it can; whatever the limits are, a person and lifecycle get in after it. */
static void nobody_is_shut_out(void **state)
{
	static const unsigned sizes[] = {1, 2, 3, 4, 5, 7, 8, 100, 500, 1000, 1016, 1024, 2000, 1000000};
	const size_t n = sizeof(sizes) / sizeof(sizes[0]);

	(void)state;
	for (size_t i = 0; i < n * n * 2; i++) {
		unsigned max = sizes[i / 2 / n], here = sizes[i / 2 % n];
		struct conf c = {.sessions_max = max, .sessions_max_per_agent = here};
		bool staff = i % 2;
		struct quota_load l = {0}, next;
		struct err e = {0};

		while (ask(max, here, staff, l, &e) == 0)
			l.all++, l.mine++, l.here++, l.mine_here++;
		assert_true(l.all > 0);
		assert_true(l.here + QUOTA_LIFECYCLE <= QUOTA_CHANNELS);
		assert_true(l.all <= quota_most(&c));
		next = l, next.mine = next.mine_here = 0;
		assert_int_equal(ask(max, here, true, next, &e), 0);
		next.here = 0;
		if (max >= 4 && !staff) /* in its own sandbox another agent's principal has room as well */
			assert_int_equal(ask(max, here, false, next, &e), 0);
	}
}

static void who_is_staff(void **state)
{
	struct grant g = {.kind = GRANT_STAFF, .scopes = SCOPE_TERMINAL};

	(void)state;
	assert_true(quota_is_staff(&g));
	g.scopes = SCOPE_ROUNDS | SCOPE_FILES | SCOPE_OBSERVE;
	assert_false(quota_is_staff(&g));
	for (enum grant_kind k = GRANT_AGENT; k <= GRANT_SERVICE; k++) {
		g = (struct grant){.kind = k, .scopes = UINT32_MAX};
		assert_false(quota_is_staff(&g));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_table),
	    cmocka_unit_test(nobody_is_shut_out),
	    cmocka_unit_test(who_is_staff),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
