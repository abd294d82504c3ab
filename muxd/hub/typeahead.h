/*
 * typeahead.h - input behind an Enter waits until the program has said how it reads. For muxd/hub/ alone.
 *
 * Who sends `sudo x` and the password in one write types the password before the prompt: the terminal still echoes
 * then, and the record would hold it in clear. So a write is cut behind each CR and LF, and what follows waits for the
 * terminal's mode: a command that begins changes it, as does a prompt for a password. Bounded in time, so that pastes
 * are not slowed: once a reader was seen to change nothing, or the time for one burst of typing is used up, bytes go on
 * as they come.
 *
 * One for each terminal's session, in it. IDLE -> (Enter was sent) ASKED -> (the mode changed) BEGUN -> IDLE;
 * ASKED -> (nothing changed, and it is a paste) PLAIN -> (a pause, or the mode changed) IDLE; any -> (no time left)
 * SPENT -> (a pause) IDLE.
 */
#ifndef MUXD_HUB_TYPEAHEAD_H
#define MUXD_HUB_TYPEAHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum typeahead_state { TYPEAHEAD_IDLE, TYPEAHEAD_ASKED, TYPEAHEAD_BEGUN, TYPEAHEAD_PLAIN, TYPEAHEAD_SPENT };

struct typeahead {
	enum typeahead_state state;
	uint64_t since_ns; /* boot: when the Enter went, or the mode changed */
	uint64_t held_ns;  /* of this burst, all waits together */
	uint64_t from_ns;  /* something waits since then; 0: nothing does */
	uint64_t last_ns;  /* when input came last */
};

/* How many of n > 0 bytes may go now; 0: none, *out_wait_ns says how long at most. */
size_t typeahead_take(struct typeahead *t, const void *p, size_t n, uint64_t now, uint64_t *out_wait_ns);
/* They went. */
void typeahead_sent(struct typeahead *t, const void *p, size_t n, uint64_t now);
/* The terminal's mode changed. settled: a prompt stands, for a password or for a line that its reader edits. */
void typeahead_mode(struct typeahead *t, bool settled, uint64_t now);

#endif
