/*
 * replay_view.h - the status line under a recording that plays, as text.
 *
 * Pure; ASCII only, so that its width is its length.
 */
#ifndef MUXD_CTL_REPLAY_VIEW_H
#define MUXD_CTL_REPLAY_VIEW_H

#include "muxd/ctl/player.h"

struct replay_view {
	const struct player *player;
	uint64_t position; /* recorded moment */
	int64_t wall_ns;   /* of it; 0: not known */
	unsigned cols;
	const char *who;    /* "demo ann bash" */
	const char *notice; /* shown instead of who; "" */
};

/* At most cols - 1 characters, NUL-terminated; returns the length. */
size_t replay_view_line(const struct replay_view *v, char *out, size_t size);
/* Printable ASCII of any text, for `who` and `notice`. */
void replay_view_ascii(const char *s, char *out, size_t size);

#endif
