#define LOG_SUBSYS "kube"
#include "control/kube/client/kube_creds.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/kube/client/kubeconfig.h"
#include "control/kube/client/lookup.h"
#include "control/kube/client/material.h"
#include "control/kube/client/plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define REREAD_MS          60000
#define LOOKUP_MS          30000
#define PLUGIN_DEADLINE_MS 60000
#define PLUGIN_REST_MS     5000
#define EXPIRY_MARGIN_NS   (5 * (int64_t)NS_PER_SEC)
#define ADDRESSES_SIZE     512
#define HOST_HEADER_SIZE   300

enum creds_state { CREDS_IDLE, CREDS_READING, CREDS_ASKING, CREDS_LOOKING, CREDS_CLOSING };

struct kube_creds {
	enum creds_state state;
	uv_loop_t *loop;
	struct kubeconfig *conf;
	struct kube_creds_limits limits;
	struct kube_asks asks; /* in the order they came */
	uint64_t round;
	uv_timer_t timer; /* the next step, on a turn of its own */
	int handles;      /* the timer and, while one is out, the pool's job */
	/* what there is, and since when (boot time; 0: never) */
	struct kube_material now;
	char addresses[ADDRESSES_SIZE];
	bool numeric; /* connect_host is an address */
	uint64_t read_ns, plugin_ns, lookup_ns;
	int64_t expires_wall_ns; /* of the plug-in's answer; 0: not said */
	bool reread, reask;      /* somebody was turned away with what there is */
	/* what is under way */
	uv_work_t job;
	struct kube_material job_result;
	struct err job_err;
	int job_rc;
	struct kube_plugin *plugin;
	struct kube_lookup *lookup;
	struct kube_endpoint view;
	char host_header[HOST_HEADER_SIZE];
};

static void kube_creds_step(struct kube_creds *c);
static void kube_creds_on_timer(uv_timer_t *t);

static void kube_creds_set_state(struct kube_creds *c, enum creds_state s)
{
	static const char *const names[] = {"idle", "reading", "asking", "looking", "closing"};

	if (c->state != s)
		log_debug(NULL, "credentials of %s: %s -> %s", c->conf->name, names[c->state], names[s]);
	c->state = s;
}

static void step_later(struct kube_creds *c)
{
	(void)uv_timer_start(&c->timer, kube_creds_on_timer, 0, 0);
}

static bool older(uint64_t since_ns, uint64_t ms)
{
	return since_ns == 0 || clock_boot_ns() - since_ns >= ms * NS_PER_MS;
}

/* --- the view */

static void show_material(struct kube_creds *c)
{
	struct kube_endpoint *v = &c->view;

	v->ca_pem = c->now.ca.data;
	v->ca_pem_len = c->now.ca.len;
	v->cert_pem = c->now.cert.data;
	v->cert_pem_len = c->now.cert.len;
	v->key_pem = c->now.key.data;
	v->key_pem_len = c->now.key.len;
	v->token = c->now.token.data;
	v->generation++;
}

static void show_server(struct kube_creds *c)
{
	const struct kubeconfig *k = c->conf;
	struct kube_endpoint *v = &c->view;
	bool v6 = strchr(k->url.host, ':') != NULL;

	text_format(c->host_header, sizeof(c->host_header), v6 ? "[%s]:%u" : "%s:%u", k->url.host, k->url.port);
	v->server = k->server;
	v->tls = strcmp(k->url.scheme, "https") == 0;
	v->host = k->url.host;
	v->port = k->url.port;
	v->host_header = c->host_header;
	v->base_path = k->url.path;
	v->tls_server_name = k->tls_server_name ? k->tls_server_name : k->url.host;
	v->insecure = k->insecure;
	v->proxy = k->proxy;
	v->connect_host = k->proxy ? k->proxy_url.host : k->url.host;
	v->connect_port = k->proxy ? k->proxy_url.port : k->url.port;
	v->addresses = c->addresses;
	c->numeric = kube_lookup_numeric(v->connect_host);
	if (c->numeric)
		text_put(c->addresses, sizeof(c->addresses), v->connect_host);
}

/* New bytes take the place of the old ones; m is taken over. */
static void use(struct kube_creds *c, struct kube_material *m)
{
	if (kube_material_equal(&c->now, m)) {
		kube_material_finish(m);
		return;
	}
	kube_material_finish(&c->now);
	c->now = *m;
	*m = (struct kube_material){0};
	show_material(c);
	log_debug(NULL, "credentials of %s: generation %llu", c->conf->name, (unsigned long long)c->view.generation);
}

/* --- answers */

/* Whoever asks inside its answer waits for the next round. */
static void kube_creds_answer(struct kube_creds *c, int rc, const struct err *e)
{
	uint64_t upto = c->round++;
	struct kube_ask *a;

	while ((a = TAILQ_FIRST(&c->asks)) && a->round <= upto) {
		kube_ask_cancel(a);
		a->done(a->arg, rc, e);
	}
}

static void kube_creds_fail(struct kube_creds *c, int rc, const struct err *e)
{
	kube_creds_set_state(c, CREDS_IDLE);
	kube_creds_answer(c, rc, e);
}

/* --- files */

static bool from_files(const struct kubeconfig *k)
{
	return k->ca.path || k->cert.path || k->key.path || k->token.path;
}

static void read_in_pool(uv_work_t *w)
{
	struct kube_creds *c = w->data;

	c->job_rc = kube_material_load(c->conf, &c->job_result, &c->job_err);
}

/* A token or certificate of the plug-in stays: files of such a user hold the CA alone. */
static int keep_plugins(struct kube_creds *c, struct kube_material *m)
{
	const struct kube_material *now = &c->now;
	int rc = 0;

	if (!c->conf->plugin)
		return 0;
	if (now->token.data)
		rc = kube_bytes_set(&m->token, now->token.data, now->token.len);
	if (rc == 0 && now->cert.data)
		rc = kube_bytes_set(&m->cert, now->cert.data, now->cert.len);
	if (rc == 0 && now->key.data)
		rc = kube_bytes_set(&m->key, now->key.data, now->key.len);
	return rc;
}

static void handle_closed(struct kube_creds *c)
{
	if (--c->handles > 0)
		return;
	kube_material_finish(&c->now);
	kube_material_finish(&c->job_result);
	kubeconfig_destroy(c->conf);
	free(c);
}

static void kube_creds_on_read(uv_work_t *w, int status)
{
	struct kube_creds *c = w->data;
	int rc = status < 0 ? ERR_CANCELLED : c->job_rc;

	if (c->state == CREDS_CLOSING) {
		handle_closed(c);
		return;
	}
	c->handles--;
	c->read_ns = clock_boot_ns();
	if (rc == 0)
		rc = keep_plugins(c, &c->job_result);
	if (rc == 0)
		use(c, &c->job_result);
	else
		log_warn(NULL, "credentials of %s stay as they are: %s", c->conf->name, c->job_err.message);
	kube_material_finish(&c->job_result);
	kube_creds_step(c);
}

static void start_reading(struct kube_creds *c)
{
	kube_creds_set_state(c, CREDS_READING);
	c->reread = false;
	c->job_err = (struct err){0};
	c->job.data = c;
	c->handles++;
	if (uv_queue_work(c->loop, &c->job, read_in_pool, kube_creds_on_read) < 0) {
		/* only without a callback, which we have */
		c->handles--;
		step_later(c);
	}
}

/* --- the plug-in */

static bool plugin_needed(const struct kube_creds *c)
{
	if (!c->conf->plugin)
		return false;
	if (c->plugin_ns == 0 || c->reask)
		return true;
	return c->expires_wall_ns != 0 && c->expires_wall_ns - EXPIRY_MARGIN_NS <= clock_wall_ns();
}

static void creds_take_text(struct kube_bytes *b, char **text)
{
	kube_bytes_finish(b);
	if (*text) {
		b->len = strlen(*text);
		b->data = *text;
		*text = NULL;
	}
}

static void kube_creds_on_plugin(void *arg, int rc, const struct err *e, struct kube_plugin_answer *a)
{
	struct kube_creds *c = arg;
	struct kube_material m = {0};

	c->plugin = NULL;
	if (rc == 0 && c->now.ca.data)
		rc = kube_bytes_set(&m.ca, c->now.ca.data, c->now.ca.len);
	if (rc < 0) {
		kube_creds_fail(c, rc, e);
		return;
	}
	creds_take_text(&m.token, &a->token);
	creds_take_text(&m.cert, &a->cert);
	creds_take_text(&m.key, &a->key);
	c->expires_wall_ns = a->expires_wall_ns;
	c->plugin_ns = clock_boot_ns();
	use(c, &m);
	/* an answer that has expired already is used once, not asked for in a circle */
	if (c->expires_wall_ns && c->expires_wall_ns - EXPIRY_MARGIN_NS <= clock_wall_ns()) {
		log_warn(NULL, "credential plug-in of %s: what it gave has expired already", c->conf->name);
		c->expires_wall_ns = 0;
	}
	kube_creds_step(c);
}

static void start_plugin(struct kube_creds *c)
{
	struct err e = {0};

	kube_creds_set_state(c, CREDS_ASKING);
	c->reask = false;
	int rc = kube_plugin_run(c->loop, c->conf, &c->now, c->limits.plugin_deadline_ms, kube_creds_on_plugin, c,
				 &c->plugin, &e);
	if (rc < 0)
		kube_creds_fail(c, rc, &e);
}

/* --- addresses */

static void kube_creds_on_lookup(void *arg, int rc, const struct err *e, const char *addresses)
{
	struct kube_creds *c = arg;
	struct err named = {0};

	c->lookup = NULL;
	c->lookup_ns = clock_boot_ns();
	if (rc == 0)
		text_put(c->addresses, sizeof(c->addresses), addresses);
	else if (*c->addresses)
		log_warn(NULL, "%s: %s; going on with %s", c->conf->server, e->message, c->addresses);
	if (rc == 0 || *c->addresses) {
		kube_creds_step(c);
		return;
	}
	c->lookup_ns = 0;
	err_set(&named, rc, "%s: %s", c->conf->server, e->message);
	kube_creds_fail(c, rc, &named);
}

static void start_lookup(struct kube_creds *c)
{
	struct err e = {0};

	kube_creds_set_state(c, CREDS_LOOKING);
	int rc = kube_lookup_start(c->loop, c->view.connect_host, kube_creds_on_lookup, c, &c->lookup, &e);
	if (rc < 0)
		kube_creds_fail(c, rc, &e);
}

/* --- the refresh */

static void kube_creds_step(struct kube_creds *c)
{
	if (from_files(c->conf) && (c->reread || older(c->read_ns, c->limits.reread_ms)))
		start_reading(c);
	else if (plugin_needed(c))
		start_plugin(c);
	else if (!c->numeric && older(c->lookup_ns, c->limits.lookup_ms))
		start_lookup(c);
	else {
		kube_creds_set_state(c, CREDS_IDLE);
		kube_creds_answer(c, 0, NULL);
	}
}

static void kube_creds_on_timer(uv_timer_t *t)
{
	struct kube_creds *c = t->data;

	if (c->state == CREDS_IDLE)
		kube_creds_step(c);
}

void kube_creds_ask(struct kube_creds *c, struct kube_ask *a, uint64_t rejected, kube_creds_done *done, void *arg)
{
	a->creds = c;
	a->done = done;
	a->arg = arg;
	a->round = c->round;
	TAILQ_INSERT_TAIL(&c->asks, a, entry);
	if (rejected && rejected == c->view.generation) {
		c->reread = true;
		c->reask |= c->conf->plugin && older(c->plugin_ns, c->limits.plugin_rest_ms);
	}
	if (c->state == CREDS_IDLE)
		step_later(c);
}

void kube_ask_cancel(struct kube_ask *a)
{
	if (!a->creds)
		return;
	TAILQ_REMOVE(&a->creds->asks, a, entry);
	a->creds = NULL;
}

const struct kube_endpoint *kube_creds_endpoint(const struct kube_creds *c)
{
	return &c->view;
}

const struct kubeconfig *kube_creds_config(const struct kube_creds *c)
{
	return c->conf;
}

/* --- life */

static uint64_t or_default(uint64_t ms, uint64_t otherwise)
{
	return ms ? ms : otherwise;
}

int kube_creds_create(struct uv_loop_s *loop, struct kubeconfig *k, const struct kube_creds_limits *limits,
		      struct kube_creds **out, struct err *e)
{
	struct kube_creds *c = calloc(1, sizeof(*c));
	int rc = c ? kube_material_load(k, &c->now, e) : err_set(e, ERR_NOMEM, "no memory for credentials");

	if (rc < 0) {
		free(c);
		return rc;
	}
	c->loop = loop;
	c->conf = k;
	c->limits = limits ? *limits : (struct kube_creds_limits){0};
	c->limits.reread_ms = or_default(c->limits.reread_ms, REREAD_MS);
	c->limits.lookup_ms = or_default(c->limits.lookup_ms, LOOKUP_MS);
	c->limits.plugin_deadline_ms = or_default(c->limits.plugin_deadline_ms, PLUGIN_DEADLINE_MS);
	c->limits.plugin_rest_ms = or_default(c->limits.plugin_rest_ms, PLUGIN_REST_MS);
	c->read_ns = clock_boot_ns();
	TAILQ_INIT(&c->asks);
	(void)uv_timer_init(loop, &c->timer);
	c->timer.data = c;
	c->handles = 1;
	show_server(c);
	show_material(c);
	*out = c;
	return 0;
}

static void kube_creds_on_timer_closed(uv_handle_t *h)
{
	handle_closed(h->data);
}

void kube_creds_destroy(struct kube_creds *c)
{
	struct err e;

	if (!c)
		return;
	kube_creds_set_state(c, CREDS_CLOSING);
	kube_plugin_cancel(c->plugin);
	kube_lookup_cancel(c->lookup);
	uv_close((uv_handle_t *)&c->timer, kube_creds_on_timer_closed);
	err_set(&e, ERR_CANCELLED, "the client of %s was closed", c->conf->server);
	kube_creds_answer(c, ERR_CANCELLED, &e);
}
