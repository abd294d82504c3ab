/*
 * keys.h - what somebody presses while a recording plays, out of a terminal's bytes.
 *
 * Pure. States: PLAIN -> ESC (0x1b seen) -> CSI (ESC [ or ESC O seen) or STRING
 * (an answer of the terminal's own, skipped) -> PLAIN.
 */
#ifndef MUXD_CTL_KEYS_H
#define MUXD_CTL_KEYS_H

#include <stdbool.h>
#include <stdint.h>

enum key {
	KEY_NONE,
	KEY_QUIT,   /* q, Ctrl-C, Ctrl-D */
	KEY_PAUSE,  /* space */
	KEY_FASTER, /* + = */
	KEY_SLOWER, /* - _ */
	KEY_STEP,   /* . */
	KEY_IDLE,   /* i */
	KEY_STATUS, /* s */
	KEY_HELP,   /* ? h */
	KEY_LEFT,
	KEY_RIGHT,
	KEY_UP,
	KEY_DOWN,
	KEY_START,   /* g, Home */
	KEY_END,     /* G, End */
	KEY_STOP,    /* Ctrl-Z */
	KEY_PERCENT, /* 0 to 9: KEY_PERCENT + n; the last of the list */
};

struct keys {
	int state;
	int number; /* of ESC [ n ~ */
};

/* One byte; the key it completes, or KEY_NONE. */
int keys_feed(struct keys *k, uint8_t byte);
/* Nothing came for a while: a lone ESC is forgotten. */
void keys_idle(struct keys *k);

#endif
