// tier: check
/* Handlers against a fake hub: statuses and JSON shapes of answers, errors, metrics; and answers that nobody waits for.
 */
#include "tests/lib/fake_broker.c"

#include "muxd/doors/https/metrics.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

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

static struct http_exchange *request(enum http_method m, const char *path, const char *body)
{
	struct http_exchange *x;
	struct err e = {0};

	assert_int_equal(http_exchange_create(fx.hub, 1 << 20, &x), 0);
	x->method = m;
	fx.metrics.routes = route_table(&fx.metrics.nroutes);
	x->metrics = &fx.metrics;
	snprintf(x->path, sizeof(x->path), "%s", path);
	snprintf(x->peer, sizeof(x->peer), "127.0.0.1:1");
	assert_int_equal(route_find(x, &e), 0);
	assert_int_equal(route_authorize(x, "good", &e), 0);
	if (body)
		assert_int_equal(buf_append_str(&x->body, body), 0);
	return x;
}

static void play(struct http_exchange *x)
{
	route_enter(x);
	while (!x->answered)
		uv_run(&fx.loop, UV_RUN_ONCE);
}

/* Answers and checks the status; the object is the caller's. */
static json_t *call(enum http_method m, const char *path, const char *body, int status)
{
	struct http_exchange *x = request(m, path, body);
	json_t *o;
	struct err e = {0};

	play(x);
	if (x->status != status)
		fail_msg("%s: %d %s", path, x->status, buf_cstr(&x->out));
	assert_string_equal(x->content_type, "application/json");
	assert_int_equal(json_parse(buf_ptr(&x->out), buf_len(&x->out), 64 << 20, &o, &e), 0);
	http_exchange_destroy(x);
	return o;
}

static const char *text(const json_t *o, const char *a, const char *b)
{
	const json_t *v = json_object_get(o, a);

	return json_string_value(b ? json_object_get(v, b) : v);
}

static void refused(enum http_method m, const char *path, const char *body, int status, const char *code)
{
	json_t *o = call(m, path, body, status);

	assert_string_equal(text(o, "error", "code"), code);
	assert_true(strlen(text(o, "error", "message")) > 0);
	assert_true(strlen(text(o, "error", "hint")) > 0);
	assert_int_equal(strlen(text(o, "error", "request_id")), 36);
	json_decref(o);
}

#define ROUNDS "/v1/agents/demo/rounds"

static void test_finished_round(void **state)
{
	json_t *o = call(HTTP_POST, ROUNDS, "{\"task_id\":\"t\",\"argv\":[\"echo\",\"a\",\"b\"]}", 200);

	(void)state;
	assert_string_equal(text(o, "state", NULL), "finished");
	assert_string_equal(text(o, "exit", "cause"), "exit");
	assert_string_equal(text(o, "stdout", "data"), "a b");
	json_decref(o);
}

static void test_running_round_then_its_end(void **state)
{
	struct http_exchange *x =
	    request(HTTP_POST, ROUNDS, "{\"task_id\":\"t\",\"argv\":[\"sleep\",\"60\"],\"wait_ms\":5}");
	char path[200];
	json_t *o;

	(void)state;
	play(x);
	assert_int_equal(x->status, 202);
	snprintf(path, sizeof(path), "%s?", x->location);
	path[strlen(path) - 1] = '\0';
	assert_memory_equal(path, "/v1/rounds/", 11);
	http_exchange_destroy(x);
	o = call(HTTP_GET, path, NULL, 200);
	assert_true(json_is_null(json_object_get(o, "exit")));
	json_decref(o);
	x = request(HTTP_GET, path, NULL);
	assert_int_equal(http_query_add(x, "wait_ms=2000", NULL), 0);
	play(x);
	assert_int_equal(x->status, 200);
	assert_non_null(strstr(buf_cstr(&x->out), "finished"));
	http_exchange_destroy(x);
}

static void test_same_exec_id(void **state)
{
	const char *same = "{\"task_id\":\"t\",\"exec_id\":\"e\",\"argv\":[\"echo\",\"1\"]}";
	json_t *a = call(HTTP_POST, ROUNDS, same, 200), *b = call(HTTP_POST, ROUNDS, same, 200);

	(void)state;
	assert_string_equal(text(a, "round_id", NULL), text(b, "round_id", NULL));
	json_decref(a);
	json_decref(b);
	refused(HTTP_POST, ROUNDS, "{\"task_id\":\"t\",\"exec_id\":\"e\",\"argv\":[\"echo\",\"2\"]}", 409, "conflict");
}

static void test_stdin_signal_terminate(void **state)
{
	json_t *o =
	    call(HTTP_POST, ROUNDS,
		 "{\"task_id\":\"t\",\"argv\":[\"cat\"],\"stdin\":\"a\",\"stdin_open\":true,\"wait_ms\":0}", 202);
	char path[200], id[ID_STR_LEN];

	(void)state;
	snprintf(id, sizeof(id), "%s", text(o, "round_id", NULL));
	json_decref(o);
	snprintf(path, sizeof(path), "/v1/rounds/%s/stdin", id);
	refused(HTTP_POST, path, "{}", 400, "invalid_request");
	refused(HTTP_POST, path, "", 400, "invalid_request");
	refused(HTTP_POST, path, "{\"data\":\"b\",\"more\":1}", 400, "invalid_request");
	o = call(HTTP_POST, path, "{\"data\":\"Yg==\",\"encoding\":\"base64\"}", 200);
	assert_int_equal(json_integer_value(json_object_get(o, "taken")), 1);
	assert_true(json_is_false(json_object_get(o, "eof")));
	json_decref(o);
	o = call(HTTP_POST, path, "{\"eof\":true}", 200);
	assert_true(json_is_true(json_object_get(o, "eof")));
	json_decref(o);
	refused(HTTP_POST, path, "{\"data\":\"c\"}", 409, "bad_state");
	snprintf(path, sizeof(path), "/v1/rounds/%s/output", id);
	o = call(HTTP_GET, path, NULL, 200);
	assert_string_equal(text(o, "data", NULL), "ab");
	json_decref(o);
	snprintf(path, sizeof(path), "/v1/rounds/%s/signal", id);
	refused(HTTP_POST, path, "{\"signal\":\"INT\"}", 409, "already_ended");
	refused(HTTP_POST, path, "{\"signal\":\"NOPE\"}", 400, "invalid_request");
	refused(HTTP_POST, path, "{\"signal\":true}", 400, "invalid_request");
	snprintf(path, sizeof(path), "/v1/sessions/%s/terminate", id);
	refused(HTTP_POST, path, "{\"reason\":\"  \"}", 400, "reason_required");
	refused(HTTP_POST, path, "{\"reason\":\"x\"}", 409, "already_ended");
}

static void test_signal_and_terminate_work(void **state)
{
	json_t *o = call(HTTP_POST, ROUNDS, "{\"task_id\":\"t\",\"argv\":[\"sleep\",\"9999\"],\"wait_ms\":0}", 202);
	char path[200];

	(void)state;
	snprintf(path, sizeof(path), "/v1/rounds/%s/signal", text(o, "round_id", NULL));
	json_decref(o);
	o = call(HTTP_POST, path, "{\"signal\":2}", 200);
	assert_string_equal(text(o, "signal", NULL), "INT");
	json_decref(o);
	o = call(HTTP_POST, ROUNDS, "{\"task_id\":\"t\",\"argv\":[\"sleep\",\"9999\"],\"wait_ms\":0}", 202);
	snprintf(path, sizeof(path), "/v1/sessions/%s/terminate", text(o, "round_id", NULL));
	json_decref(o);
	o = call(HTTP_POST, path, "{\"reason\":\"runaway\"}", 200);
	assert_string_equal(text(o, "state", NULL), "ended");
	assert_string_equal(fx.hub->last_reason, "runaway");
	json_decref(o);
}

static void test_refusals(void **state)
{
	(void)state;
	refused(HTTP_POST, ROUNDS, "{\"argv\":[\"echo\"]}", 400, "task_required");
	refused(HTTP_POST, "/v1/agents/other/rounds", "{\"task_id\":\"t\",\"argv\":[\"echo\"]}", 404, "not_found");
	refused(HTTP_POST, "/v1/agents/No_name/rounds", "{\"task_id\":\"t\",\"argv\":[\"echo\"]}", 400,
		"invalid_request");
	refused(HTTP_GET, "/v1/agents/other", NULL, 404, "not_found");
	refused(HTTP_GET, "/v1/rounds/not-an-id", NULL, 400, "invalid_request");
	refused(HTTP_GET, "/v1/rounds/01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c11", NULL, 404, "not_found");
	refused(HTTP_POST, "/v1/agents/demo/resume", "{\"force\":true}", 400, "invalid_request");
	refused(HTTP_GET, "/v1/agents/demo/terminal", NULL, 426, "invalid_request");
	fx.hub->record = RECORD_DISK_FULL;
	refused(HTTP_POST, ROUNDS, "{\"task_id\":\"t\",\"argv\":[\"echo\"]}", 507, "disk_full");
}

static void test_queries(void **state)
{
	static const char *const bad[] = {"stream=stdin",  "offset=-1", "offset=1x",    "offset=", "limit=0",
					  "limit=1048577", "limit=1e3", "strem=stdout", "limit"};
	json_t *o = call(HTTP_POST, ROUNDS, "{\"task_id\":\"t\",\"argv\":[\"echo\",\"hello\"]}", 200);
	char path[200];

	(void)state;
	snprintf(path, sizeof(path), "/v1/rounds/%s/output", text(o, "round_id", NULL));
	json_decref(o);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct http_exchange *x = request(HTTP_GET, path, NULL);

		assert_int_equal(http_query_add(x, bad[i], NULL), 0);
		play(x);
		if (x->status != 400)
			fail_msg("%s: %d", bad[i], x->status);
		http_exchange_destroy(x);
	}
	struct http_exchange *x = request(HTTP_GET, path, NULL);
	assert_int_equal(http_query_add(x, "offset=1", NULL), 0);
	assert_int_equal(http_query_add(x, "limit=3", NULL), 0);
	assert_int_equal(http_query_add(x, "limit=4", NULL), ERR_INVAL);
	assert_int_equal(http_query_add(x, "=4", NULL), ERR_INVAL);
	play(x);
	assert_non_null(strstr(buf_cstr(&x->out), "\"data\":\"ell\""));
	http_exchange_destroy(x);
}

static void test_long_query(void **state)
{
	struct http_exchange *x = request(HTTP_GET, "/v1/sessions", NULL);
	char arg[300] = "reason=";
	struct err e = {0};

	(void)state;
	memset(arg + 7, 'r', GRANT_REASON_MAX + 1);
	assert_int_equal(http_query_add(x, arg, &e), ERR_INVAL);
	assert_non_null(strstr(e.message, "reason has more than 256 bytes"));
	arg[7 + GRANT_REASON_MAX] = '\0';
	assert_int_equal(http_query_add(x, arg, &e), 0);
	assert_int_equal(strlen(http_query_str(x, "reason")), GRANT_REASON_MAX);
	http_exchange_destroy(x);
}

static void test_list(void **state)
{
	struct http_exchange *x;
	json_t *o;

	(void)state;
	json_decref(call(HTTP_POST, ROUNDS, "{\"task_id\":\"t\",\"argv\":[\"echo\"]}", 200));
	o = call(HTTP_GET, "/v1/sessions", NULL, 200);
	assert_int_equal(json_array_size(json_object_get(o, "sessions")), 1);
	json_decref(o);
	x = request(HTTP_GET, "/v1/sessions", NULL);
	assert_int_equal(http_query_add(x, "kind=rounds", NULL), 0);
	play(x);
	assert_int_equal(x->status, 400);
	http_exchange_destroy(x);
}

static void test_state_pages(void **state)
{
	json_t *o = call(HTTP_GET, "/healthz", NULL, 200);

	(void)state;
	assert_string_equal(text(o, "status", NULL), "ok");
	json_decref(o);
	fx.hub->record = RECORD_DISK_FULL;
	o = call(HTTP_GET, "/healthz", NULL, 503);
	assert_string_equal(text(o, "record", NULL), "disk_full");
	json_decref(o);
	json_decref(call(HTTP_GET, "/readyz", NULL, 503));
	fx.hub->record = RECORD_OK;
	json_decref(call(HTTP_GET, "/readyz", NULL, 200));
}

/* The client left: its wait ends, not its round, and the answer frees the exchange (the sanitizer sees it if not). */
static void test_abandoned(void **state)
{
	struct http_exchange *x = request(HTTP_POST, ROUNDS, "{\"task_id\":\"t\",\"argv\":[\"sleep\",\"3600000\"]}");

	(void)state;
	route_enter(x);
	assert_false(x->answered);
	http_exchange_abandon(x);
	assert_int_equal(fx.hub->waits_pending, 1);
	while (fx.hub->waits_pending)
		uv_run(&fx.loop, UV_RUN_ONCE);
	x = request(HTTP_GET, "/healthz", NULL);
	play(x);
	http_exchange_abandon(x);
	http_exchange_abandon(NULL);
}

static void test_head(void **state)
{
	struct http_exchange *x = request(HTTP_GET, "/healthz", NULL);
	struct err e = {0};
	struct buf head;

	(void)state;
	http_exchange_set_id(x, "01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c11");
	http_exchange_set_id(x, "not an id\r\nInjected: 1");
	err_limit(&e, ERR_LIMIT, &(struct err_share){"sessions.max", "daemon", 8, 8, 1}, "sessions.max is reached");
	http_reply_error(x, e.code, &e);
	buf_init(&head, 4096);
	assert_int_equal(http_head(x, false, &head), 0);
	assert_memory_equal(buf_cstr(&head), "HTTP/1.1 429 Too Many Requests\r\n", 32);
	assert_non_null(strstr(buf_cstr(&head), "\r\nX-Request-Id: 01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c11\r\n"));
	assert_non_null(strstr(buf_cstr(&head), "\r\nRetry-After: 1\r\n"));
	assert_non_null(strstr(buf_cstr(&head), "\r\nCache-Control: no-store\r\n"));
	assert_non_null(strstr(buf_cstr(&head), "\r\nX-Content-Type-Options: nosniff\r\n"));
	assert_non_null(strstr(buf_cstr(&head), "\r\nStrict-Transport-Security: "));
	assert_non_null(strstr(buf_cstr(&head), "\r\nConnection: close\r\n\r\n"));
	assert_null(strstr(buf_cstr(&head), "Server:"));
	assert_null(strstr(buf_cstr(&head), "Injected"));
	buf_finish(&head);
	http_exchange_destroy(x);
}

/* Every sample's family has one HELP and one TYPE before it, and lines have the form NAME{LABELS} VALUE. */
static void check_exposition(char *page)
{
	char family[200] = "", *save = NULL;

	for (char *line = strtok_r(page, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		size_t n = strcspn(line, "{ ");

		if (strncmp(line, "# HELP ", 7) == 0) {
			snprintf(family, sizeof(family), "%.*s", (int)strcspn(line + 7, " "), line + 7);
		} else if (strncmp(line, "# TYPE ", 7) == 0) {
			assert_memory_equal(line + 7, family, strlen(family));
		} else {
			if (strncmp(line, family, strlen(family)) != 0 || n < strlen(family))
				fail_msg("%s does not belong to %s", line, family);
			assert_non_null(strrchr(line, ' '));
		}
	}
}

static void test_metrics(void **state)
{
	struct http_exchange *x = request(HTTP_GET, "/metrics", NULL);
	char *page;

	(void)state;
	rest_metrics_count(&fx.metrics, x->route, 200, 3 * NS_PER_MS);
	rest_metrics_count(&fx.metrics, x->route, 200, 70 * NS_PER_SEC);
	rest_metrics_count(&fx.metrics, NULL, 404, 0);
	rest_metrics_count(&fx.metrics, NULL, 777, 0);
	play(x);
	assert_int_equal(x->status, 200);
	page = strdup(buf_cstr(&x->out));
	assert_non_null(strstr(page, "muxd_api_requests_total{method=\"GET\",route=\"/metrics\",status=\"200\"} 2\n"));
	assert_non_null(strstr(page, "muxd_api_requests_total{method=\"any\",route=\"none\",status=\"404\"} 1\n"));
	assert_non_null(strstr(page, "muxd_api_requests_total{method=\"any\",route=\"none\",status=\"0\"} 1\n"));
	assert_non_null(strstr(page, "_bucket{method=\"GET\",route=\"/metrics\",le=\"0.001\"} 0\n"));
	assert_non_null(strstr(page, "_bucket{method=\"GET\",route=\"/metrics\",le=\"0.005\"} 1\n"));
	assert_non_null(strstr(page, "_bucket{method=\"GET\",route=\"/metrics\",le=\"60.000\"} 1\n"));
	assert_non_null(strstr(page, "_bucket{method=\"GET\",route=\"/metrics\",le=\"+Inf\"} 2\n"));
	assert_non_null(strstr(page, "_sum{method=\"GET\",route=\"/metrics\"} 70.003000000\n"));
	assert_non_null(strstr(page, "_count{method=\"GET\",route=\"/metrics\"} 2\n"));
	assert_non_null(strstr(page, "muxd_record_state{state=\"ok\"} 1\n"));
	check_exposition(page);
	free(page);
	http_exchange_destroy(x);
}

#define ERR_STATUS(name, code, status, exit_code, hint) status,
static const int error_statuses[] = {ERR_TABLE(ERR_STATUS)};

/* Every status that the door can answer with has its words, and is counted as itself. */
static void test_metrics_know_every_status(void **state)
{
	struct http_exchange *x = request(HTTP_GET, "/metrics", NULL);
	char line[120];

	(void)state;
	for (size_t i = 0; i < sizeof(error_statuses) / sizeof(error_statuses[0]); i++)
		assert_string_not_equal(http_reason(error_statuses[i]), "Status");
	for (int status = 100; status < 600; status++)
		if (status == 101 || strcmp(http_reason(status), "Status") != 0)
			rest_metrics_count(&fx.metrics, NULL, status, 0);
	play(x);
	for (int status = 100; status < 600; status++) {
		snprintf(line, sizeof(line), "{method=\"any\",route=\"none\",status=\"%d\"} 1\n", status);
		if ((status == 101 || strcmp(http_reason(status), "Status") != 0) && !strstr(buf_cstr(&x->out), line))
			fail_msg("%d is not counted", status);
	}
	assert_null(strstr(buf_cstr(&x->out), "status=\"0\""));
	http_exchange_destroy(x);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    T(test_finished_round),
	    T(test_running_round_then_its_end),
	    T(test_same_exec_id),
	    T(test_stdin_signal_terminate),
	    T(test_signal_and_terminate_work),
	    T(test_refusals),
	    T(test_queries),
	    T(test_long_query),
	    T(test_list),
	    T(test_state_pages),
	    T(test_abandoned),
	    T(test_head),
	    T(test_metrics),
	    T(test_metrics_know_every_status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
