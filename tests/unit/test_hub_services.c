// tier: check
/* Services and the hub around them: looks at health that nobody waits for any more, and the hub's end. */
#include "tests/lib/hub_rig.h"

#include "muxd/hub/agent.h"
#include "muxd/hub/service_state.h"

static const struct link_channel *on_link(const struct agent *a, uint32_t channel)
{
	struct link_channel *c = NULL;

	HASH_FIND(hh, a->link->channels, &channel, sizeof(channel), c);
	return c;
}

static struct agent *begin(struct hub_rig *rig, struct hub_client *client)
{
	struct agent *a;

	hub_open(rig, client, SESSION_EXEC, "read x");
	a = agent_find(rig->hub, "box");
	assert_non_null(a);
	return a;
}

static void end(struct hub_rig *rig, struct hub_client *client)
{
	attachment_detach(client->a);
	buf_finish(&client->got);
	hub_rig_destroy(rig);
}

/* Its service ended while muxlet looked: muxlet is told to keep nothing of that. */
static void a_look_under_way_is_forgotten(void **state)
{
	struct hub_rig *rig = hub_rig_create(NULL);
	struct hub_client client;
	struct agent *a = begin(rig, &client);
	struct service x = {
	    .hub = rig->hub, .agent = "box", .state = SERVICE_WARMING, .def = {.port = 1, .timeout_ms = 1000}};
	const struct link_channel *c;
	uint32_t channel;

	(void)state;
	service_probe(&x, a, clock_boot_ns());
	channel = x.probe.channel;
	assert_int_not_equal(channel, 0);
	service_probe_reset(&x);
	c = on_link(a, channel);
	assert_non_null(c);
	assert_true(c->forgotten);
	end(rig, &client);
}

/* An exit that comes when whoever opened the channel has let go of it is not kept either. */
static void an_exit_for_nobody_is_forgotten(void **state)
{
	struct hub_rig *rig = hub_rig_create(NULL);
	struct hub_client client;
	struct agent *a = begin(rig, &client);
	struct service x = {
	    .hub = rig->hub, .agent = "box", .state = SERVICE_WARMING, .def = {.port = 1, .timeout_ms = 1000}};
	uint32_t channel;

	(void)state;
	service_probe(&x, a, clock_boot_ns());
	channel = x.probe.channel;
	service_probe_lost(&x);
	assert_true(hub_until(rig, !on_link(a, channel)));
	end(rig, &client);
}

struct asker {
	struct hub *hub;
	int told, rc;
	bool services;
};

static void on_ready(void *arg, int rc, const struct err *e)
{
	struct asker *k = arg;

	(void)e;
	k->told++;
	k->rc = rc;
	k->services = k->hub->services;
}

/* A caller that waits for a sandbox as the hub ends may be a service: those are there still when it is told. */
static void the_end_is_told_while_services_are_there(void **state)
{
	struct hub_rig *rig = hub_rig_create(NULL);
	struct asker k = {.hub = rig->hub};
	struct agent *a = agent_get(rig->hub, "other");

	(void)state;
	assert_non_null(a);
	agent_need(a, on_ready, &k);
	assert_int_equal(k.told, 0);
	hub_rig_destroy(rig);
	assert_int_equal(k.told, 1);
	assert_int_equal(k.rc, ERR_CANCELLED);
	assert_true(k.services);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_look_under_way_is_forgotten),
					   cmocka_unit_test(an_exit_for_nobody_is_forgotten),
					   cmocka_unit_test(the_end_is_told_while_services_are_there)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
