// tier: check
/* Lifecycle over HTTPS against a fake hub: what of a call reaches the broker, and what is refused before it. */
#include "tests/lib/fake_broker.c"

#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/metrics.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define SNAPSHOT "0193aaaa-0000-7000-8000-000000000001"
#define SESSION  "0193aaaa-0000-7000-8000-000000000002"
#define NIL      "00000000-0000-0000-0000-000000000000"

static struct fixture {
	uv_loop_t loop;
	struct hub *hub;
	struct rest_metrics metrics;
} fx;

static int setup(void **state)
{
	(void)state;
	memset(&fx, 0, sizeof(fx));
	uv_loop_init(&fx.loop);
	fx.hub = fake_hub_create(&fx.loop);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	uv_run(&fx.loop, UV_RUN_DEFAULT);
	fake_hub_destroy(fx.hub);
	return uv_loop_close(&fx.loop);
}

/* target: path and query. The answer's object is the caller's. */
static json_t *call_as(const char *token, enum http_method m, const char *target, const char *body, int status)
{
	struct http_exchange *x;
	const char *query = strchr(target, '?');
	struct err e = {0};
	json_t *o;

	assert_int_equal(http_exchange_create(fx.hub, 1 << 20, &x), 0);
	x->method = m;
	x->metrics = &fx.metrics;
	snprintf(x->path, sizeof(x->path), "%.*s", (int)(query ? (size_t)(query - target) : strlen(target)), target);
	snprintf(x->peer, sizeof(x->peer), "127.0.0.1:1");
	for (char *copy = query ? strdup(query + 1) : NULL, *save = NULL,
		  *arg = copy ? strtok_r(copy, "&", &save) : NULL;
	     copy; arg = strtok_r(NULL, "&", &save)) {
		if (!arg) {
			free(copy);
			break;
		}
		assert_int_equal(http_query_add(x, arg, &e), 0);
	}
	assert_int_equal(route_find(x, &e), 0);
	assert_int_equal(route_authorize(x, token, &e), 0);
	if (body)
		assert_int_equal(buf_append_str(&x->body, body), 0);
	route_enter(x);
	while (!x->answered)
		uv_run(&fx.loop, UV_RUN_ONCE);
	if (x->status != status)
		fail_msg("%s %s: %d %s", target, body ? body : "", x->status, buf_cstr(&x->out));
	assert_int_equal(json_parse(buf_ptr(&x->out), buf_len(&x->out), 1 << 20, &o, &e), 0);
	http_exchange_destroy(x);
	return o;
}

static json_t *call(enum http_method m, const char *target, const char *body, int status)
{
	return call_as("good", m, target, body, status);
}

static void refused(enum http_method m, const char *target, const char *body, int status, const char *code,
		    const char *in_message)
{
	json_t *o = call(m, target, body, status), *err = json_object_get(o, "error");
	const char *message = json_string_value(json_object_get(err, "message"));

	assert_string_equal(json_string_value(json_object_get(err, "code")), code);
	if (in_message && (!message || !strstr(message, in_message)))
		fail_msg("%s %s: \"%s\" does not say %s", target, body ? body : "", message, in_message);
	json_decref(o);
}

static const char *text(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static json_int_t number(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

static void test_verbs(void **state)
{
	static const struct {
		const char *path, *body, *verb;
		int status;
	} rows[] = {
	    {"/v1/agents/demo/resume", NULL, "resume", 200},
	    {"/v1/agents/demo/resume", "{}", "resume", 200},
	    {"/v1/agents/demo/stop", "{\"reason\":\"r\"}", "stop", 200},
	    {"/v1/agents/demo/terminate", "{\"reason\":\"r\"}", "terminate", 200},
	    {"/v1/agents/demo/snapshots", NULL, "snapshot", 201},
	    {"/v1/agents/demo/restore", "{\"reason\":\"r\",\"snapshot_id\":\"" SNAPSHOT "\"}", "restore", 200},
	    {"/v1/agents/demo/fork", NULL, "fork", 201},
	    {"/v1/sessions/" SESSION "/fork", NULL, "fork", 201},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *o = call(HTTP_POST, rows[i].path, rows[i].body, rows[i].status);

		assert_string_equal(text(o, "verb"), rows[i].verb);
		json_decref(o);
	}
}

static void test_options_of_a_resume(void **state)
{
	json_t *o = call(HTTP_POST, "/v1/agents/demo/resume",
			 "{\"idle_ttl\":\"1h30m\",\"ttl\":\"0s\",\"timeout_ms\":1500}", 200);

	(void)state;
	assert_int_equal(number(o, "idle_ttl_ns"), 5400 * NS_PER_SEC);
	assert_int_equal(number(o, "ttl_ns"), 0);
	assert_int_equal(number(o, "timeout_ns"), 1500 * NS_PER_MS);
	json_decref(o);
	o = call(HTTP_POST, "/v1/agents/demo/resume", NULL, 200);
	assert_int_equal(number(o, "idle_ttl_ns"), -1); /* left as it is */
	assert_int_equal(number(o, "ttl_ns"), -1);
	json_decref(o);
	refused(HTTP_POST, "/v1/agents/demo/resume", "{\"idle_ttl\":60}", 400, "invalid_request", "idle_ttl");
	refused(HTTP_POST, "/v1/agents/demo/resume", "{\"ttl\":\"soon\"}", 400, "invalid_request", "ttl is \"soon\"");
	refused(HTTP_POST, "/v1/agents/demo/resume", "{\"ttl\":\"-1s\"}", 400, "invalid_request", "ttl");
	refused(HTTP_POST, "/v1/agents/demo/resume", "{\"ttl\":\"99999d\"}", 400, "invalid_request", "ttl");
	refused(HTTP_POST, "/v1/agents/demo/resume", "{\"idle_ttl\":\"999ms\"}", 400, "invalid_request", "1s to 3650d");
	refused(HTTP_POST, "/v1/agents/demo/resume", "{\"timeout_ms\":0}", 400, "invalid_request", "timeout_ms");
	refused(HTTP_POST, "/v1/agents/demo/resume", "{\"force\":true}", 400, "invalid_request", "force");
	refused(HTTP_POST, "/v1/agents/demo/resume", "[]", 400, "invalid_request", "object");
}

/* Of three, each by its own name, with what is allowed. */
static void test_labels_of_a_resume(void **state)
{
	static const char *const keys[] = {"app_id", "cluster", "namespace"};
	static const struct {
		const char *value, *in_message;
	} bad[] = {
	    {"7", "is not a string"},
	    {"{}", "is not a string"},
	    {"[\"a\"]", "is not a string"},
	    {"\"\"", "is empty"},
	    {"\"-a\"", "an end"},
	    {"\"a-\"", "an end"},
	    {"\"A\"", "\"A\" at character 1"},
	    {"\"a.b\"", "\".\" at character 2"},
	    {"\"a/b\"", "\"/\" at character 2"},
	    {"\"a b\"", "at character 2"},
	    {"\"\\u00e4\"", "at character 1"},
	    {"\"0123456789012345678901234567890123456789012345678901234567890123\"", "63 are allowed"},
	};
	char body[200];
	json_t *o;

	(void)state;
	for (size_t k = 0; k < 3; k++)
		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			snprintf(body, sizeof(body), "{\"%s\":%s}", keys[k], bad[i].value);
			refused(HTTP_POST, "/v1/agents/demo/resume", body, 400, "invalid_request", bad[i].in_message);
			refused(HTTP_POST, "/v1/agents/demo/fork", body, 400, "invalid_request", keys[k]);
		}
	o = call(HTTP_POST, "/v1/agents/demo/resume",
		 "{\"app_id\":\"012345678901234567890123456789012345678901234567890123456789012\",\"cluster\":\"c-1\","
		 "\"namespace\":\"n\"}",
		 200);
	assert_int_equal(strlen(text(o, "app_id")), 63);
	assert_string_equal(text(o, "cluster"), "c-1");
	assert_string_equal(text(o, "namespace"), "n");
	json_decref(o);
	o = call(HTTP_POST, "/v1/agents/demo/resume", "{\"app_id\":null}", 200);
	assert_string_equal(text(o, "app_id"), ""); /* none any more */
	json_decref(o);
	o = call(HTTP_POST, "/v1/agents/demo/resume", "{}", 200);
	assert_null(text(o, "app_id")); /* as it is */
	json_decref(o);
}

static void test_ends(void **state)
{
	static const char *const ends[] = {"snapshot", "keep", "wipe"};
	char body[80];
	json_t *o;

	(void)state;
	for (int i = 0; i < 3; i++) {
		snprintf(body, sizeof(body), "{\"reason\":\"done\",\"how\":\"%s\"}", ends[i]);
		o = call(HTTP_POST, "/v1/agents/demo/terminate", body, 200);
		assert_int_equal(number(o, "how"), i);
		assert_string_equal(text(o, "reason"), "done");
		json_decref(o);
	}
	o = call(HTTP_POST, "/v1/agents/demo/terminate", "{\"reason\":\"done\"}", 200);
	assert_int_equal(number(o, "how"), LIFE_END_BY_REASON); /* the configuration decides */
	json_decref(o);
	refused(HTTP_POST, "/v1/agents/demo/terminate", "{\"reason\":\"x\",\"how\":\"burn\"}", 400, "invalid_request",
		"keep");
	refused(HTTP_POST, "/v1/agents/demo/terminate", "{}", 400, "reason_required", NULL);
	refused(HTTP_POST, "/v1/agents/demo/stop", "{\"reason\":\"x\",\"how\":\"keep\"}", 400, "invalid_request",
		"how");
}

static void test_restore_and_drop(void **state)
{
	json_t *o =
	    call(HTTP_POST, "/v1/agents/demo/restore", "{\"reason\":\"oops\",\"snapshot_id\":\"" SNAPSHOT "\"}", 200);

	(void)state;
	assert_string_equal(text(o, "snapshot_id"), SNAPSHOT);
	json_decref(o);
	o = call(HTTP_DELETE, "/v1/agents/demo/snapshots/" SNAPSHOT "?reason=old", NULL, 200);
	assert_string_equal(text(o, "verb"), "drop");
	assert_string_equal(text(o, "snapshot_id"), SNAPSHOT);
	assert_string_equal(text(o, "reason"), "old");
	json_decref(o);
	refused(HTTP_DELETE, "/v1/agents/demo/snapshots/" SNAPSHOT, NULL, 400, "reason_required", NULL);
	refused(HTTP_DELETE, "/v1/agents/demo/snapshots/newest?reason=x", NULL, 400, "invalid_request", "UUID");
	refused(HTTP_DELETE, "/v1/agents/demo/snapshots/" NIL "?reason=x", NULL, 400, "invalid_request", "snapshot");
	refused(HTTP_POST, "/v1/agents/demo/restore", "{\"reason\":\"x\",\"snapshot_id\":\"newest\"}", 400,
		"invalid_request", "snapshot_id");
	refused(HTTP_POST, "/v1/agents/other/stop", "{\"reason\":\"x\"}", 404, "not_found", "other");
}

static void test_forks(void **state)
{
	json_t *o = call(HTTP_POST, "/v1/agents/demo/fork",
			 "{\"snapshot_id\":\"" SNAPSHOT "\",\"as\":\"demo-2\",\"writable\":true,\"ttl\":\"1h\"}", 201);

	(void)state;
	assert_string_equal(text(o, "snapshot_id"), SNAPSHOT);
	assert_string_equal(text(o, "as"), "demo-2");
	assert_true(json_is_true(json_object_get(o, "writable")));
	assert_int_equal(number(o, "ttl_ns"), 3600 * NS_PER_SEC);
	json_decref(o);
	o = call(HTTP_POST, "/v1/agents/demo/fork", "{\"at\":\"1970-01-01T00:00:01Z\"}", 201);
	assert_int_equal(number(o, "at_ns"), NS_PER_SEC);
	assert_false(json_is_true(json_object_get(o, "writable")));
	json_decref(o);
	o = call(HTTP_POST, "/v1/sessions/" SESSION "/fork", "{\"at_ms\":250}", 201);
	assert_string_equal(text(o, "session"), SESSION);
	assert_int_equal(number(o, "at_ns"), 250 * NS_PER_MS);
	assert_null(text(o, "agent"));
	json_decref(o);
	refused(HTTP_POST, "/v1/agents/demo/fork", "{\"at\":\"yesterday\"}", 400, "invalid_request", "at is");
	refused(HTTP_POST, "/v1/agents/demo/fork", "{\"at_ms\":1}", 400, "invalid_request", "at_ms");
	refused(HTTP_POST, "/v1/sessions/" SESSION "/fork", "{\"at\":\"1970-01-01T00:00:01Z\"}", 400, "invalid_request",
		"at");
	refused(HTTP_POST, "/v1/sessions/" SESSION "/fork", "{\"at_ms\":-1}", 400, "invalid_request", "at_ms");
	refused(HTTP_POST, "/v1/sessions/last/fork", NULL, 400, "invalid_request", "UUID");
}

static void test_lists(void **state)
{
	json_t *o = call(HTTP_GET, "/v1/agents?state=running&prefix=de&limit=7", NULL, 200);

	(void)state;
	assert_int_equal(json_array_size(json_object_get(o, "agents")), 1);
	assert_int_equal(number(o, "limit"), 7);
	json_decref(o);
	o = call(HTTP_GET, "/v1/agents?after=demo", NULL, 200);
	assert_int_equal(json_array_size(json_object_get(o, "agents")), 0);
	assert_int_equal(number(o, "limit"), 100);
	json_decref(o);
	json_decref(call(HTTP_GET, "/v1/agents/demo/snapshots", NULL, 200));
	o = call(HTTP_GET, "/v1/agents/demo/logs?bytes=10", NULL, 200);
	assert_int_equal(number(o, "bytes"), 10);
	json_decref(o);
	refused(HTTP_GET, "/v1/agents?limit=0", NULL, 400, "invalid_request", "limit");
	refused(HTTP_GET, "/v1/agents?limit=1001", NULL, 400, "invalid_request", "limit");
	refused(HTTP_GET, "/v1/agents?page=2", NULL, 400, "invalid_request", "page");
	refused(HTTP_GET, "/v1/agents/demo/logs?bytes=0", NULL, 400, "invalid_request", "bytes");
	refused(HTTP_GET, "/v1/agents/demo/logs?lines=1", NULL, 400, "invalid_request", "lines");
}

static void test_scope(void **state)
{
	json_t *o = call_as("weak", HTTP_POST, "/v1/agents/demo/stop", "{\"reason\":\"x\"}", 403);

	(void)state;
	json_decref(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_verbs, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_options_of_a_resume, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_labels_of_a_resume, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_ends, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_restore_and_drop, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_forks, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_lists, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_scope, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
