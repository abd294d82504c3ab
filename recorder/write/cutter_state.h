/*
 * cutter_state.h - what the cutter's files share. Private to cutter*.c.
 *
 * `turn` is held for a whole step: index, chain, builders and follower belong to
 * whoever holds it. `lock` guards the small things that others ask for. Order: turn, lock.
 */
#ifndef RECORDER_WRITE_CUTTER_STATE_H
#define RECORDER_WRITE_CUTTER_STATE_H

#include "base/buf.h"
#include "base/memory.h"
#include "recorder/format/open_files.h"
#include "recorder/index/config_log.h"
#include "recorder/index/holds.h"
#include "recorder/index/index_compare.h"
#include "recorder/write/builder.h"
#include "recorder/write/cutter.h"
#include "recorder/write/follower.h"
#include "recorder/write/retention.h"
#include "recorder/write/retry.h"

#include <pthread.h>
#include <stdatomic.h>

#define STEP_BYTES          (1024 * 1024)
#define STEP_RECORDS        4096
#define SEAL_DELAY_NS       (200 * NS_PER_MS) /* who detaches at the end is still in the recording */
#define SEAL_GRID_NS        (100 * NS_PER_MS) /* seals fall together: they share the waits for the disk */
#define SEALS_MOST          64                /* in one pass */
#define CHECKPOINT_BYTES    (UINT64_C(32) << 20)
#define CHECKPOINT_NS       (10 * NS_PER_SEC)
#define RETENTION_NS        (600 * NS_PER_SEC)
#define HEAD_NS             (60 * NS_PER_SEC)
#define CHECKPOINT_BLOB_MAX ((size_t)64 << 20)

struct cut_session {
	struct id id;
	struct builder *b;
	uint64_t offsets[STREAM_COUNT];
	bool staff;       /* its seal is told to witnesses at once */
	bool plain;       /* no terminal: nobody looks for screens and commands in it */
	uint64_t typed;   /* of input, when somebody was told of it */
	bool touched;     /* offsets moved since they were stored */
	bool dirty;       /* the builder took something since its checkpoint */
	bool full;        /* it was told that its recording takes no more */
	uint64_t seal_ns; /* when to seal; 0 = has not ended */
	uint64_t open_lsn;
	uint64_t fresh_lsn; /* of the first record that the last `part` in the log does not cover; 0 = it covers all */
};

/* cutter_list.c: recordings that are to be cut anew by the next restore. */
struct cut_suspects {
	struct cut_suspect {
		struct id id;
		char why[300];
	} * list;
	size_t n;
};

/* Segments below that number, whose records are below that lsn, go with the next checkpoint; 0: none. */
struct cut_release {
	uint64_t below, lsn;
};

struct cutter {
	struct cutter_params p;
	char *dir;
	pthread_t idle, helper;
	bool idle_runs, helper_runs;

	pthread_mutex_t turn;
	struct index *index;
	struct chain *chain;
	struct follower *follower;
	struct memory_rest rest;       /* builders that came and went */
	struct open_files files;       /* of the builders */
	struct cut_session **sessions; /* sorted by id */
	size_t n;
	struct cut_session *last;
	struct index_cursor stored; /* the last checkpoint */
	struct cut_suspects suspects;
	struct cut_release release;
	uint64_t oldest_lsn;   /* where the oldest segment begins; 0: not known */
	bool restored;         /* once: from then on nobody but this process writes to open recordings */
	uint64_t replay_until; /* records before it may have been cut by an earlier try */
	uint64_t next_lsn;     /* of the record that comes next, when none is lost; 0: any */
	uint64_t bytes;        /* consumed since then */
	uint64_t checkpoint_ns, head_ns;
	bool hole;     /* found at the start: the log was shorter than others know it */
	bool sign_now; /* without waiting for HEAD_NS */
	bool failed;
	bool retains; /* retention's guard looked at the clock of this start */
	struct retry retry;
	uint64_t recoveries; /* of the journal, when a step failed */
	struct conf_rule *rules;
	size_t nrules;
	uint64_t segment_size;
	struct retention_policy policy; /* as the log has it, up to what was consumed */
	struct holds holds;             /* likewise */
	struct config_load *load;       /* what is to be told to the log, a list; NULL: all is told */
	bool fresh;                     /* nothing had ever been sealed when this recorder started */
	int64_t advanced_ns;            /* wall clock up to which the policy was advanced */
	uint64_t retention_ns;          /* when to look again */
	struct clock_guard guard;
	atomic_bool clock_waits; /* what the guard says, for others; also before it has looked */

	struct index_compare *compare; /* rows against the record, while that goes on */
	char compare_first[200];       /* what it found first */

	pthread_mutex_t lock;
	pthread_cond_t moved; /* consumed moved, or a session was sealed */
	pthread_cond_t help;  /* for the helper: somebody waits, or the debt is too large */
	uint64_t consumed;
	uint64_t debt;
	struct cutter_status seen;
	uint64_t compare_ns; /* not before: it failed */
	uint64_t compared;   /* how often that came to its end */
	atomic_bool compare_wanted;
	atomic_bool index_lost;      /* SQLite found it damaged */
	_Atomic uint64_t staff_seal; /* entry of the newest seal of a staff session */
	atomic_uint waiters;
	atomic_bool stopping;
	atomic_bool hurry; /* the idle thread is not to wait for its time */
};

/* Somebody waits for the cutter: the helper works, until cut_wait_end(). */
static inline void cut_wait_begin(struct cutter *c)
{
	pthread_mutex_lock(&c->lock);
	atomic_fetch_add(&c->waiters, 1);
	pthread_cond_signal(&c->help);
	pthread_mutex_unlock(&c->lock);
}

static inline void cut_wait_end(struct cutter *c)
{
	atomic_fetch_sub(&c->waiters, 1);
}

/* cutter_list.c */
/* NULL: that session is not being cut. */
struct cut_session *cut_find(struct cutter *c, const struct id *id);
/* b becomes the list's when this succeeds. ERR_NOMEM. */
int cut_add(struct cutter *c, const struct id *id, struct builder *b, struct cut_session **out, struct err *e);
/* Destroys s and its builder. */
void cut_remove(struct cutter *c, struct cut_session *s);
void cut_clear(struct cutter *c);
/* A terminal or an exec has ended: bytes and digests of its streams become an audit event. */
void cut_tell_streams(struct cutter *c, const struct cut_session *s);
/* Its recording has all the blocks that a file may have: that becomes one, too. */
void cut_tell_full(struct cutter *c, const struct cut_session *s);

/* cutter_session.c */
int cut_record(struct cutter *c, struct segment_record *sr, struct err *e);
void cut_options(struct cutter *c, const char *open, size_t n, struct builder_options *out);

/* cutter_seal.c */
/* Seal what is due at now (UINT64_MAX: whatever has ended), SEALS_MOST of it at most; the rest is due still. */
int cut_seal_due(struct cutter *c, uint64_t now, struct err *e);
/* When the next one is due; UINT64_MAX = none. */
uint64_t cut_seal_next(const struct cutter *c);
/* The sealed file of a session, when there is one. */
bool cut_sealed_path(const struct cutter *c, const struct id *id, char *out, size_t size);
int cut_seal_mend(struct cutter *c, const char *path, struct err *e);
int cut_checkpoint(struct cutter *c, struct err *e);
/* Of one that changed, inside an index transaction. state: room to work in. */
int cut_checkpoint_session(struct cutter *c, struct cut_session *s, struct buf *state, struct err *e);

/* cutter_policy.c: inside an index transaction, but for the first. */
/* What the index has of it; what comes behind its place in the log is taken as it is consumed. */
int cut_policy_load(struct cutter *c, struct err *e);
/* An audit event on its way into index and chain. One that net must not write is replaced, text and record. */
int cut_policy_audit(struct cutter *c, struct segment_record *sr, char **json, struct err *e);
/* The configuration that is not told yet goes into the log. Everything before is consumed. */
int cut_config_due(struct cutter *c, struct err *e);

/* cutter_retain.c */
int cut_retain_start(struct cutter *c, struct err *e);
/* Both inside an index transaction. */
int cut_retain_due(struct cutter *c, struct err *e);
int cut_retain_end(struct cutter *c, struct err *e);

int cut_part(struct cutter *c, struct cut_session *s, struct err *e);

/* Why that recording has to be cut anew; NULL: it is none of the suspects. */
const char *cut_suspected(const struct cutter *c, const struct id *id);
/* Reads the file back. One that is not what was written becomes a suspect: then ERR_CORRUPT. */
int cut_read_back(struct cutter *c, struct cut_session *s, bool whole, struct err *e);
/* The journal goes on at lsn, and lacks what is before. Sessions whose OPEN or EXIT went with it become suspects: then
 * ERR_CORRUPT, and the restore comes by here again. Without any it is audited. */
int cut_gap(struct cutter *c, uint64_t lsn, struct err *e);

/* cutter_recut.c: recordings from the begin, from what there is of them. */
struct recut;
int recut_create(struct cutter *c, struct recut **out);
void recut_destroy(struct recut *r);
/* u is copied. why: what was found. */
int recut_add(struct recut *r, const struct index_unsealed *u, const char *why);
/* Makes their files and builders anew, and stores checkpoints. None was added: does nothing. */
int recut_run(struct recut *r, struct err *e);

/* cutter_index.c: audit.db against the record, at the start and when somebody else wrote to it */
bool cut_compare_wanted(struct cutter *c);
/* A bounded piece, in a transaction of its own. What fails is tried again and holds up nothing. */
void cut_compare(struct cutter *c, bool *out_more);

/* cutter_restore.c */
int cut_restore(struct cutter *c, struct err *e);

#endif
