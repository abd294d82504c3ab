/*
 * GET /v1/rounds/{id}/events: what happens to a round, as server-sent events (WHATWG HTML, 9.2).
 *
 * Each event that tells output has an id, which is where both streams are read on: "STDOUT-STDERR"; that of `exit` is
 * "STDOUT-STDERR-end", and who comes back with it is told by 204 not to come again. Output is read as /output reads it
 * for who follows, from the journal or from the record, one page at a time, and the next one once the last is in the
 * socket.
 *
 * States of an answer: LOOKING (at the round, to see whether there is one) -> TELLING -> LEAVING (all is told and not
 * sent yet) -> gone.
 */
#include "base/clock.h"
#include "base/ring.h"
#include "base/text.h"
#include "base/utf8.h"
#include "muxd/doors/https/event_id.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/session/listener.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define PAGE        (32 * 1024)
#define GIVEN_MOST  (16 * 1024 * 1024) /* bytes that were given before the audit log's account hears of them */
#define OUT_MAX     (512 * 1024)       /* a page as JSON, each byte of it escaped, and what else is told meanwhile */
#define LEAST_MS    2                  /* between two looks where nothing has come, twice as long each time */
#define MOST_MS     1000
#define BEAT_MS     1000 /* the grant is looked at */
#define KEEPALIVE_S 5    /* proxies and clients see that the connection lives */

enum telling_state { LOOKING, TELLING, LEAVING };

struct telling {
	struct http_exchange *x; /* NULL: it is over */
	enum telling_state state;
	struct id round;
	struct round_listener listener;
	uint64_t at[STREAM_COUNT];    /* of the next byte that was not told */
	uint64_t holds[STREAM_COUNT]; /* so many bytes behind that begin a character whose rest has not come */
	uint64_t given[STREAM_COUNT]; /* before at: came from the journal, and the audit log's account has not heard of
					 them */
	bool ended[STREAM_COUNT];
	bool audited; /* that the client reads is in the audit log */
	int stream;   /* is asked for now */
	bool resumed; /* the client knows the beginning */
	bool asked;   /* an answer of the hub is on its way */
	bool fresh;   /* something came while it was */
	struct buf out;
	uint64_t pause_ms;
	unsigned quiet_s;
	uv_timer_t later, beat;
	unsigned handles; /* not closed yet */
};

static void telling_set_state(struct telling *t, enum telling_state s)
{
	t->state = s;
}

/* ---- its end */

static void telling_free(struct telling *t)
{
	if (t->x || t->asked || t->handles)
		return;
	buf_finish(&t->out);
	free(t);
}

static void telling_on_closed(uv_handle_t *h)
{
	struct telling *t = h->data;

	t->handles--;
	telling_free(t);
}

static void tell_given(struct telling *t, int stream)
{
	if (t->given[stream])
		broker_round_given(t->x->hub, &t->x->rq, &t->round, stream, t->at[stream] - t->given[stream],
				   t->given[stream]);
	t->given[stream] = 0;
}

static void telling_end(struct telling *t)
{
	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++)
		tell_given(t, i);
	t->x = NULL;
	round_unlisten(&t->listener);
	uv_close((uv_handle_t *)&t->later, telling_on_closed);
	uv_close((uv_handle_t *)&t->beat, telling_on_closed);
}

/* Nobody is woken for an answer that has not begun. */
static void telling_send(struct telling *t)
{
	if (t->x && t->x->flow && t->x->wake)
		t->x->wake(t->x->done_arg, t->x);
}

/* Cut short: the client comes back with the last id that it has. */
static void telling_break(struct telling *t)
{
	if (!t->x)
		return;
	telling_set_state(t, LEAVING);
	t->x->stream_broken = true;
	telling_send(t);
}

/* ---- an event */

static int put_id(struct telling *t, bool end)
{
	struct event_id id = {.out = t->at[STREAM_OUTPUT], .err = t->at[STREAM_STDERR], .end = end};
	int rc = buf_append_str(&t->out, "id: ");

	rc = rc ? rc : event_id_put(&id, &t->out);
	return rc ? rc : buf_append_str(&t->out, "\n");
}

enum told_id { ID_NONE, ID_OFFSETS, ID_END };

/* JSON has no line end in it, so one line of data is enough. o is stolen. */
static void telling_put(struct telling *t, const char *event, enum told_id id, json_t *o)
{
	char *text = o ? json_text(o) : NULL;
	int rc = text ? buf_printf(&t->out, "event: %s\n", event) : ERR_NOMEM;

	if (rc == 0 && id != ID_NONE)
		rc = put_id(t, id == ID_END);
	if (rc == 0)
		rc = buf_append_str(&t->out, "data: ");
	if (rc == 0)
		rc = buf_append_str(&t->out, text);
	if (rc == 0)
		rc = buf_append_str(&t->out, "\n\n");
	free(text);
	json_decref(o);
	t->quiet_s = 0;
	if (rc)
		telling_break(t);
	else
		telling_send(t);
}

/* The grant has ended, or does not reach the round any more. */
static void telling_cut(struct telling *t, int rc, const char *message)
{
	telling_put(t, "cut", ID_NONE, json_pack("{s:s,s:s}", "code", err_name(rc), "message", message));
	telling_set_state(t, LEAVING);
}

static void put_failure(struct telling *t, int rc, const struct err *e)
{
	int status = err_http_status(rc);

	if (status >= 400 && status < 500)
		telling_cut(t, rc, e ? e->message : err_name(rc));
	else
		telling_break(t);
}

/* ---- what comes next */

static void telling_ask(struct telling *t);

static void telling_on_later(uv_timer_t *h)
{
	telling_ask(h->data);
}

static void ask_later(struct telling *t)
{
	uint64_t ms = t->fresh ? 0 : t->pause_ms;

	t->pause_ms = t->pause_ms < MOST_MS / 2 ? 2 * t->pause_ms : MOST_MS;
	t->fresh = false;
	uv_timer_start(&t->later, telling_on_later, ms, 0);
}

/* The recorder may get these bytes a moment later. */
static void events_on_moved(void *arg)
{
	struct telling *t = arg;

	t->pause_ms = LEAST_MS;
	t->fresh = true;
	if (!t->asked && t->state == TELLING)
		ask_later(t);
}

static void events_on_event(void *arg, const char *event, const json_t *detail)
{
	static const struct {
		const char *event, *text;
	} notices[] = {{"link_lost", "the connection to the sandbox is lost; the program runs on"},
		       {"link_up", "the connection to the sandbox is back"},
		       {"undelivered", "input was lost"},
		       {"kill", "it is being ended"}};
	struct telling *t = arg;

	if (t->state != TELLING || buf_len(&t->out) > OUT_MAX / 2) /* a client that does not read misses these */
		return;
	if (strcmp(event, "signal") == 0) {
		telling_put(t, "signal", ID_NONE,
			    json_pack("{s:O?,s:O?}", "signal", json_object_get(detail, "signal"), "principal",
				      json_object_get(detail, "principal")));
		return;
	}
	for (size_t i = 0; i < sizeof(notices) / sizeof(notices[0]); i++)
		if (strcmp(event, notices[i].event) == 0)
			telling_put(t, "notice", ID_NONE,
				    json_pack("{s:s,s:s,s:O*}", "event", event, "text", notices[i].text, "why",
					      json_object_get(detail, "why")));
}

static const char *stream_name(int stream)
{
	return stream == STREAM_OUTPUT ? "stdout" : "stderr";
}

static void put_missing(struct telling *t, uint64_t until)
{
	json_t *o = json_pack("{s:s,s:I,s:I}", "stream", stream_name(t->stream), "offset", (json_int_t)t->at[t->stream],
			      "bytes", (json_int_t)(until - t->at[t->stream]));

	t->at[t->stream] = until;
	telling_put(t, "missing", ID_OFFSETS, o);
}

static void put_output(struct telling *t, const uint8_t *p, size_t n)
{
	json_t *o = json_pack("{s:I}", "offset", (json_int_t)t->at[t->stream]);
	int rc = o ? json_set_bytes(o, "data", "encoding", p, n) : ERR_NOMEM;

	if (rc) {
		json_decref(o);
		telling_break(t);
		return;
	}
	t->at[t->stream] += n;
	telling_put(t, stream_name(t->stream), ID_OFFSETS, o);
}

/* True: that was news. */
static bool tell_page(struct telling *t, const struct round_page *page)
{
	size_t n = page->n, half = page->eof ? 0 : utf8_open_end(page->p, n);
	bool same = half == n && half == t->holds[t->stream]; /* as at the last look */

	t->ended[t->stream] = page->eof;
	t->holds[t->stream] = half;
	if (page->offset > t->at[t->stream]) /* also where none follow */
		put_missing(t, page->offset);
	if (n > half)
		put_output(t, page->p, n - half);
	return (n > 0 && !same) || page->eof;
}

static void take_page(struct telling *t, const struct round_page *page)
{
	int was = t->stream, other = was == STREAM_OUTPUT ? STREAM_STDERR : STREAM_OUTPUT;
	bool news = tell_page(t, page);

	if (!t->ended[other])
		t->stream = other;
	if (news)
		t->pause_ms = LEAST_MS;
	if (news || (was == STREAM_OUTPUT && t->stream == STREAM_STDERR)) /* there is a pause when neither has any */
		t->fresh = true;
	if (!buf_len(&t->out))
		ask_later(t);
}

/* A page of what the journal has at hand. False: the record is to be asked. */
static bool tell_live(struct telling *t)
{
	uint8_t bytes[PAGE];
	struct round_page page = {.offset = t->at[t->stream], .p = bytes};
	const struct http_exchange *x = t->x;
	int stream = t->stream;
	ssize_t n = broker_round_live(x->hub, &x->rq, &t->round, stream, page.offset, bytes, sizeof(bytes));

	if (n == ERR_NOT_FOUND)
		return false;
	page.n = n > 0 ? (size_t)n : 0;
	page.eof = broker_round_live(x->hub, &x->rq, &t->round, stream, page.offset + page.n, NULL, 0) == ERR_EOF;
	take_page(t, &page);
	t->given[stream] += t->at[stream] - page.offset;
	if (t->given[stream] >= GIVEN_MOST)
		tell_given(t, stream);
	return true;
}

static void events_on_page(void *arg, int rc, const struct err *e, const struct round_page *page)
{
	struct telling *t = arg;

	t->asked = false;
	if (!t->x) {
		telling_free(t);
		return;
	}
	if (t->state != TELLING)
		return;
	if (rc) {
		put_failure(t, rc, e);
		return;
	}
	t->audited = true;
	take_page(t, page);
}

static void ask_page(struct telling *t)
{
	struct round_read how = {.stream = t->stream, .offset = t->at[t->stream], .limit = PAGE, .now = true};

	t->asked = true;
	tell_given(t, t->stream);
	broker_round_read(t->x->hub, &t->x->rq, &t->round, &how, events_on_page, t);
}

static void events_on_followed(void *arg, int rc, const struct err *e)
{
	struct telling *t = arg;

	t->asked = false;
	if (!t->x) {
		telling_free(t);
		return;
	}
	if (t->state != TELLING)
		return;
	t->audited = rc == 0;
	if (rc == ERR_NOT_FOUND)
		ask_page(t);
	else if (rc)
		put_failure(t, rc, e);
	else
		telling_ask(t);
}

static void ask_output(struct telling *t)
{
	if (!t->audited) {
		t->asked = true;
		broker_round_follow(t->x->hub, &t->x->rq, &t->round, t->stream, t->at[t->stream], events_on_followed,
				    t);
	} else if (!tell_live(t)) {
		ask_page(t);
	}
}

/* ---- the round itself: its beginning and its end */

static void strip_output(json_t *round)
{
	static const char *const streams[] = {"stdout", "stderr"}, *const keys[] = {"data",          "encoding",
										    "tail",          "tail_encoding",
										    "omitted_bytes", "truncated",
										    "next_offset"};

	for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++)
		for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
			json_object_del(json_object_get(round, streams[i]), keys[k]);
}

static uint64_t total_of(const json_t *round, int stream)
{
	return (uint64_t)json_integer_value(
	    json_object_get(json_object_get(round, stream_name(stream)), "total_bytes"));
}

static void tell_end(struct telling *t, const json_t *round)
{
	json_t *o = json_deep_copy(round);

	for (t->stream = STREAM_OUTPUT; t->stream < STREAM_COUNT; t->stream++)
		if (total_of(round, t->stream) > t->at[t->stream])
			put_missing(t, total_of(round, t->stream));
	t->stream = STREAM_OUTPUT;
	strip_output(o);
	telling_put(t, "exit", ID_END, o);
	telling_set_state(t, LEAVING);
}

static void tell_start(struct telling *t, const json_t *round)
{
	json_t *o = json_deep_copy(round);

	json_object_del(o, "stdout");
	json_object_del(o, "stderr");
	json_object_del(o, "exit");
	telling_put(t, "started", ID_NONE, o);
}

/* Nobody has been answered so far. */
static void events_refuse(struct telling *t, int rc, const struct err *e)
{
	struct http_exchange *x = t->x;

	telling_end(t);
	http_reply_error(x, rc, e);
}

static size_t events_give(struct http_exchange *x, uint8_t *to, size_t max)
{
	struct telling *t = x->flow_arg;
	size_t n = buf_len(&t->out) < max ? buf_len(&t->out) : max;

	if (n)
		memcpy(to, buf_ptr(&t->out), n);
	buf_consume(&t->out, n);
	if (t->state == LEAVING && !buf_len(&t->out))
		x->stream_over = true;
	else if (!buf_len(&t->out) && !t->asked && !uv_is_active((uv_handle_t *)&t->later))
		ask_later(t);
	return n;
}

static void events_drop(struct http_exchange *x)
{
	struct telling *t = x->flow_arg;

	x->flow_arg = NULL;
	x->flow = NULL;
	if (t)
		telling_end(t);
}

static const struct http_flow flow = {.give = events_give, .drop = events_drop};

static void telling_begin(struct telling *t, const json_t *round)
{
	struct http_exchange *x = t->x;
	struct err e = {0};

	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++)
		if (t->at[i] > total_of(round, i)) {
			err_set(&e, ERR_INVAL, "the last event id says %" PRIu64 " bytes of %s, which has %" PRIu64,
				t->at[i], stream_name(i), total_of(round, i));
			events_refuse(t, e.code, &e);
			return;
		}
	telling_set_state(t, TELLING);
	round_listen(x->hub, &t->round, &t->listener);
	if (!t->resumed)
		tell_start(t, round);
	t->fresh = true; /* what it printed before anybody listened */
	x->flow_arg = t;
	x->flow = &flow;
	http_reply_chunked(x, 200, "text/event-stream");
}

static void events_on_round(void *arg, int rc, const struct err *e, json_t *round)
{
	struct telling *t = arg;

	t->asked = false;
	if (!t->x) {
		telling_free(t);
		return;
	}
	if (t->state == LOOKING && rc)
		events_refuse(t, rc, e);
	else if (t->state == LOOKING)
		telling_begin(t, round);
	else if (t->state == TELLING && rc)
		put_failure(t, rc, e);
	else if (t->state == TELLING && !json_is_object(json_object_get(round, "exit")))
		ask_later(t);
	else if (t->state == TELLING)
		tell_end(t, round);
}

static void telling_ask(struct telling *t)
{
	if (!t->x || t->asked || t->state == LEAVING || buf_len(&t->out))
		return;
	t->fresh = false;
	if (t->state == TELLING && !(t->ended[STREAM_OUTPUT] && t->ended[STREAM_STDERR])) {
		ask_output(t);
		return;
	}
	t->asked = true;
	broker_round_wait(t->x->hub, &t->x->rq, &t->round, 0, events_on_round, t);
}

static void telling_on_beat(uv_timer_t *h)
{
	struct telling *t = h->data;
	struct grant_line grant = grant_line(&t->x->rq.grant);
	struct err e = {0};

	if (t->state != TELLING)
		return;
	if (broker_grant_check(t->x->hub, &grant, &e)) {
		telling_cut(t, e.code, e.message);
		return;
	}
	if (++t->quiet_s < KEEPALIVE_S || buf_len(&t->out))
		return;
	t->quiet_s = 0;
	if (buf_append_str(&t->out, ":\n\n") == 0)
		telling_send(t);
}

/* ---- the call */

static int telling_create(struct http_exchange *x, struct telling **out)
{
	struct telling *t = calloc(1, sizeof(*t));

	if (!t)
		return ERR_NOMEM;
	t->x = x;
	t->round = x->object;
	t->stream = STREAM_OUTPUT;
	t->pause_ms = LEAST_MS;
	t->listener = (struct round_listener){.moved = events_on_moved, .event = events_on_event, .arg = t};
	buf_init(&t->out, OUT_MAX);
	uv_timer_init(hub_loop(x->hub), &t->later);
	uv_timer_init(hub_loop(x->hub), &t->beat);
	t->later.data = t->beat.data = t;
	t->handles = 2;
	*out = t;
	return 0;
}

void rest_round_events(struct http_exchange *x)
{
	const char *last = x->last_event_id[0] ? x->last_event_id : http_query_str(x, "last_event_id");
	struct event_id id = {0};
	struct telling *t = NULL;
	struct err e = {0};
	int rc = last ? event_id_parse(last, &id, &e) : 0;

	if (rc == 0 && id.end) { /* EventSource stays away after this (9.2.3) */
		http_reply_text(x, 204, "text/event-stream", "", 0);
		return;
	}
	if (rc == 0)
		rc = telling_create(x, &t);
	if (rc) {
		http_reply_error(x, rc, &e);
		return;
	}
	t->resumed = last != NULL;
	t->at[STREAM_OUTPUT] = id.out;
	t->at[STREAM_STDERR] = id.err;
	uv_timer_start(&t->beat, telling_on_beat, BEAT_MS, BEAT_MS);
	telling_ask(t);
}
