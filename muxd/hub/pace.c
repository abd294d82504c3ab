#include "muxd/hub/pace.h"

#include "base/err.h"

#include <stdlib.h>

static void on_pace(uv_timer_t *t);

static uint64_t due(const struct attachment *a)
{
	return a->share_ms + PACE_MS;
}

static size_t share_of(const struct session *s)
{
	size_t each = PACE_SHARE / (s->observers ? s->observers : 1);

	return each > PACE_PIECE ? each : PACE_PIECE;
}

static void give_share(struct attachment *a)
{
	a->share = share_of(a->session);
	a->share_ms = uv_now(a->session->hub->loop);
}

static void tell(struct attachment *a)
{
	pace_forget(a);
	give_share(a);
	attachment_tell(a);
}

/* The rest of those who are due have their turn in the next millisecond. */
static void on_pace(uv_timer_t *t)
{
	struct hub *h = t->data;
	uint64_t now = uv_now(h->loop), next = UINT64_MAX;
	struct attachment *a, *after;
	unsigned told = 0;

	for (a = TAILQ_FIRST(&h->paced); a; a = after) {
		after = TAILQ_NEXT(a, of_paced);
		if (due(a) <= now && told < PACE_TURN) {
			tell(a);
			told++;
		} else if (due(a) < next) {
			next = due(a);
		}
	}
	if (next != UINT64_MAX)
		uv_timer_start(t, on_pace, next > now ? next - now : 1, 0);
	hub_flush(h);
}

void pace_wait(struct attachment *a)
{
	struct hub *h = a->session->hub;
	uint64_t now = uv_now(h->loop), wait = due(a) > now ? due(a) - now : 1;

	if (a->paced)
		return;
	a->paced = true;
	TAILQ_INSERT_TAIL(&h->paced, a, of_paced);
	if (!uv_is_active((uv_handle_t *)h->pace) || uv_timer_get_due_in(h->pace) > wait)
		uv_timer_start(h->pace, on_pace, wait, 0);
}

void pace_forget(struct attachment *a)
{
	if (a->paced)
		TAILQ_REMOVE(&a->session->hub->paced, a, of_paced);
	a->paced = false;
}

void pace_begin(struct attachment *a)
{
	give_share(a);
}

bool pace_allows(struct attachment *a)
{
	if (a->share == 0)
		pace_wait(a);
	return a->share > 0;
}

bool pace_behind(const struct attachment *a)
{
	const struct stream *st = &a->session->stream[STREAM_OUTPUT];

	return st->visible - a->cursor[STREAM_OUTPUT] > PACE_LAG * share_of(a->session);
}

void pace_took(struct attachment *a, size_t n)
{
	a->share -= n < a->share ? n : a->share;
}

static void free_timer(uv_handle_t *t)
{
	free(t);
}

int pace_create(struct hub *h)
{
	h->pace = malloc(sizeof(*h->pace));
	if (!h->pace)
		return ERR_NOMEM;
	uv_timer_init(h->loop, h->pace);
	h->pace->data = h;
	return 0;
}

void pace_destroy(struct hub *h)
{
	if (h->pace)
		uv_close((uv_handle_t *)h->pace, free_timer);
	h->pace = NULL;
}
