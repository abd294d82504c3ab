#include "muxd/muxlet/muxlet.h"

#include <stdlib.h>

void channel_set_state(struct channel *c, enum channel_state s)
{
	static const char *const names[] = {"STARTING", "RUNNING", "ENDING", "DRAINING", "ENDED"};
	bool ended = s == CHANNEL_ENDED && c->state != CHANNEL_ENDED;

	muxlet_note(c->m, "channel %u: %s -> %s", c->number, names[c->state], names[s]);
	c->state = s;
	if (ended)
		muxlet_ended(c);
}

void channel_destroy(struct channel *c)
{
	struct muxlet *m = c->m;
	const char *at;

	if (c->birth) {
		spares_let_go(m, c->birth);
		birth_free(m, c->birth);
	}
	(void)spares_failure(c, &at);
	timer_cancel(&m->loop, &c->end_timer);
	timer_cancel(&m->loop, &c->echo_timer);
	channel_input_let_go(c);
	for (int i = 0; i < 2; i++) {
		output_let_go(&c->out[i]);
		if (m->stream)
			stream_let_go(m->stream, &c->out[i]);
		spool_finish(&c->out[i].spool);
	}
	if (c->queued)
		TAILQ_REMOVE(c->queued, c, to_send);
	if (c->in_lazy)
		TAILQ_REMOVE(&m->lazy, c, lazy);
	if (c->pid)
		LIST_REMOVE(c, by_pid);
	LIST_REMOVE(c, by_number);
	TAILQ_REMOVE(c->state == CHANNEL_ENDED ? &m->ended : &m->alive, c, place);
	if (c->state == CHANNEL_ENDED)
		m->finished--;
	else
		m->living--;
	m->spooled -= c->spooled;
	free(c->queue);
	free(c->begun);
	free(c);
}
