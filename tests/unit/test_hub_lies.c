// tier: check
/* A muxlet that lies: whoever broke out of his programs speaks for it. What it says is about its own sandbox alone. */
#include "tests/lib/said_let.h"

#include "muxd/hub/agent/agent.h"

static void begin(struct hub_rig **r, struct said_let **let)
{
	*r = hub_rig_create(NULL);
	*let = said_create(*r);
}

static void end(struct hub_rig *r, struct said_let *let)
{
	hub_rig_destroy(r);
	said_destroy(let);
}

/* Why a start failed is told by a word: none of them is an error of the API. */
static void an_error_of_the_daemon_is_not_named_from_inside(void **state)
{
	static const struct {
		const char *where;
		int rc;
	} rows[] = {{"disk_full", ERR_SANDBOX_CREATE},          {"unauthenticated", ERR_SANDBOX_CREATE},
		    {"record_unavailable", ERR_SANDBOX_CREATE}, {"no_shell", ERR_SANDBOX_CREATE},
		    {"limit_reached", ERR_SANDBOX_CREATE},      {"pipe", ERR_SANDBOX_CREATE}};
	struct said_let *let;
	struct hub_client c;
	struct hub_rig *r;

	(void)state;
	begin(&r, &let);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		let->refuses = rows[i].where;
		hub_ask(r, &c, SESSION_EXEC, "true", NULL);
		assert_true(hub_until(r, (said_turn(let), c.opened)));
		if (c.rc != rows[i].rc)
			fail_msg("%s: %s, %s", rows[i].where, err_name(c.rc), c.why);
		let->channel = 0;
		buf_finish(&c.got);
	}
	end(r, let);
}

/* The next channel would be 0, which is none: such a list is believed by nobody, and its sandbox is ended. */
static void a_channel_is_not_counted_past_its_end(void **state)
{
	struct said_let *let;
	struct hub_client c;
	struct hub_rig *r;

	(void)state;
	begin(&r, &let);
	let->channel = UINT32_MAX;
	hub_ask(r, &c, SESSION_EXEC, "true", NULL);
	assert_true(hub_until(r, (said_turn(let), hub_audited(r, "sandbox.cut") == 1)));
	assert_true(agent_find(r->hub, "box")->next_channel < 10);
	let->channel = 0;
	assert_true(hub_until(r, (said_turn(let), c.opened)));
	if (c.a)
		attachment_detach(c.a);
	buf_finish(&c.got);
	end(r, let);
}

/* The last channel that there can be is one, so that is no lie: what it costs is no later link, and no later sandbox.
 */
static void the_last_channel_is_followed_by_the_first(void **state)
{
	struct said_let *let;
	struct hub_client c;
	struct hub_rig *r;
	uint32_t opened;

	(void)state;
	begin(&r, &let);
	let->channel = LINK_CHANNEL_MAX;
	hub_ask(r, &c, SESSION_TERMINAL, "true", NULL);
	assert_true(hub_until(r, (said_turn(let), c.opened)));
	opened = let->channel;
	assert_in_range(opened, 1, 10);
	close(let->fd); /* the link breaks, and comes again: its LIST has what was opened */
	let->fd = -1;
	assert_true(hub_until(r, (said_turn(let), let->live)));
	assert_int_equal(let->channel, opened);
	assert_int_equal(hub_audited(r, "sandbox.cut"), 0);
	attachment_detach(c.a);
	buf_finish(&c.got);
	end(r, let);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(an_error_of_the_daemon_is_not_named_from_inside),
					   cmocka_unit_test(a_channel_is_not_counted_past_its_end),
					   cmocka_unit_test(the_last_channel_is_followed_by_the_first)};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
