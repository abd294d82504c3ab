#include "muxd/hub/core/pulse.h"

#include "base/err.h"
#include "base/tick.h"

#include <stdlib.h>

struct pulse {
	uv_timer_t timer;
	bool rests;
	pulse_tick *tick;
	void *arg;
};

static void pulse_on_timer(uv_timer_t *t)
{
	struct pulse *p = t->data;

	p->tick(p->arg);
}

int pulse_create(struct uv_loop_s *loop, pulse_tick *tick, void *arg, struct pulse **out)
{
	struct pulse *p = calloc(1, sizeof(*p));

	if (!p)
		return ERR_NOMEM;
	p->tick = tick;
	p->arg = arg;
	uv_timer_init(loop, &p->timer);
	p->timer.data = p;
	tick_start(&p->timer, pulse_on_timer, PULSE_MS);
	*out = p;
	return 0;
}

static void pulse_on_closed(uv_handle_t *t)
{
	free(t->data);
}

void pulse_destroy(struct pulse *p)
{
	if (p)
		uv_close((uv_handle_t *)&p->timer, pulse_on_closed);
}

void pulse_rest(struct pulse *p, bool rests)
{
	p->rests = rests;
	tick_start(&p->timer, pulse_on_timer, rests ? PULSE_REST_MS : PULSE_MS);
}

void pulse_stir(struct pulse *p)
{
	if (p && p->rests)
		pulse_rest(p, false);
}
