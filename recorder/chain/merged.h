/*
 * merged.h - entries of another record's log that this one took in (docs/edge.md).
 *
 * They come in batches of whole entries, in order and from the first one on, each batch under the signature of the
 * other record's key (docs/witness.md). DIR/merged/<log id>.entries has them one behind the other, header and payload
 * as in that log; for each batch an entry of this log (CHAIN_MERGED) says where it stands, its digest, the hash that
 * the other chain has behind it, and the signature with its key. So a batch is in both logs, or in neither: what stands
 * in the file behind the last such entry was never taken in, and the next batch goes there.
 *
 * Values; readers need no daemon.
 */
#ifndef RECORDER_CHAIN_MERGED_H
#define RECORDER_CHAIN_MERGED_H

#include "recorder/chain/chain.h"
#include "recorder/chain/file.h"
#include "recorder/chain/sign.h"

#define MERGED_NAME_MAX  40
#define MERGED_BATCH_MAX (1024 * 1024) /* bytes of a batch that is taken in */

/* How far another log is here; zeros: nothing of it, and log_id alone counts. */
struct merged_place {
	struct id log_id;
	uint64_t seq;             /* of the last entry */
	uint64_t size;            /* of the file up to behind it */
	uint8_t hash[CHAIN_HASH]; /* of the other chain there; of its beginning where seq is 0 */
};
/* A batch, as this log has it: what follows `from`. */
struct merged_batch {
	struct merged_place from, to; /* from.hash is not told */
	char name[MERGED_NAME_MAX];
	uint8_t sha256[CHAIN_HASH], key[GRANT_KEY_LEN], signature[SIGN_LEN];
};

void merged_begin(const struct id *log_id, struct merged_place *out);
int merged_path(const char *dir, const struct id *log_id, char out[FILE_PATH_MAX], struct err *e);
/* The bytes under the signature of a batch behind `after`. */
#define MERGED_SIGNED  (16 + 8 + CHAIN_HASH)
#define MERGED_PURPOSE "muxd witness batch 1"
void merged_message(const struct id *log_id, uint64_t after, const uint8_t *p, size_t n, uint8_t out[MERGED_SIGNED]);

/* hash of the entry as `en` has it. Not 0: no more is wanted. */
typedef int merged_each(void *arg, const struct chain_entry *en);
/*
 * Goes on from *at over the entries in p, whole ones. each: NULL. keys: those that the heads among them must be signed
 * by; NULL: those are not looked at. ERR_INVAL: they are malformed, or do not follow; ERR_TOKEN_FORGED: a head among
 * them is not one of this chain. *at is as it was then.
 */
int merged_walk(struct merged_place *at, const uint8_t *p, size_t n, const struct grant_keyset *keys, merged_each *each,
		void *arg, struct err *e);

json_t *merged_json(const struct merged_batch *b);
int merged_of(const struct chain_entry *en, struct merged_batch *out); /* ERR_CORRUPT */
/*
 * Reads a batch's bytes and looks whether they are those: digest, signature, entries, hash; their heads were looked at
 * when they were taken in, by all keys of that log. before: where the one before it ended. ERR_CORRUPT names what
 * differs.
 */
int merged_check(const char *dir, const struct merged_place *before, const struct merged_batch *b, struct err *e);
/* Its entries, without a look at whether they are right. */
int merged_each_of(const char *dir, const struct merged_batch *b, merged_each *each, void *arg, struct err *e);
/* Where the log of DIR says that another one stands, whole log read. */
int merged_find(const char *dir, const struct id *log_id, struct merged_place *out, struct err *e);
/* Takes a batch in: bytes, then the entry, synced. p was walked from `from` to `to`. On failure nothing counts of it.
 */
int merged_append(struct chain *c, const char *dir, const struct merged_batch *b, const uint8_t *p, size_t n,
		  struct err *e);

#endif
