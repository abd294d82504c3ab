// tier: check
/*
 * A muxlet that does not watch for silence (an older one, or none in a pod of others): then the hub ends what has
 * fallen silent, with the same cause; what speaks, and what cannot be heard, it leaves alone.
 */
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/agent/quiesce.h"

#include <stdbool.h>

static bool stands_still;

/* In place of the product's: nothing here takes a snapshot. */
bool quiesce_stills(const struct agent *a)
{
	(void)a;
	return stands_still;
}

#include "tests/lib/hub_rig.h"

static json_t *cause_of(const struct hub_rig *r, size_t i)
{
	return json_object_get(json_array_get(r->exits, i), "cause");
}

static void run(struct hub_rig *r, struct hub_client *c, const char *command, uint64_t idle_ns)
{
	struct exec_spec spec = {.kind = SESSION_ROUND,
				 .agent = "box",
				 .command = command,
				 .idle_ns = idle_ns,
				 .head = UINT64_MAX,
				 .tail = UINT64_MAX};
	struct request rq = hub_request();

	memset(c, 0, sizeof(*c));
	broker_open(r->hub, &rq, &spec, NULL, NULL, client_opened, c);
	assert_true(hub_until(r, c->opened));
	assert_int_equal(c->rc, 0);
}

/* As if its muxlet had never said that it watches. */
static void start(struct hub_rig *r, struct hub_client *c, const char *command)
{
	run(r, c, "true", 0);
	assert_true(hub_until(r, json_array_size(r->exits) == 1));
	agent_find(r->hub, "box")->link->features &= ~(uint64_t)FEATURE_IDLE;
	run(r, c, command, 700 * NS_PER_MS);
}

static void the_hub_ends_what_is_silent(void **state)
{
	struct hub_rig *r = hub_rig_create(NULL);
	struct hub_client c;

	(void)state;
	start(r, &c, "echo once; sleep 100");
	assert_true(hub_until(r, json_array_size(r->exits) == 2));
	assert_string_equal(json_string_value(cause_of(r, 1)), "idle_timeout");
	assert_string_equal(json_string_value(json_object_get(json_array_get(r->exits, 1), "message")),
			    "no output for 700ms");
	hub_rig_destroy(r);
}

static void what_speaks_goes_on(void **state)
{
	struct hub_rig *r = hub_rig_create(NULL);
	struct hub_client c;

	(void)state;
	start(r, &c, "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.25; done");
	assert_true(hub_until(r, json_array_size(r->exits) == 2));
	assert_string_equal(json_string_value(cause_of(r, 1)), "exit");
	hub_rig_destroy(r);
}

static void who_stands_still_is_not_silent(void **state)
{
	struct hub_rig *r = hub_rig_create(NULL);
	uint64_t until = clock_boot_ns() + 1800 * NS_PER_MS;
	struct hub_client c;

	(void)state;
	stands_still = true;
	start(r, &c, "sleep 100");
	(void)hub_until(r, clock_boot_ns() >= until);
	assert_int_equal(json_array_size(r->exits), 1);
	stands_still = false;
	assert_true(hub_until(r, json_array_size(r->exits) == 2));
	assert_string_equal(json_string_value(cause_of(r, 1)), "idle_timeout");
	hub_rig_destroy(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_hub_ends_what_is_silent),
	    cmocka_unit_test(what_speaks_goes_on),
	    cmocka_unit_test(who_stands_still_is_not_silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
