/*
 * layout.h - the state directory and the journal directory of one daemon.
 *
 * layout_open() takes the lock, so that one daemon works on a directory (one
 * that was killed and is not quite gone is waited for, 5 s at most), makes
 * what is missing and leaves what is there. layout_close() gives the lock back;
 * the files stay. Owned by the monitor; nobody else writes these directories.
 *
 * muxd.lock also holds the pids of the monitor and its children, for whoever
 * finds it taken, and for the next start after a kill.
 */
#ifndef MUXD_MONITOR_LAYOUT_H
#define MUXD_MONITOR_LAYOUT_H

#include "base/ids.h"
#include "muxd/monitor/identity.h"
#include "muxd/monitor/journal_note.h"

#include <limits.h>
#include <stdint.h>

struct conf;
struct err;

struct layout {
	char dir[PATH_MAX];     /* real path */
	char journal[PATH_MAX]; /* ring and cursor */
	char instance[ID_STR_LEN];
	int lock_fd;
	struct journal_note missed;  /* a ring that is not there, and may have had what no record has; JOURNAL_NONE */
	pid_t old_net, old_recorder; /* children of a daemon that did not end by itself; 0: none */
};

/* ERR_CONFLICT "another daemon (pid N) works on DIR". On failure nothing is held. */
int layout_open(const char *state_dir, const struct identity *who, struct layout *out, struct err *e);
void layout_close(struct layout *l); /* NULL-safe, twice is harmless */
/*
 * Ring and cursor, made when missing, or found where DIR/journal.json says that they were (DIR was moved). After the
 * doors: a taken port should not cost the ring's memory. ERR_CONFLICT: a ring of before holds what no record has, and
 * cannot be taken without a word of its owner.
 */
int layout_make_journal(struct layout *l, const struct identity *who, const struct conf *c, struct err *e);
/* Note the children that run now (0: none) in the lock file. */
void layout_note_children(const struct layout *l, pid_t net, pid_t recorder);
/* DIR/name into out (PATH_MAX bytes). */
int layout_path(const struct layout *l, const char *name, char out[PATH_MAX], struct err *e);
/* Waits until the children of a daemon that was killed have ended; ERR_TIMEOUT names one that does not. */
int layout_wait_leftovers(const struct layout *l, uint64_t timeout_ns, struct err *e);

/*
 * The end: DIR/journal.json says what the ring holds that the record does not have. drop: and where that is nothing,
 * ring and cursor, which hold memory of the machine, are removed; only for an end that leaves nothing running: as after
 * a reboot, the next start makes a new ring. *out_left: records that are in the ring alone, which stays then.
 */
int layout_end_journal(const struct layout *l, bool drop, uint64_t *out_left, struct err *e);

#endif
