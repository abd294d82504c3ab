/* The way of a byte of output: journal, then the stream's buffer, then the viewers are woken. */
#include "muxd/hub/session/session_output.h"
#include "base/clock.h"
#include "base/err.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/record/trail.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/screen.h"
#include "muxd/hub/session/session_input.h"
#include "muxd/hub/session/session_run.h"
#include "muxd/hub/session/session_share.h"
#include "muxd/hub/session/session_state.h"
#include "muxd/hub/session/wake.h"

#include <stdlib.h>
#include <string.h>

static void drop(struct stream *st, size_t n)
{
	stream_finish(st);
	st->end += n;
	st->start = st->visible = st->end;
}

static void move_cursors(struct session *s, int stream, uint64_t to)
{
	struct attachment *a;

	TAILQ_FOREACH(a, &s->attachments, of_session)
	a->cursor[stream] = to;
}

void session_pass_over(struct session *s, int stream)
{
	move_cursors(s, stream, s->stream[stream].end);
}

/* A client of a transfer sees a get's content; an operation's answer is its own at the end. What muxlet says besides is
 * for the record. True: to be shown. */
static bool accept_transfer(struct session *s, int stream, const uint8_t *p, size_t n)
{
	struct transfer *t = s->launch.transfer;
	struct stream *st = &s->stream[stream];
	size_t content = 0;
	bool begins;

	if (t && t->row->asks && !t->row->gives && stream == STREAM_OUTPUT && transfer_output(t, p, n, &content))
		session_doom(s, EXIT_LOST, "the answer is larger than muxlet sends");
	if (!t || !t->row->gives || stream != STREAM_OUTPUT) {
		drop(st, n);
		session_pass_over(s, stream);
		return false;
	}
	begins = !t->head_known;
	if (transfer_output(t, p, n, &content))
		session_doom(s, EXIT_LOST, "what came of the file is not what muxlet sends");
	if (begins)
		move_cursors(s, stream, st->end + (n - content));
	return true;
}

/* Without memory who follows asks the record. */
static void session_mark_trail(struct session *s, int stream, uint64_t at)
{
	if (!s->trails)
		s->trails = calloc(STREAM_COUNT, sizeof(*s->trails));
	if (s->trails)
		trail_add(&s->trails[stream], s->stream[stream].end, at);
}

/* Bytes that are in the journal now, in the record at that position. */
static void accept_output(struct session *s, int stream, uint64_t at, const uint8_t *p, size_t n)
{
	struct stream *st = &s->stream[stream];
	bool hold = hub_conf(s->hub)->release_durable;

	if (s->kind == SESSION_ROUND) {
		(void)keep_add(&s->keep[stream], p, n); /* no memory: totals still count, the record has the bytes */
		session_mark_trail(s, stream, at);
	}
	if (s->kind == SESSION_ROUND && !s->launch.pty &&
	    TAILQ_EMPTY(&s->attachments)) { /* a screen is drawn from it */
		drop(st, n);
	} else if (s->kind == SESSION_FILE && !accept_transfer(s, stream, p, n)) {
		/* nobody is shown it */
	} else if (s->kind == SESSION_PORT && stream == STREAM_STDERR) { /* muxlet's own words, for the record */
		drop(st, n);
		session_pass_over(s, stream);
	} else if (stream_append(st, p, n, journal_position(hub_journal(s->hub)), hold)) {
		/* Without memory viewers cannot be shown these bytes: they are told that they were skipped. */
		drop(st, n);
	}
	hub_counters(s->hub)->bytes_out += n;
	session_wake_all(s, WAKE_READABLE);
	if (!LIST_EMPTY(&s->listeners))
		listeners_moved(s);
	if (s->screen)
		screen_moved(s);
}

static int write_chunks(struct session *s, int stream, const uint8_t *p, size_t n, size_t *out_done)
{
	struct journal_data d = {.session = s->id, .stream = stream, .also = s->share_also};
	struct journal *j = hub_journal(s->hub);
	size_t done = 0;
	int rc = 0;

	while (done < n && !rc) {
		size_t chunk = n - done < SESSION_CHUNK ? n - done : SESSION_CHUNK;
		uint64_t at = journal_position(j);

		d.offset = s->stream[stream].end;
		rc = journal_data(j, &d, &s->share, p + done, chunk);
		if (rc)
			break;
		accept_output(s, stream, at, p + done, chunk);
		if (!s->share_apart)
			session_share_moved(s, stream, d.offset + chunk, chunk);
		done += chunk;
	}
	*out_done = done;
	return rc;
}

void session_output(struct session *s, int stream, uint64_t offset, const uint8_t *p, size_t n)
{
	struct buf *backlog = &s->backlog[stream];
	size_t done = 0;

	s->heard_ns = clock_boot_ns();
	if (stream < STREAM_OUTPUT || stream >= STREAM_COUNT || s->end >= END_RECORDED ||
	    offset != s->stream[stream].end + buf_len(backlog))
		return; /* the link keeps order; after the end nothing more is taken */
	if (!buf_len(backlog) && journal_state(hub_journal(s->hub)) == RECORD_OK)
		(void)write_chunks(s, stream, p, n, &done); /* what the ring refused goes to the backlog */
	if (done < n && buf_append(backlog, p + done, n - done)) {
		session_doom(s, EXIT_LOST, "the sandbox sent more output than its window allows");
		return;
	}
	session_update_window(s);
	session_ack(s, false);
	if (stream == STREAM_OUTPUT)
		session_ahead_output(s, p, n);
}

static void pump_stream(struct session *s, int stream)
{
	struct buf *b = &s->backlog[stream];
	size_t done = 0;

	if (!buf_len(b))
		return;
	(void)write_chunks(s, stream, buf_ptr(b), buf_len(b), &done); /* the rest waits for the next turn */
	buf_consume(b, done);
	if (!buf_len(b))
		buf_finish(b), buf_init(b, 2 * SESSION_WINDOW);
}

void session_pump_output(struct session *s)
{
	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++)
		pump_stream(s, i);
}

void session_show(struct session *s)
{
	uint64_t durable = journal_durable(hub_journal(s->hub));

	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++)
		if (stream_release(&s->stream[i], durable)) {
			session_wake_all(s, WAKE_READABLE);
			if (s->screen)
				screen_moved(s);
		}
	if (hub_conf(s->hub)->release_durable)
		listeners_moved(s);
}

size_t session_trail_held(const struct session *s)
{
	size_t n = 0;

	for (int i = 0; s->trails && i < STREAM_COUNT; i++)
		n += trail_held(&s->trails[i]);
	return n;
}

void session_forget_trail(struct session *s)
{
	for (int i = 0; s->trails && i < STREAM_COUNT; i++)
		trail_finish(&s->trails[i]);
	free(s->trails);
	s->trails = NULL;
}

void session_shrink(struct session *s)
{
	if (session_has_driver(s) || !TAILQ_EMPTY(&s->attachments) ||
	    (s->kind == SESSION_ROUND && (!s->launch.pty || s->screen)))
		return;
	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++)
		if (s->stream[i].cap > SESSION_CHUNK)
			stream_shrink(&s->stream[i], SESSION_CHUNK);
}
