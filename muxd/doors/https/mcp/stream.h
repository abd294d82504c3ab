/*
 * stream.h - an answer as server-sent events (WHATWG HTML, 9.2): that of a tools/call, or the stream that a client of
 * the old era keeps open.
 *
 * Of the old era a stream outlives its connection: the call goes on, its answer is kept for a while, and a GET with
 * Last-Event-ID has it. Of the new era the connection is the call: closing it cancels.
 *
 * States: RUNNING (its call goes on, or it is one that stays open) -> ANSWERED (kept for who comes back) -> freed.
 */
#ifndef MUXD_DOORS_HTTPS_MCP_STREAM_H
#define MUXD_DOORS_HTTPS_MCP_STREAM_H

#include "muxd/doors/https/mcp/call.h"
#include "muxd/doors/https/mcp/message.h"
#include "muxd/doors/https/mcp/session.h"

struct mcp_stream;

#define MCP_STREAMS_MAX   1024
#define MCP_STREAMS_SHARE (MCP_STREAMS_MAX / 2) /* of one principal */
#define MCP_STAYS_OPEN    "open"                /* as an event's id: nothing came before it that could be read again */

struct mcp_stream_ask {
	struct http_exchange *x;           /* whose answer it becomes */
	const struct mcp_session *session; /* NULL: of the new era */
	const json_t *id;                  /* of the request; NULL: it has none, and stays open */
	const json_t *progress;            /* progressToken; NULL */
};

/* All streams, and the tick that keeps them alive. */
struct mcp_streams;
int mcp_streams_create(struct hub *hub, struct mcp_streams **out);
void mcp_streams_close(struct mcp_streams *all); /* calls go on without them */

/* The head is sent at once. ERR_LIMIT, ERR_NOMEM: nothing was answered. */
int mcp_stream_open(struct mcp_streams *all, const struct mcp_stream_ask *ask, struct mcp_stream **out);
void mcp_stream_refuse(struct http_exchange *x, int rc); /* says so, with the limit */
/* The call that it tells of, once; it is the stream's from there on. */
int mcp_stream_call(struct mcp_stream *s, const struct mcp_caller *who, const struct mcp_wish *w);
/* The same of a request to a server inside a sandbox: its own notices of progress, its own result. */
struct inside_request;
void mcp_stream_through(struct mcp_stream *s, const struct mcp_caller *who, const struct inside_request *w);
/* x becomes the listener of a stream of this session again, behind the event `last`. ERR_NOT_FOUND. */
int mcp_stream_resume(struct mcp_streams *all, struct http_exchange *x, const struct mcp_session *session,
		      const char *last);
/* Is there one that stays open for this session? */
bool mcp_stream_listens(const struct mcp_streams *all, const struct mcp_session *session);
/* The call of that request, as `notifications/cancelled` has it. */
void mcp_stream_cancel(struct mcp_streams *all, const struct mcp_session *session, const json_t *id,
		       const char *reason);
/* The session has ended: what is kept for it goes, and what runs is let run. */
void mcp_stream_end_all(struct mcp_streams *all, const struct mcp_session *session);
bool mcp_streams_ended(const struct mcp_streams *all, const struct mcp_session *session); /* of the newest that did */

#endif
