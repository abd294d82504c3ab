/*
 * rotation.h - a new record key, named by the old one.
 *
 *   idle -> naming (the recorder writes the next key into the log, under a head of the key in force)
 *        -> using  (the key is on the disk in place of the old one; the recorder signs with it) -> idle
 *
 * A crash in naming leaves the old key in force. From the change on the disk on the next start goes on with the new
 * one, which the log names. One at a time; owned by the monitor.
 */
#ifndef MUXD_MONITOR_ROTATION_H
#define MUXD_MONITOR_ROTATION_H

#include "base/json.h"

struct admin_call;
struct err;
struct monitor;
struct rotation;

/*
 * Answers the call when it is done. ERR_BAD_STATE: one is under way; ERR_LIMIT: keys/record is full;
 * ERR_UNAVAILABLE: the recorder is not up.
 */
int rotation_begin(struct monitor *m, struct admin_call *c, struct err *e);
/* The recorder's word: "key.named", "key.used". */
void rotation_told(struct monitor *m, const char *op, const json_t *msg);
void rotation_recorder_gone(struct monitor *m);

#endif
