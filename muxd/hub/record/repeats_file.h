/*
 * repeats_file.h - where counts of what repeats outlive a kill: one file, a page a slot, REPEATS_SLOTS of each kind in
 * the order of enum repeats_of.
 *
 * A page holds an audit event as JSON, as it would be written now, and NULs behind it; or NUL: nothing. It is written
 * with one call a failure and not synced: what was counted outlives any process, not the power. The hub reads it once
 * at its start and writes what it finds into the audit log.
 */
#ifndef MUXD_HUB_RECORD_REPEATS_FILE_H
#define MUXD_HUB_RECORD_REPEATS_FILE_H

#include <stddef.h>

struct err;
struct repeats;

/* -1 in *out_fd with an error: counts are held in memory alone. */
int repeats_file_open(const char *path, int *out_fd, struct err *e);
/* In place of what the slot held; n 0: nothing. ERR_SYS, said in the log once in a while. */
int repeats_file_put(int fd, size_t slot, const char *text, size_t n);
/* Everything from that slot of the file on, REPEATS_SLOTS of them, is owed. How many there were. */
size_t repeats_file_recover(int fd, size_t first, struct repeats *f);

#endif
