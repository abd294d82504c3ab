/*
 * keeper.h - this record as a witness of others: it keeps and countersigns the heads of configured logs.
 *
 * A head is taken when it bears the signature of a key that is configured for its log (witness.pushers). The first one
 * of a log is taken as it is. Each further one must be proven to extend the last: whoever sends it sends the entries
 * between as well (header and payload, as in the log, in batches under the signature of the log's key), the hashes are
 * computed here, and the last must be the head's. Then the receipt is made. A head that is not reached that way is
 * refused and kept beside the one that was there: a fork.
 *
 * Of a log whose pusher says merge, all entries from the first on are taken in besides (recorder/chain/merged.h): where
 * this log has it, there the next batch begins, so none is lost or taken in twice whatever ends when. The heads among
 * them must be those of one chain.
 *
 * DIR/witnessed/<log id>.heads, append-only: {"state":"kept","head","receipt"} and {"state":"refused","why","head",
 * "against","at"} a line; of refused ones REFUSED_MAX a log. Entries of others are not kept.
 *
 * Owned by the process; any thread may call.
 */
#ifndef RECORDER_SERVE_KEEPER_H
#define RECORDER_SERVE_KEEPER_H

#include "base/conf.h"
#include "base/json.h"
#include "recorder/chain/sign.h"

struct chain;
struct keeper;

#define KEEPER_REFUSED_MAX 64
#define KEEPER_BATCH_MAX   (192 * 1024) /* bytes of entries at once; one that is longer goes alone */

/* c: this record's log, to which batches are told; it outlives the keeper. NULL: nothing is merged. */
int keeper_create(const char *dir, const struct signer *s, struct chain *c, const struct conf *conf,
		  struct keeper **out, struct err *e);
void keeper_destroy(struct keeper *k);
int keeper_configure(struct keeper *k, const struct conf *conf, struct err *e);
/*
 * question: {"head", "after"?, "entries"?, "signature"?}. *out:
 * {"state":"kept","receipt"}, {"state":"more","after"} (send the entries behind that one), {"state":"older"|"fork",
 * "newest":head}. ERR_FORBIDDEN: not from whom this witness is for; ERR_INVAL; ERR_DISK_FULL ...: not kept.
 */
int keeper_take(struct keeper *k, const json_t *question, json_t **out, struct err *e);
/* {"heads":[lines of the file]}, the newest `limit`. ERR_NOT_FOUND: this is no witness for that log. */
int keeper_heads(struct keeper *k, const char *log_id, size_t limit, json_t **out, struct err *e);

/* After a rotation. */
void keeper_use_key(struct keeper *k, const struct signer *s);
/* The pusher's side: entries of this log behind `after` up to `until` as {"after","entries","signature"}. */
int keeper_batch(struct keeper *k, uint64_t after, uint64_t until, json_t **out, struct err *e);

#endif
