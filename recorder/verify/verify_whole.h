/*
 * verify_whole.h - the record as a whole under examination. Private to verify*.c.
 *
 * The log is read first (verify_log.h), then each folder is walked (verify_walk.c) and each file compared with what the
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
/* Was it erased since the log was read? *asked: the log was read again for that. */
bool verify_whole_erased(struct verify_whole *w, const struct id *session, bool *asked);

/* verify_walk.c: every recording of sealed/ and open/. */
int verify_walk(struct verify_whole *w, struct err *e);

/* verify_removals.c: what is not there any more, by whose word, and whether that word was in force. */
int verify_removals(struct verify_whole *w, struct err *e);

/* verify_timestamps.c: what an authority stamped, against the log and the authority's certificates. */
int verify_timestamps(struct verify_whole *w, struct err *e);

#endif
