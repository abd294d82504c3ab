/*
 * pipes.h - the threads that read, write and close the pipes of programs, for muxlet itself may not.
 *
 * A pipe has a lock in the kernel. A program holds it while the kernel finds memory for what it writes or a page to
 * read to, and for as long as it likes with splice(2) or sendfile(2) between the pipe and something that does not move.
 * Who is at the other end of the pipe waits for that lock, O_NONBLOCK or not. So no call of muxlet's loop takes it:
 * threads do, one job each, and a pipe that is held keeps one thread and nobody else. Terminals have no such lock; the
 * loop reads and writes them itself. A thread touches nothing but its job: memory of channels is the loop's alone.
 *
 * A job: asked (by the loop) -> begun (by a thread) -> done (in the loop again), then freed. A pipe has one at most.
 * Who is not interested any more takes itself out of it: pipes_close() with the job, or done NULL.
 *
 * Lanes: what programs of agents are asked for takes PIPES_COMMON threads at most; the others are kept for staff's.
 */
#ifndef MUXD_MUXLET_PIPES_H
#define MUXD_MUXLET_PIPES_H

#include "muxd/muxlet/loop.h"

#include <pthread.h>
#include <sys/queue.h>
#include <sys/types.h>

#define PIPES_SMALL (16 * 1024) /* of a read of a pipe that never gave more, and of a write */
#define PIPES_BULK  (256 * 1024)

/*
 * Locally muxlet is process 1, and its threads, begun before any other process is, have the numbers 2 to 15. A call
 * that takes the number of a thread reaches all of muxlet by it (limits), so control/local/seccomp.c refuses all below
 * 16 as it does 1, and guard.c whatever they are in a pod.
 */
#define PIPES_THREADS 14
#define PIPES_COMMON  10
#define PIPES_NUMBERS 16

/* A job that takes longer than any want of memory: a program holds the lock. */
#define PIPES_HELD_NS (10000 * MS_NS)

enum pipes_lane { PIPES_LANE_COMMON, PIPES_LANE_STAFF, PIPES_LANES };

struct pipe_job {
	STAILQ_ENTRY(pipe_job) entry;
	enum pipes_lane lane;
	int fd;
	uint64_t asked_ns;
	int then_close;    /* by a thread, when this job is done; -1: nothing */
	const void *owner; /* of what is closed */
	bool write;        /* bytes, want of them; else a read */
	size_t want;       /* 0: what was sent away is let go */
	bool by_number;    /* want 0, and sending failed: the thread closes it */
	size_t room, closes;
	ssize_t n; /* as of read() or write(); with errno */
	int error;
	void (*done)(struct pipe_job *j); /* in the loop */
	void *arg;
	uint8_t bytes[];
};
STAILQ_HEAD(pipe_queue, pipe_job);

struct pipes;

struct pipes_thread {
	struct pipes *of;
	pthread_t thread;
	pid_t id;
	bool busy;
	enum pipes_lane lane; /* of the job it is at */
	uint64_t begun_ns;
};

/*
 * Closing is of two steps. The loop sends descriptors away through a socket pair and closes its own: never the last
 * ones. A thread receives them without room for them, and the kernel lets go of them in that call. So the loop alone
 * takes descriptors out of the table, and not while a child has a copy of it that is not its program yet: the child's
 * copy is never the last, and the child never waits for a lock.
 *
 * The kernel lets go of a message's descriptors one after the other, and a thread gets the oldest message whoever
 * asked: so one message has what is of one channel, and each lane has a pair of its own. The kernel may refuse to send,
 * not only because a pair is full: it counts what a user has on its way, and programs of the same user can use that up.
 * A thread then closes by number, so that nothing stays open.
 */
struct pipes {
	unsigned threads; /* 0: none could be begun, and callers read and write themselves */
	unsigned common;  /* threads that the common lane may have */
	struct pipes_thread thread[PIPES_THREADS];
	pthread_mutex_t lock; /* of todo, done, busy, waits and stop; held for a few instructions */
	pthread_cond_t asked, begun;
	struct pipe_queue todo[PIPES_LANES], done;
	struct pipe_queue kept[PIPES_LANES]; /* to be closed at the end of the turn, or when the socket takes them */
	struct pipe_job *last_kept[PIPES_LANES];
	int away[PIPES_LANES][2];
	bool waits;   /* the loop is to be told when a thread let go: the socket was full */
	bool closing; /* something is kept: pipes_turn() is due */
	unsigned busy[PIPES_LANES];
	struct pipe_job *spare; /* the last one is kept for the next */
	bool stop;
	struct loop *loop;
	struct source src; /* eventfd: something is done */
};

/* Before muxlet has any child. 0 or errno: without one thread at least callers read and write themselves. */
int pipes_open(struct pipes *p, struct loop *l);
/* A thread may hang in a call: it is left to the end of the process. */
void pipes_finish(struct pipes *p);
/* At most `want` bytes of fd, PIPES_BULK at most, which stays the caller's. NULL: no memory. */
struct pipe_job *pipes_read(struct pipes *p, enum pipes_lane lane, int fd, size_t want,
			    void (*done)(struct pipe_job *j), void *arg);
/* At most PIPES_SMALL of the n bytes, of which the job has a copy: job->want of them. NULL: no memory. */
struct pipe_job *pipes_write(struct pipes *p, enum pipes_lane lane, int fd, const uint8_t *bytes, size_t n,
			     void (*done)(struct pipe_job *j), void *arg);
/*
 * Closes a pipe's end: the last descriptor takes the same lock. under_way: the job that is at it, which is nobody's
 * from then on, or NULL. fd is the threads' from now on. owner: ends of one may wait for each other, of others not.
 */
void pipes_close(struct pipes *p, enum pipes_lane lane, const void *owner, struct pipe_job *under_way, int fd);
/* The same of n ends that nobody is at: the program's own, which muxlet has until the program has them. */
void pipes_close_all(struct pipes *p, enum pipes_lane lane, const void *owner, const int *fds, size_t n);
/* The end of a turn with `closing`: what is to be closed goes to the threads, after what others wait for went its way.
 */
void pipes_turn(struct pipes *p);
/* Every thread of that lane has been kept by a pipe for PIPES_HELD_NS, so that nothing goes on there. */
bool pipes_held(struct pipes *p, enum pipes_lane lane);

#endif
