/* Opening: verdict, record, sandbox, intent, OPEN, and the answer once the sandbox has said `opened`. */
#define LOG_SUBSYS "broker"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/record_rule.h"
#include "base/text.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/access/gate.h"
#include "muxd/hub/access/grant_use.h"
#include "muxd/hub/access/policy.h"
#include "muxd/hub/agent/service_wait.h"
#include "muxd/hub/agent/settings.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/broker/broker_shape.h"
#include "muxd/hub/broker/round_wishes.h"
#include "muxd/hub/core/exec_ids.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/core/shelf.h"
#include "muxd/hub/link/agent_link.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/file_limits.h"
#include "muxd/hub/session/launch.h"
#include "muxd/hub/session/session_end.h"
#include "muxd/hub/session/session_json.h"
#include "muxd/hub/session/session_run.h"
#include "muxd/hub/session/session_share.h"
#include "muxd/hub/session/session_state.h"
#include "muxd/hub/session/wake.h"
#include "policy/profile.h"

#include <stdlib.h>
#include <string.h>

struct open_job {
	struct hub *hub;
	char name[AGENT_NAME_MAX + 1]; /* as it was said */
	struct agent *agent;           /* NULL until the whole name is known */
	struct request rq;
	enum session_kind kind;
	struct launch launch;
	char policy[POLICY_VERSION_LEN]; /* whose limits the launch has; "": there was none */
	bool judged;                     /* the policy was asked about what it is a part of */
	bool timed;                      /* its caller said for how long */
	bool uses;                       /* it is a use of a grant that has a number of them, not yet counted */
	bool never_wakes;                /* it runs in only_in or nowhere */
	struct id only_in;
	struct exec_place place; /* clear NULL: it takes none */
	bool cleared;            /* which was left for it, so the place is its own */
	const struct attachment_ops *ops;
	void *ops_arg;
	broker_open_done *done;
	void *arg;
	struct attachment *attachment;
};

static void broker_open_job_free(struct open_job *j)
{
	launch_finish(&j->launch);
	request_finish(&j->rq);
	free(j);
}

/* A caller that is over a share or a number of uses asks again and again: such refusals are counted, as those of grants
 * are. */
static void audit_refused(const struct open_job *j, int rc, const struct err *e)
{
	const char *agent = j->agent ? j->agent->name : j->name, *message = e ? e->message : "";

	if (e && e->policy.version[0]) /* a verdict: told, and counted, as policy.deny */
		return;
	if (e && (e->share.limit[0] || rc == ERR_TOKEN_USED))
		audit_verdict(j->hub, &j->rq, agent, err_name(rc),
			      json_pack("{s:s,s:s}", "what",
					e->share.limit[0] ? e->share.limit : session_kind_name(j->kind), "message",
					message));
	else
		(void)audit_event(j->hub, "session.refused", &j->rq, agent, err_name(rc),
				  json_pack("{s:s}", "message", message));
}

/* A question to a monitor that has died is taken back: nothing is noted of it, but its caller took nothing back. */
static void job_fail(struct open_job *j, int rc, const struct err *e)
{
	struct err gone = {0};

	if (rc == ERR_CANCELLED)
		rc = err_set(&gone, ERR_UNAVAILABLE, "the daemon is stopping; nothing was started"), e = &gone;
	else
		audit_refused(j, rc, e);
	j->done(j->arg, rc, e, NULL, NULL, NULL);
	broker_open_job_free(j);
}

static const char *start_event(const struct session *s)
{
	if (s->kind == SESSION_PORT)
		return "port.open";
	if (s->kind == SESSION_FILE)
		return s->launch.transfer->row->event;
	return s->kind == SESSION_ROUND ? "round.start" : "session.open";
}

/* A person's own terminal that waits for the longest, with nobody at it, makes room for the one that is opened now;
 * here: it is the sandbox that has no room, so an end elsewhere would give none. */
static struct session *broker_open_room(struct hub *h, const struct agent *a, bool here, const struct grant *g)
{
	struct session *s, *oldest = NULL;

	TAILQ_FOREACH(s, hub_sessions(h), order)
	if (s->linger_at && s->kind == SESSION_TERMINAL && s->state != SESSION_ENDED && !s->killing &&
	    TAILQ_EMPTY(&s->attachments) && strcmp(s->grant->principal, g->principal) == 0 &&
	    (!here || s->agent == a) &&
	    (!oldest || (s->agent == a) > (oldest->agent == a) ||
	     ((s->agent == a) == (oldest->agent == a) && s->linger_at < oldest->linger_at)))
		oldest = s;
	return oldest;
}

static void broker_open_make_room(struct session *s)
{
	if (s)
		session_kill(s, EXIT_KILLED,
			     "it made room for another of the same person's: a limit of sessions is reached");
}

/* Sessions that end for it are not counted beside it. */
static void places_set_aside(const struct open_job *j, bool aside)
{
	for (size_t i = 0; i < sizeof(j->place.of) / sizeof(j->place.of[0]); i++) {
		struct session *s = hub_session_find(j->hub, &j->place.of[i]);

		if (s)
			session_share_set_aside(s, aside);
	}
}

/* *out_room: who is to end for it, once nothing can refuse it any more; NULL: nobody. */
static int ask_shares(struct open_job *j, struct session **out_room, struct err *e)
{
	const struct grant *g = &j->rq.grant;
	struct agent *a = j->agent;
	int rc = session_share_ask(a, g, j->kind, &j->launch, e);
	bool here;

	if (rc != ERR_LIMIT || !share_is_staff(g))
		return rc;
	here = session_share_ask_elsewhere(a, g, j->kind, &j->launch, NULL) == 0;
	*out_room = broker_open_room(j->hub, a, here, g);
	return *out_room ? 0 : rc;
}

static int check_shares(struct open_job *j, struct session **out_room, struct err *e)
{
	int rc;

	places_set_aside(j, true);
	rc = ask_shares(j, out_room, e);
	places_set_aside(j, false);
	return rc;
}

/* Files and ports are muxlet's own work. NULL: it can do that. */
static const char *cannot(const struct agent *a, enum session_kind kind, const struct launch *l)
{
	if (kind == SESSION_PORT)
		return link_has_ports(a->link) ? NULL : "ports cannot be reached in";
	if (l->serves)
		return link_has_probe(a->link) ? NULL : "MCP servers by address cannot be reached in";
	if (kind == SESSION_FILE && l->transfer->limited && !link_has_changes(a->link))
		return "a grant's limits of paths and sizes are not held in";
	if (kind == SESSION_FILE && l->transfer->row->newest)
		return link_has_changes(a->link) ? NULL : "no patch of changes is made in";
	if (kind == SESSION_FILE && l->transfer->row->later)
		return link_has_survey(a->link) ? NULL : "neither watches nor trees are known in";
	if (kind == SESSION_FILE && l->transfer->row->asks)
		return link_has_fs(a->link) ? NULL : "there are no file operations in";
	return kind != SESSION_FILE || link_has_files(a->link) ? NULL : "files cannot be moved in or out of";
}

static int check_muxlet(const struct agent *a, enum session_kind kind, const struct launch *l, struct err *e)
{
	const char *what = cannot(a, kind, l);

	if (!what)
		return 0;
	if (a->info.backend == SANDBOX_PLAIN)
		return agent_plain(a, what, l->serves ? "name a command" : "use rounds", e);
	return err_set(e, ERR_UNSUPPORTED, "%s %s: its muxlet is from before that was possible; end the sandbox once",
		       what, a->name);
}

static int audit_start(const struct session *s, const struct request *rq)
{
	json_t *open = session_open_json(s), *d = json_object();
	static const char *const shown[] = {
	    "argv",       "cwd",  "timeout_ms", "idle_timeout_ms", "exec_id", "task",   "snapshot_id",
	    "sandbox_id", "file", "port",       "shell",           "context", "service"};

	for (size_t i = 0; open && d && i < sizeof(shown) / sizeof(shown[0]); i++)
		if (json_object_get(open, shown[i]))
			json_object_set(d, shown[i], json_object_get(open, shown[i]));
	json_object_set_new(d, "session", json_string(s->id_text));
	json_decref(open);
	return audit_event(s->hub, start_event(s), rq, s->agent->name, "allowed", d);
}

/* The record and the audit log both say that it begins, or neither does. */
static int write_start(struct session *s, const struct request *rq, struct err *e)
{
	struct journal *j = hub_journal(s->hub);
	int rc;

	journal_hold(j);
	rc = session_intend(s, e);
	if (!rc && (rc = audit_start(s, rq)))
		rc = err_set(e, rc == ERR_AGAIN ? ERR_RECORD_UNAVAILABLE : rc,
			     "the event of its beginning cannot be journaled: %s", err_name(rc));
	journal_let(j, !rc);
	return rc;
}

/*
 * The same exec_id again: the same round if it is the same call, a conflict if not. True: that was the answer. False,
 * too, for a round of which only the sandbox can tell whether it ever began: that is asked for, then looked at again.
 */
static bool seen_before(struct open_job *j)
{
	const struct exec_use *k;
	const struct session *s;
	struct err e = {0};
	char id[ID_STR_LEN];

	if (!j->launch.exec_id)
		return false;
	k = exec_ids_find(hub_exec_ids(j->hub), j->agent->name, agent_life(j->hub, j->agent->name),
			  j->rq.grant.principal, j->launch.exec_id);
	s = k ? hub_session_find(j->hub, &k->session) : NULL;
	if (!k || (s && session_start_unsure(s)))
		return false;
	if (strcmp(k->digest, j->launch.digest) != 0) {
		id_format(&k->session, id);
		err_set(&e, ERR_CONFLICT, "exec_id %s was used for another call: round %s", j->launch.exec_id, id);
		j->done(j->arg, e.code, &e, NULL, NULL, NULL);
	} else {
		j->done(j->arg, 0, NULL, hub_session_find(j->hub, &k->session), NULL, &k->session);
	}
	broker_open_job_free(j);
	return true;
}

static int remember_exec_id(const struct open_job *j, const struct session *s)
{
	struct exec_use u = {.session = s->id, .life = s->life};

	memcpy(u.digest, s->launch.digest, sizeof(u.digest));
	return exec_ids_add(hub_exec_ids(j->hub), j->agent->name, j->rq.grant.principal, s->launch.exec_id, &u);
}

/* Not started: the client hears why, and which session of the record that was; it gets no attachment. */
static void answer_failure(struct open_job *j, const struct session *s, int rc, const char *why)
{
	struct err e = {0};

	if (j->attachment) {
		j->attachment->over = true;
		attachment_detach(j->attachment);
	}
	why = why && *why ? why : "the program could not be started";
	if (rc == ERR_LIMIT && s->result)
		err_limit(&e, rc, &s->result->share, "%s", why);
	else
		err_set(&e, rc, "%s", why);
	if (s->kind == SESSION_TERMINAL || s->kind == SESSION_EXEC || s->kind == SESSION_ROUND)
		err_set_begun(&e, s->id_text, s->kind == SESSION_ROUND);
	j->done(j->arg, e.code, &e, NULL, NULL, NULL);
}

static void broker_open_on_opened(void *arg, struct session *s, int rc, const char *why)
{
	struct open_job *j = arg;

	if (rc) {
		answer_failure(j, s, rc, why);
	} else {
		if (j->attachment)
			attachment_release(j->attachment); /* queued only: the door hears `done` first */
		j->done(j->arg, 0, NULL, s, j->attachment, NULL);
	}
	broker_open_job_free(j);
}

static int enter_shell(struct open_job *j, struct err *e)
{
	int rc = shells_enter(hub_shells(j->hub), &(struct shell_owner){j->agent->name, j->rq.grant.principal},
			      &j->agent->info.sandbox_id, &j->launch.shell, e);

	return rc ? rc : launch_enter_shell(&j->launch) ? err_set(e, ERR_NOMEM, "no memory for the call") : 0;
}

static int take_record(struct open_job *j, struct err *e)
{
	struct record_rule r;

	broker_policy_record(j->hub, &j->rq, j->agent->name, j->launch.task, j->kind, &r);
	return launch_record_by(&j->launch, &r) ? err_set(e, ERR_NOMEM, "no memory for a session") : 0;
}

static int enter_context(const struct open_job *j, struct err *e)
{
	const struct context_use *u = &j->launch.context;

	return u->role ? contexts_enter(hub_contexts(j->hub),
					&(struct context_owner){j->agent->name, j->rq.grant.principal}, u, e)
		       : 0;
}

static int begin_context(const struct open_job *j, const struct session *s)
{
	struct context_begin b = {
	    .session = s->id, .sandbox = j->agent->info.sandbox_id, .cwd = s->launch.cwd, .env = s->launch.env};

	return contexts_begin(hub_contexts(j->hub), &(struct context_owner){j->agent->name, j->rq.grant.principal},
			      &s->launch.context, &b);
}

static void broker_open_on_ready(void *arg, int rc, const struct err *e);

/* For what runs in one sandbox or nowhere. */
static int check_sandbox(const struct open_job *j, struct err *e)
{
	const struct agent *a = j->agent;

	if (!j->never_wakes || (agent_is_awake(a) && id_equal(&a->linked, &j->only_in)))
		return 0;
	return err_set(e, ERR_LINK_LOST,
		       "the sandbox of %s that it ran in has ended, is being stopped, or cannot be reached", a->name);
}

static const char *policy_version(const struct hub *h)
{
	const struct policy *p = hub_policy(h);

	return p ? p->version : "";
}

static int ask_policy(struct open_job *j, const char *agent, struct err *e)
{
	int rc;

	if (j->judged)
		return 0;
	places_set_aside(j, true);
	rc = broker_policy_launch(j->hub, &j->rq, agent, j->kind, &j->launch, &j->rq.policy, e);
	places_set_aside(j, false);
	return rc;
}

/* While a sandbox woke the policy may have changed, and with it the paths and times that the launch has. */
static int ask_policy_again(struct open_job *j, struct err *e)
{
	int rc = ask_policy(j, j->agent->name, e);

	if (rc || j->judged || strcmp(j->policy, policy_version(j->hub)) == 0)
		return rc;
	return err_set(e, ERR_AGAIN, "the policy has changed meanwhile: nothing was started");
}

static void broker_open_begin(void *arg, int rc, const struct err *e);

/* A port is a service's, which may be on its way up: whoever woke its sandbox is answered by it. */
static int wait_for_service(struct open_job *j, struct err *e)
{
	uint16_t port = j->kind == SESSION_PORT ? j->launch.port : j->launch.serves;

	return port ? service_wait(j->agent, port, broker_open_begin, j, e) : 0;
}

static void broker_open_on_used(void *arg, int rc, const struct err *e)
{
	struct open_job *j = arg;

	j->uses = false;
	broker_open_begin(j, rc, e);
}

/* Behind all that may refuse it. GATE_WAITS: broker_open_begin() comes again, and looks at all of that again. */
static int count_use(struct open_job *j, struct err *e)
{
	if (!j->uses)
		return 0;
	return grant_use(j->hub, &j->rq, &(struct grant_use_of){j->agent->name, j->launch.exec_id, j->launch.digest},
			 broker_open_on_used, j, e);
}

static void broker_open_on_cleared(void *arg, int rc, const struct err *e)
{
	struct open_job *j = arg;

	j->cleared = true;
	if (rc)
		broker_open_begin(j, rc, e);
	else
		broker_open_on_ready(j, 0, NULL);
}

/*
 * All that may refuse it, before anything is begun or ended. A place that was left for it is not judged again: whoever
 * was in it ended for that.
 */
static int may_begin(struct open_job *j, struct session **out_room, struct err *e)
{
	int rc = j->cleared ? 0 : ask_policy_again(j, e);

	if (!rc)
		rc = check_muxlet(j->agent, j->kind, &j->launch, e);
	if (!rc && !j->cleared)
		rc = check_shares(j, out_room, e);
	if (!rc)
		rc = enter_context(j, e);
	return rc ? rc : count_use(j, e);
}

/* The sandbox is awake, and the record can be written. From here on the session carries the job. */
static void broker_open_begin(void *arg, int rc, const struct err *e)
{
	struct open_job *j = arg;
	struct session *s = NULL, *room = NULL;
	struct err here = {0};

	if (rc) {
		job_fail(j, rc, e);
		return;
	}
	rc = check_sandbox(j, &here);
	if (rc) {
		job_fail(j, rc, &here);
		return;
	}
	/* The record may have been waited for, and its sandbox may have gone or be ending by now: it is woken again. */
	if (j->agent->state != AGENT_UP || j->agent->stopping) {
		j->cleared = false;
		agent_need(j->agent, broker_open_on_ready, j);
		return;
	}
	rc = wait_for_service(j, &here);
	if (rc == SERVICE_WAITS)
		return;
	if (rc) {
		job_fail(j, rc, &here);
		return;
	}
	/* Waking takes its time: meanwhile the grant may have been revoked, or the lease may have gone. */
	rc = broker_reach(j->hub, &j->rq, j->agent->name, scope_of(j->kind), session_kind_name(j->kind), &here);
	if (!rc && seen_before(j)) /* the same call came meanwhile, and waited too */
		return;
	if (!rc)
		rc = may_begin(j, &room, &here);
	if (rc == GATE_WAITS || (!rc && j->place.clear && !j->place.clear(j->place.arg, broker_open_on_cleared, j)))
		return;
	if (!rc && j->launch.shell.name[0])
		rc = enter_shell(j, &here);
	if (!rc)
		rc = take_record(j, &here);
	if (!rc)
		rc = session_create(j->agent, &j->rq, j->kind, &j->launch, &s, &here);
	if (!rc)
		rc = write_start(s, &j->rq, &here);
	if (rc) {
		session_free(s);
		job_fail(j, rc, &here);
		return;
	}
	broker_open_make_room(room);
	session_touch(s);
	s->on_opened = broker_open_on_opened;
	s->opened_arg = j;
	if (s->launch.artifacts)
		rc = round_wishes_begin(s, &j->rq, &j->agent->linked);
	if (!rc && s->launch.exec_id)
		rc = remember_exec_id(j, s);
	if (!rc && s->launch.shell.name[0])
		rc = shells_begin(hub_shells(j->hub), &(struct shell_owner){j->agent->name, j->rq.grant.principal},
				  &j->agent->info.sandbox_id, &s->launch.shell, &s->id);
	if (!rc)
		rc = begin_context(j, s);
	if (!rc && j->ops)
		rc = attachment_create(s, &j->rq, ROLE_DRIVER, j->ops, j->ops_arg, true, &j->attachment);
	/* Either failure ends the session, and that answers the job. */
	if (rc)
		session_finish(s, EXIT_NOT_STARTED, -1, 0,
			       rc == ERR_RECORD_UNAVAILABLE ? "the record takes nothing now" : "no memory");
	else
		(void)session_start(s, &here);
}

static void broker_open_on_ready(void *arg, int rc, const struct err *e)
{
	struct open_job *j = arg;
	struct err here = {0};

	if (rc && !e)
		err_set(&here, rc, "the sandbox of %s is not there: %s", j->agent->name, err_name(rc)), e = &here;
	if (!rc)
		rc = gate_pass(j->hub, &j->rq, broker_open_begin, j, &here), e = &here;
	if (rc != GATE_WAITS)
		broker_open_begin(j, rc, e);
}

static void limit_time(struct open_job *j, const char *agent)
{
	bool asks = j->kind == SESSION_ROUND && !j->timed;
	uint64_t most = asks ? broker_policy_round_time(j->hub, &j->rq, agent, j->launch.task) : 0;

	if (most && j->launch.timeout_ns > most)
		j->launch.timeout_ns = most;
}

static void limit_size(struct open_job *j, const char *agent)
{
	struct transfer *t = j->launch.transfer;

	if (t)
		broker_policy_size(j->hub, &j->rq, agent, j->launch.task, broker_policy_op_of(j->kind, &j->launch),
				   &t->by_policy);
}

/* Files as grant and profile allow them together; a round that asks for no time has no more than the profile's. */
static int make_launch(struct open_job *j, const struct exec_spec *spec, struct grant_files *out_files, struct err *e)
{
	struct grant g = j->rq.grant;
	int rc;

	if (!spec->judged)
		broker_policy_files(j->hub, &j->rq, spec->agent, spec->task, &g.files);
	*out_files = g.files;
	rc = launch_from_spec(j->hub, &g, spec, &j->launch, e);
	if (rc)
		return rc;
	limit_time(j, spec->agent);
	if (!spec->judged)
		limit_size(j, spec->agent);
	return 0;
}

/* By its whole name a pod may be another profile's than by the one that was said. */
static int limit_anew(struct open_job *j, struct err *e)
{
	struct grant_files files = j->rq.grant.files;

	if (strcmp(j->agent->name, j->name) == 0)
		return 0;
	limit_time(j, j->agent->name);
	if (!j->launch.transfer || j->judged)
		return 0;
	broker_policy_files(j->hub, &j->rq, j->agent->name, j->launch.task, &files);
	limit_size(j, j->agent->name);
	return transfer_limit(j->launch.transfer, &files, e);
}

static int broker_open_prepare(struct open_job *j, const struct exec_spec *spec, struct err *e)
{
	struct hub *h = j->hub;
	struct grant_files files;
	int rc = broker_reach(h, &j->rq, spec->agent, scope_of(spec->kind), session_kind_name(spec->kind), e);

	if (!rc && spec->artifacts)
		rc = broker_reach(h, &j->rq, spec->agent, SCOPE_FILES, "artifacts", e);
	if (!rc && spec->kind == SESSION_FILE && file_limits_check(&j->rq.grant.files, spec->file, e))
		rc = broker_refused(h, &j->rq, spec->agent, file_op_row(spec->file->op)->event, e);
	if (rc)
		return rc;
	if (hub_stopping(h))
		return err_set(e, ERR_UNAVAILABLE, "the daemon is stopping");
	rc = hub_policy_settle(h, e); /* limits and verdict are of one version */
	if (rc)
		return rc;
	text_put(j->policy, sizeof(j->policy), policy_version(h));
	text_put(j->name, sizeof(j->name), spec->agent);
	rc = make_launch(j, spec, &files, e);
	if (!rc && launch_leased(&j->launch, work_ids_of(hub_work(h), spec->agent)))
		rc = err_set(e, ERR_NOMEM, "no memory");
	if (rc) {
		audit_verdict(h, &j->rq, spec->agent, err_name(rc),
			      json_pack("{s:s,s:s}", "what", session_kind_name(spec->kind), "message", e->message));
		return rc;
	}
	rc = ask_policy(j, spec->agent, e);
	if (!rc && spec->kind == SESSION_FILE && file_limits_check(&files, spec->file, e))
		rc = broker_refused(h, &j->rq, spec->agent, file_op_row(spec->file->op)->event, e);
	return rc;
}

/* A sandbox that is up was made for somebody before: of one that is not, the profile is asked. */
static void broker_open_need(struct open_job *j)
{
	const struct policy_question q = {.op = broker_policy_op_of(j->kind, &j->launch), .task = j->launch.task};

	if (agent_is_awake(j->agent))
		agent_need(j->agent, broker_open_on_ready, j);
	else
		broker_shape_need(j->agent, &j->rq, &q, session_kind_name(j->kind), broker_open_on_ready, j);
}

static void broker_open_on_named(void *arg, const struct sandbox_answer *r)
{
	const struct err *e = r->e;
	int rc = r->rc;
	struct open_job *j = arg;
	struct err here = {0};

	if (!rc && !(j->agent = agent_get(j->hub, r->name)))
		rc = err_set(&here, ERR_NOMEM, "no memory"), e = &here;
	if (!rc && (rc = limit_anew(j, &here)) != 0)
		e = &here;
	if (!rc && (rc = settings_apply(j->agent, j->timed || j->judged, &j->launch, &here)) != 0)
		e = &here;
	if (!rc)
		limit_time(j, j->agent->name);
	if (!rc && (rc = check_sandbox(j, &here)))
		e = &here;
	if (rc) {
		job_fail(j, rc, e);
		return;
	}
	if (j->never_wakes)
		broker_open_on_ready(j, 0, NULL);
	else if (!seen_before(j))
		broker_open_need(j);
}

static void broker_open_on_writable(void *arg, int rc, const struct err *e)
{
	struct open_job *j = arg;

	if (rc) {
		j->done(j->arg, rc, e, NULL, NULL, NULL);
		broker_open_job_free(j);
		return;
	}
	hub_resolve(j->hub, j->name, broker_open_on_named, j);
}

/* A round tells a shell that is kept in the sandbox to end: a caller without a use left may end what he began. */
static bool ends_something(const struct exec_spec *spec)
{
	return spec->shell_end || (spec->context && spec->context->role == CONTEXT_DELETION);
}

void broker_open(struct hub *h, const struct request *rq, const struct exec_spec *spec,
		 const struct attachment_ops *ops, void *ops_arg, broker_open_done *done, void *arg)
{
	struct open_job *j = calloc(1, sizeof(*j));
	struct err e = {0};
	int rc;

	if (!j) {
		err_set(&e, ERR_NOMEM, "no memory");
		done(arg, ERR_NOMEM, &e, NULL, NULL, NULL);
		return;
	}
	j->hub = h;
	j->rq = *rq;
	j->kind = spec->kind;
	j->judged = spec->judged;
	j->timed = spec->timeout_ns != 0;
	j->uses = !spec->judged && !spec->part && !ends_something(spec);
	j->never_wakes = spec->only_in;
	if (spec->only_in)
		j->only_in = *spec->only_in;
	if (spec->place)
		j->place = *spec->place;
	j->ops = ops;
	j->ops_arg = ops_arg;
	j->done = done;
	j->arg = arg;
	rc = broker_open_prepare(j, spec, &e);
	if (rc) {
		done(arg, rc, &e, NULL, NULL, NULL);
		broker_open_job_free(j);
		return;
	}
	rc = gate_pass(h, &j->rq, broker_open_on_writable, j, &e);
	if (rc != GATE_WAITS)
		broker_open_on_writable(j, rc, &e);
}
