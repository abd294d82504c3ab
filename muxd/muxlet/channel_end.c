/* How channels end: the program itself, its whole tree, and what it left to read. */
#include "muxd/muxlet/muxlet.h"
#include "muxd/muxlet/terminal.h"
#include "muxd/muxlet/tree.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define DRAIN_QUIET_NS (200 * MS_NS)
#define DRAIN_MAX_NS   (2000 * MS_NS)
#define DRAIN_BYTES    (1024 * 1024) /* a pipe or terminal cannot have held more of what the program itself wrote */
#define SCAN_NS        (50 * MS_NS)  /* between looks for survivors while TERM has its time */
#define SCAN_SHARE     8             /* and at least this many times as long as a look takes */
#define HUP_AHEAD_NS   (500 * MS_NS)
#define PASS_MIN_NS    (5 * MS_NS)
#define PASS_SLOW      8 /* passes of KILL after which they come once a second */

static bool is_leader(void *arg, pid_t pid)
{
	return muxlet_find_pid(arg, pid) != NULL;
}

/* Signals to the whole tree; how many of it live. A look at /proc costs with what runs in the sandbox: it is timed. */
static int tree(struct channel *c, const int *signals)
{
	char mark[TREE_MARK_LEN + 1];
	struct tree t = {c->session_pid, c->pid != 0, mark, is_leader, c->m};
	uint64_t begun = monotonic_ns();
	int n;

	tree_mark(c->session, mark);
	n = tree_signal(&t, signals);
	c->scan_cost_ns = monotonic_ns() - begun;
	if (n < 0) { /* no /proc: the group is what can be reached */
		for (; *signals && c->pid; signals++)
			(void)kill(-c->pid, *signals);
		n = c->pid != 0;
	}
	return n;
}

static void channel_end_arm(struct channel *c, uint64_t in_ns)
{
	timer_arm(&c->m->loop, &c->end_timer, c->m->loop.now_ns + in_ns);
}

/* The freezer is gone. For all that stood still, time goes on from here; what came due meanwhile is due now. */
static void thaw(struct muxlet *m)
{
	struct channel *c;

	if (muxlet_is_frozen(m))
		return;
	TAILQ_FOREACH(c, &m->alive, place)
	if (c->state == CHANNEL_STARTING || c->state == CHANNEL_RUNNING)
		channel_limit_begin(c);
}

void channel_finish(struct channel *c)
{
	timer_cancel(&c->m->loop, &c->end_timer);
	for (int i = 0; i < 2; i++) {
		struct output *o = &c->out[i];

		if (o->src.fd < 0)
			continue;
		if (c->pty || output_sink(o))
			output_let_go(o);
	}
	channel_input_close(c);
	c->exit.total[0] = c->accepted;
	c->exit.total[1] = c->out[0].spool.end;
	c->exit.total[2] = c->out[1].spool.end;
	c->exit_pending = true;
	channel_set_state(c, CHANNEL_ENDED);
	if (c->freezes) /* also one that never began */
		thaw(c->m);
	muxlet_want_send(c);
}

/* The program is gone, and what was to go with it: its last words are read. */
static void channel_end_drain(struct channel *c)
{
	channel_set_state(c, CHANNEL_DRAINING);
	c->read_at_ns = c->m->loop.now_ns;
	c->drain_until_ns = c->m->loop.now_ns + DRAIN_MAX_NS;
	for (int i = 0; i < 2; i++)
		c->out[i].drain_end = c->out[i].spool.end + DRAIN_BYTES;
	if (!c->in_job) /* else how much of that it took is not known yet */
		channel_input_close(c);
	channel_read_rest(c);
	if (c->state != CHANNEL_DRAINING)
		return;
	if (channel_is_drained(c))
		channel_finish(c);
	else
		channel_end_arm(c, DRAIN_QUIET_NS);
}

static bool has_bytes(const struct output *o)
{
	struct pollfd p = {.fd = o->src.fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0 && p.revents & POLLIN;
}

/*
 * Held back by the hub, the spool or a read under way, before the program's own last bytes were read; or by nobody any
 * more, and the loop has not come to read them yet.
 */
static bool is_held(const struct output *o)
{
	return o->src.fd >= 0 && o->spool.end < o->drain_end && (!(o->src.events & EPOLLIN) || has_bytes(o));
}

/* A call at one of its pipes does not come back: pipes.h. */
static bool is_stuck(const struct channel *c)
{
	const struct pipe_job *const jobs[] = {c->in_job, c->out[0].job, c->out[1].job};

	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
		if (jobs[i] && c->m->loop.now_ns - jobs[i]->asked_ns >= PIPES_HELD_NS)
			return true;
	return false;
}

/* While we are held back, silence is ours and not the program's. */
static void drain_tick(struct channel *c)
{
	uint64_t now = c->m->loop.now_ns;
	bool held = !c->forgotten && (c->in_job || is_held(&c->out[0]) || is_held(&c->out[1]));

	c->stuck = is_stuck(c);
	if (c->stuck) {
		channel_finish(c);
		return;
	}
	if (held) {
		c->drain_until_ns += DRAIN_QUIET_NS;
		c->read_at_ns = now;
	}
	if (!held && (now >= c->drain_until_ns || now >= c->read_at_ns + DRAIN_QUIET_NS))
		channel_finish(c);
	else
		channel_end_arm(c, c->read_at_ns + DRAIN_QUIET_NS - now);
}

static void kill_pass(struct channel *c)
{
	static const int signals[] = {SIGKILL, 0};
	int left = tree(c, signals);

	if (left == 0 && c->pid == 0) {
		channel_end_drain(c);
		return;
	}
	c->kill_passes++;
	channel_end_arm(c, (c->kill_passes < PASS_SLOW ? PASS_MIN_NS << c->kill_passes / 2 : 1000 * MS_NS) +
			       SCAN_SHARE * c->scan_cost_ns);
}

static void ending_tick(struct channel *c)
{
	static const int none[] = {0}, term[] = {SIGTERM, SIGCONT, 0};
	uint64_t now = c->m->loop.now_ns, next;
	int left;

	if (now >= c->kill_at_ns) {
		kill_pass(c);
		return;
	}
	if (c->term_at_ns && now >= c->term_at_ns) {
		c->term_at_ns = 0;
		left = tree(c, term);
	} else {
		left = tree(c, none);
	}
	if (left == 0 && c->pid == 0) {
		channel_end_drain(c);
		return;
	}
	next = now + SCAN_NS + SCAN_SHARE * c->scan_cost_ns;
	if (c->term_at_ns && c->term_at_ns < next)
		next = c->term_at_ns;
	channel_end_arm(c, (next < c->kill_at_ns ? next : c->kill_at_ns) - now);
}

/* At once when it was not begun; else as soon as it is there. The first cause counts. */
static void end_birth(struct channel *c, uint8_t cause)
{
	if (c->birth->ended)
		return;
	c->birth->ended = true;
	c->birth->cause = cause;
	if (!spares_end(c->m, c->birth))
		nursery_end(c->m, c->birth);
}

/* All that belongs to it: TERM, and KILL when its grace is over. */
static void end_tree(struct channel *c)
{
	static const int term[] = {SIGTERM, SIGCONT, 0}, hup[] = {SIGHUP, SIGCONT, 0};
	uint64_t now = c->m->loop.now_ns;

	c->kill_at_ns = now + c->grace_ns;
	c->term_at_ns = 0;
	channel_set_state(c, CHANNEL_ENDING);
	if (c->grace_ns == 0) {
		kill_pass(c);
		return;
	}
	if (c->pty)
		c->term_at_ns = now + (c->grace_ns / 2 < HUP_AHEAD_NS ? c->grace_ns / 2 : HUP_AHEAD_NS);
	(void)tree(c, c->pty ? hup : term);
	channel_end_arm(c, c->grace_ns < SCAN_NS ? c->grace_ns : SCAN_NS);
}

void channel_kill(struct channel *c, uint8_t cause)
{
	if (c->state == CHANNEL_STARTING)
		end_birth(c, cause);
	if (c->state != CHANNEL_RUNNING)
		return;
	c->exit.cause = cause;
	end_tree(c);
}

void channel_signal(struct channel *c, int signum)
{
	pid_t group;

	c->kill_sent = c->kill_sent || signum == SIGKILL;
	if (c->state == CHANNEL_STARTING) {
		c->birth->signals |= UINT64_C(1) << (signum & 63);
		return;
	}
	group = c->pty && c->out[0].src.fd >= 0 ? terminal_foreground(c->out[0].src.fd) : 0;

	if (!group)
		group = c->pid; /* its number cannot be another's: it is not reaped */
	if (group > 1 && kill(-group, signum) != 0 && errno == ESRCH && group == c->pid)
		(void)kill(c->pid, signum); /* it was made, and has no group of its own yet */
}

/* Its program is gone; did that leave anything behind that goes with it? */
static bool leaves_any(struct channel *c)
{
	return c->whole && !muxlet_is_frozen(c->m) && tree(c, (const int[]){0}) > 0;
}

/* By the one that should have become it. */
static void not_begun(struct channel *c, int err, const char *at)
{
	c->exit.cause = CAUSE_NOT_STARTED;
	c->exit.code = -1;
	c->exit.signal = 0;
	c->exit.error = err;
	snprintf(c->exit.at, sizeof(c->exit.at), "%s", at);
}

void channel_on_exit(struct channel *c, int status)
{
	const char *at;
	int err;

	LIST_REMOVE(c, by_pid);
	c->pid = 0;
	c->exit.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	c->exit.signal = WIFSIGNALED(status) ? (uint8_t)WTERMSIG(status) : 0;
	if (!c->staff)
		memory_past(c->m, c->session_pid);
	err = spares_failure(c, &at);
	if (err)
		not_begun(c, err, at);
	if (c->freezes && c->exit.signal) /* it could not let go itself */
		(void)tree_signal_all((const int[]){SIGCONT, 0});
	if (c->freezes)
		thaw(c->m);
	if (c->exit.signal == SIGKILL && c->exit.cause == CAUSE_EXITED &&
	    (c->out_of_memory || (!c->kill_sent && watch_out_of_memory(c->m, c->oom_base))))
		c->exit.cause = CAUSE_OOM;
	if (c->state == CHANNEL_ENDING && !c->m->stopping && !c->m->clearing)
		ending_tick(c);
	else if (c->state == CHANNEL_RUNNING && !c->m->stopping && !c->m->clearing && leaves_any(c))
		end_tree(c);
	else
		channel_end_drain(c);
}

void channel_stop(struct channel *c)
{
	timer_cancel(&c->m->loop, &c->end_timer);
	if (c->state == CHANNEL_STARTING) {
		end_birth(c, CAUSE_KILLED);
	} else if (c->state == CHANNEL_RUNNING) {
		c->exit.cause = CAUSE_KILLED;
		channel_set_state(c, CHANNEL_ENDING);
	} else if (c->state == CHANNEL_DRAINING || !c->pid) {
		channel_finish(c);
	}
}

/* The kill that should have ended all of them at once did not: each is ended by itself. */
void channel_end_again(struct channel *c)
{
	if (c->state != CHANNEL_ENDING)
		return;
	c->kill_at_ns = c->m->loop.now_ns;
	c->term_at_ns = 0;
	channel_end_arm(c, 0);
}

/*
 * The hard limit counts from OPEN on, the other one from the last byte that was read; before the program is there,
 * while its output is held back and while all stand still for a snapshot, there is nothing that it could have said. The
 * hard one waits for the end of that, too: TERM would have it write behind the snapshot. Who freezes has a limit of its
 * own.
 */
static void limit_arm(struct channel *c)
{
	uint64_t idle_at = c->read_at_ns + c->idle_ns, at = c->timeout_at_ns;

	if (c->idle_ns && (!at || idle_at < at))
		at = idle_at;
	if (at)
		timer_arm(&c->m->loop, &c->end_timer, at);
}

void channel_limit(struct channel *c, uint64_t timeout_ns, uint64_t idle_ns)
{
	uint64_t now = monotonic_ns();

	c->timeout_at_ns = timeout_ns ? now + timeout_ns : 0;
	c->idle_ns = idle_ns;
	c->read_at_ns = now;
	limit_arm(c);
}

static void limit_tick(struct channel *c)
{
	uint64_t now = c->m->loop.now_ns;

	if (!c->freezes && muxlet_is_frozen(c->m)) /* thaw() arms it again */
		return;
	if (c->timeout_at_ns && now >= c->timeout_at_ns) {
		channel_kill(c, CAUSE_TIMEOUT);
		return;
	}
	if (c->state == CHANNEL_STARTING || channel_is_held_back(c))
		c->read_at_ns = now;
	if (c->idle_ns && now >= c->read_at_ns + c->idle_ns)
		channel_kill(c, CAUSE_IDLE_TIMEOUT);
	else
		limit_arm(c);
}

/* The program is there: from here on it can say something. */
void channel_limit_begin(struct channel *c)
{
	c->read_at_ns = c->m->loop.now_ns;
	limit_arm(c);
}

void channel_end_tick(struct timer *t)
{
	struct channel *c = container_of(t, struct channel, end_timer);

	switch (c->state) {
	case CHANNEL_STARTING:
	case CHANNEL_RUNNING:
		limit_tick(c);
		break;
	case CHANNEL_ENDING:
		ending_tick(c);
		break;
	case CHANNEL_DRAINING:
		drain_tick(c);
		break;
	case CHANNEL_ENDED:
		break;
	}
}
