// tier: check
/*
 * The ring's reader on a file that a hostile or broken writer left.
 *
 * Input: u8 flags (1: the bytes begin at the header; 2: CRCs are made right), u64 place to
 * read from, u64 head, then the bytes of the ring from that place on.
 */
#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/ring.h"
#include "base/ring_format.h"
#include "base/ring_record.h"
#include "recorder/format/segment.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE  RING_SIZE_MIN
#define FRONT 17

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
	if (!truth)
		abort();
}

static int ring_empty(void)
{
	uint8_t h[RING_HEADER_SIZE] = {0};
	int fd = memfd_create("ring", MFD_CLOEXEC);
	require(fd >= 0 && ftruncate(fd, RING_HEADER_SIZE + SIZE) == 0);
	memcpy(h, RING_MAGIC, 8);
	put_u16(h + RING_AT_MAJOR, RING_MAJOR);
	put_u32(h + RING_AT_HEADER, RING_HEADER_SIZE);
	put_u64(h + RING_AT_SIZE, SIZE);
	put_u32(h + RING_AT_CRC, crc32_add(0, h, RING_AT_CRC));
	require(pwrite(fd, h, sizeof(h), 0) == (ssize_t)sizeof(h));
	return fd;
}

/* So that the fuzzer gets behind the checksum. */
static void mend(uint8_t *p, size_t n)
{
	for (size_t at = 0; at + RING_RECORD_HEADER <= n;) {
		uint32_t len = get_u32(p + at + 4);
		if (len > n - at - RING_RECORD_HEADER)
			return;
		put_u32(p + at, crc32_add(0, p + at + 4, RING_RECORD_HEADER - 4 + len));
		at += ring_record_size(len);
	}
}

static void place(int fd, const uint8_t *data, size_t n, uint64_t from, uint8_t flags)
{
	uint8_t *copy = malloc(n ? n : 1);
	require(copy != NULL);
	memcpy(copy, data, n);
	if (flags & 2)
		mend(copy, n);
	uint64_t at = flags & 1 ? 0 : RING_HEADER_SIZE + from % SIZE;
	size_t room = (size_t)(RING_HEADER_SIZE + SIZE - at), first = n < room ? n : room;
	require(pwrite(fd, copy, first, (off_t)at) == (ssize_t)first);
	require(pwrite(fd, copy + first, n - first, RING_HEADER_SIZE) == (ssize_t)(n - first));
	free(copy);
}

static void read_all(struct ring_reader *r)
{
	struct ring_record rec;
	struct err e = {0};
	uint64_t seq = 0, sum = 0, records = 0;
	int rc;
	while ((rc = ring_read(r, &rec, &e)) == 1) {
		require(rec.len <= RING_RECORD_MAX && rec.type != 0 && rec.stream < STREAM_COUNT);
		require(records++ == 0 || rec.seq == seq + 1);
		require(records <= SIZE / RING_RECORD_HEADER);
		seq = rec.seq;
		for (uint32_t i = 0; i < rec.len; i++)
			sum += rec.payload[i];
	}
	require(rc == 0 || (rc == ERR_CORRUPT && e.message[0]));
	/* It stays where it is. */
	uint64_t at = ring_reader_position(r);
	require(ring_read(r, &rec, NULL) == rc && ring_reader_position(r) == at);
	require(sum < UINT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct segment_header h;
	struct ring_cursor c;
	struct ring_reader *r;
	uint8_t line[8 + 32];

	if (size >= SEGMENT_HEADER)
		(void)segment_header_decode(data, &h, NULL);
	if (size < FRONT || size > 300000)
		return 0;
	int fd = ring_empty();
	uint64_t from = get_u64(data + 1) & ~(uint64_t)7, head = get_u64(data + 9);
	put_u64(line, head);
	put_u64(line + 8, head);
	put_u64(line + 16, 1);
	put_u64(line + 24, 0);
	put_u64(line + 32, 0);
	require(pwrite(fd, line, sizeof(line), RING_AT_HEAD) == (ssize_t)sizeof(line));
	place(fd, data + FRONT, size - FRONT, from, data[0]);
	(void)ring_cursor_read(fd, &c);
	if (ring_reader_create(fd, from, &r, NULL) == 0) {
		read_all(r);
		ring_reader_destroy(r);
	}
	close(fd);
	return 0;
}
