/*
 * rc_ws_state.h - what rc_ws.c (sockets, states, deadlines) and rc_ws_lws.c (libwebsockets, TLS) share. Internal to
 * both.
 */
#ifndef CONTROL_KUBE_RC_WS_STATE_H
#define CONTROL_KUBE_RC_WS_STATE_H

#include "control/kube/rc_client.h"
#include "control/kube/rc_refusal.h"
#include "control/kube/rc_tls.h"
#include "control/kube/rc_ws.h"
#include "muxd/base/buf.h"

#include <netinet/in.h>

struct lws;

enum rc_ws_state { RC_WS_CONNECTING, RC_WS_TLS, RC_WS_ASKED, RC_WS_REFUSED, RC_WS_OPEN, RC_WS_DEAD };

/* The poll of one socket; it outlives what it belonged to until the loop let go of it. */
struct rc_ws_poll {
	uv_poll_t h;
	int fd; /* our duplicate of libwebsockets' */
};

struct rc_ws {
	struct rc_client *client;
	const struct rc_ws_ops *ops; /* NULL: closed by its owner */
	void *arg;
	enum rc_ws_state state;
	struct lws *wsi; /* NULL: none, or it is gone */
	struct rc_ws_poll *poll;
	int polled; /* UV_* asked for */
	uv_timer_t timer;
	struct rc_task task;

	/* where to, and what to say there */
	struct rc_tls *tls; /* NULL: none */
	struct lws_vhost *vhost;
	char *server, *host, *addresses, *proxy; /* proxy: "user:secret@", "" or NULL */
	uint16_t port, connect_port;
	char *next;                     /* in addresses; NULL: none is left */
	char address[INET6_ADDRSTRLEN]; /* the present one */
	struct buf head;
	char offer[64];
	uint64_t deadline_ns, attempt_ns; /* for all of it, for the present address */

	bool reading, want_write;
	bool proxy_fine;
	char proxy_said[128];
	bool released;
	bool hung_up;       /* the poll told of an error: read on without it */
	bool mute;          /* nothing more can be written */
	bool answer_is_101; /* libwebsockets may read it */
	unsigned looks;     /* at an answer that is not there whole */
	bool peer_closed;
	bool told;
	bool broken; /* a write failed */
	char protocol[32];
	struct buf answer;
	uint8_t *request; /* in libwebsockets' buffer, to be wiped */
	size_t request_len;
	struct rc_ws_end end;
};

/* rc_ws_lws.c */

/* A connect to w->address begins. ERR_K8S_UNREACHABLE at once, or later through the socket. */
int rc_ws_lws_connect(struct rc_ws *w, struct err *e);
/* libwebsockets does what the socket is ready for: POLLIN or POLLOUT. w->wsi may be gone afterwards. */
void rc_ws_lws_serve(struct rc_ws *w, short events);
void rc_ws_lws_kill(struct rc_ws *w);
int rc_ws_lws_fd(const struct rc_ws *w);
bool rc_ws_lws_backlog(const struct rc_ws *w);   /* bytes wait for the socket */
bool rc_ws_lws_wants_out(const struct rc_ws *w); /* TLS wants to write before it goes on */
/* Bytes behind libwebsockets' back; peek: they stay. -1 with EAGAIN: none yet. 0: the end. */
ssize_t rc_ws_lws_read(struct rc_ws *w, void *p, size_t n, bool peek);

/* rc_ws_answer.c */

/* The whole head of the proxy's answer is there, and libwebsockets may read it: to go on with a 200, else to fail. */
bool rc_ws_look_at_proxy(struct rc_ws *w);
/* Sets w->answer_is_101, or the state to RC_WS_REFUSED, or looks again soon. */
void rc_ws_look_at_answer(struct rc_ws *w);
void rc_ws_read_refusal(struct rc_ws *w);

/* rc_ws.c */
void rc_ws_set_state(struct rc_ws *w, enum rc_ws_state s);
/* ms from now, or at the end of what the present attempt may take. */
void rc_ws_start_timer(struct rc_ws *w, uint64_t ms);
void rc_ws_drop_poll(struct rc_ws *w);
void rc_ws_next_address(struct rc_ws *w);
void rc_ws_tell_end(struct rc_ws *w);
void rc_ws_fail(struct rc_ws *w, int code, const char *why);

#endif
