#define LOG_SUBSYS "net"
#include "muxd/net/route_provider.h"

#include "base/err.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

struct route {
	struct sandbox_provider base;
	struct sandbox_provider_ops ops; /* without those that the agents' leg lacks */
	struct route_legs legs;
};

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

static int no_op(const char *what, const char *name, struct err *e)
{
	return err_set(e, ERR_UNSUPPORTED, "the backend of %.192s %s", name, what);
}

static void ensure(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg)
{
	struct err e = {0};
	struct sandbox_provider *leg = leg_of(p, agent, &e);

	if (leg)
		leg->ops->ensure(leg, agent, done, arg);
	else
		done(arg, e.code, &e, NULL, -1);
}

static void connect_to(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg)
{
	struct err e = {0};
	struct sandbox_provider *leg = leg_of(p, agent, &e);

	if (leg)
		leg->ops->connect(leg, agent, done, arg);
	else
		done(arg, e.code, &e, NULL, -1);
}

static void stat_one(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg)
{
	struct err e = {0};
	struct sandbox_provider *leg = leg_of(p, agent, &e);

	if (leg)
		leg->ops->stat(leg, agent, done, arg);
	else
		done(arg, e.code, &e, NULL, -1);
}

static void end_one(struct sandbox_provider *p, const char *agent, const char *reason, sandbox_done *done, void *arg)
{
	struct err e = {0};
	struct sandbox_provider *leg = leg_of(p, agent, &e);

	if (leg)
		leg->ops->destroy_sandbox(leg, agent, reason, done, arg);
	else
		done(arg, e.code, &e, NULL, -1);
}

static void wipe(struct sandbox_provider *p, const char *agent, const char *reason, sandbox_done *done, void *arg)
{
	struct err e = {0};
	struct sandbox_provider *leg = leg_of(p, agent, &e);

	if (leg && leg->ops->wipe) {
		leg->ops->wipe(leg, agent, reason, done, arg);
		return;
	}
	if (leg)
		no_op("does not remove workspaces", agent, &e);
	done(arg, e.code, &e, NULL, -1);
}

/* ---- snapshots: what the leg of this name lacks is answered for here */

static void snapshot_take(struct sandbox_provider *p, const char *agent, const struct id *snapshot, uint64_t timeout_ns,
			  sandbox_snapshots_done *done, void *arg)
{
	struct err e = {0};
	struct sandbox_provider *leg = leg_of(p, agent, &e);

	if (leg && leg->ops->snapshot_take) {
		leg->ops->snapshot_take(leg, agent, snapshot, timeout_ns, done, arg);
		return;
	}
	if (leg)
		no_op("has no snapshots", agent, &e);
	done(arg, e.code, &e, NULL, 0);
}

static void snapshot_drop(struct sandbox_provider *p, const char *agent, const struct id *snapshot,
			  sandbox_snapshots_done *done, void *arg)
{
	struct err e = {0};
	struct sandbox_provider *leg = leg_of(p, agent, &e);

	if (leg && leg->ops->snapshot_drop) {
		leg->ops->snapshot_drop(leg, agent, snapshot, done, arg);
		return;
	}
	if (leg)
		no_op("has no snapshots", agent, &e);
	done(arg, e.code, &e, NULL, 0);
}

/* Of the agents' leg; leave_out() saw that it can. */
static void snapshot_sweep(struct sandbox_provider *p, sandbox_may_go *may_go, sandbox_snapshots_done *done, void *arg)
{
	const struct route_legs *l = &((const struct route *)p)->legs;
	struct sandbox_provider *leg = l->agents_in_cluster ? l->cluster : l->local;

	leg->ops->snapshot_sweep(leg, may_go, done, arg);
}

static void snapshot_hash(struct sandbox_provider *p, const char *agent, const struct id *snapshot, bool idle,
			  sandbox_snapshots_done *done, void *arg)
{
	struct err e = {0};
	struct sandbox_provider *leg = leg_of(p, agent, &e);

	if (leg && leg->ops->snapshot_hash) {
		leg->ops->snapshot_hash(leg, agent, snapshot, idle, done, arg);
		return;
	}
	if (leg)
		no_op("lets nobody read a snapshot", agent, &e);
	done(arg, e.code, &e, NULL, 0);
}

/* Of all: of the leg where agents are; nobody takes snapshots of other pods. */
static void snapshot_list(struct sandbox_provider *p, const char *agent, sandbox_snapshots_done *done, void *arg)
{
	const struct route_legs *l = &((struct route *)p)->legs;
	struct err e = {0};
	struct sandbox_provider *leg = agent ? leg_of(p, agent, &e) : l->agents_in_cluster ? l->cluster : l->local;

	if (leg && leg->ops->snapshot_list)
		leg->ops->snapshot_list(leg, agent, done, arg);
	else
		done(arg, e.code, e.code ? &e : NULL, NULL, 0); /* a backend without snapshots has none */
}

static void restore(struct sandbox_provider *p, const char *agent, const char *from, const struct id *snapshot,
		    bool read_only, uint64_t timeout_ns, sandbox_done *done, void *arg)
{
	struct err e = {0};
	struct sandbox_provider *leg = leg_of(p, agent, &e), *source = leg ? leg_of(p, from, &e) : NULL;

	if (leg && source && leg == source && leg->ops->restore) {
		leg->ops->restore(leg, agent, from, snapshot, read_only, timeout_ns, done, arg);
		return;
	}
	if (leg && source)
		no_op("cannot restore that snapshot", agent, &e);
	done(arg, e.code, &e, NULL, -1);
}

static void drop_workspace(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg)
{
	struct err e = {0};
	struct sandbox_provider *leg = leg_of(p, agent, &e);

	if (leg && leg->ops->drop_workspace) {
		leg->ops->drop_workspace(leg, agent, done, arg);
		return;
	}
	if (leg)
		no_op("keeps its workspace", agent, &e);
	done(arg, e.code, &e, NULL, -1);
}

static void log_tail(struct sandbox_provider *p, const char *agent, size_t max, sandbox_log_done *done, void *arg)
{
	struct err e = {0};
	struct sandbox_provider *leg = leg_of(p, agent, &e);

	if (leg && leg->ops->log) {
		leg->ops->log(leg, agent, max, done, arg);
		return;
	}
	if (leg)
		no_op("keeps no log", agent, &e);
	done(arg, e.code, &e, NULL, 0);
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
	return leg->ops->pod_template ? leg->ops->pod_template(leg, agent, own, to_be, effective, e)
				      : no_op("makes no pods, and has no pod templates", agent, e);
}

/* An end that a leg tells of, to whoever uses the route. */
static void on_gone(void *arg, const char *agent, const struct id *sandbox, const char *why)
{
	struct route *r = arg;

	if (r->base.gone)
		r->base.gone(r->base.gone_arg, agent, sandbox, why);
}

static void resolve(struct sandbox_provider *p, const char *name, sandbox_name_done *done, void *arg)
{
	struct err e = {0};
	struct sandbox_provider *leg = leg_of(p, name, &e);

	if (!leg)
		done(arg, e.code, &e, NULL);
	else if (leg->ops->resolve)
		leg->ops->resolve(leg, name, done, arg);
	else
		done(arg, 0, NULL, name);
}

/* ---- list: this machine first, then the cluster; what one of them cannot say does not hide the other's answer */

struct list_job {
	struct sandbox_provider *next; /* NULL: asked already */
	struct sandbox_info *list;
	size_t n;
	struct err missing;
	sandbox_list_done *done;
	void *arg;
};

static int append(struct list_job *j, const struct sandbox_info *list, size_t n)
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

static void on_list(void *arg, int rc, const struct err *e, const struct sandbox_info *list, size_t n)
{
	struct list_job *j = arg;
	struct sandbox_provider *next = j->next;

	if (!rc && append(j, list, n))
		rc = ERR_NOMEM, e = NULL;
	if (rc)
		err_set(&j->missing, rc, "%s", e && e->message[0] ? e->message : err_name(rc));
	j->next = NULL;
	if (next && rc != ERR_CANCELLED) {
		next->ops->list(next, on_list, j);
		return;
	}
	rc = j->n && rc != ERR_CANCELLED ? 0 : j->missing.code;
	j->done(j->arg, rc, j->missing.code ? &j->missing : NULL, rc ? NULL : j->list, rc ? 0 : j->n);
	free(j->list);
	free(j);
}

static void list_all(struct sandbox_provider *p, sandbox_list_done *done, void *arg)
{
	struct route_legs *l = &((struct route *)p)->legs;
	struct list_job *j = calloc(1, sizeof(*j));
	struct err e = {0};

	if (!j) {
		err_set(&e, ERR_NOMEM, "no memory for a list of sandboxes");
		done(arg, e.code, &e, NULL, 0);
		return;
	}
	j->next = l->cluster;
	j->done = done;
	j->arg = arg;
	l->local->ops->list(l->local, on_list, j);
}

static void destroy(struct sandbox_provider *p)
{
	struct route *r = (struct route *)p;

	if (r->legs.cluster)
		r->legs.cluster->ops->destroy(r->legs.cluster);
	r->legs.local->ops->destroy(r->legs.local);
	free(r);
}

static const struct sandbox_provider_ops route_ops = {.ensure = ensure,
						      .connect = connect_to,
						      .stat = stat_one,
						      .destroy_sandbox = end_one,
						      .wipe = wipe,
						      .list = list_all,
						      .resolve = resolve,
						      .snapshot_take = snapshot_take,
						      .snapshot_list = snapshot_list,
						      .snapshot_drop = snapshot_drop,
						      .snapshot_sweep = snapshot_sweep,
						      .snapshot_hash = snapshot_hash,
						      .restore = restore,
						      .drop_workspace = drop_workspace,
						      .set_end = set_end,
						      .pod_template = pod_template,
						      .log = log_tail,
						      .destroy = destroy};

/* Who uses the route asks for snapshots by looking whether there are any. */
static void leave_out(struct route *r)
{
	const struct sandbox_provider *leg = r->legs.agents_in_cluster ? r->legs.cluster : r->legs.local;

	if (!leg || !leg->ops->snapshot_sweep)
		r->ops.snapshot_sweep = NULL;
	if (!leg || !leg->ops->snapshot_hash)
		r->ops.snapshot_hash = NULL;
	if (!leg || !leg->ops->pod_template)
		r->ops.pod_template = NULL;
	if (leg && leg->ops->snapshot_take)
		return;
	r->ops.snapshot_take = NULL;
	r->ops.snapshot_list = NULL;
	r->ops.snapshot_drop = NULL;
	r->ops.restore = NULL;
	r->ops.drop_workspace = NULL;
}

int route_provider_create(const struct route_legs *legs, struct sandbox_provider **out)
{
	struct route *r = calloc(1, sizeof(*r));

	if (!r)
		return ERR_NOMEM;
	r->ops = route_ops;
	r->base.ops = &r->ops;
	r->legs = *legs;
	leave_out(r);
	for (int i = 0; i < 2; i++) {
		struct sandbox_provider *leg = i ? legs->cluster : legs->local;

		if (leg)
			leg->gone = on_gone, leg->gone_arg = r;
	}
	*out = &r->base;
	return 0;
}
