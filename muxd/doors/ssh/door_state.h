/*
 * door_state.h - the SSH door itself, as the files of this folder share it.
 *
 * One per net process. Freed when its listener, its timers and its last connection
 * have been closed by the loop (`handles` counts them), after ssh_door_close().
 */
#ifndef MUXD_DOORS_SSH_DOOR_STATE_H
#define MUXD_DOORS_SSH_DOOR_STATE_H

#include "muxd/doors/admit.h"

#include <libssh/server.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

struct hub;
struct ssh_conn;

enum ssh_door_state { SSH_DOOR_OPEN, SSH_DOOR_WAITING, SSH_DOOR_CLOSED };

TAILQ_HEAD(ssh_conn_list, ssh_conn);

/* Turned away: told why, and closed a little later, or the reset would overtake the words. Closed by the next ones. */
struct ssh_parting {
	int fds[32]; /* 0: none */
	unsigned next;
};

struct ssh_door {
	struct hub *hub;
	enum ssh_door_state state; /* WAITING: out of descriptors, `retry` opens the listener again */
	struct uv_loop_s *loop;
	ssh_bind bind;
	int listen_fd;
	uv_poll_t listener;
	uv_timer_t retry, sweep;
	uv_idle_t turn;             /* runs while `busy` has connections in it */
	struct ssh_conn_list conns; /* every live one */
	struct ssh_conn_list busy;  /* those with more to write at once, one slice a turn */
	size_t nbusy, nconns;
	struct admit *admit;
	struct ssh_parting parting;
	unsigned handles;
};

/* The door's limits by the configuration as it is now. */
struct admit_rules ssh_door_rules(const struct ssh_door *d);
/* A connection, or a handle of its own, is gone from the loop. May free d. */
void ssh_door_released(struct ssh_door *d);

#endif
