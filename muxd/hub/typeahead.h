/*
 * typeahead.h - what is typed behind an Enter, in one write with it, waits until the terminal says how it is read.
 *
 * Who sends `read -s x` and the password in one write types the password before its prompt stands: the terminal echoes
 * then, and the record would hold it in clear. So a small write is cut behind its first line; the rest waits here, and
 * whether it is masked is decided by what holds when it goes. The rest is let go when
 * - the terminal no longer echoes: a password prompt;
 * - the line has begun something (a line editor let the terminal go) and its editor's prompt is there again;
 * - the time is over. All waits of a session together take `wait`, and a twentieth of the time that passes: so no paste
 *   is slower by more than that, however it is cut into writes.
 * Nothing waits in a bracketed paste, before an interrupt (Ctrl-C, Ctrl-\, Ctrl-Z), in more than TYPEAHEAD_MAX bytes,
 * and where nobody can know the terminal's mode.
 *
 * One for each session, in it; it owns what waits. FREE -> (a line went, and more is there) HELD -> (see above) FREE.
 * In FREE a rest may still be there: it waits for room, as any input does.
 */
#ifndef MUXD_HUB_TYPEAHEAD_H
#define MUXD_HUB_TYPEAHEAD_H

#include "muxd/base/buf.h"
#include "muxd/link/link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TYPEAHEAD_MAX   1024 /* more at once, or while something waits, is a paste */
#define TYPEAHEAD_SHARE 20   /* waits take the 20th part of the time */
#define TYPEAHEAD_MARK  8    /* the longest mark of a line editor */

enum typeahead_state { TYPEAHEAD_FREE, TYPEAHEAD_HELD };

struct typeahead {
	enum typeahead_state state;
	struct buf rest;
	uint64_t since_ns; /* HELD: since then */
	uint64_t used_ns;  /* of the time for waiting, as of refilled_ns */
	uint64_t refilled_ns, typed_ns;
	enum link_echo mode;
	bool told;    /* a mode has come */
	bool blind;   /* and never another than "does not echo" */
	bool pasting; /* a bracketed paste has begun */
	bool marks;   /* the line editor marks its prompt: the terminal's mode alone does not say that it is there */
	bool begun;   /* HELD: the line was read */
	bool back;    /* HELD: and a line editor reads again */
	char mark[TYPEAHEAD_MARK];
	size_t mark_len; /* of a mark that may go on */
};

void typeahead_finish(struct typeahead *t); /* wipes what waits */

/*
 * How many of n > 0 bytes go now: all, or those before what has to wait. The caller sends them, and if some are left
 * calls typeahead_hold() with the rest. wait_ns: for how long things may wait; times are boot ns.
 */
size_t typeahead_cut(struct typeahead *t, const void *p, size_t n, uint64_t now, uint64_t wait_ns);
int typeahead_hold(struct typeahead *t, const void *p, size_t n, uint64_t now); /* 0 or ERR_NOMEM: not held */
/* More input while HELD: added (true), or what waits has to go first (false): it is an interrupt, or a paste. */
bool typeahead_add(struct typeahead *t, const void *p, size_t n);
bool typeahead_interrupts(const void *p, size_t n);

/* HELD: until when. */
uint64_t typeahead_until(const struct typeahead *t, uint64_t wait_ns);
/* HELD -> FREE. for_good: nothing waits any more until time has passed. */
void typeahead_let_go(struct typeahead *t, uint64_t now, uint64_t wait_ns, bool for_good);

/* What the terminal does with input; what came out of it. True: it is HELD and is to be let go. */
bool typeahead_mode(struct typeahead *t, enum link_echo mode);
bool typeahead_output(struct typeahead *t, const void *p, size_t n);

#endif
