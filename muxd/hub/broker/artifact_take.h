/*
 * artifact_take.h - a file of a sandbox, what has changed in it, or a round's output, on its way to an artifact.
 *
 * (COMPARING: the base is being opened ->) FETCHING (a transfer, or the round of an export, fills it) or PAGING (pages
 * of the record do) -> STORING (its bytes are complete) -> answered.
 * Whoever may was asked before (broker_artifact.c); the transfer and the record ask again by themselves.
 */
#ifndef MUXD_HUB_BROKER_ARTIFACT_TAKE_H
#define MUXD_HUB_BROKER_ARTIFACT_TAKE_H

#include "muxd/hub/broker/broker_artifact.h"

/* done once, from the loop; t and rq are copied. result: its row. */
void artifact_take(struct hub *h, const struct request *rq, const struct artifact_take *t, broker_json_done *done,
		   void *arg);

#endif
