/*
 * recall.h - the answer of a round that has left memory, from the record.
 */
#ifndef MUXD_HUB_BROKER_RECALL_H
#define MUXD_HUB_BROKER_RECALL_H

#include "muxd/hub/core/request.h"
#include "muxd/hub/session/session.h"

json_t *recall_stream(const struct session_result *r, int stream, const json_t *page); /* one stream of it */
void round_recall(struct hub *h, const struct request *rq, const struct id *round, broker_json_done *done, void *arg);

#endif
