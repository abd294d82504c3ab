/*
 * floor.h - the guarded clock of this daemon and its file DIR/clock.
 *
 * policy/time_floor.h says why. Persisted at the start, each minute and at the end; by an edge every 5 s, since leases
 * are short.
 */
#ifndef MUXD_MONITOR_FLOOR_H
#define MUXD_MONITOR_FLOOR_H

#include "policy/time_floor.h"

struct layout;
struct err;

/* *out_back_ns: by how much the wall clock stands behind what was seen before; 0 when it does not. */
int floor_open(struct time_floor *f, const struct layout *l, int64_t *out_back_ns, struct err *e);
int64_t floor_now(struct time_floor *f);
int floor_save(struct time_floor *f, const struct layout *l, struct err *e);

#endif
