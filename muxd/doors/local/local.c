/* The local door: hub.sock, for muxctl and whoever is on this machine; its listener, and the turns of its connections.
 */
#define LOG_SUBSYS "local"
#include "muxd/doors/local/local.h"

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/msg.h"
#include "base/sock.h"
#include "muxd/doors/door.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENTS_MAX 1024
#define READ_CHUNK  (64 * 1024)

static void local_free_handle(uv_handle_t *h)
{
	free(h);
}

static int local_local_fill(struct local_conn *c)
{
	uint8_t *p;
	ssize_t n;

	if (buf_reserve(&c->in, READ_CHUNK, &p)) {
		c->reading_paused = true;
		return 0;
	}
	n = recv(c->fd, p, READ_CHUNK, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : ERR_EOF;
	if (n == 0) {
		c->eof = true;
		return c->state == LOCAL_ATTACHED ? 0 : ERR_EOF;
	}
	buf_commit(&c->in, (size_t)n);
	return 0;
}

/* Whole messages out of the buffer, as far as they can be taken now. */
static int take_messages(struct local_conn *c)
{
	struct err e = {0};
	json_t *o;
	struct msg m;
	size_t size;
	int rc = 0;

	/* While the hub works on the question what follows it only waits; reading on without room would be a busy loop.
	 */
	c->reading_paused = c->state == LOCAL_ASKED && buf_room(&c->in) < READ_CHUNK;
	while (c->state == LOCAL_OPEN && (rc = msg_next(&c->in, &m, &size)) == 1) {
		if (m.kind != 'J' || json_parse(m.payload, m.len, MSG_MAX, &o, &e)) {
			local_conn_error(c, ERR_PROTOCOL, &e);
			return 0;
		}
		buf_consume(&c->in, size);
		local_ask(c, o);
		json_decref(o);
	}
	if (c->state == LOCAL_ATTACHED)
		rc = local_take(c);
	return rc < 0 ? rc : 0;
}

static int local_flush(struct local_conn *c)
{
	while (buf_len(&c->out)) {
		ssize_t n = send(c->fd, buf_ptr(&c->out), buf_len(&c->out), MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : ERR_EOF;
		buf_consume(&c->out, (size_t)n);
	}
	return c->state == LOCAL_CLOSING ? ERR_EOF : 0;
}

/* One turn: at most one read, so that one client's flood is everybody else's next turn. */
static void local_on_event(uv_poll_t *p, int status, int events)
{
	struct local_conn *c = p->data;
	int rc = status < 0 ? ERR_EOF : 0;

	if (!rc && events & UV_READABLE && !c->reading_paused)
		rc = local_local_fill(c);
	if (!rc)
		rc = take_messages(c);
	if (!rc && events & UV_DISCONNECT && (c->eof || c->reading_paused || c->state == LOCAL_CLOSING))
		rc = ERR_EOF;
	if (!rc)
		rc = local_flush(c); /* makes room for what is pulled next */
	if (!rc && c->attachment) {
		local_pull(c);
		rc = local_flush(c);
	}
	if (rc)
		local_conn_destroy(c);
	else
		local_conn_update(c);
}

static void local_on_client(uv_poll_t *p, int status, int events)
{
	struct local_door *d = p->data;
	int fd;

	(void)events;
	if (status)
		return;
	fd = accept4(d->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return; /* taken back, or out of descriptors: the next event tries again */
	if (d->count >= CLIENTS_MAX || local_conn_create(d, fd)) {
		log_warn(NULL, "a client is turned away: %u are here", d->count);
		close(fd);
	}
}

int local_door_open(struct hub *h, int listen_fd, struct local_door **out, struct err *e)
{
	struct local_door *d = calloc(1, sizeof(*d));

	if (!d || !(d->poll = malloc(sizeof(*d->poll)))) {
		free(d);
		return err_set(e, ERR_NOMEM, "no memory for the local door");
	}
	d->hub = h;
	d->fd = listen_fd;
	d->on_event = local_on_event;
	TAILQ_INIT(&d->conns);
	if (sock_set_nonblock(listen_fd, 1) || uv_poll_init(hub_loop(h), d->poll, listen_fd)) {
		free(d->poll);
		free(d);
		return err_set(e, ERR_SYS, "the local door's socket cannot be watched");
	}
	d->poll->data = d;
	uv_poll_start(d->poll, UV_READABLE, local_on_client);
	*out = d;
	return 0;
}

void local_door_close(struct local_door *d)
{
	struct local_conn *c;

	if (!d)
		return;
	while ((c = TAILQ_FIRST(&d->conns)))
		local_conn_destroy(c);
	uv_close((uv_handle_t *)d->poll, local_free_handle);
	close(d->fd);
	free(d);
}
