/*
 * vtscan.h - is the output between two characters, so that a line of ours fits in?
 *
 * Follows escape sequences, strings and UTF-8 just far enough to know; draws
 * nothing. Also knows whether the program has saved the cursor, which a status
 * line must not overwrite, and whether it scrolls down to the terminal's last line. Pure.
 */
#ifndef MUXD_CTL_VTSCAN_H
#define MUXD_CTL_VTSCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vtscan {
	int state;
	unsigned more; /* bytes of a UTF-8 character still to come */
	bool saved;    /* ESC 7 without ESC 8, CSI s without CSI u: most terminals keep one place for both */
	bool whole;    /* the scrolling region ends with the terminal (CSI r, DECSTR, RIS, DECALN); the caller takes it
			  back */
	unsigned top;  /* line at which the region begins, from 1 */
	unsigned
	    rows; /* of the picture: a region that ends further down is as good as whole; 0: not known. The caller's */
	uint8_t first, last; /* of the sequence so far, behind its ESC */
	uint16_t params[2], nparams;
};

/* Feeds all of it, or up to where `whole` is so and nothing is saved, for the first time. How many bytes. */
size_t vtscan_feed(struct vtscan *s, const uint8_t *p, size_t n);
bool vtscan_between(const struct vtscan *s);

#endif
