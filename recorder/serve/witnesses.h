/*
 * witnesses.h - which of the record's heads are known outside, as the recorder itself knows it.
 *
 * A carrier (muxd-witness, a process of its own: this one has no network and no credential) asks for heads, takes them
 * to the witnesses and brings receipts. Here a receipt is checked: it must be for a head of this log under this key,
 * and signed by the witness's pinned key where one is configured. Then it becomes an entry of the log (anchor). So a
 * carrier that was taken over can only be late; how late each witness is, is reckoned here and published in the
 * journal's cursor, whatever the carrier says.
 *
 * Only news counts as late: heads and anchors alone are not carried, or each receipt would call for the next.
 *
 * A witness: NEW (no receipt yet) -> CURRENT <-> BEHIND; any -> DISPUTED (it knows a head that this log does not have:
 * the log was set back or forked; until the next start). Each change is an audit event.
 *
 * Owned by the process; any thread may call.
 */
#ifndef RECORDER_SERVE_WITNESSES_H
#define RECORDER_SERVE_WITNESSES_H

#include "base/conf.h"
#include "base/json.h"
#include "recorder/write/cutter.h"
#include "recorder/write/drain.h"

struct witnesses;

struct witnesses_params {
	const char *dir; /* record/ */
	struct cutter *cutter;
	struct drain *drain;
	const struct signer *signer;
	struct alarms *alarms; /* NULL: nobody is told (tests) */
	const struct conf *conf;
};

/* The newest receipt of each is read from the log's last file, and from older ones where refuse_after depends on them. */
int witnesses_create(const struct witnesses_params *p, struct witnesses **out, struct err *e);
void witnesses_destroy(struct witnesses *w);
/* After a rotation. */
void witnesses_use_key(struct witnesses *w, const struct signer *s);
/* Witnesses that stay keep what is known of them. */
int witnesses_configure(struct witnesses *w, const struct conf *conf, struct err *e);
/* Each second: lags, states, and what the hub is told by way of the cursor. */
void witnesses_tick(struct witnesses *w);

/* For the carrier: {"news","staff_seal","witnesses":[{"name","seq"}]}, what there is and what each has. NULL: no memory
 */
json_t *witnesses_news(struct witnesses *w);
/* Is the carrier to be given entries of the log, for a witness that takes them? */
bool witnesses_take_entries(struct witnesses *w);
/* receipt: an object. ERR_NOT_FOUND: no such witness; ERR_INVAL, ERR_CONFLICT, ERR_TOKEN_FORGED: it is none. */
int witnesses_receipt(struct witnesses *w, const char *name, const json_t *head, const json_t *receipt, struct err *e);
/* Why it did not come to a receipt, for people. */
void witnesses_failed(struct witnesses *w, const char *name, const char *why);
/* The newest head that a witness has: is it one of this log's? ERR_CONFLICT: it is not, and that is now in the log. */
int witnesses_known(struct witnesses *w, const char *name, const json_t *head, struct err *e);

/* [{"name","kind","state","seq","lag_seconds","receipts","failures","message","refuse_after_seconds"}] */
json_t *witnesses_status(struct witnesses *w);

#endif
