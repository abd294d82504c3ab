/*
 * A screen from the record: the output that the stream no longer holds, read with the right of the client who wants it.
 * Where that may not read, or nothing comes, the screen begins with what the stream holds, and says that it is not
 * exact.
 */
#define LOG_SUBSYS "screen"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "muxd/hub/reader.h"
#include "muxd/hub/screen.h"

#include <stdlib.h>

#define PAGE_MAX (1024 * 1024)
#define GAP_NS   NS_PER_SEC /* how often it is looked whether the record catches up with the stream */

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
		struct log_ids ids = {.session = sc->session->id_text};

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

static void on_answer(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *bytes, size_t n,
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

void screen_fill_begin(struct screen *sc)
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

void screen_fill(struct screen *sc)
{
	struct session *s = sc->session;
	struct page *p;
	json_t *q;

	if (sc->asking || screen_clogged(sc))
		return;
	if (loses_ground(sc)) {
		log_debug(&(struct log_ids){.session = s->id_text}, "screen: the record does not catch up");
		go_on_from_stream(sc);
		return;
	}
	if (!sc->asker || !sc->hub->recorder || !(p = calloc(1, sizeof(*p)))) {
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
	if (reader_ask(sc->hub, sc->asker, q, on_answer, p)) {
		sc->asking = false;
		sc->held--;
		free(p);
		go_on_from_stream(sc);
	}
}
