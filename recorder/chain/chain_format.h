/*
 * chain_format.h - bytes of the chain log: file header, entry header, names. Private to chain*.c and verify.
 *
 *   file:  88-byte header, entries
 *   entry: 64-byte header, payload, hash = SHA-256(hash before || header || payload)
 *
 * The first hash before is chain_genesis(log id); a later file's header repeats the
 * last hash of the file before it.
 */
#ifndef RECORDER_CHAIN_CHAIN_FORMAT_H
#define RECORDER_CHAIN_CHAIN_FORMAT_H

#include "base/ring.h"
#include "recorder/chain/chain.h"

#define CHAIN_MAJOR        1
#define CHAIN_MINOR        0
#define CHAIN_FILE_HEADER  88
#define CHAIN_ENTRY_HEADER 64
#define CHAIN_PAYLOAD_MAX  RING_RECORD_MAX
#define CHAIN_FILE_TARGET  (64 * 1024 * 1024) /* a file that has grown past it is followed by a new one */
#define CHAIN_FILE_MAX     ((uint64_t)CHAIN_FILE_TARGET + 8 * (CHAIN_ENTRY_HEADER + CHAIN_PAYLOAD_MAX + CHAIN_HASH))
#define CHAIN_CRITICAL     0x8000u /* in the stored type */
#define CHAIN_HEAD_PAYLOAD 88      /* i64 wall, 16 kid, 64 signature */
#define CHAIN_PURPOSE      "muxd chain head 1"
#define CHAIN_SIGNED       64 /* log id, u64 seq, hash, i64 wall */

struct chain_file_header {
	uint32_t number;
	struct id log_id;
	uint64_t first_seq;
	uint64_t audit_seq; /* chain_audit_seq() when it was begun */
	uint8_t prev[CHAIN_HASH];
};

struct chain_entry_header {
	unsigned type; /* without CHAIN_CRITICAL */
	bool critical;
	uint32_t len;
	uint64_t seq, journal_seq;
	int64_t wall_ns;
	struct id session;
};

void chain_file_encode(const struct chain_file_header *h, uint8_t out[CHAIN_FILE_HEADER]);
int chain_file_decode(const uint8_t p[CHAIN_FILE_HEADER], struct chain_file_header *out); /* ERR_CORRUPT, ERR_VERSION */
void chain_entry_encode(const struct chain_entry_header *h, uint8_t out[CHAIN_ENTRY_HEADER]);
int chain_entry_decode(const uint8_t p[CHAIN_ENTRY_HEADER], struct chain_entry_header *out); /* ERR_CORRUPT */

/* A reader that does not know a critical type does not go past it. */
bool chain_type_known(unsigned type);
bool chain_type_critical(unsigned type);
/* Means something only where a head vouches for it: whoever can write the file must not make the next head say it. */
bool chain_type_needs_head(unsigned type);

/* Does an entry of this type say something new, which witnesses are to hear of? */
bool chain_type_news(unsigned type);

void chain_genesis(const struct id *log_id, uint8_t out[CHAIN_HASH]);
/* The bytes under a head's signature. */
void chain_head_message(const struct chain_head *h, uint8_t out[CHAIN_SIGNED]);
void chain_head_encode(const struct chain_head *h, uint8_t out[CHAIN_HEAD_PAYLOAD]);

/* DIR/chain/<n>.mchain, ending as given: "mchain", "torn". */
int chain_file_name(const char *dir, unsigned number, const char *ending, char *out, size_t size);
/* Numbers of the files in DIR/chain, ascending, to be freed. No folder: none. */
int chain_file_list(const char *dir, unsigned **out, size_t *out_n, struct err *e);

/* A reader that begins with the nth file from the end (1: the last), or the first if there are fewer, taking its header
 * at its word. */
int chain_reader_create_last(const char *dir, unsigned nth, struct chain_reader **out, struct err *e);
/* Where the reader stands: a file's number and the place of the next entry in it. */
uint64_t chain_reader_pos(const struct chain_reader *r, unsigned *out_file);
/* After ERR_CORRUPT: the log only ends within an entry, nothing else is wrong there. */
bool chain_reader_torn(const struct chain_reader *r);

#endif
