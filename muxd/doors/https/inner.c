#include "muxd/doors/https/inner.h"
#include "base/text.h"
#include "muxd/doors/https/route.h"
#include "muxd/hub/core/hub.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define PIECE (64 * 1024)

enum inner_state { INNER_ASKED, INNER_GATHERING, INNER_TOLD };

struct inner {
	struct http_exchange *x;
	enum inner_state state;
	inner_done *done;
	void *arg;
	struct buf body; /* for a row that takes it as it comes */
	bool body_told;
	struct inner_answer answer;
	json_t *json;
	char message[ERR_MESSAGE_MAX];
	struct buf content;
	uv_timer_t turn;
};

static void inner_set_state(struct inner *i, enum inner_state to)
{
	i->state = to;
}

/* ---- its end */

static void inner_on_closed(uv_handle_t *h)
{
	free(h->data);
}

static void inner_free(struct inner *i)
{
	i->done = NULL;
	if (i->x) {
		i->x->dialect_arg = NULL;
		http_exchange_abandon(i->x);
	}
	i->x = NULL;
	json_decref(i->json);
	i->json = NULL;
	buf_finish(&i->content);
	buf_finish_secret(&i->body);
	uv_close((uv_handle_t *)&i->turn, inner_on_closed);
}

void inner_abandon(struct inner *i)
{
	if (i && i->state != INNER_TOLD)
		inner_free(i);
}

static void inner_tell(struct inner *i)
{
	inner_set_state(i, INNER_TOLD);
	i->answer.message = i->message;
	i->answer.begun = &i->x->begun;
	i->answer.status = i->x->status;
	i->answer.repeated = i->x->repeated;
	i->answer.json = i->json;
	i->answer.content = buf_ptr(&i->content);
	i->answer.content_len = buf_len(&i->content);
	i->answer.headers = buf_cstr(&i->x->headers) ?: "";
	i->done(i->arg, &i->answer);
	inner_free(i);
}

/* ---- what the handler says */

static void inner_on_result(struct http_exchange *x, int status, const json_t *ours)
{
	struct inner *i = x->dialect_arg;
	json_t *nothing = json_null();

	if (i)
		i->json = json_incref((json_t *)(uintptr_t)ours);
	http_reply_json_as(x, status, nothing);
}

static json_t *inner_on_error(struct http_exchange *x, int rc, const char *message, int *status)
{
	struct inner *i = x->dialect_arg;

	(void)status;
	if (i) {
		i->answer.rc = rc;
		text_put(i->message, sizeof(i->message), message);
	}
	return json_object();
}

static void inner_on_drop(struct http_exchange *x)
{
	x->dialect_arg = NULL;
}

static const struct http_dialect dialect = {inner_on_result, inner_on_error, inner_on_drop};

/* ---- its turns: the handler may be in the middle of something when it answers, or asks for more */

static void inner_on_turn(uv_timer_t *h);

static void inner_soon(void *arg, struct http_exchange *x)
{
	struct inner *i = arg;

	(void)x;
	uv_timer_start(&i->turn, inner_on_turn, 0, 0);
}

static void inner_feed(struct inner *i)
{
	struct http_exchange *x = i->x;

	while (x->flow && buf_len(&i->body) && !x->answered) {
		ssize_t n = x->flow->take(x, buf_ptr(&i->body), buf_len(&i->body));

		if (n <= 0)
			return; /* it is answered, or says when it can go on */
		buf_consume(&i->body, (size_t)n);
	}
	if (!x->flow || !x->flow->complete || x->answered || i->body_told)
		return;
	i->body_told = true;
	x->flow->complete(x);
}

/* True: all that is wanted is there. */
static bool inner_gather(struct inner *i)
{
	struct http_exchange *x = i->x;
	uint8_t *to;

	while (x->stream_left && !x->stream_broken) {
		size_t room = buf_room(&i->content), want = room < PIECE ? room : PIECE, n;

		i->answer.more = room == 0;
		if (room == 0)
			return true;
		want = want < x->stream_left ? want : (size_t)x->stream_left;
		if (buf_reserve(&i->content, want, &to)) {
			i->answer.rc = ERR_NOMEM;
			return true;
		}
		n = x->flow->give(x, to, want);
		buf_commit(&i->content, n);
		x->stream_left -= x->chunked ? 0 : n;
		if (n == 0 && x->stream_over)
			x->stream_left = 0;
		else if (n == 0)
			return false;
	}
	if (x->stream_broken) {
		i->answer.rc = ERR_EOF;
		text_put(i->message, sizeof(i->message), "the content broke off");
	}
	return true;
}

static void inner_on_turn(uv_timer_t *h)
{
	struct inner *i = h->data;
	struct http_exchange *x = i->x;

	if (i->state == INNER_ASKED && !x->answered) {
		inner_feed(i);
		return;
	}
	if (i->state == INNER_ASKED)
		inner_set_state(i, INNER_GATHERING);
	if (i->answer.rc == 0 && x->streams && x->flow && !inner_gather(i))
		return;
	if (i->answer.rc == 0 && !x->streams && !i->json)
		i->answer.rc = buf_append(&i->content, buf_ptr(&x->out), buf_len(&x->out));
	inner_tell(i);
}

/* ---- its beginning */

/* The pattern with the names in it, which a path of this row has to give back. */
static int inner_path(struct http_exchange *x, const struct inner_ask *ask, struct err *e)
{
	const char *p = ask->pattern;
	size_t at = 0, n = 0;

	while (*p) {
		const char *name = *p == '{' ? ask->names[n++] : NULL;
		size_t len = name ? strlen(name) : 1;

		if (*p == '{' && !name)
			return err_set(e, ERR_INVAL, "a name is missing");
		if (at + len >= sizeof(x->path))
			return err_set(e, ERR_INVAL, "a name is too long");
		memcpy(x->path + at, name ? name : p, len);
		at += len;
		p = name ? strchr(p, '}') + 1 : p + 1;
	}
	x->path[at] = '\0';
	if (ask->api->find(x, e) || strcmp(x->route->pattern, ask->pattern) != 0)
		return err_set(e, ERR_INVAL, "a name is none that may stand there");
	for (size_t k = 0; k < n; k++)
		if (strcmp(x->params[k], ask->names[k]) != 0)
			return err_set(e, ERR_INVAL, "a name is none that may stand there");
	return 0;
}

static int inner_fill(struct inner *i, const struct inner_ask *ask, struct err *e)
{
	struct http_exchange *x = i->x;
	int rc;

	x->metrics = ask->metrics;
	x->method = ask->method;
	x->local = ask->local;
	x->rq = *ask->rq;
	x->id = ask->rq->id;
	id_format(&x->id, x->id_text);
	x->authenticated = true;
	text_put(x->peer, sizeof(x->peer), ask->peer);
	text_put(x->range, sizeof(x->range), ask->range);
	text_put(x->if_none_match, sizeof(x->if_none_match), ask->only_new ? "*" : "");
	rc = inner_path(x, ask, e);
	for (size_t k = 0; rc == 0 && k < INNER_QUERY_MAX && ask->query[k]; k++)
		rc = http_query_add(x, ask->query[k], e);
	if (rc)
		return rc;
	x->body_len = ask->body_len;
	if (x->route->body == BODY_STREAM)
		return buf_append(&i->body, ask->body, ask->body_len);
	return ask->body_len ? buf_append(&x->body, ask->body, ask->body_len) : 0;
}

int inner_begin(const struct inner_ask *ask, inner_done *done, void *arg, struct inner **out, struct err *e)
{
	struct inner *i = calloc(1, sizeof(*i));
	int rc;

	if (!i)
		return err_set(e, ERR_NOMEM, "out of memory");
	uv_timer_init(hub_loop(ask->hub), &i->turn);
	i->turn.data = i;
	i->done = done;
	i->arg = arg;
	buf_init(&i->body, SIZE_MAX / 2);
	buf_init(&i->content, ask->content_max ? ask->content_max : HTTP_RESPONSE_MAX);
	rc = http_exchange_create(ask->hub, hub_conf(ask->hub)->api_max_body, &i->x);
	if (rc == 0)
		rc = inner_fill(i, ask, e);
	if (rc) {
		if (i->x)
			i->x->answered = true; /* no handler has it */
		inner_free(i);
		return rc;
	}
	i->x->dialect = &dialect;
	i->x->dialect_arg = i;
	i->x->done = inner_soon;
	i->x->wake = inner_soon;
	i->x->done_arg = i;
	*out = i;
	if (i->x->route->body == BODY_STREAM)
		inner_soon(i, i->x);
	ask->api->enter(i->x);
	return 0;
}
