/*
 * begin_tree.h - a snapshot out of an artifact, for an agent to begin with.
 *
 * A sandbox of the caller's alone is made, of the image that the agent is to have; muxlet unpacks the archive there, or
 * the image's git clones the bundle; a snapshot is taken. Bytes of strangers are read inside alone. The sandbox goes
 * with all that it has if anything fails, else once the agent has been made of the snapshot, which stays as long as the
 * agent needs it (struct life_fork, began). After a crash the next start wipes it (struct life_fork, passing); whoever
 * asked asks again.
 *
 * MAKING (the sandbox) -> OPENING -> FILLING (its bytes go in) -> for a bundle: OPENING, CLONING -> COPYING (the
 * snapshot) -> READY. Owns itself until it is ready; then its caller's, until begin_tree_end(). One at a time for each
 * agent, and others that are to begin wait for it. Callbacks come from the loop.
 */
#ifndef MUXD_HUB_BROKER_BEGIN_TREE_H
#define MUXD_HUB_BROKER_BEGIN_TREE_H

#include "control/life/life.h"
#include "muxd/hub/broker/workspace_from.h"
#include "muxd/hub/core/request.h"

struct begin_tree;
struct begin_trees;

struct begin_trees *begin_trees_create(void);    /* those of a hub, the hub's; NULL: no memory */
void begin_trees_destroy(struct begin_trees *x); /* NULL-safe; behind begin_trees_leave() */

/* Once. rc: it failed, and nothing of it is left but what is being wiped; t: NULL then. May come after the hub's end,
 * with ERR_CANCELLED. */
typedef void begin_tree_done(void *arg, int rc, const struct err *e, struct begin_tree *t, const struct id *snapshot);

struct begin_tree_of {
	const char *agent; /* which rq was checked for, and that is not there yet */
	const struct workspace_from *from;
	const json_t *row;                  /* of the artifact, in the turn of the loop that looked it up */
	const struct life_options *options; /* of the agent: its image, its resources */
	uint64_t until_ns;                  /* boot time, as long as somebody waits: late; 0: to its end */
};
/* Others, or its own caller, waited long enough: ERR_SANDBOX_TIMEOUT, and it goes on. Or it is over: 0. */
typedef void begin_tree_waited(void *arg, int rc, const struct err *e);
/* An error is the answer: nothing is called then. late: once at most, between this and begin_tree_end(). */
int begin_tree_open(struct hub *h, const struct request *rq, const struct begin_tree_of *of, begin_tree_done *done,
		    begin_tree_waited *late, void *arg, struct err *e);
/* The agent has its row, or has none and gets none. */
void begin_tree_end(struct begin_tree *t);

/*
 * Another call makes what that agent is to begin with: done comes when that is over, whatever came of it, or with
 * ERR_SANDBOX_TIMEOUT at until_ns (boot time; 0: never). 0: nobody does, and done is not called; ERR_NOMEM.
 */
#define BEGIN_WAITS 1
int begin_tree_wait(struct hub *h, const char *agent, uint64_t until_ns, begin_tree_waited *done, void *arg,
		    struct err *e);
void begin_trees_tick(struct hub *h, uint64_t now);
bool begin_trees_rest(const struct hub *h); /* none is being made */
void begin_trees_leave(struct hub *h);      /* the hub goes: who waits hears ERR_CANCELLED */

#endif
