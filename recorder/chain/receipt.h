/*
 * receipt.h - a witness's word for a head: signed by its record key, checked with that key alone.
 *
 * Ed25519 over "muxd witness 1", NUL, log id, u64 seq, hash and i64 wall time of the head (the bytes under the head's
 * own signature), i64 wall time of the witness. As JSON:
 * {"log_id","seq","hash","wall_ns","witness_wall_ns","witness_wall", "kid","signature"}. Pure.
 */
#ifndef RECORDER_CHAIN_RECEIPT_H
#define RECORDER_CHAIN_RECEIPT_H

#include "base/json.h"
#include "recorder/chain/sign.h"

struct chain_head;
struct timestamp;

#define RECEIPT_MAX       4096 /* bytes of one as JSON */
#define RECEIPT_STAMP_MAX (36 * 1024)

/* wall_ns: of the witness, now. New reference. */
int receipt_make(const struct signer *s, const struct chain_head *h, int64_t wall_ns, json_t **out, struct err *e);
/* ERR_INVAL: malformed; ERR_CONFLICT: for another head; ERR_TOKEN_FORGED: not signed by that key. */
int receipt_check(const json_t *receipt, const struct chain_head *h, const uint8_t key[GRANT_KEY_LEN], struct err *e);
/*
 * An authority's: {"tsr"}, base64 of its answer (base/timestamp.h), of the entry that the head covers. ca NULL:
 * its signature is not checked; now_ns 0: who signed need be in force only when it was stamped. out may be NULL.
 */
int receipt_stamp(const json_t *receipt, const struct chain_head *h, const char *ca, int64_t now_ns,
		  struct timestamp *out, struct err *e);

#endif
