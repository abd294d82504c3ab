/*
 * blocks.h - the file of a recording that is being written: events go in, blocks come out, chained.
 *
 * Owned by a builder. It knows nothing of truncation or signing: it collects events
 * into a block, packs and appends it, and keeps the line that the index will hold.
 *
 * A recording has a bounded number of blocks, and a session may go on for a year. So a checkpoint ends a block of a few
 * bytes only while there are few of them; later what is in the making is kept in the checkpoint itself.
 */
#ifndef RECORDER_WRITE_BLOCKS_H
#define RECORDER_WRITE_BLOCKS_H

#include "base/buf.h"
#include "recorder/format/event.h"
#include "recorder/format/format.h"
#include "recorder/format/open_files.h"
#include "recorder/format/readback.h"

struct blocks {
	struct open_files *files; /* NULL: it stays open */
	struct open_file file;
	char *path; /* NULL: none yet */
	int codec;
	struct block_coder *coder;
	uint64_t pos;             /* where the next block goes */
	uint8_t hash[DIGEST_LEN]; /* of what stands before it */
	struct buf entries;       /* FORMAT_ENTRY each */
	uint32_t count, most;     /* most: BLOCK_COUNT_MAX, or less in a test */
	uint8_t *raw;             /* the block in the making */
	size_t raw_len, raw_cap;
	struct block_header head; /* its header, as far as known */
	struct event_context context;
	/* where the next event stands */
	uint64_t offset[STREAM_COUNT];
	uint16_t cols, rows;
	uint64_t anchor_ns;
	int64_t anchor_wall;
	/* totals */
	uint64_t events, last_seq, last_ns;
	struct readback seen; /* how far its file was read back */
};

#define BLOCKS_STATE_SIZE 160
/* Of the block in the making, as a checkpoint keeps it. */
#define BLOCKS_WAITING_MAX (BLOCK_HEADER + 8 * (2 + STREAM_COUNT) + 64 * 1024)

void blocks_init(struct blocks *b, int codec, struct open_files *files);
void blocks_finish(struct blocks *b); /* closes */
/* Gives back what an idle session does not need; it comes again by itself. */
void blocks_rest(struct blocks *b);
/* A new file with its header in it. */
int blocks_create(struct blocks *b, const char *path, const struct format_header *h, struct err *e);
int blocks_add(struct blocks *b, const struct ring_record *rec, struct err *e);
/* End the block in the making; nothing in it: nothing to do. */
int blocks_end(struct blocks *b, struct err *e);
/* The same, unless the block is so small that the recording has too many of its kind: then it waits. */
int blocks_settle(struct blocks *b, struct err *e);
/* Seven eighths of the blocks that it may have are there: nothing more than the end of the session should be added. */
bool blocks_full(const struct blocks *b);
/* All but the last few: nothing may be added but what closes it. */
bool blocks_closed(const struct blocks *b);
/* Renames the file, which goes on under its new path. */
int blocks_rename(struct blocks *b, const char *to, struct err *e);
/* n bytes behind the last block: the footer. */
int blocks_put(struct blocks *b, const void *p, size_t n, struct err *e);
int blocks_sync(struct blocks *b, struct err *e);
/* Is in the file what was written? whole: all of it again, else what it has since the last time. As readback_to(). */
int blocks_read_back(struct blocks *b, bool whole, struct err *e);
/* Append any block (the index). raw is copied out compressed. */
int blocks_write(struct blocks *b, struct block_header *h, const void *raw, size_t n, struct err *e);
/* Position, hash and the rest; and back: cuts the file and reads its block headers again. */
void blocks_save(const struct blocks *b, uint8_t out[BLOCKS_STATE_SIZE]);
/* The block in the making, and back. Behind the state, which says how long it is: 0, there is none. ERR_CORRUPT. */
size_t blocks_waiting(const uint8_t state[BLOCKS_STATE_SIZE]);
int blocks_save_waiting(const struct blocks *b, struct buf *out);
int blocks_load_waiting(struct blocks *b, const uint8_t *p, size_t n, struct err *e);
int blocks_reopen(struct blocks *b, const char *path, const uint8_t state[BLOCKS_STATE_SIZE],
		  struct format_header *out_header, struct buf *header_bytes, struct err *e);

#endif
