/*
 * inside.h - an MCP server inside a sandbox: a program that speaks JSON-RPC by lines, and the requests to it.
 *
 * The program is a round with an open stdin, begun under the grant of whoever needs it first and ended with that grant;
 * its streams are in the record as any round's. The hub speaks the protocol with it: initialize, the list of its
 * tools, then requests of many callers under ids of the hub's own. What it asks of its client (sampling, elicitation,
 * roots) is refused and counted, or put to the caller of the request under way where its definition opens that: such a
 * server works on one request at a time, as a question does not say which one it belongs to. Its stderr and its log
 * messages are kept as a tail, and are whole in its round.
 *
 * States: ABSENT -> STARTING (its round begins) -> INITIALIZING -> LISTING (its tools are read and compared with those
 * approved) -> READY, or HELD until somebody approves other tools. Whatever fails leads to BACKING_OFF, longer each
 * time, and from there to STARTING where somebody waits or did lately, else to ABSENT. ENDING: it was told to end.
 * Requests in flight end by name with their server; those that wait go on with the next.
 *
 * Owned by the hub: one for each agent, name and definition.
 */
#ifndef MUXD_HUB_INSIDE_INSIDE_H
#define MUXD_HUB_INSIDE_INSIDE_H

#include "base/clock.h"
#include "base/json.h"
#include "muxd/hub/core/request.h"

#define INSIDE_FLIGHT_MAX  32                  /* requests that a server works on at once */
#define INSIDE_CALLS_MAX   128                 /* with those that wait */
#define INSIDE_TAIL_MAX    (64 * 1024)         /* of stderr */
#define INSIDE_TIMEOUT_NS  (60 * NS_PER_SEC)   /* of a request, where none is said */
#define INSIDE_ASKING_NS   (300 * NS_PER_SEC)  /* the same where people may be asked */
#define INSIDE_LONGEST_NS  (3600 * NS_PER_SEC) /* at the most */
#define INSIDE_PATIENCE_NS (2 * NS_PER_SEC)    /* a server that is back by then is waited for */

enum inside_state {
	INSIDE_ABSENT,
	INSIDE_STARTING,
	INSIDE_INITIALIZING,
	INSIDE_LISTING,
	INSIDE_READY,
	INSIDE_HELD,
	INSIDE_BACKING_OFF,
	INSIDE_ENDING
};
const char *inside_state_name(enum inside_state s);

struct agent;
struct inside_questions;
struct inside;
struct inside_call;
struct insides;
struct metric_times;
struct server_def;

/* The server of that definition; made when it is missing. NULL: no memory. */
struct inside *inside_get(struct hub *h, const struct agent *a, const struct server_def *def);
/* The same, NULL where nothing of it is in memory. */
struct inside *inside_find(struct hub *h, const char *agent, const struct server_def *def);

/* Called from the loop, never from inside inside_ask(). */
struct inside_ops {
	/* params of a notifications/progress that the server sent for it; NULL: not wanted. */
	void (*progress)(void *arg, const json_t *params);
	/* params of a notifications/message while this request alone was under way; NULL: not wanted. */
	void (*log)(void *arg, const json_t *params);
	/* Questions of the server to this caller, those that are open marked by having no answer: inside_answer().
	 * Again, with all of them, where more come. NULL: it can answer none. */
	void (*asked)(void *arg, struct inside_questions *all);
	void (*withdrawn)(void *arg, uint64_t number); /* NULL: not wanted */
	/*
	 * Once. answer: {round_id, result} or {round_id, error: {code, message, data}, with the server's own words},
	 * and "undeclared", capabilities of what it asked for in vain, as this caller did not declare it; NULL with rc.
	 * round: of the record, "" where there is none.
	 */
	void (*done)(void *arg, int rc, const struct err *e, const json_t *answer, const char *round);
};
/* One request. Texts and JSON are copied. */
struct inside_ask {
	const struct request *rq;
	const char *task, *method;
	const char *exec_id;  /* NULL: none */
	const json_t *params; /* NULL: none */
	uint64_t timeout_ns;  /* 0: INSIDE_TIMEOUT_NS, of a server that may ask INSIDE_ASKING_NS */
	unsigned declared;    /* enum question_kind: that its caller can answer */
	const json_t *ahead;  /* answers by key, ahead of the questions; NULL: none */
	const struct inside_ops *ops;
	void *arg;
};
/*
 * The same exec_id again joins the request that is under way, or has its answer while that is kept. ERR_MCP_HELD,
 * ERR_MCP_DOWN, ERR_LIMIT, ERR_CONFLICT (an exec_id of another call, or its answer is not kept any more),
 * ERR_RECORD_UNAVAILABLE; then done is not called. *out: for the next two, until done.
 */
int inside_ask(struct inside *x, const struct inside_ask *ask, struct inside_call **out, struct err *e);
/* The answer, {result} or {error}, to a question that its caller was told of: it goes to the server once nothing is
 * open. Nobody is called from here. ERR_NOT_FOUND: it is none that is open; ERR_INVAL: it is no answer. */
int inside_answer(struct inside_call *c, uint64_t number, const json_t *answer);
/* The same of results by key; those of no question are left. */
void inside_answer_named(struct inside_call *c, const json_t *results);
struct inside_questions *inside_call_questions(struct inside_call *c);
/* Its caller has a newer grant. */
void inside_call_renew(struct inside_call *c, const struct request *rq);
/* Its caller, known by arg, hears nothing of it any more. Cancelled: where nobody else waits for it the server is told,
 * and it ends. Abandoned: it goes on, and its end is in the record. */
void inside_cancel(struct inside_call *c, void *arg);
void inside_abandon(struct inside_call *c, void *arg);

/* Its tools are read (again), it is begun for that where it is not. done: rc, and the catalogue as it is stored. */
int inside_refresh(struct inside *x, const struct request *rq, const char *task, broker_json_done *done, void *arg,
		   struct err *e);
/* Somebody approved its tools: it is held no more. */
void inside_approved(struct inside *x);
/* The server is not configured so any more: it ends, why says it. */
void inside_stop(struct inside *x, const char *why);
/* The list of its agent has changed: whatever is not in it as it is ends. */
void insides_configured(struct hub *h, const char *agent, const json_t *list);

/* {state, why, failures, retry_in_ms, program, requests, restarts, garbage_lines, refused, stderr} as it is now; of
 * one that is not in memory that it is absent. tail: with its stderr. NULL: no memory. */
json_t *inside_show(const struct inside *x, bool tail);

/* Hears that a resource of a server that serves has changed; fn NULL: nobody does. Called from the loop. */
typedef void inside_updated_fn(void *arg, const char *agent, const char *server, const char *uri);
void insides_watch(struct hub *h, inside_updated_fn *fn, void *arg);

int insides_create(struct hub *h, struct insides **out); /* ERR_NOMEM */
void insides_tick(struct hub *h);
bool insides_rest(const struct hub *h);                          /* nothing is waited for */
unsigned insides_flight(const struct hub *h, const char *agent); /* requests that hold its sandbox awake */
const struct metric_times *insides_times(const struct hub *h);   /* from a request to its end */
uint64_t insides_failures(const struct hub *h);                  /* servers that failed and were held down */
void insides_leave(struct hub *h);   /* the hub goes: its programs are let go of, ahead of its sessions */
void insides_destroy(struct hub *h); /* the hub goes, and no sandbox calls any more: callers hear ERR_UNAVAILABLE */

#endif
