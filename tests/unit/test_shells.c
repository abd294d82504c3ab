// tier: check
/* Which shells there are: one round at a time, what counts of what was written, a bounded number, and a restart. */
#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/session/shells.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct shell_owner me = {"agent", "p"}, other = {"agent", "q"};
static const struct id box = {{1}}, box2 = {{2}};

static struct id number(unsigned n)
{
	struct id id = {{0, (uint8_t)(n >> 8), (uint8_t)n}};

	return id;
}

static struct shell_use use(const char *name)
{
	struct shell_use u = {0};

	text_put(u.name, sizeof(u.name), name);
	return u;
}

static struct shell_use begun(struct shells *x, const char *name, const struct id *sandbox, unsigned n, bool anew)
{
	struct shell_use u = use(name);
	struct id session = number(n);

	u.anew = anew;
	assert_int_equal(shells_enter(x, &me, sandbox, &u, NULL), 0);
	assert_int_equal(shells_begin(x, &me, sandbox, &u, &session), 0);
	return u;
}

static void settle(struct shells *x, const char *name, unsigned n, bool kept)
{
	struct id session = number(n);

	shells_settle(x, &me, name, &session, kept);
}

static void one_round_at_a_time(void **state)
{
	struct shells *x = shells_create();
	struct shell_use u = begun(x, "a", &box, 1, false), v = use("a");
	struct err e = {0};

	(void)state;
	assert_true(u.fresh && u.from == 0 && u.to == 1);
	assert_int_equal(shells_enter(x, &me, &box, &v, &e), ERR_SHELL_BUSY);
	assert_non_null(strstr(e.message, "00000100"));
	assert_int_equal(shells_forget(x, &me, "a", NULL), ERR_SHELL_BUSY);
	assert_int_equal(shells_enter(x, &other, &box, &v, NULL), 0);
	assert_true(v.fresh && !id_equal(&v.id, &u.id));
	settle(x, "a", 9, true); /* another round's end */
	assert_int_equal(shells_enter(x, &me, &box, &v, NULL), ERR_SHELL_BUSY);
	settle(x, "a", 1, true);
	v = begun(x, "a", &box, 2, false);
	assert_true(!v.fresh && v.from == 1 && v.to == 2 && id_equal(&v.id, &u.id));
	shells_destroy(x);
}

static void what_did_not_end_by_itself_counts_not(void **state)
{
	struct shells *x = shells_create();
	struct shell_use u;

	(void)state;
	begun(x, "a", &box, 1, false);
	settle(x, "a", 1, false);
	u = begun(x, "a", &box, 2, false);
	assert_true(u.fresh && u.to == 2);
	settle(x, "a", 2, true);
	begun(x, "a", &box, 3, false);
	settle(x, "a", 3, false);
	u = begun(x, "a", &box, 4, true);
	assert_true(u.fresh && u.from == 2 && u.to == 4); /* what is there stays until this one has ended by itself */
	settle(x, "a", 4, false);
	u = begun(x, "a", &box, 5, false);
	assert_true(!u.fresh && u.from == 2);
	shells_destroy(x);
}

static void a_sandbox_takes_its_shells_along(void **state)
{
	struct shells *x = shells_create();
	struct shell_use u = use("a");
	struct err e = {0};

	(void)state;
	begun(x, "a", &box, 1, false);
	settle(x, "a", 1, true);
	assert_true(shells_kept_in(x, &me, "a", &box) && !shells_kept_in(x, &me, "a", &box2));
	for (int i = 0; i < 2; i++)
		assert_int_equal(shells_enter(x, &me, &box2, &u, &e), ERR_SHELL_ENDED);
	u = begun(x, "a", &box2, 2, true);
	assert_true(u.fresh && u.from == 0);
	settle(x, "a", 2, true);
	u = begun(x, "a", &box2, 3, false);
	assert_true(!u.fresh && u.from == 2);
	shells_destroy(x);
}

static void there_is_room_for_so_many(void **state)
{
	struct shells *x = shells_create();
	struct shell_use u;
	char name[16];
	json_t *list;

	(void)state;
	for (unsigned i = 0; i < SHELLS_PER_OWNER; i++) {
		snprintf(name, sizeof(name), "s%02u", i);
		begun(x, name, &box, i + 1, false);
		settle(x, name, i + 1, true);
	}
	u = use("more");
	assert_int_equal(shells_enter(x, &me, &box, &u, NULL), ERR_LIMIT);
	assert_int_equal(shells_enter(x, &other, &box, &u, NULL), 0);
	list = shells_list(x, &me, &box2);
	assert_int_equal(json_array_size(list), SHELLS_PER_OWNER);
	assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "name")), "s01");
	assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "state")), "ended");
	json_decref(list);
	assert_int_equal(shells_forget(x, &me, "s05", NULL), 0);
	assert_int_equal(shells_enter(x, &me, &box, &u, NULL), 0);
	shells_destroy(x);
}

/* Names below a principal's own are made without end: together they have half of the room, and others the rest. */
static void principals_of_one_root_share(void **state)
{
	struct shells *x = shells_create();
	struct shell_owner o = {.agent = "demo"}, apart = {.agent = "demo", .principal = "cia"};
	struct err e = {0};
	struct shell_use u;
	char principal[16], name[16];
	struct id session;

	(void)state;
	o.principal = principal;
	for (unsigned i = 0; i <= SHELLS_SHARE; i++) {
		snprintf(principal, sizeof(principal), "ci/%u", i / SHELLS_PER_OWNER);
		snprintf(name, sizeof(name), "s%u", i % SHELLS_PER_OWNER);
		u = use(name);
		session = number(i + 1);
		assert_int_equal(shells_enter(x, &o, &box, &u, &e), i < SHELLS_SHARE ? 0 : ERR_LIMIT);
		if (i < SHELLS_SHARE)
			assert_int_equal(shells_begin(x, &o, &box, &u, &session), 0);
	}
	assert_non_null(strstr(e.message, "ci, and principals made from it, have 5000 shells"));
	assert_int_equal(shells_enter(x, &apart, &box, &u, &e), 0);
	shells_destroy(x);
}

/* The record tells rounds in any order: the newest is what counts, and an end stays one. */
static void a_restart_knows_the_newest(void **state)
{
	struct shells *x = shells_create(), *y = shells_create();
	struct shell_use u[3], end = use("a"), read, v = use("a");
	struct id at[4] = {number(1), number(2), number(3), number(4)};
	json_t *o;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		u[i] = begun(x, "a", &box, i + 1, false);
		settle(x, "a", i + 1, true);
	}
	o = shell_use_json(&u[2]);
	assert_int_equal(shell_use_read(o, &read), 0);
	assert_true(read.from == 2 && read.to == 3 && !read.fresh && id_equal(&read.id, &u[0].id));
	json_decref(o);
	assert_int_equal(shells_begin(y, &me, &box, &read, &at[2]), 0); /* it runs */
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(shells_begin(y, &me, &box, &u[i], &at[i]), 0);
		shells_settle(y, &me, "a", &at[i], true);
	}
	assert_int_equal(shells_enter(y, &me, &box, &v, NULL), ERR_SHELL_BUSY);
	shells_settle(y, &me, "a", &at[2], false);
	assert_int_equal(shells_enter(y, &me, &box, &v, NULL), 0);
	assert_int_equal(v.from, 2);
	end.end = true;
	assert_int_equal(shells_enter(y, &me, &box, &end, NULL), 0);
	assert_int_equal(shells_begin(y, &me, &box, &end, &at[3]), 0);
	shells_settle(y, &me, "a", &at[3], true);
	assert_int_equal(shells_begin(y, &me, &box, &u[1], &at[1]), 0);
	end = use("a");
	end.end = true;
	assert_int_equal(shells_enter(y, &me, &box, &end, NULL), ERR_NOT_FOUND);
	assert_int_equal(shells_forget(y, &me, "a", NULL), ERR_NOT_FOUND);
	shells_destroy(x);
	shells_destroy(y);
}

static void bad_records_and_names(void **state)
{
	static const char *const bad[] = {
	    "{}",
	    "{\"name\":\"a\"}",
	    "{\"name\":\"../x\",\"id\":\"0193aaaa-0000-7000-8000-000000000001\",\"from\":0,\"to\":1}",
	    "{\"name\":\"a\",\"id\":\"x\",\"from\":0,\"to\":1}",
	    "{\"name\":\"a\",\"id\":\"0193aaaa-0000-7000-8000-000000000001\",\"from\":-1,\"to\":1}",
	    "{\"name\":\"a\",\"id\":\"0193aaaa-0000-7000-8000-000000000001\",\"from\":0,\"to\":0}"};
	static const char *const names[] = {"", ".", "-a", "a/b", "a b", "\xc3\xa9", "x\n"};
	struct shell_use u;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		json_t *o = NULL;

		assert_int_equal(json_parse(bad[i], strlen(bad[i]), 4096, &o, NULL), 0);
		assert_int_equal(shell_use_read(o, &u), ERR_INVAL);
		json_decref(o);
	}
	assert_int_equal(shell_use_read(NULL, &u), ERR_INVAL);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(shell_name_check("it", names[i], NULL), ERR_INVAL);
	assert_int_equal(shell_name_check("it", "build-1.x_y", NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_round_at_a_time),
	    cmocka_unit_test(what_did_not_end_by_itself_counts_not),
	    cmocka_unit_test(a_sandbox_takes_its_shells_along),
	    cmocka_unit_test(there_is_room_for_so_many),
	    cmocka_unit_test(principals_of_one_root_share),
	    cmocka_unit_test(a_restart_knows_the_newest),
	    cmocka_unit_test(bad_records_and_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
