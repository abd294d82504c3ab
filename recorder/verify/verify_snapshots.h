/*
 * verify_snapshots.h - the files of snapshots against what the log says they were. Private to verify*.c.
 *
 * Only on demand (verify_ask.sandboxes): a workspace may be larger than the whole record. Each file is read whole; its
 * SHA-256 must be the first one that the log tells of it (docs/lifecycle.md, Digests).
 */
#ifndef RECORDER_VERIFY_VERIFY_SNAPSHOTS_H
#define RECORDER_VERIFY_VERIFY_SNAPSHOTS_H

#include "recorder/verify/verify_whole.h"

/* Nothing is looked at without w->ask->sandboxes. */
int verify_snapshots(struct verify_whole *w, struct err *e);

#endif
