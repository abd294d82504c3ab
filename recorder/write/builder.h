/*
 * builder.h - makes the recording of one session from its journal records.
 *
 * Owned by the thread that seals; one builder a session. It writes
 * DIR/open/<id>.mrec, which grows by whole blocks, and at the end
 * DIR/sealed/<yyyy-mm-dd>/<id>.mrec (day: UTC of the OPEN). DIR is the state
 * directory's record/. Nothing here is on the live path.
 *
 * States: OPEN (create, reopen) -> SEALED (seal) | closed (destroy). Records that
 * it has seen (sequence not above the last) are ignored, so feeding again from a
 * segment's start is harmless. After an error (ERR_DISK_FULL, ERR_SYS) destroy it
 * and go on later with builder_reopen() from the last checkpoint, or anew.
 */
#ifndef RECORDER_WRITE_BUILDER_H
#define RECORDER_WRITE_BUILDER_H

#include "recorder/chain/chain.h"
#include "recorder/format/part.h"
#include "recorder/format/trunc.h"

struct builder;
struct buf;
struct err;
struct open_files;
struct signer;

struct builder_options {
	const char *dir; /* DIR; copied */
	struct trunc_rule rule;
	int codec;                /* enum block_codec; 0 = zstd */
	bool staff;               /* of somebody of staff: its seal is told to witnesses at once */
	bool pty;                 /* of a terminal */
	struct open_files *files; /* bounds the open ones; NULL: each stays open */
	bool beside;              /* writes open/<id>.recut, until builder_publish() */
	unsigned blocks_most;     /* 0: BLOCK_COUNT_MAX; less in tests */
};

/* open: the session's RING_OPEN record. A file of an earlier try is begun anew. Makes open/ when missing. */
int builder_create(const struct builder_options *o, const struct ring_record *open, struct builder **out,
		   struct err *e);
/*
 * The session's records in order, and every RING_CLOCK record (its session is nil). Others: ERR_INVAL.
 * rec->seq is the sequence of the recorder's log, which never goes back, whatever ring a record came from.
 * Bytes that the journal lacks (offset beyond the expected one) become EVENT_MISSING.
 */
int builder_append(struct builder *b, const struct ring_record *rec, struct err *e);

/*
 * Writes what is complete as a block, unless that would be one more of too many small ones, syncs, and appends to
 * `state` all that builder_reopen() needs besides the file: its length, hashes, digests, the block in the making (at
 * most BLOCKS_WAITING_MAX), the tail that waits (at most about 3 x tail + 2 MiB, normally under 1 KiB).
 * Store it before dropping segments. Each call may end a block early: every few MiB or some ten seconds is right.
 */
int builder_checkpoint(struct builder *b, struct buf *state, struct err *e);
/* Cuts open/<id>.mrec to the checkpoint's length and goes on. ERR_CORRUPT when file and state do not fit. */
int builder_reopen(const struct builder_options *o, const struct id *session, const uint8_t *state, size_t n,
		   struct builder **out, struct err *e);

/* What waits for its rule is kept, and the wait begins anew: all that was taken is in the file, which the next
 * checkpoint syncs. Of one that is full what it lacks is counted, and stands in the state. */
int builder_settle(struct builder *b, struct err *e);
/*
 * An event of a recording of the same session, in place of the record that it was made of. ERR_UNSUPPORTED: bytes that
 * a rule left out cannot be counted and hashed again.
 */
int builder_copy(struct builder *b, const struct ring_record *rec, struct err *e);
/* Bytes of a stream up to `until` that nobody has any more: EVENT_MISSING at that time. */
int builder_missing(struct builder *b, unsigned stream, uint64_t until, uint64_t boot_ns, struct err *e);
/* How many of those bytes, there and at jumps. */
uint64_t builder_lost(const struct builder *b, unsigned stream);
/* At a checkpoint, of one that was made beside: its file takes the place of open/<id>.mrec in one step. */
int builder_publish(struct builder *b, struct err *e);
/*
 * Is in the file what was written, all of it again or what came since the last time? ERR_CORRUPT, ERR_NOT_FOUND: no;
 * then destroy it: the file is not to be trusted.
 */
int builder_read_back(struct builder *b, bool whole, struct err *e);
/* How far the file stands; at a checkpoint that nothing waits behind (builder_settle()). */
void builder_part(const struct builder *b, struct part *out);

uint64_t builder_seq(const struct builder *b); /* last sequence taken */
bool builder_ended(const struct builder *b);   /* a RING_EXIT was taken */
/* Nearly all the blocks that a file may have are there: what comes is a gap until the session's end. */
bool builder_full(const struct builder *b);
const struct id *builder_session(const struct builder *b);
uint64_t builder_offset(const struct builder *b, unsigned stream);
/* SHA-256 of the stream up to there, whatever a rule leaves out. ERR_EOF: the journal itself lacks a part of it. */
int builder_digest(const struct builder *b, unsigned stream, uint8_t out[32]); /* next offset of a stream */

/*
 * Index, footer, signature, fsync, rename, fsync of the folder. head: the log as it stands (chain_head()).
 * Then: chain_append_seal(chain, out, ...), chain_sign_head(). A crash between the two is mended by
 * recording_sealed() on the file and chain_append_seal(..., recovering = true).
 */
int builder_seal(struct builder *b, const struct signer *s, const struct chain_head *head, struct chain_seal *out,
		 struct err *e);
/*
 * The same in its steps, for who seals many: each step of all of them before the next, so that they share the waits
 * for the disk. Nothing may be told to the log before all steps are done.
 */
int builder_close(struct builder *b, const struct signer *s, const struct chain_head *head, struct chain_seal *out,
		  struct err *e);
int builder_sync(struct builder *b, struct err *e); /* the file */
int builder_move(struct builder *b, struct err *e);
/* The folder of that day, NULL: the one of open recordings. */
int builder_moved(const char *dir, const char *day, struct err *e);
/* Closes; the file stays as it is (of a sealed one nothing is left to do). NULL-safe. */
void builder_destroy(struct builder *b);
/* The same, and the unsealed file is removed. */
void builder_abort(struct builder *b);

#endif
