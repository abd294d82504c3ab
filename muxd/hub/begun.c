/*
 * What a session's program really is: where it began, and which file.
 *
 * muxlet says so of its own child, before the program has the word (docs/protocol.md, BEGUN). The call's argv and cwd
 * are what was asked for and stand in OPEN; these two stand in an event of the recording, in the audit log, and in EXIT
 * for whoever asks later.
 */
#include "base/visible.h"
#include "muxd/hub/audit.h"
#include "muxd/hub/hub_state.h"
#include "muxd/hub/session_end.h"
#include "muxd/hub/session_state.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of any kind become text that shows them all, and can be told from every other path. */
static char *begun_shown(const char *path)
{
	return visible_dup(path, strlen(path), 0, VISIBLE_BACKSLASH);
}

static void set(json_t *o, const char *key, const char *value)
{
	json_object_set_new(o, key, value && *value ? json_string(value) : json_null());
}

void session_set_begun(const struct session *s, json_t *o)
{
	set(o, "cwd", s->begun_cwd);
	set(o, "program", s->begun_program);
}

void session_forget_begun(struct session *s)
{
	free(s->begun_cwd);
	free(s->begun_program);
	s->begun_cwd = s->begun_program = NULL;
}

static json_t *begun_json(const struct session *s)
{
	json_t *o = json_object();

	session_set_begun(s, o);
	return o;
}

static void tell_record(struct session *s)
{
	struct request rq;
	json_t *d = begun_json(s);

	session_event(s, "begun", begun_json(s));
	session_request(s, &rq);
	json_object_set_new(d, "session", json_string(s->id_text));
	(void)audit_event(s->hub, "program.begin", &rq, s->agent->name, "ok", d);
}

/* Of files and ports the program is muxlet itself. The first word counts; after a restart the record has heard it. */
void session_on_begun(struct session *s, const char *cwd, const char *program)
{
	if (s->kind == SESSION_FILE || s->kind == SESSION_PORT || s->begun_cwd)
		return;
	s->begun_cwd = begun_shown(cwd);
	s->begun_program = begun_shown(program);
	if (!s->begun_cwd || !s->begun_program)
		session_forget_begun(s);
	else if (s->begun_unsaid)
		tell_record(s);
	s->begun_unsaid = false;
}
