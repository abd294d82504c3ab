/* A channel of the plain backend: its state, its place among the running, and what the hub is told of it. */
#define LOG_SUBSYS "plain"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/plain/peer.h"

#include <stdlib.h>
#include <string.h>

static const char *const state_names[] = {"waiting", "starting", "running", "ended"};

static void channel_count(const struct plain_channel *c, enum channel_state s, int by)
{
	if (s == CHANNEL_WAITING)
		c->peer->waiting += (unsigned)by;
	else if (s == CHANNEL_STARTING)
		c->peer->starting += (unsigned)by;
}

void channel_set_state(struct plain_channel *c, enum channel_state s)
{
	log_debug(&(struct log_ids){.agent = c->peer->agent, .session = c->mark}, "%s -> %s", state_names[c->state],
		  state_names[s]);
	channel_count(c, c->state, -1);
	channel_count(c, s, 1);
	if (c->state == CHANNEL_STARTING) { /* the next one may */
		c->peer->turn = true;
		peer_kick(c->peer);
	}
	c->state = s;
}

struct plain_channel *channel_find(const struct plain_peer *p, uint32_t number)
{
	struct plain_channel *c;

	TAILQ_FOREACH(c, &p->channels, entry)
	if (c->number == number)
		return c;
	return NULL;
}

void channel_release(struct plain_channel *c)
{
	plain_exec_close(c->exec);
	c->exec = NULL;
	if (c->slot) {
		c->slot = false;
		c->peer->running--;
		c->peer->turn = true; /* somebody else's, once this one is done with */
		peer_kick(c->peer);
	}
}

void plain_channel_destroy(struct plain_channel *c)
{
	channel_count(c, c->state, -1);
	channel_release(c);
	sweep_cancel(c->peer, &c->sweep);
	TAILQ_REMOVE(&c->peer->channels, c, entry);
	for (int i = 0; i < 3; i++)
		buf_finish(&c->held[i]);
	buf_finish(&c->input);
	buf_finish(&c->framed);
	free(c->strings);
	free(c);
}

/* ---- what the hub is told of it */

void channel_put_exit(struct plain_channel *c, struct frame_exit *x, const char *text)
{
	x->total[0] = x->cause == CAUSE_NOT_STARTED ? 0 : c->accepted;
	x->total[1] = c->sent[1];
	x->total[2] = c->sent[2];
	c->told = true;
	channel_set_state(c, CHANNEL_ENDED);
	if (!c->forgotten)
		wire_put(c->peer, &(struct frame){.type = FRAME_EXIT,
						  .channel = c->number,
						  .p = (const uint8_t *)text,
						  .n = strlen(text),
						  .u.exit = *x});
}

void channel_put_opened(struct plain_channel *c, uint16_t code, const char *text)
{
	if (!c->forgotten)
		wire_put(c->peer, &(struct frame){.type = FRAME_OPENED,
						  .channel = c->number,
						  .p = (const uint8_t *)text,
						  .n = strlen(text),
						  .u.opened = {code, (uint32_t)c->leader.pid}});
}

void channel_refuse(struct plain_channel *c, const char *where, int error, const char *text)
{
	struct frame_exit x = {.cause = CAUSE_NOT_STARTED, .code = -1, .error = error};

	if (c->told)
		return;
	channel_release(c);
	c->over = true;
	c->deadline_ns = c->next_ns = 0;
	c->ending = ENDING_NOT;
	text_put(x.at, sizeof(x.at), where);
	if (c->state != CHANNEL_RUNNING)
		channel_put_opened(c, CODE_SYSTEM, text);
	channel_put_exit(c, &x, text);
	peer_kick(c->peer); /* who was forgotten meanwhile goes then */
}

void channel_refuse_waiting(struct plain_peer *p, const struct err *e)
{
	struct plain_channel *c;

	TAILQ_FOREACH(c, &p->channels, entry)
	if (c->state == CHANNEL_WAITING)
		channel_refuse(c, err_name(e->code), 0, e->message);
}
