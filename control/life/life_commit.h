/*
 * life_commit.h - the swap of an agent's row for the next one, and what the audit log hears of it.
 *
 * A swap is of one run and needs the row's generation to be the one that the run has read (compare and swap). The
 * change is told as intended ahead of the swap and as done after it: a change that the record cannot hold does not
 * happen. The answer of a swap goes to the run's step, by life_run_answer().
 */
#ifndef CONTROL_LIFE_LIFE_COMMIT_H
#define CONTROL_LIFE_LIFE_COMMIT_H

#include "base/err.h"
#include "control/life/life_row.h"

struct life;
struct life_agent;

/* Asks of a run's step: RUN_ASKED, or ERR_* with e. next, snap: copied; snap is put beside the row, NULL: none. */
int life_commit(struct life_agent *a, const struct life_row *next, const struct life_snap *snap, struct err *e);
int life_commit_next(struct life_agent *a, struct err *e); /* the run's own next, without a snapshot */
int life_commit_delete(struct life_agent *a, struct err *e);
int life_commit_snap(struct life_agent *a, const struct life_snap *snap, struct err *e); /* the row stays */
/* Durable before anything goes: nobody restores from it any more. ERR_BAD_STATE: a fork needs it, it stays as it is. */
int life_commit_dropping(struct life_agent *a, struct life_snap *snap, struct err *e);

/* The audit log has a row's outcome in the journal: once that is durable no start tells it again. */
void life_note_told(struct life *l, const struct life_row *r);
void life_told_finish(struct life *l); /* what is not durable is told again by the next start */

void life_put_snap(struct life *l, const struct life_snap *s); /* beside any run */
/* snapshot.drop, in the audit log, with the run's count of recordings. failed: NULL or the error. */
void life_tell_drop(struct life_agent *a, const struct id *snapshot, const char *cause, const struct err *failed);

#endif
