/* muxctl round output, and tail: the output of a round as the API has it, or the end of a file. */
#include "base/ids.h"
#include "base/visible.h"
#include "muxd/ctl/api.h"
#include "muxd/ctl/content.h"
#include "muxd/ctl/exec.h"
#include "muxd/ctl/nouns.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE_TEXT  "1048576" /* of a page as JSON */
#define MATCHES    "1000"    /* of a call; what is behind them is asked for with the next one */
#define RANGE_SIZE 64

static const struct ctl_option output_options[] = {
    {"stream", 0, "NAME", "stdout (default) or stderr."},
    {"offset", 0, "BYTES", "From here on."},
    {"range", 0, "FIRST-LAST", "These bytes, counted from 0; FIRST- to the end, -N the last N."},
    {"tail", 'n', "LINES", "The last lines, up to 10000."},
    {"grep", 0, "PATTERN", "Only lines with this text."},
    {"regex", 'E', NULL, "PATTERN is a regular expression, not text."},
    {"ignore-case", 'i', NULL, "Either case of a letter."},
    {"follow", 'f', NULL, "Until the round ends."},
    CONTENT_RAW,
    {"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl round output)."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option tail_options[] = {
    {"lines", 'n', "LINES", "The last lines (default: 10; of a round up to 10000)."},
    {"follow", 'f', NULL,
     "And what comes: until the round ends, or of a file until Ctrl-C, under whatever it is renamed."},
    {"stream", 0, "stdout|stderr", "Of a round: which (default: stdout)."},
    CONTENT_RAW,
    {"task", 0, "ID", "Of a file: the task that it belongs to (default: console)."},
    {"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl tail)."},
    {NULL, 0, NULL, NULL},
};

/* Its own principal reads all of it; of others' rounds the grant opens those that run, and the record's part. "*" needs
 * admin.
 */
static struct ctl_wish round_wish(const struct ctl_args *a)
{
	return (struct ctl_wish){
	    .kind = "staff",
	    .agent = "*",
	    .scopes = "rounds,observe,replay,admin",
	    .reason =
		args_get_or(a, "reason", a->command == &round_commands[0] ? "muxctl round output" : "muxctl tail")};
}

static struct api_call round_call(const struct ctl_args *a, json_t *query)
{
	return (struct api_call){
	    .method = "GET", .path = "/v1/rounds/*/output", .names = {a->operands[0]}, .query = query};
}

static int round_query(const struct ctl *c, const struct ctl_args *a, json_t **out)
{
	json_t *q = json_pack("{s:s,s:s*,s:s*,s:s*}", "stream", args_get_or(a, "stream", "stdout"), "offset",
			      args_get(a, "offset"), "lines", args_get(a, "tail"), "grep", args_get(a, "grep"));

	if (q && (c->json || args_has(a, "grep"))) /* bytes come to the end */
		json_object_set_new(q, "limit", json_string(args_has(a, "grep") ? MATCHES : PAGE_TEXT));
	if (q && args_has(a, "regex"))
		json_object_set_new(q, "regex", json_string("true"));
	if (q && args_has(a, "ignore-case"))
		json_object_set_new(q, "ignore_case", json_string("true"));
	if (q && args_has(a, "follow"))
		json_object_set_new(q, "follow", json_string("true"));
	*out = q;
	return q ? 0 : ERR_NOMEM;
}

/* ---- bytes */

static void round_on_head(void *arg, const struct http1_head *head)
{
	const struct http1_field *f = http1_find(head, "Muxd-Missing", NULL);
	char *text = f ? visible_dup(f->value.p, f->value.n, VISIBLE_TEXT_MAX, 0) : NULL;

	(void)arg;
	if (text)
		fprintf(stderr, "muxctl: not kept, and left out: %s\n", text);
	free(text);
}

static int print_bytes(struct ctl *c, const struct ctl_args *a, json_t *query)
{
	struct content to;
	struct api_bytes b = {.head = round_on_head, .take = content_take, .arg = &to};
	struct ctl_wish w = round_wish(a);
	struct api_call call = round_call(a, query);
	char range[RANGE_SIZE];
	struct err e = {0};
	int rc;

	if (args_has(a, "range")) {
		snprintf(range, sizeof(range), "bytes=%s", args_get(a, "range"));
		b.range = range;
	}
	content_open(&to, STDOUT_FILENO, args_has(a, "raw"));
	rc = api_read(c, &w, &call, &b, &e);
	content_close(&to);
	return rc ? ctl_fail(c, &e) : 0;
}

/* ---- a page as JSON */

static int print_page(struct ctl *c, const struct ctl_args *a, json_t *query)
{
	struct ctl_wish w = round_wish(a);
	json_t *o = NULL;
	struct err e = {0};

	struct api_call call = round_call(a, query);
	int rc = api_ask(c, &w, &call, &o, &e);

	return ctl_finish(c, rc, &e, o, NULL, NULL);
}

/* ---- lines in which something is found */

static void print_gaps(const json_t *answer)
{
	json_t *o;
	size_t i;

	json_array_foreach(json_object_get(answer, "gaps"), i, o)
	{
		json_int_t from = json_integer_value(json_object_get(o, "offset"));
		json_int_t n = json_integer_value(json_object_get(o, "bytes"));

		fprintf(stderr, "muxctl: not kept, and not looked at: bytes %" PRId64 "-%" PRId64 "\n", (int64_t)from,
			(int64_t)(from + n - 1));
	}
}

/* Prints and counts the finds of a call. *next: where the next one begins. 1: there may be more. */
static int print_found(struct content *to, const json_t *answer, int64_t *next, size_t *found, struct err *e)
{
	json_t *list = json_object_get(answer, "matches"), *o;
	int64_t from = *next;
	size_t i;
	int rc = json_need_int(answer, "next_offset", 0, INT64_MAX, next, e);

	if (rc == 0 && !json_is_array(list))
		rc = err_set(e, ERR_PROTOCOL, "the daemon's answer has no lines");
	json_array_foreach(list, i, o)
	{
		if (rc == 0 && (rc = content_data(to, o, e)) == 0)
			rc = content_write(to, "\n", 1, e);
	}
	print_gaps(answer);
	*found += json_array_size(list);
	return rc ? rc : !json_is_true(json_object_get(answer, "eof")) && *next > from;
}

/* To the end, or as far as a round that runs has come. Status 1: there is none, as grep has it. */
static int print_matches(struct ctl *c, const struct ctl_args *a, json_t *query)
{
	struct ctl_wish w = round_wish(a);
	int64_t next = args_has(a, "offset") ? strtoll(args_get(a, "offset"), NULL, 10) : 0;
	struct err e = {0};
	size_t found = 0;
	struct content to;
	int rc;

	content_open(&to, STDOUT_FILENO, args_has(a, "raw"));
	do {
		struct api_call call = round_call(a, json_incref(query));
		json_t *answer = NULL;
		char text[24];

		snprintf(text, sizeof(text), "%" PRId64, next);
		json_object_set_new(query, "offset", json_string(text));
		rc = api_ask(c, &w, &call, &answer, &e);
		if (rc == 0)
			rc = print_found(&to, answer, &next, &found, &e);
		json_decref(answer);
	} while (rc == 1);
	content_close(&to);
	json_decref(query);
	return rc < 0 ? ctl_fail(c, &e) : !found;
}

/* ---- the command */

static int output_check(const struct ctl *c, const struct ctl_args *a, struct err *e)
{
	static const char *const places[] = {"offset", "range", "tail"};
	long long offset = 0, lines = 1;
	struct id id;
	int given = 0, rc = args_number(a, "offset", 0, INT64_MAX, &offset, e);

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		given += args_has(a, places[i]);
	if (rc == 0)
		rc = args_number(a, "tail", 1, 10000, &lines, e);
	if (rc == 0 && id_parse(a->operands[0], &id) < 0)
		rc = err_set(e, ERR_INVAL, "\"%.60s\" is not a round id", a->operands[0]);
	if (rc == 0 && given > 1)
		rc = err_set(e, ERR_INVAL, "--offset, --range and --tail exclude each other");
	if (rc == 0 && args_has(a, "range") && strlen(args_get(a, "range")) + sizeof("bytes=") > RANGE_SIZE)
		rc =
		    err_set(e, ERR_INVAL, "--range is \"%.40s\": write FIRST-LAST, FIRST- or -N", args_get(a, "range"));
	if (rc == 0 && args_has(a, "grep") && (args_has(a, "range") || args_has(a, "tail") || args_has(a, "follow")))
		rc = err_set(e, ERR_INVAL, "--grep does not go with --range, --tail and --follow");
	if (rc == 0 && !args_has(a, "grep") && (args_has(a, "regex") || args_has(a, "ignore-case")))
		rc = err_set(e, ERR_INVAL, "--regex and --ignore-case go with --grep");
	if (rc == 0 && args_has(a, "follow") && args_has(a, "range"))
		rc = err_set(e, ERR_INVAL, "--follow does not go with --range");
	if (rc == 0 && c->json && (args_has(a, "follow") || args_has(a, "range")))
		rc = err_set(e, ERR_INVAL, "-o json is a page: it does not go with --follow and --range");
	return rc;
}

static int output_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *query = NULL;
	struct err e = {0};
	int rc = output_check(c, a, &e);

	if (rc == 0 && round_query(c, a, &query))
		rc = err_set(&e, ERR_NOMEM, "no memory for the question");
	if (rc < 0)
		return ctl_fail(c, &e);
	if (c->json)
		return print_page(c, a, query);
	return args_has(a, "grep") ? print_matches(c, a, query) : print_bytes(c, a, query);
}

static int tail_file(struct ctl *c, const struct ctl_args *a, long long lines)
{
	char n[24];
	struct err e = {0};

	if (args_has(a, "stream")) {
		err_set(&e, ERR_INVAL, "--stream goes with a round: a file has one");
		return ctl_fail(c, &e);
	}
	snprintf(n, sizeof(n), "%lld", lines);
	/* the file's name is followed, as a log that is rotated wants it */
	return exec_program(c, a, a->operands[0],
			    args_has(a, "follow")
				? json_pack("[s,s,s,s,s,s]", "tail", "-F", "-n", n, "--", a->operands[1])
				: json_pack("[s,s,s,s,s]", "tail", "-n", n, "--", a->operands[1]),
			    args_get_or(a, "reason", "muxctl tail"));
}

static int tail_run(struct ctl *c, const struct ctl_args *a)
{
	long long lines = 10;
	char text[24];
	struct id id;
	struct err e = {0};
	json_t *query;
	int rc = args_number(a, "lines", 1, a->noperands == 2 ? 1ll << 40 : 10000, &lines, &e);

	if (rc == 0 && a->noperands == 2)
		return tail_file(c, a, lines);
	if (rc == 0 && id_parse(a->operands[0], &id) < 0)
		rc = err_set(&e, ERR_INVAL, "\"%.60s\" is not a round id; of a file name its agent and its path",
			     a->operands[0]);
	if (rc == 0 && c->json)
		rc = err_set(&e, ERR_INVAL, "-o json is a page: muxctl round output has it");
	snprintf(text, sizeof(text), "%lld", lines);
	query = json_pack("{s:s,s:s}", "stream", args_get_or(a, "stream", "stdout"), "lines", text);
	if (rc == 0 && !query)
		rc = err_set(&e, ERR_NOMEM, "no memory for the question");
	if (rc < 0) {
		json_decref(query);
		return ctl_fail(c, &e);
	}
	if (args_has(a, "follow"))
		json_object_set_new(query, "follow", json_string("true"));
	return print_bytes(c, a, query);
}

const struct ctl_command round_commands[] = {
    {"round output", "ROUND", 1, 1, "Print the whole output of a round, also while it runs.", output_options,
     .run = output_run,
     .more = "Bytes come as the program wrote them, onto a terminal what draws of them (all of them: --raw); what is\n"
	     "not kept is named on the standard error.\n"
	     "With -o json: a page of up to 1 MiB, or of 1000 lines; go on with --offset and its next_offset.\n"},
    {"tail", "ROUND | AGENT PATH", 1, 2, "Print the end of a round's output, or of a file in a sandbox.", tail_options,
     .run = tail_run,
     .more = "Of a round that runs, -f goes on until its end. A file is read by tail(1) of the sandbox, in a\n"
	     "round; relative to /workspace.\n"},
    {0},
};
