#include "muxd/ctl/entered.h"

#include "base/err.h"
#include "base/ids.h"
#include "base/msg.h"
#include "muxd/ctl/ctl.h"
#include "muxd/ctl/recorded.h"
#include "recorder/chain/chain.h"
#include "recorder/draw/commander.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PRINT_MAX 100

static json_t *exact(const json_t *session)
{
	const json_t *open = json_object_get(session, "open"), *argv = json_object_get(open ? open : session, "argv");
	const char *kind = json_string_value(json_object_get(session, "kind"));
	/* Of a terminal it is the shell, and no command of anybody's. */
	char *text = kind && strcmp(kind, "terminal") != 0 && json_array_size(argv) ? ctl_text(argv) : NULL;
	json_t *o = text ? json_pack("{s:s, s:O, s:s, s:o?, s:o?}", "command", text, "argv", argv, "source", "exact",
				     "at", json_incref(json_object_get(session, "opened_at")), "principal",
				     json_incref(json_object_get(session, "principal")))
			 : NULL;

	free(text);
	return o;
}

/* What a mark says may come with a later event than what the screen showed of the same line: then it says both. */
static void ctl_entered_add(json_t *list, json_t *command)
{
	size_t n = json_array_size(list);
	const json_t *last = n ? json_array_get(list, n - 1) : NULL, *offset = json_object_get(last, "input_offset");

	if (offset && json_equal(offset, json_object_get(command, "input_offset")) &&
	    !json_equal(json_object_get(last, "command"), json_object_get(command, "command")))
		json_object_set(command, "screen", json_object_get(last, "command"));
	if (offset && json_equal(offset, json_object_get(command, "input_offset")))
		json_array_remove(list, n - 1);
	json_array_append(list, command);
}

static void entered_take(json_t *session, json_t *list, const json_t *record)
{
	const json_t *detail = json_object_get(record, "detail"), *omitted = json_object_get(detail, "omitted");
	json_t *command;
	size_t i;

	json_array_foreach(json_object_get(detail, "commands"), i, command)
	{
		ctl_entered_add(list, command);
	}
	if (json_integer_value(omitted))
		json_object_set_new(session, "commands_omitted", json_integer(json_integer_value(omitted)));
}

static int entered_ask(struct ctl *c, const char *id, json_int_t since, json_t *out, struct err *e)
{
	json_t *q = json_pack("{s:s, s:s, s:s, s:I}", "op", "audit", "session", id, "event", COMMANDER_EVENT,
			      "since_seq", since);
	int rc = q ? recorded_rows(c, "muxctl session show", "record", q, out, e) : ERR_NOMEM;

	json_decref(q);
	return rc;
}

static int read_rows(struct ctl *c, const char *id, json_t *session, json_t *list, struct err *e)
{
	json_int_t since = 0;
	size_t n;
	int rc;

	do {
		json_t *rows = json_array(), *row;
		size_t i;

		rc = entered_ask(c, id, since, rows, e);
		n = json_array_size(rows);
		json_array_foreach(rows, i, row)
		{
			entered_take(session, list, json_object_get(row, "record"));
			since = json_integer_value(json_object_get(row, "seq"));
		}
		json_decref(rows);
	} while (rc == 0 && n);
	return rc;
}

static int read_log(struct ctl *c, const char *id, json_t *session, json_t *list, struct err *e)
{
	struct chain_reader *r = NULL;
	struct chain_entry en;
	struct id want;
	char dir[4096];
	int rc = ctl_path(c, "record", dir, sizeof(dir), e);

	if (rc == 0 && (rc = id_parse(id, &want)) == 0)
		rc = chain_reader_create(dir, 0, &r, e);
	while (rc == 0 && (rc = chain_reader_next(r, &en, e)) == 1) {
		json_t *record = NULL;

		rc = 0;
		if (en.type != CHAIN_AUDIT || !id_equal(&en.session, &want) ||
		    json_parse(en.payload, en.len, MSG_MAX, &record, NULL) < 0)
			continue;
		const char *event = json_string_value(json_object_get(record, "event"));
		if (event && strcmp(event, COMMANDER_EVENT) == 0)
			entered_take(session, list, record);
		json_decref(record);
	}
	chain_reader_destroy(r);
	return rc;
}

void entered_add(struct ctl *c, json_t *session, bool offline)
{
	const char *id = json_string_value(json_object_get(session, "id"));
	json_t *list = json_array(), *first = exact(session);
	struct err e = {0};
	int rc = list && id ? 0 : ERR_INVAL;

	if (rc == 0 && first)
		json_array_append(list, first);
	if (rc == 0)
		rc = offline ? read_log(c, id, session, list, &e) : read_rows(c, id, session, list, &e);
	if (rc)
		c->hint[0] = '\0'; /* the session is shown all the same */
	if (rc == 0 || json_array_size(list))
		json_object_set(session, "commands", list);
	json_decref(first);
	json_decref(list);
}

static void print_one(const char *title, const json_t *o)
{
	const char *const keys[] = {"source", "at", "principal", "command", "claimed", "screen"};
	char *shown[6];

	for (size_t k = 0; k < 6; k++) {
		const char *text = json_string_value(json_object_get(o, keys[k]));
		shown[k] = text ? ctl_clean(text) : NULL;
	}
	printf("%-22s %s, %s by %s: %s%s", title, shown[0] ?: "", shown[1] ?: "", shown[2] ?: "?", shown[3] ?: "",
	       json_is_true(json_object_get(o, "truncated")) ? " ... (cut)" : "");
	if (shown[4])
		printf("   (a program claims: %s)", shown[4]);
	if (shown[5])
		printf("   (on the screen: %s)", shown[5]);
	putchar('\n');
	for (size_t k = 0; k < 6; k++)
		free(shown[k]);
}

void entered_print(const json_t *session)
{
	const json_t *list = json_object_get(session, "commands");
	size_t n = json_array_size(list), from = n > PRINT_MAX ? n - PRINT_MAX : 0;
	json_int_t omitted = json_integer_value(json_object_get(session, "commands_omitted"));

	if (from)
		printf("%-22s %zu earlier ones with -o json\n", "commands", from);
	for (size_t i = from; i < n; i++)
		print_one(i ? "" : "commands", json_array_get(list, i));
	if (omitted)
		printf("%-22s %" JSON_INTEGER_FORMAT " more were entered, and are in the recording alone\n", "",
		       omitted);
}
