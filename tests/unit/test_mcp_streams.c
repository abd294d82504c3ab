// tier: check
/*
 * Streams of MCP: what nobody listens to gives way, and one principal, whatever names it makes, has half of the room,
 * so that it shuts nobody out.
 */
#include "tests/lib/fake_broker.c"

#include "muxd/doors/https/mcp/asking.h"
#include "muxd/doors/https/mcp/stream.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct {
	uv_loop_t loop;
	struct hub *hub;
	struct mcp_streams *streams;
	struct mcp_askings *askings;
	struct mcp_session session;
} fx;

static struct http_exchange *caller(const char *principal)
{
	struct http_exchange *x = NULL;

	assert_int_equal(http_exchange_create(fx.hub, 1000, &x), 0);
	x->authenticated = true;
	snprintf(x->rq.grant.principal, sizeof(x->rq.grant.principal), "%s", principal);
	return x;
}

/* The answer to a call of the old era. */
static int open_stream(struct http_exchange *x, struct mcp_stream **out)
{
	json_t *id = json_integer(1);
	struct mcp_stream_ask ask = {.x = x, .session = &fx.session, .id = id};
	int rc = mcp_stream_open(fx.streams, &ask, out);

	json_decref(id);
	return rc;
}

static void who_does_not_listen_gives_way(void **state)
{
	struct http_exchange *heard[MCP_STREAMS_SHARE], *x;
	struct mcp_stream *s;
	char name[16];

	(void)state;
	for (unsigned i = 0; i < 2 * MCP_STREAMS_MAX; i++) {
		snprintf(name, sizeof(name), i % 2 ? "ci" : "ci/%u", i);
		x = caller(name);
		assert_int_equal(open_stream(x, &s), 0);
		http_exchange_destroy(x); /* it has left, and its call runs */
	}
	for (unsigned i = 0; i < MCP_STREAMS_SHARE; i++) {
		heard[i] = caller("other");
		assert_int_equal(open_stream(heard[i], &s), 0);
	}
	x = caller("ci");
	assert_int_equal(open_stream(x, &s), 0);
	http_exchange_destroy(x);
	for (unsigned i = 0; i < MCP_STREAMS_SHARE; i++) {
		assert_false(heard[i]->stream_broken);
		http_exchange_destroy(heard[i]);
	}
}

static void one_principal_has_half_of_the_room(void **state)
{
	struct http_exchange *heard[MCP_STREAMS_SHARE], *more = caller("bo/2"), *x = caller("ann");
	struct mcp_stream *s;

	(void)state;
	for (unsigned i = 0; i < MCP_STREAMS_SHARE; i++) {
		heard[i] = caller(i % 2 ? "bo" : "bo/1");
		assert_int_equal(open_stream(heard[i], &s), 0);
	}
	assert_int_equal(open_stream(more, &s), ERR_LIMIT);
	mcp_stream_refuse(more, ERR_LIMIT);
	assert_int_equal(more->status, 429);
	assert_non_null(strstr(buf_cstr(&more->out), "512 are one principal's share"));
	assert_int_equal(open_stream(x, &s), 0);
	http_exchange_destroy(heard[0]);
	heard[0] = caller("bo");
	assert_int_equal(open_stream(heard[0], &s), 0);
	for (unsigned i = 0; i < MCP_STREAMS_SHARE; i++)
		http_exchange_destroy(heard[i]);
	http_exchange_destroy(more);
	http_exchange_destroy(x);
}

/* Calls as this test plays them: each is done when the test says so. */
static struct {
	const struct mcp_call_ops *ops;
	void *arg;
} called;

int mcp_call_begin(const struct mcp_caller *who, const struct mcp_wish *w, const struct mcp_call_ops *ops, void *arg,
		   struct mcp_call **out)
{
	(void)who, (void)w, (void)out;
	called.ops = ops;
	called.arg = arg;
	return 0;
}

static void answer(struct http_exchange *x, size_t bytes)
{
	struct mcp_stream *s;
	char *text = malloc(bytes + 1);

	memset(text, 'x', bytes);
	text[bytes] = '\0';
	assert_int_equal(open_stream(x, &s), 0);
	assert_int_equal(mcp_stream_call(s, NULL, NULL), 0);
	called.ops->done(called.arg, &(struct mcp_outcome){.result = json_pack("{s:s}", "text", text)});
	free(text);
}

static bool is_refused(struct http_exchange *x)
{
	char text[1024] = "";

	x->flow->give(x, (uint8_t *)text, sizeof(text) - 1);
	return strstr(text, "answers wait to be read") != NULL;
}

/* Answers wait in memory for who reads: so many of one principal's, under all of its names. */
static void answers_that_are_not_read_have_a_share(void **state)
{
	const size_t big = 10 << 20; /* held twice, as the stream's and for who comes back: in 16 MiB and 10 */
	struct http_exchange *x[6] = {0};

	(void)state;
	for (unsigned i = 0; i < 6; i++)
		x[i] = caller(i == 5 ? "ann" : i % 2 ? "bo" : "bo/1");
	for (unsigned i = 0; i < 3; i++)
		answer(x[i], big);
	answer(x[3], 1000);
	answer(x[4], big);
	answer(x[5], big);
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(is_refused(x[i]), i == 4);
		http_exchange_destroy(x[i]);
	}
}

/* A parent's answer takes the room that a grant below has filled. */
static void a_child_uses_up_nothing_of_its_parent(void **state)
{
	static const struct id parent = {{1}};
	struct http_exchange *child[3], *x = caller("bo");

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		child[i] = caller("bo/1");
		child[i]->rq.grant.id = (struct id){{2}};
		child[i]->rq.grant.kin = (struct grant_kin){.above = {parent}, .depth = 1};
		answer(child[i], 10 << 20);
	}
	x->rq.grant.id = parent;
	answer(x, 10 << 20);
	assert_false(is_refused(x));
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(child[i]->stream_broken, i == 0); /* the one that began first */
	for (unsigned i = 0; i < 3; i++)
		http_exchange_destroy(child[i]);
	http_exchange_destroy(x);
}

static int setup(void **state)
{
	(void)state;
	uv_loop_init(&fx.loop);
	fx.hub = fake_hub_create(&fx.loop);
	return mcp_askings_create(&fx.askings) || mcp_streams_create(fx.hub, fx.askings, &fx.streams);
}

static int teardown(void **state)
{
	(void)state;
	mcp_streams_close(fx.streams);
	mcp_askings_close(fx.askings);
	uv_run(&fx.loop, UV_RUN_DEFAULT);
	fake_hub_destroy(fx.hub);
	return uv_loop_close(&fx.loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(who_does_not_listen_gives_way, setup, teardown),
	    cmocka_unit_test_setup_teardown(one_principal_has_half_of_the_room, setup, teardown),
	    cmocka_unit_test_setup_teardown(answers_that_are_not_read_have_a_share, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_child_uses_up_nothing_of_its_parent, setup, teardown),
	};

	return cmocka_run_group_tests_name("mcp_streams", tests, NULL, NULL);
}
