/*
 * journal_note.h - DIR/journal.json: which ring holds what the record does not have yet, said where it outlives the
 * ring and goes with DIR.
 *
 * A ring stands on a tmpfs, under a name of DIR's path: a restart of the machine removes it, and who moves DIR to a
 * larger disk leaves it behind. By the note the next start knows that one is missing, what was in it, and where it was.
 *
 *   none -> used -> stored -> used ...     a daemon works; it has ended, and the record has all of the ring
 *           used -> left -> used ...       it has ended, and some records are in the ring alone
 *
 * Written in place once it is there: a full disk takes that. Owned by the monitor, which holds DIR's lock.
 */
#ifndef MUXD_MONITOR_JOURNAL_NOTE_H
#define MUXD_MONITOR_JOURNAL_NOTE_H

#include "base/clock.h"
#include "base/ids.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum journal_note_state { JOURNAL_NONE, JOURNAL_USED, JOURNAL_STORED, JOURNAL_LEFT };

struct journal_note {
	enum journal_note_state state;
	char dir[PATH_MAX], journal[PATH_MAX]; /* real path of DIR, folder of the ring, as they were then */
	char ring[ID_STR_LEN];                 /* its id */
	char boot[CLOCK_BOOT_ID_LEN];
	uint64_t records; /* JOURNAL_LEFT: how many were in the ring alone */
};

const char *journal_note_state_name(enum journal_note_state s);
/* Without a file: JOURNAL_NONE. ERR_CORRUPT, ERR_SYS. */
int journal_note_read(const char *path, struct journal_note *out, struct err *e);
int journal_note_write(const char *path, const struct journal_note *n, struct err *e);

/* A ring as it stands in its folder. */
struct journal_look {
	bool there;
	char ring[ID_STR_LEN];
	size_t size;
	uint64_t left; /* records that are not durable */
};
/* ERR_* where there is a ring or a cursor that cannot be read. */
int journal_look(const char *folder, struct journal_look *out, struct err *e);
/*
 * Ring and cursor from one folder to another, which is there, in the place of a ring there that has nothing of its own.
 * ERR_CONFLICT: it has; ERR_SYS: another file system, among others. A crash in between: again, with the same folders.
 */
int journal_bring(const char *from, const char *to, struct err *e);

#endif
