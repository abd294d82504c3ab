/* What all runs share: questions and their answers, the swap of a row, and what the audit log is told. */
#define LOG_SUBSYS "life"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/life/life_state.h"
#include "control/store/store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RETRY_NS   (1 * NS_PER_SEC)
#define QUIESCE_NS (10 * NS_PER_SEC)

struct life_run *life_run_begin(struct life_agent *a, enum run_kind kind, const char *cause)
{
	struct life_run *r = calloc(1, sizeof(*r));

	if (!r) {
		struct err e = {0};

		err_set(&e, ERR_NOMEM, "no memory");
		a->retry_at = clock_boot_ns() + RETRY_NS;
		life_answer_wants(a, ~0u, e.code, &e);
		return NULL;
	}
	r->kind = kind;
	r->id = ++a->life->next_run;
	r->began = r->step_began = clock_boot_ns();
	r->fd = -1;
	r->before = a->row;
	text_put(r->cause, sizeof(r->cause), cause);
	a->run = r;
	return r;
}

void life_hold(struct life_agent *a)
{
	a->run->held = true;
	if (a->life->host.hold)
		a->life->host.hold(a->life->host.ctx, a->name, true);
}

static void go_on(struct life_agent *a)
{
	if (!a->run->frozen)
		return;
	a->run->frozen = false;
	if (a->life->host.thaw)
		a->life->host.thaw(a->life->host.ctx, a->name);
}

void life_thaw(struct life_agent *a)
{
	if (a->run->left || a->life->dying)
		return;
	go_on(a);
	if (!a->run->held)
		return;
	a->run->held = false;
	if (a->life->host.hold)
		a->life->host.hold(a->life->host.ctx, a->name, false);
}

void life_frozen_until_now(struct life_agent *a)
{
	struct life_host *h = &a->life->host;

	if (a->run->snap.quiesced == SNAP_FROZEN && !(h->frozen && h->frozen(h->ctx, a->name)))
		a->run->snap.quiesced = SNAP_SYNCED;
}

void life_quiesced(struct life_agent *a, int rc)
{
	a->run->snap.quiesced = rc == LIFE_FROZEN ? SNAP_FROZEN : rc ? SNAP_NOT_QUIESCED : SNAP_SYNCED;
	a->run->frozen = rc == LIFE_FROZEN;
}

bool life_quiesce(struct life_agent *a, uint64_t hold_ns, life_next *next)
{
	struct life_host *h = &a->life->host;
	struct life_call *c;

	if (!h->quiesce)
		return false;
	c = life_call(a, next);
	if (!c)
		return true;
	a->run->frozen = true; /* from the question on: its answer may come when nobody listens any more */
	h->quiesce(h->ctx, a->name, QUIESCE_NS, hold_ns, life_on_host, c);
	return true;
}

void life_drop_outdated(struct life_agent *a)
{
	const struct life_run *r = a->run;

	for (size_t i = 0; i < r->nlist; i++)
		if (!id_equal(&r->list[i], &a->row.snapshot))
			life_want_nobody(a, WANT_DROP, &r->list[i], LIFE_CAUSE_OUTDATED);
}

void life_run_end(struct life_agent *a)
{
	life_thaw(a);
	if (a->run->fd >= 0)
		close(a->run->fd);
	explicit_bzero(a->run->info.secret, sizeof(a->run->info.secret));
	free(a->run->list);
	free(a->run->own_template);
	free(a->run);
	a->run = NULL;
	life_due(a);
}

void life_run_break(struct life_agent *a, int rc, const struct err *e)
{
	struct err here = {0};

	if (!e || !e->message[0])
		err_set(&here, rc, "%s: %s", a->name, err_name(rc)), e = &here;
	log_error(&(struct log_ids){.agent = a->name}, "%s, cannot go on: %s", life_state_name(a->row.state),
		  e->message);
	a->retry_at = clock_boot_ns() + (RETRY_NS << (a->tries < 6 ? a->tries++ : 6));
	life_count_failure(a->life, rc);
	life_answer_wants(a, ~0u, rc, e);
	life_run_end(a);
}

bool life_run_broke(struct life_agent *a, int rc, const struct err *e)
{
	if (rc)
		life_run_break(a, rc, e);
	return rc;
}

/* ---- questions */

struct life_call *life_call(struct life_agent *a, life_next *next)
{
	struct life_call *c = calloc(1, sizeof(*c));
	struct err e = {0};

	if (!c) {
		err_set(&e, ERR_NOMEM, "no memory");
		next(a, e.code, &e);
		return NULL;
	}
	c->life = a->life;
	text_put(c->agent, sizeof(c->agent), a->name);
	c->run = a->run ? a->run->id : 0;
	c->next = next;
	LIST_INSERT_HEAD(&a->life->calls, c, entry);
	return c;
}

struct life_agent *life_called(struct life_call *c, life_next **out_next)
{
	struct life *l = c->life;
	struct life_agent *a = l ? life_known(l, c->agent) : NULL;

	if (a && (!a->run || a->run->id != c->run))
		a = NULL;
	*out_next = c->next;
	if (l)
		LIST_REMOVE(c, entry);
	free(c);
	return l && l->dying ? NULL : a;
}

void life_on_sandbox(void *arg, int rc, const struct err *e, const struct sandbox_info *info, int fd)
{
	life_next *next;
	struct life_agent *a = life_called(arg, &next);

	if (!a) {
		if (fd >= 0)
			close(fd);
		return;
	}
	if (a->run->fd >= 0)
		close(a->run->fd);
	a->run->fd = fd;
	memset(&a->run->info, 0, sizeof(a->run->info));
	if (!rc && info)
		a->run->info = *info;
	next(a, rc, e);
}

/* A take that nobody waits for any more: what became of it is noted all the same. */
static void take_was_late(struct life *l, const char *agent, const struct id *snapshot, int rc, const struct err *e,
			  const struct sandbox_snapshot *copy)
{
	struct life_agent *a = life_agent(l, agent, NULL);
	bool ready = !rc && copy && copy->ready;
	struct life_waiter w = {.want = WANT_TAKEN, .deadline = UINT64_MAX, .snapshot = *snapshot, .tried = ready};

	if (a && a->taking)
		a->taking--;
	if (copy && !rc)
		w.copy = *copy;
	text_format(w.reason, sizeof(w.reason), "%.150s",
		    rc      ? e && e->message[0] ? e->message : err_name(rc)
			 : ready ? ""
			    : w.copy.detail);
	life_want(l, agent, &w);
}

void life_on_snapshots(void *arg, int rc, const struct err *e, const struct sandbox_snapshot *list, size_t n)
{
	struct life_call *c = arg;
	struct life *l = c->life;
	struct id snapshot = c->snapshot;
	bool take = c->take;
	char agent[AGENT_NAME_MAX + 1];
	life_next *next;
	struct life_agent *a;

	memcpy(agent, c->agent, sizeof(agent));
	a = life_called(c, &next);
	if (!a) {
		if (l && !l->dying && take)
			take_was_late(l, agent, &snapshot, rc, e, n ? list : NULL);
		return;
	}
	memset(&a->run->copy, 0, sizeof(a->run->copy));
	if (!rc && n)
		a->run->copy = list[0];
	next(a, rc, e);
}

void life_on_host(void *arg, int rc, const struct err *e)
{
	life_next *next;
	struct life_agent *a = life_called(arg, &next);

	if (a)
		next(a, rc, e);
}

static json_t *transition(const struct life_row *was, const struct life_row *now, const char *step)
{
	int64_t spent = was->since_wall_ns ? now->since_wall_ns - was->since_wall_ns : 0;

	return json_pack("{s:s,s:s,s:s,s:I,s:I,s:s*,s:s*}", "from",
			 was->generation ? life_state_name(was->state) : "none", "to", life_state_name(now->state),
			 "cause", now->cause, "generation", (json_int_t)now->generation, "duration_ms",
			 (json_int_t)(spent > 0 ? spent / (int64_t)NS_PER_MS : 0), "detail",
			 now->detail[0] ? now->detail : NULL, "step", step && *step ? step : NULL);
}

static void id_set(json_t *o, const char *key, const struct id *id)
{
	char text[ID_STR_LEN];

	id_format(id, text);
	if (!id_is_nil(id))
		json_object_set_new(o, key, json_string(text));
}

static void tell_snapshot(struct life *l, const struct life_snap *s)
{
	json_t *d = json_pack("{s:s,s:s,s:s,s:I,s:s,s:s*}", "cause", s->cause, "how", s->how, "quiesce",
			      snap_quiesce_name(s->quiesced), "size", (json_int_t)s->size, "name", s->name, "message",
			      s->detail[0] ? s->detail : NULL);

	if (!d)
		return;
	id_set(d, "id", &s->id);
	id_set(d, "previous", &s->previous);
	/* What has no digest when it is taken says so; length and time tell what happened to it before it has one. */
	if (s->status == SNAP_READY)
		json_object_set_new(d, "digest", json_string(s->digest[0] ? s->digest : life_digest_state(s)));
	if (s->stored) {
		json_object_set_new(d, "stored", json_integer((json_int_t)s->stored));
		json_object_set_new(d, "mtime_ns", json_integer(s->mtime_ns));
	}
	json_object_set_new(d, "duration_ms",
			    json_integer((s->ended_wall_ns - s->created_wall_ns) / (int64_t)NS_PER_MS));
	if (life_audit(l, "snapshot.create", s->agent, s->status == SNAP_READY ? "ok" : "failed", d) == 0 &&
	    s->digest[0])
		life_digest_told(l, &s->id, s->digest);
	else if (s->status == SNAP_READY)
		life_hash_all(l);
}

void life_ask_refers(struct life_agent *a, life_next *next)
{
	struct life_host *h = &a->life->host;
	struct life_call *c;

	a->run->refers = ERR_UNAVAILABLE;
	if (!h->refers) { /* nobody records */
		next(a, ERR_UNSUPPORTED, NULL);
		return;
	}
	c = life_call(a, next);
	if (c)
		h->refers(h->ctx, a->name, &a->run->snap.id, &a->run->snap.previous, life_on_host, c);
}

bool life_must_stay(const struct life_agent *a, int rc)
{
	return (rc == ERR_BAD_STATE || rc == ERR_UNAVAILABLE) && a->run->was != SNAP_FAILED;
}

void life_tell_drop(struct life_agent *a, const struct id *snapshot, const char *cause, const struct err *failed)
{
	json_t *d = json_pack("{s:s,s:s*}", "cause", cause, "message", failed ? failed->message : NULL);

	if (!d)
		return;
	id_set(d, "id", snapshot);
	if (a->run->refers >= 0)
		json_object_set_new(d, "recordings", json_integer(a->run->refers));
	(void)life_audit(a->life, "snapshot.drop", a->name, failed ? err_name(failed->code) : "ok", d);
}

/* ---- rows */

struct commit {
	struct life_call *call;
	struct life *life;
	bool with_snap, drop, only_snap, dropping;
	int64_t was;
	struct life_row before, next;
	struct life_snap snap;
	char pod_template[SANDBOX_DIGEST_LEN]; /* digest of what its pod was made with; "": none */
	char *own_template;                    /* a text to be kept with it; NULL: none */
};

static json_t *told_transition(const struct commit *c)
{
	json_t *o = transition(&c->before, &c->next, c->next.step);

	if (o && c->next.state == LIFE_RUNNING && c->pod_template[0])
		(void)json_object_set_new(o, "pod_template", json_string(c->pod_template));
	return o;
}

/* Asked where it is decided: whoever forks it from here on finds it dropping. */
static int nobody_needs(struct sqlite3 *db, const struct life_snap *s, struct err *e)
{
	char text[ID_STR_LEN];
	bool needed = false;
	int rc = snap_needed(db, &s->id, s->agent, &needed, e);

	id_format(&s->id, text);
	return rc || !needed
		   ? rc
		   : err_set(e, ERR_BAD_STATE,
			     "a fork needs snapshot %s: end the fork, or resume it where it was not made yet", text);
}

/* The text of its own template comes with the row that names it, and goes with the last one. */
static int keep_template(struct sqlite3 *db, const struct commit *c, struct err *e)
{
	bool other = c->drop || strcmp(c->before.pod_template, c->next.pod_template) != 0;
	int rc = other && !c->drop && c->own_template && *c->own_template
		     ? template_put(db, c->next.pod_template, c->own_template, e)
		     : 0;

	return !rc && other && c->before.pod_template[0] ? template_forget(db, c->before.pod_template, e) : rc;
}

static int commit_fn(struct sqlite3 *db, void *job, struct err *e)
{
	struct commit *c = job;
	int rc = c->dropping    ? nobody_needs(db, &c->snap, e)
		 : c->only_snap ? 0
		 : c->drop      ? row_delete(db, c->next.agent, c->was, e)
				: row_swap(db, c->was, &c->next, e);

	if (!rc && !c->only_snap)
		rc = keep_template(db, c, e);
	return rc || !c->with_snap ? rc : snap_put(db, &c->snap, e);
}

struct told {
	char agent[AGENT_NAME_MAX + 1];
	int64_t generation;
};

static int told_fn(struct sqlite3 *db, void *job, struct err *e)
{
	const struct told *t = job;

	return row_set_told(db, t->agent, t->generation, e);
}

static void told_done(void *job, int rc, const struct err *e)
{
	(void)rc, (void)e;
	free(job);
}

/* The run's outcome is in the audit log: after a crash nobody tells it again. */
static void note_told(struct life *l, const struct life_row *r)
{
	struct told *t = malloc(sizeof(*t));

	if (!t)
		return;
	memcpy(t->agent, r->agent, sizeof(t->agent));
	t->generation = r->generation;
	store_write(l->store, told_fn, told_done, t);
}

static void tell(struct life *l, const struct commit *c)
{
	if (c->drop || !c->before.generation || c->before.state != c->next.state) {
		l->transitions[c->next.state] += !c->drop;
		log_info(&(struct log_ids){.agent = c->next.agent}, "%s -> %s: %s%s%s",
			 c->before.generation ? life_state_name(c->before.state) : "none",
			 c->drop ? "none" : life_state_name(c->next.state), c->next.cause,
			 c->next.detail[0] ? ": " : "", c->next.detail);
		(void)life_audit(l, "sandbox.state", c->next.agent, "ok", told_transition(c));
	}
	if (c->with_snap && (c->snap.status == SNAP_READY || c->snap.status == SNAP_FAILED))
		tell_snapshot(l, &c->snap);
	if (!c->drop && (c->next.state == LIFE_STOPPED || c->next.state == LIFE_RUNNING || c->next.state == LIFE_ERROR))
		note_told(l, &c->next);
}

/* ... while it runs: a start says it by itself. */
static bool end_changed(const struct commit *c)
{
	return !c->only_snap && !c->drop && c->next.state == LIFE_RUNNING && c->before.generation &&
	       c->before.state != LIFE_STARTING && c->before.expires_ns != c->next.expires_ns;
}

static void commit_free(struct commit *c)
{
	free(c->own_template);
	free(c);
}

static void commit_done(void *job, int rc, const struct err *e)
{
	struct commit *c = job;
	struct life *l = c->call ? c->call->life : NULL;
	struct life_agent *a = NULL;
	life_next *next = NULL;

	if (c->call)
		a = life_called(c->call, &next);
	if (!rc && l && !l->dying && !c->only_snap)
		tell(l, c);
	if (a) {
		a->run->writing = false;
		if (!rc && c->only_snap)
			a->tries = 0;
		else if (!rc && c->drop)
			a->row = (struct life_row){.idle_ttl_ns = LIFE_TTL_CONF};
		else if (!rc)
			a->row = c->next, a->tries = 0;
		if (!rc && end_changed(c))
			life_tell_end(a, c->next.expires_ns, true);
		next(a, rc, e);
	}
	commit_free(c);
}

static struct commit *commit_new(struct life_agent *a, const struct life_row *next, life_next *done)
{
	const char *own = a->run->own_template;
	struct commit *c = calloc(1, sizeof(*c));
	struct err e = {0};

	if (c && own && !(c->own_template = strdup(own))) {
		free(c);
		c = NULL;
	}
	if (!c) {
		err_set(&e, ERR_NOMEM, "no memory");
		done(a, e.code, &e);
		return NULL;
	}
	c->was = a->row.generation;
	c->before = a->row;
	c->next = *next;
	text_put(c->pod_template, sizeof(c->pod_template), a->run->info.pod_template);
	return c;
}

static void commit_go(struct life_agent *a, struct commit *c, life_next *done)
{
	struct err e = {0};

	/* What the record cannot hold does not happen. */
	if ((c->drop || !c->before.generation || c->before.state != c->next.state) &&
	    life_audit(a->life, "sandbox.state", a->name, "intended", told_transition(c))) {
		commit_free(c);
		err_set(&e, ERR_RECORD_UNAVAILABLE, "the record cannot be written: %s stays %s", a->name,
			life_state_name(a->row.state));
		done(a, e.code, &e);
		return;
	}
	c->call = life_call(a, done);
	if (!c->call) {
		commit_free(c);
		return;
	}
	a->run->writing = true;
	store_write(a->life->store, commit_fn, commit_done, c);
}

void life_commit(struct life_agent *a, const struct life_row *next, const struct life_snap *snap, life_next *done)
{
	struct commit *c = commit_new(a, next, done);
	int64_t wall = clock_wall_ns();

	if (!c)
		return;
	memcpy(c->next.agent, a->name, sizeof(c->next.agent));
	c->next.generation = a->row.generation + 1;
	if (!a->row.generation)
		c->next.created_wall_ns = wall;
	if (!a->row.generation || a->row.state != next->state)
		c->next.since_wall_ns = wall;
	c->next.updated_wall_ns = wall;
	life_set_due(a, &c->next);
	if (snap) {
		c->with_snap = true;
		c->snap = *snap;
	}
	commit_go(a, c, done);
}

void life_commit_delete(struct life_agent *a, life_next *done)
{
	struct commit *c = commit_new(a, &a->row, done);

	if (!c)
		return;
	c->drop = true;
	c->next.generation++;
	c->next.since_wall_ns = clock_wall_ns();
	commit_go(a, c, done);
}

static void commit_snap(struct life_agent *a, const struct life_snap *snap, bool dropping, life_next *done)
{
	struct commit *c = commit_new(a, &a->row, done);

	if (!c)
		return;
	c->only_snap = c->with_snap = true;
	c->dropping = dropping;
	c->snap = *snap;
	c->call = life_call(a, done);
	if (!c->call) {
		commit_free(c);
		return;
	}
	a->run->writing = true;
	store_write(a->life->store, commit_fn, commit_done, c);
}

void life_commit_snap(struct life_agent *a, const struct life_snap *snap, life_next *done)
{
	commit_snap(a, snap, false, done);
}

void life_commit_dropping(struct life_agent *a, struct life_snap *snap, life_next *done)
{
	snap->status = SNAP_DROPPING;
	commit_snap(a, snap, true, done);
}

/* ---- snapshots beside any run */

static int put_fn(struct sqlite3 *db, void *job, struct err *e)
{
	return snap_put(db, job, e);
}

static void put_done(void *job, int rc, const struct err *e)
{
	struct life_snap *s = job;

	if (rc)
		log_error(&(struct log_ids){.agent = s->agent}, "a snapshot's state is not noted: %s",
			  e ? e->message : err_name(rc));
	free(s);
}

void life_put_snap(struct life *l, const struct life_snap *s)
{
	struct life_snap *copy = malloc(sizeof(*copy));

	if (!copy)
		return;
	*copy = *s;
	if (s->status == SNAP_READY || s->status == SNAP_FAILED)
		tell_snapshot(l, s);
	store_write(l->store, put_fn, put_done, copy);
}

/* ---- the named steps */

static int step_once(struct life *l, const struct life_step *s, const char *agent, struct err *e)
{
	uint64_t began = clock_boot_ns();
	int rc = s->run(s->ctx, agent, e);

	life_time(l, TIME_SYNC, began);
	(void)life_audit(l, s->name, agent, rc ? err_name(rc) : "ok",
			 rc && e->message[0] ? json_pack("{s:s}", "message", e->message) : NULL);
	return rc;
}

/* A failure gets one more try (requirement A8). */
int life_step_run(struct life_agent *a, enum life_step_no n, struct err *e)
{
	const struct life_step *s = &a->life->steps[n];
	int rc;

	if (!s->run)
		return life_audit(a->life, s->name, a->name, "skipped",
				  json_pack("{s:s}", "why", "nothing is configured"));
	rc = step_once(a->life, s, a->name, e);
	if (rc)
		rc = step_once(a->life, s, a->name, e);
	return rc;
}
