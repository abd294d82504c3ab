/*
 * Lifecycle through the broker.
 *
 * A job: CHECKED -> (a fork of a session: FINDING it) -> ASKED (audited, with life) -> (a resume: LINKING) -> answered.
 * A resume that is to begin with an artifact looks that up first, and where the agent is not there yet has a snapshot
 * made of it (begin_tree.h), or waits until another call has.
 * Its end may come after the hub's, with ERR_CANCELLED: then the hub is not touched.
 * Over 1,000 lines: ten verbs are one table over this one job.
 */
#define LOG_SUBSYS "broker"
#include "muxd/hub/broker/broker_life.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/servers/lists.h"
#include "control/servers/settings_def.h"
#include "control/work/work.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/access/gate.h"
#include "muxd/hub/broker/agent_json.h"
#include "muxd/hub/broker/begin_tree.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/broker/broker_artifact.h"
#include "muxd/hub/broker/broker_shape.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/link/agent_link.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/record/reader.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/launch.h"
#include "muxd/hub/session/session_state.h"
#include "policy/reason.h"

#include <stdlib.h>
#include <string.h>

#define LIFECYCLE       (SCOPE_LIFECYCLE | SCOPE_ADMIN)
#define KILL_TIMEOUT_NS (15 * NS_PER_SEC)

struct life_job {
	struct hub *hub;
	enum life_verb verb;
	struct request rq;
	struct life_call call;
	char agent[AGENT_NAME_MAX + 1], as[AGENT_NAME_MAX + 1], reason[GRANT_REASON_MAX + 1];
	int64_t at_wall_ns; /* fork */
	char check[24];     /* fork, restore: "checked", "not_checked", ... */
	char *pod_template; /* call.options has it; NULL: none was given */
	json_t *settings;   /* resume: a change of them; NULL */
	json_t *by_profile; /* what image and resources its profile gave, and clipped; NULL */
	bool again;         /* resume with a snapshot: it was looked for once more */
	uint64_t until_ns;  /* resume with an artifact: its caller waits, boot time; 0: to its end */
	char sha256[ARTIFACT_SHA256_SZ];
	struct begin_tree *tree; /* that call.snapshot was made in, of call.from; NULL */
	json_t *result;
	broker_json_done *done; /* NULL: its caller was told that it goes on */
	void *arg;
};

static void act_resume(struct life *l, struct life_job *j);
static void act_stop(struct life *l, struct life_job *j);
static void act_terminate(struct life *l, struct life_job *j);
static void act_snapshot(struct life *l, struct life_job *j);
static void act_restore(struct life *l, struct life_job *j);
static void act_fork(struct life *l, struct life_job *j);
static void act_drop(struct life *l, struct life_job *j);
static void act_kill(struct life *l, struct life_job *j);

static const struct verb {
	const char *name, *event;
	enum policy_op op;
	bool reason;
	void (*act)(struct life *l, struct life_job *j);
} verbs[VERB_COUNT] = {
    [VERB_RESUME] = {"resume", "agent.resume", POLICY_SANDBOX_WAKE, false, act_resume},
    [VERB_STOP] = {"stop", "sandbox.stop", POLICY_SANDBOX_STOP, true, act_stop},
    [VERB_TERMINATE] = {"terminate", "sandbox.terminate", POLICY_SANDBOX_STOP, true, act_terminate},
    [VERB_SNAPSHOT] = {"snapshot", "sandbox.snapshot", POLICY_SNAPSHOT_TAKE, false, act_snapshot},
    [VERB_RESTORE] = {"restore", "sandbox.restore", POLICY_SNAPSHOT_RESTORE, true, act_restore},
    [VERB_FORK] = {"fork", "sandbox.fork", POLICY_SNAPSHOT_FORK, false, act_fork},
    [VERB_KILL] = {"kill", "sandbox.kill", POLICY_SANDBOX_STOP, true, act_kill},
    [VERB_DROP] = {"drop", "snapshot.drop", POLICY_SNAPSHOT_DROP, true, act_drop},
};

const char *life_verb_name(enum life_verb v)
{
	return verbs[v].name;
}

bool life_verb_needs_reason(enum life_verb v)
{
	return verbs[v].reason;
}

void life_call_init(struct life_call *c)
{
	memset(c, 0, sizeof(*c));
	c->options.idle_ttl_ns = c->options.ttl_ns = UINT64_MAX;
	c->how = LIFE_END_BY_REASON;
}

/* ---- the end of a job */

static void broker_life_job_free(struct life_job *j)
{
	json_decref(j->result);
	json_decref(j->settings);
	json_decref(j->by_profile);
	request_finish(&j->rq);
	free(j->pod_template);
	free(j);
}

static void job_answer(struct life_job *j, int rc, const struct err *e)
{
	struct err here = {0};

	if (!rc && !j->result)
		rc = err_set(&here, ERR_NOMEM, "no memory for the answer"), e = &here;
	if (rc && (!e || !e->message[0]))
		err_set(&here, rc, "%s of %s: %s", verbs[j->verb].name, j->agent, err_name(rc)), e = &here;
	if (j->by_profile && j->result)
		(void)json_object_set(j->result, "by_profile", j->by_profile);
	if (j->done)
		j->done(j->arg, rc, rc ? e : NULL, rc ? NULL : j->result);
	broker_life_job_free(j);
}

static void set_id(json_t *o, const char *key, const struct id *id)
{
	char text[ID_STR_LEN];

	id_format(id, text);
	if (o && !id_is_nil(id))
		json_object_set_new(o, key, json_string(text));
}

static void set_from(json_t *o, const struct life_call *c)
{
	char text[WORKSPACE_TEXT_SZ];

	if (c->from.form != WORKSPACE_NONE)
		json_object_set_new(o, "workspace", json_string(workspace_from_text(&c->from, text)));
}

/* The digest alone: a template has variables, which may be anybody's secret. */
static void set_template(json_t *o, const char *text)
{
	char digest[SANDBOX_DIGEST_LEN];

	if (!text)
		return;
	life_template_digest(text, digest);
	json_object_set_new(o, "own_pod_template", *digest ? json_string(digest) : json_null());
}

static json_t *asked_detail(const struct life_job *j)
{
	static const char *const ends[] = {"snapshot", "keep", "wipe", "by reason"};
	const struct life_call *c = &j->call;
	json_t *o = json_pack("{s:s}", "reason", j->reason[0] ? j->reason : j->rq.grant.reason);

	if (!o)
		return NULL;
	set_id(o, "snapshot_id", &c->snapshot);
	set_from(o, c);
	set_id(o, "of_session", &c->session);
	if (j->verb == VERB_TERMINATE)
		json_object_set_new(o, "how", json_string(ends[c->how]));
	if (j->as[0])
		json_object_set_new(o, "as", json_string(j->as));
	if (j->verb == VERB_FORK)
		json_object_set_new(o, "writable", json_boolean(c->writable));
	if (c->any)
		json_object_set_new(o, "accept_differs", json_true());
	if (j->check[0])
		json_object_set_new(o, "snapshot_check", json_string(j->check));
	if (c->options.idle_ttl_ns != UINT64_MAX)
		json_object_set_new(o, "idle_ttl_ms", json_integer((json_int_t)(c->options.idle_ttl_ns / NS_PER_MS)));
	if (c->options.ttl_ns != UINT64_MAX)
		json_object_set_new(o, "ttl_ms", json_integer((json_int_t)(c->options.ttl_ns / NS_PER_MS)));
	set_template(o, j->pod_template);
	if (c->options.sets_app)
		json_object_set_new(o, "app_id", *c->options.app_id ? json_string(c->options.app_id) : json_null());
	if (c->place.cluster[0])
		json_object_set_new(o, "cluster", json_string(c->place.cluster));
	if (c->place.ns[0])
		json_object_set_new(o, "namespace", json_string(c->place.ns));
	if (c->options.sets_image)
		json_object_set_new(o, "image", *c->options.image ? json_string(c->options.image) : json_null());
	if (c->options.sets_resources)
		json_object_set_new(o, "resources", resources_json(&c->options.resources));
	if (j->by_profile)
		json_object_set(o, "by_profile", j->by_profile);
	return o;
}

static void audit_outcome(struct life_job *j, int rc, const struct err *e)
{
	json_t *o = asked_detail(j);
	const char *made = json_string_value(json_object_get(j->result, "agent"));

	if (o && rc && e)
		json_object_set_new(o, "message", json_string(e->message));
	if (o && !rc && j->verb == VERB_FORK && made)
		json_object_set_new(o, "as", json_string(made));
	(void)audit_event(j->hub, verbs[j->verb].event, &j->rq, j->agent, rc ? err_name(rc) : "ok", o);
}

static void broker_life_job_end(struct life_job *j, int rc, const struct err *e)
{
	begin_tree_end(j->tree); /* NULL but where no agent was made of it */
	j->tree = NULL;
	if (rc != ERR_CANCELLED)
		audit_outcome(j, rc, e);
	job_answer(j, rc, e);
}

/* ---- what life answers */

static void broker_life_on_agent(void *arg, int rc, const struct err *e, json_t *result)
{
	struct life_job *j = arg;
	const char *name = json_string_value(json_object_get(result, "agent"));
	bool end = j->verb == VERB_TERMINATE, wiped = end && j->call.how == LIFE_END_WIPE;
	struct err here = {0};

	if (!rc && end && !wiped && json_integer_value(json_object_get(result, "generation")) == 0)
		rc = err_set(&here, ERR_NOT_FOUND, "there is no agent %s: nothing was ended", j->agent), e = &here;
	if (!rc && name)
		j->result = wiped ? json_incref(result) : agent_show(j->hub, name, NULL, result);
	if (j->result && j->check[0])
		json_object_set_new(j->result, "snapshot_check", json_string(j->check));
	broker_life_job_end(j, rc, e);
}

static void broker_life_on_linked(void *arg, int rc, const struct err *e)
{
	struct life_job *j = arg;

	if (!rc)
		j->result = agent_show_now(j->hub, j->agent);
	broker_life_job_end(j, rc, e);
}

static void broker_life_on_resumed(void *arg, int rc, const struct err *e, json_t *result)
{
	struct life_job *j = arg;
	struct agent *a;

	(void)result;
	if (rc) {
		broker_life_job_end(j, rc, e);
		return;
	}
	a = agent_get(j->hub, j->agent);
	if (!a) {
		broker_life_job_end(j, ERR_NOMEM, NULL);
		return;
	}
	agent_touch(a);
	agent_need(a, broker_life_on_linked, j);
}

static void broker_life_on_snapshot(void *arg, int rc, const struct err *e, json_t *result)
{
	struct life_job *j = arg;

	if (!rc)
		j->result = json_incref(result);
	broker_life_job_end(j, rc, e);
}

static void broker_life_on_dropped(void *arg, int rc, const struct err *e, json_t *result)
{
	struct life_job *j = arg;

	(void)result;
	if (!rc) {
		j->result = json_pack("{s:s,s:s}", "agent", j->agent, "state", "removed");
		set_id(j->result, "snapshot_id", &j->call.snapshot);
	}
	broker_life_job_end(j, rc, e);
}

/* ---- asking life */

static void resume(struct life *l, struct life_job *j);
static void from_artifact(struct life_job *j);

/* Somebody made it meanwhile: it may have begun with the same. */
static void broker_life_on_begun(void *arg, int rc, const struct err *e, json_t *result)
{
	struct life_job *j = arg;
	struct begin_tree *tree = j->tree;

	j->tree = NULL;
	begin_tree_end(tree);
	if (rc == ERR_CONFLICT && !j->again) {
		j->again = true;
		if (tree)
			from_artifact(j);
		else
			resume(hub_life(j->hub), j);
	} else {
		broker_life_on_resumed(j, rc, e, result);
	}
}

static bool is_of(const struct life_job *j, const json_t *agent)
{
	const json_t *forked = json_object_get(agent, "forked_from"), *began = json_object_get(agent, "began_with");
	char id[ID_STR_LEN], text[WORKSPACE_TEXT_SZ];

	if (json_is_true(json_object_get(agent, "read_only")))
		return false;
	id_format(&j->call.snapshot, id);
	if (j->call.from.form == WORKSPACE_NONE)
		return strcmp(json_get_text(forked, "snapshot"), id) == 0;
	return strcmp(json_get_text(began, "workspace"), workspace_from_text(&j->call.from, text)) == 0 &&
	       strcmp(json_get_text(began, "sha256"), j->sha256) == 0;
}

static int began_otherwise(const struct life_job *j, struct err *e)
{
	char id[ID_STR_LEN], text[WORKSPACE_TEXT_SZ];
	bool artifact = j->call.from.form != WORKSPACE_NONE;

	id_format(&j->call.snapshot, id);
	return err_set(e, ERR_CONFLICT,
		       "%s is there, and its workspace did not begin with %s%.300s%s: leave workspace out, choose "
		       "another name, or "
		       "restore a snapshot of its own",
		       j->agent, artifact ? "" : "snapshot ", artifact ? workspace_from_text(&j->call.from, text) : id,
		       artifact ? " as that is now" : "");
}

/* One that is there and begun with the same goes on; of one that is not there yet *out is false. */
static int begun_with(struct life *l, const struct life_job *j, bool *out, struct err *e)
{
	json_t *o = NULL;
	int rc = life_show(l, j->agent, &o, e);

	*out = rc == 0;
	if (rc)
		return rc == ERR_NOT_FOUND ? 0 : rc;
	if (!is_of(j, o))
		rc = began_otherwise(j, e);
	json_decref(o);
	return rc;
}

/* Behind a wait: the grant may have been revoked, or the lease of its sandbox have ended, or become another's. */
static int source_enter(struct life_job *j, struct err *e)
{
	char whose[AGENT_NAME_MAX + 1];
	int rc;

	if (j->tree)
		return broker_in_force(j->hub, &j->rq, "workspace", e);
	rc = life_snapshot_of(hub_life(j->hub), &j->call.snapshot, whose, e);
	return rc ? rc : broker_check_enter(j->hub, &j->rq, whose, "workspace", e);
}

/* Of what the call says; 0: it says nothing. */
static uint64_t time_left(const struct life_job *j)
{
	uint64_t now = clock_boot_ns();

	if (!j->until_ns || !j->done)
		return j->done ? j->call.timeout_ns : 0;
	return j->until_ns > now + NS_PER_MS ? j->until_ns - now : NS_PER_MS;
}

static void begin_with(struct life *l, struct life_job *j)
{
	struct life_fork f = {
	    .snapshot = j->call.snapshot, .as = j->agent, .writable = true, .options = j->call.options};
	char text[WORKSPACE_TEXT_SZ];
	struct err e = {0};
	bool there = false;
	int rc = source_enter(j, &e);

	if (j->tree) {
		f.began = workspace_from_text(&j->call.from, text);
		f.began_sha256 = j->sha256;
	} else if (!rc) {
		rc = begun_with(l, j, &there, &e);
	}
	if (rc)
		broker_life_job_end(j, rc, &e);
	else if (there)
		life_resume(l, j->agent, &j->call.options, time_left(j), broker_life_on_resumed, j);
	else
		life_fork(l, &f, time_left(j), broker_life_on_begun, j);
}

static void resume(struct life *l, struct life_job *j)
{
	if (!id_is_nil(&j->call.snapshot)) {
		begin_with(l, j);
		return;
	}
	life_resume(l, j->agent, &j->call.options, time_left(j), broker_life_on_resumed, j);
}

static void broker_life_on_settings(void *arg, int rc, const struct err *e, json_t *result)
{
	struct life_job *j = arg;

	(void)result;
	if (rc)
		broker_life_job_end(j, rc, e);
	else
		resume(hub_life(j->hub), j);
}

/* Ahead of its start: what begins with it begins with them. A resume that is refused changes none. */
static void put_settings(struct life_job *j)
{
	json_t *now = NULL, *next = NULL, *call = audit_request_json(&j->rq);
	struct err e = {0};
	int rc = life_resume_check(hub_life(j->hub), j->agent, &j->call.options, &e);

	if (!rc)
		rc = lists_get(hub_store(j->hub), &list_settings, j->agent, 0, &now, &e);
	if (!rc && !(next = settings_merge(json_object_get(now, "settings"), j->settings)))
		rc = err_set(&e, ERR_NOMEM, "no memory for settings");
	if (!rc)
		rc = settings_check(next, &e); /* all together may be too many */
	if (rc)
		broker_life_job_end(j, rc, &e);
	else
		lists_put(hub_store(j->hub), &list_settings,
			  &(struct list_put){.agent = j->agent,
					     .list = next,
					     .if_version = json_integer_value(json_object_get(now, "version")),
					     .principal = j->rq.grant.principal,
					     .call = call,
					     .now_ns = hub_now_wall(j->hub)},
			  broker_life_on_settings, j);
	json_decref(call);
	json_decref(next);
	json_decref(now);
}

static void resume_with_settings(struct life_job *j)
{
	if (j->settings)
		put_settings(j);
	else
		resume(hub_life(j->hub), j);
}

/* ---- a workspace that begins with an artifact: looked up, made a snapshot of, and that is forked */

static void broker_life_on_tree(void *arg, int rc, const struct err *e, struct begin_tree *t, const struct id *snapshot)
{
	struct life_job *j = arg;

	if (rc) {
		broker_life_job_end(j, rc, e);
		return;
	}
	j->tree = t;
	j->call.snapshot = *snapshot;
	resume_with_settings(j);
}

static void broker_life_on_late(void *arg, int rc, const struct err *e)
{
	struct life_job *j = arg;

	if (j->done)
		j->done(j->arg, rc, e, NULL);
	j->done = NULL;
}

static void broker_life_on_waited(void *arg, int rc, const struct err *e)
{
	if (rc)
		broker_life_job_end(arg, rc, e);
	else
		from_artifact(arg);
}

static int make_tree(struct life_job *j, const json_t *row, struct err *e)
{
	struct hub *h = j->hub;
	int rc = begin_tree_wait(h, j->agent, j->until_ns, broker_life_on_waited, j, e);

	if (rc)
		return rc == BEGIN_WAITS ? 0 : rc;
	return begin_tree_open(h, &j->rq,
			       &(struct begin_tree_of){.agent = j->agent,
						       .from = &j->call.from,
						       .row = row,
						       .options = &j->call.options,
						       .until_ns = j->until_ns},
			       broker_life_on_tree, broker_life_on_late, j, e);
}

static void broker_life_on_artifact(void *arg, int rc, const struct err *e, json_t *row)
{
	struct life_job *j = arg;
	struct err here = {0};
	bool there = false;

	if (!rc) {
		text_put(j->sha256, sizeof(j->sha256), json_get_text(row, "sha256"));
		rc = begun_with(hub_life(j->hub), j, &there, &here);
		rc = rc || there ? rc : make_tree(j, row, &here);
		e = &here;
	}
	if (rc)
		broker_life_job_end(j, rc, e);
	else if (there)
		resume_with_settings(j);
}

static void from_artifact(struct life_job *j)
{
	j->call.snapshot = (struct id){0};
	broker_artifact_get(j->hub, &j->rq, j->call.from.task, j->call.from.name, true, broker_life_on_artifact, j);
}

/* An agent that began with something else keeps its settings; begin_with() looks again, behind them. */
static int check_begun(struct life *l, struct life_job *j, struct err *e)
{
	bool there;
	int rc = source_enter(j, e);

	return rc ? rc : begun_with(l, j, &there, e);
}

static void act_resume(struct life *l, struct life_job *j)
{
	struct err e = {0};
	int rc;

	if (j->call.from.form == WORKSPACE_NONE) {
		rc = id_is_nil(&j->call.snapshot) ? 0 : check_begun(l, j, &e);
		if (rc)
			broker_life_job_end(j, rc, &e);
		else
			resume_with_settings(j);
		return;
	}
	j->until_ns = j->call.timeout_ns ? clock_boot_ns() + j->call.timeout_ns : 0;
	from_artifact(j);
}

static void act_stop(struct life *l, struct life_job *j)
{
	life_stop(l, j->agent, j->reason, j->call.timeout_ns, broker_life_on_agent, j);
}

static void act_terminate(struct life *l, struct life_job *j)
{
	life_terminate(l, j->agent, j->reason, j->call.how, j->call.timeout_ns, broker_life_on_agent, j);
}

static void act_snapshot(struct life *l, struct life_job *j)
{
	life_snapshot(l, j->agent, j->call.timeout_ns, broker_life_on_snapshot, j);
}

/* A snapshot is named by itself, and must be one of the agent that the grant was checked for. */
static int check_owner(struct life *l, const char *agent, const struct id *snapshot, struct err *e)
{
	json_t *list = NULL, *each;
	char id[ID_STR_LEN];
	bool found = false;
	size_t i;
	int rc = life_snapshots(l, agent, &list, e);

	if (rc)
		return rc;
	id_format(snapshot, id);
	json_array_foreach(json_object_get(list, "snapshots"), i, each)
	{
		const char *own = json_string_value(json_object_get(each, "id"));
		const char *status =
		    json_string_value(json_object_get(each, "status")); /* dropping is as good as gone */

		found = found || (own && strcmp(own, id) == 0 && status && strncmp(status, "drop", 4) != 0);
	}
	json_decref(list);
	return found ? 0 : err_set(e, ERR_NOT_FOUND, "%s has no snapshot %s", agent, id);
}

/* A job about a snapshot of another agent ends here, with the refusal. */
static bool owned(struct life *l, struct life_job *j)
{
	struct err e = {0};
	int rc = check_owner(l, j->agent, &j->call.snapshot, &e);

	if (rc)
		broker_life_job_end(j, rc, &e);
	return rc == 0;
}

/* ---- is it what the log says it was? */

static struct life_fork fork_asked(const struct life_job *j)
{
	return (struct life_fork){.snapshot = j->call.snapshot,
				  .agent = j->agent,
				  .at_wall_ns = j->at_wall_ns ? j->at_wall_ns : hub_now_wall(j->hub),
				  .as = j->as[0] ? j->as : NULL,
				  .writable = j->call.writable,
				  .options = j->call.options};
}

static void restore_or_fork(struct life *l, struct life_job *j)
{
	struct life_fork f;
	struct err e = {0};

	/* Its check has read a file: the lease may have gone meanwhile, and what of it is copied with it. */
	if (broker_check_enter(j->hub, &j->rq, j->agent, verbs[j->verb].name, &e)) {
		broker_life_job_end(j, e.code, &e);
		return;
	}
	if (j->verb == VERB_RESTORE) {
		life_restore(l, j->agent, &j->call.snapshot, j->call.timeout_ns, broker_life_on_agent, j);
		return;
	}
	f = fork_asked(j);
	life_fork(l, &f, j->call.timeout_ns, broker_life_on_agent, j);
}

static void broker_life_on_checked(void *arg, int rc, const struct err *e, const char *what)
{
	struct life_job *j = arg;

	text_put(j->check, sizeof(j->check), what ? what : "");
	if (rc && !(rc == ERR_SNAPSHOT_DIFFERS && j->call.any))
		broker_life_job_end(j, rc, e);
	else
		restore_or_fork(hub_life(j->hub), j);
}

static void act_checked(struct life *l, struct life_job *j)
{
	struct err e = {0};
	struct life_fork f;

	if (!id_is_nil(&j->call.snapshot) && !owned(l, j))
		return;
	if (!j->call.check) {
		text_put(j->check, sizeof(j->check), "not_checked");
		restore_or_fork(l, j);
		return;
	}
	f = fork_asked(j);
	/* The one of a moment is looked up once: what is checked is what is forked. */
	if (id_is_nil(&j->call.snapshot) && life_fork_of(l, &f, &j->call.snapshot, &e))
		broker_life_job_end(j, e.code, &e);
	else
		life_check(l, &j->call.snapshot, broker_life_on_checked, j);
}

static void act_restore(struct life *l, struct life_job *j)
{
	act_checked(l, j);
}

static void act_drop(struct life *l, struct life_job *j)
{
	if (owned(l, j))
		life_snapshot_drop(l, j->agent, &j->call.snapshot, broker_life_on_dropped, j);
}

static void act_fork(struct life *l, struct life_job *j)
{
	act_checked(l, j);
}

static void broker_life_on_cleared(void *arg, int rc, const struct err *e, unsigned ended)
{
	struct life_job *j = arg;

	if (!rc && (j->result = agent_show_now(j->hub, j->agent)))
		json_object_set_new(j->result, "sessions_ended", json_integer(ended));
	broker_life_job_end(j, rc, e);
}

/* One container has one name: that of its link. */
static void broker_life_on_whole_name(void *arg, const struct sandbox_answer *r)
{
	int rc = r->rc;
	struct life_job *j = arg;
	struct agent *a = rc ? NULL : agent_get(j->hub, r->name);
	char why[200];

	if (!rc && !a)
		rc = ERR_NOMEM;
	if (rc) {
		broker_life_job_end(j, rc, r->e);
		return;
	}
	text_put(j->agent, sizeof(j->agent), a->name);
	text_format(why, sizeof(why), "everything inside was ended by %.60s: %.100s", j->rq.grant.principal, j->reason);
	agent_clear(a, why, j->call.timeout_ns ? j->call.timeout_ns : KILL_TIMEOUT_NS, broker_life_on_cleared, j);
}

static void act_kill(struct life *l, struct life_job *j)
{
	(void)l;
	hub_resolve(j->hub, j->agent, broker_life_on_whole_name, j);
}

/* ---- checks, the same for all */

static bool sets_options(const struct life_call *c)
{
	return !id_is_nil(&c->snapshot) || c->from.form != WORKSPACE_NONE || c->options.idle_ttl_ns != UINT64_MAX ||
	       c->options.ttl_ns != UINT64_MAX || c->pod_template || c->options.pod_template || c->options.sets_image ||
	       c->options.sets_resources || c->options.sets_app || c->settings;
}

/* A further demand of the call, which its event names. */
static int check_part(struct life_job *j, const struct policy_question *q, uint32_t any, const char *what,
		      struct err *e)
{
	struct policy_mark part = {0};
	int rc = broker_check_any(j->hub, &j->rq, q, any, what, &part, e);

	policy_mark_join(&j->rq.policy, &part);
	return rc;
}

/* Where nobody may give a template, a grant with admin may still take one away. */
static int check_template_scope(struct life_job *j, const char *agent, struct err *e)
{
	const char *who = hub_conf(j->hub)->kubernetes_template_per_create;
	uint32_t any = strcmp(who, "lifecycle") == 0 ? LIFECYCLE : SCOPE_ADMIN;

	if (strcmp(who, "nobody") == 0 && *j->pod_template) {
		err_set(e, ERR_FORBIDDEN,
			"kubernetes.pod_template_per_create is nobody: no agent gets a pod template of its own");
		return broker_refused(j->hub, &j->rq, agent, "pod_template", e);
	}
	return check_part(j, &(struct policy_question){.op = POLICY_SANDBOX_SHAPE, .agent = agent}, any, "pod_template",
			  e);
}

/* Of those that the configuration names; what an image is, who asks has no say in. */
static int check_image(struct life_job *j, const char *agent, struct err *e)
{
	const struct policy_question q = {.op = POLICY_SANDBOX_SHAPE, .agent = agent};
	int rc = check_part(j, &q, LIFECYCLE, "image", e);

	if (!rc && *j->call.options.image && conf_image_allowed(hub_conf(j->hub), j->call.options.image, e))
		rc = broker_refused(j->hub, &j->rq, agent, "image", e);
	return rc;
}

/* More than the configured limits is clipped and said; a limit that the backend does not have is refused. */
static int check_resources(struct life_job *j, const char *agent, struct err *e)
{
	const struct policy_question q = {.op = POLICY_SANDBOX_SHAPE, .agent = agent};
	const struct conf *c = hub_conf(j->hub);
	bool pods = strcmp(c->sandbox_backend, "local") != 0;
	int rc = check_part(j, &q, LIFECYCLE, "resources", e);

	if (rc || !pods || resources_none(&j->call.options.resources))
		return rc;
	if (*c->kubernetes_warm_pool)
		return err_set(
		    e, ERR_UNSUPPORTED,
		    "pods of kubernetes.warm_pool have the resources of their template: resources cannot be asked for");
	return j->call.options.resources.pids
		   ? err_set(e, ERR_UNSUPPORTED, "resources.pids: the node's kubelet limits the processes of pods")
		   : 0;
}

/* A leased sandbox may be ended by who administers; its content, and how long it lives, are its lease's. */
static int check_scope(struct life_job *j, const char *agent, struct err *e)
{
	const struct policy_mark before = j->rq.policy; /* of the agent that is copied */
	bool plain = j->verb == VERB_RESUME && !sets_options(&j->call) && !j->settings;
	uint32_t any = plain                  ? SCOPE_TERMINAL | SCOPE_ROUNDS | SCOPE_LIFECYCLE
		       : j->verb == VERB_KILL ? SCOPE_DRIVE | LIFECYCLE
					      : LIFECYCLE;
	const struct policy_question q = {.op = verbs[j->verb].op, .agent = agent};
	int rc = broker_check_any(j->hub, &j->rq, &q, any, verbs[j->verb].name, &j->rq.policy, e);

	policy_mark_join(&j->rq.policy, &before);
	if (!rc && j->pod_template)
		rc = check_template_scope(j, agent, e);
	if (!rc && j->call.options.sets_image)
		rc = check_image(j, agent, e);
	if (!rc && j->call.options.sets_resources)
		rc = check_resources(j, agent, e);
	if (rc || j->verb == VERB_STOP || j->verb == VERB_TERMINATE || j->verb == VERB_KILL)
		return rc;
	return broker_check_enter(j->hub, &j->rq, agent, verbs[j->verb].name, e);
}

/* A leased sandbox ends with its lease, and so does each copy of it: none has a name of its own. */
static int check_copied(const char *of, struct err *e)
{
	char origin[AGENT_NAME_MAX + 1];

	if (!work_is_pool_name(target_origin(of, origin)))
		return 0;
	return err_set(e, ERR_INVAL, "a copy of a leased sandbox has no name of its own: it ends with the lease");
}

/* A workspace is copied for whoever might fork it. Of any other snapshot nobody is told that it is there. */
static int check_begin(struct life_job *j, struct err *e)
{
	struct policy_question q = {.op = POLICY_SNAPSHOT_FORK};
	char whose[AGENT_NAME_MAX + 1], id[ID_STR_LEN];
	int rc = life_snapshot_of(hub_life(j->hub), &j->call.snapshot, whose, e);

	q.agent = whose;
	if (!rc)
		rc = check_part(j, &q, LIFECYCLE, "workspace", e);
	if (!rc)
		rc = broker_check_enter(j->hub, &j->rq, whose, "workspace", e);
	if (!rc)
		rc = check_copied(whose, e);
	if (rc != ERR_FORBIDDEN && rc != ERR_NOT_FOUND)
		return rc;
	id_format(&j->call.snapshot, id);
	return err_set(e, ERR_NOT_FOUND, "there is no snapshot %s, or your grant does not reach its sandbox", id);
}

/* Where the call names none it has its own image and resources, or those of the agent that it is a copy of. */
static int check_shape(struct life_job *j, struct err *e)
{
	bool template = j->pod_template && *j->pod_template;
	struct shape_ask ask = {.op = verbs[j->verb].op,
				.agent = j->as[0] ? j->as : j->agent,
				.of = j->agent,
				.copies = j->verb == VERB_FORK,
				.own_template = template,
				.drops_template = j->pod_template && !template};
	char whose[AGENT_NAME_MAX + 1];

	if (j->verb != VERB_RESUME && j->verb != VERB_FORK)
		return 0;
	if (j->verb == VERB_RESUME && !id_is_nil(&j->call.snapshot)) {
		int rc = life_snapshot_of(hub_life(j->hub), &j->call.snapshot, whose, e);

		if (rc)
			return rc;
		ask.of = whose;
		ask.begins = true;
	}
	return broker_shape_ask(j->hub, &j->rq, &ask, verbs[j->verb].name, &j->call.options, &j->by_profile, e);
}

/* A round has no longer than the profile of its own task allows, whatever its agent has: said to who asks for more. */
static int say_clipped_time(struct life_job *j, struct err *e)
{
	json_int_t ms = json_integer_value(json_object_get(j->settings, SETTINGS_EXEC_TIMEOUT));
	uint64_t most = ms ? broker_policy_round_time(j->hub, &j->rq, j->agent, NULL) : 0;
	json_t *list;

	if (!most || (uint64_t)ms * NS_PER_MS <= most)
		return 0;
	if (!j->by_profile)
		j->by_profile = json_object();
	list = json_object_get(j->by_profile, "clipped");
	list = json_is_array(list) ? json_incref(list) : json_array();
	(void)json_array_append_new(list, json_string(SETTINGS_EXEC_TIMEOUT));
	(void)json_object_set_new(j->by_profile, SETTINGS_EXEC_TIMEOUT, json_integer((json_int_t)(most / NS_PER_MS)));
	if (!list || json_object_set_new(j->by_profile, "clipped", list))
		return err_set(e, ERR_NOMEM, "no memory for the answer");
	return 0;
}

static int check_call(struct life_job *j, struct err *e)
{
	int rc = check_scope(j, j->agent, e);

	if (!rc && place_check(j->hub, j->agent, &j->call.place, e))
		rc = broker_refused(j->hub, &j->rq, j->agent, verbs[j->verb].name, e);
	if (!rc && j->verb != VERB_KILL && target_is_pod(j->agent))
		rc = err_set(e, ERR_UNSUPPORTED, "%s is a pod of others: muxd enters it and does not rule its life",
			     j->agent);
	if (!rc && j->as[0])
		rc = check_copied(j->agent, e);
	if (!rc && j->as[0] && !(rc = agent_name_check(j->as, e)))
		rc = check_scope(j, j->as, e);
	if (!rc && j->verb != VERB_KILL && !hub_life(j->hub))
		rc = err_set(e, ERR_UNSUPPORTED, "this daemon keeps no lifecycle of sandboxes");
	if (!rc && j->verb == VERB_RESUME && !id_is_nil(&j->call.snapshot))
		rc = check_begin(j, e);
	if (!rc && hub_stopping(j->hub))
		rc = err_set(e, ERR_UNAVAILABLE, "the daemon is stopping");
	if (!rc)
		rc = check_shape(j, e);
	if (!rc)
		rc = say_clipped_time(j, e);
	if (!rc && j->pod_template)
		rc = life_template_check(hub_life(j->hub), j->as[0] ? j->as : j->agent, j->pod_template, e);
	return rc;
}

/* Asked for before it is done: a change that the record does not know of must not happen. */
static void broker_life_on_writable(void *arg, int rc, const struct err *why)
{
	struct life_job *j = arg;
	const struct verb *v = &verbs[j->verb];
	struct err e = {0};

	if (rc)
		e = *why;
	if (!rc && audit_event(j->hub, v->event, &j->rq, j->agent, "asked", asked_detail(j)))
		rc = err_set(&e, ERR_RECORD_UNAVAILABLE, "the record cannot be written: nothing is changed");
	if (rc)
		job_answer(j, rc, &e);
	else
		v->act(hub_life(j->hub), j);
}

static void job_ask(struct life_job *j)
{
	struct err e = {0};
	int rc = check_call(j, &e);

	if (!rc)
		rc = gate_pass(j->hub, &j->rq, broker_life_on_writable, j, &e);
	if (rc != GATE_WAITS)
		broker_life_on_writable(j, rc, &e);
}

/* ---- a fork of a session: whose it was and when, from the hub or the record */

static void found_session(struct life_job *j, const char *agent, int64_t opened_wall_ns, const char *snapshot)
{
	text_put(j->agent, sizeof(j->agent), agent);
	j->at_wall_ns = opened_wall_ns + j->call.at_ns;
	if (!j->call.at_ns && snapshot && *snapshot && id_is_nil(&j->call.snapshot))
		(void)id_parse(snapshot, &j->call.snapshot); /* what is no id leaves it to the time */
	job_ask(j);
}

static void broker_life_on_recorded(void *arg, int rc, const struct err *e, json_t *facts)
{
	const json_t *open = json_object_get(facts, "open");
	const char *agent = json_string_value(json_object_get(open, "agent"));
	struct err here = {0};

	if (!rc && !agent)
		rc = err_set(&here, ERR_NOT_FOUND, NO_SESSION), e = &here;
	if (rc)
		job_answer(arg, rc, e);
	else
		found_session(arg, agent, json_integer_value(json_object_get(open, "wall_ns")),
			      json_string_value(json_object_get(open, "snapshot_id")));
}

static void find_session(struct life_job *j)
{
	struct session *s = hub_session_find(j->hub, &j->call.session);
	struct err e = {0};

	if (!s) {
		reader_ask_session(j->hub, &j->rq, &j->call.session, broker_life_on_recorded, j);
	} else if (broker_may_see(&j->rq, s)) {
		found_session(j, s->agent->name, s->opened_wall_ns, s->snapshot_id);
	} else {
		broker_hide(j->hub, &j->rq, s, "fork");
		job_answer(j, err_set(&e, ERR_NOT_FOUND, NO_SESSION), &e);
	}
}

/* ---- begin */

static int take_template(struct life_job *j, const json_t *t, struct err *e)
{
	if (!t)
		return 0;
	j->pod_template = json_is_null(t) ? strdup("") : json_text(t);
	j->call.options.pod_template = j->pod_template;
	return j->pod_template ? 0 : err_set(e, ERR_NOMEM, "no memory for a pod template");
}

static int take_settings(struct life_job *j, const json_t *change, struct err *e)
{
	static const char *const keys[] = {"workdir", "env", "labels", SETTINGS_EXEC_TIMEOUT,
					   SETTINGS_TRANSFER_TIMEOUT};
	json_t *o = json_object();

	if (!o)
		return err_set(e, ERR_NOMEM, "no memory for settings");
	j->settings = o;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (json_object_get(change, keys[i]))
			json_object_set(o, keys[i], json_object_get(change, keys[i]));
	if (!hub_store(j->hub))
		return err_set(e, ERR_UNSUPPORTED, "there is no store for an agent's settings here");
	return settings_check(o, e);
}

static int take_call(struct life_job *j, const struct life_call *c, struct err *e)
{
	bool known = c->agent && *c->agent;
	int rc = broker_in_force(j->hub, &j->rq, verbs[j->verb].name, e);

	j->call = *c;
	j->call.agent = j->call.as = j->call.reason = NULL; /* the copies count */
	j->call.pod_template = NULL;
	j->call.settings = NULL;
	if (!rc)
		rc = take_template(j, c->pod_template, e);
	if (!rc && c->settings)
		rc = take_settings(j, c->settings, e);
	if (!rc && known)
		rc = target_name_check(c->agent, e);
	if (!rc && c->as)
		rc = agent_name_check(c->as, e);
	if (!rc && (verbs[j->verb].reason || (c->reason && *c->reason)))
		rc = reason_check(c->reason ? c->reason : "", e);
	if (!rc && !known && (j->verb != VERB_FORK || id_is_nil(&c->session)))
		rc = err_set(e, ERR_INVAL, "agent is missing");
	if (!rc && (j->verb == VERB_RESTORE || j->verb == VERB_DROP) && id_is_nil(&c->snapshot))
		rc = err_set(e, ERR_INVAL, "snapshot_id is missing");
	if (rc)
		return rc;
	text_put(j->agent, sizeof(j->agent), known ? c->agent : "");
	text_put(j->as, sizeof(j->as), c->as ? c->as : "");
	text_put(j->reason, sizeof(j->reason), c->reason ? c->reason : "");
	return 0;
}

void broker_life(struct hub *h, const struct request *rq, enum life_verb v, const struct life_call *c,
		 broker_json_done *done, void *arg)
{
	struct life_job *j;
	struct err e = {0};
	int rc;

	if (v == VERB_RESUME && !sets_options(c) && !place_is_named(&c->place) &&
	    (target_is_pod(c->agent) || (!c->timeout_ns && !broker_policy_shapes(h, rq, c->agent, NULL)))) {
		broker_resume(h, rq, c->agent, done, arg); /* the provider is life's: it does the rest */
		return;
	}
	j = calloc(1, sizeof(*j));
	if (!j) {
		err_set(&e, ERR_NOMEM, "no memory");
		done(arg, e.code, &e, NULL);
		return;
	}
	j->hub = h;
	j->verb = v;
	j->rq = *rq;
	j->done = done;
	j->arg = arg;
	rc = take_call(j, c, &e);
	if (rc)
		job_answer(j, rc, &e);
	else if (!j->agent[0])
		find_session(j);
	else {
		j->at_wall_ns = v == VERB_FORK ? c->at_ns : 0;
		job_ask(j);
	}
}

/* ---- reading */

void broker_snapshots(struct hub *h, const struct request *rq, const char *agent, broker_json_done *done, void *arg)
{
	const struct policy_question q = {.op = POLICY_SANDBOX_READ, .agent = agent};
	json_t *list = NULL;
	struct err e = {0};
	int rc = broker_check(h, rq, &q, 0, "snapshots", NULL, &e);

	if (!rc)
		rc = !hub_life(h) ? err_set(&e, ERR_UNSUPPORTED, "this daemon keeps no lifecycle of sandboxes")
				  : life_snapshots(hub_life(h), agent, &list, &e);
	done(arg, rc, rc ? &e : NULL, list);
	json_decref(list);
}
