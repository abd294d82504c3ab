/*
 * block.h - the blocks that a recording consists of: header, payload (compressed or not), hash.
 *
 * hash = SHA-256(hash of what stands before || header || payload as stored). The
 * header says everything that a seek needs, so nothing in front of a block has to
 * be read. A coder holds the compression contexts and one scratch buffer; it
 * belongs to one thread.
 */
#ifndef RECORDER_FORMAT_BLOCK_H
#define RECORDER_FORMAT_BLOCK_H

#include "base/ring.h"

struct err;

#define BLOCK_HEADER    104
#define BLOCK_MAGIC_LEN 4
#define BLOCK_HASH      32
#define BLOCK_TARGET    (256 * 1024)        /* raw bytes at which a block of events ends */
#define BLOCK_RAW_MAX   (4 * 1024 * 1024)   /* of an event block */
#define BLOCK_INDEX_MAX (128 * 1024 * 1024) /* of an index */
#define BLOCK_COUNT_MAX 800000              /* so that the index fits */
#define BLOCK_CRITICAL  0x8000u             /* flags: who does not know the type must not go on */

enum block_type { BLOCK_EVENTS = 1, BLOCK_KEYFRAME = 2, BLOCK_INDEX = 3 }; /* 2: reserved for screens */
enum block_codec { CODEC_DEFAULT = 0, CODEC_NONE = 1, CODEC_ZSTD = 2, CODEC_ZLIB = 3 };

struct block_header {
	uint8_t type, codec;
	uint16_t flags;
	uint32_t number; /* 0, 1, 2 ... */
	uint32_t events;
	uint32_t raw_len, stored_len;
	uint64_t first_ns, last_ns, first_seq, last_seq;
	uint64_t offset[STREAM_COUNT]; /* of each stream where the block begins */
	uint16_t cols, rows;           /* terminal size where it begins */
	int64_t wall_ns;               /* wall clock at first_ns */
	uint32_t payload_crc;          /* of the stored payload */
};

void block_header_encode(const struct block_header *h, uint8_t out[BLOCK_HEADER]);
void block_header_magic(uint8_t p[BLOCK_HEADER]); /* puts the first four bytes in place */
/* ERR_CORRUPT: no block header (magic, checksum), or sizes over the limits. */
int block_header_decode(const uint8_t p[BLOCK_HEADER], struct block_header *out);
uint64_t block_size(const struct block_header *h); /* in the file, hash included */

struct block_coder;
int block_coder_create(struct block_coder **out);
void block_coder_destroy(struct block_coder *c);
/*
 * Sets codec, raw_len, stored_len, payload_crc of h. *out_p is valid until the next call on c. What does not get
 * smaller is stored as it is.
 */
int block_compress(struct block_coder *c, int codec, const void *p, size_t n, struct block_header *h,
		   const uint8_t **out_p, struct err *e);
/* Reads the payload of the block at pos (behind its header) and unpacks it; raw_len bytes, valid until the next call.
 */
int block_read(struct block_coder *c, int fd, uint64_t pos, const struct block_header *h, const char *path,
	       const uint8_t **out_p, struct err *e);
/* Only the stored bytes. */
int block_read_stored(struct block_coder *c, int fd, uint64_t pos, const struct block_header *h, const char *path,
		      const uint8_t **out_p, struct err *e);
int block_expand(struct block_coder *c, const struct block_header *h, const uint8_t *stored, const uint8_t **out_p,
		 struct err *e);

#endif
