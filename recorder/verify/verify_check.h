/*
 * verify_check.h - one recording under examination. Private to verify*.c.
 *
 * The frame (header, blocks, index, footer) is walked in verify_recording.c; what
 * the blocks hold is followed here: offsets without holes, digests, totals, exit.
 */
#ifndef RECORDER_VERIFY_VERIFY_CHECK_H
#define RECORDER_VERIFY_VERIFY_CHECK_H

#include "recorder/chain/digest.h"
#include "recorder/format/recording_load.h"
#include "recorder/verify/verify.h"

struct verify_check {
	const char *path;
	const struct grant_keyset *keys;
	verify_sink *sink;
	void *arg;
	struct verify_result *result;
	struct recording_file file;
	/* the chain */
	uint8_t hash[DIGEST_LEN];  /* as stored in front of the next block */
	uint8_t other[DIGEST_LEN]; /* as computed, where the stored one did not fit */
	bool hash_known, other_known;
	uint64_t pos;    /* of the next block */
	uint32_t number; /* expected */
	bool end_found;  /* an index, or the end of an unsealed file */
	/* what the events say */
	struct digest digest[STREAM_COUNT];
	bool digest_known[STREAM_COUNT]; /* false behind a gap */
	uint64_t offset[STREAM_COUNT];
	uint64_t last_seq;
	bool exited, holes; /* holes: blocks are missing or unreadable, so what follows is not judged by totals */
	char *exit_json;
};

void verify_found(struct verify_check *c, enum verify_class class, const char *code, int64_t block, uint64_t pos,
		  uint64_t len, const char *fmt, ...) __attribute__((format(printf, 7, 8)));

void verify_content_begin(struct verify_check *c);
/* The raw payload of an intact block of events. ERR_NOMEM only. */
int verify_content_block(struct verify_check *c, const struct block_header *h, uint64_t pos, const uint8_t *raw);
/* Totals and digests against the index (NULL: not sealed or not readable) and the exit. */
void verify_content_end(struct verify_check *c, const struct trunc_totals *index);

#endif
