/*
 * broker_context.h - code contexts and executions, as doors ask for them (contexts.h).
 *
 * Scope rounds; contexts are one's own, executions are seen as rounds are. Refusals are audited here.
 */
#ifndef MUXD_HUB_BROKER_BROKER_CONTEXT_H
#define MUXD_HUB_BROKER_BROKER_CONTEXT_H

#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/core/request.h"
#include "muxd/hub/session/contexts.h"

/* python_exec, A11 */
#define PYTHON_TIMEOUT_NS     (30 * UINT64_C(1000000000))
#define PYTHON_TIMEOUT_MAX_NS (120 * UINT64_C(1000000000))

/* Strings are copied. */
struct context_wish {
	const char *agent, *task, *exec_id, *cwd; /* NULL but for the first */
	const char *const *env;                   /* NULL */
	enum context_language language;           /* of a new one */
	struct id id;                             /* else: of the context */
	const char *code;                         /* to be executed */
	size_t code_len;
	uint64_t timeout_ns, wait_ns; /* 0: as rounds have it; so long at most is its end waited for */
};

/* A context as contexts_show() has it: made; interrupted, reset or deleted as it is behind that. */
void broker_context_create(struct hub *h, const struct request *rq, const struct context_wish *w,
			   broker_json_done *done, void *arg);
void broker_context_reset(struct hub *h, const struct request *rq, const struct context_wish *w, broker_json_done *done,
			  void *arg);
void broker_context_delete(struct hub *h, const struct request *rq, const struct context_wish *w,
			   broker_json_done *done, void *arg);
void broker_context_interrupt(struct hub *h, const struct request *rq, const struct context_wish *w,
			      broker_json_done *done, void *arg);
/* One, or with a nil id {contexts: [...]}. */
void broker_context_show(struct hub *h, const struct request *rq, const struct context_wish *w, broker_json_done *done,
			 void *arg);
/* An execution, as broker_execution() has it: in a context, or of Python without one. */
void broker_context_execute(struct hub *h, const struct request *rq, const struct context_wish *w,
			    broker_json_done *done, void *arg);
void broker_python(struct hub *h, const struct request *rq, const struct context_wish *w, broker_json_done *done,
		   void *arg);
/*
 * Once it has ended or wait_ns passed: {execution_id, context_id, exec_id, task_id, agent, language, state, cause,
 * message, exit_code, ...} and what context_answer() has. ERR_NOT_FOUND also of a round that is none.
 */
void broker_execution(struct hub *h, const struct request *rq, const struct id *round, uint64_t wait_ns,
		      broker_json_done *done, void *arg);

#endif
