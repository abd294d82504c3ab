/*
 * conn_http.h - a request over libwebsockets: its head, its body, its answer; and what drives its connection.
 *
 * From top to ground: conn_events.c is told what happens and calls who has the connection; conn_write.c writes answers
 * and goes on to conn_await.c, which waits for a head and gives it to libwebsockets or to the router; conn_head.c reads
 * it as libwebsockets tells it, conn_body.c the body. All of them end a connection with conn_kill(): nothing of it is
 * touched afterwards.
 */
#ifndef MUXD_DOORS_HTTPS_CONN_HTTP_H
#define MUXD_DOORS_HTTPS_CONN_HTTP_H

#include "muxd/doors/https/conn.h"

/* conn_events.c */
int conn_callback(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len);
void conn_on_turns(uv_check_t *h); /* of the loop: those that were asked for with conn_queue() */
void conn_sweep(struct conn *c, uint64_t now_ns);
void conn_farewell(struct conn *c); /* the door closes */
void conn_let_go(struct conn *c);   /* whoever has it; nothing more will be answered */
void conn_end(struct conn *c);      /* conn_kill(), whoever has it */
void conn_destroy(struct conn *c);

/* conn_write.c */
void conn_write(struct conn *c);       /* READY, WRITING: the next pieces of the answer */
void conn_flushed(struct conn *c);     /* libwebsockets wrote what it had */
void conn_write_sweep(struct conn *c); /* now and then; may end the connection */

/* conn_await.c */
void conn_await(struct conn *c);               /* IDLE: for a head */
void conn_await_local(struct conn *c, int fd); /* LOCAL: for the only one of this connection */
void conn_await_slow(struct conn *c);          /* now and then: a head that comes in pieces */
void conn_await_next(struct conn *c);          /* after an answer through libwebsockets */

/* conn_head.c */
int conn_head(struct conn *c, const char *path, size_t len);
bool conn_take_checked(struct conn *c); /* the head that libwebsockets tells of was looked at before it */
/* c->x for the request whose head is there, without done: whom it tells is the caller's. ERR_NOMEM, ERR_SYS. */
int conn_exchange(struct conn *c, const char *path);
int conn_origin(struct conn *c, bool cookie, struct err *e); /* ERR_FORBIDDEN; cookie: there has to be an Origin */
/* Its token, to be wiped and freed; NULL: none. c->x->marked: the door has made it. */
void conn_cookie(struct conn *c, char **out);
int conn_bearer(struct conn *c, char **out, struct err *e); /* the same of a bearer token; ERR_TOKEN_MALFORMED */
int conn_read_query(struct conn *c, struct err *e);

/* conn_body.c; len: as announced. */
void conn_body_begin(struct conn *c, uint64_t len);
void conn_stream_begin(struct conn *c, uint64_t len);
int conn_body(struct conn *c, const uint8_t *p, size_t n); /* some of it; -1: end the connection */
int conn_body_end(struct conn *c);                         /* libwebsockets says that it is over */
void conn_dispatch(struct conn *c);                        /* the request is whole */
void conn_await_body(struct conn *c);                      /* for more of it, where its state wants more */
void conn_wake(void *arg, struct http_exchange *x);        /* a handler can go on with a body, or an answer */

#endif
