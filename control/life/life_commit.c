/* The swap of a row for the next one: told as intended, swapped in the store, told as done, and answered to the run. */
#define LOG_SUBSYS "life"
#include "control/life/life_commit.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/life/life_state.h"
#include "control/store/store.h"

#include <stdlib.h>
#include <string.h>

/* ---- what is told */

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

enum commit_kind {
	COMMIT_ROW,
	COMMIT_DELETE,   /* of the row */
	COMMIT_SNAP,     /* the row stays */
	COMMIT_DROPPING, /* the row stays, and a snapshot that nobody needs is about to go */
};

struct commit {
	struct life_call *call;
	enum commit_kind kind;
	bool with_snap;
	int64_t was;
	struct life_row before, next;
	struct life_snap snap;
	char pod_template[SANDBOX_DIGEST_LEN]; /* digest of what its pod was made with; "": none */
	char *own_template;                    /* a text to be kept with it; NULL: none */
};

static bool swaps(const struct commit *c)
{
	return c->kind == COMMIT_ROW || c->kind == COMMIT_DELETE;
}

static bool changes_state(const struct commit *c)
{
	return c->kind == COMMIT_DELETE || !c->before.generation || c->before.state != c->next.state;
}

static json_t *told_transition(const struct commit *c)
{
	json_t *o = transition(&c->before, &c->next, c->next.step);

	if (o && c->next.state == LIFE_RUNNING && c->pod_template[0])
		(void)json_object_set_new(o, "pod_template", json_string(c->pod_template));
	if (o && c->next.state == LIFE_RUNNING && c->next.image[0])
		(void)json_object_set_new(o, "image", json_string(c->next.image));
	if (o && c->next.state == LIFE_RUNNING && c->next.app_id[0])
		(void)json_object_set_new(o, "app_id", json_string(c->next.app_id));
	if (o && c->next.state == LIFE_RUNNING && !resources_none(&c->next.resources))
		(void)json_object_set_new(o, "resources", resources_json(&c->next.resources));
	return o;
}

/* Asked where it is decided: whoever forks it from here on finds it dropping. */
static int nobody_needs(struct sqlite3 *db, const struct life_snap *s, struct err *e)
{
	char text[ID_STR_LEN];
	bool needed = false;
	int rc = snap_needed(db, &s->id, s->orphan ? NULL : s->agent, &needed, e);

	id_format(&s->id, text);
	return rc || !needed
		   ? rc
		   : err_set(e, ERR_BAD_STATE,
			     "a fork needs snapshot %s: end the fork, or resume it where it was not made yet", text);
}

/* The text of its own template comes with the row that names it, and goes with the last one. */
static int keep_template(struct sqlite3 *db, const struct commit *c, struct err *e)
{
	bool gone = c->kind == COMMIT_DELETE, other = gone || strcmp(c->before.pod_template, c->next.pod_template) != 0;
	int rc = 0;

	if (other && !gone && c->own_template && *c->own_template)
		rc = template_put(db, c->next.pod_template, c->own_template, e);

	return !rc && other && c->before.pod_template[0] ? template_forget(db, c->before.pod_template, e) : rc;
}

static int commit_fn(struct sqlite3 *db, void *job, struct err *e)
{
	struct commit *c = job;
	int rc = 0;

	switch (c->kind) {
	case COMMIT_ROW:
		rc = row_swap(db, c->was, &c->next, e);
		break;
	case COMMIT_DELETE:
		rc = row_delete(db, c->next.agent, c->was, e);
		break;
	case COMMIT_DROPPING:
		rc = nobody_needs(db, &c->snap, e);
		break;
	case COMMIT_SNAP:
		break;
	}
	if (!rc && swaps(c))
		rc = keep_template(db, c, e);
	return rc || !c->with_snap ? rc : snap_put(db, &c->snap, e);
}

struct life_told {
	STAILQ_ENTRY(life_told) entry;
	char agent[AGENT_NAME_MAX + 1];
	int64_t generation;
	uint64_t at; /* of the journal: durable up to there, the audit log has it */
};

static int told_fn(struct sqlite3 *db, void *job, struct err *e)
{
	const struct life_told *t = job;

	return row_set_told(db, t->agent, t->generation, e);
}

static void told_done(void *job, int rc, const struct err *e)
{
	(void)rc, (void)e;
	free(job);
}

/* Once the run's outcome is in the audit log, and on its disk, nobody tells it again after a crash. */
void life_note_told(struct life *l, const struct life_row *r)
{
	struct life_told *t = malloc(sizeof(*t));
	uint64_t durable;

	if (!t)
		return;
	memcpy(t->agent, r->agent, sizeof(t->agent));
	t->generation = r->generation;
	t->at = l->host.journal(l->host.ctx, &durable);
	STAILQ_INSERT_TAIL(&l->told, t, entry);
	life_recorded(l);
}

void life_recorded(struct life *l)
{
	struct life_told *t;
	uint64_t durable;

	if (!l || STAILQ_EMPTY(&l->told))
		return;
	(void)l->host.journal(l->host.ctx, &durable);
	while ((t = STAILQ_FIRST(&l->told)) && t->at <= durable) {
		STAILQ_REMOVE_HEAD(&l->told, entry);
		store_write(l->store, told_fn, told_done, t);
	}
}

void life_told_finish(struct life *l)
{
	struct life_told *t;

	while ((t = STAILQ_FIRST(&l->told))) {
		STAILQ_REMOVE_HEAD(&l->told, entry);
		free(t);
	}
}

static void life_commit_tell(struct life *l, const struct commit *c)
{
	bool gone = c->kind == COMMIT_DELETE, in_log = true;

	if (changes_state(c)) {
		l->transitions[c->next.state] += !gone;
		log_info(&(struct log_ids){.agent = c->next.agent}, "%s -> %s: %s%s%s",
			 c->before.generation ? life_state_name(c->before.state) : "none",
			 gone ? "none" : life_state_name(c->next.state), c->next.cause, c->next.detail[0] ? ": " : "",
			 c->next.detail);
		in_log = life_audit(l, "sandbox.state", c->next.agent, "ok", told_transition(c)) == 0;
	}
	if (c->with_snap && (c->snap.status == SNAP_READY || c->snap.status == SNAP_FAILED))
		tell_snapshot(l, &c->snap);
	if (in_log && !gone &&
	    (c->next.state == LIFE_STOPPED || c->next.state == LIFE_RUNNING || c->next.state == LIFE_ERROR))
		life_note_told(l, &c->next);
}

/* The agent's end is another one while it runs. A start tells the end by itself. */
static bool end_changed(const struct commit *c)
{
	return c->kind == COMMIT_ROW && c->next.state == LIFE_RUNNING && c->before.generation &&
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
	struct life *l = c->call->life;
	struct life_agent *a = life_called(c->call);

	if (!rc && l && !l->dying && swaps(c))
		life_commit_tell(l, c);
	if (a) {
		if (!rc && c->kind == COMMIT_DELETE)
			a->row = (struct life_row){.idle_ttl_ns = LIFE_TTL_CONF};
		else if (!rc && c->kind == COMMIT_ROW)
			a->row = c->next;
		if (!rc)
			a->tries = 0;
		if (!rc && end_changed(c))
			life_tell_end(a, c->next.expires_ns, true);
		life_run_answer(a, rc, e);
	}
	commit_free(c);
}

static struct commit *commit_new(struct life_agent *a, enum commit_kind kind, const struct life_row *next,
				 struct err *e)
{
	const char *own = a->run->own_template;
	struct commit *c = calloc(1, sizeof(*c));

	if (c && own && !(c->own_template = strdup(own))) {
		free(c);
		c = NULL;
	}
	if (!c) {
		err_set(e, ERR_NOMEM, "no memory");
		return NULL;
	}
	c->kind = kind;
	c->was = a->row.generation;
	c->before = a->row;
	c->next = *next;
	text_put(c->pod_template, sizeof(c->pod_template), a->run->info.pod_template);
	return c;
}

static void commit_snapshot(struct commit *c, const struct life_snap *snap)
{
	c->with_snap = true;
	c->snap = *snap;
}

static int commit_go(struct life_agent *a, struct commit *c, struct err *e)
{
	int rc = 0;

	if (swaps(c) && changes_state(c) &&
	    life_audit(a->life, "sandbox.state", a->name, "intended", told_transition(c)))
		rc = err_set(e, ERR_RECORD_UNAVAILABLE, "the record cannot be written: %s stays %s", a->name,
			     life_state_name(a->row.state));
	if (!rc && !(c->call = life_call(a, e)))
		rc = e->code;
	if (rc) {
		commit_free(c);
		return rc;
	}
	store_write(a->life->store, commit_fn, commit_done, c);
	return RUN_ASKED;
}

int life_commit(struct life_agent *a, const struct life_row *next, const struct life_snap *snap, struct err *e)
{
	struct commit *c = commit_new(a, COMMIT_ROW, next, e);
	int64_t wall = clock_wall_ns();

	if (!c)
		return e->code;
	memcpy(c->next.agent, a->name, sizeof(c->next.agent));
	c->next.generation = a->row.generation + 1;
	if (!a->row.generation)
		c->next.created_wall_ns = wall;
	if (!a->row.generation || a->row.state != next->state)
		c->next.since_wall_ns = wall;
	c->next.updated_wall_ns = wall;
	life_set_due(a, &c->next);
	if (snap)
		commit_snapshot(c, snap);
	return commit_go(a, c, e);
}

int life_commit_next(struct life_agent *a, struct err *e)
{
	return life_commit(a, &a->run->next, NULL, e);
}

int life_commit_delete(struct life_agent *a, struct err *e)
{
	struct commit *c = commit_new(a, COMMIT_DELETE, &a->row, e);

	if (!c)
		return e->code;
	c->next.generation++;
	c->next.since_wall_ns = clock_wall_ns();
	return commit_go(a, c, e);
}

static int commit_snap(struct life_agent *a, enum commit_kind kind, const struct life_snap *snap, struct err *e)
{
	struct commit *c = commit_new(a, kind, &a->row, e);

	if (!c)
		return e->code;
	commit_snapshot(c, snap);
	return commit_go(a, c, e);
}

int life_commit_snap(struct life_agent *a, const struct life_snap *snap, struct err *e)
{
	return commit_snap(a, COMMIT_SNAP, snap, e);
}

int life_commit_dropping(struct life_agent *a, struct life_snap *snap, struct err *e)
{
	snap->status = SNAP_DROPPING;
	return commit_snap(a, COMMIT_DROPPING, snap, e);
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
