/*
 * mcp_answer.h - what an MCP server answers to one request of HTTP (Streamable HTTP, 2025-06-18 and 2025-11-25), as it
 * comes, and the messages in it. No I/O.
 *
 * All of it is a stranger's. Messages are passed on as they are but for line ends, which become blanks: whoever speaks
 * JSON-RPC judges them. The head has 64 KiB at the most, a message MCP_MESSAGE_MAX.
 *
 * States: HEAD -> JSON (its content is one message), EVENTS (a stream of them) or SKIPPED (nothing in it counts) ->
 * WHOLE, or BROKEN, which `why` says. Owned by its flight (mcp.c).
 */
#ifndef MUXD_MUXLET_MCP_ANSWER_H
#define MUXD_MUXLET_MCP_ANSWER_H

#include "base/buf.h"
#include "base/events.h"
#include "base/http1.h"

#define MCP_MESSAGE_MAX (8u * 1024 * 1024)
#define MCP_SESSION_MAX 1024
#define MCP_VERSION_MAX 40

enum mcp_answer_state { ANSWER_HEAD, ANSWER_JSON, ANSWER_EVENTS, ANSWER_SKIPPED, ANSWER_WHOLE, ANSWER_BROKEN };

struct mcp_answer {
	enum mcp_answer_state state;
	int status;                    /* 0: its head is not whole */
	bool streams;                  /* its content is events */
	char session[MCP_SESSION_MAX]; /* that it names; "": none */
	struct http1_body body;
	struct buf head, content;
	struct events events;
	char why[120]; /* it is broken: "sends ..." */
};

void mcp_answer_init(struct mcp_answer *a);
void mcp_answer_finish(struct mcp_answer *a);
/* A message, without line ends, valid for the call alone. Not 0: the rest is left. */
typedef int mcp_message_fn(void *arg, const char *p, size_t n);
/* 0: more is to come; 1: it is whole; ERR_PROTOCOL: it is broken; and what fn says. */
int mcp_answer_feed(struct mcp_answer *a, const void *p, size_t n, mcp_message_fn *fn, void *arg);
/* Nothing comes any more. 1; ERR_PROTOCOL: it broke off; and what fn says. */
int mcp_answer_end(struct mcp_answer *a, mcp_message_fn *fn, void *arg);

/* Is the message the answer to the request of that id, as the request spells it? */
bool mcp_message_answers(const char *p, size_t n, const char *id);
/* The version that an answer to `initialize` settles on. False: it names none that can stand in a field. */
bool mcp_message_version(const char *p, size_t n, char out[MCP_VERSION_MAX]);

#endif
