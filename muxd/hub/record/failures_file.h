/*
 * failures_file.h - where counts of failed log-ins and verdicts outlive a kill: one file, a page a slot. The log-ins'
 * FAILURES_SLOTS come first, then as many of verdicts.
 *
 * A page holds an audit event as JSON, as it would be written now, and NULs behind it; or NUL: nothing. It is written
 * with one call a failure and not synced: what was counted outlives any process, not the power. The hub reads it once
 * at its start and writes what it finds into the audit log.
 */
#ifndef MUXD_HUB_RECORD_FAILURES_FILE_H
#define MUXD_HUB_RECORD_FAILURES_FILE_H

#include <stddef.h>

struct err;
struct failures;

/* -1 in *out_fd with an error: counts are held in memory alone. */
int failures_file_open(const char *path, int *out_fd, struct err *e);
/* In place of what the slot held; n 0: nothing. ERR_SYS, said in the log once in a while. */
int failures_file_put(int fd, size_t slot, const char *text, size_t n);
/* Everything from that slot of the file on, FAILURES_SLOTS of them, is owed. How many there were. */
size_t failures_file_recover(int fd, size_t first, struct failures *f);

#endif
