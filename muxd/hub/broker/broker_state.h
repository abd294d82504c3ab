/*
 * broker_state.h - what calls of the broker's room count between them; for its own files alone.
 *
 * Owner: the hub, from broker_state_create() to broker_state_destroy(). Each member is one file's, which is named with
 * it. What is more than a number, or has states, has a struct of its own: executions.h, begin_tree.h, round_wishes.h.
 */
#ifndef MUXD_HUB_BROKER_BROKER_STATE_H
#define MUXD_HUB_BROKER_BROKER_STATE_H

#include "control/locks/locks.h"

#include <stddef.h>

struct shown_tokens;

struct broker_state {
	size_t strangers_questions; /* recordings.c: to the recorder, that wait for their answers */
	unsigned reviews;           /* broker_issue.c: tokens of the cluster that are out */
	struct locks_watch locks;   /* broker_lock.c */
	struct shown_tokens *shown; /* broker_shown.c, which ends it; NULL: none was shown yet */
};

struct broker_state *broker_state_create(void); /* NULL: no memory */
/* NULL-safe; behind broker_shown_finish(). */
void broker_state_destroy(struct broker_state *b);

#endif
