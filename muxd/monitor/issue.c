#define LOG_SUBSYS "grant"
#include "muxd/monitor/issue.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/monitor/monitor.h"
#include "policy/grant_narrow.h"
#include "policy/reason.h"

#include <stdlib.h>
#include <string.h>

#define SPARE_NS (60 * NS_PER_SEC) /* to begin with the work, and to tell how it ended */

/* A net or a recorder that was killed is started again within that, however often it was killed before. */
#define JOURNAL_MS  (PROC_PAUSE_MAX_MS + 5000)
#define OWED_MAX    (AUDIT_MAX / 2) /* events of revocations leave half of the queue to the others */
#define IN_FORCE_MS 5000
#define VIA_SIZE    16

struct pending_create {
	struct monitor *m;
	struct grant grant;
	enum wish_how how;
	char *token;
	char by[48];
	issue_done *done;
	void *arg;
};

/* One revocation that net has not confirmed yet. */
struct revoke_wait {
	struct revoke_wait *next;
	struct monitor *m;
	struct grants_revoked what;
	uv_timer_t timer;
	revoke_done *done;
	void *arg;
};

static uint32_t default_scopes(enum grant_kind k)
{
	switch (k) {
	case GRANT_STAFF:
		return SCOPE_TERMINAL | SCOPE_ROUNDS | SCOPE_FILES | SCOPE_OBSERVE | SCOPE_DRIVE;
	case GRANT_AGENT:
		return SCOPE_ROUNDS | SCOPE_FILES;
	case GRANT_AUDITOR:
		return SCOPE_REPLAY | SCOPE_OBSERVE;
	case GRANT_SERVICE:
		return SCOPE_ROUNDS | SCOPE_FILES | SCOPE_LIFECYCLE;
	}
	return 0;
}

static int copy_name(const char *what, const char *from, char *out, size_t size, struct err *e)
{
	if (strlen(from) >= size)
		return err_set(e, ERR_INVAL, "%s is longer than %zu bytes", what, size - 1);
	memcpy(out, from, strlen(from) + 1);
	return 0;
}

/* What is done with it must not be cut before its own timeout; the time to spare is no reason to refuse it. */
static uint64_t usual_ttl(const struct conf *c, uint64_t least_ns)
{
	uint64_t ttl_ns = least_ns ? least_ns + SPARE_NS : 0;

	if (ttl_ns > c->grant_ttl_max_ns && least_ns <= c->grant_ttl_max_ns)
		ttl_ns = c->grant_ttl_max_ns;
	return ttl_ns > c->grant_ttl_ns ? ttl_ns : c->grant_ttl_ns;
}

static int set_times(struct monitor *m, const struct wish *w, struct grant *g, struct err *e)
{
	const int64_t s = (int64_t)NS_PER_SEC;
	uint64_t ttl_ns = w->ttl_ns, most_ns = w->edge ? m->conf->edge_lease_max_ns : m->conf->grant_ttl_max_ns;
	char max[32];

	if (ttl_ns == 0)
		ttl_ns = w->edge ? most_ns : usual_ttl(m->conf, w->least_ns);
	if (ttl_ns > most_ns) {
		clock_format_duration(most_ns, max, sizeof max);
		return err_set(e, ERR_INVAL, "ttl is longer than %s allows (%s)",
			       w->edge ? "edge.lease_max" : "grants.ttl_max", max);
	}
	/* Tokens hold whole seconds: begin with the current one, end with the one that the ttl reaches into. */
	g->issued_ns = floor_now(&m->floor) / s * s;
	g->not_before_ns = g->issued_ns;
	g->expires_ns = g->issued_ns + ((int64_t)ttl_ns + s - 1) / s * s;
	return 0;
}

static int64_t whole_seconds(int64_t ns)
{
	return ns / (int64_t)NS_PER_SEC * (int64_t)NS_PER_SEC;
}

int64_t issue_ends(const struct monitor *m, const struct grant *g)
{
	struct grant_line l = grant_line(g);
	int64_t renewed = grants_ends(m->grants, grant_line_first(&l));

	return renewed > g->expires_ns ? renewed : g->expires_ns;
}

/* Nobody asked for so long a time: what there is will do. */
static void end_by(const struct wish *w, int64_t ends_ns, struct grant *g)
{
	if (!w->ttl_ns && g->expires_ns > ends_ns)
		g->expires_ns = ends_ns;
}

/* For a lease that names no number: all of its parent's. None left: one, which is then refused. */
static uint32_t uses_left(const struct monitor *m, const struct grant *p)
{
	int64_t spent = grants_spent(m->grants, p);

	return spent < p->bounds.uses ? p->bounds.uses - (uint32_t)spent : 1;
}

static int make_child(struct monitor *m, const struct wish *w, struct grant *out, struct err *e)
{
	const struct grant *p = w->from;
	struct grant g = *p;
	int64_t ends = issue_ends(m, p);
	int rc = id_new(&g.id);

	if (rc)
		return err_set(e, rc, "no random bytes for a grant's id");
	g.since_ns = 0;
	g.kind = w->kind_given ? w->kind : p->kind;
	g.scopes = w->scopes ? w->scopes : p->scopes & ~(uint32_t)SCOPE_GRANT;
	if (w->files.read.given)
		g.files.read = w->files.read;
	if (w->files.write.given)
		g.files.write = w->files.write;
	if (w->files.size_max)
		g.files.size_max = w->files.size_max;
	if (w->bounds.operations)
		g.bounds.operations = w->bounds.operations;
	if (w->bounds.uses)
		g.bounds.uses = w->bounds.uses;
	else if (w->edge && p->bounds.uses)
		g.bounds.uses = uses_left(m, p);
	if (w->edge)
		text_put(g.edge, sizeof g.edge, w->edge);
	if ((w->principal && (rc = copy_name("principal", w->principal, g.principal, sizeof g.principal, e))) ||
	    (w->agent && (rc = copy_name("agent", w->agent, g.agent, sizeof g.agent, e))) ||
	    (w->task && (rc = copy_name("task", w->task, g.task, sizeof g.task, e))) ||
	    (rc = copy_name("reason", w->reason, g.reason, sizeof g.reason, e)) || (rc = set_times(m, w, &g, e)) ||
	    (rc = grant_narrow_kin(p, &g.kin, e)))
		return rc;
	end_by(w, ends, &g);
	if ((rc = reason_check(g.reason, e)) || (rc = grant_check(&g, e)) || (rc = grant_narrow(p, ends, &g, e)))
		return rc;
	*out = g;
	return 0;
}

/* The latest end of a renewal: policy's, and no later than what the grant was made from. */
static int renewal_bound(struct monitor *m, const struct wish *w, const struct grant *g, int64_t *out, struct err *e)
{
	uint64_t most = m->conf->grant_renew_max_ns;
	int64_t bound = INT64_MAX;

	const char *via = "";
	struct grant kept;
	int rc = grants_get(m->grants, &w->from->id, &kept, &via, e);

	if (rc)
		return rc;
	/* A renewal would outlive the token that the grant was given for. */
	if (strcmp(via, "issuer") == 0)
		return err_set(e, ERR_FORBIDDEN,
			       "a grant for a token of an issuer is not renewed: exchange a new token");
	if (strcmp(w->via, "admin") != 0) {
		if (strcmp(via, "ssh-key") == 0 || strcmp(via, "cluster") == 0)
			return err_set(
			    e, ERR_FORBIDDEN,
			    "a grant by a public key or a token of the cluster is asked for anew, not renewed");
		if (!most)
			return err_set(e, ERR_UNSUPPORTED,
				       "grants are not renewed by their holders here: grants.renew_max");
		bound = whole_seconds(g->since_ns) + (int64_t)most;
	}
	if (g->kin.depth) {
		int64_t above = grants_ends(m->grants, &g->kin.above[0]);

		bound = above < bound ? above : bound;
	}
	*out = bound;
	return 0;
}

static int make_renewal(struct monitor *m, const struct wish *w, struct grant *out, struct err *e)
{
	struct grant g = *w->from;
	int64_t now_ends = issue_ends(m, w->from), bound = 0;
	char ends[32];
	int rc = id_new(&g.id);

	if (rc)
		return err_set(e, rc, "no random bytes for a grant's id");
	if (g.edge[0])
		return err_set(e, ERR_UNSUPPORTED, "a lease is not renewed: mint another");
	if (id_is_nil(&g.kin.first))
		g.kin.first = w->from->id;
	if (!g.since_ns)
		g.since_ns = w->from->issued_ns;
	if ((rc = copy_name("reason", w->reason, g.reason, sizeof g.reason, e)) || (rc = set_times(m, w, &g, e)) ||
	    (rc = renewal_bound(m, w, &g, &bound, e)))
		return rc;
	end_by(w, bound, &g);
	clock_format_utc(g.expires_ns > bound ? bound : now_ends, ends, sizeof ends);
	if (g.expires_ns > bound)
		return err_set(
		    e, ERR_FORBIDDEN,
		    "renewals of this grant end at %s at the latest (grants.renew_max, and the grant that it "
		    "was made from)",
		    ends);
	if (g.expires_ns <= now_ends)
		return err_set(e, ERR_FORBIDDEN, "the grant lasts until %s already, and may not last longer than that",
			       ends);
	if ((rc = reason_check(g.reason, e)) || (rc = grant_check(&g, e)))
		return rc;
	*out = g;
	return 0;
}

static int make_new(struct monitor *m, const struct wish *w, struct grant *out, struct err *e)
{
	const char *task = w->task ? w->task : w->kind == GRANT_STAFF && !w->edge ? "console" : "";
	struct grant g = {.kind = w->kind,
			  .scopes = w->scopes ? w->scopes : default_scopes(w->kind),
			  .files = w->files,
			  .bounds = w->bounds};
	int rc = id_new(&g.id);

	if (rc)
		return err_set(e, rc, "no random bytes for a grant's id");
	memcpy(g.issuer, m->layout.instance, sizeof g.issuer);
	if (w->edge)
		text_put(g.edge, sizeof g.edge, w->edge);
	/* Beside a token of others somebody asked for it; an administrator gave it. */
	g.kin.task_asked = w->task && strcmp(w->via, "admin") != 0;
	if ((rc = copy_name("principal", w->principal, g.principal, sizeof g.principal, e)) ||
	    (rc = copy_name("agent", w->agent, g.agent, sizeof g.agent, e)) ||
	    (rc = copy_name("task", task, g.task, sizeof g.task, e)) ||
	    (rc = copy_name("reason", w->reason, g.reason, sizeof g.reason, e)) || (rc = set_times(m, w, &g, e)))
		return rc;
	if (w->ends_ns && g.expires_ns > w->ends_ns)
		g.expires_ns = w->ends_ns;
	if ((rc = reason_check(g.reason, e)) || (rc = grant_check(&g, e)))
		return rc;
	*out = g;
	return 0;
}

static int make_grant(struct monitor *m, const struct wish *w, struct grant *out, struct err *e)
{
	if (m->edge.on)
		return err_set(e, ERR_UNSUPPORTED,
			       "an edge makes no grants: its centre mints leases (muxctl edge mint there)");
	switch (w->how) {
	case WISH_NEW:
		return make_new(m, w, out, e);
	case WISH_CHILD:
		return make_child(m, w, out, e);
	case WISH_RENEWAL:
		return make_renewal(m, w, out, e);
	}
	return err_set(e, ERR_INTERNAL, "a wish of no kind");
}

static json_t *audit_record(const char *event, const struct grant *g, const char *via, const char *by,
			    const char *outcome)
{
	json_t *o = grant_describe(g);

	if (!o || json_object_set(o, "grant_id", json_object_get(o, "id")) || json_object_del(o, "id") ||
	    json_object_set_new(o, "event", json_string(event)) || json_object_set_new(o, "via", json_string(via)) ||
	    json_object_set_new(o, "by", json_string(by)) || json_object_set_new(o, "outcome", json_string(outcome))) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static void log_grant(const char *what, const struct grant *g, const char *by)
{
	char id[ID_STR_LEN], scopes[128];
	const struct log_ids ids = {.grant = id, .agent = g->agent};

	id_format(&g->id, id);
	grant_scopes_format(g->scopes, scopes, sizeof scopes);
	log_info(&ids, "grant %s: principal %s, kind %s, scopes %s, by %s, reason \"%s\"", what, g->principal,
		 grant_kind_name(g->kind), scopes, by, g->reason);
}

/*
 * One that is down learns it from its next start packet; so does one that cannot be told, after a restart. True: its
 * answer or its end is near; one that was told to stop hears nothing more, and has closed its doors.
 */
static bool tell_one(struct proc *p, const json_t *msg)
{
	if (p->state != PROC_READY && p->state != PROC_STARTING)
		return false;
	if (!msg || proc_send(p, msg, NULL, 0))
		proc_kill(p);
	return true;
}

/* True: net's answer, or its end, is to be waited for. */
static bool tell_revoked(struct monitor *m, const struct grants_revoked *what)
{
	char id[ID_STR_LEN];
	json_t *msg;
	bool wait;

	id_format(&what->id, id);
	msg = json_pack("{s:s, s:s, s:I}", "op", "grant.revoked", "id", id, "expires_ns", (json_int_t)what->until_ns);
	wait = tell_one(&m->net, msg);
	(void)tell_one(&m->recorder, msg);
	json_decref(msg);
	return wait;
}

void issue_tell(struct monitor *m, const json_t *msg)
{
	(void)tell_one(&m->net, msg);
	(void)tell_one(&m->recorder, msg);
}

/* net hears of it before the answer; one that cannot be told does at its next start. */
static void tell_renewed(struct monitor *m, const struct grant *g, const char *token)
{
	json_t *msg = renewed_message(g);

	if (msg && (json_object_set_new(msg, "by", json_string(g->principal)) ||
		    json_object_set_new(msg, "token", json_string(token)) ||
		    json_object_set_new(msg, "reason", json_string(g->reason)))) {
		json_decref(msg);
		msg = NULL;
	}
	(void)tell_one(&m->net, msg);
	json_decref(msg);
}

int issue_check_token(struct monitor *m, const char *token, struct grant *out, struct err *e)
{
	struct grant g, kept;
	int rc = grant_verify(token, strlen(token), &m->keys.set, m->layout.instance, floor_now(&m->floor), &g, e);

	if (rc == 0)
		rc = grants_get(m->grants, &g.id, &kept, NULL, e);
	if (rc == 0)
		*out = g;
	return rc == ERR_NOT_FOUND ? err_set(e, ERR_TOKEN_FORGED, "the log of grants has none of this token") : rc;
}

/* ---- the events of revocations */

struct owed_event {
	struct monitor *m;
	struct id grant, event;
};

/* Its time is the revocation's, whenever it is told; the floor of time may be ahead of the clock. */
static json_t *revoke_record(const struct grant *g, const struct grants_owed *owed)
{
	json_t *o = audit_record("grant.revoke", g, owed->via, owed->by, "ok");
	int64_t now = clock_wall_ns();
	char id[ID_STR_LEN];

	id_format(&owed->event, id);
	if (o && (json_object_set_new(o, "event_id", json_string(id)) ||
		  json_object_set_new(o, "wall_ns", json_integer(owed->at_ns < now ? owed->at_ns : now)))) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static void issue_on_revoke_journaled(void *arg, int rc)
{
	struct owed_event *x = arg;

	if (rc == 0)
		grants_told(x->m->grants, &x->grant, &x->event);
	if (rc == 0 && audit_waiting(x->m->audit) <= OWED_MAX / 2)
		issue_tell_owed(x->m);
	free(x);
}

static int issue_take_owed(void *arg, const struct grant *g, const struct grants_owed *owed)
{
	struct monitor *m = arg;
	struct owed_event *x = audit_waiting(m->audit) < OWED_MAX ? calloc(1, sizeof *x) : NULL;
	int rc;

	if (!x)
		return ERR_AGAIN;
	*x = (struct owed_event){m, g->id, owed->event};
	rc = audit_put(m->audit, revoke_record(g, owed), 0, issue_on_revoke_journaled, x);
	if (rc)
		free(x);
	return rc;
}

void issue_tell_owed(struct monitor *m)
{
	grants_each_owed(m->grants, issue_take_owed, m);
}

/* A revocation that changed nothing in the log, which therefore owes no event: it is told where there is room. */
static void tell_unowed(struct monitor *m, const struct grant *g, const char *via, const char *by)
{
	if (audit_put(m->audit, audit_record("grant.revoke", g, via, by, "ok"), 0, NULL, NULL))
		log_error(NULL,
			  "the audit queue is full: a revocation that changed nothing in grants.log is not in it");
}

/* The token was never handed out; its grant must not look alive all the same. */
static void take_back(struct monitor *m, const struct grant *g)
{
	struct grants_revoked revoked = {.id = g->id, .until_ns = g->expires_ns};
	struct err e = {0};
	int rc = grants_revoke(m->grants, &g->id, GRANTS_ALONE, floor_now(&m->floor), "monitor", "not journaled",
			       &revoked, &e);

	if (rc)
		log_error(NULL, "a refused grant could not be marked as revoked: %s", e.message);
	if (rc || revoked.again)
		tell_unowed(m, g, "monitor", "not journaled");
	(void)tell_revoked(m, &revoked);
	issue_tell_owed(m);
}

static void issue_on_create_journaled(void *arg, int rc)
{
	struct pending_create *p = arg;
	struct err e = {0};

	if (rc == 0 && p->how == WISH_RENEWAL)
		rc = grants_renewed(p->m->grants, &p->grant.id, &e);
	if (rc == 0) {
		log_grant(p->how == WISH_RENEWAL ? "renewed" : "created", &p->grant, p->by);
		if (p->how == WISH_RENEWAL)
			tell_renewed(p->m, &p->grant, p->token);
	} else {
		if (rc != ERR_CANCELLED)
			take_back(p->m, &p->grant);
		rc = rc == ERR_DISK_FULL
			 ? err_set(&e, rc, "the disk of the record is full, so no grant was given")
			 : err_set(&e, ERR_RECORD_UNAVAILABLE,
				   "the grant could not be journaled (%s), so it was not given", err_name(rc));
		log_error(NULL, "%s", e.message);
	}
	p->done(p->arg, rc, &e, rc ? NULL : &p->grant, rc ? NULL : p->token);
	grant_token_free(p->token);
	free(p);
}

static json_t *create_record(const struct grant *g, const struct wish *w)
{
	const char *event = w->how == WISH_RENEWAL ? "grant.renew" : w->edge ? "edge.lease" : "grant.create";
	json_t *o = audit_record(event, g, w->via, w->by, "ok");

	if (o && w->detail && json_object_set(o, "detail", w->detail)) {
		json_decref(o);
		return NULL;
	}
	return o;
}

/* A renewal is of the grant that was given first, whoever renews it: its limits stay those of the way it came. */
static void came_by(struct monitor *m, const struct wish *w, char out[VIA_SIZE])
{
	const char *via = w->via;
	struct grant kept;

	if (w->how == WISH_RENEWAL && grants_get(m->grants, &w->from->id, &kept, &via, NULL))
		via = w->via;
	text_put(out, VIA_SIZE, via);
}

/* An edge cannot ask: the uses of a lease are spent here when it is minted, and none comes back. */
static int give_away(struct monitor *m, const struct wish *w, const struct grant *lease, struct err *e)
{
	struct grants_spend s = {.grant = w->from, .n = lease->bounds.uses};

	if (!w->edge || !w->from || !w->from->bounds.uses)
		return 0;
	s.until_ns = issue_ends(m, w->from);
	return grants_spend(m->grants, &s, e);
}

void issue_create(struct monitor *m, const struct wish *w, issue_done *done, void *arg)
{
	struct pending_create *p = calloc(1, sizeof *p);
	char via[VIA_SIZE];
	struct err e = {0};
	int rc;

	if (!p) {
		rc = err_set(&e, ERR_NOMEM, "no memory for a grant");
		done(arg, rc, &e, NULL, NULL);
		return;
	}
	rc = make_grant(m, w, &p->grant, &e);
	if (rc == 0)
		rc = grants_token_check(m->grants, &w->used, w->by, w->uses_share, &e);
	if (rc == 0)
		rc = grant_sign(&p->grant, m->keys.kid, m->keys.seed, &p->token, &e);
	if (rc == 0)
		came_by(m, w, via);
	if (rc == 0)
		rc = grants_check_room(m->grants, &p->grant, via, w->by, &e);
	/* Counted first: a kill in between costs the token one exchange, and gives it none. */
	if (rc == 0 && w->uses_max)
		rc = grants_use(m->grants, &(struct grants_use){w->used, w->ends_ns, w->uses_max, w->by, w->uses_share},
				&e);
	if (rc == 0)
		rc = give_away(m, w, &p->grant, &e);
	if (rc == 0)
		rc = grants_create_for(m->grants, &p->grant, &(struct grants_token){w->used, w->ends_ns, w->shown}, via,
				       w->by, &e);
	if (rc == 0) {
		*p = (struct pending_create){m, p->grant, w->how, p->token, "", done, arg};
		memcpy(p->by, w->by, sizeof p->by);
		rc = audit_put_first(m->audit, create_record(&p->grant, w), JOURNAL_MS, issue_on_create_journaled, p);
		if (rc == 0)
			return;
		take_back(m, &p->grant);
		rc = err_set(&e, ERR_RECORD_UNAVAILABLE, "too many audit records wait to be journaled");
	}
	done(arg, rc, &e, NULL, NULL);
	grant_token_free(p->token);
	free(p);
}

static void issue_on_wait_closed(uv_handle_t *h)
{
	free(h->data);
}

static void wait_settle(struct revoke_wait **at)
{
	struct revoke_wait *w = *at;

	*at = w->next;
	w->done(w->arg, 0, NULL, &w->what.grant);
	uv_close((uv_handle_t *)&w->timer, issue_on_wait_closed);
}

static void issue_on_not_in_force(uv_timer_t *t)
{
	struct revoke_wait *w = t->data;

	/* Net's doors are not open yet, or not any more: nothing to enforce. Its start and its end have deadlines. */
	if (w->m->net.state == PROC_STARTING || w->m->net.state == PROC_STOPPING) {
		uv_timer_start(t, issue_on_not_in_force, IN_FORCE_MS, 0);
		return;
	}
	/* A net that does not answer may still serve the grant. Its next start packet holds the revocation. */
	log_error(NULL, "net did not confirm a revocation in time and is started again");
	proc_kill(&w->m->net);
}

/* 0 when the caller is answered later. */
static int wait_for_net(struct monitor *m, const struct grants_revoked *what, revoke_done *done, void *arg)
{
	struct revoke_wait *w = calloc(1, sizeof *w);

	if (!w || uv_timer_init(&m->loop, &w->timer)) {
		free(w);
		return ERR_NOMEM;
	}
	w->m = m;
	w->what = *what;
	w->done = done;
	w->arg = arg;
	w->timer.data = w;
	w->next = m->revoke_waits;
	m->revoke_waits = w;
	uv_timer_start(&w->timer, issue_on_not_in_force, IN_FORCE_MS, 0);
	return 0;
}

struct taken_along {
	struct monitor *m;
	const char *by;
};

/* Net hears of it ahead of the one that was asked for, and so has it when it confirms that. */
static int issue_take_along(void *arg, const struct grant *g)
{
	const struct taken_along *t = arg;
	struct grants_revoked what = {.grant = *g, .id = g->id, .until_ns = g->expires_ns};

	log_grant("revoked", g, t->by);
	(void)tell_revoked(t->m, &what);
	return 0;
}

void issue_revoke(struct monitor *m, const struct id *id, const char *via, const char *by, revoke_done *done, void *arg)
{
	struct taken_along along = {m, by};
	struct grants_revoked what = {0};
	const struct grant *g = &what.grant;
	struct err e = {0};
	int rc = grants_revoke(m->grants, id, GRANTS_WITH_ALL, floor_now(&m->floor), via, by, &what, &e);

	if (rc) {
		done(arg, rc, &e, NULL);
		return;
	}
	log_grant("revoked", g, by);
	if (what.again)
		tell_unowed(m, g, via, by);
	(void)grants_each_taken_along(m->grants, id, issue_take_along, &along);
	issue_tell_owed(m);
	issue_enforce(m, &what, done, arg);
}

void issue_enforce(struct monitor *m, const struct grants_revoked *what, revoke_done *done, void *arg)
{
	bool answers = tell_revoked(m, what) && m->net.pid > 0;

	if (!done || (answers && wait_for_net(m, what, done, arg) == 0))
		return;
	done(arg, 0, NULL, &what->grant);
}

void issue_revoked(struct monitor *m, const struct id *id)
{
	struct revoke_wait **at = &m->revoke_waits;

	while (*at) {
		if (id_equal(&(*at)->what.id, id))
			wait_settle(at);
		else
			at = &(*at)->next;
	}
}

void issue_net_ended(struct monitor *m)
{
	while (m->revoke_waits)
		wait_settle(&m->revoke_waits);
}
