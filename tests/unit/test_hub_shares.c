// tier: check
/* The record's share of an agent counts more than streams of its sessions: requests to MCP servers inside, which are
 * rounds of the record and no sessions, and events. A request of an agent whose share is used up is refused ahead of
 * its first byte in the record; staff's are not. */
#include "muxd/hub/inside/inside_record.h"
#include "muxd/hub/record/record_share.h"
#include "tests/lib/hub_rig.h"

#define BODY 30000

struct world {
	struct hub_rig *r;
	struct hub_client c;
	struct request rq;
	char params[BODY + 1];
};

static void world_begin(struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->r = hub_rig_create(NULL);
	w->rq = hub_request();
	w->rq.grant.kind = GRANT_AGENT;
	memset(w->params, 'x', BODY);
	hub_ask(w->r, &w->c, SESSION_TERMINAL, "read x", &w->rq);
	assert_true(hub_until(w->r, w->c.opened));
	assert_int_equal(w->c.rc, 0);
}

static void world_end(struct world *w)
{
	client_leaves(&w->c);
	buf_finish(&w->c.got);
	hub_rig_destroy(w->r);
}

static uint64_t added(const struct world *w)
{
	const struct share *s = share_find(w->r->hub->shares, CONF_SHARE_AGENT, "box");

	return s ? share_day_sum(&s->record, clock_boot_ns()) : 0;
}

/* A request with an answer as long as itself; sent: into the sandbox. */
static int request(struct world *w, bool sent, struct err *e)
{
	struct inside_facts f = {.rq = &w->rq,
				 .agent = w->c.s->agent,
				 .server = "s",
				 .method = "tools/call",
				 .task = "test",
				 .sandbox = sent ? &w->rq.id : NULL,
				 .program = sent ? &w->rq.id : NULL,
				 .sent_digest = "",
				 .params = w->params};
	struct inside_record record = {0};
	int rc = inside_record_begin(w->r->hub, &f, &record, e);

	inside_record_end(w->r->hub, &f, &record, &(struct inside_end){.answer = w->params});
	hub_record(w->r);
	return rc;
}

static void requests_to_servers_inside_are_of_the_share(void **state)
{
	struct world w;
	struct err e = {0};
	uint64_t before;
	unsigned asked;

	(void)state;
	world_begin(&w);
	before = added(&w);
	assert_int_equal(request(&w, false, &e), 0);
	assert_int_equal(added(&w) - before, RECORD_SHARE_COST + 2 * BODY);
	before = added(&w);
	assert_int_equal(request(&w, true, &e), 0); /* its server's streams have them again */
	assert_int_equal(added(&w) - before, RECORD_SHARE_COST + 4 * BODY);
	w.r->hub->conf->share_record = before = added(&w);
	asked = hub_audited(w.r, "mcp.request");
	assert_int_equal(request(&w, true, &e), ERR_RECORD_SHARE);
	assert_string_equal(e.share.limit, "shares.record_per_agent");
	assert_int_equal(hub_audited(w.r, "mcp.request"), asked);
	assert_int_equal(added(&w), before);
	w.rq.grant.kind = GRANT_STAFF;
	assert_int_equal(request(&w, true, &e), 0);
	assert_int_equal(added(&w), before);
	world_end(&w);
}

/* A profile's limit reads how many a task made in the last minute. */
static void requests_are_counted_for_a_minute(void **state)
{
	struct share_day d = {0};
	struct world w;

	(void)state;
	world_begin(&w);
	for (int i = 0; i < 3; i++)
		assert_int_equal(request(&w, false, NULL), 0);
	assert_int_equal(
	    share_minute_sum(&share_find(w.r->hub->shares, CONF_SHARE_TASK, "test")->requests, clock_boot_ns()), 3);
	world_end(&w);
	share_minute_add(&d, 10, 1000 * NS_PER_SEC);
	assert_int_equal(share_minute_sum(&d, 1059 * NS_PER_SEC), 10);
	assert_int_equal(share_minute_sum(&d, 1090 * NS_PER_SEC), 5);
	assert_int_equal(share_minute_sum(&d, 1121 * NS_PER_SEC), 0);
}

static void sizes_and_events_are_of_the_share(void **state)
{
	struct world w;
	uint64_t before;

	(void)state;
	world_begin(&w);
	before = added(&w);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(session_resize(w.c.s, NULL, 81 + i, 24, 0, 0), 0);
	assert_true(added(&w) - before >= 100 * 8);
	before = added(&w);
	session_event(w.c.s, "test", json_pack("{s:s}", "text", w.params));
	assert_in_range(added(&w) - before, BODY, BODY + 100);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(requests_to_servers_inside_are_of_the_share),
	    cmocka_unit_test(requests_are_counted_for_a_minute),
	    cmocka_unit_test(sizes_and_events_are_of_the_share),
	};
	return cmocka_run_group_tests_name("hub_shares", tests, NULL, NULL);
}
