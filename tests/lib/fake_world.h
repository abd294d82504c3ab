/*
 * fake_world.h - a FAKE backend of sandboxes, for tests of lifecycle. Nothing runs: a workspace is a number (what was
 * written last), a snapshot is the number it had. The world outlives providers made on it, so that a daemon can die and
 * come again.
 *
 * Calls wait in a queue; world_step() answers the oldest. What a call does is done when it is made (world.late false),
 * or when it is answered (true): so an answer or a whole call can be lost with its daemon.
 */
#ifndef TESTS_FAKE_WORLD_H
#define TESTS_FAKE_WORLD_H

#include "base/err.h"
#include "control/sandbox.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define WORLD_AGENTS 16
#define WORLD_SNAPS  64

struct world_agent {
	char name[AGENT_NAME_MAX + 1];
	bool running, ending, disk, read_only;
	bool lost; /* what held its disk is there without it */
	int content;
	struct id sandbox;
	char image[32], app_id[32];   /* that the one that runs was made with */
	struct resources resources;   /* the same */
	char to_be[64], template[64]; /* its own pod template: of the next one that is made, of the one that runs */
};
struct world_snap {
	struct id id;
	char agent[AGENT_NAME_MAX + 1];
	int content;
	bool there;
};
struct world_call {
	TAILQ_ENTRY(world_call) entry;
	enum sandbox_op op;
	char agent[AGENT_NAME_MAX + 1], from[AGENT_NAME_MAX + 1], image[32], app_id[32];
	struct resources resources;
	struct id snapshot;
	bool read_only, empty, done_already;
	int rc;
	sandbox_done *done;
	void *arg;
};

struct world {
	struct world_agent agents[WORLD_AGENTS];
	struct world_snap snaps[WORLD_SNAPS];
	TAILQ_HEAD(, world_call) queue;
	struct sandbox_provider *provider; /* the one that is on it now */
	bool late, no_disk, no_takes, hold[SANDBOX_OPS];
	int fail[SANDBOX_OPS]; /* the next one of these answers that, once; negative: ERR_* */
	bool fail_always[SANDBOX_OPS];
	unsigned made[SANDBOX_OPS]; /* how often each was asked */
	unsigned violations;        /* two sandboxes for one, a restore under a running one */
	char words[80];
	uint64_t take_ns, restore_ns; /* how long either takes; no time passes, but a limit below it is reached */
	int64_t end_wall_ns;          /* as it was told last, of whatever agent */
	unsigned ends, ends_running;
	unsigned told;  /* how often a template was said, ahead of what makes or restores */
	bool no_pods;   /* of the next provider */
	struct id left; /* a snapshot of which something is left; zero: none */
	unsigned swept, sweeps;
};
struct world_provider {
	struct sandbox_provider base;
	struct world *w;
};

static inline struct world_agent *world_agent(struct world *w, const char *name)
{
	for (int i = 0; i < WORLD_AGENTS; i++)
		if (strcmp(w->agents[i].name, name) == 0)
			return &w->agents[i];
	for (int i = 0; i < WORLD_AGENTS; i++)
		if (!w->agents[i].name[0]) {
			snprintf(w->agents[i].name, sizeof(w->agents[i].name), "%s", name);
			return &w->agents[i];
		}
	abort();
}

static inline struct world_snap *world_snap(struct world *w, const struct id *id)
{
	for (int i = 0; i < WORLD_SNAPS; i++)
		if (id_equal(&w->snaps[i].id, id))
			return &w->snaps[i];
	return NULL;
}

static inline unsigned world_snaps(const struct world *w, const char *agent)
{
	unsigned n = 0;

	for (int i = 0; i < WORLD_SNAPS; i++)
		n += w->snaps[i].there && strcmp(w->snaps[i].agent, agent) == 0;
	return n;
}

static inline void world_end(struct world *w, struct world_agent *a)
{
	a->running = a->ending = false;
	if (w->no_disk)
		a->disk = false, a->content = 0;
}

static inline int world_take(struct world *w, const struct world_call *c)
{
	struct world_agent *a = world_agent(w, c->agent);

	if (w->no_takes)
		return ERR_UNSUPPORTED;
	if (!a->disk && !a->running)
		return ERR_NOT_FOUND;
	if (world_snap(w, &c->snapshot) && world_snap(w, &c->snapshot)->there)
		return 0;
	for (int i = 0; i < WORLD_SNAPS; i++)
		if (!w->snaps[i].there) {
			w->snaps[i] = (struct world_snap){.id = c->snapshot, .content = a->content, .there = true};
			memcpy(w->snaps[i].agent, c->agent, sizeof(c->agent));
			return 0;
		}
	return ERR_LIMIT;
}

static inline int world_do(struct world *w, struct world_call *c)
{
	struct world_agent *a = world_agent(w, c->agent);
	struct world_snap *s;

	if (w->fail[c->op]) {
		int rc = w->fail[c->op];

		if (!w->fail_always[c->op])
			w->fail[c->op] = 0;
		return rc;
	}
	switch (c->op) {
	case SANDBOX_ENSURE:
		if (a->lost && !c->empty)
			return ERR_SANDBOX_CREATE;
		if (!a->running) {
			a->lost = false;
			if (!a->disk)
				a->content = 0;
			a->running = a->disk = true;
			memcpy(a->image, c->image, sizeof(a->image));
			memcpy(a->app_id, c->app_id, sizeof(a->app_id));
			a->resources = c->resources;
			memcpy(a->template, a->to_be, sizeof(a->template));
			a->to_be[0] = '\0';
			(void)id_new(&a->sandbox);
		}
		return 0;
	case SANDBOX_CONNECT:
		return a->running ? 0 : ERR_NOT_FOUND;
	case SANDBOX_DESTROY:
		world_end(w, a);
		return 0;
	case SANDBOX_TAKE:
		return world_take(w, c);
	case SANDBOX_DROP:
		s = world_snap(w, &c->snapshot);
		if (s)
			s->there = false;
		return 0;
	case SANDBOX_RESTORE:
		s = world_snap(w, &c->snapshot);
		w->violations += a->running;
		if (!s || !s->there || strcmp(s->agent, c->from) != 0)
			return ERR_NOT_FOUND;
		a->content = s->content;
		a->disk = true;
		a->read_only = c->read_only;
		return 0;
	case SANDBOX_DROP_WORKSPACE:
	case SANDBOX_WIPE:
		w->violations += c->op == SANDBOX_DROP_WORKSPACE && a->running;
		a->running = a->disk = false;
		a->content = 0;
		return 0;
	default:
		return 0;
	}
}

static inline void world_info(struct world *w, const struct world_agent *a, struct sandbox_info *i)
{
	memset(i, 0, sizeof(*i));
	memcpy(i->agent, a->name, sizeof(i->agent));
	i->state = a->running ? SANDBOX_RUNNING : a->disk ? SANDBOX_STOPPED : SANDBOX_ABSENT;
	i->ending = a->ending;
	i->has_workspace = a->disk && !w->no_disk;
	i->workspace_lost = a->lost;
	if (a->running)
		i->sandbox_id = a->sandbox;
}

static inline void world_answer(struct world *w, struct world_call *c, int rc)
{
	struct world_agent *a = world_agent(w, c->agent[0] ? c->agent : "nobody");
	struct sandbox_snapshot snap = {
	    .id = c->snapshot, .ready = true, .how = "fake", .name = "fake", .digest = "0f0f"};
	struct sandbox_info info, list[WORLD_AGENTS];
	struct err e = {0};
	size_t n = 0;

	if (rc)
		err_set(&e, rc, "%s", w->words[0] ? w->words : err_name(rc));
	world_info(w, a, &info);
	for (int i = 0; c->op == SANDBOX_LIST && i < WORLD_AGENTS; i++)
		if (w->agents[i].running || w->agents[i].disk)
			world_info(w, &w->agents[i], &list[n++]);
	if (c->op == SANDBOX_LIST)
		c->done(c->arg,
			&(struct sandbox_answer){.rc = rc, .e = rc ? &e : NULL, .info = list, .n = n, .fd = -1});
	else if (c->op == SANDBOX_TAKE || c->op == SANDBOX_DROP)
		sandbox_answer_snapshots(c->done, c->arg, rc, &e, &snap, c->op == SANDBOX_TAKE);
	else
		sandbox_answer(c->done, c->arg, rc, &e, &info,
			       !rc && (c->op == SANDBOX_ENSURE || c->op == SANDBOX_CONNECT)
				   ? open("/dev/null", O_RDWR | O_CLOEXEC)
				   : -1);
	free(c);
}

/* Answers the oldest call that is not held. False: there is none. */
static inline bool world_step(struct world *w)
{
	struct world_call *c;
	int rc;

	TAILQ_FOREACH(c, &w->queue, entry)
	if (!w->hold[c->op])
		break;
	if (!c)
		return false;
	TAILQ_REMOVE(&w->queue, c, entry);
	rc = c->done_already ? c->rc : world_do(w, c);
	world_answer(w, c, rc);
	return true;
}

static inline void world_queue(struct world *w, const struct sandbox_ask *q, sandbox_done *done, void *arg)
{
	struct world_call *c = calloc(1, sizeof(*c));

	c->op = q->op;
	c->done = done;
	c->arg = arg;
	c->read_only = q->read_only;
	c->empty = q->empty;
	if (q->snapshot)
		c->snapshot = *q->snapshot;
	snprintf(c->agent, sizeof(c->agent), "%s", q->agent ? q->agent : "");
	snprintf(c->from, sizeof(c->from), "%s", q->from ? q->from : "");
	snprintf(c->image, sizeof(c->image), "%.31s", q->image ? q->image : "");
	snprintf(c->app_id, sizeof(c->app_id), "%.31s", q->app_id ? q->app_id : "");
	c->resources = q->resources;
	w->made[c->op]++;
	if (c->op == SANDBOX_TAKE && w->take_ns > q->timeout_ns)
		w->fail[SANDBOX_TAKE] = ERR_TIMEOUT;
	if (c->op == SANDBOX_RESTORE && w->restore_ns > q->timeout_ns)
		w->fail[SANDBOX_RESTORE] = ERR_TIMEOUT;
	TAILQ_INSERT_TAIL(&w->queue, c, entry);
	if (w->late || w->hold[c->op] || c->op == SANDBOX_LIST)
		return;
	c->rc = world_do(w, c);
	c->done_already = true;
}

/* Answered at once. */
static inline void world_snapshots(struct world *w, const char *agent, sandbox_done *done, void *arg)
{
	struct sandbox_snapshot list[WORLD_SNAPS] = {0};
	size_t n = 0;

	for (int i = 0; i < WORLD_SNAPS; i++)
		if (w->snaps[i].there && (!agent || strcmp(w->snaps[i].agent, agent) == 0))
			list[n++].id = w->snaps[i].id;
	sandbox_answer_snapshots(done, arg, 0, NULL, list, n);
}
static inline void world_sweep(struct world *w, sandbox_may_go *may_go, sandbox_done *done, void *arg)
{
	struct sandbox_snapshot s = {.id = w->left, .name = "left"};

	w->sweeps++;
	if (id_is_nil(&w->left)) {
		sandbox_answer_snapshots(done, arg, 0, NULL, NULL, 0);
		return;
	}
	if (!may_go(arg, &w->left, s.name)) {
		snprintf(s.detail, sizeof(s.detail), "it stays");
	} else if (w->fail[SANDBOX_SWEEP]) {
		s.rc = w->fail[SANDBOX_SWEEP];
		snprintf(s.detail, sizeof(s.detail), "no right to delete it");
		w->fail[SANDBOX_SWEEP] = 0;
	} else {
		w->swept++;
		w->left = (struct id){0};
	}
	sandbox_answer_snapshots(done, arg, 0, NULL, &s, 1);
}
static inline void fw_ask(struct sandbox_provider *p, const struct sandbox_ask *q, sandbox_done *done, void *arg)
{
	struct world *w = ((struct world_provider *)p)->w;

	if (q->op == SANDBOX_SNAPSHOTS)
		world_snapshots(w, q->agent, done, arg);
	else if (q->op == SANDBOX_SWEEP)
		world_sweep(w, q->may_go, done, arg);
	else
		world_queue(w, q, done, arg);
}
static inline void fw_set_end(struct sandbox_provider *p, const char *agent, int64_t end_wall_ns, bool runs)
{
	struct world *w = ((struct world_provider *)p)->w;

	(void)agent;
	w->end_wall_ns = end_wall_ns;
	w->ends++;
	w->ends_running += runs;
}
/* "bad" is no template; a configured one there is not. */
static inline int fw_pod_template(struct sandbox_provider *p, const char *agent, const char *own, bool to_be,
				  char effective[SANDBOX_DIGEST_LEN], struct err *e)
{
	struct world *w = ((struct world_provider *)p)->w;
	struct world_agent *a = world_agent(w, agent);

	if (strstr(own, "bad"))
		return err_set(e, ERR_INVAL, "/spec/bad is not for a template");
	snprintf(effective, SANDBOX_DIGEST_LEN, "%s", own);
	if (to_be)
		snprintf(a->to_be, sizeof(a->to_be), "%s", own);
	w->told += to_be;
	return 0;
}
static inline void fw_destroy(struct sandbox_provider *p)
{
	struct world *w = ((struct world_provider *)p)->w;
	struct world_call *c;

	while ((c = TAILQ_FIRST(&w->queue))) {
		TAILQ_REMOVE(&w->queue, c, entry);
		world_answer(w, c, ERR_CANCELLED);
	}
	w->provider = NULL;
	free(p);
}

static const struct sandbox_provider_ops world_ops = {
    .ask = fw_ask, .set_end = fw_set_end, .pod_template = fw_pod_template, .destroy = fw_destroy};
static const struct sandbox_provider_ops world_podless_ops = {.ask = fw_ask, .destroy = fw_destroy};

#define WORLD_PODLESS                                                                                                  \
	(SANDBOX_CAN(SANDBOX_ENSURE) | SANDBOX_CAN(SANDBOX_CONNECT) | SANDBOX_CAN(SANDBOX_STAT) |                      \
	 SANDBOX_CAN(SANDBOX_DESTROY) | SANDBOX_CAN(SANDBOX_WIPE) | SANDBOX_CAN(SANDBOX_LIST))
#define WORLD_ALL                                                                                                      \
	(WORLD_PODLESS | SANDBOX_CAN(SANDBOX_TAKE) | SANDBOX_CAN(SANDBOX_SNAPSHOTS) | SANDBOX_CAN(SANDBOX_DROP) |      \
	 SANDBOX_CAN(SANDBOX_SWEEP) | SANDBOX_CAN(SANDBOX_RESTORE) | SANDBOX_CAN(SANDBOX_DROP_WORKSPACE))

static inline struct sandbox_provider *world_provider(struct world *w)
{
	struct world_provider *p = calloc(1, sizeof(*p));

	p->base.ops = w->no_pods ? &world_podless_ops : &world_ops;
	p->base.can = w->no_pods ? WORLD_PODLESS : WORLD_ALL;
	p->w = w;
	w->provider = &p->base;
	return &p->base;
}

#endif
