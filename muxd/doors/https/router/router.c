#define LOG_SUBSYS "rest"
#include "base/log.h"
#include "muxd/doors/https/router/router_state.h"

#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define LINGER_NS (2 * NS_PER_SEC)

static const char *const state_names[] = {"head", "opening", "asking", "answering", "upgraded", "reply", "linger"};

void router_set_state(struct router *r, enum router_state to)
{
	log_debug(&(struct log_ids){.peer = r->c->peer, .request = r->c->x ? r->c->x->id_text : NULL},
		  "router: %s -> %s", state_names[r->state], state_names[to]);
	r->state = to;
}

void router_let_go(struct router *r)
{
	struct attachment *a = r->a;

	r->a = NULL;
	attachment_detach(a);
}

void router_free(struct router *r)
{
	buf_finish_secret(&r->in);
	buf_finish(&r->head);
	buf_finish(&r->answer);
	buf_finish(&r->out);
	free(r);
}

void router_destroy(struct router *r)
{
	if (!r)
		return;
	router_let_go(r);
	r->c = NULL;
	if (!r->busy)
		router_free(r);
}

/* ---- turns */

/* What went wrong on either side. */
static void broken(struct router *r, int rc)
{
	if (rc == ERR_EOF)
		conn_kill(r->c);
	else if (r->state != ASKING)
		router_cut_off(r);
	else if (rc == ERR_INVAL)
		router_refuse(r, ERR_INVAL, "the chunks of the request's body are malformed");
	else
		router_refuse(r, ERR_PORT_ANSWER, r->why);
}

/* The program has said all: is the answer whole with it? */
static void program_ended(struct router *r)
{
	char text[120];

	if (r->state == ASKING && r->failed) {
		router_refuse(r, r->failed, r->why);
	} else if (r->state == ASKING) {
		snprintf(text, sizeof(text), "the program on port %u closed the connection without an answer",
			 r->ask.port);
		router_refuse(r, ERR_PORT, text);
	} else if (r->failed || (r->state == ANSWERING && r->down.kind != HTTP1_TO_THE_END)) {
		router_cut_off(r);
	} else if (router_finish(r, false)) {
		router_turn(r);
	}
}

static void linger(struct router *r)
{
	uint8_t *p = r->c->door->piece;
	ssize_t n;

	if (!r->shut) {
		r->shut = true;
		ERR_clear_error();
		(void)SSL_shutdown(r->ssl);
		ERR_clear_error();
		(void)shutdown(lws_get_socket_fd(r->c->wsi), SHUT_WR);
	}
	for (int i = 0; i < ROUTER_STEPS; i++) {
		n = router_tls_read(r, p, PIECE_MAX);
		if (n < 0) {
			conn_kill(r->c);
			return;
		}
		if (n == 0)
			break;
	}
	router_wait(r);
}

static void reply(struct router *r)
{
	int rc = 0;

	while (!r->hold_until_ns && buf_len(&r->out) && (rc = router_feed_client(r)) > 0)
		;
	if (rc < 0)
		conn_kill(r->c);
	else if (r->hold_until_ns || buf_len(&r->out))
		router_wait(r);
	else if (router_finish(r, true))
		linger(r);
}

static void exchange(struct router *r)
{
	int rc = router_move(r);

	if (rc < 0) {
		broken(r, rc);
		return;
	}
	if (buf_len(&r->out) == 0 && r->state == ANSWERING && r->down.done) {
		if (router_finish(r, true))
			linger(r);
		return;
	}
	if (r->program_end && !buf_len(&r->out)) {
		program_ended(r);
		return;
	}
	if (rc)
		conn_queue(r->c);
	router_wait(r);
}

void router_turn(struct router *r)
{
	switch (r->state) {
	case HEAD:
		router_read_head(r);
		break;
	case OPENING:
		router_wait(r);
		break;
	case REPLY:
		reply(r);
		break;
	case LINGER:
		linger(r);
		break;
	default:
		exchange(r);
	}
}

void router_on_socket(struct conn *c, int events)
{
	struct router *r = c->router;

	if (events & UV_WRITABLE)
		r->full = false;
	if (events & UV_DISCONNECT && r->state != UPGRADED && r->state != LINGER && r->state != HEAD) {
		conn_kill(c);
		return;
	}
	router_turn(r);
}

void router_wait(struct router *r)
{
	int events = r->state == UPGRADED ? 0 : UV_DISCONNECT;

	if (r->state == HEAD || r->state == LINGER || router_wants_input(r))
		events |= UV_READABLE;
	if (r->full)
		events |= UV_WRITABLE;
	if (watch_set(r->c, events, router_on_socket))
		conn_kill(r->c);
}

/* NULL: the connection has ended. */
static struct router *create(struct conn *c, bool untouched)
{
	struct router *r = calloc(1, sizeof(*r));

	if (!r) {
		conn_kill(c);
		return NULL;
	}
	buf_init(&r->in, ROUTER_HEAD_MAX + 4 * PIECE_MAX);
	buf_init(&r->head, 2 * ROUTER_HEAD_MAX);
	buf_init(&r->answer, ROUTER_ANSWER_MAX);
	buf_init(&r->out, HTTP_RESPONSE_MAX);
	r->c = c;
	r->ssl = lws_get_ssl(c->wsi);
	r->untouched = untouched;
	r->moved_ns = clock_boot_ns();
	SSL_set_mode(r->ssl, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	c->router = r;
	conn_set_state(c, CONN_ROUTED);
	return r;
}

void router_begin(struct conn *c, const uint8_t *p, size_t n, bool untouched)
{
	struct router *r = create(c, untouched);

	if (!r)
		return;
	if (buf_append(&r->in, p, n)) {
		conn_kill(c);
		return;
	}
	buf_clear(&c->raw);
	router_parse_head(r);
}

void router_turn_away(struct conn *c, int status, int rc, const char *message)
{
	struct router *r = create(c, false);

	if (!r)
		return;
	c->door->metrics.malformed++;
	if (router_make_exchange(r, false)) {
		conn_kill(c);
		return;
	}
	if (status == 405)
		snprintf(c->x->allow, sizeof(c->x->allow), "GET, HEAD, POST, PUT, DELETE");
	router_refuse_as(r, status, rc, message);
}

/* ---- time */

static void on_silence(struct router *r)
{
	r->c->door->metrics.timeouts++;
	if (r->state == ASKING)
		router_refuse(r, ERR_TIMEOUT, "the server in the sandbox did not answer within router.answer_timeout");
	else
		router_cut_off(r);
}

void router_sweep(struct router *r, uint64_t now_ns)
{
	const struct conf *conf = hub_conf(r->c->door->hub);
	uint64_t silent = now_ns > r->moved_ns ? now_ns - r->moved_ns : 0;

	if (r->hold_until_ns && now_ns >= r->hold_until_ns) {
		r->hold_until_ns = 0;
		router_turn(r);
		return;
	}
	switch (r->state) {
	case HEAD:
		if (silent >= conf->api_header_timeout_ns)
			conn_kill(r->c);
		break;
	case ASKING:
		if (silent >= conf->router_answer_timeout_ns)
			on_silence(r);
		break;
	case ANSWERING:
	case UPGRADED:
		if (silent >= conf->router_idle_timeout_ns)
			on_silence(r);
		break;
	case REPLY:
		if (silent >= conf->api_idle_timeout_ns)
			conn_kill(r->c);
		break;
	case LINGER:
		if (silent >= LINGER_NS)
			conn_kill(r->c);
		break;
	default:
		break;
	}
}
