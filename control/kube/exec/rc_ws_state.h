/*
 * rc_ws_state.h - what rc_ws.c (addresses, states, deadlines, answers) and rc_ws_io.c
 * (bytes and frames) share. Internal to them.
 */
#ifndef CONTROL_KUBE_EXEC_RC_WS_STATE_H
#define CONTROL_KUBE_EXEC_RC_WS_STATE_H

#include "base/buf.h"
#include "control/kube/exec/rc_client.h"
#include "control/kube/exec/rc_tls.h"
#include "control/kube/exec/rc_ws.h"

#include <netinet/in.h>

enum rc_ws_state { RC_WS_CONNECTING, RC_WS_PROXY, RC_WS_TLS, RC_WS_ASKED, RC_WS_OPEN, RC_WS_DEAD };

/* A socket and its poll; the poll outlives what it belonged to until the loop let go of it. */
struct rc_ws_socket {
	uv_poll_t poll;
	int fd;
	int polled; /* UV_* asked for */
};

struct rc_ws {
	struct rc_client *client;
	const struct rc_ws_ops *ops; /* NULL: closed by its owner */
	void *arg;
	enum rc_ws_state state;
	struct rc_ws_socket *socket;
	SSL *ssl; /* NULL: no TLS, or not yet */
	uv_timer_t timer;
	struct rc_task task;
	unsigned busy; /* our functions on the stack: not to be freed under them */

	/* where to, and what to say there */
	struct rc_tls *tls;                                 /* NULL: none */
	char *server, *addresses, *proxy_host, *proxy_auth; /* proxy_host: "host:port" for CONNECT; auth: "Basic ..." */
	uint16_t connect_port;
	const char *next;               /* in addresses; NULL: none is left */
	char address[INET6_ADDRSTRLEN]; /* the present one */
	struct buf head;                /* of the request, without the key */
	char key[WSFRAME_KEY_LEN + 1];
	char offer[64];
	uint64_t deadline_ns, attempt_ns; /* for all of it, for the present address */

	bool reading, want_write;
	bool hung_up; /* the poll told of an error, and tells no more */
	bool mute;    /* nothing more can be written */
	bool ended;   /* nothing more can be read */
	bool released, told;
	struct buf out;    /* what the socket did not take yet: may hold the token */
	struct buf answer; /* an HTTP answer */
	struct wsframe wire;
	uint8_t pong[WSFRAME_CONTROL_MAX]; /* the last ping's, to be answered */
	uint8_t pong_len;
	bool pong_due;
	bool peer_closed;
	struct rc_ws_end end;
};

/* rc_ws_io.c */

/* Bytes taken; 0: none now (look at w->ended), never more than n. */
size_t rc_ws_get(struct rc_ws *w, uint8_t *p, size_t n);
/* Something lies inside OpenSSL, where no poll sees it. */
bool rc_ws_holds_input(const struct rc_ws *w);
/* As much of w->out as the socket takes. True: all of it. */
bool rc_ws_flush(struct rc_ws *w);
/* p goes out, under TLS where there is some; what the socket does not take waits in w->out. */
void rc_ws_put(struct rc_ws *w, const uint8_t *p, size_t n);
/* What OpenSSL has written goes out. */
void rc_ws_drain_tls(struct rc_ws *w);
/* Takes frames apart; false: no more is to be read of this connection. */
bool rc_ws_take(struct rc_ws *w, uint8_t *p, size_t n);
void rc_ws_read_messages(struct rc_ws *w);
void rc_ws_write_messages(struct rc_ws *w);

#endif
