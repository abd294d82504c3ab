/*
 * executions.h - what executions said, read from their lines (context_answer.h): long ones in a worker thread, one at a
 * time, so that nobody else waits for them; and kept once the execution has ended, so that it is read once.
 *
 * Owned by the hub. Kept are KEPT answers of EXECUTIONS_KEPT_MAX bytes at the most, those that were asked for last; who
 * may ask is the broker's question, each time. Lines that wait for their turn are EXECUTIONS_WAIT_MAX bytes at the
 * most.
 */
#ifndef MUXD_HUB_BROKER_EXECUTIONS_H
#define MUXD_HUB_BROKER_EXECUTIONS_H

#include "base/buf.h"
#include "base/ids.h"
#include "base/json.h"

#include <stdbool.h>

#define EXECUTIONS_KEPT_MAX ((size_t)64 * 1024 * 1024)
#define EXECUTIONS_WAIT_MAX ((size_t)64 * 1024 * 1024)
#define EXECUTIONS_SHORT    ((size_t)64 * 1024) /* bytes of lines that are read at once, and not kept */

struct err;
struct executions;
struct uv_loop_s;

struct executions *executions_create(struct uv_loop_s *loop); /* NULL: no memory */
void executions_destroy(struct executions *x);                /* NULL-safe; who waits hears ERR_CANCELLED */

/* The answer of one that has ended, a new reference of an object of its own; NULL: it is not kept. */
json_t *executions_kept(struct executions *x, const struct id *round);
/*
 * Lines are taken over. done: once, now or later; answer is stolen by it, NULL with an error: ERR_NOMEM, ERR_CANCELLED,
 * ERR_UNAVAILABLE: too much waits. ended: no line will come any more.
 */
typedef void executions_done(void *arg, int rc, const struct err *e, json_t *answer);
void executions_read(struct executions *x, const struct id *round, bool ended, struct buf *lines, executions_done *done,
		     void *arg);

#endif
