/* Leases, runs and the pool: who may ask, and what control/work/ asks of the hub. */
#define LOG_SUBSYS "broker"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/ring.h"
#include "base/text.h"
#include "control/artifacts/artifacts.h"
#include "control/life/life.h"
#include "control/work/work.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/access/gate.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/broker/broker_artifact.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/core/removals.h"
#include "muxd/hub/link/agent_link.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/launch.h"
#include "muxd/hub/session/session_state.h"

#include <stdlib.h>
#include <string.h>

/* ---- making and ending sandboxes of the pool */

struct host_job {
	struct hub *hub;
	char name[WORK_SANDBOX_MAX];
	char fork[AGENT_NAME_MAX + 1]; /* that is being wiped ahead of it */
	char why[200];
	work_host_done *done;
	void *arg;
};

static struct host_job *host_job_create(struct hub *h, const char *name, const char *why, work_host_done *done,
					void *arg)
{
	struct host_job *j = calloc(1, sizeof(*j));
	struct err e = {0};

	if (!j) {
		done(arg, err_set(&e, ERR_NOMEM, "no memory"), &e);
		return NULL;
	}
	j->hub = h;
	text_put(j->name, sizeof(j->name), name);
	text_put(j->why, sizeof(j->why), why);
	j->done = done;
	j->arg = arg;
	return j;
}

static void host_job_end(struct host_job *j, int rc, const struct err *e)
{
	struct err here = {0};

	if (rc && !e)
		err_set(&here, rc, "the sandbox %s: %s", j->name, err_name(rc)), e = &here;
	j->done(j->arg, rc, rc ? e : NULL);
	free(j);
}

static void broker_work_on_reached(void *arg, int rc, const struct err *e)
{
	host_job_end(arg, rc, e);
}

static void broker_work_on_awake(void *arg, int rc, const struct err *e, json_t *result)
{
	struct host_job *j = arg;
	struct agent *a;

	(void)result;
	if (rc && rc != ERR_UNSUPPORTED) { /* unsupported: nothing sleeps here, and `ensure` makes it */
		host_job_end(j, rc, e);
		return;
	}
	a = agent_get(j->hub, j->name);
	if (a)
		agent_need(a, broker_work_on_reached, j);
	else
		host_job_end(j, ERR_NOMEM, NULL);
}

/* The sandbox waits for its lease however long that takes: no idle timer, no end of its own. */
static void broker_work_prepare(void *ctx, const char *sandbox, work_host_done *done, void *arg)
{
	static const struct life_options awake = {.idle_ttl_ns = 0, .ttl_ns = 0};
	struct hub *h = ctx;
	struct host_job *j = host_job_create(h, sandbox, "", done, arg);

	if (j && hub_life(h))
		life_resume(hub_life(h), sandbox, &awake, 0, broker_work_on_awake, j);
	else if (j)
		broker_work_on_awake(j, 0, NULL, NULL);
}

/* ---- the end of a sandbox of the pool, with every fork of it */

static bool is_fork_of(void *arg, const char *agent)
{
	char origin[AGENT_NAME_MAX + 1];

	return strcmp(agent, arg) != 0 && strcmp(target_origin(agent, origin), arg) == 0;
}

/* out "": there is none. */
static int find_fork(struct host_job *j, char out[AGENT_NAME_MAX + 1], struct err *e)
{
	const struct life_filter f = {.prefix = j->name, .limit = 1, .wanted = is_fork_of, .arg = j->name};
	json_t *found = NULL;
	int rc = hub_life(j->hub) ? life_list(hub_life(j->hub), &f, &found, e) : 0;
	const char *name =
	    json_string_value(json_object_get(json_array_get(json_object_get(found, "agents"), 0), "agent"));

	text_put(out, AGENT_NAME_MAX + 1, name ? name : "");
	json_decref(found);
	return rc;
}

static void discard_gone(struct host_job *j, const char *name)
{
	struct agent *a = agent_find(j->hub, name);

	if (a) {
		struct id was = a->linked;

		agent_gone(j->hub, a->name, &was, j->why);
	}
}

static void discard_next(struct host_job *j);

/* A fork may have been on its way while its sandbox went: of one that is wiped there is none that begins. */
static void discard_done(struct host_job *j, int rc, const struct err *e)
{
	char fork[AGENT_NAME_MAX + 1] = "";
	struct err here = {0};

	if (!rc) {
		discard_gone(j, j->name);
		rc = find_fork(j, fork, &here), e = &here;
	}
	if (!rc && fork[0])
		discard_next(j);
	else
		host_job_end(j, rc, e);
}

static void broker_work_on_gone_only(void *arg, const struct sandbox_answer *r)
{
	const struct err *e = r->e;
	int rc = r->rc;
	struct host_job *j = arg;

	if (rc == ERR_CANCELLED)
		host_job_end(j, rc, e);
	else
		discard_done(j, rc, e);
}

static void broker_work_on_wiped(void *arg, const struct sandbox_answer *r)
{
	const struct err *e = r->e;
	int rc = r->rc;
	struct host_job *j = arg;

	if (rc == ERR_CANCELLED) { /* the hub may be gone */
		host_job_end(j, rc, e);
	} else if (rc == ERR_UNSUPPORTED) { /* then it is ended; names of the pool are never used again */
		struct sandbox_provider *p = hub_provider(j->hub);

		sandbox_ask(p, &(struct sandbox_ask){.op = SANDBOX_DESTROY, .agent = j->name, .reason = j->why},
			    broker_work_on_gone_only, j);
	} else {
		discard_done(j, rc, e);
	}
}

static void broker_work_on_fork_wiped(void *arg, const struct sandbox_answer *r)
{
	struct host_job *j = arg;

	if (r->rc && r->rc != ERR_NOT_FOUND) { /* cancelled: the hub may be gone */
		host_job_end(j, r->rc, r->e);
		return;
	}
	discard_gone(j, j->fork);
	discard_next(j);
}

static void discard_next(struct host_job *j)
{
	struct sandbox_provider *p = hub_provider(j->hub);
	struct err e = {0};
	int rc = find_fork(j, j->fork, &e);

	if (rc)
		host_job_end(j, rc, &e);
	else if (j->fork[0])
		sandbox_ask(p, &(struct sandbox_ask){.op = SANDBOX_WIPE, .agent = j->fork, .reason = j->why},
			    broker_work_on_fork_wiped, j);
	else
		sandbox_ask(p, &(struct sandbox_ask){.op = SANDBOX_WIPE, .agent = j->name, .reason = j->why},
			    broker_work_on_wiped, j);
}

static void discard(void *ctx, const char *sandbox, const char *why, work_host_done *done, void *arg)
{
	struct host_job *j = host_job_create(ctx, sandbox, why, done, arg);

	if (j)
		discard_next(j);
}

struct list_job {
	work_list_done *done;
	void *arg;
};

static void broker_work_on_list(void *arg, const struct sandbox_answer *r)
{
	const struct sandbox_info *list = r->info;
	struct list_job *j = arg;
	struct work_seen *seen = calloc(r->n + 1, sizeof(*seen));
	char origin[AGENT_NAME_MAX + 1];
	size_t got = 0;
	int rc = r->rc;

	if (!rc && !seen)
		rc = ERR_NOMEM;
	if (!rc && r->e) /* what is missing in it must not be taken for gone */
		rc = r->e->code ? r->e->code : ERR_UNAVAILABLE;
	for (size_t i = 0; !rc && i < r->n; i++)
		if (work_is_pool_name(target_origin(list[i].agent, origin)))
			seen[got++] = (struct work_seen){list[i].agent, list[i].state == SANDBOX_RUNNING};
	j->done(j->arg, rc, r->e, seen, got);
	free(seen);
	free(j);
}

static void list(void *ctx, work_list_done *done, void *arg)
{
	struct hub *h = ctx;
	struct sandbox_provider *p = hub_provider(h);
	struct list_job *j = calloc(1, sizeof(*j));

	if (!j) {
		done(arg, ERR_NOMEM, NULL, NULL, 0);
		return;
	}
	*j = (struct list_job){done, arg};
	sandbox_ask(p, &(struct sandbox_ask){.op = SANDBOX_LIST}, broker_work_on_list, j);
}

struct own_log {
	work_log_done *done;
	void *arg;
};

static void broker_work_on_log(void *arg, const struct sandbox_answer *r)
{
	struct own_log *j = arg;

	j->done(j->arg, r->rc, r->e, r->text, r->n);
	free(j);
}

static void own_log(void *ctx, const char *sandbox, work_log_done *done, void *arg)
{
	struct hub *h = ctx;
	struct own_log *j = malloc(sizeof(*j));
	struct err e = {0};

	if (!j || !sandbox_can(hub_provider(h), SANDBOX_LOG)) {
		err_set(&e, j ? ERR_UNSUPPORTED : ERR_NOMEM,
			j ? "this backend keeps no logs of sandboxes" : "no memory");
		free(j);
		done(arg, e.code, &e, NULL, 0);
		return;
	}
	*j = (struct own_log){done, arg};
	sandbox_ask(hub_provider(h), &(struct sandbox_ask){.op = SANDBOX_LOG, .agent = sandbox, .max = WORK_LOG_MAX},
		    broker_work_on_log, j);
}

/* ---- steps of a run, as rounds */

struct exec_job {
	struct session_waiter waiter;
	struct id sandbox_id; /* as its round began */
	work_exec_done *done;
	void *arg;
};

static void set_stream(struct work_stream *out, const struct session_result *r, int stream)
{
	out->bytes = r->total[stream];
	text_put(out->sha256, sizeof(out->sha256), r->sha256[stream]);
}

static void broker_work_on_round_end(void *arg, struct session *s)
{
	struct exec_job *j = arg;
	const struct session_result *r = session_result(s);
	struct work_result out = {.cause = "unknown", .code = -1, .sandbox_id = j->sandbox_id};

	memcpy(out.round, s->id_text, sizeof(out.round));
	if (r) {
		text_put(out.cause, sizeof(out.cause), exit_cause_name(r->cause));
		text_put(out.message, sizeof(out.message), r->message);
		out.code = r->code;
		out.signal = r->signal;
		out.duration_ns = r->duration_ns;
		set_stream(&out.out, r, STREAM_OUTPUT);
		set_stream(&out.err, r, STREAM_STDERR);
	}
	j->done(j->arg, 0, NULL, &out);
	free(j);
}

static void broker_work_on_round(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
				 const struct id *seen)
{
	struct exec_job *j = arg;
	(void)a, (void)seen; /* it has no exec_id: a run begins each of its steps once */
	if (!rc)
		j->sandbox_id = s->agent->linked;
	if (rc) {
		j->done(j->arg, rc, e, NULL);
		free(j);
	} else if (session_result(s)) {
		broker_work_on_round_end(j, s);
	} else {
		session_wait(s, &j->waiter, broker_work_on_round_end, j);
	}
}

static void exec(void *ctx, void *auth, const struct work_exec *x, work_exec_done *done, void *arg)
{
	struct request rq = *(const struct request *)auth;
	struct exec_spec spec = {.kind = SESSION_ROUND,
				 .agent = x->sandbox,
				 .task = rq.grant.task[0] ? NULL : x->run,
				 .argv = x->argv,
				 .command = x->command,
				 .env = x->env,
				 .cwd = x->cwd,
				 .stdin_data = x->input,
				 .stdin_len = x->input_len,
				 .secret = x->token,
				 .secret_len = x->token_len,
				 .timeout_ns = x->timeout_ns,
				 .head = UINT64_MAX,
				 .tail = UINT64_MAX};
	struct hub *h = ctx;
	struct exec_job *j = calloc(1, sizeof(*j));
	struct err e = {0};

	if (!j) {
		done(arg, err_set(&e, ERR_NOMEM, "no memory"), &e, NULL);
		return;
	}
	j->done = done;
	j->arg = arg;
	if (spec.timeout_ns > hub_conf(h)->round_timeout_max_ns)
		spec.timeout_ns = hub_conf(h)->round_timeout_max_ns;
	broker_open(h, &rq, &spec, NULL, NULL, broker_work_on_round, j);
	request_finish(&rq);
}

/* ---- artifacts of its steps */

struct take_job {
	work_take_done *done;
	void *arg;
};

static void broker_work_on_taken(void *arg, int rc, const struct err *e, json_t *row)
{
	struct take_job *j = arg;

	j->done(j->arg, rc, e, row);
	free(j);
}

/* Of the task that the step's round is of: the grant's, or else one that has the run's id. */
static void work_take(void *ctx, void *auth, const struct work_take *t, work_take_done *done, void *arg)
{
	struct request rq = *(const struct request *)auth;
	struct artifact_take a = {.task = rq.grant.task[0] ? rq.grant.task : t->run,
				  .name = t->name,
				  .agent = t->path ? t->sandbox : NULL,
				  .path = t->path,
				  .stream = t->is_stderr ? STREAM_STDERR : STREAM_OUTPUT,
				  .made_by = t->round,
				  .sandbox = t->sandbox_id,
				  .timeout_ns = t->timeout_ns};
	struct take_job *j = calloc(1, sizeof(*j));
	struct hub *h = ctx;
	const struct work_ids *ids = work_ids_of(hub_work(h), t->sandbox);
	struct err e = {0};

	if (!j || (!t->path && id_parse(t->round, &a.round))) {
		free(j);
		done(arg, err_set(&e, ERR_NOMEM, "no memory"), &e, NULL);
		return;
	}
	*j = (struct take_job){done, arg};
	if (a.timeout_ns > hub_conf(h)->file_timeout_max_ns)
		a.timeout_ns = hub_conf(h)->file_timeout_max_ns;
	text_put(rq.work.lease, sizeof(rq.work.lease), t->lease);
	text_put(rq.work.run, sizeof(rq.work.run), t->run);
	if (ids)
		rq.work = *ids;
	broker_artifact_take(h, &rq, &a, broker_work_on_taken, j);
	request_finish(&rq);
}

static void broker_work_release(void *ctx, void *auth)
{
	(void)ctx;
	request_finish(auth);
	free(auth);
}

static void broker_work_reads_nothing(void *ctx, void *auth)
{
	(void)ctx;
	request_finish(auth);
}

static int broker_work_audit(void *ctx, json_t *o)
{
	struct hub *h = ctx;
	int rc;

	json_object_set_new(o, "wall_ns", json_integer((json_int_t)hub_now_wall(h)));
	rc = audit_journal(h, o);
	if (rc)
		log_error(NULL, "audit event %s not journaled: %s", json_string_value(json_object_get(o, "event")),
			  err_name(rc));
	json_decref(o);
	return rc;
}

static uint64_t broker_work_journal(void *ctx, uint64_t *out_durable)
{
	const struct hub *h = ctx;

	*out_durable = journal_durable(hub_journal(h));
	return journal_position(hub_journal(h));
}

static int64_t now(void *ctx)
{
	return hub_now_wall(ctx);
}

static int64_t wall(void *ctx)
{
	(void)ctx;
	return clock_wall_ns();
}

void broker_work_begin(struct hub *h)
{
	const struct artifacts_clock clock = {.now = wall, .waits = hub_removals_wait, .ctx = h};
	struct work_host host = {.ctx = h,
				 .now = now,
				 .removals_wait = hub_removals_wait,
				 .prepare = broker_work_prepare,
				 .discard = discard,
				 .list = list,
				 .log = own_log,
				 .exec = exec,
				 .release = broker_work_release,
				 .reads_nothing = broker_work_reads_nothing,
				 .audit = broker_work_audit,
				 .journal = broker_work_journal,
				 .take = work_take};

	removals_begin(hub_removals(h));
	work_begin(hub_work(h), &host);
	if (hub_artifacts(h))
		artifacts_begin(hub_artifacts(h), &clock);
}

int hub_work_metrics(struct hub *h, struct buf *out)
{
	int rc = work_metrics(hub_work(h), out);

	return rc ? rc : artifacts_metrics(hub_artifacts(h), out);
}

void broker_about(struct hub *h, const char *agent, const struct id *session, struct work_ids *out)
{
	const struct session *s = id_is_nil(session) ? NULL : hub_session_find(h, session);
	const struct work_ids *i = s ? s->launch.work : agent ? work_ids_of(hub_work(h), agent) : NULL;

	if (!i && !s)
		i = work_ids_of_lease(hub_work(h), out->lease);
	if (i && i->lease[0])
		*out = *i;
}

/* ---- who may ask */

struct ask_job {
	struct hub *hub;
	struct request rq;
	enum work_call call;
	char *id; /* both while it waits to be asked */
	json_t *body;
	broker_json_done *done;
	void *arg;
};

static void broker_work_on_answer(void *arg, int rc, const struct err *e, json_t *result)
{
	struct ask_job *j = arg;

	/* what is not found may be another's: the answer does not tell */
	if (rc && rc != ERR_CANCELLED && (work_call_changes(j->call) || rc == ERR_NOT_FOUND || rc == ERR_FORBIDDEN))
		audit_verdict(j->hub, &j->rq, NULL, err_name(rc),
			      json_pack("{s:s,s:s}", "what", work_call_name(j->call), "message", e->message));
	j->done(j->arg, rc, e, result);
	request_finish(&j->rq);
	free(j);
}

static const enum policy_op work_ops[WORK_CALLS] = {
    [WORK_LEASE_CREATE] = POLICY_LEASE_HOLD,     [WORK_LEASE_LIST] = POLICY_LEASE_READ,
    [WORK_LEASE_SHOW] = POLICY_LEASE_READ,       [WORK_LEASE_HEARTBEAT] = POLICY_LEASE_HOLD,
    [WORK_LEASE_RELEASE] = POLICY_LEASE_HOLD,    [WORK_RUN_START] = POLICY_RUN_START,
    [WORK_RUN_LIST] = POLICY_RUN_READ,           [WORK_RUN_SHOW] = POLICY_RUN_READ,
    [WORK_WORKFLOW_PUT] = POLICY_WORKFLOW_WRITE, [WORK_WORKFLOW_LIST] = POLICY_WORKFLOW_READ,
    [WORK_WORKFLOW_SHOW] = POLICY_WORKFLOW_READ, [WORK_POOL_SHOW] = POLICY_LEASE_READ,
};

/* A sandbox of the pool is there already: without an image, and with all that the configuration gives. */
static struct policy_question question_of(const struct hub *h, enum work_call call)
{
	struct policy_question q = {.op = work_ops[call], .image = ""};

	q.makes = q.fixed = call == WORK_LEASE_CREATE || call == WORK_RUN_START;
	resources_most(hub_conf(h), &q.resources);
	if (!q.resources.memory)
		q.resources.memory = UINT64_MAX;
	if (!q.resources.cpu_milli)
		q.resources.cpu_milli = UINT32_MAX;
	if (!q.resources.pids)
		q.resources.pids = UINT32_MAX;
	return q;
}

static int broker_work_check(struct hub *h, const struct request *rq, enum work_call call, struct policy_mark *out_mark,
			     struct err *e)
{
	uint32_t scopes = SCOPE_LIFECYCLE | (call == WORK_RUN_START ? SCOPE_ROUNDS : 0);
	const struct policy_question q = question_of(h, call);
	int rc = broker_in_force(h, rq, work_call_name(call), e);

	if (rc)
		return rc;
	if (strcmp(rq->grant.agent, "*") != 0)
		rc = err_set(e, ERR_FORBIDDEN,
			     "the grant is for %.64s: leases and runs need one for every agent (\"*\")",
			     rq->grant.agent);
	else
		rc = grant_allows(&rq->grant, "pool", scopes, e);
	if (rc)
		audit_verdict(h, rq, NULL, err_name(rc),
			      json_pack("{s:s,s:s}", "what", work_call_name(call), "message", e->message));
	if (!rc)
		rc = broker_policy(h, rq, &q, work_call_name(call), out_mark, e);
	if (!rc && !hub_work(h))
		rc = err_set(e, ERR_UNSUPPORTED, "there are no leases here");
	return rc;
}

/* The request that opens the run's rounds: the caller's grant, and its token, by which the record is asked for the
 * output of steps; it is wiped at once where none is asked for, else when the run is over. */
static struct request *auth_of(const struct request *rq)
{
	struct request *auth = malloc(sizeof(*auth));

	if (auth)
		*auth = *rq;
	return auth;
}

static void broker_work_ask(struct ask_job *j, const char *id, json_t *body)
{
	const struct grant *g = &j->rq.grant;
	const struct grant_line line = grant_line(g);
	char request[ID_STR_LEN];
	bool taken = false;
	struct work_caller c = {.principal = g->principal,
				.request = request,
				.acts_for_all = g->kind == GRANT_SERVICE || g->scopes & SCOPE_ADMIN,
				.sees_all = g->scopes & SCOPE_ADMIN,
				.expires_ns = hub_grant_ends(j->hub, &line),
				.auth = j->call == WORK_RUN_START ? auth_of(&j->rq) : NULL,
				.auth_taken = &taken};
	struct work *w = hub_work(j->hub);
	enum work_call call = j->call;

	id_format(&j->rq.id, request);
	if (call == WORK_RUN_START && !c.auth) {
		struct err e = {0};

		broker_work_on_answer(j, err_set(&e, ERR_NOMEM, "no memory"), &e, NULL);
		return;
	}
	work_ask(w, call, &c, id, body, broker_work_on_answer, j); /* j may be gone now */
	if (c.auth && !taken)
		broker_work_release(NULL, c.auth);
}

static void broker_work_on_writable(void *arg, int rc, const struct err *e)
{
	struct ask_job *j = arg;
	char *id = j->id;
	json_t *body = j->body;

	struct err here = {0};

	j->id = NULL;
	j->body = NULL;
	/* Its events are rows of the database, which know no policy. */
	if (!rc && j->rq.policy.version[0] &&
	    audit_event(j->hub, "policy.allow", &j->rq, NULL, "ok",
			json_pack("{s:s,s:s}", "what", work_call_name(j->call), "operation",
				  policy_op_name(work_ops[j->call]))))
		rc = err_set(&here, ERR_RECORD_UNAVAILABLE, "the record takes nothing now: nothing is changed"),
		e = &here;
	if (rc) {
		j->done(j->arg, rc, e, NULL);
		request_finish(&j->rq);
		free(j);
	} else {
		broker_work_ask(j, id, body);
	}
	free(id);
	json_decref(body);
}

void broker_work(struct hub *h, const struct request *rq, const char *call, const char *id, json_t *body,
		 broker_json_done *done, void *arg)
{
	struct ask_job *j = NULL;
	enum work_call which;
	struct policy_mark mark = {0};
	struct err e = {0};
	int rc = work_call_parse(call, &which);

	if (rc)
		err_set(&e, rc, "unknown call \"%.40s\"", call);
	else
		rc = broker_work_check(h, rq, which, work_call_changes(which) ? &mark : NULL, &e);
	if (!rc && !(j = calloc(1, sizeof(*j))))
		rc = err_set(&e, ERR_NOMEM, "no memory");
	if (rc) {
		done(arg, rc, &e, NULL);
		return;
	}
	*j = (struct ask_job){.hub = h, .rq = *rq, .call = which, .done = done, .arg = arg};
	j->rq.policy = mark;
	if (!work_call_changes(which)) {
		broker_work_ask(j, id, body);
		return;
	}
	j->id = id ? strdup(id) : NULL;
	j->body = json_incref(body);
	if (id && !j->id)
		rc = err_set(&e, ERR_NOMEM, "no memory");
	else
		rc = gate_pass(h, &j->rq, broker_work_on_writable, j, &e);
	if (rc != GATE_WAITS)
		broker_work_on_writable(j, rc, &e);
}
