/*
 * follower.h - reads the segment log on and on, over the ends of segments.
 *
 * Owned by its maker; sees only what lies before the tail it is given (normally
 * the durable one). Also keeps the wall clock that belongs to the records: it
 * follows each segment's header and the RING_CLOCK records on the way, and those
 * between the header and the place where reading began: it does not depend on that place.
 */
#ifndef RECORDER_WRITE_FOLLOWER_H
#define RECORDER_WRITE_FOLLOWER_H

#include "recorder/index/index.h"
#include "recorder/write/segment_log.h"

struct follower;

/* from->segment 0, or deleted: the oldest segment there is. */
int follower_create(int dir_fd, const struct index_cursor *from, struct follower **out, struct err *e);
void follower_destroy(struct follower *f);
/* 1, 0 at `until`, ERR_CORRUPT at a place that does not parse (follower_skip() goes on behind it), ERR_*. */
int follower_read(struct follower *f, const struct segment_tail *until, struct segment_record *out, struct err *e);
/* Leave the rest of this segment. */
void follower_skip(struct follower *f, const struct segment_tail *until);
/* Place of the next record. */
void follower_cursor(const struct follower *f, struct index_cursor *out);
int64_t follower_wall_ns(struct follower *f, uint64_t boot_ns);
/* The segment that holds the last record; 0 before the first. */
uint64_t follower_segment(const struct follower *f);
const struct id *follower_boot(const struct follower *f);

#endif
