/*
 * When a client is told of something: a driver at once, an observer in its share (wake.h). What is to be told is
 * queued, and called from the loop.
 */
#include "muxd/hub/session/wake.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/session_run.h"
#include "muxd/hub/session/session_state.h"

#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/core/hub_rooms.h"

#include <stdlib.h>
#include <uv.h>

struct clients {
	struct attachment_list all; /* in the order in which they came */
	struct attachment_list pending, paced;
	uv_idle_t *idle;  /* runs while some are pending */
	uv_timer_t *pace; /* the next share of those that are paced */
	bool flushing;
};

static void wake_on_idle(uv_idle_t *idle)
{
	hub_flush(idle->data);
}

static void enqueue(struct attachment *a, unsigned wakes)
{
	struct clients *c = hub_clients(a->session->hub);

	if (!a->wakes) {
		TAILQ_INSERT_TAIL(&c->pending, a, pending);
		uv_idle_start(c->idle, wake_on_idle); /* callbacks come from the loop, before it sleeps */
	}
	a->wakes |= wakes;
}

void attachment_wake(struct attachment *a, unsigned wakes)
{
	if (a->over)
		return;
	if (a->held) {
		a->held_wakes |= wakes;
		return;
	}
	if (wakes & WAKE_READABLE && a->armed && a->role == ROLE_OBSERVER)
		pace_wait(a);
	if (wakes & WAKE_READABLE && (!a->armed || a->role == ROLE_OBSERVER))
		wakes &= ~(unsigned)WAKE_READABLE;
	if (wakes)
		enqueue(a, wakes);
}

void attachment_release(struct attachment *a)
{
	a->held = false;
	attachment_wake(a, a->held_wakes);
}

void session_wake_all(struct session *s, unsigned wakes)
{
	struct attachment *a;

	TAILQ_FOREACH(a, &s->attachments, of_session)
	attachment_wake(a, wakes);
}

static void wake_finish(struct attachment *a)
{
	a->over = true;
}

/* The oldest byte there is; in a flood that one is gone by the time a door has its turn, so who watches goes to the
 * end. */
static uint64_t after_hole(const struct attachment *a, int stream)
{
	const struct stream *st = &a->session->stream[stream];
	/* where bytes wait for the disk before they may be shown, the oldest may be among those */
	uint64_t shown = st->visible > st->start ? st->visible - st->start : 0;
	bool near_end = a->role == ROLE_OBSERVER && shown > a->share;

	return near_end ? st->visible - a->share : st->start;
}

/* Told before what is behind the hole is shown, which follows in the same turn: by the next there may be another hole.
 */
static void call_skipped(struct attachment *a)
{
	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++) {
		uint64_t from = a->cursor[i], to = after_hole(a, i);

		if (from >= a->session->stream[i].start)
			continue;
		a->cursor[i] = to;
		enqueue(a, WAKE_READABLE);
		attachment_check_end(a);
		a->ops->skipped(a->arg, i, to - from);
		return; /* the door may have gone; the other stream's turn comes with its next peek */
	}
}

/* One callback; the attachment may be gone afterwards. What is left stays queued. */
static void call_one(struct attachment *a, unsigned w)
{
	const char *text = a->text ? a->text : "";

	if (w == WAKE_CUT) {
		wake_finish(a);
		a->ops->cut(a->arg, a->cut_cause, text);
	} else if (w == WAKE_NOTICE) {
		a->ops->notice(a->arg, text, a->notice_over);
	} else if (w == WAKE_SKIPPED) {
		call_skipped(a);
	} else if (w == WAKE_RESIZED) {
		if (a->ops->resized)
			a->ops->resized(a->arg, a->session->launch.cols, a->session->launch.rows);
	} else if (w == WAKE_READABLE) {
		a->armed = false;
		a->ops->readable(a->arg);
	} else if (w == WAKE_WRITABLE) {
		a->input_blocked = false;
		a->ops->writable(a->arg);
	} else if (w == WAKE_ENDED) {
		wake_finish(a);
		a->ops->ended(a->arg, a->session->result);
	}
}

/* In this order: what a client must know before what it may see, and the end last. */
static const unsigned wake_order[] = {WAKE_CUT,      WAKE_NOTICE,   WAKE_SKIPPED, WAKE_RESIZED,
				      WAKE_READABLE, WAKE_WRITABLE, WAKE_ENDED};

void hub_flush(struct hub *h)
{
	struct clients *c = hub_clients(h);
	struct attachment *a;

	if (c->flushing)
		return;
	c->flushing = true;
	while ((a = TAILQ_FIRST(&c->pending))) {
		unsigned w = 0;

		for (size_t i = 0; i < sizeof(wake_order) / sizeof(wake_order[0]) && !w; i++)
			w = a->wakes & wake_order[i];
		TAILQ_REMOVE(&c->pending, a, pending);
		a->wakes &= w == WAKE_CUT ? 0 : ~w;
		if (a->wakes)
			TAILQ_INSERT_TAIL(&c->pending, a, pending);
		call_one(a, w);
	}
	c->flushing = false;
	uv_idle_stop(c->idle);
}

static bool all_seen(const struct attachment *a)
{
	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++)
		if (a->cursor[i] < a->session->stream[i].end)
			return false;
	return true;
}

/* The session has its result: whoever has seen everything is told. */
void attachment_check_end(struct attachment *a)
{
	if (a->session->end == END_TOLD && all_seen(a))
		attachment_wake(a, WAKE_ENDED);
}

static void wake_on_pace(uv_timer_t *t);

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
	a->share_ms = uv_now(hub_loop(a->session->hub));
}

void pace_forget(struct attachment *a)
{
	if (a->paced)
		TAILQ_REMOVE(&hub_clients(a->session->hub)->paced, a, of_paced);
	a->paced = false;
}

static void wake_tell(struct attachment *a)
{
	pace_forget(a);
	give_share(a);
	if (!a->over && a->armed)
		enqueue(a, WAKE_READABLE);
}

/* The rest of those who are due have their turn in the next millisecond. */
static void wake_on_pace(uv_timer_t *t)
{
	struct hub *h = t->data;
	uint64_t now = uv_now(hub_loop(h)), next = UINT64_MAX;
	struct attachment *a, *after;
	unsigned told = 0;

	for (a = TAILQ_FIRST(&hub_clients(h)->paced); a; a = after) {
		after = TAILQ_NEXT(a, of_paced);
		if (due(a) <= now && told < PACE_TURN) {
			wake_tell(a);
			told++;
		} else if (due(a) < next) {
			next = due(a);
		}
	}
	if (next != UINT64_MAX)
		uv_timer_start(t, wake_on_pace, next > now ? next - now : 1, 0);
	hub_flush(h);
}

void pace_wait(struct attachment *a)
{
	struct clients *c = hub_clients(a->session->hub);
	uint64_t now = uv_now(c->pace->loop), wait = due(a) > now ? due(a) - now : 1;

	if (a->paced)
		return;
	a->paced = true;
	TAILQ_INSERT_TAIL(&c->paced, a, of_paced);
	if (!uv_is_active((uv_handle_t *)c->pace) || uv_timer_get_due_in(c->pace) > wait)
		uv_timer_start(c->pace, wake_on_pace, wait, 0);
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

/* ---- all of them */

int clients_create(struct hub *h, struct clients **out)
{
	struct clients *c = calloc(1, sizeof(*c));

	if (!c || !(c->idle = malloc(sizeof(*c->idle))) || !(c->pace = malloc(sizeof(*c->pace)))) {
		if (c)
			free(c->idle);
		free(c);
		return ERR_NOMEM;
	}
	TAILQ_INIT(&c->all);
	TAILQ_INIT(&c->pending);
	TAILQ_INIT(&c->paced);
	uv_idle_init(hub_loop(h), c->idle);
	uv_timer_init(hub_loop(h), c->pace);
	c->idle->data = c->pace->data = h;
	*out = c;
	return 0;
}

static void wake_on_closed(uv_handle_t *t)
{
	free(t);
}

void clients_destroy(struct clients *c)
{
	if (!c)
		return;
	uv_close((uv_handle_t *)c->idle, wake_on_closed);
	uv_close((uv_handle_t *)c->pace, wake_on_closed);
	free(c);
}

void clients_put(struct attachment *a)
{
	TAILQ_INSERT_TAIL(&hub_clients(a->session->hub)->all, a, of_hub);
}

void clients_take(struct attachment *a)
{
	struct clients *c = hub_clients(a->session->hub);

	pace_forget(a);
	if (a->wakes)
		TAILQ_REMOVE(&c->pending, a, pending);
	TAILQ_REMOVE(&c->all, a, of_hub);
}

const struct attachment_list *hub_attachments(const struct hub *h)
{
	return &hub_clients(h)->all;
}

/* ---- what they are told */

bool attachment_leaves(const struct attachment *a)
{
	return a->over || (a->wakes | a->held_wakes) & WAKE_CUT;
}

/* The newest counts. */
static void attachment_set_text(struct attachment *a, const char *text)
{
	if (!a->text)
		a->text = malloc(ATTACHMENT_TEXT_MAX + 1);
	if (a->text)
		text_put(a->text, ATTACHMENT_TEXT_MAX + 1, text);
}

void attachment_cut(struct attachment *a, enum cut_cause cause, const char *text)
{
	if (attachment_leaves(a))
		return;
	a->cut_cause = cause;
	attachment_set_text(a, text);
	session_event(a->session, "cut", json_pack("{s:s,s:s}", "principal", a->grant->principal, "why", text));
	attachment_wake(a, WAKE_CUT);
}

void attachment_notice(struct attachment *a, const char *text, bool over)
{
	if (attachment_leaves(a))
		return;
	a->notice_over = over;
	attachment_set_text(a, text);
	session_event(a->session, "notice", json_pack("{s:s,s:s}", "principal", a->grant->principal, "text", text));
	attachment_wake(a, WAKE_NOTICE);
}
