/*
 * chunk.h - one file of a round's kept output: a run of bytes of one stream, in compressed blocks.
 *
 * record/output/<round>.<stream>.<number>: a header of CHUNK_HEADER bytes, then blocks of 32 bytes of header and their
 * payload; where the round has ended, a block of type CHUNK_END is the last one. The bytes of a chunk have no hole:
 * what comes behind one begins a chunk whose number is two higher. docs/ring-and-segments.md has the layout.
 *
 * Offsets are absolute, so an append that is repeated after a crash is seen to be one. A file that a crash tore is cut
 * behind its last whole block (chunk_recover). No ownership: descriptors are the caller's; a struct chunk is a value.
 */
#ifndef RECORDER_OUTPUT_CHUNK_H
#define RECORDER_OUTPUT_CHUNK_H

#include "base/ids.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct block_coder;
struct err;

#define CHUNK_HEADER    1024
#define CHUNK_BLOCK     32                 /* header of a block */
#define CHUNK_END_SIZE  (CHUNK_BLOCK + 24) /* of a block CHUNK_END */
#define CHUNK_RAW_MAX   (256 * 1024)       /* bytes of output in a block */
#define CHUNK_BLOCKS    2048               /* in a chunk: what is looked through to find an offset */
#define CHUNK_NAME_MAX  64
#define CHUNK_PRINCIPAL 128

enum chunk_block_type { CHUNK_BYTES = 1, CHUNK_END = 2 };

/* The owner of the output: in the header of each chunk, so that none needs another. */
struct chunk_of {
	struct id round;
	uint8_t stream; /* STREAM_OUTPUT, STREAM_STDERR */
	int64_t opened_ns;
	char agent[AGENT_NAME_MAX + 1], principal[CHUNK_PRINCIPAL + 1];
};

struct chunk {
	uint32_t number;
	uint64_t first, last; /* offsets: of its first byte, and behind its last */
	uint64_t size;        /* of the file, as far as it is whole */
	uint32_t blocks;
};

struct chunk_block {
	uint8_t type, stream, codec;
	uint32_t raw_len, stored_len;
	uint64_t offset; /* of its first byte; of CHUNK_END: where the stream ends */
	uint32_t payload_crc;
};

/* "01936f0e-….1.00000000" and back; ERR_INVAL: another name. */
void chunk_name(const struct id *round, unsigned stream, uint32_t number, char out[CHUNK_NAME_MAX]);
int chunk_name_parse(const char *name, struct id *out_round, unsigned *out_stream, uint32_t *out_number);

/* A new file of that name in dir_fd; one that is there is replaced. */
int chunk_create(int dir_fd, const struct chunk_of *of, uint32_t number, uint64_t first, struct chunk *out,
		 struct err *e);
/* n bytes at c->last, CHUNK_RAW_MAX at the most. What fails half done is overwritten by the next one. */
int chunk_append(int dir_fd, const struct chunk_of *of, struct chunk *c, struct block_coder *coder, const void *p,
		 size_t n, struct err *e);
/* The round has ended, at that wall time, with these bytes in its two streams. */
int chunk_end(int dir_fd, const struct chunk_of *of, struct chunk *c, int64_t ended_ns, const uint64_t totals[2],
	      struct err *e);

int chunk_header_decode(const uint8_t p[CHUNK_HEADER], struct chunk_of *out_of, struct chunk *out); /* ERR_CORRUPT */
int chunk_block_decode(const uint8_t p[CHUNK_BLOCK], struct chunk_block *out);                      /* ERR_CORRUPT */

/* The contents of a file, from its header and its blocks' headers. */
struct chunk_found {
	struct chunk_of of;
	struct chunk chunk;
	bool ended; /* its last block is a CHUNK_END, which chunk.size counts */
	int64_t ended_ns;
	uint64_t totals[2];
};

/*
 * Reads on to the last whole block; payloads: theirs are checked too. What stands behind it is not looked at.
 * ERR_CORRUPT: not even the header is whole.
 */
int chunk_scan(int fd, bool payloads, struct chunk_found *out, struct err *e);
/* The same, and cuts the file there. */
int chunk_recover(int fd, struct chunk_found *out, struct err *e);

/*
 * The block at *pos, which is moved behind it: 1; 0 where there is none; ERR_CORRUPT. Its bytes (of CHUNK_BYTES alone)
 * are *out_p, valid until the coder's next call; out_p NULL: they are not read.
 */
int chunk_next(int fd, uint64_t *pos, struct block_coder *coder, struct chunk_block *out, const uint8_t **out_p,
	       struct err *e);

#endif
