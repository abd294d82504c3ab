/*
 * conn.h - one connection of the HTTPS door.
 *
 * libwebsockets does TLS and reads request heads and bodies; it does not decide
 * when anything is answered. Its read side is switched off (rx flow control)
 * from the moment a request is complete until its answer is written, so one
 * connection works on one request. Answers are written in turns of the loop
 * outside libwebsockets' callbacks, in bounded pieces.
 *
 * A conn belongs to its door and dies with its lws (LWS_CALLBACK_WSI_DESTROY).
 *
 * States: IDLE (handshake, or waiting for a head) -> BODY -> WAITING (the
 * handler works) -> READY -> WRITING -> IDLE (keep-alive) | LINGER (the rest of
 * a refused body is thrown away) -> DEAD. DELAYED: a READY answer held back.
 * STREAM: the handler takes the body as it comes (conn_body.c).
 * WS: a terminal's WebSocket, which c->ws goes on with (muxd/doors/https/ws.h).
 * LOCAL: by the Unix socket, whose head is awaited before libwebsockets gets the connection.
 * RAW: the client did not speak HTTP. ROUTED: the connection is the router's (router.h) -> BACK: the
 * router is through, and the next turn waits for a head -> IDLE.
 */
#ifndef MUXD_DOORS_HTTPS_CONN_H
#define MUXD_DOORS_HTTPS_CONN_H

#include "muxd/doors/https/chunked.h"
#include "muxd/doors/https/http.h"
#include "muxd/doors/https/server.h"

enum conn_state {
	CONN_LOCAL,
	CONN_IDLE,
	CONN_BODY,
	CONN_STREAM,
	CONN_WAITING,
	CONN_DELAYED,
	CONN_READY,
	CONN_WRITING,
	CONN_LINGER,
	CONN_WS,
	CONN_RAW,
	CONN_ROUTED,
	CONN_BACK,
	CONN_DEAD,
};

struct ws;
struct router;
struct watch; /* of the socket */

struct conn {
	struct rest_door *door;
	const struct rest_listener *listener; /* it came by */
	struct lws *wsi;                      /* NULL until adopted */
	int fd;                               /* LOCAL; -1: libwebsockets has it */
	struct conn *prev, *next;
	struct conn *turn_next;
	bool queued;
	enum conn_state state;
	uint64_t deadline_ns; /* CLOCK_BOOTTIME; 0 = none */
	uint64_t limit_ns;    /* deadline_ns is never moved past it; 0 = none */
	char peer[64];
	struct admit_place *place;
	struct grant_line in_by; /* the grant by which it is in */
	struct http_exchange *x; /* the request in hand */
	bool keep_alive;
	bool unread; /* part of the request's body is still to come */
	bool is_chunked;
	bool reading;              /* STREAM: the read side runs */
	bool body_done, body_told; /* STREAM: all of it was read here; and its handler knows */
	bool body_broken;          /* STREAM: it is malformed, which is answered once there is a flow */
	struct chunked chunked;
	struct buf head;
	struct ws *ws; /* WS; owned */
	struct watch *watch;
	struct buf raw;        /* IDLE: what was looked at of a head that is not whole yet */
	unsigned checked;      /* heads that libwebsockets may answer: the strict reader took them */
	bool beyond;           /* it has more than these; so the connection ends behind them */
	uint64_t body_left;    /* BODY, STREAM with a length: what libwebsockets has not handed on */
	struct router *router; /* ROUTED */
	bool flushing;         /* libwebsockets was let loose to write what it buffered */
	size_t held;           /* BODY, WAITING: bytes of a stranger's body, which its door counts */
	bool answer_held;      /* READY, DELAYED, WRITING: its answer is one of those that its door counts */
};

/* conn.c: its making, its states, its turn, its end. The place is the connection's. ERR_NOMEM. */
int conn_create(const struct rest_listener *l, struct admit_place *place, const char *peer, struct conn **out);
void conn_free(struct conn *c); /* after conn_let_go() */
/* libwebsockets gets the connection and its descriptor. False: both are gone. */
bool conn_adopt(struct conn *c, int fd);
void conn_set_state(struct conn *c, enum conn_state to);
void conn_queue(struct conn *c);           /* a turn, soon */
void door_stay_awake(struct rest_door *d); /* the loop does not sleep until awake is stopped */
void conn_refuse(struct conn *c, int status, int rc, const char *message); /* answer and close */
void conn_refuse_for(struct conn *c, const struct err *e);                 /* the same of an error, with its status */
void conn_log(const struct conn *c, int status);
void conn_drop(struct conn *c); /* the request in hand and the watch; nothing more will be answered */
/* From outside of libwebsockets' callbacks. A router or a WebSocket that has the connection lets go of it before. */
void conn_kill(struct conn *c);
bool conn_client_gone(const struct conn *c); /* seen without reading */
static inline void conn_read_stop(struct conn *c)
{
	(void)lws_rx_flow_control(c->wsi, 0);
}
static inline void conn_read_start(struct conn *c)
{
	(void)lws_rx_flow_control(c->wsi, 1);
}

/* conn.c: waiting on the socket beside libwebsockets. */
typedef void watch_fn(struct conn *c, int events);
int watch_set(struct conn *c, int events, watch_fn *fn); /* uv_poll events; 0: none */
void watch_destroy(struct conn *c);                      /* NULL-safe */
/* libwebsockets is told that the socket is ready for event (poll). False: the connection is gone with it. */
bool conn_service(struct conn *c, short event);
bool conn_take_off(struct conn *c, int n); /* n bytes that were peeked at; false: the connection is lost */
/* What came, past libwebsockets: bytes; 0: nothing is here, -1: the client has ended its side, ERR_EOF: it is lost. */
ssize_t conn_recv(struct conn *c, uint8_t *p, size_t n);
bool conn_has_pending(const struct conn *c); /* bytes that came and that the socket does not tell of any more */

/* conn_admit.c: its place at the door. */
/* NULL: no place, or no memory; fd is the caller's in any case. *out_victim: who has to end now, or NULL. */
struct conn *conn_enter(struct rest_listener *l, int fd, const struct sockaddr *sa, struct conn **out_victim);
int conn_let_in(struct conn *c, const struct grant *g, struct err *e); /* this grant is valid; ERR_LIMIT: no room */
int conn_judge(struct conn *c, int rc, struct err *e); /* a head was looked at with this result: rc, or ERR_LIMIT */
void conn_check_in(struct conn *c);                    /* who is in by a grant that has ended is a stranger again */
bool conn_failed(struct conn *c);                      /* a token was refused; true: hold the answer back */

/*
 * conn_hold.c: what of the memory of all a connection holds. A body or an answer is bounded by itself; here is what
 * many of them may hold together, of strangers and of one principal.
 */
extern const struct hold_limits hold_limits; /* of a door that is opened */
/* Some of a body came. False: strangers hold too much, and it was this connection that was refused for it. */
bool conn_hold_body(struct conn *c);
static inline void conn_hold_no_body(struct conn *c)
{
	c->door->bodies_held -= c->held;
	c->held = 0;
}
/*
 * A call is whole. False: its grant reads too little of the answers it has, and it was answered 429 instead of being
 * begun.
 */
bool conn_hold_call(struct conn *c);
/* An answer is made. Where there is no room for it, it becomes ERR_ANSWER_LOST. */
void conn_hold_answer(struct conn *c);
static inline void conn_hold_no_answer(struct conn *c)
{
	c->door->answers_held -= c->answer_held;
	c->answer_held = false;
}

#endif
