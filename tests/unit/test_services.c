// tier: check
/* Services of an agent: what a list may hold, what it says where it says nothing, and the first line of an answer. */
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "control/servers/lists.h"
#include "control/servers/service_def.h"
#include "control/servers/service_ends.h"
#include "control/servers/settings_def.h"
#include "control/store/store.h"
#include "muxd/hub/agent/service_state.h"
#include "muxd/hub/core/hub_state.h"
#include "muxd/muxlet/probe_status.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

static json_t *parse(const char *text)
{
	json_t *v = NULL;

	assert_int_equal(json_parse(text, strlen(text), SIZE_MAX, &v, NULL), 0);
	return v;
}

static json_t *taken(const char *text)
{
	json_t *list = parse(text), *out = NULL;
	struct err e = {0};

	assert_int_equal(service_list_check(list, &out, &e), 0);
	json_decref(list);
	return out;
}

static void test_refused(void **state)
{
	static const struct {
		const char *list;
		int rc;
		const char *at;
	} rows[] = {
	    {"{}", ERR_INVAL, "/services"},
	    {"[{\"argv\":[\"x\"]}]", ERR_INVAL, "/services/0/name"},
	    {"[{\"name\":\"a b\",\"argv\":[\"x\"]}]", ERR_INVAL, "/services/0/name"},
	    {"[{\"name\":\"a\",\"argv\":[]}]", ERR_INVAL, "/services/0/argv"},
	    {"[{\"name\":\"a\",\"argv\":[\"x\",\"--token\",\"t\"]}]", ERR_SECRET_REFUSED, "/services/0/argv/2"},
	    {"[{\"name\":\"a\",\"argv\":[\"x\"],\"env\":{\"DB_PASSWORD\":\"t\"}}]", ERR_SECRET_REFUSED,
	     "/services/0/env/DB_PASSWORD"},
	    {"[{\"name\":\"a\",\"argv\":[\"x\"],\"port\":0}]", ERR_INVAL, "/services/0/port"},
	    {"[{\"name\":\"a\",\"argv\":[\"x\"],\"port\":65536}]", ERR_INVAL, "/services/0/port"},
	    {"[{\"name\":\"a\",\"argv\":[\"x\"],\"health\":{}}]", ERR_INVAL, "/services/0/health"},
	    {"[{\"name\":\"a\",\"argv\":[\"x\"],\"port\":1,\"health\":{\"path\":\"up\"}}]", ERR_INVAL,
	     "/services/0/health/path"},
	    {"[{\"name\":\"a\",\"argv\":[\"x\"],\"port\":1,\"health\":{\"path\":\"/a\\r\\nb\"}}]", ERR_INVAL,
	     "/services/0/health/path"},
	    {"[{\"name\":\"a\",\"argv\":[\"x\"],\"restart\":{\"policy\":\"sometimes\"}}]", ERR_INVAL,
	     "/services/0/restart/policy"},
	    {"[{\"name\":\"a\",\"argv\":[\"x\"],\"restart\":{\"backoff_ms\":2000,\"backoff_max_ms\":1000}}]", ERR_INVAL,
	     "/services/0/restart"},
	    {"[{\"name\":\"a\",\"argv\":[\"x\"],\"more\":1}]", ERR_INVAL, "/services/0/more"},
	    {"[{\"name\":\"a\",\"argv\":[\"x\"]},{\"name\":\"a\",\"argv\":[\"x\"]}]", ERR_CONFLICT, "/services/1"},
	    {"[{\"name\":\"a\",\"argv\":[\"x\"],\"port\":1},{\"name\":\"b\",\"argv\":[\"x\"],\"port\":1}]",
	     ERR_CONFLICT, "/services/1"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *list = parse(rows[i].list), *out = NULL;
		struct err e = {0};

		assert_int_equal(service_list_check(list, &out, &e), rows[i].rc);
		assert_int_equal(strncmp(e.message, rows[i].at, strlen(rows[i].at)), 0);
		assert_int_equal(e.message[strlen(rows[i].at)], ':');
		assert_null(out);
		json_decref(list);
	}
}

/* Fields that a list leaves out stand in what is kept of it, and it is the same list again. */
static void test_defaults(void **state)
{
	json_t *list =
		   taken("[{\"name\":\"a\",\"argv\":[\"x\"],\"port\":8000,\"restart\":{\"policy\":\"on_failure\"}}]"),
	       *again = NULL;
	struct service_def d;

	(void)state;
	assert_int_equal(service_def_read(json_array_get(list, 0), &d, NULL), 0);
	assert_int_equal(d.restart, SERVICE_ON_FAILURE);
	assert_int_equal(d.backoff_ms, 500);
	assert_int_equal(d.backoff_max_ms, 30000);
	assert_int_equal(d.attempts, 5);
	assert_int_equal(d.start_timeout_ms, 30000);
	assert_int_equal(d.stop_timeout_ms, 10000);
	assert_int_equal(d.interval_ms, 10000);
	assert_null(d.path);
	assert_int_equal(service_list_check(list, &again, NULL), 0);
	assert_true(json_equal(list, again));
	json_decref(again);
	json_decref(list);
}

static void test_status(void **state)
{
	static const struct {
		const char *line;
		int status;
	} rows[] = {
	    {"HTTP/1.1 200 OK\r\n", 200}, {"HTTP/1.0 404\r\n", 404}, {"HTTP/1.1 200", 200},  {"HTTP/1.1 20", 0},
	    {"HTTP/1.1 2000 OK", 0},      {"HTTP/1.2 200 OK", 0},    {"HTTP/2 200", 0},      {"http/1.1 200 OK", 0},
	    {"HTTP/1.1 099 x", 0},        {"HTTP/1.1 600 x", 0},     {"SSH-2.0-OpenSSH", 0}, {"", 0}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(probe_status(rows[i].line, strlen(rows[i].line)), rows[i].status);
}

/* A change sets, and takes away what is null, one variable or all. */
static void test_settings(void **state)
{
	json_t *now = parse("{\"workdir\":\"/a\",\"env\":{\"A\":\"1\",\"B\":\"2\"},\"labels\":{\"x\":\"y\"}}"),
	       *change = parse("{\"workdir\":null,\"env\":{\"A\":null,\"C\":\"3\"},\"labels\":{\"x\":null}}"),
	       *then = parse("{\"env\":{\"B\":\"2\",\"C\":\"3\"}}"), *bad = parse("{\"env\":{\"API_KEY\":\"x\"}}"),
	       *got;

	(void)state;
	assert_int_equal(settings_check(change, NULL), 0);
	got = settings_merge(now, change);
	assert_true(json_equal(got, then));
	assert_int_equal(json_object_size(json_object_get(now, "env")), 2);
	assert_int_equal(settings_check(bad, NULL), ERR_SECRET_REFUSED);
	json_decref(got);
	json_decref(bad);
	json_decref(then);
	json_decref(change);
	json_decref(now);
}

static void test_timeouts_of_settings(void **state)
{
	static const struct {
		const char *change;
		int rc;
		const char *then; /* of {"exec_timeout_ms": 5, "workdir": "/a"} */
	} rows[] = {
	    {"{\"exec_timeout_ms\":1}", 0, "{\"exec_timeout_ms\":1,\"workdir\":\"/a\"}"},
	    {"{\"transfer_timeout_ms\":86400000}", 0,
	     "{\"exec_timeout_ms\":5,\"transfer_timeout_ms\":86400000,\"workdir\":\"/a\"}"},
	    {"{\"exec_timeout_ms\":null}", 0, "{\"workdir\":\"/a\"}"},
	    {"{\"exec_timeout_ms\":0}", ERR_INVAL, NULL},
	    {"{\"exec_timeout_ms\":86400001}", ERR_INVAL, NULL},
	    {"{\"transfer_timeout_ms\":-1}", ERR_INVAL, NULL},
	    {"{\"transfer_timeout_ms\":1.5}", ERR_INVAL, NULL},
	    {"{\"transfer_timeout_ms\":\"10s\"}", ERR_INVAL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *now = parse("{\"exec_timeout_ms\":5,\"workdir\":\"/a\"}"), *change = parse(rows[i].change);
		json_t *got = NULL, *then = NULL;
		struct err e = {0};

		assert_int_equal(settings_check(change, &e), rows[i].rc);
		if (rows[i].rc)
			assert_non_null(strstr(e.message, "_timeout_ms"));
		else if (!json_equal(got = settings_merge(now, change), then = parse(rows[i].then)))
			fail_msg("row %zu", i);
		json_decref(then);
		json_decref(got);
		json_decref(change);
		json_decref(now);
	}
}

/* ---- the store */

struct answer {
	int rc;
	json_t *result;
};

static void services_on_answer(void *arg, int rc, const struct err *e, json_t *result)
{
	struct answer *a = arg;

	(void)e;
	a->rc = rc;
	a->result = json_incref(result);
}

static void put(uv_loop_t *loop, struct store *s, const char *agent, const char *list, int rc, int version)
{
	json_t *l = taken(list), *call = json_object();
	struct answer a = {.rc = 1};

	lists_put(s, &list_services,
		  &(struct list_put){
		      .agent = agent, .list = l, .if_version = -1, .principal = "p", .call = call, .now_ns = 1},
		  services_on_answer, &a);
	while (a.rc == 1)
		uv_run(loop, UV_RUN_ONCE);
	assert_int_equal(a.rc, rc);
	assert_int_equal(json_integer_value(json_object_get(a.result, "version")), version);
	json_decref(a.result);
	json_decref(call);
	json_decref(l);
}

/* Kinds are tables of their own, and those with services are known by their newest list. */
static void test_agents(void **state)
{
	char dir[] = "/tmp/muxd-services.XXXXXX", path[64];
	json_t *names = NULL, *list = NULL;
	struct store *s = NULL;
	struct err e = {0};
	uv_loop_t loop;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/control.db", dir);
	uv_loop_init(&loop);
	assert_int_equal(store_open(&loop, path, &s, &e), 0);
	put(&loop, s, "a", "[{\"name\":\"a\",\"argv\":[\"x\"]}]", 0, 1);
	put(&loop, s, "a", "[{\"name\":\"a\",\"argv\":[\"x\"]}]", 0, 1);
	put(&loop, s, "b", "[{\"name\":\"a\",\"argv\":[\"x\"]}]", 0, 1);
	put(&loop, s, "b", "[]", 0, 2);
	assert_int_equal(lists_agents(s, &list_services, &names, &e), 0);
	assert_int_equal(json_array_size(names), 1);
	assert_string_equal(json_string_value(json_array_get(names, 0)), "a");
	assert_int_equal(lists_get(s, &list_servers, "a", 0, &list, &e), 0);
	assert_int_equal(json_integer_value(json_object_get(list, "version")), 0);
	json_decref(list);
	json_decref(names);
	store_close(s);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	snprintf(path, sizeof(path), "rm -rf %s", dir);
	(void)!system(path);
}

/* A service that is done is known by its sandbox and its definition, until it is begun again. */
static void test_ends(void **state)
{
	char dir[] = "/tmp/muxd-services.XXXXXX", path[64], why[320] = "";
	struct id one = {.b = {1}}, other = {.b = {2}};
	struct service_end at = {.agent = "a", .service = "s", .definition = "d", .sandbox = &one}, it = at;
	struct store *s = NULL;
	struct err e = {0};
	uv_loop_t loop;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/control.db", dir);
	uv_loop_init(&loop);
	assert_int_equal(store_open(&loop, path, &s, &e), 0);
	service_ends_put(s, &at, "it exited with code 0");
	store_close(s);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(store_open(&loop, path, &s, &e), 0);
	assert_int_equal(service_ends_get(s, &at, why, sizeof(why), &e), 0);
	assert_string_equal(why, "it exited with code 0");
	it.sandbox = &other;
	assert_int_equal(service_ends_get(s, &it, why, sizeof(why), &e), ERR_NOT_FOUND);
	it = at, it.definition = "e";
	assert_int_equal(service_ends_get(s, &it, why, sizeof(why), &e), ERR_NOT_FOUND);
	service_ends_forget(s, &at);
	store_close(s);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(store_open(&loop, path, &s, &e), 0);
	assert_int_equal(service_ends_get(s, &at, why, sizeof(why), &e), ERR_NOT_FOUND);
	store_close(s);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	snprintf(path, sizeof(path), "rm -rf %s", dir);
	(void)!system(path);
}

/* ---- health */

#define SECOND UINT64_C(1000000000)

/* Six changes a minute are told, the others are counted, and how it is in the end is told when the minute is over. */
static void test_news(void **state)
{
	struct service_news n = {0};

	(void)state;
	for (int i = 0; i < 6; i++)
		assert_true(service_news_take(&n, SECOND));
	for (int i = 0; i < 4; i++)
		assert_false(service_news_take(&n, 2 * SECOND));
	assert_int_equal(n.untold, 4);
	assert_false(service_news_rest(&n, 60 * SECOND));
	assert_true(service_news_rest(&n, 61 * SECOND));
	assert_int_equal(n.untold, 3);
	n.untold = 0; /* as the event that had the count */
	assert_false(service_news_rest(&n, 200 * SECOND));
}

/* The pause between looks at one that is ill grows to its interval; one that warms up is looked at often. */
static void test_pause(void **state)
{
	static const struct {
		enum service_state state;
		uint64_t least_ms[6];
	} rows[] = {{SERVICE_UNHEALTHY, {1000, 2000, 4000, 8000, 10000, 10000}},
		    {SERVICE_WARMING, {50, 100, 200, 400, 800, 1000}}};
	const struct link_exit end = {.cause = EXIT_EXITED, .code = 1};
	struct agents agents = {0};
	struct hub h = {.agents = &agents};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct service x = {.hub = &h, .agent = "a", .state = rows[i].state, .def = {.interval_ms = 10000}};

		for (int k = 0; k < 6; k++) {
			uint64_t before = clock_boot_ns(), ms;

			x.probe.channel = 7;
			assert_int_equal(service_probe_exited(&x, 7, &end), 0);
			ms = (x.probe.next_ns - before) / 1000000;
			assert_in_range(ms, rows[i].least_ms[k], rows[i].least_ms[k] + 40);
		}
	}
}

/* Taken up again when its time to become healthy is over, it runs on. */
static void test_taken_up(void **state)
{
	const struct service_def d = {.start_timeout_ms = 2000};

	(void)state;
	assert_false(service_had_its_time(SECOND, &d, 2 * SECOND));
	assert_true(service_had_its_time(SECOND, &d, 3 * SECOND));
	assert_true(service_state_leads(SERVICE_ABSENT, SERVICE_UNHEALTHY));
	assert_true(service_state_leads(SERVICE_UNHEALTHY, SERVICE_HEALTHY));
	assert_true(service_state_leads(SERVICE_ABSENT, SERVICE_DONE));
	assert_false(service_state_leads(SERVICE_UNHEALTHY, SERVICE_WARMING));
}

/* ---- who waits for a port */

struct waits {
	struct agent *agent;
	int told, rc, again;
};

static void on_told(void *arg, int rc, const struct err *e)
{
	struct waits *w = arg;
	struct err here = {0};

	(void)e;
	w->told++;
	w->rc = rc;
	if (w->again)
		w->rc = service_wait(w->agent, 8000, on_told, w, &here);
}

/* So many of an agent and no more; each is looked at once a turn, also one that waits again as soon as it is told. */
static void test_waiters(void **state)
{
	struct service x = {
	    .agent = "a", .name = "web", .state = SERVICE_WARMING, .def = {.port = 8000, .start_timeout_ms = 0}};
	struct services all = {0};
	struct agents agents = {0};
	struct hub h = {.services = &all, .agents = &agents};
	struct agent *a = agent_get(&h, "a");
	struct waits w = {.agent = a};
	struct err e = {0};

	(void)state;
	assert_non_null(a);
	TAILQ_INIT(&all.all);
	TAILQ_INIT(&all.waiters);
	TAILQ_INIT(&all.settles);
	TAILQ_INSERT_TAIL(&all.all, &x, entry);
	x.hub = &h;
	a->state = AGENT_UP;
	for (int i = 0; i < SERVICE_WAITERS_MAX; i++)
		assert_int_equal(service_wait(a, 8000, on_told, &w, &e), SERVICE_WAITS);
	assert_int_equal(service_wait(a, 8000, on_told, &w, &e), ERR_SERVICE);
	assert_non_null(strstr(e.message, "service web of a"));
	service_wait_look(&h, 0);
	assert_int_equal(w.told, 0);
	assert_int_equal(service_waiting(&h, "a"), SERVICE_WAITERS_MAX);
	w.again = 1;
	service_wait_look(&h, UINT64_MAX); /* in vain, and each asks again at once */
	assert_int_equal(w.told, SERVICE_WAITERS_MAX);
	assert_int_equal(service_waiting(&h, "a"), SERVICE_WAITERS_MAX);
	w.again = 0;
	x.state = SERVICE_HEALTHY;
	service_wait_look(&h, 0);
	assert_int_equal(w.told, 2 * SERVICE_WAITERS_MAX);
	assert_int_equal(w.rc, 0);
	assert_int_equal(service_waiting(&h, "a"), 0);
	HASH_DEL(agents.by_name, a);
	free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_refused),  cmocka_unit_test(test_defaults),
	    cmocka_unit_test(test_status),   cmocka_unit_test(test_agents),
	    cmocka_unit_test(test_settings), cmocka_unit_test(test_timeouts_of_settings),
	    cmocka_unit_test(test_ends),     cmocka_unit_test(test_news),
	    cmocka_unit_test(test_pause),    cmocka_unit_test(test_taken_up),
	    cmocka_unit_test(test_waiters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
