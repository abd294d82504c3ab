/*
 * broker_shape.h - image and resources of the sandbox that a call would make, by the profile of its task
 * (docs/policy.md).
 *
 * Asked by the calls of lifecycle with what they name, and by whatever needs a sandbox that is not up: a refusal comes
 * before anything is made, and what nobody named is given ahead of the start. A sandbox that runs was made already; one
 * of the pool is judged with its lease (broker_work.c); of a pod of others muxd makes nothing.
 */
#ifndef MUXD_HUB_BROKER_BROKER_SHAPE_H
#define MUXD_HUB_BROKER_BROKER_SHAPE_H

#include "base/json.h"
#include "control/life/life.h"
#include "muxd/hub/core/request.h"
#include "muxd/hub/link/agent_link.h"

struct shape_ask {
	enum policy_op op; /* was asked about before */
	const char *agent, *task;
	const char *of; /* whose copy is made, where `copies`, or `begins` and the agent is not there; else NULL */
	bool copies, begins;
	bool own_template, drops_template; /* the call gives a pod template of its own, or takes the agent's away */
};
/*
 * io: as the call has it; what the profile gives, and clips, is set in it. *out_said (NULL: nothing) is {"image",
 * "resources", "clipped"} of that, the caller's. ERR_POLICY_DENIED, audited.
 */
int broker_shape_ask(struct hub *h, const struct request *rq, const struct shape_ask *ask, const char *what,
		     struct life_options *io, json_t **out_said, struct err *e);
/* The same of a copy that muxd makes for one call, and tells of by an event of its own. */
int broker_shape_copy(struct hub *h, const struct request *rq, const struct shape_ask *ask, const char *what,
		      struct life_options *io, struct err *e);
/* As agent_need(), for a call that names none of it. q: its operation and task. */
void broker_shape_need(struct agent *a, const struct request *rq, const struct policy_question *q, const char *what,
		       agent_ready_fn *fn, void *arg);

#endif
