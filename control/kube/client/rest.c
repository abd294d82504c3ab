#define LOG_SUBSYS "kube"
#include "control/kube/client/rest.h"

#include "base/backoff.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "control/kube/client/endpoint.h"
#include "control/kube/client/http.h"
#include "control/kube/client/kube_creds.h"
#include "control/kube/client/kubeconfig.h"
#include "control/kube/client/material.h"
#include "control/kube/client/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <uv.h>

#define DEADLINE_MS    30000
#define CONNECT_MS     10000
#define ANSWER_MAX     (16 * 1024 * 1024)
#define ANSWER_VALUES  500000 /* of it: a page of pods with all their managedFields has a third of that */
#define TRIES          5
#define BACKOFF_MS     250
#define BACKOFF_MAX_MS 5000
#define WHAT_MAX       200
#define HEADERS_MAX    8

enum call_state { CALL_ASKING, CALL_RUNNING, CALL_WAITING, CALL_DONE };

struct kube_call {
	TAILQ_ENTRY(kube_call) entry;
	struct kube *kube;
	enum call_state state;
	kube_done *done;
	void *arg;
	void (*data)(void *arg, const uint8_t *p, size_t n);
	/* the question */
	char *method, *path, *body, *content_type, *accept, *headers[HEADERS_MAX + 1];
	char what[WHAT_MAX], right[WHAT_MAX];
	uint64_t deadline_ms;
	size_t answer_max;
	bool repeatable, plain;
	enum kube_answer answer;
	/* its way */
	struct kube_ask ask;
	struct kube_exchange *exchange;
	uv_timer_t timer;
	uint64_t started_at;            /* this try */
	uint64_t deadline_at, again_at; /* of the loop's clock; UINT64_MAX: never */
	uint64_t generation;            /* of the credentials last shown */
	unsigned failures;
	bool refreshed, begun;
	struct err last; /* why it was not done yet; code 0: no try failed */
	int last_status;
};

struct kube {
	uv_loop_t *loop;
	struct kube_creds *creds;
	struct kube_http *http;
	struct kube_options options;
	TAILQ_HEAD(, kube_call) calls;
	bool closing;
};

static void rest_on_creds(void *arg, int rc, const struct err *e);

static void rest_set_state(struct kube_call *c, enum call_state s)
{
	static const char *const names[] = {"asking", "running", "waiting", "done"};

	log_debug(NULL, "%s: %s -> %s", c->what, names[c->state], names[s]);
	c->state = s;
}

/* --- the end of a call */

static void call_free(struct kube_call *c)
{
	free(c->method);
	free(c->path);
	free(c->body);
	free(c->content_type);
	free(c->accept);
	for (size_t i = 0; i < HEADERS_MAX; i++)
		free(c->headers[i]);
	free(c);
}

static void rest_on_timer_closed(uv_handle_t *t)
{
	call_free(t->data);
}

/* Nothing of the call may be touched behind this. */
static void rest_finish(struct kube_call *c, int rc, const struct err *e, const struct kube_reply *reply)
{
	static const struct kube_reply none;

	rest_set_state(c, CALL_DONE);
	TAILQ_REMOVE(&c->kube->calls, c, entry);
	kube_ask_cancel(&c->ask);
	uv_close((uv_handle_t *)&c->timer, rest_on_timer_closed);
	if (rc < 0)
		log_debug(NULL, "%s", e->message);
	c->done(c->arg, rc, e, reply ? reply : &none);
}

static void out_of_time(struct kube_call *c)
{
	struct err e;
	unsigned long long ms = c->deadline_ms;

	/* the second half of its time without a byte, for whomever: that connection is dead */
	kube_http_cancel(c->exchange, (uv_now(c->kube->loop) - c->started_at) / 2);
	c->exchange = NULL;
	if (c->last.code)
		err_set(&e, ERR_TIMEOUT, "%s: not done in %llu ms; the last try: %s", c->what, ms, c->last.message);
	else
		err_set(&e, ERR_TIMEOUT, "%s at %s: no answer in %llu ms", c->what,
			kube_creds_endpoint(c->kube->creds)->server, ms);
	rest_finish(c, ERR_TIMEOUT, &e, NULL);
}

/* --- tries */

static void rest_ask(struct kube_call *c, uint64_t rejected)
{
	rest_set_state(c, CALL_ASKING);
	kube_creds_ask(c->kube->creds, &c->ask, rejected, rest_on_creds, c);
}

static void rest_on_timer(uv_timer_t *t);

static void rest_arm(struct kube_call *c)
{
	uint64_t at = c->deadline_at, now = uv_now(c->kube->loop);

	if (c->state == CALL_WAITING && c->again_at < at)
		at = c->again_at;
	if (at == UINT64_MAX)
		(void)uv_timer_stop(&c->timer);
	else
		(void)uv_timer_start(&c->timer, rest_on_timer, at > now ? at - now : 0, 0);
}

static void rest_on_timer(uv_timer_t *t)
{
	struct kube_call *c = t->data;

	if (uv_now(c->kube->loop) >= c->deadline_at) {
		out_of_time(c);
		return;
	}
	if (c->state == CALL_WAITING) {
		rest_ask(c, 0);
		rest_arm(c);
	}
}

/* Another try in ms, if there is one left and time for it; else the failure stands. */
static void wait_or_fail(struct kube_call *c, int rc, const struct err *e, const struct kube_reply *reply, uint64_t ms)
{
	const struct kube_options *o = &c->kube->options;

	c->again_at = uv_now(c->kube->loop) + ms;
	if (++c->failures >= o->tries || c->again_at >= c->deadline_at) {
		rest_finish(c, rc, e, reply);
		return;
	}
	c->last = *e;
	log_debug(NULL, "%s; try %u of %u in %llu ms", e->message, c->failures + 1, o->tries, (unsigned long long)ms);
	rest_set_state(c, CALL_WAITING);
	rest_arm(c);
}

static void back_off(struct kube_call *c, int rc, const struct err *e, const struct kube_reply *reply)
{
	const struct kube_options *o = &c->kube->options;

	wait_or_fail(c, rc, e, reply, backoff_spread(c->failures + 1, o->backoff_ms, o->backoff_max_ms));
}

/* --- answers */

/* The server does not say which of its reasons it had; a date that has passed is the likeliest. */
static void name_expiry(const struct kube_call *c, struct err *e)
{
	const struct kube_endpoint *ep = kube_creds_endpoint(c->kube->creds);
	char when[64];

	if (ep->cert_pem && !ep->token && kube_material_expired(ep->cert_pem, when, sizeof(when))) {
		const struct err_kube said = e->kube;

		err_set(e, e->code, "%s; the client certificate of %s expired on %s", e->message,
			kube_creds_config(c->kube->creds)->name, when);
		e->kube = said;
	}
}

static int refusal(const struct kube_call *c, const struct kube_reply *r, struct err *e)
{
	char what[2 * WHAT_MAX + 300];
	bool needs = r->status == 403 && c->right[0];
	int rc;

	text_format(what, sizeof(what), "%s at %s%s%s%s", c->what, kube_creds_endpoint(c->kube->creds)->server,
		    needs ? " (needs the right to " : "", needs ? c->right : "", needs ? ")" : "");
	if (kube_status_is(r->body))
		rc = kube_status_error_json(r->status, r->body, what, e);
	else
		rc = kube_status_error(r->status, r->text, r->len, what, e);
	if (r->status == 401)
		name_expiry(c, e);
	return rc;
}

/* 500 is what an API server says while its etcd has no leader, too. */
static bool may_pass(int status)
{
	return status >= 500 && status <= 504 && status != 501;
}

static void rest_refused(struct kube_call *c, const struct kube_reply *r, uint64_t retry_after_s)
{
	struct err e = {0};
	int rc = refusal(c, r, &e);

	if (!retry_after_s)
		retry_after_s = (uint64_t)kube_status_retry_after(r->body);
	if (r->status == 401 && !c->refreshed) {
		c->refreshed = true;
		c->last = e;
		c->last_status = r->status;
		rest_ask(c, c->generation);
	} else if (retry_after_s && (r->status == 429 || r->status >= 500)) {
		wait_or_fail(c, rc, &e, r, backoff_jitter(retry_after_s * 1000));
	} else if (r->status == 429 || (c->repeatable && may_pass(r->status))) {
		back_off(c, rc, &e, r);
	} else {
		rest_finish(c, rc, &e, r);
	}
}

static bool is_list(const json_t *o)
{
	const json_t *items = json_object_get(o, "items");
	const char *more = json_get_text(json_object_get(o, "metadata"), "continue");

	return (json_is_array(items) || json_is_null(items)) && strlen(more) <= KUBE_CONTINUE_MAX;
}

static bool is_object(const json_t *o)
{
	const json_t *meta = json_object_get(o, "metadata");

	return *json_get_text(meta, "name") && *json_get_text(meta, "uid");
}

/* NULL: what was asked for. Whoever asked is not to take what is missing for what is gone. */
static const char *falls_short(const struct kube_call *c, const struct kube_reply *r)
{
	bool read = !c->plain && !c->data;

	if (r->status < 200 || r->status > 299)
		return "it leads elsewhere, where nobody follows";
	if (!read || c->answer == KUBE_ANSWER_ANY)
		return NULL;
	if (!json_is_object(r->body))
		return "it is empty, or no object";
	if (c->answer == KUBE_ANSWER_OBJECT && !is_object(r->body))
		return "an object without name or uid";
	if (c->answer == KUBE_ANSWER_LIST && !is_list(r->body))
		return "no list, or none that can be gone on with";
	return NULL;
}

static void answered(struct kube_call *c, struct kube_reply *r, uint64_t retry_after_s)
{
	struct err why = {0}, e = {0};
	json_t *body = NULL;
	const char *lacks;
	int rc = 0;

	if (r->len && !(c->plain && r->status < 400) && !(c->data && r->status < 300))
		rc = json_parse_values(r->text, r->len, c->answer_max, ANSWER_VALUES, &body, &why);
	r->body = body;
	lacks = rc == 0 && r->status < 400 ? falls_short(c, r) : NULL;
	if (r->status >= 400) {
		rest_refused(c, r, retry_after_s);
	} else if (lacks) {
		rc = err_set(&e, ERR_PROTOCOL, "%s at %s: the answer %d is not what was asked for: %s", c->what,
			     kube_creds_endpoint(c->kube->creds)->server, r->status, lacks);
		rest_finish(c, rc, &e, r);
	} else if (rc < 0) {
		rc = err_set(&e, ERR_PROTOCOL, "%s at %s: %s", c->what, kube_creds_endpoint(c->kube->creds)->server,
			     why.message);
		rest_finish(c, rc, &e, r);
	} else {
		rest_finish(c, 0, NULL, r);
	}
	json_decref(body);
}

static void rest_on_data(void *arg, const uint8_t *p, size_t n)
{
	struct kube_call *c = arg;

	if (!c->begun) {
		c->begun = true;
		c->deadline_at = UINT64_MAX;
		rest_arm(c);
	}
	c->data(c->arg, p, n);
}

static void rest_on_end(void *arg, int rc, const struct err *why, const struct kube_http_answer *a)
{
	struct kube_call *c = arg;
	struct kube_reply reply = {.status = a->status, .text = a->body, .len = a->len};
	struct err e;

	c->exchange = NULL;
	if (rc == 0) {
		answered(c, &reply, a->retry_after_s);
		return;
	}
	reply = (struct kube_reply){.status = a->status};
	err_set(&e, rc, "%s: %s%s", c->what, why->message,
		c->repeatable || a->unsent ? "" : "; whether it was done is not known");
	if (a->passing && !c->begun && (c->repeatable || a->unsent))
		back_off(c, rc, &e, &reply);
	else
		rest_finish(c, rc, &e, &reply);
}

static int rest_start(struct kube_call *c, const struct kube_endpoint *ep, struct err *e)
{
	static const struct kube_http_ops ops = {rest_on_data, rest_on_end};
	struct kube_http_question q = {
	    .method = c->method,
	    .path = c->path,
	    .content_type = c->content_type,
	    .accept = c->accept,
	    .headers = (const char *const *)c->headers,
	    .body = c->body,
	    .body_len = c->body ? strlen(c->body) : 0,
	    .connect_ms = c->kube->options.connect_ms,
	    .answer_max = c->answer_max,
	    .stream = c->data != NULL,
	};

	c->generation = ep->generation;
	c->started_at = uv_now(c->kube->loop);
	rest_set_state(c, CALL_RUNNING);
	return kube_http_start(c->kube->http, ep, &q, &ops, c, &c->exchange, e);
}

static void rest_on_creds(void *arg, int rc, const struct err *e)
{
	struct kube_call *c = arg;
	const struct kube_endpoint *ep = kube_creds_endpoint(c->kube->creds);
	struct err why = {0};

	if (rc == ERR_K8S_UNREACHABLE) {
		err_set(&why, rc, "%s: %s", c->what, e->message);
		back_off(c, rc, &why, NULL);
	} else if (rc < 0) {
		err_set(&why, rc, "%s: %s", c->what, e->message);
		rest_finish(c, rc, &why, NULL);
	} else if (c->last_status == 401 && ep->generation == c->generation) {
		/* there is nothing better to show */
		struct kube_reply reply = {.status = 401};
		why = c->last;
		rest_finish(c, why.code, &why, &reply);
	} else {
		c->last_status = 0;
		rc = rest_start(c, ep, &why);
		if (rc < 0)
			rest_finish(c, rc, &why, NULL);
	}
}

/* --- a question */

static bool dup_to(char **to, const char *s)
{
	*to = s ? strdup(s) : NULL;
	return !s || *to;
}

static size_t rest_count(const char *const *headers)
{
	size_t n = 0;

	while (headers && headers[n])
		n++;
	return n;
}

static bool copy_headers(struct kube_call *c, const char *const *headers)
{
	bool fine = true;

	for (size_t i = 0; fine && i < rest_count(headers); i++)
		fine = dup_to(&c->headers[i], headers[i]);
	return fine;
}

static bool copy_path(struct kube_call *c, const struct kube_request *r)
{
	if (asprintf(&c->path, "%s%s%s", r->path, r->query && *r->query ? "?" : "", r->query ? r->query : "") < 0)
		c->path = NULL;
	return c->path;
}

static bool copy_question(struct kube_call *c, const struct kube_request *r)
{
	const struct kube_options *o = &c->kube->options;

	text_put(c->right, sizeof(c->right), r->right);
	if (r->what)
		text_put(c->what, sizeof(c->what), r->what);
	else
		text_format(c->what, sizeof(c->what), "%s %s", r->method, r->path);
	c->deadline_ms = r->deadline_ms ? r->deadline_ms : o->deadline_ms;
	c->answer_max = r->answer_max ? r->answer_max : o->answer_max;
	c->repeatable = r->repeatable || strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0;
	c->plain = r->plain;
	c->answer = r->answer;
	c->data = r->data;
	if (r->body && !(c->body = json_text(r->body)))
		return false;
	return dup_to(&c->method, r->method) && copy_path(c, r) && copy_headers(c, r->headers) &&
	       dup_to(&c->accept, r->accept ? r->accept : "application/json") &&
	       dup_to(&c->content_type, !r->body          ? NULL
					: r->content_type ? r->content_type
							  : "application/json");
}

int kube_request(struct kube *k, const struct kube_request *r, kube_done *done, void *arg, struct kube_call **out,
		 struct err *e)
{
	if (k->closing)
		return err_set(e, ERR_CANCELLED, "the client of the API server was closed");
	if (rest_count(r->headers) > HEADERS_MAX)
		return err_set(e, ERR_INVAL, "a request to the API server with more than %d headers", HEADERS_MAX);
	struct kube_call *c = calloc(1, sizeof(*c));
	if (c)
		c->kube = k;
	if (!c || !copy_question(c, r)) {
		if (c)
			call_free(c);
		return err_set(e, ERR_NOMEM, "no memory for a request to the API server");
	}
	c->done = done;
	c->arg = arg;
	(void)uv_timer_init(k->loop, &c->timer);
	c->timer.data = c;
	TAILQ_INSERT_TAIL(&k->calls, c, entry);
	c->deadline_at = uv_now(k->loop) + c->deadline_ms;
	rest_arm(c);
	rest_ask(c, 0);
	if (out)
		*out = c;
	return 0;
}

void kube_abandon(struct kube_call *c, uint64_t silent_ms)
{
	struct err e;

	if (!c)
		return;
	kube_http_cancel(c->exchange, silent_ms);
	c->exchange = NULL;
	err_set(&e, ERR_CANCELLED, "%s: cancelled", c->what);
	rest_finish(c, ERR_CANCELLED, &e, NULL);
}

void kube_cancel(struct kube_call *c)
{
	kube_abandon(c, 0);
}

/* --- life */

static void fill_options(struct kube_options *o)
{
	o->deadline_ms = o->deadline_ms ? o->deadline_ms : DEADLINE_MS;
	o->connect_ms = o->connect_ms ? o->connect_ms : CONNECT_MS;
	o->answer_max = o->answer_max ? o->answer_max : ANSWER_MAX;
	o->tries = o->tries ? o->tries : TRIES;
	o->backoff_ms = o->backoff_ms ? o->backoff_ms : BACKOFF_MS;
	o->backoff_max_ms = o->backoff_max_ms ? o->backoff_max_ms : BACKOFF_MAX_MS;
}

int kube_client_create(struct uv_loop_s *loop, struct kube_creds *creds, const struct kube_options *options,
		       struct kube **out, struct err *e)
{
	struct kube *k = calloc(1, sizeof(*k));
	int rc = k ? kube_http_create(loop, &k->http, e) : err_set(e, ERR_NOMEM, "no memory for a client");

	if (rc < 0) {
		free(k);
		return rc;
	}
	k->loop = loop;
	k->creds = creds;
	if (options)
		k->options = *options;
	fill_options(&k->options);
	TAILQ_INIT(&k->calls);
	*out = k;
	return 0;
}

void kube_client_destroy(struct kube *k)
{
	struct kube_call *c;

	if (!k)
		return;
	k->closing = true;
	while ((c = TAILQ_FIRST(&k->calls)))
		kube_cancel(c);
	kube_http_destroy(k->http);
	free(k);
}

struct kube_creds *kube_client_creds(const struct kube *k)
{
	return k->creds;
}

struct uv_loop_s *kube_client_loop(const struct kube *k)
{
	return k->loop;
}
