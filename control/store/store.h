/*
 * store.h - control.db: what control must know after any crash (SQLite, WAL, synchronous FULL).
 *
 * Owned by the hub's process alone, which holds a lock on it. One writer: a queue of
 * closures that run one after the other in the loop's pool, each in one transaction
 * that is durable before `done` is called in the loop. Reads run at once in the loop,
 * on a connection of their own, and see what was committed; they are by index and bounded.
 *
 * The nouns (agents, snapshots, leases, runs, workflows) have files of their own in
 * their folders, with their SQL (store_sql.h); the schema of all is in store_schema.c, in numbered steps.
 *
 * A database that is damaged, or newer than this program, is refused with what to
 * do, and nothing in it is touched.
 */
#ifndef CONTROL_STORE_STORE_H
#define CONTROL_STORE_STORE_H

#include <stdint.h>

struct err;
struct sqlite3;
struct store;
struct uv_loop_s;

/*
 * path: the file; its directory exists. ERR_CORRUPT, ERR_UNSUPPORTED (newer: says which version wrote it),
 * ERR_CONFLICT (another process has it), ERR_SYS, ERR_DISK_FULL.
 */
int store_open(struct uv_loop_s *loop, const char *path, struct store **out, struct err *e);
/* Runs what is queued first: nothing that was asked is lost. NULL-safe. */
void store_close(struct store *s);

/*
 * One transaction: fn runs in the pool with the transaction begun, and returns 0 to
 * commit; anything else rolls back. e, for its words, comes back to done.
 * done runs in the loop, once, in the order of the calls; rc is fn's, or
 * ERR_DISK_FULL, ERR_RECORD_UNAVAILABLE when the commit failed. job stays the caller's until then.
 */
typedef int store_fn(struct sqlite3 *db, void *job, struct err *e);
typedef void store_done(void *job, int rc, const struct err *e);
void store_write(struct store *s, store_fn *fn, store_done *done, void *job);

/*
 * Whether changes are stored: as the last turn of the writer found it, which is in the log when it changes.
 * STORE_FAILED: an I/O error that is no full disk.
 */
enum store_state { STORE_OK, STORE_DISK_FULL, STORE_FAILED };
enum store_state store_state(const struct store *s); /* NULL: STORE_OK */
/* From a timer: while changes are not stored one is tried that changes nothing, each two seconds. NULL-safe. */
void store_probe(struct store *s);

/* At once, in the loop, read-only. */
int store_read(struct store *s, store_fn *fn, void *job, struct err *e);
/* Grows (from 1) with whatever was committed: who read everything at this number finds nothing new before the next. */
uint64_t store_changes(const struct store *s);

#endif
