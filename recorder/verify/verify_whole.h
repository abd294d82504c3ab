/*
 * verify_whole.h - the record as a whole under examination. Private to verify*.c.
 *
 * The log is read first (verify_log.h), then each folder is walked (verify.c) and each file compared with what the
 * log says of it; what the log has and no file answers for is missing.
 */
#ifndef RECORDER_VERIFY_VERIFY_WHOLE_H
#define RECORDER_VERIFY_VERIFY_WHOLE_H

#include "recorder/verify/verify.h"
#include "recorder/verify/verify_log.h"

struct verify_whole {
	const struct verify_ask *ask;
	struct verify_summary *sum;
	struct verify_log log;
	struct verify_log later; /* read again, when a file is there that the log did not have */
	bool later_read;
};

void verify_whole_found(struct verify_whole *w, enum verify_class class, const char *code, const char *path,
			const struct id *session, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* Reads the log; its findings are those of the whole. */
int verify_whole_begin(struct verify_whole *w, const struct verify_ask *ask, struct verify_summary *sum, struct err *e);
void verify_whole_finish(struct verify_whole *w);
/* Has a recorder the database of this record open? One that nobody has open has no log beside it. */
bool verify_whole_at_work(const char *dir);
/* One file; its verdict is part of the whole's. An open one (not sealed) may be written meanwhile. */
int verify_whole_file(struct verify_whole *w, const char *path, bool sealed, struct verify_result *out, struct err *e);
/* A sealed file against what the log says of it. day: the folder it stands in. */
void verify_whole_compare(struct verify_whole *w, const char *path, const char *day, struct verify_result *r);
/* Each entry of the log to take, once more: what is damaged was told when it was first read. No log: none. */
int verify_whole_entries(struct verify_whole *w, int (*take)(void *arg, const struct chain_entry *en, struct err *e),
			 void *arg, struct err *e);
/* The log as it is by now, for what was written since it was read; as it was, where it cannot be read again. Borrowed.
 */
struct verify_log *verify_whole_log_now(struct verify_whole *w);
/* Was it erased since the log was read? *asked: the log was read again for that. */
bool verify_whole_erased(struct verify_whole *w, const struct id *session, bool *asked);

/* verify_removals.c: what is not there any more, by whose word, and whether that word was in force. */
int verify_removals(struct verify_whole *w, struct err *e);

/* verify_timestamps.c: what an authority stamped, against the log and the authority's certificates. */
int verify_timestamps(struct verify_whole *w, struct err *e);

/*
 * verify_derived.c: what was derived from the record, against the record: audit.db's rows and files of keyframes. Rows
 * are derived again from chain log and recordings and compared one to one. Of keyframes the log has a digest: that they
 * are as they were drawn, not that what was drawn is true. A record without an audit.db lacks nothing.
 */
/* Behind the log and the files, which were read. */
int verify_derived(struct verify_whole *w, struct err *e);
/* Keyframes of one recording whose file was read, if they are to be drawn again. */
int verify_derived_one(struct verify_whole *w, const struct id *session, struct err *e);

/*
 * verify_snapshots.c: the files of snapshots against what the log says they were. Only on demand
 * (verify_ask.sandboxes): a workspace may be larger than the whole record. Each file is read whole; its SHA-256 must be
 * the first one that the log tells of it (docs/lifecycle.md, Digests).
 */
int verify_snapshots(struct verify_whole *w, struct err *e);

#endif
