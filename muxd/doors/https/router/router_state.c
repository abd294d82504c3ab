/* A routed request from its making to its end: its states, and letting go of what it holds. */
#define LOG_SUBSYS "rest"
#include "muxd/doors/https/router/router_state.h"
#include "base/log.h"

#include <stdlib.h>

static const char *const state_names[] = {"head", "opening", "asking", "answering", "upgraded", "reply", "linger"};

void router_set_state(struct router *r, enum router_state to)
{
	log_debug(&(struct log_ids){.peer = r->c->peer, .request = r->c->x ? r->c->x->id_text : NULL},
		  "router: %s -> %s", state_names[r->state], state_names[to]);
	r->state = to;
}

struct router *router_create(struct conn *c, bool untouched)
{
	struct router *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	buf_init(&r->in, ROUTER_HEAD_MAX + 4 * PIECE_MAX);
	buf_init(&r->head, 2 * ROUTER_HEAD_MAX);
	buf_init(&r->answer, ROUTER_ANSWER_MAX);
	buf_init(&r->out, HTTP_RESPONSE_MAX);
	r->c = c;
	r->ssl = lws_get_ssl(c->wsi);
	r->untouched = untouched;
	r->moved_ns = clock_boot_ns();
	if (r->ssl)
		SSL_set_mode(r->ssl, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	c->router = r;
	conn_set_state(c, CONN_ROUTED);
	return r;
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

void router_kill(struct router *r)
{
	struct conn *c = r->c;

	c->router = NULL;
	router_destroy(r);
	conn_kill(c);
}
