#include "muxd/plain/exec.h"

#include "base/err.h"
#include "control/kube/client/endpoint.h"
#include "muxd/plain/peer.h"

#include <stdlib.h>

struct plain_exec {
	struct plain_peer *peer;
	struct kube_ask ask;
	struct rc_params params;
	struct script_words words;
	const struct rc_ops *ops;
	void *arg;
	struct rc_stream *rc;
	uint64_t generation; /* of the credentials that were shown */
	bool again;          /* a 401 was tried once more */
};

static void exec_on_creds(void *arg, int rc, const struct err *e);

static void exec_on_opened(void *arg, int version)
{
	struct plain_exec *x = arg;

	x->peer->version = version;
	if (x->ops->opened)
		x->ops->opened(x->arg, version);
}

static void exec_on_data(void *arg, int stream, const uint8_t *p, size_t n)
{
	struct plain_exec *x = arg;

	x->ops->data(x->arg, stream, p, n);
}

static void exec_on_writable(void *arg, size_t room)
{
	struct plain_exec *x = arg;

	if (x->ops->writable)
		x->ops->writable(x->arg, room);
}

static void exec_on_exited(void *arg, const struct rc_exit *end)
{
	struct plain_exec *x = arg;

	if (end->http_status == 401 && !x->again) {
		x->again = true;
		rc_close(x->rc);
		x->rc = NULL;
		kube_creds_ask(x->peer->creds, &x->ask, x->generation, exec_on_creds, x);
		return;
	}
	x->ops->exited(x->arg, end);
}

static const struct rc_ops exec_ops = {exec_on_opened, exec_on_data, exec_on_writable, exec_on_exited};

static void exec_refused(struct plain_exec *x, int rc, const struct err *e)
{
	struct rc_exit end = {.cause = RC_NOT_STARTED, .code = -1};

	if (e && e->code)
		end.err = *e;
	else
		err_set(&end.err, rc, "the exec could not be begun: %s", err_name(rc));
	x->ops->exited(x->arg, &end);
}

static void exec_on_creds(void *arg, int rc, const struct err *e)
{
	struct plain_exec *x = arg;
	const struct kube_endpoint *ep;
	struct err here = {0};

	if (rc) {
		exec_refused(x, rc, e);
		return;
	}
	ep = kube_creds_endpoint(x->peer->creds);
	x->generation = ep->generation;
	rc = rc_open(x->peer->rc, ep, &x->params, &exec_ops, x, &x->rc, &here);
	if (rc)
		exec_refused(x, rc, &here);
}

int plain_exec_start(struct plain_peer *peer, const struct rc_params *p, struct script_words *words,
		     const struct rc_ops *ops, void *arg, struct plain_exec **out)
{
	struct plain_exec *x = calloc(1, sizeof(*x));

	if (!x) {
		script_words_finish(words);
		return ERR_NOMEM;
	}
	x->peer = peer;
	x->words = *words;
	x->params = *p;
	x->params.ns = peer->ns;
	x->params.pod = peer->pod;
	x->params.container = p->container ? p->container : peer->container;
	x->params.argv = x->words.v;
	x->ops = ops;
	x->arg = arg;
	*out = x;
	kube_creds_ask(peer->creds, &x->ask, 0, exec_on_creds, x);
	return 0;
}

void plain_exec_close(struct plain_exec *x)
{
	if (!x)
		return;
	kube_ask_cancel(&x->ask);
	rc_close(x->rc);
	script_words_finish(&x->words);
	free(x);
}

int plain_exec_version(const struct plain_exec *x)
{
	return x->rc ? rc_version(x->rc) : 0;
}

void plain_exec_window(struct plain_exec *x, uint64_t until)
{
	x->params.window = until;
	if (x->rc)
		rc_window(x->rc, until);
}

size_t plain_exec_room(const struct plain_exec *x)
{
	return x->rc && rc_version(x->rc) ? rc_input_room(x->rc) : 0;
}

ssize_t plain_exec_input(struct plain_exec *x, const void *p, size_t n)
{
	return x->rc ? rc_input(x->rc, p, n) : 0;
}

int plain_exec_eof(struct plain_exec *x)
{
	return x->rc ? rc_input_eof(x->rc) : ERR_BAD_STATE;
}

void plain_exec_resize(struct plain_exec *x, uint16_t cols, uint16_t rows)
{
	x->params.cols = cols;
	x->params.rows = rows;
	if (x->rc)
		(void)rc_resize(x->rc, cols, rows);
}
