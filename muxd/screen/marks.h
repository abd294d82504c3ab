/*
 * marks.h - commands that a shell reports of itself, in the output of a terminal.
 *
 * Owned by the commands of a screen worker. Bytes go in one by one, from anybody: any program can print a mark. Two are
 * known, ended by BEL or ST:
 *   ESC ] 633 ; E ; command ; nonce     VS Code's; in the command \\ is a backslash, \xHH a byte; the nonce may be left
 * out ESC ] 133 ; C ; cmdline_url=command percent-encoded; without a nonce
 *
 * States: BETWEEN -> ESCAPE -> STRING -> STRING_END -> BETWEEN.
 */
#ifndef MUXD_SCREEN_MARKS_H
#define MUXD_SCREEN_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MARK_TEXT_MAX 4096 /* bytes of a mark as it stands in the output; longer ones are passed over */

enum marks_state { MARKS_BETWEEN, MARKS_ESCAPE, MARKS_STRING, MARKS_STRING_END };

struct marks {
	enum marks_state state;
	bool over;
	size_t n;
	uint8_t text[MARK_TEXT_MAX];
};

/* Any bytes: what they are is for who takes them. */
struct mark {
	char command[MARK_TEXT_MAX], nonce[MARK_TEXT_MAX];
	size_t ncommand, nnonce;
};

static inline bool marks_between(const struct marks *m)
{
	return m->state == MARKS_BETWEEN;
}
/* True: a mark ends with this byte, *out is set. */
bool marks_byte(struct marks *m, uint8_t c, struct mark *out);

#endif
