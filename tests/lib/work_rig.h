/*
 * work_rig.h - leases, runs and the pool over a real store and a FAKE host, which makes no sandboxes: it remembers what
 * it was asked for. A crash is a store that is closed and opened again under a new struct work.
 */
#ifndef TESTS_WORK_RIG_H
#define TESTS_WORK_RIG_H

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "control/store/store.h"
#include "control/work/work.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#define FAKES 64

struct fake {
	char name[64];
	bool running;
};

struct rig {
	char dir[64], path[96];
	uv_loop_t loop;
	struct store *store;
	struct work *work;
	struct conf *conf;
	struct fake fakes[FAKES];
	unsigned made, wiped, execs, released, read_nothing, audits;
	json_t *told; /* to the audit log */
	bool audit_refuses;
	bool disk_full; /* of the record: events go into the journal, and no further than `durable` */
	uint64_t durable;
	bool removals_wait; /* the clock is not believed */
	size_t audit_room;  /* bytes of an event; 0: any */
	int fail_prepare;   /* ERR_* */
	bool hold_discard, hold_list;
	struct fake listed[FAKES]; /* as of the question that is held */
	work_list_done *list_done;
	void *list_arg;
	int fail_discard;          /* so often */
	work_exec_done *exec_done; /* a step that hangs */
	void *exec_arg;
	char token[64];
	unsigned asked, answers;
	int rc;
	struct err e;
	json_t *result;
};

static inline int64_t host_now(void *ctx)
{
	(void)ctx;
	return clock_wall_ns();
}

static inline struct fake *fake_find(struct rig *r, const char *name)
{
	for (int i = 0; i < FAKES; i++)
		if (strcmp(r->fakes[i].name, name) == 0)
			return &r->fakes[i];
	return NULL;
}

static inline void host_prepare(void *ctx, const char *sandbox, work_host_done *done, void *arg)
{
	struct rig *r = ctx;
	struct fake *f = fake_find(r, sandbox);
	struct err e = {0};

	if (r->fail_prepare) {
		done(arg, err_set(&e, r->fail_prepare, "the cluster says: quota exceeded"), &e);
		return;
	}
	if (!f) {
		f = fake_find(r, "");
		assert_non_null(f);
		snprintf(f->name, sizeof(f->name), "%s", sandbox);
		r->made++;
	}
	f->running = true;
	done(arg, 0, NULL);
}

static inline void host_discard(void *ctx, const char *sandbox, const char *why, work_host_done *done, void *arg)
{
	struct rig *r = ctx;
	struct fake *f = fake_find(r, sandbox);

	assert_true(*why);
	if (r->hold_discard)
		return;
	if (r->fail_discard > 0) {
		r->fail_discard--;
		done(arg, ERR_SYS, NULL);
		return;
	}
	if (f)
		memset(f, 0, sizeof(*f));
	r->wiped++;
	done(arg, 0, NULL);
}

static inline void host_log(void *ctx, const char *sandbox, work_log_done *done, void *arg)
{
	struct rig *r = ctx;
	struct err e = {0};

	if (fake_find(r, sandbox))
		done(arg, 0, NULL, (const uint8_t *)sandbox, strlen(sandbox));
	else
		done(arg, err_set(&e, ERR_NOT_FOUND, "it is gone"), &e, NULL, 0);
}

/* rc is not 0: no list. */
static inline void answer_list(struct rig *r, int rc)
{
	struct work_seen list[FAKES];
	size_t n = 0;

	for (int i = 0; !rc && i < FAKES; i++)
		if (r->listed[i].name[0])
			list[n++] = (struct work_seen){r->listed[i].name, r->listed[i].running};
	r->list_done(r->list_arg, rc, NULL, list, n);
}

static inline void host_list(void *ctx, work_list_done *done, void *arg)
{
	struct rig *r = ctx;

	memcpy(r->listed, r->fakes, sizeof(r->listed));
	r->list_done = done;
	r->list_arg = arg;
	if (!r->hold_list)
		answer_list(r, 0);
}

/* "code N", "timeout", "refused", "hang" */
static inline void host_exec(void *ctx, void *auth, const struct work_exec *x, work_exec_done *done, void *arg)
{
	struct work_result out = {.cause = "exit"};
	struct rig *r = ctx;
	struct err e = {0};

	assert_string_equal(auth, "auth");
	assert_non_null(fake_find(r, x->sandbox));
	assert_true(x->timeout_ns > 0);
	snprintf(r->token, sizeof(r->token), "%.*s", (int)x->token_len, x->token);
	r->execs++;
	if (strcmp(x->command, "hang") == 0) {
		r->exec_done = done;
		r->exec_arg = arg;
	} else if (strcmp(x->command, "refused") == 0) {
		done(arg, err_set(&e, ERR_NO_PROGRAM, "no such program"), &e, NULL);
	} else if (strcmp(x->command, "timeout") == 0) {
		snprintf(out.cause, sizeof(out.cause), "timeout");
		out.code = -1;
		done(arg, 0, NULL, &out);
	} else {
		out.code = atoi(x->command + 5);
		done(arg, 0, NULL, &out);
	}
}

static inline void host_release(void *ctx, void *auth)
{
	((struct rig *)ctx)->released++;
	free(auth);
}

static inline void host_reads_nothing(void *ctx, void *auth)
{
	assert_string_equal(auth, "auth");
	((struct rig *)ctx)->read_nothing++;
}

static inline int host_audit(void *ctx, json_t *o)
{
	struct rig *r = ctx;

	assert_non_null(json_object_get(o, "event"));
	if (r->audit_room && json_dumpb(o, NULL, 0, JSON_COMPACT) > r->audit_room) {
		json_decref(o);
		return ERR_TOO_LARGE;
	}
	if (!r->audit_refuses) {
		r->audits++;
		json_array_append(r->told, o);
	}
	json_decref(o);
	return r->audit_refuses ? ERR_RECORD_UNAVAILABLE : 0;
}

/* A position is a number of events; what is beyond `durable` would not outlive the machine. */
static inline uint64_t host_journal(void *ctx, uint64_t *out_durable)
{
	const struct rig *r = ctx;
	uint64_t head = (uint64_t)r->audits;

	*out_durable = r->disk_full && r->durable < head ? r->durable : head;
	return head;
}

/* As of no artifacts: each is refused, at once. */
static inline void host_take(void *ctx, void *auth, const struct work_take *t, work_take_done *done, void *arg)
{
	struct err e = {0};

	(void)ctx, (void)auth, (void)t;
	done(arg, err_set(&e, ERR_UNSUPPORTED, "there are no artifacts here"), &e, NULL);
}

static inline bool host_removals_wait(void *ctx)
{
	return ((struct rig *)ctx)->removals_wait;
}

static inline void turn(struct rig *r)
{
	uv_run(&r->loop, UV_RUN_ONCE);
}

static inline void start(struct rig *r)
{
	struct work_params p = {.loop = &r->loop, .conf = r->conf};
	struct work_host h = {.ctx = r,
			      .now = host_now,
			      .prepare = host_prepare,
			      .discard = host_discard,
			      .list = host_list,
			      .log = host_log,
			      .exec = host_exec,
			      .release = host_release,
			      .reads_nothing = host_reads_nothing,
			      .audit = host_audit,
			      .journal = host_journal,
			      .removals_wait = host_removals_wait,
			      .take = host_take};
	struct err e = {0};

	if (store_open(&r->loop, r->path, &r->store, &e))
		fail_msg("%s", e.message);
	p.store = r->store;
	assert_int_equal(work_create(&p, &r->work, &e), 0);
	work_begin(r->work, &h);
}

static inline void finish(struct rig *r)
{
	work_stop(r->work);
	store_close(r->store);
	work_destroy(r->work);
	r->work = NULL;
	r->store = NULL;
}

static inline void on_answer(void *arg, int rc, const struct err *e, json_t *result)
{
	struct rig *r = arg;

	assert_true(++r->answers <= r->asked);
	r->rc = rc;
	r->e = rc ? *e : (struct err){0};
	json_decref(r->result);
	r->result = rc ? NULL : json_incref(result);
}

static inline void begin_ask(struct rig *r, enum work_call call, const char *who, const char *id, const char *body)
{
	char *auth = strdup("auth");
	bool taken = false;
	struct work_caller c = {.principal = who,
				.request = "01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c11",
				.acts_for_all = strcmp(who, "service") == 0 || strcmp(who, "admin") == 0,
				.sees_all = strcmp(who, "admin") == 0,
				.expires_ns = clock_wall_ns() + (int64_t)(1000 * NS_PER_SEC),
				.auth = auth,
				.auth_taken = &taken};
	json_t *o = body ? json_loads(body, 0, NULL) : NULL;

	r->asked++;
	work_ask(r->work, call, &c, id, o, on_answer, r);
	if (!taken)
		free(auth);
	json_decref(o);
}

static inline int ask(struct rig *r, enum work_call call, const char *who, const char *id, const char *body)
{
	begin_ask(r, call, who, id, body);
	while (r->answers < r->asked)
		turn(r);
	return r->rc;
}

static inline const char *text(struct rig *r, const char *key)
{
	const char *s = json_string_value(json_object_get(r->result, key));

	return s ? s : "";
}

static inline int64_t pool(struct rig *r, const char *what)
{
	assert_int_equal(ask(r, WORK_POOL_SHOW, "admin", NULL, NULL), 0);
	return json_integer_value(json_object_get(r->result, what));
}

/* Until so many are ready and none is on its way. */
static inline void settle(struct rig *r, int ready)
{
	while (ask(r, WORK_POOL_SHOW, "admin", NULL, NULL) == ERR_UNAVAILABLE ||
	       json_integer_value(json_object_get(r->result, "ready")) != ready ||
	       json_integer_value(json_object_get(r->result, "filling")) ||
	       json_integer_value(json_object_get(r->result, "discarding")))
		turn(r);
}

/* A sandbox that is no longer wanted is wiped when the store has said so. */
static inline void gone(struct rig *r, const char *sandbox)
{
	while (fake_find(r, sandbox))
		turn(r);
}

static inline void store_flow(struct rig *r, const char *name, const char *steps)
{
	char body[400];

	snprintf(body, sizeof(body), "{\"name\":\"%s\",\"owner\":\"alice\",\"version\":1,\"steps\":[%s]}", name, steps);
	assert_int_equal(ask(r, WORK_WORKFLOW_PUT, "service", NULL, body), 0);
}

static inline int setup(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	r->told = json_array();
	snprintf(r->dir, sizeof(r->dir), "/tmp/test-work.XXXXXX");
	assert_non_null(mkdtemp(r->dir));
	snprintf(r->path, sizeof(r->path), "%s/control.db", r->dir);
	assert_int_equal(uv_loop_init(&r->loop), 0);
	assert_int_equal(conf_create(&r->conf), 0);
	r->conf->pool_size = 2;
	r->conf->leases_max = 4;
	start(r);
	settle(r, 2);
	store_flow(r, "good", "{\"shell\":\"code 0\"},{\"shell\":\"code 3\",\"continueOnError\":true}");
	store_flow(r, "bad", "{\"shell\":\"code 5\"},{\"shell\":\"code 0\"}");
	store_flow(r, "late", "{\"shell\":\"timeout\"}");
	store_flow(r, "none", "{\"shell\":\"refused\"}");
	store_flow(r, "long", "{\"shell\":\"hang\"},{\"shell\":\"code 0\"}");
	*state = r;
	return 0;
}

static inline int teardown(void **state)
{
	struct rig *r = *state;
	char cmd[128];

	finish(r);
	clock_test_reset();
	uv_run(&r->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&r->loop), 0);
	conf_destroy(r->conf);
	json_decref(r->told);
	json_decref(r->result);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", r->dir);
	assert_int_equal(system(cmd), 0);
	free(r);
	return 0;
}

static inline void lease(struct rig *r, const char *request, const char *workflow, int ttl, char id[40],
			 char sandbox[64])
{
	char body[300];

	snprintf(body, sizeof(body),
		 "{\"userId\":\"alice\",\"workflowId\":\"%s\",\"requestId\":\"%s\",\"ttlSeconds\":%d}", workflow,
		 request, ttl);
	if (ask(r, WORK_LEASE_CREATE, "service", NULL, body))
		fail_msg("%s", r->e.message);
	snprintf(id, 40, "%s", text(r, "leaseId"));
	snprintf(sandbox, 64, "%s", text(r, "sandboxId"));
}

static inline const char *run_text(const char *lease_id, const char *workflow, const char *id)
{
	static char body[300];

	snprintf(
	    body, sizeof(body),
	    "{\"leaseId\":\"%s\",\"workflowId\":\"%s\",\"runId\":\"%s\",\"token\":\"secret\",\"timeoutSeconds\":100}",
	    lease_id, workflow, id);
	return body;
}

static inline int run(struct rig *r, const char *lease_id, const char *workflow, const char *id)
{
	return ask(r, WORK_RUN_START, "service", NULL, run_text(lease_id, workflow, id));
}

static inline const char *run_state(struct rig *r, const char *id)
{
	assert_int_equal(ask(r, WORK_RUN_SHOW, "service", id, NULL), 0);
	return text(r, "state");
}

static inline const char *lease_state(struct rig *r, const char *id)
{
	assert_int_equal(ask(r, WORK_LEASE_SHOW, "service", id, NULL), 0);
	return text(r, "state");
}

#define WORK_TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

#endif
