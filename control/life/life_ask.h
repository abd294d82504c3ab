/*
 * life_ask.h - the questions of a run's steps, to the provider and to the hub.
 *
 * Each is put once, for the step in which the run stands, and is answered in a later turn of the loop or at once: what
 * came with the answer is in the run (info, fd, copy) when life_run_answer() gets its code. A question whose run is
 * over stays out until it is answered, and its answer is dropped; of a copy it is noted (WANT_TAKEN).
 * All return RUN_ASKED, or ERR_* with e; where there is nobody to ask, the answer.
 */
#ifndef CONTROL_LIFE_LIFE_ASK_H
#define CONTROL_LIFE_LIFE_ASK_H

#include "base/err.h"
#include "control/life/life.h"

struct life_agent;

/*
 * To the provider, about the run's agent, and its snapshot where the operation is about one; the answer is in the run's
 * info and fd, or (a take, a drop) in its copy. reason: of what ends it, else NULL.
 */
int life_ask(struct life_agent *a, enum sandbox_op op, const char *reason, struct err *e);
void life_discard(struct life_agent *a, const struct id *snapshot); /* nobody waits for the answer */

/* To the hub. How many recordings name the run's snapshot: in run->refers. ERR_UNSUPPORTED: nobody records. */
int life_ask_refers(struct life_agent *a, struct err *e);
/* The answer to it: stays the snapshot for now? It does wherever nobody could say that it may go; one that failed holds
 * nothing. */
bool life_must_stay(const struct life_agent *a, int rc);
/* Its sessions hear "its sandbox was VERB: CAUSE" (the row's); 0: there is nobody to tell. */
int life_ask_leave(struct life_agent *a, const char *verb, struct err *e);

/* Its services end in order; 0: there is nobody to ask. What it answers counts for nothing: the end goes on. */
int life_ask_settle(struct life_agent *a, struct err *e);
/* Its files go to the owner's store; ERR_UNSUPPORTED: nobody pushes. */
int life_ask_push(struct life_agent *a, struct err *e);
/*
 * The programs stand still, and the disk is synced; ERR_UNSUPPORTED: there is nobody to ask. The step's answered()
 * passes the answer to life_quiesced(). What was frozen goes on at life_thaw(), at the latest at the run's end.
 */
int life_ask_quiesce(struct life_agent *a, uint64_t hold_ns, struct err *e);
void life_quiesced(struct life_agent *a, int rc);
void life_frozen_until_now(struct life_agent *a); /* else the snapshot is synced, and no more */

#endif
