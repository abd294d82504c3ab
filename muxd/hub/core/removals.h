/*
 * removals.h - whether what net's side keeps may be removed by age now: artifacts, workspaces' snapshots, ended leases
 * and runs. base/clock_guard.h over restarts.
 *
 * One small file has the end of a wait and the newest time that was seen, written in place; without it, or where the
 * disk takes nothing, a restart believes the clock unless it runs ahead again. Owned by the hub; the loop's.
 */
#ifndef MUXD_HUB_CORE_REMOVALS_H
#define MUXD_HUB_CORE_REMOVALS_H

#include <stdbool.h>

struct removals;

/*
 * path NULL: nothing is kept. told: a wait begins, and the log has it; called from removals_wait(), of a wait that the
 * start found from removals_begin(). ERR_NOMEM.
 */
int removals_create(const char *path, void (*told)(void *arg), void *arg, struct removals **out);
void removals_begin(struct removals *r);
void removals_destroy(struct removals *r); /* NULL-safe */
/* Looks at both clocks: true: nothing may go by its age now. NULL: false. */
bool removals_wait(struct removals *r);

#endif
