/*
 * segment_log.h - the writing end of the segment log: append, rotate, sync, recover.
 *
 * Owned by the drain. It writes to one file, the newest segment; a segment that
 * is not the newest is whole and synced. Writing failures leave the log as it
 * was: what was half written is overwritten by the next try.
 *
 * The few system calls that a sick disk fails go through `segment_io`, so that
 * tests can be that disk.
 */
#ifndef RECORDER_WRITE_SEGMENT_LOG_H
#define RECORDER_WRITE_SEGMENT_LOG_H

#include "recorder/format/segment.h"

struct err;
struct segment_log;

struct segment_io {
	ssize_t (*pwrite)(int fd, const void *p, size_t n, off_t at);
	int (*fdatasync)(int fd);
	int (*fallocate)(int fd, int mode, off_t at, off_t n);
	int (*free_bytes)(int dir_fd, uint64_t *out);
};
extern const struct segment_io segment_io_system;

/* A place in the log, and the place in the ring that belongs to it. */
struct segment_tail {
	uint64_t number; /* 0 = before the first segment */
	uint64_t offset;
	uint64_t lsn; /* of the next record */
	struct id ring;
	uint64_t ring_pos;
	uint64_t ring_seq; /* of the next ring record; 0 = whatever comes */
	struct id boot;
};

/* What recovery had to do to the newest segment. */
struct segment_tear {
	uint64_t number, offset;
	uint64_t bytes; /* cut off; 0 = the tail was whole */
	bool set_aside; /* valid records stood behind the tear, or the header was damaged: a copy was kept */
};

/* dir_fd stays the caller's. */
int segment_log_create(int dir_fd, uint64_t max_size, const struct segment_io *io, struct segment_log **out);
void segment_log_destroy(struct segment_log *log); /* closes; syncs nothing */
/* Find the end, cut a torn tail, sync. With no segment, out->number is 0 and lsn is 1. */
int segment_log_recover(struct segment_log *log, struct segment_tail *out, struct segment_tear *out_tear,
			struct err *e);
/* Numbers up to this one were in use, whatever the folder holds now: they are not given again. */
void segment_log_used(struct segment_log *log, uint64_t number);
/* New segment after `tail`, whose ring fields say where it begins. The one before must be synced. Fills tail. */
int segment_log_begin(struct segment_log *log, struct segment_tail *tail, struct err *e);
/* Append whole records at tail->offset, which the caller moves on. */
int segment_log_write(struct segment_log *log, const struct segment_tail *tail, const void *p, size_t n, struct err *e);
/* Must a segment be begun before n more bytes? */
bool segment_log_full(const struct segment_log *log, const struct segment_tail *tail, size_t n);
/* May run beside segment_log_write() in another thread; not beside the others. */
int segment_log_sync(struct segment_log *log, struct err *e);
/* After a failed sync: forget everything behind tail (cut the file there) and close. begin() comes next. */
int segment_log_rewind(struct segment_log *log, const struct segment_tail *tail, struct err *e);
int segment_log_free_bytes(const struct segment_log *log, uint64_t *out);
int segment_delete(int dir_fd, uint64_t number, struct err *e);

#endif
