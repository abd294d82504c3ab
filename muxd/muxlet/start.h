/*
 * start.h - OPEN: from a frame to a running program.
 *
 * Answers by OPENED, and when the program could not be started by the EXIT of a
 * channel that has ended already. Owns nothing afterwards: the channel is in
 * the tables of struct muxlet.
 */
#ifndef MUXD_MUXLET_START_H
#define MUXD_MUXLET_START_H

struct muxlet;
struct frame;

void start_channel(struct muxlet *m, const struct frame *f);

/* "name" of uid in the text of a passwd file, or "sandbox"; for USER. */
void start_user_name(unsigned uid, const char *passwd_path, char *out, unsigned long size);

#endif
