#include "muxd/hub/inside/inside_may.h"

#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/broker_policy.h"

static struct policy_question inside_may_question_of(const char *agent, const char *task, const char *server,
						     const char *tool)
{
	return (struct policy_question){
	    .op = POLICY_MCP_CALL, .agent = agent, .task = task, .server = server, .tool = tool, .opens_nothing = true};
}

int inside_may_begin(struct hub *h, struct request *rq, const char *agent, const char *task, const char *server,
		     const char *tool, size_t bytes, struct err *e)
{
	struct policy_question q = inside_may_question_of(agent, task, server, tool);

	q.opens_nothing = false;
	q.bytes = bytes;
	return broker_check(h, rq, &q, SCOPE_ROUNDS, "mcp.request", &rq->policy, e);
}

int inside_may(struct hub *h, struct request *rq, const char *agent, const char *task, const char *server,
	       const char *tool, const char *what, struct err *e)
{
	const struct policy_question q = inside_may_question_of(agent, task, server, tool);

	return broker_check(h, rq, &q, SCOPE_ROUNDS, what, &rq->policy, e);
}

bool inside_may_ask(struct hub *h, const struct request *rq, const char *agent, const char *task, const char *server,
		    const char *tool, bool told)
{
	struct policy_question q = inside_may_question_of(agent, task, server, tool);

	q.op = POLICY_MCP_ASK;
	return told ? broker_policy(h, rq, &q, "mcp.ask", NULL, NULL) == 0 : broker_policy_would(h, rq, &q);
}

bool inside_may_see(struct hub *h, const struct request *rq, const char *agent, const char *task, const char *server,
		    const char *tool)
{
	const struct policy_question q = inside_may_question_of(agent, task, server, tool);

	return broker_policy_would(h, rq, &q);
}
