/* A stream to what runs: asked beside everything else, of the provider, by a call that no run owns. */
#include "base/err.h"
#include "control/life/life_state.h"

#include <stdlib.h>
#include <string.h>

static void life_connect_on_connected(void *arg, const struct sandbox_answer *r)
{
	struct life_call *c = arg;
	struct life *l = c->life;
	struct life_waiter *w = c->w;
	struct life_agent *a = l && !l->dying ? life_agent(l, c->agent, NULL) : NULL;
	struct sandbox_info copy = {0};

	if (l)
		LIST_REMOVE(c, entry);
	free(c);
	if (a && r->rc == ERR_NOT_FOUND && !w->tried) { /* gone: that is found out first */
		life_want_nobody(a, WANT_CHECK, NULL, r->e ? r->e->message : "");
		if (w->want == WANT_ENSURE) {
			w->tried = true;
			life_want(l, a->name, w);
			free(w);
			return;
		}
	}
	if (!r->rc && r->info)
		copy = *r->info;
	if (a && !r->rc) {
		life_overlay(l, &a->row, &copy);
		if (!a->row.generation || !id_equal(&a->row.sandbox, &copy.sandbox_id))
			life_want_nobody(a, WANT_CHECK, NULL, "");
	}
	sandbox_answer(w->stream, w->arg, r->rc, r->e, &copy, r->fd);
	explicit_bzero(&copy, sizeof(copy));
	free(w);
}

void life_connect(struct life_agent *a, struct life_waiter *w)
{
	struct life_call *c = calloc(1, sizeof(*c));

	if (!c) {
		life_answer(a, w, ERR_NOMEM, NULL);
		return;
	}
	TAILQ_REMOVE(&a->waiters, w, entry);
	c->life = a->life;
	c->w = w;
	memcpy(c->agent, a->name, sizeof(c->agent));
	LIST_INSERT_HEAD(&a->life->calls, c, entry);
	sandbox_ask(a->life->inner, &(struct sandbox_ask){.op = SANDBOX_CONNECT, .agent = a->name},
		    life_connect_on_connected, c);
}
