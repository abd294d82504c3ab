/*
 * segment.h - one file of the segment log: a 128-byte header, then journal records as in the ring.
 *
 * The log is what "durable" means: records of all sessions in the order in which
 * the recorder took them. Each has a log sequence (lsn): the header's base plus
 * its place in the file. Records of the hub are byte for byte those of the ring,
 * so the ring position that a segment reaches is its base plus their sizes; the
 * recorder's own records (RING_ORIGIN_RECORDER) stand between them and count
 * for the lsn alone. A new ring, a new boot or a jump in the ring begins a new segment.
 * docs/ring-and-segments.md has the layout.
 */
#ifndef RECORDER_FORMAT_SEGMENT_H
#define RECORDER_FORMAT_SEGMENT_H

#include "base/ring.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

#define SEGMENT_HEADER   128
#define SEGMENT_NAME_MAX 32

struct segment_header {
	uint64_t number;
	uint64_t base_lsn; /* of its first record */
	struct id ring;
	uint64_t ring_base; /* position of its first ring record */
	uint64_t ring_seq;  /* sequence of its first ring record; 0 = whatever comes */
	struct id boot;     /* boot id, binary */
	int64_t wall_ns;    /* both clocks at its creation */
	uint64_t boot_ns;
};

struct segment_record {
	struct ring_record rec; /* payload valid until the next read */
	uint64_t lsn;
	bool own;        /* written by the recorder itself */
	const void *raw; /* the record as stored, raw_len bytes with padding */
	size_t raw_len;
};

/* "0000000000000012.seg" */
void segment_name(uint64_t number, char out[SEGMENT_NAME_MAX]);
/* Numbers in dir_fd, ascending, malloc'd. */
int segment_list(int dir_fd, uint64_t **out, size_t *out_n, struct err *e);
/* Where one begins; out_lsn is untouched when it is not there or its header is damaged. */
void segment_begin(int dir_fd, uint64_t number, uint64_t *out_lsn);
/* Where the oldest begins; 0: there is none, or its header is damaged. */
int segment_oldest(int dir_fd, uint64_t *out_lsn, struct err *e);

void segment_header_encode(const struct segment_header *h, uint8_t out[SEGMENT_HEADER]);
/* ERR_CORRUPT, ERR_VERSION. */
int segment_header_decode(const uint8_t p[SEGMENT_HEADER], struct segment_header *out, struct err *e);

struct segment_reader;
/* ERR_NOT_FOUND when there is no such segment. The open file stays readable when the segment is deleted. */
int segment_reader_create(int dir_fd, uint64_t number, struct segment_reader **out, struct err *e);
void segment_reader_destroy(struct segment_reader *r);
const struct segment_header *segment_reader_header(const struct segment_reader *r);
/* offset: a record's start, as told by segment_reader_offset(). */
void segment_reader_seek(struct segment_reader *r, uint64_t offset, uint64_t lsn);
uint64_t segment_reader_offset(const struct segment_reader *r);
uint64_t segment_reader_lsn(const struct segment_reader *r); /* of the next record */
/* 1, 0 at `limit` or at the file's end, ERR_CORRUPT when what stands there is no whole record (the reader stays). */
int segment_read(struct segment_reader *r, uint64_t limit, struct segment_record *out, struct err *e);

#endif
