/*
 * snapshot.h - the snapshots of one agent: DIR/sandboxes/<agent>/snapshots/.
 *
 * <id>.img (an image) or <id>.tar.zst (a plain directory) holds the workspace,
 * <id>.json says so and is written last: a snapshot is there when its json is. Data without one, and *.new,
 * were left by a death in between and are removed by snapshot_clean().
 *
 * States of one: none -> made (<id>.new) -> ready (json) -> none. Whoever changes anything holds the agent's lock
 * (dir.h); a ready one never changes, so reading needs none.
 */
#ifndef CONTROL_LOCAL_SNAPSHOT_H
#define CONTROL_LOCAL_SNAPSHOT_H

#include "control/local/archive.h"
#include "control/sandbox.h"

#include <stdatomic.h>

struct err;

#define SNAPSHOT_DIR "snapshots"

enum snapshot_kind { SNAPSHOT_IMAGE, SNAPSHOT_TREE };

/* dir: the agent's. create: made when missing. ERR_NOT_FOUND: it has none. */
int snapshot_dir_open(int dir, bool create, int *out_fd, struct err *e);
/* Goes with what is not whole in it, unless it holds a ready one: then false. */
bool snapshot_dir_drop(int dir);
/* One that is ready, its data as long as it was; none of it is read. ERR_NOT_FOUND, ERR_CORRUPT. */
int snapshot_load(int snaps, const char *agent, const struct id *id, struct sandbox_snapshot *out, struct err *e);
/* The snapshot's data for reading, and its kind. */
int snapshot_open(int snaps, const struct id *id, enum snapshot_kind *out, int *out_fd, struct err *e);
/* The sum of the archive, as it was proven then; without a digest where it is an image, or older than proofs. */
int snapshot_sum(int snaps, const struct id *id, struct archive_sum *out, struct err *e);
/* SHA-256 of the file behind fd from its beginning, hex, with its length and time; stop: as of local_snapshot_hash().
 */
int snapshot_hash(int fd, const atomic_bool *stop, struct sandbox_snapshot *out, struct err *e);
/* An empty file for the data of a new one. */
int snapshot_begin(int snaps, const struct id *id, int *out_fd, struct err *e);
/*
 * The data in fd is complete and proven: synced, named, described. how: sandbox_snapshot's; sum: of an archive, else
 * NULL. An archive's file is hashed as well: it was read a moment ago. On failure nothing is left of it.
 */
int snapshot_commit(int snaps, int fd, enum snapshot_kind kind, const char *how, const struct archive_sum *sum,
		    const char *agent, const struct id *id, struct sandbox_snapshot *out, struct err *e);
void snapshot_abort(int snaps, const struct id *id);
/* Gone already is fine. */
int snapshot_drop(int snaps, const struct id *id, struct err *e);
/* The ids of the ready ones, sorted, to be freed. */
int snapshot_ids(int snaps, struct id **out, size_t *out_n, struct err *e);
/* Removes what is not whole. true: one was being made when its maker died. */
bool snapshot_clean(int snaps);

#endif
