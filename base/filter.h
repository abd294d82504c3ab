/*
 * filter.h - what of a terminal's output may come near a terminal emulator.
 *
 * Owned by the term of a screen worker, or by a tamer (tamer.h) where a person looks on. Takes hostile bytes in any
 * pieces and says what they are: runs of whole characters, single controls, and the escape and control sequences of the
 * lists in filter.c, whole and within bounds. Everything else (queries, strings but the title, unknown or overlong
 * sequences) is dropped here. Cutting the input elsewhere never changes what is said.
 *
 * Grammar: ECMA-48 and the state machine of DEC's terminals as xterm has it, in UTF-8, without 8-bit controls.
 */
#ifndef BASE_FILTER_H
#define BASE_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILTER_TEXT_MAX  4096 /* bytes of one run */
#define FILTER_ARGS_MAX  32   /* of one control sequence; what has more is dropped */
#define FILTER_ARG_MAX   9999 /* larger ones are this */
#define FILTER_TITLE_MAX 256  /* bytes; longer ones end there */

/* CSI leader args intermed final. */
struct filter_csi {
	char leader;   /* 0, '?', '>' */
	char intermed; /* 0, ' ', '!' */
	char final;
	unsigned n;
	int args[FILTER_ARGS_MAX]; /* -1: left out */
	uint32_t joined;           /* bit i: args[i] follows a colon */
};

struct filter_ops {
	void (*text)(void *arg, const uint8_t *p, size_t n);  /* UTF-8, without controls */
	void (*control)(void *arg, uint8_t c);                /* BS HT LF CR SO SI (VT and FF come as LF) */
	void (*escape)(void *arg, char intermed, char final); /* intermed 0, '(', ')', '#' */
	void (*csi)(void *arg, const struct filter_csi *c);
	void (*title)(void *arg, const char *p, size_t n); /* UTF-8, without controls */
};

enum filter_state { FILTER_GROUND, FILTER_ESCAPE, FILTER_CSI, FILTER_OSC, FILTER_STRING, FILTER_STRING_END };

struct filter {
	const struct filter_ops *ops;
	void *arg;
	enum filter_state state;
	char intermed;        /* of an escape sequence */
	bool bad, args_ended; /* of a control sequence: dropped at its end; an intermediate was there */
	bool osc;             /* the string that may end here is one */
	struct filter_csi csi;
	uint8_t utf8[4]; /* the beginning of a character */
	unsigned nutf8;
	uint8_t title[FILTER_TITLE_MAX + 2]; /* "0;..." */
	unsigned ntitle;
};

void filter_init(struct filter *f, const struct filter_ops *ops, void *arg);
void filter_feed(struct filter *f, const uint8_t *p, size_t n);
/* Nothing has begun: the next byte starts something new. */
static inline bool filter_between(const struct filter *f)
{
	return f->state == FILTER_GROUND && f->nutf8 == 0;
}
/* Bytes are missing here: what had begun is forgotten. */
void filter_cut(struct filter *f);

#endif
