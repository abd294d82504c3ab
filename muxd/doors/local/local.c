/* The local door's listener: hub.sock, for muxctl and whoever is on this machine. */
#define LOG_SUBSYS "local"
#include "muxd/doors/local/local.h"

#include "base/err.h"
#include "base/log.h"
#include "base/sock.h"
#include "muxd/doors/door.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENTS_MAX 1024

static void free_handle(uv_handle_t *h)
{
	free(h);
}

static void on_client(uv_poll_t *p, int status, int events)
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
	TAILQ_INIT(&d->conns);
	if (sock_set_nonblock(listen_fd, 1) || uv_poll_init(hub_loop(h), d->poll, listen_fd)) {
		free(d->poll);
		free(d);
		return err_set(e, ERR_SYS, "the local door's socket cannot be watched");
	}
	d->poll->data = d;
	uv_poll_start(d->poll, UV_READABLE, on_client);
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
	uv_close((uv_handle_t *)d->poll, free_handle);
	close(d->fd);
	free(d);
}
