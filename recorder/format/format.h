/*
 * format.h - the fixed parts of a recording: file header, index, footer. Encoding only.
 *
 * Private to the recorder's library. Header and index are lists of fields
 * {u16 tag, u16 flags, u32 length, bytes}: an unknown field with FIELD_CRITICAL is
 * ERR_VERSION, any other is skipped. docs/recording-format.md has the tables.
 */
#ifndef RECORDER_FORMAT_FORMAT_H
#define RECORDER_FORMAT_FORMAT_H

#include "recorder/chain/chain.h"
#include "recorder/chain/digest.h"
#include "recorder/format/block.h"
#include "recorder/format/trunc.h"

struct buf;
struct err;

#define FORMAT_MAGIC      "MUXDREC\n"
#define FORMAT_HEADER_MIN 16
#define FORMAT_HEADER_MAX (256 * 1024)
#define FORMAT_FOOTER     232
#define FORMAT_SIGNED     168 /* bytes of the footer that the signature covers */
#define FORMAT_ENTRY      (8 + BLOCK_HEADER + BLOCK_HASH)
#define FORMAT_PURPOSE    "muxd recording 1"

struct format_header {
	struct id session;
	uint8_t salt[32];
	const uint8_t *open; /* JSON of the OPEN record; decoded: points into the input */
	size_t open_len;
	uint64_t open_seq, open_ns;
	int64_t wall_ns; /* at open_ns */
	struct trunc_rule rule;
};

/* Appends header and its hash. */
int format_header_encode(const struct format_header *h, struct buf *out, uint8_t out_hash[DIGEST_LEN]);
/* Whole length (hash included) from the first FORMAT_HEADER_MIN bytes. ERR_CORRUPT, ERR_VERSION. */
int format_header_size(const uint8_t p[FORMAT_HEADER_MIN], size_t *out, struct err *e);
/* The hash at the end is not compared here. */
int format_header_decode(const uint8_t *p, size_t n, struct format_header *out, struct err *e);
void format_header_hash(const uint8_t *p, size_t n, uint8_t out[DIGEST_LEN]); /* n: without the hash */

/* One line of the index: where a block stands, its header, its hash. */
struct format_entry {
	uint64_t pos;
	struct block_header header;
	uint8_t hash[DIGEST_LEN];
};
void format_entry_encode(const struct format_entry *en, uint8_t out[FORMAT_ENTRY]);
int format_entry_decode(const uint8_t p[FORMAT_ENTRY], struct format_entry *out);

struct format_index {
	const uint8_t *entries; /* FORMAT_ENTRY bytes each */
	size_t n;
	struct trunc_totals streams[STREAM_COUNT];
	uint64_t events, last_seq, last_ns;
	const uint8_t *exit; /* JSON, NULL: none */
	size_t exit_len;
};
int format_index_encode(const struct format_index *x, struct buf *out);
int format_index_decode(const uint8_t *p, size_t n, struct format_index *out, struct err *e);

struct format_footer {
	uint32_t blocks; /* without the index */
	uint64_t file_size, index_pos, index_size;
	uint8_t final_hash[DIGEST_LEN]; /* of the index block */
	struct id log_id;
	uint64_t chain_seq;
	uint8_t chain_hash[CHAIN_HASH];
	int64_t sealed_wall_ns;
	char kid[17];
	struct id session;
	uint8_t signature[64];
};
void format_footer_encode(const struct format_footer *f, uint8_t out[FORMAT_FOOTER]);
int format_footer_decode(const uint8_t p[FORMAT_FOOTER], struct format_footer *out); /* ERR_CORRUPT: no footer */
/* What the chain log holds for a recording. */
void format_leaf(const uint8_t salt[32], const uint8_t footer[FORMAT_FOOTER], uint8_t out[CHAIN_HASH]);

#endif
