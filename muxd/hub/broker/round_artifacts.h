/*
 * round_artifacts.h - rounds that have ended give what they named: one after the other, behind the round's answer.
 *
 * A sandbox that is gone by then (none is made or woken), a grant that has ended: that artifact is failed, in
 * session->artifacts and in the audit log. A daemon that dies in the middle: it is absent.
 */
#ifndef MUXD_HUB_BROKER_ROUND_ARTIFACTS_H
#define MUXD_HUB_BROKER_ROUND_ARTIFACTS_H

struct hub;

void round_artifacts_tick(struct hub *h); /* takes up what is due (round_wishes.h) */

#endif
