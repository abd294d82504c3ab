/* A connection with an attachment: bytes out as the client takes them, bytes in as the sandbox does. */
#define LOG_SUBSYS "local"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/msg.h"
#include "base/ring.h"
#include "muxd/doors/local/local.h"

#include <string.h>

#define OUT_HIGH  (256 * 1024)
#define OUT_CHUNK (64 * 1024)

void local_attached(struct local_conn *c, struct session *s, struct attachment *a)
{
	char id[ID_STR_LEN];

	id_format(session_id(s), id);
	c->attachment = a;
	local_conn_set_state(c, LOCAL_ATTACHED);
	local_conn_say(c, json_pack("{s:s,s:s,s:s,s:s}", "event", "opened", "session", id, "agent", session_agent(s),
				    "kind", session_kind_name(session_kind(s))));
	local_pull(c);
}

static void pull_stream(struct local_conn *c, int stream)
{
	const uint8_t *p;
	size_t n;

	while (buf_len(&c->out) < OUT_HIGH && (n = attachment_peek(c->attachment, stream, &p))) {
		n = n < OUT_CHUNK ? n : OUT_CHUNK;
		if (msg_put_bytes(&c->out, (uint8_t)stream, p, n))
			return;
		attachment_consume(c->attachment, stream, n);
	}
	c->more = c->more || buf_len(&c->out) >= OUT_HIGH;
}

void local_pull(struct local_conn *c)
{
	c->more = false;
	for (int stream = STREAM_OUTPUT; stream < STREAM_COUNT; stream++)
		pull_stream(c, stream);
	local_conn_update(c);
}

static void attached_let_go(struct local_conn *c)
{
	struct attachment *a = c->attachment;

	c->attachment = NULL;
	c->more = false;
	attachment_detach(a);
	local_conn_close_soon(c);
}

/* ---- what the client says */

static int say_resize(struct local_conn *c, const json_t *o, struct err *e)
{
	int64_t cols, rows, x = 0, y = 0;
	int rc;

	if ((rc = json_need_int(o, "cols", 1, 4096, &cols, e)) || (rc = json_need_int(o, "rows", 1, 4096, &rows, e)) ||
	    (rc = json_opt_int(o, "xpixel", 0, 65535, &x, e)) || (rc = json_opt_int(o, "ypixel", 0, 65535, &y, e)))
		return rc;
	rc = attachment_resize(c->attachment, (unsigned)cols, (unsigned)rows, (unsigned)x, (unsigned)y);
	if (rc && rc != ERR_ENDED)
		log_debug(&(struct log_ids){.peer = c->peer}, "a size is not taken: %s", err_name(rc));
	return 0; /* no size is worth the connection */
}

static int say_signal(struct local_conn *c, const json_t *o, struct err *e)
{
	const char *name;
	int signum, rc;

	if ((rc = json_need_str(o, "signal", &name, e)) || (rc = signal_parse(name, &signum, e)))
		return rc;
	rc = attachment_signal(c->attachment, signum);
	return rc == ERR_ENDED || rc == ERR_AGAIN ? 0 : rc;
}

static int attached_control(struct local_conn *c, const uint8_t *p, size_t n, struct err *e)
{
	const char *op = "";
	json_t *o = NULL;
	int rc = json_parse(p, n, MSG_MAX, &o, e);

	if (rc || (rc = json_need_str(o, "op", &op, e)))
		goto out;
	if (strcmp(op, "eof") == 0)
		rc = attachment_input_eof(c->attachment);
	else if (strcmp(op, "resize") == 0)
		rc = say_resize(c, o, e);
	else if (strcmp(op, "signal") == 0)
		rc = say_signal(c, o, e);
	else if (strcmp(op, "detach") == 0)
		attached_let_go(c);
	else
		rc = err_set(e, ERR_INVAL, "unknown op \"%.40s\"", op);
	if (rc == ERR_ENDED || rc == ERR_FORBIDDEN)
		rc = 0; /* it ended in between, and the exit is on its way; or an observer said it, whose input is no
			   error either */
out:
	json_decref(o);
	return rc;
}

/* Input that is taken in part is remembered by moving the payload's start: the rest of the message stays in front. */
static bool input(struct local_conn *c, const uint8_t *p, size_t n)
{
	size_t done = c->in_done;

	while (done < n) {
		ssize_t took = attachment_input(c->attachment, p + done, n - done);

		if (took < 0)
			break; /* ended or an observer: the bytes have nowhere to go */
		if (took == 0) {
			c->in_done = done;
			return false;
		}
		done += (size_t)took;
	}
	c->in_done = 0;
	return true;
}

static bool take_message(struct local_conn *c, char kind, const uint8_t *p, size_t n)
{
	struct err e = {0};
	int rc;

	if (!c->attachment)
		return true;
	if (kind == 'B')
		return n < 1 || p[0] != STREAM_INPUT || input(c, p + 1, n - 1);
	rc = attached_control(c, p, n, &e);
	if (rc) {
		struct attachment *a = c->attachment;

		local_conn_error(c, rc, &e);
		c->attachment = NULL;
		attachment_detach(a);
	}
	return true;
}

int local_take(struct local_conn *c)
{
	struct msg m;
	size_t size;
	int rc = 0;

	c->reading_paused = false;
	while (c->state == LOCAL_ATTACHED && (rc = msg_next(&c->in, &m, &size)) == 1) {
		c->reading_paused = !take_message(c, m.kind, m.payload, m.len);
		if (c->reading_paused)
			break;
		buf_consume(&c->in, size);
	}
	return rc < 0 ? rc : 0;
}

/* ---- what the hub says */

static json_t *attached_stream_json(const struct session_result *r, int stream)
{
	return json_pack("{s:I,s:s}", "total_bytes", (json_int_t)r->total[stream], "sha256", r->sha256[stream]);
}

static void attached_on_readable(void *arg)
{
	local_pull(arg);
}

/* The sandbox takes input again: nothing new need come from the socket for what lies here already. */
static void attached_on_writable(void *arg)
{
	struct local_conn *c = arg;
	struct err e = {0};

	if (local_take(c)) {
		err_set(&e, ERR_PROTOCOL, "a message of no known form");
		local_conn_error(c, ERR_PROTOCOL, &e);
	}
	if (c->attachment)
		local_pull(c);
	local_conn_update(c);
}

static void attached_on_notice(void *arg, const char *text, bool over)
{
	local_conn_say(arg, json_pack("{s:s,s:s,s:b}", "event", "notice", "text", text, "over", (int)over));
}

/* As output: the client's terminal clears and draws. */
static void attached_on_shot(void *arg, const struct screen_shot *shot)
{
	struct local_conn *c = arg;
	size_t at = 0, n;

	for (int rc = 0; !rc && at < shot->len; at += n) {
		n = shot->len - at < OUT_CHUNK ? shot->len - at : OUT_CHUNK;
		rc = msg_put_bytes(&c->out, STREAM_OUTPUT, shot->bytes + at, n);
	}
	local_pull(c);
}

static void attached_on_skipped(void *arg, int stream, uint64_t n)
{
	local_conn_say(arg, json_pack("{s:s,s:i,s:I}", "event", "skipped", "stream", stream, "bytes", (json_int_t)n));
}

static void end_transfer(struct local_conn *c, const struct session *s, const struct session_result *r)
{
	struct err e = {0};

	if (r->failed) {
		err_set(&e, r->failed, "%s", r->message);
		local_conn_error(c, e.code, &e);
	} else {
		local_conn_say(c, json_pack("{s:s,s:o,s:I}", "event", "file", "file", session_file_json(s),
					    "duration_ms", (json_int_t)(r->duration_ns / NS_PER_MS)));
	}
	attached_let_go(c);
}

static void attached_on_ended(void *arg, const struct session_result *r)
{
	struct local_conn *c = arg;
	const struct session *s = attachment_session(c->attachment);

	if (session_kind(s) == SESSION_FILE) {
		end_transfer(c, s, r);
		return;
	}
	local_conn_say(c, json_pack("{s:s,s:{s:s,s:i,s:s,s:s},s:o,s:o,s:I}", "event", "exit", "exit", "cause",
				    exit_cause_name(r->cause), "code", r->code, "signal",
				    r->signal ? signal_name(r->signal) : "", "message", r->message, "stdout",
				    attached_stream_json(r, STREAM_OUTPUT), "stderr",
				    attached_stream_json(r, STREAM_STDERR), "duration_ms",
				    (json_int_t)(r->duration_ns / NS_PER_MS)));
	attached_let_go(c);
}

static void attached_on_cut(void *arg, enum cut_cause cause, const char *text)
{
	struct local_conn *c = arg;
	struct err e = {0};

	err_set(&e, cause == CUT_SHUTDOWN ? ERR_UNAVAILABLE : ERR_CUT, "%s", text);
	local_conn_error(c, e.code, &e);
	attached_let_go(c);
}

const struct attachment_ops local_attachment_ops = {.readable = attached_on_readable,
						    .writable = attached_on_writable,
						    .notice = attached_on_notice,
						    .skipped = attached_on_skipped,
						    .ended = attached_on_ended,
						    .cut = attached_on_cut};

const struct attachment_ops local_terminal_ops = {.readable = attached_on_readable,
						  .writable = attached_on_writable,
						  .notice = attached_on_notice,
						  .screen = attached_on_shot,
						  .skipped = attached_on_skipped,
						  .ended = attached_on_ended,
						  .cut = attached_on_cut};
