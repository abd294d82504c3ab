/*
 * service.h - recorder.sock: questions about the record, answered from files and index.
 *
 * A thread for each connection, at most SERVICE_MAX; nothing here runs on the
 * threads that drain or cut, and a client that does not read holds up itself
 * alone. Requests of one connection are answered in order; every answer's last
 * JSON message has "end": true, errors {"error": {...}, "end": true}.
 * docs/conversations.md lists the questions; who may ask what is in service_ops.c.
 * Reading somebody's bytes is audited before the first of them is sent.
 */
#ifndef RECORDER_SERVE_SERVICE_H
#define RECORDER_SERVE_SERVICE_H

#include "recorder/draw/keyframer.h"
#include "recorder/output/feeder.h"
#include "recorder/serve/auth.h"
#include "recorder/serve/keeper.h"
#include "recorder/serve/witnesses.h"
#include "recorder/write/cutter.h"
#include "recorder/write/drain.h"

#include <sys/types.h>

#define SERVICE_MAX 128

struct service;

struct service_params {
	int listen_fd;   /* becomes the service's */
	const char *dir; /* record/ */
	int segments_fd;
	struct drain *drain;
	struct live *live;
	struct cutter *cutter;
	struct feeder *feeder; /* NULL: no whole output is kept (tests of parts) */
	struct auth *auth;
	struct witnesses *witnesses; /* NULL: none (tests of parts) */
	struct keeper *keeper;
	struct keyframer *keyframer; /* NULL: none are made */
	const uint8_t *index_key;    /* as index_use_key(), borrowed; NULL: rows have no codes */
	uid_t net_uid;
	uint64_t read_window_ns; /* of the ledger; 0: LEDGER_WINDOW_NS */
};

int service_create(const struct service_params *p, struct service **out, struct err *e);
int service_start(struct service *s, struct err *e);
/* Ends every conversation and its thread. */
void service_stop(struct service *s);
void service_destroy(struct service *s);
/* Joins the threads of clients that have gone, and tells of readings whose time has come. Called once a second. */
void service_tick(struct service *s);
/* When the hub was last connected, having asked `recover` or said `hub`; CLOCK_BOOTTIME, 0 = never. */
uint64_t service_hub_seen_ns(struct service *s);

#endif
