#define LOG_SUBSYS "kube"
#include "control/kube/rc_ws_state.h"

#include "muxd/base/log.h"

#include <errno.h>
#include <libwebsockets.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define SHORT_REQUEST     "GET / HTTP/1.1\r\n" /* what libwebsockets writes, for ours to take its place */
#define SHORT_HOST        "muxd"
#define SHORT_REQUEST_MAX 1024
#define KEY_FIELD         "Sec-WebSocket-Key: "
#define KEY_LEN           24
#define SERV_BUF_TAIL     12          /* that much less than there is libwebsockets calls room */
#define BIG_HEAD          (12 * 1024) /* a socket's first buffer may not take more at once */

/* --- TLS: ours where libwebsockets' would lose something (rc_ws.h) */

void rc_ws_ssl_info(const SSL *ssl, int where, int ret)
{
	struct rc_client *c = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	struct rc_ws *w = c->serving;

	if (!w || !w->tls)
		return;
	/* should this fail, nothing is trusted, and the handshake fails too */
	if ((where & SSL_CB_HANDSHAKE_START) && !SSL_get_app_data(ssl))
		(void)rc_tls_apply(w->tls, (SSL *)ssl, &w->end.err);
	if (where & SSL_CB_ALERT)
		rc_tls_alert(w->tls, where & SSL_CB_READ, ret);
}

/* Writes to a connection that is reset "succeed": so libwebsockets reads on until the end. */
static int bio_write(BIO *b, const char *p, int n)
{
	struct rc_ws *w = BIO_get_data(b);
	ssize_t done;

	BIO_clear_retry_flags(b);
	if (w->mute)
		return n;
	done = send(lws_get_socket_fd(w->wsi), p, (size_t)n, MSG_NOSIGNAL);
	if (done >= 0)
		return (int)done;
	if (errno == EAGAIN || errno == EINTR) {
		BIO_set_retry_write(b);
		return -1;
	}
	w->mute = true;
	return n;
}

static long bio_ctrl(BIO *b, int cmd, long num, void *ptr)
{
	(void)b;
	(void)num;
	(void)ptr;
	return cmd == BIO_CTRL_FLUSH;
}

static int bio_create(BIO *b)
{
	BIO_set_init(b, 1);
	return 1;
}

BIO_METHOD *rc_ws_bio_method(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "exec");

	if (m && BIO_meth_set_write(m, bio_write) == 1 && BIO_meth_set_ctrl(m, bio_ctrl) == 1 &&
	    BIO_meth_set_create(m, bio_create) == 1)
		return m;
	BIO_meth_free(m);
	return NULL;
}

static int own_bio(struct rc_ws *w)
{
	BIO *b = BIO_new(w->client->bio);

	if (!b)
		return err_set(&w->end.err, ERR_NOMEM, "out of memory");
	BIO_set_data(b, w);
	SSL_set0_wbio(lws_get_ssl(w->wsi), b);
	return 0;
}

/* --- the request */

/*
 * pkt[0..*at) is libwebsockets' request but for its last CR LF, room more bytes may follow. Ours takes its place; of
 * theirs the key is kept, as the answer is compared with it.
 */
static int write_request(struct rc_ws *w, char *pkt, char **at, size_t room)
{
	size_t head = buf_len(&w->head);
	char key[KEY_LEN];
	const char *k = memmem(pkt, (size_t)(*at - pkt), KEY_FIELD, strlen(KEY_FIELD));

	if (!k || k + strlen(KEY_FIELD) + KEY_LEN + 2 > *at || (size_t)(*at - pkt) + room < head + KEY_LEN + 2)
		return err_set(&w->end.err, ERR_TOO_LARGE, "the request is too long for this libwebsockets");
	memcpy(key, k + strlen(KEY_FIELD), KEY_LEN);
	memcpy(pkt, buf_ptr(&w->head), head);
	memcpy(pkt + head, key, KEY_LEN);
	memcpy(pkt + head + KEY_LEN, "\r\n", 2);
	*at = pkt + head + KEY_LEN + 2;
	w->request = (uint8_t *)pkt;
	w->request_len = head;
	return 0;
}

/* The handshake is over and the request due: ours goes out. */
static int on_append(struct rc_ws *w, char **at, size_t room)
{
	char *pkt = *at + room + SERV_BUF_TAIL - RC_SERV_BUF;
	int big = (int)buf_len(&w->head) * 2;

	if (pkt > *at || *at - pkt > SHORT_REQUEST_MAX || memcmp(pkt, SHORT_REQUEST, strlen(SHORT_REQUEST)) != 0)
		return err_set(&w->end.err, ERR_VERSION, "this libwebsockets writes requests in another way");
	/* it takes a request that went out in part for one that is out */
	if (big > BIG_HEAD)
		(void)setsockopt(lws_get_socket_fd(w->wsi), SOL_SOCKET, SO_SNDBUF, &big, sizeof(big));
	if (write_request(w, pkt, at, room))
		return -1;
	rc_ws_set_state(w, RC_WS_ASKED);
	return w->tls ? own_bio(w) : 0;
}

/* --- call backs of libwebsockets */

static int on_filter(struct rc_ws *w, struct lws *wsi)
{
	if (lws_hdr_copy(wsi, w->protocol, sizeof(w->protocol), WSI_TOKEN_PROTOCOL) > 0)
		return 0;
	return err_set(&w->end.err, ERR_PROTOCOL, "the server upgraded, but chose none of %s", w->offer);
}

static void on_peer_close(struct rc_ws *w, const uint8_t *p, size_t n)
{
	size_t len = n > 2 ? n - 2 : 0;

	w->peer_closed = true;
	w->end.close_code = n >= 2 ? p[0] << 8 | p[1] : 0;
	if (len >= sizeof(w->end.close_reason))
		len = sizeof(w->end.close_reason) - 1;
	if (len)
		memcpy(w->end.close_reason, p + 2, len);
}

/* A status that is not 101 and that we did not see first: it came in too small pieces. Its body is lost. */
static void on_answer(struct rc_ws *w, struct lws *wsi)
{
	unsigned status = lws_http_client_http_response(wsi);

	if (status == 101)
		return;
	w->end.how = RC_WS_END_REFUSED;
	w->end.status = (int)status;
}

static void on_failed(struct rc_ws *w, const char *why, size_t n)
{
	if (!w->end.err.code && why)
		err_set(&w->end.err, ERR_PROTOCOL, "%.*s", (int)n, why);
}

static void on_open(struct rc_ws *w)
{
	rc_ws_set_state(w, RC_WS_OPEN);
	if (w->ops)
		w->ops->open(w->arg, w->protocol);
}

static int on_writable(struct rc_ws *w)
{
	if (!w->want_write || w->state != RC_WS_OPEN || !w->ops)
		return 0;
	w->want_write = false;
	w->ops->writable(w->arg);
	return w->broken ? -1 : 0;
}

static int on_lws(struct lws *wsi, enum lws_callback_reasons why, void *user, void *in, size_t len)
{
	struct rc_ws *w = user;

	if (!w)
		return 0;
	switch (why) {
	case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER:
		w->wsi = wsi;
		return on_append(w, in, len) ? -1 : 0;
	case LWS_CALLBACK_ESTABLISHED_CLIENT_HTTP:
		on_answer(w, wsi);
		return 0;
	case LWS_CALLBACK_CLIENT_FILTER_PRE_ESTABLISH:
		return on_filter(w, wsi) ? -1 : 0;
	case LWS_CALLBACK_CLIENT_ESTABLISHED:
		on_open(w);
		return 0;
	case LWS_CALLBACK_CLIENT_RECEIVE:
		if (w->ops)
			w->ops->message(w->arg, in, len, lws_is_final_fragment(wsi));
		return 0;
	case LWS_CALLBACK_CLIENT_RECEIVE_PONG:
		if (w->ops)
			w->ops->pong(w->arg, in, len);
		return 0;
	case LWS_CALLBACK_CLIENT_WRITEABLE:
		return on_writable(w);
	case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
		on_peer_close(w, in, len);
		return 0;
	case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
		on_failed(w, in, len);
		return 0;
	case LWS_CALLBACK_WSI_DESTROY:
		if (w->wsi == wsi)
			w->wsi = NULL;
		return 0;
	default:
		return 0;
	}
}

const struct lws_protocols *rc_ws_protocols(void)
{
	static const struct lws_protocols protocols[] = {
	    {"exec", on_lws, 0, RC_PIECE_MAX, 0, NULL, RC_PIECE_MAX},
	    {NULL, NULL, 0, 0, 0, NULL, 0},
	};

	return protocols;
}

/* --- what rc_ws.c calls */

static void wipe_request(struct rc_ws *w)
{
	if (w->request)
		explicit_bzero(w->request, w->request_len);
	w->request = NULL;
}

int rc_ws_lws_connect(struct rc_ws *w, struct err *e)
{
	struct lws_client_connect_info i = {
	    .context = w->client->lws,
	    .vhost = w->vhost,
	    .address = w->proxy ? w->host : w->address,
	    .port = w->proxy ? w->port : w->connect_port,
	    .path = "/",
	    .host = SHORT_HOST,
	    .protocol = w->offer,
	    .local_protocol_name = "exec",
	    .alpn = "http/1.1",
	    .userdata = w,
	    .ssl_connection = w->tls ? LCCSCF_USE_SSL | LCCSCF_SKIP_SERVER_CERT_HOSTNAME_CHECK : 0,
	    .pwsi = &w->wsi,
	};
	struct rc_ws *before = w->client->serving;

	w->client->serving = w;
	errno = 0;
	if (!lws_client_connect_via_info(&i)) {
		w->wsi = NULL;
		err_sys(e, errno ? errno : ECONNREFUSED, "%s at %s", w->server, w->address);
	}
	w->client->serving = before;
	wipe_request(w);
	return w->wsi ? 0 : ERR_K8S_UNREACHABLE;
}

void rc_ws_lws_serve(struct rc_ws *w, short events)
{
	struct lws_pollfd p = {.events = events, .revents = events};

	if (!w->wsi)
		return;
	p.fd = lws_get_socket_fd(w->wsi);
	w->client->serving = w;
	(void)lws_service_fd(w->client->lws, &p);
	w->client->serving = NULL;
	wipe_request(w);
}

/* Said as at the context's end, it goes at once and waits for nothing. */
void rc_ws_lws_kill(struct rc_ws *w)
{
	if (!w->wsi)
		return;
	lws_close_free_wsi(w->wsi, LWS_CLOSE_STATUS_NOSTATUS_CONTEXT_DESTROY, "muxd");
	w->wsi = NULL;
}

int rc_ws_lws_fd(const struct rc_ws *w)
{
	return w->wsi ? (int)lws_get_socket_fd(w->wsi) : -1;
}

bool rc_ws_lws_backlog(const struct rc_ws *w)
{
	return w->wsi && lws_partial_buffered(w->wsi);
}

bool rc_ws_lws_wants_out(const struct rc_ws *w)
{
	SSL *ssl = w->wsi && w->tls ? lws_get_ssl(w->wsi) : NULL;

	return ssl && SSL_want_write(ssl);
}

ssize_t rc_ws_lws_read(struct rc_ws *w, void *p, size_t n, bool peek)
{
	SSL *ssl = w->tls ? lws_get_ssl(w->wsi) : NULL;
	size_t got = 0;
	int ok;

	if (!ssl)
		return recv(lws_get_socket_fd(w->wsi), p, n, peek ? MSG_PEEK : 0);
	ERR_clear_error();
	w->client->serving = w; /* for rc_ws_ssl_info() */
	ok = peek ? SSL_peek_ex(ssl, p, n, &got) : SSL_read_ex(ssl, p, n, &got);
	w->client->serving = NULL;
	if (ok)
		return (ssize_t)got;
	errno = SSL_get_error(ssl, 0) == SSL_ERROR_WANT_READ ? EAGAIN : EIO;
	ERR_clear_error();
	return errno == EAGAIN ? -1 : 0;
}

static void write_message(struct rc_ws *w, int first, const uint8_t *p, size_t n, enum lws_write_protocol as)
{
	uint8_t *out = w->client->scratch + LWS_PRE, *to = out;

	if (n >= RC_PIECE_MAX || !w->wsi)
		return;
	if (first >= 0)
		*to++ = (uint8_t)first;
	if (n)
		memcpy(to, p, n);
	if (lws_write(w->wsi, out, (size_t)(to - out) + n, as) < 0)
		w->broken = true;
}

void rc_ws_send(struct rc_ws *w, int first, const uint8_t *p, size_t n)
{
	write_message(w, first, p, n, LWS_WRITE_BINARY);
}

void rc_ws_ping(struct rc_ws *w, const uint8_t *p, size_t n)
{
	write_message(w, -1, p, n, LWS_WRITE_PING);
}
