/* A WebSocket to the API server: addresses in turn, the socket, TLS, the answer, then messages until the end. */
#define LOG_SUBSYS "kube"
#include "control/kube/exec/rc_ws.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/slurp.h"
#include "base/sock.h"
#include "base/text.h"
#include "control/kube/client/endpoint.h"
#include "control/kube/exec/rc_answer.h"
#include "control/kube/exec/rc_client.h"
#include "control/kube/exec/rc_target.h"
#include "control/kube/exec/rc_tls.h"
#include "control/kube/exec/remotecommand.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_MAX          (RC_TARGET_MAX + KUBE_TOKEN_MAX + 4096)
#define OUT_MAX           (HEAD_MAX + 2 * RC_MESSAGE_MAX) /* with what TLS adds */
#define ANSWER_MS         5000                            /* from an answer's first byte to its end */
#define ANSWER_PIECE      4096
#define CLOSE_NORMAL      1000
#define MESSAGES_PER_TURN 4

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

/* The socket is ready for UV_*; or it is not known, and tried. */
static void rc_ws_step(struct rc_ws *w, int events);
/* ms from now, or at the end of what the present attempt may take. */
static void rc_ws_start_timer(struct rc_ws *w);
static void rc_ws_tell_end(struct rc_ws *w);
static void rc_ws_address_failed(struct rc_ws *w, int errnum);

static void rc_ws_set_state(struct rc_ws *w, enum rc_ws_state s)
{
	static const char *const names[] = {"connecting", "proxy", "tls", "asked", "open", "dead"};

	if (w->state == s)
		return;
	log_debug(NULL, "exec at %s: %s to %s", w->server, names[w->state], names[s]);
	w->state = s;
}

/* --- bytes out */

/* A failed write loses only what the peer would not have read any more: reading goes on. */
static void be_mute(struct rc_ws *w)
{
	w->mute = true;
	buf_finish_secret(&w->out);
}

/* Sends what the socket takes; the rest waits in w->out. */
static void emit(struct rc_ws *w, const uint8_t *p, size_t n)
{
	ssize_t done = 0;

	if (w->mute || !w->socket || n == 0)
		return;
	if (!buf_len(&w->out))
		do
			done = send(w->socket->fd, p, n, MSG_NOSIGNAL);
		while (done < 0 && errno == EINTR);
	if (done < 0 && errno != EAGAIN)
		be_mute(w);
	else if (done < (ssize_t)n && buf_append(&w->out, p + (done > 0 ? done : 0), n - (size_t)(done > 0 ? done : 0)))
		be_mute(w);
}

/* As much of w->out as the socket takes. True: all of it. */
static bool rc_ws_flush(struct rc_ws *w)
{
	ssize_t done = 0;

	while (w->socket && !w->mute && buf_len(&w->out) > 0) {
		done = send(w->socket->fd, buf_ptr(&w->out), buf_len(&w->out), MSG_NOSIGNAL);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0 && errno == EAGAIN)
			return false;
		if (done < 0)
			be_mute(w);
		else
			buf_consume(&w->out, (size_t)done);
	}
	if (w->out.data)
		buf_finish_secret(&w->out); /* an idle connection holds nothing */
	return true;
}

/* OpenSSL writes into memory that all connections share: so it is emptied before anything else happens. */
static void rc_ws_drain_tls(struct rc_ws *w)
{
	uint8_t *out = w->client->out;
	int n;

	while ((n = BIO_read(w->client->tls_out, out, WSFRAME_HEAD_MAX + RC_MESSAGE_MAX)) > 0)
		emit(w, out, (size_t)n);
}

/* Under TLS where there is some; what the socket does not take waits in w->out. */
static void rc_ws_put(struct rc_ws *w, const uint8_t *p, size_t n)
{
	size_t done = 0;

	if (!w->ssl) {
		emit(w, p, n);
		return;
	}
	ERR_clear_error();
	/* into memory: it takes all, or there is none */
	for (; n > 0 && !w->mute; p += done, n -= done)
		if (!SSL_write_ex(w->ssl, p, n, &done))
			be_mute(w);
	ERR_clear_error();
	rc_ws_drain_tls(w);
}

/* --- bytes in */

static size_t get_tls(struct rc_ws *w, uint8_t *p, size_t n)
{
	size_t got = 0;
	int why;

	ERR_clear_error();
	why = SSL_read_ex(w->ssl, p, n, &got) ? SSL_ERROR_NONE : SSL_get_error(w->ssl, 0);
	ERR_clear_error();
	if (BIO_pending(w->client->tls_out) > 0)
		rc_ws_drain_tls(w); /* a key update, an alert */
	if (why == SSL_ERROR_NONE)
		return got;
	if (w->hung_up || why != SSL_ERROR_WANT_READ)
		w->ended = true;
	return 0;
}

static size_t get_plain(struct rc_ws *w, uint8_t *p, size_t n)
{
	ssize_t got;

	do
		got = recv(w->socket->fd, p, n, 0);
	while (got < 0 && errno == EINTR);
	if (got > 0)
		return (size_t)got;
	if (got == 0 || w->hung_up || errno != EAGAIN)
		w->ended = true;
	return 0;
}

/* Bytes taken; 0: none now (look at w->ended). */
static size_t rc_ws_get(struct rc_ws *w, uint8_t *p, size_t n)
{
	if (w->ended || !w->socket || n == 0)
		return 0;
	return w->ssl ? get_tls(w, p, n) : get_plain(w, p, n);
}

/* Something lies inside OpenSSL, where no poll sees it. */
static bool rc_ws_holds_input(const struct rc_ws *w)
{
	return w->ssl && !w->ended && SSL_has_pending(w->ssl);
}

/* --- frames in */

static void take_close(struct rc_ws *w, const struct wsframe_event *ev)
{
	w->peer_closed = w->ended = true;
	w->end.close_code = ev->n >= 2 ? ev->p[0] << 8 | ev->p[1] : 0;
	if (ev->n > 2)
		memcpy(w->end.close_reason, ev->p + 2, ev->n - 2);
}

static void rc_ws_io_take_event(struct rc_ws *w, const struct wsframe_event *ev)
{
	switch (ev->kind) {
	case WSFRAME_NOTHING:
		break;
	case WSFRAME_DATA:
		w->ops->message(w->arg, ev->p, ev->n, ev->last);
		break;
	case WSFRAME_PING: /* the newest is answered: RFC 6455, 5.5.3 */
		memcpy(w->pong, ev->p, ev->n);
		w->pong_len = (uint8_t)ev->n;
		w->pong_due = true;
		break;
	case WSFRAME_PONG:
		w->ops->pong(w->arg, ev->p, ev->n);
		break;
	case WSFRAME_CLOSE:
		take_close(w, ev);
		break;
	}
}

/* Takes frames apart; false: no more is to be read of this connection. */
static bool rc_ws_take(struct rc_ws *w, uint8_t *p, size_t n)
{
	struct wsframe_event ev;
	struct err e = {0};
	ssize_t took;

	while (n > 0 && w->ops && !w->peer_closed) {
		took = wsframe_decode(&w->wire, p, n, &ev, &e);
		if (took < 0) {
			w->ended = true;
			err_set(&w->end.err, (int)took, "%s: %s", w->server, e.message);
			return false;
		}
		p += took;
		n -= (size_t)took;
		rc_ws_io_take_event(w, &ev);
	}
	return w->ops && !w->peer_closed;
}

static void rc_ws_read_messages(struct rc_ws *w)
{
	size_t total = 0, n = 1;

	while (n > 0 && w->reading && total < RC_READ) {
		n = rc_ws_get(w, w->client->in, RC_READ - total);
		total += n;
		if (n > 0 && !rc_ws_take(w, w->client->in, n))
			break;
	}
}

/* --- frames out */

void rc_ws_send(struct rc_ws *w, enum wsframe_opcode op, int first, const uint8_t *p, size_t n)
{
	uint8_t *out = w->client->out, mask[4], byte = (uint8_t)first;
	size_t lead = first >= 0 ? 1 : 0, at;

	if (lead + n > RC_MESSAGE_MAX || RAND_bytes(mask, sizeof(mask)) != 1) {
		be_mute(w);
		return;
	}
	at = wsframe_head(op, lead + n, mask, out);
	wsframe_mask(&byte, out + at, lead, mask, 0);
	if (n)
		wsframe_mask(p, out + at + lead, n, mask, lead);
	rc_ws_put(w, out, at + lead + n);
}

/* A few in a turn, as long as the socket takes them. */
static void rc_ws_write_messages(struct rc_ws *w)
{
	for (int i = 0; i < MESSAGES_PER_TURN && !w->mute && w->ops && rc_ws_flush(w); i++) {
		if (w->pong_due) {
			w->pong_due = false;
			rc_ws_send(w, WSFRAME_OP_PONG, -1, w->pong, w->pong_len);
		} else if (w->want_write) {
			w->want_write = false;
			w->ops->writable(w->arg);
		} else {
			break;
		}
	}
}

/* --- the way there */

/* "user:s%40cret@proxy:3128" to "Basic ..."; NULL without a user. */
static int proxy_user(const char *from, char **out, struct err *e)
{
	size_t n = strcspn(from, "@/"), len = 0;
	char *plain, *text = NULL;
	unsigned v;

	if (from[n] != '@')
		return 0;
	plain = malloc(n + 1);
	for (size_t i = 0; plain && i < n; i++) {
		plain[len] = from[i];
		if (from[i] == '%' && n - i > 2 && sscanf(from + i + 1, "%2x", &v) == 1) {
			plain[len] = (char)v;
			i += 2;
		}
		len++;
	}
	text = plain ? base64_encode(plain, len, false) : NULL;
	if (text && asprintf(out, "Basic %s", text) < 0)
		*out = NULL;
	if (plain)
		explicit_bzero(plain, n + 1);
	free(plain);
	slurp_free_text(text);
	return *out ? 0 : err_set(e, ERR_NOMEM, "out of memory");
}

static int copy_proxy(struct rc_ws *w, const struct kube_endpoint *ep, struct err *e)
{
	if (!ep->proxy)
		return 0;
	if (strncmp(ep->proxy, "http://", 7) != 0)
		return err_set(e, ERR_UNSUPPORTED, "exec through this kind of proxy is not possible: http:// alone is");
	if (asprintf(&w->proxy_host, strchr(ep->host, ':') ? "[%s]:%u" : "%s:%u", ep->host, ep->port) < 0) {
		w->proxy_host = NULL;
		return err_set(e, ERR_NOMEM, "out of memory");
	}
	return proxy_user(ep->proxy + 7, &w->proxy_auth, e);
}

static int rc_ws_copy_way(struct rc_ws *w, const struct kube_endpoint *ep, struct err *e)
{
	w->server = strdup(ep->server);
	w->addresses = strdup(ep->addresses);
	w->next = w->addresses;
	w->connect_port = ep->connect_port;
	if (!w->server || !w->addresses)
		return err_set(e, ERR_NOMEM, "out of memory");
	return copy_proxy(w, ep, e);
}

static void rc_ws_free_way(struct rc_ws *w)
{
	free(w->server);
	free(w->addresses);
	free(w->proxy_host);
	slurp_free_text(w->proxy_auth);
}

/* --- the socket */

static void rc_ws_on_closed(uv_handle_t *h)
{
	free(h);
}

/* The descriptor goes now, the rest when the loop has turned: it is no concern of w any more. */
static void rc_ws_drop_socket(struct rc_ws *w)
{
	struct rc_ws_socket *s = w->socket;

	SSL_free(w->ssl);
	w->ssl = NULL;
	if (!s)
		return;
	w->socket = NULL;
	(void)uv_poll_stop(&s->poll); /* takes it out of epoll: a child that was just forked keeps it open */
	s->poll.data = NULL;
	uv_close((uv_handle_t *)&s->poll, rc_ws_on_closed);
	close(s->fd);
}

static void rc_ws_on_poll(uv_poll_t *h, int status, int events)
{
	struct rc_ws *w = h->data;

	if (status < 0) {
		/* libuv stopped the poll. What the server said before it hung up is still there to be read. */
		w->hung_up = w->mute = true;
		w->socket->polled = 0;
		events = UV_READABLE | UV_WRITABLE;
	}
	rc_ws_step(w, events);
}

static int rc_ws_wanted(const struct rc_ws *w)
{
	int out = buf_len(&w->out) && !w->mute ? UV_WRITABLE : 0;

	if (w->state == RC_WS_CONNECTING)
		return UV_WRITABLE;
	if (w->state == RC_WS_DEAD)
		return 0;
	return out | (w->state < RC_WS_OPEN || w->reading ? UV_READABLE : 0);
}

static void rc_ws_update_poll(struct rc_ws *w)
{
	int want = rc_ws_wanted(w);

	if (!w->socket)
		return;
	if (w->hung_up) {
		/* the loop tells no more of this socket */
		if (want)
			rc_task_queue(w->client, &w->task);
		return;
	}
	if (want != w->socket->polled) {
		if (want)
			(void)uv_poll_start(&w->socket->poll, want, rc_ws_on_poll);
		else
			(void)uv_poll_stop(&w->socket->poll);
		w->socket->polled = want;
	}
	if (w->state == RC_WS_OPEN &&
	    ((w->reading && rc_ws_holds_input(w)) || ((w->want_write || w->pong_due) && !w->mute && !buf_len(&w->out))))
		rc_task_queue(w->client, &w->task);
}

/* --- addresses */

static int sockaddr_of(const struct rc_ws *w, struct sockaddr_storage *sa, socklen_t *len)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)sa;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)sa;

	memset(sa, 0, sizeof(*sa));
	if (inet_pton(AF_INET, w->address, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(w->connect_port);
		*len = sizeof(*v4);
	} else if (inet_pton(AF_INET6, w->address, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(w->connect_port);
		*len = sizeof(*v6);
	} else {
		return EAFNOSUPPORT;
	}
	return 0;
}

/* 0, or errno. */
static int begin_connect(struct rc_ws *w)
{
	struct rc_ws_socket *s = calloc(1, sizeof(*s));
	struct sockaddr_storage sa;
	socklen_t len = 0;
	int one = 1, rc = s ? sockaddr_of(w, &sa, &len) : ENOMEM;

	if (rc == 0) {
		s->fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		rc = s->fd < 0 ? errno : 0;
	}
	if (rc) {
		free(s);
		return rc;
	}
	(void)setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(s->fd, (struct sockaddr *)&sa, len) && errno != EINPROGRESS)
		rc = errno;
	if (rc == 0)
		rc = -uv_poll_init(w->client->loop, &s->poll, s->fd);
	if (rc) {
		close(s->fd);
		free(s);
		return rc;
	}
	s->poll.data = w;
	w->socket = s;
	return 0;
}

static void rc_ws_try_address(struct rc_ws *w)
{
	uint64_t now = clock_boot_ns(), left = w->deadline_ns > now ? w->deadline_ns - now : 0;
	unsigned shares = w->next ? 2 : 1;
	int rc;

	for (const char *s = w->next; s && (s = strchr(s, ',')); s++)
		shares++;
	w->attempt_ns = now + left / shares;
	rc_ws_start_timer(w);
	rc = begin_connect(w);
	if (rc)
		rc_ws_address_failed(w, rc);
}

static void rc_ws_next_address(struct rc_ws *w)
{
	size_t n;

	rc_ws_set_state(w, RC_WS_CONNECTING);
	w->hung_up = w->mute = w->ended = false;
	buf_finish_secret(&w->out);
	buf_clear(&w->answer);
	if (!w->next) {
		w->end.how = RC_WS_END_FAILED;
		rc_ws_tell_end(w);
		return;
	}
	n = strcspn(w->next, ",");
	text_format(w->address, sizeof(w->address), "%.*s", (int)n, w->next);
	w->next = w->next[n] ? w->next + n + 1 : NULL;
	rc_task_queue(w->client, &w->task);
}

/* The last one's reason is what is told. */
static void rc_ws_address_failed(struct rc_ws *w, int errnum)
{
	err_set(&w->end.err, ERR_K8S_UNREACHABLE, "%s (%s): %s", w->server, w->address, strerror(errnum));
	rc_ws_drop_socket(w);
	rc_ws_next_address(w);
}

static bool rc_ws_connected(struct rc_ws *w)
{
	int errnum = 0;
	socklen_t len = sizeof(errnum);

	if (getsockopt(w->socket->fd, SOL_SOCKET, SO_ERROR, &errnum, &len) || errnum || w->hung_up) {
		rc_ws_address_failed(w, errnum ? errnum : ECONNABORTED);
		return false;
	}
	w->next = NULL;
	w->end.err.code = 0;
	w->attempt_ns = w->deadline_ns;
	rc_ws_start_timer(w);
	return true;
}

/* --- the end */

static void free_ws(struct rc_ws *w)
{
	rc_ws_free_way(w);
	buf_finish_secret(&w->head);
	buf_finish_secret(&w->out);
	buf_finish(&w->answer);
	rc_tls_destroy(w->tls);
	rc_client_unref(w->client);
	free(w);
}

static void rc_ws_on_timer_closed(uv_handle_t *h)
{
	free_ws(h->data);
}

/* Says good-bye where it may, and lets go. */
static void rc_ws_release(struct rc_ws *w)
{
	static const uint8_t normal[] = {CLOSE_NORMAL >> 8, CLOSE_NORMAL & 0xff};

	if (w->released)
		return;
	w->released = true;
	if (w->state == RC_WS_OPEN && !buf_len(&w->out)) {
		rc_ws_send(w, WSFRAME_OP_CLOSE, -1, normal, sizeof(normal));
		if (w->ssl && !w->ended && SSL_shutdown(w->ssl) >= 0)
			rc_ws_drain_tls(w);
	}
	rc_ws_drop_socket(w);
	rc_task_cancel(w->client, &w->task);
	rc_ws_set_state(w, RC_WS_DEAD);
	uv_close((uv_handle_t *)&w->timer, rc_ws_on_timer_closed);
}

static void rc_ws_tell_end(struct rc_ws *w)
{
	if (w->told)
		return;
	w->told = true;
	rc_ws_set_state(w, RC_WS_DEAD);
	(void)uv_timer_stop(&w->timer);
	rc_task_cancel(w->client, &w->task);
	buf_finish_secret(&w->head);
	if (w->ops)
		w->ops->end(w->arg, &w->end);
}

static void rc_ws_fail(struct rc_ws *w, int code, const char *why)
{
	w->end.how = RC_WS_END_FAILED;
	w->end.asked = w->state == RC_WS_ASKED && code != ERR_K8S_TLS;
	err_set(&w->end.err, code, "%s (%s): %s", w->server, w->address, why);
	rc_ws_drop_socket(w);
	rc_ws_tell_end(w);
}

static void fail_tls(struct rc_ws *w)
{
	char words[256];

	rc_ws_fail(w, ERR_K8S_TLS, rc_tls_words(w->tls, words, sizeof(words)));
}

static void rc_ws_over(struct rc_ws *w)
{
	w->end.how = w->peer_closed ? RC_WS_END_CLOSED : RC_WS_END_LOST;
	if (!w->peer_closed && !w->end.err.code)
		err_set(&w->end.err, ERR_LINK_LOST, "%s: the connection %s", w->server,
			w->hung_up ? "was reset" : "ended without a word");
	if (w->peer_closed && !w->mute) {
		uint8_t code[2] = {(uint8_t)(w->end.close_code >> 8), (uint8_t)w->end.close_code};

		rc_ws_send(w, WSFRAME_OP_CLOSE, -1, code, w->end.close_code ? sizeof(code) : 0);
	}
	rc_ws_drop_socket(w);
	rc_ws_tell_end(w);
}

/* --- the answer to what was asked, of a proxy or the server */

/* 1: it is there. 0: not yet, or not at all: then w is dead. */
static int rc_ws_read_answer(struct rc_ws *w, bool connect, struct rc_answer *out)
{
	bool begun = buf_len(&w->answer) > 0;
	uint64_t soon = clock_boot_ns() + ANSWER_MS * NS_PER_MS;
	size_t n = 1;
	uint8_t *to;
	int rc;

	while (n > 0 && buf_room(&w->answer) > 0) {
		size_t room = buf_room(&w->answer) < ANSWER_PIECE ? buf_room(&w->answer) : ANSWER_PIECE;

		if (buf_reserve(&w->answer, room, &to))
			break;
		n = rc_ws_get(w, to, room);
		buf_commit(&w->answer, n);
	}
	if (!begun && buf_len(&w->answer) && soon < w->attempt_ns) {
		w->attempt_ns = soon;
		rc_ws_start_timer(w);
	}
	if (!buf_len(&w->answer) && !w->ended)
		return 0;
	if (!buf_len(&w->answer)) {
		if (!connect && w->tls && rc_tls_refused(w->tls))
			fail_tls(w); /* TLS 1.3: what a server thinks of our certificate comes after the handshake */
		else
			rc_ws_fail(w, ERR_K8S_UNREACHABLE,
				   connect ? "the proxy hung up" : "the server hung up before it answered");
		return 0;
	}
	rc = rc_answer_parse(w->answer.data + w->answer.off, buf_len(&w->answer), w->ended, connect, out);
	if (rc < 0)
		rc_ws_fail(w, ERR_PROTOCOL, connect ? "the proxy's answer is not HTTP" : "the answer is not HTTP");
	return rc > 0;
}

/* "a, b" refused without a word: "b" alone, from the first address on. */
static bool offer_less(struct rc_ws *w)
{
	char *last = strrchr(w->offer, ' ');
	uint8_t *at = last ? memmem(buf_ptr(&w->head), buf_len(&w->head), w->offer, strlen(w->offer)) : NULL;
	size_t cut = last ? (size_t)(last + 1 - w->offer) : 0;

	if (!at || w->end.status != 403 || memchr(w->end.body, '{', w->end.body_len))
		return false;
	memmove(at, at + cut, (size_t)(w->head.data + w->head.off + w->head.len - at) - cut);
	w->head.len -= cut;
	memmove(w->offer, last + 1, strlen(last + 1) + 1);
	log_debug(NULL, "exec at %s: a bare 403: offering %s alone", w->server, w->offer);
	w->end = (struct rc_ws_end){0};
	rc_ws_drop_socket(w);
	w->next = w->addresses;
	rc_ws_next_address(w);
	return true;
}

static void rc_ws_refused(struct rc_ws *w, const struct rc_answer *a)
{
	w->end.how = RC_WS_END_REFUSED;
	w->end.status = a->status;
	w->end.body = a->body;
	w->end.body_len = a->body_len;
	w->end.err.code = 0;
	if (offer_less(w))
		return;
	rc_ws_drop_socket(w);
	rc_ws_tell_end(w);
}

/* --- from connected to open */

static void rc_ws_ask(struct rc_ws *w)
{
	struct buf request;

	buf_init(&request, HEAD_MAX + sizeof(w->key) + 4);
	if (wsframe_key(w->key) || buf_append(&request, buf_ptr(&w->head), buf_len(&w->head)) ||
	    buf_append_str(&request, w->key) || buf_append_str(&request, "\r\n\r\n")) {
		rc_ws_fail(w, ERR_NOMEM, "out of memory");
	} else {
		rc_ws_set_state(w, RC_WS_ASKED);
		rc_ws_put(w, buf_ptr(&request), buf_len(&request));
	}
	buf_finish_secret(&request);
}

static void shake_hands(struct rc_ws *w)
{
	int rc, why;

	ERR_clear_error();
	rc = SSL_do_handshake(w->ssl);
	why = SSL_get_error(w->ssl, rc);
	rc_ws_drain_tls(w);
	ERR_clear_error();
	if (rc == 1)
		rc_ws_ask(w);
	else if (why != SSL_ERROR_WANT_READ || w->hung_up)
		fail_tls(w);
}

static void begin_tls(struct rc_ws *w)
{
	BIO *in;
	struct err e = {0};

	if (!w->tls) {
		rc_ws_ask(w);
		return;
	}
	rc_ws_set_state(w, RC_WS_TLS);
	w->ssl = SSL_new(w->client->ssl);
	in = w->ssl ? BIO_new_socket(w->socket->fd, BIO_NOCLOSE) : NULL;
	if (!in || !BIO_up_ref(w->client->tls_out)) {
		BIO_free(in);
		rc_ws_fail(w, ERR_NOMEM, "out of memory");
		return;
	}
	SSL_set_bio(w->ssl, in, w->client->tls_out);
	SSL_set_connect_state(w->ssl);
	if (rc_tls_apply(w->tls, w->ssl, &e))
		rc_ws_fail(w, e.code, e.message);
	else
		shake_hands(w);
}

static void ask_proxy(struct rc_ws *w)
{
	struct buf b;

	rc_ws_set_state(w, RC_WS_PROXY);
	buf_init(&b, 4096);
	if (buf_printf(&b, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: muxd/%s\r\n%s%s%s\r\n", w->proxy_host,
		       w->proxy_host, MUXD_VERSION, w->proxy_auth ? "Proxy-Authorization: " : "",
		       w->proxy_auth ? w->proxy_auth : "", w->proxy_auth ? "\r\n" : ""))
		rc_ws_fail(w, ERR_UNSUPPORTED, "the proxy's user and password are too long");
	else
		rc_ws_put(w, buf_ptr(&b), buf_len(&b));
	buf_finish_secret(&b);
}

static void step_proxy(struct rc_ws *w)
{
	struct rc_answer a;
	char why[160];

	if (!rc_ws_read_answer(w, true, &a))
		return;
	if (a.status / 100 != 2) {
		text_format(why, sizeof(why), "the proxy said: %.*s", (int)strcspn(buf_cstr(&w->answer), "\r\n"),
			    buf_cstr(&w->answer));
		rc_ws_fail(w, ERR_K8S_UNREACHABLE, why);
		return;
	}
	buf_clear(&w->answer);
	w->attempt_ns = w->deadline_ns;
	rc_ws_start_timer(w);
	begin_tls(w);
}

static void step_asked(struct rc_ws *w)
{
	struct rc_answer a;
	char protocol[32];
	struct buf rest;
	struct err e = {0};

	if (!rc_ws_read_answer(w, false, &a))
		return;
	if (a.status != 101) {
		rc_ws_refused(w, &a);
		return;
	}
	if (rc_answer_check(buf_ptr(&w->answer), a.head_len, w->key, w->offer, protocol, sizeof(protocol), &e)) {
		rc_ws_fail(w, e.code, e.message);
		return;
	}
	(void)uv_timer_stop(&w->timer);
	buf_finish_secret(&w->head);
	rest = w->answer; /* what came behind the head is WebSocket */
	buf_init(&w->answer, RC_ANSWER_MAX);
	buf_consume(&rest, a.head_len);
	rc_ws_set_state(w, RC_WS_OPEN);
	w->ops->open(w->arg, protocol);
	if (w->ops)
		(void)rc_ws_take(w, rest.data + rest.off, buf_len(&rest));
	buf_finish(&rest);
}

static void step_connecting(struct rc_ws *w, int events)
{
	if (!w->socket)
		rc_ws_try_address(w);
	else if (!(events & UV_WRITABLE) || !rc_ws_connected(w))
		return;
	else if (w->proxy_host)
		ask_proxy(w);
	else
		begin_tls(w);
}

/* --- what the socket is ready for */

static void step_state(struct rc_ws *w, int events)
{
	if (events & UV_WRITABLE && w->state != RC_WS_CONNECTING)
		(void)rc_ws_flush(w);
	switch (w->state) {
	case RC_WS_CONNECTING:
		step_connecting(w, events);
		break;
	case RC_WS_PROXY:
		step_proxy(w);
		break;
	case RC_WS_TLS:
		shake_hands(w);
		break;
	case RC_WS_ASKED:
		step_asked(w);
		break;
	case RC_WS_OPEN:
		if (events & UV_READABLE)
			rc_ws_read_messages(w);
		break;
	case RC_WS_DEAD:
		break;
	}
}

static void rc_ws_step(struct rc_ws *w, int events)
{
	if (!w->ops || w->state == RC_WS_DEAD)
		return;
	w->busy++;
	step_state(w, events);
	if (w->ops && w->state == RC_WS_OPEN && w->ended)
		rc_ws_over(w);
	else if (w->ops && w->state == RC_WS_OPEN)
		rc_ws_write_messages(w);
	w->busy--;
	if (!w->ops)
		rc_ws_release(w);
	else
		rc_ws_update_poll(w);
}

static void rc_ws_on_task(void *arg)
{
	struct rc_ws *w = arg;
	bool input = w->hung_up || w->state != RC_WS_OPEN || rc_ws_holds_input(w);

	rc_ws_step(w, input ? UV_READABLE | (w->hung_up ? UV_WRITABLE : 0) : 0);
}

static void rc_ws_on_timer(uv_timer_t *t)
{
	static const char *const what[] = {"no connection in time", "no answer of the proxy in time", "no TLS in time",
					   "no answer in time"};
	struct rc_ws *w = t->data;

	if (clock_boot_ns() < w->attempt_ns) {
		rc_ws_start_timer(w);
	} else if (w->state == RC_WS_CONNECTING && w->next) {
		rc_ws_address_failed(w, ETIMEDOUT);
	} else if (w->state == RC_WS_ASKED && buf_len(&w->answer)) {
		w->ended = true; /* what there is of it has to do */
		rc_ws_step(w, UV_READABLE);
	} else if (w->state <= RC_WS_ASKED) {
		rc_ws_fail(w, ERR_TIMEOUT, what[w->state]);
	}
}

static void rc_ws_start_timer(struct rc_ws *w)
{
	uint64_t now = clock_boot_ns();

	(void)uv_timer_start(&w->timer, rc_ws_on_timer, w->attempt_ns > now ? (w->attempt_ns - now) / NS_PER_MS + 1 : 0,
			     0);
}

/* --- what the stream calls */

int rc_ws_open(struct rc_client *c, const struct kube_endpoint *ep, const char *target, const char *protocols,
	       uint32_t connect_ms, const struct rc_ws_ops *ops, void *arg, struct rc_ws **out, struct err *e)
{
	struct rc_ws *w = calloc(1, sizeof(*w));
	struct err mine = {0};
	int rc;

	if (!w)
		return err_set(e, ERR_NOMEM, "out of memory");
	*w = (struct rc_ws){.client = c, .ops = ops, .arg = arg, .reading = true};
	w->task = (struct rc_task){.run = rc_ws_on_task, .arg = w};
	buf_init(&w->head, HEAD_MAX);
	buf_init(&w->out, OUT_MAX);
	buf_init(&w->answer, RC_ANSWER_MAX);
	rc_client_ref(c);
	text_put(w->offer, sizeof(w->offer), protocols);
	rc = rc_ws_copy_way(w, ep, &mine);
	if (rc == 0 && ep->tls)
		rc = rc_tls_create(ep, ep->ca_pem || ep->insecure ? NULL : rc_client_trust(c), &w->tls, &mine);
	if (rc == 0)
		rc = rc_request_head(ep, target, protocols, &w->head, &mine);
	if (rc) {
		free_ws(w);
		return err_set(e, rc, "%s", mine.message);
	}
	(void)uv_timer_init(c->loop, &w->timer); /* cannot fail */
	w->timer.data = w;
	w->deadline_ns = clock_boot_ns() + connect_ms * NS_PER_MS;
	rc_ws_next_address(w);
	*out = w;
	return 0;
}

void rc_ws_close(struct rc_ws *w)
{
	if (!w || !w->ops)
		return;
	w->ops = NULL;
	if (!w->busy)
		rc_ws_release(w);
}

void rc_ws_read(struct rc_ws *w, bool on)
{
	if (w->reading == on)
		return;
	w->reading = on;
	if (!w->busy && w->state == RC_WS_OPEN)
		rc_ws_update_poll(w);
}

void rc_ws_want_write(struct rc_ws *w)
{
	if (w->want_write)
		return;
	w->want_write = true;
	if (!w->busy && w->state == RC_WS_OPEN)
		rc_ws_update_poll(w);
}

uint32_t rc_ws_silent_ms(const struct rc_ws *w)
{
	return w->socket ? sock_silent_ms(w->socket->fd) : 0;
}
