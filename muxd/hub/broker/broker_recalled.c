/* The policy's verdict of a round that has left memory: by the facts that the recorder has of it. */
#define LOG_SUBSYS "broker"
#include "base/err.h"
#include "base/json.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/record/reader.h"

#include <stdlib.h>
#include <string.h>

int broker_policy_recalled(struct hub *h, const struct request *rq, const json_t *facts, struct err *e)
{
	const json_t *open = json_object_get(facts, "open");
	const char *task = json_get_text(open, "task");
	/* The program of an MCP server or a service is nobody's own. */
	bool own = strcmp(json_get_text(json_object_get(open, "mcp"), "role"), "server") != 0 &&
		   !*json_get_text(json_object_get(open, "service"), "name") &&
		   grant_owns(&rq->grant, json_get_text(facts, "principal"), *json_get_text(open, "run_id"), task);
	const struct policy_question q = {
	    .op = own ? POLICY_ROUND_READ : POLICY_RECORD_READ, .agent = json_get_text(facts, "agent"), .task = task};

	return broker_policy(h, rq, &q, "round", NULL, e);
}

struct recalled_job {
	struct hub *hub;
	struct request rq; /* for its token */
	broker_json_done *done;
	void *arg;
};

static void broker_policy_on_facts(void *arg, int rc, const struct err *e, json_t *facts)
{
	struct recalled_job *j = arg;
	struct err here = {0};

	if (rc == ERR_NOT_FOUND)
		rc = err_set(&here, ERR_NOT_FOUND, NO_ROUND), e = &here;
	if (!rc)
		rc = broker_policy_recalled(j->hub, &j->rq, facts, &here), e = &here;
	j->done(j->arg, rc, e, NULL);
	request_finish(&j->rq);
	free(j);
}

void broker_policy_round(struct hub *h, const struct request *rq, const struct id *round, broker_json_done *done,
			 void *arg)
{
	struct recalled_job *j = malloc(sizeof(*j));
	struct err e = {0};

	if (!j) {
		done(arg, err_set(&e, ERR_NOMEM, "the recorder could not be asked"), &e, NULL);
		return;
	}
	*j = (struct recalled_job){.hub = h, .rq = *rq, .done = done, .arg = arg};
	reader_ask_session(h, &j->rq, round, broker_policy_on_facts, j);
}
