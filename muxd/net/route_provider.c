/* Which provider a name is for: this machine's or the cluster's. */
#define LOG_SUBSYS "net"
#include "muxd/net/route_provider.h"

#include "base/err.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* Operations that are the agents' leg's: who uses the route looks whether there are any. */
#define OF_AGENTS                                                                                                      \
	(SANDBOX_CAN(SANDBOX_TAKE) | SANDBOX_CAN(SANDBOX_SNAPSHOTS) | SANDBOX_CAN(SANDBOX_DROP) |                      \
	 SANDBOX_CAN(SANDBOX_SWEEP) | SANDBOX_CAN(SANDBOX_HASH) | SANDBOX_CAN(SANDBOX_RESTORE) |                       \
	 SANDBOX_CAN(SANDBOX_DROP_WORKSPACE))

struct route {
	struct sandbox_provider base;
	struct sandbox_provider_ops ops; /* without those that the agents' leg lacks */
	struct route_legs legs;
};

static struct sandbox_provider *leg_of_agents(const struct route_legs *l)
{
	return l->agents_in_cluster ? l->cluster : l->local;
}

/* The leg of a name; NULL with the reason. */
static struct sandbox_provider *leg_of(const struct sandbox_provider *p, const char *name, struct err *e)
{
	const struct route_legs *l = &((const struct route *)p)->legs;

	if (!target_is_pod(name) && !l->agents_in_cluster)
		return l->local;
	if (!l->cluster)
		err_set(e, ERR_UNSUPPORTED,
			"%.192s is a pod, and this daemon has no cluster: set kubernetes.kubeconfig", name);
	return l->cluster;
}

/* ---- list: this machine first, then the cluster; what one of them cannot say does not hide the other's answer */

struct list_job {
	struct sandbox_provider *next; /* NULL: asked already */
	struct sandbox_info *list;
	size_t n;
	bool run;
	struct err missing;
	sandbox_done *done;
	void *arg;
};

static int route_provider_append(struct list_job *j, const struct sandbox_info *list, size_t n)
{
	struct sandbox_info *all = n ? realloc(j->list, (j->n + n) * sizeof(*all)) : j->list;

	if (n && !all)
		return ERR_NOMEM;
	if (n)
		memcpy(all + j->n, list, n * sizeof(*all));
	j->list = all;
	j->n += n;
	return 0;
}

static void route_provider_on_list(void *arg, const struct sandbox_answer *a)
{
	struct list_job *j = arg;
	struct sandbox_provider *next = j->next;
	struct sandbox_answer all = {.fd = -1};
	int rc = a->rc;

	if (!rc && route_provider_append(j, a->info, a->n))
		rc = ERR_NOMEM;
	if (rc)
		err_again(&j->missing, rc, a->e, NULL);
	j->next = NULL;
	if (next && rc != ERR_CANCELLED) {
		sandbox_ask(next, &(struct sandbox_ask){.op = SANDBOX_LIST, .run = j->run}, route_provider_on_list, j);
		return;
	}
	all.rc = j->n && rc != ERR_CANCELLED ? 0 : j->missing.code;
	all.e = j->missing.code ? &j->missing : NULL;
	all.info = all.rc ? NULL : j->list;
	all.n = all.rc ? 0 : j->n;
	j->done(j->arg, &all);
	free(j->list);
	free(j);
}

static void list_all(struct route *r, bool run, sandbox_done *done, void *arg)
{
	struct list_job *j = calloc(1, sizeof(*j));
	struct err e = {0};

	if (!j) {
		err_set(&e, ERR_NOMEM, "no memory for a list of sandboxes");
		sandbox_answer(done, arg, e.code, &e, NULL, -1);
		return;
	}
	j->next = r->legs.cluster;
	j->run = run;
	j->done = done;
	j->arg = arg;
	sandbox_ask(r->legs.local, &(struct sandbox_ask){.op = SANDBOX_LIST, .run = run}, route_provider_on_list, j);
}

/* A snapshot is where its agent is: a fork of it cannot be elsewhere. */
static struct sandbox_provider *leg_of_ask(struct sandbox_provider *p, const struct sandbox_ask *q, struct err *e)
{
	struct sandbox_provider *leg = q->agent ? leg_of(p, q->agent, e) : leg_of_agents(&((struct route *)p)->legs);
	struct sandbox_provider *from = leg && q->from ? leg_of(p, q->from, e) : leg;

	if (from && from != leg)
		err_set(e, ERR_UNSUPPORTED, "the backend of %.192s cannot restore that snapshot", q->agent);
	return from == leg ? leg : NULL;
}

static void route_provider_ask(struct sandbox_provider *p, const struct sandbox_ask *q, sandbox_done *done, void *arg)
{
	struct sandbox_provider *leg;
	struct err e = {0};

	if (q->op == SANDBOX_LIST) {
		list_all((struct route *)p, q->run, done, arg);
		return;
	}
	leg = leg_of_ask(p, q, &e);
	if (leg)
		sandbox_ask(leg, q, done, arg);
	else
		sandbox_answer(done, arg, e.code, &e, NULL, -1);
}

static void set_end(struct sandbox_provider *p, const char *agent, int64_t end_wall_ns, bool runs)
{
	struct err e = {0};
	struct sandbox_provider *leg = leg_of(p, agent, &e);

	if (leg && leg->ops->set_end)
		leg->ops->set_end(leg, agent, end_wall_ns, runs);
}

static int pod_template(struct sandbox_provider *p, const char *agent, const char *own, bool to_be,
			char effective[SANDBOX_DIGEST_LEN], struct err *e)
{
	struct sandbox_provider *leg = leg_of(p, agent, e);

	if (!leg)
		return ERR_UNSUPPORTED;
	if (!leg->ops->pod_template)
		return err_set(e, ERR_UNSUPPORTED, "the backend of %.192s makes no pods, and has no pod templates",
			       agent);
	return leg->ops->pod_template(leg, agent, own, to_be, effective, e);
}

/* An end that a leg tells of, to whoever uses the route. */
static void route_provider_on_gone(void *arg, const char *agent, const struct id *sandbox, const char *why)
{
	struct route *r = arg;

	if (r->base.gone)
		r->base.gone(r->base.gone_arg, agent, sandbox, why);
}

static void route_provider_destroy(struct sandbox_provider *p)
{
	struct route *r = (struct route *)p;

	if (r->legs.cluster)
		r->legs.cluster->ops->destroy(r->legs.cluster);
	r->legs.local->ops->destroy(r->legs.local);
	free(r);
}

static const struct sandbox_provider_ops route_ops = {
    .ask = route_provider_ask, .set_end = set_end, .pod_template = pod_template, .destroy = route_provider_destroy};

int route_provider_create(const struct route_legs *legs, struct sandbox_provider **out)
{
	struct sandbox_provider *agents = leg_of_agents(legs);
	struct route *r = calloc(1, sizeof(*r));

	if (!r)
		return ERR_NOMEM;
	r->ops = route_ops;
	if (!agents || !agents->ops->pod_template)
		r->ops.pod_template = NULL;
	r->base.ops = &r->ops;
	r->base.can = (SANDBOX_CAN_ALL & ~OF_AGENTS) | (agents ? agents->can & OF_AGENTS : 0);
	r->legs = *legs;
	for (int i = 0; i < 2; i++) {
		struct sandbox_provider *leg = i ? legs->cluster : legs->local;

		if (leg)
			leg->gone = route_provider_on_gone, leg->gone_arg = r;
	}
	*out = &r->base;
	return 0;
}
