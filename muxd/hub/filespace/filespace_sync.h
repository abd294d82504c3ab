/*
 * filespace_sync.h - one sync of an agent's workspace with the owner's store, in one direction, tried once
 * (docs/filespace.md). Who wants it, tries it again and tells of it is filespace.h.
 *
 * States: LISTING (the workspace's files, by muxlet) -> ASKING (a pull: the store's, page by page) -> MARKING (the
 * workspace gets the marker of the agreement that is about to change) -> FETCHING (a batch from one side) -> PUTTING
 * (to the other) -> NOTING (its rows are durable), again for each batch -> over. Nothing is deleted or replaced that is
 * not as it was seen, and a batch counts once its rows do: whenever it ends, both sides are as the rules say.
 */
#ifndef MUXD_HUB_FILESPACE_FILESPACE_SYNC_H
#define MUXD_HUB_FILESPACE_FILESPACE_SYNC_H

#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

struct agent;
struct err;
struct filespace_sync;

enum filespace_direction { FILESPACE_PULL, FILESPACE_PUSH };
const char *filespace_direction_name(enum filespace_direction d);

/* A sync as it is told, also one that failed. */
struct filespace_told {
	unsigned files;       /* of the workspace, that are synced */
	unsigned copied;      /* down by a pull, up by a push */
	unsigned deleted;     /* here by a pull, there by a push */
	unsigned conflicts;   /* both sides had changed a file, and one of them won */
	unsigned left_out;    /* links, special and too large files, names that are not taken, clashes */
	unsigned meanwhile;   /* changed while it was synced: the next one has them */
	unsigned unconfirmed; /* sent, and no answer tells whether they were copied or deleted */
	uint64_t bytes;       /* of contents that were copied */
	char manifest[65];    /* SHA-256 of the workspace's list: path, NUL, key, NUL of each file */
	json_t *names;        /* [{how, path, sha256, unconfirmed}], of copies, deletions and conflicts; bounded */
	json_t *left_names;   /* [{path, why}] */
	unsigned unnamed;     /* of both */
	bool at_store;        /* it failed there; else in the workspace, or here */
	bool forgot;          /* the workspace was another one than was agreed on: times alone decided */
};

/* told: borrowed for the call. */
typedef void filespace_sync_done(void *arg, int rc, const struct err *e, const struct filespace_told *told);
/* NULL: no memory, or control.db cannot be read; that is logged. */
struct filespace_sync *filespace_sync_create(struct agent *a, enum filespace_direction d, filespace_sync_done *done,
					     void *arg);
/* The agent's link is up. done: once, maybe from inside this call, and then it is gone; not when it was cancelled. */
void filespace_sync_start(struct filespace_sync *s);
const char *filespace_sync_state(const struct filespace_sync *s);
/* Is it about the workspace of that sandbox? Once the agent has another one it ends at its next step. */
bool filespace_sync_is_of(const struct filespace_sync *s, const char *sandbox);
/* Since when it waits for its workspace in one step, by the boot clock; UINT64_MAX: for the store, which has a time. */
uint64_t filespace_sync_still_ns(const struct filespace_sync *s);
/* why: "took too long", of the sync. It ends: done hears ERR_TIMEOUT. False: control.db has it, and it goes on. */
bool filespace_sync_expire(struct filespace_sync *s, const char *why);
/* NULL-safe; a write to control.db ends by itself. out_told: what it has done until now, for filespace_told_finish().
 */
void filespace_sync_cancel(struct filespace_sync *s, struct filespace_told *out_told);
void filespace_told_finish(struct filespace_told *t);

#endif
