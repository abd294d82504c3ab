/* The HTTPS door: its listener, its libwebsockets context, its connections' turns and time, its opening and closing. */
#define LOG_SUBSYS "rest"
#include "base/clock.h"
#include "base/log.h"
#include "base/sock.h"
#include "base/tick.h"
#include "base/wire.h"
#include "muxd/doors/door.h"
#include "muxd/doors/https/conn_http.h"
#include "muxd/doors/https/mcp/mcp.h"
#include "muxd/doors/https/tls.h"
#include "muxd/hub/core/hub.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define SWEEP_MS        250
#define SWEEP_REST_MS   1000 /* without connections */
#define RX_PIECE        256
#define ACCEPT_PER_TURN 16
#define ACCEPT_PAUSE_MS 200
#define HEADER_DATA_MAX (16 * 1024) /* a head of API_HEAD_MAX, and what libwebsockets adds to each field */
#define CLOSE_TURNS     8
#define CLOSE_TURNS_MAX 4096
#define NEVER_S         (365 * 24 * 3600) /* libwebsockets' own timeouts: the door keeps the time itself */

static const struct lws_protocols protocols[] = {
    {"muxd", conn_callback, 0, 0, 0, NULL, 0},
    /* received in small pieces, which every connection has memory for; sent in large ones */
    {WIRE_SUBPROTOCOL, conn_callback, 0, RX_PIECE, 0, NULL, FRAME_MAX},
    {NULL, NULL, 0, 0, 0, NULL, 0},
};

static void lws_log(int level, const char *line)
{
	size_t n = strcspn(line, "\r\n");

	/* even its errors are mostly what a client can cause */
	if (level & LLL_ERR)
		log_info(NULL, "libwebsockets: %.*s", (int)n, line);
	else
		log_debug(NULL, "libwebsockets: %.*s", (int)n, line);
}

/* --- accepting */

static void server_on_accept(uv_poll_t *h, int status, int events);

static void accept_again(uv_timer_t *t)
{
	struct rest_listener *l = t->data;

	if (!l->door->closing)
		uv_poll_start(&l->poll, UV_READABLE, server_on_accept);
}

static void server_make_room(struct rest_door *d, struct conn *victim)
{
	if (!victim)
		return;
	log_debug(&(struct log_ids){.peer = victim->peer}, "ended: strangers hold what is theirs of the door");
	d->metrics.made_room++;
	conn_end(victim);
}

static void server_on_sweep(uv_timer_t *t);

static void server_take(struct rest_listener *l, int fd, const struct sockaddr *sa)
{
	bool rested = !l->door->conns;
	struct conn *victim, *c = conn_enter(l, fd, sa, &victim);

	if (rested && l->door->conns)
		tick_start(&l->door->sweep_timer, server_on_sweep, SWEEP_MS);
	server_make_room(l->door, victim);
	if (!c)
		close(fd);
	else if (l->local)
		conn_await_local(c, fd);
	else
		(void)conn_adopt(c, fd);
}

/* No descriptor, no memory: the backlog waits; trying at once would spin. */
static void accept_failed(struct rest_listener *l, int errnum)
{
	if (errnum == EAGAIN || errnum == EINTR || errnum == ECONNABORTED || errnum == EPROTO)
		return;
	server_make_room(l->door, admit_victim(l->admit));
	log_warn(NULL, "accept: %s; trying again in %d ms", strerror(errnum), ACCEPT_PAUSE_MS);
	uv_poll_stop(&l->poll);
	uv_timer_start(&l->pause, accept_again, ACCEPT_PAUSE_MS, 0);
}

static void server_on_accept(uv_poll_t *h, int status, int events)
{
	struct rest_listener *l = h->data;

	(void)events;
	if (status < 0) {
		accept_failed(l, -status);
		return;
	}
	for (int i = 0; i < ACCEPT_PER_TURN; i++) {
		struct sockaddr_storage sa = {0};
		socklen_t len = sizeof(sa);
		int fd = accept4(l->fd, (struct sockaddr *)&sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0) {
			accept_failed(l, errno);
			return;
		}
		server_take(l, fd, (struct sockaddr *)&sa);
	}
}

/* --- time and turns */

static void server_on_sweep(uv_timer_t *t)
{
	struct rest_door *d = t->data;
	uint64_t now = clock_boot_ns();

	tick_start(t, server_on_sweep, d->conns ? SWEEP_MS : SWEEP_REST_MS);
	for (struct conn *c = d->conns, *next; c; c = next) {
		next = c->next;
		conn_sweep(c, now);
	}
	for (int i = 0; i < LISTENERS; i++)
		admit_prune(d->listeners[i].admit, now);
}

static void free_door(struct rest_door *d)
{
	for (int i = 0; i < LISTENERS; i++) {
		admit_destroy(d->listeners[i].admit);
		if (d->listeners[i].fd >= 0)
			close(d->listeners[i].fd);
	}
	if (d->cert_fd >= 0)
		close(d->cert_fd);
	if (d->key_fd >= 0)
		close(d->key_fd);
	free(d);
}

static void handle_gone(struct rest_door *d)
{
	if (--d->handles == 0)
		free_door(d);
}

static void server_on_handle_closed(uv_handle_t *h)
{
	handle_gone(h->data);
}

static void server_on_listener_closed(uv_handle_t *h)
{
	struct rest_listener *l = h->data;

	handle_gone(l->door);
}

/*
 * libwebsockets on a foreign loop closes its handles in the loop's next turns,
 * and wants to be destroyed a second time when they are gone.
 */
static void server_on_close_turn(uv_check_t *h)
{
	struct rest_door *d = h->data;

	d->close_turns++;
	if ((d->conns || d->close_turns < CLOSE_TURNS) && d->close_turns < CLOSE_TURNS_MAX)
		return;
	if (d->conns)
		log_error(NULL, "connections are left at the end of the door");
	while (d->conns)
		conn_destroy(d->conns);
	lws_context_destroy(d->lws);
	d->lws = NULL;
	uv_close((uv_handle_t *)&d->turns, server_on_handle_closed);
	uv_close((uv_handle_t *)&d->awake, server_on_handle_closed);
}

/* --- opening and closing */

static int open_context(struct rest_door *d, struct err *e)
{
	void *loops[1] = {d->loop};
	struct lws_context_creation_info info = {
	    .port = CONTEXT_PORT_NO_LISTEN_SERVER,
	    .protocols = protocols,
	    .options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT |
		       LWS_SERVER_OPTION_CREATE_VHOST_SSL_CTX | LWS_SERVER_OPTION_EXPLICIT_VHOSTS |
		       LWS_SERVER_OPTION_DISABLE_OS_CA_CERTS | LWS_SERVER_OPTION_ALLOW_NON_SSL_ON_SSL_PORT |
		       LWS_SERVER_OPTION_FALLBACK_TO_APPLY_LISTEN_ACCEPT_CONFIG,
	    .foreign_loops = loops,
	    .user = d,
	    .gid = (gid_t)-1,
	    .uid = (uid_t)-1,
	    .vhost_name = "muxd",
	    .alpn = "http/1.1",
	    .max_http_header_data2 = HEADER_DATA_MAX,
	    .max_http_header_pool = 0, /* as many as there are connections; a small pool shuts people out */
	    .pt_serv_buf_size = LWS_PRE + PIECE_MAX + 1024, /* a whole record a read: nothing stays inside TLS */
	    .ssl_info_event_mask = SSL_CB_HANDSHAKE_DONE,
	    .timeout_secs = NEVER_S,
	    .keepalive_timeout = NEVER_S,
	    .timeout_secs_ah_idle = NEVER_S,
	};

	lws_set_log_level(LLL_ERR | LLL_WARN, lws_log);
	d->lws = lws_create_context(&info);
	if (!d->lws)
		return err_set(e, ERR_INTERNAL,
			       "libwebsockets could not start (is the package libwebsockets-evlib-uv there?)");
	d->vhost = lws_create_vhost(d->lws, &info);
	if (d->vhost)
		return 0;
	if (d->tls_err.code)
		return err_set(e, d->tls_err.code, "%s", d->tls_err.message);
	return err_set(e, ERR_INTERNAL, "libwebsockets could not make its virtual host");
}

static void add_handle(struct rest_door *d, uv_handle_t *h)
{
	h->data = d;
	d->handles++;
}

static int listener_open(struct rest_listener *l)
{
	struct rest_door *d = l->door;
	int rc = uv_timer_init(d->loop, &l->pause);

	if (rc)
		return rc;
	add_handle(d, (uv_handle_t *)&l->pause);
	l->pause.data = l;
	rc = uv_poll_init(d->loop, &l->poll, l->fd);
	if (rc)
		return rc;
	add_handle(d, (uv_handle_t *)&l->poll);
	l->poll.data = l;
	return uv_poll_start(&l->poll, UV_READABLE, server_on_accept);
}

static int open_handles(struct rest_door *d, struct err *e)
{
	int rc = uv_check_init(d->loop, &d->turns);

	if (rc == 0)
		add_handle(d, (uv_handle_t *)&d->turns);
	if (rc == 0 && (rc = uv_idle_init(d->loop, &d->awake)) == 0)
		add_handle(d, (uv_handle_t *)&d->awake);
	if (rc == 0 && (rc = uv_timer_init(d->loop, &d->sweep_timer)) == 0)
		add_handle(d, (uv_handle_t *)&d->sweep_timer);
	for (int i = 0; rc == 0 && i < LISTENERS; i++)
		rc = d->listeners[i].fd < 0 ? 0 : listener_open(&d->listeners[i]);
	if (rc == 0)
		rc = uv_check_start(&d->turns, conn_on_turns);
	if (rc == 0)
		tick_start(&d->sweep_timer, server_on_sweep, SWEEP_REST_MS);
	return rc ? err_set(e, ERR_SYS, "the API door's loop handles: %s", uv_strerror(rc)) : 0;
}

/* What needs no loop yet. fd -1: this door is not asked there. */
static int listener_init(struct rest_door *d, int which, int fd)
{
	struct rest_listener *l = &d->listeners[which];

	l->door = d;
	l->fd = fd;
	l->local = which == LISTEN_LOCAL;
	return admit_create(&l->admit);
}

int rest_door_open(struct hub *h, int listen_fd, int local_fd, int cert_fd, int key_fd, struct rest_door **out,
		   struct err *e)
{
	struct rest_door *d = calloc(1, sizeof(*d));
	int rc, rc_local;

	if (!d)
		return err_set(e, ERR_NOMEM, "out of memory");
	d->hub = h;
	d->loop = hub_loop(h);
	d->cert_fd = cert_fd;
	d->key_fd = key_fd;
	d->hold = hold_limits;
	d->metrics.routes = route_table(&d->metrics.nroutes);
	rc = listener_init(d, LISTEN_TCP, listen_fd);
	rc_local = listener_init(d, LISTEN_LOCAL, local_fd);
	rc = rc ? rc : rc_local;
	if (rc == 0 && listen_fd >= 0)
		rc = sock_set_nonblock(listen_fd, 1);
	if (rc == 0 && local_fd >= 0)
		rc = sock_set_nonblock(local_fd, 1);
	if (rc == 0)
		rc = open_handles(d, e);
	if (rc == 0)
		rc = mcp_create(h, &d->metrics, &d->mcp);
	if (rc == 0)
		rc = open_context(d, e);
	if (rc) {
		if (d->handles || d->lws)
			rest_door_close(d);
		else
			free_door(d);
		return rc;
	}
	close(d->key_fd);
	close(d->cert_fd);
	d->cert_fd = d->key_fd = -1;
	*out = d;
	return 0;
}

static void close_handle(void *h, uv_close_cb done)
{
	if (((uv_handle_t *)h)->data && !uv_is_closing(h))
		uv_close(h, done);
}

void rest_door_close(struct rest_door *d)
{
	if (!d || d->closing)
		return;
	d->closing = true;
	mcp_close(d->mcp);
	d->mcp = NULL;
	for (struct conn *c = d->conns, *next; c; c = next) {
		next = c->next;
		if (c->state == CONN_LOCAL) {
			conn_kill(c);
			continue;
		}
		conn_farewell(c);
		conn_let_go(c);
	}
	for (int i = 0; i < LISTENERS; i++) {
		close_handle(&d->listeners[i].poll, server_on_listener_closed);
		close_handle(&d->listeners[i].pause, server_on_listener_closed);
	}
	close_handle(&d->sweep_timer, server_on_handle_closed);
	if (d->lws) {
		lws_context_destroy(d->lws);
		uv_check_stop(&d->turns);
		uv_check_start(&d->turns, server_on_close_turn);
		door_stay_awake(d);
	} else {
		close_handle(&d->turns, server_on_handle_closed);
		close_handle(&d->awake, server_on_handle_closed);
	}
}
