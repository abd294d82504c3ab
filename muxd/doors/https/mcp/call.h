/*
 * call.h - one call of a tool, from its arguments to its result: the API's call behind it, and where that is a round
 * the wait for its end.
 *
 * Owned by whoever began it, until `done` was called (once, from the loop, never from inside mcp_call_begin()), or
 * until it is cancelled (the round's process tree is ended) or abandoned (the round runs on).
 *
 * States: BEGINNING (the API was asked) -> RUNNING (a round's end is waited for) -> OVER.
 */
#ifndef MUXD_DOORS_HTTPS_MCP_CALL_H
#define MUXD_DOORS_HTTPS_MCP_CALL_H

#include "muxd/doors/https/mcp/tools.h"

struct mcp_call;

/* Is the door still open? Counted: calls and questions outlive the door by some turns of the loop, and the hub too. */
struct mcp_life {
	unsigned held;
	bool over; /* nothing may begin any more: the hub may be gone */
};
struct mcp_life *mcp_life_hold(struct mcp_life *l);
void mcp_life_release(struct mcp_life *l); /* the last one frees it; NULL-safe */

/* The caller of a tool; rq is copied. */
struct mcp_caller {
	struct hub *hub;
	const struct http_api *api;
	struct rest_metrics *metrics;
	const struct request *rq;
	const char *peer;
	bool local;
	struct mcp_life *life; /* held by who keeps a copy of this */
};

/* result: CallToolResult, stolen, NULL: no memory. round: it runs on, as a task that has been asked for. */
struct mcp_outcome {
	json_t *result;
	const json_t *round;
};
struct mcp_call_ops {
	/* Once a second while a round runs: ms, and the end of its output. NULL: not wanted. */
	void (*progress)(void *arg, int64_t ms, const char *tail);
	void (*done)(void *arg, const struct mcp_outcome *o);
};

struct mcp_wish {
	const struct mcp_tool *tool;
	const json_t *args;     /* as they came; NULL: none */
	const char *exec_id;    /* "": none */
	uint64_t task_after_ms; /* a round that runs for longer is answered as a task; 0: never */
};

int mcp_call_begin(const struct mcp_caller *who, const struct mcp_wish *w, const struct mcp_call_ops *ops, void *arg,
		   struct mcp_call **out);
void mcp_call_cancel(struct mcp_call *c, const char *reason); /* NULL-safe, both */
void mcp_call_abandon(struct mcp_call *c);

/* Ends a round of this caller's, unless the door is closed; what comes of it nobody is told. */
void mcp_round_end(const struct mcp_caller *who, const char *round, const char *reason);
/* A tool's result of structured content (stolen), and of an error. NULL: no memory. */
json_t *mcp_tool_result(json_t *structured);
json_t *mcp_tool_error(int rc, const char *message);

#endif
