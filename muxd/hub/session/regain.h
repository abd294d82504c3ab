/*
 * regain.h - what a restart took from the answer of a round that ran on: its first and last bytes, its digest.
 *
 * At its end, before EXIT is written, the record is asked: the recorder's digests of the whole streams (op digests),
 * then the pages of stdout and stderr that the answer would have kept (op output, for the house). Owned by its session
 * while it is being asked; an answer finds the session by its id. What cannot be had within REGAIN_NS stays unknown:
 * the answer says null then, and the record still has the bytes.
 *
 * States: none -> asking -> regained (or given up; session.regained is true for both).
 */
#ifndef MUXD_HUB_SESSION_REGAIN_H
#define MUXD_HUB_SESSION_REGAIN_H

#include <stdbool.h>

struct session;

/* Must the end of this session wait for the record? The first call asks; `over` is called when it need not any more. */
bool regain_waits(struct session *s, void (*over)(struct session *s));
/* The session goes, or its hub. NULL-safe on a session without one. */
void regain_forget(struct session *s);

#endif
