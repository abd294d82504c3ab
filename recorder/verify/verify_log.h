/*
 * verify_log.h - the chain log read once: is it sound, and what does it say of each recording?
 * Private to verify*.c and chain_open.c.
 *
 * A key that was given vouches for every entry of its run before a head that it signed (succession.h), and so for the
 * keys announced there; those vouch in turn. `keys` is the set that results.
 */
#ifndef RECORDER_VERIFY_VERIFY_LOG_H
#define RECORDER_VERIFY_VERIFY_LOG_H

#include "recorder/chain/sign.h"
#include "recorder/chain/succession.h"
#include "recorder/verify/verify.h"
#include "recorder/verify/verify_merged.h"

struct verify_log_seal {
	struct id session;
	uint8_t leaf[CHAIN_HASH];
	char day[11];
	uint64_t seq;
	bool tombstone, seen;
	bool whole; /* its file was looked at, and is the one that was sealed */
};

/* What the log says of a file of keyframes: the last digest that a head vouches for. */
struct verify_log_keyframes {
	struct id session;
	uint64_t seq, size;
	uint8_t sha256[CHAIN_HASH];
	char root[65];
	char drawing[32]; /* which version drew it; "": not told */
};

struct verify_log {
	struct verify_log_seal *seals; /* by session; one each */
	size_t n;
	struct verify_log_keyframes *keyframes; /* by session; one each */
	size_t nkeyframes;
	struct grant_keyset keys; /* given, then announced and vouched for */
	uint64_t anchors;
	struct verify_merged merged;
	uint64_t entries, heads, unsigned_entries, tombstones, last_seq;
	struct chain_head head; /* the last that verified */
	struct succession line;
	uint64_t outside_found;
	struct chain_head outside; /* the newest of those that are in the log; seq 0: none */
};

/* No log at all is a finding, not an error. ask->each and ask->key are not called. */
int verify_log_read(struct verify_log *l, const struct verify_ask *ask, struct err *e);
/* Every key of the log and every one that was given, and what the verdict makes of it. */
void verify_log_keys(const struct verify_log *l, verify_key_each *each, void *arg);
void verify_log_finish(struct verify_log *l);
const struct verify_log_keyframes *verify_log_keyframes(const struct verify_log *l, const struct id *session);
struct verify_log_seal *verify_log_find(struct verify_log *l, const struct id *session);

#endif
