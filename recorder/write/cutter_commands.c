/* What the log says of commands, for whoever looks for them (commander.h). */
#include "base/err.h"
#include "base/json.h"
#include "recorder/draw/commander.h"
#include "recorder/write/cutter_state.h"

#include <stdlib.h>

static int take_told(void *arg, json_t *row)
{
	commander_told_parse(json_object_get(json_object_get(row, "record"), "detail"), arg);
	return 0;
}

int cutter_commands_told(struct cutter *c, const struct id *session, struct commander_told *out, struct err *e)
{
	char text[ID_STR_LEN];
	struct index_filter f = {.session = text, .event = COMMANDER_EVENT, .limit = 1, .pass_over = true};
	int rc;

	*out = (struct commander_told){.n = 0};
	id_format(session, text);
	pthread_mutex_lock(&c->turn);
	rc = index_audit_start(c->index, &f, &f.since, e);
	if (rc == 0)
		rc = index_audit(c->index, &f, take_told, out, e);
	pthread_mutex_unlock(&c->turn);
	return rc;
}

int cutter_commands_tell(struct cutter *c, const struct id *session, const json_t *event, struct err *e)
{
	char *text = json_text(event);
	int rc = text ? drain_append_own(c->p.drain, RING_AUDIT, session, text) : ERR_NOMEM;

	free(text);
	return rc ? err_set(e, rc, "they could not be audited now") : 0;
}

struct sealed {
	struct id *ids;
	size_t n, max;
};

static int take_sealed(void *arg, json_t *row)
{
	struct sealed *s = arg;
	const char *id = json_string_value(json_object_get(row, "session"));
	bool pty = json_is_true(json_object_get(json_object_get(row, "open"), "pty"));
	bool typed = json_integer_value(json_array_get(json_object_get(row, "offsets"), STREAM_INPUT)) > 0;

	if (id && pty && typed && s->n < s->max && id_parse(id, &s->ids[s->n]) == 0)
		s->n++;
	return 0;
}

size_t cutter_commands_due(struct cutter *c, struct id *out, size_t max)
{
	struct index_filter f = {.state = "sealed", .limit = (int64_t)max, .pass_over = true};
	struct sealed s = {.ids = out, .max = max};
	struct commander_told told;
	size_t n = 0;

	pthread_mutex_lock(&c->turn);
	(void)index_sessions(c->index, &f, take_sealed, &s, NULL);
	pthread_mutex_unlock(&c->turn);
	for (size_t i = 0; i < s.n; i++)
		if (cutter_commands_told(c, &out[i], &told, NULL) == 0 && !told.final)
			out[n++] = out[i];
	return n;
}
