#include "muxd/hub/session/transfer.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json_scan.h"
#include "base/schema.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_LONGEST 4095
#define MODE_MAX     07777
#define PATH_SAID    (2 * (PATH_LONGEST + 1)) /* of a path in an answer, base64 at most */
#define YEAR_10000_S 253402300800

static int keep_request(struct transfer *t, const json_t *o, struct err *e)
{
	free(t->request);
	t->request = o ? json_text(o) : NULL;
	if (!t->request)
		return err_set(e, ERR_NOMEM, "no memory for a request");
	if (strlen(t->request) > TRANSFER_REQUEST_MAX)
		return err_set(e, ERR_TOO_LARGE, "the request has %zu bytes as JSON; %d are allowed",
			       strlen(t->request), TRANSFER_REQUEST_MAX);
	return 0;
}

/* Op and path ahead of what the door has checked: the request as muxlet reads it. */
static int make_request(struct transfer *t, const struct file_spec *spec, const struct grant_files *limits,
			struct err *e)
{
	json_t *o = json_pack("{s:s, s:o}", "op", t->row->name, "path", json_text_or_base64(spec->path));
	bool made = o && (!spec->request || json_object_update_missing(o, (json_t *)spec->request) == 0) &&
		    (!limits || file_limits_ask(limits, o) == 0);
	int rc = keep_request(t, made ? o : NULL, e);

	json_decref(o);
	return rc;
}

/* Its output is content from the first byte to the end. */
static bool gives_all(const struct transfer *t)
{
	return t->row->asks && t->row->gives;
}

static void take_limits(struct transfer *t, const struct grant_files *limits)
{
	t->limited = limits && grant_files_limited(limits);
	t->file_max = limits ? limits->size_max : 0;
	t->size_max = limits && t->op != FILE_TREE_PUT && t->op != FILE_CHANGES ? limits->size_max : 0;
}

int transfer_create(const struct file_spec *spec, const struct grant_files *limits, struct transfer **out,
		    struct err *e)
{
	size_t n = spec->path ? strlen(spec->path) : 0;
	struct transfer *t;
	int rc = 0;

	if (!n)
		return err_set(e, ERR_INVAL, "path is missing or empty");
	if (n > PATH_LONGEST)
		return err_set(e, ERR_INVAL, "path has %zu bytes, %d are allowed", n, PATH_LONGEST);
	if (spec->mode > MODE_MAX)
		return err_set(e, ERR_INVAL, "mode is more than 7777 (octal)");
	t = calloc(1, sizeof(*t));
	if (!t || !(t->path = strdup(spec->path)) || keep_init(&t->content, 0, 0)) {
		transfer_destroy(t);
		return err_set(e, ERR_NOMEM, "no memory for a transfer");
	}
	t->op = spec->op;
	t->row = file_op_row(spec->op);
	t->mode = spec->op == FILE_PUT ? spec->mode : -1;
	t->size = t->row->takes ? spec->size : UINT64_MAX;
	t->parents = spec->parents;
	take_limits(t, limits);
	t->head_known = gives_all(t); /* there is none */
	buf_init(&t->answer, TRANSFER_ANSWER_MAX);
	t->touches = calloc(2, sizeof(*t->touches));
	if (t->touches)
		t->ntouches = file_touches(spec, t->touches);
	if (!t->touches || (spec->to && !(t->to = strdup(spec->to))))
		rc = err_set(e, ERR_NOMEM, "no memory for a transfer");
	if (!rc && t->row->asks)
		rc = make_request(t, spec, limits, e);
	if (rc)
		transfer_destroy(t);
	else
		*out = t;
	return rc;
}

int transfer_limit(struct transfer *t, const struct grant_files *limits, struct err *e)
{
	json_t *o = t->row->asks ? json_loads(t->request, JSON_ALLOW_NUL, NULL) : NULL;
	int rc = 0;

	take_limits(t, limits);
	if (t->row->asks)
		rc = keep_request(t, o && file_limits_anew(limits, o) == 0 ? o : NULL, e);
	json_decref(o);
	return rc;
}

void transfer_destroy(struct transfer *t)
{
	if (!t)
		return;
	keep_finish(&t->content);
	buf_finish(&t->answer);
	json_decref(t->reply);
	json_decref(t->changes);
	free(t->request);
	free(t->touches);
	free(t->to);
	free(t->path);
	free(t);
}

/* No shell ever sees it: each is one argument, and the path stands behind its option whatever it begins with. */
char **transfer_argv(const struct transfer *t)
{
	char **v = calloc(12, sizeof(*v));
	size_t n = 0;
	bool whole = v != NULL;

	if (!v)
		return NULL;
	v[n++] = strdup("muxlet");
	v[n++] = strdup(t->row->asks ? "--fs" : t->op == FILE_PUT ? "--put" : "--get");
	v[n++] = strdup(t->row->asks ? t->request : t->path);
	if (t->op == FILE_PUT && t->mode >= 0) {
		v[n++] = strdup("--mode");
		whole = asprintf(&v[n++], "%llo", (unsigned long long)t->mode) >= 0;
	}
	if (whole && t->op == FILE_PUT && t->size <= INT64_MAX) {
		v[n++] = strdup("--size");
		whole = asprintf(&v[n++], "%llu", (unsigned long long)t->size) >= 0;
	}
	if (whole && t->op == FILE_PUT && t->parents)
		v[n++] = strdup("--parents");
	if (whole && !t->row->asks && t->limited)
		v[n++] = strdup("--beneath");
	if (whole && !t->row->asks && t->size_max) {
		v[n++] = strdup("--most");
		whole = asprintf(&v[n++], "%llu", (unsigned long long)t->size_max) >= 0;
	}
	for (size_t i = 0; i < n; i++)
		whole = whole && v[i];
	if (whole)
		return v;
	for (size_t i = 0; i < n; i++)
		free(v[i]);
	free(v);
	return NULL;
}

/* "muxlet-file 1 SIZE MODE MTIME", exactly; what a sandbox says is not believed beyond its form. */
static int parse_head(struct transfer *t)
{
	unsigned long long size;
	unsigned mode;
	long long mtime;
	int end = 0;

	t->head[t->head_len] = '\0';
	if (sscanf(t->head, "muxlet-file 1 %19llu %5o %19lld%n", &size, &mode, &mtime, &end) != 3 ||
	    t->head[end] != '\0' || mode > MODE_MAX || size > INT64_MAX)
		return ERR_PROTOCOL;
	t->size = size;
	t->mode = (int64_t)mode;
	t->mtime_s = mtime > 0 && mtime < YEAR_10000_S ? mtime : 0;
	t->head_known = true;
	return 0;
}

int transfer_output(struct transfer *t, const uint8_t *p, size_t n, size_t *out_content)
{
	*out_content = 0;
	if (t->row->asks && !t->row->gives)
		return buf_append(&t->answer, p, n);
	while (n && !t->head_known) {
		if (*p == '\n') {
			int rc = parse_head(t);

			if (rc)
				return rc;
		} else if (*p < 0x20 || *p >= 0x7f || t->head_len == TRANSFER_HEAD_MAX) {
			return ERR_PROTOCOL;
		} else {
			t->head[t->head_len++] = (char)*p;
		}
		p++;
		n--;
	}
	if (n && t->content.total + n > t->size)
		return ERR_PROTOCOL;
	*out_content = n;
	return n && !t->row->takes ? keep_add(&t->content, p, n) : 0; /* of both, what is taken counts */
}

int transfer_input(struct transfer *t, const uint8_t *p, size_t n)
{
	if (t->size != UINT64_MAX && n > t->size - t->content.total)
		return ERR_TOO_LARGE;
	return keep_add(&t->content, p, n);
}

int transfer_complete(struct transfer *t)
{
	const char *hex = keep_digest(&t->content);
	unsigned byte;

	if (t->size != UINT64_MAX && t->content.total < t->size)
		return ERR_EOF;
	if (!*hex)
		return ERR_INTERNAL;
	put_u64(t->trailer, t->content.total);
	for (size_t i = 0; i < 32; i++) {
		if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
			return ERR_INTERNAL;
		t->trailer[8 + i] = (uint8_t)byte;
	}
	t->trailer_due = true;
	return 0;
}

/* ---- how it ended */

static int change_path(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	static const struct schema_field bytes[] = {{"base64", SCHEMA_TEXT, true, 0, PATH_SAID, NULL, 0}};
	static const struct schema_field text = {"path", SCHEMA_TEXT, true, 0, PATH_SAID, NULL, 0};

	return json_is_object(v) ? schema_object(s, at, v, SCHEMA_FIELDS(bytes)) : schema_value(s, at, &text, v);
}

static int change_state(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	static const struct schema_field fields[] = {
	    {"type", SCHEMA_TEXT, true, 1, 16, NULL, 0},
	    {"size", SCHEMA_INTEGER, true, 0, INT64_MAX, NULL, 0},
	    {"mode", SCHEMA_TEXT, true, 1, 4, NULL, 0},
	    {"sha256", SCHEMA_TEXT, false, 64, 64, NULL, 0},
	};

	return json_is_null(v) ? 0 : schema_object(s, at, v, SCHEMA_FIELDS(fields));
}

/* A sandbox is not believed beyond the form, as muxlet writes it (fs_state.c). */
static bool is_change(const json_t *said)
{
	static const struct schema_field fields[] = {
	    {"path", SCHEMA_ANY, true, 0, 0, change_path, 0},
	    {"before", SCHEMA_ANY, true, 0, 0, change_state, 0},
	    {"after", SCHEMA_ANY, true, 0, 0, change_state, 0},
	};
	struct err e = {0};
	const struct schema s = {.e = &e};

	return schema_object(&s, NULL, said, SCHEMA_FIELDS(fields)) == 0;
}

/* The list of changes in muxlet's answer, where the record has room for it; what is left out is counted. */
static void take_changes(struct transfer *t)
{
	json_t *said = json_object_get(t->reply, "changes"), *list = json_is_array(said) ? json_array() : NULL;
	int64_t left = 0;
	char *text;

	if (json_opt_int(t->reply, "changes_left_out", 0, INT32_MAX, &left, NULL))
		left = 0;
	for (size_t i = 0; list && i < json_array_size(said); i++)
		if (!is_change(json_array_get(said, i)) || json_array_append(list, json_array_get(said, i)))
			left++;
	text = list ? json_text(list) : NULL;
	if (text && strlen(text) <= TRANSFER_CHANGES_MAX)
		t->changes = json_incref(list);
	else if (list)
		left += (int64_t)json_array_size(list);
	t->changes_left_out = left;
	free(text);
	if (list) /* whoever asked is told what the record is */
		json_object_set(t->reply, "changes", list);
	if (left)
		json_object_set_new(t->reply, "changes_left_out", json_integer(left));
	json_decref(list);
}

const char *const transfer_own[] = {"op", "agent", "session", "duration_ms", NULL};

/* The answer as an object, or it is none. */
static void parse_answer(struct transfer *t)
{
	json_t *o = NULL;

	if (json_parse(buf_ptr(&t->answer), buf_len(&t->answer), TRANSFER_ANSWER_MAX, &o, NULL))
		return;
	t->reply_bytes = buf_len(&t->answer);
	t->answer_len = 0;
	buf_finish(&t->answer);
	if (json_is_object(o))
		t->reply = json_incref(o);
	json_decref(o);
}

/* The answer of an operation. A sandbox is not believed beyond its form. */
static void take_reply(struct transfer *t, bool well)
{
	if (!t->row->asks || t->row->gives)
		return;
	if (well && t->row->looks &&
	    json_scan_object(buf_ptr(&t->answer), buf_len(&t->answer), transfer_own, &t->answer_len)) {
		t->reply_bytes = t->answer.cap;
		return;
	}
	parse_answer(t);
	take_changes(t);
}

json_t *transfer_take_reply(struct transfer *t)
{
	json_t *o;

	if (t->answer_len)
		parse_answer(t);
	o = t->reply;
	t->reply = NULL;
	t->reply_bytes = 0;
	return o;
}

bool transfer_take_text(struct transfer *t, struct buf *out, bool *out_more)
{
	size_t max = out->max;

	if (!t->answer_len || buf_len(out))
		return false;
	buf_truncate(&t->answer, t->answer_len - 1);
	*out_more = t->answer_len > 2;
	buf_finish(out);
	*out = t->answer;
	out->max = max;
	buf_init(&t->answer, TRANSFER_ANSWER_MAX);
	t->answer_len = t->reply_bytes = 0;
	return true;
}

int transfer_over(const struct transfer *t, struct err *e)
{
	const struct err_policy by = t->by_policy;

	if (!by.version[0])
		return err_set(e, ERR_TOO_LARGE,
			       "it is larger than the %" PRIu64 " bytes that your grant lets a file have", t->file_max);
	err_set(e, ERR_POLICY_DENIED,
		"it is larger than the %" PRIu64 " bytes that profile \"%.*s\" lets a file have (policy %s)",
		t->file_max, (int)strcspn(by.rule, "/"), by.rule, by.version);
	if (e)
		e->policy = by;
	return ERR_POLICY_DENIED;
}

/* Muxlet's exit code in words: its own sentence, then ours, then the system's. */
static int refused(struct transfer *t, int errnum, const char *what, struct err *e)
{
	const char *said = json_string_value(json_object_get(t->reply, "error")), *text;
	char buf[128], clean[200];
	int code = file_op_error(t->row, errnum, &text);
	struct err over = {0};

	t->over = t->over || errnum == EMSGSIZE;
	if (t->over && t->by_policy.version[0])
		return err_again(e, transfer_over(t, &over), &over, what);
	if (said)
		text_put(clean, sizeof(clean), said);
	return err_set(e, code, "%s: %s", what, said ? clean : text ? text : strerror_r(errnum, buf, sizeof(buf)));
}

static int went_well(const struct transfer *t, const char *what, struct err *e)
{
	if (t->op == FILE_GET && (!t->head_known || t->content.total != t->size))
		return err_set(e, ERR_TRANSFER, "%s: %llu of %llu bytes came", what,
			       (unsigned long long)t->content.total, (unsigned long long)(t->head_known ? t->size : 0));
	if (t->row->takes && !t->trailer_due)
		return err_set(e, ERR_TRANSFER, "%s: muxlet ended before the content did", what);
	if (t->row->asks && !t->row->gives && !t->reply && !t->answer_len)
		return err_set(e, ERR_TRANSFER, "%s: its answer is not one", what);
	return 0;
}

int transfer_result(struct transfer *t, const char *agent, const struct session_result *r, struct err *e)
{
	char what[300];

	struct err over = {0};

	take_reply(t, r->cause == EXIT_EXITED && !r->signal && !r->code);
	text_format(what, sizeof(what), "%s of %.160s in %.100s", file_op_name(t->op), t->path, agent);
	if (t->over)
		return err_again(e, transfer_over(t, &over), &over, what);
	switch (r->cause) {
	case EXIT_EXITED:
		break;
	case EXIT_TIMEOUT:
		return err_set(e, ERR_TRANSFER_TIMEOUT, "%s passed its timeout", what);
	case EXIT_LOST:
		return err_set(e, ERR_LINK_LOST, "%s: %s", what, r->message[0] ? r->message : "the sandbox went away");
	default:
		return err_set(e, ERR_TRANSFER, "%s: %s", what, r->message[0] ? r->message : exit_cause_name(r->cause));
	}
	if (r->signal)
		return err_set(e, ERR_TRANSFER, "%s: muxlet was ended by signal %s", what, signal_name(r->signal));
	return r->code ? refused(t, r->code, what, e) : went_well(t, what, e);
}

json_t *transfer_json(const struct transfer *t)
{
	json_t *o = json_pack("{s:s, s:o}", "op", file_op_name(t->op), "path", json_text_or_base64(t->path));
	char text[40];

	if (!o)
		return NULL;
	if (t->to)
		json_object_set_new(o, "to", json_text_or_base64(t->to));
	if (t->changes)
		json_object_set(o, "changes", t->changes);
	if (t->changes_left_out)
		json_object_set_new(o, "changes_left_out", json_integer(t->changes_left_out));
	if (t->row->asks && !t->row->takes && !t->row->gives)
		return o;
	snprintf(text, sizeof(text), "%04llo", (unsigned long long)t->mode);
	if (t->mode >= 0)
		json_object_set_new(o, "mode", json_string(text));
	if (t->head_known && !t->row->asks) {
		clock_format_utc(t->mtime_s * (int64_t)NS_PER_SEC, text, sizeof(text));
		json_object_set_new(o, "mtime", json_string(text));
	}
	if (t->content.hex[0]) {
		json_object_set_new(o, "size", json_integer((json_int_t)t->content.total));
		json_object_set_new(o, "sha256", json_string(t->content.hex));
	} else if (t->size <= INT64_MAX) {
		json_object_set_new(o, "size", json_integer((json_int_t)t->size));
	}
	return o;
}
