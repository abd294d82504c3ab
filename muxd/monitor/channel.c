#include "muxd/monitor/channel.h"

#include "base/err.h"
#include "base/sock.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PACKETS_PER_TURN 32 /* so that one peer does not hold the loop */

struct waiting {
	struct waiting *next;
	json_t *msg;
	int fds[SOCK_FDS_MAX];
	size_t nfds;
};

struct channel {
	uv_poll_t poll;
	int fd;
	const struct channel_ops *ops;
	void *arg;
	struct waiting *first, **last;
	size_t queued;
	bool closed;    /* told, or being told */
	bool destroyed; /* by its owner; freed when libuv lets go */
	int depth;      /* callbacks running */
};

static void waiting_free(struct waiting *w)
{
	for (size_t i = 0; i < w->nfds; i++)
		close(w->fds[i]);
	json_decref(w->msg);
	free(w);
}

static void drop_queue(struct channel *c)
{
	while (c->first) {
		struct waiting *w = c->first;

		c->first = w->next;
		waiting_free(w);
	}
	c->last = &c->first;
	c->queued = 0;
}

static void channel_on_handle_closed(uv_handle_t *h)
{
	struct channel *c = h->data;

	close(c->fd);
	free(c);
}

static void monitor_channel_release(struct channel *c)
{
	if (c->destroyed && c->depth == 0)
		uv_close((uv_handle_t *)&c->poll, channel_on_handle_closed);
}

static void channel_fail(struct channel *c, const struct err *why)
{
	if (c->closed || c->destroyed)
		return;
	c->closed = true;
	uv_poll_stop(&c->poll);
	drop_queue(c);
	c->ops->closed(c->arg, why);
}

static void channel_on_poll(uv_poll_t *h, int status, int events);

static void update_interest(struct channel *c)
{
	if (!c->closed && !c->destroyed)
		uv_poll_start(&c->poll, UV_READABLE | (c->first ? UV_WRITABLE : 0), channel_on_poll);
}

static void channel_flush(struct channel *c)
{
	struct err e = {0};

	while (c->first) {
		struct waiting *w = c->first;
		int rc = sock_send_packet(c->fd, w->msg, w->fds, w->nfds, &e);

		if (rc == ERR_AGAIN)
			return;
		c->first = w->next;
		if (!c->first)
			c->last = &c->first;
		c->queued--;
		waiting_free(w);
		if (rc) {
			channel_fail(c, &e);
			return;
		}
	}
}

static void receive_one(struct channel *c, bool *out_more)
{
	int fds[SOCK_FDS_MAX];
	size_t nfds = SOCK_FDS_MAX;
	json_t *msg = NULL;
	struct err e = {0};
	int rc = sock_recv_packet(c->fd, &msg, fds, &nfds, &e);

	*out_more = false;
	if (rc == ERR_AGAIN)
		return;
	for (size_t i = 0; rc == 0 && i < nfds; i++)
		close(fds[i]);
	if (rc == 0 && !json_is_object(msg))
		rc = err_set(&e, ERR_PROTOCOL, "a packet that is no object");
	if (rc == 0) {
		c->ops->packet(c->arg, msg);
		*out_more = true;
	} else {
		channel_fail(c, &e);
	}
	json_decref(msg);
}

static void channel_on_poll(uv_poll_t *h, int status, int events)
{
	struct channel *c = h->data;
	bool more = true;

	c->depth++;
	if (status < 0) {
		/* The descriptor itself is at fault; reading says how. */
		events |= UV_READABLE;
	}
	if ((events & UV_WRITABLE) && !c->closed)
		channel_flush(c);
	for (int i = 0; (events & UV_READABLE) && i < PACKETS_PER_TURN && more && !c->closed && !c->destroyed; i++)
		receive_one(c, &more);
	if (status < 0 && !c->closed && !c->destroyed) {
		struct err e = {0};

		err_set(&e, ERR_SYS, "polling failed: %s", uv_strerror(status));
		channel_fail(c, &e);
	}
	update_interest(c);
	c->depth--;
	monitor_channel_release(c);
}

int channel_create(uv_loop_t *loop, int fd, const struct channel_ops *ops, void *arg, struct channel **out,
		   struct err *e)
{
	struct channel *c = calloc(1, sizeof *c);

	if (!c || sock_set_nonblock(fd, 1) || uv_poll_init(loop, &c->poll, fd)) {
		close(fd);
		free(c);
		return err_set(e, ERR_SYS, "a conversation could not be set up");
	}
	c->fd = fd;
	c->ops = ops;
	c->arg = arg;
	c->last = &c->first;
	c->poll.data = c;
	update_interest(c);
	*out = c;
	return 0;
}

void channel_destroy(struct channel *c)
{
	if (!c || c->destroyed)
		return;
	c->destroyed = true;
	drop_queue(c);
	uv_poll_stop(&c->poll);
	monitor_channel_release(c);
}

static int enqueue(struct channel *c, const json_t *msg, const int *fds, size_t nfds)
{
	struct waiting *w = calloc(1, sizeof *w);

	if (!w)
		return ERR_NOMEM;
	w->msg = json_deep_copy(msg);
	for (size_t i = 0; w->msg && i < nfds; i++) {
		w->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
		if (w->fds[i] < 0)
			break;
		w->nfds++;
	}
	if (!w->msg || w->nfds < nfds) {
		waiting_free(w);
		return ERR_NOMEM;
	}
	*c->last = w;
	c->last = &w->next;
	c->queued++;
	return 0;
}

int channel_send(struct channel *c, const json_t *msg, const int *fds, size_t nfds)
{
	int rc = ERR_AGAIN;

	if (c->closed || c->destroyed)
		return ERR_EOF;
	if (nfds > SOCK_FDS_MAX)
		return ERR_INVAL;
	if (!c->first)
		rc = sock_send_packet(c->fd, msg, fds, nfds, NULL);
	if (rc != ERR_AGAIN)
		return rc;
	if (c->queued >= c->ops->queue_max)
		return ERR_LIMIT;
	rc = enqueue(c, msg, fds, nfds);
	update_interest(c);
	return rc;
}
