/*
 * tally.h - how often something was used that may be used so often: a token of an issuer, a grant of a number of uses.
 *
 * Pure, in memory; grants.log has its lines (grants.h). Each count is kept until what it is of is over anyway. Embedded
 * in the grants; entries are its own.
 */
#ifndef MUXD_MONITOR_TALLY_H
#define MUXD_MONITOR_TALLY_H

#include "base/ids.h"

#include <stddef.h>
#include <stdint.h>

#define TALLY_MAX 100000

struct tally_entry {
	struct id id;
	int64_t until_ns; /* wall */
	int64_t n;
};
struct tally {
	struct tally_entry *list; /* sorted by id */
	size_t n;
};

int64_t tally_count(const struct tally *t, const struct id *id); /* 0: it is not known */
/* more of it. ERR_LIMIT: TALLY_MAX are counted; ERR_NOMEM. */
int tally_add(struct tally *t, const struct id *id, int64_t until_ns, int64_t more);
size_t tally_expire(struct tally *t, int64_t now_ns); /* how many went */
void tally_finish(struct tally *t);

#endif
