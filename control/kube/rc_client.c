#define LOG_SUBSYS "kube"
#include "control/kube/rc_client.h"

#include "control/kube/remotecommand.h"
#include "muxd/base/err.h"
#include "muxd/base/log.h"

#include <libwebsockets.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

#define CONNECTIONS_MAX 2048              /* at once; libwebsockets would take a table of as many as the ulimit says */
#define ANSWER_HEAD_MAX (16 * 1024)       /* of a 101 */
#define NEVER_S         (365 * 24 * 3600) /* libwebsockets' own timeouts: time is kept here */

static void lws_log(int level, const char *line)
{
	(void)level;
	log_debug(NULL, "libwebsockets: %.*s", (int)strcspn(line, "\r\n"), line);
}

/* --- turns */

static void on_turns(uv_idle_t *h)
{
	struct rc_client *c = h->data;

	/* what is queued meanwhile has its turn after the sockets had theirs */
	for (unsigned n = c->n_tasks; n > 0 && !TAILQ_EMPTY(&c->tasks); n--) {
		struct rc_task *t = TAILQ_FIRST(&c->tasks);

		rc_task_cancel(c, t);
		t->run(t->arg);
	}
	if (TAILQ_EMPTY(&c->tasks))
		uv_idle_stop(&c->turns);
}

void rc_task_queue(struct rc_client *c, struct rc_task *t)
{
	if (t->queued || c->closing)
		return;
	t->queued = true;
	TAILQ_INSERT_TAIL(&c->tasks, t, entry);
	c->n_tasks++;
	uv_idle_start(&c->turns, on_turns);
}

void rc_task_cancel(struct rc_client *c, struct rc_task *t)
{
	if (!t->queued)
		return;
	TAILQ_REMOVE(&c->tasks, t, entry);
	t->queued = false;
	c->n_tasks--;
}

/* --- what is shared */

X509_STORE *rc_client_trust(struct rc_client *c)
{
	if (!c->trust && (c->trust = X509_STORE_new()) && X509_STORE_set_default_paths(c->trust) != 1)
		log_warn(NULL, "what this system trusts cannot be read: %s", X509_get_default_cert_file());
	return c->trust;
}

int rc_client_vhost(struct rc_client *c, const char *proxy, struct lws_vhost **out, struct err *e)
{
	struct lws_context_creation_info info = {
	    .port = CONTEXT_PORT_NO_LISTEN,
	    .protocols = rc_ws_protocols(),
	    .options = LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT,
	    .provided_client_ssl_ctx = c->ssl,
	    .timeout_secs = NEVER_S,
	    .connect_timeout_secs = NEVER_S,
	};
	struct rc_vhost *v = &c->vhosts[c->n_vhosts];
	char name[16];

	for (unsigned i = 0; i < c->n_vhosts; i++)
		if (strcmp(c->vhosts[i].proxy, proxy ? proxy : "") == 0) {
			*out = c->vhosts[i].lws;
			return 0;
		}
	if (c->n_vhosts == RC_PROXIES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d different proxies", RC_PROXIES_MAX);
	snprintf(name, sizeof(name), "kube-%u", c->n_vhosts);
	info.vhost_name = name;
	v->proxy = strdup(proxy ? proxy : "");
	v->lws = v->proxy ? lws_create_vhost(c->lws, &info) : NULL;
	/* port 0: none, not even the one that libwebsockets finds in the environment */
	if (!v->lws || lws_set_proxy(v->lws, proxy ? proxy : "none:0")) {
		free(v->proxy);
		v->proxy = NULL;
		return err_set(e, ERR_INTERNAL, "libwebsockets could not make a virtual host");
	}
	c->n_vhosts++;
	*out = v->lws;
	return 0;
}

/* --- beginning and end */

static void free_client(struct rc_client *c)
{
	for (unsigned i = 0; i < RC_PROXIES_MAX; i++) {
		if (c->vhosts[i].proxy)
			explicit_bzero(c->vhosts[i].proxy, strlen(c->vhosts[i].proxy));
		free(c->vhosts[i].proxy);
	}
	X509_STORE_free(c->trust);
	SSL_CTX_free(c->ssl);
	BIO_meth_free(c->bio);
	free(c->scratch);
	free(c);
}

void rc_client_ref(struct rc_client *c)
{
	c->refs++;
}

void rc_client_unref(struct rc_client *c)
{
	if (--c->refs == 0)
		free_client(c);
}

static void on_turns_closed(uv_handle_t *h)
{
	rc_client_unref(h->data);
}

static int open_tls(struct rc_client *c, struct err *e)
{
	c->ssl = SSL_CTX_new(TLS_client_method());
	c->bio = rc_ws_bio_method();
	if (!c->ssl || !c->bio || SSL_CTX_set_min_proto_version(c->ssl, TLS1_2_VERSION) != 1)
		return err_set(e, ERR_NOMEM, "OpenSSL has no client context");
	SSL_CTX_set_mode(c->ssl, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_info_callback(c->ssl, rc_ws_ssl_info);
	SSL_CTX_set_app_data(c->ssl, c);
	return 0;
}

static int open_lws(struct rc_client *c, struct err *e)
{
	struct lws_context_creation_info info = {
	    .port = CONTEXT_PORT_NO_LISTEN,
	    .protocols = rc_ws_protocols(),
	    .options = LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT | LWS_SERVER_OPTION_EXPLICIT_VHOSTS,
	    .user = c,
	    .gid = (gid_t)-1,
	    .uid = (uid_t)-1,
	    .fd_limit_per_thread = CONNECTIONS_MAX,
	    .pt_serv_buf_size = RC_SERV_BUF,
	    .max_http_header_data2 = ANSWER_HEAD_MAX,
	    .timeout_secs = NEVER_S,
	    .connect_timeout_secs = NEVER_S,
	};
	struct lws_vhost *direct;

	lws_set_log_level(LLL_ERR | LLL_WARN, lws_log);
	c->lws = lws_create_context(&info);
	if (!c->lws)
		return err_set(e, ERR_INTERNAL, "libwebsockets could not start");
	return rc_client_vhost(c, NULL, &direct, e);
}

int rc_client_create(struct uv_loop_s *loop, struct rc_client **out, struct err *e)
{
	struct rc_client *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return err_set(e, ERR_NOMEM, "out of memory");
	c->loop = loop;
	TAILQ_INIT(&c->tasks);
	LIST_INIT(&c->streams);
	c->refs = 1;
	(void)uv_idle_init(loop, &c->turns); /* cannot fail */
	c->turns.data = c;
	c->scratch = malloc(LWS_PRE + RC_PIECE_MAX);
	rc = c->scratch ? open_tls(c, e) : err_set(e, ERR_NOMEM, "out of memory");
	if (rc == 0)
		rc = open_lws(c, e);
	if (rc)
		rc_client_destroy(c);
	else
		*out = c;
	return rc;
}

void rc_client_destroy(struct rc_client *c)
{
	if (!c || c->closing)
		return;
	while (!LIST_EMPTY(&c->streams))
		rc_stream_cancel(LIST_FIRST(&c->streams));
	c->closing = true;
	if (c->lws)
		lws_context_destroy(c->lws);
	c->lws = NULL;
	uv_close((uv_handle_t *)&c->turns, on_turns_closed);
}

unsigned rc_client_streams(const struct rc_client *c)
{
	return c->n_streams;
}
