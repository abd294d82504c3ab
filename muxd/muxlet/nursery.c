#include "muxd/muxlet/nursery.h"

#include "muxd/muxlet/guard.h"
#include "muxd/muxlet/muxlet.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#define LOOK_MS    10
#define SOCK       3 /* descriptors of the nursery itself */
#define PAGE       4
#define EXIT_BENT  3
#define STACK      (64 * 1024) /* of a child until its exec */
#define STOPS_MOST 100         /* found so often stopped, it is not let go on any more */

struct nursery_answer {
	uint32_t number;
	pid_t pid;
	struct child_failure failure;
};

static void pump(struct muxlet *m);

static void nursery_set_state(struct muxlet *m, enum nursery_state s)
{
	static const char *const names[] = {"OFF", "NONE", "IDLE", "BUSY", "ENDING"};

	if (s == NURSERY_ENDING || m->nursery.state == NURSERY_ENDING)
		muxlet_note(m, "nursery %d: %s -> %s", (int)m->nursery.pid, names[m->nursery.state], names[s]);
	m->nursery.state = s;
}

/* ---- making it */

/*
 * In the child: our memory is left behind by the exec, in the group that it joins before. System calls alone, though
 * there are no threads here.
 */
static void nursery_become(const struct muxlet *m, int sock, int page) __attribute__((noreturn));
static void nursery_become(const struct muxlet *m, int sock, int page)
{
	char *argv[] = {(char *)(uintptr_t)NURSERY_ARGV0, (char *)(uintptr_t)NURSERY_ARGV1, NULL}, *envp[] = {NULL};
	int procs = m->nursery.procs_fd;
	sigset_t none;

	sigemptyset(&none);
	(void)signal(SIGPIPE, SIG_DFL);
	/* Above all targets first: the numbers are anybody's. */
	sock = fcntl(sock, F_DUPFD_CLOEXEC, 8);
	page = fcntl(page, F_DUPFD_CLOEXEC, 8);
	procs = procs < 0 ? -1 : fcntl(procs, F_DUPFD_CLOEXEC, 8);
	for (int i = 0; i < 3; i++)
		if (dup2(m->null_fd, i) < 0)
			_exit(2);
	if (dup2(sock, 3) < 0 || dup2(page, 4) < 0 || (procs >= 0 && dup3(procs, 5, O_CLOEXEC) < 0) ||
	    close_range(6, ~0U, 0) != 0 || sigprocmask(SIG_SETMASK, &none, NULL) != 0)
		_exit(2);
	(void)!write(3, "", 1); /* the pipes of others are let go: become_wait() */
	if (setsid() < 0 || (procs >= 0 && write(5, "0", 1) != 1))
		_exit(1);
	execve("/proc/self/exe", argv, envp);
	_exit(2);
}

static int page_make(struct nursery *n)
{
	int fd = memfd_create("nursery", MFD_CLOEXEC);

	if (fd < 0)
		return -1;
	n->page = ftruncate(fd, sizeof(*n->page)) == 0
		      ? mmap(NULL, sizeof(*n->page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
		      : MAP_FAILED;
	if (n->page == MAP_FAILED) {
		n->page = NULL;
		close(fd);
		return -1;
	}
	n->page->pid = 0; /* and so it is our group's memory, not the one that is full */
	return fd;
}

static void unmake(struct muxlet *m)
{
	struct nursery *n = &m->nursery;

	source_close(&m->loop, &n->src);
	if (n->page)
		(void)munmap(n->page, sizeof(*n->page));
	n->page = NULL;
	n->pid = 0;
}

/*
 * Until the child has let go of the pipes that it has copies of. The loop closes nothing meanwhile, so that none of the
 * child's are the last (pipes.h). What others inside do to the child is undone or ends it.
 */
static void become_wait(pid_t pid, int sock)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	char byte;

	for (unsigned stops = 0; poll(&p, 1, LOOK_MS) <= 0;)
		if (child_was_stopped(pid))
			(void)kill(pid, ++stops < STOPS_MOST ? SIGCONT : SIGKILL);
	(void)recv(sock, &byte, sizeof(byte), MSG_DONTWAIT);
}

/* fork, not vfork: nothing here waits for what happens in a group that may be full. 0 or errno. */
static int nursery_make(struct muxlet *m)
{
	struct nursery *n = &m->nursery;
	int s[2], page = -1, err = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s) != 0)
		return errno;
	n->src.fd = s[0];
	page = page_make(n);
	if (page < 0 || fcntl(s[0], F_SETFL, O_RDWR | O_NONBLOCK) != 0 ||
	    source_watch(&m->loop, &n->src, EPOLLIN) != 0 || (n->pid = fork()) < 0)
		err = errno;
	if (!err && n->pid == 0)
		nursery_become(m, s[1], page);
	close(s[1]);
	if (page >= 0)
		close(page);
	if (!err)
		become_wait(n->pid, s[0]);
	if (err) {
		unmake(m);
		return err;
	}
	n->heard_ns = m->loop.now_ns;
	nursery_set_state(m, NURSERY_IDLE);
	return 0;
}

/* ---- one order */

void birth_free(struct muxlet *m, struct birth *b)
{
	struct nursery *n = &m->nursery;

	if (n->current == b)
		n->current = NULL; /* the nursery may have it still: what it says of it is nobody's */
	else if (b->entry.tqe_prev)
		TAILQ_REMOVE(&n->waiting, b, entry);
	channel_give_up(b->channel, b->close, b->nclose);
	order_finish(&b->order);
	free(b);
}

static void dequeue(struct nursery *n, struct birth *b)
{
	TAILQ_REMOVE(&n->waiting, b, entry);
	b->entry.tqe_prev = NULL;
}

static void nursery_kill(struct muxlet *m)
{
	struct nursery *n = &m->nursery;

	source_remove(&m->loop, &n->src);
	if (n->pid > 0)
		(void)kill(n->pid, SIGKILL);
	nursery_set_state(m, NURSERY_ENDING);
}

/* A child of ours, and none that we know: what the page says has been in the hands of the sandbox's user. */
static bool is_new_child(struct muxlet *m, pid_t pid)
{
	siginfo_t si;

	return pid > 1 && pid != m->nursery.pid && !muxlet_find_pid(m, pid) &&
	       waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* The pid in the page was made, and lives, whatever becomes of the nursery. Why it ends at once, should it, is told by
 * the page when it is reaped. */
static bool settle_by_page(struct muxlet *m)
{
	struct nursery *n = &m->nursery;
	pid_t pid = n->page ? n->page->pid : 0;

	if (!n->current || !pid)
		return false;
	if (is_new_child(m, pid)) {
		n->current->channel->failure = &n->page->failure;
		n->page = NULL;
		birth_settle(m, n->current, pid, 0, "");
	} else {
		birth_settle(m, n->current, 0, EIO, "spawn");
	}
	return true;
}

static void tick(struct timer *t)
{
	struct muxlet *m = container_of(t, struct muxlet, nursery.timer);
	struct nursery *n = &m->nursery;
	uint64_t now = m->loop.now_ns;

	if (n->state == NURSERY_NONE) {
		pump(m);
		return;
	}
	if (n->state != NURSERY_BUSY)
		return;
	if (n->current && (n->current->ended || n->current->signals))
		(void)settle_by_page(m);
	if (muxlet_is_frozen(m)) {
		n->heard_ns = now;
	} else if (now - n->heard_ns >= NURSERY_SILENT_MS * MS_NS) {
		muxlet_note(m, "the nursery has been silent for too long");
		nursery_kill(m);
		return;
	} else if (now - n->heard_ns >= NURSERY_WAKE_MS * MS_NS) {
		(void)kill(n->pid, SIGCONT);
	}
	timer_arm(&m->loop, t, now + NURSERY_TICK_MS * MS_NS);
}

static void nursery_send(struct muxlet *m, struct birth *b)
{
	struct nursery *n = &m->nursery;
	int err;

	if (!n->page) { /* it goes with its nursery */
		nursery_kill(m);
		return;
	}
	n->page->pid = 0;
	n->page->failure.error = 0;
	n->number = b->number;
	err = order_send(&b->order, n->src.fd);
	if (err == EPIPE || err == ECONNRESET || err == ENOTCONN) {
		nursery_kill(m);
		if (++b->tries < NURSERY_TRIES)
			return;
		muxlet_note(m, "a program was not started: its nursery died %u times", b->tries);
		err = EAGAIN;
	}
	dequeue(n, b);
	if (err) {
		birth_settle(m, b, 0, err, "spawn");
		return;
	}
	n->current = b;
	n->heard_ns = m->loop.now_ns;
	nursery_set_state(m, NURSERY_BUSY);
	timer_arm(&m->loop, &n->timer, m->loop.now_ns + NURSERY_TICK_MS * MS_NS);
}

static void pump(struct muxlet *m)
{
	struct nursery *n = &m->nursery;
	struct birth *b;
	int err;

	while ((b = TAILQ_FIRST(&n->waiting)) && (n->state == NURSERY_NONE || n->state == NURSERY_IDLE)) {
		err = n->state == NURSERY_NONE ? nursery_make(m) : 0;
		if (!err) {
			nursery_send(m, b);
			continue;
		}
		dequeue(n, b);
		birth_settle(m, b, 0, err, "spawn");
	}
}

static void answered(struct muxlet *m, const struct nursery_answer *a)
{
	struct nursery *n = &m->nursery;
	struct birth *b = n->current;

	if (a->number != n->number || (n->state != NURSERY_BUSY && n->state != NURSERY_ENDING))
		return;
	if (n->state == NURSERY_BUSY) {
		timer_cancel(&m->loop, &n->timer);
		nursery_set_state(m, NURSERY_IDLE);
	}
	if (!b)
		return; /* it is settled already */
	if (a->failure.error) {
		birth_settle(m, b, 0, a->failure.error, child_at_name(a->failure.at));
	} else if (is_new_child(m, a->pid)) {
		birth_place(b, &n->page->place);
		birth_settle(m, b, a->pid, 0, "");
	} else {
		birth_settle(m, b, 0, EIO, "spawn");
	}
}

static bool hear(struct muxlet *m)
{
	struct nursery_answer a;
	ssize_t n;

	while ((n = recv(m->nursery.src.fd, &a, sizeof(a), MSG_DONTWAIT)) == (ssize_t)sizeof(a))
		answered(m, &a);
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void nursery_ready(struct source *s, uint32_t events)
{
	struct muxlet *m = container_of(s, struct muxlet, nursery.src);

	(void)events;
	if (!hear(m))
		nursery_kill(m);
	pump(m);
}

/* ---- its end, and that of what it has made */

/* Without a pid it was not made, and never will be. */
static void left_behind(struct muxlet *m)
{
	struct nursery *n = &m->nursery;
	struct birth *b = n->current;

	if (!b || settle_by_page(m))
		return;
	n->current = NULL;
	if (b->ended) {
		birth_settle(m, b, 0, 0, "");
	} else if (++b->tries >= NURSERY_TRIES) {
		muxlet_note(m, "a program was not started: its nursery was killed %u times", b->tries);
		birth_settle(m, b, 0, EAGAIN, "spawn");
	} else {
		TAILQ_INSERT_HEAD(&n->waiting, b, entry);
	}
}

bool nursery_reaped(struct muxlet *m, pid_t pid)
{
	struct nursery *n = &m->nursery;

	if (!n->pid)
		return false;
	if (pid != n->pid) {
		struct birth *b = n->current;

		if (b && n->page->pid == pid) { /* it has ended, so all that it had to say is in the page */
			int err = n->page->failure.error;

			birth_place(b, &n->page->place);
			birth_settle(m, b, err ? 0 : pid, err, err ? child_at_name(n->page->failure.at) : "");
		}
		return false;
	}
	(void)hear(m);
	left_behind(m);
	timer_cancel(&m->loop, &n->timer);
	unmake(m);
	nursery_set_state(m, NURSERY_NONE);
	if (!TAILQ_EMPTY(&n->waiting))
		timer_arm(&m->loop, &n->timer, m->loop.now_ns); /* not from within what reaps */
	return true;
}

uint32_t nursery_number(struct muxlet *m)
{
	return ++m->nursery.numbers;
}

void nursery_add(struct muxlet *m, struct birth *b)
{
	TAILQ_INSERT_TAIL(&m->nursery.waiting, b, entry);
	pump(m);
}

void nursery_end(struct muxlet *m, struct birth *b)
{
	if (m->nursery.current != b)
		birth_settle(m, b, 0, 0, "");
	else
		(void)settle_by_page(m);
}

void nursery_open(struct muxlet *m, int procs_fd)
{
	struct nursery *n = &m->nursery;

	TAILQ_INIT(&n->waiting);
	n->procs_fd = procs_fd;
	n->src.fd = -1;
	n->src.ready = nursery_ready;
	n->timer.fire = tick;
	if (procs_fd < 0 && !m->own_pod)
		return;
	nursery_set_state(m, NURSERY_NONE);
	(void)nursery_make(m); /* before the first round asks for it */
}

void nursery_close(struct muxlet *m)
{
	timer_cancel(&m->loop, &m->nursery.timer);
	unmake(m);
}

/* ---- the nursery's own side: a small process with two descriptors, no secret of muxlet's, and one order at a time */

/* State that programs inherit and others inside could change. */
struct shape {
	struct rlimit limits[RLIM_NLIMITS];
	int nice, policy;
	cpu_set_t cpus;
};

static void shape_take(struct shape *s)
{
	memset(s, 0, sizeof(*s));
	for (int i = 0; i < RLIM_NLIMITS; i++)
		(void)getrlimit((__rlimit_resource_t)i, &s->limits[i]);
	s->limits[RLIMIT_NPROC].rlim_cur = 0; /* set for each order */
	s->nice = getpriority(PRIO_PROCESS, 0);
	s->policy = sched_getscheduler(0);
	(void)sched_getaffinity(0, sizeof(s->cpus), &s->cpus);
}

struct making {
	const struct child *child;
	struct nursery_page *page;
};

static int nursery_serve_make(void *arg)
{
	const struct making *k = arg;

	child_become(k->child, &k->page->failure);
}

/*
 * As vfork, but the program is muxlet's child. Its pid is in the page before it runs, so that it can end, or we, and
 * muxlet knows.
 */
static void nursery_serve_start(struct child *c, struct nursery_page *page, struct nursery_answer *out)
{
	_Alignas(64) uint8_t stack[STACK];
	struct making k = {c, page};
	struct rlimit own;
	pid_t pid;

	c->place = &page->place;
	/* The kernel looks at the maker's limit of processes. */
	if (getrlimit(RLIMIT_NPROC, &own) == 0) {
		own.rlim_cur = c->procs.rlim_max < own.rlim_max ? c->procs.rlim_max : own.rlim_max;
		(void)setrlimit(RLIMIT_NPROC, &own);
	}
	pid = clone(nursery_serve_make, stack + sizeof(stack),
		    CLONE_VM | CLONE_VFORK | CLONE_PARENT | CLONE_PARENT_SETTID | SIGCHLD, &k, &page->pid);
#ifdef __SANITIZE_ADDRESS__
	/* The child left its frames by exec, still marked as frames are. */
	__asan_unpoison_memory_region(stack, sizeof(stack));
#endif
	if (pid < 0)
		out->failure = (struct child_failure){errno, CHILD_AT_SPAWN};
	else
		out->failure = (struct child_failure){page->failure.error, page->failure.at};
	out->pid = pid;
}

int nursery_serve(void)
{
	static struct order_box box;
	static struct guard guard;
	struct nursery_page *page =
	    mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, PAGE, 0);
	struct nursery_answer answer;
	struct shape first, now;
	struct child c;
	int rc;

	child_ends_first();
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)prctl(PR_SET_NAME, "muxlet-nursery");
	if (page == MAP_FAILED)
		return errno;
	(void)mlock(page, sizeof(*page)); /* it is there, and there is no swap for it: a wish */
	close(PAGE);
	guard_make(&guard, getppid(), getpgid(getppid())); /* laid where the order says so */
	shape_take(&first);
	while ((rc = order_receive(SOCK, &box, &guard, &c, &answer.number)) == 0) {
		shape_take(&now);
		if (memcmp(&first, &now, sizeof(now)) != 0)
			return EXIT_BENT;
		nursery_serve_start(&c, page, &answer);
		order_close(&box);
		if (send(SOCK, &answer, sizeof(answer), MSG_NOSIGNAL) != (ssize_t)sizeof(answer))
			break;
	}
	return rc > 0 ? rc : 0;
}
