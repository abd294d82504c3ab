/*
 * inside_ghosts.h - requests to a server inside that were given up (cancelled, out of time, without a grant) before the
 * server answered. Pure.
 *
 * A server that is told of a cancellation need not heed it: it may go on, log and ask. What it says then is heard by
 * nobody but the caller whose request it was. So a ghost stays until its late answer comes or the program ends: at a
 * server that may ask, nobody else's request is sent while one is there, and once that has waited for
 * INSIDE_GHOST_NS the program is begun anew; at any other, nobody else hears log messages.
 *
 * Owned by its server. More than INSIDE_GHOSTS_MAX are not told apart any more: then they are nobody's, until the
 * program ends.
 */
#ifndef MUXD_HUB_INSIDE_INSIDE_GHOSTS_H
#define MUXD_HUB_INSIDE_INSIDE_GHOSTS_H

#include "base/clock.h"
#include "policy/grant.h"

#include <stdbool.h>
#include <stdint.h>

#define INSIDE_GHOSTS_MAX 32
#define INSIDE_GHOST_NS   (10 * NS_PER_SEC) /* that others wait for its answer */

struct inside_ghosts {
	struct {
		int64_t number; /* its id for the server; 0: the row is free */
		uint64_t since_ns;
		enum grant_kind kind;
		char principal[GRANT_NAME_MAX + 1], agent[AGENT_NAME_MAX + 1], task[GRANT_NAME_MAX + 1];
	} rows[INSIDE_GHOSTS_MAX];
	bool lost; /* there were more */
};

void inside_ghosts_clear(struct inside_ghosts *g);
/* now_ns: boot. */
void inside_ghosts_add(struct inside_ghosts *g, int64_t number, const struct grant *whose, const char *task,
		       uint64_t now_ns);
/* Its answer came. */
void inside_ghosts_answered(struct inside_ghosts *g, int64_t number);
/* Is each of them that caller's (or is there none)? */
bool inside_ghosts_are_of(const struct inside_ghosts *g, const struct grant *whose, const char *task);
/* Have others waited for long enough? */
bool inside_ghosts_are_due(const struct inside_ghosts *g, uint64_t now_ns);

#endif
