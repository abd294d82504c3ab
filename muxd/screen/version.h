/*
 * version.h - by which drawing a screen is drawn.
 *
 * Two workers of one version draw the same of the same frames. The version is a number, raised by hand when what is
 * drawn changes, and the checksum of a sample that is drawn when somebody asks: another libvterm, or a change for which
 * nobody raised the number, is another version too. No state.
 */
#ifndef MUXD_SCREEN_WHICH_H
#define MUXD_SCREEN_WHICH_H

#define SCREEN_DRAWING 1 /* raised with every change of what is drawn; tests/unit/test_screen.c knows the whole */
#define VERSION_MAX    24

/* "1-0123abcd". ERR_NOMEM. */
int version_of_drawing(char out[VERSION_MAX]);

#endif
