/*
 * retention.h - sealed recordings that are older than is in force go, unless held; a signed tombstone stays.
 *
 * Called by the cutter between its steps. For each recording: tombstone into the
 * chain log with the rule, its limit, the configuration and who loaded it, head signed, file removed, row of the
 * index emptied of everything but who, where and when. A crash between two of these repeats them. What cannot
 * be read or removed is kept for good and said in the log: it never stops the cutter.
 *
 * Ages are by the wall clock, and a wrong one would erase everything at once. So a
 * clock that ran ahead is not believed for a day of uptime (the guard).
 */
#ifndef RECORDER_WRITE_RETENTION_H
#define RECORDER_WRITE_RETENTION_H

#include "recorder/chain/chain.h"
#include "recorder/index/index.h"

#include "base/clock_guard.h"

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

/* The guard (base/clock_guard.h), owned by the cutter; all are called inside a transaction of the index, which keeps
 * the wait over restarts and boots. */
/* *out_jumped: a wait begins now. */
int retention_guard_start(struct clock_guard *g, struct index *ix, bool *out_jumped, struct err *e);
int retention_guard_check(struct clock_guard *g, struct index *ix, bool *out_jumped, struct err *e);
int retention_guard_keep(const struct clock_guard *g, struct index *ix, struct err *e); /* at a clean end */

#endif
