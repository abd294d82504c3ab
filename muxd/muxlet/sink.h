/*
 * sink.h - pipes whose round has ended while somebody in the background still holds them: read and thrown away.
 *
 * A writer would die of SIGPIPE if its pipe were closed. What nobody sees is not worth a processor, though: a program
 * that prints all it can makes muxlet and its threads take turns 50,000 times a second. So a pipe that had something
 * rests for SINK_REST_MS, and of those that rest SINKS_AT_ONCE are looked at again each time, the longest first. One
 * writer goes on at 3 MB a second, all of them together at 26. A pipe that is silent costs nothing.
 *
 * A sink: listens -> reads (a thread has the job) -> rests -> listens; closed at the end of the pipe, or as the oldest
 * when there are more than SINKS_MAX.
 */
#ifndef MUXD_MUXLET_SINK_H
#define MUXD_MUXLET_SINK_H

#include "muxd/muxlet/loop.h"
#include "muxd/muxlet/pipes.h"

#define SINKS_MAX     256
#define SINKS_AT_ONCE 8
#define SINK_REST_MS  10

struct sink;
TAILQ_HEAD(sink_queue, sink);

struct sinks {
	struct loop *loop;
	struct pipes *pipes;
	size_t n;
	struct sink_queue all;   /* the oldest first */
	struct sink_queue rests; /* the longest first */
	struct timer rested;     /* armed while one rests */
};

void sinks_open(struct sinks *ss, struct loop *l, struct pipes *p);
void sinks_close(struct sinks *ss);
/* fd and the read of it that is under way (or NULL) are the sink's from then on. -1: no memory, nothing is taken. */
int sink_add(struct sinks *ss, enum pipes_lane lane, int fd, struct pipe_job *under_way);

#endif
