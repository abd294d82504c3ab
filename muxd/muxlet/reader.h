/*
 * reader.h - the thread that reads and writes the pipes of programs, for muxlet itself may not.
 *
 * A pipe has a lock, which a program holds while the kernel finds memory: for what it writes, and for where it reads
 * to. In a group of memory that is full that takes seconds, and whoever is at the pipe's other end waits with it,
 * non-blocking or not. So where programs can fill a group (a leaf of their own locally, nursery.h; a pod), muxlet's
 * only other thread does what is to be done at their pipes while that group is nearly full, in the order it was asked
 * to; terminals, which have no such lock, muxlet reads and writes itself. The thread touches nothing but its jobs:
 * memory of channels is the loop's alone.
 *
 * A job: asked (by the loop) -> performed (by the thread) -> done (in the loop again), then freed. Who is not
 * interested any more takes itself out of it (job->done NULL); the descriptor is a duplicate of the thread's own.
 */
#ifndef MUXD_MUXLET_READER_H
#define MUXD_MUXLET_READER_H

#include "muxd/muxlet/loop.h"

#include <pthread.h>
#include <sys/queue.h>
#include <sys/types.h>

/* As many jobs as there are pipes may wait, in memory that muxlet needs: more only for who filled what he was given. */
#define READER_BYTES (16 * 1024)
#define READER_BULK  (64 * 1024)

struct pipe_job {
	STAILQ_ENTRY(pipe_job) entry;
	int fd;
	bool write;  /* bytes, want of them; else a read */
	size_t want; /* 0: it is closed and no more */
	size_t room;
	ssize_t n; /* as of read() or write(); with errno */
	int error;
	void (*done)(struct pipe_job *j); /* in the loop */
	void *arg;
	uint8_t bytes[];
};
STAILQ_HEAD(read_queue, pipe_job);

/*
 * Locally muxlet is process 1, and its thread, begun before any other process there is, has this number. A call that
 * takes the number of a thread reaches all of muxlet by it (limits), so control/local/seccomp.c refuses it as it
 * does 1.
 */
#define READER_NUMBER 2

struct reader {
	bool on;  /* the thread runs, and reads */
	pid_t id; /* of the thread; 0: it has not begun */
	pthread_t thread;
	pthread_mutex_t lock; /* of the queues and `stop`; held for a few instructions */
	pthread_cond_t asked, begun;
	struct read_queue todo, done;
	struct pipe_job *spare; /* the last one is kept for the next */
	bool stop;
	struct loop *loop;
	int usage_fd;    /* of the group, in bytes; -1: not known, and the thread reads always */
	uint64_t enough; /* used, from which on the thread reads */
	uint64_t looked_ns, until_ns;
	struct source src; /* eventfd: something is done */
};

/*
 * Before muxlet has any child. 0 or errno: without it callers read themselves. reads: programs have a group; else the
 * thread only keeps its number. dir: of that group, closed; -1: not known.
 */
int reader_open(struct reader *r, struct loop *l, bool reads, int dir);
/*
 * Must the thread read now? While the group is nearly full, and for a while after: a hand-over costs a third of what a
 * flood can be.
 */
bool reader_needed(struct reader *r);
/* The loop has read or written itself since then. */
void reader_took(struct reader *r, uint64_t begun_ns);
/* The thread may hang in a read: it is left to the end of the process. */
void reader_close(struct reader *r);
/* At most `want` bytes of fd, READER_BULK at most. NULL: no memory, or no descriptor. */
struct pipe_job *reader_ask(struct reader *r, int fd, size_t want, void (*done)(struct pipe_job *j), void *arg);
/* At most READER_BYTES of p, of which the job has a copy: job->want of them. NULL: as above. */
struct pipe_job *reader_write(struct reader *r, int fd, const uint8_t *p, size_t n, void (*done)(struct pipe_job *j),
			      void *arg);
/* The last descriptor of a pipe's end is closed by the thread: that takes the same lock. */
void reader_let_go(struct reader *r, int fd);

#endif
