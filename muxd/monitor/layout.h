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

#include <limits.h>
#include <stdint.h>

struct conf;
struct err;

struct layout {
	char dir[PATH_MAX];     /* real path */
	char journal[PATH_MAX]; /* ring and cursor */
	char instance[ID_STR_LEN];
	int lock_fd;
	pid_t old_net, old_recorder; /* children of a daemon that did not end by itself; 0: none */
};

/* ERR_CONFLICT "another daemon (pid N) works on DIR". On failure nothing is held. */
int layout_open(const char *state_dir, const struct identity *who, struct layout *out, struct err *e);
void layout_close(struct layout *l); /* NULL-safe, twice is harmless */
/* Ring and cursor, made when missing. After the doors: a taken port should not cost the ring's memory. */
int layout_make_journal(struct layout *l, const struct identity *who, const struct conf *c, struct err *e);
/* Note the children that run now (0: none) in the lock file. */
void layout_note_children(const struct layout *l, pid_t net, pid_t recorder);
/* DIR/name into out (PATH_MAX bytes). */
int layout_path(const struct layout *l, const char *name, char out[PATH_MAX], struct err *e);
/* Waits until the children of a daemon that was killed have ended; ERR_TIMEOUT names one that does not. */
int layout_wait_leftovers(const struct layout *l, uint64_t timeout_ns, struct err *e);

/*
 * Remove ring and cursor, which hold memory of the machine, when the record has everything that is in
 * them. Only for an end that leaves nothing running: as after a reboot, the next start makes a new ring.
 * *out_kept: something was not durable yet, so it stays.
 */
int layout_drop_journal(const struct layout *l, bool *out_kept, struct err *e);

#endif
