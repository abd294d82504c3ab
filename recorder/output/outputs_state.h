/*
 * outputs_state.h - what the files of outputs*.c share. Private to them.
 *
 * `lock` guards all of it. The feeding thread alone changes it, so it may look without the lock; it holds the lock
 * while it changes what readers see, and not while it waits for a disk.
 */
#ifndef RECORDER_OUTPUT_OUTPUTS_STATE_H
#define RECORDER_OUTPUT_OUTPUTS_STATE_H

#include "base/ring.h"
#include "recorder/output/outputs.h"

#include <pthread.h>
#include <sys/queue.h>
#include <uthash.h>

#define STRANDS 2 /* stdout, stderr */

/* Bytes that wait for their block; they begin where the strand's last chunk ends, or behind a hole. */
struct pend {
	uint8_t *p;
	size_t len, cap;
	uint64_t at;
};

/* One stream of a round. */
struct strand {
	struct chunk *chunks; /* by number */
	size_t n, cap;
	uint64_t bytes; /* on the disk */
	struct pend pend;
	uint64_t end;    /* bytes seen so far */
	bool closed;     /* its last chunk says how the round has ended */
	bool dirty;      /* written to since the last checkpoint */
	uint32_t synced; /* chunks below that number are on the disk */
};

struct outputs_agent {
	UT_hash_handle hh;
	uint64_t bytes;
	uint32_t rounds;
	char name[];
};

enum output_state { OUTPUT_RUNS, OUTPUT_ENDING, OUTPUT_ENDED };

struct output {
	UT_hash_handle hh;
	TAILQ_ENTRY(output) entry; /* by age: the oldest first */
	struct chunk_of of;
	struct outputs_agent *agent;
	enum output_state state;
	int64_t touched_ns; /* wall: of its end, of its begin while it runs */
	struct outputs_found found;
	bool is_found; /* while it RUNS: a part of its files say this */
	struct strand strands[STRANDS];
};
TAILQ_HEAD(output_list, output);

struct outputs {
	pthread_mutex_t lock;
	int dir_fd;
	struct outputs_limits limits;
	outputs_held *held;
	void *held_arg;
	struct output *all; /* by round */
	struct output_list list;
	struct outputs_agent *agents;
	struct block_coder *coder;
	struct outputs_status seen;
	bool disk_refuses; /* said already */
};

static inline struct strand *strand_of(struct output *u, unsigned stream)
{
	return &u->strands[stream == STREAM_STDERR];
}

static inline unsigned stream_of(const struct output *u, const struct strand *s)
{
	return s == &u->strands[0] ? STREAM_OUTPUT : STREAM_STDERR;
}

/* outputs_catalog.c. With the lock. NULL: it is not there. */
struct output *output_find(struct outputs *o, const struct id *round);
int output_add(struct outputs *o, const struct chunk_of *of, struct output **out); /* ERR_NOMEM */
/* With its files. */
void output_remove(struct outputs *o, struct output *u);
/* The newest of all from now on. */
void output_ended(struct outputs *o, struct output *u, int64_t wall_ns);
void output_grew(struct outputs *o, struct output *u, struct strand *s, int64_t bytes);
int strand_add(struct strand *s, const struct chunk *c); /* behind the last; ERR_NOMEM */
/* The file goes, and its place in the strand. */
void strand_drop(struct outputs *o, struct output *u, struct strand *s, size_t i);

#endif
