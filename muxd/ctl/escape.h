/*
 * escape.h - the escape key of a terminal session: Ctrl-] and one key more.
 *
 * Ctrl-] d detaches, Ctrl-] ? explains, Ctrl-] Ctrl-] is one Ctrl-] for the
 * program; before any other key both are passed on. Pure. States: PASS -> SEEN
 * (the escape key was pressed) -> PASS.
 */
#ifndef MUXD_CTL_ESCAPE_H
#define MUXD_CTL_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ESCAPE_KEY_DEFAULT 0x1d

enum escape_action { ESCAPE_NONE, ESCAPE_DETACH, ESCAPE_HELP };

struct escape {
	int key; /* -1: no escape key */
	bool seen;
};

/*
 * Takes bytes from in until an action or the end; *out_taken of them. What is for the program goes to out, which has
 * room for n + 1 bytes; *out_n of them.
 */
enum escape_action escape_feed(struct escape *s, const uint8_t *in, size_t n, size_t *out_taken, uint8_t *out,
			       size_t *out_n);
/* "^]", "^A", "none": the key, or -1 for none; -2 when it is no control key. */
int escape_key_parse(const char *s);

#endif
