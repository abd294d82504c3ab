/*
 * conn.h - one SSH transport: socket, libssh session, log-in, channels.
 *
 * Owned by the door. libssh is driven from the loop through a private ssh_event, so
 * that a write that has to look at the socket looks at this one only. The socket is
 * watched through a duplicate of its descriptor that is ours to close: libssh closes
 * its own at moments of its own choosing.
 *
 * Every way in (socket, timer, hub) is bracketed by ssh_conn_enter() and
 * ssh_conn_leave(). Callbacks only note what happened; the outermost leave settles:
 * writes what can be written, frees what has ended, and nothing is freed while
 * libssh is on the stack.
 *
 * States: LOGIN (key exchange and authentication, bounded by the login grace) ->
 * OPEN (channels may come) -> FLUSHING (last words on their way) -> CLOSED.
 */
#ifndef MUXD_DOORS_SSH_CONN_H
#define MUXD_DOORS_SSH_CONN_H

#include "muxd/doors/ssh/auth.h"
#include "muxd/doors/ssh/door_state.h"

#include <libssh/callbacks.h>
#include <libssh/libssh.h>

struct ssh_chan;

enum ssh_conn_state { SSH_CONN_LOGIN, SSH_CONN_OPEN, SSH_CONN_FLUSHING, SSH_CONN_CLOSED };

TAILQ_HEAD(ssh_chan_list, ssh_chan);

struct ssh_conn {
	TAILQ_ENTRY(ssh_conn) link, busy_link;
	struct ssh_door *door;
	struct admit_place *place;
	enum ssh_conn_state state;
	char peer[64];

	ssh_session ssh;
	ssh_event event;
	struct ssh_server_callbacks_struct callbacks;
	struct ssh_counter_struct socket_count, packet_count;
	uint64_t drained_bytes, drained_packets; /* packet_count.out_* when nothing was left unsent */

	int watch_fd;
	uv_poll_t watch;
	uv_timer_t timer; /* LOGIN: grace; OPEN: keepalive; FLUSHING: patience */
	uv_timer_t pause; /* ends a delay of the log-in */
	uv_timer_t nudge; /* settles once more: a channel waits for a moment */
	unsigned handles;
	int watched; /* uv events asked for */

	int depth;         /* of enter and leave */
	bool again;        /* something happened since the last settling began */
	uint64_t nudge_ns; /* a channel wants that in this time; 0: none does */
	bool last;         /* no channel may follow the ones there are */
	bool paused;       /* a delay of the log-in, or an answer is awaited: nothing is read */
	bool writing;      /* inside a write of channel data: input stays with libssh */
	bool busy;         /* in door->busy */
	char doom[160];    /* "" or why it has to end; set where it must not end at once */

	uint64_t heard_bytes, heard_ns; /* keepalive: the last sign of life */
	struct ssh_auth auth;
	struct ssh_chan_list chans;
	size_t nchans;
};

/* conn.c: fd and place become the connection's in every case. */
int ssh_conn_create(struct ssh_door *d, int fd, struct admit_place *place, const char *peer);

/* turn.c */
void ssh_conn_enter(struct ssh_conn *c);
void ssh_conn_leave(struct ssh_conn *c);
/* The log-in has succeeded. */
void ssh_conn_opened(struct ssh_conn *c);
/* Now and then: who is in by a grant that has ended is a stranger again, and goes once no channel of his is open. */
void ssh_conn_sweep(struct ssh_conn *c);
/* The configuration is another one. */
void ssh_conn_reload(struct ssh_conn *c);
/* Read nothing until told otherwise, or for a time (ns > 0). */
void ssh_conn_pause(struct ssh_conn *c, uint64_t ns);
void ssh_conn_resume(struct ssh_conn *c);
/* Every channel is told why, then the transport ends once that is written. */
void ssh_conn_finish(struct ssh_conn *c, const char *why);
/* At once; only with nothing of it on the stack. */
void ssh_conn_destroy(struct ssh_conn *c, const char *why);

/* conn_state.c */
void ssh_conn_set_state(struct ssh_conn *c, enum ssh_conn_state to);
/* From any callback: the connection ends when it settles; why is logged. */
void ssh_conn_doom(struct ssh_conn *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Bytes wait for the socket: write nothing more. */
bool ssh_conn_clogged(const struct ssh_conn *c);

#endif
