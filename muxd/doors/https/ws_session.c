/* A WebSocket and its session: opening, joining, coming back, and what the hub tells of it. */
#define LOG_SUBSYS "web"
#include "muxd/doors/https/ws.h"

#include "base/clock.h"
#include "base/ring.h"
#include "base/text.h"
#include "muxd/doors/https/body.h"
#include "muxd/hub/broker/broker_record.h"
#include "muxd/hub/core/hub.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_WINDOW (128 * 1024) /* before the client has said how much it takes */
#define PAGE_MAX     (512 * 1024)

static const struct attachment_ops ws_screen_ops, ws_plain_ops;

static struct ws_ticket *ticket(struct ws *w)
{
	w->ticket = calloc(1, sizeof(*w->ticket));
	if (w->ticket)
		w->ticket->ws = w;
	return w->ticket;
}

/* The hub answers: whom, or NULL when the WebSocket went away meanwhile. */
static struct ws *redeem(void *arg)
{
	struct ws_ticket *t = arg;
	struct ws *w = t->ws;

	free(t);
	if (w)
		w->ticket = NULL;
	return w;
}

static void ws_no_memory(struct ws *w)
{
	struct err e = {0};

	err_set(&e, ERR_NOMEM, "no memory");
	ws_fail(w, e.code, &e);
}

/* --- what is said at the beginning */

struct opened {
	const char *agent, *kind, *principal;
	bool driver;
	unsigned cols, rows;
	uint64_t offset;
};

static struct opened opened_of(const struct session *s, bool driver, uint64_t offset)
{
	struct opened o = {.agent = session_agent(s),
			   .kind = session_kind_name(session_kind(s)),
			   .principal = session_principal(s),
			   .driver = driver,
			   .offset = offset};

	session_size(s, &o.cols, &o.rows);
	return o;
}

static void say_opened(struct ws *w, struct opened of)
{
	const struct grant *g = &w->wish->rq.grant;
	int64_t ends = hub_grant_ends(w->conn->door->hub, &w->grant);
	char id[ID_STR_LEN], grant[ID_STR_LEN], expires[40];
	json_t *o;

	id_format(&w->session, id);
	id_format(&g->id, grant);
	clock_format_utc(ends, expires, sizeof(expires));
	o = json_pack("{s:s,s:s,s:s,s:s,s:s,s:I,s:i,s:i,s:{s:s,s:s,s:s,s:s,s:I}}", "session", id, "agent", of.agent,
		      "kind", of.kind, "principal", of.principal, "role", of.driver ? "driver" : "observer", "offset",
		      (json_int_t)of.offset, "cols", (int)of.cols, "rows", (int)of.rows, "grant", "id", grant,
		      "principal", g->principal, "reason", g->reason, "expires_at", expires, "expires_in_ms",
		      (json_int_t)((ends - hub_now_wall(w->conn->door->hub)) / (int64_t)NS_PER_MS));
	(void)web_wire_put_json(&w->out, WIRE_OPENED, o);
	json_decref(o);
	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++) {
		uint64_t first = (i == STREAM_OUTPUT ? of.offset : 0) + FIRST_WINDOW;

		w->window[i] = w->window[i] < first ? first : w->window[i]; /* its WINDOW may have come before */
	}
	ws_want_write(w);
}

/* The hub may answer from inside a call that has what was asked for in its hands. */
static void wish_lend(struct ws *w)
{
	w->wish_lent = true;
}

static void wish_back(struct ws *w)
{
	w->wish_lent = false;
	if (w->state == WS_LIVE)
		ws_forget_wish(w);
}

static void live(struct ws *w)
{
	ws_set_state(w, WS_LIVE);
	if (!w->wish_lent)
		ws_forget_wish(w);
	if (w->cols && w->rows)
		(void)attachment_resize(w->attachment, w->cols, w->rows, 0, 0);
	if (w->torn) /* output from the middle draws no screen, and sets no modes */
		attachment_want_screen(w->attachment);
	w->torn = false;
	ws_take_input(w);
	ws_want_write(w);
}

/* --- what a returning client missed */

static void skip(struct ws *w, uint64_t to)
{
	(void)web_wire_put_skipped(&w->out, STREAM_OUTPUT, w->history_at, to);
	w->history_at = to;
	w->torn = true;
}

static void history_over(struct ws *w)
{
	buf_finish(&w->page);
	buf_init(&w->page, 1024 * 1024);
	if (w->attachment) {
		live(w);
		return;
	}
	(void)web_wire_put_json(&w->out, WIRE_EXIT, w->farewell);
	ws_close(w, 1000, "the session has ended");
}

static void ws_session_on_page(void *arg, int rc, const struct err *e, uint64_t offset, const uint8_t *p, size_t n)
{
	struct ws *w = redeem(arg);

	(void)e;
	if (!w || w->state != WS_HISTORY)
		return;
	if (!rc && offset < w->history_at) /* not what was asked for */
		rc = ERR_CORRUPT;
	if (rc || n == 0 || offset >= w->history_end) {
		skip(w, w->history_end);
		history_over(w);
		return;
	}
	if (offset > w->history_at)
		skip(w, offset);
	if (n > w->history_end - w->history_at)
		n = (size_t)(w->history_end - w->history_at);
	if (buf_append(&w->page, p, n))
		ws_no_memory(w);
	ws_want_write(w);
}

void ws_history_go_on(struct ws *w)
{
	uint64_t left = w->history_end - w->history_at;
	struct ws_ticket *t;

	if (w->state != WS_HISTORY || buf_len(&w->page) || w->ticket)
		return;
	if (left == 0) {
		history_over(w);
		return;
	}
	t = ticket(w);
	if (!t) {
		ws_no_memory(w);
		return;
	}
	wish_lend(w);
	broker_output_bytes(w->conn->door->hub, &w->wish->rq, &w->session, STREAM_OUTPUT, w->history_at,
			    left < PAGE_MAX ? left : PAGE_MAX, ws_session_on_page, t);
	wish_back(w);
}

static void begin_history(struct ws *w, uint64_t end)
{
	w->history_at = w->offset;
	w->history_end = end;
	ws_set_state(w, WS_HISTORY);
	if (end - w->offset > WS_HISTORY_MAX)
		skip(w, end - WS_HISTORY_MAX);
	ws_history_go_on(w);
}

/* --- joining */

static int beyond_end(struct err *e)
{
	return err_set(e, ERR_INVAL, "offset is beyond the end of the session's output");
}

/* The session ended while the client was away: the rest of it, and how it ended. ERR_ENDED: nobody comes back to it. */
static int join_late(struct ws *w, struct err *e)
{
	struct session *s = hub_session_find(w->conn->door->hub, &w->session);
	const struct session_result *r = s ? session_result(s) : NULL;

	if (!r || !w->has_offset)
		return ERR_ENDED;
	if (w->offset > r->total[STREAM_OUTPUT])
		return beyond_end(e);
	w->farewell = session_farewell(r);
	say_opened(w, opened_of(s, false, w->offset));
	begin_history(w, r->total[STREAM_OUTPUT]);
	return 0;
}

/* The session has left memory meanwhile: both come from the record. */
static void ws_session_on_past(void *arg, int rc, const struct err *e, json_t *past)
{
	struct ws *w = redeem(arg);
	struct opened of = {0};
	struct err here = {0};
	json_t *exit = json_object_get(past, "exit");
	json_int_t total;

	if (!w || w->state != WS_ASKED)
		return;
	total = json_integer_value(json_object_get(json_object_get(exit, "stdout"), "total_bytes"));
	if (!rc && w->offset > (uint64_t)total)
		rc = beyond_end(&here), e = &here;
	if (rc) {
		ws_fail(w, rc, e);
		return;
	}
	of.agent = json_string_value(json_object_get(past, "agent"));
	of.kind = json_string_value(json_object_get(past, "kind"));
	of.principal = json_string_value(json_object_get(past, "principal"));
	of.cols = (unsigned)json_integer_value(json_object_get(past, "cols"));
	of.rows = (unsigned)json_integer_value(json_object_get(past, "rows"));
	of.offset = w->offset;
	w->farewell = json_incref(exit);
	say_opened(w, of);
	begin_history(w, (uint64_t)total);
}

static void ask_past(struct ws *w)
{
	struct ws_ticket *t = ticket(w);

	if (t)
		broker_past(w->conn->door->hub, &w->wish->rq, &w->session, w->role, ws_session_on_past, t);
	else
		ws_no_memory(w);
}

static void ask_attach(struct ws *w)
{
	enum attachment_role role = w->role >= 0 ? (enum attachment_role)w->role
						 : broker_attach_role(w->conn->door->hub, &w->wish->rq, &w->session);
	uint64_t missing = 0;
	struct err e = {0};
	char id[ID_STR_LEN];
	int rc;

	id_format(&w->session, id);
	rc = broker_attach(w->conn->door->hub, &w->wish->rq, NULL, id, role,
			   w->no_screen ? &ws_plain_ops : &ws_screen_ops, w, &w->attachment, &e);
	if (rc == ERR_ENDED && (rc = join_late(w, &e)) == 0)
		return;
	if (rc == ERR_NOT_FOUND && w->has_offset && !hub_session_find(w->conn->door->hub, &w->session)) {
		ask_past(w);
		return;
	}
	if (!rc && w->has_offset && attachment_seek(w->attachment, STREAM_OUTPUT, w->offset, &missing))
		rc = beyond_end(&e);
	if (rc) {
		ws_fail(w, rc, &e);
		return;
	}
	say_opened(w, opened_of(attachment_session(w->attachment), role == ROLE_DRIVER,
				missing ? w->offset : attachment_offset(w->attachment, STREAM_OUTPUT)));
	if (missing)
		begin_history(w, w->offset + missing);
	else
		live(w);
}

/* The exec_id is that of a round that began before: what became of it, as far as it is at hand. */
static void answer_seen(struct ws *w, const struct session *s, const struct id *seen)
{
	json_t *o = s ? session_round_brief(s) : NULL;
	struct err e = {0};
	char id[ID_STR_LEN];

	id_format(seen, id);
	if (o) {
		(void)web_wire_put_json(&w->out, WIRE_ROUND, o);
		ws_close(w, 1000, "a round of this exec_id began before");
	} else {
		err_set(&e, ERR_ENDED, "this exec_id was round %s; its result is in the record", id);
		ws_fail(w, e.code, &e);
	}
	json_decref(o);
}

static void ws_session_on_open(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			       const struct id *seen)
{
	struct ws *w = redeem(arg);

	if (!w || w->state != WS_ASKED) {
		attachment_detach(a);
		return;
	}
	if (rc) {
		ws_fail(w, rc, e);
		return;
	}
	if (!a) {
		answer_seen(w, s, seen);
		return;
	}
	w->attachment = a;
	w->session = *session_id(s);
	say_opened(w, opened_of(s, true, 0));
	live(w);
}

static void open_spec(struct ws *w, const struct exec_spec *spec)
{
	struct ws_ticket *t = ticket(w);

	if (!t) {
		ws_no_memory(w);
		return;
	}
	wish_lend(w);
	broker_open(w->conn->door->hub, &w->wish->rq, spec, &ws_screen_ops, w, ws_session_on_open, t);
	wish_back(w);
}

static void ask_open(struct ws *w)
{
	struct exec_spec spec = {.kind = SESSION_TERMINAL,
				 .agent = w->wish->agent,
				 .task = w->wish->task[0] ? w->wish->task : NULL,
				 .pty = true,
				 .cols = w->cols ? w->cols : 80,
				 .rows = w->rows ? w->rows : 24,
				 .stdin_open = true,
				 .head = UINT64_MAX,
				 .tail = UINT64_MAX};

	w->cols = w->rows = 0; /* said; a RESIZE may come before the answer */
	open_spec(w, &spec);
}

void ws_start(struct ws *w, const uint8_t *p, size_t n)
{
	struct round_limits limits;
	struct round_body body;
	struct err e = {0};

	w->closing_ns = 0;
	ws_set_state(w, WS_ASKED);
	round_limits_from_conf(hub_conf(w->conn->door->hub), &limits);
	if (start_body_parse(p, n, &limits, &body, &e)) {
		ws_fail(w, e.code, &e);
		return;
	}
	body.spec.agent = w->wish->agent;
	open_spec(w, &body.spec);
	round_body_finish(&body);
}

void ws_ask(struct ws *w)
{
	ws_set_state(w, WS_ASKED);
	if (w->way == WS_ATTACH)
		ask_attach(w);
	else
		ask_open(w);
}

/* --- what the hub says */

static void ws_session_on_readable(void *arg)
{
	ws_write_now(arg);
}

static void ws_session_on_writable(void *arg)
{
	ws_take_input(arg);
}

/* exact: false is said of the screen that follows; over: of what was said last. */
static void say_notice(struct ws *w, const char *text, bool exact, bool over)
{
	int64_t left = hub_grant_ends(w->conn->door->hub, &w->grant) - hub_now_wall(w->conn->door->hub);
	json_t *o = json_pack("{s:s,s:I}", "text", text, "expires_in_ms", (json_int_t)(left / (int64_t)NS_PER_MS));

	if (o && !exact)
		json_object_set_new(o, "exact", json_false());
	if (o && over)
		json_object_set_new(o, "over", json_true());
	(void)web_wire_put_json(&w->out, WIRE_NOTICE, o);
	json_decref(o);
	ws_want_write(w);
}

static void ws_session_on_notice(void *arg, const char *text, bool over)
{
	say_notice(arg, text, true, over);
}

static void ws_session_on_screen(void *arg, const struct screen_shot *shot)
{
	struct ws *w = arg;
	uint8_t *p;

	if (!shot->exact)
		say_notice(
		    w,
		    "this screen is drawn from the newest output alone: what a program painted before may be missing",
		    false, false);
	free(w->screen); /* an older one that was not sent yet */
	w->screen_len = WEB_SCREEN_HEAD + shot->len;
	w->screen = malloc(LWS_PRE + w->screen_len);
	if (!w->screen) {
		ws_no_memory(w);
		return;
	}
	p = w->screen + LWS_PRE;
	web_wire_screen_head(p, shot->offset, shot->cols, shot->rows);
	memcpy(p + WEB_SCREEN_HEAD, shot->bytes, shot->len);
	if (w->window[STREAM_OUTPUT] < shot->offset + FIRST_WINDOW)
		w->window[STREAM_OUTPUT] = shot->offset + FIRST_WINDOW;
	ws_want_write(w);
}

static void ws_session_on_skipped(void *arg, int stream, uint64_t n)
{
	struct ws *w = arg;
	uint64_t to = attachment_offset(w->attachment, stream);

	(void)web_wire_put_skipped(&w->out, stream, to - n, to);
	ws_want_write(w);
}

static void ws_session_on_resized(void *arg, unsigned cols, unsigned rows)
{
	struct ws *w = arg;

	(void)web_wire_put_resized(&w->out, cols, rows);
	ws_want_write(w);
}

static void end_transfer(struct ws *w, const struct session_result *r)
{
	struct err e = {0};
	json_t *o;

	if (r->failed) {
		err_set(&e, r->failed, "%s", r->message);
		ws_fail(w, e.code, &e);
		return;
	}
	o = json_pack("{s:o,s:I}", "file", session_file_json(attachment_session(w->attachment)), "duration_ms",
		      (json_int_t)(r->duration_ns / NS_PER_MS));
	(void)web_wire_put_json(&w->out, WIRE_FILE, o);
	json_decref(o);
	ws_close(w, 1000, "the transfer is complete");
}

static void ws_session_on_ended(void *arg, const struct session_result *r)
{
	struct ws *w = arg;
	json_t *o;

	if (session_kind(attachment_session(w->attachment)) == SESSION_FILE) {
		end_transfer(w, r);
		return;
	}
	o = session_farewell(r);
	if (w->state == WS_HISTORY) { /* behind what the client is still being sent */
		w->farewell = o;
		attachment_detach(w->attachment);
		w->attachment = NULL;
		ws_take_input(w);
		return;
	}
	(void)web_wire_put_json(&w->out, WIRE_EXIT, o);
	json_decref(o);
	ws_close(w, 1000, "the session has ended");
}

static void ws_session_on_cut(void *arg, enum cut_cause cause, const char *text)
{
	struct err e = {0};

	err_set(&e, cause == CUT_SHUTDOWN ? ERR_UNAVAILABLE : ERR_CUT, "%s", text);
	ws_fail(arg, e.code, &e);
}

static const struct attachment_ops ws_screen_ops = {.readable = ws_session_on_readable,
						    .writable = ws_session_on_writable,
						    .notice = ws_session_on_notice,
						    .screen = ws_session_on_screen,
						    .skipped = ws_session_on_skipped,
						    .ended = ws_session_on_ended,
						    .cut = ws_session_on_cut,
						    .resized = ws_session_on_resized};

/* Of a client that is no terminal: it is shown no screen, but the output that is at hand. */
static const struct attachment_ops ws_plain_ops = {.readable = ws_session_on_readable,
						   .writable = ws_session_on_writable,
						   .notice = ws_session_on_notice,
						   .skipped = ws_session_on_skipped,
						   .ended = ws_session_on_ended,
						   .cut = ws_session_on_cut,
						   .resized = ws_session_on_resized};
