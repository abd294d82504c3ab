#define LOG_SUBSYS "kube"
#include "control/kube/exec/rc_client.h"

#include "base/err.h"
#include "base/log.h"
#include "base/wsframe.h"
#include "control/kube/exec/rc_tls.h"
#include "control/kube/exec/remotecommand.h"

#include <openssl/ssl.h>
#include <stdlib.h>

/* --- turns */

static void rc_client_on_turns(uv_idle_t *h)
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
	uv_idle_start(&c->turns, rc_client_on_turns);
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

/* --- beginning and end */

static void free_client(struct rc_client *c)
{
	X509_STORE_free(c->trust);
	SSL_CTX_free(c->ssl);
	BIO_free(c->tls_out);
	free(c->in);
	free(c->out);
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

static void rc_client_on_turns_closed(uv_handle_t *h)
{
	rc_client_unref(h->data);
}

int rc_client_create(struct uv_loop_s *loop, struct rc_client **out, struct err *e)
{
	struct rc_client *c = calloc(1, sizeof(*c));

	if (!c)
		return err_set(e, ERR_NOMEM, "out of memory");
	c->loop = loop;
	TAILQ_INIT(&c->tasks);
	LIST_INIT(&c->streams);
	c->refs = 1;
	c->in = malloc(RC_READ);
	c->out = malloc(WSFRAME_HEAD_MAX + RC_MESSAGE_MAX);
	c->ssl = rc_tls_context();
	c->tls_out = BIO_new(BIO_s_mem());
	if (!c->in || !c->out || !c->ssl || !c->tls_out) {
		free_client(c);
		return err_set(e, ERR_NOMEM, "out of memory");
	}
	(void)uv_idle_init(loop, &c->turns); /* cannot fail */
	c->turns.data = c;
	*out = c;
	return 0;
}

void rc_client_close(struct rc_client *c)
{
	c->closing = true;
	uv_close((uv_handle_t *)&c->turns, rc_client_on_turns_closed);
}

unsigned rc_client_streams(const struct rc_client *c)
{
	return c->n_streams;
}
