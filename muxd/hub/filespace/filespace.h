/*
 * filespace.h - the files of an agent, in step with the owner's store: who wants a sync, when it runs, what becomes of
 * one that fails (docs/filespace.md).
 *
 * For each agent one sync runs, and one of each direction waits; whoever wants the same meanwhile waits with it. A pull
 * goes ahead of everything that would begin in a sandbox that is new; a push follows what may have written, and goes
 * ahead of a stop's snapshot.
 *
 * States: IDLE -> (QUEUED: others have all places ->) RUNNING -> (WAITING: it failed once, and is
 * tried again later -> RUNNING) -> IDLE, or FAILED until the next one ends well. Owner: the agent; made at its first
 * use.
 */
#ifndef MUXD_HUB_FILESPACE_FILESPACE_H
#define MUXD_HUB_FILESPACE_FILESPACE_H

#include "muxd/hub/filespace/filespace_sync.h"

struct agent;
struct filespace_places;
struct hub;

typedef void filespace_done(void *arg, int rc, const struct err *e, const json_t *detail);

/*
 * cause: of whoever wants it, {kind, principal, task, ...}, stolen. done: once, from the loop; NULL: nobody waits.
 * rc: it failed, at the store twice. ERR_UNSUPPORTED, ERR_BAD_STATE: there is nothing to sync, or nobody to ask now.
 */
void filespace_want(struct hub *h, const char *agent, enum filespace_direction d, json_t *cause, filespace_done *done,
		    void *arg);
/* Its files are synced: a store is configured, and it is no pod of others, no fork, not of the pool. */
bool filespace_applies(struct hub *h, const char *agent);
/* The last pull failed, and none has ended well since: why, as its code and words; 0: not so. */
int filespace_unpulled(struct hub *h, const char *agent, struct err *e);
/* {configured, state, ...}: how the last ones went. NULL: no memory. */
json_t *filespace_show(struct hub *h, const char *agent);

int filespaces_create(struct hub *h, struct filespace_places **out); /* where they run; ERR_NOMEM */
void filespaces_destroy(struct filespace_places *all);               /* NULL-safe; behind the agents */
void filespace_tick(struct agent *a, uint64_t now);
bool filespace_rests(const struct agent *a);
/* The hub stops: a sync that runs is cut off, and the record is told what it has done until then. */
void filespaces_stop(struct hub *h);
void filespaces_leave(struct hub *h); /* ahead of the agents' end */

#endif
