/*
 * server.h - the HTTPS door, as its connections see it: their list, their queue of turns, and buffers for one turn.
 *
 * The door owns its connections. A turn is taken behind the loop's wait, where no callback of libwebsockets is under
 * way; while connections wait for theirs the loop does not sleep.
 *
 * States: open -> closing (clients were told, libwebsockets lets go in the loop's next turns) -> freed.
 */
#ifndef MUXD_DOORS_HTTPS_SERVER_H
#define MUXD_DOORS_HTTPS_SERVER_H

#include "muxd/doors/admit.h"
#include "muxd/doors/https/metrics.h"
#include "muxd/doors/https/origin.h"

#include <libwebsockets.h>
#include <uv.h>

#define PIECE_MAX 16384       /* one TLS record */
#define FRAME_MAX (64 * 1024) /* of a WebSocket, ours */

struct conn;
struct rest_door;
struct mcp;

/* One of the door's two sockets: TCP, or the Unix socket of this machine, whose peers are told apart by their uid. */
struct rest_listener {
	struct rest_door *door;
	struct admit *admit; /* who floods one leaves the other's places alone */
	int fd;
	bool local;
	uv_poll_t poll;
	uv_timer_t pause;
};

enum { LISTEN_TCP, LISTEN_LOCAL, LISTENERS };

/* Bytes that are held of the memory of all at most (conn_hold.c). */
struct hold_limits {
	size_t bodies;  /* of strangers */
	size_t pages;   /* answers to strangers */
	size_t begins;  /* answers to one grant, with which another call of it is begun */
	size_t own;     /* answers to one grant */
	size_t share;   /* answers to one principal, with those to grants made from its own */
	size_t answers; /* to all of them */
};

struct rest_door {
	struct hub *hub;
	uv_loop_t *loop;
	struct lws_context *lws;
	struct lws_vhost *vhost;
	int cert_fd, key_fd;
	uint8_t cookie_key[WEB_COOKIE_KEY_LEN]; /* marks the cookies that the door makes */
	struct rest_listener listeners[LISTENERS];
	struct err tls_err;
	struct conn *conns, *adopting;
	struct conn *serving; /* libwebsockets is made to read for it; NULL again when it dies meanwhile */
	struct conn *turns_head, *turns_tail;
	struct rest_metrics metrics;
	struct mcp *mcp;
	uv_timer_t sweep_timer;
	uv_check_t turns;
	uv_idle_t awake;  /* while connections wait for their turn */
	unsigned handles; /* uv handles not yet closed */
	struct hold_limits hold;
	size_t bodies_held;    /* of hold.bodies */
	unsigned answers_held; /* connections with an answer that conn_hold.c counts */
	bool closing;
	unsigned close_turns;
	uint8_t piece[LWS_PRE + PIECE_MAX];
	uint8_t frame[LWS_PRE + FRAME_MAX]; /* a message of a WebSocket */
	uint8_t input[FRAME_MAX];           /* what a WebSocket's client sent */
};

#endif
