#include "muxd/muxlet/pipes.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK      (64 * 1024)
#define PIPE_USUAL (64 * 1024) /* what a pipe holds until it is told otherwise */
#define PIPE_BULK  (512 * 1024)

#define CLOSES_MAX 16 /* in one job */

static void away_drop(struct pipes *p, enum pipes_lane lane)
{
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	(void)recvmsg(p->away[lane][1], &m, MSG_DONTWAIT);
}

/* 0, or an errno: nothing was sent. */
static int away_send(struct pipes *p, enum pipes_lane lane, const uint8_t *fds, size_t n)
{
	union {
		char bytes[CMSG_SPACE(CLOSES_MAX * sizeof(int))];
		struct cmsghdr align;
	} control = {.bytes = {0}};
	char byte = 0;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = CMSG_SPACE(n * sizeof(int))};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	return sendmsg(p->away[lane][0], &m, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 ? 0 : errno;
}

static void close_each(const uint8_t *fds, size_t n)
{
	for (int fd; n; n--, fds += sizeof(fd)) {
		memcpy(&fd, fds, sizeof(fd));
		close(fd);
	}
}

static void perform(struct pipes *p, struct pipe_job *j)
{
	if (j->by_number)
		close_each(j->bytes, j->closes);
	else if (!j->want)
		away_drop(p, j->lane);
	if (!j->want)
		return;
	do
		j->n = j->write ? write(j->fd, j->bytes, j->want) : read(j->fd, j->bytes, j->want);
	while (j->n < 0 && errno == EINTR);
	j->error = j->n < 0 ? errno : 0;
	if (!j->write && j->n == PIPE_USUAL) /* it was full: writer and reader take turns */
		(void)fcntl(j->fd, F_SETPIPE_SZ, PIPE_BULK);
}

/* The next job that this lane's threads may take; NULL: none. With the lock. */
static struct pipe_job *job_take(struct pipes *p)
{
	struct pipe_job *j = STAILQ_FIRST(&p->todo[PIPES_LANE_STAFF]);

	if (!j && p->busy[PIPES_LANE_COMMON] < p->common)
		j = STAILQ_FIRST(&p->todo[PIPES_LANE_COMMON]);
	if (j)
		STAILQ_REMOVE_HEAD(&p->todo[j->lane], entry);
	return j;
}

/* With the lock, which is let go for the call alone. */
static void job_run(struct pipes_thread *t, struct pipe_job *j)
{
	struct pipes *p = t->of;
	const uint64_t one = 1;

	t->lane = j->lane;
	t->begun_ns = monotonic_ns();
	t->busy = true;
	p->busy[t->lane]++;
	(void)pthread_mutex_unlock(&p->lock);
	perform(p, j);
	(void)pthread_mutex_lock(&p->lock);
	p->busy[t->lane]--;
	t->busy = false;
	if (p->stop || (!j->want && !p->waits)) { /* nobody is to be told */
		free(j);
		return;
	}
	STAILQ_INSERT_TAIL(&p->done, j, entry);
	(void)!write(p->src.fd, &one, sizeof(one));
}

static void *pipes_run(void *arg)
{
	struct pipes_thread *t = arg;
	struct pipes *p = t->of;
	struct pipe_job *j;

	(void)pthread_mutex_lock(&p->lock);
	t->id = (pid_t)syscall(SYS_gettid);
	(void)pthread_cond_signal(&p->begun);
	while (!p->stop) {
		j = job_take(p);
		if (j)
			job_run(t, j);
		else
			(void)pthread_cond_wait(&p->asked, &p->lock);
	}
	(void)pthread_mutex_unlock(&p->lock);
	return NULL;
}

static void job_put(struct pipes *p, struct pipe_job *j)
{
	(void)pthread_mutex_lock(&p->lock);
	STAILQ_INSERT_TAIL(&p->todo[j->lane], j, entry);
	(void)pthread_mutex_unlock(&p->lock);
	(void)pthread_cond_signal(&p->asked); /* without the lock, for which the thread would wait at once */
}

/* Not the memory of a flood, when that is over. */
static void job_keep(struct pipes *p, struct pipe_job *j)
{
	if (j->room > PIPE_USUAL && j->n <= PIPES_SMALL) {
		free(j);
		return;
	}
	free(p->spare);
	p->spare = j;
}

static void pipes_ready(struct source *s, uint32_t events)
{
	struct pipes *p = container_of(s, struct pipes, src);
	struct pipe_queue done = STAILQ_HEAD_INITIALIZER(done);
	struct pipe_job *j;
	uint64_t count;

	(void)events;
	(void)!read(s->fd, &count, sizeof(count));
	(void)pthread_mutex_lock(&p->lock);
	STAILQ_CONCAT(&done, &p->done);
	(void)pthread_mutex_unlock(&p->lock);
	while ((j = STAILQ_FIRST(&done))) {
		int fd = j->then_close;
		enum pipes_lane lane = j->lane;
		const void *owner = j->owner;

		STAILQ_REMOVE_HEAD(&done, entry);
		if (j->done)
			j->done(j);
		job_keep(p, j);
		if (fd >= 0)
			pipes_close(p, lane, owner, NULL, fd);
	}
}

/* No signal is a thread's: muxlet takes them by descriptor. */
static int thread_start(struct pipes *p, struct pipes_thread *t)
{
	pthread_attr_t attr;
	int err = pthread_attr_init(&attr);

	if (err)
		return err;
	t->of = p;
	(void)pthread_attr_setstacksize(&attr, STACK);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&t->thread, &attr, pipes_run, t);
	(void)pthread_attr_destroy(&attr);
	if (err)
		return err;
	(void)pthread_mutex_lock(&p->lock);
	while (!t->id)
		(void)pthread_cond_wait(&p->begun, &p->lock);
	(void)pthread_mutex_unlock(&p->lock);
	return 0;
}

/*
 * As many as can be begun. Process 1 has its threads by the numbers that its programs cannot name, or none; a muxlet of
 * another number has them in a row that goes up, since its filter knows a row by its ends.
 */
static int threads_start(struct pipes *p)
{
	sigset_t all, before;
	int err = 0;

	sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	while (!err && p->threads < PIPES_THREADS) {
		err = thread_start(p, &p->thread[p->threads]);
		p->threads += !err;
	}
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	for (unsigned i = 0; i < p->threads; i++)
		if ((getpid() == 1 && p->thread[i].id >= PIPES_NUMBERS) || (i && p->thread[i].id < p->thread[i - 1].id))
			return EPERM;
	return p->threads ? 0 : err;
}

static void away_close(struct pipes *p)
{
	for (size_t i = 0; i < PIPES_LANES; i++)
		for (size_t k = 0; k < 2; k++)
			if (p->away[i][k] >= 0)
				close(p->away[i][k]);
}

int pipes_open(struct pipes *p, struct loop *l)
{
	int err = 0;

	memset(p, 0, sizeof(*p));
	for (size_t i = 0; i < PIPES_LANES; i++) {
		STAILQ_INIT(&p->todo[i]);
		STAILQ_INIT(&p->kept[i]);
		p->away[i][0] = p->away[i][1] = -1;
	}
	STAILQ_INIT(&p->done);
	p->loop = l;
	p->src.ready = pipes_ready;
	p->src.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->src.fd < 0)
		return errno;
	for (size_t i = 0; i < PIPES_LANES && !err; i++)
		err = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p->away[i]) ? errno : 0;
	err = err ? err : -source_watch(l, &p->src, EPOLLIN);
	err = err ? err : pthread_mutex_init(&p->lock, NULL);
	err = err ? err : pthread_cond_init(&p->asked, NULL);
	err = err ? err : pthread_cond_init(&p->begun, NULL);
	err = err ? err : threads_start(p);
	p->common = p->threads > PIPES_THREADS - PIPES_COMMON ? p->threads - (PIPES_THREADS - PIPES_COMMON) : 1;
	if (err) {
		pipes_finish(p);
		away_close(p);
		source_close(l, &p->src);
	}
	return err;
}

static void drop_all(struct pipe_queue *q)
{
	struct pipe_job *j;

	while ((j = STAILQ_FIRST(q))) {
		STAILQ_REMOVE_HEAD(q, entry);
		free(j);
	}
}

void pipes_finish(struct pipes *p)
{
	if (!p->threads)
		return;
	(void)pthread_mutex_lock(&p->lock);
	p->stop = true;
	for (size_t i = 0; i < PIPES_LANES; i++) {
		drop_all(&p->todo[i]);
		drop_all(&p->kept[i]);
	}
	drop_all(&p->done);
	(void)pthread_cond_broadcast(&p->asked);
	(void)pthread_mutex_unlock(&p->lock);
	free(p->spare);
	p->spare = NULL;
	p->threads = 0;
}

static struct pipe_job *job_new(struct pipes *p, enum pipes_lane lane, int fd, size_t want, size_t room)
{
	struct pipe_job *j = p->spare;

	if (j && j->room >= room) {
		p->spare = NULL;
	} else {
		j = malloc(sizeof(*j) + room);
		if (!j)
			return NULL;
		j->room = room;
	}
	j->lane = lane;
	j->fd = fd;
	j->then_close = -1;
	j->asked_ns = p->loop->now_ns;
	j->want = want;
	j->write = j->by_number = false;
	j->owner = NULL;
	j->done = NULL;
	j->n = 0;
	return j;
}

struct pipe_job *pipes_read(struct pipes *p, enum pipes_lane lane, int fd, size_t want,
			    void (*done)(struct pipe_job *j), void *arg)
{
	size_t most = want < PIPES_BULK ? want : PIPES_BULK;
	struct pipe_job *j = job_new(p, lane, fd, most, most <= PIPES_SMALL ? PIPES_SMALL : PIPES_BULK);

	if (!j)
		return NULL;
	j->done = done;
	j->arg = arg;
	job_put(p, j);
	return j;
}

struct pipe_job *pipes_write(struct pipes *p, enum pipes_lane lane, int fd, const uint8_t *bytes, size_t n,
			     void (*done)(struct pipe_job *j), void *arg)
{
	struct pipe_job *j = job_new(p, lane, fd, n < PIPES_SMALL ? n : PIPES_SMALL, PIPES_SMALL);

	if (!j)
		return NULL;
	memcpy(j->bytes, bytes, j->want);
	j->write = true;
	j->done = done;
	j->arg = arg;
	job_put(p, j);
	return j;
}

void pipes_close(struct pipes *p, enum pipes_lane lane, const void *owner, struct pipe_job *under_way, int fd)
{
	if (under_way) {
		under_way->done = NULL;
		under_way->then_close = fd;
		under_way->owner = owner;
	} else {
		pipes_close_all(p, lane, owner, &fd, 1);
	}
}

void pipes_close_all(struct pipes *p, enum pipes_lane lane, const void *owner, const int *fds, size_t n)
{
	if (!p->threads) {
		close_each((const uint8_t *)fds, n);
		return;
	}
	for (; n; n--, fds++) {
		struct pipe_job *j = STAILQ_EMPTY(&p->kept[lane]) ? NULL : p->last_kept[lane];

		if (!j || j->owner != owner || j->closes == CLOSES_MAX) {
			j = job_new(p, lane, -1, 0, CLOSES_MAX * sizeof(*fds));
			if (!j) /* no memory to keep it by: it stays open, since muxlet itself may not wait */
				continue;
			j->closes = 0;
			j->owner = owner;
			STAILQ_INSERT_TAIL(&p->kept[lane], j, entry);
			p->last_kept[lane] = j;
			p->closing = true;
		}
		memcpy(j->bytes + j->closes++ * sizeof(*fds), fds, sizeof(*fds));
	}
}

/* In their order, as far as the socket takes them. True: some are left. */
static bool kept_send(struct pipes *p, enum pipes_lane lane)
{
	struct pipe_job *j;

	while ((j = STAILQ_FIRST(&p->kept[lane]))) {
		int err = away_send(p, lane, j->bytes, j->closes);

		if (err == EAGAIN)
			return true;
		STAILQ_REMOVE_HEAD(&p->kept[lane], entry);
		j->by_number = err != 0;
		if (!err)
			close_each(j->bytes, j->closes);
		job_put(p, j);
	}
	return false;
}

static bool kept_send_all(struct pipes *p)
{
	bool left = kept_send(p, PIPES_LANE_STAFF);

	return kept_send(p, PIPES_LANE_COMMON) || left;
}

static void set_waits(struct pipes *p, bool waits)
{
	(void)pthread_mutex_lock(&p->lock);
	p->waits = waits;
	(void)pthread_mutex_unlock(&p->lock);
}

/* Once more when the threads know that somebody waits: those that let go before that told nobody. */
void pipes_turn(struct pipes *p)
{
	bool left = kept_send_all(p);

	if (left && !p->waits) {
		set_waits(p, true);
		left = kept_send_all(p);
	}
	if (!left && p->waits)
		set_waits(p, false);
	p->closing = left;
}

bool pipes_held(struct pipes *p, enum pipes_lane lane)
{
	uint64_t now = monotonic_ns();
	unsigned held = 0;

	(void)pthread_mutex_lock(&p->lock);
	for (unsigned i = 0; i < p->threads; i++)
		held += p->thread[i].busy && (lane == PIPES_LANE_STAFF || p->thread[i].lane == PIPES_LANE_COMMON) &&
			now - p->thread[i].begun_ns >= PIPES_HELD_NS;
	(void)pthread_mutex_unlock(&p->lock);
	return p->threads && held >= (lane == PIPES_LANE_STAFF ? p->threads : p->common);
}
