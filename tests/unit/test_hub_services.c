// tier: check
/* Services and the hub around them: looks at health that nobody waits for any more, and the hub's end. */
#include "tests/lib/hub_rig.h"

#include "muxd/hub/agent/service_state.h"
#include "muxd/hub/link/agent_link.h"
#include "muxd/hub/services/services.h"

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

static struct service *named(const struct hub *h, const char *name)
{
	struct service *x;

	TAILQ_FOREACH(x, &h->services->all, entry)
	if (strcmp(x->name, name) == 0)
		return x;
	return NULL;
}

static unsigned tries(const struct hub *h)
{
	const struct service *x;
	unsigned n = 0;

	TAILQ_FOREACH(x, &h->services->all, entry)
	n += x->begun;
	return n;
}

static bool all_wait(const struct hub *h)
{
	const struct service *x;

	TAILQ_FOREACH(x, &h->services->all, entry)
	if (x->state != SERVICE_BACKING_OFF)
		return false;
	return true;
}

/* Their time has come. */
static void come_due(struct hub *h)
{
	struct service *x;

	TAILQ_FOREACH(x, &h->services->all, entry)
	x->until_ns = 1;
	services_tick(h);
}

/*
 * A sandbox in which nothing can be begun, with three services: each start that is refused waits twice as long as the
 * one before it, and one of them tries for all. The first refusal of each is told, and no other.
 */
static void starts_that_are_refused_become_seldom(void **state)
{
	struct hub_rig *rig = hub_rig_create(NULL);
	struct hub_client client;
	struct agent *a = begin(rig, &client);
	struct hub *h = rig->hub;
	json_t *list = json_pack("{s:i,s:s,s:s,s:[{s:s,s:[s,s]},{s:s,s:[s,s]},{s:s,s:[s,s]}]}", "version", 2, "set_by",
				 "p", "set_at", "now", "services", "name", "a", "argv", "sleep", "1000", "name", "b",
				 "argv", "sleep", "1000", "name", "c", "argv", "sleep", "1000");
	const struct service *x;
	uint64_t now;

	(void)state;
	h->conf->sessions_max_per_agent = 1; /* the client's own */
	services_configured(h, a->name, list);
	assert_true(hub_until(rig, tries(h) == 3 && all_wait(h)));
	assert_true(hub_until(rig, hub_audited(rig, "service.not_begun") == 3));
	for (unsigned row = 4; row <= 12; row++) {
		come_due(h);
		assert_true(hub_until(rig, tries(h) == row && all_wait(h)));
		services_tick(h); /* who waits for the one that tried waits on */
		assert_int_equal(tries(h), row);
		now = clock_boot_ns();
		TAILQ_FOREACH(x, &h->services->all, entry)
		if (x->put_off == row)
			assert_true(x->until_ns > now + (row < 6 ? 1ull << (row - 2) : 29) * NS_PER_SEC);
	}
	assert_int_equal(hub_audited(rig, "service.not_begun"), 3);
	assert_int_equal(hub_audited(rig, "service.failed"), 0);
	h->conf->sessions_max_per_agent = 10; /* there is room again: the others come as soon as one has begun */
	come_due(h);
	assert_true(hub_until(rig, tries(h) == 13));
	assert_true(hub_until(rig, named(h, "a")->state == SERVICE_HEALTHY || named(h, "b")->state == SERVICE_HEALTHY ||
				       named(h, "c")->state == SERVICE_HEALTHY));
	come_due(h);
	assert_true(hub_until(rig, tries(h) == 15 && hub_audited(rig, "service.healthy") == 3));
	json_decref(list);
	end(rig, &client);
}

/* Told to end while it began, for longer than it has for its end: its time counts from then on, and it is not kept. */
static void one_that_begins_while_it_is_to_end_has_its_time(void **state)
{
	struct hub_rig *rig = hub_rig_create(NULL);
	struct hub_client client;
	struct agent *a = begin(rig, &client);
	struct hub *h = rig->hub;
	json_t *list = json_pack("{s:i,s:s,s:s,s:[{s:s,s:[s,s]}]}", "version", 2, "set_by", "p", "set_at", "now",
				 "services", "name", "a", "argv", "sleep", "1000");
	json_t *none = json_pack("{s:i,s:s,s:s,s:[]}", "version", 3, "set_by", "p", "set_at", "then", "services");
	struct service *x;

	(void)state;
	services_configured(h, a->name, list);
	x = named(h, "a");
	assert_non_null(x);
	services_tick(h);
	assert_true(x->opening);
	services_configured(h, a->name, none);
	assert_int_equal(x->state, SERVICE_ENDING);
	come_due(h);
	assert_true(x->killed && x->opening); /* and there was nobody to kill */
	assert_true(hub_until(rig, !x->opening));
	assert_int_equal(x->state, SERVICE_ENDING);
	assert_false(x->killed);
	assert_true(x->until_ns > clock_boot_ns());
	assert_true(hub_until(rig, !named(h, "a")));
	json_decref(list);
	json_decref(none);
	end(rig, &client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_look_under_way_is_forgotten),
					   cmocka_unit_test(an_exit_for_nobody_is_forgotten),
					   cmocka_unit_test(one_that_begins_while_it_is_to_end_has_its_time),
					   cmocka_unit_test(the_end_is_told_while_services_are_there),
					   cmocka_unit_test(starts_that_are_refused_become_seldom)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
