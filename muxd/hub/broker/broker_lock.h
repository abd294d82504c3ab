/*
 * broker_lock.h - advisory locks of a workspace that is shared, for who has scope files on it.
 *
 * Each has a holder: principal, task, and a label of his own choice. A holder renews and releases what is his (a grant
 * with a task what that task's is), scope admin anything. A grant that names paths locks what it may write.
 */
#ifndef MUXD_HUB_BROKER_BROKER_LOCK_H
#define MUXD_HUB_BROKER_BROKER_LOCK_H

#include "muxd/hub/core/request.h"

struct lock_call {
	const char *agent, *task; /* task NULL: the grant's */
	const char *path;         /* of a lock that is taken */
	const char *label;        /* NULL */
	const char *id;           /* of one that is renewed or released; NULL */
	uint64_t ttl_ns;          /* 0: released */
};
/* ERR_LOCKED: result is the lock in the way. The audit log has what was done, and each refusal. */
void broker_lock(struct hub *h, const struct request *rq, const struct lock_call *c, broker_json_done *done, void *arg);
void broker_locks(struct hub *h, const struct request *rq, const char *agent, broker_json_done *done, void *arg);
void broker_locks_tick(struct hub *h); /* now and then: those whose time is over */

#endif
