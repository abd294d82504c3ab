/*
 * gate.h - calls that wait for a record that starts.
 *
 * Owner: the hub. A call passes at once, is refused at once, or waits, in the order in which it came, until the record
 * can be written or its 5 s are over.
 */
#ifndef MUXD_HUB_ACCESS_GATE_H
#define MUXD_HUB_ACCESS_GATE_H

#include "muxd/hub/core/request.h"

struct gate;

struct gate *gate_create(void);    /* NULL: no memory */
void gate_destroy(struct gate *g); /* NULL-safe; behind gate_close() */

#define GATE_WAITS 1

typedef void gate_go(void *arg, int rc, const struct err *e);
/* 0: go on; ERR_RECORD_UNAVAILABLE, ERR_DISK_FULL: refused. GATE_WAITS: go is called once, with 0, or hub_writable()'s
 * after 5 s of a record that starts, or broker_in_force()'s after a wait. rq stays as it is until then. */
int gate_pass(struct hub *h, const struct request *rq, gate_go *go, void *arg, struct err *e);
void gate_tick(struct hub *h);
bool gate_rests(const struct hub *h); /* none waits */
void gate_close(struct hub *h);       /* ERR_CANCELLED to all who wait */

#endif
