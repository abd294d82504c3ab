/*
 * channel.h - one SSH session channel: requests until a program is asked for, then one attachment.
 *
 * Owned by its conn, but for one case: while the broker still has to answer, it
 * outlives a conn that is gone (conn == NULL) and is freed by the answer.
 *
 * States: IDLE (pty-req, env) -> STARTING (asked the broker) -> ATTACHED -> FINISHING
 * (exit known or refused; what is left to say goes out, then exit, EOF, close) -> CLOSED
 * (our close is sent) -> freed, once the client's close has come as well: libssh keeps
 * its half until then, so it goes on counting against ssh.max_channels.
 *
 * Output is pulled: one slice a turn, only what the client's window takes, only while
 * nothing waits for the socket. Input that the session does not take stays with libssh,
 * whose window then closes; SSH_CHAN_INPUT_MAX is where a client ignores that window.
 */
#ifndef MUXD_DOORS_SSH_CHANNEL_H
#define MUXD_DOORS_SSH_CHANNEL_H

#include "base/between.h"
#include "base/buf.h"
#include "muxd/doors/ssh/exit.h"
#include "muxd/hub/session/attachment.h"

#include <libssh/callbacks.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct ssh_conn;

#define SSH_CHAN_SLICE     (32 * 1024)       /* bytes of output a turn: one packet of OpenSSH */
#define SSH_CHAN_INPUT_MAX (4 * 1024 * 1024) /* libssh's own window is 1.28 MB */
#define SSH_CHAN_SHOT_MAX  (1024 * 1024)     /* a screen: attachment.h */
#define SSH_CHAN_ENV_MAX   16

enum ssh_chan_state { SSH_CHAN_IDLE, SSH_CHAN_STARTING, SSH_CHAN_ATTACHED, SSH_CHAN_FINISHING, SSH_CHAN_CLOSED };

struct ssh_chan {
	TAILQ_ENTRY(ssh_chan) link;
	struct ssh_conn *conn;
	ssh_channel ssh;
	struct ssh_channel_callbacks_struct callbacks;
	enum ssh_chan_state state;
	struct attachment *att; /* ATTACHED */

	bool answer_due; /* broker_open() will call back */
	bool pty, sized; /* sized: a window-change came while the program was being started */
	char term[65];
	unsigned cols, rows, xpixel, ypixel;
	char *env[SSH_CHAN_ENV_MAX + 1]; /* "K=V", NULL-ended */
	size_t nenv;

	bool out_ready;    /* the hub said readable; no peek has found every stream empty since */
	uint32_t in_left;  /* bytes of input that libssh holds */
	uint8_t *in_chunk; /* taken from libssh, not yet by the session */
	size_t in_off, in_len;
	bool in_blocked;    /* the session takes nothing until `writable` */
	bool input_refused; /* and the client was told so */
	bool eof_seen, eof_told;
	bool packet_known; /* the client's largest one, which is fixed with the channel, was looked at */
	bool remote_closed;
	uint64_t left_until_ns; /* remote_closed: how long its input is waited for; 0: not yet */
	struct buf shot;        /* a screen on its way to the client, before any more output */
	struct buf words;       /* notices and refusals on their way to the client, with their line ends */
	struct between between; /* what the client's terminal was sent */
	struct buf title;       /* a notice on its way into the title of its window */
	bool title_begun;       /* a part of that title is out */
	bool titled_over;       /* that title takes ours away */
	bool titled;            /* one of ours stands there */
	struct ssh_exit exit;
	bool exit_told;
};

/* channel.c: a session channel is asked for. NULL: over the limit, out of memory. */
ssh_channel ssh_chan_create(struct ssh_conn *c);

/* channel_io.c: write a slice, feed input, finish what has ended. True: more could be done at once. */
bool ssh_chan_pump(struct ssh_chan *ch);
/* Both sides have closed: free it. */
bool ssh_chan_reap(struct ssh_chan *ch);
/* The transport is gone; frees ch now or when the broker answers. After this libssh may free its half. */
void ssh_chan_abandon(struct ssh_chan *ch);
/* Say why and end this channel. */
void ssh_chan_refuse(struct ssh_chan *ch, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Say why this client has to go, and how to come back to its terminal when that goes on. */
void ssh_chan_part(struct ssh_chan *ch, const char *why, bool way_back);
void ssh_chan_set_state(struct ssh_chan *ch, enum ssh_chan_state to);
/* Words of ours, as a line; left out when there is no room. */
void ssh_chan_say(struct ssh_chan *ch, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Its program has ended, or there will be none: last words, then x. */
void ssh_chan_finish(struct ssh_chan *ch, const struct ssh_exit *x);
/* The callbacks of libssh that carry bytes. */
void ssh_chan_io_callbacks(struct ssh_chan *ch);

#endif
