/* The reader of a ring: one record after the other, in the bounds that the writer published. */
#include "base/bytes.h"
#include "base/err.h"
#include "base/ring.h"
#include "base/ring_format.h"
#include "base/ring_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK      (1024 * 1024)
#define HEAD_TRIES 64

struct ring_reader {
	int fd;
	struct ring_info info;
	uint64_t pos;      /* of the next record */
	uint64_t head;     /* last head that was read whole */
	uint64_t next_seq; /* 0 = not known yet */
	uint8_t *chunk;    /* private copy of [chunk_at, chunk_at + chunk_len) */
	uint64_t chunk_at;
	size_t chunk_len;
	uint32_t epoch; /* of the last record */
};

int ring_reader_create(int ring_fd, uint64_t from, struct ring_reader **out, struct err *e)
{
	int rc;
	struct ring_reader *r = calloc(1, sizeof(*r));
	if (!r || !(r->chunk = malloc(CHUNK))) {
		free(r);
		return err_set(e, ERR_NOMEM, "journal ring: out of memory");
	}
	r->pos = r->chunk_at = from;
	r->fd = fcntl(ring_fd, F_DUPFD_CLOEXEC, 3);
	if (r->fd < 0)
		rc = err_sys(e, errno, "journal ring: cannot keep the descriptor");
	else
		rc = ring_info_read(r->fd, &r->info, e);
	if (rc) {
		ring_reader_destroy(r);
		return rc;
	}
	*out = r;
	return 0;
}

void ring_reader_destroy(struct ring_reader *r)
{
	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	free(r->chunk);
	free(r);
}

/*
 * The head as the writer stored it. A copy of the line may be taken while the
 * writer works; it is believed when one of the slots names the same head.
 */
static int head_read(int fd, uint64_t *out, struct err *e)
{
	uint8_t line[RING_AT_END - RING_AT_HEAD];
	for (int i = 0; i < HEAD_TRIES; i++) {
		if (ring_pread(fd, line, sizeof(line), RING_AT_HEAD))
			return err_set(e, ERR_CORRUPT, "journal ring: the head cannot be read");
		uint64_t head = get_u64(line);
		if (head != get_u64(line + 8) && head != get_u64(line + 24))
			continue;
		if (head % 8)
			return err_set(e, ERR_CORRUPT, "journal ring: the head %llu is no record's end",
				       (unsigned long long)head);
		atomic_thread_fence(memory_order_acquire);
		*out = head;
		return 0;
	}
	/* A busy writer: what was known before still stands, the next turn sees more. */
	return 0;
}

static int reader_refresh_head(struct ring_reader *r, struct err *e)
{
	return head_read(r->fd, &r->head, e);
}

int ring_head_read(int ring_fd, uint64_t *out)
{
	uint64_t head = UINT64_MAX; /* so busy a writer has certainly moved it */
	int rc = head_read(ring_fd, &head, NULL);

	if (rc == 0)
		*out = head;
	return rc;
}

static int reader_fill(struct ring_reader *r, struct err *e)
{
	uint64_t size = r->info.size;
	size_t want = r->head - r->pos < CHUNK ? (size_t)(r->head - r->pos) : CHUNK;
	size_t place = (size_t)(r->pos & (size - 1));
	size_t first = size - place < want ? (size_t)(size - place) : want;

	uint64_t end = r->pos + want;
	r->chunk_len = 0;
	if (ring_pread(r->fd, r->chunk, first, RING_HEADER_SIZE + place) ||
	    (want > first && ring_pread(r->fd, r->chunk + first, want - first, RING_HEADER_SIZE)))
		return err_set(e, ERR_CORRUPT, "journal ring: the file ends before position %llu",
			       (unsigned long long)end);
	r->chunk_at = r->pos;
	r->chunk_len = want;
	return 0;
}

/* The record at pos from the private copy: 1, 0 = the copy is too short, ERR_CORRUPT. */
static int reader_decode(struct ring_reader *r, struct ring_record *out, size_t *out_size)
{
	if (r->pos < r->chunk_at || r->pos - r->chunk_at > r->chunk_len)
		return 0;
	size_t off = (size_t)(r->pos - r->chunk_at);
	int rc = ring_record_decode(r->chunk + off, r->chunk_len - off, out, out_size, &r->epoch);
	if (rc == 1 && r->next_seq && out->seq != r->next_seq)
		return ERR_CORRUPT;
	return rc;
}

static int reader_check_bounds(const struct ring_reader *r, struct err *e)
{
	if (r->head < r->pos)
		return err_set(e, ERR_CORRUPT, "journal ring: the head %llu lies before position %llu",
			       (unsigned long long)r->head, (unsigned long long)r->pos);
	if (r->head - r->pos > r->info.size)
		return err_set(e, ERR_CORRUPT, "journal ring: position %llu was overwritten, the head is %llu",
			       (unsigned long long)r->pos, (unsigned long long)r->head);
	return 0;
}

int ring_read(struct ring_reader *r, struct ring_record *out, struct err *e)
{
	struct ring_record rec;
	size_t size = 0;
	int rc;

	if (r->pos >= r->head) {
		if ((rc = reader_refresh_head(r, e)) != 0)
			return rc;
		if (r->pos == r->head)
			return 0;
	}
	if ((rc = reader_check_bounds(r, e)) != 0)
		return rc;
	/* A second look from the file, in case the first copy was taken before the bytes had arrived. */
	rc = reader_decode(r, &rec, &size);
	if (rc != 1) {
		if ((rc = reader_fill(r, e)) != 0)
			return rc;
		rc = reader_decode(r, &rec, &size);
	}
	if (rc != 1)
		return err_set(e, ERR_CORRUPT, "journal ring: no valid record at position %llu, expected sequence %llu",
			       (unsigned long long)r->pos, (unsigned long long)r->next_seq);
	r->pos += size;
	r->next_seq = rec.seq + 1;
	*out = rec;
	return 1;
}

uint64_t ring_reader_position(const struct ring_reader *r)
{
	return r->pos;
}

uint64_t ring_reader_head(struct ring_reader *r)
{
	(void)reader_refresh_head(r, NULL);
	return r->head;
}

uint64_t ring_reader_size(const struct ring_reader *r)
{
	return r->info.size;
}

uint32_t ring_reader_epoch(const struct ring_reader *r)
{
	return r->epoch;
}

void ring_reader_expect(struct ring_reader *r, uint64_t seq)
{
	r->next_seq = seq;
}

void ring_reader_id(const struct ring_reader *r, struct id *out_ring_id)
{
	memcpy(out_ring_id->b, r->info.id, sizeof(out_ring_id->b));
}
