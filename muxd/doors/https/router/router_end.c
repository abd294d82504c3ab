/* How a routed request ends: whole, refused, or cut off. */
#include "muxd/doors/https/router/router_state.h"

#include <sys/socket.h>

#define WAIT_401_NS NS_PER_SEC

/* True when the door has its connection back: the router is gone. */
static bool give_back(struct router *r)
{
	struct conn *c = r->c;

	if (!r->untouched || !r->ask.keep_alive || !r->up.done || r->behind || buf_len(&r->in) || c->door->closing)
		return false;
	(void)watch_set(c, 0, NULL);
	c->router = NULL;
	router_destroy(r);
	c->deadline_ns = clock_boot_ns() + hub_conf(c->door->hub)->api_idle_timeout_ns;
	conn_set_state(c, CONN_BACK);
	conn_queue(c);
	return true;
}

static void log_end(struct router *r)
{
	struct conn *c = r->c;

	if (!c->x)
		return;
	conn_log(c, r->status);
	c->x->answered = true;
	http_exchange_abandon(c->x);
	c->x = NULL;
}

/* Everything was written. whole: the client can tell where the answer ends without the connection's end. */
bool router_finish(struct router *r, bool whole)
{
	router_let_go(r);
	log_end(r);
	if (whole && give_back(r))
		return false;
	r->moved_ns = clock_boot_ns();
	router_set_state(r, LINGER);
	return true;
}

/*
 * An answer that stops here must not look whole: no close_notify, no orderly end. Many clients do not mind the first
 * where the connection's end is the answer's, so the connection is reset then (connect(2): AF_UNSPEC dissolves it).
 */
void router_cut_off(struct router *r)
{
	static const struct sockaddr none = {.sa_family = AF_UNSPEC};
	struct conn *c = r->c;
	int fd = lws_get_socket_fd(c->wsi);

	router_let_go(r);
	log_end(r);
	if (r->state == UPGRADED || r->down.kind == HTTP1_TO_THE_END)
		(void)connect(fd, &none, sizeof(none));
	(void)shutdown(fd, SHUT_RDWR);
	router_kill(r);
}

void router_on_replied(void *arg, struct http_exchange *x)
{
	struct router *r = arg;
	struct conn *c = r->c;
	size_t had = buf_len(&r->out); /* interim answers that the socket did not take yet, maybe half of one */

	r->status = x->status;
	r->ask.keep_alive = r->ask.keep_alive && r->up.done && r->untouched && !r->behind;
	if (http_head(x, r->ask.keep_alive, &r->out) ||
	    (!r->ask.head && buf_append(&r->out, buf_ptr(&x->out), buf_len(&x->out)))) {
		buf_truncate(&r->out, had); /* no memory: the connection ends without a word */
		r->ask.keep_alive = false;
	}
	if (x->status == 401 && conn_failed(c))
		r->hold_until_ns = clock_boot_ns() + WAIT_401_NS;
	router_set_state(r, REPLY);
	conn_queue(c);
}

/* An answer of our own, where none was begun. */
void router_refuse(struct router *r, int rc, const char *message)
{
	router_refuse_as(r, err_http_status(rc), rc, message);
}

void router_refuse_as(struct router *r, int status, int rc, const char *message)
{
	struct err e = {0};

	router_let_go(r);
	/* behind an Upgrade: a request, or words of a protocol that it did not change to; nobody can tell */
	r->behind = r->behind || (r->ask.upgrade && buf_len(&r->in));
	buf_clear(&r->in);
	buf_clear(&r->head);
	err_set(&e, rc, "%s", message);
	http_reply_status(r->c->x, status, rc, &e);
}
