/*
 * rc_stream.h - one exec stream, inside. Shared by remotecommand.c (owners, what goes to the server, time) and
 * rc_stream.c (what comes from the server: output, status, the end). Internal to both.
 */
#ifndef CONTROL_KUBE_EXEC_RC_STREAM_H
#define CONTROL_KUBE_EXEC_RC_STREAM_H

#include "base/buf.h"
#include "control/kube/exec/rc_client.h"
#include "control/kube/exec/rc_frame.h"
#include "control/kube/exec/rc_ws.h"
#include "control/kube/exec/remotecommand.h"

#define RC_LINGER_MS 2000 /* from the status to the close that follows it: what comes behind it is taken, too */

struct rc_stream {
	struct rc_client *client;
	LIST_ENTRY(rc_stream) entry;
	const struct rc_ops *ops;
	void *arg;
	enum rc_state state;
	bool closed; /* by its owner: nothing is told any more */
	bool listed; /* among its client's */
	struct rc_ws *ws;
	int version;
	bool in, tty, only_v4;
	char *what; /* "exec in ns/pod", for messages */

	/* from the server */
	struct rc_decoder decoder;
	struct buf held; /* {stream u8, length u32, bytes}* */
	uint64_t let_out, until;
	struct buf status;
	bool exit_known; /* by a status */
	bool over;       /* nothing more comes */
	struct rc_exit exit;

	/* to the server */
	struct buf input;
	bool eof_asked, eof_sent, resize_due, ping_due, nudge_due, starved;
	uint16_t cols, rows;

	/* time (clock_boot_ns) */
	uv_timer_t timer;
	uint64_t keepalive_ns, dead_ns;
	uint64_t heard_ns, tick_ns, linger_ns;
	uint64_t pings, pongs; /* number of the last one sent, of the last one answered */
	uint64_t input_at;     /* pings when input went out last */
	bool input_sent;
	bool paused; /* we do not read */
	struct rc_task task;
};

/* rc_stream.c */
extern const struct rc_ws_ops rc_stream_ws_ops; /* arg: struct rc_stream */
void rc_stream_init_in(struct rc_stream *s);
void rc_stream_finish_in(struct rc_stream *s);
/* The task: output that was held, then the end. */
void rc_stream_turn(void *arg);
void rc_stream_tell_exit(struct rc_stream *s);
/* RC_LOST, with an end of our own making; what was held is still let out. */
void rc_stream_give_up(struct rc_stream *s, int error, const char *why);

/* remotecommand.c */
void rc_stream_start_ticking(struct rc_stream *s);
void rc_stream_writable(void *arg);

#endif
