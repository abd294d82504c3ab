/* A session as all its parts know it: its state, its events, who waits for it, what its program is. */
#define LOG_SUBSYS "session"
#include "muxd/hub/session/session.h"
#include "muxd/hub/agent/agent.h"

#include "base/list.h"
#include "base/log.h"
#include "base/visible.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/record/record_share.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/screen.h"
#include "muxd/hub/session/session_run.h"
#include "muxd/hub/session/session_state.h"

#include <stdlib.h>
#include <string.h>

struct log_ids session_ids(const struct session *s)
{
	struct log_ids ids = {.session = s->id_text, .agent = s->agent->name};

	work_log_ids(s->launch.work, &ids);
	return ids;
}

void session_touch(struct session *s)
{
	if (!launch_is_inside(&s->launch))
		agent_touch(s->agent);
}

void session_set_state(struct session *s, enum session_state state)
{
	struct log_ids ids = session_ids(s);
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
	struct log_ids ids = session_ids(s);

	int rc = 0;

	if (o && s->end < END_RECORDED) {
		json_object_set_new(o, "event", json_string(event));
		rc = journal_json(hub_journal(s->hub), RING_EVENT, &s->id, o);
		if (!rc)
			record_share_note(s, json_dumpb(o, NULL, 0, JSON_COMPACT));
		json_object_del(o, "event");
	}
	if (rc) /* and so it is not shown either */
		log_warn(&ids, "event %s not journaled: the ring is full", event);
	else
		listeners_event(s, event, o);
	json_decref(o);
}

void session_request(const struct session *s, struct request *out)
{
	*out = (struct request){.grant = *s->grant, .id = s->id, .door = s->door};
	memcpy(out->peer, s->peer, sizeof(out->peer));
	if (s->launch.work)
		out->work = *s->launch.work;
}

/* ---- what its program really is
 *
 * muxlet says so of its own child, before the program has the word (docs/protocol.md, BEGUN). The call's argv and cwd
 * are what was asked for and stand in OPEN; where the program began and which file it is stand in an event of the
 * recording, in the audit log, and in EXIT for whoever asks later.
 */

/* Bytes of any kind become text that shows them all, and can be told from every other path. */
static char *session_shown_path(const char *path)
{
	return visible_dup(path, strlen(path), 0, VISIBLE_BACKSLASH);
}

static void session_set_text(json_t *o, const char *key, const char *value)
{
	json_object_set_new(o, key, value && *value ? json_string(value) : json_null());
}

void session_set_begun(const struct session *s, json_t *o)
{
	session_set_text(o, "cwd", s->begun_cwd);
	session_set_text(o, "program", s->begun_program);
}

void session_forget_begun(struct session *s)
{
	free(s->begun_cwd);
	free(s->begun_program);
	s->begun_cwd = s->begun_program = NULL;
}

static json_t *session_begun_json(const struct session *s)
{
	json_t *o = json_object();

	session_set_begun(s, o);
	return o;
}

static void session_tell_begun(struct session *s)
{
	struct request rq;
	json_t *d = session_begun_json(s);

	session_event(s, "begun", session_begun_json(s));
	session_request(s, &rq);
	json_object_set_new(d, "session", json_string(s->id_text));
	(void)audit_event(s->hub, "program.begin", &rq, s->agent->name, "ok", d);
}

/* Of files and ports the program is muxlet itself. The first word counts; after a restart the record has heard it. */
void session_on_begun(struct session *s, const char *cwd, const char *program)
{
	if (s->kind == SESSION_FILE || s->kind == SESSION_PORT || s->begun_cwd)
		return;
	s->begun_cwd = session_shown_path(cwd);
	s->begun_program = session_shown_path(program);
	if (!s->begun_cwd || !s->begun_program)
		session_forget_begun(s);
	else if (s->begun_unsaid)
		session_tell_begun(s);
	s->begun_unsaid = false;
}

/* ---- its size, its stand */

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
	if (list_append(&s->sizes, &s->nsizes, &size, sizeof(size)) && s->nsizes)
		s->sizes[s->nsizes - 1] = size; /* without memory the newest takes the place of the one before it */
}

bool session_shown(const struct session *s)
{
	return s->end >= END_RECORDED &&
	       (!hub_conf(s->hub)->release_durable || journal_durable(hub_journal(s->hub)) >= s->exit_position);
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
	return s->grant->principal;
}
const struct session_result *session_result(const struct session *s)
{
	return s->end == END_TOLD ? s->result : NULL;
}
