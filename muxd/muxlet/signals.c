/* Signals by descriptor: orphans and leaders are reaped here, and muxlet's own end begins here. */
#include "muxd/muxlet/muxlet.h"
#include "muxd/muxlet/tree.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define REAP_MAX         256 /* per turn */
#define SHUTDOWN_STEP_NS (20 * MS_NS)
#define SHUTDOWN_LAST_NS (1000 * MS_NS)

static void reap(struct muxlet *m)
{
	for (int i = 0; i < REAP_MAX; i++) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);
		struct channel *c;

		if (pid <= 0)
			return;
		if (nursery_reaped(m, pid))
			continue;
		memory_reaped(m, pid);
		spares_reaped(m, pid); /* a channel may get its program by that */
		c = muxlet_find_pid(m, pid);
		if (c)
			channel_on_exit(c, status);
	}
	m->reap_more = m->loop.again = true; /* others have a turn first */
}

void signals_turn(struct muxlet *m)
{
	m->reap_more = false;
	reap(m);
}

/* As process 1 it is told to end from outside alone: who is inside is seen with a pid, or came another way than kill.
 */
static bool may_end_us(const struct signalfd_siginfo *si)
{
	if (si->ssi_signo != SIGTERM && si->ssi_signo != SIGINT)
		return false;
	return getpid() != 1 || (si->ssi_code == SI_USER && si->ssi_pid == 0);
}

static int signal_all(int signum)
{
	const int signals[] = {signum, SIGCONT, 0};

	if (getpid() != 1)
		return tree_signal_all(signals);
	if (signum && kill(-1, signum))
		return 0; /* ESRCH: nobody but us */
	(void)kill(-1, SIGCONT);
	return 1;
}

/* TERM to all, KILL after the grace; done when nobody is left, or a second after KILL. */
static void shutdown_tick(struct timer *t)
{
	struct muxlet *m = container_of(t, struct muxlet, shutdown_timer);
	uint64_t now = m->loop.now_ns;

	if (now >= m->stop_kill_ns) {
		bool nobody = signal_all(SIGKILL) <= 0;

		m->done = (nobody && m->living == 0) || now >= m->stop_kill_ns + SHUTDOWN_LAST_NS;
	} else if (getpid() == 1 ? kill(-1, 0) != 0 : tree_signal_all(&(const int){0}) <= 0) {
		m->stop_kill_ns = now; /* the loop gets its turns to reap them */
	}
	if (!m->done)
		timer_arm(&m->loop, t, now + SHUTDOWN_STEP_NS);
}

void signals_stop(struct muxlet *m)
{
	struct channel *c, *next;

	if (m->stopping) { /* told twice: no grace */
		m->stop_kill_ns = m->loop.now_ns;
		timer_arm(&m->loop, &m->shutdown_timer, m->loop.now_ns);
		return;
	}
	m->stopping = true;
	m->stop_kill_ns = m->loop.now_ns + SHUTDOWN_GRACE_MS * MS_NS;
	muxlet_note(m, "told to end");
	spares_close(m);
	(void)signal_all(SIGTERM);
	for (c = TAILQ_FIRST(&m->alive); c; c = next) {
		next = TAILQ_NEXT(c, place);
		if (c->pty && c->pid)
			(void)kill(-c->pid, SIGHUP); /* a shell at a terminal does not hear TERM */
		channel_stop(c);
	}
	timer_arm(&m->loop, &m->shutdown_timer, m->loop.now_ns + SHUTDOWN_STEP_NS);
}

static void signals_ready(struct source *s, uint32_t events)
{
	struct muxlet *m = container_of(s, struct muxlet, signals);
	struct signalfd_siginfo si[8];
	ssize_t n = read(s->fd, si, sizeof(si));
	bool child = false, term = false;

	(void)events;
	for (ssize_t i = 0; i < n / (ssize_t)sizeof(si[0]); i++) {
		child = child || si[i].ssi_signo == SIGCHLD;
		term = term || may_end_us(&si[i]);
	}
	if (term)
		signals_stop(m);
	if (child)
		reap(m);
}

int signals_open(struct muxlet *m)
{
	struct sigaction sa = {.sa_handler = SIG_DFL};
	sigset_t set;

	for (int i = 1; i < NSIG; i++)
		if (i != SIGKILL && i != SIGSTOP)
			(void)sigaction(i, &sa, NULL); /* the C library keeps two for itself and refuses: so be it */
	sa.sa_handler = SIG_IGN;
	(void)sigaction(SIGPIPE, &sa, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP); /* read and ignored: the exec stream that started us may have had a terminal */
	if (sigprocmask(SIG_SETMASK, &set, NULL))
		return -errno;
	m->shutdown_timer.fire = shutdown_tick;
	m->signals.ready = signals_ready;
	m->signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (m->signals.fd < 0)
		return -errno;
	return source_watch(&m->loop, &m->signals, EPOLLIN);
}
