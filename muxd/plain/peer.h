/*
 * peer.h - the plain backend's insides: peers, channels, sweeps. For muxd/plain alone.
 *
 * A peer: HELLO (waits for the hub's) -> PROOF -> UP -> CLOSED (its descriptor went; freed when its handles are).
 * What the container has is looked at once, before the first channel starts: UNKNOWN -> ASKING -> SHELL | BARE.
 *
 * A channel: WAITING (for the look, or its turn: queue.c) -> STARTING (its exec was asked for; back to WAITING where
 * the server was too busy) -> RUNNING (OPENED was told) -> ENDED (EXIT was told; kept until the hub forgets it, and its
 * processes are gone).
 * Beside that runs its ending (channel_life.c): NOT -> ASKED -> DONE.
 */
#ifndef MUXD_PLAIN_PEER_H
#define MUXD_PLAIN_PEER_H

#include "base/buf.h"
#include "control/sandbox.h"
#include "muxd/link/frame.h"
#include "muxd/plain/answer.h"
#include "muxd/plain/exec.h"
#include "muxd/plain/script.h"

#include <sys/queue.h>
#include <uv.h>

struct kube_creds;
struct rc_client;

#define PLAIN_WAITING  512          /* channels that wait for their turn */
#define PLAIN_HELD     (256 * 1024) /* output that waits for the hub's window, of one channel */
#define PLAIN_INPUT    (256 * 1024) /* input on its way: LINK_INPUT_WINDOW */
#define PLAIN_OUT_HIGH (512 * 1024) /* bytes towards the hub at which output waits */
#define PLAIN_OUT_MAX  (4 * 1024 * 1024)
#define PLAIN_BATCH    16 /* trees looked for by one exec */

enum peer_state { PEER_HELLO, PEER_PROOF, PEER_UP, PEER_CLOSED };
enum peer_look { LOOK_UNKNOWN, LOOK_ASKING, LOOK_STALE, LOOK_SHELL, LOOK_BARE };
enum channel_state { CHANNEL_WAITING, CHANNEL_STARTING, CHANNEL_RUNNING, CHANNEL_ENDED };
enum channel_ending { ENDING_NOT, ENDING_ASKED, ENDING_DONE };

struct plain_channel;
typedef void sweep_done(void *arg, int64_t found);

/* A wish to look for a tree of processes, and to signal it. Embedded in who wishes. */
struct sweep {
	TAILQ_ENTRY(sweep) entry;
	bool queued, out;
	struct script_target target;
	sweep_done *done; /* NULL: nobody waits for it */
	void *arg;
	bool own; /* freed when done */
};
TAILQ_HEAD(sweeps, sweep);

struct plain_channel {
	struct plain_peer *peer;
	TAILQ_ENTRY(plain_channel) entry;
	uint32_t number;
	enum channel_state state;
	struct frame_open open; /* its strings are in `strings` */
	uint8_t *strings;
	char mark[37];
	struct plain_exec *exec;
	bool slot;              /* counts among the running */
	unsigned place, places; /* WAITING: as it was told last */
	uint64_t wait_until_ns, told_ns;
	uint64_t deadline_ns; /* WAITING: gives up; STARTING, without a shell: is taken for begun; RUNNING: timeout */
	/* output */
	bool scripted; /* the first line is the script's */
	bool visits;   /* muxlet itself, in the visitor */
	bool answered; /* it has come */
	struct answer_start leader;
	struct buf held[3];
	uint64_t sent[3], window[3], got;
	/* input */
	enum script_feed feed;
	struct buf input, framed;              /* framed: pieces that the exec has not taken yet */
	bool parked;                           /* OPENED was told, and the exec waits for what the input will be */
	uint64_t received, consumed, accepted; /* from the hub; told as taken; that the exec took */
	bool eof, eof_sent, dropped;           /* dropped: what still comes is thrown away */
	uint8_t last_byte;
	uint64_t eof_at_ns; /* a terminal's end of file is typed again */
	unsigned eof_typed;
	/* the end */
	bool over; /* the exec has ended: `end` says how */
	struct rc_exit end;
	bool forgotten, told; /* told: EXIT went */
	uint64_t signals;     /* that the hub sent, a bit each: a code of 128 and one of these was that signal */
	enum channel_ending ending;
	uint8_t cause; /* of the first KILL or timeout */
	unsigned step, tries, looks, failures;
	uint64_t next_ns, term_ns, kill_ns, give_up_ns; /* ending */
	struct sweep sweep;
	char verdict[FRAME_TEXT_MAX]; /* goes with EXIT */
	bool survived;                /* whether it is gone is not so, or not known */
};
TAILQ_HEAD(plain_channels, plain_channel);

struct plain {
	uv_loop_t *loop;
	unsigned programs; /* of one container at a time, as configured */
	uint64_t wait_ns;  /* for a turn */
	TAILQ_HEAD(, plain_peer) peers;
	bool closing;
};

struct plain_peer {
	struct plain *plain;
	TAILQ_ENTRY(plain_peer) entry;
	uv_loop_t *loop;
	uv_poll_t poll;
	uv_timer_t timer;
	uv_prepare_t prepare;
	unsigned handles;
	int fd;
	enum peer_state state;
	char *agent, *ns, *pod, *container;
	char *visitor, *muxlet; /* NULL: there is none */
	struct kube_creds *creds;
	struct rc_client *rc;
	uint8_t secret[SANDBOX_SECRET_LEN];
	char owner[33];
	struct frame_hello theirs, ours;
	uint8_t *in;
	size_t in_len, in_cap;
	struct buf out;
	bool writing, broken; /* broken: ends at the end of the turn */
	bool due, retime;     /* marked by peer_kick(), by peer_timer() */
	const char *why;      /* of its end, where a frame of the hub is its cause */
	uint32_t secret_for;  /* a channel that was to have a SECRET */
	struct plain_channels channels;
	unsigned running, starting, waiting; /* starting: of the running */
	bool turn;                           /* a place became free */
	/* queue.c */
	unsigned stands;    /* programs at a time, as the server was seen to stand them */
	unsigned refusals;  /* one after the other, for being busy */
	uint64_t stands_ns; /* when that changed last, or was confirmed */
	uint64_t pause_ns;  /* nothing starts before; 0 */
	uint64_t told_ns;   /* when places were told last */
	char busy[120];     /* the server's words, while it refuses */
	/* the container, as the look found it */
	enum peer_look look;
	int version; /* of the protocol, as the last exec had it; 0: none yet */
	const char *shell, *login;
	unsigned shells_tried;
	struct answer_probe has;
	struct plain_exec *look_exec;
	struct buf look_text;
	struct sweep stale;
	bool stale_again;
	uint64_t look_deadline_ns;
	/* sweeps */
	struct sweeps sweeps;
	struct sweep *batch[PLAIN_BATCH];
	size_t n_batch;
	struct plain_exec *sweep_exec;
	struct buf sweep_text;
	uint64_t sweep_deadline_ns;
};

/* peer.c: before the loop sleeps, */
void peer_kick(struct plain_peer *p);  /* something is to be sent, or may be */
void peer_timer(struct plain_peer *p); /* a deadline changed */
/* Whole frames to the hub, into the peer's bounded buffer. */
void wire_put(struct plain_peer *p, const struct frame *f);
void wire_error(struct plain_peer *p, uint32_t channel, uint16_t code, const char *text);

/* request.c: one frame of the hub. -1: the peer is to be closed, p->why says why. */
int request_handle(struct plain_peer *p, const struct frame *f);

/* look.c: what the container has; then it is the turn of whoever waits. */
void look_begin(struct plain_peer *p);
void look_stop(struct plain_peer *p);
void look_tick(struct plain_peer *p, uint64_t now);

/* sweep.c */
void sweep_ask(struct plain_peer *p, struct sweep *s);
void sweep_cancel(struct plain_peer *p, struct sweep *s);
/* SIGNAL: nobody waits for the answer. */
int sweep_signal(struct plain_peer *p, const struct plain_channel *c, int signum);
void sweep_stop(struct plain_peer *p);
void sweep_tick(struct plain_peer *p, uint64_t now);

/* queue.c */
struct plain_channel *queue_next(struct plain_peer *p); /* who may start now; NULL: nobody */
/* An exec was refused: true, its channel waits for another turn, for the server was only busy. */
bool queue_again(struct plain_channel *c, const struct rc_exit *x);
void queue_begun(struct plain_peer *p);              /* an exec has: the server is not busy */
uint64_t queue_due(const struct plain_peer *p);      /* boot ns; 0: nothing is */
void queue_tick(struct plain_peer *p, uint64_t now); /* also tells places: once a second, if they changed */

/* channel.c */
struct plain_channel *channel_find(const struct plain_peer *p, uint32_t number);
void channel_set_state(struct plain_channel *c, enum channel_state s);
void channel_release(struct plain_channel *c); /* its exec ends here; another may start */
void plain_channel_destroy(struct plain_channel *c);
void channel_put_opened(struct plain_channel *c, uint16_t code, const char *text); /* OPENED */
/* EXIT: x's totals are filled in here. The channel is ENDED. */
void channel_put_exit(struct plain_channel *c, struct frame_exit *x, const char *text);
/* The program never ran. error: errno when where is "cwd" or "exec"; else where is the name of an ERR_*. */
void channel_refuse(struct plain_channel *c, const char *where, int error, const char *text);
/* The look failed: whoever waits is refused with these words. */
void channel_refuse_waiting(struct plain_peer *p, const struct err *e);

/* channel_life.c */
void channel_open(struct plain_peer *p, const struct frame *f); /* OPEN */
void channel_start_waiting(struct plain_peer *p);
void channel_settle(struct plain_channel *c); /* tells EXIT when everything for it is there; may free c */
/* Deadlines; c lives on. */
void channel_tick(struct plain_channel *c, uint64_t now);
void channel_pump(struct plain_channel *c); /* what is held, as far as window and peer allow */
/* -1: the hub broke the protocol, *why says how. */
int channel_input(struct plain_channel *c, const struct frame *f, const char **why);
int channel_input_eof(struct plain_channel *c, const struct frame *f, const char **why);
void channel_kill(struct plain_channel *c, uint8_t cause);

#endif
