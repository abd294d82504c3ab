/*
 * port.h - connections to ports inside: which may be asked for, and how one that ended is told.
 */
#ifndef MUXD_HUB_SESSION_PORT_H
#define MUXD_HUB_SESSION_PORT_H

#include "base/json.h"

#include <stdint.h>

struct hub;
struct launch;
struct session;
struct session_result;
struct err;

#define PORT_CLOSED "closed from its client's side" /* the kill of a connection that was let go: it ended well */
int port_allowed(const struct hub *h, uint16_t port, struct err *e); /* ERR_PORT_DENIED */
json_t *port_json(const struct launch *l);
int port_result(const struct session *s, const struct session_result *r, struct err *e); /* 0, or for its client */

#endif
