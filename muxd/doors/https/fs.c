/* POST /v1/agents/{agent}/fs/...: one operation on files in a sandbox, a JSON body for a JSON answer. */
#include "base/clock.h"
#include "muxd/doors/https/fs_body.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/route.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/session/file_op.h"

#include <stdlib.h>

/* One operation under way. */
struct operating {
	struct http_exchange *x;
	struct attachment *a; /* NULL: over, or not begun */
	struct fs_body body;
	size_t sent; /* of its content */
	bool fed;    /* and its end */
};

static void fs_end(struct operating *o)
{
	struct attachment *a = o->a;

	o->a = NULL;
	attachment_detach(a);
	fs_body_finish(&o->body);
	free(o);
}

/* Content as the session takes it. A session that has ended takes none, and says why at its end. */
static void fs_feed(struct operating *o)
{
	const struct fs_body *b = &o->body;

	while (o->sent < b->content_len) {
		ssize_t n = attachment_input(o->a, b->content + o->sent, b->content_len - o->sent);

		if (n <= 0)
			return;
		o->sent += (size_t)n;
	}
	if (o->fed || !b->content)
		return;
	o->fed = true;
	(void)attachment_input_eof(o->a);
}

static void fs_on_writable(void *arg)
{
	fs_feed(arg);
}

static void fs_on_readable(void *arg)
{
	(void)arg; /* the answer comes at the end */
}

static void fs_on_notice(void *arg, const char *text, bool over)
{
	(void)arg, (void)text, (void)over;
}

static void fs_on_skipped(void *arg, int stream, uint64_t n)
{
	(void)arg, (void)stream, (void)n;
}

/* Members of muxlet's answer beside the sentence, which stands in the error already. */
static void fs_refuse(struct operating *o, const struct session_result *r, json_t *reply)
{
	struct err e = {0};

	session_result_failed(r, &e);
	if (reply)
		json_object_del(reply, "error");
	http_reply_error_with(o->x, e.code, &e, reply && json_object_size(reply) ? reply : NULL);
}

/* The members that stand beside muxlet's answer: transfer_own. NULL: no memory. */
static json_t *fs_own(const struct operating *o, const struct session *s, const struct session_result *r)
{
	char id[ID_STR_LEN];

	id_format(session_id(s), id);
	return json_pack("{s:s,s:s,s:s,s:I}", "op", file_op_name(o->body.file.op), "agent", session_agent(s), "session",
			 id, "duration_ms", (json_int_t)(r->duration_ns / NS_PER_MS));
}

static void fs_answer(struct operating *o, const json_t *own, json_t *reply)
{
	if (!own || !reply || json_object_update(reply, (json_t *)(uintptr_t)own))
		http_reply_error(o->x, ERR_NOMEM, NULL);
	else
		http_reply_json(o->x, 200, reply);
}

/* A long answer is passed on as it came. False: it has to go as an object. */
static bool fs_answer_text(struct operating *o, struct session *s, const json_t *own)
{
	struct http_exchange *x = o->x;
	bool more = false;
	char *text;

	if (x->dialect || !own || !session_file_take_text(s, &x->out, &more))
		return false;
	text = json_text(own);
	if (!text || buf_append_str(&x->out, more ? "," : "") || buf_append_str(&x->out, text + 1))
		http_reply_error(x, ERR_NOMEM, NULL);
	else
		http_reply_text(x, 200, "application/json", "\n", 1);
	free(text);
	return true;
}

static void fs_on_ended(void *arg, const struct session_result *r)
{
	struct operating *o = arg;
	struct session *s = attachment_session(o->a);
	json_t *own = fs_own(o, s, r), *reply = NULL;

	if (r->failed || !fs_answer_text(o, s, own)) {
		reply = session_file_take_reply(s);
		if (r->failed)
			fs_refuse(o, r, reply);
		else
			fs_answer(o, own, reply);
	}
	json_decref(reply);
	json_decref(own);
	fs_end(o);
}

static void fs_on_cut(void *arg, enum cut_cause cause, const char *text)
{
	struct operating *o = arg;
	struct err e = {0};

	err_set(&e, cause == CUT_SHUTDOWN ? ERR_UNAVAILABLE : ERR_CUT, "%s", text);
	http_reply_error(o->x, e.code, &e);
	fs_end(o);
}

static const struct attachment_ops ops = {.readable = fs_on_readable,
					  .writable = fs_on_writable,
					  .notice = fs_on_notice,
					  .skipped = fs_on_skipped,
					  .ended = fs_on_ended,
					  .cut = fs_on_cut};

static void fs_on_open(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
		       const struct id *seen)
{
	struct operating *o = arg;

	(void)s, (void)seen; /* an operation has no exec_id */
	o->a = a;
	if (rc) {
		http_reply_error(o->x, rc, e);
		o->a = NULL;
		fs_body_finish(&o->body);
		free(o);
		return;
	}
	fs_feed(o);
}

/* p, n: a JSON object as the operation takes it. */
static int fs_begin(struct http_exchange *x, const void *p, size_t n, struct operating **out, struct err *e)
{
	struct operating *o = calloc(1, sizeof(*o));
	enum file_op op = FILE_STAT;
	int rc = o ? file_op_parse(x->route->call, &op) : ERR_NOMEM;

	if (rc == 0)
		rc = fs_body_parse(op, p, n, hub_conf(x->hub)->api_max_body, &o->body, e);
	if (rc) {
		free(o);
		return rc;
	}
	o->x = x;
	*out = o;
	return 0;
}

static void fs_run(struct http_exchange *x, struct operating *o)
{
	struct exec_spec spec = {.kind = SESSION_FILE, .agent = x->params[0], .head = UINT64_MAX, .tail = UINT64_MAX};

	spec.file = &o->body.file;
	spec.task = o->body.task;
	spec.timeout_ns = o->body.timeout_ns;
	spec.stdin_open = file_op_row(o->body.file.op)->takes;
	broker_open(x->hub, &x->rq, &spec, &ops, o, fs_on_open, o);
}

void rest_fs(struct http_exchange *x)
{
	struct operating *o = NULL;
	struct err e = {0};
	int rc = fs_begin(x, buf_ptr(&x->body), buf_len(&x->body), &o, &e);

	if (rc)
		http_reply_error(x, rc, &e);
	else
		fs_run(x, o);
}

void rest_fs_write(struct http_exchange *x, const char *path, const void *p, size_t n)
{
	json_t *request = json_pack("{s:o,s:b,s:s}", "path", json_text_or_base64(path), "parents", 1, "data", "");
	struct operating *o = NULL;
	struct err e = {0};
	struct buf text;
	int rc;

	buf_init(&text, hub_conf(x->hub)->api_max_body);
	rc = request ? json_append(&text, request) : ERR_NOMEM;
	if (rc == 0)
		rc = fs_begin(x, buf_ptr(&text), buf_len(&text), &o, &e);
	if (rc == 0) {
		o->body.content = p;
		o->body.content_len = n;
		o->body.file.size = n;
	}
	buf_finish(&text);
	json_decref(request);
	if (rc)
		http_reply_error(x, rc, &e);
	else
		fs_run(x, o);
}
