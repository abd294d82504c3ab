// tier: check
/* How long recordings are kept: tables of events and moments, and what has to hold then. */
#include "recorder/index/retention_policy.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOUR ((int64_t)(3600 * NS_PER_SEC))
#define DAY  (24 * HOUR)
#define T0   (20000 * DAY)

enum what { CONFIG, FIRST, APPLY, APPLY_OTHER, CLOCK, LOOK };

/* At T0 + at: an event, or a look at what holds. Values in ns; waits: does a shorter retention wait then? */
struct step {
	enum what what;
	int64_t at;
	int64_t retain, wait;
	bool waits;
};

static uint64_t seq;

static void take(struct retention_policy *p, const struct step *s)
{
	static const char *const events[] = {RETENTION_CONFIG_EVENT, RETENTION_CONFIG_EVENT, RETENTION_APPLY_EVENT,
					     RETENTION_APPLY_EVENT, RETENTION_CLOCK_EVENT};
	char digest[32] = "none";
	json_t *o;

	if (s->what == APPLY)
		memcpy(digest, p->loaded.digest, sizeof(digest));
	else if (s->what == CONFIG || s->what == FIRST)
		snprintf(digest, sizeof(digest), "d%d", (int)seq);
	o = json_pack("{s:s,s:I,s:s,s:s,s:I,s:I,s:b}", "event", events[s->what], "at_ns", (json_int_t)(T0 + s->at),
		      "digest", digest, "principal", s->what == APPLY ? "boss" : "joe", "retain_ns",
		      (json_int_t)s->retain, "wait_ns", (json_int_t)s->wait, "first", (int)(s->what == FIRST));
	retention_policy_take(p, ++seq, o);
	json_decref(o);
}

static void run(const char *name, const struct step *s, size_t n)
{
	struct retention_policy p;

	retention_policy_init(&p);
	seq = 0;
	for (size_t i = 0; i < n; i++) {
		if (s[i].what != LOOK) {
			take(&p, &s[i]);
			continue;
		}
		retention_policy_advance(&p, T0 + s[i].at);
		if ((int64_t)p.retain.now != s[i].retain || (int64_t)p.wait.now != s[i].wait ||
		    p.retain.waits != s[i].waits)
			fail_msg("%s, step %zu: retain %lld, wait %lld, waits %d", name, i, (long long)p.retain.now,
				 (long long)p.wait.now, (int)p.retain.waits);
	}
}
#define RUN(name, ...)                                                                                                 \
	do {                                                                                                           \
		const struct step steps[] = {__VA_ARGS__};                                                             \
		run(name, steps, sizeof(steps) / sizeof(steps[0]));                                                    \
	} while (0)

static void tables(void **state)
{
	(void)state;
	RUN("nothing said", {LOOK, 900 * DAY, 0, DAY, false});
	RUN("the first holds at once", {FIRST, 0, DAY, HOUR, 0}, {LOOK, 0, DAY, HOUR, false});
	RUN("an old record waits", {CONFIG, 0, DAY, HOUR, 0}, {LOOK, DAY - 1, 0, DAY, true},
	    {LOOK, DAY, DAY, HOUR, false});
	RUN("first is first only once", {FIRST, 0, 9 * DAY, DAY, 0}, {FIRST, 1, 1, 0, 0},
	    {LOOK, DAY, 9 * DAY, DAY, true}, {LOOK, DAY + 1, 1, 0, false});
	RUN("longer holds at once", {FIRST, 0, DAY, DAY, 0}, {CONFIG, 1, 9 * DAY, DAY, 0},
	    {LOOK, 1, 9 * DAY, DAY, false}, {CONFIG, 2, 0, DAY, 0}, {LOOK, 2, 0, DAY, false});
	RUN("the same again does not begin anew", {FIRST, 0, 0, DAY, 0}, {CONFIG, 0, DAY, DAY, 0},
	    {CONFIG, 23 * HOUR, DAY, DAY, 0}, {LOOK, DAY, DAY, DAY, false});
	RUN("less short keeps the count", {FIRST, 0, 0, DAY, 0}, {CONFIG, 0, DAY, DAY, 0},
	    {CONFIG, 23 * HOUR, 5 * DAY, DAY, 0}, {LOOK, DAY, 5 * DAY, DAY, false});
	RUN("shorter still begins anew", {FIRST, 0, 0, DAY, 0}, {CONFIG, 0, 5 * DAY, DAY, 0},
	    {CONFIG, 23 * HOUR, DAY, DAY, 0}, {LOOK, 46 * HOUR, 0, DAY, true}, {LOOK, 47 * HOUR, DAY, DAY, false});
	RUN("taken back", {FIRST, 0, 0, DAY, 0}, {CONFIG, 0, 1, DAY, 0}, {CONFIG, HOUR, 0, DAY, 0},
	    {LOOK, 9 * DAY, 0, DAY, false});
	RUN("back to what holds", {FIRST, 0, 30 * DAY, DAY, 0}, {CONFIG, 0, 1, DAY, 0},
	    {CONFIG, HOUR, 30 * DAY, DAY, 0}, {CONFIG, 2 * HOUR, 1, DAY, 0}, {LOOK, DAY + HOUR, 30 * DAY, DAY, true},
	    {LOOK, DAY + 2 * HOUR, 1, DAY, false});
	RUN("a shorter wait waits", {FIRST, 0, 0, DAY, 0}, {CONFIG, 0, 0, 0, 0}, {CONFIG, HOUR, 1, 0, 0},
	    {LOOK, DAY, 0, 0, true}, {LOOK, DAY + HOUR, 1, 0, false});
	RUN("both at once wait as one", {FIRST, 0, 0, DAY, 0}, {CONFIG, 0, 1, 0, 0}, {LOOK, DAY - 1, 0, DAY, true},
	    {LOOK, DAY, 1, 0, false});
	RUN("a longer wait holds at once, for what waits too", {FIRST, 0, 0, HOUR, 0}, {CONFIG, 0, 1, HOUR, 0},
	    {CONFIG, 10, 1, DAY, 0}, {LOOK, DAY - 1, 0, DAY, true}, {LOOK, DAY, 1, DAY, false});
	RUN("an admin's word", {FIRST, 0, 0, DAY, 0}, {CONFIG, 0, 1, 7, 0}, {APPLY, 5, 0, 0, 0},
	    {LOOK, 5, 1, 7, false});
	RUN("of another configuration", {FIRST, 0, 0, DAY, 0}, {CONFIG, 0, 1, DAY, 0}, {APPLY_OTHER, 5, 0, 0, 0},
	    {LOOK, 5, 0, DAY, true});
	RUN("no wait at all", {FIRST, 0, 0, 0, 0}, {CONFIG, 1, 1, 0, 0}, {LOOK, 1, 1, 0, false});
	RUN("a clock that ran ahead", {FIRST, 0, 0, DAY, 0}, {CONFIG, 0, 1, DAY, 0}, {CLOCK, 9 * DAY, 0, 0, 0},
	    {LOOK, 9 * DAY, 0, DAY, true}, {LOOK, 10 * DAY - 1, 0, DAY, true}, {LOOK, 10 * DAY, 1, DAY, false});
	RUN("a clock that ran back", {FIRST, 0, 0, DAY, 0}, {CONFIG, 0, 1, DAY, 0}, {LOOK, -9 * DAY, 0, DAY, true},
	    {LOOK, DAY, 1, DAY, false});
}

/* Who and by which configuration: of what holds, not of what waits. */
static void whose_word_holds(void **state)
{
	static const struct step first = {FIRST, 0, 0, DAY, 0}, shorter = {CONFIG, 1, 5, DAY, 0},
				 apply = {APPLY, 2, 0, 0, 0};
	struct retention_policy p;

	(void)state;
	retention_policy_init(&p);
	seq = 0;
	take(&p, &first);
	assert_string_equal(p.retain.source.digest, "d0");
	take(&p, &shorter);
	assert_string_equal(p.retain.source.digest, "d0");
	assert_string_equal(p.retain.next_source.digest, "d1");
	take(&p, &apply);
	assert_string_equal(p.retain.source.digest, "d1");
	assert_string_equal(p.retain.source.by, "boss");
}

/* The log is read again from an earlier place after a crash: what was taken counts once. */
static void events_count_once(void **state)
{
	static const struct step first = {FIRST, 0, 0, DAY, 0}, shorter = {CONFIG, 1, 5, DAY, 0},
				 apply = {APPLY, 2, 0, 0, 0};
	struct retention_policy p, before;

	(void)state;
	retention_policy_init(&p);
	seq = 0;
	take(&p, &first);
	take(&p, &shorter);
	take(&p, &apply);
	before = p;
	seq = 0;
	take(&p, &first);
	take(&p, &shorter);
	assert_memory_equal(&p, &before, sizeof(p));
}

static void what_is_due(void **state)
{
	struct retention_policy p;

	(void)state;
	retention_policy_init(&p);
	assert_false(retention_policy_due(&p, 0, INT64_MAX));
	p.retain.now = (uint64_t)DAY;
	assert_false(retention_policy_due(&p, T0, T0 + DAY));
	assert_true(retention_policy_due(&p, T0, T0 + DAY + 1));
	assert_false(retention_policy_due(&p, T0 + DAY, T0));
}

static void what_is_no_event_changes_nothing(void **state)
{
	static const char *const texts[] = {
	    "{}",
	    "{\"event\":\"config.loaded\"}",
	    "{\"event\":\"config.loaded\",\"at_ns\":5,\"retain_ns\":1}",
	    "{\"event\":\"config.loaded\",\"at_ns\":5,\"retain_ns\":-1,\"wait_ns\":1}",
	    "{\"event\":\"config.loaded\",\"at_ns\":\"5\",\"retain_ns\":1,\"wait_ns\":1}",
	    "{\"event\":\"retention.apply\",\"at_ns\":5}",
	    "{\"event\":7,\"at_ns\":5,\"retain_ns\":1,\"wait_ns\":1,\"first\":true}",
	};
	struct retention_policy p;

	(void)state;
	retention_policy_init(&p);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		json_t *o = NULL;
		assert_int_equal(json_parse(texts[i], strlen(texts[i]), 1000, &o, NULL), 0);
		retention_policy_take(&p, i + 1, o);
		json_decref(o);
		assert_false(p.known);
		assert_int_equal(p.retain.now, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tables),
	    cmocka_unit_test(whose_word_holds),
	    cmocka_unit_test(events_count_once),
	    cmocka_unit_test(what_is_due),
	    cmocka_unit_test(what_is_no_event_changes_nothing),
	};
	return cmocka_run_group_tests_name("retention_policy", tests, NULL, NULL);
}
