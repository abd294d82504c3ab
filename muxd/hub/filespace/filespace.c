/* Syncs of an agent's files: wanted, coalesced, run one by one, tried twice, told. */
#define LOG_SUBSYS "filespace"
#include "muxd/hub/filespace/filespace.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/filespace/rows.h"
#include "control/life/life.h"
#include "muxd/hub/agent/filespace_due.h"
#include "muxd/hub/agent/workspace_ask.h"
#include "muxd/hub/core/filespace_places.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/link/agent_link.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/launch.h"
#include "muxd/hub/session/session_state.h"

#include <stdlib.h>
#include <string.h>

#define EVENT         "filespace.sync"
#define AGAIN_NS      (10 * NS_PER_SEC) /* at most: a store's restart is no failure */
#define CAUSES_MAX    20
#define CAUSES_BYTES  (24u * 1024) /* in one event */
#define TRIES         2
#define SYNC_TIMEOUTS 10 /* of the store's, for all of a try */
#define SYNC_LEAST_NS (60 * NS_PER_SEC)
#define SYNC_STILL_NS (60 * NS_PER_SEC) /* one step in the workspace, while others wait for its place */

enum filespace_phase { FILESPACE_IDLE, FILESPACE_QUEUED, FILESPACE_RUNNING, FILESPACE_WAITING, FILESPACE_FAILED };
static const char *const state_names[] = {"idle", "queued", "running", "waiting", "failed"};

struct filespace_waiter {
	STAILQ_ENTRY(filespace_waiter) entry;
	filespace_done *done;
	void *arg;
};
STAILQ_HEAD(filespace_waiters, filespace_waiter);

/* A sync that is wanted, or runs. */
struct filespace_wish {
	bool on;
	json_t *causes; /* array */
	size_t cause_bytes;
	unsigned more; /* of them, that did not fit */
	struct filespace_waiters waiters;
};

struct filespace {
	enum filespace_phase state;
	struct filespace_place place;         /* taken while RUNNING, waited for while QUEUED */
	struct filespace_wish wished[2], now; /* by direction; the one that runs */
	enum filespace_direction direction;
	struct filespace_sync *sync;
	unsigned tries;
	uint64_t began_ns, tried_ns, retry_ns;
	json_t *last[2]; /* {at, outcome, ...} of the last of each direction */
};

static void filespace_set_state(struct agent *a, enum filespace_phase state)
{
	log_debug(&(struct log_ids){.agent = a->name}, "%s -> %s", state_names[a->filespace->state],
		  state_names[state]);
	a->filespace->state = state;
	if (state != FILESPACE_RUNNING && state != FILESPACE_QUEUED)
		filespace_place_leave(hub_filespaces(a->hub), &a->filespace->place);
	hub_stir(a->hub);
}

static void wish_init(struct filespace_wish *w)
{
	*w = (struct filespace_wish){0};
	STAILQ_INIT(&w->waiters);
}

static struct filespace *filespace_get(struct agent *a)
{
	struct filespace *f = a->filespace;

	if (f || !(f = calloc(1, sizeof(*f))))
		return f;
	wish_init(&f->wished[0]);
	wish_init(&f->wished[1]);
	wish_init(&f->now);
	a->filespace = f;
	return f;
}

static void wish_answer(struct filespace_wish *w, int rc, const struct err *e, const json_t *detail)
{
	struct filespace_waiters waiters = w->waiters;
	struct filespace_waiter *k;

	/* Each may ask for another sync: the wish is over by then. */
	STAILQ_INIT(&w->waiters);
	if (STAILQ_EMPTY(&waiters))
		STAILQ_INIT(&waiters);
	json_decref(w->causes);
	w->causes = NULL;
	w->cause_bytes = w->more = 0;
	w->on = false;
	while ((k = STAILQ_FIRST(&waiters))) {
		STAILQ_REMOVE_HEAD(&waiters, entry);
		k->done(k->arg, rc, e, detail);
		free(k);
	}
}

/* One cause more. An event is one line of the log: those that do not fit are counted by the last. */
static void wish_cause(struct filespace_wish *w, json_t *cause)
{
	const json_t *more = json_object_get(cause, "more");
	size_t n = json_dumpb(cause, NULL, 0, JSON_COMPACT);

	if (json_is_integer(more)) {
		w->more += (unsigned)json_integer_value(more);
	} else if (json_array_size(w->causes) < CAUSES_MAX && n <= CAUSES_BYTES - w->cause_bytes) {
		json_array_append(w->causes, cause);
		w->cause_bytes += n;
	} else {
		w->more++;
	}
}

static int wish_wait(struct filespace_wish *w, filespace_done *done, void *arg)
{
	struct filespace_waiter *k = malloc(sizeof(*k));

	if (!k)
		return ERR_NOMEM;
	k->done = done;
	k->arg = arg;
	STAILQ_INSERT_TAIL(&w->waiters, k, entry);
	return 0;
}

bool filespace_applies(struct hub *h, const char *agent)
{
	json_t *row = NULL;
	bool yes = false;

	if (!hub_files(h) || !hub_life(h) || !hub_store(h) || target_is_pod(agent) || agent_is_passing(agent) ||
	    strncmp(agent, WORK_POOL_PREFIX, strlen(WORK_POOL_PREFIX)) == 0)
		return false;
	if (life_show(hub_life(h), agent, &row, NULL) == 0)
		yes = !json_is_true(json_object_get(row, "read_only")) && !json_object_get(row, "forked_from");
	json_decref(row);
	return yes;
}

/* ---- what is told of one */

static json_t *detail_of(const struct filespace *f, const struct filespace_told *t, const struct err *e)
{
	json_t *o = json_pack("{s:s,s:i,s:I,s:O?,s:i,s:i,s:i,s:i,s:i,s:i,s:I}", "direction",
			      filespace_direction_name(f->direction), "tries", (int)f->tries, "duration_ms",
			      (json_int_t)((clock_boot_ns() - f->began_ns) / NS_PER_MS), "causes", f->now.causes,
			      "files", (int)t->files, "copied", (int)t->copied, "deleted", (int)t->deleted, "conflicts",
			      (int)t->conflicts, "left_out", (int)t->left_out, "changed_meanwhile", (int)t->meanwhile,
			      "bytes", (json_int_t)t->bytes);

	if (!o)
		return NULL;
	if (t->manifest[0])
		json_object_set_new(o, "manifest_sha256", json_string(t->manifest));
	if (json_array_size(t->names))
		json_object_set(o, "changes", t->names);
	if (json_array_size(t->left_names))
		json_object_set(o, "left", t->left_names);
	if (f->now.more)
		json_object_set_new(o, "causes_more", json_integer(f->now.more));
	if (t->unnamed)
		json_object_set_new(o, "unnamed", json_integer(t->unnamed));
	if (t->unconfirmed)
		json_object_set_new(o, "unconfirmed", json_integer(t->unconfirmed));
	if (t->forgot)
		json_object_set_new(o, "by_time_alone", json_true());
	if (e) {
		json_object_set_new(o, "message", json_string(e->message));
		json_object_set_new(o, "failed_at", json_string(t->at_store ? "store" : "workspace"));
	}
	return o;
}

/* The deeds of a sync are never left untold: where the whole does not go into the record the numbers do. */
static void audit_sync(struct agent *a, int rc, json_t *detail)
{
	static const char *const long_ones[] = {"changes", "left", "causes"};
	const char *outcome = rc ? err_name(rc) : "ok";
	json_t *o;

	if (audit_event(a->hub, EVENT, NULL, a->name, outcome, json_incref(detail)) == 0)
		return;
	o = json_deep_copy(detail);
	for (size_t i = 0; o && i < sizeof(long_ones) / sizeof(long_ones[0]); i++)
		json_object_del(o, long_ones[i]);
	if (!o ||
	    (json_object_set_new(o, "shortened", json_true()), audit_event(a->hub, EVENT, NULL, a->name, outcome, o)))
		log_error(&(struct log_ids){.agent = a->name},
			  "a %s that ended with %s is not in the audit log: it cannot be written",
			  filespace_direction_name(a->filespace->direction), outcome);
}

/* Deeds of a sync that has not ended are told at once, since the next try finds them done. */
static void filespace_tell_deeds(struct agent *a, const struct err *why, const struct filespace_told *told)
{
	json_t *detail;

	if (!told->copied && !told->deleted && !told->unconfirmed)
		return;
	detail = detail_of(a->filespace, told, why);
	if (detail)
		audit_sync(a, why->code, detail);
	json_decref(detail);
}

static void keep_last(struct agent *a, const char *outcome, const json_t *detail)
{
	struct filespace *f = a->filespace;
	json_t *o = json_deep_copy(detail);
	char text[40];

	clock_format_utc(hub_now_wall(a->hub), text, sizeof(text));
	if (!o || json_object_set_new(o, "at", json_string(text)) ||
	    json_object_set_new(o, "outcome", json_string(outcome))) {
		json_decref(o);
		return;
	}
	json_object_del(o, "causes");
	json_decref(f->last[f->direction]);
	f->last[f->direction] = o;
}

/* A push that found nothing to do, and that nobody waits for, is no event. */
static bool is_worth_telling(const struct filespace *f, const struct filespace_told *t)
{
	return f->direction == FILESPACE_PULL || t->copied || t->deleted || t->conflicts || t->meanwhile ||
	       !STAILQ_EMPTY(&f->now.waiters);
}

/* ---- one after the other */

static void filespace_next(struct agent *a);

static bool works(const struct agent *a)
{
	for (const struct session *s = a->channels; s; s = s->hh_channel.next)
		if (s->state != SESSION_ENDED && !launch_is_inside(&s->launch))
			return true;
	return false;
}

static void filespace_on_stopped(void *arg, int rc, const struct err *e, json_t *result)
{
	(void)arg, (void)rc, (void)e, (void)result; /* its row tells, and so does lifecycle's log */
}

/*
 * Twice in vain: the sandbox is stopped with a snapshot, and its state tells (requirement A8). Work that runs in it is
 * not cut: its end is the next push.
 */
static void filespace_give_up(struct agent *a, const struct err *why)
{
	char reason[256];

	if (a->stopping || works(a) || !hub_life(a->hub))
		return;
	text_format(reason, sizeof(reason), "its filespace cannot be synced: %.200s", why->message);
	life_stop(hub_life(a->hub), a->name, reason, 0, filespace_on_stopped, NULL);
}

static uint64_t again_ns(const struct agent *a)
{
	uint64_t timeout = hub_conf(a->hub)->filespace_timeout_ns;

	return timeout < AGAIN_NS ? timeout : AGAIN_NS;
}

static void filespace_on_synced(void *arg, int rc, const struct err *e, const struct filespace_told *told)
{
	struct agent *a = arg;
	struct filespace *f = a->filespace;
	struct filespace_wish over = f->now;
	struct err why = {0};
	json_t *detail;

	f->sync = NULL;
	if (rc)
		err_again(&why, rc, e, NULL);
	if (rc && f->tries < TRIES && (told->at_store || f->direction == FILESPACE_PUSH) && rc != ERR_CANCELLED &&
	    rc != ERR_TOO_LARGE && !hub_stopping(a->hub)) {
		log_warn(&(struct log_ids){.agent = a->name}, "a %s failed, it is tried again: %s",
			 filespace_direction_name(f->direction), why.message);
		filespace_tell_deeds(a, &why, told);
		f->retry_ns = clock_boot_ns() + again_ns(a);
		filespace_set_state(a, FILESPACE_WAITING);
		return;
	}
	detail = detail_of(f, told, rc ? &why : NULL);
	if (hub_life(a->hub))
		life_sync_took(hub_life(a->hub), f->began_ns);
	if (detail && (rc || is_worth_telling(f, told)))
		audit_sync(a, rc, detail);
	keep_last(a, rc ? err_name(rc) : "ok", detail);
	filespace_set_state(a, rc ? FILESPACE_FAILED : FILESPACE_IDLE);
	if (rc)
		log_error(&(struct log_ids){.agent = a->name}, "its files are not in step with the store: %s",
			  why.message);
	wish_init(&f->now);
	if (STAILQ_EMPTY(&over.waiters))
		STAILQ_INIT(&over.waiters);
	wish_answer(&over, rc, rc ? &why : NULL, detail);
	json_decref(detail);
	if (rc && told->at_store && rc != ERR_CANCELLED && rc != ERR_TOO_LARGE)
		filespace_give_up(a, &why);
	filespace_next(a);
}

static void filespace_run(struct agent *a)
{
	struct filespace *f = a->filespace;
	const struct filespace_told none = {0};
	struct err e = {0};

	f->tries++;
	f->tried_ns = clock_boot_ns();
	filespace_set_state(a, FILESPACE_RUNNING);
	if (a->state != AGENT_UP)
		err_set(&e, ERR_LINK_LOST, "there is no link into the sandbox of %.100s", a->name);
	else if (hub_writable(a->hub, &e) == 0 &&
		 !(f->sync = filespace_sync_create(a, f->direction, filespace_on_synced, a)))
		err_set(&e, ERR_NOMEM, "no memory for a sync, or control.db cannot be read");
	if (e.code)
		filespace_on_synced(a, e.code, &e, &none);
	else
		filespace_sync_start(f->sync);
}

/* A sync runs once there is a place for it: now, or when its turn has come. */
static bool has_place(struct agent *a, bool pull)
{
	if (filespace_place_take(hub_filespaces(a->hub), &a->filespace->place, pull, hub_conf(a->hub)))
		return true;
	if (a->filespace->state != FILESPACE_QUEUED)
		filespace_set_state(a, FILESPACE_QUEUED);
	return false;
}

/* One that failed, once more. */
static void filespace_again(struct agent *a)
{
	if (has_place(a, a->filespace->direction == FILESPACE_PULL))
		filespace_run(a);
}

static void filespace_next(struct agent *a)
{
	struct filespace *f = a->filespace;

	if (f->state == FILESPACE_RUNNING || f->state == FILESPACE_WAITING || f->now.on || hub_stopping(a->hub))
		return;
	for (int d = FILESPACE_PULL; d <= FILESPACE_PUSH; d++) {
		struct filespace_wish *w = &f->wished[d];

		if (!w->on)
			continue;
		if (!has_place(a, d == FILESPACE_PULL))
			return;
		f->now = *w;
		if (STAILQ_EMPTY(&w->waiters))
			STAILQ_INIT(&f->now.waiters);
		wish_init(w);
		f->direction = (enum filespace_direction)d;
		f->tries = 0;
		f->began_ns = clock_boot_ns();
		filespace_run(a);
		return;
	}
}

static int wish_for(struct agent *a, enum filespace_direction d, json_t *cause, filespace_done *done, void *arg)
{
	struct filespace *f = filespace_get(a);
	struct filespace_wish *w = f ? &f->wished[d] : NULL;
	json_t *one;
	size_t i;

	if (!f || (done && wish_wait(w, done, arg))) {
		json_decref(cause);
		return ERR_NOMEM;
	}
	w->on = true;
	if (!w->causes)
		w->causes = json_array();
	json_array_foreach(cause, i, one) wish_cause(w, one);
	if (json_is_object(cause))
		wish_cause(w, cause);
	json_decref(cause);
	return 0;
}

void filespace_want(struct hub *h, const char *agent, enum filespace_direction d, json_t *cause, filespace_done *done,
		    void *arg)
{
	struct agent *a = agent_find(h, agent);
	struct err e = {0};

	if (!filespace_applies(h, agent))
		err_set(&e, ERR_UNSUPPORTED,
			hub_files(h) ? "%.100s has no filespace: it is a pod of others, a fork, or of the pool"
				     : "there is no file store (filespace.url), and %.100s has no filespace",
			agent);
	else if (!a || a->state != AGENT_UP)
		err_set(&e, ERR_BAD_STATE, "the sandbox of %.100s is not awake", agent);
	else if (!link_has_filespace(a->link))
		err_set(&e, ERR_UNSUPPORTED,
			"nothing in the sandbox of %.100s can be asked for its files: its muxlet is from before an "
			"upgrade, or plain",
			agent);
	else if (wish_for(a, d, cause, done, arg))
		err_set(&e, ERR_NOMEM, "no memory for a sync");
	else
		filespace_next(a);
	if (!e.code)
		return;
	if (e.code != ERR_NOMEM)
		json_decref(cause);
	if (done)
		done(arg, e.code, &e, NULL);
}

/* ---- ahead of all that would begin in a new sandbox */

static void filespace_on_pulled(void *arg, int rc, const struct err *e, const json_t *detail)
{
	struct agent *a = arg;
	bool at_store = !detail || strcmp(json_get_text(detail, "failed_at"), "store") == 0;

	/*
	 * What the workspace itself is the cause of would keep everybody out who could repair it. With a link that is
	 * lost nothing begins; the next one pulls.
	 */
	if (rc != ERR_CANCELLED && rc != ERR_LINK_LOST)
		agent_ahead_over(a, at_store && rc != ERR_TOO_LARGE ? rc : 0, e);
}

static bool was_pulled(struct agent *a)
{
	struct filespace_state row;
	char sandbox[ID_STR_LEN];

	id_format(&a->linked, sandbox);
	return filespace_rows_state(hub_store(a->hub), a->name, &row, NULL) == 0 && strcmp(row.sandbox, sandbox) == 0;
}

/* A sync that is about the sandbox before this one is over: what it has copied counts, the rest is not its own. True:
 * it was a push. */
static bool end_of_another(struct agent *a)
{
	struct filespace *f = a->filespace;
	struct filespace_told told;
	struct filespace_sync *s = f ? f->sync : NULL;
	char sandbox[ID_STR_LEN];
	bool push;
	struct err e = {0};

	id_format(&a->linked, sandbox);
	if (!s || filespace_sync_is_of(s, sandbox))
		return false;
	push = f->direction == FILESPACE_PUSH;
	f->tries = TRIES; /* who waits for it asked about a sandbox that is gone */
	filespace_sync_cancel(s, &told);
	err_set(&e, ERR_LINK_LOST, "the sandbox of %.100s is another one by now", a->name);
	filespace_on_synced(a, e.code, &e, &told);
	filespace_told_finish(&told);
	return push;
}

/* One waiter for the pull of this sandbox, however often it is asked for. */
static int ahead_joins(struct agent *a, struct filespace_wish *w)
{
	struct filespace_waiter *k;

	STAILQ_FOREACH(k, &w->waiters, entry)
	if (k->done == filespace_on_pulled)
		return 0;
	return wish_wait(w, filespace_on_pulled, a);
}

static bool filespace_ahead(struct agent *a)
{
	struct filespace *f = a->filespace;
	struct filespace_wish *w = NULL;

	if (!filespace_applies(a->hub, a->name) || !link_has_filespace(a->link) || was_pulled(a))
		return false;
	if (end_of_another(a)) /* its files may be in the workspace that goes on */
		(void)wish_for(a, FILESPACE_PUSH, NULL, NULL, NULL);
	if (f && f->now.on && f->direction == FILESPACE_PULL)
		w = &f->now;
	else if (f && f->wished[FILESPACE_PULL].on)
		w = &f->wished[FILESPACE_PULL];
	if (w && ahead_joins(a, w) == 0)
		return true;
	filespace_want(a->hub, a->name, FILESPACE_PULL, json_pack("{s:s}", "kind", "start"), filespace_on_pulled, a);
	return true;
}

static void filespace_halt(struct agent *a)
{
	struct filespace *f = a->filespace;
	struct filespace_told told;
	struct err e = {0};

	if (!f || !f->sync)
		return;
	filespace_sync_cancel(f->sync, &told);
	f->sync = NULL;
	err_set(&e, ERR_CANCELLED, "the daemon is stopping");
	filespace_tell_deeds(a, &e, &told);
	filespace_told_finish(&told);
}

static void filespace_gone(struct agent *a)
{
	struct filespace *f = a->filespace;

	json_decref(a->sync_causes);
	a->sync_causes = NULL;
	if (!f)
		return;
	filespace_halt(a);
	filespace_place_leave(hub_filespaces(a->hub), &f->place);
	for (int d = 0; d < 2; d++) {
		wish_answer(&f->wished[d], ERR_CANCELLED, NULL, NULL);
		json_decref(f->last[d]);
	}
	wish_answer(&f->now, ERR_CANCELLED, NULL, NULL);
	free(f);
	a->filespace = NULL;
}

static const struct agent_ahead ahead = {.up = filespace_ahead, .gone = filespace_gone};

/* ---- looked after */

static uint64_t sync_timeout(const struct agent *a)
{
	uint64_t all = SYNC_TIMEOUTS * hub_conf(a->hub)->filespace_timeout_ns;

	return all > SYNC_LEAST_NS ? all : SYNC_LEAST_NS;
}

/* A workspace that answers nothing keeps others from theirs no longer than that. */
static bool stands_in_the_way(const struct agent *a, uint64_t now)
{
	uint64_t since = filespace_sync_still_ns(a->filespace->sync);

	return filespace_places_wanted(hub_filespaces(a->hub)) && now > since && now - since > SYNC_STILL_NS;
}

void filespace_tick(struct agent *a, uint64_t now)
{
	struct filespace *f = a->filespace;

	if (f && f->state == FILESPACE_WAITING && now >= f->retry_ns)
		filespace_again(a);
	else if (f && f->state == FILESPACE_QUEUED)
		f->now.on ? filespace_again(a) : filespace_next(a);
	else if (f && f->sync && now > f->tried_ns + sync_timeout(a))
		(void)filespace_sync_expire(f->sync, "took longer than ten times filespace.timeout");
	else if (f && f->sync && stands_in_the_way(a, now))
		(void)filespace_sync_expire(f->sync, "stood still in its workspace for a minute while others waited");
	workspace_ask_tick(a, now);
	if (a->sync_causes && a->state == AGENT_COLD)
		json_decref(filespace_causes_take(a)); /* its stop has pushed, or nobody can */
	if (!a->sync_causes || a->stopping || a->pulling || a->state != AGENT_UP)
		return;
	if (filespace_applies(a->hub, a->name) && link_has_filespace(a->link))
		filespace_want(a->hub, a->name, FILESPACE_PUSH, filespace_causes_take(a), NULL, NULL);
	else
		json_decref(filespace_causes_take(a));
}

bool filespace_rests(const struct agent *a)
{
	return !a->sync_causes &&
	       (!a->filespace || a->filespace->state == FILESPACE_IDLE || a->filespace->state == FILESPACE_FAILED);
}

int filespace_unpulled(struct hub *h, const char *agent, struct err *e)
{
	const struct agent *a = agent_find(h, agent);
	const json_t *last = a && a->filespace ? a->filespace->last[FILESPACE_PULL] : NULL;

	if (!last || strcmp(json_get_text(last, "outcome"), "ok") == 0)
		return 0;
	return err_set(e, ERR_FILESPACE, "its last pull failed: %.300s", json_get_text(last, "message"));
}

json_t *filespace_show(struct hub *h, const char *agent)
{
	struct agent *a = agent_find(h, agent);
	const struct filespace *f = a ? a->filespace : NULL;
	struct filespace_state row = {0};
	bool applies = filespace_applies(h, agent);
	char at[40] = "";
	json_t *o;

	if (applies && filespace_rows_state(hub_store(h), agent, &row, NULL) == 0 && row.synced_wall_ns)
		clock_format_utc(row.synced_wall_ns, at, sizeof(at));
	o = json_pack("{s:s,s:b,s:s,s:s*}", "agent", agent, "synced", applies, "state",
		      f ? state_names[f->state] : state_names[FILESPACE_IDLE], "agreed_at", at[0] ? at : NULL);
	if (o && f && f->sync)
		json_object_set_new(o, "step", json_string(filespace_sync_state(f->sync)));
	if (o && f && f->last[FILESPACE_PULL])
		json_object_set(o, "pull", f->last[FILESPACE_PULL]);
	if (o && f && f->last[FILESPACE_PUSH])
		json_object_set(o, "push", f->last[FILESPACE_PUSH]);
	return o;
}

int filespaces_create(struct hub *h, struct filespace_places **out)
{
	struct filespace_places *all = calloc(1, sizeof(*all));

	if (!all)
		return ERR_NOMEM;
	filespace_places_init(all);
	hub_agents(h)->ahead = &ahead;
	*out = all;
	return 0;
}

void filespaces_destroy(struct filespace_places *all)
{
	free(all);
}

void filespaces_stop(struct hub *h)
{
	struct agent *a, *next;

	HASH_ITER(hh, hub_agents(h)->by_name, a, next)
	filespace_halt(a);
}

void filespaces_leave(struct hub *h)
{
	struct agent *a, *next;

	HASH_ITER(hh, hub_agents(h)->by_name, a, next)
	filespace_gone(a);
}
