#define LOG_SUBSYS "mcp"
#include "muxd/hub/inside/inside_discovery.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/life/life.h"
#include "control/servers/server_def.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/broker/broker_shape.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/inside/inside_state.h"
#include "muxd/hub/record/audit.h"

#include <stdlib.h>
#include <string.h>

#define FORK_TTL_NS (900 * NS_PER_SEC) /* it sleeps behind that, whatever became of what it was made for */

struct inside_discovery {
	TAILQ_ENTRY(inside_discovery) entry;
	struct hub *hub;
	struct request rq; /* the caller's, of the fork alone */
	char agent[AGENT_NAME_MAX + 1], task[GRANT_NAME_MAX + 1];
	json_t *list; /* of this one server; def borrows from it */
	struct server_def def;
	struct inside *server;
	broker_json_done *done;
	void *arg;
};

static void discovery_free(struct inside_discovery *d)
{
	request_finish(&d->rq);
	json_decref(d->list);
	free(d);
}

static void discovery_on_wiped(void *arg, int rc, const struct err *e, json_t *result)
{
	(void)arg, (void)result;
	if (rc && rc != ERR_NOT_FOUND && rc != ERR_CANCELLED)
		log_warn(NULL, "the fork that tools were read in stays until the next start: %s",
			 e ? e->message : err_name(rc));
}

static void discovery_end(struct inside_discovery *d, int rc, const struct err *e, json_t *stored)
{
	struct hub *h = d->hub;

	if (d->server) {
		d->server->dropped = true;
		inside_stop(d->server, "its tools were read");
	}
	if (!hub_stopping(h) && rc != ERR_CANCELLED)
		life_terminate(hub_life(h), d->rq.grant.agent, "its tools were read", LIFE_END_WIPE, 0,
			       discovery_on_wiped, NULL);
	(void)audit_event(h, "mcp.discover", &d->rq, d->agent, rc ? err_name(rc) : "ok",
			  json_pack("{s:s,s:s}", "server", d->def.name, "as", d->rq.grant.agent));
	TAILQ_REMOVE(&hub_insides(h)->discoveries, d, entry);
	d->done(d->arg, rc, e, stored);
	discovery_free(d);
}

/* One whose server is there hears of its end by that. */
void inside_discoveries_leave(struct hub *h)
{
	struct inside_discovery *d, *next;
	struct err e = {0};

	err_set(&e, ERR_CANCELLED, "the daemon is stopping");
	for (d = hub_insides(h) ? TAILQ_FIRST(&hub_insides(h)->discoveries) : NULL; d; d = next) {
		next = TAILQ_NEXT(d, entry);
		if (d->server)
			continue;
		TAILQ_REMOVE(&hub_insides(h)->discoveries, d, entry);
		d->hub = NULL;
		d->done(d->arg, ERR_CANCELLED, &e, NULL);
	}
}

static void discovery_on_seen(void *arg, int rc, const struct err *e, json_t *stored)
{
	discovery_end(arg, rc, e, stored);
}

static void discovery_on_forked(void *arg, int rc, const struct err *e, json_t *result)
{
	struct inside_discovery *d = arg;
	struct agent *a;
	struct err here = {0};

	(void)result;
	if (!d->hub) { /* which has gone */
		discovery_free(d);
		return;
	}
	a = rc ? NULL : agent_get(d->hub, d->rq.grant.agent);
	if (rc == ERR_NOT_FOUND)
		rc = err_set(&here, ERR_NOT_FOUND, "%.100s has no snapshot to read the tools of %.64s in: resume it",
			     d->agent, d->def.name),
		e = &here;
	else if (!rc && !(a && (d->server = inside_get(d->hub, a, &d->def))))
		rc = err_set(&here, ERR_NOMEM, "no memory"), e = &here;
	if (!rc) {
		text_put(d->server->stored_as, sizeof(d->server->stored_as), d->agent);
		rc = inside_refresh(d->server, &d->rq, d->task, discovery_on_seen, d, &here), e = &here;
	}
	if (rc)
		discovery_end(d, rc, e, NULL);
}

bool inside_sleeps(struct hub *h, const char *agent)
{
	const struct agent *a = agent_find(h, agent);
	json_t *row = NULL;
	bool sleeps;

	if (!hub_life(h) || target_is_pod(agent) || (a && agent_is_awake(a)) ||
	    life_show(hub_life(h), agent, &row, NULL))
		return false;
	sleeps = strcmp(json_get_text(row, "state"), "running") != 0;
	json_decref(row);
	return sleeps;
}

/* Each is a fork of its sandbox: one of an agent at a time. */
static int check_alone(const struct hub *h, const char *agent, struct err *e)
{
	const struct inside_discovery *d;

	TAILQ_FOREACH(d, &hub_insides(h)->discoveries, entry)
	if (strcmp(d->agent, agent) == 0)
		return err_set(e, ERR_AGAIN, "the tools of %.64s are being read in a fork already: one at a time",
			       d->def.name);
	return 0;
}

static int discovery_name(const char *agent, char out[AGENT_NAME_MAX + 1], struct err *e)
{
	struct id id;

	if (id_new(&id))
		return err_set(e, ERR_SYS, "no randomness");
	(void)agent_make_name(agent, AGENT_MCP, &id, out);
	return 0;
}

static json_t *def_list(const struct server_def *def)
{
	json_t *one = server_def_json(def);

	json_object_del(one, "asks"); /* nobody is there to be asked */
	return json_pack("[o]", one);
}

int inside_discover(struct hub *h, const struct request *rq, const char *agent, const char *task,
		    const struct server_def *def, broker_json_done *done, void *arg, struct err *e)
{
	struct life_fork f = {.agent = agent,
			      .at_wall_ns = clock_wall_ns(),
			      .passing = true,
			      .options = {.idle_ttl_ns = UINT64_MAX, .ttl_ns = FORK_TTL_NS}};
	struct inside_discovery *d;
	int rc = def->url
		     ? err_set(e, ERR_BAD_STATE,
			       "MCP server %.64s is reached by its address, where nobody listens as long as %.100s "
			       "sleeps: resume that, then its tools are read",
			       def->name, agent)
		     : check_alone(h, agent, e);

	if (rc)
		return rc;
	d = calloc(1, sizeof(*d));
	if (!d || !(d->list = def_list(def)))
		rc = err_set(e, ERR_NOMEM, "no memory");
	if (!rc)
		rc = server_list_find(d->list, def->name, &d->def, e);
	if (!rc) {
		d->hub = h;
		d->rq = *rq;
		d->done = done;
		d->arg = arg;
		text_put(d->agent, sizeof(d->agent), agent);
		text_put(d->task, sizeof(d->task), task);
		rc = discovery_name(agent, d->rq.grant.agent, e);
	}
	if (!rc)
		rc = broker_shape_copy(
		    h, rq,
		    &(struct shape_ask){
			.op = POLICY_MCP_READ, .agent = d->rq.grant.agent, .task = task, .of = agent, .copies = true},
		    "mcp", &f.options, e);
	if (rc) {
		if (d)
			discovery_free(d);
		return rc;
	}
	TAILQ_INSERT_TAIL(&hub_insides(h)->discoveries, d, entry);
	f.as = d->rq.grant.agent;
	life_fork(hub_life(h), &f, 0, discovery_on_forked, d);
	return 0;
}
