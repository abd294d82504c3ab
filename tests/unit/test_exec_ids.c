// tier: check
/* Which round an exec_id stands for: found by either id, bounded for an agent and in all, kept while the round runs. */
#include "base/err.h"
#include "muxd/hub/core/exec_ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* Rounds are numbers here; those up to `live` run. */
struct world {
	unsigned live, asked;
	struct exec_ids *x;
};

static struct id session(unsigned n)
{
	struct id id = {{0}};

	for (int i = 0; i < 4; i++)
		id.b[i] = (uint8_t)(n >> (24 - 8 * i));
	return id;
}

static bool is_live(void *arg, const struct id *s)
{
	struct world *w = arg;
	unsigned n = 0;

	for (int i = 0; i < 4; i++)
		n = n << 8 | s->b[i];
	w->asked++;
	return n <= w->live;
}

static void add(struct world *w, const char *agent, unsigned n)
{
	struct id id = session(n);
	char text[16];

	snprintf(text, sizeof(text), "e-%u", n);
	assert_int_equal(exec_ids_add(w->x, agent, "p", text, &(struct exec_use){id, "digest", 0}), 0);
}

static bool known(struct world *w, const char *agent, unsigned n)
{
	struct id id = session(n);
	const struct exec_use *u;
	char text[16];

	snprintf(text, sizeof(text), "e-%u", n);
	u = exec_ids_find(w->x, agent, -1, "p", text);
	assert_int_equal(u != NULL, exec_ids_has_session(w->x, &id, "p"));
	assert_false(exec_ids_has_session(w->x, &id, "other"));
	if (u)
		assert_true(id_equal(&u->session, &id));
	return u != NULL;
}

static void the_oldest_of_an_agent_go(void **state)
{
	struct world w = {0};

	(void)state;
	w.x = exec_ids_create(is_live, &w);
	add(&w, "other", 1);
	for (unsigned n = 2; n < 2 + EXEC_IDS_PER_AGENT + 10; n++)
		add(&w, "demo", n);
	assert_int_equal(exec_ids_count(w.x), EXEC_IDS_PER_AGENT + 1);
	assert_true(known(&w, "other", 1)); /* older, but of another agent */
	for (unsigned n = 2; n < 12; n++)
		assert_false(known(&w, "demo", n));
	assert_true(known(&w, "demo", 12));
	exec_ids_destroy(w.x);
}

static void the_oldest_of_all_go(void **state)
{
	const unsigned agents = 2 * EXEC_IDS_MAX / EXEC_IDS_PER_AGENT;
	struct world w = {0};
	char name[16];

	(void)state;
	w.x = exec_ids_create(is_live, &w);
	for (unsigned n = 1; n <= EXEC_IDS_MAX + 10; n++) {
		snprintf(name, sizeof(name), "a%u", n % agents);
		add(&w, name, n);
	}
	assert_int_equal(exec_ids_count(w.x), EXEC_IDS_MAX);
	for (unsigned n = 1; n <= 12; n++) {
		snprintf(name, sizeof(name), "a%u", n % agents);
		assert_int_equal(known(&w, name, n), n > 10);
	}
	exec_ids_destroy(w.x);
}

/* 500 rounds run while ten times the bound come and go: all stay known, and none is looked at for each of them. */
static void rounds_that_run_stay(void **state)
{
	struct world w = {.live = 500};

	(void)state;
	w.x = exec_ids_create(is_live, &w);
	for (unsigned n = 1; n <= 10 * EXEC_IDS_PER_AGENT; n++)
		add(&w, "demo", n);
	assert_int_equal(exec_ids_count(w.x), EXEC_IDS_PER_AGENT);
	for (unsigned n = 1; n <= 500; n++)
		assert_true(known(&w, "demo", n));
	assert_true(w.asked < 11 * EXEC_IDS_PER_AGENT);
	exec_ids_destroy(w.x);
}

static void a_day_later(void **state)
{
	uint64_t begun = clock_boot_ns(), day;
	struct world w = {.live = 2};

	(void)state;
	w.x = exec_ids_create(is_live, &w);
	for (unsigned n = 1; n <= 20000; n++)
		add(&w, "demo", n);
	day = clock_boot_ns() + EXEC_IDS_KEPT_NS + NS_PER_SEC; /* of the last one */
	exec_ids_expire(w.x, begun + EXEC_IDS_KEPT_NS - NS_PER_SEC);
	assert_int_equal(exec_ids_count(w.x), 20000);
	exec_ids_expire(w.x, day);
	assert_true(exec_ids_count(w.x) > 10000); /* not all in one turn */
	for (int i = 0; i < 20; i++)
		exec_ids_expire(w.x, day);
	assert_int_equal(exec_ids_count(w.x), 2); /* a round that runs longer than a day is not started again */
	assert_true(known(&w, "demo", 1) && known(&w, "demo", 2));
	w.live = 0;
	exec_ids_expire(w.x, day + EXEC_IDS_KEPT_NS);
	assert_int_equal(exec_ids_count(w.x), 0);
	exec_ids_destroy(w.x);
}

/* The record tells everything again when the recorder comes back, and an id may have been used twice. */
static void told_again(void **state)
{
	struct id older = session(7), newer = session(8);
	struct world w = {0};

	(void)state;
	w.x = exec_ids_create(is_live, &w);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(exec_ids_add(w.x, "demo", "p", "once", &(struct exec_use){older, "a", 0}), 0);
		assert_int_equal(exec_ids_add(w.x, "demo", "p", "once", &(struct exec_use){newer, "b", 0}), 0);
	}
	assert_int_equal(exec_ids_count(w.x), 1);
	assert_true(id_equal(&exec_ids_find(w.x, "demo", -1, "p", "once")->session, &newer));
	assert_string_equal(exec_ids_find(w.x, "demo", -1, "p", "once")->digest, "b");
	assert_false(exec_ids_has_session(w.x, &older, "p"));
	assert_true(exec_ids_has_session(w.x, &newer, "p"));
	assert_null(exec_ids_find(w.x, "demo", -1, "p2", "once"));
	exec_ids_destroy(w.x);
}

/* An agent was wiped, and somebody made it anew: nothing of what ran before is a round of its. */
static void another_life(void **state)
{
	struct id first = session(7), unknown = session(8), second = session(6); /* the clock was set back */
	struct world w = {0};

	(void)state;
	w.x = exec_ids_create(is_live, &w);
	assert_int_equal(exec_ids_add(w.x, "demo", "p", "once", &(struct exec_use){first, "a", 1000}), 0);
	assert_int_equal(exec_ids_add(w.x, "demo", "p", "old", &(struct exec_use){unknown, "a", 0}), 0);
	assert_non_null(exec_ids_find(w.x, "demo", 1000, "p", "once"));
	assert_non_null(exec_ids_find(w.x, "demo", -1, "p", "once")); /* control.db could not be read */
	assert_null(exec_ids_find(w.x, "demo", 0, "p", "once"));      /* wiped */
	assert_int_equal(exec_ids_add(w.x, "demo", "p", "once", &(struct exec_use){second, "b", 2000}), 0);
	assert_true(id_equal(&exec_ids_find(w.x, "demo", 2000, "p", "once")->session, &second));
	assert_null(exec_ids_find(w.x, "demo", 3000, "p", "once"));
	/* Of what was recorded before lives were, it is not known: it never runs twice. */
	assert_non_null(exec_ids_find(w.x, "demo", 2000, "p", "old"));
	exec_ids_destroy(w.x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_oldest_of_an_agent_go),
	    cmocka_unit_test(the_oldest_of_all_go),
	    cmocka_unit_test(rounds_that_run_stay),
	    cmocka_unit_test(a_day_later),
	    cmocka_unit_test(told_again),
	    cmocka_unit_test(another_life),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
