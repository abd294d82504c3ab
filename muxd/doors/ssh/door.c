/* The SSH door: its listener, who is let in, and the end of it. */
#define LOG_SUBSYS "ssh"
#include "muxd/doors/door.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/sock.h"
#include "base/tick.h"
#include "muxd/doors/ssh/conn.h"
#include "muxd/doors/ssh/hostkey.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/core/hub.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A key exchange costs the loop a millisecond or two: this many begin in one turn. */
#define ACCEPTS_A_TURN 4
#define RETRY_MS       200
#define SWEEP_MS       1000

static const char *const state_names[] = {"open", "waiting", "closed"};

static void door_on_listener(uv_poll_t *h, int status, int events);
static void door_on_retry(uv_timer_t *h);

static void door_set_state(struct ssh_door *d, enum ssh_door_state to)
{
	if (to != d->state)
		log_debug(NULL, "door: %s -> %s", state_names[d->state], state_names[to]);
	d->state = to;
	if (to == SSH_DOOR_OPEN)
		uv_poll_start(&d->listener, UV_READABLE, door_on_listener);
	else
		uv_poll_stop(&d->listener);
}

static void put_be32(uint8_t *p, uint32_t v)
{
	v = htonl(v);
	memcpy(p, &v, sizeof(v));
}

/* The version, and SSH_MSG_DISCONNECT (RFC 4253, 11.1) in a packet as it is before keys are made; its length. */
static size_t say_goodbye(const char *text, uint8_t out[512])
{
	static const char version[] = "SSH-2.0-muxd\r\n";
	size_t at = sizeof(version) - 1, n = strlen(text), payload = 1 + 4 + 4 + n + 4, pad = 16 - (5 + payload) % 8;
	uint8_t *p = out + at;

	memset(out, 0, 512);
	memcpy(out, version, at);
	put_be32(p, (uint32_t)(1 + payload + pad));
	p[4] = (uint8_t)pad;
	p[5] = 1;            /* SSH_MSG_DISCONNECT */
	put_be32(p + 6, 12); /* TOO_MANY_CONNECTIONS */
	put_be32(p + 10, (uint32_t)n);
	memcpy(p + 14, text, n);
	return at + 5 + payload + pad;
}

static void parting_add(struct ssh_parting *p, int fd)
{
	int *at = &p->fds[p->next++ % (sizeof(p->fds) / sizeof(p->fds[0]))];

	if (*at)
		close(*at);
	*at = fd;
}

static void turn_away(struct ssh_door *d, int fd, const char *peer, int code, const char *text)
{
	struct log_ids ids = {.peer = peer};
	uint8_t words[512], heard[512];
	struct err e;

	if (send(fd, words, say_goodbye(text, words), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug(&ids, "not told: %s", strerror(errno));
	(void)shutdown(fd, SHUT_WR);
	(void)recv(fd, heard, sizeof(heard), MSG_DONTWAIT);
	parting_add(&d->parting, fd);
	err_set(&e, code, "%s", text);
	broker_audit_refused(d->hub, &(struct origin){.door = "ssh", .peer = peer, .endpoint = "connect"}, "connection",
			     NULL, &e);
}

static const char *refusal(int rc)
{
	if (rc == ERR_RATE_LIMITED)
		return "too many failed log-ins or new connections from this address; wait a minute";
	return rc == ERR_LIMIT ? "too many connections or log-ins from this address (ssh.max_per_address), or in all "
				 "(ssh.max_connections)"
			       : "out of memory";
}

static void door_admit(struct ssh_door *d, int fd, const struct sockaddr *sa)
{
	const struct admit_rules r = ssh_door_rules(d);
	struct admit_place *place = NULL;
	void *victim = NULL;
	char peer[64] = "?";
	struct err e;
	int rc;

	sock_name(fd, 1, peer, sizeof(peer));
	rc = admit_enter(d->admit, &r, sa, clock_boot_ns(), &place, &victim);
	if (rc) {
		turn_away(d, fd, peer, rc, refusal(rc));
		return;
	}
	if (victim)
		ssh_conn_destroy(victim, "too many connections that are not logged in: this one made room");
	rc = ssh_conn_create(d, fd, place, peer);
	if (rc) {
		err_set(&e, rc, "a connection could not be set up");
		log_error(NULL, "%s: %s", peer, e.message);
	}
}

static void door_on_listener(uv_poll_t *h, int status, int events)
{
	struct ssh_door *d = h->data;

	(void)status;
	(void)events;
	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		struct sockaddr_storage sa;
		socklen_t n = sizeof(sa);
		int fd = accept4(d->listen_fd, (struct sockaddr *)&sa, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			door_admit(d, fd, (const struct sockaddr *)&sa);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			struct ssh_conn *victim = admit_victim(d->admit);

			log_error(NULL, "accept: %s", strerror(errno));
			if (victim)
				ssh_conn_destroy(victim, "out of descriptors: this one made room");
			door_set_state(d, SSH_DOOR_WAITING);
			uv_timer_start(&d->retry, door_on_retry, RETRY_MS, 0);
		}
		return;
	}
}

static void door_on_retry(uv_timer_t *h)
{
	struct ssh_door *d = h->data;

	if (d->state == SSH_DOOR_WAITING)
		door_set_state(d, SSH_DOOR_OPEN);
}

static void door_on_closed(uv_handle_t *h)
{
	ssh_door_released(h->data);
}

static void door_on_sweep(uv_timer_t *h)
{
	struct ssh_door *d = h->data;

	tick_start(h, door_on_sweep, SWEEP_MS);
	for (struct ssh_conn *c = TAILQ_FIRST(&d->conns), *next; c; c = next) {
		next = TAILQ_NEXT(c, link);
		ssh_conn_sweep(c);
	}
	admit_prune(d->admit, clock_boot_ns());
}

int ssh_door_open(struct hub *h, int listen_fd, int host_key_fd, struct ssh_door **out, struct err *e)
{
	struct ssh_door *d = calloc(1, sizeof(*d));
	int rc;

	if (!d || admit_create(&d->admit) != 0) {
		rc = err_set(e, ERR_NOMEM, "no memory for the SSH door");
		goto fail;
	}
	d->hub = h;
	d->loop = hub_loop(h);
	d->listen_fd = listen_fd;
	TAILQ_INIT(&d->conns);
	TAILQ_INIT(&d->busy);
	rc = ssh_hostkey_bind(host_key_fd, &d->bind, e);
	if (rc)
		goto fail;
	close(host_key_fd);
	host_key_fd = -1;
	sock_set_nonblock(listen_fd, 1);
	rc = uv_poll_init(d->loop, &d->listener, listen_fd);
	if (rc) {
		rc = err_set(e, ERR_SYS, "watch the SSH listener: %s", uv_strerror(rc));
		goto fail;
	}
	uv_timer_init(d->loop, &d->retry);
	uv_timer_init(d->loop, &d->sweep);
	tick_start(&d->sweep, door_on_sweep, SWEEP_MS);
	uv_idle_init(d->loop, &d->turn);
	d->listener.data = d->retry.data = d->sweep.data = d->turn.data = d;
	d->handles = 4;
	door_set_state(d, SSH_DOOR_OPEN);
	*out = d;
	return 0;
fail:
	close(listen_fd);
	if (host_key_fd >= 0)
		close(host_key_fd);
	if (d) {
		ssh_bind_free(d->bind);
		admit_destroy(d->admit);
	}
	free(d);
	return rc;
}

/* Limits, staff and times are read from hub_conf() where they are used, but for timers that run; the host key stays. */
void ssh_door_reload(struct ssh_door *d)
{
	struct ssh_conn *c;

	log_debug(NULL, "reload: %zu connections go on", d->nconns);
	TAILQ_FOREACH(c, &d->conns, link)
	ssh_conn_reload(c);
}

static struct ssh_conn *conn_not_told(struct ssh_door *d)
{
	struct ssh_conn *c;

	TAILQ_FOREACH(c, &d->conns, link)
	if (c->state != SSH_CONN_FLUSHING)
		return c;
	return NULL;
}

void ssh_door_close(struct ssh_door *d)
{
	struct ssh_conn *c;

	if (!d)
		return;
	door_set_state(d, SSH_DOOR_CLOSED);
	while ((c = conn_not_told(d)))
		ssh_conn_finish(c, "muxd is stopping");
	while ((c = TAILQ_FIRST(&d->conns)))
		ssh_conn_destroy(c, "muxd is stopping");
	uv_close((uv_handle_t *)&d->listener, door_on_closed);
	uv_close((uv_handle_t *)&d->retry, door_on_closed);
	uv_close((uv_handle_t *)&d->sweep, door_on_closed);
	uv_close((uv_handle_t *)&d->turn, door_on_closed);
}
