/*
 * verify_drawn.h - keyframes drawn again from their recording, and compared screen by screen. Private to verify*.c.
 *
 * Only on demand (verify_ask.drawers): drawing takes far longer than reading. The log's digest proves that a file is as
 * it was drawn; this proves that what it shows is what the recording's bytes draw. Of another version's drawing nothing
 * can be said, nor is a file wrong that ends early: the worker that drew it did.
 */
#ifndef RECORDER_VERIFY_VERIFY_DRAWN_H
#define RECORDER_VERIFY_VERIFY_DRAWN_H

#include "recorder/verify/verify_whole.h"

/*
 * recording: path of a file that is as it was sealed, with keyframes beside it that are as k says. What is found is
 * told and counted. ERR_UNAVAILABLE: no worker is to be had. ERR_NOMEM.
 */
int verify_drawn(struct verify_whole *w, const struct verify_log_keyframes *k, const char *recording, struct err *e);

#endif
