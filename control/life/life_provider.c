/* The provider that the hub sees: sandboxes that were restored, started and are watched. Pods of others go through. */
#define LOG_SUBSYS "life"
#include "base/clock.h"
#include "base/list.h"
#include "base/text.h"
#include "control/life/life_state.h"
#include "control/store/store.h"

#include <stdlib.h>
#include <string.h>

static struct life *of(struct sandbox_provider *p)
{
	return (struct life *)p; /* its first member */
}

void life_overlay(struct life *l, const struct life_row *r, struct sandbox_info *info)
{
	(void)l;
	if (r->generation && !id_is_nil(&r->snapshot))
		id_format(&r->snapshot, info->snapshot_id);
}

static uint64_t deadline(const struct life *l)
{
	return clock_boot_ns() + l->policy.start_timeout_ns;
}

static void want_stream(struct life *l, const char *agent, enum life_want want, sandbox_done *done, void *arg)
{
	struct life_waiter w = {.want = want,
				.deadline = deadline(l),
				.options = {.idle_ttl_ns = UINT64_MAX, .ttl_ns = UINT64_MAX},
				.implied = true,
				.stream = done,
				.arg = arg};

	life_want(l, agent, &w);
}

/*
 * ---- stat and list: the provider's word, with the row's beside it
 *
 * One question about an agent (or about all) is out at a time. Who asks meanwhile shares the next one, which is put
 * when that is answered: so an answer is never older than its question, and thousands who ask are two questions.
 */

struct asker {
	STAILQ_ENTRY(asker) entry;
	sandbox_done *done;
	void *arg;
};
STAILQ_HEAD(askers, asker);

struct question {
	struct life_call call; /* first */
	LIST_ENTRY(question) entry;
	enum sandbox_op op;
	struct askers now, next; /* who hears the answer of the question that is out; of the one behind it */
};

static void life_provider_on_stat(void *arg, const struct sandbox_answer *a);
static void life_provider_on_list(void *arg, const struct sandbox_answer *a);

static const char *asked_about(const struct question *q)
{
	return q->call.agent[0] ? q->call.agent : NULL;
}

static struct question *question_out(struct life *l, enum sandbox_op op, const char *agent)
{
	struct question *q;

	LIST_FOREACH(q, &l->questions, entry)
	if (q->op == op && strcmp(q->call.agent, agent) == 0)
		return q;
	return NULL;
}

static struct question *question_new(struct life *l, enum sandbox_op op, const char *agent)
{
	struct question *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->op = op;
	q->call.life = l;
	text_put(q->call.agent, sizeof(q->call.agent), agent);
	STAILQ_INIT(&q->now);
	STAILQ_INIT(&q->next);
	LIST_INSERT_HEAD(&l->calls, &q->call, entry);
	LIST_INSERT_HEAD(&l->questions, q, entry);
	return q;
}

static void question_put(struct question *q)
{
	sandbox_ask(q->call.life->inner, &(struct sandbox_ask){.op = q->op, .agent = asked_about(q)},
		    q->op == SANDBOX_STAT ? life_provider_on_stat : life_provider_on_list, q);
}

static void question_answer(struct question *q, const struct sandbox_answer *a)
{
	struct asker *x;

	while ((x = STAILQ_FIRST(&q->now))) {
		STAILQ_REMOVE_HEAD(&q->now, entry);
		x->done(x->arg, a);
		free(x);
	}
}

/* A caller that asks again, as soon as it is answered, shares the next one. */
static void question_answered(struct question *q, const struct sandbox_answer *a)
{
	struct life *l;

	question_answer(q, a);
	l = q->call.life;
	STAILQ_CONCAT(&q->now, &q->next);
	if (l && !l->dying && !STAILQ_EMPTY(&q->now)) {
		question_put(q);
		return;
	}
	if (!STAILQ_EMPTY(&q->now)) {
		struct err e = {0};

		err_set(&e, ERR_CANCELLED, "the daemon is stopping");
		question_answer(q, &(struct sandbox_answer){.rc = e.code, .e = &e, .fd = -1});
	}
	if (l) {
		LIST_REMOVE(&q->call, entry);
		LIST_REMOVE(q, entry);
	}
	free(q);
}

static void ask_shared(struct life *l, enum sandbox_op op, const char *agent, sandbox_done *done, void *arg)
{
	struct question *out = question_out(l, op, agent), *q = out;
	struct asker *x = calloc(1, sizeof(*x));
	struct err e = {0};

	if (!x || (!q && !(q = question_new(l, op, agent)))) {
		free(x);
		err_set(&e, ERR_NOMEM, "no memory");
		sandbox_answer(done, arg, e.code, &e, NULL, -1);
		return;
	}
	x->done = done;
	x->arg = arg;
	STAILQ_INSERT_TAIL(out ? &q->next : &q->now, x, entry);
	if (!out)
		question_put(q);
}

static int read_one(struct sqlite3 *db, void *job, struct err *e)
{
	struct life_row *r = job;
	char agent[AGENT_NAME_MAX + 1];

	memcpy(agent, r->agent, sizeof(agent));
	return row_get(db, agent, r, e);
}

static void one_row(struct life *l, const char *agent, struct life_row *r)
{
	struct life_agent *a = life_known(l, agent);

	if (a) {
		*r = a->row;
		return;
	}
	text_put(r->agent, sizeof(r->agent), agent);
	if (store_read(l->store, read_one, r, NULL))
		memset(r, 0, sizeof(*r));
}

/* A row without a sandbox is one that sleeps. */
static void life_provider_shown(struct life *l, const struct life_row *r, struct sandbox_info *info)
{
	life_overlay(l, r, info);
	if (!r->generation)
		return;
	if (info->state == SANDBOX_ABSENT || (info->state == SANDBOX_STOPPED && r->state == LIFE_ERROR))
		info->state = r->state == LIFE_ERROR ? SANDBOX_ERROR : SANDBOX_STOPPED;
	if (!info->detail[0] && info->state != SANDBOX_RUNNING)
		text_format(info->detail, sizeof(info->detail), "%.120s%s%.120s", r->cause, r->detail[0] ? ": " : "",
			    r->detail);
	if (!info->created_wall_ns)
		info->created_wall_ns = r->created_wall_ns;
}

static void life_provider_on_stat(void *arg, const struct sandbox_answer *a)
{
	struct question *q = arg;
	struct life *l = q->call.life;
	struct sandbox_info copy = {0};
	struct life_row r = {0};
	int rc = a->rc;

	if (l && !l->dying && (!rc || rc == ERR_NOT_FOUND))
		one_row(l, q->call.agent, &r);
	if (!rc && a->info)
		copy = *a->info;
	if (rc == ERR_NOT_FOUND && r.generation)
		rc = 0;
	text_put(copy.agent, sizeof(copy.agent), q->call.agent);
	if (!rc && l)
		life_provider_shown(l, &r, &copy);
	question_answered(q, &(struct sandbox_answer){
				 .rc = rc, .e = rc ? a->e : NULL, .info = rc ? NULL : &copy, .n = !rc, .fd = a->fd});
	explicit_bzero(&copy, sizeof(copy));
}

/* The provider's list in the order of names, as rows come: each row finds its place by going on from the last one's. */
struct merge {
	struct life *l;
	struct sandbox_info *list;
	size_t n, listed, at;
	bool no_memory;
};

static int by_agent(const void *a, const void *b)
{
	return strcmp(((const struct sandbox_info *)a)->agent, ((const struct sandbox_info *)b)->agent);
}

static bool add_row(void *arg, const struct life_row *r)
{
	struct merge *m = arg;
	struct sandbox_info i = {0};

	while (m->at < m->listed && strcmp(m->list[m->at].agent, r->agent) < 0)
		m->at++;
	if (m->at < m->listed && strcmp(m->list[m->at].agent, r->agent) == 0) {
		life_provider_shown(m->l, r, &m->list[m->at]);
		return true;
	}
	memcpy(i.agent, r->agent, sizeof(i.agent));
	life_provider_shown(m->l, r, &i);
	m->no_memory = list_append(&m->list, &m->n, &i, sizeof(i)) != 0;
	return !m->no_memory;
}

static int add_rows(struct sqlite3 *db, void *job, struct err *e)
{
	struct merge *m = job;
	int rc = rows_list(db, &(struct life_filter){.limit = INT64_MAX}, add_row, m, e);

	return rc || !m->no_memory ? rc : err_set(e, ERR_NOMEM, "no memory");
}

static int merge_begin(struct merge *m, const struct sandbox_answer *a)
{
	for (size_t i = 0; i < a->n; i++) {
		if (list_append(&m->list, &m->n, &a->info[i], sizeof(a->info[i]))) {
			free(m->list);
			m->list = NULL;
			return ERR_NOMEM;
		}
	}
	m->listed = m->n;
	if (m->n)
		qsort(m->list, m->n, sizeof(*m->list), by_agent);
	return 0;
}

/* What cannot be merged is said beside what the provider has. */
static int merge_rows(struct merge *m, const struct sandbox_answer *a, struct err *e)
{
	struct err why = {0};
	int rc;

	if (merge_begin(m, a))
		return err_set(e, ERR_NOMEM, "no memory for a list of sandboxes");
	rc = store_read(m->l->store, add_rows, m, &why);
	return rc ? err_set(e, rc, "agents that sleep may be missing: %.300s", why.message) : 0;
}

static void life_provider_on_list(void *arg, const struct sandbox_answer *a)
{
	struct question *q = arg;
	struct merge m = {.l = q->call.life};
	struct sandbox_answer all = *a;
	struct err e = {0};

	if (!a->rc && m.l && !m.l->dying && merge_rows(&m, a, &e) && !all.e)
		all.e = &e;
	if (m.list)
		all.info = m.list, all.n = m.n;
	question_answered(q, &all);
	free(m.list);
}

/* ---- ends */

static void life_provider_end(struct life *l, const struct sandbox_ask *s, enum life_end how, sandbox_done *done,
			      void *arg)
{
	struct life_waiter w = {.want = WANT_END, .deadline = deadline(l), .end = how, .stream = done, .arg = arg};

	if (how == LIFE_END_BY_REASON)
		w.end = life_end_by_reason(&l->policy, s->reason);
	text_format(w.reason, sizeof(w.reason), "%.150s", s->reason);
	life_want(l, s->agent, &w);
}

/* A pod of others has no life here, and neither has what is asked of the backend alone. */
static void life_provider_ask(struct sandbox_provider *p, const struct sandbox_ask *s, sandbox_done *done, void *arg)
{
	struct life *l = of(p);

	if (s->op == SANDBOX_LIST)
		ask_shared(l, s->op, "", done, arg);
	else if (s->op == SANDBOX_RESOLVE || s->op == SANDBOX_LOG || target_is_pod(s->agent))
		sandbox_ask(l->inner, s, done, arg);
	else if (s->op == SANDBOX_ENSURE || s->op == SANDBOX_CONNECT)
		want_stream(l, s->agent, s->op == SANDBOX_ENSURE ? WANT_ENSURE : WANT_CONNECT, done, arg);
	else if (s->op == SANDBOX_STAT)
		ask_shared(l, s->op, s->agent, done, arg);
	else
		life_provider_end(l, s, s->op == SANDBOX_WIPE ? LIFE_END_WIPE : LIFE_END_BY_REASON, done, arg);
}

static void life_provider_destroy(struct sandbox_provider *p)
{
	(void)p; /* life_destroy() does */
}

const struct sandbox_provider_ops life_provider_ops = {.ask = life_provider_ask, .destroy = life_provider_destroy};
