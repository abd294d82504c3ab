#define LOG_SUBSYS "ssh"
#include "muxd/doors/door.h"

#include "muxd/base/clock.h"
#include "muxd/base/conf.h"
#include "muxd/base/err.h"
#include "muxd/base/log.h"
#include "muxd/base/sock.h"
#include "muxd/doors/ssh/conn.h"
#include "muxd/doors/ssh/hostkey.h"
#include "muxd/hub/broker.h"
#include "muxd/hub/hub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A key exchange costs the loop a millisecond or two: this many begin in one turn. */
#define ACCEPTS_A_TURN 4
#define RETRY_MS       200

static const char *const state_names[] = {"open", "waiting", "closed"};

static void on_listener(uv_poll_t *h, int status, int events);
static void on_retry(uv_timer_t *h);

static void door_set_state(struct ssh_door *d, enum ssh_door_state to)
{
	if (to != d->state)
		log_debug(NULL, "door: %s -> %s", state_names[d->state], state_names[to]);
	d->state = to;
	if (to == SSH_DOOR_OPEN)
		uv_poll_start(&d->listener, UV_READABLE, on_listener);
	else
		uv_poll_stop(&d->listener);
}

/* A line before the version exchange is allowed (RFC 4253, 4.2); OpenSSH shows it with -v. */
static void turn_away(struct ssh_door *d, int fd, const char *peer, bool audit, int code, const char *text)
{
	struct log_ids ids = {.peer = peer};
	struct err e;
	char line[200];
	int n = snprintf(line, sizeof(line), "muxd: %s\r\n", text);

	if (send(fd, line, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug(&ids, "not told: %s", strerror(errno));
	close(fd);
	if (!audit)
		return;
	log_warn(&ids, "connection refused: %s", text);
	err_set(&e, code, "%s", text);
	broker_audit_refused(d->hub, &(struct origin){.door = "ssh", .peer = peer, .endpoint = "connect"}, "connection",
			     NULL, &e);
}

/* A quarter is kept for those who are in already and open another connection. */
static bool door_full(const struct ssh_door *d, const struct conf *conf)
{
	return d->nconns >= conf->ssh_max_connections || d->nlogins > conf->ssh_max_connections * 3 / 4;
}

static void door_admit(struct ssh_door *d, int fd, const struct sockaddr *sa)
{
	const struct conf *conf = hub_conf(d->hub);
	struct ssh_address *a = NULL;
	struct err e;
	char peer[64] = "?";
	bool first = false;
	int rc;

	sock_name(fd, 1, peer, sizeof(peer));
	if (door_full(d, conf)) {
		turn_away(d, fd, peer, !d->full, ERR_LIMIT, "too many connections (ssh.max_connections)");
		d->full = true;
		return;
	}
	/* Of those who are not in yet a quarter at most may be one address's: several are needed to fill the door. */
	rc = ssh_address_enter(d->addresses, sa, conf->ssh_max_per_address, conf->ssh_max_connections / 4 + 1,
			       clock_boot_ns(), &a, &first);
	if (rc) {
		turn_away(d, fd, peer, first, rc,
			  rc == ERR_LIMIT ? "too many connections or log-ins from this address (ssh.max_per_address)"
					  : "too many failed log-ins from this address; wait a minute");
		return;
	}
	d->full = false;
	rc = ssh_conn_create(d, fd, a, peer);
	if (rc) {
		err_set(&e, rc, "a connection could not be set up");
		log_error(NULL, "%s: %s", peer, e.message);
	}
}

static void on_listener(uv_poll_t *h, int status, int events)
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
			log_error(NULL, "accept: %s", strerror(errno));
			door_set_state(d, SSH_DOOR_WAITING);
			uv_timer_start(&d->retry, on_retry, RETRY_MS, 0);
		}
		return;
	}
}

static void on_retry(uv_timer_t *h)
{
	struct ssh_door *d = h->data;

	if (d->state == SSH_DOOR_WAITING)
		door_set_state(d, SSH_DOOR_OPEN);
}

/* One slice for each that had more to write when this turn began. */
static void on_turn(uv_idle_t *h)
{
	struct ssh_door *d = h->data;
	struct ssh_conn *c;

	for (size_t n = d->nbusy; n > 0 && (c = TAILQ_FIRST(&d->busy)); n--) {
		ssh_door_idle(d, c);
		ssh_conn_enter(c);
		ssh_conn_leave(c);
	}
	if (TAILQ_EMPTY(&d->busy))
		uv_idle_stop(&d->turn);
}

void ssh_door_busy(struct ssh_door *d, struct ssh_conn *c)
{
	if (c->busy)
		return;
	c->busy = true;
	d->nbusy++;
	TAILQ_INSERT_TAIL(&d->busy, c, busy_link);
	uv_idle_start(&d->turn, on_turn);
}

void ssh_door_idle(struct ssh_door *d, struct ssh_conn *c)
{
	if (!c->busy)
		return;
	c->busy = false;
	d->nbusy--;
	TAILQ_REMOVE(&d->busy, c, busy_link);
}

void ssh_door_released(struct ssh_door *d)
{
	if (--d->handles > 0)
		return;
	close(d->listen_fd);
	ssh_bind_free(d->bind);
	ssh_address_table_destroy(d->addresses);
	free(d);
}

static void on_closed(uv_handle_t *h)
{
	ssh_door_released(h->data);
}

int ssh_door_open(struct hub *h, int listen_fd, int host_key_fd, struct ssh_door **out, struct err *e)
{
	struct ssh_door *d = calloc(1, sizeof(*d));
	int rc;

	if (!d || ssh_address_table_create(&d->addresses) != 0) {
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
	uv_idle_init(d->loop, &d->turn);
	d->listener.data = d->retry.data = d->turn.data = d;
	d->handles = 3;
	door_set_state(d, SSH_DOOR_OPEN);
	*out = d;
	return 0;
fail:
	close(listen_fd);
	if (host_key_fd >= 0)
		close(host_key_fd);
	if (d) {
		ssh_bind_free(d->bind);
		ssh_address_table_destroy(d->addresses);
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
	uv_close((uv_handle_t *)&d->listener, on_closed);
	uv_close((uv_handle_t *)&d->retry, on_closed);
	uv_close((uv_handle_t *)&d->turn, on_closed);
}
