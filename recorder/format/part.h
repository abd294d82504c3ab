/*
 * part.h - how far an open recording stands in its file, as the chain log has it (entry type 9), and who is open there.
 *
 * Written before a segment that holds something of the session is let go: up to `lsn` everything is in the file, which
 * was synced and read back. When the file is lost later, this says truly what went with it, and when that was. Values,
 * but for struct parts: what the log has of sessions that it neither sealed nor erased; owned by its reader.
 */
#ifndef RECORDER_FORMAT_PART_H
#define RECORDER_FORMAT_PART_H

#include "base/json.h"
#include "base/ring.h"
#include "recorder/chain/chain.h"
#include "recorder/format/trunc.h"

struct part {
	struct id session;
	uint64_t lsn;  /* everything of the session up to this one is in the file */
	uint64_t size; /* of the file there, a block's end, and the chain's value */
	uint8_t hash[CHAIN_HASH];
	uint64_t offsets[STREAM_COUNT];
	uint64_t open_lsn, open_ns, last_ns; /* CLOCK_BOOTTIME */
	int64_t open_wall_ns, last_wall_ns;
	struct trunc_rule rule;
	char kind[16], agent[AGENT_NAME_MAX + 1], principal[129], principal_kind[16], boot_id[40];
};

/* What an OPEN says of the session, into the part's texts. */
void part_describe(struct part *p, const json_t *open);
/* An OPEN made of the part, for one that is lost: JSON, to be freed. NULL: no memory. */
char *part_open(const struct part *p);
/* The payload of the entry; NULL: no memory. And back: ERR_CORRUPT. */
json_t *part_json(const struct part *p);
int part_parse(const struct chain_entry *en, struct part *out);

struct parts {
	struct part *list; /* sorted by session, then as they came */
	size_t n;
};
/* The log's entries in order; a seal or a tombstone ends those of its session. ERR_NOMEM. */
int parts_take(struct parts *l, const struct chain_entry *en);
/* The newest; NULL: none. */
const struct part *parts_find(const struct parts *l, const struct id *session);
/* All of them, the oldest first. */
const struct part *parts_of(const struct parts *l, const struct id *session, size_t *out_n);
void parts_finish(struct parts *l);
/* All of the log below DIR. No log: none. */
int parts_read(struct parts *l, const char *dir, struct err *e);

#endif
