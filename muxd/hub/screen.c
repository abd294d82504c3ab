/* Who wants a screen, and what they get: the worker's life, shots, the deadline. */
#define LOG_SUBSYS "screen"
#include "muxd/hub/screen.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "muxd/screen/frame.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAILURES_MAX 3 /* of workers of one session; then there are no more screens for a while */
#define FAILURE_NS   (60 * NS_PER_SEC)

void screen_set_state(struct screen *sc, enum screen_state state)
{
	static const char *const names[] = {"starting", "filling", "live", "closed"};
	struct log_ids ids = {.session = sc->session ? sc->session->id_text : NULL};

	if (sc->state != state)
		log_debug(&ids, "screen: %s -> %s", names[sc->state], names[state]);
	sc->state = state;
}

void session_note_size(struct session *s)
{
	struct session_size size = {
	    .offset = s->stream[STREAM_OUTPUT].end, .cols = (uint16_t)s->launch.cols, .rows = (uint16_t)s->launch.rows};

	if (s->nsizes && s->sizes[s->nsizes - 1].offset == size.offset) {
		s->sizes[s->nsizes - 1] = size;
		if (s->screen && s->screen->size_at == s->nsizes) /* told already: it is told again */
			s->screen->size_at--;
		return;
	}
	if (s->nsizes == SESSION_SIZES) { /* the first one stays: it is where everything begins */
		memmove(s->sizes + 1, s->sizes + 2, (s->nsizes - 2) * sizeof(s->sizes[0]));
		s->nsizes--;
		if (s->screen && s->screen->size_at > 1)
			s->screen->size_at--;
	}
	s->sizes[s->nsizes++] = size;
}

/* ---- who waits */

static void done_waiting(struct attachment *a)
{
	struct screen *sc = a->session->screen;

	if (!a->screening)
		return;
	a->screening = SCREENING_NO;
	if (sc)
		TAILQ_REMOVE(&sc->want, a, of_screen);
}

void screen_unwant(struct attachment *a)
{
	done_waiting(a);
}

/* Without a screen: what the stream still holds, as ever. */
static void do_without(struct attachment *a)
{
	struct session *s = a->session;

	done_waiting(a);
	a->screen_missed = true;
	/* After a restart there is no recent output either: whoever draws the screen is asked to draw it again. */
	if (s->state == SESSION_RUNNING && s->started && !s->stream[STREAM_OUTPUT].cap)
		(void)link_signal(s->agent->link, s->channel, SIGWINCH);
	attachment_wake(a, WAKE_READABLE);
}

static void tell_all_without(struct screen *sc)
{
	struct attachment *a;

	while ((a = TAILQ_FIRST(&sc->want)))
		do_without(a);
}

/* The time of some is up, or it is time for the next shot. */
static void on_timer(uv_timer_t *t)
{
	struct screen *sc = t->data;
	struct hub *h = sc->hub;
	uint64_t now = clock_boot_ns(), least = UINT64_MAX;
	struct attachment *a, *next;

	for (a = TAILQ_FIRST(&sc->want); a; a = next) {
		next = TAILQ_NEXT(a, of_screen);
		if (now >= a->screen_by)
			do_without(a);
		else if (a->screen_by < least)
			least = a->screen_by;
	}
	if (least != UINT64_MAX)
		uv_timer_start(t, on_timer, (least - now) / NS_PER_MS + 1, 0);
	screen_pump(sc); /* a shot that was too early; it may be the end of sc */
	hub_flush(h);
}

void screen_timer(struct screen *sc, uint64_t ms)
{
	if (!uv_is_active((uv_handle_t *)&sc->timer) || uv_timer_get_due_in(&sc->timer) > ms)
		uv_timer_start(&sc->timer, on_timer, ms, 0);
}

/* The client sees the shot, then the bytes after it. */
static void show(struct attachment *a, const struct screen_shot *shot)
{
	done_waiting(a);
	a->screen_missed = false;
	a->cursor[STREAM_OUTPUT] = shot->offset;
	if (a->role == ROLE_DRIVER)
		session_update_window(a->session);
	if (a->over)
		return;
	attachment_wake(a, WAKE_READABLE);
	a->ops->screen(a->arg, shot);
}

/* ---- shots */

/* None stays one: who is served leaves the list, or asks again. */
static struct attachment *next_asked(const struct screen *sc, uint32_t tag)
{
	struct attachment *a;

	TAILQ_FOREACH(a, &sc->want, of_screen)
	if (a->screening == SCREENING_ASKED && a->screen_tag == tag)
		return a;
	return NULL;
}

/*
 * Those who asked by then. A driver whose bytes after it are gone already asks again, until its time is up; an observer
 * sees it all the same: of a flood that is faster than he reads he is shown one picture after the other.
 */
static void on_shot(struct screen *sc, uint32_t tag, const struct screen_shot *shot)
{
	struct stream *st = &sc->session->stream[STREAM_OUTPUT];
	struct attachment *a;

	while ((a = next_asked(sc, tag))) {
		if (!shot->len) {
			do_without(a);
		} else if ((shot->offset < st->start && a->role == ROLE_DRIVER) || a->held) {
			a->screening = SCREENING_WANTED;
			a->screen_from = st->visible;
		} else {
			show(a, shot); /* may detach itself, and others with it: those of one connection go together */
		}
		if (sc->state == SCREEN_CLOSED)
			return;
	}
	screen_pump(sc);
}

static int on_frame(struct screen *sc, const struct screen_frame *f)
{
	struct screen_shot shot;

	if (f->type != SCREEN_SHOT || f->len < SCREEN_SHOT_HEAD)
		return ERR_PROTOCOL;
	shot = (struct screen_shot){.offset = get_u64(f->payload + 4),
				    .cols = get_u16(f->payload + 12),
				    .rows = get_u16(f->payload + 14),
				    .exact = sc->exact,
				    .bytes = f->payload + SCREEN_SHOT_HEAD,
				    .len = f->len - SCREEN_SHOT_HEAD};
	if (shot.offset > sc->offset)
		return ERR_PROTOCOL;
	on_shot(sc, get_u32(f->payload), &shot);
	return 0;
}

static void on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *out)
{
	struct screen *sc = h->data;
	size_t n = buf_room(&sc->in) < SESSION_CHUNK ? buf_room(&sc->in) : SESSION_CHUNK;
	uint8_t *p = NULL;

	(void)hint;
	if (n == 0 || buf_reserve(&sc->in, n, &p))
		n = 0;
	*out = uv_buf_init((char *)p, (unsigned)n);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
	struct screen *sc = stream->data;
	struct hub *h = sc->hub;
	struct screen_frame f;
	size_t size;
	int rc = 0;

	(void)b;
	if (n < 0) {
		screen_fail(sc, "its worker has gone");
		hub_flush(h);
		return;
	}
	buf_commit(&sc->in, (size_t)n);
	sc->held++;
	while (sc->state != SCREEN_CLOSED && (rc = screen_frame_next(&sc->in, &f, &size)) == 1) {
		rc = on_frame(sc, &f);
		if (rc)
			break;
		if (sc->state != SCREEN_CLOSED)
			buf_consume(&sc->in, size);
	}
	if (rc < 0 && sc->state != SCREEN_CLOSED)
		screen_fail(sc, "its worker says what makes no sense");
	screen_release(sc);
	hub_flush(h);
}

/* ---- its life */

void screen_release(struct screen *sc)
{
	if (--sc->held)
		return;
	buf_finish(&sc->in);
	free(sc);
}

static void on_closed(uv_handle_t *h)
{
	screen_release(h->data);
}

static void forget_asker(struct screen *sc)
{
	if (sc->asker)
		request_finish(sc->asker);
	free(sc->asker);
	sc->asker = NULL;
}

static void keep_asker(struct screen *sc, const struct request *rq)
{
	if (sc->asker || !(sc->asker = malloc(sizeof(*sc->asker))))
		return;
	*sc->asker = *rq;
}

void screen_close(struct session *s)
{
	struct screen *sc = s->screen;

	if (!sc)
		return;
	tell_all_without(sc);
	screen_set_state(sc, SCREEN_CLOSED);
	s->screen = NULL;
	sc->session = NULL;
	TAILQ_REMOVE(&sc->hub->screens, sc, of_hub);
	sc->hub->nscreens--;
	forget_asker(sc);
	uv_close((uv_handle_t *)&sc->timer, on_closed);
	if (sc->has_pipe)
		uv_close((uv_handle_t *)&sc->pipe, on_closed);
	screen_release(sc); /* the session's own */
}

void screen_fail(struct screen *sc, const char *why)
{
	struct session *s = sc->session;
	struct log_ids ids = {.session = s->id_text, .agent = s->agent->name};

	log_warn(&ids, "no screen: %s", why);
	s->screen_failures++;
	s->screen_failed_ns = clock_boot_ns();
	screen_close(s);
}

static int open_worker(struct screen *sc, int fd)
{
	const struct session_size *first = &sc->session->sizes[0];
	uint8_t head[12];

	if (uv_pipe_init(sc->hub->loop, &sc->pipe, 0)) {
		close(fd);
		return ERR_NOMEM;
	}
	sc->has_pipe = true;
	sc->held++;
	sc->pipe.data = sc;
	if (uv_pipe_open(&sc->pipe, fd)) {
		close(fd);
		return ERR_SYS;
	}
	if (uv_read_start((uv_stream_t *)&sc->pipe, on_alloc, on_read))
		return ERR_SYS;
	put_u64(head, 0);
	put_u16(head + 8, first->cols);
	put_u16(head + 10, first->rows);
	sc->cols = first->cols, sc->rows = first->rows;
	sc->size_at = 1;
	return screen_send(sc, SCREEN_OPEN, head, sizeof(head), NULL, 0);
}

static void on_started(void *arg, int rc, const struct err *e, int fd)
{
	struct screen *sc = arg;
	struct hub *h = sc->hub;

	if (sc->state == SCREEN_CLOSED) {
		if (fd >= 0)
			close(fd);
	} else if (rc) {
		screen_fail(sc, e ? e->message : err_name(rc));
	} else {
		screen_set_state(sc, SCREEN_LIVE);
		if (open_worker(sc, fd))
			screen_fail(sc, "its worker cannot be spoken to");
		else
			screen_pump(sc);
	}
	screen_release(sc);
	if (rc != ERR_CANCELLED)
		hub_flush(h);
}

/* The one that has not been needed for the longest makes room. */
static bool make_room(struct hub *h)
{
	struct screen *sc, *oldest = NULL;

	if (h->nscreens < SCREENS_MAX)
		return true;
	TAILQ_FOREACH(sc, &h->screens, of_hub)
	if (TAILQ_EMPTY(&sc->want) && (!oldest || sc->needed_ns < oldest->needed_ns))
		oldest = sc;
	if (oldest)
		screen_close(oldest->session);
	return oldest != NULL;
}

static struct screen *create(struct session *s)
{
	struct hub *h = s->hub;
	struct screen *sc;

	if (!h->p.screens.start || !s->nsizes || !s->sizes[0].cols || !make_room(h) || !(sc = calloc(1, sizeof(*sc))))
		return NULL;
	if (uv_timer_init(h->loop, &sc->timer)) {
		free(sc);
		return NULL;
	}
	sc->timer.data = sc;
	sc->hub = h;
	sc->session = s;
	sc->exact = true;
	sc->held = 3; /* the session, the timer, the question */
	TAILQ_INIT(&sc->want);
	buf_init(&sc->in, SCREEN_HEADER + SCREEN_FRAME_MAX);
	TAILQ_INSERT_TAIL(&h->screens, sc, of_hub);
	h->nscreens++;
	s->screen = sc;
	h->p.screens.start(h->p.screens.ctx, on_started, sc);
	return s->screen; /* NULL when it failed at once */
}

static bool failing(struct session *s)
{
	if (s->screen_failures < FAILURES_MAX)
		return false;
	if (clock_boot_ns() - s->screen_failed_ns < FAILURE_NS)
		return true;
	s->screen_failures = 0;
	return false;
}

/* Of a flood that goes on another worker would lose the same bytes. */
static bool keeps_up(const struct screen *sc)
{
	return sc->state == SCREEN_LIVE && sc->offset + SCREEN_LAG >= sc->session->stream[STREAM_OUTPUT].visible;
}

bool screen_want(struct attachment *a, const struct request *rq)
{
	struct session *s = a->session;
	const struct stream *st = &s->stream[STREAM_OUTPUT];
	uint64_t wait = st->end > st->start ? SCREEN_WAIT_NS : SCREEN_WAIT_EMPTY_NS;
	struct screen *sc = s->screen;

	if (a->screening)
		return true;
	if (!a->ops->screen || s->kind != SESSION_TERMINAL || s->state == SESSION_ENDED || s->hub->stopping ||
	    failing(s))
		return false;
	if (sc && sc->jumped && rq && TAILQ_EMPTY(&sc->want) && keeps_up(sc)) {
		screen_close(s);
		sc = NULL;
	}
	if (!sc && !(sc = create(s)))
		return false;
	if (rq)
		keep_asker(sc, rq);
	a->screening = SCREENING_WANTED;
	a->screen_from = s->stream[STREAM_OUTPUT].visible;
	a->screen_by = clock_boot_ns() + wait;
	sc->needed_ns = clock_boot_ns();
	TAILQ_INSERT_TAIL(&sc->want, a, of_screen);
	screen_timer(sc, 0); /* a program that is silent would have it wait for the next look at all sessions */
	return true;
}

void screen_moved(struct session *s)
{
	struct screen *sc = s->screen;

	if (sc && (!TAILQ_EMPTY(&sc->want) || s->stream[STREAM_OUTPUT].visible >= sc->offset + SCREEN_LAG))
		screen_pump(sc);
}

/* An observer may fall behind at any moment: then its screen has to be there. */
static bool watched(const struct session *s)
{
	const struct attachment *a;

	TAILQ_FOREACH(a, &s->attachments, of_session)
	if (a->role == ROLE_OBSERVER && a->ops->screen)
		return true;
	return false;
}

void screen_tick(struct session *s, uint64_t now)
{
	struct screen *sc = s->screen;

	if (!sc)
		return;
	if (sc->state == SCREEN_LIVE && sc->offset >= s->stream[STREAM_OUTPUT].start)
		forget_asker(sc);
	if (!TAILQ_EMPTY(&sc->want) || watched(s))
		sc->needed_ns = now;
	if (s->state == SESSION_ENDED || now - sc->needed_ns >= SCREEN_IDLE_NS)
		screen_close(s);
	else
		screen_pump(sc);
}
