/* muxctl round events, keys, screen, resize: a round while it runs, as a person or a script steers it. */
#include "base/buf.h"
#include "base/ids.h"
#include "base/slurp.h"
#include "muxd/ctl/api.h"
#include "muxd/ctl/nouns.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVENT_MAX (4 * 1024 * 1024)

static const struct ctl_option events_options[] = {
    {"after", 0, "ID", "Go on behind the event with this id."},
    {"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl round events)."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option keys_options[] = {
    {"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl round keys)."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option screen_options[] = {
    {"cells", 0, NULL, "Colours and looks too, in runs of cells, with the cursor and the title, as JSON."},
    {"after", 0, "OFFSET", "Once output has come behind this offset, and then paused; round keys prints it."},
    {"wait", 0, "DURATION", "How long for that, at most (default: 2s with --after)."},
    {"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl round screen)."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option resize_options[] = {
    {"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl round resize)."},
    {NULL, 0, NULL, NULL},
};

static struct ctl_wish live_wish(const struct ctl_args *a, const char *scopes)
{
	return (struct ctl_wish){.kind = "staff", .agent = "*", .scopes = scopes, .reason = args_get(a, "reason")};
}

static int check_round(const struct ctl_args *a, struct err *e)
{
	struct id id;

	return id_parse(a->operands[0], &id) < 0 ? err_set(e, ERR_INVAL, "\"%.60s\" is not a round id", a->operands[0])
						 : 0;
}

/* ---- events */

struct listening {
	const struct ctl *c;
	struct buf text; /* of an event that is not whole */
	bool over;       /* the last one came */
};

/* The value of a line "field: value" of the event, in place; NULL: it has none. */
static char *event_field(char *event, const char *field)
{
	size_t n = strlen(field);

	for (char *line = event; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, field, n) == 0 && line[n] == ':')
			return line + n + 1 + (line[n + 1] == ' ');
	}
	return NULL;
}

static int event_print(struct listening *l, const char *name, const char *id, const char *data, struct err *e)
{
	json_t *value = NULL, *all;
	char *text = NULL;
	int rc = json_parse(data, strlen(data), EVENT_MAX, &value, e);

	if (rc)
		return err_set(e, ERR_PROTOCOL, "the daemon's event %.40s has no JSON", name);
	l->over = strcmp(name, "exit") == 0 || strcmp(name, "cut") == 0;
	all = l->c->json ? json_pack("{s:s,s:s,s:O}", "event", name, "id", id, "data", value) : json_incref(value);
	text = all ? ctl_json_text(all, JSON_COMPACT) : NULL;
	if (!text)
		rc = err_set(e, ERR_NOMEM, "no memory for an event");
	else if (l->c->json)
		printf("%s\n", text);
	else
		printf("%-8s %-8s %s\n", name, id ? id : "-", text);
	if (rc == 0 && fflush(stdout))
		rc = err_sys(e, errno, "write");
	free(text);
	json_decref(all);
	json_decref(value);
	return rc;
}

/* A whole event, without the empty line behind it. */
static int event_take(struct listening *l, char *event, struct err *e)
{
	char *name = event_field(event, "event"), *id = event_field(event, "id"), *data = event_field(event, "data");
	char *fields[] = {name, id, data};

	if (!data)
		return 0; /* a comment, so that the connection is known to live */
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (fields[i])
			fields[i][strcspn(fields[i], "\n")] = '\0';
	return event_print(l, name ? name : "message", id, data, e);
}

static int events_on_bytes(void *arg, const void *p, size_t n, struct err *e)
{
	struct listening *l = arg;
	int rc = buf_append(&l->text, p, n);
	const char *text;

	if (rc)
		return err_set(e, ERR_PROTOCOL, "an event of the daemon has no end");
	while (rc == 0 && (text = buf_cstr(&l->text))) {
		const char *end = strstr(text, "\n\n");
		char *event = end ? strndup(text, (size_t)(end - text)) : NULL;

		if (!end)
			break;
		rc = event ? event_take(l, event, e) : err_set(e, ERR_NOMEM, "no memory for an event");
		free(event);
		buf_consume(&l->text, (size_t)(end - text) + 2);
	}
	return rc;
}

static int events_run(struct ctl *c, const struct ctl_args *a)
{
	struct ctl_wish w = live_wish(a, "rounds,observe,replay,admin");
	struct listening l = {.c = c};
	struct api_bytes b = {.take = events_on_bytes, .arg = &l};
	struct api_call call = {.method = "GET", .path = "/v1/rounds/*/events", .names = {a->operands[0]}};
	struct err e = {0};
	int rc = check_round(a, &e);

	if (rc)
		return ctl_fail(c, &e);
	w.reason = args_get_or(a, "reason", "muxctl round events");
	if (args_has(a, "after"))
		call.query = json_pack("{s:s}", "last_event_id", args_get(a, "after"));
	buf_init(&l.text, EVENT_MAX);
	rc = api_read(c, &w, &call, &b, &e);
	buf_finish(&l.text);
	return rc ? ctl_fail(c, &e) : 0;
}

/* ---- keys */

static int keys_run(struct ctl *c, const struct ctl_args *a)
{
	struct ctl_wish w = live_wish(a, "rounds,terminal,drive,admin");
	struct api_call call = {.method = "POST", .path = "/v1/rounds/*/keys", .names = {a->operands[0]}};
	json_t *keys = json_array(), *answer = NULL;
	struct err e = {0};
	int rc = check_round(a, &e);

	for (size_t i = 1; rc == 0 && i < a->noperands; i++)
		if (json_array_append_new(keys, json_string(a->operands[i])))
			rc = err_set(&e, ERR_NOMEM, "no memory for the keys");
	w.reason = args_get_or(a, "reason", "muxctl round keys");
	call.body = json_pack("{s:o}", "keys", keys);
	if (rc == 0)
		rc = api_ask(c, &w, &call, &answer, &e);
	else
		json_decref(call.body);
	if (rc == 0 && !c->json) {
		printf("%lld\n", (long long)json_integer_value(json_object_get(answer, "offset")));
		json_decref(answer);
		return fflush(stdout) == 0 ? 0 : err_exit_code(ERR_SYS);
	}
	return ctl_finish(c, rc, &e, answer, NULL, NULL);
}

/* ---- the screen */

static int screen_on_bytes(void *arg, const void *p, size_t n, struct err *e)
{
	(void)arg;
	/* own: the daemon has drawn it, as text without a control character but line ends */
	return spill_fd(STDOUT_FILENO, p, n) < 0 ? err_sys(e, errno, "write") : 0;
}

static int screen_query(const struct ctl_args *a, bool cells, json_t **out, struct err *e)
{
	unsigned long long wait_ns = args_has(a, "after") ? 2000000000ull : 0;
	long long after = 0;
	char ms[24];
	int rc = args_duration(a, "wait", &wait_ns, e);

	if (rc == 0)
		rc = args_number(a, "after", 0, INT64_MAX, &after, e);
	if (rc)
		return rc;
	snprintf(ms, sizeof(ms), "%llu", wait_ns / 1000000);
	*out = json_pack("{s:s,s:s,s:s*}", "format", cells ? "cells" : "text", "wait_ms", ms, "after",
			 args_get(a, "after"));
	return *out ? 0 : err_set(e, ERR_NOMEM, "no memory for the question");
}

static int screen_run(struct ctl *c, const struct ctl_args *a)
{
	bool cells = args_has(a, "cells") || c->json;
	struct ctl_wish w = live_wish(a, "rounds,observe,replay,admin");
	struct api_call call = {.method = "GET", .path = "/v1/rounds/*/screen", .names = {a->operands[0]}};
	struct api_bytes b = {.take = screen_on_bytes};
	struct err e = {0};
	json_t *answer = NULL;
	int rc = check_round(a, &e);

	if (rc == 0)
		rc = screen_query(a, cells, &call.query, &e);
	if (rc)
		return ctl_fail(c, &e);
	w.reason = args_get_or(a, "reason", "muxctl round screen");
	if (!cells)
		return api_read(c, &w, &call, &b, &e) ? ctl_fail(c, &e) : 0;
	rc = api_ask(c, &w, &call, &answer, &e);
	if (rc)
		return ctl_fail(c, &e);
	rc = ctl_print_json(c, answer);
	json_decref(answer);
	return rc;
}

/* ---- its size */

static int resize_run(struct ctl *c, const struct ctl_args *a)
{
	struct ctl_wish w = live_wish(a, "rounds,terminal,drive,admin");
	struct api_call call = {.method = "POST", .path = "/v1/rounds/*/resize", .names = {a->operands[0]}};
	const char *size = a->operands[1];
	unsigned cols = 0, rows = 0;
	json_t *answer = NULL;
	struct err e = {0};
	int n = 0, rc = check_round(a, &e);

	if (rc == 0 && (sscanf(size, "%4ux%4u%n", &cols, &rows, &n) != 2 || size[n] || !cols || !rows))
		rc = err_set(&e, ERR_INVAL, "the size is \"%.40s\": write COLUMNSxROWS, as 80x24", size);
	if (rc)
		return ctl_fail(c, &e);
	w.reason = args_get_or(a, "reason", "muxctl round resize");
	call.body = json_pack("{s:i,s:i}", "cols", (int)cols, "rows", (int)rows);
	rc = api_ask(c, &w, &call, &answer, &e);
	return ctl_finish_quietly(c, rc, &e, answer);
}

const struct ctl_command round_live_commands[] = {
    {"round events", "ROUND", 1, 1, "Print what happens to a round as it happens, until its end.", events_options,
     .run = events_run, .more = "A line for each: its name, its id and its data. -o json: an object a line.\n"},
    {"round keys", "ROUND KEY...", 2, -1, "Type keys by name into the terminal of a round.", keys_options,
     .run = keys_run,
     .more = "Keys are named as in tmux: Enter, Escape, Up, F1, C-c, M-x; one character is itself,\n"
	     "and text:ANYTHING is typed as it is. It prints the offset that the output had before:\n"
	     "muxctl round screen ROUND --after OFFSET shows what came of them.\n"},
    {"round screen", "ROUND", 1, 1, "Print what the terminal of a round shows.", screen_options, .run = screen_run},
    {"round resize", "ROUND COLUMNSxROWS", 2, 2, "Give the terminal of a round another size.", resize_options,
     .run = resize_run},
    {0},
};
