/*
 * runtime.h - the server that agent-sandbox's SDK expects on port 8888 of a sandbox, answered here (router.runtime).
 *
 * Its five calls are rounds and operations on files, with all that those are: the same checks, records and audit
 * events. One table says which is which, and how ours are told in its words. A request for it has the router's fields
 * (X-Sandbox-ID, -Namespace, -Port 8888 or none), and its grant by Bearer or as the password of Basic; errors are
 * {"detail": "..."}. docs/agent-sandbox.md.
 *
 * The exchange owns what is kept of such a request (http_dialect.drop).
 */
#ifndef MUXD_DOORS_HTTPS_RUNTIME_H
#define MUXD_DOORS_HTTPS_RUNTIME_H

#include "muxd/doors/https/http.h"

#define RUNTIME_PORT        "8888"
#define RUNTIME_PORT_NUMBER 8888
#define RUNTIME_TYPE_MAX    256

/* A request's head says this beside method and path; "" where a field is missing. */
struct runtime_fields {
	char id[AGENT_NAME_MAX + 1];
	char space[64];
	char timeout[32];            /* X-Sandbox-Timeout, seconds */
	char type[RUNTIME_TYPE_MAX]; /* Content-Type */
};

/* The exchange is the runtime's from here on: errors, too, are in its words. ERR_NOMEM. */
int runtime_adopt(struct http_exchange *x, const struct runtime_fields *f);
/* As route_find(), of its own table. */
int runtime_route(struct http_exchange *x, struct err *e);

#endif
