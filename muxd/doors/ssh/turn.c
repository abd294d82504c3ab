/* The turns of a connection: each way in, the settling that follows, and the end of it. */
#define LOG_SUBSYS "ssh"
#include "muxd/doors/ssh/conn.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "muxd/doors/ssh/channel.h"
#include "muxd/hub/core/hub.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <unistd.h>

/* What libssh reads at once, and how often it may in one turn. */
#define READ_SIZE    4096
#define READS_A_TURN 16
/* Replies a client asks for and does not read; past this nothing more is read from it. */
#define UNSENT_MAX (512 * 1024)
/* Frame, padding and tag of one packet, at most. */
#define PACKET_OVERHEAD 64
#define FLUSH_NS        (5 * NS_PER_SEC)

static uint64_t ms(uint64_t ns)
{
	return (ns + NS_PER_MS - 1) / NS_PER_MS;
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

static void turn_on_socket(uv_poll_t *h, int status, int events);
static void turn_on_nudge(uv_timer_t *h);
static void turn_on_turn(uv_idle_t *h);

static void conn_watch(struct ssh_conn *c)
{
	int events = 0;

	if (!c->paused && conn_unsent(c) < UNSENT_MAX)
		events |= UV_READABLE;
	if (ssh_conn_clogged(c) && (!c->paused || c->state == SSH_CONN_FLUSHING))
		events |= UV_WRITABLE;
	if (!(events & UV_READABLE))
		events |= UV_DISCONNECT;
	if (events != c->watched && uv_poll_start(&c->watch, events, turn_on_socket) == 0)
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

static void turn_on_patience_end(uv_timer_t *h)
{
	struct ssh_conn *c = h->data;

	ssh_conn_destroy(c, c->doom[0] ? c->doom : "it did not read its last words");
}

/* The last words are on their way; they get a while. */
static void conn_flush(struct ssh_conn *c)
{
	if (c->state == SSH_CONN_FLUSHING)
		return;
	ssh_conn_set_state(c, SSH_CONN_FLUSHING);
	uv_timer_start(&c->timer, turn_on_patience_end, ms(FLUSH_NS), 0);
}

/* Doomed: the last words go out, for a while, then the end. */
static void conn_drown(struct ssh_conn *c)
{
	uv_timer_stop(&c->pause);
	c->paused = true; /* nothing it says counts any more */
	conn_flush(c);
}

static void conn_busy(struct ssh_conn *c)
{
	struct ssh_door *d = c->door;

	if (c->busy)
		return;
	c->busy = true;
	d->nbusy++;
	TAILQ_INSERT_TAIL(&d->busy, c, busy_link);
	uv_idle_start(&d->turn, turn_on_turn);
}

static void conn_idle(struct ssh_conn *c)
{
	if (!c->busy)
		return;
	c->busy = false;
	c->door->nbusy--;
	TAILQ_REMOVE(&c->door->busy, c, busy_link);
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
	if (c->nudge_ns && !uv_is_active((uv_handle_t *)&c->nudge))
		uv_timer_start(&c->nudge, turn_on_nudge, ms(c->nudge_ns), 0);
	c->nudge_ns = 0;
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
		conn_busy(c);
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

static void turn_on_nudge(uv_timer_t *h)
{
	ssh_conn_enter(h->data);
	ssh_conn_leave(h->data);
}

/* One slice for each that had more to write when this turn began. */
static void turn_on_turn(uv_idle_t *h)
{
	struct ssh_door *d = h->data;
	struct ssh_conn *c;

	for (size_t n = d->nbusy; n > 0 && (c = TAILQ_FIRST(&d->busy)); n--) {
		conn_idle(c);
		ssh_conn_enter(c);
		ssh_conn_leave(c);
	}
	if (TAILQ_EMPTY(&d->busy))
		uv_idle_stop(&d->turn);
}

static void turn_on_socket(uv_poll_t *h, int status, int events)
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

static void keepalive(struct ssh_conn *c)
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

static void turn_on_keepalive(uv_timer_t *h)
{
	ssh_conn_enter(h->data);
	keepalive(h->data);
	ssh_conn_leave(h->data);
}

static void turn_on_pause_end(uv_timer_t *h)
{
	ssh_conn_resume(h->data);
}

void ssh_conn_pause(struct ssh_conn *c, uint64_t ns)
{
	c->paused = true;
	if (ns)
		uv_timer_start(&c->pause, turn_on_pause_end, ms(ns), 0);
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
		uv_timer_start(&c->timer, turn_on_keepalive, every, every);
}

void ssh_conn_sweep(struct ssh_conn *c)
{
	struct grant_line grant;

	if (c->state != SSH_CONN_OPEN)
		return;
	grant = grant_line(request_kept_grant(c->auth.in));
	if (broker_grant_check(c->door->hub, &grant, NULL) == 0)
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

	log_info(&ids, "%s logged in", request_kept_grant(c->auth.in)->principal);
	ssh_conn_set_state(c, SSH_CONN_OPEN);
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
	conn_flush(c);
	ssh_conn_leave(c);
}

static void turn_on_closed(uv_handle_t *h)
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
	hub_client_gone(d->hub, "ssh", c->peer);
	ssh_conn_set_state(c, SSH_CONN_CLOSED);
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
	request_let_go(c->auth.in); /* no callback of libssh comes any more */
	admit_leave(c->place);
	conn_idle(c);
	TAILQ_REMOVE(&d->conns, c, link);
	d->nconns--;
	uv_close((uv_handle_t *)&c->watch, turn_on_closed);
	uv_close((uv_handle_t *)&c->timer, turn_on_closed);
	uv_close((uv_handle_t *)&c->pause, turn_on_closed);
	uv_close((uv_handle_t *)&c->nudge, turn_on_closed);
}
