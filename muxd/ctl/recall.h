/*
 * recall.h - of what has ended, out of the record: a round's output, for muxctl exec with an exec_id that was used
 * before; a session's exit, for a terminal that came back too late to be told.
 *
 * Needs the daemon. The caller's grant is asked for anew: a round is its principal's to read.
 */
#ifndef MUXD_CTL_RECALL_H
#define MUXD_CTL_RECALL_H

#include "muxd/ctl/ctl.h"

/* Bytes as they come; what it returns below 0 ends the reading. */
typedef int recall_take(void *arg, const uint8_t *p, size_t n);

/*
 * round: as the hub answers (round_id, agent, stdout, stderr). stream: "stdout" or "stderr". *out_missing: bytes that
 * the record does not have. ERR_TIMEOUT when the record stays behind.
 */
int ctl_recall_stream(struct ctl *c, const json_t *round, const char *stream, recall_take *take, void *arg,
		      uint64_t *out_missing, struct err *e);

/* How a session ended, as the record says: {"exit"}; the caller's. ERR_TIMEOUT when the record stays behind. */
int recall_exit(struct ctl *c, const char *session, json_t **out, struct err *e);

#endif
