/* muxctl policy: what a file of task profiles says, offline; and what the audit log has of verdicts and texts. */
#include "base/record_rule.h"
#include "base/slurp.h"
#include "base/text.h"
#include "muxd/ctl/content.h"
#include "muxd/ctl/nouns.h"
#include "muxd/ctl/recorded.h"
#include "policy/call.h"
#include "policy/profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE      1000
#define CALLS_MAX (1024 * 1024)

/* ---- files */

static int policy_open(const char *path, struct policy **out, struct err *e)
{
	char *text = NULL;
	size_t n = 0;
	int rc = slurp_operand(path, POLICY_TEXT_MAX, &text, &n, e);

	if (rc == 0)
		rc = policy_parse(text, n, path, out, e);
	slurp_free(text, n);
	return rc;
}

static int policy_check_run(struct ctl *c, const struct ctl_args *a)
{
	struct policy *p = NULL;
	struct err e = {0};
	int rc = policy_open(a->operands[0], &p, &e), status;

	if (rc)
		return ctl_fail(c, &e);
	if (c->json) {
		json_t *o = json_pack("{s:s,s:s,s:I,s:s}", "version", p->version, "sha256", p->sha256, "profiles",
				      (json_int_t)p->nprofiles, "otherwise", p->otherwise_deny ? "deny" : "as_granted");

		status = ctl_print_json(c, o);
		json_decref(o);
	} else {
		printf("%s: fine, %zu profiles, version %s\n", a->operands[0], p->nprofiles, p->version);
		status = 0;
	}
	policy_destroy(p);
	return status;
}

/* ---- calls */

/* Image and resources of the sandbox that it makes; NULL: it makes none. */
static json_t *made_with(const struct verdict *v, const struct policy_question *q)
{
	struct policy_shape shape;

	if (!v->allowed || !q->makes)
		return NULL;
	verdict_shape(v, q, &shape);
	return json_pack("{s:s?,s:o}", "image", *shape.image ? shape.image : NULL, "resources",
			 resources_json(&shape.resources));
}

/* Of a session that an allowed call begins, by the profile; NULL: the configuration says what is kept of it. */
static json_t *recorded(const struct verdict *v, const struct policy_question *q)
{
	const char *session = v->allowed ? policy_op_session(q->op) : NULL;
	struct record_rule r = {0};

	if (session)
		policy_record_for(v->profile, session, &r);
	return r.given ? record_rule_json(&r) : NULL;
}

/* In words, "" of none. */
static void recorded_text(const json_t *o, char *out, size_t size)
{
	const json_t *head = json_object_get(o, "head"), *tail = json_object_get(o, "tail");

	text_put(out, size, json_get_text(o, "rule"));
	if (head && tail)
		text_format(out, size, "%.16s, %" PRId64 " and %" PRId64 " bytes", json_get_text(o, "rule"),
			    (int64_t)json_integer_value(head), (int64_t)json_integer_value(tail));
}

/* In words, "" of nothing in particular. */
static void made_text(const json_t *made, char *out, size_t size)
{
	static const char *const keys[] = {"cpu", "memory"};
	const json_t *r = json_object_get(made, "resources"), *pids = json_object_get(r, "pids");
	const char *image = json_get_text(made, "image");
	size_t n;

	text_format(out, size, "%s%.128s", *image ? ", image " : "", image);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (n = strlen(out), json_object_get(r, keys[i]))
			text_format(out + n, size - n, ", %s %.24s", keys[i], json_get_text(r, keys[i]));
	n = strlen(out);
	if (pids)
		text_format(out + n, size - n, ", %" PRId64 " processes", (int64_t)json_integer_value(pids));
	memmove(out, out + (*out ? 2 : 0), strlen(out) + 1 - (*out ? 2 : 0));
}

/* The verdict of a call, in the form of both outputs. */
static json_t *judge(const struct policy *p, const char *text, struct err *e)
{
	struct policy_call call;
	struct verdict v;
	char rule[POLICY_RULE_MAX], message[256], needs[200];

	if (policy_call_parse(text, &call, e))
		return NULL;
	v = policy_verdict(p, &call.q);
	verdict_rule(&v, &call.q, rule);
	verdict_message(&v, &call.q, message, sizeof(message));
	verdict_hint(&v, &call.q, needs, sizeof(needs));
	return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s*,s:o*,s:o*}", "call", text, "verdict", v.allowed ? "allow" : "deny",
			 "rule", rule, "version", p->version, "message", message, "needs", *needs ? needs : NULL,
			 "made_with", made_with(&v, &call.q), "recorded", recorded(&v, &call.q));
}

static bool is_denied(const json_t *verdict)
{
	return strcmp(json_get_text(verdict, "verdict"), "deny") == 0;
}

static void print_verdict(const json_t *o)
{
	char *call = ctl_clean(json_get_text(o, "call")), *needs = ctl_clean(json_get_text(o, "needs"));
	char made[300], kept[100];

	/* own: verdicts, and the names of the policy's rules */
	printf("%-5s  %-28s  %s\n", json_get_text(o, "verdict"), json_get_text(o, "rule"), call ? call : "");
	if (needs && *needs)
		printf("       allowed by: %s\n", needs);
	made_text(json_object_get(o, "made_with"), made, sizeof(made));
	if (*made)
		printf("       made with: %s\n", made); /* own: names of the policy, quantities */
	recorded_text(json_object_get(o, "recorded"), kept, sizeof(kept));
	if (*kept)
		printf("       recorded: %s\n", kept); /* own: words of the policy, sizes */
	free(call);
	free(needs);
}

/* The words behind FILE are one call; without any, each line of stdin is one. */
static int one_call(const struct ctl_args *a, char *out, size_t size, struct err *e)
{
	size_t used = 0;

	for (size_t i = 1; i < a->noperands; i++) {
		size_t n = strlen(a->operands[i]);

		if (used + n + 2 > size)
			return err_set(e, ERR_INVAL, "the call is longer than %d bytes", POLICY_CALL_MAX);
		memcpy(out + used, a->operands[i], n);
		used += n;
		out[used++] = ' ';
	}
	out[used ? used - 1 : 0] = '\0';
	return 0;
}

static int judge_lines(const struct policy *p, char *lines, json_t *out, struct err *e)
{
	char *rest;
	size_t n = 0;

	for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		struct err why = {0};
		json_t *o;

		n++;
		if (*line == '#')
			continue;
		o = judge(p, line, &why);
		if (!o)
			return err_set(e, why.code ? why.code : ERR_NOMEM, "call %zu: %s", n, why.message);
		json_array_append_new(out, o);
	}
	return 0;
}

static int judge_stdin(const struct policy *p, json_t *out, struct err *e)
{
	char *text = NULL, *copy;
	size_t n = 0;
	int rc = slurp_fd(STDIN_FILENO, "the calls", CALLS_MAX, &text, &n, e);

	copy = rc ? NULL : strndup(text, n);
	if (rc == 0)
		rc = copy ? judge_lines(p, copy, out, e) : err_set(e, ERR_NOMEM, "no memory for the calls");
	free(copy);
	slurp_free(text, n);
	return rc;
}

static int print_verdicts(struct ctl *c, const json_t *list)
{
	bool denied = false;
	const json_t *o;
	size_t i;
	int status = 0;

	json_array_foreach(list, i, o)
	{
		denied = denied || is_denied(o);
		if (!c->json)
			print_verdict(o);
	}
	if (c->json)
		status = ctl_print_json(c, list);
	return status ? status : denied ? err_exit_code(ERR_POLICY_DENIED) : 0;
}

static int policy_test_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *list = json_array(), *o;
	struct policy *p = NULL;
	char call[POLICY_CALL_MAX + 1];
	struct err e = {0};
	int rc = policy_open(a->operands[0], &p, &e), status;

	if (rc == 0)
		rc = one_call(a, call, sizeof(call), &e);
	if (rc == 0 && a->noperands > 1)
		rc = (o = judge(p, call, &e)) ? json_array_append_new(list, o) : e.code;
	else if (rc == 0)
		rc = judge_stdin(p, list, &e);
	status = rc ? ctl_fail(c, &e) : print_verdicts(c, list);
	json_decref(list);
	policy_destroy(p);
	return status;
}

/* ---- which calls change their verdict */

/* A name that a pattern matches: `*` stands for "x". */
static void example_of(const char *pattern, char *out, size_t size)
{
	size_t n = 0;

	for (; *pattern && n + 1 < size; pattern++)
		out[n++] = *pattern == '*' ? 'x' : *pattern;
	out[n] = '\0';
}

static void add_word(char *text, size_t size, const char *key, const struct policy_names *names, size_t i)
{
	char name[GRANT_NAME_MAX + 1];

	if (!names->n)
		return;
	example_of(names->list[i < names->n ? i : 0], name, sizeof(name));
	text_format(text + strlen(text), size - strlen(text), " %s=%s", key, name);
}

static void compare(const struct policy *a, const struct policy *b, const char *call, json_t *out)
{
	json_t *was = judge(a, call, NULL), *is = judge(b, call, NULL);
	char was_made[300], is_made[300], was_kept[100], is_kept[100];

	made_text(json_object_get(was, "made_with"), was_made, sizeof(was_made));
	made_text(json_object_get(is, "made_with"), is_made, sizeof(is_made));
	recorded_text(json_object_get(was, "recorded"), was_kept, sizeof(was_kept));
	recorded_text(json_object_get(is, "recorded"), is_kept, sizeof(is_kept));
	if (was && is &&
	    (is_denied(was) != is_denied(is) || strcmp(was_made, is_made) != 0 || strcmp(was_kept, is_kept) != 0))
		json_array_append_new(out,
				      json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s}", "call", call, "was",
						json_get_text(was, "verdict"), "was_rule", json_get_text(was, "rule"),
						"is", json_get_text(is, "verdict"), "is_rule",
						json_get_text(is, "rule"), "was_made_with", was_made, "is_made_with",
						is_made, "was_recorded", was_kept, "is_recorded", is_kept));
	json_decref(was);
	json_decref(is);
}

/* Options that either file names, each by an example. */
static void compare_paths(const struct policy *a, const struct policy *b, const struct grant_paths *paths,
			  const char *call, json_t *out)
{
	char text[POLICY_CALL_MAX + 1], path[GRANT_PATHS_TEXT];

	for (const char *at = paths->text; *at; at += strcspn(at, "\n") + 1) {
		text_format(path, sizeof(path), "%.*s", (int)strcspn(at, "\n"), at);
		text_format(text, sizeof(text), "%s path=%s", call, path);
		compare(a, b, text, out);
	}
}

/* Each image that either file names, and as much as either allows. */
static void compare_shapes(const struct policy *a, const struct policy *b, const struct policy_profile *p,
			   const char *call, json_t *out)
{
	const struct resources *most = &p->resources.most;
	char text[POLICY_CALL_MAX + 1], quantity[RESOURCES_TEXT];

	for (size_t i = 0; i < p->images.n; i++) {
		text_format(text, sizeof(text), "%s image=%s", call, p->images.list[i].name);
		compare(a, b, text, out);
	}
	if (p->images.limited) {
		text_format(text, sizeof(text), "%s image=none", call);
		compare(a, b, text, out);
	}
	resources_cpu_text(most->cpu_milli, quantity);
	text_format(text, sizeof(text), "%s cpu=%s", call, quantity);
	if (most->cpu_milli)
		compare(a, b, text, out);
	resources_memory_text(most->memory, quantity);
	text_format(text, sizeof(text), "%s memory=%s", call, quantity);
	if (most->memory)
		compare(a, b, text, out);
	text_format(text, sizeof(text), "%s pids=%" PRIu32, call, most->pids);
	if (most->pids)
		compare(a, b, text, out);
}

static void compare_options(const struct policy *a, const struct policy *b, const struct policy_profile *p,
			    enum policy_op op, const char *call, json_t *out)
{
	const struct policy_rule *r = &p->rules[op];
	char text[POLICY_CALL_MAX + 1];

	if (op == POLICY_FILE_READ || op == POLICY_FILE_WRITE)
		compare_paths(a, b, op == POLICY_FILE_READ ? &p->files.read : &p->files.write, call, out);
	if (op == POLICY_SANDBOX_WAKE || op == POLICY_SNAPSHOT_FORK)
		compare_shapes(a, b, p, call, out);
	for (size_t i = 0; i < r->nports; i++) {
		text_format(text, sizeof(text), "%s port=%u", call, r->ports[i].from);
		compare(a, b, text, out);
	}
	for (size_t i = 0; i < r->nservers; i++) {
		text_format(text, sizeof(text), "%s server=%s", call, r->servers[i].name);
		for (size_t k = 0; k < r->servers[i].tools.n; k++) {
			char tool[POLICY_CALL_MAX + 1];

			text_format(tool, sizeof(tool), "%s tool=%s", text, r->servers[i].tools.list[k]);
			compare(a, b, tool, out);
		}
		compare(a, b, text, out);
	}
}

/* Of each profile, one caller that it matches, and everything it may do. */
static void compare_profile(const struct policy *a, const struct policy *b, const struct policy_profile *p, json_t *out)
{
	for (unsigned k = GRANT_STAFF; k <= GRANT_SERVICE; k++) {
		if (p->kinds && !(p->kinds & 1u << k))
			continue;
		for (size_t i = 0; i == 0 || i < p->tasks.n; i++)
			for (size_t op = 0; op < POLICY_OPS; op++) {
				char call[POLICY_CALL_MAX + 1];

				text_format(call, sizeof(call), "%s kind=%s", policy_op_name((enum policy_op)op),
					    grant_kind_name((enum grant_kind)k));
				add_word(call, sizeof(call), "task", &p->tasks, i);
				add_word(call, sizeof(call), "agent", &p->agents, 0);
				add_word(call, sizeof(call), "principal", &p->principals, 0);
				compare(a, b, call, out);
				compare_options(a, b, p, (enum policy_op)op, call, out);
			}
	}
}

/* A row for each call: what several profiles give is there once. */
static void drop_repeats(json_t *list)
{
	json_t *seen = json_object();

	for (size_t i = 0; i < json_array_size(list);) {
		const char *call = json_get_text(json_array_get(list, i), "call");

		if (json_object_get(seen, call)) {
			json_array_remove(list, i);
			continue;
		}
		json_object_set_new(seen, call, json_true());
		i++;
	}
	json_decref(seen);
}

static const struct ctl_column diff_columns[] = {{"was", "WAS"},
						 {"is", "IS"},
						 {"call", "CALL"},
						 {"is_rule", "RULE"},
						 {"is_made_with", "MADE WITH"},
						 {"is_recorded", "RECORDED"},
						 {NULL, NULL}};

static int policy_diff_run(struct ctl *c, const struct ctl_args *a)
{
	struct policy *was = NULL, *is = NULL;
	json_t *list = json_array();
	struct err e = {0};
	int rc = policy_open(a->operands[0], &was, &e), status;

	if (rc == 0)
		rc = policy_open(a->operands[1], &is, &e);
	for (size_t i = 0; rc == 0 && i < was->nprofiles; i++)
		compare_profile(was, is, &was->profiles[i], list);
	for (size_t i = 0; rc == 0 && i < is->nprofiles; i++)
		compare_profile(was, is, &is->profiles[i], list);
	drop_repeats(list);
	if (rc)
		status = ctl_fail(c, &e);
	else if (c->json)
		status = ctl_print_json(c, list);
	else
		status = json_array_size(list) ? ctl_print_table(c, list, diff_columns) : 0;
	if (!status && json_array_size(list))
		status = 1;
	json_decref(list);
	policy_destroy(was);
	policy_destroy(is);
	return status;
}

/* ---- what the log has */

typedef bool event_wanted(void *arg, const json_t *record);

/* Events of a name (NULL: all), oldest first, until wanted() is content. *out: that one, or NULL. */
static int find_event(struct ctl *c, const char *name, event_wanted *wanted, void *arg, json_t **out, struct err *e)
{
	json_int_t since = 0;
	size_t n = PAGE;
	int rc = 0;

	*out = NULL;
	while (rc == 0 && n == PAGE && !*out) {
		json_t *rows = json_array(), *row,
		       *q = json_pack("{s:s,s:i,s:I,s:s*}", "op", "audit", "limit", PAGE, "since_seq", since, "event",
				      name);
		size_t i;

		rc = rows && q ? recorded_rows(c, "muxctl policy", "record", q, rows, e)
			       : err_set(e, ERR_NOMEM, "no memory for the question");
		n = json_array_size(rows);
		json_array_foreach(rows, i, row)
		{
			since = json_integer_value(json_object_get(row, "seq"));
			if (!*out && wanted(arg, json_object_get(row, "record")))
				*out = json_incref(row);
		}
		json_decref(rows);
		json_decref(q);
	}
	return rc;
}

/* The text of a version, put together from the events that have it. */
struct text_search {
	const char *version;
	struct buf text;
	bool whole;
};

static bool take_part(void *arg, const json_t *record)
{
	struct text_search *s = arg;
	const json_t *d = json_object_get(record, "detail");
	const char *text = json_get_text(d, "text");

	if (strcmp(json_get_text(d, "version"), s->version) != 0)
		return false;
	if ((size_t)json_integer_value(json_object_get(d, "offset")) == buf_len(&s->text)) /* it may be there again */
		(void)buf_append(&s->text, text, strlen(text));
	return false;
}

static int policy_text_of(struct ctl *c, const char *version, struct buf *out, struct err *e)
{
	struct text_search s = {.version = version};
	json_t *none = NULL;
	int rc;

	buf_init(&s.text, POLICY_TEXT_MAX);
	rc = find_event(c, "policy.text", take_part, &s, &none, e);
	if (rc == 0 && !buf_len(&s.text))
		rc = err_set(e, ERR_NOT_FOUND, "the log has no policy of version %s", version);
	if (rc)
		buf_finish(&s.text);
	else
		*out = s.text;
	return rc;
}

static bool last_load(void *arg, const json_t *record)
{
	json_t **last = arg;

	json_decref(*last);
	*last = json_incref(json_object_get(record, "detail"));
	return false;
}

/* Of the newest load: "" where there is no policy. */
static int newest_version(struct ctl *c, char out[POLICY_VERSION_LEN], struct err *e)
{
	json_t *load = NULL, *none = NULL;
	int rc = find_event(c, "policy.load", last_load, &load, &none, e);

	text_put(out, POLICY_VERSION_LEN, json_get_text(load, "version"));
	json_decref(load);
	return rc;
}

static int policy_show_run(struct ctl *c, const struct ctl_args *a)
{
	char version[POLICY_VERSION_LEN] = "";
	struct buf text;
	struct err e = {0};
	int rc = 0, status;

	if (a->noperands)
		text_put(version, sizeof(version), a->operands[0]);
	else
		rc = newest_version(c, version, &e);
	if (rc == 0 && !*version)
		rc = err_set(&e, ERR_NOT_FOUND, "there is no policy: what grants allow is allowed (policy.file)");
	if (rc == 0)
		rc = policy_text_of(c, version, &text, &e);
	if (rc)
		return ctl_fail(c, &e);
	if (c->json) {
		json_t *o =
		    json_pack("{s:s,s:s%}", "version", version, "text", (const char *)buf_ptr(&text), buf_len(&text));

		status = ctl_print_json(c, o);
		json_decref(o);
	} else {
		struct content to;
		json_t *o =
		    json_pack("{s:s%,s:s}", "data", (const char *)buf_ptr(&text), buf_len(&text), "encoding", "utf-8");

		content_open(&to, STDOUT_FILENO, false);
		status = content_data(&to, o, &e) ? ctl_fail(c, &e) : 0;
		content_close(&to);
		json_decref(o);
	}
	buf_finish(&text);
	return status;
}

/* ---- why */

/* A denial that was counted is in an event with others. */
static bool has_request(const json_t *detail, const char *id)
{
	const json_t *ids = json_object_get(detail, "request_ids"), *one;
	size_t i;

	json_array_foreach(ids, i, one) if (json_is_string(one) && strcmp(json_string_value(one), id) == 0) return true;
	return false;
}

static bool is_about(void *arg, const json_t *record)
{
	const char *id = arg;
	const json_t *d = json_object_get(record, "detail");
	bool judged = json_object_get(record, "policy") || strcmp(json_get_text(record, "event"), "policy.deny") == 0;

	return judged &&
	       (strcmp(json_get_text(record, "request_id"), id) == 0 || has_request(d, id) ||
		strcmp(json_get_text(record, "session"), id) == 0 || strcmp(json_get_text(d, "session"), id) == 0);
}

/* The lines of the profile: from its own to the next one's. */
static void print_profile(const struct policy *p, const struct policy_profile *of)
{
	unsigned until = UINT32_MAX, line = 1;

	for (const struct policy_profile *q = p->profiles; q < p->profiles + p->nprofiles; q++)
		if (q->line > of->line && q->line < until)
			until = q->line;
	for (const char *at = p->text; *at; line++) {
		size_t n = strcspn(at, "\n");
		char text[1024], *shown;

		text_format(text, sizeof(text), "%.*s", (int)n, at);
		shown = line >= of->line && line < until ? ctl_clean(text) : NULL;
		if (shown)
			printf("%5u  %s\n", line, shown);
		free(shown);
		at += n + (at[n] == '\n');
	}
}

static int print_rule(struct ctl *c, const char *version, const char *rule, struct err *e)
{
	struct policy *p = NULL;
	struct buf text;
	int rc = policy_text_of(c, version, &text, e);

	if (rc)
		return rc;
	rc = policy_parse((const char *)buf_ptr(&text), buf_len(&text), version, &p, e);
	buf_finish(&text);
	for (size_t i = 0; rc == 0 && i < p->nprofiles; i++) {
		size_t n = strlen(p->profiles[i].name);

		if (strncmp(rule, p->profiles[i].name, n) == 0 && rule[n] == '/')
			print_profile(p, &p->profiles[i]);
	}
	policy_destroy(p);
	return rc;
}

static const struct ctl_column why_columns[] = {{"verdict", "verdict"},
						{"rule", "rule"},
						{"version", "version"},
						{"operation", "operation"},
						{"message", "message"},
						{"needs", "needs"},
						{"image", "image"},
						{"resources", "resources"},
						{"event", "event"},
						{"principal", "principal"},
						{"agent", "agent"},
						{"at", "at"},
						{NULL, NULL}};

static json_t *why_of(const json_t *row)
{
	const json_t *record = json_object_get(row, "record"), *d = json_object_get(record, "detail"),
		     *p = json_object_get(record, "policy");
	const json_t *from = p ? p : d;

	return json_pack("{s:s,s:O?,s:O?,s:O*,s:O*,s:O*,s:O*,s:O*,s:O?,s:O?,s:O?,s:O?}", "verdict",
			 p ? "allow" : "deny", "rule", json_object_get(from, "rule"), "version",
			 json_object_get(from, "version"), "operation", json_object_get(d, "operation"), "message",
			 p ? NULL : json_object_get(d, "message"), "needs", json_object_get(d, "needs"), "image",
			 json_object_get(d, "image"), "resources", json_object_get(d, "resources"), "event",
			 json_object_get(record, "event"), "principal", json_object_get(record, "principal"), "agent",
			 json_object_get(record, "agent"), "at", json_object_get(row, "at"));
}

static int policy_explain_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *row = NULL, *why = NULL;
	struct err e = {0};
	int rc = find_event(c, "policy.deny", is_about, a->operands[0], &row, &e), status;

	if (rc == 0 && !row)
		rc = find_event(c, NULL, is_about, a->operands[0], &row, &e);
	if (rc == 0 && !row)
		rc = err_set(
		    &e, ERR_NOT_FOUND,
		    "the log has no verdict of %.60s: give the request_id of an error, or the id of a session or round "
		    "(of denials that repeat within a minute the first 8 and the last 8 are found, after it)",
		    a->operands[0]);
	if (rc == 0 && !(why = why_of(row)))
		rc = err_set(&e, ERR_NOMEM, "no memory");
	status = rc ? ctl_fail(c, &e) : c->json ? ctl_print_json(c, why) : ctl_print_object(c, why, why_columns);
	/* Very many sorts of denials are counted together, and have no rule in common. */
	if (!status && !c->json && strcmp(json_get_text(why, "version"), "any") != 0) {
		puts("");
		rc = print_rule(c, json_get_text(why, "version"), json_get_text(why, "rule"), &e);
		status = rc ? ctl_fail(c, &e) : 0;
	}
	json_decref(row);
	json_decref(why);
	return status;
}

static const struct ctl_column op_columns[] = {
    {"operation", "OPERATION"}, {"options", "OPTIONS"}, {"about", "WHAT IT IS"}, {NULL, NULL}};

static int policy_operations_run(struct ctl *c, const struct ctl_args *a)
{
	static const char *const options[] = {[0] = "",
					      [POLICY_PATHS] = "paths",
					      [POLICY_PORTS] = "ports",
					      [POLICY_SERVERS] = "servers",
					      [POLICY_PRINCIPALS] = "principals"};
	json_t *list = json_array();
	int status;

	(void)a;
	for (size_t i = 0; i < POLICY_OPS; i++)
		json_array_append_new(list, json_pack("{s:s,s:s,s:s}", "operation", policy_op_name((enum policy_op)i),
						      "options", options[policy_op_options((enum policy_op)i)], "about",
						      policy_op_help((enum policy_op)i)));
	status = c->json ? ctl_print_json(c, list) : ctl_print_table(c, list, op_columns);
	json_decref(list);
	return status;
}

const struct ctl_command policy_commands[] = {
    {"policy check", "FILE", 1, 1, "Check a policy file; the first mistake is told with line and column.",
     .run = policy_check_run},
    {"policy test", "FILE [OPERATION [KEY=VALUE]...]", 1, -1,
     "Ask a policy file about a call, or about each line of stdin.", .run = policy_test_run,
     .more =
	 "Keys are task, agent, principal, kind, path, port, server, tool, time, size, rounds, sessions and contexts.\n"
	 "The exit status is 0 when all is allowed, and 77 when something is denied."},
    {"policy diff", "OLD NEW", 2, 2, "Show which calls change their verdict from one policy file to another.",
     .run = policy_diff_run,
     .more =
	 "Asked is every operation for a caller of each profile of both. The exit status is 1 when a verdict changes."},
    {"policy show", "[VERSION]", 0, 1, "Print the policy in force, or another version that the log has.",
     .run = policy_show_run},
    {"policy explain", "ID", 1, 1, "Explain a verdict, by an error's request id or the id of a session or round.",
     .run = policy_explain_run},
    {"policy operations", "", 0, 0, "List the operations that a profile can name.", .run = policy_operations_run},
    {0},
};
