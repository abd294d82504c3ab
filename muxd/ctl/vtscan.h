/*
 * vtscan.h - is the output between two characters, so that a line of ours fits in?
 *
 * Follows escape sequences, strings and UTF-8 just far enough to know; draws
 * nothing. Also knows whether the program has saved the cursor, which a status
 * line must not overwrite, and whether it let the whole screen scroll again. Pure.
 */
#ifndef MUXD_CTL_VTSCAN_H
#define MUXD_CTL_VTSCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vtscan {
	int state;
	unsigned more; /* bytes of a UTF-8 character still to come */
	bool saved;    /* ESC 7 without ESC 8 */
	bool whole;    /* the scrolling region was reset (CSI r, DECSTR, RIS); the caller takes it back */
	uint8_t last;  /* of the sequence so far */
};

void vtscan_feed(struct vtscan *s, const uint8_t *p, size_t n);
bool vtscan_between(const struct vtscan *s);

#endif
