/* The provider that the hub sees: sandboxes that were restored, started and are watched. Pods of others go through. */
#define LOG_SUBSYS "life"
#include "base/clock.h"
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

static void ensure(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg)
{
	struct sandbox_provider *inner = of(p)->inner;

	if (target_is_pod(agent))
		inner->ops->ensure(inner, agent, done, arg);
	else
		want_stream(of(p), agent, WANT_ENSURE, done, arg);
}

static void connect_to(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg)
{
	struct sandbox_provider *inner = of(p)->inner;

	if (target_is_pod(agent))
		inner->ops->connect(inner, agent, done, arg);
	else
		want_stream(of(p), agent, WANT_CONNECT, done, arg);
}

/* ---- stat and list: the provider's word, with the row's beside it */

struct question {
	struct life_call call; /* first */
	sandbox_done *done;
	sandbox_list_done *list_done;
	void *arg;
};

static struct question *ask(struct life *l, const char *agent)
{
	struct question *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->call.life = l;
	text_put(q->call.agent, sizeof(q->call.agent), agent);
	LIST_INSERT_HEAD(&l->calls, &q->call, entry);
	return q;
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
static void shown(struct life *l, const struct life_row *r, struct sandbox_info *info)
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

static void on_stat(void *arg, int rc, const struct err *e, const struct sandbox_info *info, int fd)
{
	struct question *q = arg;
	struct life *l = q->call.life;
	struct sandbox_info copy = {0};
	struct life_row r = {0};

	if (l)
		LIST_REMOVE(&q->call, entry);
	if (l && !l->dying && (!rc || rc == ERR_NOT_FOUND))
		one_row(l, q->call.agent, &r);
	if (!rc && info)
		copy = *info;
	if (rc == ERR_NOT_FOUND && r.generation)
		rc = 0;
	text_put(copy.agent, sizeof(copy.agent), q->call.agent);
	if (!rc && l)
		shown(l, &r, &copy);
	q->done(q->arg, rc, rc ? e : NULL, rc ? NULL : &copy, fd);
	explicit_bzero(&copy, sizeof(copy));
	free(q);
}

static void no_memory(sandbox_done *done, void *arg)
{
	struct err e = {0};

	err_set(&e, ERR_NOMEM, "no memory");
	done(arg, e.code, &e, NULL, -1);
}

static void stat_one(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg)
{
	struct sandbox_provider *inner = of(p)->inner;
	struct question *q;

	if (target_is_pod(agent)) {
		inner->ops->stat(inner, agent, done, arg);
		return;
	}
	q = ask(of(p), agent);
	if (!q) {
		no_memory(done, arg);
		return;
	}
	q->done = done;
	q->arg = arg;
	inner->ops->stat(inner, agent, on_stat, q);
}

struct merge {
	struct life *l;
	struct sandbox_info *list;
	size_t n, listed;
};

static bool add_row(void *arg, const struct life_row *r)
{
	struct merge *m = arg;
	struct sandbox_info *list, *i;

	for (size_t k = 0; k < m->listed; k++)
		if (strcmp(m->list[k].agent, r->agent) == 0) {
			shown(m->l, r, &m->list[k]);
			return true;
		}
	list = realloc(m->list, (m->n + 1) * sizeof(*list));
	if (!list)
		return false;
	m->list = list;
	i = &list[m->n++];
	memset(i, 0, sizeof(*i));
	memcpy(i->agent, r->agent, sizeof(i->agent));
	shown(m->l, r, i);
	return true;
}

#define LIST_MOST 2000

static int add_rows(struct sqlite3 *db, void *job, struct err *e)
{
	struct life_filter f = {.limit = LIST_MOST};

	return rows_list(db, &f, add_row, job, e);
}

static void on_list(void *arg, int rc, const struct err *e, const struct sandbox_info *list, size_t n)
{
	struct question *q = arg;
	struct merge m = {.l = q->call.life, .n = rc ? 0 : n, .listed = rc ? 0 : n};

	if (m.l)
		LIST_REMOVE(&q->call, entry);
	m.list = m.n ? malloc(m.n * sizeof(*m.list)) : NULL;
	if (m.list)
		memcpy(m.list, list, m.n * sizeof(*m.list));
	if (!rc && m.l && !m.l->dying && (!m.n || m.list))
		(void)store_read(m.l->store, add_rows, &m, NULL);
	q->list_done(q->arg, rc, e, rc ? NULL : m.list ? m.list : list, rc ? 0 : m.n);
	free(m.list);
	free(q);
}

static void list_all(struct sandbox_provider *p, sandbox_list_done *done, void *arg)
{
	struct sandbox_provider *inner = of(p)->inner;
	struct question *q = ask(of(p), "");
	struct err e = {0};

	if (!q) {
		err_set(&e, ERR_NOMEM, "no memory");
		done(arg, e.code, &e, NULL, 0);
		return;
	}
	q->list_done = done;
	q->arg = arg;
	inner->ops->list(inner, on_list, q);
}

/* ---- ends */

static void end(struct life *l, const char *agent, const char *reason, enum life_end how, sandbox_done *done, void *arg)
{
	struct life_waiter w = {.want = WANT_END, .deadline = deadline(l), .end = how, .stream = done, .arg = arg};

	if (how == LIFE_END_BY_REASON)
		w.end = life_end_by_reason(&l->policy, reason);
	text_format(w.reason, sizeof(w.reason), "%.150s", reason);
	life_want(l, agent, &w);
}

static void end_one(struct sandbox_provider *p, const char *agent, const char *reason, sandbox_done *done, void *arg)
{
	struct sandbox_provider *inner = of(p)->inner;

	if (target_is_pod(agent))
		inner->ops->destroy_sandbox(inner, agent, reason, done, arg);
	else
		end(of(p), agent, reason, LIFE_END_BY_REASON, done, arg);
}

static void wipe(struct sandbox_provider *p, const char *agent, const char *reason, sandbox_done *done, void *arg)
{
	struct sandbox_provider *inner = of(p)->inner;

	if (target_is_pod(agent) && inner->ops->wipe)
		inner->ops->wipe(inner, agent, reason, done, arg);
	else
		end(of(p), agent, reason, LIFE_END_WIPE, done, arg);
}

static void resolve(struct sandbox_provider *p, const char *name, sandbox_name_done *done, void *arg)
{
	struct sandbox_provider *inner = of(p)->inner;

	if (inner->ops->resolve)
		inner->ops->resolve(inner, name, done, arg);
	else
		done(arg, 0, NULL, name);
}

static void log_tail(struct sandbox_provider *p, const char *agent, size_t max, sandbox_log_done *done, void *arg)
{
	struct sandbox_provider *inner = of(p)->inner;
	struct err e = {0};

	if (inner->ops->log) {
		inner->ops->log(inner, agent, max, done, arg);
		return;
	}
	err_set(&e, ERR_UNSUPPORTED, "this backend keeps no logs of sandboxes");
	done(arg, e.code, &e, NULL, 0);
}

static void destroy(struct sandbox_provider *p)
{
	(void)p; /* life_destroy() does */
}

const struct sandbox_provider_ops life_provider_ops = {.ensure = ensure,
						       .connect = connect_to,
						       .stat = stat_one,
						       .destroy_sandbox = end_one,
						       .wipe = wipe,
						       .list = list_all,
						       .resolve = resolve,
						       .log = log_tail,
						       .destroy = destroy};
