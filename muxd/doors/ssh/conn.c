/* A connection is made: its handles, its libssh session, and what a client may ask for on it. */
#define LOG_SUBSYS "ssh"
#include "muxd/doors/ssh/conn.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/doors/ssh/channel.h"
#include "muxd/doors/ssh/hostkey.h"
#include "muxd/hub/core/hub.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

#define PATIENCE 10
/* To log in, where there is no room but for people who are in. */
#define OVER_NS (20 * NS_PER_SEC)

/* What no server callback of libssh 0.10 covers: keyboard-interactive, forwarding, subsystems. 1: it refuses. */
static int conn_on_message(ssh_session s, ssh_message msg, void *arg)
{
	struct ssh_conn *c = arg;
	struct log_ids ids = {.peer = c->peer};

	(void)s;
	if (ssh_message_type(msg) == SSH_REQUEST_AUTH)
		return ssh_auth_message(c, msg) ? 0 : 1;
	if (ssh_message_type(msg) == SSH_REQUEST_CHANNEL_OPEN || ssh_message_type(msg) == SSH_REQUEST_GLOBAL)
		log_info(&ids, "forwarding refused (request %d, kind %d)", ssh_message_type(msg),
			 ssh_message_subtype(msg));
	return 1;
}

static ssh_channel conn_on_channel_open(ssh_session s, void *arg)
{
	struct ssh_conn *c = arg;

	(void)s;
	return c->state == SSH_CONN_OPEN && !c->doom[0] ? ssh_chan_create(c) : NULL;
}

/* libssh's half: the session, its keys and options, and the version line on its way. */
static int conn_start(struct ssh_conn *c, int fd)
{
	int rc;

	ssh_set_blocking(c->ssh, 0);
	if (ssh_hostkey_session(c->ssh, hub_conf(c->door->hub)->ssh_rekey_bytes) != 0)
		return ERR_INTERNAL;
	rc = ssh_bind_accept_fd(c->door->bind, c->ssh, fd);
	if (rc != SSH_OK) {
		if (ssh_get_fd(c->ssh) != fd)
			close(fd); /* it failed before it took the descriptor */
		return ERR_INTERNAL;
	}
	ssh_set_counters(c->ssh, &c->socket_count, &c->packet_count);
	c->callbacks.userdata = c;
	c->callbacks.channel_open_request_session_function = conn_on_channel_open;
	ssh_auth_begin(c);
	ssh_callbacks_init(&c->callbacks);
	ssh_set_server_callbacks(c->ssh, &c->callbacks);
	ssh_set_message_callback(c->ssh, conn_on_message, c);
	rc = ssh_handle_key_exchange(c->ssh);
	if (rc == SSH_ERROR || ssh_event_add_session(c->event, c->ssh) != SSH_OK)
		return ERR_INTERNAL;
	return 0;
}

static int conn_handles(struct ssh_conn *c, int fd)
{
	uv_loop_t *loop = c->door->loop;

	c->watch_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (c->watch_fd < 0)
		return ERR_SYS;
	if (uv_poll_init(loop, &c->watch, c->watch_fd) != 0) {
		close(c->watch_fd);
		return ERR_SYS;
	}
	uv_timer_init(loop, &c->timer);
	uv_timer_init(loop, &c->pause);
	uv_timer_init(loop, &c->nudge);
	c->watch.data = c->timer.data = c->pause.data = c->nudge.data = c;
	c->handles = 4;
	return 0;
}

static void conn_on_grace_end(uv_timer_t *h)
{
	struct ssh_conn *c = h->data;

	ssh_conn_enter(c);
	ssh_auth_timeout(c);
	ssh_conn_doom(c, "the login grace is over");
	ssh_conn_leave(c);
}

/* Ten failed log-ins of late are a person's; from there on each new connection from the address waits, 1 to 8 s. */
static uint64_t delay_ns(struct admit_place *place)
{
	uint32_t n = admit_failures(place, clock_boot_ns());

	return n < PATIENCE ? 0 : (n - PATIENCE + 1 > 8 ? 8 : n - PATIENCE + 1) * NS_PER_SEC;
}

int ssh_conn_create(struct ssh_door *d, int fd, struct admit_place *place, const char *peer)
{
	struct ssh_conn *c = calloc(1, sizeof(*c));
	uint64_t wait = delay_ns(place), grace = hub_conf(d->hub)->ssh_login_grace_ns;
	int one = 1, rc = ERR_NOMEM;

	if (!c)
		goto fail;
	c->door = d;
	c->place = place;
	admit_own(place, c);
	TAILQ_INIT(&c->chans);
	text_put(c->peer, sizeof(c->peer), peer);
	c->ssh = ssh_new();
	c->event = ssh_event_new();
	if (!c->ssh || !c->event)
		goto fail;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	rc = conn_handles(c, fd);
	if (rc)
		goto fail;
	TAILQ_INSERT_TAIL(&d->conns, c, link);
	d->nconns++;
	d->handles++;
	ssh_conn_enter(c);
	rc = conn_start(c, fd);
	if (rc)
		ssh_conn_doom(c, "it could not be set up: %s", ssh_get_error(c->ssh));
	if (admit_state(place) == ADMIT_OVER && grace > OVER_NS)
		grace = OVER_NS;
	uv_timer_start(&c->timer, conn_on_grace_end, (grace + NS_PER_MS - 1) / NS_PER_MS, 0);
	if (wait)
		ssh_conn_pause(c, wait);
	ssh_conn_leave(c);
	return 0;
fail:
	close(fd);
	if (c) {
		ssh_event_free(c->event);
		ssh_free(c->ssh);
	}
	free(c);
	admit_leave(place);
	return rc;
}
