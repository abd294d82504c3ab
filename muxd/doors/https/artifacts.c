/* /v1/tasks/{task}/artifacts: bytes stream in and out; what is taken from a sandbox or a round is asked for in JSON. */
#include "muxd/hub/broker/broker_artifact.h"
#include "muxd/hub/broker/git_export.h"

#include "base/clock.h"
#include "base/ring.h"
#include "base/schema.h"
#include "base/text.h"
#include "muxd/doors/https/body.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/range.h"
#include "muxd/hub/core/hub.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void wake(struct http_exchange *x)
{
	if (x->wake)
		x->wake(x->done_arg, x);
}

/* ---- put */

#define PUT_NAME "artifact.put" /* in the audit log */

/* flow_arg of its exchange, from the call on: nothing is taken before there is a writer. */
struct putting {
	struct http_exchange *x; /* NULL: its client went away */
	struct artifact_writer *w;
	bool asked, finished, complete;
};

static void put_free(struct putting *p)
{
	if (!p->asked)
		free(p);
}

/* A name that is taken is a failed precondition where the caller made it one (RFC 9110, 13.1.2). */
static void put_refuse(struct http_exchange *x, int rc, const struct err *e)
{
	bool only_new = strcmp(x->if_none_match, "*") == 0;

	http_reply_status(x, rc == ERR_CONFLICT && only_new ? 412 : err_http_status(rc), rc, e);
}

static ssize_t put_take(struct http_exchange *x, const uint8_t *bytes, size_t n)
{
	struct putting *p = x->flow_arg;
	struct err e = {0};
	ssize_t taken;

	if (!p->w)
		return 0; /* it is being asked for */
	taken = artifact_writer_take(p->w, bytes, n, &e);
	if (taken >= 0)
		return taken;
	artifact_writer_abort(p->w);
	p->w = NULL;
	put_refuse(x, (int)taken, &e);
	return -1;
}

static void put_complete(struct http_exchange *x)
{
	struct putting *p = x->flow_arg;

	struct err e = {0};
	int rc;

	p->complete = true;
	if (!p->w)
		return;
	rc = broker_in_force(x->hub, &x->rq, PUT_NAME, &e);
	if (rc) {
		artifact_writer_abort(p->w);
		p->w = NULL;
		put_refuse(x, rc, &e);
		return;
	}
	p->finished = true;
	artifact_writer_finish(p->w);
}

/* A put whose bytes have all come is made, whether its client waits or not. */
static void put_drop(struct http_exchange *x)
{
	struct putting *p = x->flow_arg;

	x->flow_arg = NULL;
	if (!p)
		return;
	if (p->w && p->finished)
		artifact_writer_forget(p->w);
	else
		artifact_writer_abort(p->w);
	p->w = NULL;
	p->x = NULL;
	put_free(p);
}

static const struct http_flow put_flow = {
    .take = put_take, .complete = put_complete, .drop = put_drop, .while_granted = PUT_NAME};

static void put_on_ready(void *arg)
{
	struct putting *p = arg;

	wake(p->x);
}

static void put_on_done(void *arg, int rc, const struct err *e, const json_t *row)
{
	struct putting *p = arg;

	p->w = NULL;
	if (rc)
		put_refuse(p->x, rc, e);
	else
		http_reply_json(p->x, json_is_true(json_object_get(row, "replaced")) ? 200 : 201, row);
}

static const struct artifact_writer_ops put_ops = {.ready = put_on_ready, .done = put_on_done};

static void put_on_open(void *arg, int rc, const struct err *e, struct artifact_writer *w)
{
	struct putting *p = arg;

	p->asked = false;
	if (!p->x) {
		artifact_writer_abort(w);
		put_free(p);
	} else if (rc) {
		put_refuse(p->x, rc, e);
	} else {
		p->w = w;
		if (p->complete)
			put_complete(p->x);
		else
			wake(p->x);
	}
}

/* A wrong announcement is refused before a byte of the content is read. */
static int read_put(const struct http_exchange *x, struct artifact_put *out, struct err *e)
{
	out->sha256 = http_query_str(x, "sha256");
	out->media_type = http_query_str(x, "media_type");
	if (out->sha256 && !artifact_sha256_check(out->sha256))
		return err_set(e, ERR_INVAL, "query parameter sha256 must be 64 digits of hexadecimal, in lower case");
	if (out->media_type && (!*out->media_type || strlen(out->media_type) > ARTIFACT_TYPE_MAX ||
				out->media_type[strspn(out->media_type, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrst"
									"uvwxyz0123456789!#$&^_.+-/;= ")]))
		return err_set(e, ERR_INVAL, "query parameter media_type is no media type of up to %d characters",
			       ARTIFACT_TYPE_MAX);
	if (x->if_none_match[0] && strcmp(x->if_none_match, "*") != 0)
		return err_set(e, ERR_INVAL, "If-None-Match of a put can be * alone");
	return 0;
}

void rest_artifact_put(struct http_exchange *x)
{
	struct artifact_put put = {.task = x->params[0],
				   .name = x->params[1],
				   .size = x->body_len,
				   .only_new = strcmp(x->if_none_match, "*") == 0};
	struct putting *p = NULL;
	struct err e = {0};
	int rc = read_put(x, &put, &e);

	if (rc == 0 && !(p = calloc(1, sizeof(*p))))
		rc = err_set(&e, ERR_NOMEM, "out of memory");
	if (rc) {
		http_reply_error(x, rc, &e);
		return;
	}
	p->x = x;
	p->asked = true;
	x->flow_arg = p;
	x->flow = &put_flow;
	broker_artifact_put(x->hub, &x->rq, &put, &put_ops, p, put_on_open, p);
}

/* ---- get */

struct getting {
	struct http_exchange *x;
	struct artifact_reader *r;
};

static size_t get_give(struct http_exchange *x, uint8_t *to, size_t max)
{
	struct getting *g = x->flow_arg;
	const uint8_t *bytes = NULL;
	size_t n = g->r ? artifact_reader_peek(g->r, &bytes) : 0;

	n = n < max ? n : max;
	if (n) {
		memcpy(to, bytes, n);
		artifact_reader_consume(g->r, n);
	}
	return n;
}

static void get_drop(struct http_exchange *x)
{
	struct getting *g = x->flow_arg;

	x->flow_arg = NULL;
	if (!g)
		return;
	artifact_reader_end(g->r);
	free(g);
}

static const struct http_flow get_flow = {.give = get_give, .drop = get_drop, .while_granted = "artifact.get"};

static void get_on_readable(void *arg)
{
	struct getting *g = arg;

	wake(g->x);
}

static void get_on_failed(void *arg, int rc, const struct err *e)
{
	struct getting *g = arg;

	(void)rc, (void)e; /* the log has it: the head is out, and the rest will never come */
	g->x->stream_broken = true;
	wake(g->x);
}

static const struct artifact_reader_ops get_ops = {.readable = get_on_readable, .failed = get_on_failed};

/* [from, until) of a size. 1: nothing of it is there. */
static int find_range(const struct range *r, uint64_t size, uint64_t *out_from, uint64_t *out_until)
{
	*out_from = r->first;
	*out_until = r->last < size ? r->last + 1 : size;
	if (r->suffix) {
		*out_from = r->suffix < size ? size - r->suffix : 0;
		*out_until = size;
	}
	return r->given && (*out_from >= size || (r->suffix && !size));
}

static int get_head(struct http_exchange *x, const json_t *row, const struct range *r, uint64_t from, uint64_t until)
{
	const char *type = json_string_value(json_object_get(row, "media_type"));
	uint64_t size = (uint64_t)json_integer_value(json_object_get(row, "size"));
	/* Served from the origin of the pages: what is in there is never shown as one. */
	int rc = buf_printf(&x->headers, "ETag: \"%s\"\r\nAccept-Ranges: bytes\r\nContent-Disposition: attachment\r\n",
			    json_string_value(json_object_get(row, "sha256")));

	if (rc == 0 && type)
		rc = buf_printf(&x->headers, "Muxd-Media-Type: %s\r\n", type);
	if (rc == 0 && r->given)
		rc = buf_printf(&x->headers, "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64 "\r\n", from,
				until - 1, size);
	return rc;
}

static bool has_etag(const struct http_exchange *x, const json_t *row)
{
	char etag[ARTIFACT_SHA256_SZ + 2];

	text_format(etag, sizeof(etag), "\"%s\"", json_string_value(json_object_get(row, "sha256")));
	return strcmp(x->if_none_match, etag) == 0 || strcmp(x->if_none_match, "*") == 0;
}

static void get_stream(struct http_exchange *x, const json_t *row, bool part, uint64_t from, uint64_t until)
{
	struct getting *g = calloc(1, sizeof(*g));
	struct err e = {0};
	int rc = g ? 0 : err_set(&e, ERR_NOMEM, "out of memory");

	if (rc == 0) {
		g->x = x;
		if (x->method != HTTP_HEAD && until > from)
			rc = artifact_read(hub_artifacts(x->hub), row, from, until, &get_ops, g, &g->r, &e);
	}
	if (rc) {
		free(g);
		http_reply_error(x, rc, &e);
		return;
	}
	x->flow_arg = g;
	x->flow = &get_flow;
	http_reply_stream(x, part ? 206 : 200, "application/octet-stream", until - from);
}

static void get_on_row(void *arg, int rc, const struct err *e, json_t *row)
{
	struct http_exchange *x = arg;
	struct range r = {.last = UINT64_MAX};
	struct err here = {0};
	uint64_t from = 0, until = 0, size = rc ? 0 : (uint64_t)json_integer_value(json_object_get(row, "size"));

	if (rc == 0 && x->method == HTTP_GET)
		rc = range_parse(x->range, &r, &here), e = &here;
	if (rc == 0 && find_range(&r, size, &from, &until)) {
		x->complete_known = true;
		x->complete = size;
		err_set(&here, ERR_RANGE, "the range is past the end: the artifact has %" PRIu64 " bytes", size);
		http_reply_status(x, 416, ERR_RANGE, &here);
		return;
	}
	if (rc == 0)
		rc = get_head(x, row, &r, from, until);
	if (rc)
		http_reply_error(x, rc, e);
	else if (has_etag(x, row))
		http_reply_text(x, 304, "application/octet-stream", "", 0);
	else
		get_stream(x, row, r.given, from, until);
}

void rest_artifact_get(struct http_exchange *x)
{
	broker_artifact_get(x->hub, &x->rq, x->params[0], x->params[1], x->method == HTTP_GET, get_on_row, x);
}

/* ---- list, delete */

void rest_artifact_list(struct http_exchange *x)
{
	struct artifact_filter f = {.task = x->params[0],
				    .run = http_query_str(x, "run"),
				    .round = http_query_str(x, "round"),
				    .after = http_query_str(x, "after")};
	int64_t limit = 100;
	struct err e = {0};
	int rc = http_query_int(x, "limit", 1, ARTIFACT_PAGE_MAX, &limit, &e);

	f.limit = (size_t)limit;
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_artifact_list(x->hub, &x->rq, &f, http_reply_result, x);
}

void rest_artifact_delete(struct http_exchange *x)
{
	broker_artifact_delete(x->hub, &x->rq, x->params[0], x->params[1], http_reply_result, x);
}

/* ---- taken from a sandbox, or from a round */

struct take_fields {
	const char *name, *agent, *round, *stream, *media_type;
	const json_t *path, *changes;
	const char *snapshot, *git, *form;
	const json_t *repository, *ignore;
	bool create_only, text_only;
	int64_t timeout_ms, max_bytes;
};

static int take_check_revision(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	struct err why = {0};

	return git_revision_check(json_string_value(v), &why) ? schema_fault(s, at, ERR_INVAL, "%.160s", why.message)
							      : 0;
}

static int take_check_form(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	const char *form = json_string_value(v);

	return strcmp(form, "patch") == 0 || strcmp(form, "bundle") == 0
		   ? 0
		   : schema_fault(s, at, ERR_INVAL, "is neither patch nor bundle");
}

static int take_check_ignore(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	return schema_texts(s, at, v, 1024);
}

static int take_check_changes(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	static const struct schema_field fields[] = {
	    {"snapshot", SCHEMA_TEXT, false, 1, 64, NULL, SCHEMA_TO(struct take_fields, snapshot)},
	    {"git", SCHEMA_TEXT, false, 1, GIT_REVISION_MAX, take_check_revision, SCHEMA_TO(struct take_fields, git)},
	    {"path", SCHEMA_ANY, false, 0, 0, NULL, SCHEMA_TO(struct take_fields, repository)},
	    {"form", SCHEMA_TEXT, false, 1, 8, take_check_form, SCHEMA_TO(struct take_fields, form)},
	    {"text_only", SCHEMA_BOOL, false, 0, 0, NULL, SCHEMA_TO(struct take_fields, text_only)},
	    {"ignore", SCHEMA_LIST, false, 0, 60, take_check_ignore, SCHEMA_TO(struct take_fields, ignore)},
	};

	return schema_object(s, at, v, SCHEMA_FIELDS(fields));
}

static const struct schema_field take_fields[] = {
    {"name", SCHEMA_TEXT, true, 1, 0, artifact_wish_check_name, SCHEMA_TO(struct take_fields, name)},
    {"agent", SCHEMA_TEXT, false, 1, AGENT_NAME_MAX, NULL, SCHEMA_TO(struct take_fields, agent)},
    {"path", SCHEMA_ANY, false, 0, 0, NULL, SCHEMA_TO(struct take_fields, path)},
    {"round", SCHEMA_TEXT, false, 1, 64, NULL, SCHEMA_TO(struct take_fields, round)},
    {"stream", SCHEMA_TEXT, false, 1, 8, artifact_wish_check_stream, SCHEMA_TO(struct take_fields, stream)},
    {"changes", SCHEMA_OBJECT, false, 0, 0, take_check_changes, SCHEMA_TO(struct take_fields, changes)},
    {"max_bytes", SCHEMA_INTEGER, false, 1, INT64_MAX, NULL, SCHEMA_TO(struct take_fields, max_bytes)},
    {"create_only", SCHEMA_BOOL, false, 0, 0, NULL, SCHEMA_TO(struct take_fields, create_only)},
    {"timeout_ms", SCHEMA_INTEGER, false, 1, INT64_C(365) * 24 * 3600 * 1000, NULL,
     SCHEMA_TO(struct take_fields, timeout_ms)},
};

/* One base, and of each what it knows. */
static int take_base(const struct take_fields *f, struct artifact_changes *out, char **out_path, struct err *e)
{
	if (!f->snapshot == !f->git)
		return err_set(e, ERR_INVAL, "/changes: say one base, snapshot or git");
	if (f->snapshot && (f->repository || f->form))
		return err_set(e, ERR_INVAL,
			       "/changes: path and form are for git; from a snapshot it is a patch of all");
	if (f->git && (f->ignore || f->text_only))
		return err_set(e, ERR_INVAL, "/changes: ignore and text_only are for a snapshot; git has .gitignore");
	if (f->snapshot && id_parse(f->snapshot, &out->snapshot))
		return err_set(e, ERR_INVAL, "/changes/snapshot: is not a UUID");
	if (f->repository && body_path(f->repository, out_path))
		return err_set(e, ERR_INVAL, "/changes/path: is neither a text without NUL nor {\"base64\": ...}");
	out->revision = f->git;
	out->path = *out_path;
	out->bundle = f->form && strcmp(f->form, "bundle") == 0;
	out->text_only = f->text_only;
	out->ignore = f->ignore;
	return 0;
}

static int take_source(const struct take_fields *f, struct artifact_take *out, char **out_path, struct err *e)
{
	bool file = f->agent && f->path, changes = f->agent && f->changes;

	if (file + changes + (f->round != NULL) != 1 || (!f->agent) != (!f->path && !f->changes) ||
	    (f->stream && !f->round))
		return err_set(e, ERR_INVAL,
			       "say agent and path, agent and changes, or round and stream: what is it taken from?");
	if (f->round && id_parse(f->round, &out->round))
		return err_set(e, ERR_INVAL, "/round: is not a UUID");
	if (f->path && body_path(f->path, out_path))
		return err_set(e, ERR_INVAL, "/path: is neither a text without NUL nor {\"base64\": ...}");
	if (f->agent && target_name_check(f->agent, e)) {
		free(*out_path);
		return ERR_INVAL;
	}
	out->agent = f->agent;
	out->path = *out_path;
	out->stream = f->stream && strcmp(f->stream, "stderr") == 0 ? STREAM_STDERR : STREAM_OUTPUT;
	return 0;
}

void rest_artifact_take(struct http_exchange *x)
{
	struct take_fields f = {0};
	struct artifact_take take = {.task = x->params[0]};
	struct err e = {0};
	struct schema s = {.out = &f, .e = &e, .null_is_absent = true};
	struct artifact_changes changes = {0};
	json_t *body = NULL;
	char *path = NULL;
	int rc = rest_body_any(x, &body, &e);

	if (rc == 0)
		rc = schema_object(&s, NULL, body, take_fields, SCHEMA_COUNT(take_fields));
	if (rc == 0)
		rc = take_source(&f, &take, &path, &e);
	if (rc == 0 && f.changes) {
		take.changes = &changes;
		rc = take_base(&f, &changes, &path, &e);
	}
	take.size_max = (uint64_t)f.max_bytes;
	take.name = f.name;
	take.only_new = f.create_only;
	take.timeout_ns = (uint64_t)f.timeout_ms * NS_PER_MS;
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_artifact_take(x->hub, &x->rq, &take, http_reply_created, x);
	if (rc == 0)
		free(path);
	json_decref(body);
}
