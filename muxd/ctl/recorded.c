#include "muxd/ctl/recorded.h"

#include "base/err.h"
#include "base/msg.h"
#include "muxd/ctl/ctl.h"

#include <stdio.h>
#include <stdlib.h>

/* The recorder says "session" for what the hub calls "id". */
static void name_id(json_t *row)
{
	json_t *id = json_object_get(row, "session");

	if (id && !json_object_get(row, "id"))
		json_object_set(row, "id", id);
}

void recorded_warn(const json_t *last)
{
	const char *warning = json_string_value(json_object_get(last, "warning"));
	json_int_t left_out = json_integer_value(json_object_get(last, "left_out"));
	char *shown = warning ? ctl_clean(warning) : NULL;

	if (shown)
		fprintf(stderr, "muxctl: warning: %s\n", shown);
	if (left_out)
		fprintf(stderr, "muxctl: warning: %" JSON_INTEGER_FORMAT " rows are left out: ask again\n", left_out);
	free(shown);
}

int recorded_rows(struct ctl *c, const char *reason, const char *key, json_t *q, json_t *out, struct err *e)
{
	struct ctl_wish w = {.kind = "auditor", .agent = "*", .scopes = "replay", .reason = reason};
	struct ctl_peer p;
	bool end = false;
	int rc = ctl_peer_ask(c, q, &w, &p, e);

	while (rc == 0 && !end) {
		json_t *row = NULL;
		rc = ctl_peer_json(c, &p, &row, e);
		end = rc == 0 && json_is_true(json_object_get(row, "end"));
		if (end)
			recorded_warn(row);
		if (rc == 0 && json_object_get(row, key)) {
			json_object_del(row, "end");
			json_array_append(out, row);
		}
		json_decref(row);
	}
	ctl_peer_close(&p);
	return rc;
}

int recorded_ask(struct ctl *c, json_t *q, json_t *out, struct err *e)
{
	int rc = recorded_rows(c, "muxctl session list", "session", q, out, e);
	json_t *row;
	size_t i;

	json_array_foreach(out, i, row)
	{
		name_id(row);
	}
	return rc;
}

int recorded_newest(struct ctl *c, char out[ID_STR_LEN], struct err *e)
{
	json_t *rows = json_array(), *q = json_pack("{s:s,s:i}", "op", "sessions", "limit", 1);
	int rc = recorded_ask(c, q, rows, e);
	const char *id = json_string_value(json_object_get(json_array_get(rows, 0), "id"));

	if (rc == 0 && !id)
		rc = err_set(e, ERR_NOT_FOUND, "the record has no session yet");
	if (rc == 0)
		snprintf(out, ID_STR_LEN, "%s", id);
	json_decref(q);
	json_decref(rows);
	return rc;
}

int recorded_find(struct ctl *c, const char *id, json_t **out, struct err *e)
{
	json_t *rows = json_array(), *q = json_pack("{s:s,s:s}", "op", "session", "session", id);
	int rc = recorded_ask(c, q, rows, e);

	json_decref(q);
	if (rc == 0 && json_array_size(rows) == 1)
		*out = json_incref(json_array_get(rows, 0));
	else if (rc == 0)
		rc = err_set(e, ERR_NOT_FOUND, "there is no session %s", id);
	json_decref(rows);
	return rc;
}
