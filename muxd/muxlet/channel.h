/*
 * channel.h - one terminal or round inside the sandbox.
 *
 * Owned by struct muxlet (table by number). States (enum channel_state):
 *   STARTING  the program is being made (nursery.h); what comes for it meanwhile is kept; a terminal's or a pipe's
 *             own buffers take input
 *   RUNNING   the program lives
 *   ENDING    it was told to end: HUP, TERM, KILL on their way to its whole tree
 *   DRAINING  it ended; its output is read to the end, or until it falls silent
 *   ENDED     exit known; kept with its spool until the hub forgets it
 * A channel that never started goes straight to ENDED.
 */
#ifndef MUXD_MUXLET_CHANNEL_H
#define MUXD_MUXLET_CHANNEL_H

#include "muxd/link/frame.h"
#include "muxd/muxlet/loop.h"
#include "muxd/muxlet/pipes.h"
#include "muxd/muxlet/spool.h"

#include <sys/queue.h>
#include <sys/types.h>

struct muxlet;
struct birth;
struct channel;
struct child_failure;
TAILQ_HEAD(channel_queue, channel);

enum channel_state { CHANNEL_STARTING, CHANNEL_RUNNING, CHANNEL_ENDING, CHANNEL_DRAINING, CHANNEL_ENDED };

struct output {            /* streams 1 and 2; of a pty only the first */
	struct source src; /* the pty's is also where its input goes */
	struct channel *channel;
	uint8_t stream;
	bool bulk;            /* a read filled its buffer once */
	bool gathers;         /* there is something, and it waits for company (struct gather) */
	struct pipe_job *job; /* a read of it that is under way; nobody watches it meanwhile */
	uint64_t window;      /* may send up to here */
	uint64_t drain_end;   /* beyond it nothing is the ended program's own */
	struct spool spool;
};

/*
 * Reads of little, of the pipes of one lane. A program that writes a few bytes at a time, as fast as it can, would make
 * it and a thread and the loop take turns 50,000 times a second, which costs two processors and, on Linux 6.18, starves
 * whoever else wants one. So past GATHER_READS within GATHER_MS what comes waits in its pipe for the end of that time.
 */
#define GATHER_MS     10
#define GATHER_READS  16
#define GATHER_LITTLE 4096 /* bytes; a buffer of stdio is not little */

struct gather {
	uint64_t since_ns;
	unsigned reads;
};

#define ECHO_UNSAID 0xff

struct channel {
	struct muxlet *m;
	uint32_t number;
	uint8_t session[16];
	enum channel_state state;
	bool pty;
	bool resumed;   /* the hub of this stream has opened or resumed it: output and exit may go */
	bool frozen;    /* listed, not resumed: no input is delivered */
	bool forgotten; /* goes when it has ended, without an EXIT */
	bool listed;    /* LIST has said it: OPENED is not to be said any more */
	struct output out[2];
	/* input */
	struct source in;        /* stdin pipe; fd -1 for a pty and when closed */
	struct pipe_job *in_job; /* a write of the queue's first bytes that is under way */
	uint8_t *queue;          /* ring of FRAME_INPUT_WINDOW bytes, NULL when empty */
	size_t queue_at, queue_len;
	uint64_t received, consumed, accepted; /* bytes from the hub; out of the queue; taken by the program */
	uint64_t reported;                     /* consumed, as the hub knows it */
	bool eof_pending, in_closed;
	uint8_t last_byte; /* of input written to a pty: is a line begun? */
	/* terminal */
	uint8_t echo_sent; /* flags of the last ECHO, or ECHO_UNSAID */
	struct timer echo_timer;
	uint64_t echo_moved_ns, echo_until_ns; /* an Enter was typed, or it changed; until then it is looked at */
	/* life */
	struct birth *birth;             /* STARTING */
	pid_t pid;                       /* leader; 0 before it is made and once it is reaped */
	pid_t session_pid;               /* leader's pid for ever: session and group number */
	struct timer end_timer;          /* timeouts, then the steps of ending, then the drain */
	uint64_t timeout_at_ns, idle_ns; /* 0: none */
	uint64_t grace_ns, kill_at_ns, term_at_ns, drain_until_ns;
	uint64_t read_at_ns;   /* when output came last, or nobody could have said anything */
	bool flowing;          /* its terminal gave as much as it can in this turn: there is more */
	uint64_t scan_cost_ns; /* of the last look for its processes */
	unsigned kill_passes;
	struct child_failure *failure; /* of who was to become the program: why it did not */
	bool spare;                    /* begun where no process could be made */
	bool staff;                    /* it may use what is kept back */
	bool whole;                    /* what its program leaves behind ends with it */
	bool out_of_memory;            /* its program was ended for want of it, by us */
	bool kill_sent;                /* the hub sent it a KILL */
	uint64_t oom_base;             /* watch_oom_count() when it began */
	bool freezes;                  /* its program is --freeze: what it stopped goes on if it is killed */
	bool opened_pending;           /* OPENED waits for company */
	bool spooled;                  /* ended and counted in m->spooled */
	bool stuck;                    /* it ended, and its pipes were held: what they had is not known */
	bool exit_pending;             /* EXIT is to be sent after the last byte */
	struct frame_exit exit;
	uint16_t opened_code;
	char *begun; /* where its program began, NUL, which file it is; NULL: not known */
	size_t begun_len;
	bool begun_pending; /* BEGUN goes before OPENED, and again to a hub that resumes */
	/* places */
	LIST_ENTRY(channel) by_number, by_pid;
	TAILQ_ENTRY(channel) place, to_send, lazy;
	bool in_lazy;                 /* OPENED or CONSUMED waits for company */
	struct channel_queue *queued; /* urgent or bulk, NULL: neither */
};

#define INPUT_WINDOW (256 * 1024) /* LINK_INPUT_WINDOW */

void channel_set_state(struct channel *c, enum channel_state s);
/* Ends every part of it and frees it. Its processes are not touched. */
void channel_destroy(struct channel *c);

/* channel_output.c */
void output_ready(struct source *s, uint32_t events);
void output_update(struct output *o); /* watch or stop watching, after anything that changes its room */
void output_close(struct output *o);
void output_gathered(struct timer *t); /* muxlet's gather_timer: what waits for company is read */
/* To the sinks (sink.h), since somebody may still write to it; -1: no memory. */
int output_sink(struct output *o);
/* A pipe goes to the threads, with what they are at; a terminal is closed. */
void output_let_go(struct output *o);
/* The program ended, and nothing of it is on its way to or from a pipe. */
bool channel_is_drained(const struct channel *c);
enum pipes_lane channel_lane(const struct channel *c);
/* Closes what was opened for the program: ends of its pipes, or its terminal. */
void channel_give_up(struct channel *c, const int *fds, size_t n);
/* Reads what is there now, bounded: after the program ended, so that its last bytes travel with the exit. */
void channel_read_rest(struct channel *c);
/* The hub or the spool has no room for output: its silence is not the program's. */
bool channel_is_held_back(const struct channel *c);
bool channel_has_unsent(const struct channel *c);

/* channel_input.c; -1 when the hub broke the protocol (*why) */
int channel_input(struct channel *c, uint64_t offset, const uint8_t *p, size_t n, const char **why);
int channel_input_eof(struct channel *c, uint64_t offset, const char **why);
void channel_input_ready(struct source *s, uint32_t events);
void channel_input_flush(struct channel *c); /* writes what is queued as far as it goes */
void channel_input_drop(struct channel *c, uint64_t go_on_at);
void channel_input_close(struct channel *c);
void channel_input_let_go(struct channel *c); /* its pipe, if it has one */
void channel_check_echo(struct channel *c);
void channel_echo_tick(struct timer *t);

/* channel_end.c */
void channel_kill(struct channel *c, uint8_t cause);
/* Everything is being ended: what it gets to hear comes from signals.c, to all at once. */
void channel_stop(struct channel *c);
/* Its times run from here on; 0: none. */
void channel_limit(struct channel *c, uint64_t timeout_ns, uint64_t idle_ns);
void channel_limit_begin(struct channel *c); /* what counts from its last byte counts from now */
void channel_end_again(struct channel *c);   /* the common end came to nothing */
void channel_signal(struct channel *c, int signum);
void channel_on_exit(struct channel *c, int status); /* the leader was reaped */
void channel_end_tick(struct timer *t);
void channel_finish(struct channel *c); /* exit is complete: to ENDED */

#endif
