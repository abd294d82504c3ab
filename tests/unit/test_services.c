// tier: check
/* Services of an agent: what a list may hold, what it says where it says nothing, and the first line of an answer. */
#include "base/err.h"
#include "base/json.h"
#include "control/servers/lists.h"
#include "control/servers/service_def.h"
#include "control/servers/settings_def.h"
#include "control/store/store.h"
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_refused), cmocka_unit_test(test_defaults), cmocka_unit_test(test_status),
	    cmocka_unit_test(test_agents),  cmocka_unit_test(test_settings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
