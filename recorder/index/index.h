/*
 * index.h - audit.db: what sessions there were, and every audit event, to be asked by SQL.
 *
 * Derived from the segments by the cutter, which is its only writer; it can be
 * made again from sealed recordings, chain log and segments (index_rebuild). One
 * struct index is one connection: the cutter has the writing one, each reader
 * makes its own with index_open_reader(). Not thread-safe: two threads on one connection write pages
 * over each other in the file; the cutter's belongs to whoever has its turn.
 *
 * The writer's place in the log (index_cursor) is stored in the same
 * transaction as the builders' checkpoints, so after a crash both go on from one
 * moment; everything else may be put in twice and is the same afterwards.
 */
#ifndef RECORDER_INDEX_INDEX_H
#define RECORDER_INDEX_INDEX_H

#include "base/json.h"
#include "base/ring.h"

#include <stdint.h>

struct err;
struct index;

struct index_cursor {
	uint64_t segment, offset, lsn; /* of the next record; segment 0 = from the oldest there is */
};

/* Times are wall clock. */
struct index_session {
	struct id id;
	const char *open; /* JSON text; NULL when it was lost */
	uint64_t open_lsn, open_segment;
	int64_t opened_ns;
};

/* A sealed recording, as its file says. */
struct index_recording {
	struct id id;
	const char *open, *exit; /* JSON text; exit NULL: it has none */
	uint64_t open_lsn, end_lsn;
	int64_t opened_ns, ended_ns;
	uint64_t offsets[STREAM_COUNT];
	const char *path;      /* below record/ */
	const char *keyframes; /* what the chain log says their root is, hex; NULL: nothing */
};

struct index_filter {
	const char *agent, *principal, *kind, *state, *event, *session; /* NULL = any */
	const char *lease, *run, *client_request;                       /* audit: of that lease alone */
	const char *before;                                             /* sessions: ids below this one */
	uint64_t since;                                                 /* audit: lsn above this one */
	int64_t limit;
	bool pass_over; /* rows that are not the recorder's are left out; otherwise they end it with ERR_CORRUPT */
};

/*
 * Of a process that stays, before it opens the first: pages of all its databases come out of one piece of memory, for
 * good, as long as there are any. Taken one by one they would lie between what sessions keep, and leave holes there
 * when they go. Without memory for it they are taken so.
 */
void index_set_pages(void);
/* ERR_CORRUPT when it is no database of ours or SQLite finds it damaged; ERR_VERSION. */
int index_open(const char *path, struct index **out, struct err *e);
int index_open_reader(const char *path, struct index **out, struct err *e);
/* Of a record nobody may write to; its rows of version 1 cannot be compared: ERR_VERSION. */
int index_open_offline(const char *path, struct index **out, struct err *e);
void index_close(struct index *ix);
/* From here on rows are written with a code of this key, and rows without theirs are not handed out. */
void index_use_key(struct index *ix, const uint8_t key[32]);
/* The rows' codes are of another key, or of none yet; until index_put_key(). */
int index_key_is_new(struct index *ix, bool *out, struct err *e);
int index_put_key(struct index *ix, struct err *e);
/* How many rows were found that the recorder did not write, since this was last asked. */
uint64_t index_take_unsound(struct index *ix);
/* Has another connection written to it since this was last asked? For the writer, which is alone. */
bool index_written_by_others(struct index *ix);
/* SQLite found the file damaged, in any statement since it was opened. */
bool index_damaged(const struct index *ix);
/* Does it hold what the record held when it was made? A new one says so in the transaction that fills it. */
bool index_complete(const struct index *ix);
int index_put_complete(struct index *ix, struct err *e);
/* SQLite's own quick check, as far as it comes in 20 s. ERR_CORRUPT. */
int index_check(struct index *ix, struct err *e);

int index_begin(struct index *ix, struct err *e);
/* Until index_rollback() everything that is read is of one moment. */
int index_begin_read(struct index *ix, struct err *e);
/* durable: synced to the disk when it returns; otherwise as of the next durable one. */
int index_commit(struct index *ix, bool durable, struct err *e);
void index_rollback(struct index *ix);

int index_put_open(struct index *ix, const struct index_session *s, struct err *e);
int index_put_offsets(struct index *ix, const struct id *id, const uint64_t offsets[STREAM_COUNT], struct err *e);
int index_put_end(struct index *ix, const struct id *id, const char *exit, uint64_t lsn, int64_t ended_ns,
		  struct err *e);
/* Takes the place of what was known of it while it went on, and of its checkpoint. */
int index_put_recording(struct index *ix, const struct index_recording *r, struct err *e);
int index_put_keyframes(struct index *ix, const struct id *id, const char *root, struct err *e);
/* What the chain log says of its keyframes: hex, "" when it says nothing. ERR_NOT_FOUND, ERR_CORRUPT. */
int index_keyframes(struct index *ix, const struct id *id, char out[65], struct err *e);
/* The session's recording is gone (state "expired", its description is emptied), or is kept for ever. */
int index_put_expired(struct index *ix, const struct id *id, struct err *e);
int index_put_kept(struct index *ix, const struct id *id, struct err *e);
/* One of which no more is known than that state: it is not to be cut again. Does nothing when there is a row. */
int index_put_gone(struct index *ix, const struct id *id, const char *state, struct err *e);
int index_put_audit(struct index *ix, uint64_t lsn, int64_t wall_ns, const struct id *session, const char *json,
		    struct err *e);
int index_put_cursor(struct index *ix, const struct index_cursor *c, struct err *e);
/* Retention waits until that uptime of that boot, and of another one for as long as is left; 0: it does not. */
struct index_wait {
	uint64_t boot, until_ns, left_ns; /* left_ns 0: an older recorder did not say */
};
int index_put_wait(struct index *ix, const struct index_wait *w, struct err *e);
int index_put_checkpoint(struct index *ix, const struct id *id, const void *state, size_t n, struct err *e);

int index_cursor(struct index *ix, struct index_cursor *out, struct err *e);
/* Of the audit events that were there at the last checkpoint; 0: none. */
int index_last_audit(struct index *ix, uint64_t *out, struct err *e);
int index_last_lsn(struct index *ix, uint64_t *out, struct err *e); /* highest seen in any row */
int index_wait(struct index *ix, struct index_wait *out, struct err *e);
/* Wall time of the newest thing in it, 0: it is empty. */
int index_newest(struct index *ix, int64_t *out_wall_ns, struct err *e);
/* Does an event behind since_lsn say that the wall clock ran ahead, the recorder's or net's? */
int index_ran_ahead(struct index *ix, uint64_t since_lsn, bool *out, struct err *e);
/* "open", "ended", "sealed" into out; ERR_NOT_FOUND. path may be NULL. */
int index_session_state(struct index *ix, const struct id *id, char out[8], struct err *e);
/* First lsn and the segment that holds it. */
int index_session_start(struct index *ix, const struct id *id, uint64_t *out_lsn, uint64_t *out_segment, struct err *e);

/* One row; a return other than 0 ends it and is returned. o is borrowed. */
typedef int index_row(void *arg, json_t *o);
int index_sessions(struct index *ix, const struct index_filter *f, index_row *row, void *arg, struct err *e);
int index_audit(struct index *ix, const struct index_filter *f, index_row *row, void *arg, struct err *e);
/* The lsn before the newest f->limit events. */
int index_audit_start(struct index *ix, const struct index_filter *f, uint64_t *out_since, struct err *e);
/* Sessions with an exec_id that ended at or after since_ns: {"session","open","offsets","ended","exit"}. */
int index_recent_execs(struct index *ix, int64_t since_ns, index_row *row, void *arg, struct err *e);
/* How many sessions of the agent were opened with that snapshot as the current one, whose recordings are there. */
int index_refers(struct index *ix, const char *agent, const char *snapshot, uint64_t *out, struct err *e);
/* Retention lives by these. */
struct index_ended {
	struct id id;
	const char *agent, *principal; /* NULL: not known */
	int64_t opened_ns, ended_ns;
};
/* Sealed sessions that ended before before_ns, the oldest first. 1 from fn: enough. */
typedef int index_ended_row(void *arg, const struct index_ended *row);
int index_expired(struct index *ix, int64_t before_ns, index_ended_row *fn, void *arg, struct err *e);
/* Sessions of the agent whose recordings are there and that were opened with one of these as the current snapshot;
 * previous "": those before the first one, too. */
int index_named_by(struct index *ix, const char *agent, const char *snapshot, const char *previous, index_ended_row *fn,
		   void *arg, struct err *e);
/* A hold and its release, each by the JSON of its event. Putting one in again changes nothing. */
int index_put_hold(struct index *ix, const char *id, const char *json, struct err *e);
int index_put_release(struct index *ix, const char *id, const char *json, struct err *e);
typedef int index_hold_row(void *arg, const json_t *hold, const json_t *released); /* released: NULL while in force */
int index_holds(struct index *ix, bool released_too, index_hold_row *fn, void *arg, struct err *e);
/* Events that decide how long recordings are kept (retention_policy.h), in their order. */
typedef int index_event_row(void *arg, uint64_t lsn, const json_t *record);
int index_policy(struct index *ix, index_event_row *fn, void *arg, struct err *e);
/* The last n events config.text before that place. */
int index_config_pieces(struct index *ix, uint64_t lsn, size_t n, index_event_row *fn, void *arg, struct err *e);
/* Nothing was ever sealed. */
int index_fresh(struct index *ix, bool *out, struct err *e);
/* Sessions that are not sealed. state: the builder's checkpoint or NULL. */
struct index_unsealed {
	struct id id;
	const char *open;
	const void *state;
	size_t state_len;
	uint64_t offsets[STREAM_COUNT];
	uint64_t open_lsn, open_segment; /* segment 0: the row was made of what the record has, with the index */
	int64_t opened_ns, ended_ns;     /* wall clock */
	bool ended;
	const char *exit; /* NULL: it has not ended */
	uint64_t end_lsn;
};
typedef int index_unsealed_row(void *arg, const struct index_unsealed *u);
int index_unsealed(struct index *ix, index_unsealed_row *row, void *arg, struct err *e);

#endif
