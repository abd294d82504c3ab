#define LOG_SUBSYS "ssh"
#include "muxd/doors/ssh/conn.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/doors/ssh/channel.h"
#include "muxd/doors/ssh/hostkey.h"
#include "muxd/hub/hub.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What libssh reads at once, and how often it may in one turn. */
#define READ_SIZE    4096
#define READS_A_TURN 16
/* Replies a client asks for and does not read; past this nothing more is read from it. */
#define UNSENT_MAX (512 * 1024)
/* Frame, padding and tag of one packet, at most. */
#define PACKET_OVERHEAD 64
#define FLUSH_NS        (5 * NS_PER_SEC)
#define PATIENCE        10
/* To log in, where there is no room but for people who are in. */
#define OVER_NS (20 * NS_PER_SEC)

static const char *const state_names[] = {"login", "open", "flushing", "closed"};

static void conn_set_state(struct ssh_conn *c, enum ssh_conn_state to)
{
	struct log_ids ids = {.peer = c->peer};

	log_debug(&ids, "connection: %s -> %s", state_names[c->state], state_names[to]);
	c->state = to;
}

static uint64_t ms(uint64_t ns)
{
	return (ns + NS_PER_MS - 1) / NS_PER_MS;
}

void ssh_conn_doom(struct ssh_conn *c, const char *fmt, ...)
{
	va_list ap;

	if (c->doom[0])
		return;
	va_start(ap, fmt);
	text_vformat(c->doom, sizeof(c->doom), fmt, ap);
	va_end(ap);
}

bool ssh_conn_clogged(const struct ssh_conn *c)
{
	return (ssh_get_status(c->ssh) & SSH_WRITE_PENDING) != 0;
}

/* An upper bound of what libssh holds for the socket: everything it sealed since it last held nothing. */
static uint64_t conn_unsent(struct ssh_conn *c)
{
	if (!ssh_conn_clogged(c)) {
		c->drained_bytes = c->packet_count.out_bytes;
		c->drained_packets = c->packet_count.out_packets;
	}
	return c->packet_count.out_bytes - c->drained_bytes +
	       (c->packet_count.out_packets - c->drained_packets) * PACKET_OVERHEAD;
}

static void on_socket(uv_poll_t *h, int status, int events);
static void on_timer(uv_timer_t *h);

static void conn_watch(struct ssh_conn *c)
{
	int events = 0;

	if (!c->paused && conn_unsent(c) < UNSENT_MAX)
		events |= UV_READABLE;
	if (ssh_conn_clogged(c) && (!c->paused || c->state == SSH_CONN_FLUSHING))
		events |= UV_WRITABLE;
	if (!(events & UV_READABLE))
		events |= UV_DISCONNECT;
	if (events != c->watched && uv_poll_start(&c->watch, events, on_socket) == 0)
		c->watched = events;
}

static bool conn_broken(const struct ssh_conn *c)
{
	return (ssh_get_status(c->ssh) & (SSH_CLOSED | SSH_CLOSED_ERROR)) || !ssh_is_connected(c->ssh);
}

/* One slice of every channel, from another one on each time. True: some could go on at once. */
static bool conn_pump(struct ssh_conn *c)
{
	struct ssh_chan *ch, *next, *first = TAILQ_FIRST(&c->chans);
	bool more = false;

	for (ch = first; ch && !conn_broken(c); ch = next) {
		next = TAILQ_NEXT(ch, link);
		if (ssh_chan_pump(ch))
			more = true;
		if (ssh_chan_reap(ch) && ch == first)
			first = NULL;
	}
	if (more && first) {
		TAILQ_REMOVE(&c->chans, first, link);
		TAILQ_INSERT_TAIL(&c->chans, first, link);
	}
	return more;
}

/*
 * The answer to a refused log-in has to be out before the pause begins. Looking at
 * the socket reads as well, but a client that waits for its answer has sent nothing.
 */
static void conn_flush_before_pause(struct ssh_conn *c)
{
	for (int i = 0; i < 2 && ssh_conn_clogged(c) && !conn_broken(c); i++)
		ssh_event_dopoll(c->event, 0);
}

/* Doomed: the last words go out, for a while, then the end. */
static void conn_drown(struct ssh_conn *c)
{
	uv_timer_stop(&c->pause);
	c->paused = true; /* nothing it says counts any more */
	if (c->state == SSH_CONN_FLUSHING)
		return;
	conn_set_state(c, SSH_CONN_FLUSHING);
	uv_timer_start(&c->timer, on_timer, ms(FLUSH_NS), 0);
}

static void conn_settle(struct ssh_conn *c)
{
	bool more = false;

	c->depth++;
	c->again = false;
	if (!c->doom[0] && !conn_broken(c))
		more = conn_pump(c);
	if (c->paused)
		conn_flush_before_pause(c);
	c->depth--;
	if (c->last && TAILQ_EMPTY(&c->chans))
		ssh_conn_doom(c, "the grant has ended");
	if (c->doom[0])
		conn_drown(c);
	if (conn_broken(c)) {
		ssh_conn_destroy(c, c->doom[0] ? c->doom : ssh_get_error(c->ssh));
		return;
	}
	if (c->state == SSH_CONN_FLUSHING && !ssh_conn_clogged(c) && (c->doom[0] || TAILQ_EMPTY(&c->chans))) {
		ssh_conn_destroy(c, c->doom[0] ? c->doom : "told to end");
		return;
	}
	conn_watch(c);
	if (more || c->again)
		ssh_door_busy(c->door, c);
}

void ssh_conn_enter(struct ssh_conn *c)
{
	c->depth++;
}

void ssh_conn_leave(struct ssh_conn *c)
{
	c->again = true;
	if (--c->depth == 0 && c->state != SSH_CONN_CLOSED)
		conn_settle(c);
}

static void on_socket(uv_poll_t *h, int status, int events)
{
	struct ssh_conn *c = h->data;

	ssh_conn_enter(c);
	if (status < 0 || ((events & UV_DISCONNECT) && !(c->watched & UV_READABLE)))
		ssh_conn_doom(c, "the client left");
	for (int i = 0; i < READS_A_TURN && status >= 0; i++) {
		uint64_t before = c->socket_count.in_bytes;

		/* Less than a whole read: the socket was empty, and looking again would cost a key stroke's time. */
		if (ssh_event_dopoll(c->event, 0) == SSH_ERROR || c->socket_count.in_bytes - before < READ_SIZE ||
		    c->paused || c->doom[0])
			break;
	}
	ssh_conn_leave(c);
}

static void on_keepalive(struct ssh_conn *c)
{
	const struct conf *conf = hub_conf(c->door->hub);
	uint64_t now = uv_now(c->door->loop) * NS_PER_MS;

	if (c->socket_count.in_bytes != c->heard_bytes) {
		c->heard_bytes = c->socket_count.in_bytes;
		c->heard_ns = now;
	} else if (now - c->heard_ns > conf->ssh_keepalive_ns * (conf->ssh_keepalive_max + 1)) {
		ssh_conn_doom(c, "no answer to %u keepalives", conf->ssh_keepalive_max);
		return;
	}
	/* Every second call sends; the ones between take the answer in. */
	ssh_send_keepalive(c->ssh);
}

static void on_timer(uv_timer_t *h)
{
	struct ssh_conn *c = h->data;

	if (c->state == SSH_CONN_FLUSHING) {
		ssh_conn_destroy(c, c->doom[0] ? c->doom : "it did not read its last words");
		return;
	}
	ssh_conn_enter(c);
	if (c->state == SSH_CONN_LOGIN) {
		ssh_auth_timeout(c);
		ssh_conn_doom(c, "the login grace is over");
	} else {
		on_keepalive(c);
	}
	ssh_conn_leave(c);
}

static void on_nudge(uv_timer_t *h)
{
	ssh_conn_enter(h->data);
	ssh_conn_leave(h->data);
}

void ssh_conn_nudge(struct ssh_conn *c, uint64_t ns)
{
	if (!uv_is_active((uv_handle_t *)&c->nudge))
		uv_timer_start(&c->nudge, on_nudge, ms(ns), 0);
}

static void on_pause_end(uv_timer_t *h)
{
	ssh_conn_resume(h->data);
}

void ssh_conn_pause(struct ssh_conn *c, uint64_t ns)
{
	c->paused = true;
	if (ns)
		uv_timer_start(&c->pause, on_pause_end, ms(ns), 0);
}

void ssh_conn_resume(struct ssh_conn *c)
{
	ssh_conn_enter(c);
	if (c->state != SSH_CONN_FLUSHING)
		c->paused = false;
	ssh_conn_leave(c);
}

/* From now on with the times of the configuration as it is. */
static void keepalive_begin(struct ssh_conn *c)
{
	uint64_t every = ms(hub_conf(c->door->hub)->ssh_keepalive_ns) / 2;

	uv_timer_stop(&c->timer);
	c->heard_ns = uv_now(c->door->loop) * NS_PER_MS;
	if (every)
		uv_timer_start(&c->timer, on_timer, every, every);
}

void ssh_conn_sweep(struct ssh_conn *c)
{
	const struct grant *g = &c->auth.request.grant;

	if (c->state != SSH_CONN_OPEN || broker_grant_valid(c->door->hub, &g->id, g->expires_ns))
		return;
	admit_out(c->place, clock_boot_ns());
	if (TAILQ_EMPTY(&c->chans))
		ssh_conn_finish(c, "the grant has ended");
}

void ssh_conn_reload(struct ssh_conn *c)
{
	if (c->state == SSH_CONN_OPEN)
		keepalive_begin(c);
}

void ssh_conn_opened(struct ssh_conn *c)
{
	struct log_ids ids = {.peer = c->peer, .agent = c->auth.login.agent};

	log_info(&ids, "%s logged in", c->auth.request.grant.principal);
	conn_set_state(c, SSH_CONN_OPEN);
	uv_timer_stop(&c->pause);
	c->paused = false;
	keepalive_begin(c);
}

void ssh_conn_finish(struct ssh_conn *c, const char *why)
{
	struct ssh_chan *ch;

	ssh_conn_enter(c);
	TAILQ_FOREACH(ch, &c->chans, link)
	ssh_chan_refuse(ch, "%s", why);
	if (c->state != SSH_CONN_FLUSHING) {
		conn_set_state(c, SSH_CONN_FLUSHING);
		uv_timer_stop(&c->timer);
		uv_timer_start(&c->timer, on_timer, ms(FLUSH_NS), 0);
	}
	ssh_conn_leave(c);
}

/* What no server callback of libssh 0.10 covers: keyboard-interactive, forwarding, subsystems. 1: it refuses. */
static int on_message(ssh_session s, ssh_message msg, void *arg)
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

static ssh_channel on_channel_open(ssh_session s, void *arg)
{
	struct ssh_conn *c = arg;

	(void)s;
	return c->state == SSH_CONN_OPEN && !c->doom[0] ? ssh_chan_create(c) : NULL;
}

static void on_closed(uv_handle_t *h)
{
	struct ssh_conn *c = h->data;
	struct ssh_door *d = c->door;

	if (--c->handles > 0)
		return;
	close(c->watch_fd);
	OPENSSL_cleanse(&c->auth, sizeof(c->auth));
	free(c);
	ssh_door_released(d);
}

void ssh_conn_destroy(struct ssh_conn *c, const char *why)
{
	struct log_ids ids = {.peer = c->peer, .agent = c->auth.login.agent[0] ? c->auth.login.agent : NULL};
	struct ssh_door *d = c->door;
	struct ssh_chan *ch;

	log_info(&ids, "connection ended: %s", why);
	broker_client_gone(d->hub, "ssh", c->peer);
	conn_set_state(c, SSH_CONN_CLOSED);
	ssh_auth_end(c);
	while ((ch = TAILQ_FIRST(&c->chans))) {
		TAILQ_REMOVE(&c->chans, ch, link);
		ssh_chan_abandon(ch);
	}
	uv_poll_stop(&c->watch);
	if (ssh_is_connected(c->ssh)) {
		ssh_session_set_disconnect_message(c->ssh, why);
		ssh_disconnect(c->ssh);
	}
	ssh_event_remove_session(c->event, c->ssh);
	ssh_event_free(c->event);
	ssh_free(c->ssh);
	admit_leave(c->place);
	ssh_door_idle(d, c);
	TAILQ_REMOVE(&d->conns, c, link);
	d->nconns--;
	uv_close((uv_handle_t *)&c->watch, on_closed);
	uv_close((uv_handle_t *)&c->timer, on_closed);
	uv_close((uv_handle_t *)&c->pause, on_closed);
	uv_close((uv_handle_t *)&c->nudge, on_closed);
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
	c->callbacks.channel_open_request_session_function = on_channel_open;
	ssh_auth_begin(c);
	ssh_callbacks_init(&c->callbacks);
	ssh_set_server_callbacks(c->ssh, &c->callbacks);
	ssh_set_message_callback(c->ssh, on_message, c);
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
	uv_timer_start(&c->timer, on_timer, ms(grace), 0);
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
