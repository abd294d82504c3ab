/*
 * Ending what a channel runs, honestly. No call of the cluster does it: processes are looked for and signalled by a
 * second exec (sweep.h says how they are found), until a look finds nobody. The steps: HUP (a terminal's) or TERM; for
 * a terminal TERM half a grace later; KILL when the grace is over, again and again with growing pauses. What is told:
 * killed when a look found nobody, else left_running, or unknown where nobody could look.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "muxd/plain/peer.h"

#include <stdio.h>
#include <string.h>

#define HUP_AHEAD_NS  (500 * NS_PER_MS)
#define KILL_TRIES    9
#define KILL_PAUSE_NS (50 * NS_PER_MS) /* doubling, up to a second */
#define LOOKS_FAILED  3
#define LOOKS_SLOW    4                  /* doublings of the pause between counts */
#define STATUS_NS     (2 * NS_PER_SEC)   /* for the exec to say how the program ended, once nobody is left */
#define LOST_NS       (120 * NS_PER_SEC) /* how long a lost program is looked for */
#define LOST_PAUSE_NS (2 * NS_PER_SEC)

static void channel_end_on_sweep(void *arg, int64_t found);

static void channel_end_look(struct plain_channel *c, const char *signals)
{
	struct sweep *s = &c->sweep;

	c->next_ns = 0;
	text_put(s->target.mark, sizeof(s->target.mark), c->mark);
	text_put(s->target.start, sizeof(s->target.start), c->leader.start);
	s->target.pid = c->leader.pid;
	s->target.signals = signals;
	s->done = channel_end_on_sweep;
	s->arg = c;
	sweep_ask(c->peer, s);
}

/* The end is decided: the exec is let go, should it still be there, and EXIT is told. */
static void done(struct plain_channel *c)
{
	c->ending = ENDING_DONE;
	c->next_ns = c->deadline_ns = 0;
	if (!c->over) {
		c->over = true;
		c->end = (struct rc_exit){.cause = RC_UNKNOWN, .code = -1};
		channel_release(c);
		channel_drop_input(c);
	}
	peer_kick(c->peer);
}

static void verdict(struct plain_channel *c, bool survived, const char *text)
{
	if (c->told)
		wire_error(c->peer, c->number, CODE_STATE, text); /* for the log: its EXIT said left_running */
	c->survived = survived;
	text_put(c->verdict, sizeof(c->verdict), text);
	done(c);
}

static void wait_until(struct plain_channel *c, uint64_t at)
{
	c->next_ns = at ? at : 1;
	peer_timer(c->peer);
}

static void nobody_left(struct plain_channel *c)
{
	uint64_t now = clock_boot_ns();

	if (c->over) {
		verdict(c, false, "");
	} else if (!c->give_up_ns) {
		c->give_up_ns = now + STATUS_NS;
		wait_until(c, c->give_up_ns);
	} else if (now >= c->give_up_ns) {
		verdict(c, false, "");
	} else {
		wait_until(c, c->give_up_ns);
	}
}

static void look_failed(struct plain_channel *c)
{
	uint64_t now = clock_boot_ns();
	bool lost = c->told; /* its EXIT went: there is time */

	if (lost ? now < c->kill_ns + LOST_NS : ++c->failures < LOOKS_FAILED)
		wait_until(c, now + (lost ? LOST_PAUSE_NS : KILL_PAUSE_NS * 4));
	else
		verdict(c, true, "unknown: its processes could not be looked for");
}

/* Somebody was there. The exec's end will tell of the leader's; once it has ended, the others are counted now and then.
 */
static void wait_for_them(struct plain_channel *c, uint64_t now)
{
	uint64_t at = c->step == 1 && c->term_ns ? c->term_ns : c->kill_ns;

	if (c->over && now + (KILL_PAUSE_NS << c->looks) < at)
		at = now + (KILL_PAUSE_NS << c->looks);
	c->looks += c->looks < LOOKS_SLOW;
	wait_until(c, at);
}

static void channel_end_on_sweep(void *arg, int64_t found)
{
	struct plain_channel *c = arg;
	uint64_t now = clock_boot_ns(), pause;
	char text[80];

	if (c->ending != ENDING_ASKED)
		return;
	c->give_up_ns = 0;
	if (found < 0) {
		look_failed(c);
	} else if (found == 0) {
		nobody_left(c);
	} else if (now < c->kill_ns) {
		wait_for_them(c, now);
	} else if (++c->tries < KILL_TRIES) {
		pause = KILL_PAUSE_NS << c->tries;
		wait_until(c, now + (pause < NS_PER_SEC ? pause : NS_PER_SEC));
	} else {
		snprintf(text, sizeof(text), "left_running: %lld of its processes did not end", (long long)found);
		verdict(c, true, text);
	}
}

/* Called when the exec ended, when next_ns came, and when the program was seen to begin. */
void channel_end_step(struct plain_channel *c)
{
	uint64_t now = clock_boot_ns();
	bool pty = c->open.flags & OPEN_PTY;

	if (c->ending != ENDING_ASKED || c->sweep.queued || c->sweep.out)
		return;
	if (c->state == CHANNEL_STARTING && !c->over && now < c->kill_ns) {
		wait_until(c, c->kill_ns); /* it begins any moment, and then is there to be found */
		return;
	}
	if (c->give_up_ns) {
		nobody_left(c);
	} else if (now >= c->kill_ns) {
		channel_end_look(c, "9");
	} else if (c->step == 0) {
		c->step = 1;
		channel_end_look(c, pty ? "1 18" : "15 18");
	} else if (c->term_ns && c->step == 1 && now >= c->term_ns) {
		c->step = 2;
		channel_end_look(c, "15 18");
	} else if (c->over) {
		channel_end_look(c, ""); /* it ended: did all of it? */
	} else {
		wait_until(c, c->step == 1 && c->term_ns ? c->term_ns : c->kill_ns);
	}
}

/* Nobody can look for it. */
static void channel_end_let_go(struct plain_channel *c)
{
	bool shell = c->peer->look == LOOK_SHELL;

	verdict(c, true,
		shell ? "left_running: this container has no /proc to look for its processes"
		      : "left_running: there is no shell in this image to end it with");
}

void channel_kill(struct plain_channel *c, uint8_t cause)
{
	uint64_t now = clock_boot_ns(), grace = c->open.grace_ms * NS_PER_MS;

	if (c->ending != ENDING_NOT || (c->over && c->end.cause != RC_LOST))
		return;
	c->cause = cause;
	c->deadline_ns = 0;
	if (!c->exec && !c->over) {
		channel_refuse(c, "cancelled", 0, "it was ended while it waited for its turn");
		return;
	}
	c->ending = ENDING_ASKED;
	c->kill_ns = now + grace;
	if (c->open.flags & OPEN_PTY)
		c->term_ns = now + (grace / 2 < HUP_AHEAD_NS ? grace / 2 : HUP_AHEAD_NS);
	if (c->visits)
		verdict(c, false, ""); /* muxlet ends with its stream */
	else if (!c->scripted || !c->peer->has.proc)
		channel_end_let_go(c);
	else
		channel_end_step(c);
}
