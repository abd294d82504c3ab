#include "muxd/doors/https/mcp/stream.h"
#include "base/text.h"
#include "base/tick.h"
#include "muxd/doors/https/mcp/asking.h"
#include "muxd/doors/https/mcp/log_level.h"
#include "muxd/doors/https/mcp/rules.h"
#include "muxd/doors/https/mcp/tasks.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/inside/broker_inside.h"
#include "muxd/hub/inside/inside_question.h"
#include "policy/grant_narrow.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define ANSWER_MAX   (16u * 1024 * 1024)
#define ANSWER_SMALL (32u * 1024)
#define UNREAD_MAX   (64u * 1024 * 1024)        /* of one principal's streams */
#define OUT_MAX      (ANSWER_MAX + 1024 * 1024) /* and what is told before an answer */
#define BEAT_MS      1000
#define KEEPALIVE_S  15
#define KEPT_S       300
#define KEPT_BYTES   (8u * 1024 * 1024)
#define RETRY_MS     1000
#define ENDED_MAX    4096
#define CACHED_MS    60000
#define QUESTION_ID  "ask-" /* of a request of muxd's; the question's number is behind it */

enum stream_state { STREAM_RUNNING, STREAM_ANSWERED };

/* A question that was told, and that nobody has answered. */
struct stream_question {
	struct stream_question *next;
	uint64_t number;
	char *text; /* the message, for who comes back */
};

struct mcp_stream {
	struct mcp_streams *all;
	struct mcp_stream *prev, *next;
	enum stream_state state;
	struct http_exchange *x; /* NULL: nobody listens */
	struct id id;
	bool of_session;
	struct mcp_session session;
	json_t *request, *progress; /* ids; NULL */
	struct mcp_call *call;      /* a tool's; NULL */
	struct inside_job *inside;  /* a request to a server inside; NULL */
	struct mcp_asking *asking;  /* binds that to its caller, where it is of the new era; NULL */
	struct stream_question *questions;
	bool headed; /* its answer has begun */
	bool tool, cached;
	unsigned log_level;
	struct grant_line grant;
	char principal[GRANT_NAME_MAX + 1];
	struct buf out;
	unsigned sent; /* number of the last event */
	char *answer;  /* the last message, kept for who comes back */
	unsigned answer_no, quiet_s, kept_s;
};

struct mcp_streams {
	struct hub *hub;
	struct mcp_askings *askings;
	struct mcp_levels levels;
	struct mcp_stream *first;
	size_t count;
	struct mcp_session ended[ENDED_MAX];
	size_t ended_at;
	uv_timer_t beat;
};

/* ---- the list */

static void questions_free(struct mcp_stream *s)
{
	struct stream_question *q;

	while ((q = s->questions)) {
		s->questions = q->next;
		free(q->text);
		free(q);
	}
}

static void stream_free(struct mcp_stream *s)
{
	struct mcp_streams *all = s->all;

	if (s->prev)
		s->prev->next = s->next;
	else
		all->first = s->next;
	if (s->next)
		s->next->prev = s->prev;
	all->count--;
	mcp_call_abandon(s->call);
	broker_inside_abandon(s->inside);
	mcp_asking_free(s->asking);
	questions_free(s);
	json_decref(s->request);
	json_decref(s->progress);
	buf_finish(&s->out);
	free(s->answer);
	free(s);
}

static void stream_set_state(struct mcp_stream *s, enum stream_state to)
{
	s->state = to;
}

static bool stream_is_of(const struct mcp_stream *s, const struct mcp_session *session)
{
	return s->of_session && mcp_session_equal(&s->session, session);
}

/* Nobody listens, and nothing more comes: kept for who comes back. */
static bool is_kept(const struct mcp_stream *s)
{
	return s->state == STREAM_ANSWERED && !s->x;
}

/* The one of these that began first; whose NULL: of anybody's. What is kept goes ahead of what runs unheard. */
static struct mcp_stream *stream_oldest_kept(const struct mcp_streams *all, const struct grant *whose)
{
	struct mcp_stream *oldest = NULL;

	for (struct mcp_stream *s = all->first; s; s = s->next)
		if (is_kept(s) && (!whose || grant_same_root(s->principal, whose->principal)))
			oldest = s;
	return oldest;
}

static struct mcp_stream *stream_oldest_unheard(const struct mcp_streams *all, const struct grant *whose)
{
	struct mcp_stream *oldest = stream_oldest_kept(all, whose);

	for (struct mcp_stream *s = all->first; s && (!oldest || !is_kept(oldest)); s = s->next)
		if (!s->x && (!whose || grant_same_root(s->principal, whose->principal)))
			oldest = s;
	return oldest;
}

static size_t streams_of(const struct mcp_streams *all, const struct grant *whose)
{
	size_t n = 0;

	for (const struct mcp_stream *s = all->first; s; s = s->next)
		n += grant_same_root(s->principal, whose->principal);
	return n;
}

/*
 * One more may be: what nobody listens to gives way, the caller's own first. A call that runs goes on without its
 * stream, and who repeats it joins its round.
 */
static bool streams_have_room(struct mcp_streams *all, const struct grant *whose)
{
	bool share = streams_of(all, whose) >= MCP_STREAMS_SHARE;
	struct mcp_stream *oldest;

	if (!share && all->count < MCP_STREAMS_MAX)
		return true;
	oldest = stream_oldest_unheard(all, whose);
	if (!oldest && !share)
		oldest = stream_oldest_unheard(all, NULL);
	if (oldest)
		stream_free(oldest);
	return oldest != NULL;
}

void mcp_stream_refuse(struct http_exchange *x, int rc)
{
	struct err e = {0};

	if (rc == ERR_LIMIT)
		err_limit(
		    &e, rc, &(struct err_share){"fixed.mcp_streams", "daemon", MCP_STREAMS_MAX, MCP_STREAMS_MAX, 5},
		    "too many streams of MCP are listened to: %d are possible, of which %d are one principal's share",
		    MCP_STREAMS_MAX, MCP_STREAMS_SHARE);
	http_reply_error(x, rc, &e);
}

/* ---- to its listener */

static void stream_wake(struct mcp_stream *s)
{
	s->quiet_s = 0;
	if (s->x && s->x->wake)
		s->x->wake(s->x->done_arg, s->x);
}

static size_t stream_give(struct http_exchange *x, uint8_t *to, size_t max)
{
	struct mcp_stream *s = x->flow_arg;
	size_t n;

	if (!s)
		return 0;
	n = buf_len(&s->out) < max ? buf_len(&s->out) : max;
	if (n)
		memcpy(to, buf_ptr(&s->out), n);
	buf_consume(&s->out, n);
	if (s->state == STREAM_ANSWERED && !buf_len(&s->out))
		x->stream_over = true;
	return n;
}

/* Nothing is told of its call any more. */
static void stream_cancel(struct mcp_stream *s, const char *reason)
{
	struct inside_job *inside = s->inside;

	mcp_call_cancel(s->call, reason);
	s->call = NULL;
	s->inside = NULL;
	broker_inside_cancel(inside);
}

/* The connection is over. */
static void stream_drop(struct http_exchange *x)
{
	struct mcp_stream *s = x->flow_arg;

	x->flow_arg = NULL;
	x->flow = NULL;
	if (!s)
		return;
	s->x = NULL;
	buf_clear(&s->out);
	if (s->of_session && s->request && (s->state == STREAM_RUNNING || s->answer))
		return; /* the call goes on, and its answer is kept */
	stream_cancel(s, "the client closed the stream of its call");
	stream_free(s);
}

static const struct http_flow flow = {.give = stream_give, .drop = stream_drop};

static void stream_listen(struct mcp_stream *s, struct http_exchange *x)
{
	s->x = x;
	s->headed = false;
	x->flow = &flow;
	x->flow_arg = s;
}

static void stream_head(struct mcp_stream *s)
{
	if (!s->x || s->headed)
		return;
	s->headed = true;
	http_reply_chunked(s->x, 200, "text/event-stream");
}

/* Somebody else listens now, or nobody; the connection that did is cut. */
static void stream_part(struct mcp_stream *s)
{
	struct http_exchange *x = s->x;

	if (!x)
		return;
	stream_head(s);
	s->x = NULL;
	buf_clear(&s->out);
	x->flow_arg = NULL;
	x->stream_broken = true;
	if (x->wake)
		x->wake(x->done_arg, x);
}

/* The answer of an exchange that has no head yet, and no stream from here on. */
static void stream_reply(struct mcp_stream *s, int status, const char *text)
{
	struct http_exchange *x = s->x;

	s->x = NULL;
	x->flow = NULL;
	x->flow_arg = NULL;
	http_reply_text(x, status, "application/json", text, strlen(text));
}

/* An event; text NULL: one without data, which says where to come back to. */
static int event_put(struct mcp_stream *s, unsigned no, const char *text)
{
	char id[ID_STR_LEN];
	int rc = 0;

	id_format(&s->id, id);
	if (s->of_session && !s->request)
		rc = buf_append_str(&s->out, "id: " MCP_STAYS_OPEN "\n");
	else if (s->of_session)
		rc = buf_printf(&s->out, "id: %s.%u\n", id, no);
	if (rc == 0 && !text)
		rc = buf_printf(&s->out, "retry: %d\ndata:\n\n", RETRY_MS);
	if (rc == 0 && text)
		rc = buf_append_str(&s->out, "event: message\ndata: ");
	if (rc == 0 && text)
		rc = buf_append_str(&s->out, text);
	return rc || !text ? rc : buf_append_str(&s->out, "\n\n");
}

static void stream_prime(struct mcp_stream *s)
{
	if (s->of_session && s->session.version >= MCP_2025_11_25)
		(void)event_put(s, s->sent, NULL);
}

/* ---- what is told */

/* o is stolen. */
static void stream_say(struct mcp_stream *s, json_t *o)
{
	char *text = o ? json_text(o) : NULL;

	s->sent++;
	stream_head(s);
	if (text && s->x && event_put(s, s->sent, text))
		stream_part(s); /* the listener reads nothing: what was not sent is gone */
	free(text);
	json_decref(o);
	stream_wake(s);
}

/* Bytes that other streams of the same principal hold: what is not read yet, and answers that are kept beside it. */
static size_t stream_unread(const struct mcp_stream *mine)
{
	size_t n = 0;

	for (const struct mcp_stream *s = mine->all->first; s; s = s->next)
		if (s != mine && s->x && grant_same_root(s->principal, mine->principal))
			n += s->out.cap + (s->answer ? strlen(s->answer) : 0);
	return n;
}

/* Of a grant that was made from this one's, the listener that has been there for longest is cut off. False: none is. */
static bool below_gives_way(const struct mcp_stream *mine)
{
	const struct id *first = grant_line_first(&mine->grant);
	struct mcp_stream *oldest = NULL;

	for (struct mcp_stream *s = mine->all->first; s; s = s->next)
		if (s->x && s->state == STREAM_ANSWERED && grant_line_has(&s->grant, first) &&
		    !id_equal(grant_line_first(&s->grant), first))
			oldest = s;
	if (!oldest)
		return false;
	stream_part(oldest);
	buf_finish(&oldest->out);
	buf_init(&oldest->out, OUT_MAX);
	if (!oldest->answer)
		stream_free(oldest);
	return true;
}

/* NULL: an answer of so many bytes may be sent. */
static json_t *answer_refusal(const struct mcp_stream *s, size_t n)
{
	size_t unread;

	if (n > ANSWER_MAX)
		return mcp_tool_error(ERR_TOO_LARGE, "the answer is longer than 16 MiB");
	if (n <= ANSWER_SMALL)
		return NULL;
	do {
		unread = stream_unread(s);
		if (!unread || unread + n <= UNREAD_MAX)
			return NULL;
	} while (below_gives_way(s));
	return mcp_tool_error(ERR_ANSWER_LOST, "64 MiB of answers wait to be read, so this one was dropped: what was "
					       "asked for is done");
}

/* As text; of one that is too long, or too much beside others, the text of an error in its place. */
static char *answer_text(const struct mcp_stream *s, json_t *o)
{
	char *text = json_text(o);
	json_t *error = text ? answer_refusal(s, strlen(text)) : NULL;

	if (!error)
		return text;
	free(text);
	if (!s->of_session)
		error = mcp_new_era(error);
	o = error ? mcp_result(s->request, error) : NULL;
	text = o ? json_text(o) : NULL;
	json_decref(o);
	return text;
}

/* Of HTTP, where the answer is one object (2026-07-28, "Error codes"). */
static int status_of(const json_t *o)
{
	return json_integer_value(json_object_get(json_object_get(o, "error"), "code")) == MCP_CAPABILITY ? 400 : 200;
}

/* The last message of the stream; o is stolen. */
static void stream_answer(struct mcp_stream *s, json_t *o)
{
	char *text = o ? answer_text(s, o) : NULL;
	int status = status_of(o);

	json_decref(o);
	stream_set_state(s, STREAM_ANSWERED);
	s->answer_no = ++s->sent;
	questions_free(s);
	if (text && s->x && !s->headed)
		stream_reply(s, status, text);
	stream_head(s);
	if (text && s->x && event_put(s, s->sent, text))
		stream_part(s);
	if (s->of_session)
		s->answer = text;
	else
		free(text);
	stream_wake(s);
	if (!s->x && !s->of_session)
		stream_free(s);
}

static void stream_on_progress(void *arg, int64_t ms, const char *tail)
{
	struct mcp_stream *s = arg;

	if (s->x)
		stream_say(s, json_pack("{s:s,s:s,s:{s:O,s:I,s:s}}", "jsonrpc", "2.0", "method",
					"notifications/progress", "params", "progressToken", s->progress, "progress",
					(json_int_t)ms, "message", *tail ? tail : "running"));
}

static void stream_on_done(void *arg, const struct mcp_outcome *o)
{
	struct mcp_stream *s = arg;
	json_t *result = o->round ? mcp_task_created(o->round) : o->result;

	s->call = NULL;
	if (!s->of_session)
		result = mcp_new_era(result);
	stream_answer(s,
		      result ? mcp_result(s->request, result) : mcp_error(s->request, -32603, "out of memory", NULL));
}

static const struct mcp_call_ops quiet_ops = {.done = stream_on_done};
static const struct mcp_call_ops telling_ops = {.progress = stream_on_progress, .done = stream_on_done};

static void streams_on_beat(uv_timer_t *h);

/* ---- its beginning */

int mcp_stream_open(struct mcp_streams *all, const struct mcp_stream_ask *ask, struct mcp_stream **out)
{
	const struct grant *grant = &ask->x->rq.grant;
	struct mcp_stream *s;

	if (!streams_have_room(all, grant))
		return ERR_LIMIT;
	s = calloc(1, sizeof(*s));
	if (!s)
		return ERR_NOMEM;
	if (id_new(&s->id)) {
		free(s);
		return ERR_SYS;
	}
	s->all = all;
	s->of_session = ask->session != NULL;
	if (ask->session)
		s->session = *ask->session;
	s->request = ask->id ? json_deep_copy(ask->id) : NULL;
	s->progress = ask->progress ? json_deep_copy(ask->progress) : NULL;
	s->tool = ask->tool;
	s->cached = ask->cached;
	s->log_level = ask->log_level;
	s->grant = grant_line(grant);
	text_put(s->principal, sizeof(s->principal), grant->principal);
	buf_init(&s->out, OUT_MAX);
	s->next = all->first;
	if (s->next)
		s->next->prev = s;
	all->first = s;
	if (all->count++ == 0)
		tick_start(&all->beat, streams_on_beat, BEAT_MS);
	stream_listen(s, ask->x);
	stream_prime(s);
	*out = s;
	if (!ask->late)
		stream_head(s);
	return 0;
}

int mcp_stream_call(struct mcp_stream *s, const struct mcp_caller *who, const struct mcp_wish *w)
{
	return mcp_call_begin(who, w, s->progress ? &telling_ops : &quiet_ops, s, &s->call);
}

/* ---- of a server inside */

static void stream_on_inside_progress(void *arg, const json_t *params)
{
	struct mcp_stream *s = arg;
	json_t *ours = s->x ? json_copy((json_t *)(uintptr_t)params) : NULL;

	if (!ours)
		return;
	json_object_set(ours, "progressToken", s->progress);
	stream_say(s, json_pack("{s:s,s:s,s:o}", "jsonrpc", "2.0", "method", "notifications/progress", "params", ours));
}

/* The server's own words, or what muxd has to say: its code first, as tools have it. */
json_t *mcp_inside_error(const json_t *id, bool new_era, int rc, const struct err *e, const json_t *answer)
{
	const json_t *theirs = json_object_get(answer, "error"), *code = json_object_get(theirs, "code");
	char text[ERR_MESSAGE_MAX + 64];
	json_t *data;

	if (!rc) {
		int theirs_code = json_is_integer(code) ? (int)json_integer_value(code) : MCP_INTERNAL;

		if (new_era && theirs_code == MCP_NO_RESOURCE)
			theirs_code = MCP_PARAMS;
		return mcp_error(id, theirs_code, json_get_text(theirs, "message"),
				 json_incref(json_object_get(theirs, "data")));
	}
	text_format(text, sizeof(text), "%s: %s", err_name(rc), e && e->message[0] ? e->message : err_name(rc));
	data = json_pack("{s:s,s:s}", "code", err_name(rc), "hint", err_hint(rc));
	return mcp_error(id,
			 rc == ERR_INVAL         ? MCP_PARAMS
			 : rc == ERR_UNSUPPORTED ? MCP_NO_METHOD
						 : MCP_INTERNAL,
			 text, data);
}

/* The error of a request that the server could not do, as its caller did not declare what it asked for. */
static json_t *undeclared_message(const struct mcp_stream *s, const json_t *answer)
{
	const json_t *result = json_object_get(answer, "result"), *theirs = json_object_get(answer, "error");
	const json_t *lacks = json_object_get(answer, "undeclared");
	const char *words = theirs ? json_get_text(theirs, "message")
				   : json_get_text(json_array_get(json_object_get(result, "content"), 0), "text");
	char text[400];

	if (s->of_session || !lacks || !(theirs || json_is_true(json_object_get(result, "isError"))))
		return NULL;
	text_format(text, sizeof(text),
		    "the server asks for what this request does not declare (requiredCapabilities): %.200s", words);
	return mcp_error(s->request, MCP_CAPABILITY, text, json_pack("{s:O}", "requiredCapabilities", lacks));
}

/* A failure of a tool's call that is muxd's is a result that models read, as of the tools of muxd's own; the server's
 * own words are its own. */
static json_t *inside_message(const struct mcp_stream *s, int rc, const struct err *e, const json_t *answer)
{
	json_t *undeclared = rc ? NULL : undeclared_message(s, answer), *result;

	if (undeclared)
		return undeclared;
	if ((rc && !s->tool) || (!rc && json_object_get(answer, "error")))
		return mcp_inside_error(s->request, !s->of_session, rc, e, answer);
	result = rc ? mcp_tool_error(rc, e ? e->message : NULL) : json_copy(json_object_get(answer, "result"));
	if (!s->of_session)
		result = mcp_new_era(s->cached ? mcp_cached(result, CACHED_MS) : result);
	return result ? mcp_result(s->request, result) : mcp_error(s->request, MCP_INTERNAL, "out of memory", NULL);
}

/* ---- what a server inside says and asks in between */

static void stream_on_inside_log(void *arg, const json_t *params)
{
	struct mcp_stream *s = arg;
	unsigned wanted = s->of_session ? mcp_levels_get(&s->all->levels, &s->session) : s->log_level;
	unsigned level = mcp_log_level(json_get_text(params, "level"));

	if (s->x && level < MCP_LOG_NONE && wanted < MCP_LOG_NONE && level >= wanted)
		stream_say(s, json_pack("{s:s,s:s,s:O}", "jsonrpc", "2.0", "method", "notifications/message", "params",
					params));
}

static bool is_told(const struct mcp_stream *s, uint64_t number)
{
	for (const struct stream_question *q = s->questions; q; q = q->next)
		if (q->number == number)
			return true;
	return false;
}

/* Kept, and told: to who listens now, and to who comes back for it. */
static void question_tell(struct mcp_stream *s, const struct inside_question *asked)
{
	struct stream_question *q = calloc(1, sizeof(*q)), **last = &s->questions;
	char id[32];
	json_t *o;

	text_format(id, sizeof(id), QUESTION_ID "%llu", (unsigned long long)asked->number);
	o = json_pack("{s:s,s:s,s:s,s:o}", "jsonrpc", "2.0", "id", id, "method", question_method(asked->kind), "params",
		      question_params(asked));
	if (q && o && (q->text = json_text(o))) {
		q->number = asked->number;
		while (*last)
			last = &(*last)->next;
		*last = q;
		stream_say(s, o);
		return;
	}
	free(q);
	json_decref(o);
}

static void stream_on_inside_asked(void *arg, struct inside_questions *all)
{
	struct mcp_stream *s = arg;
	const struct inside_question *q;
	struct inside_job *job = s->inside;
	struct err e = {0};
	json_t *o = NULL;
	int rc;

	if (s->of_session) {
		TAILQ_FOREACH(q, all, entry)
		if (!q->answer && !is_told(s, q->number))
			question_tell(s, q);
		return;
	}
	rc = s->asking ? mcp_asking_wait(s->all->askings, s->asking, job, all, &o, &e)
		       : err_set(&e, ERR_INTERNAL, "a request that nobody can come back to asks");
	if (rc) {
		s->inside = NULL;
		broker_inside_cancel(job);
		mcp_stream_inside(s, rc, &e, NULL);
		return;
	}
	s->inside = NULL;
	s->asking = NULL;
	stream_answer(s, mcp_result(s->request, mcp_new_era(o)));
}

static bool question_forget(struct mcp_stream *s, uint64_t number)
{
	for (struct stream_question **at = &s->questions, *q; (q = *at); at = &q->next)
		if (q->number == number) {
			*at = q->next;
			free(q->text);
			free(q);
			return true;
		}
	return false;
}

static void stream_on_inside_withdrawn(void *arg, uint64_t number)
{
	struct mcp_stream *s = arg;
	char id[32];

	text_format(id, sizeof(id), QUESTION_ID "%llu", (unsigned long long)number);
	if (question_forget(s, number))
		stream_say(s, json_pack("{s:s,s:s,s:{s:s}}", "jsonrpc", "2.0", "method", "notifications/cancelled",
					"params", "requestId", id));
}

int mcp_stream_answer(struct mcp_streams *all, const struct mcp_session *session, struct request *rq, const json_t *id,
		      const json_t *answer, struct err *e)
{
	const char *text = json_is_string(id) ? json_string_value(id) : "";
	uint64_t number = strncmp(text, QUESTION_ID, sizeof(QUESTION_ID) - 1) == 0
			      ? strtoull(text + sizeof(QUESTION_ID) - 1, NULL, 10)
			      : 0;

	for (struct mcp_stream *s = all->first; s; s = s->next) {
		int rc;

		if (!stream_is_of(s, session) || !s->inside || !is_told(s, number))
			continue;
		rc = broker_inside_answer(s->inside, rq, number, answer, e);
		if (rc == 0)
			(void)question_forget(s, number);
		return rc;
	}
	return err_set(e, ERR_NOT_FOUND, "no question of that id is open in this session");
}

void mcp_stream_notice(struct mcp_streams *all, const struct mcp_session *session, json_t *o)
{
	for (struct mcp_stream *s = all->first; o && s; s = s->next)
		if (stream_is_of(s, session) && !s->request && s->x) {
			stream_say(s, o);
			return;
		}
	json_decref(o);
}

static bool holder_holds(void *arg, const struct mcp_holder *who)
{
	return broker_grant_check(arg, &who->grant, NULL) == 0;
}

int mcp_stream_log_level(struct mcp_streams *all, const struct mcp_holder *who, unsigned level)
{
	if (mcp_levels_set(&all->levels, who, level) == 0)
		return 0;
	mcp_levels_sweep(&all->levels, holder_holds, all->hub);
	return mcp_levels_set(&all->levels, who, level);
}

static void stream_on_inside_done(void *arg, int rc, const struct err *e, const json_t *answer, const char *round)
{
	struct mcp_stream *s = arg;

	(void)round;
	s->inside = NULL;
	stream_answer(s, inside_message(s, rc, e, answer));
}

static struct inside_ops inside_ops_of(const struct mcp_stream *s)
{
	return (struct inside_ops){.progress = s->progress ? stream_on_inside_progress : NULL,
				   .log = stream_on_inside_log,
				   .asked = stream_on_inside_asked,
				   .withdrawn = stream_on_inside_withdrawn,
				   .done = stream_on_inside_done};
}

void mcp_stream_inside(struct mcp_stream *s, int rc, const struct err *e, const json_t *answer)
{
	stream_answer(s, inside_message(s, rc, e, answer));
}

void mcp_stream_finish(struct mcp_stream *s, json_t *message)
{
	stream_answer(s, message);
}

void mcp_stream_take(struct mcp_stream *s, struct mcp_asking *a)
{
	const struct inside_ops ops = inside_ops_of(s);

	s->asking = a;
	s->inside = mcp_asking_take(a);
	broker_inside_pass(s->inside, &ops, s);
}

void mcp_stream_through(struct mcp_stream *s, const struct mcp_caller *who, const struct inside_request *w)
{
	const struct inside_ops ops = inside_ops_of(s);
	struct inside_job *job = NULL;

	if (!s->of_session && mcp_asking_create(&who->rq->grant, w, &s->asking)) {
		stream_answer(s, mcp_error(s->request, MCP_INTERNAL, "out of memory", NULL));
		return;
	}
	broker_inside_request(who->hub, who->rq, w, &ops, s, &job);
	if (job) /* else it was answered, and the stream may be gone */
		s->inside = job;
}

/* ---- those who come back */

static struct mcp_stream *stream_find(struct mcp_streams *all, const struct mcp_session *session, const char *last,
				      unsigned *out_no)
{
	const char *dot = strchr(last, '.');
	char text[ID_STR_LEN];
	struct id id;

	if (!dot || dot - last != ID_STR_LEN - 1)
		return NULL;
	text_put_bytes(text, sizeof(text), last, ID_STR_LEN - 1);
	if (id_parse(text, &id))
		return NULL;
	*out_no = (unsigned)strtoul(dot + 1, NULL, 10);
	for (struct mcp_stream *s = all->first; s; s = s->next)
		if (stream_is_of(s, session) && id_equal(&s->id, &id))
			return s;
	return NULL;
}

int mcp_stream_resume(struct mcp_streams *all, struct http_exchange *x, const struct mcp_session *session,
		      const char *last)
{
	unsigned no = 0;
	struct mcp_stream *s = stream_find(all, session, last, &no);

	if (!s)
		return ERR_NOT_FOUND;
	stream_part(s);
	stream_listen(s, x);
	stream_prime(s);
	for (const struct stream_question *q = s->questions; q; q = q->next)
		(void)event_put(s, ++s->sent, q->text);
	if (s->answer && no < s->answer_no)
		(void)event_put(s, s->answer_no, s->answer);
	stream_head(s);
	return 0;
}

void mcp_stream_take_over(struct mcp_streams *all, const struct mcp_session *session)
{
	for (struct mcp_stream *s = all->first, *next; s; s = next) {
		next = s->next;
		if (!stream_is_of(s, session) || s->request || !s->x)
			continue;
		stream_part(s);
		stream_free(s);
	}
}

bool mcp_stream_listens(const struct mcp_streams *all, const struct mcp_session *session)
{
	for (const struct mcp_stream *s = all->first; s; s = s->next)
		if (stream_is_of(s, session) && !s->request && s->x)
			return true;
	return false;
}

/* No answer follows (specification, "Cancellation"): the stream ends. */
void mcp_stream_cancel(struct mcp_streams *all, const struct mcp_session *session, const json_t *id, const char *reason)
{
	for (struct mcp_stream *s = all->first; s; s = s->next) {
		if (!stream_is_of(s, session) || !(s->call || s->inside) || !s->request || !json_equal(s->request, id))
			continue;
		stream_cancel(s, reason);
		stream_set_state(s, STREAM_ANSWERED);
		stream_wake(s);
		if (!s->x)
			stream_free(s);
		return;
	}
}

void mcp_stream_end_all(struct mcp_streams *all, const struct mcp_session *session)
{
	for (struct mcp_stream *s = all->first, *next; s; s = next) {
		next = s->next;
		if (!stream_is_of(s, session))
			continue;
		stream_part(s);
		stream_free(s);
	}
	mcp_levels_forget(&all->levels, session);
	all->ended[all->ended_at++ % ENDED_MAX] = *session;
}

bool mcp_streams_ended(const struct mcp_streams *all, const struct mcp_session *session)
{
	for (size_t i = 0; i < all->ended_at && i < ENDED_MAX; i++)
		if (mcp_session_equal(&all->ended[i], session))
			return true;
	return false;
}

/* ---- time */

static bool is_old(struct mcp_stream *s)
{
	return is_kept(s) && ++s->kept_s > KEPT_S;
}

static void stream_beat(struct mcp_stream *s)
{
	if (broker_grant_check(s->all->hub, &s->grant, NULL)) {
		stream_part(s); /* its rounds end with the grant, by themselves */
		stream_free(s);
	} else if (is_old(s)) {
		stream_free(s);
	} else if (s->x && ++s->quiet_s >= KEEPALIVE_S && !buf_len(&s->out)) {
		stream_head(s);
		(void)buf_append_str(&s->out, ":\n\n");
		stream_wake(s);
	}
}

/* Kept answers may have so many bytes; the oldest go. */
static void streams_bound(struct mcp_streams *all)
{
	size_t bytes = 0;

	for (const struct mcp_stream *s = all->first; s; s = s->next)
		bytes += is_kept(s) && s->answer ? strlen(s->answer) : 0;
	while (bytes > KEPT_BYTES) {
		struct mcp_stream *oldest = stream_oldest_kept(all, NULL);

		bytes -= oldest->answer ? strlen(oldest->answer) : 0;
		stream_free(oldest);
	}
}

static void streams_on_beat(uv_timer_t *h)
{
	struct mcp_streams *all = h->data;

	for (struct mcp_stream *s = all->first, *next; s; s = next) {
		next = s->next;
		stream_beat(s);
	}
	streams_bound(all);
	if (all->first)
		tick_start(h, streams_on_beat, BEAT_MS);
}

int mcp_streams_create(struct hub *hub, struct mcp_askings *askings, struct mcp_streams **out)
{
	struct mcp_streams *all = calloc(1, sizeof(*all));

	if (!all)
		return ERR_NOMEM;
	all->hub = hub;
	all->askings = askings;
	uv_timer_init(hub_loop(hub), &all->beat);
	all->beat.data = all;
	*out = all;
	return 0;
}

static void streams_on_closed(uv_handle_t *h)
{
	free(h->data);
}

void mcp_streams_close(struct mcp_streams *all)
{
	if (!all)
		return;
	while (all->first) {
		stream_part(all->first);
		stream_free(all->first);
	}
	uv_close((uv_handle_t *)&all->beat, streams_on_closed);
}
