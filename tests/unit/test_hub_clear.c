// tier: check
/* Everything inside ends by muxlet's word alone: where muxlet does not run, that is refused and ends nothing. */
#include "tests/lib/hub_rig.h"

#include "muxd/hub/link/agent_link.h"

struct answer {
	unsigned times;
	int rc;
	struct err e;
};

static void answered(void *arg, int rc, const struct err *e, unsigned ended)
{
	struct answer *a = arg;

	a->times++;
	a->rc = rc;
	a->e = *e;
	assert_int_equal(ended, 0);
}

static void over_plain_exec_it_is_refused_and_nothing_ends(void **state)
{
	struct hub_rig *rig = hub_rig_create(NULL);
	struct hub_client client;
	struct answer got = {0};
	struct agent *agent;

	(void)state;
	hub_open(rig, &client, SESSION_EXEC, "read x");
	agent = agent_find(rig->hub, "box");
	assert_non_null(agent);
	agent->info.backend = SANDBOX_PLAIN;
	agent_clear(agent, "test", NS_PER_SEC, answered, &got);
	assert_int_equal(got.times, 1);
	assert_int_equal(got.rc, ERR_UNSUPPORTED);
	assert_non_null(strstr(got.e.message, "box: muxlet does not run there (plain); end its sessions"));
	assert_false(client.s->killing);
	assert_null(agent->clearing);
	agent->info.backend = SANDBOX_LOCAL;
	attachment_detach(client.a);
	buf_finish(&client.got);
	hub_rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(over_plain_exec_it_is_refused_and_nothing_ends)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
