/* Sandboxes of the pool: what is known of each, and the end of it, which is wiped before its row goes. */
#define LOG_SUBSYS "pool"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/work/state.h"

#include <stdlib.h>
#include <string.h>

#define BACKOFF_MIN NS_PER_SEC
#define BACKOFF_MAX (60 * NS_PER_SEC)

static const char *const state_names[] = {"filling", "ready", "claimed", "leased", "discarding"};

uint64_t pool_back_off(uint64_t ns)
{
	return backoff_after(ns, BACKOFF_MIN, BACKOFF_MAX);
}

void work_log_ids(const struct work_ids *i, struct log_ids *out)
{
	if (!i || !i->lease[0])
		return;
	out->lease = i->lease;
	out->run = i->run;
	out->client_request = i->request;
}

const struct work_ids *work_ids_of(const struct work *w, const char *agent)
{
	const struct pool_entry *p = w && work_is_pool_name(agent) ? pool_find(w, agent) : NULL;

	return p && p->ids.lease[0] ? &p->ids : NULL;
}

static struct log_ids ids_of(const struct pool_entry *p)
{
	struct log_ids ids = {.agent = p->name};

	work_log_ids(&p->ids, &ids);
	return ids;
}

void pool_set_state(struct pool_entry *p, enum pool_state s)
{
	struct log_ids ids = ids_of(p);

	log_debug(&ids, "%s -> %s", state_names[p->state], state_names[s]);
	p->state = s;
}

struct pool_entry *pool_add(struct work *w, const char *name, enum pool_state s)
{
	struct pool_entry *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->w = w;
	p->state = s;
	text_put(p->name, sizeof(p->name), name);
	HASH_ADD_STR(w->pool, name, p);
	return p;
}

void pool_forget(struct work *w)
{
	struct pool_entry *p, *next;

	HASH_ITER(hh, w->pool, p, next)
	{
		HASH_DEL(w->pool, p);
		free(p);
	}
}

void pool_forget_gone(struct work *w)
{
	struct pool_entry *p, *next;

	HASH_ITER(hh, w->pool, p, next)
	if (p->gone) {
		HASH_DEL(w->pool, p);
		free(p);
	}
}

struct pool_entry *pool_find(const struct work *w, const char *name)
{
	struct pool_entry *p = NULL;

	HASH_FIND_STR(w->pool, name, p);
	return p;
}

bool work_is_pool_name(const char *agent)
{
	struct id id;

	return strncmp(agent, WORK_POOL_PREFIX, sizeof(WORK_POOL_PREFIX) - 1) == 0 &&
	       id_parse(agent + sizeof(WORK_POOL_PREFIX) - 1, &id) == 0;
}

unsigned pool_count(const struct work *w, enum pool_state s)
{
	struct pool_entry *p, *next;
	unsigned n = 0;

	HASH_ITER(hh, w->pool, p, next)
	n += p->state == s;
	return n;
}

unsigned pool_waiting(const struct work *w)
{
	const struct wish *each;
	unsigned n = 0;

	TAILQ_FOREACH(each, &w->wishes, entry)
	n++;
	return n;
}

json_t *pool_json(struct work *w)
{
	json_t *list = json_array();
	struct pool_entry *p, *next;

	HASH_ITER(hh, w->pool, p, next)
	json_array_append_new(list, json_pack("{s:s,s:s,s:s?}", "sandboxId", p->name, "state", state_names[p->state],
					      "leaseId", p->ids.lease[0] ? p->ids.lease : NULL));
	return json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:o}", "size", (int)w->conf.pool_size, "max",
			 (int)w->conf.pool_max, "target", (int)w->n.pool_target, "ready",
			 (int)pool_count(w, POOL_READY), "filling", (int)pool_count(w, POOL_FILLING), "leased",
			 (int)(pool_count(w, POOL_LEASED) + pool_count(w, POOL_CLAIMED)), "discarding",
			 (int)pool_count(w, POOL_DISCARDING), "waiting", (int)pool_waiting(w), "sandboxes", list);
}

/* ---- the end of one: wiped, then its row goes */

struct pool_job *pool_job_create(struct pool_entry *p)
{
	struct pool_job *k = job_create(p->w, sizeof(*k), NULL, NULL);

	if (!k)
		return NULL;
	memcpy(k->name, p->name, sizeof(k->name));
	memcpy(k->why, p->why, sizeof(k->why));
	return k;
}

static void try_later(struct pool_entry *p)
{
	p->backoff_ns = pool_back_off(p->backoff_ns);
	p->retry_at = clock_boot_ns() + p->backoff_ns;
}

static int remove_in_db(struct sqlite3 *db, struct job *j, struct err *e)
{
	return db_pool_remove(db, ((struct pool_job *)j)->name, e);
}

static void pool_on_removed(struct job *j, int rc, const struct err *e)
{
	struct pool_entry *p = pool_find(j->w, ((struct pool_job *)j)->name);

	(void)e;
	if (!p)
		return;
	if (rc) {
		p->out = false;
		try_later(p);
		return;
	}
	if (j->w->listing) { /* which may still have it */
		p->gone = true;
		return;
	}
	HASH_DEL(j->w->pool, p);
	free(p);
}

static void pool_on_discarded(void *arg, int rc, const struct err *e)
{
	struct pool_entry *p = arg;
	struct log_ids ids = ids_of(p);
	struct pool_job *k;

	if (p->w->stopped)
		return;
	audit(p->w, "pool.discard", p->name, rc ? err_name(rc) : "ok",
	      json_pack("{s:s,s:s}", "why", p->why, "message", e ? e->message : ""));
	if (!rc && (k = pool_job_create(p))) {
		log_info(&ids, "wiped: %s", p->why);
		job_write(&k->j, remove_in_db, pool_on_removed);
		return;
	}
	log_warn(&ids, "it could not be wiped, and is tried again: %s", e ? e->message : err_name(rc));
	p->out = false;
	try_later(p);
}

/* Who tries again hands in the cause that is there. */
static void keep_why(struct pool_entry *p, const char *why)
{
	if (why != p->why)
		text_put(p->why, sizeof(p->why), why);
}

static void pool_end(struct pool_entry *p)
{
	p->w->host.discard(p->w->host.ctx, p->name, p->why, pool_on_discarded, p);
}

/* ---- its log stays with its run */

struct log_job {
	struct job j;
	char name[WORK_SANDBOX_MAX], lease[ID_STR_LEN];
	char *text;
};

static int log_in_db(struct sqlite3 *db, struct job *j, struct err *e)
{
	struct log_job *k = (struct log_job *)j;

	return db_run_log(db, k->lease, k->text, e);
}

static void drop_log(struct job *j)
{
	free(((struct log_job *)j)->text);
}

static void pool_on_log_stored(struct job *j, int rc, const struct err *e)
{
	struct pool_entry *p = pool_find(j->w, ((struct log_job *)j)->name);

	if (!p)
		return;
	if (rc) {
		struct log_ids ids = ids_of(p);

		log_warn(&ids, "the log of its sandbox is not kept: %s", e ? e->message : err_name(rc));
	}
	pool_end(p);
}

static char *log_text(int rc, const struct err *e, const uint8_t *data, size_t n)
{
	json_t *o = json_pack("{s:I}", "bytes", (json_int_t)(rc ? 0 : n));
	char *text = NULL;

	if (o && json_set_bytes(o, "data", "encoding", rc || !n ? (const uint8_t *)"" : data, rc ? 0 : n) == 0) {
		if (rc)
			json_object_set_new(o, "missing", json_string(e && e->message[0] ? e->message : err_name(rc)));
		text = json_dumps(o, JSON_COMPACT);
	}
	json_decref(o);
	return text;
}

/* Whatever came of it: the sandbox goes. */
static void pool_on_log(void *arg, int rc, const struct err *e, const uint8_t *data, size_t n)
{
	struct pool_entry *p = arg;
	struct log_job *k;

	if (p->w->stopped)
		return;
	p->logged = true;
	k = job_create(p->w, sizeof(*k), NULL, NULL);
	if (!k) {
		pool_end(p);
		return;
	}
	k->j.drop = drop_log;
	memcpy(k->name, p->name, sizeof(k->name));
	memcpy(k->lease, p->ids.lease, sizeof(k->lease));
	k->text = log_text(rc, e, data, n);
	job_write(&k->j, log_in_db, pool_on_log_stored);
}

static void pool_wipe(struct pool_entry *p)
{
	p->out = true;
	p->retry_at = 0;
	if (p->ids.run[0] && !p->logged)
		p->w->host.log(p->w->host.ctx, p->name, pool_on_log, p);
	else
		pool_end(p);
}

void pool_discard(struct pool_entry *p, const char *why)
{
	keep_why(p, why);
	if (p->state != POOL_DISCARDING)
		pool_set_state(p, POOL_DISCARDING);
	if (!p->out)
		pool_wipe(p);
}

static int discard_in_db(struct sqlite3 *db, struct job *j, struct err *e)
{
	struct pool_job *k = (struct pool_job *)j;

	return db_pool_discard(db, k->name, k->why, e);
}

static void pool_on_discard_stored(struct job *j, int rc, const struct err *e)
{
	struct pool_entry *p = pool_find(j->w, ((struct pool_job *)j)->name);

	(void)e;
	if (!p)
		return;
	p->out = false;
	if (rc) /* the row keeps its state: the next start puts it in order, if not the next try */
		try_later(p);
	else
		pool_wipe(p);
}

void pool_give_up(struct pool_entry *p, const char *why)
{
	struct pool_job *k;

	if (p->state == POOL_DISCARDING)
		return;
	keep_why(p, why);
	pool_set_state(p, POOL_DISCARDING);
	if (p->out) /* the host's answer leads on */
		return;
	if (!(k = pool_job_create(p))) {
		try_later(p);
		return;
	}
	p->out = true;
	job_write(&k->j, discard_in_db, pool_on_discard_stored);
}
