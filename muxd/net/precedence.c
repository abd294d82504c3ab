#define LOG_SUBSYS "net"

#include "muxd/net/precedence.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/niceness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define BUSY  50 /* per cent of a processor: more is too much to be ahead */
#define CALM  30 /* less is little */
#define WAITS 2  /* per cent of the time */

enum precedence_state precedence_next(enum precedence_state now, const struct precedence_times *spent,
				      uint64_t passed_ns, uint64_t held_ns)
{
	uint64_t used = passed_ns ? spent->used_ns * 100 / passed_ns : 0;
	uint64_t waited = passed_ns ? spent->waited_ns * 100 / passed_ns : 0;

	if (now == PRECEDENCE_AHEAD && (used > BUSY || held_ns >= PRECEDENCE_HOLD_MS * NS_PER_MS))
		return PRECEDENCE_USUAL;
	if (now == PRECEDENCE_USUAL && used < CALM && waited >= WAITS)
		return PRECEDENCE_ASKED;
	return now;
}

/* By number: a signal of the process may come to any of its threads. */
static void precedence_spun(int signum)
{
	int was = errno;

	(void)signum;
	(void)niceness_ahead(getpid(), false);
	errno = was;
}

/* Anew each time: the kernel raises the limit by a second whenever it is reached. */
static int spin_limit(void)
{
	struct rlimit spin;

	if (getrlimit(RLIMIT_RTTIME, &spin))
		return -1;
	spin.rlim_cur = PRECEDENCE_SPIN_MS * 1000; /* microseconds */
	return setrlimit(RLIMIT_RTTIME, &spin);
}

static void precedence_set_state(struct precedence *p, enum precedence_state s, uint64_t now)
{
	static const char *const names[] = {"usual", "asked", "ahead", "none"};

	if (s == p->state)
		return;
	log_debug(NULL, "precedence: %s -> %s", names[p->state], names[s]);
	p->state = s;
	p->since_ns = now;
	if (s == PRECEDENCE_USUAL)
		(void)niceness_ahead(getpid(), false);
	else if (s == PRECEDENCE_ASKED && !spin_limit())
		p->ask(p->arg);
}

/* Notes the word of others: the monitor gave the turn, late perhaps, or the kernel sent back a loop that spins. */
static void precedence_note(struct precedence *p, uint64_t now)
{
	if (niceness_is_ahead(getpid()))
		precedence_set_state(p, PRECEDENCE_AHEAD, now);
	else if (p->state == PRECEDENCE_ASKED && now - p->since_ns >= PRECEDENCE_WAIT_MS * NS_PER_MS)
		precedence_set_state(p, PRECEDENCE_NONE, now);
	else if (p->state == PRECEDENCE_AHEAD)
		precedence_set_state(p, PRECEDENCE_USUAL, now);
}

static bool times_read(int fd, struct precedence_times *out)
{
	char text[96], *end;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return false;
	text[n] = 0;
	out->used_ns = strtoull(text, &end, 10);
	if (end == text || *end != ' ')
		return false;
	out->waited_ns = strtoull(end, NULL, 10);
	return true;
}

static void precedence_on_turn(uv_check_t *turn)
{
	struct precedence *p = turn->data;
	uint64_t now = clock_boot_ns();
	struct precedence_times t, spent;

	if (now - p->looked_ns < PRECEDENCE_LOOK_MS * NS_PER_MS || !times_read(p->schedstat_fd, &t))
		return;
	spent = (struct precedence_times){t.used_ns - p->then.used_ns, t.waited_ns - p->then.waited_ns};
	precedence_note(p, now);
	precedence_set_state(p, precedence_next(p->state, &spent, now - p->looked_ns, now - p->since_ns), now);
	p->looked_ns = now;
	p->then = t;
}

static void worker_nothing(uv_work_t *w)
{
	(void)w;
}

void precedence_begin(struct precedence *p, uv_loop_t *loop, precedence_ask *ask, void *arg)
{
	const struct sigaction spun = {.sa_handler = precedence_spun, .sa_flags = SA_RESTART};
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", (int)getpid());
	*p = (struct precedence){.ask = ask, .arg = arg, .looked_ns = clock_boot_ns()};
	p->schedstat_fd = open(path, O_RDONLY | O_CLOEXEC);
	(void)uv_check_init(loop, &p->turn);
	p->turn.data = p;
	uv_unref((uv_handle_t *)&p->turn);
	/* A thread inherits the policy of who makes it: the pool is made before. */
	(void)uv_queue_work(loop, &p->first, worker_nothing, NULL);
	p->state = PRECEDENCE_NONE;
	if (times_read(p->schedstat_fd, &p->then) && !sigaction(SIGXCPU, &spun, NULL) && !spin_limit() &&
	    !uv_check_start(&p->turn, precedence_on_turn))
		precedence_set_state(p, PRECEDENCE_USUAL, p->looked_ns);
}

void precedence_end(struct precedence *p)
{
	if (!uv_handle_get_loop((uv_handle_t *)&p->turn))
		return;
	uv_close((uv_handle_t *)&p->turn, NULL);
	if (p->schedstat_fd >= 0)
		close(p->schedstat_fd);
}
