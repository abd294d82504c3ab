/*
 * broker_inside.h - MCP servers of an agent, as doors ask for them: their list, what they offer, and requests to them.
 *
 * Scope rounds uses a server and has its tools read; lifecycle or admin sets the list and approves tools; each of these
 * sees them. Everything that uses a server comes through broker_inside_request(), where one function says whether this
 * grant may use this tool, and the catalogue is filtered by the same. Refusals are audited here.
 */
#ifndef MUXD_HUB_INSIDE_BROKER_INSIDE_H
#define MUXD_HUB_INSIDE_BROKER_INSIDE_H

#include "muxd/hub/core/request.h"
#include "muxd/hub/inside/inside.h"

/* Texts and JSON are borrowed for the call. */
struct inside_wish {
	const char *agent, *server; /* server NULL: all of them */
	const char *task;           /* of the call; NULL */
	int64_t version;            /* shown: of the list, 0: the newest; set: that it has to have, -1: any */
	const json_t *list;         /* set */
	const char *fingerprint;    /* approved: of what was looked at */
};

/* {agent, version, servers, set_at, set_by}. ERR_LIST_CHANGED. */
void broker_servers_set(struct hub *h, const struct request *rq, const struct inside_wish *w, broker_json_done *done,
			void *arg);
/* The same, each server with its state. */
void broker_servers_show(struct hub *h, const struct request *rq, const struct inside_wish *w, broker_json_done *done,
			 void *arg);
/* {agent, version, server, state, ..., stderr, tools: {seen_at, fingerprint, approved_at, approved_by, changes, list}}
 */
void broker_server_show(struct hub *h, const struct request *rq, const struct inside_wish *w, broker_json_done *done,
			void *arg);
/* Its tools are read now; the server is begun for that, in a sandbox that is awake. The same answer. */
void broker_server_refresh(struct hub *h, const struct request *rq, const struct inside_wish *w, broker_json_done *done,
			   void *arg);
/* Approves the tools that were seen. The same answer. */
void broker_server_approve(struct hub *h, const struct request *rq, const struct inside_wish *w, broker_json_done *done,
			   void *arg);

/*
 * One request (docs/mcp.md, "Servers inside"). method: initialize and tools/list are answered from the catalogue, which
 * is read first where there is none; tools/call, resources/..., prompts/..., completion/complete and ping go to the
 * server, which is begun, and its sandbox woken, where that is needed. Any other is refused by name.
 *
 * done: as inside.h has it, once; progress NULL: not wanted. *out, for the two below until then, is NULL where done was
 * called already.
 */
struct inside_request {
	const char *agent, *server, *method;
	const json_t *params; /* NULL: none */
	const char *task, *exec_id;
	uint64_t timeout_ns;
	unsigned declared;   /* enum question_kind: that the caller can answer */
	const json_t *ahead; /* answers by key; NULL: none */
	bool listens;        /* has a session, and so may subscribe to resources */
};
struct inside_job;
void broker_inside_request(struct hub *h, const struct request *rq, const struct inside_request *w,
			   const struct inside_ops *ops, void *arg, struct inside_job **out);
/*
 * Questions of the server, where ops has `asked` (inside.h). The job is told of to somebody else from here on; the
 * answer of one question, as inside_answer() has it, or of those with these keys: *out are all that the server has no
 * answer to, of which those without one are open. rq: of the call that brings it, which may do now what the request
 * does. ERR_FORBIDDEN, ERR_POLICY_DENIED, ERR_NOT_FOUND, ERR_INVAL. Nothing is called back from inside of these.
 */
void broker_inside_pass(struct inside_job *j, const struct inside_ops *ops, void *arg);
int broker_inside_answer(struct inside_job *j, struct request *rq, uint64_t number, const json_t *answer,
			 struct err *e);
int broker_inside_answers(struct inside_job *j, struct request *rq, const json_t *results,
			  struct inside_questions **out, struct err *e);
/* May the caller make that request? ERR_FORBIDDEN, ERR_POLICY_DENIED, audited. */
int broker_inside_may(struct hub *h, struct request *rq, const struct inside_request *w, struct err *e);
/* Of what a request asks for, whoever makes it: agent, server, method, parameters without what answers questions. */
#define INSIDE_DIGEST_SZ 65
int broker_inside_digest(const struct inside_request *w, char out[INSIDE_DIGEST_SZ]); /* ERR_NOMEM */
void broker_inside_cancel(struct inside_job *j);  /* done is not called; NULL-safe */
void broker_inside_abandon(struct inside_job *j); /* likewise, and the request goes on; NULL-safe */

#endif
