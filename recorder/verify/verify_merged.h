/*
 * verify_merged.h - are the entries of other logs, which this one took in (recorder/chain/merged.h), whole and in
 * order?
 *
 * A value of verify_log's; verify_merged_finish() frees it.
 */
#ifndef RECORDER_VERIFY_VERIFY_MERGED_H
#define RECORDER_VERIFY_VERIFY_MERGED_H

#include "recorder/chain/merged.h"

struct verify_merged {
	struct merged_place *logs; /* how far each is */
	size_t n;
	uint64_t entries; /* of all, that were found right */
};

/*
 * The next entry of this log that is CHAIN_MERGED. ERR_CORRUPT: e says what differs in which log; what follows is
 * looked at all the same. ERR_NOMEM.
 */
int verify_merged_take(struct verify_merged *v, const char *dir, const struct chain_entry *en, struct err *e);
void verify_merged_finish(struct verify_merged *v);

#endif
