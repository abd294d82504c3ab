/*
 * sgr.h - what CSI m does to a pen (ECMA-48 8.3.117, ITU T.416 colours, and what xterm and kitty added).
 *
 * Values, no state. What is not known is passed over.
 */
#ifndef MUXD_SCREEN_SGR_H
#define MUXD_SCREEN_SGR_H

#include "base/filter.h"
#include "muxd/screen/grid.h"

void sgr_apply(struct pen *pen, const struct filter_csi *c);

#endif
