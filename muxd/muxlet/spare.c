#include "muxd/muxlet/spare.h"

#include "muxd/muxlet/muxlet.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAGE        4096
#define PAGE_FD     3
#define STEP_NS     (20 * MS_NS) /* between two that are made */
#define RETRY_NS    (50 * MS_NS) /* after one that could not be made; doubles */
#define RETRY_TIMES 5            /* up to 1.6 s */
#define REAPED_NS   (2 * MS_NS)  /* an end makes room: tried at once, but not more often */
#define TAKEN       't'          /* what a spare says when it has its order */
#define EXIT_SYSTEM 71

/* ---- the process */

int spare_run(void)
{
	static struct order_box box;
	volatile struct child_failure *f = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, PAGE_FD, 0);
	struct guard guard = {.n = 0};
	struct child c;
	uint32_t number;
	char taken = TAKEN;
	int rc;

	if (f == MAP_FAILED || prctl(PR_SET_DUMPABLE, 0))
		return EXIT_SYSTEM;
	close(PAGE_FD);
	do
		rc = order_receive(STDIN_FILENO, &box, &guard, &c, &number);
	while (rc == EBADMSG || rc == EINTR);
	if (rc)
		return rc < 0 ? 0 : EXIT_SYSTEM;
	if (c.guard)
		guard_make(&guard, getppid(), getpgrp());
	if (send(STDIN_FILENO, &taken, 1, MSG_NOSIGNAL) != 1)
		return EXIT_SYSTEM;
	child_become(&c, f);
}

/* ---- making one */

struct ends {
	int ours, its, page;
};

static void spare_close_all(const struct ends *e)
{
	const int fds[] = {e->ours, e->its, e->page};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

struct begin {
	const struct muxlet *m;
	const struct ends *e;
};

/* On muxlet's memory until exec: system calls alone. Of its group, so that it can still lead a session of its own. */
static int become_spare(void *arg) __attribute__((noreturn));
static int become_spare(void *arg)
{
	static char *const argv[] = {(char *)(uintptr_t) "muxlet", (char *)(uintptr_t) "--spare", NULL};
	static char *const envp[] = {NULL};
	const struct begin *b = arg;

	if (dup2(b->e->its, STDIN_FILENO) < 0 || dup2(b->m->null_fd, STDOUT_FILENO) < 0 ||
	    dup2(b->m->null_fd, STDERR_FILENO) < 0 || dup2(b->e->page, PAGE_FD) < 0)
		_exit(EXIT_SYSTEM);
	(void)close_range(PAGE_FD + 1, ~0U, 0);
	execve("/proc/self/exe", argv, envp);
	_exit(EXIT_SYSTEM);
}

/* All above PAGE_FD: 0 to 2 are taken, and nothing lies in the way of the page. */
static int make_ends(struct ends *e)
{
	int pair[2] = {-1, -1}, low;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	e->ours = pair[0];
	e->its = fcntl(pair[1], F_DUPFD_CLOEXEC, PAGE_FD + 1);
	close(pair[1]);
	low = memfd_create("spare", MFD_CLOEXEC);
	e->page = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, PAGE_FD + 1);
	if (low >= 0)
		close(low);
	return e->its < 0 || e->page < 0 || ftruncate(e->page, PAGE) ? -1 : 0;
}

static int spare_make(struct spare *s)
{
	struct ends e = {-1, -1, -1};
	struct begin b = {s->m, &e};
	void *page = MAP_FAILED;
	int rc = make_ends(&e);

	s->src.fd = e.ours;
	if (!rc)
		page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, e.page, 0);
	if (page == MAP_FAILED || source_watch(&s->m->loop, &s->src, EPOLLIN) ||
	    (s->pid = child_make(become_spare, &b)) < 0) {
		source_remove(&s->m->loop, &s->src);
		if (page != MAP_FAILED)
			(void)munmap(page, PAGE);
		s->src.fd = -1;
		s->pid = 0;
		spare_close_all(&e);
		return -1;
	}
	e.ours = -1;
	spare_close_all(&e);
	s->failure = page;
	s->state = SPARE_IDLE;
	return 0;
}

static struct spare *in_state(struct muxlet *m, enum spare_state state)
{
	for (int i = 0; i < SPARES; i++)
		if (m->spares.v[i].state == state)
			return &m->spares.v[i];
	return NULL;
}

static void refill_in(struct muxlet *m, uint64_t ns)
{
	if (m->spares.wanted && in_state(m, SPARE_NONE))
		timer_arm(&m->loop, &m->spares.timer, m->loop.now_ns + ns);
}

/* One at a time: others have a turn between. */
static void refill(struct muxlet *m)
{
	struct spares *all = &m->spares;
	struct spare *s = in_state(m, SPARE_NONE);

	if (!s || m->stopping)
		return;
	all->tried_ns = m->loop.now_ns;
	if (m->clearing || spare_make(s)) {
		refill_in(m, RETRY_NS << all->failed);
		all->failed += all->failed < RETRY_TIMES;
		return;
	}
	all->failed = 0;
	refill_in(m, STEP_NS);
}

static void refill_tick(struct timer *t)
{
	refill(container_of(t, struct muxlet, spares.timer));
}

/* The spare has no order any more, and is none. The page it shares stays with the channel whose program it is. */
static void leave(struct spare *s)
{
	timer_cancel(&s->m->loop, &s->timer);
	source_close(&s->m->loop, &s->src);
	if (s->failure)
		(void)munmap(s->failure, PAGE);
	s->failure = NULL;
	s->birth = NULL;
	s->pid = 0;
	s->state = SPARE_NONE;
	refill_in(s->m, s->m->spares.failed ? RETRY_NS : 0);
}

/* The spare's word may be there, unheard yet. From here on no other can come: without it the program was not begun. */
static bool took(const struct spare *s)
{
	char byte = 0;

	return s->state == SPARE_ORDERED && shutdown(s->src.fd, SHUT_RD) == 0 &&
	       recv(s->src.fd, &byte, 1, MSG_DONTWAIT) == 1 && byte == TAKEN;
}

static void taken(struct spare *s)
{
	struct birth *b = s->birth;
	pid_t pid = s->pid;

	b->channel->failure = s->failure;
	b->channel->spare = true;
	s->failure = NULL;
	leave(s);
	muxlet_note(s->m, "channel %u: begun by a spare process", b->channel->number);
	birth_settle(s->m, b, pid, 0, "");
}

/* The spare has begun its program, though that was not heard yet: now it is. */
static bool had_taken(struct spare *s)
{
	if (!s->pid || !took(s))
		return false;
	taken(s);
	return true;
}

void spares_reaped(struct muxlet *m, pid_t pid)
{
	for (int i = 0; i < SPARES; i++) {
		struct spare *s = &m->spares.v[i];

		if (s->pid == pid && !had_taken(s))
			s->pid = 0; /* its socket tells the rest */
	}
	if (m->spares.wanted && m->spares.failed && m->loop.now_ns >= m->spares.tried_ns + REAPED_NS)
		refill(m);
}

bool spares_have(const struct muxlet *m, pid_t pid)
{
	for (int i = 0; i < SPARES; i++)
		if (m->spares.v[i].state != SPARE_NONE && m->spares.v[i].pid == pid)
			return true;
	return false;
}

/* ---- an order */

static void spare_end(struct spare *s)
{
	if (s->pid)
		(void)kill(s->pid, SIGKILL);
	leave(s);
}

/* To the next one that is there. False: there is none. */
static bool hand_over(struct muxlet *m, struct birth *b)
{
	struct spare *s;

	while ((s = in_state(m, SPARE_IDLE))) {
		if (s->pid && kill(s->pid, SIGCONT) == 0 && order_send(&b->order, s->src.fd) == 0) {
			s->birth = b;
			s->state = SPARE_ORDERED;
			timer_arm(&m->loop, &s->timer, m->loop.now_ns + SPARE_MS * MS_NS);
			return true;
		}
		spare_end(s);
	}
	return false;
}

static void next_one(struct spare *s)
{
	struct birth *b = s->birth;

	if (had_taken(s))
		return;
	spare_end(s);
	if (b)
		spares_add(s->m, b);
}

static void spare_ready(struct source *src, uint32_t events)
{
	struct spare *s = container_of(src, struct spare, src);
	char byte = 0;
	ssize_t n = recv(src->fd, &byte, 1, MSG_DONTWAIT);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 1 && byte == TAKEN && s->state == SPARE_ORDERED && s->pid)
		taken(s);
	else
		next_one(s);
}

static void spare_slow(struct timer *t)
{
	next_one(container_of(t, struct spare, timer));
}

bool spares_ready(struct muxlet *m)
{
	return in_state(m, SPARE_IDLE) != NULL;
}

void spares_add(struct muxlet *m, struct birth *b)
{
	if (!hand_over(m, b))
		birth_settle(m, b, 0, EAGAIN, "spawn");
}

bool spares_end(struct muxlet *m, const struct birth *b)
{
	for (int i = 0; i < SPARES; i++)
		if (m->spares.v[i].birth == b && had_taken(&m->spares.v[i]))
			return true;
	spares_let_go(m, b);
	return false;
}

void spares_let_go(struct muxlet *m, const struct birth *b)
{
	for (int i = 0; i < SPARES; i++)
		if (m->spares.v[i].birth == b)
			spare_end(&m->spares.v[i]);
}

int spares_failure(struct channel *c, const char **at)
{
	int err = c->failure ? c->failure->error : 0;

	if (!c->failure)
		return 0;
	*at = child_at_name(c->failure->at);
	(void)munmap(c->failure, PAGE);
	c->failure = NULL;
	return err;
}

void spares_open(struct muxlet *m)
{
	m->spares.wanted = true;
	m->spares.timer.fire = refill_tick;
	for (int i = 0; i < SPARES; i++) {
		struct spare *s = &m->spares.v[i];

		s->m = m;
		s->src.fd = -1;
		s->src.ready = spare_ready;
		s->timer.fire = spare_slow;
	}
	refill_in(m, STEP_NS);
}

void spares_close(struct muxlet *m)
{
	m->spares.wanted = false;
	for (int i = 0; i < SPARES; i++)
		if (m->spares.v[i].state != SPARE_NONE && !had_taken(&m->spares.v[i]))
			leave(&m->spares.v[i]); /* the end of its socket is its own */
}
