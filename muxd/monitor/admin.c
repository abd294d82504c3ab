/* admin.sock: its clients, their calls, and the wait for the start. */
#define LOG_SUBSYS "admin"
#include "muxd/monitor/admin.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/sock.h"
#include "muxd/monitor/channel.h"
#include "muxd/monitor/monitor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define IDLE_NS   (600 * NS_PER_SEC) /* without a question and with none open */
#define TICK_MS   10000
#define START_NS  (5 * NS_PER_SEC) /* how long a question waits for the start */
#define QUEUE_MAX 64
#define CALLS_MAX 64 /* unanswered questions of one client */

struct client {
	struct client *next;
	struct admin *admin;
	struct channel *channel; /* NULL: gone, kept for its open calls */
	unsigned calls;
	uid_t uid;
	pid_t pid;
	uint64_t active_ns;
};

struct admin {
	struct monitor *m;
	const struct admin_op *ops;
	uv_poll_t poll;
	uv_timer_t tick, patience;
	STAILQ_HEAD(, admin_call) early; /* the oldest first; `patience` runs while there are any */
	struct client *clients;
	unsigned n;
	int handles;
	bool ending;
};

static void client_unlink(struct client *c)
{
	struct client **at = &c->admin->clients;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->admin->n--;
	free(c);
}

static void client_hang_up(struct client *c)
{
	channel_destroy(c->channel);
	c->channel = NULL;
	if (c->calls == 0)
		client_unlink(c);
}

static void admin_on_closed(void *arg, const struct err *why)
{
	log_debug(NULL, "client ended: %s", why->message);
	client_hang_up(arg);
}

void admin_answer(struct admin_call *call, json_t *o)
{
	struct client *c = call->client;
	json_t *out = o ? o : request_error(ERR_NOMEM, NULL);

	if (out && call->tag)
		json_object_set(out, "tag", call->tag);
	if (c->channel && out && channel_send(c->channel, out, NULL, 0))
		log_warn(NULL, "an answer to uid %u could not be sent", (unsigned)c->uid);
	json_decref(out);
	json_decref(call->tag);
	free(call);
	c->calls--;
	c->active_ns = clock_boot_ns();
	if (!c->channel && c->calls == 0)
		client_unlink(c);
}

static const struct admin_op *find_op(const struct admin_call *call, const char *name)
{
	const struct admin_op *op = call->client->admin->ops;

	while (op->name && strcmp(op->name, name) != 0)
		op++;
	return op->name ? op : NULL;
}

static int find_and_run(struct admin_call *call, const json_t *msg, json_t **out, struct err *e)
{
	const struct admin_op *op;
	const char *name = NULL;
	int rc = json_need_str(msg, "op", &name, e);

	if (rc)
		return rc;
	op = find_op(call, name);
	if (!op)
		return err_set(e, ERR_UNSUPPORTED, "op %.40s is not known", name);
	if (call->m->state != MONITOR_RUNNING && !op->always)
		return err_set(e, ERR_UNAVAILABLE, "the daemon is %s",
			       call->m->state == MONITOR_STARTING ? "starting" : "ending");
	return op->run(call, msg, out, e);
}

static void run_call(struct admin_call *call, const json_t *msg)
{
	json_t *out = NULL;
	struct err e = {0};
	int rc = find_and_run(call, msg, &out, &e);

	if (rc != ADMIN_LATER)
		admin_answer(call, rc ? request_error(rc, &e) : out);
}

/* ---- before the start */

static bool too_early(const struct admin_call *call, const json_t *msg)
{
	const char *name = json_string_value(json_object_get(msg, "op"));
	const struct admin_op *op = name ? find_op(call, name) : NULL;

	return op && !op->always && call->m->state == MONITOR_STARTING;
}

static void run_first(struct admin *a)
{
	struct admin_call *call = STAILQ_FIRST(&a->early);
	json_t *msg = call->msg;

	STAILQ_REMOVE_HEAD(&a->early, entry);
	call->msg = NULL;
	run_call(call, msg);
	json_decref(msg);
}

static void admin_on_patience(uv_timer_t *t)
{
	struct admin *a = t->data;
	const struct admin_call *call;

	while ((call = STAILQ_FIRST(&a->early)) && clock_boot_ns() >= call->until_ns)
		run_first(a); /* which says that the daemon is starting */
	if (call)
		uv_timer_start(t, admin_on_patience, (call->until_ns - clock_boot_ns()) / NS_PER_MS + 1, 0);
}

void admin_started(struct admin *a)
{
	while (a && !STAILQ_EMPTY(&a->early))
		run_first(a);
}

static void wait_for_start(struct admin *a, struct admin_call *call, const json_t *msg)
{
	call->msg = json_deep_copy(msg);
	if (!call->msg) {
		admin_answer(call, NULL);
		return;
	}
	call->until_ns = clock_boot_ns() + START_NS;
	STAILQ_INSERT_TAIL(&a->early, call, entry);
	if (!uv_is_active((uv_handle_t *)&a->patience))
		uv_timer_start(&a->patience, admin_on_patience, START_NS / NS_PER_MS, 0);
}

static void admin_on_packet(void *arg, const json_t *msg)
{
	struct client *c = arg;
	struct admin_call *call = calloc(1, sizeof *call);

	c->active_ns = clock_boot_ns();
	if (!call) {
		log_error(NULL, "no memory for a question");
		client_hang_up(c);
		return;
	}
	call->m = c->admin->m;
	call->client = c;
	call->tag = json_incref(json_object_get(msg, "tag"));
	snprintf(call->by, sizeof call->by, "uid %u", (unsigned)c->uid);
	call->uid = c->uid;
	call->pid = c->pid;
	if (++c->calls > CALLS_MAX) {
		admin_answer(call, request_error(ERR_LIMIT, NULL));
		return;
	}
	if (too_early(call, msg))
		wait_for_start(c->admin, call, msg);
	else
		run_call(call, msg);
}

static const struct channel_ops channel_ops = {
    .packet = admin_on_packet,
    .closed = admin_on_closed,
    .queue_max = QUEUE_MAX,
};

static bool may_ask(const struct monitor *m, uid_t uid)
{
	return uid == 0 || uid == geteuid() || uid == m->who.owner.uid;
}

/* One packet and the door closes: said, so that the person knows why. */
static void admin_refuse(int fd, int rc, const char *why)
{
	struct err e = {0};
	json_t *o;

	err_set(&e, rc, "%s", why);
	o = request_error(rc, &e);
	if (o && sock_set_nonblock(fd, 1) == 0)
		sock_send_packet(fd, o, NULL, 0, NULL);
	json_decref(o);
	close(fd);
}

static void admit(struct admin *a, int fd)
{
	struct client *c;
	struct err e = {0};
	uid_t uid = (uid_t)-1;
	pid_t pid = 0;

	if (sock_peer_cred(fd, &pid, &uid, NULL) || !may_ask(a->m, uid)) {
		log_warn(NULL, "uid %u was refused", (unsigned)uid);
		admin_refuse(fd, ERR_FORBIDDEN, "only root and the one who started the daemon may use admin.sock");
		return;
	}
	if (a->n >= ADMIN_CLIENTS_MAX) {
		admin_refuse(fd, ERR_LIMIT, "too many clients of admin.sock");
		return;
	}
	c = calloc(1, sizeof *c);
	if (!c) {
		close(fd);
		return;
	}
	*c = (struct client){.admin = a, .uid = uid, .pid = pid, .active_ns = clock_boot_ns()};
	if (channel_create(&a->m->loop, fd, &channel_ops, c, &c->channel, &e)) {
		log_error(NULL, "%s", e.message);
		free(c);
		return;
	}
	c->next = a->clients;
	a->clients = c;
	a->n++;
}

static void admin_on_connection(uv_poll_t *h, int status, int events)
{
	struct admin *a = h->data;

	(void)events;
	if (status < 0) {
		log_error(NULL, "admin.sock: %s", uv_strerror(status));
		return;
	}
	for (int i = 0; i < 16; i++) {
		int fd = accept4(a->m->listeners.admin, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
			log_error(NULL, "admin.sock: accept: %s", strerror(errno));
			uv_poll_stop(&a->poll); /* until the next tick: the socket stays readable */
		}
		if (fd < 0)
			return;
		admit(a, fd);
	}
}

static void admin_on_tick(uv_timer_t *t)
{
	struct admin *a = t->data;
	uint64_t now = clock_boot_ns();

	uv_poll_start(&a->poll, UV_READABLE, admin_on_connection);
	for (struct client *c = a->clients, *next; c; c = next) {
		next = c->next;
		if (c->channel && c->calls == 0 && now - c->active_ns > IDLE_NS)
			client_hang_up(c);
	}
}

int admin_create(struct monitor *m, const struct admin_op *ops, struct admin **out)
{
	struct admin *a = calloc(1, sizeof *a);

	if (!a)
		return ERR_NOMEM;
	a->m = m;
	a->ops = ops;
	STAILQ_INIT(&a->early);
	a->poll.data = a->tick.data = a->patience.data = a;
	if (sock_set_nonblock(m->listeners.admin, 1) || uv_poll_init(&m->loop, &a->poll, m->listeners.admin)) {
		free(a);
		return ERR_SYS;
	}
	uv_timer_init(&m->loop, &a->tick);
	uv_timer_init(&m->loop, &a->patience);
	uv_poll_start(&a->poll, UV_READABLE, admin_on_connection);
	uv_timer_start(&a->tick, admin_on_tick, TICK_MS, TICK_MS);
	a->handles = 3;
	*out = a;
	return 0;
}

static void admin_on_handle_closed(uv_handle_t *h)
{
	struct admin *a = h->data;

	if (--a->handles == 0)
		free(a);
}

void admin_destroy(struct admin *a)
{
	if (!a || a->ending)
		return;
	a->ending = true;
	/* Every open call was answered: what it waited for has ended before (monitor.c keeps that order). */
	while (a->clients) {
		struct client *c = a->clients;

		a->clients = c->next;
		channel_destroy(c->channel);
		free(c);
	}
	uv_close((uv_handle_t *)&a->poll, admin_on_handle_closed);
	uv_close((uv_handle_t *)&a->tick, admin_on_handle_closed);
	uv_close((uv_handle_t *)&a->patience, admin_on_handle_closed);
}
