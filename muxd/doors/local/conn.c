/* A connection of the local door: its state, what is awaited, and what is said to the client. */
#define LOG_SUBSYS "local"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/msg.h"
#include "base/sock.h"
#include "muxd/doors/local/local.h"

#include <stdlib.h>
#include <unistd.h>

#define IN_MAX  (2 * MSG_MAX)
#define OUT_MAX (4 * MSG_MAX)

static void conn_free_handle(uv_handle_t *h)
{
	free(h);
}

void local_conn_set_state(struct local_conn *c, enum local_state s)
{
	static const char *const names[] = {"open", "asked", "attached", "closing"};

	log_debug(&(struct log_ids){.peer = c->peer}, "%s -> %s", names[c->state], names[s]);
	c->state = s;
}

void local_conn_update(struct local_conn *c)
{
	int events = 0;

	if (!c->reading_paused && !c->eof && c->state != LOCAL_CLOSING)
		events |= UV_READABLE;
	if (buf_len(&c->out) || c->more)
		events |= UV_WRITABLE;
	events |= UV_DISCONNECT;
	uv_poll_start(c->poll, events, c->door->on_event);
}

int local_conn_create(struct local_door *d, int fd)
{
	struct local_conn *c = calloc(1, sizeof(*c));
	uid_t uid = (uid_t)-1;
	gid_t gid;
	pid_t pid = 0;

	if (!c || !(c->poll = malloc(sizeof(*c->poll))) || !(c->ticket = calloc(1, sizeof(*c->ticket)))) {
		if (c)
			free(c->poll);
		free(c);
		return ERR_NOMEM;
	}
	if (sock_peer_cred(fd, &pid, &uid, &gid) || uv_poll_init(hub_loop(d->hub), c->poll, fd)) {
		free(c->ticket);
		free(c->poll);
		free(c);
		return ERR_SYS;
	}
	snprintf(c->peer, sizeof(c->peer), "uid %u", (unsigned)uid);
	c->door = d;
	c->fd = fd;
	c->poll->data = c;
	c->ticket->conn = c;
	buf_init(&c->in, IN_MAX);
	buf_init(&c->out, OUT_MAX);
	TAILQ_INSERT_TAIL(&d->conns, c, entry);
	d->count++;
	local_conn_update(c);
	return 0;
}

void local_conn_destroy(struct local_conn *c)
{
	attachment_detach(c->attachment);
	broker_client_gone(c->door->hub, "local", c->peer);
	if (c->state == LOCAL_ASKED)
		c->ticket->conn = NULL; /* the hub's answer frees it */
	else
		free(c->ticket);
	TAILQ_REMOVE(&c->door->conns, c, entry);
	c->door->count--;
	uv_poll_stop(c->poll);
	uv_close((uv_handle_t *)c->poll, conn_free_handle);
	close(c->fd);
	buf_finish_secret(&c->in);
	buf_finish(&c->out);
	request_finish(&c->rq);
	free(c);
}

static int conn_say(struct local_conn *c, json_t *o)
{
	int rc = o ? msg_put_json(&c->out, o) : ERR_NOMEM;

	if (rc)
		log_warn(&(struct log_ids){.peer = c->peer}, "a message to the client was dropped: %s", err_name(rc));
	json_decref(o);
	local_conn_update(c);
	return rc;
}

void local_conn_say(struct local_conn *c, json_t *o)
{
	(void)conn_say(c, o);
}

void local_conn_error(struct local_conn *c, int rc, const struct err *e)
{
	char id[ID_STR_LEN];

	id_format(&c->rq.id, id);
	local_conn_say(c, json_pack("{s:s,s:{s:s,s:s,s:s,s:s}}", "event", "error", "error", "code", err_name(rc),
				    "message", e && e->message[0] ? e->message : err_name(rc), "hint", err_hint(rc),
				    "request_id", id));
	local_conn_close_soon(c);
}

void local_conn_close_soon(struct local_conn *c)
{
	local_conn_set_state(c, LOCAL_CLOSING);
	local_conn_update(c);
}

struct local_conn *local_redeem(struct local_ticket *t)
{
	struct local_conn *c = t->conn;

	if (!c)
		free(t);
	return c;
}

void local_conn_object(struct local_conn *c, json_t *o)
{
	struct err e = {0};
	int rc;

	if (o)
		json_object_set_new(o, "event", json_string("result"));
	rc = conn_say(c, o);
	if (rc == ERR_TOO_LARGE)
		err_set(&e, rc, "the answer is longer than a message can be (1 MiB)");
	if (rc)
		local_conn_error(c, rc, &e);
	else
		local_conn_close_soon(c);
}

void local_conn_result(struct local_conn *c, const char *key, json_t *value)
{
	local_conn_object(c, json_pack("{s:o}", key, value));
}

void local_conn_answer(struct local_ticket *t, const char *key, int rc, const struct err *e, json_t *result)
{
	struct local_conn *c = local_redeem(t);

	if (!c)
		return;
	local_conn_set_state(c, LOCAL_OPEN);
	if (rc) {
		local_conn_error(c, rc, e);
	} else if (key) {
		local_conn_result(c, key, json_incref(result));
	} else {
		local_conn_object(c, json_copy(result));
	}
}
