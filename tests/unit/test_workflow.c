// tier: check
/* Definitions of workflows and the bodies of calls: what is taken, and where what is not stands. */
#include "base/err.h"
#include "control/work/body.h"
#include "control/work/demand.h"
#include "control/work/workflow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct workflow_limits limits = {.timeout_max_s = 3600, .memory_max = 1 << 20};

static json_t *parse(const char *text)
{
	json_error_t why;
	json_t *o = json_loads(text, 0, &why);

	if (!o)
		fail_msg("%s: %s", text, why.text);
	return o;
}

#define STEPS(s) "{\"name\":\"w\",\"owner\":\"alice\",\"version\":1,\"steps\":[" s "]}"
#define WITH(s)  "{\"name\":\"w\",\"owner\":\"alice\",\"version\":1,\"steps\":[{\"shell\":\"true\"}]," s "}"

static void test_definitions(void **state)
{
	static const struct {
		const char *text, *fault; /* NULL: it is taken */
		int code;
	} rows[] = {
	    {STEPS("{\"shell\":\"true\"}"), NULL, 0},
	    {STEPS("{\"argv\":[\"a\",\"\"],\"cwd\":\"/x\",\"env\":{\"A_1\":\"\"},\"timeoutSeconds\":3600}"), NULL, 0},
	    {STEPS("{\"code\":{\"language\":\"python\",\"source\":\"x\"},\"continueOnError\":true,\"name\":\"n\"}"),
	     NULL, 0},
	    {WITH("\"hints\":{\"timeoutSeconds\":1,\"memoryBytes\":1048576}"), NULL, 0},
	    {WITH("\"schedule\":{\"cron\":\"*/5 0-6 1,2 JAN ?\",\"timeZone\":\"Europe/Vienna\",\"enabled\":false}"),
	     NULL, 0},
	    {"[]", "/: is not an object", ERR_INVAL},
	    {"{}", "/name: is missing", ERR_INVAL},
	    {STEPS(""), "/steps: is empty", ERR_INVAL},
	    {STEPS("{\"shell\":\"true\"},7"), "/steps/1: is not an object", ERR_INVAL},
	    {STEPS("{}"), "/steps/0: has none of argv, shell and code: it needs one", ERR_INVAL},
	    {STEPS("{\"shell\":\"a\",\"argv\":[\"a\"]}"),
	     "/steps/0: has more than one of argv, shell and code: it needs one", ERR_INVAL},
	    {STEPS("{\"argv\":[\"a\",3]}"), "/steps/0/argv/1: is not a string", ERR_INVAL},
	    {STEPS("{\"argv\":[\"\"]}"), "/steps/0/argv/0: is empty", ERR_INVAL},
	    {STEPS("{\"shell\":\"a\",\"env\":{\"A/B~\":\"\"}}"), "/steps/0/env/A~1B~0: is not the name of a variable",
	     ERR_INVAL},
	    {STEPS("{\"shell\":\"a\",\"env\":{\"MUXD_TOKEN_FD\":\"9\"}}"),
	     "/steps/0/env/MUXD_TOKEN_FD: names that begin with MUXD_ are muxd's own", ERR_INVAL},
	    {STEPS("{\"shell\":\"a\",\"cwd\":\"x\"}"), "/steps/0/cwd: is not an absolute path", ERR_INVAL},
	    {STEPS("{\"shell\":\"a\",\"timeoutSeconds\":3601}"),
	     "/steps/0/timeoutSeconds: 3601: over the limit of 3600 (leases.run_timeout_max)", ERR_INVAL},
	    {STEPS("{\"shell\":\"a\",\"timeoutSeconds\":0}"),
	     "/steps/0/timeoutSeconds: 0: from 1 to 2147483647 are allowed", ERR_INVAL},
	    {STEPS("{\"code\":{\"language\":\"perl\",\"source\":\"x\"}}"),
	     "/steps/0/code/language: is neither python nor javascript", ERR_INVAL},
	    {STEPS("{\"code\":{\"language\":\"python\"}}"), "/steps/0/code/source: is missing", ERR_INVAL},
	    {STEPS("{\"mcp\":{}}"),
	     "/steps/0/mcp: steps of this kind are not run by this version: use argv, shell or code", ERR_UNSUPPORTED},
	    {STEPS("{\"shell\":\"a\",\"colour\":1}"), "/steps/0/colour: is not a field of this", ERR_INVAL},
	    {WITH("\"hints\":{\"memoryBytes\":1048577}"),
	     "/hints/memoryBytes: 1048577: a sandbox has 1048576 (sandbox.memory)", ERR_INVAL},
	    {WITH("\"schedule\":{\"cron\":\"* * * *\"}"),
	     "/schedule/cron: has 4 fields: minute hour day month weekday are wanted", ERR_INVAL},
	    {WITH("\"schedule\":{\"cron\":\"* * * * *\",\"enabled\":true}"),
	     "/schedule/enabled: schedules are stored and not run by this version: store it with enabled false",
	     ERR_UNSUPPORTED},
	    {"{\"name\":\"-\",\"owner\":\"a\",\"version\":1,\"steps\":[{\"shell\":\"a\"}]}", "/name: ", ERR_INVAL},
	    {"{\"name\":\"w\",\"owner\":\"a b\",\"version\":1,\"steps\":[{\"shell\":\"a\"}]}", "/owner: ", ERR_INVAL},
	    {"{\"name\":\"w\",\"owner\":\"a\",\"version\":1.5,\"steps\":[{\"shell\":\"a\"}]}",
	     "/version: is not an integer", ERR_INVAL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *o = parse(rows[i].text);
		struct err e = {0};
		int rc = workflow_check(o, &limits, &e);

		if (rc != rows[i].code)
			fail_msg("%s: %s (%s)", rows[i].text, err_name(rc), e.message);
		if (rows[i].fault && strncmp(e.message, rows[i].fault, strlen(rows[i].fault)) != 0)
			fail_msg("%s: \"%s\", expected \"%s\"", rows[i].text, e.message, rows[i].fault);
		json_decref(o);
	}
}

static void test_steps_are_read(void **state)
{
	json_t *o = parse(STEPS("{\"name\":\"n\",\"argv\":[\"a\"],\"timeoutSeconds\":5},"
				"{\"code\":{\"language\":\"javascript\",\"source\":\"x\"},\"continueOnError\":true}"));
	struct workflow_step s;

	(void)state;
	assert_int_equal(workflow_steps(o), 2);
	workflow_step(o, 0, &s);
	assert_string_equal(s.name, "n");
	assert_int_equal(json_array_size(s.argv), 1);
	assert_int_equal(s.timeout_s, 5);
	assert_false(s.go_on);
	workflow_step(o, 1, &s);
	assert_string_equal(workflow_runner(s.language)[0], "node");
	assert_string_equal(s.source, "x");
	assert_true(s.go_on);
	assert_null(s.argv);
	json_decref(o);
}

static void test_ids(void **state)
{
	static const struct {
		const char *id, *name;
		int64_t version; /* -1: refused */
	} rows[] = {{"w", "w", 0},     {"a.b_c-9@12", "a.b_c-9", 12},
		    {"w@", "", -1},    {"w@0", "", -1},
		    {"w@1x", "", -1},  {"w@-1", "", -1},
		    {"@1", "", -1},    {"", "", -1},
		    {".w", "", -1},    {"a/b", "", -1},
		    {"w@1@2", "", -1}, {"w@1234567890", "", -1}};
	char name[WORKFLOW_NAME_MAX + 1], longest[80];
	int64_t version;
	struct err e = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int rc = workflow_id_parse(rows[i].id, name, &version, &e);

		if (rc != (rows[i].version < 0 ? ERR_INVAL : 0))
			fail_msg("\"%s\": %s", rows[i].id, err_name(rc));
		if (!rc && (strcmp(name, rows[i].name) != 0 || version != rows[i].version))
			fail_msg("\"%s\": %s %lld", rows[i].id, name, (long long)version);
	}
	memset(longest, 'a', sizeof(longest));
	longest[63] = '\0';
	assert_int_equal(workflow_id_parse(longest, name, &version, &e), 0);
	assert_string_equal(name, longest);
	longest[63] = 'a', longest[64] = '\0';
	assert_int_equal(workflow_id_parse(longest, name, &version, &e), ERR_INVAL);
}

#define LEASE "00000000-0000-7000-8000-000000000001"

static void test_bodies(void **state)
{
	static const struct work_limits l = {60, 600, 100, 1000};
	static const struct {
		bool run;
		const char *text, *fault;
		int64_t seconds;
	} rows[] = {
	    {false, "{\"userId\":\"u\",\"workflowId\":\"w\",\"requestId\":\"r\"}", NULL, 60},
	    {false, "{\"userId\":\"u\",\"workflowId\":\"w@2\",\"requestId\":\"r\",\"ttlSeconds\":600}", NULL, 600},
	    {false, "{\"userId\":\"u\",\"workflowId\":\"w\",\"requestId\":\"r\",\"ttlSeconds\":601}",
	     "ttlSeconds must be a number of seconds from 1 to 600 (leases.ttl_max)", 0},
	    {false, "{\"userId\":\"u\",\"workflowId\":\"w\",\"requestId\":\"r\",\"ttlSeconds\":\"9\"}", "ttlSeconds",
	     0},
	    {false, "{\"userId\":\"u\",\"workflowId\":\"w\"}", "\"requestId\" is missing", 0},
	    {false, "{\"userId\":\"u u\",\"workflowId\":\"w\",\"requestId\":\"r\"}", "userId", 0},
	    {false, "{\"userId\":\"u\",\"workflowId\":\"/\",\"requestId\":\"r\"}",
	     "\"/\" is not the name of a workflow", 0},
	    {false, "{\"userId\":\"u\",\"workflowId\":\"w\",\"requestId\":\"r\",\"x\":1}", "", 0},
	    {true, "{\"leaseId\":\"" LEASE "\",\"workflowId\":\"w\",\"runId\":\"r\",\"token\":\"t\"}", NULL, 0},
	    {true,
	     "{\"leaseId\":\"" LEASE "\",\"workflowId\":\"w\",\"runId\":\"r\",\"token\":\"t\",\"timeoutSeconds\":9}",
	     NULL, 9},
	    {true, "{\"leaseId\":\"x\",\"workflowId\":\"w\",\"runId\":\"r\",\"token\":\"t\"}",
	     "leaseId is not the id of a lease", 0},
	    {true, "{\"leaseId\":\"" LEASE "\",\"workflowId\":\"w\",\"runId\":\"a/b\",\"token\":\"t\"}",
	     "runId has a slash", 0},
	    {true, "{\"leaseId\":\"" LEASE "\",\"workflowId\":\"w\",\"runId\":\"r\"}", "token is missing", 0},
	    {true, "{\"leaseId\":\"" LEASE "\",\"workflowId\":\"w\",\"runId\":\"r\",\"token\":\"\"}",
	     "token must be a string that is not empty", 0},
	    {true,
	     "{\"leaseId\":\"" LEASE "\",\"workflowId\":\"w\",\"runId\":\"r\",\"token\":\"t\",\"timeoutSeconds\":1001}",
	     "timeoutSeconds must be a number of seconds from 1 to 1000 (leases.run_timeout_max)", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *o = parse(rows[i].text);
		struct lease_row lease = {0};
		struct run_body run = {0};
		struct err e = {0};
		int rc = rows[i].run ? run_body(o, &l, &run, &e) : lease_body(o, &l, &lease, &e);

		if (!rc != !rows[i].fault)
			fail_msg("%s: %s", rows[i].text, rc ? e.message : "taken");
		if (rc && strncmp(e.message, rows[i].fault, strlen(rows[i].fault)) != 0)
			fail_msg("%s: \"%s\"", rows[i].text, e.message);
		if (!rc)
			assert_int_equal(rows[i].run ? run.asked_timeout_s : lease.ttl_s, rows[i].seconds);
		json_decref(o);
	}
}

static void test_demand(void **state)
{
	const uint64_t second = 1000000000, start = 5000 * second;
	struct demand d = {0};

	(void)state;
	assert_int_equal(demand_target(&d, start, 0, 0), 0);
	assert_int_equal(demand_target(&d, start, 2, 8), 2);
	for (int i = 0; i < 5; i++)
		demand_note(&d, start);
	assert_int_equal(demand_target(&d, start + second, 2, 8), 5);
	assert_int_equal(demand_target(&d, start + second, 2, 4), 4);
	for (int i = 0; i < 3; i++) /* a smaller burst does not take the larger one's place */
		demand_note(&d, start + 300 * second);
	assert_int_equal(demand_target(&d, start + 590 * second, 0, 8), 5);
	assert_int_equal(demand_target(&d, start + 600 * second, 0, 8), 3);
	assert_int_equal(demand_target(&d, start + 1000 * second, 1, 8), 1);
	demand_note(&d, start + 1000000 * second);
	assert_int_equal(demand_target(&d, start + 1000000 * second, 0, 8), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_definitions), cmocka_unit_test(test_steps_are_read), cmocka_unit_test(test_ids),
	    cmocka_unit_test(test_bodies),      cmocka_unit_test(test_demand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
