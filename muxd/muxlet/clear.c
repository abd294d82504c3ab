/*
 * Everything inside ends at once: for who was let in, however full it is, since no process is made for it.
 *
 * As process 1 of the sandbox one kill(-1) reaches all there is, again until nobody is left. Elsewhere there are
 * others' processes beside ours, so ours are looked for: STOPPING (until two looks in a row found nobody who runs: who
 * forks faster than one can look keeps his place, and does not give it to a child) -> KILLING. NOT -> ... -> NOT, and
 * CLEARED.
 */
#include "muxd/muxlet/muxlet.h"
#include "muxd/muxlet/tree.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define STEP_NS (5 * MS_NS)
/* Whoever is left after that long, and that many looks, sleeps where no signal wakes him: a busy machine looks seldom.
 */
#define MOST_NS    (10000 * MS_NS)
#define MOST_LOOKS 100
#define STILL      2
#define STOPS      20 /* looks at which who does not stand still is stopped; then all are killed as they are */
#define SHARE      4  /* between looks at least this part of what one takes */

/* One step. True: nobody is left. */
static bool kill_all(struct muxlet *m)
{
	if (getpid() == 1)
		return kill(-1, SIGKILL) && errno == ESRCH;
	/* A parent that waits in vfork() for a stopped child does not stop itself, and ends by KILL. */
	if (m->clear_still >= STILL || m->clear_looks >= STOPS)
		return tree_signal_all((const int[]){SIGKILL, 0}) == 0;
	m->clear_still = tree_stop_all() == 0 ? m->clear_still + 1 : 0;
	return false;
}

static bool all_reaped(const struct muxlet *m)
{
	const struct channel *c;

	TAILQ_FOREACH(c, &m->alive, place)
	if (c->pid || c->state == CHANNEL_STARTING)
		return false;
	return true;
}

static void clear_finish(struct muxlet *m, uint16_t code)
{
	struct channel *c, *next;

	m->clearing = false;
	muxlet_note(m, "cleared, code %u", code);
	for (c = TAILQ_FIRST(&m->alive); c; c = next) {
		next = TAILQ_NEXT(c, place);
		channel_end_again(c);
	}
	if (m->stream)
		stream_put(m->stream,
			   &(struct frame){.type = FRAME_CLEARED, .offset = m->clear_token, .u.opened.code = code});
}

static void clear_tick(struct timer *t)
{
	struct muxlet *m = container_of(t, struct muxlet, clear_timer);
	uint64_t begun = monotonic_ns(), took;

	if (m->stopping) { /* the end of all is on its way already */
		clear_finish(m, CODE_SHUTDOWN);
		return;
	}
	if (kill_all(m) && all_reaped(m)) {
		clear_finish(m, CODE_OK);
		return;
	}
	if (++m->clear_looks >= MOST_LOOKS && m->loop.now_ns >= m->clear_until_ns) {
		clear_finish(m, CODE_SYSTEM);
		return;
	}
	took = monotonic_ns() - begun;
	timer_arm(&m->loop, t, m->loop.now_ns + took + (took / SHARE > STEP_NS ? took / SHARE : STEP_NS));
}

void clear_begin(struct muxlet *m, uint64_t token)
{
	struct channel *c, *next;

	m->clear_token = token;
	if (m->clearing)
		return;
	m->clearing = true;
	m->clear_still = 0;
	m->clear_looks = 0;
	m->clear_until_ns = m->loop.now_ns + MOST_NS;
	muxlet_note(m, "told to end everything inside");
	for (c = TAILQ_FIRST(&m->alive); c; c = next) {
		next = TAILQ_NEXT(c, place);
		channel_stop(c);
	}
	clear_tick(&m->clear_timer);
}

void clear_open(struct muxlet *m)
{
	m->clear_timer.fire = clear_tick;
}
