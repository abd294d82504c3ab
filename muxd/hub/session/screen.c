/*
 * A session's screen: who wants one and what they get, the worker's life, and what the worker is fed, from the stream
 * or from the record.
 */
#define LOG_SUBSYS "screen"
#include "muxd/hub/session/screen.h"
#include "base/conf.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/session_output.h"
#include "muxd/hub/session/session_state.h"
#include "muxd/hub/session/wake.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/core/request.h"
#include "muxd/hub/record/reader.h"
#include "muxd/screen/frame.h"
#include "muxd/screen/picture.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#define CLOGGED      (4 * SCREEN_FEED_MAX) /* that much on its way: the worker is behind */
#define PAGE_MAX     (1024 * 1024)
#define GAP_NS       NS_PER_SEC /* how often it is looked whether the record catches up with the stream */
#define FAILURES_MAX 3          /* of workers of one session; then there are no more screens for a while */
#define FAILURE_NS   (60 * NS_PER_SEC)

struct screen_list {
	TAILQ_HEAD(, screen) all;
	unsigned n;
};

static void screen_fail(struct screen *sc, const char *why);
static void screen_release(struct screen *sc);
static void screen_timer(struct screen *sc, uint64_t ms); /* pumps and looks for deadlines then, or before */
static void screen_pump(struct screen *sc);
static void screen_fill_begin(struct screen *sc);
static void screen_fill(struct screen *sc);

static void screen_set_state(struct screen *sc, enum screen_state state)
{
	static const char *const names[] = {"starting", "filling", "live", "closed"};
	struct log_ids ids = sc->session ? session_ids(sc->session) : (struct log_ids){0};

	if (sc->state != state)
		log_debug(&ids, "screen: %s -> %s", names[sc->state], names[state]);
	sc->state = state;
}

/* ---- what the worker is told: output, sizes, holes, and when to shoot */

/* One who wants its values; in screen->looks until it is told. */
struct screen_look {
	TAILQ_ENTRY(screen_look) entry;
	bool asked;
	uint32_t tag;
	uint64_t from, by; /* an offset; boot ns */
	screen_looked *done;
	void *arg;
};

struct sending {
	uv_write_t req;
	struct screen *screen;
	struct buf bytes;
};

static bool screen_clogged(const struct screen *sc)
{
	return sc->pipe.write_queue_size >= CLOGGED;
}

static void screen_on_written(uv_write_t *req, int status)
{
	struct sending *w = (struct sending *)req;
	struct screen *sc = w->screen;

	buf_finish(&w->bytes);
	free(w);
	/* The reading side tells that the worker is gone. */
	if (!status && sc->state != SCREEN_CLOSED && !screen_clogged(sc)) {
		screen_pump(sc);
		hub_flush(sc->hub);
	}
	screen_release(sc);
}

static int screen_send(struct screen *sc, uint8_t type, const void *head, size_t nhead, const void *body, size_t nbody)
{
	struct sending *w = calloc(1, sizeof(*w));
	uv_buf_t b;

	if (!w)
		return ERR_NOMEM;
	buf_init(&w->bytes, SCREEN_HEADER + SCREEN_FRAME_MAX);
	w->screen = sc;
	if (screen_frame_put(&w->bytes, type, head, nhead, body, nbody))
		goto fail;
	b = uv_buf_init((char *)(uintptr_t)buf_ptr(&w->bytes), (unsigned)buf_len(&w->bytes));
	if (uv_write(&w->req, (uv_stream_t *)&sc->pipe, &b, 1, screen_on_written))
		goto fail;
	sc->held++;
	return 0;
fail:
	buf_finish(&w->bytes);
	free(w);
	return ERR_NOMEM;
}

static int screen_feed_bytes(struct screen *sc, const uint8_t *p, size_t n)
{
	while (n) {
		size_t part = n < SCREEN_FEED_MAX ? n : SCREEN_FEED_MAX;
		uint8_t head[8];
		int rc;

		put_u64(head, sc->offset);
		rc = screen_send(sc, SCREEN_FEED, head, sizeof(head), p, part);
		if (rc)
			return rc;
		sc->offset += part;
		p += part;
		n -= part;
	}
	return 0;
}

static int screen_feed_size(struct screen *sc, unsigned cols, unsigned rows)
{
	uint8_t head[4];

	if (!cols || !rows || (cols == sc->cols && rows == sc->rows))
		return 0;
	sc->cols = cols, sc->rows = rows;
	put_u16(head, (uint16_t)cols);
	put_u16(head + 2, (uint16_t)rows);
	return screen_send(sc, SCREEN_RESIZE, head, sizeof(head), NULL, 0);
}

static int screen_feed_cut(struct screen *sc, uint64_t offset)
{
	uint8_t head[8];

	if (offset <= sc->offset)
		return 0;
	sc->offset = offset;
	sc->exact = false;
	put_u64(head, offset);
	return screen_send(sc, SCREEN_CUT, head, sizeof(head), NULL, 0);
}

/* Sizes that hold from where it is now. */
static int feed_sizes(struct screen *sc)
{
	const struct session *s = sc->session;
	int rc = 0;

	while (!rc && sc->size_at < s->nsizes && s->sizes[sc->size_at].offset <= sc->offset) {
		const struct session_size *z = &s->sizes[sc->size_at++];

		rc = screen_feed_size(sc, z->cols, z->rows);
	}
	return rc;
}

static int ask_looks(struct screen *sc, uint64_t now)
{
	struct screen_look *l;
	uint8_t head[4];
	bool any = false;

	TAILQ_FOREACH(l, &sc->looks, entry)
	if (!l->asked && sc->offset >= l->from) {
		if (!any)
			sc->tag++;
		any = true;
		l->asked = true;
		l->tag = sc->tag;
	}
	if (any)
		sc->shot_ms = now;
	put_u32(head, sc->tag);
	return any ? screen_send(sc, SCREEN_LOOK, head, sizeof(head), NULL, 0) : 0;
}

/* One shot serves all who wait for one by then, so there are not more than eyes can tell apart. */
static int shoot(struct screen *sc)
{
	uint64_t now = uv_now(hub_loop(sc->hub));
	struct attachment *a;
	uint8_t head[4];
	bool any = false;
	int rc;

	if (TAILQ_EMPTY(&sc->want) && TAILQ_EMPTY(&sc->looks))
		return 0;
	if (now - sc->shot_ms < SCREEN_PACE_MS && sc->shot_ms) {
		screen_timer(sc, sc->shot_ms + SCREEN_PACE_MS - now);
		return 0;
	}
	TAILQ_FOREACH(a, &sc->want, of_screen)
	if (a->screening == SCREENING_WANTED && sc->offset >= a->screen_from) {
		if (!any)
			sc->tag++;
		any = true;
		a->screening = SCREENING_ASKED;
		a->screen_tag = sc->tag;
	}
	if (any)
		sc->shot_ms = now;
	put_u32(head, sc->tag);
	rc = any ? screen_send(sc, SCREEN_SHOOT, head, sizeof(head), NULL, 0) : 0;
	return rc ? rc : ask_looks(sc, now);
}

static int feed_stream(struct screen *sc)
{
	const struct session *s = sc->session;
	const struct stream *st = &s->stream[STREAM_OUTPUT];
	const uint8_t *p;
	size_t n;
	int rc = feed_sizes(sc);

	while (!rc && !screen_clogged(sc) && (n = stream_peek(st, sc->offset, &p)) > 0) {
		uint64_t until = sc->size_at < s->nsizes ? s->sizes[sc->size_at].offset : UINT64_MAX;

		n = n < SCREEN_FEED_MAX ? n : SCREEN_FEED_MAX;
		n = until - sc->offset < n ? (size_t)(until - sc->offset) : n;
		rc = screen_feed_bytes(sc, p, n);
		if (!rc)
			rc = feed_sizes(sc);
		if (!rc)
			rc = shoot(sc);
	}
	return rc ? rc : shoot(sc);
}

static void screen_pump(struct screen *sc)
{
	struct session *s = sc->session;

	if (sc->state == SCREEN_FILLING)
		screen_fill(sc);
	if (sc->state != SCREEN_LIVE || screen_clogged(sc) || hub_record_state(s->hub) != RECORD_OK)
		return;
	if (sc->offset < s->stream[STREAM_OUTPUT].start) {
		screen_fill_begin(sc);
		return;
	}
	if (feed_stream(sc))
		screen_fail(sc, "no memory");
}

/* ---- from the record: what the stream no longer holds, read with the right of the client who wants it. Where that may
 * not read, or nothing comes, the screen begins with what the stream holds, and says that it is not exact. */

/* One question: its page, and the sizes in it. */
struct page {
	struct screen *screen;
	json_t *sizes; /* [[offset, cols, rows], ...] */
	size_t size_at;
	uint64_t visible; /* nothing past this may be shown yet */
};

static void go_on_from_stream(struct screen *sc)
{
	int rc = screen_feed_cut(sc, sc->session->stream[STREAM_OUTPUT].start);

	sc->jumped = true;
	screen_set_state(sc, SCREEN_LIVE);
	if (rc)
		screen_fail(sc, "no memory");
	else
		screen_pump(sc);
}

static int feed_page_sizes(struct page *p)
{
	struct screen *sc = p->screen;
	int rc = 0;

	for (; !rc && p->size_at < json_array_size(p->sizes); p->size_at++) {
		const json_t *z = json_array_get(p->sizes, p->size_at);

		if ((uint64_t)json_integer_value(json_array_get(z, 0)) > sc->offset)
			break;
		rc = screen_feed_size(sc, (unsigned)json_integer_value(json_array_get(z, 1)) & 0xffff,
				      (unsigned)json_integer_value(json_array_get(z, 2)) & 0xffff);
	}
	return rc;
}

static uint64_t next_size(const struct page *p)
{
	const json_t *z = json_array_get(p->sizes, p->size_at);

	return z ? (uint64_t)json_integer_value(json_array_get(z, 0)) : UINT64_MAX;
}

static int feed_page(struct page *p, const uint8_t *bytes, size_t n)
{
	struct screen *sc = p->screen;
	int rc = feed_page_sizes(p);

	n = sc->offset + n > p->visible ? (size_t)(p->visible > sc->offset ? p->visible - sc->offset : 0) : n;
	while (!rc && n) {
		uint64_t until = next_size(p);
		size_t part = until - sc->offset < n ? (size_t)(until - sc->offset) : n;

		rc = screen_feed_bytes(sc, bytes, part);
		bytes += part;
		n -= part;
		if (!rc)
			rc = feed_page_sizes(p);
	}
	return rc;
}

static int page_head(struct page *p, const json_t *json)
{
	uint64_t offset = (uint64_t)json_integer_value(json_object_get(json, "offset"));
	json_t *sizes = json_object_get(json, "sizes");

	if (json_is_array(sizes) && !p->sizes)
		p->sizes = json_incref(sizes);
	return json_object_get(json, "offset") ? screen_feed_cut(p->screen, offset) : 0;
}

static void page_end(struct page *p, int rc, const struct err *e)
{
	struct screen *sc = p->screen;
	bool more = !rc && sc->state == SCREEN_FILLING && sc->offset > sc->page_from;

	json_decref(p->sizes);
	free(p);
	sc->asking = false;
	if (sc->state == SCREEN_FILLING) {
		struct log_ids ids = session_ids(sc->session);

		if (rc)
			log_info(&ids, "the record gives no screen: %s", e ? e->message : err_name(rc));
		if (sc->offset >= sc->session->stream[STREAM_OUTPUT].start)
			screen_set_state(sc, SCREEN_LIVE);
		if (sc->state == SCREEN_LIVE || more)
			screen_pump(sc);
		else
			go_on_from_stream(sc);
		if (rc != ERR_CANCELLED)
			hub_flush(sc->hub);
	}
	screen_release(sc);
}

static void screen_on_answer(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *bytes, size_t n,
			     bool end)
{
	struct page *p = arg;
	struct screen *sc = p->screen;

	if (!rc && sc->state == SCREEN_FILLING && json && !end)
		rc = page_head(p, json);
	else if (!rc && sc->state == SCREEN_FILLING && bytes)
		rc = feed_page(p, bytes, n);
	if (rc && !end && sc->state == SCREEN_FILLING)
		screen_fail(sc, "no memory"); /* the rest of the answer goes by */
	if (end)
		page_end(p, rc, e);
}

static uint64_t gap_of(const struct screen *sc)
{
	uint64_t start = sc->session->stream[STREAM_OUTPUT].start;

	return start > sc->offset ? start - sc->offset : 0;
}

/* More comes than is read: of a flood the record would tell ever older screens. */
static bool loses_ground(struct screen *sc)
{
	uint64_t gap = gap_of(sc), before = sc->gap, now = clock_boot_ns();

	if (now - sc->gap_ns < GAP_NS)
		return false;
	sc->gap = gap;
	sc->gap_ns = now;
	return gap > before;
}

static void screen_fill_begin(struct screen *sc)
{
	if (sc->jumped) { /* it happens again and again, and the screen is not exact any more anyhow */
		go_on_from_stream(sc);
		return;
	}
	sc->gap = gap_of(sc);
	sc->gap_ns = clock_boot_ns();
	screen_set_state(sc, SCREEN_FILLING);
	screen_fill(sc);
}

static void screen_fill(struct screen *sc)
{
	struct session *s = sc->session;
	struct page *p;
	json_t *q;

	if (sc->asking || screen_clogged(sc))
		return;
	if (loses_ground(sc)) {
		log_debug(&(struct log_ids){.session = s->id_text, .agent = s->agent->name},
			  "screen: the record does not catch up");
		go_on_from_stream(sc);
		return;
	}
	if (!sc->asker || !hub_recorder(sc->hub) || !(p = calloc(1, sizeof(*p)))) {
		go_on_from_stream(sc);
		return;
	}
	p->screen = sc;
	p->visible = s->stream[STREAM_OUTPUT].visible;
	sc->page_from = sc->offset;
	q = json_pack("{s:s,s:s,s:s,s:I,s:i,s:b}", "op", "output", "session", s->id_text, "stream", "output", "offset",
		      (json_int_t)sc->offset, "limit", PAGE_MAX, "screen", 1);
	sc->asking = true;
	sc->held++;
	if (reader_ask(sc->hub, sc->asker, q, screen_on_answer, p)) {
		sc->asking = false;
		sc->held--;
		free(p);
		go_on_from_stream(sc);
	}
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

/* ---- who looks */

static void look_tell(struct screen *sc, struct screen_look *l, int rc, const struct picture *pic, uint64_t offset)
{
	TAILQ_REMOVE(&sc->looks, l, entry);
	l->done(l->arg, rc, offset, sc->exact, pic);
	free(l);
}

static struct screen_look *look_asked(const struct screen *sc, uint32_t tag)
{
	struct screen_look *l;

	TAILQ_FOREACH(l, &sc->looks, entry)
	if (l->asked && l->tag == tag)
		return l;
	return NULL;
}

static bool picture_sound(const struct picture *pic)
{
	struct picture_run before = {0}, r;
	size_t at = 0;
	int rc;

	for (bool any = false; (rc = picture_next(pic, &at, any ? &before : NULL, &r)) == 1; any = true)
		before = r;
	return rc == 0;
}

static int screen_on_grid(struct screen *sc, const struct screen_frame *f)
{
	const uint8_t *p = f->payload;
	struct screen_look *l;
	struct picture pic;
	bool large = f->len == SCREEN_GRID_HEAD;

	if (f->len < SCREEN_GRID_HEAD || get_u64(p + 4) > sc->offset)
		return ERR_PROTOCOL;
	if (!large && (picture_read(p + SCREEN_GRID_HEAD, f->len - SCREEN_GRID_HEAD, &pic) || !picture_sound(&pic)))
		return ERR_PROTOCOL;
	while (sc->state != SCREEN_CLOSED && (l = look_asked(sc, get_u32(p))))
		look_tell(sc, l, large ? ERR_TOO_LARGE : 0, large ? NULL : &pic, get_u64(p + 4));
	return 0;
}

static uint64_t looks_expire(struct screen *sc, uint64_t now)
{
	struct screen_look *l, *next;
	uint64_t least = UINT64_MAX;

	for (l = TAILQ_FIRST(&sc->looks); l; l = next) {
		next = TAILQ_NEXT(l, entry);
		if (now >= l->by)
			look_tell(sc, l, ERR_TIMEOUT, NULL, 0);
		else if (l->by < least)
			least = l->by;
	}
	return least;
}

/* The time of some is up, or it is time for the next shot. */
static void screen_on_timer(uv_timer_t *t)
{
	struct screen *sc = t->data;
	struct hub *h = sc->hub;
	uint64_t now = clock_boot_ns(), least = looks_expire(sc, now);
	struct attachment *a, *next;

	for (a = TAILQ_FIRST(&sc->want); a; a = next) {
		next = TAILQ_NEXT(a, of_screen);
		if (now >= a->screen_by)
			do_without(a);
		else if (a->screen_by < least)
			least = a->screen_by;
	}
	if (least != UINT64_MAX)
		uv_timer_start(t, screen_on_timer, (least - now) / NS_PER_MS + 1, 0);
	screen_pump(sc); /* a shot that was too early; it may be the end of sc */
	hub_flush(h);
}

static void screen_timer(struct screen *sc, uint64_t ms)
{
	if (!uv_is_active((uv_handle_t *)&sc->timer) || uv_timer_get_due_in(&sc->timer) > ms)
		uv_timer_start(&sc->timer, screen_on_timer, ms, 0);
}

/* The client sees the shot, then the bytes after it. */
static void screen_show(struct attachment *a, const struct screen_shot *shot)
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
static void screen_on_shot(struct screen *sc, uint32_t tag, const struct screen_shot *shot)
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
			screen_show(
			    a, shot); /* may detach itself, and others with it: those of one connection go together */
		}
		if (sc->state == SCREEN_CLOSED)
			return;
	}
	screen_pump(sc);
}

static int screen_on_frame(struct screen *sc, const struct screen_frame *f)
{
	struct screen_shot shot;

	if (f->type == SCREEN_GRID)
		return screen_on_grid(sc, f);
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
	screen_on_shot(sc, get_u32(f->payload), &shot);
	return 0;
}

static void screen_on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *out)
{
	struct screen *sc = h->data;
	size_t n = buf_room(&sc->in) < SESSION_CHUNK ? buf_room(&sc->in) : SESSION_CHUNK;
	uint8_t *p = NULL;

	(void)hint;
	if (n == 0 || buf_reserve(&sc->in, n, &p))
		n = 0;
	*out = uv_buf_init((char *)p, (unsigned)n);
}

static void screen_on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
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
		rc = screen_on_frame(sc, &f);
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

static void screen_release(struct screen *sc)
{
	if (--sc->held)
		return;
	buf_finish(&sc->in);
	free(sc);
}

static void screen_on_closed(uv_handle_t *h)
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
	struct screen_list *all = hub_screens(s->hub);
	struct screen *sc = s->screen;

	if (!sc)
		return;
	tell_all_without(sc);
	while (!TAILQ_EMPTY(&sc->looks))
		look_tell(sc, TAILQ_FIRST(&sc->looks), ERR_UNAVAILABLE, NULL, 0);
	screen_set_state(sc, SCREEN_CLOSED);
	s->screen = NULL;
	sc->session = NULL;
	TAILQ_REMOVE(&all->all, sc, of_hub);
	all->n--;
	forget_asker(sc);
	uv_close((uv_handle_t *)&sc->timer, screen_on_closed);
	if (sc->has_pipe)
		uv_close((uv_handle_t *)&sc->pipe, screen_on_closed);
	screen_release(sc); /* the session's own */
}

static void screen_fail(struct screen *sc, const char *why)
{
	struct session *s = sc->session;
	struct log_ids ids = session_ids(s);

	log_warn(&ids, "no screen: %s", why);
	s->screen_failures++;
	s->screen_failed_ns = clock_boot_ns();
	screen_close(s);
}

static int open_worker(struct screen *sc, int fd)
{
	const struct session_size *first = &sc->session->sizes[0];
	uint8_t head[12];

	if (uv_pipe_init(hub_loop(sc->hub), &sc->pipe, 0)) {
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
	if (uv_read_start((uv_stream_t *)&sc->pipe, screen_on_alloc, screen_on_read))
		return ERR_SYS;
	put_u64(head, 0);
	put_u16(head + 8, first->cols);
	put_u16(head + 10, first->rows);
	sc->cols = first->cols, sc->rows = first->rows;
	sc->size_at = 1;
	return screen_send(sc, SCREEN_OPEN, head, sizeof(head), NULL, 0);
}

static void screen_on_started(void *arg, int rc, const struct err *e, int fd)
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

struct screen_list *screen_list_create(void)
{
	struct screen_list *all = calloc(1, sizeof(*all));

	if (all)
		TAILQ_INIT(&all->all);
	return all;
}

void screen_list_destroy(struct screen_list *all)
{
	free(all);
}

bool screens_rest(const struct hub *h)
{
	return TAILQ_EMPTY(&hub_screens(h)->all);
}

/* The one that has not been needed for the longest makes room. */
static bool screen_make_room(struct hub *h)
{
	const struct screen_list *all = hub_screens(h);
	struct screen *sc, *oldest = NULL;

	if (all->n < SCREENS_MAX)
		return true;
	TAILQ_FOREACH(sc, &all->all, of_hub)
	if (TAILQ_EMPTY(&sc->want) && TAILQ_EMPTY(&sc->looks) && (!oldest || sc->needed_ns < oldest->needed_ns))
		oldest = sc;
	if (oldest)
		screen_close(oldest->session);
	return oldest != NULL;
}

static struct screen *create(struct session *s)
{
	struct hub *h = s->hub;
	struct screen_list *all = hub_screens(h);
	struct screen *sc;

	if (!hub_params(h)->screens.start || !s->nsizes || !s->sizes[0].cols || !screen_make_room(h) ||
	    !(sc = calloc(1, sizeof(*sc))))
		return NULL;
	if (uv_timer_init(hub_loop(h), &sc->timer)) {
		free(sc);
		return NULL;
	}
	sc->timer.data = sc;
	sc->hub = h;
	sc->session = s;
	sc->exact = true;
	sc->held = 3; /* the session, the timer, the question */
	TAILQ_INIT(&sc->want);
	TAILQ_INIT(&sc->looks);
	buf_init(&sc->in, SCREEN_HEADER + SCREEN_FRAME_MAX);
	TAILQ_INSERT_TAIL(&all->all, sc, of_hub);
	all->n++;
	s->screen = sc;
	hub_params(h)->screens.start(hub_params(h)->screens.ctx, screen_on_started, sc);
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

static bool is_drawn(const struct session *s)
{
	return s->kind == SESSION_TERMINAL || (s->kind == SESSION_ROUND && s->launch.pty);
}

/* NULL: there is none to be had. */
static struct screen *screen_get(struct session *s, const struct request *rq)
{
	struct screen *sc = s->screen;

	if (s->state == SESSION_ENDED || hub_stopping(s->hub) || failing(s))
		return NULL;
	if (sc && sc->jumped && rq && TAILQ_EMPTY(&sc->want) && TAILQ_EMPTY(&sc->looks) && keeps_up(sc)) {
		screen_close(s);
		sc = NULL;
	}
	if (!sc && !(sc = create(s)))
		return NULL;
	if (rq)
		keep_asker(sc, rq);
	return sc;
}

int screen_look(struct session *s, const struct request *rq, screen_looked *done, void *arg)
{
	struct screen *sc = screen_get(s, rq);
	struct screen_look *l = sc ? calloc(1, sizeof(*l)) : NULL;

	if (!l)
		return sc ? ERR_NOMEM : ERR_UNAVAILABLE;
	*l = (struct screen_look){.from = s->stream[STREAM_OUTPUT].visible,
				  .by = clock_boot_ns() + SCREEN_WAIT_EMPTY_NS,
				  .done = done,
				  .arg = arg};
	sc->needed_ns = clock_boot_ns();
	TAILQ_INSERT_TAIL(&sc->looks, l, entry);
	screen_timer(sc, 0);
	return 0;
}

bool screen_want(struct attachment *a, const struct request *rq)
{
	struct session *s = a->session;
	const struct stream *st = &s->stream[STREAM_OUTPUT];
	uint64_t wait = st->end > st->start ? SCREEN_WAIT_NS : SCREEN_WAIT_EMPTY_NS;
	struct screen *sc;

	if (a->screening)
		return true;
	if (!a->ops->screen || !is_drawn(s) || !(sc = screen_get(s, rq)))
		return false;
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

	if (!TAILQ_EMPTY(&sc->want) || !TAILQ_EMPTY(&sc->looks) ||
	    s->stream[STREAM_OUTPUT].visible >= sc->offset + SCREEN_LAG)
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
	if (!TAILQ_EMPTY(&sc->want) || !TAILQ_EMPTY(&sc->looks) || watched(s))
		sc->needed_ns = now;
	if (s->state == SESSION_ENDED || now - sc->needed_ns >= SCREEN_IDLE_NS)
		screen_close(s);
	else
		screen_pump(sc);
}
