/*
 * router_head.h - what the router reads of a request's head, and the heads it passes on in both directions.
 *
 * A request is routed when it has the field X-Sandbox-ID: then it is not for the
 * API but for a port in a sandbox. Pure; the rules are RFC 9110, 7.6 (intermediaries): fields
 * that are for one hop are taken off, Via is added. What is ours is never passed
 * on: Authorization, X-Sandbox-*, and cookies whose name begins with "muxd" or "__Host-muxd". Of an answer, what would
 * act on the daemon's own origin stays here, too (router_fields.h).
 */
#ifndef MUXD_DOORS_HTTPS_ROUTER_ROUTER_HEAD_H
#define MUXD_DOORS_HTTPS_ROUTER_ROUTER_HEAD_H

#include "base/http1.h"
#include "base/ids.h"

struct buf;
struct err;

#define ROUTER_TOKEN_MAX 8192

struct router_head {
	char id[AGENT_NAME_MAX + 1]; /* agent, or sandbox_id */
	char space[64];              /* X-Sandbox-Namespace; "": none */
	uint16_t port;
	bool upgrade;    /* to another protocol: after 101 both sides say what they like */
	bool head;       /* HEAD */
	bool keep_alive; /* the client wants its connection back */
	unsigned minor;  /* it speaks HTTP/1.minor */
	struct http1_body body;
	struct http1_text target; /* for the server, without what only a proxy needs */
	bool rootless;            /* the target lacks its first "/" */
	struct http1_text token;  /* the bearer token; p NULL: none */
	char use[256];            /* method and path, for the record: without query, cut */
};

/* Has what is there of a head the field? Looks at line beginnings alone; the head need be neither whole nor
 * well-formed. */
bool router_asked(const void *p, size_t n);
/* ERR_INVAL names the field. */
int router_head_read(const struct http1_head *h, struct router_head *out, struct err *e);
/* The head for the server inside; peer: the client's address with port. ERR_TOO_LARGE, ERR_NOMEM: out is full. */
int router_head_request(const struct http1_head *h, const struct router_head *r, const char *peer, struct buf *out);
/* The head for the client. body: of the answer; keep_alive: its connection stays. request_id: of ours. */
int router_head_answer(const struct http1_head *h, const struct http1_body *body, bool upgraded, bool keep_alive,
		       const char *request_id, struct buf *out);

#endif
