/*
 * recall.h - the answer of a round that has left memory, from the record.
 *
 * It has every field that a round in memory has at its end (docs/openapi.yaml, Round) but `artifacts`, which the task's
 * list of them has.
 */
#ifndef MUXD_HUB_BROKER_RECALL_H
#define MUXD_HUB_BROKER_RECALL_H

#include "muxd/hub/core/request.h"
#include "muxd/hub/session/session.h"

/* Its answer without the streams. facts: OPEN and EXIT as the recorder tells them; result: of that EXIT. NULL: no
 * memory. */
json_t *recall_round(const struct id *round, const json_t *facts, const struct session_result *result);
json_t *recall_stream(const struct session_result *r, int stream, const json_t *page); /* one stream of it */
void round_recall(struct hub *h, const struct request *rq, const struct id *round, broker_json_done *done, void *arg);

#endif
