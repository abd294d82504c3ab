/*
 * route.h - the table of what the API answers, and finding a row in it.
 *
 * Patterns are paths with {names}, each one segment; {agent} may have up to three (namespace/pod/container) and {task}
 * up to eight, written with slashes or as %2F, which libwebsockets decodes before we see it. What would be an operation
 * on an agent is one: a container called "rounds" is shown under no path that ends with its name. The document
 * docs/openapi.yaml lists the same rows (tests/unit/test_rest_route.c compares
 * them). A row says which right it asks for; the broker checks it.
 */
#ifndef MUXD_DOORS_HTTPS_ROUTE_H
#define MUXD_DOORS_HTTPS_ROUTE_H

#include "muxd/doors/https/http.h"

struct conf;

enum route_auth {
	ROUTE_OPEN,  /* nothing */
	ROUTE_GRANT, /* a bearer grant */
	ROUTE_SHOWN, /* the same, or a token of an outside issuer as it is, which the handler has exchanged; for MCP */
	ROUTE_BASIC, /* the same, or as the password of Basic; no cookie */
	ROUTE_CLUSTER, /* a bearer grant, or a token of the cluster or an outside issuer, which the handler has reviewed
			*/
	ROUTE_EDGE,    /* an edge's call, which the handler has looked at (broker_edge.h); nothing else opens it */
	ROUTE_METRICS, /* a scraper's token, a grant with scope observe or admin; metrics.open_on_loopback: nothing
			  there */
};
enum route_body {
	BODY_NONE,
	BODY_OPTIONAL,
	BODY_REQUIRED,
	BODY_STREAM, /* of any size; the handler is entered before it, and takes it through x->flow */
};

struct route {
	enum http_method method; /* GET answers HEAD too */
	const char *pattern;
	void (*handle)(struct http_exchange *x);
	enum route_auth auth;
	enum route_body body;
	const char *scope; /* for people: docs and messages */
	const char *query; /* the keys that the query may have, "a,b"; NULL: the handler looks at them */
	const char *call;  /* which of its calls the handler makes; NULL: it has one */
};

/*
 * A row that takes a body from whoever shows no grant. wanted: what can be said against it ahead of the body, by the
 * configuration; 0, or ERR_*.
 */
struct route_open {
	void (*handle)(struct http_exchange *x);
	size_t body_max; /* bytes; api.max_body bounds it as well */
	int (*wanted)(const struct conf *c, struct err *e);
};

enum { ROUTES_MAX = 160 };

const struct route *route_table(size_t *out_n);
/*
 * Sets x->route and x->params from method and path. ERR_NOT_FOUND; ERR_INVAL
 * with x->allow set when the path exists with other methods (answer 405).
 */
int route_find(struct http_exchange *x, struct err *e);
extern const struct http_api route_api; /* route_find(), route_enter() */
/* NULL: no body is taken without a grant. */
const struct route_open *route_open_find(const struct route *r);
/*
 * After route_authorize(): how long a body may be. Without a grant it is the row's own limit, and ERR_UNSUPPORTED where
 * nothing of what it would be for is configured.
 */
int route_body_max(const struct http_exchange *x, size_t *out, struct err *e);
/* To be said behind that a body is too long: what to do where a token is shown that is not known yet; else "". */
#define ROUTE_FIRST_SMALL ": begin with a small request (initialize, server/discover), then send this one"
const char *route_body_hint(const struct http_exchange *x);
/*
 * The request is whole: its handler, once the names and ids of the path and the keys of the query are what they can be.
 * x->object is the {id} of a path below /v1.
 */
void route_enter(struct http_exchange *x);
/* A grant, for whatever is asked: fills x->rq. What is refused is audited. token NULL: none was sent. */
int route_authenticate(struct http_exchange *x, const char *token, size_t len, struct err *e);
/*
 * The token of an Authorization header, or NULL, by the route's rule; fills
 * x->rq. token NULL: none was sent.
 */
int route_authorize(struct http_exchange *x, const char *token, struct err *e);

#endif
