/*
 * shelf.h - where the sessions of a hub are: found by id, in the order in which they began, and those at hand that have
 * ended. For muxd/hub/ alone.
 *
 * Owner: the hub; a session is put here by whoever makes it (session_run.c), which takes it out when it frees it. LIVE
 * -> ENDED, once everybody may see its result: then it is forgotten by and by, oldest first, as far as conf's
 * round_keep_max and round_keep_size say.
 */
#ifndef MUXD_HUB_CORE_SHELF_H
#define MUXD_HUB_CORE_SHELF_H

#include <stdbool.h>
#include <stdint.h>

struct hub;
struct metric_times;
struct session;
struct session_list;
struct shelf;

struct shelf *shelf_create(void);    /* NULL: no memory */
void shelf_destroy(struct shelf *x); /* NULL-safe; no session is in it any more */

void shelf_put(struct session *s);
/* Its result is told. first: the next to be forgotten, as nobody asks for it again. */
void shelf_end(struct session *s, bool first);
void shelf_take(struct session *s); /* from either state */

/* All of them, the newest first: through session->order. Borrowed. */
const struct session_list *hub_sessions(const struct hub *h);
/* Of those at hand the one that ended first; the others come behind it, through session->of_ended. NULL: none. */
struct session *shelf_oldest(const struct hub *h);
bool shelf_is_full(const struct hub *h); /* more have ended than are kept at hand */
/* At each tick: what a crowd of them needed goes back to the system once it is quiet (base/memory.h). */
void shelf_give_back(struct hub *h, uint64_t now);
/* How long rounds took, to be added to and told of (muxd/hub/metrics.c). */
struct metric_times *shelf_round_times(const struct hub *h);

#endif
