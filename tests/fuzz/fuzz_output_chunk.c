// tier: check
/*
 * A file of a round's kept output that somebody else wrote: scanned, mended and read. Once as it is, and once with its
 * checksums put right, so that what stands behind them is reached too.
 */
#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "recorder/format/block.h"
#include "recorder/output/chunk.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
	if (!truth)
		abort();
}

static void mend(uint8_t *p, size_t n)
{
	size_t at = CHUNK_HEADER;

	if (n < CHUNK_HEADER)
		return;
	put_u32(p + 12, crc32_add(0, p + 16, CHUNK_HEADER - 16));
	while (at < n && n - at >= CHUNK_BLOCK) {
		size_t len = get_u32(p + at + 12);

		if (len > n - at - CHUNK_BLOCK) {
			len = n - at - CHUNK_BLOCK;
			put_u32(p + at + 12, (uint32_t)len);
		}
		put_u32(p + at, UINT32_C(0x5455504f));
		put_u32(p + at + 24, crc32_add(0, p + at + CHUNK_BLOCK, len));
		put_u32(p + at + 28, crc32_add(0, p + at, 28));
		at += CHUNK_BLOCK + len;
	}
}

static void read_all(int fd)
{
	struct chunk_found plain, found;
	struct block_coder *coder;
	struct chunk_block b;
	const uint8_t *p = NULL;
	uint64_t pos = CHUNK_HEADER, at;
	int rc;

	if (chunk_scan(fd, false, &plain, NULL))
		return;
	if (chunk_recover(fd, &found, NULL))
		return;
	/* what was cut is whole, and is found so again */
	require(found.chunk.last >= found.chunk.first && found.chunk.size <= plain.chunk.size);
	require(chunk_scan(fd, true, &plain, NULL) == 0 && plain.chunk.size == found.chunk.size);
	require(block_coder_create(&coder) == 0);
	at = found.chunk.first;
	while ((rc = chunk_next(fd, &pos, coder, &b, &p, NULL)) == 1) {
		require(b.offset == at);
		at += b.type == CHUNK_BYTES ? b.raw_len : 0;
	}
	require(rc == 0 && at == found.chunk.last && pos == found.chunk.size);
	block_coder_destroy(coder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size + 1);

	require(copy != NULL);
	memcpy(copy, data, size);
	for (int mended = 0; mended < 2; mended++) {
		int fd = memfd_create("chunk", MFD_CLOEXEC);

		require(fd >= 0);
		if (mended)
			mend(copy, size);
		require(write(fd, copy, size) == (ssize_t)size);
		read_all(fd);
		close(fd);
	}
	free(copy);
	return 0;
}
