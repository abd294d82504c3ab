#include "muxd/muxlet/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK     (64 * 1024)
#define PIPE_BULK (256 * 1024)

#define LOOK_NS  MS_NS
#define AFTER_NS (1000 * MS_NS)
#define SLOW_NS  (20 * MS_NS) /* of a read: somebody had the pipe's lock */
#define SLOW_FOR (10000 * MS_NS)
#define SHARE    8 /* this part of the limit is left when it is nearly full */

static void perform(struct pipe_job *j)
{
	if (j->want) {
		do
			j->n = j->write ? write(j->fd, j->bytes, j->want) : read(j->fd, j->bytes, j->want);
		while (j->n < 0 && errno == EINTR);
		j->error = j->n < 0 ? errno : 0;
		if (!j->write && j->n == READER_BULK) /* a pipe of 64 KiB makes writer and reader take turns */
			(void)fcntl(j->fd, F_SETPIPE_SZ, PIPE_BULK);
	}
	close(j->fd);
}

static void *reader_run(void *arg)
{
	struct reader *r = arg;
	const uint64_t one = 1;
	struct pipe_job *j;

	(void)pthread_mutex_lock(&r->lock);
	r->id = (pid_t)syscall(SYS_gettid);
	(void)pthread_cond_signal(&r->begun);
	while (!r->stop) {
		j = STAILQ_FIRST(&r->todo);
		if (!j) {
			(void)pthread_cond_wait(&r->asked, &r->lock);
			continue;
		}
		STAILQ_REMOVE_HEAD(&r->todo, entry);
		(void)pthread_mutex_unlock(&r->lock);
		perform(j);
		(void)pthread_mutex_lock(&r->lock);
		STAILQ_INSERT_TAIL(&r->done, j, entry);
		(void)!write(r->src.fd, &one, sizeof(one));
	}
	(void)pthread_mutex_unlock(&r->lock);
	return NULL;
}

static void let_go(struct reader *r, struct pipe_job *j)
{
	free(r->spare);
	r->spare = j;
}

static void reader_ready(struct source *s, uint32_t events)
{
	struct reader *r = container_of(s, struct reader, src);
	struct read_queue done = STAILQ_HEAD_INITIALIZER(done);
	struct pipe_job *j;
	uint64_t count;

	(void)events;
	(void)!read(s->fd, &count, sizeof(count));
	(void)pthread_mutex_lock(&r->lock);
	STAILQ_CONCAT(&done, &r->done);
	(void)pthread_mutex_unlock(&r->lock);
	while ((j = STAILQ_FIRST(&done))) {
		STAILQ_REMOVE_HEAD(&done, entry);
		if (j->done)
			j->done(j);
		let_go(r, j);
	}
}

/* No signal is the thread's: muxlet takes them by descriptor. */
static int thread_start(struct reader *r)
{
	sigset_t all, before;
	pthread_attr_t attr;
	int err = pthread_attr_init(&attr);

	if (err)
		return err;
	sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	(void)pthread_attr_setstacksize(&attr, STACK);
	err = pthread_create(&r->thread, &attr, reader_run, r);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
	if (err)
		return err;
	(void)pthread_mutex_lock(&r->lock);
	while (!r->id)
		(void)pthread_cond_wait(&r->begun, &r->lock);
	(void)pthread_mutex_unlock(&r->lock);
	return 0;
}

static uint64_t number_at(int fd)
{
	char text[32];
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return strtoull(text, NULL, 10);
}

static int open_either(int dir, const char *v2, const char *v1)
{
	int fd = openat(dir, v2, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? openat(dir, v1, O_RDONLY | O_CLOEXEC) : fd;
}

static void usage_open(struct reader *r, int dir)
{
	int fd;

	r->usage_fd = -1;
	if (dir < 0)
		return;
	fd = open_either(dir, "memory.max", "memory.limit_in_bytes");
	r->enough = number_at(fd) / SHARE * (SHARE - 1);
	r->usage_fd = open_either(dir, "memory.current", "memory.usage_in_bytes");
	if (fd >= 0)
		close(fd);
	close(dir);
}

bool reader_needed(struct reader *r)
{
	uint64_t now = r->loop ? r->loop->now_ns : 0;

	if (!r->on)
		return false;
	if (r->usage_fd < 0 || now < r->until_ns)
		return true;
	if (now - r->looked_ns < LOOK_NS)
		return false;
	r->looked_ns = now;
	if (number_at(r->usage_fd) >= r->enough)
		r->until_ns = now + AFTER_NS;
	return now < r->until_ns;
}

void reader_took(struct reader *r, uint64_t begun_ns)
{
	uint64_t now = monotonic_ns();

	if (now - begun_ns >= SLOW_NS)
		r->until_ns = now + SLOW_FOR;
}

int reader_open(struct reader *r, struct loop *l, bool reads, int dir)
{
	int err;

	memset(r, 0, sizeof(*r));
	usage_open(r, dir);
	STAILQ_INIT(&r->todo);
	STAILQ_INIT(&r->done);
	r->loop = l;
	r->src.ready = reader_ready;
	r->src.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->src.fd < 0)
		return errno;
	err = -source_watch(l, &r->src, EPOLLIN);
	err = err ? err : pthread_mutex_init(&r->lock, NULL);
	err = err ? err : pthread_cond_init(&r->asked, NULL);
	err = err ? err : pthread_cond_init(&r->begun, NULL);
	err = err ? err : thread_start(r);
	if (err)
		source_close(l, &r->src);
	r->on = !err;
	if (!err && getpid() == 1 && r->id != READER_NUMBER) {
		reader_close(r); /* anybody could change muxlet by that number */
		return EPERM;
	}
	r->on = r->on && reads;
	return err;
}

static void drop_all(struct read_queue *q, bool opened)
{
	struct pipe_job *j;

	while ((j = STAILQ_FIRST(q))) {
		STAILQ_REMOVE_HEAD(q, entry);
		if (opened)
			close(j->fd);
		free(j);
	}
}

void reader_close(struct reader *r)
{
	if (!r->id)
		return;
	(void)pthread_mutex_lock(&r->lock);
	r->stop = true;
	drop_all(&r->todo, true);
	drop_all(&r->done, false);
	(void)pthread_cond_signal(&r->asked);
	(void)pthread_mutex_unlock(&r->lock);
	(void)pthread_detach(r->thread);
	free(r->spare);
	r->spare = NULL;
	r->on = false;
}

static struct pipe_job *job_new(struct reader *r, size_t room)
{
	struct pipe_job *j = r->spare;

	if (j && j->room >= room) {
		r->spare = NULL;
		return j;
	}
	j = malloc(sizeof(*j) + room);
	if (j)
		j->room = room;
	return j;
}

static void job_put(struct reader *r, struct pipe_job *j)
{
	(void)pthread_mutex_lock(&r->lock);
	STAILQ_INSERT_TAIL(&r->todo, j, entry);
	(void)pthread_cond_signal(&r->asked);
	(void)pthread_mutex_unlock(&r->lock);
}

static struct pipe_job *job_for(struct reader *r, int fd, size_t want, void (*done)(struct pipe_job *j), void *arg)
{
	struct pipe_job *j = job_new(r, want <= READER_BYTES ? READER_BYTES : READER_BULK);

	if (!j)
		return NULL;
	j->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (j->fd < 0) {
		let_go(r, j);
		return NULL;
	}
	j->write = false;
	j->want = want;
	j->done = done;
	j->arg = arg;
	return j;
}

struct pipe_job *reader_ask(struct reader *r, int fd, size_t want, void (*done)(struct pipe_job *j), void *arg)
{
	struct pipe_job *j = job_for(r, fd, want < READER_BULK ? want : READER_BULK, done, arg);

	if (j)
		job_put(r, j);
	return j;
}

struct pipe_job *reader_write(struct reader *r, int fd, const uint8_t *p, size_t n, void (*done)(struct pipe_job *j),
			      void *arg)
{
	struct pipe_job *j = job_for(r, fd, n < READER_BYTES ? n : READER_BYTES, done, arg);

	if (!j)
		return NULL;
	memcpy(j->bytes, p, j->want);
	j->write = true;
	job_put(r, j);
	return j;
}

void reader_let_go(struct reader *r, int fd)
{
	struct pipe_job *j = r->on ? job_new(r, 0) : NULL;

	if (!j) {
		close(fd);
		return;
	}
	j->fd = fd;
	j->want = 0;
	j->done = NULL;
	job_put(r, j);
}
