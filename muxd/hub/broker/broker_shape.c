/* Image and resources of a sandbox that a call makes: asked of the policy, and given to lifecycle ahead of the start.
 */
#define LOG_SUBSYS "broker"
#include "muxd/hub/broker/broker_shape.h"

#include "base/err.h"
#include "base/text.h"
#include "control/work/work.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/access/policy.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/link/agent_link.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/session_state.h"

#include <string.h>

/* ---- the question */

static json_t *row_of(struct hub *h, const char *agent)
{
	json_t *row = NULL;

	return hub_life(h) && !life_show(hub_life(h), agent, &row, NULL) ? row : NULL;
}

/* The row whose image and resources are kept; NULL: there is none. *out_runs: the agent's sandbox is there. */
static json_t *kept_row(struct hub *h, const struct shape_ask *ask, bool *out_runs)
{
	json_t *row = row_of(h, ask->copies ? ask->of : ask->agent);

	*out_runs = !ask->copies && strcmp(json_get_text(row, "state"), "running") == 0;
	return row || !ask->begins ? row : row_of(h, ask->of);
}

static struct policy_question shape_question(const struct shape_ask *ask, const struct life_options *o,
					     const json_t *row)
{
	bool kept = *json_get_text(row, "own_pod_template") && !ask->drops_template;
	struct policy_question q = {.op = ask->op,
				    .agent = ask->agent,
				    .task = ask->task,
				    .judged = true,
				    .makes = true,
				    .own_template = ask->own_template || kept,
				    .image = o->sets_image ? o->image : NULL,
				    .kept_image = json_get_text(row, "image")};

	if (o->sets_resources)
		q.resources = o->resources;
	else
		(void)resources_read(json_object_get(row, "resources"), &q.kept, NULL);
	return q;
}

/* ---- the answer */

static void shape_give(const struct policy_shape *s, const struct policy_question *q, struct life_options *io,
		       json_t **out_said)
{
	json_t *said = s->gives_image || s->gives_resources ? json_object() : NULL;

	if (s->says_image) {
		io->sets_image = true;
		text_put(io->image, sizeof(io->image), s->image);
	}
	if (s->says_resources) {
		io->sets_resources = true;
		io->resources = s->resources;
	}
	if (s->gives_image)
		(void)json_object_set_new(said, "image", *s->image ? json_string(s->image) : json_null());
	if (s->gives_resources) {
		(void)json_object_set_new(said, "resources", resources_json(&s->resources));
		(void)json_object_set_new(said, "clipped", resources_clipped(&q->resources, &s->most));
	}
	*out_said = said;
}

int broker_shape_ask(struct hub *h, const struct request *rq, const struct shape_ask *ask, const char *what,
		     struct life_options *io, json_t **out_said, struct err *e)
{
	struct policy_question q;
	struct policy_shape shape;
	int rc = hub_policy_settle(h, e);
	bool runs = false;
	json_t *row;

	if (rc || !broker_policy_shapes(h, rq, ask->agent, ask->task))
		return rc;
	row = kept_row(h, ask, &runs);
	if (!runs || io->sets_image || io->sets_resources || ask->own_template) {
		q = shape_question(ask, io, row);
		rc = broker_policy(h, rq, &q, what, NULL, e);
		if (!rc) {
			broker_policy_shape(h, rq, &q, &shape);
			shape_give(&shape, &q, io, out_said);
		}
	}
	json_decref(row);
	return rc;
}

int broker_shape_copy(struct hub *h, const struct request *rq, const struct shape_ask *ask, const char *what,
		      struct life_options *io, struct err *e)
{
	json_t *said = NULL;
	int rc = broker_shape_ask(h, rq, ask, what, io, &said, e);

	json_decref(said);
	return rc;
}

/* ---- a sandbox that is needed */

/* No event of its start has the request: the allowance is one of its own, ahead of the start. */
static int shape_tell(struct hub *h, const struct request *rq, const char *agent, const struct policy_question *q,
		      const char *what, const json_t *said, struct err *e)
{
	int rc = audit_event(
	    h, "policy.allow", rq, agent, "ok",
	    json_pack("{s:s,s:s,s:O*}", "what", what, "operation", policy_op_name(q->op), "by_profile", said));

	return rc ? err_set(e, ERR_RECORD_UNAVAILABLE, "the record takes nothing now: nothing is started") : 0;
}

/* A copy of a sandbox of the pool is one of the pool. */
static bool shape_is_elsewhere(const struct agent *a)
{
	char origin[AGENT_NAME_MAX + 1];

	return !hub_life(a->hub) || agent_is_awake(a) || target_is_pod(a->name) ||
	       work_is_pool_name(target_origin(a->name, origin));
}

void broker_shape_need(struct agent *a, const struct request *rq, const struct policy_question *q, const char *what,
		       agent_ready_fn *fn, void *arg)
{
	struct life_options o = {.idle_ttl_ns = UINT64_MAX, .ttl_ns = UINT64_MAX};
	const struct shape_ask ask = {.op = q->op, .agent = a->name, .task = q->task};
	json_t *said = NULL;
	struct err e = {0};
	int rc = shape_is_elsewhere(a) ? 0 : broker_shape_ask(a->hub, rq, &ask, what, &o, &said, &e);

	if (!rc && !o.sets_image && !o.sets_resources) {
		agent_need(a, fn, arg);
		return;
	}
	if (!rc && said)
		rc = shape_tell(a->hub, rq, a->name, q, what, said, &e);
	json_decref(said);
	if (rc)
		fn(arg, rc, &e);
	else
		agent_need_with(a, &o, fn, arg);
}
