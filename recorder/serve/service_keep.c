/* What is kept, and for how long: retention and legal holds, shown and changed. Changes are the recorder's own events.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "policy/grant_narrow.h"
#include "policy/reason.h"
#include "recorder/index/holds.h"
#include "recorder/index/retention_policy.h"
#include "recorder/serve/service_conn.h"

#include <string.h>

#define ACT_NS (30 * NS_PER_SEC)

/* What is over everything needs a grant for every agent. */
static int allowed(struct conn *c, const char *agent, uint32_t one, uint32_t other, struct err *e)
{
	const char *about = agent && *agent ? agent : "*";

	if (strcmp(about, "*") == 0 && strcmp(c->grant.agent, "*") != 0)
		return err_set(e, ERR_FORBIDDEN, "this needs a grant for every agent (\"*\"), yours is for %s",
			       c->grant.agent);
	if (other && grant_allows(&c->grant, about, other, NULL) == 0)
		return 0;
	return grant_allows(&c->grant, about, one, e);
}

static int may_read(struct conn *c, const json_t *request, enum ledger_op op, struct err *e)
{
	int rc = conn_grant(c, request, e);

	if (rc)
		return rc;
	if (grant_allows(&c->grant, c->grant.agent, SCOPE_ADMIN, NULL))
		rc = grant_allows(&c->grant, c->grant.agent, SCOPE_REPLAY, e);
	if (rc)
		return conn_refused(c, op, NULL, c->grant.agent, rc);
	conn_catch_up(c, true);
	return conn_audit(c, &(struct reading_of){.op = op, .outcome = "ok"}, e);
}

static int denied(struct conn *c, int rc, const struct err *e)
{
	if (rc == ERR_FORBIDDEN || rc == ERR_NOT_FOUND)
		ledger_denied(c->s->ledger, &c->reader, c->op, rc, e->message);
	return rc;
}

/* ---- changes */

static int reason_of(const json_t *request, const char **out, struct err *e)
{
	const char *reason = NULL;
	int rc = json_opt_str(request, "reason", &reason, e);

	if (rc)
		return rc;
	*out = reason ? reason : "";
	return reason_check(*out, e);
}

/* The event: who, by which grant, from where, why, when. */
static json_t *act_json(const struct conn *c, const char *event, const char *reason)
{
	const struct grant *g = &c->grant;
	char id[ID_STR_LEN];

	id_format(&g->id, id);
	return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:I}", "event", event, "outcome", "ok", "principal",
			 g->principal, "principal_kind", grant_kind_name(g->kind), "grant_id", id, "grant_reason",
			 g->reason, "reason", reason, "door", c->reader.door, "peer", c->reader.peer, "endpoint",
			 c->reader.endpoint, "at_ns", (json_int_t)clock_wall_ns());
}

/* Until it stands in the chain under a signature: only then is it answered. o: stolen. */
static int act(struct conn *c, json_t *o, struct err *e)
{
	struct chain_head head;
	uint64_t lsn = 0;
	int rc = drain_audit(c->s->p.drain, NULL, o);

	if (rc)
		return err_set(e, ERR_RECORD_UNAVAILABLE, "it could not be written into the log (%s): nothing changed",
			       err_name(rc));
	if (drain_flush(c->s->p.drain, ACT_NS, &lsn))
		return err_set(e, ERR_TIMEOUT,
			       "the log did not become durable in time: look whether it came into force");
	rc = cutter_wait(c->s->p.cutter, lsn, NULL, ACT_NS, e);
	return rc ? rc : cutter_head(c->s->p.cutter, &head, e);
}

int service_retention(struct conn *c, const json_t *request, struct err *e)
{
	int rc = may_read(c, request, READ_RETENTION, e);

	if (rc)
		return rc;
	return conn_send(c, json_pack("{s:o?,s:b}", "retention", cutter_retention(c->s->p.cutter), "end", 1));
}

int service_apply(struct conn *c, const json_t *request, struct err *e)
{
	static const char *const keys[] = {"op", "token", "for", "reason", NULL};
	const char *reason = NULL;
	json_t *now = NULL, *o;
	int rc = conn_grant(c, request, e);

	if (rc)
		return rc;
	if ((rc = allowed(c, NULL, SCOPE_ADMIN, 0, e)) != 0)
		return denied(c, rc, e);
	if ((rc = json_only_keys(request, keys, e)) != 0 || (rc = reason_of(request, &reason, e)) != 0)
		return rc;
	conn_catch_up(c, true);
	now = cutter_retention(c->s->p.cutter);
	if (!json_is_true(json_object_get(now, "waits"))) {
		json_decref(now);
		return err_set(e, ERR_BAD_STATE, "no shorter retention waits: what the configuration says is in force");
	}
	o = act_json(c, RETENTION_APPLY_EVENT, reason);
	/* The one that waits now, and no other that may come meanwhile. */
	if (o)
		json_object_set(o, "digest", json_object_get(json_object_get(now, "loaded"), "digest"));
	json_decref(now);
	if ((rc = act(c, o, e)) != 0)
		return rc;
	return conn_send(c, json_pack("{s:o?,s:b}", "retention", cutter_retention(c->s->p.cutter), "end", 1));
}

/* ---- holds */

static int time_of(const json_t *request, const char *key, const char *out_key, json_t *held, struct err *e)
{
	const char *text = NULL;
	int64_t ns = 0;
	int rc = json_opt_str(request, key, &text, e);

	if (rc || !text)
		return rc;
	if (clock_parse_utc(text, &ns) || ns <= 0)
		return err_set(e, ERR_INVAL, "%s is \"%.40s\", not a time such as 2026-11-21T08:00:00Z", key, text);
	return json_object_set_new(held, out_key, json_integer(ns)) ? ERR_NOMEM : 0;
}

/* The request's selector as it stands in the event. */
static int held_of(const json_t *request, json_t **out, struct err *e)
{
	static const char *const names[] = {"session", "agent", "principal"};
	json_t *held = json_object();
	struct hold h;
	int rc = held ? 0 : ERR_NOMEM;

	for (size_t i = 0; rc == 0 && i < sizeof(names) / sizeof(names[0]); i++) {
		json_t *v = json_object_get(request, names[i]);
		if (v && !json_is_null(v) && json_object_set(held, names[i], v))
			rc = ERR_NOMEM;
	}
	if (rc == 0)
		rc = time_of(request, "from", "from_ns", held, e);
	if (rc == 0)
		rc = time_of(request, "until", "until_ns", held, e);
	if (rc == 0)
		rc = hold_parse(held, &h, e);
	if (rc == 0 && *h.agent)
		rc = target_name_check(h.agent, e);
	if (rc)
		json_decref(held);
	else
		*out = held;
	return rc;
}

struct one_session {
	char agent[AGENT_NAME_MAX + 1];
	bool found;
};

static int keep_agent(void *arg, json_t *o)
{
	struct one_session *one = arg;
	const char *agent = json_string_value(json_object_get(o, "agent"));

	one->found = true;
	text_put(one->agent, sizeof(one->agent), agent ? agent : "");
	return 0;
}

/* Whose hold it is, for the grant: its agent's, its session's agent's, or everybody's. */
static int agent_of(struct conn *c, const json_t *held, struct one_session *out, struct err *e)
{
	const char *session = json_string_value(json_object_get(held, "session"));
	const char *agent = json_string_value(json_object_get(held, "agent"));
	struct index_filter f = {.session = session, .limit = 1};
	int rc = 0;

	*out = (struct one_session){.found = false};
	if (session) {
		conn_catch_up(c, true);
		rc = index_sessions(c->index, &f, keep_agent, out, e);
		if (rc == 0 && !out->found)
			rc = err_set(e, ERR_NOT_FOUND, "there is no session %.40s in the record", session);
	} else if (agent) {
		text_put(out->agent, sizeof(out->agent), agent);
	}
	return rc;
}

struct holds_count {
	const char *principal;
	size_t all, own; /* own: of that principal and those that it made grants for */
};

static int count_hold(void *arg, const json_t *hold, const json_t *released)
{
	const char *principal = json_string_value(json_object_get(hold, "principal"));
	struct holds_count *n = arg;

	(void)released;
	n->all++;
	n->own += principal && grant_same_root(principal, n->principal);
	return 0;
}

/* Only an administrator releases holds, so nobody else may use all of them up. */
static int hold_room(struct conn *c, struct err *e)
{
	struct holds_count n = {.principal = c->grant.principal};
	int rc = index_holds(c->index, false, count_hold, &n, e);

	if (rc)
		return rc;
	if (n.all >= HOLDS_MAX)
		return err_limit(e, ERR_LIMIT,
				 &(struct err_share){"fixed.holds", "daemon", HOLDS_MAX, (uint64_t)n.all, 3600},
				 "there are %d holds already: release what is over", HOLDS_MAX);
	if (n.own >= HOLDS_OWN_MAX && !(c->grant.scopes & SCOPE_ADMIN))
		return err_limit(
		    e, ERR_LIMIT,
		    &(struct err_share){"fixed.holds_own", "principal", HOLDS_OWN_MAX, (uint64_t)n.own, 3600},
		    "%d holds are yours already: an administrator may release some, or add more", HOLDS_OWN_MAX);
	return 0;
}

static int add_event(struct conn *c, json_t *held, const char *agent, const char *reason, char id[ID_STR_LEN],
		     json_t **out, struct err *e)
{
	json_t *o = act_json(c, HOLD_ADD, reason), *session = json_object_get(held, "session");
	struct id fresh;
	int rc = id_new(&fresh);

	if (rc || !o) {
		json_decref(o);
		return err_set(e, rc ? rc : ERR_NOMEM, "no id for a hold");
	}
	id_format(&fresh, id);
	json_object_set_new(o, "hold", json_string(id));
	json_object_set(o, "held", held);
	if (*agent)
		json_object_set_new(o, "agent", json_string(agent));
	if (session)
		json_object_set(o, "session", session);
	*out = o;
	return 0;
}

int service_hold_add(struct conn *c, const json_t *request, struct err *e)
{
	static const char *const keys[] = {"op",    "token",     "for",  "reason", "session",
					   "agent", "principal", "from", "until",  NULL};
	struct one_session about;
	const char *reason = NULL;
	json_t *held = NULL, *o = NULL;
	char id[ID_STR_LEN];
	int rc = conn_grant(c, request, e);

	if (rc)
		return rc;
	if ((rc = json_only_keys(request, keys, e)) != 0 || (rc = held_of(request, &held, e)) != 0)
		return rc;
	rc = agent_of(c, held, &about, e);
	if (rc == 0)
		rc = allowed(c, about.agent, SCOPE_REPLAY, SCOPE_ADMIN, e);
	if (rc) {
		rc = denied(c, rc, e);
		goto out;
	}
	if ((rc = reason_of(request, &reason, e)) != 0 || (rc = hold_room(c, e)) != 0)
		goto out;
	rc = add_event(c, held, about.agent, reason, id, &o, e);
	if (rc == 0)
		rc = act(c, o, e);
	if (rc == 0)
		rc = conn_send(c, json_pack("{s:s,s:O,s:b}", "hold", id, "held", held, "end", 1));
out:
	json_decref(held);
	return rc;
}

struct finding {
	const char *id;
	json_t *held;
	char agent[AGENT_NAME_MAX + 1];
};

static int find_hold(void *arg, const json_t *hold, const json_t *released)
{
	struct finding *f = arg;
	const char *id = json_string_value(json_object_get(hold, "hold"));
	const char *agent = json_string_value(json_object_get(hold, "agent"));

	(void)released;
	if (!id || strcmp(id, f->id) != 0)
		return 0;
	f->held = json_incref(json_object_get(hold, "held"));
	text_put(f->agent, sizeof(f->agent), agent ? agent : "");
	return 1;
}

/* Letting go what is kept as evidence is an admin's act, and his name stands in the log beside his reason. */
int service_hold_release(struct conn *c, const json_t *request, struct err *e)
{
	static const char *const keys[] = {"op", "token", "for", "reason", "hold", NULL};
	struct finding f = {.id = NULL};
	const char *reason = NULL;
	json_t *o = NULL;
	int rc = conn_grant(c, request, e);

	if (rc)
		return rc;
	if ((rc = allowed(c, NULL, SCOPE_ADMIN, 0, e)) != 0)
		return denied(c, rc, e);
	if ((rc = json_only_keys(request, keys, e)) != 0 || (rc = json_need_str(request, "hold", &f.id, e)) != 0 ||
	    (rc = reason_of(request, &reason, e)) != 0)
		return rc;
	conn_catch_up(c, true);
	rc = index_holds(c->index, false, find_hold, &f, e);
	if (rc == 0 && !f.held)
		rc = err_set(e, ERR_NOT_FOUND, "there is no hold \"%.40s\" in force", f.id);
	if (rc == 0 && !(o = act_json(c, HOLD_RELEASE, reason)))
		rc = err_set(e, ERR_NOMEM, "out of memory");
	if (rc == 0) {
		json_object_set_new(o, "hold", json_string(f.id));
		json_object_set(o, "held", f.held);
		if (*f.agent)
			json_object_set_new(o, "agent", json_string(f.agent));
		rc = act(c, o, e);
	}
	if (rc == 0)
		rc = conn_send(c, json_pack("{s:s,s:b,s:b}", "hold", f.id, "released", 1, "end", 1));
	json_decref(f.held);
	return rc;
}

/* ---- what is held */

struct listing {
	struct conn *c;
};

static void service_keep_set_time(json_t *o, const char *key, const json_t *ns)
{
	char text[40];

	if (!json_is_integer(ns))
		return;
	clock_format_utc(json_integer_value(ns), text, sizeof(text));
	json_object_set_new(o, key, json_string(text));
}

/* As people ask for it: times as text, without what the log alone needs. */
static json_t *hold_json(const json_t *hold, const json_t *released)
{
	static const char *const names[] = {"session", "agent", "principal"};
	const json_t *held = json_object_get(hold, "held");
	json_t *o = json_pack("{s:O?,s:O?,s:O?,s:s}", "id", json_object_get(hold, "hold"), "by",
			      json_object_get(hold, "principal"), "reason", json_object_get(hold, "reason"), "state",
			      released ? "released" : "in force");

	for (size_t i = 0; o && i < sizeof(names) / sizeof(names[0]); i++)
		if (json_object_get(held, names[i]))
			json_object_set(o, names[i], json_object_get(held, names[i]));
	service_keep_set_time(o, "from", json_object_get(held, "from_ns"));
	service_keep_set_time(o, "until", json_object_get(held, "until_ns"));
	service_keep_set_time(o, "set_at", json_object_get(hold, "at_ns"));
	if (o && released) {
		service_keep_set_time(o, "released_at", json_object_get(released, "at_ns"));
		json_object_set(o, "released_by", json_object_get(released, "principal"));
		json_object_set(o, "released_reason", json_object_get(released, "reason"));
	}
	return o;
}

static int list_hold(void *arg, const json_t *hold, const json_t *released)
{
	struct listing *l = arg;
	const char *agent = json_string_value(json_object_get(hold, "agent")), *mine = l->c->grant.agent;

	if (strcmp(mine, "*") != 0 && (!agent || !grant_covers(mine, agent)))
		return 0;
	json_t *o = hold_json(hold, released);
	return o ? conn_send(l->c, o) : ERR_NOMEM;
}

int service_holds(struct conn *c, const json_t *request, struct err *e)
{
	struct listing l = {.c = c};
	bool all = false;
	int rc = may_read(c, request, READ_HOLDS, e);

	if (rc == 0)
		rc = json_opt_bool(request, "all", &all, e);
	if (rc == 0)
		rc = index_holds(c->index, all, list_hold, &l, e);
	return rc ? rc : conn_send(c, json_pack("{s:b}", "end", 1));
}

/* ---- snapshots of workspaces, which the hub keeps */

struct naming {
	struct holds holds;
	const struct hold *held;
	struct err *e;
};

static int take_hold(void *arg, const json_t *hold, const json_t *released)
{
	struct naming *n = arg;

	(void)released;
	return holds_take(&n->holds, hold, n->e);
}

static int look_at_session(void *arg, const struct index_ended *row)
{
	struct naming *n = arg;
	struct hold_subject s = {.session = row->id,
				 .agent = row->agent,
				 .principal = row->principal,
				 .opened_ns = row->opened_ns,
				 .ended_ns = row->ended_ns};

	n->held = holds_cover(&n->holds, &s);
	return n->held != NULL;
}

/*
 * Whose recordings say that a snapshot was the workspace before them; the hub asks before it removes one. And whether
 * a session that is held began with it, or with the one before it: then it is the workspace before or after that.
 */
int service_refers(struct conn *c, const json_t *request, struct err *e)
{
	const char *agent, *snapshot, *previous = NULL;
	struct naming n = {.e = e};
	char id[ID_STR_LEN] = "";
	uint64_t count = 0;
	int rc = conn_house(c, e);

	rc = rc ? rc : json_need_str(request, "agent", &agent, e);
	rc = rc ? rc : json_need_str(request, "snapshot", &snapshot, e);
	rc = rc ? rc : json_opt_str(request, "previous", &previous, e);
	if (rc)
		return rc;
	conn_catch_up(c, true);
	rc = index_refers(c->index, agent, snapshot, &count, e);
	rc = rc ? rc : index_holds(c->index, false, take_hold, &n, e);
	rc =
	    rc ? rc : index_named_by(c->index, agent, snapshot, previous ? previous : snapshot, look_at_session, &n, e);
	if (n.held)
		id_format(&n.held->id, id);
	holds_finish(&n.holds);
	return rc ? rc
		  : conn_send(c, json_pack("{s:I,s:s*,s:b}", "recordings", (json_int_t)count, "held", *id ? id : NULL,
					   "end", 1));
}

/* ---- what a snapshot was */

struct snapshot_word {
	const char *id;
	char digest[65];
	uint64_t last; /* seq of the last row looked at */
	size_t rows;
};

/* The first digest counts: what was said later is of a file that may have changed by then. */
static int look_at_word(void *arg, json_t *row)
{
	const json_t *detail = json_object_get(json_object_get(row, "record"), "detail");
	const char *id = json_string_value(json_object_get(detail, "id")),
		   *digest = json_string_value(json_object_get(detail, "digest"));
	struct snapshot_word *w = arg;

	w->rows++;
	w->last = (uint64_t)json_integer_value(json_object_get(row, "seq"));
	if (id && digest && strcmp(id, w->id) == 0 && strlen(digest) == sizeof w->digest - 1)
		memcpy(w->digest, digest, sizeof w->digest);
	return w->digest[0] ? 1 : 0;
}

static int find_word(struct conn *c, const char *agent, const char *event, struct snapshot_word *w, struct err *e)
{
	struct index_filter f = {.agent = agent, .event = event, .limit = 1000};
	int rc = 0;

	do {
		w->rows = 0;
		f.since = w->last;
		rc = index_audit(c->index, &f, look_at_word, w, e);
	} while (rc == 0 && w->rows);
	w->last = 0;
	return rc < 0 ? rc : 0;
}

/* Of the log, by rows that are the recorder's own: a row that is not ends it with an error. */
int service_snapshot(struct conn *c, const json_t *request, struct err *e)
{
	struct snapshot_word w = {0};
	const char *agent;
	int rc = conn_house(c, e);

	rc = rc ? rc : json_need_str(request, "agent", &agent, e);
	rc = rc ? rc : json_need_str(request, "snapshot", &w.id, e);
	if (rc)
		return rc;
	conn_catch_up(c, true);
	rc = find_word(c, agent, "snapshot.create", &w, e);
	if (rc == 0 && !w.digest[0])
		rc = find_word(c, agent, "snapshot.hash", &w, e);
	return rc ? rc : conn_send(c, json_pack("{s:s,s:b}", "digest", w.digest, "end", 1));
}
