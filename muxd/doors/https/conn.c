/* A connection's making, its states, its place in the queue of turns, its socket, its request in hand, and its end. */
#define LOG_SUBSYS "rest"
#include "muxd/doors/https/conn.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/sock.h"
#include "base/text.h"
#include "muxd/hub/core/hub.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define VANISHED_MS 60000 /* of a client that acknowledges nothing of what is on its way to it */

static const char *const state_names[] = {"local",   "idle",   "body", "stream", "waiting", "delayed", "ready",
					  "writing", "linger", "ws",   "raw",    "routed",  "back",    "dead"};

void conn_set_state(struct conn *c, enum conn_state to)
{
	if (c->state == to)
		return;
	log_debug(&(struct log_ids){.peer = c->peer, .request = c->x ? c->x->id_text : NULL}, "connection: %s -> %s",
		  state_names[c->state], state_names[to]);
	c->state = to;
}

int conn_create(const struct rest_listener *l, struct admit_place *place, const char *peer, struct conn **out)
{
	struct rest_door *d = l->door;
	struct conn *c = calloc(1, sizeof(*c));

	if (!c)
		return ERR_NOMEM;
	c->door = d;
	c->listener = l;
	c->fd = -1;
	c->state = l->local ? CONN_LOCAL : CONN_IDLE;
	c->place = place;
	text_put(c->peer, sizeof(c->peer), peer);
	buf_init(&c->head, 4096);
	buf_init(&c->raw, 0);
	c->deadline_ns = clock_boot_ns() + hub_conf(d->hub)->api_header_timeout_ns;
	c->next = d->conns;
	if (c->next)
		c->next->prev = c;
	d->conns = c;
	d->metrics.connections++;
	*out = c;
	return 0;
}

/*
 * A client that vanished is noticed where nothing is sent to it either. Not by TCP_USER_TIMEOUT: that ends a connection
 * whose client is there and only reads nothing, too, and a terminal that is held with Ctrl-S may be held for long.
 */
static void tcp_options(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {{IPPROTO_TCP, TCP_NODELAY, 1},
		       {SOL_SOCKET, SO_KEEPALIVE, 1},
		       {IPPROTO_TCP, TCP_KEEPIDLE, 15},
		       {IPPROTO_TCP, TCP_KEEPINTVL, 5},
		       {IPPROTO_TCP, TCP_KEEPCNT, 3}};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		(void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

bool conn_adopt(struct conn *c, int fd)
{
	struct rest_door *d = c->door;
	lws_adopt_desc_t a = {.vh = d->vhost, .type = LWS_ADOPT_HTTP | LWS_ADOPT_SOCKET, .opaque = c};

	a.fd.sockfd = fd;
	if (!c->listener->local) {
		a.type |= LWS_ADOPT_ALLOW_SSL;
		tcp_options(fd);
	}
	d->adopting = c;
	if (lws_adopt_descriptor_vhost_via_info(&a)) {
		d->adopting = NULL;
		return true;
	}
	d->adopting = NULL;
	/* with an lws made, its end frees the conn; without, nobody will */
	log_debug(NULL, "%s was not adopted", c->peer);
	if (c->wsi)
		conn_set_state(c, CONN_DEAD);
	else
		conn_free(c);
	return false;
}

/* --- turns */

static void conn_on_awake(uv_idle_t *h)
{
	(void)h; /* being there keeps the loop from sleeping */
}

void door_stay_awake(struct rest_door *d)
{
	uv_idle_start(&d->awake, conn_on_awake);
}

void conn_queue(struct conn *c)
{
	struct rest_door *d = c->door;

	if (c->queued || c->state == CONN_DEAD || d->closing)
		return;
	c->queued = true;
	c->turn_next = NULL;
	if (d->turns_tail)
		d->turns_tail->turn_next = c;
	else
		d->turns_head = c;
	d->turns_tail = c;
	door_stay_awake(d);
}

static void unqueue(struct conn *c)
{
	struct rest_door *d = c->door;
	struct conn **at = &d->turns_head, *last = NULL;

	while (*at && *at != c) {
		last = *at;
		at = &(*at)->turn_next;
	}
	if (!*at)
		return;
	*at = c->turn_next;
	if (d->turns_tail == c)
		d->turns_tail = last;
}

/* --- its socket: waiting on it beside libwebsockets, having libwebsockets read what is there, reading past it */

struct watch {
	uv_poll_t poll;
	struct conn *conn; /* NULL: let go */
	watch_fn *fn;
	int fd, events;
};

static void conn_on_watch_closed(uv_handle_t *h)
{
	struct watch *w = h->data;

	close(w->fd);
	free(w);
}

void watch_destroy(struct conn *c)
{
	struct watch *w = c->watch;

	if (!w)
		return;
	c->watch = NULL;
	w->conn = NULL;
	uv_close((uv_handle_t *)&w->poll, conn_on_watch_closed);
}

/* libuv has one handle for a descriptor, and that is libwebsockets'. */
static int watch_create(struct conn *c)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w)
		return ERR_NOMEM;
	w->fd = fcntl(c->wsi ? lws_get_socket_fd(c->wsi) : c->fd, F_DUPFD_CLOEXEC, 3);
	if (w->fd < 0 || uv_poll_init(c->door->loop, &w->poll, w->fd)) {
		if (w->fd >= 0)
			close(w->fd);
		free(w);
		return ERR_SYS;
	}
	w->poll.data = w;
	w->conn = c;
	c->watch = w;
	return 0;
}

static void conn_on_watch_event(uv_poll_t *h, int status, int events)
{
	struct watch *w = h->data;

	if (w->conn)
		w->fn(w->conn, status < 0 ? w->events : events);
}

int watch_set(struct conn *c, int events, watch_fn *fn)
{
	if (!c->watch && !events)
		return 0;
	if (!c->watch && watch_create(c))
		return ERR_SYS;
	c->watch->fn = fn;
	if (c->watch->events == events)
		return 0;
	c->watch->events = events;
	if (!events)
		return uv_poll_stop(&c->watch->poll) ? ERR_SYS : 0;
	return uv_poll_start(&c->watch->poll, events, conn_on_watch_event) ? ERR_SYS : 0;
}

bool conn_service(struct conn *c, short event)
{
	struct rest_door *d = c->door;
	struct lws_pollfd p = {.fd = lws_get_socket_fd(c->wsi), .events = event, .revents = event};

	d->serving = c;
	conn_read_start(c);
	lws_service_fd(d->lws, &p);
	if (d->serving != c)
		return false;
	d->serving = NULL;
	return c->wsi && c->state != CONN_DEAD;
}

bool conn_take_off(struct conn *c, int n)
{
	uint8_t again[1024];
	ssize_t got = 1;

	for (; n > 0 && got > 0; n -= (int)got)
		got = conn_recv(c, again, n < (int)sizeof(again) ? (size_t)n : sizeof(again));
	explicit_bzero(again, sizeof(again));
	return got > 0;
}

ssize_t conn_recv(struct conn *c, uint8_t *p, size_t n)
{
	SSL *ssl = lws_get_ssl(c->wsi);
	ssize_t got;
	int why;

	if (!ssl) {
		got = recv(lws_get_socket_fd(c->wsi), p, n, MSG_DONTWAIT);
		return got > 0 ? got : got == 0 ? -1 : errno == EAGAIN || errno == EINTR ? 0 : ERR_EOF;
	}
	ERR_clear_error();
	got = SSL_read(ssl, p, (int)n);
	if (got > 0)
		return got;
	why = SSL_get_error(ssl, (int)got);
	ERR_clear_error();
	if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
		return 0;
	return why == SSL_ERROR_ZERO_RETURN ? -1 : ERR_EOF;
}

bool conn_has_pending(const struct conn *c)
{
	const SSL *ssl = lws_get_ssl(c->wsi);

	return ssl && SSL_has_pending(ssl);
}

/*
 * While a request is worked on nothing is read, so a client that left is seen here; and one that vanished with bytes on
 * their way to it, for which no keepalive is sent.
 */
bool conn_client_gone(const struct conn *c)
{
	struct pollfd p = {.fd = lws_get_socket_fd(c->wsi), .events = POLLRDHUP};

	return (poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL))) ||
	       sock_silent_ms(p.fd) > VANISHED_MS;
}

/* --- the request in hand */

static void refuse_with(struct conn *c, int status, const struct err *e)
{
	c->keep_alive = false;
	conn_read_stop(c);
	if (c->x->flow) { /* it would answer, too */
		c->x->flow->drop(c->x);
		c->x->flow = NULL;
	}
	http_reply_status(c->x, status, e->code, e);
}

void conn_refuse(struct conn *c, int status, int rc, const char *message)
{
	struct err e = {0};

	err_set(&e, rc, "%s", message);
	refuse_with(c, status, &e);
}

void conn_refuse_for(struct conn *c, const struct err *e)
{
	refuse_with(c, err_http_status(e->code), e);
}

void conn_log(const struct conn *c, int status)
{
	const struct http_exchange *x = c->x;
	char grant[ID_STR_LEN] = "";
	struct log_ids ids = {.request = x->id_text, .peer = c->peer};
	struct work_ids work = x->about;
	uint64_t took = clock_boot_ns() - x->started_ns;

	if (x->authenticated) {
		id_format(&x->rq.grant.id, grant);
		ids.grant = grant;
		ids.agent = x->rq.grant.agent;
		broker_about(x->hub, x->params[0], &x->object, &work);
		work_log_ids(&work, &ids);
	}
	if (x->routed)
		rest_metrics_routed(&c->door->metrics, status);
	else
		rest_metrics_count(&c->door->metrics, x->dialect ? NULL : x->route, status, took);
	log_info(&ids, "%s%s %s %d%s%s %llu ms", x->routed ? "routed " : "", http_method_name(x->method), x->path,
		 status, x->error ? " " : "", x->error ? err_name(x->error) : "",
		 (unsigned long long)(took / NS_PER_MS));
}

/* --- the end */

void conn_drop(struct conn *c)
{
	watch_destroy(c);
	conn_hold_no_body(c);
	conn_hold_no_answer(c);
	if (!c->x)
		return;
	if (!c->x->answered) {
		/* the body never came whole, or the client did not wait for its answer */
		bool pending = c->state == CONN_WAITING || c->state == CONN_STREAM;

		c->door->metrics.clients_gone++;
		conn_log(c, 499);
		if (!pending)
			c->x->answered = true; /* no handler holds it */
	}
	http_exchange_abandon(c->x);
	c->x = NULL;
}

/*
 * With bytes still buffered libwebsockets would wait for them to go; the peer
 * had its time, so the socket is taken away instead and the next write fails.
 */
void conn_kill(struct conn *c)
{
	if (c->state == CONN_LOCAL) { /* nobody else has it */
		watch_destroy(c);
		close(c->fd);
		conn_free(c);
		return;
	}
	if (c->state == CONN_DEAD || !c->wsi)
		return;
	conn_drop(c);
	conn_set_state(c, CONN_DEAD);
	if (lws_partial_buffered(c->wsi)) {
		(void)shutdown(lws_get_socket_fd(c->wsi), SHUT_RDWR);
		conn_read_start(c);
		lws_callback_on_writable(c->wsi);
		return;
	}
	lws_set_timeout(c->wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_SYNC);
}

void conn_free(struct conn *c)
{
	struct rest_door *d = c->door;

	if (d->serving == c)
		d->serving = NULL;
	if (c->queued)
		unqueue(c);
	if (c->prev)
		c->prev->next = c->next;
	else
		d->conns = c->next;
	if (c->next)
		c->next->prev = c->prev;
	admit_leave(c->place);
	buf_finish(&c->head);
	buf_finish_secret(&c->raw);
	d->metrics.connections--;
	free(c);
}
