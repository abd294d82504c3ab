#include "recorder/output/chunk.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/ring.h"
#include "recorder/chain/file.h"
#include "recorder/format/block.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC       "MUXDOUTP"
#define MAJOR       1
#define BLOCK_MAGIC UINT32_C(0x5455504f) /* "OPUT" */
#define END_LEN     (CHUNK_END_SIZE - CHUNK_BLOCK)

enum {
	AT_MAJOR = 8,
	AT_CRC = 12,
	AT_ROUND = 16,
	AT_NUMBER = 32,
	AT_STREAM = 36,
	AT_OPENED = 40,
	AT_FIRST = 48,
	AT_AGENT = 128, /* u16 length, then the name */
	AT_PRINCIPAL = 768,
};

_Static_assert(AT_AGENT + 2 + AGENT_NAME_MAX <= AT_PRINCIPAL, "an agent's name fits");
_Static_assert(AT_PRINCIPAL + 2 + CHUNK_PRINCIPAL <= CHUNK_HEADER, "a principal's name fits");

/* ---- names */

void chunk_name(const struct id *round, unsigned stream, uint32_t number, char out[CHUNK_NAME_MAX])
{
	char text[ID_STR_LEN];

	id_format(round, text);
	snprintf(out, CHUNK_NAME_MAX, "%s.%u.%08x", text, stream & 3, number);
}

int chunk_name_parse(const char *name, struct id *out_round, unsigned *out_stream, uint32_t *out_number)
{
	char again[CHUNK_NAME_MAX], text[ID_STR_LEN];
	unsigned stream, number;
	struct id id;
	size_t n = ID_STR_LEN - 1;

	if (strlen(name) < n + 11)
		return ERR_INVAL;
	memcpy(text, name, n);
	text[n] = 0;
	if (id_parse(text, &id) || sscanf(name + n, ".%1u.%8x", &stream, &number) != 2)
		return ERR_INVAL;
	chunk_name(&id, stream, number, again);
	if (strcmp(again, name) != 0 || (stream != STREAM_OUTPUT && stream != STREAM_STDERR))
		return ERR_INVAL;
	*out_round = id;
	*out_stream = stream;
	*out_number = number;
	return 0;
}

/* ---- bytes */

static void put_name(uint8_t *p, const char *name, size_t max)
{
	size_t n = strnlen(name, max);

	put_u16(p, (uint16_t)n);
	memcpy(p + 2, name, n);
}

static int get_name(const uint8_t *p, char *out, size_t max)
{
	size_t n = get_u16(p);

	if (n > max || memchr(p + 2, 0, n))
		return ERR_CORRUPT;
	memcpy(out, p + 2, n);
	out[n] = 0;
	return 0;
}

static void header_encode(const struct chunk_of *of, uint32_t number, uint64_t first, uint8_t out[CHUNK_HEADER])
{
	memset(out, 0, CHUNK_HEADER);
	memcpy(out, MAGIC, 8);
	put_u16(out + AT_MAJOR, MAJOR);
	memcpy(out + AT_ROUND, of->round.b, sizeof(of->round.b));
	put_u32(out + AT_NUMBER, number);
	out[AT_STREAM] = of->stream;
	put_u64(out + AT_OPENED, (uint64_t)of->opened_ns);
	put_u64(out + AT_FIRST, first);
	put_name(out + AT_AGENT, of->agent, AGENT_NAME_MAX);
	put_name(out + AT_PRINCIPAL, of->principal, CHUNK_PRINCIPAL);
	put_u32(out + AT_CRC, crc32_add(0, out + AT_ROUND, CHUNK_HEADER - AT_ROUND));
}

int chunk_header_decode(const uint8_t p[CHUNK_HEADER], struct chunk_of *out_of, struct chunk *out)
{
	struct chunk_of of = {.stream = p[AT_STREAM], .opened_ns = (int64_t)get_u64(p + AT_OPENED)};

	if (memcmp(p, MAGIC, 8) != 0 || get_u16(p + AT_MAJOR) != MAJOR ||
	    get_u32(p + AT_CRC) != crc32_add(0, p + AT_ROUND, CHUNK_HEADER - AT_ROUND))
		return ERR_CORRUPT;
	if (of.stream != STREAM_OUTPUT && of.stream != STREAM_STDERR)
		return ERR_CORRUPT;
	memcpy(of.round.b, p + AT_ROUND, sizeof(of.round.b));
	if (get_name(p + AT_AGENT, of.agent, AGENT_NAME_MAX) ||
	    get_name(p + AT_PRINCIPAL, of.principal, CHUNK_PRINCIPAL))
		return ERR_CORRUPT;
	*out_of = of;
	*out = (struct chunk){.number = get_u32(p + AT_NUMBER), .first = get_u64(p + AT_FIRST), .size = CHUNK_HEADER};
	out->last = out->first;
	return 0;
}

static void block_encode(const struct chunk_block *b, uint8_t out[CHUNK_BLOCK])
{
	put_u32(out, BLOCK_MAGIC);
	out[4] = b->type;
	out[5] = b->stream;
	out[6] = b->codec;
	out[7] = 0;
	put_u32(out + 8, b->raw_len);
	put_u32(out + 12, b->stored_len);
	put_u64(out + 16, b->offset);
	put_u32(out + 24, b->payload_crc);
	put_u32(out + 28, crc32_add(0, out, 28));
}

static bool block_sane(const struct chunk_block *b)
{
	if (b->type == CHUNK_END)
		return b->raw_len == END_LEN && b->stored_len == END_LEN && b->codec == CODEC_NONE;
	return b->type == CHUNK_BYTES && b->raw_len && b->raw_len <= CHUNK_RAW_MAX && b->stored_len &&
	       b->stored_len <= b->raw_len && (b->codec != CODEC_NONE || b->stored_len == b->raw_len) &&
	       b->offset <= UINT64_MAX - b->raw_len;
}

int chunk_block_decode(const uint8_t p[CHUNK_BLOCK], struct chunk_block *out)
{
	struct chunk_block b = {.type = p[4], .stream = p[5], .codec = p[6]};

	if (get_u32(p) != BLOCK_MAGIC || get_u32(p + 28) != crc32_add(0, p, 28))
		return ERR_CORRUPT;
	b.raw_len = get_u32(p + 8);
	b.stored_len = get_u32(p + 12);
	b.offset = get_u64(p + 16);
	b.payload_crc = get_u32(p + 24);
	if (!block_sane(&b))
		return ERR_CORRUPT;
	*out = b;
	return 0;
}

/* ---- writing */

static int open_to_write(int dir_fd, const char *name, int flags, int *out_fd, struct err *e)
{
	*out_fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	return *out_fd < 0 ? err_sys(e, errno, "cannot open output/%s", name) : 0;
}

int chunk_create(int dir_fd, const struct chunk_of *of, uint32_t number, uint64_t first, struct chunk *out,
		 struct err *e)
{
	uint8_t head[CHUNK_HEADER];
	char name[CHUNK_NAME_MAX];
	int fd, rc;

	header_encode(of, number, first, head);
	chunk_name(&of->round, of->stream, number, name);
	rc = open_to_write(dir_fd, name, O_CREAT | O_TRUNC, &fd, e);
	if (rc)
		return rc;
	rc = file_write_at(fd, head, sizeof(head), 0, name, e);
	close(fd);
	if (rc == 0)
		*out = (struct chunk){.number = number, .first = first, .last = first, .size = CHUNK_HEADER};
	return rc;
}

/* Header and payload in one write, so that a kill in between leaves no whole header with half a payload behind it. */
static int block_write(int dir_fd, const struct chunk_of *of, struct chunk *c, const struct chunk_block *b,
		       const uint8_t *stored, struct err *e)
{
	size_t n = CHUNK_BLOCK + b->stored_len;
	uint8_t *all = malloc(n);
	char name[CHUNK_NAME_MAX];
	int fd = -1, rc;

	if (!all)
		return err_set(e, ERR_NOMEM, "out of memory");
	block_encode(b, all);
	memcpy(all + CHUNK_BLOCK, stored, b->stored_len);
	chunk_name(&of->round, of->stream, c->number, name);
	rc = open_to_write(dir_fd, name, 0, &fd, e);
	if (rc == 0)
		rc = file_write_at(fd, all, n, c->size, name, e);
	if (fd >= 0)
		close(fd);
	free(all);
	if (rc)
		return rc;
	c->size += n;
	c->blocks++;
	return 0;
}

int chunk_append(int dir_fd, const struct chunk_of *of, struct chunk *c, struct block_coder *coder, const void *p,
		 size_t n, struct err *e)
{
	struct block_header h = {0};
	struct chunk_block b = {.type = CHUNK_BYTES, .stream = of->stream, .offset = c->last};
	const uint8_t *stored = NULL;
	int rc;

	if (n == 0 || n > CHUNK_RAW_MAX)
		return err_set(e, ERR_INVAL, "a block of output has 1 to %d bytes", CHUNK_RAW_MAX);
	rc = block_compress(coder, CODEC_DEFAULT, p, n, &h, &stored, e);
	if (rc)
		return rc;
	b.codec = h.codec;
	b.raw_len = h.raw_len;
	b.stored_len = h.stored_len;
	b.payload_crc = h.payload_crc;
	rc = block_write(dir_fd, of, c, &b, stored, e);
	if (rc == 0)
		c->last += n;
	return rc;
}

int chunk_end(int dir_fd, const struct chunk_of *of, struct chunk *c, int64_t ended_ns, const uint64_t totals[2],
	      struct err *e)
{
	uint8_t p[END_LEN];
	struct chunk_block b = {.type = CHUNK_END,
				.stream = of->stream,
				.codec = CODEC_NONE,
				.raw_len = END_LEN,
				.stored_len = END_LEN,
				.offset = c->last};

	put_u64(p, (uint64_t)ended_ns);
	put_u64(p + 8, totals[0]);
	put_u64(p + 16, totals[1]);
	b.payload_crc = crc32_add(0, p, sizeof(p));
	return block_write(dir_fd, of, c, &b, p, e);
}

/* ---- reading */

static int block_load(int fd, uint64_t pos, struct block_coder *coder, const struct chunk_block *b,
		      const uint8_t **out_p, struct err *e)
{
	struct block_header h = {.type = BLOCK_EVENTS,
				 .codec = b->codec,
				 .raw_len = b->raw_len,
				 .stored_len = b->stored_len,
				 .payload_crc = b->payload_crc};

	return block_read(coder, fd, pos, &h, "output", out_p, e);
}

int chunk_next(int fd, uint64_t *pos, struct block_coder *coder, struct chunk_block *out, const uint8_t **out_p,
	       struct err *e)
{
	uint8_t head[CHUNK_BLOCK];
	int rc = file_read_at(fd, head, sizeof(head), *pos, "output", e);

	if (rc == ERR_EOF)
		return 0;
	if (rc == 0 && chunk_block_decode(head, out))
		rc = err_set(e, ERR_CORRUPT, "a block of kept output has no whole header");
	if (rc == 0 && out_p && out->type == CHUNK_BYTES)
		rc = block_load(fd, *pos + CHUNK_BLOCK, coder, out, out_p, e);
	if (rc)
		return rc;
	*pos += CHUNK_BLOCK + out->stored_len;
	return 1;
}

static int end_load(int fd, uint64_t pos, const struct chunk_block *b, struct chunk_found *out)
{
	uint8_t p[END_LEN];

	if (file_read_at(fd, p, sizeof(p), pos, "output", NULL) || b->payload_crc != crc32_add(0, p, sizeof(p)))
		return ERR_CORRUPT;
	out->ended = true;
	out->ended_ns = (int64_t)get_u64(p);
	out->totals[0] = get_u64(p + 8);
	out->totals[1] = get_u64(p + 16);
	return 0;
}

/* One more block is whole, and continues what is there: true. */
static bool scan_block(int fd, uint64_t size, struct block_coder *coder, struct chunk_found *f)
{
	const uint8_t *bytes;
	struct chunk_block b = {0};
	uint64_t pos = f->chunk.size;
	int rc = chunk_next(fd, &pos, coder, &b, coder ? &bytes : NULL, NULL);

	if (rc != 1 || pos > size || b.stream != f->of.stream || b.offset != f->chunk.last || f->ended)
		return false;
	if (b.type == CHUNK_END && end_load(fd, pos - b.stored_len, &b, f))
		return false;
	f->chunk.last += b.type == CHUNK_BYTES ? b.raw_len : 0;
	f->chunk.size = pos;
	f->chunk.blocks++;
	return true;
}

int chunk_scan(int fd, bool payloads, struct chunk_found *out, struct err *e)
{
	uint8_t head[CHUNK_HEADER];
	struct chunk_found f = {0};
	struct block_coder *coder = NULL;
	uint64_t size = 0;
	int rc = file_size(fd, "output", &size, e);

	if (rc == 0)
		rc = file_read_at(fd, head, sizeof(head), 0, "output", e);
	if (rc == ERR_EOF || (rc == 0 && chunk_header_decode(head, &f.of, &f.chunk)))
		rc = err_set(e, ERR_CORRUPT, "a file of kept output has no whole header");
	if (rc == 0 && payloads)
		rc = block_coder_create(&coder);
	while (rc == 0 && scan_block(fd, size, coder, &f)) {
		/* on to the next */
	}
	block_coder_destroy(coder);
	if (rc == 0)
		*out = f;
	return rc;
}

int chunk_recover(int fd, struct chunk_found *out, struct err *e)
{
	int rc = chunk_scan(fd, true, out, e);

	if (rc == 0 && ftruncate(fd, (off_t)out->chunk.size) != 0)
		rc = err_sys(e, errno, "cannot cut a file of kept output");
	return rc;
}
