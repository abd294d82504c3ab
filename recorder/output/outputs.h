/*
 * outputs.h - the whole stdout and stderr of rounds, kept for those who ran them, apart from recordings.
 *
 * A recording keeps what its rule says, for auditors and for long; this keeps every byte for hours. It is a working
 * copy: neither signed nor chained, removed by age, count and bytes, and nothing of the record waits for it. Where the
 * disk is low, it is what goes first.
 *
 * One thread feeds it from the durable log (feeder.h): outputs_open(), _data(), _end(), _checkpoint(), _sweep(). Any
 * thread reads (outputs_read()). Offsets are absolute and what is there already is passed over, so that feeding may go
 * back to the last checkpoint and doubles nothing.
 *
 * Of each stream the beginning (an eighth of limits.stream, on disk) and the newest bytes stay; past limits.stream the
 * oldest middle goes, in chunks.
 *
 * States of a round: RUNS -> ENDING (nothing comes any more; the files of a stream do not say so yet, and
 * outputs_checkpoint() tries again) -> ENDED -> gone (removed). After a start it is ENDED where the files of each of
 * its streams say so; else it RUNS, and its end is in the log once more, or outputs_unended() names it.
 *
 * Memory: a round has up to CHUNK_RAW_MAX of each stream that is not written yet, all of them together PENDING_MAX.
 */
#ifndef RECORDER_OUTPUT_OUTPUTS_H
#define RECORDER_OUTPUT_OUTPUTS_H

#include "base/buf.h"
#include "recorder/output/chunk.h"

struct outputs;

#define OUTPUTS_PENDING_MAX (64u * 1024 * 1024)
#define OUTPUTS_STREAM_MIN  (UINT64_C(1) << 20)

/* Bytes are those on the disk. */
struct outputs_limits {
	uint64_t age_ns;     /* behind a round's end; 0: nothing is kept */
	uint32_t count;      /* rounds of one agent */
	uint64_t agent;      /* bytes of one agent's rounds */
	uint64_t stream;     /* of one stream of one round; at least OUTPUTS_STREAM_MIN */
	uint64_t total;      /* of everything */
	uint64_t free_least; /* where the disk has less, the oldest go, and then nothing more is kept */
};

/* Rounds that may not be removed, whatever the limits say: a legal hold. Asked without a lock, by the feeding thread.
 */
typedef bool outputs_held(void *arg, const struct chunk_of *of, int64_t ended_ns);

/* dir_fd: record/output; stays the caller's. */
int outputs_create(int dir_fd, const struct outputs_limits *l, outputs_held *held, void *arg, struct outputs **out);
void outputs_destroy(struct outputs *o);
void outputs_configure(struct outputs *o, const struct outputs_limits *l);
/*
 * Reads the folder, once, before anything else. A torn file is cut, what is no file of kept output removed; one that
 * cannot be read is passed over, and its bytes are missing.
 */
int outputs_load(struct outputs *o, struct err *e);

/* ---- feeding: one thread */

/* A round begins, or is heard of again. of->stream is not looked at. ERR_NOMEM. */
int outputs_open(struct outputs *o, const struct chunk_of *of, struct err *e);
bool outputs_has(struct outputs *o, const struct id *round);
/* Of one that is not there nothing is taken. ERR_NOMEM alone: a disk that takes nothing leaves a hole, said once. */
int outputs_data(struct outputs *o, const struct id *round, unsigned stream, uint64_t offset, const void *p, size_t n,
		 struct err *e);
/* totals: bytes of stdout and stderr, as its EXIT has them; what was not seen of them is missing. NULL: what was seen.
 */
void outputs_end(struct outputs *o, const struct id *round, int64_t wall_ns, const uint64_t totals[2]);
/* Rounds of which nothing says that they have ended. found: what a part of its files say of its end; NULL: nothing. */
struct outputs_found {
	int64_t ended_ns;
	uint64_t totals[2];
};
typedef void outputs_row(void *arg, const struct chunk_of *of, const struct outputs_found *found);
void outputs_unended(struct outputs *o, outputs_row *fn, void *arg);
/* Everything taken so far is on the disk, ends too. An error: the place in the log must not move on. */
int outputs_checkpoint(struct outputs *o, struct err *e);
/* Removes what is over a limit at that wall time. by_age false: the time is not believed, so no age counts
 * (but age_ns 0, which keeps nothing at any time). */
void outputs_sweep(struct outputs *o, int64_t wall_ns, bool by_age);

/* ---- reading: any thread */

/* Where the last read ended, so that the next one goes on there. Zero at first; outputs_reader_finish() at the end. */
struct outputs_reader {
	int fd; /* valid while coder is there and chunk is set */
	bool open;
	struct id round;
	unsigned stream;
	struct chunk chunk; /* as it was when it was opened */
	uint64_t pos;       /* of the block that follows */
	uint64_t offset;    /* of that block's first byte */
	struct block_coder *coder;
	const uint8_t *block; /* what stands at pos, in the coder; NULL: not read yet */
};
void outputs_reader_finish(struct outputs_reader *r);

struct outputs_read {
	uint64_t offset; /* of the first byte given: behind what was asked for where bytes are missing */
	uint64_t total;  /* bytes that the stream has had so far */
	bool ended;
};

/*
 * Bytes from `offset` on into `to`, as far as it has room, without a hole: fewer where a hole or the end comes. Nothing
 * and out->offset == out->total: there are none yet. ERR_NOT_FOUND: none of that round are kept.
 */
int outputs_read(struct outputs *o, struct outputs_reader *r, const struct id *round, unsigned stream, uint64_t offset,
		 struct buf *to, size_t most, struct outputs_read *out, struct err *e);

struct outputs_range {
	uint64_t from, until; /* behind the last byte */
};
/* The missing ranges of a stream, in order; at most max. ERR_NOT_FOUND. */
int outputs_missing(struct outputs *o, const struct id *round, unsigned stream, struct outputs_range *out, size_t max,
		    size_t *out_n, struct outputs_read *out_state);

struct outputs_status {
	uint64_t rounds, bytes, pending;
	uint64_t removed, lost; /* rounds, and bytes that no disk took, since the start */
};
void outputs_status(struct outputs *o, struct outputs_status *out);

#endif
