/*
 * verify_derived.h - what was derived from the record, against the record: audit.db's rows and files of keyframes.
 * Private to verify*.c.
 *
 * Rows are derived again from chain log and recordings and compared one to one. Of keyframes the log has a digest:
 * that they are as they were drawn, not that what was drawn is true. A record without an audit.db lacks nothing.
 */
#ifndef RECORDER_VERIFY_VERIFY_DERIVED_H
#define RECORDER_VERIFY_VERIFY_DERIVED_H

#include "recorder/verify/verify_whole.h"

/* Behind the log and the files, which were read. */
int verify_derived(struct verify_whole *w, struct err *e);
/* Keyframes of one recording whose file was read, if they are to be drawn again. */
int verify_derived_one(struct verify_whole *w, const struct id *session, struct err *e);

#endif
