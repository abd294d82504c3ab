/* Leases that live: in memory, kept by heartbeats, ended by release, by time, with their run or their sandbox. */
#define LOG_SUBSYS "lease"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "control/store/store.h"
#include "control/work/state.h"

#include <stdlib.h>
#include <string.h>

#define END_FIRST (NS_PER_SEC / 2)
#define END_MOST  (10 * NS_PER_SEC)
#define END_TOLD  (60 * NS_PER_SEC)

struct lease *lease_find(const struct work *w, const char *id)
{
	struct lease *l = NULL;

	HASH_FIND_STR(w->leases, id, l);
	return l;
}

const struct work_ids *work_ids_of_lease(const struct work *w, const char *lease)
{
	const struct lease *l = w ? lease_find(w, lease) : NULL;

	return l ? work_ids_of(w, l->row.sandbox) : NULL;
}

struct log_ids lease_ids(const struct lease_row *l)
{
	return (struct log_ids){
	    .request = l->call, .agent = l->sandbox, .lease = l->id, .run = l->run, .client_request = l->request};
}

/* Into memory, with the time that is left of it on the boot clock. */
int lease_add(struct work *w, const struct lease_row *row)
{
	struct lease *l = calloc(1, sizeof(*l));
	int64_t left = row->expires_ns - now_wall(w);
	struct pool_entry *p = pool_find(w, row->sandbox);

	if (!l)
		return ERR_NOMEM;
	l->row = *row;
	l->deadline = clock_boot_ns() + (uint64_t)(left > 0 ? left : 0);
	HASH_ADD(hh, w->leases, row.id[0], strlen(l->row.id), l);
	if (p) {
		text_put(p->ids.lease, sizeof(p->ids.lease), row->id);
		text_put(p->ids.run, sizeof(p->ids.run), row->run);
		text_put(p->ids.request, sizeof(p->ids.request), row->request);
		text_put(p->principal, sizeof(p->principal), row->principal);
	}
	return 0;
}

void leases_forget(struct work *w)
{
	struct lease *l, *next;

	HASH_ITER(hh, w->leases, l, next)
	{
		HASH_DEL(w->leases, l);
		free(l);
	}
}

/* ---- heartbeat */

struct beat {
	struct job j;
	char id[ID_STR_LEN];
	int64_t expires_ns;
	bool counted; /* its lease knows of it */
};

static int beat_in_db(struct sqlite3 *db, struct job *j, struct err *e)
{
	struct beat *b = (struct beat *)j;

	return db_lease_extend(db, b->id, b->expires_ns, e);
}

static void lease_on_beaten(struct job *j, int rc, const struct err *e)
{
	struct beat *b = (struct beat *)j;
	struct lease *l = lease_find(j->w, b->id);
	struct err here = {0};

	if (l && b->counted)
		l->beats--;
	if (!rc && !l)
		rc = err_set(&here, ERR_BAD_STATE, "the lease has ended"), e = &here;
	if (!rc) {
		uint64_t left = (uint64_t)l->row.ttl_s * NS_PER_SEC, until = clock_boot_ns() + left;

		if (b->expires_ns > l->row.expires_ns)
			l->row.expires_ns = b->expires_ns;
		l->deadline = until > l->deadline ? until : l->deadline;
	}
	job_answer(j, rc, e, rc ? NULL : lease_row_json(&l->row));
}

/* The one that is meant, from memory or the store, when the caller may touch it. */
struct get {
	const char *id;
	struct lease_row *row;
	bool found;
};

static int get_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	struct get *g = arg;

	return db_lease_get(db, g->id, g->row, &g->found, e);
}

static int find_row(struct work *w, const struct work_caller *c, const char *id, struct lease_row *out, struct err *e)
{
	char text[ID_STR_LEN];
	struct get g = {.id = text, .row = out};
	struct id parsed;
	int rc;

	if (id_parse(id, &parsed))
		return err_set(e, ERR_INVAL, "\"%.64s\" is not the id of a lease", id);
	id_format(&parsed, text);
	rc = store_read(w->store, get_in_db, &g, e);
	if (!rc && !g.found)
		rc = err_set(e, ERR_NOT_FOUND, "there is no lease %s", text);
	return rc ? rc : may_touch(c, out->principal, "lease", text, e);
}

static int must_live(const struct lease_row *l, struct err *e)
{
	char when[40];

	if (strcmp(l->state, "ACTIVE") == 0)
		return 0;
	clock_format_utc(l->ended_ns, when, sizeof(when));
	return err_set(e, ERR_BAD_STATE, "the lease is %s since %s (%.100s): it has to be ACTIVE", l->state, when,
		       l->cause);
}

void lease_heartbeat(struct work *w, const struct work_caller *c, const char *id, work_done *done, void *arg)
{
	struct lease_row row;
	struct err e = {0};
	struct lease *l;
	struct beat *b;
	int rc = find_row(w, c, id, &row, &e);

	if (!rc)
		rc = must_live(&row, &e);
	if (rc) {
		answer(done, arg, rc, &e, NULL);
		return;
	}
	if (!(b = job_create(w, sizeof(*b), done, arg)))
		return;
	memcpy(b->id, row.id, sizeof(b->id));
	b->expires_ns = now_wall(w) + row.ttl_s * (int64_t)NS_PER_SEC;
	if ((l = lease_find(w, b->id)))
		l->beats++, b->counted = true;
	job_write(&b->j, beat_in_db, lease_on_beaten);
}

/* ---- the end: by release, by time, with its run, with its sandbox */

struct ending {
	struct job j;
	struct lease_row row; /* as it is after the transaction */
	bool ended;           /* by this one */
	bool released;        /* asked for by a call */
	char state[12], cause[200], run_state[12], run_reason[12], run_message[200];
	char *steps, *artifacts;
};

static int end_in_db(struct sqlite3 *db, struct job *j, struct err *e)
{
	struct ending *x = (struct ending *)j;
	struct db_end end = {.lease = x->row.id,
			     .state = x->state,
			     .cause = x->cause,
			     .run_state = x->run_state,
			     .run_reason = x->run_reason[0] ? x->run_reason : NULL,
			     .run_message = x->run_message[0] ? x->run_message : NULL,
			     .steps = x->steps,
			     .artifacts = x->artifacts,
			     .now_ns = j->now_ns};
	char id[ID_STR_LEN];
	bool found = false;
	int rc;

	memcpy(id, x->row.id, sizeof(id));
	rc = db_lease_get(db, id, &x->row, &found, e);
	if (rc || !found)
		return rc ? rc : err_set(e, ERR_NOT_FOUND, "there is no lease %s", id);
	if (strcmp(x->row.state, "ACTIVE") != 0)
		return 0;
	end.lease = id;
	rc = db_lease_end(db, &end, e);
	x->ended = !rc;
	return rc ? rc : db_lease_get(db, id, &x->row, &found, e);
}

/* Memory follows: the run is over, the sandbox is wiped. */
static void apply_end(struct work *w, struct ending *x)
{
	struct lease *l = lease_find(w, x->row.id);
	struct pool_entry *p = pool_find(w, x->row.sandbox);
	struct log_ids ids = lease_ids(&x->row);

	log_info(&ids, "%s: %s", x->row.state, x->row.cause);
	w->n.leases_expired += strcmp(x->row.state, "EXPIRED") == 0;
	w->n.leases_released += strcmp(x->row.state, "RELEASED") == 0;
	if (l) {
		if (l->run)
			run_over(l->run, x->run_state, x->run_reason);
		HASH_DEL(w->leases, l);
		free(l);
	}
	if (p)
		pool_discard(p, x->row.cause);
}

/* The next tick behind its wait, or its caller, tries again. One line of the log for a reason, and one a minute. */
static void end_failed(struct work *w, struct lease *l, int rc, const struct err *e)
{
	struct log_ids ids = lease_ids(&l->row);
	uint64_t now = clock_boot_ns();

	l->ending = false;
	l->retry_at = now + backoff(++l->failures, END_FIRST, END_MOST);
	w->unstored.count++;
	if (rc == w->unstored.code && now < w->unstored.told_at + END_TOLD)
		return;
	log_error(&ids, "the end of a lease could not be stored, and is tried again (%u tries that failed, of all): %s",
		  w->unstored.count, e ? e->message : err_name(rc));
	w->unstored.code = rc;
	w->unstored.count = 0;
	w->unstored.told_at = now;
}

static void lease_on_ended(struct job *j, int rc, const struct err *e)
{
	struct ending *x = (struct ending *)j;
	struct lease *l = lease_find(j->w, x->row.id);
	struct err here = {0};

	if (!rc && x->ended) {
		j->w->unstored.code = 0;
		apply_end(j->w, x);
	} else if (rc && l) {
		end_failed(j->w, l, rc, e);
	}
	if (!rc && !x->ended && strcmp(x->row.state, "EXPIRED") == 0)
		rc = must_live(&x->row, &here), e = &here;
	job_answer(j, rc, e, rc ? NULL : lease_row_json(&x->row));
}

static void drop_ending(struct job *j)
{
	free(((struct ending *)j)->steps);
	free(((struct ending *)j)->artifacts);
}

static void fill_run(struct ending *x, const char *state, const char *reason, const char *message, const struct run *r)
{
	text_put(x->run_state, sizeof(x->run_state), state);
	text_put(x->run_reason, sizeof(x->run_reason), reason);
	text_put(x->run_message, sizeof(x->run_message), message);
	x->steps = r ? json_dumps(r->results, JSON_COMPACT) : NULL;
	x->artifacts = r ? json_dumps(r->artifacts, JSON_COMPACT) : NULL;
}

static void begin_end(struct work *w, const char *id, const struct lease_end *by, bool released, work_done *done,
		      void *arg)
{
	struct ending *x = job_create(w, sizeof(*x), done, arg);
	struct lease *l = lease_find(w, id);

	if (!x)
		return;
	if (l)
		l->ending = true;
	x->j.drop = drop_ending;
	x->released = released;
	text_put(x->row.id, sizeof(x->row.id), id);
	text_put(x->state, sizeof(x->state), by->state);
	text_put(x->cause, sizeof(x->cause), by->cause);
	if (l && l->run && l->run->ending) /* what came of it is known, and could not be stored so far */
		fill_run(x, l->run->row.state, l->run->row.reason, l->run->row.message, l->run);
	else
		fill_run(x, by->run_state, by->run_reason, by->run_message, NULL);
	job_write(&x->j, end_in_db, lease_on_ended);
}

void lease_end(struct work *w, struct lease *l, const struct lease_end *x)
{
	begin_end(w, l->row.id, x, false, NULL, NULL);
}

void lease_release(struct work *w, const struct work_caller *c, const char *id, work_done *done, void *arg)
{
	static const struct lease_end by = {.state = "RELEASED",
					    .cause = "released",
					    .run_state = "FAILED",
					    .run_reason = "released",
					    .run_message = "its lease was released"};
	struct lease_row row;
	struct err e = {0};
	int rc = find_row(w, c, id, &row, &e);

	if (!rc && strcmp(row.state, "EXPIRED") == 0)
		rc = must_live(&row, &e);
	if (rc)
		answer(done, arg, rc, &e, NULL);
	else
		begin_end(w, row.id, &by, true, done, arg);
}

void work_sandbox_gone(struct work *w, const char *agent, const char *why)
{
	char cause[200];
	struct lease_end end = {
	    .state = "RELEASED", .cause = cause, .run_state = "FAILED", .run_reason = "lost", .run_message = cause};
	struct pool_entry *p = w && w->ready && !w->stopped ? pool_find(w, agent) : NULL;
	struct lease *l;

	if (!p)
		return;
	text_format(cause, sizeof(cause), "lost: its sandbox ended: %.160s", why);
	if (p->state == POOL_READY)
		pool_give_up(p, cause);
	else if (p->state == POOL_LEASED && (l = lease_find(w, p->ids.lease)) && !l->ending)
		lease_end(w, l, &end);
}

void lease_tick(struct work *w, uint64_t now)
{
	static const struct lease_end by = {.state = "EXPIRED",
					    .cause = "its time was over",
					    .run_state = "FAILED",
					    .run_reason = "expired",
					    .run_message = "its lease expired"};
	struct lease *l, *next;

	HASH_ITER(hh, w->leases, l, next)
	if (!l->ending && !l->beats && now >= l->deadline && now >= l->retry_at)
		lease_end(w, l, &by);
}

/* ---- looking */

int lease_show(struct work *w, const struct work_caller *c, const char *id, json_t **out, struct err *e)
{
	struct lease_row row;
	int rc = find_row(w, c, id, &row, e);

	if (rc)
		return rc;
	*out = lease_row_json(&row);
	return *out ? 0 : err_set(e, ERR_NOMEM, "no memory");
}

static int lease_list_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	struct listing *k = arg;

	if (k->by && strcmp(k->by, "ACTIVE") != 0 && strcmp(k->by, "EXPIRED") != 0 && strcmp(k->by, "RELEASED") != 0)
		return err_set(e, ERR_INVAL, "state is none of ACTIVE, EXPIRED, RELEASED");
	return db_leases_json(db, k->principal, k->by, (size_t)k->limit, k->list, e);
}

int lease_list(struct work *w, const struct work_caller *c, const json_t *body, json_t **out, struct err *e)
{
	return job_list(w, c, body, "state", lease_list_in_db, "leases", out, e);
}
