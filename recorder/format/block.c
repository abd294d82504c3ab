#include "recorder/format/block.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "recorder/chain/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#define BLOCK_MAGIC UINT32_C(0x4b4c424d) /* "MBLK" */
#define HEADER_CRC  100
#define ZSTD_LEVEL  1

struct block_coder {
	ZSTD_CCtx *cctx;
	ZSTD_DCtx *dctx;
	uint8_t *stored, *raw; /* scratch */
	size_t stored_cap, raw_cap;
};

void block_header_magic(uint8_t p[BLOCK_HEADER])
{
	put_u32(p, BLOCK_MAGIC);
}

void block_header_encode(const struct block_header *h, uint8_t out[BLOCK_HEADER])
{
	block_header_magic(out);
	out[4] = h->type;
	out[5] = h->codec;
	put_u16(out + 6, h->flags);
	put_u32(out + 8, h->number);
	put_u32(out + 12, h->events);
	put_u32(out + 16, h->raw_len);
	put_u32(out + 20, h->stored_len);
	put_u64(out + 24, h->first_ns);
	put_u64(out + 32, h->last_ns);
	put_u64(out + 40, h->first_seq);
	put_u64(out + 48, h->last_seq);
	for (int i = 0; i < STREAM_COUNT; i++)
		put_u64(out + 56 + 8 * i, h->offset[i]);
	put_u16(out + 80, h->cols);
	put_u16(out + 82, h->rows);
	put_u32(out + 84, 0);
	put_u64(out + 88, (uint64_t)h->wall_ns);
	put_u32(out + 96, h->payload_crc);
	put_u32(out + HEADER_CRC, crc32_add(0, out, HEADER_CRC));
}

static bool sizes_sane(const struct block_header *h)
{
	uint32_t max = h->type == BLOCK_INDEX ? BLOCK_INDEX_MAX : BLOCK_RAW_MAX;

	return h->raw_len <= max && h->stored_len <= h->raw_len &&
	       (h->codec != CODEC_NONE || h->stored_len == h->raw_len);
}

int block_header_decode(const uint8_t p[BLOCK_HEADER], struct block_header *out)
{
	struct block_header h;

	if (get_u32(p) != BLOCK_MAGIC || get_u32(p + HEADER_CRC) != crc32_add(0, p, HEADER_CRC))
		return ERR_CORRUPT;
	h.type = p[4];
	h.codec = p[5];
	h.flags = get_u16(p + 6);
	h.number = get_u32(p + 8);
	h.events = get_u32(p + 12);
	h.raw_len = get_u32(p + 16);
	h.stored_len = get_u32(p + 20);
	h.first_ns = get_u64(p + 24);
	h.last_ns = get_u64(p + 32);
	h.first_seq = get_u64(p + 40);
	h.last_seq = get_u64(p + 48);
	for (int i = 0; i < STREAM_COUNT; i++)
		h.offset[i] = get_u64(p + 56 + 8 * i);
	h.cols = get_u16(p + 80);
	h.rows = get_u16(p + 82);
	h.wall_ns = (int64_t)get_u64(p + 88);
	h.payload_crc = get_u32(p + 96);
	if (!sizes_sane(&h))
		return ERR_CORRUPT;
	*out = h;
	return 0;
}

uint64_t block_size(const struct block_header *h)
{
	return UINT64_C(0) + BLOCK_HEADER + h->stored_len + BLOCK_HASH;
}

int block_coder_create(struct block_coder **out)
{
	struct block_coder *c = calloc(1, sizeof *c);

	if (!c)
		return ERR_NOMEM;
	*out = c;
	return 0;
}

void block_coder_destroy(struct block_coder *c)
{
	if (!c)
		return;
	ZSTD_freeCCtx(c->cctx);
	ZSTD_freeDCtx(c->dctx);
	free(c->stored);
	free(c->raw);
	free(c);
}

static int grow(uint8_t **p, size_t *cap, size_t need, struct err *e)
{
	uint8_t *grown;

	if (need <= *cap)
		return 0;
	grown = realloc(*p, need);
	if (!grown)
		return err_set(e, ERR_NOMEM, "no memory for a block of %zu bytes", need);
	*p = grown;
	*cap = need;
	return 0;
}

/* Compressed size, 0 when the codec did not manage. */
static size_t pack_zstd(struct block_coder *c, const void *p, size_t n)
{
	size_t got;

	if (!c->cctx)
		c->cctx = ZSTD_createCCtx();
	got = c->cctx ? ZSTD_compressCCtx(c->cctx, c->stored, c->stored_cap, p, n, ZSTD_LEVEL) : 0;
	return ZSTD_isError(got) ? 0 : got;
}

static size_t pack_zlib(struct block_coder *c, const void *p, size_t n)
{
	uLongf got = c->stored_cap;

	return compress2(c->stored, &got, p, n, Z_BEST_SPEED) == Z_OK ? got : 0;
}

int block_compress(struct block_coder *c, int codec, const void *p, size_t n, struct block_header *h,
		   const uint8_t **out_p, struct err *e)
{
	size_t bound = ZSTD_compressBound(n) > compressBound(n) ? ZSTD_compressBound(n) : compressBound(n);
	const uint8_t *stored = p;
	size_t got = 0;
	int rc = grow(&c->stored, &c->stored_cap, bound, e);

	if (rc)
		return rc;
	if (codec == CODEC_DEFAULT)
		codec = CODEC_ZSTD;
	if (codec == CODEC_ZSTD)
		got = pack_zstd(c, p, n);
	else if (codec == CODEC_ZLIB)
		got = pack_zlib(c, p, n);
	if (got && got < n)
		stored = c->stored;
	else
		got = n;
	h->codec = (uint8_t)(stored == p ? CODEC_NONE : codec);
	h->raw_len = (uint32_t)n;
	h->stored_len = (uint32_t)got;
	h->payload_crc = crc32_add(0, stored, got);
	*out_p = stored;
	return 0;
}

static int unpack(struct block_coder *c, const struct block_header *h, const uint8_t *stored)
{
	uLongf got = h->raw_len;
	uLong used = h->stored_len;
	size_t n;

	switch (h->codec) {
	case CODEC_ZSTD:
		if (!c->dctx)
			c->dctx = ZSTD_createDCtx();
		if (!c->dctx)
			return ERR_NOMEM;
		if (ZSTD_findFrameCompressedSize(stored, h->stored_len) != h->stored_len)
			return ERR_CORRUPT; /* one frame, and nothing behind it */
		n = ZSTD_decompressDCtx(c->dctx, c->raw, h->raw_len, stored, h->stored_len);
		return !ZSTD_isError(n) && n == h->raw_len ? 0 : ERR_CORRUPT;
	case CODEC_ZLIB:
		return uncompress2(c->raw, &got, stored, &used) == Z_OK && got == h->raw_len && used == h->stored_len
			   ? 0
			   : ERR_CORRUPT;
	default:
		return ERR_VERSION;
	}
}

int block_expand(struct block_coder *c, const struct block_header *h, const uint8_t *stored, const uint8_t **out_p,
		 struct err *e)
{
	int rc = 0;

	if (h->codec == CODEC_NONE) {
		*out_p = stored;
		return 0;
	}
	rc = grow(&c->raw, &c->raw_cap, h->raw_len ? h->raw_len : 1, e);
	if (!rc)
		rc = unpack(c, h, stored);
	if (rc == ERR_CORRUPT)
		return err_set(e, rc, "block %u does not unpack", h->number);
	if (rc == ERR_VERSION)
		return err_set(e, rc, "block %u is packed with codec %u, which this version does not know", h->number,
			       h->codec);
	if (!rc)
		*out_p = c->raw;
	return rc;
}

int block_read_stored(struct block_coder *c, int fd, uint64_t pos, const struct block_header *h, const char *path,
		      const uint8_t **out_p, struct err *e)
{
	int rc = grow(&c->stored, &c->stored_cap, h->stored_len ? h->stored_len : 1, e);

	if (!rc)
		rc = file_read_at(fd, c->stored, h->stored_len, pos, path, e);
	if (!rc)
		*out_p = c->stored;
	return rc;
}

int block_read(struct block_coder *c, int fd, uint64_t pos, const struct block_header *h, const char *path,
	       const uint8_t **out_p, struct err *e)
{
	const uint8_t *stored = NULL;
	int rc = block_read_stored(c, fd, pos, h, path, &stored, e);

	if (rc)
		return rc;
	if (crc32_add(0, stored, h->stored_len) != h->payload_crc)
		return err_set(e, ERR_CORRUPT, "%s: block %u (%u bytes at %" PRIu64 ") has a wrong checksum", path,
			       h->number, h->stored_len, pos);
	return block_expand(c, h, stored, out_p, e);
}
