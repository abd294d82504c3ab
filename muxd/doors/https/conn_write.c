#define LOG_SUBSYS "rest"
#include "base/clock.h"
#include "base/log.h"
#include "muxd/doors/https/router/router.h"
#include "muxd/doors/https/server.h"
#include "muxd/doors/https/ws.h"
#include "muxd/hub/hub.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECES_PER_TURN 4
#define LINGER_NS       (2 * NS_PER_SEC)
#define WRITE_RATE_MIN  8192 /* bytes a second that a client must take, on average */

/*
 * Waiting for room in the socket. libwebsockets serves neither side of a
 * connection whose read side is stopped, and with it running a client that
 * sends ahead and reads nothing would keep the loop spinning. So the wait is
 * the door's own, on a duplicate of the descriptor.
 */
struct choke {
	uv_poll_t poll;
	struct conn *conn; /* NULL: let go */
	int fd;
};

static void on_choke_closed(uv_handle_t *h)
{
	struct choke *k = h->data;

	close(k->fd);
	free(k);
}

static void choke_stop(struct conn *c)
{
	if (!c->choke)
		return;
	c->choke->conn = NULL;
	uv_close((uv_handle_t *)&c->choke->poll, on_choke_closed);
	c->choke = NULL;
}

static void on_room(uv_poll_t *h, int status, int events)
{
	struct choke *k = h->data;
	struct conn *c = k->conn;

	(void)status; /* an error shows itself in the write */
	(void)events;
	if (!c)
		return;
	choke_stop(c);
	c->flushing = true;
	conn_read_start(c);
	lws_callback_on_writable(c->wsi);
}

static int choke_start(struct conn *c)
{
	struct choke *k;

	if (c->choke)
		return 0;
	k = calloc(1, sizeof(*k));
	if (!k)
		return ERR_NOMEM;
	k->fd = fcntl(lws_get_socket_fd(c->wsi), F_DUPFD_CLOEXEC, 3);
	if (k->fd < 0 || uv_poll_init(c->door->loop, &k->poll, k->fd)) {
		if (k->fd >= 0)
			close(k->fd);
		free(k);
		return ERR_SYS;
	}
	k->poll.data = k;
	k->conn = c;
	c->choke = k;
	if (uv_poll_start(&k->poll, UV_WRITABLE | UV_DISCONNECT, on_room)) {
		choke_stop(c);
		return ERR_SYS;
	}
	return 0;
}

void conn_flushed(struct conn *c)
{
	if (!c->flushing)
		return;
	c->flushing = false;
	conn_read_stop(c);
	conn_queue(c);
}

/* --- the end of a request, of a connection */

void conn_log(const struct conn *c, int status)
{
	const struct http_exchange *x = c->x;
	char grant[ID_STR_LEN] = "";
	struct log_ids ids = {.request = x->id_text, .peer = c->peer};
	uint64_t took = clock_boot_ns() - x->started_ns;

	if (x->authenticated) {
		id_format(&x->rq.grant.id, grant);
		ids.grant = grant;
		ids.agent = x->rq.grant.agent;
	}
	if (x->routed)
		rest_metrics_routed(&c->door->metrics, status);
	else
		rest_metrics_count(&c->door->metrics, x->route, status, took);
	log_info(&ids, "%s%s %s %d %llu ms", x->routed ? "routed " : "", http_method_name(x->method), x->path, status,
		 (unsigned long long)(took / NS_PER_MS));
}

void conn_let_go(struct conn *c)
{
	choke_stop(c);
	router_destroy(c->router);
	c->router = NULL;
	watch_destroy(c);
	ws_destroy(c->ws);
	c->ws = NULL;
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
 * Ends the connection from outside of libwebsockets' callbacks. With bytes
 * still buffered there libwebsockets would wait for them to go; the peer had
 * its time, so the socket is taken away instead and the next write fails.
 */
void conn_kill(struct conn *c)
{
	if (c->state == CONN_DEAD || !c->wsi)
		return;
	conn_let_go(c);
	conn_set_state(c, CONN_DEAD);
	if (lws_partial_buffered(c->wsi)) {
		(void)shutdown(lws_get_socket_fd(c->wsi), SHUT_RDWR);
		conn_read_start(c);
		lws_callback_on_writable(c->wsi);
		return;
	}
	lws_set_timeout(c->wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_SYNC);
}

uint64_t conn_bytes_read(const struct conn *c)
{
	SSL *ssl = lws_get_ssl(c->wsi);

	return ssl ? BIO_number_read(SSL_get_rbio(ssl)) : 0;
}

static void finish(struct conn *c)
{
	const struct conf *conf = hub_conf(c->door->hub);

	conn_log(c, c->x->status);
	http_exchange_destroy(c->x);
	c->x = NULL;
	if (!c->keep_alive && !c->unread) {
		conn_kill(c);
		return;
	}
	if (!c->keep_alive) {
		/* to close now would reset the connection, and the client might never see the answer */
		c->deadline_ns = clock_boot_ns() + LINGER_NS;
		conn_set_state(c, CONN_LINGER);
		conn_read_start(c);
		return;
	}
	c->deadline_ns = clock_boot_ns() + conf->api_idle_timeout_ns;
	c->limit_ns = 0;
	conn_set_state(c, CONN_IDLE);
	if (lws_http_transaction_completed(c->wsi))
		conn_kill(c);
	else
		conn_await_next(c);
}

/* --- writing */

static size_t take(struct buf *b, uint8_t *to, size_t max)
{
	size_t n = buf_len(b) < max ? buf_len(b) : max;

	if (n)
		memcpy(to, buf_ptr(b), n);
	buf_consume(b, n);
	return n;
}

static size_t give(struct http_exchange *x, uint8_t *to, size_t max)
{
	size_t n;

	if (!x->stream_left || x->stream_broken || !max)
		return 0;
	n = x->flow->give(x, to, max < x->stream_left ? max : (size_t)x->stream_left);
	x->stream_left -= n;
	return n;
}

/* 1: written, 0: nothing is there, ERR_EOF: the connection is lost. */
static int write_piece(struct conn *c)
{
	uint8_t *p = c->door->piece + LWS_PRE;
	size_t n = take(&c->head, p, PIECE_MAX);

	n += take(&c->x->out, p + n, PIECE_MAX - n);
	n += give(c->x, p + n, PIECE_MAX - n);
	if (n == 0)
		return 0;
	if (lws_write(c->wsi, p, n, LWS_WRITE_HTTP) < 0)
		return ERR_EOF;
	c->door->metrics.bytes_sent += n;
	c->deadline_ns = clock_boot_ns() + hub_conf(c->door->hub)->api_idle_timeout_ns;
	if (c->deadline_ns > c->limit_ns)
		c->deadline_ns = c->limit_ns;
	return 1;
}

static void write_some(struct conn *c)
{
	for (int i = 0; i < PIECES_PER_TURN; i++) {
		int rc;

		if (lws_partial_buffered(c->wsi)) {
			if (choke_start(c))
				conn_kill(c);
			return;
		}
		rc = write_piece(c);
		if (rc == 0 && c->x->stream_left && !c->x->stream_broken) {
			c->deadline_ns = 0; /* it is the sandbox that is waited for */
			return;
		}
		if (rc == 0 && c->x->stream_left)
			rc = ERR_EOF; /* an answer cut short must not look whole */
		if (rc == 0) {
			finish(c);
			return;
		}
		if (rc < 0) {
			conn_kill(c);
			return;
		}
	}
	conn_queue(c);
}

static void begin_writing(struct conn *c)
{
	uint64_t now = clock_boot_ns();

	buf_clear(&c->head);
	if (http_head(c->x, c->keep_alive, &c->head)) {
		conn_kill(c);
		return;
	}
	if (c->x->method == HTTP_HEAD) {
		buf_clear(&c->x->out);
		c->x->stream_left = 0;
	}
	c->deadline_ns = now + hub_conf(c->door->hub)->api_idle_timeout_ns;
	c->limit_ns = c->x->streams ? UINT64_MAX /* the transfer has a timeout of its own */
				    : c->deadline_ns + buf_len(&c->x->out) / WRITE_RATE_MIN * NS_PER_SEC;
	conn_set_state(c, CONN_WRITING);
	write_some(c);
}

void conn_turn(struct conn *c)
{
	if (!c->wsi)
		return;
	if (c->state == CONN_READY)
		begin_writing(c);
	else if (c->state == CONN_WRITING)
		write_some(c);
	else if (c->state == CONN_ROUTED)
		router_turn(c->router);
	else if (c->state == CONN_WS)
		ws_read_frames(c->ws);
	else if (c->state == CONN_BACK) {
		conn_set_state(c, CONN_IDLE);
		conn_await(c);
	}
}

/* --- time */

/* While a request is worked on nothing is read, so a client that left is seen here. */
bool conn_client_gone(const struct conn *c)
{
	struct pollfd p = {.fd = lws_get_socket_fd(c->wsi), .events = POLLRDHUP};

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}

static void on_deadline(struct conn *c)
{
	c->deadline_ns = 0;
	switch (c->state) {
	case CONN_DELAYED:
		conn_set_state(c, CONN_READY);
		conn_queue(c);
		break;
	case CONN_BODY:
	case CONN_STREAM:
		c->door->metrics.timeouts++;
		conn_refuse(c, 408, ERR_TIMEOUT, "the body did not come in time");
		break;
	case CONN_LINGER:
		conn_kill(c);
		break;
	default:
		c->door->metrics.timeouts++;
		log_debug(&(struct log_ids){.peer = c->peer}, "timed out");
		conn_kill(c);
		break;
	}
}

void conn_sweep(struct conn *c, uint64_t now_ns)
{
	if (!c->wsi || c->state == CONN_DEAD)
		return;
	conn_check_in(c);
	if (c->router) {
		router_sweep(c->router, now_ns);
		return;
	}
	if (c->ws) {
		ws_sweep(c->ws, now_ns);
		return;
	}
	if ((c->state == CONN_WAITING || c->state == CONN_STREAM || (c->state == CONN_WRITING && c->x->streams)) &&
	    conn_client_gone(c)) {
		conn_kill(c);
		return;
	}
	if (c->flushing && lws_partial_buffered(c->wsi)) {
		/* room for less than a piece: wait again without libwebsockets looking at the read side */
		c->flushing = false;
		conn_read_stop(c);
		if (choke_start(c))
			conn_kill(c);
	}
	if (c->deadline_ns && now_ns >= c->deadline_ns)
		on_deadline(c);
}
