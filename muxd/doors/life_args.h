/*
 * life_args.h - a lifecycle call as every door reads it from JSON. Pure.
 *
 * Durations are texts ("90s", "1h30m"; "0s" for none), moments RFC 3339, ids UUIDs. A key that the verb does
 * not have is refused by name.
 */
#ifndef MUXD_DOORS_LIFE_ARGS_H
#define MUXD_DOORS_LIFE_ARGS_H

#include "muxd/hub/broker/broker_life.h"

/*
 * o: an object, or NULL for none. of_session: the fork is of a session, and its moment at_ms, not at. out borrows o's
 * strings. ERR_INVAL.
 */
int life_args_read(enum life_verb v, const json_t *o, bool of_session, struct life_call *out, struct err *e);

#endif
