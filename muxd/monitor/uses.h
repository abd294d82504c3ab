/*
 * uses.h - a use of a grant that has a number of them, asked for by net before it opens something
 * (muxd/hub/access/grant_use.h).
 *
 * The count is in the store of grants; at an edge, which has none, it is of leases by their ids, in the same log.
 */
#ifndef MUXD_MONITOR_USES_H
#define MUXD_MONITOR_USES_H

#include "base/ids.h"

struct monitor;
struct err;

/*
 * One use of a grant whose token net passes on (grants_spend()), at an edge of a lease. key: the same start again is no
 * further use; nil: none. A grant without a number is counted by nobody: 0. ERR_TOKEN_USED, ERR_TOKEN_*.
 */
int uses_count(struct monitor *m, const char *token, const struct id *key, struct err *e);

#endif
