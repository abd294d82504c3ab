/* Content that streams through: PUT and GET /v1/agents/{agent}/files, /fs/tree, GET /fs/watch. A get that fails never
 * looks whole. A put with a condition is a write (muxd/muxlet/fs.h), which looks at what is there before it takes the
 * name. */
#include "base/clock.h"
#include "base/ring.h"
#include "base/text.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/route.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/session/file_op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One transfer; flow_arg of its exchange. */
struct moving {
	struct http_exchange *x;
	struct attachment *a; /* NULL: over, or not begun */
	const struct file_op_row *row;
	bool only_new; /* If-None-Match: * */
	bool begun;    /* the head of a get is out */
	bool ended;    /* and well */
	bool held;     /* the last byte of a get stays here until it has ended well */
	uint8_t last;
};

static void files_let_go(struct moving *m)
{
	struct attachment *a = m->a;

	m->a = NULL;
	attachment_detach(a);
}

/* ---- what the connection asks for */

static void files_fail(struct moving *m, const struct err *e);

static ssize_t files_take(struct http_exchange *x, const uint8_t *p, size_t n)
{
	struct moving *m = x->flow_arg;
	ssize_t taken = m->a ? attachment_input(m->a, p, n) : ERR_ENDED; /* the end says why */
	struct err e = {0};

	if (taken != ERR_TOO_LARGE)
		return taken;
	session_file_over(attachment_session(m->a), &e);
	files_fail(m, &e);
	return -1;
}

static void complete(struct http_exchange *x)
{
	struct moving *m = x->flow_arg;

	if (m->a)
		(void)attachment_input_eof(m->a);
}

static size_t files_give(struct http_exchange *x, uint8_t *to, size_t max)
{
	struct moving *m = x->flow_arg;
	const uint8_t *p = NULL;
	size_t n;

	if (m->held && m->ended) {
		*to = m->last;
		m->held = false;
		return 1;
	}
	n = m->a ? attachment_peek(m->a, STREAM_OUTPUT, &p) : 0;
	if (!n && m->ended && x->chunked)
		x->stream_over = true;
	if (!n)
		return 0;
	n = n < max ? n : max;
	memcpy(to, p, n);
	attachment_consume(m->a, STREAM_OUTPUT, n);
	if (x->chunked || n < x->stream_left)
		return n;
	m->last = to[n - 1];
	m->held = true;
	return n - 1;
}

static void drop(struct http_exchange *x)
{
	struct moving *m = x->flow_arg;

	x->flow_arg = NULL;
	if (!m)
		return;
	files_let_go(m);
	free(m);
}

static const struct http_flow flow = {.take = files_take, .complete = complete, .give = files_give, .drop = drop};

static void wake(struct moving *m)
{
	if (m->x->wake)
		m->x->wake(m->x->done_arg, m->x);
}

/* ---- what the hub tells */

/* Of no length that is known. */
static void begin_stream(struct moving *m)
{
	if (m->begun)
		return;
	m->begun = true;
	http_reply_chunked(m->x, 200, m->row->lasts ? "application/x-ndjson" : "application/x-tar");
}

static void begin_get(struct moving *m, const struct session *s)
{
	if (m->row->asks) {
		begin_stream(m);
		return;
	}
	json_t *o = session_file_json(s);
	const char *mode = json_string_value(json_object_get(o, "mode"));
	int64_t size = json_integer_value(json_object_get(o, "size"));

	if (!m->begun && o && (size || m->ended)) {
		m->begun = true;
		text_put(m->x->file_mode, sizeof(m->x->file_mode), mode ? mode : "");
		http_reply_stream(m->x, 200, "application/octet-stream", (uint64_t)size);
	}
	json_decref(o);
}

static void files_on_readable(void *arg)
{
	struct moving *m = arg;
	const uint8_t *p;

	if (m->row->gives && m->begun)
		wake(m);
	else if (m->row->gives && attachment_peek(m->a, STREAM_OUTPUT, &p))
		begin_get(m, attachment_session(m->a));
}

static void files_on_writable(void *arg)
{
	wake(arg);
}

static void files_on_notice(void *arg, const char *text, bool over)
{
	(void)arg, (void)text, (void)over;
}

static void files_on_skipped(void *arg, int stream, uint64_t n)
{
	(void)arg, (void)stream, (void)n; /* a driver is not overtaken */
}

static void files_fail(struct moving *m, const struct err *e)
{
	files_let_go(m);
	if (m->begun) {
		m->x->stream_broken = true;
		wake(m);
		return;
	}
	http_reply_error(m->x, e->code, e);
}

/* Of a file what was sent; of a tree what muxlet says of it. */
static void reply_put(struct moving *m, struct session *s, const struct session_result *r)
{
	json_t *o = m->row->asks ? session_file_take_reply(s) : session_file_json(s);
	char id[ID_STR_LEN];

	id_format(session_id(s), id);
	if (o) {
		json_object_set_new(o, "op", json_string(m->row->name));
		json_object_set_new(o, "agent", json_string(session_agent(s)));
		json_object_set_new(o, "session", json_string(id));
		json_object_set_new(o, "duration_ms", json_integer((json_int_t)(r->duration_ns / NS_PER_MS)));
	}
	files_let_go(m);
	if (o)
		http_reply_json(m->x, 200, o);
	else
		http_reply_error(m->x, ERR_NOMEM, NULL);
	json_decref(o);
}

/* With what muxlet says of it beside the sentence: of a changed file its digest. A name that is taken is a failed
 * precondition where the caller made it one (RFC 9110, 13.1.2). */
static void refuse_take(struct moving *m, struct session *s, const struct session_result *r)
{
	json_t *said = session_file_take_reply(s);
	struct err e = {0};

	files_let_go(m);
	session_result_failed(r, &e);
	if (said)
		json_object_del(said, "error");
	if (m->only_new && e.code == ERR_FILE_EXISTS)
		http_reply_status(m->x, 412, e.code, &e);
	else
		http_reply_error_with(m->x, e.code, &e, said && json_object_size(said) ? said : NULL);
	json_decref(said);
}

static void files_on_ended(void *arg, const struct session_result *r)
{
	struct moving *m = arg;
	struct session *s = attachment_session(m->a);
	struct err e = {0};

	if (r->failed && m->row->asks && m->row->takes) {
		refuse_take(m, s, r);
	} else if (r->failed) {
		session_result_failed(r, &e);
		files_fail(m, &e);
	} else if (m->row->takes) {
		reply_put(m, s, r);
	} else {
		m->ended = true;
		begin_get(m, s); /* of no byte at all */
		files_let_go(m);
		wake(m);
	}
}

static void files_on_cut(void *arg, enum cut_cause cause, const char *text)
{
	struct err e = {0};

	err_set(&e, cause == CUT_SHUTDOWN ? ERR_UNAVAILABLE : ERR_CUT, "%s", text);
	files_fail(arg, &e);
}

static const struct attachment_ops ops = {.readable = files_on_readable,
					  .writable = files_on_writable,
					  .notice = files_on_notice,
					  .skipped = files_on_skipped,
					  .ended = files_on_ended,
					  .cut = files_on_cut};

static void files_on_open(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			  const struct id *seen)
{
	struct moving *m = arg;
	struct http_exchange *x = m->x;
	struct err here = {0};

	(void)s, (void)seen; /* a transfer has no exec_id */
	if (!rc && x->gone) {
		attachment_detach(a);
		rc = err_set(&here, ERR_CANCELLED, "the client went away"), e = &here;
	}
	if (rc) {
		free(m);
		http_reply_error(x, rc, e);
		return;
	}
	m->a = a;
	x->flow_arg = m;
	x->flow = &flow;
	wake(m);
}

/* ---- the calls */

static int read_mode(const struct http_exchange *x, int64_t *out, struct err *e)
{
	const char *s = http_query_str(x, "mode");
	char *end;

	if (!s)
		return 0;
	*out = *s ? strtol(s, &end, 8) : -1;
	if (!*s || *end || *s == '-' || *s == '+' || *out < 0 || *out > 07777)
		return err_set(e, ERR_INVAL, "query parameter mode must be permissions in octal, as 0644");
	return 0;
}

/* Further flags of the operation, for muxlet; the route has the keys that there may be. Borrowed from the caller. */
static int read_flags(const struct http_exchange *x, struct file_spec *file, struct err *e)
{
	static const char *const flags[] = {"recursive", "gitignore", "overwrite", "merge", "parents"};
	json_t *o = json_object();
	int rc = o ? 0 : err_set(e, ERR_NOMEM, "out of memory");

	for (size_t i = 0; rc == 0 && i < sizeof(flags) / sizeof(flags[0]); i++) {
		bool on = false;

		if (!http_query_str(x, flags[i]))
			continue;
		rc = http_query_bool(x, flags[i], &on, e);
		if (rc == 0)
			json_object_set_new(o, flags[i], json_boolean(on));
	}
	file->request = o;
	return rc;
}

/* The condition of a put, as a write takes it: one digest, or that nothing is there. */
static int read_condition(const struct http_exchange *x, struct file_spec *file, struct err *e)
{
	json_t *o = (json_t *)(uintptr_t)file->request;
	size_t n = strlen(x->if_match);

	if (x->if_none_match[0] && strcmp(x->if_none_match, "*") != 0)
		return err_set(e, ERR_INVAL, "If-None-Match of a put can be * alone");
	if (x->if_match[0] && (n != 66 || x->if_match[0] != '"' || x->if_match[n - 1] != '"' ||
			       strspn(x->if_match + 1, "0123456789abcdefABCDEF") != 64))
		return err_set(e, ERR_INVAL, "If-Match of a put is one SHA-256 of 64 hexadecimal digits in quotes");
	if (x->if_match[0] && x->if_none_match[0])
		return err_set(e, ERR_INVAL, "If-Match and If-None-Match exclude each other");
	if (x->if_match[0])
		json_object_set_new(o, "if_match", json_stringn(x->if_match + 1, 64));
	if (x->if_none_match[0])
		json_object_set_new(o, "create_only", json_true());
	if (file->mode >= 0)
		json_object_set_new(o, "mode", json_integer(file->mode));
	return 0;
}

static bool has_condition(const struct http_exchange *x)
{
	return x->if_match[0] || x->if_none_match[0];
}

static int read_query(const struct http_exchange *x, struct exec_spec *spec, struct file_spec *file, struct err *e)
{
	int64_t timeout = 0;
	int rc = x->file_path ? 0 : err_set(e, ERR_INVAL, "query parameter path is missing");

	if (rc == 0)
		rc = http_query_int(x, "timeout_ms", 1, INT64_C(365) * 24 * 3600 * 1000, &timeout, e);
	if (rc == 0)
		rc = read_mode(x, &file->mode, e);
	if (rc == 0)
		rc = http_query_bool(x, "parents", &file->parents, e);
	if (rc)
		return rc;
	file->path = x->file_path;
	file->size = x->body_len;
	if (file_op_row(file->op)->asks)
		rc = read_flags(x, file, e);
	if (rc == 0 && file->op == FILE_WRITE)
		rc = read_condition(x, file, e);
	if (rc)
		return rc;
	spec->agent = x->params[0];
	spec->task = http_query_str(x, "task_id");
	spec->timeout_ns = (uint64_t)timeout * NS_PER_MS;
	return 0;
}

void rest_file(struct http_exchange *x)
{
	struct file_spec file = {.mode = -1};
	struct exec_spec spec = {.kind = SESSION_FILE, .file = &file, .head = UINT64_MAX, .tail = UINT64_MAX};
	struct moving *m = NULL;
	struct err e = {0};
	int rc = file_op_parse(x->route->call, &file.op);

	if (rc == 0 && file.op == FILE_PUT && has_condition(x))
		file.op = FILE_WRITE;
	if (rc == 0)
		rc = read_query(x, &spec, &file, &e);
	if (rc == 0 && !(m = calloc(1, sizeof(*m))))
		rc = err_set(&e, ERR_NOMEM, "out of memory");
	if (rc) {
		json_decref((json_t *)(uintptr_t)file.request);
		http_reply_error(x, rc, &e);
		return;
	}
	m->x = x;
	m->row = file_op_row(file.op);
	m->only_new = file.op == FILE_WRITE && x->if_none_match[0];
	spec.stdin_open = m->row->takes;
	broker_open(x->hub, &x->rq, &spec, &ops, m, files_on_open, m);
	json_decref((json_t *)(uintptr_t)file.request); /* the broker has its own */
}
