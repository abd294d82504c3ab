/*
 * readback.h - is what a recording's file has on the disk what was written to it? The chain computed again.
 *
 * Owned by a recording's blocks; a value. It stands at a block's end and moves on: what it has seen once is not read
 * again, unless it is set back to the file's begin. It reads by the path, as whoever comes later will, past the page
 * cache where what it reads is synced; so a file that was removed or replaced under its writer is found too.
 */
#ifndef RECORDER_FORMAT_READBACK_H
#define RECORDER_FORMAT_READBACK_H

#include "recorder/chain/digest.h"

struct err;

struct readback {
	uint64_t pos;             /* 0: the header comes next */
	uint8_t hash[DIGEST_LEN]; /* as computed up to there */
};

/*
 * From where it stands to `end`, where the hash must be `hash`. fd: the writer's, -1: it has none open now.
 * ERR_CORRUPT (what was found), ERR_NOT_FOUND (the file is gone); then it is back at the begin. ERR_SYS.
 */
int readback_to(struct readback *r, const char *path, int fd, uint64_t end, const uint8_t hash[DIGEST_LEN],
		struct err *e);
/* Which of these places the file has as they are said to be, the farthest: its number. ERR_NOT_FOUND: none of them. */
int readback_farthest(const char *path, const struct readback *places, size_t n, size_t *out, struct err *e);

#endif
