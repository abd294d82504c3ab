/* A session as all its parts know it: its state, its events, who waits for it. */
#define LOG_SUBSYS "session"
#include "muxd/hub/session.h"

#include "base/log.h"
#include "muxd/hub/attachment_state.h"
#include "muxd/hub/hub_state.h"
#include "muxd/hub/screen.h"
#include "muxd/hub/session_run.h"
#include "muxd/hub/session_state.h"

#include <string.h>

void session_set_state(struct session *s, enum session_state state)
{
	struct log_ids ids = {.session = s->id_text,
			      .agent = s->agent->name,
			      .lease = s->launch.lease[0] ? s->launch.lease : NULL,
			      .run = s->launch.run[0] ? s->launch.run : NULL};

	log_debug(&ids, "%s: %s -> %s", session_kind_name(s->kind), session_state_name(s->state),
		  session_state_name(state));
	s->state = state;
}

void session_doom(struct session *s, enum exit_cause cause, const char *why)
{
	if (s->doom)
		return;
	s->doom = why;
	s->doom_cause = cause;
}

void session_opened(struct session *s, int rc, const char *why)
{
	session_opened_fn *fn = s->on_opened;

	s->on_opened = NULL;
	if (fn)
		fn(s->opened_arg, s, rc, why);
}

void session_wait(struct session *s, struct session_waiter *w, session_waiter_fn *fn, void *arg)
{
	w->fn = fn;
	w->arg = arg;
	LIST_INSERT_HEAD(&s->waiters, w, entry);
}

void session_event(struct session *s, const char *event, json_t *detail)
{
	json_t *o = detail ? detail : json_object();

	if (o && s->end < END_RECORDED) {
		json_object_set_new(o, "event", json_string(event));
		if (journal_json(s->hub->journal, RING_EVENT, &s->id, o))
			log_warn(&(struct log_ids){.session = s->id_text}, "event %s not journaled: the ring is full",
				 event);
	}
	json_decref(o);
}

void session_request(const struct session *s, struct request *out)
{
	*out = (struct request){.grant = s->grant, .id = s->id, .door = s->door};
	memcpy(out->peer, s->peer, sizeof(out->peer));
	memcpy(out->lease, s->launch.lease, sizeof(out->lease));
	memcpy(out->run, s->launch.run, sizeof(out->run));
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

bool session_shown(const struct session *s)
{
	return s->end >= END_RECORDED &&
	       (!s->hub->conf->release_durable || journal_durable(s->hub->journal) >= s->exit_position);
}

bool session_backlog(const struct session *s)
{
	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++)
		if (buf_len(&s->backlog[i]))
			return true;
	return false;
}

const struct id *session_id(const struct session *s)
{
	return &s->id;
}
enum session_kind session_kind(const struct session *s)
{
	return s->kind;
}
enum session_state session_state(const struct session *s)
{
	return s->state;
}
const char *session_agent(const struct session *s)
{
	return s->agent->name;
}
const char *session_principal(const struct session *s)
{
	return s->grant.principal;
}
const struct session_result *session_result(const struct session *s)
{
	return s->end == END_TOLD ? &s->result : NULL;
}
