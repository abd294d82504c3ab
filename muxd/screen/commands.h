/*
 * commands.h - the commands that were entered at a terminal, as far as its screen shows them.
 *
 * Owned by a screen worker beside its term, or by a test. Output goes through it into the term; keys are shown to it in
 * the order of the record. What it says is inferred, and evidence of nothing: the recording is.
 *
 * A line is entered by CR or LF. It is read off the screen when the cursor next leaves a line (a line feed in the
 * output): by then readline has drawn what Ctrl-R found, and the echo of what was typed ahead has come. Rows that
 * wrapped are joined. What counts as the command:
 *   - of a line of plain text, pastes and deletions at its end: exactly that text, once it stands at the end of the
 * line behind the prompt. Without its echo there is none: what was not shown is not told, so no password is.
 *   - of a line that was edited otherwise (arrows, Tab, Ctrl-R): what stands behind the prompt, which is what stood in
 *     front of the cursor at its first key, or in front of the last command.
 * Nothing while the alternate screen is on. Masked input ends a line untold.
 *
 * Marks (marks.h) say a command themselves, one at most for each line entered. One that follows a line before the next
 * key is told with it, beside what the screen shows: any program can print one. Whose nonce is right is not known here.
 *
 * States of a line: FRESH (no key yet) -> TYPED -> ENTERED, at most COMMANDS_WAITING of them -> told, or passed over by
 * a later one.
 */
#ifndef MUXD_SCREEN_COMMANDS_H
#define MUXD_SCREEN_COMMANDS_H

#include "muxd/screen/command.h"

struct term;
struct commands;

#define COMMANDS_WAITING 32 /* lines that were entered and not seen yet; the oldest goes first */

struct command_keys {
	uint64_t offset, ns; /* of input */
	uint16_t hand;
	bool hidden; /* not echoed, or not there: how they were entered is not known */
	const uint8_t *p;
	size_t n;
};

typedef void command_found(void *arg, const struct command *c);

/* ERR_NOMEM. */
int commands_create(command_found *found, void *arg, struct commands **out);
void commands_destroy(struct commands *c); /* NULL-safe */
/* Output from offset on, into the term as well. */
void commands_output(struct commands *c, struct term *t, uint64_t offset, const uint8_t *p, size_t n);
void commands_keys(struct commands *c, const struct term *t, const struct command_keys *k);
/* Output is missing here; the caller tells the term. */
void commands_cut(struct commands *c);
/* Nothing more comes, for now: what still waits for a mark in its place is told. */
void commands_settle(struct commands *c);

#endif
