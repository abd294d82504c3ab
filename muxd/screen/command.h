/*
 * command.h - one command that was entered at a terminal, as a screen worker tells it (commands.h says how it is
 * found).
 *
 * A value. It was made of a hostile program's output: evidence of nothing. As the payload of a SCREEN_COMMAND frame,
 * little-endian:
 *   u64 at | u64 input | u64 ns | u16 hand | u8 flags | u8 length of nonce | u16 of text | u16 of mark | text, mark,
 * nonce
 */
#ifndef MUXD_SCREEN_COMMAND_H
#define MUXD_SCREEN_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct screen_frame;

#define COMMAND_TEXT_MAX  1024 /* bytes; longer ones are cut at a character */
#define COMMAND_NONCE_MAX 64

struct command {
	uint64_t at;    /* offset of the output that showed it; ascending, one command each */
	uint64_t input; /* offset of input behind its Enter */
	uint64_t ns;    /* when Enter was pressed */
	uint16_t hand;  /* who pressed it: a number of the caller's */
	bool shared;    /* others typed in the same line */
	bool prompt;    /* where the prompt ends was not known: it may stand in front of text */
	bool truncated, mark_truncated;
	char text[COMMAND_TEXT_MAX + 1]; /* off the screen; UTF-8, lines of a paste with LF between them; "": nothing */
	char mark[COMMAND_TEXT_MAX + 1]; /* what a mark says; "": there was none */
	char nonce[COMMAND_NONCE_MAX + 1];
};

/* Appends a frame. ERR_TOO_LARGE, ERR_NOMEM. */
int command_put(struct buf *out, const struct command *c);
/* ERR_PROTOCOL; what is no UTF-8 is replaced. */
int command_get(const struct screen_frame *f, struct command *out);

#endif
