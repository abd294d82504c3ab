/*
 * question.h - one call of the API for a request of MCP that is answered at once: by `then`, which has the API's
 * answer.
 *
 * The question owns itself until it was answered. Its exchange may go meanwhile, as any (http.h).
 */
#ifndef MUXD_DOORS_HTTPS_MCP_QUESTION_H
#define MUXD_DOORS_HTTPS_MCP_QUESTION_H

#include "muxd/doors/https/inner.h"
#include "muxd/doors/https/mcp/call.h"
#include "muxd/doors/https/mcp/message.h"

/* A request; the answer goes to x. who is borrowed for the call, and copied. */
struct mcp_question {
	struct http_exchange *x;
	struct mcp_caller who;
	const json_t *id;
	bool new_era;
	int verb;         /* the asker's own */
	const char *text; /* likewise; copied */
	const char *uri;  /* of the resource that it is about, for errors; copied; NULL */
	/* *out_code: of JSON-RPC, 0: what is returned is the result (NULL: no memory), else an error with *out_text. */
	json_t *(*then)(const struct mcp_question *q, const struct inner_answer *a, int *out_code,
			const char **out_text);
};

/* ask: without the fields that are the caller's. */
void mcp_question_ask(const struct mcp_question *q, struct inner_ask *ask);
/* The answer where nothing has to be asked. result is stolen. */
void mcp_question_reply(const struct mcp_question *q, json_t *result);
void mcp_question_refuse(const struct mcp_question *q, int code, const char *text);

#endif
