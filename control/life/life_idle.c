/* Agents whose time has come: they are found by an index, the others cost nothing. */
#define LOG_SUBSYS "life"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "control/life/life_state.h"
#include "control/store/store.h"

#include <stdlib.h>
#include <string.h>

/* ---- one agent whose time may have come */

static int put_times(struct sqlite3 *db, void *job, struct err *e)
{
	return row_set_times(db, job, e);
}

static void times_put(void *job, int rc, const struct err *e)
{
	struct life_row *r = job;

	if (rc)
		log_error(&(struct log_ids){.agent = r->agent}, "its timer is not kept: %s", e ? e->message : "");
	free(r);
}

static void keep_times(struct life_agent *a)
{
	struct life_row *r = malloc(sizeof(*r));

	if (!r)
		return;
	*r = a->row;
	store_write(a->life->store, put_times, times_put, r);
}

static void warn(struct life_agent *a, int64_t stops_at, const char *why, const char *then)
{
	int64_t left = (stops_at - life_now(a->life)) / (int64_t)NS_PER_SEC;
	char text[160];

	if (!a->life->host.warn)
		return;
	text_format(text, sizeof(text), "%s: the sandbox is stopped in %lld s%s", why, (long long)(left > 0 ? left : 1),
		    then);
	a->life->host.warn(a->life->host.ctx, a->name, text);
}

static void expire(struct life_agent *a)
{
	struct life_wish w;

	life_wish(&a->life->policy, a->name, a->row.idle_ttl_ns, &w);
	if (w.ttl_delete) {
		life_wipe_run(a, LIFE_CAUSE_TTL);
	} else if (a->row.state == LIFE_RUNNING) {
		life_stop_run(a, LIFE_CAUSE_TTL, STOP_FOR_END);
	} else { /* it was to be deleted, and the configuration has changed since */
		a->row.due_ns = 0;
		keep_times(a);
	}
}

void life_idle_look(struct life_agent *a, struct life_waiter *w)
{
	struct life_activity act;
	struct life_verdict v;
	struct life_wish wish;
	int64_t now = life_now(a->life), last;

	life_answer(a, w, 0, NULL);
	if (!a->row.generation || !a->row.due_ns)
		return;
	if (a->row.expires_ns && now >= a->row.expires_ns) {
		expire(a);
		return;
	}
	if (a->row.state != LIFE_RUNNING)
		return;
	last = life_last_activity(a, &act);
	life_verdict(a, &v);
	if (v.due && a->taking)
		v.due = false, v.look_at = now + (int64_t)NS_PER_SEC; /* one thing after the other */
	if (v.due) {
		life_stop_run(a, LIFE_CAUSE_IDLE, STOP_FOR_IDLE);
		return;
	}
	if (v.warn) {
		a->warned = true;
		v.look_at = v.stops_at;
		warn(a, v.stops_at, "nothing has happened here for a while", "; any key keeps it");
	}
	life_wish(&a->life->policy, a->name, a->row.idle_ttl_ns, &wish);
	if (a->row.expires_ns && wish.idle_warning_ns && now >= a->row.expires_ns - (int64_t)wish.idle_warning_ns)
		warn(a, a->row.expires_ns, "the time of this sandbox is nearly over", "");
	if (act.last_boot_ns)
		a->row.active_ns = last;
	a->row.due_ns = life_earlier(v.look_at, life_expiry_look(&a->row, &wish, now));
	keep_times(a);
}

/* ---- the timer */

struct due {
	struct life *l;
	char name[64][AGENT_NAME_MAX + 1];
	size_t n;
	int64_t now, next;
};

static bool add_due(void *arg, const struct life_row *r)
{
	struct due *d = arg;

	memcpy(d->name[d->n++], r->agent, sizeof(r->agent));
	return d->n < 64;
}

static int find_due(struct sqlite3 *db, void *job, struct err *e)
{
	struct due *d = job;

	int rc = rows_due(db, d->now, add_due, d, e);

	return rc || d->n ? rc : rows_next_due(db, &d->next, e);
}

void life_idle_due(struct life *l)
{
	struct due d = {.l = l, .now = life_now(l)};
	uint64_t changes = store_changes(l->store);

	if ((l->due_looked == changes && d.now < l->due_next) || store_read(l->store, find_due, &d, NULL))
		return;
	l->due_looked = d.n ? 0 : changes;
	l->due_next = d.next;
	for (size_t i = 0; i < d.n; i++) {
		struct life_agent *a = life_agent(l, d.name[i], NULL);

		/* What is being done for it sets its next time; what it asks of the store may not be written yet. */
		if (a && !a->run && a->row.due_ns && a->row.due_ns <= d.now && !life_first(a, WANTS(WANT_IDLE)))
			life_want_nobody(a, WANT_IDLE, NULL, "");
	}
}

/* What runs, by the configuration of now: it may have to be looked at sooner than was thought, or at all. */
static bool reckon(void *arg, const struct life_row *r)
{
	struct life_agent *a = r->state == LIFE_RUNNING ? life_agent(arg, r->agent, NULL) : NULL;
	struct life_verdict v;
	struct life_wish w;
	int64_t look;

	if (!a || a->run || a->row.state != LIFE_RUNNING)
		return true;
	life_wish(&a->life->policy, a->name, a->row.idle_ttl_ns, &w);
	life_verdict(a, &v);
	look = life_earlier(v.look_at, life_expiry_look(&a->row, &w, life_now(a->life)));
	if (look && (!a->row.due_ns || look < a->row.due_ns)) {
		a->row.due_ns = look;
		keep_times(a);
	}
	return true;
}

static int reckon_all(struct sqlite3 *db, void *job, struct err *e)
{
	return rows_awake(db, reckon, job, e);
}

void life_reckon(struct life *l)
{
	(void)store_read(l->store, reckon_all, l, NULL);
}

/* What a restart goes on from: the clock, and what the hub knows of activity. */
struct kept {
	struct life *l;
	struct life_clock clock;
	struct life_row *rows;
	size_t n;
};

static bool add_active(void *arg, const struct life_row *r)
{
	struct kept *k = arg;
	struct life_activity act = {0};
	struct life_row row = *r;
	int64_t at;

	if (r->state != LIFE_RUNNING || !k->l->host.activity)
		return true;
	k->l->host.activity(k->l->host.ctx, r->agent, &act);
	at = act.holding ? k->clock.life_ns : act.last_boot_ns ? life_clock_of_boot(&k->clock, act.last_boot_ns) : 0;
	if (at <= r->active_ns)
		return true;
	row.active_ns = at;
	return list_append(&k->rows, &k->n, &row, sizeof(row)) == 0;
}

static int find_active(struct sqlite3 *db, void *job, struct err *e)
{
	return rows_awake(db, add_active, job, e);
}

static int put_kept(struct sqlite3 *db, void *job, struct err *e)
{
	struct kept *k = job;
	int rc = life_clock_put(db, &k->clock, e);

	for (size_t i = 0; !rc && i < k->n; i++)
		rc = row_set_active(db, &k->rows[i], e);
	return rc;
}

static void kept_done(void *job, int rc, const struct err *e)
{
	struct kept *k = job;

	if (rc)
		log_error(NULL, "what the timers go on from is not kept: %s", e ? e->message : err_name(rc));
	free(k->rows);
	free(k);
}

void life_keep_clock(struct life *l)
{
	struct kept *k = calloc(1, sizeof(*k));

	if (!k)
		return;
	k->l = l;
	k->clock.boot_ns = clock_boot_ns();
	k->clock.life_ns = life_clock_of_boot(&l->clock, k->clock.boot_ns);
	(void)store_read(l->store, find_active, k, NULL);
	store_write(l->store, put_kept, kept_done, k);
}
