#define LOG_SUBSYS "ipc"
#include "muxd/net/ipc.h"

#include "base/err.h"
#include "base/err_json.h"
#include "base/log.h"
#include "base/sock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>
#include <uv.h>

struct question {
	TAILQ_ENTRY(question) entry;
	json_int_t tag;
	ipc_answer *done;
	void *arg;
};

struct waiting {
	TAILQ_ENTRY(waiting) entry;
	json_t *what;
};

struct ipc {
	uv_poll_t *poll;
	int fd;
	const struct ipc_ops *ops;
	void *arg;
	json_int_t next_tag;
	TAILQ_HEAD(, question) asked;
	TAILQ_HEAD(, waiting) out; /* the socket was full */
	bool *gone;                /* set by ipc_destroy() from inside a callback */
};

static void ipc_on_event(uv_poll_t *p, int status, int events);

static void ipc_watch(struct ipc *c)
{
	uv_poll_start(c->poll, UV_READABLE | (TAILQ_EMPTY(&c->out) ? 0 : UV_WRITABLE), ipc_on_event);
}

int ipc_create(struct uv_loop_s *loop, int fd, const struct ipc_ops *ops, void *arg, struct ipc **out)
{
	struct ipc *c = calloc(1, sizeof(*c));
	int rc = ERR_NOMEM;

	if (!c || !(c->poll = malloc(sizeof(*c->poll))))
		goto fail;
	rc = sock_set_nonblock(fd, 1);
	if (!rc && uv_poll_init(loop, c->poll, fd))
		rc = ERR_SYS;
	if (rc)
		goto fail;
	c->fd = fd;
	c->ops = ops;
	c->arg = arg;
	c->poll->data = c;
	TAILQ_INIT(&c->asked);
	TAILQ_INIT(&c->out);
	ipc_watch(c);
	*out = c;
	return 0;
fail:
	if (c)
		free(c->poll);
	free(c);
	return rc;
}

static void ipc_free_handle(uv_handle_t *h)
{
	free(h);
}

static void cancel_all(struct ipc *c)
{
	struct question *q;
	struct err e = {0};

	err_set(&e, ERR_CANCELLED, "the daemon is stopping");
	while ((q = TAILQ_FIRST(&c->asked))) {
		TAILQ_REMOVE(&c->asked, q, entry);
		q->done(q->arg, ERR_CANCELLED, &e, NULL, -1);
		free(q);
	}
}

void ipc_destroy(struct ipc *c)
{
	struct waiting *w;

	if (!c)
		return;
	cancel_all(c);
	while ((w = TAILQ_FIRST(&c->out))) {
		TAILQ_REMOVE(&c->out, w, entry);
		json_decref(w->what);
		free(w);
	}
	if (c->gone)
		*c->gone = true;
	uv_poll_stop(c->poll);
	uv_close((uv_handle_t *)c->poll, ipc_free_handle);
	close(c->fd);
	free(c);
}

static void net_ipc_answer(struct ipc *c, json_int_t tag, const json_t *json, int fd)
{
	const json_t *error = json_object_get(json, "error");
	const char *text = json_string_value(json_object_get(error, "message"));
	const char *code = json_string_value(json_object_get(error, "code"));
	int rc = (int)json_integer_value(json_object_get(json, "rc"));
	struct question *q;
	struct err e = {0};

	TAILQ_FOREACH(q, &c->asked, entry)
	if (q->tag == tag)
		break;
	if (!q) {
		if (fd >= 0)
			close(fd);
		log_warn(NULL, "the monitor answered a question that nobody asked");
		return;
	}
	TAILQ_REMOVE(&c->asked, q, entry);
	if (rc && code && err_by_name(code))
		rc = err_by_name(code);
	if (rc) {
		err_set(&e, rc, "%s", text ? text : err_name(rc));
		err_share_take(error, &e);
	}
	q->done(q->arg, rc, rc ? &e : NULL, json, fd);
	free(q);
}

static void dispatch(struct ipc *c, const json_t *json, int *fds, size_t nfds)
{
	const char *op = json_string_value(json_object_get(json, "op"));
	const json_t *tag = json_object_get(json, "tag");

	if (op) {
		c->ops->told(c->arg, op, json, fds, nfds);
		return;
	}
	for (size_t i = 1; i < nfds; i++)
		close(fds[i]);
	if (json_is_integer(tag))
		net_ipc_answer(c, json_integer_value(tag), json, nfds ? fds[0] : -1);
	else if (nfds)
		close(fds[0]);
}

static void ipc_flush(struct ipc *c)
{
	struct waiting *w;

	while ((w = TAILQ_FIRST(&c->out))) {
		if (sock_send_packet(c->fd, w->what, NULL, 0, NULL) == ERR_AGAIN)
			break;
		TAILQ_REMOVE(&c->out, w, entry);
		json_decref(w->what);
		free(w);
	}
	ipc_watch(c);
}

static void ipc_on_event(uv_poll_t *p, int status, int events)
{
	struct ipc *c = p->data;
	int fds[SOCK_FDS_MAX], rc = 0;
	bool gone = false;
	json_t *json;
	size_t n;

	c->gone = &gone;
	if (!status && events & UV_WRITABLE)
		ipc_flush(c);
	for (int i = 0; i < 16 && !gone; i++) {
		struct err e = {0};

		n = SOCK_FDS_MAX;
		rc = status ? ERR_EOF : sock_recv_packet(c->fd, &json, fds, &n, &e);
		if (rc)
			break;
		dispatch(c, json, fds, n);
		json_decref(json);
	}
	if (gone)
		return;
	c->gone = NULL;
	if (rc && rc != ERR_AGAIN) {
		uv_poll_stop(c->poll);
		c->ops->closed(c->arg);
	}
}

int ipc_tell(struct ipc *c, json_t *what)
{
	struct waiting *w = NULL;
	int rc = what ? ERR_AGAIN : ERR_NOMEM;

	if (what && TAILQ_EMPTY(&c->out))
		rc = sock_send_packet(c->fd, what, NULL, 0, NULL);
	if (rc == ERR_AGAIN && (w = malloc(sizeof(*w)))) {
		w->what = json_incref(what);
		TAILQ_INSERT_TAIL(&c->out, w, entry);
		ipc_watch(c);
		rc = 0;
	}
	json_decref(what);
	return rc;
}

void ipc_ask(struct ipc *c, json_t *question, ipc_answer *done, void *arg)
{
	struct question *q = malloc(sizeof(*q));
	struct err e = {0};
	int rc = ERR_NOMEM;

	if (!q || !question)
		goto fail;
	q->tag = ++c->next_tag;
	q->done = done;
	q->arg = arg;
	json_object_set_new(question, "tag", json_integer(q->tag));
	rc = ipc_tell(c, question);
	question = NULL;
	/* A monitor that has died ends the daemon: the question waits for that, as those that it has not answered. */
	if (rc && rc != ERR_EOF)
		goto fail;
	TAILQ_INSERT_TAIL(&c->asked, q, entry);
	return;
fail:
	json_decref(question);
	free(q);
	err_set(&e, rc, "the monitor could not be asked: %s", err_name(rc));
	done(arg, rc, &e, NULL, -1);
}
