/*
 * router_state.h - inside the router: what one routed request holds, and what its parts ask of each other.
 *
 * router.c reads the request's head, opens the port, has the turns and the time and ends a request, well or not;
 * router_flow.c moves bytes between the client's TLS stream and the port's session; router_state.c makes it and lets
 * go. Each calls those behind it alone.
 *
 * An end of the connection frees the router at once, unless the hub will call back: nothing of it is touched
 * afterwards.
 */
#ifndef MUXD_DOORS_HTTPS_ROUTER_ROUTER_STATE_H
#define MUXD_DOORS_HTTPS_ROUTER_ROUTER_STATE_H

#include "base/clock.h"
#include "muxd/doors/https/conn.h"
#include "muxd/doors/https/router/router.h"
#include "muxd/doors/https/router/router_head.h"
#include "muxd/hub/core/hub.h"

#define ROUTER_HEAD_MAX      (32 * 1024) /* of a request */
#define ROUTER_ANSWER_MAX    (64 * 1024) /* of an answer's head */
#define ROUTER_IN_MAX        (32 * 1024) /* of the client's bytes that wait for the program */
#define ROUTER_INTERIM_MAX   16          /* answers of 1xx before the one that counts */
#define ROUTER_INTERIM_BYTES (16 * 1024)
#define ROUTER_STEPS         16 /* pieces each way in one turn */

enum router_state { HEAD, OPENING, ASKING, ANSWERING, UPGRADED, REPLY, LINGER };

struct router {
	struct conn *c; /* NULL: gone, while the hub still works for us */
	SSL *ssl;
	enum router_state state;
	bool untouched;         /* libwebsockets knows nothing of the request */
	bool busy;              /* the hub will call back */
	struct router_head ask; /* texts in it are gone after HEAD */
	struct attachment *a;   /* NULL: none yet, or over */
	struct buf in;          /* HEAD: what came; then: the client's bytes for the program */
	struct buf head;        /* for the program, before them */
	struct buf answer;      /* ASKING: what came of the answer */
	struct buf out;         /* for the client */
	struct http1_body up, down;
	unsigned interims; /* answers of 1xx so far */
	size_t interim_bytes;
	bool behind;               /* bytes came that are none of the request's */
	bool client_end, end_told; /* UPGRADED: the client has said all; and the program knows it */
	bool program_end;          /* nothing more comes from the program */
	int failed;                /* why nothing more is forwarded: ERR_*, 0: it goes on */
	char why[200];
	bool full;    /* the socket takes no more now */
	size_t again; /* SSL_write() wants the same bytes again, so many */
	bool shut;    /* LINGER: the client was told the end */
	int status;   /* of the answer */
	uint64_t moved_ns, hold_until_ns;
};

/* router_state.c */
/* The router has the connection from here on, in HEAD. NULL: no memory, the connection is the caller's still. */
struct router *router_create(struct conn *c, bool untouched);
void router_set_state(struct router *r, enum router_state to);
void router_let_go(struct router *r); /* of the port's session */
void router_free(struct router *r);
void router_kill(struct router *r); /* with its connection; the client hears nothing */

/* router_flow.c */
/* Bytes, 0: none now, -1: the client has said all it will; ERR_EOF: it is gone. */
ssize_t router_tls_read(struct router *r, uint8_t *p, size_t n);
int router_take_in(struct router *r, const uint8_t *p, size_t n); /* of the client's; ERR_INVAL, ERR_NOMEM */
bool router_wants_input(const struct router *r);
/* Of r->out and of the answer. 1: something moved, 0, ERR_EOF: the client is gone, ERR_PROTOCOL: r->why. */
int router_feed_client(struct router *r);
/* Both ways, what can be moved. 0: done for now, 1: there may be more; else as above, ERR_INVAL: broken chunks. */
int router_move(struct router *r);

#endif
