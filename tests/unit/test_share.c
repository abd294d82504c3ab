// tier: check
/* Who gets one more session: the table of every limit and each side of it, and loads of one principal up to a refusal.
 * Bytes a second and bytes of a day by a clock that is set. */
#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "muxd/hub/record/share.h"
#include "muxd/muxlet/muxlet.h"
#include "policy/grant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

_Static_assert(SHARE_CHANNELS == CHANNELS_MAX, "what muxlet holds");

struct load {
	unsigned all, mine, here, mine_here;
};

static int ask(unsigned max, unsigned per_agent, bool staff, struct load l, struct err *e)
{
	struct conf c = {.sessions_max = max, .sessions_max_per_agent = per_agent};
	struct share who = {.sessions = l.mine}, where = {.sessions = l.here};
	struct share_load load = {.staff = staff,
				  .all = l.all,
				  .mine_here = l.mine_here,
				  .of = {[CONF_SHARE_PRINCIPAL] = &who, [CONF_SHARE_AGENT] = &where},
				  .agent = "demo",
				  .principal = "somebody"};

	return share_ask(&c, &load, e);
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
		struct load l = {
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
		struct load l = {0}, next;
		struct err e = {0};

		while (ask(max, here, staff, l, &e) == 0)
			l.all++, l.mine++, l.here++, l.mine_here++;
		assert_true(l.all > 0);
		assert_true(l.here + SHARE_LIFECYCLE <= SHARE_CHANNELS);
		assert_true(l.all <= share_most(&c));
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
	assert_true(share_is_staff(&g));
	g.scopes = SCOPE_ROUNDS | SCOPE_FILES | SCOPE_OBSERVE;
	assert_false(share_is_staff(&g));
	for (enum grant_kind k = GRANT_AGENT; k <= GRANT_SERVICE; k++) {
		g = (struct grant){.kind = k, .scopes = UINT32_MAX};
		assert_false(share_is_staff(&g));
	}
}

/* Each limit of shares.* alone: its last one gets in, the next one is told which limit, whose, and how many there are.
 */
static void each_share(void **state)
{
	static const char *const words[CONF_SHARES] = {"rounds", "sessions", "contexts"};

	(void)state;
	for (int what = 0; what < CONF_SHARES; what++)
		for (int of = 0; of < CONF_SHARE_OFS; of++) {
			struct conf c = {.sessions_max = 2000, .sessions_max_per_agent = 500};
			struct share s = {.of = (enum conf_share_of)of, .name = (char[]){"x"}, .sessions = 4};
			struct share_load l = {.agent = "a", .principal = "p"};
			struct err e = {0};
			char key[64];

			c.share_most[what][of] = 3;
			l.of[of] = &s;
			l.uses[what] = true;
			s.live[what] = 9; /* of staff as well */
			s.counted[what] = 2;
			assert_int_equal(share_ask(&c, &l, &e), 0);
			s.counted[what] = 3;
			assert_int_equal(share_ask(&c, &l, &e), ERR_LIMIT);
			snprintf(key, sizeof(key), "shares.%s_per_%s", words[what], share_of_name(s.of));
			assert_string_equal(e.share.limit, key);
			assert_string_equal(e.share.of, share_of_name(s.of));
			assert_true(e.share.value == 3 && e.share.in_use == 3 && e.share.retry_s);
			assert_non_null(strstr(e.message, key));
			l.apart = true;
			assert_int_equal(share_ask(&c, &l, &e), 0);
			l.apart = false, l.uses[what] = false; /* it is none of these */
			assert_int_equal(share_ask(&c, &l, &e), 0);
			l.uses[what] = true, s.name[0] = '\0'; /* without a task */
			assert_int_equal(share_ask(&c, &l, &e), 0);
		}
}

static void bytes_a_second(void **state)
{
	struct share_rate r = {0};
	uint64_t now = NS_PER_SEC, sent = 0;

	(void)state;
	assert_true(share_rate_may(&r, 0, 0, now));           /* no limit */
	for (int i = 0; i < 100; i++, now += NS_PER_SEC / 10) /* ten seconds */
		while (share_rate_may(&r, 1000, 5000, now))
			share_rate_took(&r, 100), sent += 100;
	assert_in_range(sent, 5000 + 9900, 5000 + 10100);
	/* What was promised counts until the clock has moved, then what came. */
	now += 60 * NS_PER_SEC;
	assert_true(share_rate_may(&r, 1000, 5000, now));
	share_rate_promise(&r, 5000);
	assert_false(share_rate_may(&r, 1000, 5000, now));
	now += NS_PER_SEC / 10;
	assert_true(share_rate_may(&r, 1000, 5000, now));
}

static void bytes_of_a_day(void **state)
{
	const uint64_t hour = 3600 * NS_PER_SEC;
	struct share_day d = {0};
	uint64_t now = 5 * hour;

	(void)state;
	assert_int_equal(share_day_sum(&d, now), 0);
	share_day_add(&d, 1000, now);
	share_day_add(&d, 200, now + hour);
	assert_int_equal(share_day_sum(&d, now + 23 * hour), 1200);
	assert_int_equal(share_day_sum(&d, now + 24 * hour), 1200); /* of the day before, by and by less of it */
	assert_int_equal(share_day_sum(&d, now + 36 * hour), 600);
	share_day_add(&d, 50, now + 36 * hour);
	assert_int_equal(share_day_sum(&d, now + 36 * hour), 650);
	assert_int_equal(share_day_sum(&d, now + 200 * hour), 0);
}

/* The disk runs low: who added most begins nothing new, the others go on; one alone is not more than others. */
static void who_filled_the_disk(void **state)
{
	struct conf c = {0};
	struct shares x = {0};
	struct share *bad = share_get(&x, CONF_SHARE_AGENT, "bad"), *good;
	struct err e = {0};
	char name[32];

	(void)state;
	share_day_add(&bad->record, 90 << 20, 1);
	shares_sweep(&x, 1);
	assert_int_equal(share_record_ask(&c, &x, bad, true, 1, &e), 0);
	for (int i = 0; i < 9; i++) {
		snprintf(name, sizeof(name), "good%d", i);
		good = share_get(&x, CONF_SHARE_AGENT, name);
		share_day_add(&good->record, 2 << 20, 1);
	}
	shares_sweep(&x, 1);
	assert_int_equal(share_record_ask(&c, &x, bad, false, 1, &e), 0);
	assert_int_equal(share_record_ask(&c, &x, bad, true, 1, &e), ERR_RECORD_SHARE);
	assert_string_equal(e.share.limit, "shares.record_low");
	assert_int_equal(e.share.value, (108 << 20) / 10);
	assert_int_equal(e.share.in_use, 90 << 20);
	assert_int_equal(share_record_ask(&c, &x, good, true, 1, &e), 0);
	assert_int_equal(share_record_ask(&c, &x, NULL, true, 1, &e), 0);
	c.share_record = 2 << 20; /* a limit of its own holds whatever the disk is like */
	assert_int_equal(share_record_ask(&c, &x, good, false, 1, &e), ERR_RECORD_SHARE);
	assert_string_equal(e.share.limit, "shares.record_per_agent");
	shares_sweep(&x, 1);
	assert_ptr_equal(share_find(&x, CONF_SHARE_AGENT, "bad"), bad);
	shares_sweep(&x, 3 * 86400 * NS_PER_SEC);
	assert_null(share_find(&x, CONF_SHARE_AGENT, "bad"));
	shares_finish(&x);
}

/* Many who added next to nothing count as one: they make nobody's part much smaller, and one beside them is not alone.
 */
static void many_small_ones_change_nothing(void **state)
{
	struct conf c = {0};
	struct shares x = {0};
	struct share *honest = share_get(&x, CONF_SHARE_AGENT, "honest"),
		     *flood = share_get(&x, CONF_SHARE_AGENT, "flood");
	struct err e = {0};
	char name[32];

	(void)state;
	share_day_add(&honest->record, 20 << 20, 1);
	share_day_add(&flood->record, UINT64_C(4) << 30, 1);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "small%d", i);
		share_day_add(&share_get(&x, CONF_SHARE_AGENT, name)->record, 8192, 1);
	}
	shares_sweep(&x, 1);
	assert_int_equal(x.sharers, 3);
	assert_int_equal(share_record_ask(&c, &x, honest, true, 1, &e), 0);
	assert_int_equal(share_record_ask(&c, &x, flood, true, 1, &e), ERR_RECORD_SHARE);
	assert_int_equal(e.share.value, ((UINT64_C(4) << 30) + (20 << 20) + 1000 * 8192) / 3);
	honest->record = (struct share_day){0};
	shares_sweep(&x, 1);
	assert_int_equal(x.sharers, 2);
	assert_int_equal(share_record_ask(&c, &x, flood, true, 1, &e), ERR_RECORD_SHARE);
	shares_finish(&x);
}

/* One program after the other has the rate of one: a share is remembered until its burst is there again. */
static void a_rate_outlives_its_sessions(void **state)
{
	const uint64_t rate = 1000, burst = 5000;
	struct shares x = {0};
	struct share *s = share_get(&x, CONF_SHARE_TASK, "t");
	uint64_t now = NS_PER_SEC;

	(void)state;
	assert_true(share_rate_may(&s->rate[SHARE_OUT], rate, burst, now));
	share_rate_took(&s->rate[SHARE_OUT], burst + 1000);
	for (int i = 0; i < 23; i++, now += NS_PER_SEC / 4)
		shares_sweep(&x, now);
	assert_ptr_equal(share_find(&x, CONF_SHARE_TASK, "t"), s);
	assert_true(share_rate_may(&s->rate[SHARE_OUT], rate, burst, now));
	assert_in_range(s->rate[SHARE_OUT].room, 4600, 4900);
	shares_sweep(&x, now + NS_PER_SEC);
	assert_null(share_find(&x, CONF_SHARE_TASK, "t"));
	(void)share_get(&x, CONF_SHARE_PRINCIPAL, "p"); /* without a rate there is nothing to remember */
	shares_sweep(&x, now);
	assert_null(share_find(&x, CONF_SHARE_PRINCIPAL, "p"));
	shares_finish(&x);
}

static void weights(void **state)
{
	const char *text = "demo=200,ci-*=25,*=50";

	(void)state;
	assert_int_equal(conf_weight(NULL, "demo"), CONF_WEIGHT);
	assert_int_equal(conf_weight("demo=200", "demo2"), CONF_WEIGHT);
	assert_int_equal(conf_weight(text, "demo"), 200);
	assert_int_equal(conf_weight(text, "ci-7"), 25);
	assert_int_equal(conf_weight(text, "other"), 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_table),
	    cmocka_unit_test(nobody_is_shut_out),
	    cmocka_unit_test(who_is_staff),
	    cmocka_unit_test(each_share),
	    cmocka_unit_test(bytes_a_second),
	    cmocka_unit_test(bytes_of_a_day),
	    cmocka_unit_test(who_filled_the_disk),
	    cmocka_unit_test(weights),
	    cmocka_unit_test(many_small_ones_change_nothing),
	    cmocka_unit_test(a_rate_outlives_its_sessions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
