/*
 * audit.h - the monitor's audit records on their way into the journal.
 *
 * Only net writes the journal. A record waits here until net has said that it is
 * journaled; after a restart of net what is unconfirmed is sent again, with the
 * same event_id, so that a reader can tell a repetition. At most AUDIT_MAX wait.
 * Owned by the monitor's loop.
 */
#ifndef MUXD_MONITOR_AUDIT_H
#define MUXD_MONITOR_AUDIT_H

#include "base/json.h"

#include <stdint.h>
#include <uv.h>

struct audit;
struct proc;

#define AUDIT_MAX 1000

/* rc: 0 journaled, ERR_TIMEOUT, or what net said. Called once, never from inside audit_put(). */
typedef void audit_done(void *arg, int rc);

int audit_create(uv_loop_t *loop, struct proc *net, struct audit **out);
void audit_destroy(struct audit *a); /* NULL-safe; pending ones end with ERR_CANCELLED */
/*
 * record is stolen, also on failure; event_id and wall_ns are added where it has none. timeout_ms 0: waits for ever,
 * retries when net could not write. ERR_LIMIT when too many wait.
 */
int audit_put(struct audit *a, json_t *record, uint64_t timeout_ms, audit_done *done, void *arg);
/*
 * The same for what must not happen unless the record can be written: net journals it only then. While the recorder is
 * away it waits, timeout_ms at most; a full disk is told at once (ERR_DISK_FULL).
 */
int audit_put_first(struct audit *a, json_t *record, uint64_t timeout_ms, audit_done *done, void *arg);
void audit_net_ready(struct audit *a);                   /* send everything unconfirmed */
void audit_answer(struct audit *a, int64_t tag, int rc); /* net's word */
size_t audit_waiting(const struct audit *a);

#endif
