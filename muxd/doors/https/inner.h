/*
 * inner.h - a call of the API that the daemon makes by itself: an exchange without a connection.
 *
 * A dialect whose one request is several calls of ours (MCP) names a row of the route table, and gets what the row's
 * handler answers: JSON, bytes up to a limit, or the error as it was before it became text. The handler, its checks,
 * its record and its audit events are those of the API; nothing is done twice.
 *
 * Owned by the door until `done` was called, once, from the loop and never from inside inner_begin(); or until
 * inner_abandon(), which ends nothing of what was begun: as for a client that went away.
 *
 * States: ASKED (a body is fed where the row takes one as it comes) -> GATHERING (the answer's bytes) -> TOLD.
 */
#ifndef MUXD_DOORS_HTTPS_INNER_H
#define MUXD_DOORS_HTTPS_INNER_H

#include "muxd/doors/https/http.h"

#define INNER_QUERY_MAX 8

struct inner;

/* Strings and bytes are copied. */
struct inner_ask {
	struct hub *hub;
	const struct http_api *api;
	struct rest_metrics *metrics;
	const struct request *rq; /* whose call it is */
	const char *peer;
	bool local;
	enum http_method method;
	const char *pattern; /* of the row */
	const char
	    *names[HTTP_PARAMS_MAX]; /* of its {names}, in order, as they are: nothing in them is a slash too many */
	const char *query[INNER_QUERY_MAX]; /* "key=value", not encoded; NULL behind the last */
	const void *body;
	size_t body_len;
	const char *range;  /* as of the field Range; NULL */
	bool only_new;      /* If-None-Match: * */
	size_t content_max; /* bytes of an answer that is none of JSON; the rest of a longer one is left */
};

/* Borrowed for the call. rc 0: json, or content where json is NULL. */
struct inner_answer {
	int rc;
	const char *message;
	const struct err_begun *begun; /* of an error */
	int status;
	const json_t *json;
	const uint8_t *content;
	size_t content_len;
	bool more;           /* content was longer */
	bool repeated;       /* the round began before, by another call with its exec_id */
	const char *headers; /* lines of the answer's own (ETag, Content-Range) */
};
typedef void inner_done(void *arg, const struct inner_answer *a);

/* ERR_INVAL: a name is none that the row takes. ERR_NOMEM. */
int inner_begin(const struct inner_ask *ask, inner_done *done, void *arg, struct inner **out, struct err *e);
void inner_abandon(struct inner *i); /* NULL-safe */

#endif
