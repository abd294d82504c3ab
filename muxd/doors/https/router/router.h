/*
 * router.h - a request with X-Sandbox-ID, on its way to a port in a sandbox and back.
 *
 * The connection is the router's from the request's head until both bodies are
 * through: it reads and writes the TLS stream itself (libwebsockets' read side
 * stays off), so that any method, path, body and upgrade passes as it is. Behind it
 * is a session of kind port; what waits between the two is bounded on both sides.
 *
 * States: HEAD (its end is still to come) -> OPENING (the sandbox is looked for,
 * woken, the port connected to) -> ASKING (the answer's head is awaited) ->
 * ANSWERING -> back to the door, or LINGER | UPGRADED -> LINGER. REPLY: an answer
 * of our own (an error) -> as after ANSWERING. An answer that cannot become whole is
 * cut off, so that it does not look whole.
 *
 * Owned by its conn.
 */
#ifndef MUXD_DOORS_HTTPS_ROUTER_ROUTER_H
#define MUXD_DOORS_HTTPS_ROUTER_ROUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conn;
struct router;

/*
 * The n bytes at p, already taken off the stream, are the beginning of such a request. untouched: libwebsockets has
 * seen none of them, so it can go on with the connection later.
 */
void router_begin(struct conn *c, const uint8_t *p, size_t n, bool untouched);
/* A head that nobody takes: its answer, and the end of the connection. What came of it was taken off the stream. */
void router_turn_away(struct conn *c, int status, int rc, const char *message);
void router_turn(struct router *r);                   /* of the loop, asked for with conn_queue() */
void router_sweep(struct router *r, uint64_t now_ns); /* time; may end the connection */
void router_destroy(struct router *r);                /* NULL-safe; the connection is over */

#endif
