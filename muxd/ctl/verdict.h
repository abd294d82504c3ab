/*
 * verdict.h - what muxctl verify tells: findings as they come, then the verdict and what it rests on.
 *
 * Owned by the command. Text goes out as it comes; JSON is collected and printed at the end.
 */
#ifndef MUXD_CTL_VERDICT_H
#define MUXD_CTL_VERDICT_H

#include "muxd/ctl/ctl.h"
#include "recorder/verify/verify.h"

/* Exit statuses of their own, in the order in which they count. 66 and 69 keep the meaning they have elsewhere. */
enum verdict_status {
	VERDICT_WHOLE = 0,
	VERDICT_CHANGED = 74, /* as ERR_CORRUPT */
	VERDICT_INCOMPLETE = 65,
	VERDICT_NOT_SEALED = 69,  /* the one recording that was asked for is still open */
	VERDICT_UNWITNESSED = 67, /* --require-witness, and no head from outside is in the log */
	VERDICT_REMOVED = 68,     /* --no-removals, and recordings were removed */
};

struct verdict {
	struct ctl *c;
	bool verbose, need_witness, need_all;
	const char *keys_from; /* file or folder */
	bool keys_own;         /* that is the host's own folder */
	bool derived;          /* keyframes were drawn again */
	const char *tsa_ca;    /* file; NULL: timestamps were not checked for who signed them */
	json_t *findings, *recordings, *keys;
	uint64_t counts[3]; /* findings by class */
	uint64_t unsigned_recordings;
};

int verdict_begin(struct verdict *v, struct ctl *c);
void verdict_finish(struct verdict *v);
verify_sink verdict_finding;
verify_each verdict_recording;
verify_key_each verdict_key;
/* The whole record; given: how many heads from outside there were. Returns the exit status. */
int verdict_whole(struct verdict *v, const struct verify_summary *s, size_t given, const char *privsep);
/* One recording. alone: no log was at hand. */
int verdict_one(struct verdict *v, const struct verify_result *r, bool alone, const char *privsep);

#endif
