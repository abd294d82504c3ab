/*
 * match_dfa.h - the states of a program, made while it reads (a lazy DFA).
 *
 * A state is the set of steps a program may be at, what the byte before was, and whether a match ended before that
 * byte: a match is told one byte late, because $ and \b look at what follows. The table of states has MATCH_CACHE bytes
 * at most; when it is full all are forgotten but the current one. Owned by whoever made it; holds its program's
 * address.
 */
#ifndef FILES_MATCH_DFA_H
#define FILES_MATCH_DFA_H

#include "files/match_program.h"

#define DFA_SPENT  (-1)
#define DFA_NO_RAM (-2)

struct dfa;

/* anywhere: a match may begin at every byte. NULL: no memory. */
struct dfa *dfa_new(const struct program *g, bool anywhere);
void dfa_free(struct dfa *d); /* NULL allowed */
/*
 * Reads p[0..n) from `from` on, forward to n or backward to 0, and then the line's end; `from` 0 forward and n backward
 * are its other end. Stops at the first match told if `first`. 1 with *out_at, the last match told: the place between
 * bytes where it ends (forward) or begins (backward). 0: none. DFA_SPENT: the work that states may take is spent;
 * DFA_NO_RAM.
 */
int dfa_run(struct dfa *d, const uint8_t *p, size_t n, size_t from, bool backward, bool first, uint64_t *work,
	    size_t *out_at);
/* Forward from 0, without the line's end: 1 when more bytes could still give a match, or one was told. */
int dfa_alive(struct dfa *d, const uint8_t *p, size_t n, uint64_t *work);

#endif
