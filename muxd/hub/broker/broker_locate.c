/* Which sandbox a name, an id or a pod means, for who comes by port. */
#define LOG_SUBSYS "broker"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/life/life.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/link/agent_link.h"

#include <stdlib.h>
#include <string.h>

struct locate_job {
	struct hub *hub;
	struct request rq;
	uint32_t scope;
	struct id id; /* of a sandbox; nil: name is known */
	char name[AGENT_NAME_MAX + 1];
	broker_name_done *done;
	void *arg;
};

static void broker_locate_job_end(struct locate_job *j, int rc, const struct err *e)
{
	struct err here = {0};

	if (rc && !e)
		err_set(&here, rc, "the sandbox of %s: %s", j->name, err_name(rc)), e = &here;
	j->done(j->arg, rc, rc ? e : NULL, rc ? NULL : j->name);
	request_finish(&j->rq);
	free(j);
}

static void broker_locate_on_stat(void *arg, const struct sandbox_answer *r)
{
	const struct err *e = r->e;
	int rc = r->rc;
	struct locate_job *j = arg;
	struct err here = {0};

	if (rc == ERR_NOT_FOUND || (!rc && r->info->state == SANDBOX_ABSENT && !r->info->has_workspace))
		rc = err_set(&here, ERR_NOT_FOUND, "there is no sandbox of %s, running or asleep", j->name), e = &here;
	broker_locate_job_end(j, rc, e);
}

/* Nothing is made for a request that only wants to be let through. */
static void broker_locate_look(struct locate_job *j)
{
	struct sandbox_provider *p = hub_provider(j->hub);
	struct agent *a = agent_find(j->hub, j->name);
	struct err e = {0};
	const char *what = j->scope == SCOPE_PORTS ? "port" : "runtime";
	int rc = broker_reach_any(j->hub, &j->rq, j->name, j->scope, what, &e);

	/* Of one scope alone is a call that opens something, which the policy is asked about then. */
	if (!rc && j->scope & (j->scope - 1))
		rc = broker_policy(j->hub, &j->rq,
				   &(struct policy_question){.op = POLICY_SANDBOX_READ, .agent = j->name}, what, NULL,
				   &e);

	if (rc || (a && a->state == AGENT_UP) || strchr(j->name, '/')) /* opening looks for pods of others */
		broker_locate_job_end(j, rc, &e);
	else
		sandbox_ask(p, &(struct sandbox_ask){.op = SANDBOX_STAT, .agent = j->name}, broker_locate_on_stat, j);
}

/* A refusal names whom it is about: of an id that is somebody else's it would tell whose. */
static bool may_hear_of(const struct locate_job *j, const char *agent)
{
	return grant_allows(&j->rq.grant, agent, 0, NULL) == 0;
}

/* The database may be behind: an agent whose sandbox is at hand has that one and no other. */
static void find_in_life(const struct locate_job *j, char name[AGENT_NAME_MAX + 1])
{
	struct agent *a;

	if (hub_life(j->hub) && life_find(hub_life(j->hub), &j->id, name, NULL))
		log_warn(NULL, "the control database does not say whose sandbox that is");
	a = agent_find(j->hub, name);
	if (a && !id_is_nil(&a->linked))
		name[0] = '\0';
}

/* By the hub's own, then by lifecycle's index: never by a list of all there are. An agent may be called like an id. */
static void find_id(struct locate_job *j)
{
	char name[AGENT_NAME_MAX + 1] = "";
	struct agent *a, *next;

	HASH_ITER(hh, hub_agents(j->hub)->by_name, a, next)
	if (!name[0] && id_equal(&a->linked, &j->id)) /* info may tell of one that has ended */
		text_put(name, sizeof(name), a->name);
	if (!name[0])
		find_in_life(j, name);
	if (name[0] && may_hear_of(j, name))
		text_put(j->name, sizeof(j->name), name);
	broker_locate_look(j);
}

/* What the two say together: an agent of ours, or a pod of others. */
static int make_name(const struct hub *h, const char *id, const char *space, char *out, size_t size, struct err *e)
{
	const struct conf *c = hub_conf(h);
	const char *own = *hub_params(h)->cluster_namespace ? hub_params(h)->cluster_namespace
			  : *c->kubernetes_namespace        ? c->kubernetes_namespace
							    : "default";

	if (!*space || strcmp(space, own) == 0) {
		text_put(out, size, id);
		return target_name_check(out, e);
	}
	if (!*c->kubernetes_kubeconfig)
		return err_set(e, ERR_NOT_FOUND, "namespace %s names nothing: this daemon has no cluster", space);
	if (snprintf(out, size, "%s/%s", space, id) >= (int)size)
		return err_set(e, ERR_INVAL, "namespace and name together are too long");
	return target_name_check(out, e);
}

void broker_locate(struct hub *h, const struct request *rq, uint32_t scope, const char *id, const char *space,
		   broker_name_done *done, void *arg)
{
	struct locate_job *j = calloc(1, sizeof(*j));
	struct err e = {0};
	int rc = j ? 0 : err_set(&e, ERR_NOMEM, "no memory");

	if (!rc)
		rc = make_name(h, id, space, j->name, sizeof(j->name), &e);
	if (rc) {
		done(arg, rc, &e, NULL);
		free(j);
		return;
	}
	j->hub = h;
	j->rq = *rq;
	j->scope = scope;
	j->done = done;
	j->arg = arg;
	if (id_parse(id, &j->id) || id_is_nil(&j->id) || !(rq->grant.scopes & scope))
		broker_locate_look(j); /* without the scope nobody learns whose an id is */
	else
		find_id(j);
}

/* ---- the whole name of a pod */

struct whole_job {
	broker_name_done *done;
	void *arg;
	char name[AGENT_NAME_MAX + 1];
};

static void broker_locate_on_whole(void *arg, const struct sandbox_answer *r)
{
	struct whole_job *j = arg;
	struct err here = {0};
	const struct err *e = r->e;

	if (r->rc && (!e || !e->message[0]))
		err_set(&here, r->rc, "the containers of %s: %s", j->name, err_name(r->rc)), e = &here;
	j->done(j->arg, r->rc, r->rc ? e : NULL, r->rc ? NULL : r->name);
	free(j);
}

void broker_whole_name(struct hub *h, const struct request *rq, const char *name, broker_name_done *done, void *arg)
{
	bool mine = target_is_pod(name) && grant_allows(&rq->grant, name, 0, NULL) == 0;
	struct whole_job *j = mine ? calloc(1, sizeof(*j)) : NULL;
	struct err e = {0};

	if (!mine) {
		done(arg, 0, NULL, name);
		return;
	}
	if (!j) {
		done(arg, err_set(&e, ERR_NOMEM, "no memory"), &e, NULL);
		return;
	}
	*j = (struct whole_job){.done = done, .arg = arg};
	text_put(j->name, sizeof(j->name), name);
	hub_resolve(h, j->name, broker_locate_on_whole, j);
}
