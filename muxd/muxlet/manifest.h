/*
 * manifest.h - what was in the workspace at the last looks: one memory file for a sandbox, with room for two looks.
 *
 * muxlet makes it when it is asked for the first survey (survey.h) and keeps it open until it ends; a survey has it as
 * a descriptor. Each look has a number of the hub's. The next one compares with the look that the hub says it has in
 * its record, and overwrites the other; so what a lost answer told is told again, and nothing is told never. Killed on
 * the way, a survey leaves the look that it compared with.
 *
 * Entries stand in the order of fs_walk.h, each path by what it shares with the one before. Whoever reads checks every
 * length: a program of the same user might have written there.
 */
#ifndef MUXD_MUXLET_MANIFEST_H
#define MUXD_MUXLET_MANIFEST_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MANIFEST_MAX  (16u * 1024 * 1024) /* bytes of one look, some 250,000 names */
#define MANIFEST_READ (64u * 1024)

struct manifest_entry {
	uint64_t inode, size;
	int64_t mtime_ns, ctime_ns;
	uint32_t mode;
	uint32_t unsure; /* it was changed so shortly before that the clock would not tell another change */
};

/* Change times are the kernel's, and behind its clock by a tick, 10 ms at most. */
#define MANIFEST_LAG_NS INT64_C(20000000)

/*
 * May another change have the same change time as this one? Where the clock was set back files may lie far ahead of it:
 * another change would take them back, and tell itself.
 */
static inline bool manifest_unsure(int64_t ctime_ns, int64_t now_ns)
{
	return ctime_ns >= now_ns - MANIFEST_LAG_NS && ctime_ns <= now_ns + MANIFEST_LAG_NS;
}

/* One look, being read or written. fd stays the caller's. */
struct manifest {
	int fd;
	unsigned slot;
	uint64_t at, end; /* reading: in the slot, up to where it was written */
	uint64_t bytes;   /* writing: so many so far */
	size_t filled, taken;
	uint8_t buf[MANIFEST_READ];
	char path[PATH_MAX]; /* of the entry */
	struct manifest_entry entry;
};

/* began_ns: when the first program may have begun, by the wall clock. The descriptor, or -1 and errno. */
int manifest_make(int64_t began_ns);
/* 0 or an errno; EBADMSG: it is none. */
int manifest_began(int fd, int64_t *out_ns);
/*
 * The look `have`, else the older of those there are; *out_found is false where there is none. The other one's place is
 * out_new's, empty from here on.
 */
int manifest_open(int fd, uint64_t have, struct manifest *out_old, bool *out_found, struct manifest *out_new);
/* The next entry: 1, 0 at the end, -1: what stands there is none. */
int manifest_next(struct manifest *m);
/* 0 or an errno; EFBIG: over MANIFEST_MAX, nothing is added. */
int manifest_add(struct manifest *m, const char *path, const struct manifest_entry *e);
/* Makes the written manifest the look of that number, above 0. 0 or an errno. */
int manifest_close(struct manifest *m, uint64_t look);
/* The order of paths in it: as strcmp() has it, with a slash before every other byte. */
int manifest_order(const char *a, const char *b);

#endif
