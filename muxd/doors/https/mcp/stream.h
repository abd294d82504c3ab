/*
 * stream.h - an answer as server-sent events (WHATWG HTML, 9.2): that of a tools/call, or the stream that a client of
 * the old era keeps open.
 *
 * Of the old era a stream outlives its connection: the call goes on, its answer is kept for a while, and a GET with
 * Last-Event-ID has it. Of the new era the connection is the call: closing it cancels. There a request to a server
 * inside is answered by one object where nothing is told ahead of its answer.
 *
 * What a server inside asks is an event of the old era's stream, a request of muxd's with an id of muxd's; the response
 * to that is a message of its session (mcp_stream_answer()). Of the new era it ends the stream (asking.h).
 *
 * States: RUNNING (its call goes on, or it is one that stays open) -> ANSWERED (kept for who comes back) -> freed.
 */
#ifndef MUXD_DOORS_HTTPS_MCP_STREAM_H
#define MUXD_DOORS_HTTPS_MCP_STREAM_H

#include "muxd/doors/https/mcp/call.h"
#include "muxd/doors/https/mcp/message.h"
#include "muxd/doors/https/mcp/session.h"

struct mcp_askings;
struct mcp_stream;

#define MCP_STREAMS_MAX   1024
#define MCP_STREAMS_SHARE (MCP_STREAMS_MAX / 2) /* of one principal */
#define MCP_STAYS_OPEN    "open"                /* as an event's id: nothing came before it that could be read again */

struct mcp_stream_ask {
	struct http_exchange *x;           /* whose answer it becomes */
	const struct mcp_session *session; /* NULL: of the new era */
	const json_t *id;                  /* of the request; NULL: it has none, and stays open */
	const json_t *progress;            /* progressToken; NULL */
	bool late;                         /* nothing is sent before there is something to say; of the new era */
	bool tool;                         /* its failures are results, as tools have them */
	bool cached;                       /* its result says how long it holds; of the new era */
	unsigned log_level;                /* log_level.h; of the new era */
};

/* All streams, and the tick that keeps them alive. */
struct mcp_streams;
int mcp_streams_create(struct hub *hub, struct mcp_askings *askings, struct mcp_streams **out);
void mcp_streams_close(struct mcp_streams *all); /* calls go on without them */

/* The head is sent at once. ERR_LIMIT, ERR_NOMEM: nothing was answered. */
int mcp_stream_open(struct mcp_streams *all, const struct mcp_stream_ask *ask, struct mcp_stream **out);
void mcp_stream_refuse(struct http_exchange *x, int rc); /* says so, with the limit */
/* The call that it tells of, once; it is the stream's from there on. */
int mcp_stream_call(struct mcp_stream *s, const struct mcp_caller *who, const struct mcp_wish *w);
/* The same of a request to a server inside a sandbox: its own notices of progress, its own result. */
struct inside_request;
void mcp_stream_through(struct mcp_stream *s, const struct mcp_caller *who, const struct inside_request *w);
/* The same of one that has waited for its caller: it is the stream's from here on. */
struct mcp_asking;
void mcp_stream_take(struct mcp_stream *s, struct mcp_asking *a);
/* Instead of any of these: how a request to a server inside ended, or a message, which is stolen. */
void mcp_stream_inside(struct mcp_stream *s, int rc, const struct err *e, const json_t *answer);
void mcp_stream_finish(struct mcp_stream *s, json_t *message);
/* A response of that session to a question that one of its streams told: {result} or {error}. ERR_NOT_FOUND, and as
 * broker_inside_answer(). */
int mcp_stream_answer(struct mcp_streams *all, const struct mcp_session *session, struct request *rq, const json_t *id,
		      const json_t *answer, struct err *e);
/* A notice to the stream that the session keeps open, if there is one; o is stolen. */
void mcp_stream_notice(struct mcp_streams *all, const struct mcp_session *session, json_t *o);
/* The severity from which on that session hears log messages. ERR_LIMIT. */
int mcp_stream_log_level(struct mcp_streams *all, const struct mcp_holder *who, unsigned level);
/* The server's own words, or what muxd has to say: its code first, as tools have it. */
json_t *mcp_inside_error(const json_t *id, bool new_era, int rc, const struct err *e, const json_t *answer);
/* x becomes the listener of a stream of this session again, behind the event `last`. ERR_NOT_FOUND. */
int mcp_stream_resume(struct mcp_streams *all, struct http_exchange *x, const struct mcp_session *session,
		      const char *last);
/* The listener of the stream that this session keeps open is cut off: another one is about to be it. */
void mcp_stream_take_over(struct mcp_streams *all, const struct mcp_session *session);
/* Is there one that stays open for this session? */
bool mcp_stream_listens(const struct mcp_streams *all, const struct mcp_session *session);
/* The call of that request, as `notifications/cancelled` has it. */
void mcp_stream_cancel(struct mcp_streams *all, const struct mcp_session *session, const json_t *id,
		       const char *reason);
/* The session has ended: what is kept for it goes, and what runs is let run. */
void mcp_stream_end_all(struct mcp_streams *all, const struct mcp_session *session);
bool mcp_streams_ended(const struct mcp_streams *all, const struct mcp_session *session); /* of the newest that did */

#endif
