/* How much output of a session its sandbox may send, and what of it need not be kept there any more. */
#include "base/clock.h"
#include "base/conf.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/session_output.h"
#include "muxd/hub/session/session_run.h"
#include "muxd/hub/session/session_share.h"
#include "muxd/hub/session/session_state.h"

bool session_has_driver(const struct session *s)
{
	const struct attachment *a;

	TAILQ_FOREACH(a, &s->attachments, of_session)
	if (a->role == ROLE_DRIVER)
		return true;
	return false;
}

/* Where the slowest driver is; nobody driving: the end, so that programs run on. */
static uint64_t driver_offset(const struct session *s, int stream)
{
	uint64_t least = s->stream[stream].end;
	const struct attachment *a;

	TAILQ_FOREACH(a, &s->attachments, of_session)
	if (a->role == ROLE_DRIVER && a->cursor[stream] < least)
		least = a->cursor[stream];
	return least;
}

static uint64_t window_wanted(const struct session *s, int stream)
{
	uint64_t until = driver_offset(s, stream) + SESSION_WINDOW;

	return s->alone_until && s->alone_until < until ? s->alone_until : until;
}

void session_pace(struct session *s, uint64_t now)
{
	uint64_t end = s->stream[STREAM_OUTPUT].end, full = end + SESSION_ALONE_BURST;

	if (s->kind != SESSION_TERMINAL || !TAILQ_EMPTY(&s->attachments)) {
		s->alone_until = 0;
	} else if (!s->alone_until) {
		s->alone_until = full;
	} else {
		s->alone_until += (now - s->alone_ns) * SESSION_ALONE_RATE / NS_PER_SEC;
		if (s->alone_until > full)
			s->alone_until = full;
	}
	s->alone_ns = now;
	s->paced = s->alone_until && s->alone_until < end + SESSION_WINDOW;
	session_update_window(s);
}

void session_update_window(struct session *s)
{
	if (s->state != SESSION_RUNNING && s->state != SESSION_ENDING)
		return;
	if (journal_state(hub_journal(s->hub)) != RECORD_OK)
		return;
	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++) {
		uint64_t until;

		if (buf_len(&s->backlog[i]))
			continue;
		until = window_wanted(s, i);
		if (until < s->window[i] + SESSION_WINDOW / 4 || !session_share_lets_out(s) ||
		    link_window(s->agent->link, s->channel, i, until))
			continue;
		session_share_opened(s, until - s->window[i]);
		s->window[i] = until;
	}
}

/*
 * What is journaled is at least as safe as in muxlet's memory when both live on
 * this machine, so the spool is freed then; a remote backend would wait for durable.
 * all: the little as well, which is no reason to wake muxlet; it goes with the next input, or at the hub's tick.
 */
void session_ack(struct session *s, bool all)
{
	if (!s->agent->link || link_state(s->agent->link) != LINK_UP)
		return;
	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++) {
		uint64_t end = s->stream[i].end;

		if (end > s->acked[i] && (all || end - s->acked[i] >= SESSION_WINDOW / 4) &&
		    link_ack(s->agent->link, s->channel, i, end) == 0)
			s->acked[i] = end;
	}
}
