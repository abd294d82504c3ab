/*
 * failures_file.h - where counts of failed log-ins outlive a kill: one file, a page a slot.
 *
 * A page holds an audit event as JSON, as it would be written now, and NULs behind it; or NUL: nothing. It is written
 * with one call a failure and not synced: what was counted outlives any process, not the power. The hub reads it once
 * at its start and writes what it finds into the audit log.
 */
#ifndef MUXD_HUB_FAILURES_FILE_H
#define MUXD_HUB_FAILURES_FILE_H

#include <stddef.h>

struct err;
struct failures;

/* -1 in *out_fd with an error: counts are held in memory alone. */
int failures_file_open(const char *path, int *out_fd, struct err *e);
/* In place of what the slot held; n 0: nothing. ERR_SYS, said in the log once in a while. */
int failures_file_put(int fd, size_t slot, const char *text, size_t n);
/* Everything in it is owed. How many there were. */
size_t failures_file_recover(int fd, struct failures *f);

#endif
