/*
 * local.h - the local door: one connection, one conversation (docs/conversations.md, "hub.sock").
 *
 * The door owns its connections; a connection owns at most one attachment.
 * States of a connection: OPEN (its question is awaited) -> ASKED (the hub
 * works on it) -> ATTACHED -> CLOSING (what is queued is still written).
 * Every conversation starts with a token, as on any other door.
 */
#ifndef MUXD_DOORS_LOCAL_LOCAL_H
#define MUXD_DOORS_LOCAL_LOCAL_H

#include "base/buf.h"
#include "muxd/hub/broker.h"
#include "muxd/hub/hub.h"

#include <sys/queue.h>
#include <uv.h>

enum local_state { LOCAL_OPEN, LOCAL_ASKED, LOCAL_ATTACHED, LOCAL_CLOSING };

struct local_conn {
	TAILQ_ENTRY(local_conn) entry;
	struct local_door *door;
	uv_poll_t *poll;
	int fd;
	enum local_state state;
	char peer[64];
	struct buf in, out;
	struct request rq;
	struct attachment *attachment;
	struct local_ticket *ticket; /* outlives the connection while the hub works for it */
	size_t in_done;              /* bytes taken of the input message in front */
	bool reading_paused;         /* input waits for the sandbox */
	bool more;                   /* pulling stopped for want of room, not of bytes */
	bool eof;                    /* the client half-closed */
};

struct local_door {
	struct hub *hub;
	uv_poll_t *poll;
	int fd;
	unsigned count;
	uv_poll_cb on_event; /* a turn of a connection */
	TAILQ_HEAD(, local_conn) conns;
};

/* The hub's callbacks hold a ticket; a connection that goes takes itself off it. */
struct local_ticket {
	struct local_conn *conn; /* NULL: gone */
};

int local_conn_create(struct local_door *d, int fd);
void local_conn_destroy(struct local_conn *c);
void local_conn_set_state(struct local_conn *c, enum local_state s);
/* Queue one JSON message (stolen). */
void local_conn_say(struct local_conn *c, json_t *o);
void local_conn_error(struct local_conn *c, int rc, const struct err *e);
void local_conn_close_soon(struct local_conn *c); /* once everything queued is written */
void local_conn_update(struct local_conn *c);     /* which events are waited for */

/* The connection that a callback of the hub is for, once; NULL: it was closed meanwhile, and the ticket is gone. */
struct local_conn *local_redeem(struct local_ticket *t);
/* {"event": "result"} with the keys of o, which is stolen, and the end; what no message holds is an error. */
void local_conn_object(struct local_conn *c, json_t *o);
/* {"event": "result", key: value}, value stolen, and the end. */
void local_conn_result(struct local_conn *c, const char *key, json_t *value);
/* What the hub said to a question: under key, or (NULL) as keys of the message itself. result is borrowed. */
void local_conn_answer(struct local_ticket *t, const char *key, int rc, const struct err *e, json_t *result);

/* The questions that the door knows; tests/integration/audit_matrix.py reads these tables. The last has no name. */
struct local_op {
	const char *name;
	void (*ask)(struct local_conn *c, const json_t *o);
};
/* ask_life.c: questions about agents and their sandboxes. */
extern const struct local_op local_life_ops[];
/* ask.c: the first message of a conversation. */
void local_ask(struct local_conn *c, const json_t *o);
/* attached.c: what follows, as far as the sandbox takes it (ERR_*: no message at all), and the attachment's callbacks.
 */
int local_take(struct local_conn *c);
void local_pull(struct local_conn *c);
void local_attached(struct local_conn *c, struct session *s, struct attachment *a);
extern const struct attachment_ops local_attachment_ops, local_terminal_ops; /* the second: shows screens */

#endif
