/* What others ask of lifecycle: checked here, then a waiter like any other. */
#define LOG_SUBSYS "life"
#include "base/clock.h"
#include "base/text.h"
#include "control/life/life_state.h"
#include "control/store/store.h"

#include <stdlib.h>
#include <string.h>

static uint64_t deadline(const struct life *l, uint64_t timeout_ns, bool copies)
{
	uint64_t most = l->policy.start_timeout_ns + (copies ? l->policy.snapshot_timeout_ns : 0);

	return clock_boot_ns() + (timeout_ns ? timeout_ns : most);
}

static struct life_waiter waiter(enum life_want want, const char *reason, uint64_t until, life_done *done, void *arg)
{
	struct life_waiter w = {.want = want,
				.deadline = until,
				.options = {.idle_ttl_ns = UINT64_MAX, .ttl_ns = UINT64_MAX},
				.done = done,
				.arg = arg};

	text_format(w.reason, sizeof(w.reason), "%.150s", reason ? reason : "");
	return w;
}

/* Agents alone have a life: pods of others are never made, stopped or copied. */
static bool life_api_refused(const char *agent, life_done *done, void *arg)
{
	struct err e = {0};

	if (target_is_pod(agent))
		err_set(&e, ERR_UNSUPPORTED, "%.192s is a pod of somebody else: muxd neither stops nor copies it",
			agent);
	else
		(void)agent_name_check(agent, &e);
	if (e.code)
		done(arg, e.code, &e, NULL);
	return e.code;
}

void life_resume(struct life *l, const char *agent, const struct life_options *o, uint64_t timeout_ns, life_done *done,
		 void *arg)
{
	struct life_waiter w = waiter(WANT_RESUME, "", deadline(l, timeout_ns, false), done, arg);

	if (life_api_refused(agent, done, arg))
		return;
	if (o)
		w.options = *o;
	life_want(l, agent, &w);
}

void life_need(struct life *l, const char *agent, const struct life_options *o, life_done *done, void *arg)
{
	struct life_waiter w = waiter(WANT_RESUME, "", deadline(l, 0, false), done, arg);

	w.implied = true;
	if (o)
		w.options = *o;
	if (!life_api_refused(agent, done, arg))
		life_want(l, agent, &w);
}

void life_stop(struct life *l, const char *agent, const char *reason, uint64_t timeout_ns, life_done *done, void *arg)
{
	struct life_waiter w = waiter(WANT_STOP, reason, deadline(l, timeout_ns, true), done, arg);

	if (!life_api_refused(agent, done, arg))
		life_want(l, agent, &w);
}

void life_terminate(struct life *l, const char *agent, const char *reason, enum life_end how, uint64_t timeout_ns,
		    life_done *done, void *arg)
{
	struct life_waiter w = waiter(WANT_END, reason, deadline(l, timeout_ns, true), done, arg);

	if (life_api_refused(agent, done, arg))
		return;
	w.end = how == LIFE_END_BY_REASON ? life_end_by_reason(&l->policy, reason ? reason : "") : how;
	life_want(l, agent, &w);
}

void life_snapshot(struct life *l, const char *agent, uint64_t timeout_ns, life_done *done, void *arg)
{
	struct life_waiter w = waiter(WANT_SNAPSHOT, "asked for", deadline(l, timeout_ns, true), done, arg);

	if (!life_api_refused(agent, done, arg))
		life_want(l, agent, &w);
}

/* ---- about one snapshot */

static int life_api_find(struct life *l, const struct id *id, struct life_snap *out, struct err *e)
{
	char text[ID_STR_LEN];
	int rc;

	id_format(id, text);
	rc = life_snap_load(l, id, out, e);
	if (!rc && out->orphan)
		return err_set(e, ERR_NOT_FOUND, "there is no snapshot %s any more: its agent was wiped", text);
	if (rc || out->status == SNAP_READY)
		return rc;
	return err_set(e, out->status == SNAP_DROPPED ? ERR_NOT_FOUND : ERR_BAD_STATE,
		       "snapshot %s of %s is %s%s%s: ready would do", text, out->agent, snap_status_name(out->status),
		       out->detail[0] ? ": " : "", out->detail);
}

static int find_own(struct life *l, const char *agent, const struct id *id, struct life_snap *out, struct err *e)
{
	char text[ID_STR_LEN];
	int rc = life_api_find(l, id, out, e);

	id_format(id, text);
	if (!rc && strcmp(out->agent, agent) != 0)
		rc = err_set(e, ERR_INVAL, "snapshot %s is of %s, not of %s: fork it instead", text, out->agent, agent);
	return rc;
}

void life_restore(struct life *l, const char *agent, const struct id *snapshot, uint64_t timeout_ns, life_done *done,
		  void *arg)
{
	struct life_waiter w = waiter(WANT_RESTORE, "", deadline(l, timeout_ns, true), done, arg);
	char text[ID_STR_LEN];
	struct life_snap s;
	struct err e = {0};

	if (life_api_refused(agent, done, arg))
		return;
	if (find_own(l, agent, snapshot, &s, &e)) {
		done(arg, e.code, &e, NULL);
		return;
	}
	id_format(snapshot, text);
	text_format(w.reason, sizeof(w.reason), "back to snapshot %s", text);
	w.snapshot = *snapshot;
	life_want(l, agent, &w);
}

/* Whether it may go is asked when it goes. */
void life_snapshot_drop(struct life *l, const char *agent, const struct id *snapshot, life_done *done, void *arg)
{
	struct life_waiter w = waiter(WANT_DROP, "asked for", deadline(l, 0, true), done, arg);
	struct life_snap s;
	struct err e = {0};

	if (life_api_refused(agent, done, arg))
		return;
	if (find_own(l, agent, snapshot, &s, &e)) {
		done(arg, e.code, &e, NULL);
		return;
	}
	w.snapshot = *snapshot;
	life_want(l, agent, &w);
}

/* ---- forks */

struct moment {
	int64_t at;
	struct life_snap found;
	bool yes, gone; /* gone: the right one was dropped */
};

/* Newest first: the first that was there at that moment. */
static bool at_moment(void *arg, const struct life_snap *s)
{
	struct moment *m = arg;

	if (s->created_wall_ns > m->at || s->status == SNAP_FAILED || s->status == SNAP_TAKING ||
	    (s->status == SNAP_DROPPED && !s->name[0]))
		return true;
	m->found = *s;
	m->gone = s->status != SNAP_READY || s->orphan;
	m->yes = !m->gone;
	return false;
}

struct moment_job {
	const char *agent;
	struct moment m;
};

static int read_moment(struct sqlite3 *db, void *job, struct err *e)
{
	struct moment_job *j = job;

	return snaps_of(db, j->agent, at_moment, &j->m, e);
}

/* The snapshot that a session of that time began with is the newest one before it. */
static int find_moment(struct life *l, const char *agent, int64_t at, struct life_snap *out, struct err *e)
{
	struct moment_job j = {.agent = agent, .m = {.at = at}};
	char text[ID_STR_LEN];
	int rc = store_read(l->store, read_moment, &j, e);

	if (rc)
		return rc;
	id_format(&j.m.found.id, text);
	if (j.m.gone)
		return err_set(e, ERR_NOT_FOUND, "the snapshot of that moment, %s, is no longer there: %s", text,
			       j.m.found.orphan ? "its agent was wiped" : j.m.found.detail);
	if (!j.m.yes)
		return err_set(e, ERR_NOT_FOUND, "%s had no snapshot yet at that moment", agent);
	*out = j.m.found;
	return 0;
}

struct fork_job {
	struct life *life; /* NULL: gone */
	LIST_ENTRY(fork_job) entry;
	struct life_row row;
	char *own_template; /* NULL: that of whom it is made from */
	char *began;        /* NULL: with a snapshot of another */
	char began_sha256[65];
	bool passing;
	uint32_t forks_max;
	uint64_t deadline;
	life_done *done;
	void *arg;
};

static void fork_free(struct fork_job *j)
{
	if (j) {
		free(j->own_template);
		free(j->began);
	}
	free(j);
}

/* Inherited, it has to be there still. */
static int fork_template(struct sqlite3 *db, const struct fork_job *j, struct err *e)
{
	char *text = NULL;
	int rc = 0;

	if (j->row.pod_template[0] && j->own_template)
		return template_put(db, j->row.pod_template, j->own_template, e);
	if (j->row.pod_template[0])
		rc = template_get(db, j->row.pod_template, &text, e);
	free(text);
	return rc;
}

/*
 * A caller who names a copy has to be let in under that name. The copies that muxd names are for everybody who is let
 * in to the agent, so their number is bounded.
 */
static int fork_room(struct sqlite3 *db, const struct fork_job *j, struct err *e)
{
	char of[AGENT_NAME_MAX + 1];
	int64_t n = 0;
	int rc = 0;

	if (agent_making(j->row.agent) == AGENT_FORK)
		rc = rows_forks(db, target_origin(j->row.agent, of), &n, e);
	if (rc || n < j->forks_max)
		return rc;
	return err_limit(
	    e, ERR_LIMIT, &(struct err_share){"lifecycle.forks_max", "agent", j->forks_max, (uint64_t)n, 60},
	    "%s has %lld forks without a name of their own: lifecycle.forks_max is reached. Terminate one with "
	    "how: wipe, or give this one a name",
	    of, (long long)n);
}

/* A snapshot may go while the row is on its way. */
static int fork_source(struct sqlite3 *db, const struct id *snapshot, struct err *e)
{
	struct life_snap s;
	int rc = snap_get(db, snapshot, &s, e);

	if (!rc && (s.status != SNAP_READY || s.orphan))
		rc = err_set(e, ERR_NOT_FOUND, "the snapshot was dropped meanwhile");
	return rc;
}

static int fork_put(struct sqlite3 *db, void *job, struct err *e)
{
	struct fork_job *j = job;
	int rc = id_is_nil(&j->row.snapshot) ? 0 : fork_source(db, &j->row.snapshot, e);

	if (!rc)
		rc = fork_room(db, j, e);
	if (!rc)
		rc = fork_template(db, j, e);
	if (!rc)
		rc = row_swap(db, 0, &j->row, NULL);
	if (!rc && j->passing)
		rc = row_set_passing(db, j->row.agent, e);
	if (!rc && j->began)
		rc = row_set_beginning(db, j->row.agent, j->began, j->began_sha256, e);
	if (rc == ERR_CONFLICT)
		rc = err_set(e, ERR_CONFLICT, "there is an agent %s already: choose another name", j->row.agent);
	return rc;
}

static void fork_done(void *job, int rc, const struct err *e)
{
	struct fork_job *j = job;
	struct life *l = j->life;
	struct err here = {0};

	if (l)
		LIST_REMOVE(j, entry);
	if (!l || l->dying)
		rc = err_set(&here, ERR_CANCELLED, "the daemon is stopping"), e = &here;
	if (rc) {
		j->done(j->arg, rc, e, NULL);
	} else {
		struct life_waiter w = waiter(WANT_RESUME, "forked", j->deadline, j->done, j->arg);
		struct life_agent *a = life_known(l, j->row.agent);

		if (a && !a->run)
			a->row = j->row;
		(void)life_audit(l, "sandbox.fork", j->row.agent, "ok",
				 json_pack("{s:s,s:b,s:s*}", "from", j->row.fork_agent, "read_only", j->row.read_only,
					   "began_with", j->began));
		life_want(l, j->row.agent, &w);
	}
	fork_free(j);
}

static int fork_name(const struct life_fork *f, const char *from, char out[AGENT_NAME_MAX + 1], struct err *e)
{
	struct id id = life_fresh_id();

	if (!f->as && !agent_make_name(from, AGENT_FORK, &id, out))
		return err_set(e, ERR_INVAL,
			       "a fork of %.63s needs a name of its own: that one is too long to make one of", from);
	if (f->as && !f->passing && agent_making(f->as) != AGENT_CHOSEN)
		return err_set(e, ERR_INVAL, "%.63s is a name as muxd makes them for forks: choose another", f->as);
	if (f->as)
		text_put(out, AGENT_NAME_MAX + 1, f->as);
	return target_is_pod(out) ? err_set(e, ERR_INVAL, "%.100s is no agent's name", out) : agent_name_check(out, e);
}

static int fork_of(struct life *l, const struct life_fork *f, struct life_snap *out, struct err *e)
{
	if (id_is_nil(&f->snapshot) && !f->agent)
		return err_set(e, ERR_INVAL, "a fork needs a snapshot, or an agent and a moment");
	return id_is_nil(&f->snapshot) ? find_moment(l, f->agent, f->at_wall_ns, out, e)
				       : life_api_find(l, &f->snapshot, out, e);
}

int life_snapshot_of(struct life *l, const struct id *snapshot, char out[AGENT_NAME_MAX + 1], struct err *e)
{
	struct life_snap s;
	int rc = life_api_find(l, snapshot, &s, e);

	if (!rc)
		memcpy(out, s.agent, sizeof(s.agent));
	return rc;
}

int life_fork_of(struct life *l, const struct life_fork *f, struct id *out, struct err *e)
{
	struct life_snap s;
	int rc = fork_of(l, f, &s, e);

	if (!rc)
		*out = s.id;
	return rc;
}

static int read_row(struct sqlite3 *db, void *job, struct err *e)
{
	struct life_row *r = job;
	char agent[AGENT_NAME_MAX + 1];

	memcpy(agent, r->agent, sizeof(agent));
	return row_get(db, agent, r, e);
}

/* As it is now; one that is gone has left its snapshot and no more. */
static int read_source(struct life *l, const char *agent, struct life_row *out, struct err *e)
{
	text_put(out->agent, sizeof(out->agent), agent);
	return store_read(l->store, read_row, out, e);
}

static int fork_row(struct life *l, const struct life_fork *f, struct life_row *r, struct err *e)
{
	int64_t wall = clock_wall_ns(), now = life_now(l);
	struct life_row source = {0};
	struct life_wish wish;
	struct life_snap s = {0};
	int rc = f->empty ? 0 : fork_of(l, f, &s, e);

	if (!rc && f->agent && !id_is_nil(&f->snapshot) && strcmp(f->agent, s.agent) != 0)
		rc = err_set(e, ERR_INVAL, "the snapshot is of %s, not of %s", s.agent, f->agent);
	if (!rc && !sandbox_can(l->inner, SANDBOX_RESTORE))
		rc = err_set(e, ERR_UNSUPPORTED, "this backend has no snapshots");
	if (!rc)
		rc = fork_name(f, s.agent, r->agent, e);
	if (!rc && !f->empty && (!f->options.pod_template || !f->options.sets_image || !f->options.sets_resources))
		rc = read_source(l, s.agent, &source, e);
	if (rc)
		return rc;
	r->state = LIFE_STOPPED;
	r->generation = 1;
	snprintf(r->cause, sizeof(r->cause), f->empty ? "made to be copied" : "forked");
	r->snapshot = r->fork_snapshot = s.id;
	memcpy(r->fork_agent, s.agent, sizeof(r->fork_agent));
	r->read_only = !f->writable;
	if (f->options.pod_template)
		life_template_digest(f->options.pod_template, r->pod_template);
	else
		memcpy(r->pod_template, source.pod_template, sizeof(r->pod_template));
	memcpy(r->image, f->options.sets_image ? f->options.image : source.image, sizeof(r->image));
	if (f->options.sets_app)
		memcpy(r->app_id, f->options.app_id, sizeof(r->app_id));
	r->resources = f->options.sets_resources ? f->options.resources : source.resources;
	r->idle_ttl_ns = f->options.idle_ttl_ns == UINT64_MAX ? LIFE_TTL_CONF : (int64_t)f->options.idle_ttl_ns;
	life_wish(&l->policy, r->agent, r->idle_ttl_ns, &wish);
	if (f->options.ttl_ns != UINT64_MAX)
		r->expires_ns = life_expires(l, f->options.ttl_ns);
	else
		r->expires_ns = wish.ttl_ns ? now + (int64_t)wish.ttl_ns : 0;
	r->since_wall_ns = r->created_wall_ns = r->updated_wall_ns = wall;
	return 0;
}

void life_fork(struct life *l, const struct life_fork *f, uint64_t timeout_ns, life_done *done, void *arg)
{
	struct fork_job *j = calloc(1, sizeof(*j));
	struct err e = {0};
	int rc = j ? 0 : err_set(&e, ERR_NOMEM, "no memory");

	if (!rc)
		rc = fork_row(l, f, &j->row, &e);
	if (!rc && f->options.pod_template)
		rc = (j->own_template = strdup(f->options.pod_template)) ? 0 : err_set(&e, ERR_NOMEM, "no memory");
	if (!rc && f->began)
		rc = (j->began = strdup(f->began)) ? 0 : err_set(&e, ERR_NOMEM, "no memory");
	if (!rc)
		rc = life_audit(l, "sandbox.fork", j->row.agent, "intended", NULL);
	if (rc) {
		fork_free(j);
		done(arg, rc, &e, NULL);
		return;
	}
	j->life = l;
	j->passing = f->passing;
	text_put(j->began_sha256, sizeof(j->began_sha256), f->began_sha256);
	j->forks_max = l->policy.forks_max;
	j->deadline = deadline(l, timeout_ns, true);
	j->done = done;
	j->arg = arg;
	LIST_INSERT_HEAD(&l->forks, j, entry);
	store_write(l->store, fork_put, fork_done, j);
}

void life_forks_let_go(struct life *l)
{
	struct fork_job *j;

	while ((j = LIST_FIRST(&l->forks))) {
		LIST_REMOVE(j, entry);
		j->life = NULL;
	}
}
