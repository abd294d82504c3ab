// tier: check
/* Leases, runs and the pool. */
#include "tests/lib/work_rig.h"

#include "control/work/state.h"

static void test_one_sandbox_one_lease(void **state)
{
	char a[40], b[40], again[40], sa[64], sb[64], same[64], fork[96];
	struct rig *r = *state;
	struct err e = {0};

	lease(r, "r1", "good", 60, a, sa);
	lease(r, "r2", "good", 60, b, sb);
	lease(r, "r1", "good", 60, again, same);
	assert_string_equal(a, again);
	assert_string_equal(sa, same);
	assert_string_not_equal(a, b);
	assert_string_not_equal(sa, sb);
	assert_int_equal(ask(r, WORK_LEASE_CREATE, "service", NULL,
			     "{\"userId\":\"alice\",\"workflowId\":\"good\",\"requestId\":\"r1\",\"ttlSeconds\":61}"),
			 ERR_CONFLICT);
	assert_non_null(strstr(r->e.message, a));
	/* another principal's key is another key, and other users are a service's to name */
	assert_int_equal(ask(r, WORK_LEASE_CREATE, "bob", NULL,
			     "{\"userId\":\"alice\",\"workflowId\":\"good\",\"requestId\":\"r1\"}"),
			 ERR_FORBIDDEN);
	assert_int_equal(work_may_enter(r->work, sa, "service", false, &e), 0);
	assert_int_equal(work_may_enter(r->work, sa, "bob", false, &e), ERR_FORBIDDEN);
	assert_int_equal(work_may_enter(r->work, sa, "bob", true, &e), 0);
	assert_int_equal(work_may_enter(r->work, "pool-01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c11", "x", false, &e),
			 ERR_NOT_FOUND);
	snprintf(fork, sizeof(fork), "%s-fork-0123456789ab", sa); /* a copy is the lease's, as what it is a copy of */
	assert_int_equal(work_may_enter(r->work, fork, "service", false, &e), 0);
	assert_int_equal(work_may_enter(r->work, fork, "bob", false, &e), ERR_FORBIDDEN);
	assert_int_equal(work_may_enter(r->work, "pool-9", "x", false, &e), 0); /* somebody's own agent */
	settle(r, 2);
	assert_int_equal(r->made, 4);
}

static const struct run *begun(struct rig *r, const char *flow)
{
	char id[40], sandbox[64];
	const struct run *last = NULL, *each;

	lease(r, flow, flow, 60, id, sandbox);
	assert_int_equal(run(r, id, flow, flow), 0);
	TAILQ_FOREACH(each, &r->work->runs, entry)
	last = each;
	assert_non_null(last);
	return last;
}

/* A token is held for as long as it may be used. */
static void test_tokens_are_not_kept_longer(void **state)
{
	struct rig *r = *state;

	store_flow(r, "log", "{\"shell\":\"hang\",\"artifacts\":[{\"name\":\"log\",\"stream\":\"stdout\"}]}");
	store_flow(r, "file", "{\"shell\":\"hang\",\"artifacts\":[{\"name\":\"f\",\"path\":\"f\"}]}");
	assert_non_null(begun(r, "long")->token); /* of two steps the first hangs */
	assert_int_equal(r->read_nothing, 1);
	assert_null(begun(r, "file")->token);
	assert_int_equal(r->read_nothing, 2);
	assert_null(begun(r, "log")->token);
	assert_int_equal(r->read_nothing, 2); /* its output is read in the caller's name */
}

static void test_limit(void **state)
{
	char id[40], sandbox[64], request[16];
	struct rig *r = *state;

	for (int i = 0; i < 4; i++) {
		snprintf(request, sizeof(request), "r%d", i);
		lease(r, request, "good", 60, id, sandbox);
	}
	assert_int_equal(ask(r, WORK_LEASE_CREATE, "service", NULL,
			     "{\"userId\":\"alice\",\"workflowId\":\"good\",\"requestId\":\"r9\"}"),
			 ERR_LIMIT);
	assert_int_equal(ask(r, WORK_LEASE_RELEASE, "service", id, NULL), 0);
	lease(r, "r9", "good", 60, id, sandbox);
}

/* A limit of its own, whatever the configuration allows: who waits holds a call. */
static void test_waits(void **state)
{
	struct rig *r = *state;
	unsigned answers = r->answers;
	char body[200];

	r->conf->leases_max = 2000;
	work_set_conf(r->work, r->conf);
	for (int i = 0; i <= 1002; i++) { /* two are ready */
		assert_int_equal(r->answers, answers);
		snprintf(body, sizeof(body), "{\"userId\":\"alice\",\"workflowId\":\"good\",\"requestId\":\"r%d\"}", i);
		begin_ask(r, WORK_LEASE_CREATE, "service", NULL, body);
	}
	assert_int_equal(r->answers, answers + 1);
	assert_int_equal(r->rc, ERR_LIMIT);
	assert_string_equal(r->e.share.limit, "fixed.lease_waits");
	assert_int_equal(r->e.share.value, 1000);
	assert_int_equal(r->e.share.in_use, 1000);
	assert_true(r->e.share.retry_s > 0);
}

static void test_release(void **state)
{
	char id[40], sandbox[64];
	struct rig *r = *state;

	lease(r, "r1", "good", 60, id, sandbox);
	/* a lease of others is as absent */
	assert_int_equal(ask(r, WORK_LEASE_RELEASE, "bob", id, NULL), ERR_NOT_FOUND);
	assert_int_equal(ask(r, WORK_LEASE_HEARTBEAT, "bob", id, NULL), ERR_NOT_FOUND);
	assert_int_equal(ask(r, WORK_LEASE_HEARTBEAT, "service", id, NULL), 0);
	assert_int_equal(ask(r, WORK_LEASE_RELEASE, "service", id, NULL), 0);
	assert_string_equal(text(r, "state"), "RELEASED");
	assert_int_equal(ask(r, WORK_LEASE_RELEASE, "service", id, NULL), 0);
	assert_int_equal(ask(r, WORK_LEASE_HEARTBEAT, "service", id, NULL), ERR_BAD_STATE);
	assert_int_equal(ask(r, WORK_LEASE_RELEASE, "service", "01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c11", NULL),
			 ERR_NOT_FOUND);
	settle(r, 2);
	gone(r, sandbox);
}

static void test_time(void **state)
{
	uint64_t boot = clock_boot_ns();
	int64_t wall = clock_wall_ns();
	char id[40], sandbox[64];
	struct rig *r = *state;

	clock_test_set(boot, wall);
	lease(r, "r1", "good", 60, id, sandbox);
	/* a wall clock that jumps a day ends nothing; time that passes does */
	clock_test_set(boot + 59 * NS_PER_SEC, wall + (int64_t)(86400 * NS_PER_SEC));
	for (int i = 0; i < 3; i++)
		turn(r); /* the timer's turns */
	assert_string_equal(lease_state(r, id), "ACTIVE");
	assert_int_equal(ask(r, WORK_LEASE_HEARTBEAT, "service", id, NULL), 0);
	clock_test_set(boot + 118 * NS_PER_SEC, wall);
	for (int i = 0; i < 3; i++)
		turn(r);
	assert_string_equal(lease_state(r, id), "ACTIVE");
	clock_test_set(boot + 120 * NS_PER_SEC, wall);
	while (strcmp(lease_state(r, id), "EXPIRED") != 0)
		turn(r);
	assert_int_equal(ask(r, WORK_LEASE_RELEASE, "service", id, NULL), ERR_BAD_STATE);
	assert_int_equal(ask(r, WORK_LEASE_HEARTBEAT, "service", id, NULL), ERR_BAD_STATE);
	settle(r, 2);
}

static void test_runs(void **state)
{
	static const struct {
		const char *workflow, *state, *reason;
		unsigned execs;
	} rows[] = {{"good", "SUCCEEDED", "", 2},
		    {"bad", "FAILED", "error", 1},
		    {"late", "FAILED", "timeout", 1},
		    {"none", "FAILED", "error", 1}};
	char id[40], sandbox[64];
	struct rig *r = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned execs = r->execs, released = r->released;

		lease(r, rows[i].workflow, rows[i].workflow, 60, id, sandbox);
		assert_int_equal(run(r, id, rows[i].workflow, rows[i].workflow), 0);
		assert_true(json_is_true(json_object_get(r->result, "accepted")));
		while (strcmp(run_state(r, rows[i].workflow), "RUNNING") == 0)
			turn(r);
		assert_string_equal(text(r, "state"), rows[i].state);
		assert_string_equal(text(r, "reason"), rows[i].reason);
		assert_int_equal(json_array_size(json_object_get(r->result, "steps")), rows[i].execs);
		assert_int_equal(r->execs - execs, rows[i].execs);
		assert_int_equal(r->released - released, 1);
		assert_string_equal(r->token, "secret");
		assert_string_equal(lease_state(r, id), "RELEASED");
		assert_int_equal(run(r, id, rows[i].workflow, rows[i].workflow), 0); /* the same, and nothing runs */
		assert_int_equal(run(r, id, rows[i].workflow, "another"), ERR_BAD_STATE);
		assert_int_equal(r->execs - execs, rows[i].execs);
		settle(r, 2);
		gone(r, sandbox);
		(void)run_state(r, rows[i].workflow);
		assert_string_equal(json_string_value(json_object_get(json_object_get(r->result, "log"), "data")),
				    sandbox); /* as the rig's host says it */
		assert_string_equal(text(r, "clientRequestId"), rows[i].workflow);
	}
}

static void test_run_refused(void **state)
{
	char id[40], sandbox[64];
	struct rig *r = *state;

	lease(r, "r1", "long", 60, id, sandbox);
	assert_int_equal(run(r, "01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c11", "long", "a"), ERR_NOT_FOUND);
	assert_int_equal(run(r, id, "good", "a"), ERR_INVAL);
	/* twice at once: the second hears what became of the first, and one runs */
	begin_ask(r, WORK_RUN_START, "service", NULL, run_text(id, "long", "a"));
	assert_int_equal(r->asked - r->answers, 1);
	assert_int_equal(run(r, id, "long", "a"), 0);
	assert_int_equal(run(r, id, "long", "b"), ERR_BAD_STATE);
	assert_non_null(strstr(r->e.message, "a."));
	assert_int_equal(r->execs, 1);
	/* released in the middle: the step's end, whenever it comes, changes nothing */
	assert_int_equal(ask(r, WORK_LEASE_RELEASE, "service", id, NULL), 0);
	assert_string_equal(run_state(r, "a"), "FAILED");
	assert_string_equal(text(r, "reason"), "released");
	r->exec_done(r->exec_arg, 0, NULL, &(struct work_result){.cause = "lost", .code = -1});
	settle(r, 2);
	assert_int_equal(r->execs, 1);
	/* a grant that ends before the run would */
	lease(r, "r2", "good", 60, id, sandbox);
	char body[300];
	snprintf(body, sizeof(body),
		 "{\"leaseId\":\"%s\",\"workflowId\":\"good\",\"runId\":\"c\",\"token\":\"t\",\"timeoutSeconds\":2000}",
		 id);
	assert_int_equal(ask(r, WORK_RUN_START, "service", NULL, body), ERR_FORBIDDEN);
}

static void test_fill_fails(void **state)
{
	char id[40], sandbox[64];
	struct rig *r = *state;

	lease(r, "r1", "good", 60, id, sandbox);
	settle(r, 2);
	r->fail_prepare = ERR_K8S_FORBIDDEN;
	lease(r, "r2", "good", 60, id, sandbox);
	lease(r, "r3", "good", 60, id, sandbox);
	assert_int_equal(ask(r, WORK_LEASE_CREATE, "service", NULL,
			     "{\"userId\":\"alice\",\"workflowId\":\"good\",\"requestId\":\"r4\"}"),
			 ERR_K8S_FORBIDDEN);
	assert_non_null(strstr(r->e.message, "quota exceeded"));
	r->fail_prepare = 0;
	settle(r, 2); /* after a pause it is tried again */
	assert_int_equal(pool(r, "leased"), 3);
}

static void test_gone(void **state)
{
	char id[40], sandbox[64];
	struct rig *r = *state;

	lease(r, "r1", "long", 60, id, sandbox);
	assert_int_equal(run(r, id, "long", "a"), 0);
	work_sandbox_gone(r->work, sandbox, "the node is gone");
	while (strcmp(run_state(r, "a"), "RUNNING") == 0)
		turn(r);
	assert_string_equal(text(r, "reason"), "lost");
	assert_string_equal(lease_state(r, id), "RELEASED");
	assert_non_null(strstr(text(r, "cause"), "the node is gone"));
	r->exec_done(r->exec_arg, 0, NULL, &(struct work_result){.cause = "lost", .code = -1});
	settle(r, 2);
}

/* Whatever it did when it was cut: afterwards nothing is without an owner, and nothing has two. */
static void test_crash(void **state)
{
	char a[40], b[40], c[40], sa[64], sb[64], sc[64];
	struct rig *r = *state;

	lease(r, "ran", "long", 60, a, sa);
	lease(r, "kept", "good", 60, b, sb);
	lease(r, "lost", "good", 60, c, sc);
	assert_int_equal(run(r, a, "long", "a"), 0);
	r->hold_discard = true; /* one on its way out, one asked for, when the end comes */
	begin_ask(r, WORK_LEASE_CREATE, "service", NULL,
		  "{\"userId\":\"alice\",\"workflowId\":\"good\",\"requestId\":\"cut\"}");
	finish(r);
	assert_int_equal(r->released, 1); /* and its token went with it */
	r->hold_discard = false;
	memset(fake_find(r, sc), 0, sizeof(struct fake));
	snprintf(fake_find(r, "")->name, 64, "pool-01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c11"); /* nobody's */
	start(r);
	settle(r, 2);
	assert_string_equal(run_state(r, "a"), "FAILED");
	assert_string_equal(text(r, "reason"), "crash");
	assert_string_equal(lease_state(r, a), "RELEASED");
	assert_string_equal(lease_state(r, b), "ACTIVE");
	while (strcmp(lease_state(r, c), "ACTIVE") == 0)
		turn(r);
	assert_non_null(strstr(text(r, "cause"), "lost"));
	settle(r, 2);
	gone(r, sa);
	assert_non_null(fake_find(r, sb));
	assert_null(fake_find(r, "pool-01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c11"));
	assert_int_equal(run(r, a, "long", "a"), 0); /* accepted once: known, and not run again */
	assert_int_equal(r->execs, 1);
	/* the call that was cut is made again, and gets one lease */
	lease(r, "kept", "good", 60, c, sc);
	assert_string_equal(c, b);
	assert_int_equal(ask(r, WORK_LEASE_CREATE, "service", NULL,
			     "{\"userId\":\"alice\",\"workflowId\":\"good\",\"requestId\":\"cut\"}"),
			 0);
	settle(r, 2);
	assert_int_equal(pool(r, "leased"), 2);
	unsigned sandboxes = 0;
	for (int i = 0; i < FAKES; i++)
		sandboxes += r->fakes[i].name[0] != '\0';
	assert_int_equal(sandboxes, 4);
}

/* A list of sandboxes may take its time, and knows nothing of those that were made meanwhile. */
static void test_granted_while_the_list_is_out(void **state)
{
	char lost[40], kept[40], new[40], sandbox[64], kept_in[64];
	struct rig *r = *state;

	lease(r, "lost", "good", 60, lost, sandbox);
	lease(r, "kept", "good", 60, kept, kept_in);
	settle(r, 2);
	finish(r);
	for (int i = 0; i < FAKES; i++)
		if (strcmp(r->fakes[i].name, kept_in) != 0)
			memset(&r->fakes[i], 0, sizeof(r->fakes[i]));
	r->hold_list = true;
	start(r);
	settle(r, 2);
	lease(r, "new", "long", 60, new, sandbox);
	assert_int_equal(run(r, new, "long", "a"), 0);
	answer_list(r, 0);
	while (strcmp(lease_state(r, lost), "ACTIVE") == 0)
		turn(r);
	assert_string_equal(lease_state(r, kept), "ACTIVE");
	assert_string_equal(lease_state(r, new), "ACTIVE");
	assert_string_equal(run_state(r, "a"), "RUNNING");
	settle(r, 2);
}

/* A sandbox that was wiped while the list was out is in it, and nobody's for all that. */
static void test_wiped_while_the_list_is_out(void **state)
{
	char id[40], other[40], sandbox[64], other_in[64];
	struct rig *r = *state;
	unsigned wiped;

	lease(r, "r1", "good", 60, id, sandbox);
	lease(r, "r2", "good", 60, other, other_in);
	r->hold_discard = true;
	assert_int_equal(ask(r, WORK_LEASE_RELEASE, "service", id, NULL), 0);
	finish(r);
	r->hold_discard = false;
	r->hold_list = true;
	wiped = r->wiped;
	start(r);
	gone(r, sandbox);
	assert_int_equal(ask(r, WORK_LEASE_HEARTBEAT, "service", other, NULL), 0); /* behind the removal of its row */
	answer_list(r, 0);
	settle(r, 2);
	assert_int_equal(r->wiped - wiped, 1);
	assert_string_equal(lease_state(r, other), "ACTIVE");
}

/* How often the audit log heard that of this lease; each time with an event_id of its own. */
static unsigned told(struct rig *r, const char *event, const char *lease_id, const char *outcome)
{
	unsigned n = 0;
	json_t *o;
	size_t i;

	json_array_foreach(r->told, i, o)
	{
		json_t *d = json_object_get(o, "detail");
		const char *id = json_string_value(json_object_get(d, "lease_id"));

		if (strcmp(json_string_value(json_object_get(o, "event")), event) || !id || strcmp(id, lease_id))
			continue;
		n++;
		assert_string_equal(json_string_value(json_object_get(o, "outcome")), outcome);
		assert_int_equal(strlen(json_string_value(json_object_get(d, "event_id"))), 32);
		assert_string_equal(json_string_value(json_object_get(d, "principal")), "service");
		assert_non_null(json_object_get(o, "agent"));
	}
	return n;
}

/* What was committed is told, be it by the next daemon: the end came between the commit and the word of it. */
static void test_told_once(void **state)
{
	char a[40], b[40], sa[64], sb[64];
	struct rig *r = *state;

	lease(r, "heard", "good", 60, a, sa);
	assert_int_equal(told(r, "lease.create", a, "ok"), 1); /* ahead of the answer */
	r->audit_refuses = true;
	lease(r, "unheard", "long", 60, b, sb);
	assert_int_equal(run(r, b, "long", "a"), 0);
	assert_int_equal(told(r, "lease.create", b, "ok"), 0);
	finish(r);
	r->audit_refuses = false;
	start(r);
	settle(r, 2);
	assert_int_equal(told(r, "lease.create", a, "ok"), 1);
	assert_int_equal(told(r, "lease.create", b, "ok"), 1);
	assert_int_equal(told(r, "run.start", b, "ok"), 1);
	assert_int_equal(told(r, "run.end", b, "FAILED"), 1); /* by what mends after a crash */
	assert_int_equal(told(r, "lease.end", b, "RELEASED"), 1);
	finish(r);
	start(r);
	settle(r, 2);
	assert_int_equal(told(r, "lease.create", b, "ok"), 1);
	assert_int_equal(told(r, "lease.end", b, "RELEASED"), 1);
	assert_int_equal(told(r, "lease.end", a, "RELEASED"), 0);
}

/* The disk of the record is full, so the journal alone has the events, and the machine ends: the next start tells them
 * again. */
static void test_told_until_durable(void **state)
{
	char id[40], sandbox[64];
	struct rig *r = *state;

	r->disk_full = true;
	r->durable = r->audits;
	lease(r, "full", "good", 60, id, sandbox);
	assert_int_equal(ask(r, WORK_LEASE_RELEASE, "service", id, NULL), 0);
	settle(r, 2);
	assert_int_equal(told(r, "lease.end", id, "RELEASED"), 1);
	finish(r);
	json_array_clear(r->told);
	start(r);
	settle(r, 2);
	assert_int_equal(told(r, "lease.create", id, "ok"), 1);
	assert_int_equal(told(r, "lease.end", id, "RELEASED"), 1);
	r->disk_full = false; /* there is room: what was told is durable */
	work_recorded(r->work);
	settle(r, 2);
	finish(r);
	start(r);
	settle(r, 2);
	assert_int_equal(told(r, "lease.end", id, "RELEASED"), 1); /* once */
}

/* An event that no record has room for is told without its detail; the events behind it are told as ever. */
static void test_told_short(void **state)
{
	char a[40], b[40], sa[64], sb[64];
	struct rig *r = *state;
	unsigned cut = 0;
	json_t *o;
	size_t i;

	r->audit_room = 450;
	lease(r, "long", "good", 60, a, sa);
	settle(r, 2);
	assert_int_equal(told(r, "lease.create", a, "ok"), 0);
	json_array_foreach(r->told, i, o)
	{
		if (strcmp(json_string_value(json_object_get(o, "event")), "lease.create") != 0)
			continue;
		cut++;
		assert_string_equal(json_string_value(json_object_get(o, "agent")), sa);
		assert_true(json_is_true(json_object_get(json_object_get(o, "detail"), "cut")));
	}
	assert_int_equal(cut, 1);
	r->audit_room = 0;
	lease(r, "short", "good", 60, b, sb);
	settle(r, 2);
	assert_int_equal(told(r, "lease.create", b, "ok"), 1);
}

static void test_versions(void **state)
{
	static const char two[] =
	    "{\"name\":\"good\",\"owner\":\"alice\",\"version\":2,\"steps\":[{\"shell\":\"code 1\"}]}";
	struct rig *r = *state;

	assert_int_equal(ask(r, WORK_WORKFLOW_PUT, "service", NULL, two), 0);
	assert_int_equal(ask(r, WORK_WORKFLOW_PUT, "service", NULL, two), 0);
	assert_int_equal(
	    ask(r, WORK_WORKFLOW_PUT, "service", NULL,
		"{\"name\":\"good\",\"owner\":\"alice\",\"version\":1,\"steps\":[{\"shell\":\"code 1\"}]}"),
	    ERR_CONFLICT);
	assert_int_equal(ask(r, WORK_WORKFLOW_PUT, "service", NULL,
			     "{\"name\":\"good\",\"owner\":\"bob\",\"version\":3,\"steps\":[{\"shell\":\"code 1\"}]}"),
			 ERR_CONFLICT);
	assert_int_equal(
	    ask(r, WORK_WORKFLOW_PUT, "alice", NULL,
		"{\"name\":\"good\",\"owner\":\"alice\",\"version\":3,\"steps\":[{\"shell\":\"code 1\"}]}"),
	    ERR_FORBIDDEN);
	assert_int_equal(ask(r, WORK_WORKFLOW_SHOW, "service", "good", NULL), 0);
	assert_int_equal(json_integer_value(json_object_get(r->result, "version")), 2);
	assert_int_equal(ask(r, WORK_WORKFLOW_SHOW, "service", "good@1", NULL), 0);
	assert_int_equal(ask(r, WORK_WORKFLOW_SHOW, "service", "good@3", NULL), ERR_NOT_FOUND);
	assert_int_equal(ask(r, WORK_WORKFLOW_SHOW, "alice", "good", NULL), ERR_NOT_FOUND);
}

/* It may store one for whoever owns it, and takes nothing from him by that. */
static void test_version_of_an_administrator(void **state)
{
	static const char format[] =
	    "{\"name\":\"good\",\"owner\":\"alice\",\"version\":%d,\"steps\":[{\"shell\":\"code 0\"}]}";
	char id[40], sandbox[64], body[200];
	struct rig *r = *state;

	snprintf(body, sizeof(body), format, 2);
	assert_int_equal(ask(r, WORK_WORKFLOW_PUT, "admin", NULL, body), 0);
	lease(r, "r1", "good", 60, id, sandbox);
	assert_int_equal(ask(r, WORK_WORKFLOW_SHOW, "service", "good", NULL), 0);
	assert_int_equal(json_integer_value(json_object_get(r->result, "version")), 2);
	snprintf(body, sizeof(body), format, 3);
	assert_int_equal(ask(r, WORK_WORKFLOW_PUT, "service", NULL, body), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    WORK_TEST(test_one_sandbox_one_lease),
	    WORK_TEST(test_limit),
	    WORK_TEST(test_waits),
	    WORK_TEST(test_release),
	    WORK_TEST(test_time),
	    WORK_TEST(test_runs),
	    WORK_TEST(test_tokens_are_not_kept_longer),
	    WORK_TEST(test_run_refused),
	    WORK_TEST(test_fill_fails),
	    WORK_TEST(test_gone),
	    WORK_TEST(test_crash),
	    WORK_TEST(test_granted_while_the_list_is_out),
	    WORK_TEST(test_wiped_while_the_list_is_out),
	    WORK_TEST(test_told_once),
	    WORK_TEST(test_told_until_durable),
	    WORK_TEST(test_told_short),
	    WORK_TEST(test_versions),
	    WORK_TEST(test_version_of_an_administrator),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
