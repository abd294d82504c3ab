/*
 * reader.h - a client of some door who reads the record through the hub.
 *
 * Every question with somebody's token goes to the recorder by reader_ask(), which says for whom it is: the recorder
 * keeps an account for each client's connection and writes the audit events (recorder/ledger.h). When the connection
 * goes, its account is closed there. At most READERS_MAX are remembered for that; what is not is closed by time.
 */
#ifndef MUXD_HUB_READER_H
#define MUXD_HUB_READER_H

#include "muxd/base/json.h"
#include "recorder/client.h"

struct hub;
struct request;
struct reader_client;

#define READERS_MAX 4096

/* q is stolen, NULL: no memory. As recorder_client_ask(); ERR_UNAVAILABLE where there is no recorder. */
int reader_ask(struct hub *h, const struct request *rq, json_t *q, recorder_answer *cb, void *arg);
void readers_destroy(struct hub *h);

#endif
