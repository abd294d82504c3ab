/*
 * typeahead.h - what is typed behind an Enter, in one write with it, waits until the terminal says how it is read.
 *
 * Who sends `read -s x` and the password in one write types the password before its prompt stands: the terminal echoes
 * then, and the record would hold it in clear. So a small write is cut behind its first line; the rest waits in the
 * session's queue of input, and whether it is masked is decided by what holds when it goes. The rest is let go when
 * - the terminal no longer echoes: a password prompt;
 * - the line has begun something (a line editor let the terminal go) and its editor's prompt is there again;
 * - the time is over. One wait takes `wait` behind a line that a shell's line editor reads, a third of that where none
 *   is known to; all waits of a session together take `wait`, and a twentieth of the time that passes: so no paste is
 *   slower by more than that, however it is cut into writes.
 * Nothing waits in a bracketed paste, before an interrupt (Ctrl-C, Ctrl-\, Ctrl-Z; Ctrl-S and Ctrl-Q), in more than
 * TYPEAHEAD_MAX bytes, and where nobody can know the terminal's mode.
 *
 * One for each session, in it. Only a gate: the bytes are the session's, in their one order.
 * FREE -> (a line went, and more is there) HELD -> (see above) FREE.
 */
#ifndef MUXD_HUB_SESSION_TYPEAHEAD_H
#define MUXD_HUB_SESSION_TYPEAHEAD_H

#include "muxd/link/link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TYPEAHEAD_MAX   512 /* more at once, or while something waits, is a paste */
#define TYPEAHEAD_SHARE 20  /* waits take the 20th part of the time */
#define TYPEAHEAD_MARK  8   /* the longest mark of a line editor */

enum typeahead_state { TYPEAHEAD_FREE, TYPEAHEAD_HELD };

/* Brackets around a paste, however they are cut into writes. */
struct typed_brackets {
	bool open;  /* a paste has begun */
	uint8_t at; /* so much of a bracket has come */
	bool opens; /* the mark begins a paste */
};

struct typeahead {
	enum typeahead_state state;
	uint64_t since_ns; /* HELD: since then */
	uint64_t used_ns;  /* of the time for waiting, as of refilled_ns */
	uint64_t refilled_ns, typed_ns;
	enum link_echo mode;
	struct typed_brackets brackets;
	bool told;   /* a mode has come */
	bool blind;  /* and never another than "does not echo" */
	bool marks;  /* the line editor marks its prompt: the terminal's mode alone does not say that it is there */
	bool stands; /* that prompt was the last output */
	bool brief;  /* HELD: no line editor is known to have the line */
	bool begun;  /* HELD: it was read */
	bool back;   /* HELD: and a line editor reads again */
	char mark[TYPEAHEAD_MARK];
	size_t mark_len; /* of a mark that may go on */
};

/*
 * How many of n > 0 bytes may go now: all, or those before what has to wait. wait_ns: for how long things may wait;
 * times are boot ns. Of what then went (any part of it) the caller tells with typeahead_went(); if it is all that
 * might, and some is left, typeahead_hold() begins the wait.
 */
size_t typeahead_cut(const struct typeahead *t, const void *p, size_t n, uint64_t now, uint64_t wait_ns);
/* p, went: bytes; offered: of how many at once. */
void typeahead_went(struct typeahead *t, const void *p, size_t went, size_t offered, uint64_t now, uint64_t wait_ns);
void typeahead_hold(struct typeahead *t, uint64_t now);
bool typeahead_interrupts(const void *p, size_t n);

/* HELD: until when. */
uint64_t typeahead_until(const struct typeahead *t, uint64_t wait_ns);
/* HELD -> FREE. for_good: nothing waits any more until time has passed. */
void typeahead_let_go(struct typeahead *t, uint64_t now, uint64_t wait_ns, bool for_good);

/* The terminal's way with input, and its output. True: the queue is HELD and is to be let go. */
bool typeahead_mode(struct typeahead *t, enum link_echo mode);
bool typeahead_output(struct typeahead *t, const void *p, size_t n);

#endif
