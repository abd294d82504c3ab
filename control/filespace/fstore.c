#define LOG_SUBSYS "filespace"
#include "control/filespace/fstore.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/kube/client/http.h"
#include "control/kube/client/kube_creds.h"
#include "control/kube/client/kubeconfig.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <uv.h>

#define CONNECT_MS 10000
#define PATH_LONG  32768

struct filespace_store {
	uv_loop_t *loop;
	struct kube_creds *creds;
	struct kube_http *http;
	TAILQ_HEAD(, filespace_ask) asks;
};

/* One question: its credentials are looked up, then it is under way; told once, or cancelled. */
struct filespace_ask {
	TAILQ_ENTRY(filespace_ask) entry;
	struct filespace_store *store;
	struct kube_ask creds;
	struct kube_exchange *exchange;
	uv_timer_t timer;
	char *path, *body;
	bool post, again; /* again: a 401 was heard */
	uint64_t generation, connect_ms, timeout_ms;
	size_t answer_max;
	filespace_ask_done *done;
	void *arg;
};

static void fstore_on_closed(uv_handle_t *t)
{
	struct filespace_ask *a = t->data;

	free(a->path);
	free(a->body);
	free(a);
}

static void ask_end(struct filespace_ask *a)
{
	TAILQ_REMOVE(&a->store->asks, a, entry);
	kube_ask_cancel(&a->creds);
	kube_http_cancel(a->exchange, 0);
	a->exchange = NULL;
	uv_close((uv_handle_t *)&a->timer, fstore_on_closed);
}

static void ask_answer(struct filespace_ask *a, int rc, const struct err *e, const json_t *body)
{
	filespace_ask_done *done = a->done;
	void *arg = a->arg;

	ask_end(a);
	done(arg, rc, e, body);
}

static void ask_fail(struct filespace_ask *a, const char *what, const char *why)
{
	struct err e = {0};

	err_set(&e, ERR_FILESPACE, "the file store %.200s: %.250s", what, why);
	ask_answer(a, e.code, &e, NULL);
}

static void fstore_on_late(uv_timer_t *t)
{
	struct filespace_ask *a = t->data;
	char why[64];

	text_format(why, sizeof(why), "no whole answer in %llu ms", (unsigned long long)a->timeout_ms);
	ask_fail(a, kube_creds_endpoint(a->store->creds)->server, why);
}

/* ---- the answer */

static void refused(struct filespace_ask *a, const struct kube_http_answer *r, const json_t *body)
{
	const char *words = json_get_text(json_object_get(body, "error"), "message");
	char why[320];

	text_format(why, sizeof(why), "status %d%s%.200s", r->status, *words ? ", " : "", words);
	ask_fail(a, kube_creds_endpoint(a->store->creds)->server, why);
}

static void ask_begin(struct filespace_ask *a, uint64_t rejected);

static void fstore_on_end(void *arg, int rc, const struct err *e, const struct kube_http_answer *r)
{
	struct filespace_ask *a = arg;
	json_t *body = NULL;
	struct err why = {0};

	a->exchange = NULL;
	if (rc) {
		ask_fail(a, "does not answer", e->message);
		return;
	}
	if (r->status == 401 && !a->again) {
		a->again = true;
		ask_begin(a, a->generation);
		return;
	}
	rc = json_parse(r->body, r->len, a->answer_max, &body, &why);
	if (r->status < 200 || r->status > 299)
		refused(a, r, rc ? NULL : body);
	else if (rc || !json_is_object(body))
		ask_fail(a, "does not answer in JSON", rc ? why.message : "no object");
	else
		ask_answer(a, 0, NULL, body);
	json_decref(body);
}

static const struct kube_http_ops fstore_ops = {.end = fstore_on_end};

static void fstore_on_creds(void *arg, int rc, const struct err *e)
{
	struct filespace_ask *a = arg;
	const struct kube_endpoint *ep = kube_creds_endpoint(a->store->creds);
	struct kube_http_question q = {.method = a->post ? "POST" : "GET",
				       .path = a->path,
				       .accept = "application/json",
				       .content_type = a->post ? "application/json" : NULL,
				       .body = a->body,
				       .body_len = a->body ? strlen(a->body) : 0,
				       .connect_ms = a->connect_ms,
				       .answer_max = a->answer_max};
	struct err why = {0};

	if (rc) {
		ask_fail(a, "cannot be asked", e && e->message[0] ? e->message : err_name(rc));
		return;
	}
	a->generation = ep->generation;
	if (kube_http_start(a->store->http, ep, &q, &fstore_ops, a, &a->exchange, &why))
		ask_fail(a, "cannot be asked", why.message);
}

static void ask_begin(struct filespace_ask *a, uint64_t rejected)
{
	kube_creds_ask(a->store->creds, &a->creds, rejected, fstore_on_creds, a);
}

int filespace_store_ask(struct filespace_store *s, const struct filespace_question *q, filespace_ask_done *done,
			void *arg, struct filespace_ask **out, struct err *e)
{
	struct filespace_ask *a = calloc(1, sizeof(*a));

	if (!a || !(a->path = malloc(PATH_LONG)) || (q->body && !(a->body = json_text(q->body)))) {
		free(a ? a->path : NULL);
		free(a);
		return err_set(e, ERR_NOMEM, "no memory for a question to the file store");
	}
	text_format(a->path, PATH_LONG, "/spaces/%s/%s", q->space, q->call);
	a->store = s;
	a->post = q->body != NULL;
	a->timeout_ms = q->timeout_ns / NS_PER_MS;
	a->connect_ms = a->timeout_ms < CONNECT_MS ? a->timeout_ms : CONNECT_MS;
	a->answer_max = q->answer_max;
	a->done = done;
	a->arg = arg;
	(void)uv_timer_init(s->loop, &a->timer);
	a->timer.data = a;
	(void)uv_timer_start(&a->timer, fstore_on_late, a->timeout_ms, 0);
	TAILQ_INSERT_TAIL(&s->asks, a, entry);
	*out = a;
	ask_begin(a, 0);
	return 0;
}

void filespace_ask_cancel(struct filespace_ask *a)
{
	if (a)
		ask_end(a);
}

/* ---- life */

static json_t *one_named(const char *list_key, json_t *v)
{
	return json_pack("[{s:s,s:o}]", "name", "store", list_key, v);
}

/* A store is a server with a token, as a cluster's is: its credentials are kept in the same way. */
static char *store_text_of(const struct filespace_store_params *p)
{
	json_t *cluster = json_pack("{s:s,s:s*}", "server", p->url, "certificate-authority", p->ca);
	json_t *user = json_pack("{s:s*}", "tokenFile", p->token);
	json_t *context = json_pack("{s:s,s:s}", "cluster", "store", "user", "store");
	json_t *o =
	    json_pack("{s:s,s:o,s:o,s:o}", "current-context", "store", "clusters", one_named("cluster", cluster),
		      "users", one_named("user", user), "contexts", one_named("context", context));
	char *text = o ? json_text(o) : NULL;

	json_decref(o);
	return text;
}

int filespace_store_create(struct uv_loop_s *loop, const struct filespace_store_params *p, struct filespace_store **out,
			   struct err *e)
{
	struct filespace_store *s = calloc(1, sizeof(*s));
	char *text = store_text_of(p);
	struct kubeconfig *k = NULL;
	int rc = s && text ? 0 : err_set(e, ERR_NOMEM, "no memory for the file store");

	if (!rc) {
		s->loop = loop;
		TAILQ_INIT(&s->asks);
		rc = kubeconfig_parse(text, strlen(text), "filespace", NULL, NULL, &k, e);
	}
	if (!rc && (rc = kube_creds_create(loop, k, NULL, &s->creds, e)))
		kubeconfig_destroy(k);
	if (!rc)
		rc = kube_http_create(loop, &s->http, e);
	free(text);
	if (!rc) {
		*out = s;
		return 0;
	}
	if (s && s->creds)
		kube_creds_destroy(s->creds);
	free(s);
	return rc;
}

void filespace_store_destroy(struct filespace_store *s)
{
	struct filespace_ask *a;

	if (!s)
		return;
	while ((a = TAILQ_FIRST(&s->asks)))
		ask_end(a);
	kube_http_destroy(s->http);
	kube_creds_destroy(s->creds);
	free(s);
}
