#include "muxd/doors/https/mcp/question.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

struct asking {
	struct mcp_question q; /* its pointers are to what is below */
	struct request rq;
	char peer[64];
	json_t *id;
	char *text, *uri;
};

static void question_send(const struct mcp_question *q, json_t *o)
{
	if (o)
		http_reply_json_as(q->x, 200, o);
	else
		http_reply_error(q->x, ERR_NOMEM, NULL);
	json_decref(o);
}

void mcp_question_reply(const struct mcp_question *q, json_t *result)
{
	if (q->new_era)
		result = mcp_new_era(result);
	question_send(q, result ? mcp_result(q->id, result) : NULL);
}

void mcp_question_refuse(const struct mcp_question *q, int code, const char *text)
{
	question_send(q, mcp_error(q->id, code, text, q->uri ? json_pack("{s:s}", "uri", q->uri) : NULL));
}

static void asking_free(struct asking *a)
{
	request_finish(&a->rq);
	mcp_life_release(a->q.who.life);
	json_decref(a->id);
	free(a->text);
	free(a->uri);
	free(a);
}

static void question_on_answer(void *arg, const struct inner_answer *answer)
{
	struct asking *a = arg;
	const char *text = NULL;
	int code = 0;
	json_t *result = a->q.then(&a->q, answer, &code, &text);

	if (code)
		mcp_question_refuse(&a->q, code, text);
	else
		mcp_question_reply(&a->q, result);
	asking_free(a);
}

void mcp_question_ask(const struct mcp_question *q, struct inner_ask *ask)
{
	struct asking *a = calloc(1, sizeof(*a));
	struct inner *inner;
	struct err e = {0};

	if (!a) {
		http_reply_error(q->x, ERR_NOMEM, NULL);
		return;
	}
	a->q = *q;
	a->q.who.life = mcp_life_hold(q->who.life);
	a->rq = *q->who.rq;
	text_put(a->peer, sizeof(a->peer), q->who.peer);
	a->id = q->id ? json_deep_copy(q->id) : NULL;
	a->text = q->text ? strdup(q->text) : NULL;
	a->q.who.rq = ask->rq = &a->rq;
	a->q.who.peer = ask->peer = a->peer;
	a->q.id = a->id;
	a->uri = q->uri ? strdup(q->uri) : NULL;
	a->q.text = a->text;
	a->q.uri = a->uri;
	ask->hub = q->who.hub;
	ask->api = q->who.api;
	ask->metrics = q->who.metrics;
	ask->local = q->who.local;
	if (inner_begin(ask, question_on_answer, a, &inner, &e)) {
		struct inner_answer none = {.rc = e.code ? e.code : ERR_NOMEM, .message = e.message, .headers = ""};

		question_on_answer(a, &none);
	}
}
