/*
 * request.h - a call of a door: under which grant, and where it came from.
 *
 * Values: whoever goes on later has a copy (request_marked(), without the token). Made by broker_authenticate(), ahead
 * of every other call of the broker.
 */
#ifndef MUXD_HUB_CORE_REQUEST_H
#define MUXD_HUB_CORE_REQUEST_H

#include "base/ids.h"
#include "base/json.h"
#include "control/work/work.h"
#include "policy/grant.h"
#include "policy/verdict.h"

struct err;
struct hub;

/*
 * Where a call comes from, before anybody is known: each door makes it in one place. endpoint: what is asked for, as
 * the door's own table names it ("GET /v1/rounds/{id}", "exec", "password"); no part of it is the client's text.
 * Borrowed.
 */
struct origin {
	const char *door;     /* "ssh", "rest", "web", "local" (static strings) */
	const char *peer;     /* address and port, or "uid 1000" */
	const char *endpoint; /* "": none yet */
};
#define ENDPOINT_MAX 79

#define POLICY_PARTS_MAX 3 /* of one call: a terminal, artifacts; image and resources, a workspace, a copy's name */

/* The policy's verdict that lets a request's call through, for its events; version "": there is no policy. */
struct policy_mark {
	char rule[POLICY_RULE_MAX], version[POLICY_VERSION_LEN];
	char also[POLICY_PARTS_MAX][POLICY_RULE_MAX]; /* what let its parts through, each once, "" behind the last */
};

/* Values; copied by the broker. */
struct request {
	struct grant grant;
	struct id id; /* request_id in errors and logs */
	const char *door;
	char peer[64];
	char endpoint[ENDPOINT_MAX + 1];
	struct policy_mark policy;       /* of the broker's own copies */
	struct work_ids work;            /* the lease that it is done for, where the caller knows; in every event */
	char token[GRANT_TOKEN_MAX + 1]; /* as presented: what the recorder is asked with; wipe with request_finish() */
};

/* All of rq but its token, and the mark that *io has: for events. */
void request_marked(const struct request *rq, struct request *io);
void request_begin(struct request *rq, const struct origin *from); /* without a grant yet */
/* Another thing is asked for under the grant of a log-in. */
void request_endpoint(struct request *rq, const char *endpoint);
void request_finish(struct request *rq); /* its token is wiped */
/* A part of the call was allowed, too. Without a version, as there is no policy, that is nothing. */
void policy_mark_join(struct policy_mark *io, const struct policy_mark *part);

/* How a call is answered, once, from the loop: result is the callee's, NULL where rc tells of a failure. */
typedef void broker_json_done(void *arg, int rc, const struct err *e, json_t *result);

#endif
