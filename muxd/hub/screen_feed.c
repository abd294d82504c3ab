/* What a worker is told: output from the stream or the record, sizes, holes, and when to shoot. */
#define LOG_SUBSYS "screen"
#include "base/bytes.h"
#include "base/err.h"
#include "muxd/hub/screen.h"
#include "muxd/screen/frame.h"

#include <stdlib.h>

#define CLOGGED (4 * SCREEN_FEED_MAX) /* that much on its way: the worker is behind */

struct sending {
	uv_write_t req;
	struct screen *screen;
	struct buf bytes;
};

bool screen_clogged(const struct screen *sc)
{
	return sc->pipe.write_queue_size >= CLOGGED;
}

static void on_written(uv_write_t *req, int status)
{
	struct sending *w = (struct sending *)req;
	struct screen *sc = w->screen;

	buf_finish(&w->bytes);
	free(w);
	/* That it is gone the reading side tells. */
	if (!status && sc->state != SCREEN_CLOSED && !screen_clogged(sc)) {
		screen_pump(sc);
		hub_flush(sc->hub);
	}
	screen_release(sc);
}

int screen_send(struct screen *sc, uint8_t type, const void *head, size_t nhead, const void *body, size_t nbody)
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
	if (uv_write(&w->req, (uv_stream_t *)&sc->pipe, &b, 1, on_written))
		goto fail;
	sc->held++;
	return 0;
fail:
	buf_finish(&w->bytes);
	free(w);
	return ERR_NOMEM;
}

int screen_feed_bytes(struct screen *sc, const uint8_t *p, size_t n)
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

int screen_feed_size(struct screen *sc, unsigned cols, unsigned rows)
{
	uint8_t head[4];

	if (!cols || !rows || (cols == sc->cols && rows == sc->rows))
		return 0;
	sc->cols = cols, sc->rows = rows;
	put_u16(head, (uint16_t)cols);
	put_u16(head + 2, (uint16_t)rows);
	return screen_send(sc, SCREEN_RESIZE, head, sizeof(head), NULL, 0);
}

int screen_feed_cut(struct screen *sc, uint64_t offset)
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

/* One shot serves all who wait for one by then, so there are not more than eyes can tell apart. */
static int shoot(struct screen *sc)
{
	uint64_t now = uv_now(sc->hub->loop);
	struct attachment *a;
	uint8_t head[4];
	bool any = false;

	if (TAILQ_EMPTY(&sc->want))
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
	return any ? screen_send(sc, SCREEN_SHOOT, head, sizeof(head), NULL, 0) : 0;
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

void screen_pump(struct screen *sc)
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
