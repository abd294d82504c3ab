/*
 * retention.h - sealed recordings that are older than is in force go, unless held; a signed tombstone stays.
 *
 * Called by the cutter between its steps. For each recording: tombstone into the
 * chain log with the rule, its limit, the configuration and who loaded it, head signed, file removed, row of the
 * index emptied of everything but who, where and when. A crash between two of these repeats them. What cannot
 * be read or removed is kept for good and said in the log: it never stops the cutter.
 *
 * Ages are by the wall clock, and a wrong one would erase everything at once. So a
 * clock that ran ahead is not believed for RETENTION_WAIT_NS of uptime (the guard).
 */
#ifndef RECORDER_WRITE_RETENTION_H
#define RECORDER_WRITE_RETENTION_H

#include "recorder/chain/chain.h"
#include "recorder/index/index.h"

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>

struct holds;
struct retention_policy;

#define RETENTION_BATCH 50

/* What holds now; all borrowed. */
struct retention_job {
	const char *dir;
	struct index *index;
	struct chain *chain;
	const struct retention_policy *policy;
	const struct holds *holds;
	int64_t now_ns; /* wall clock */
};

/*
 * At most RETENTION_BATCH recordings that are older than the policy keeps, by their end and by their seal, and that no
 * hold covers. Inside a transaction of the index. *out_n: how many went.
 */
int retention_run(const struct retention_job *job, size_t *out_n, struct err *e);

#define RETENTION_AHEAD_NS ((int64_t)(24 * 3600 * NS_PER_SEC)) /* at the start: wall against the record */
#define RETENTION_WAIT_NS  (24 * 3600 * NS_PER_SEC)

/* A value owned by the cutter; both are called inside a transaction of the index, which keeps the wait over restarts.
 */
struct retention_guard {
	uint64_t boot_ns; /* both clocks when they were looked at last */
	int64_t wall_ns;
	uint64_t until_ns; /* uptime until which nothing is removed; 0: no wait */
};

/* *out_jumped: a wait begins now. */
int retention_guard_start(struct retention_guard *g, struct index *ix, bool *out_jumped, struct err *e);
int retention_guard_check(struct retention_guard *g, struct index *ix, bool *out_jumped, struct err *e);

#endif
