/* Bytes of a connection, under TLS or not, and the frames in them. */
#include "control/kube/exec/rc_ws_state.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>

#define MESSAGES_PER_TURN 4

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

size_t rc_ws_get(struct rc_ws *w, uint8_t *p, size_t n)
{
	if (w->ended || !w->socket || n == 0)
		return 0;
	return w->ssl ? get_tls(w, p, n) : get_plain(w, p, n);
}

bool rc_ws_holds_input(const struct rc_ws *w)
{
	return w->ssl && !w->ended && SSL_has_pending(w->ssl);
}

/* --- bytes out */

/* What is lost by a write that fails nobody would have read: go on reading what there is. */
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

bool rc_ws_flush(struct rc_ws *w)
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
void rc_ws_drain_tls(struct rc_ws *w)
{
	uint8_t *out = w->client->out;
	int n;

	while ((n = BIO_read(w->client->tls_out, out, WSFRAME_HEAD_MAX + RC_MESSAGE_MAX)) > 0)
		emit(w, out, (size_t)n);
}

void rc_ws_put(struct rc_ws *w, const uint8_t *p, size_t n)
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

bool rc_ws_take(struct rc_ws *w, uint8_t *p, size_t n)
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

void rc_ws_read_messages(struct rc_ws *w)
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
void rc_ws_write_messages(struct rc_ws *w)
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
