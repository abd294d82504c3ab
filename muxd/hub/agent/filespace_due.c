#include "muxd/hub/agent/filespace_due.h"

#include "muxd/hub/agent/agent.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/session/session_state.h"

#define CAUSES_MAX 20 /* named in one event; the others are counted by its last */

void filespace_caused(struct agent *a, const char *kind, const char *session, const char *principal, const char *task)
{
	if (!a || !hub_files(a->hub))
		return;
	if (!a->sync_causes)
		a->sync_causes = json_array();
	if (json_array_size(a->sync_causes) == CAUSES_MAX)
		json_array_append_new(a->sync_causes, json_pack("{s:i}", "more", 0));
	if (json_array_size(a->sync_causes) > CAUSES_MAX) {
		json_t *last = json_array_get(a->sync_causes, CAUSES_MAX);

		json_object_set_new(last, "more", json_integer(json_integer_value(json_object_get(last, "more")) + 1));
	} else {
		json_array_append_new(a->sync_causes,
				      json_pack("{s:s,s:s*,s:s,s:s*}", "kind", kind, "session", session, "principal",
						principal, "task", task && *task ? task : NULL));
	}
	hub_stir(a->hub);
}

static bool may_have_written(const struct session *s)
{
	const struct transfer *t = s->launch.transfer;

	if (s->kind == SESSION_ROUND || s->kind == SESSION_EXEC || s->kind == SESSION_TERMINAL)
		return true;
	return t && (t->changes || t->op == FILE_PUT);
}

void filespace_session_ended(const struct session *s)
{
	if (may_have_written(s))
		filespace_caused(s->agent, session_kind_name(s->kind), s->id_text, s->grant->principal, s->launch.task);
}

json_t *filespace_causes_take(struct agent *a)
{
	json_t *causes = a->sync_causes;

	a->sync_causes = NULL;
	return causes;
}
