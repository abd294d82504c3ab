#define LOG_SUBSYS "edge"
#include "muxd/net/edge.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/slurp.h"
#include "base/text.h"
#include "control/kube/client/endpoint.h"
#include "control/kube/client/http.h"
#include "control/kube/client/lookup.h"
#include "control/kube/client/url.h"
#include "muxd/hub/core/hub.h"
#include "muxd/net/ipc.h"
#include "policy/edge.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#define TEXT_MAX    (2 * 1024 * 1024)
#define STATE_PATH  "/v1/edge/state"
#define ANSWER_MAX  (EDGE_STATE_MAX + 4096)
#define CONNECT_MS  3000
#define PATIENCE_MS 10000 /* of a whole exchange */

struct edge_client {
	struct hub *hub;
	struct ipc *ipc;
	struct uv_loop_s *loop;
	struct kube_http *http;
	struct kube_url url;
	char edge[ID_STR_LEN], centre[ID_STR_LEN], host_header[300];
	char *address, *ca;
	uint8_t seed[GRANT_KEY_LEN];
	struct grant_public_key key;
	uv_timer_t *timer;
	struct kube_lookup *lookup;
	struct kube_exchange *exchange;
	bool *gone; /* a question to the monitor is out */
	bool lost;  /* the last one failed, and was told */
};

static void edge_on_timer(uv_timer_t *t);

static void wait_for_next(struct edge_client *c)
{
	uv_timer_start(c->timer, edge_on_timer, hub_conf(c->hub)->edge_poll_ns / NS_PER_MS, 0);
}

static void settle(struct edge_client *c, int rc, const struct err *e)
{
	if (rc && !c->lost)
		log_warn(NULL, "the centre %s does not say which leases it took back: %s", c->address,
			 e && e->message[0] ? e->message : err_name(rc));
	if (!rc && c->lost)
		log_info(NULL, "the centre %s speaks again", c->address);
	c->lost = rc != 0;
	wait_for_next(c);
}

/* ---- the answer, which the monitor looks at */

struct edge_word {
	struct edge_client *client;
	bool gone;
};

static void edge_on_taken(void *arg, int rc, const struct err *e, const json_t *json, int fd)
{
	struct edge_word *w = arg;

	(void)json;
	if (fd >= 0)
		close(fd);
	if (!w->gone) {
		w->client->gone = NULL;
		settle(w->client, rc, e);
	}
	free(w);
}

static void pass_on(struct edge_client *c, const char *state)
{
	struct edge_word *w = calloc(1, sizeof(*w));
	struct err e = {0};

	if (!w) {
		settle(c, err_set(&e, ERR_NOMEM, "no memory"), &e);
		return;
	}
	w->client = c;
	c->gone = &w->gone;
	ipc_ask(c->ipc, json_pack("{s:s,s:s}", "op", "edge.state", "state", state), edge_on_taken, w);
}

static void edge_on_answer(void *arg, int rc, const struct err *e, const struct kube_http_answer *a)
{
	struct edge_client *c = arg;
	struct err own = {0};
	json_t *o = NULL;
	const char *state = NULL;

	c->exchange = NULL;
	uv_timer_stop(c->timer);
	if (rc == 0) {
		rc = json_parse(a->body, a->len, ANSWER_MAX, &o, &own);
		e = &own;
	}
	if (rc == 0 && a->status != 200)
		rc = err_set(&own, ERR_UNAVAILABLE, "it answers %d, %.80s: %.200s", a->status,
			     json_get_text(json_object_get(o, "error"), "code"),
			     json_get_text(json_object_get(o, "error"), "message"));
	if (rc == 0)
		rc = json_need_str(o, "state", &state, &own);
	if (rc == 0)
		pass_on(c, state);
	else
		settle(c, rc, e);
	json_decref(o);
}

/* ---- the question */

static void edge_on_patience(uv_timer_t *t)
{
	struct edge_client *c = t->data;
	struct err e = {0};

	kube_http_cancel(c->exchange, 1);
	c->exchange = NULL;
	settle(c, err_set(&e, ERR_TIMEOUT, "no answer in %d s", PATIENCE_MS / 1000), &e);
}

static void edge_ask(struct edge_client *c, const char *addresses)
{
	static const struct kube_http_ops ops = {.end = edge_on_answer};
	const struct kube_http_question q = {.method = "GET",
					     .path = STATE_PATH,
					     .accept = "application/json",
					     .connect_ms = CONNECT_MS,
					     .answer_max = ANSWER_MAX};
	struct kube_endpoint ep = {.server = c->address,
				   .tls = true,
				   .host = c->url.host,
				   .port = c->url.port,
				   .host_header = c->host_header,
				   .base_path = c->url.path,
				   .tls_server_name = c->url.host,
				   .ca_pem = c->ca,
				   .ca_pem_len = strlen(c->ca),
				   .connect_host = c->url.host,
				   .connect_port = c->url.port,
				   .addresses = addresses,
				   .generation = 1};
	char *token = NULL;
	struct err e = {0};
	int rc = edge_call_sign(c->edge, c->centre, hub_now_wall(c->hub), c->key.kid, c->seed, &token, &e);

	ep.token = token;
	if (rc == 0)
		rc = kube_http_start(c->http, &ep, &q, &ops, c, &c->exchange, &e);
	grant_token_free(token);
	if (rc)
		settle(c, rc, &e);
	else
		uv_timer_start(c->timer, edge_on_patience, PATIENCE_MS, 0);
}

static void edge_on_addresses(void *arg, int rc, const struct err *e, const char *addresses)
{
	struct edge_client *c = arg;

	c->lookup = NULL;
	if (rc)
		settle(c, rc, e);
	else
		edge_ask(c, addresses);
}

static void edge_on_timer(uv_timer_t *t)
{
	struct edge_client *c = t->data;
	struct err e = {0};
	int rc = kube_lookup_start(c->loop, c->url.host, edge_on_addresses, c, &c->lookup, &e);

	if (rc)
		settle(c, rc, &e);
}

/* ---- made and ended */

static int take_seed(struct edge_client *c, const char *text, struct err *e)
{
	uint8_t *raw = NULL;
	size_t n = 0;
	int rc = base64_decode(text, strlen(text), true, &raw, &n);

	if (rc == 0 && n == GRANT_KEY_LEN)
		memcpy(c->seed, raw, n);
	else
		rc = rc ? rc : ERR_INVAL;
	if (raw)
		OPENSSL_cleanse(raw, n);
	free(raw);
	rc = rc ? rc : grant_key_public(c->seed, &c->key);
	return rc ? err_set(e, rc, "the monitor's key for an edge is none") : 0;
}

static int take_params(struct edge_client *c, const json_t *o, struct err *e)
{
	const char *url = json_get_text(o, "url");
	int rc = kube_url_parse(url, "https", &c->url, e);

	if (rc == 0)
		rc = take_seed(c, json_get_text(o, "seed"), e);
	if (rc)
		return rc;
	text_put(c->edge, sizeof(c->edge), json_get_text(o, "edge"));
	text_put(c->centre, sizeof(c->centre), json_get_text(o, "centre"));
	text_format(c->host_header, sizeof(c->host_header), strchr(c->url.host, ':') ? "[%s]:%u" : "%s:%u", c->url.host,
		    c->url.port);
	c->address = strdup(url);
	c->ca = strdup(json_get_text(o, "ca"));
	return c->address && c->ca ? 0 : err_set(e, ERR_NOMEM, "no memory");
}

static int start(struct edge_client *c, struct err *e)
{
	int rc = kube_http_create(c->loop, &c->http, e);

	if (rc)
		return rc;
	c->timer = malloc(sizeof(*c->timer));
	if (!c->timer || uv_timer_init(c->loop, c->timer)) {
		free(c->timer);
		c->timer = NULL;
		return err_set(e, ERR_NOMEM, "no memory");
	}
	c->timer->data = c;
	uv_timer_start(c->timer, edge_on_timer, 0, 0);
	return 0;
}

int edge_client_create(struct uv_loop_s *loop, struct hub *h, struct ipc *ipc, int fd, struct edge_client **out,
		       struct err *e)
{
	struct edge_client *c = NULL;
	char *text = NULL;
	json_t *o = NULL;
	size_t len = 0;
	int rc = slurp_fd(fd, "the edge's key", TEXT_MAX, &text, &len, e);

	if (rc || !len) {
		slurp_free(text, len);
		if (!rc)
			*out = NULL;
		return rc;
	}
	rc = json_parse(text, len, TEXT_MAX, &o, e);
	slurp_free(text, len);
	if (rc == 0 && !(c = calloc(1, sizeof(*c))))
		rc = err_set(e, ERR_NOMEM, "no memory");
	if (rc == 0) {
		c->loop = loop;
		c->hub = h;
		c->ipc = ipc;
		rc = take_params(c, o, e);
	}
	if (rc == 0)
		rc = start(c, e);
	if (rc == 0)
		*out = c;
	else
		edge_client_destroy(c);
	json_decref(o);
	return rc;
}

static void edge_on_closed(uv_handle_t *h)
{
	free(h);
}

void edge_client_destroy(struct edge_client *c)
{
	if (!c)
		return;
	if (c->gone)
		*c->gone = true;
	kube_lookup_cancel(c->lookup);
	kube_http_cancel(c->exchange, 0);
	kube_http_destroy(c->http);
	if (c->timer)
		uv_close((uv_handle_t *)c->timer, edge_on_closed);
	kube_url_finish(&c->url);
	OPENSSL_cleanse(c->seed, sizeof(c->seed));
	free(c->address);
	free(c->ca);
	free(c);
}
