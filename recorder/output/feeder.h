/*
 * feeder.h - the thread that keeps rounds' output: durable log -> outputs.h.
 *
 * It follows the segment log as the cutter does, with a place of its own in it (record/output/cursor), which is stored
 * behind a checkpoint of the outputs. After a kill it goes on there; offsets see to it that nothing is doubled. It
 * never holds up the record: where its disk fails, bytes are missing in what it keeps, and its place in the log moves
 * on.
 *
 * States: LOADING (what the folder holds) -> FOLLOWING; LOADING -> RESTING (the folder cannot be opened: nothing is
 * kept until the next start, and who asks is answered from the recording).
 */
#ifndef RECORDER_OUTPUT_FEEDER_H
#define RECORDER_OUTPUT_FEEDER_H

#include "base/clock_guard.h"
#include "base/conf.h"
#include "recorder/output/outputs.h"
#include "recorder/write/drain.h"

struct feeder;

struct feeder_params {
	const char *dir; /* the state directory's record/ */
	int segments_fd;
	struct drain *drain;
	struct live *live;
	const uint8_t *index_key; /* as index_use_key(), borrowed; NULL: rows have no codes */
	const struct conf *conf;  /* copied from */
};

/* Makes record/output where it is missing; where that cannot be, it will rest. */
int feeder_create(const struct feeder_params *p, struct feeder **out, struct err *e);
/* Before feeder_start(): who says that nothing goes by its age (cutter_clock_waits()), from the feeder's thread. */
void feeder_guard(struct feeder *f, bool (*waits)(void *arg), void *arg);
int feeder_start(struct feeder *f, struct err *e);
/* Stores what it has; its thread ends. */
void feeder_stop(struct feeder *f);
void feeder_destroy(struct feeder *f);
void feeder_configure(struct feeder *f, const struct conf *conf);

struct outputs *feeder_outputs(struct feeder *f);
/* Nothing is kept until the next start, and why; "" before that is known. */
bool feeder_rests(struct feeder *f, char *out_why, size_t size);
/* Until everything before lsn was taken, or timeout. Returns the lsn of the next record. */
uint64_t feeder_wait(struct feeder *f, uint64_t lsn, uint64_t timeout_ns);
/* The oldest segment that it needs, for who lets segments go; UINT64_MAX: none. arg: the feeder. */
uint64_t feeder_needs(void *arg);

#endif
