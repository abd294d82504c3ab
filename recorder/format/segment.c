#include "recorder/format/segment.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/list.h"
#include "base/ring_record.h"
#include "recorder/chain/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEGMENT_MAGIC "MUXDSEGM"
#define SEGMENT_MAJOR 1
#define CHUNK         (512 * 1024)

enum segment_at {
	AT_MAGIC = 0,
	AT_MAJOR = 8,
	AT_MINOR = 10,
	AT_CRC = 12, /* u32 over 16..127 */
	AT_NUMBER = 16,
	AT_BASE_LSN = 24,
	AT_RING = 32,
	AT_RING_BASE = 48,
	AT_RING_SEQ = 56,
	AT_BOOT_ID = 64,
	AT_WALL = 80,
	AT_BOOT_NS = 88,
};

struct segment_reader {
	int fd;
	struct segment_header header;
	uint64_t at;  /* offset of the next record */
	uint64_t lsn; /* of the next record */
	uint8_t *chunk;
	uint64_t chunk_at;
	size_t chunk_len;
};

void segment_name(uint64_t number, char out[SEGMENT_NAME_MAX])
{
	snprintf(out, SEGMENT_NAME_MAX, "%016" PRIu64 ".seg", number);
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* Names are exact, so that a backup copy or an editor's leftover is not taken for a segment. */
static bool segment_name_parse(const char *name, uint64_t *out)
{
	char again[SEGMENT_NAME_MAX], *end;
	uint64_t n = strtoull(name, &end, 10);
	segment_name(n, again);
	*out = n;
	return strcmp(again, name) == 0;
}

int segment_list(int dir_fd, uint64_t **out, size_t *out_n, struct err *e)
{
	uint64_t *list = NULL, number;
	size_t n = 0;
	struct dirent *entry;
	int rc = 0;

	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		rc = err_sys(e, errno, "cannot list the segments");
		if (fd >= 0)
			close(fd);
		return rc;
	}
	while (errno = 0, (entry = readdir(dir))) {
		if (!segment_name_parse(entry->d_name, &number))
			continue;
		if (list_append(&list, &n, &number, sizeof(number))) {
			rc = err_set(e, ERR_NOMEM, "out of memory listing the segments");
			goto out;
		}
	}
	if (errno) {
		rc = err_sys(e, errno, "cannot list the segments");
		goto out;
	}
	if (n)
		qsort(list, n, sizeof(*list), compare_u64);
	*out = list;
	*out_n = n;
	list = NULL;
out:
	free(list);
	closedir(dir);
	return rc;
}

void segment_header_encode(const struct segment_header *h, uint8_t out[SEGMENT_HEADER])
{
	memset(out, 0, SEGMENT_HEADER);
	memcpy(out + AT_MAGIC, SEGMENT_MAGIC, 8);
	put_u16(out + AT_MAJOR, SEGMENT_MAJOR);
	put_u64(out + AT_NUMBER, h->number);
	put_u64(out + AT_BASE_LSN, h->base_lsn);
	memcpy(out + AT_RING, h->ring.b, 16);
	put_u64(out + AT_RING_BASE, h->ring_base);
	put_u64(out + AT_RING_SEQ, h->ring_seq);
	memcpy(out + AT_BOOT_ID, h->boot.b, 16);
	put_u64(out + AT_WALL, (uint64_t)h->wall_ns);
	put_u64(out + AT_BOOT_NS, h->boot_ns);
	put_u32(out + AT_CRC, crc32_add(0, out + AT_NUMBER, SEGMENT_HEADER - AT_NUMBER));
}

int segment_header_decode(const uint8_t p[SEGMENT_HEADER], struct segment_header *out, struct err *e)
{
	if (memcmp(p + AT_MAGIC, SEGMENT_MAGIC, 8) != 0)
		return err_set(e, ERR_CORRUPT, "this is no segment of the log");
	if (get_u16(p + AT_MAJOR) != SEGMENT_MAJOR)
		return err_set(e, ERR_VERSION, "segment version %u.%u, this program reads %u", get_u16(p + AT_MAJOR),
			       get_u16(p + AT_MINOR), SEGMENT_MAJOR);
	if (get_u32(p + AT_CRC) != crc32_add(0, p + AT_NUMBER, SEGMENT_HEADER - AT_NUMBER))
		return err_set(e, ERR_CORRUPT, "the segment's header is damaged");
	out->number = get_u64(p + AT_NUMBER);
	out->base_lsn = get_u64(p + AT_BASE_LSN);
	memcpy(out->ring.b, p + AT_RING, 16);
	out->ring_base = get_u64(p + AT_RING_BASE);
	out->ring_seq = get_u64(p + AT_RING_SEQ);
	memcpy(out->boot.b, p + AT_BOOT_ID, 16);
	out->wall_ns = (int64_t)get_u64(p + AT_WALL);
	out->boot_ns = get_u64(p + AT_BOOT_NS);
	return 0;
}

/* As many bytes as there are, up to n; negative errno. */
static ssize_t pread_some(int fd, uint8_t *p, size_t n, uint64_t at)
{
	size_t got = 0;
	while (got < n) {
		ssize_t k = pread(fd, p + got, n - got, (off_t)(at + got));
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -errno;
		if (k == 0)
			break;
		got += (size_t)k;
	}
	return (ssize_t)got;
}

static int reader_open(struct segment_reader *r, int dir_fd, uint64_t number, struct err *e)
{
	char name[SEGMENT_NAME_MAX];
	uint8_t h[SEGMENT_HEADER];
	uint64_t size;

	segment_name(number, name);
	int rc = file_open_at(dir_fd, name, O_RDONLY, name, &r->fd, &size, e);
	if (rc)
		return rc == ERR_NOT_A_FILE ? err_set(e, ERR_CORRUPT, "segment %s is no regular file", name) : rc;
	ssize_t n = pread_some(r->fd, h, sizeof(h), 0);
	if (n < 0)
		return err_sys(e, (int)-n, "cannot read segment %s", name);
	if (n < (ssize_t)sizeof(h))
		return err_set(e, ERR_CORRUPT, "segment %s is shorter than its header", name);
	rc = segment_header_decode(h, &r->header, e);
	if (rc == 0 && r->header.number != number)
		rc = err_set(e, ERR_CORRUPT, "segment %s says it is number %" PRIu64, name, r->header.number);
	return rc;
}

int segment_reader_create(int dir_fd, uint64_t number, struct segment_reader **out, struct err *e)
{
	struct segment_reader *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(e, ERR_NOMEM, "out of memory");
	r->fd = -1;
	r->chunk = malloc(CHUNK);
	int rc = r->chunk ? reader_open(r, dir_fd, number, e) : err_set(e, ERR_NOMEM, "out of memory");
	if (rc) {
		segment_reader_destroy(r);
		return rc;
	}
	segment_reader_seek(r, SEGMENT_HEADER, r->header.base_lsn);
	*out = r;
	return 0;
}

void segment_reader_destroy(struct segment_reader *r)
{
	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	free(r->chunk);
	free(r);
}

const struct segment_header *segment_reader_header(const struct segment_reader *r)
{
	return &r->header;
}

void segment_reader_seek(struct segment_reader *r, uint64_t offset, uint64_t lsn)
{
	r->at = offset;
	r->lsn = lsn;
}

uint64_t segment_reader_offset(const struct segment_reader *r)
{
	return r->at;
}

uint64_t segment_reader_lsn(const struct segment_reader *r)
{
	return r->lsn;
}

static int reader_decode(const struct segment_reader *r, struct segment_record *out)
{
	if (r->at < r->chunk_at || r->at - r->chunk_at >= r->chunk_len)
		return 0;
	size_t off = (size_t)(r->at - r->chunk_at);
	int rc = ring_record_decode(r->chunk + off, r->chunk_len - off, &out->rec, &out->raw_len, NULL);
	out->raw = r->chunk + off;
	return rc;
}

int segment_read(struct segment_reader *r, uint64_t limit, struct segment_record *out, struct err *e)
{
	struct segment_record got;

	if (r->at >= limit)
		return 0;
	int rc = reader_decode(r, &got);
	if (rc != 1) {
		size_t want = limit - r->at < CHUNK ? (size_t)(limit - r->at) : CHUNK;
		ssize_t n = pread_some(r->fd, r->chunk, want, r->at);
		r->chunk_at = r->at;
		r->chunk_len = n < 0 ? 0 : (size_t)n;
		if (n < 0)
			return err_sys(e, (int)-n, "segment %" PRIu64 ": cannot read at %" PRIu64, r->header.number,
				       r->at);
		if (n == 0 && limit == UINT64_MAX)
			return 0;
		rc = reader_decode(r, &got);
	}
	if (rc != 1)
		return err_set(e, ERR_CORRUPT, "segment %" PRIu64 ": no whole record at %" PRIu64, r->header.number,
			       r->at);
	got.lsn = r->lsn;
	got.own = (got.rec.flags & RING_ORIGIN_RECORDER) != 0;
	r->at += got.raw_len;
	r->lsn++;
	*out = got;
	return 1;
}

void segment_begin(int dir_fd, uint64_t number, uint64_t *out_lsn)
{
	struct segment_reader *r;

	if (segment_reader_create(dir_fd, number, &r, NULL))
		return;
	*out_lsn = segment_reader_lsn(r);
	segment_reader_destroy(r);
}

int segment_oldest(int dir_fd, uint64_t *out_lsn, struct err *e)
{
	uint64_t *list = NULL;
	size_t n = 0;
	int rc = segment_list(dir_fd, &list, &n, e);

	*out_lsn = 0;
	if (rc == 0 && n)
		segment_begin(dir_fd, list[0], out_lsn);
	free(list);
	return rc;
}
