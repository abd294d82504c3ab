/*
 * given.h - the calls that gave a round input at an offset, so that a repeat after a lost answer is known from input
 * that another writer sent meanwhile.
 *
 * Owned by its session (session.given), made with the first such call. The newest GIVEN_KEPT calls are remembered, each
 * by the SHA-256 of what was taken of it. A restart of the daemon forgets them (session.given_from). No states.
 */
#ifndef MUXD_HUB_SESSION_GIVEN_H
#define MUXD_HUB_SESSION_GIVEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GIVEN_KEPT 16

struct given;

/* n bytes were taken at that offset. *g is made where it is NULL. ERR_NOMEM: they are not remembered. */
int given_note(struct given **g, uint64_t at, const void *p, size_t n);
/* How many of the n bytes at that offset are those of calls before, one behind the other; 0 of NULL. */
size_t given_repeats(const struct given *g, uint64_t at, const void *p, size_t n);
/* Would a call at that offset still be remembered? False: it may have been forgotten. */
bool given_knows(const struct given *g, uint64_t at);
void given_destroy(struct given *g); /* NULL-safe */

#endif
