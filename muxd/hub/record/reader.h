/*
 * reader.h - a client of some door who reads the record through the hub.
 *
 * Every question with somebody's token goes to the recorder by reader_ask(), which says for whom it is: the recorder
 * keeps an account for each client's connection and writes the audit events (recorder/serve/ledger.h). When the
 * connection goes, its account is closed there. At most READERS_MAX are remembered for that; what is not is closed by
 * time.
 */
#ifndef MUXD_HUB_RECORD_READER_H
#define MUXD_HUB_RECORD_READER_H

#include "base/json.h"
#include "recorder/serve/client.h"

struct hub;
struct request;
struct readers;

#define READERS_MAX   4096
#define RECOVERING_NS (2 * NS_PER_SEC) /* the recorder's index may lag behind the ring by so much after a start */

/*
 * q is stolen, NULL: no memory. As recorder_client_ask(), but a question that finds no recorder is asked again until
 * there is one, 5 s at most; and nothing is said to be absent that may only not be in the record yet: not within
 * RECOVERING_NS of a start, and never what the hub itself remembers (ERR_UNAVAILABLE after 5 s).
 */
int reader_ask(struct hub *h, const struct request *rq, json_t *q, recorder_answer *cb, void *arg);
/* The record's knowledge of a session: told once, also when it could not be asked. facts: borrowed; NULL with an error.
 */
typedef void reader_facts(void *arg, int rc, const struct err *e, json_t *facts);
void reader_ask_session(struct hub *h, const struct request *rq, const struct id *session, reader_facts *cb, void *arg);
/* Clients that have read the record and are still connected; the hub's. NULL: no memory. */
struct readers *readers_create(void);
void readers_destroy(struct readers *x); /* NULL-safe */

#endif
