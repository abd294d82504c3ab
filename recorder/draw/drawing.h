/*
 * drawing.h - the screens of a sealed recording, drawn from its bytes one after the other: its keyframes.
 *
 * The one way by which they come to be: the keyframer writes them, a verification draws them again and compares. What
 * a program once wrote is parsed in a screen worker (drawer.h), one for each drawing. The same recording by the same
 * version gives the same screens, unless the worker dies: then the first of them, up to there.
 *
 * A value, owned by one thread; the recording is borrowed, and read from where it stands: its beginning.
 */
#ifndef RECORDER_DRAW_DRAWING_H
#define RECORDER_DRAW_DRAWING_H

#include "base/ring.h"
#include "recorder/draw/drawer.h"
#include "recorder/draw/keyframes.h"

struct err;
struct recording;

#define DRAWING_SPACING ((uint64_t)256 * 1024) /* bytes of output between two; another one: raise SCREEN_DRAWING */

struct drawing {
	struct recording *recording;
	struct drawer worker;
	char version[DRAWER_VERSION_MAX];
	struct ring_record next; /* read, and not shown yet */
	bool pending, heard;
	uint64_t since;   /* bytes of output since the last screen */
	uint64_t ns, seq; /* of the last event that was shown */
};

/* Is it a sealed terminal's, and is there so much of it that a player who wants its middle would wait? */
bool drawing_worth(const struct recording *r);
/* ERR_UNAVAILABLE: no worker is to be had. drawing_end() also after an error. */
int drawing_begin(struct drawing *d, struct recording *r, struct drawers *from, struct err *e);
/*
 * One event further: 1, with *out and *data (until the next call) when a screen was due; out->len is 0 where none was.
 * 0: that was all. ERR_EOF: the worker ended; what was drawn by then stands. ERR_CORRUPT: the recording is damaged.
 */
int drawing_step(struct drawing *d, struct keyframe *out, const uint8_t **data, struct err *e);
void drawing_end(struct drawing *d);

#endif
