/* The writer of a ring, of which there is one: puts a record and publishes it. */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/ring.h"
#include "base/ring_format.h"
#include "base/ring_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LOCK_WAIT_MS  5000
#define LOCK_STEP_MS  10
#define RESERVE_SHARE 8 /* one part in eight is kept for input, control and audit */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the head is stored as the machine keeps it");

struct ring_writer {
	int lock_fd; /* a description of its own: the lock ends with this process, whoever shares the caller's */
	int cursor_fd;
	uint8_t *map;
	uint8_t *data;
	uint64_t size;
	uint64_t head, next_seq;
	uint64_t shown, shown_seq; /* the head in the file; behind it lies what is held back */
	bool holds;
	unsigned slot;    /* that names the head in the file: the other one is free */
	uint64_t durable; /* highest valid value seen; space before it is free */
	uint32_t epoch;
};

static int writer_lock(struct ring_writer *w, int ring_fd, struct err *e)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ring_fd);
	w->lock_fd = open(path, O_RDWR | O_CLOEXEC);
	if (w->lock_fd < 0)
		return err_sys(e, errno, "journal ring: cannot open it for writing");
	for (int waited = 0;; waited += LOCK_STEP_MS) {
		if (flock(w->lock_fd, LOCK_EX | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, errno, "journal ring: cannot lock it");
		if (waited >= LOCK_WAIT_MS)
			return err_set(e, ERR_TIMEOUT, "journal ring: another writer holds it for %d s",
				       LOCK_WAIT_MS / 1000);
		struct timespec step = {.tv_nsec = LOCK_STEP_MS * 1000000L};
		nanosleep(&step, NULL);
	}
}

/* The head says where the writer before us got to; the slot that names it says with which sequence to go on. */
static int writer_recover(struct ring_writer *w, struct err *e)
{
	uint64_t head = get_u64(w->map + RING_AT_HEAD);
	for (int i = 0; i < 2; i++) {
		const uint8_t *slot = w->map + RING_AT_SLOTS + 16 * i;
		if (get_u64(slot) != head || head % 8)
			continue;
		w->head = w->shown = head;
		w->next_seq = w->shown_seq = get_u64(slot + 8);
		w->slot = (unsigned)i;
		uint64_t epoch = get_u64(w->map + RING_AT_EPOCH) + 1;
		put_u64(w->map + RING_AT_EPOCH, epoch);
		w->epoch = (uint32_t)epoch;
		return 0;
	}
	return err_set(e, ERR_CORRUPT, "journal ring: its head %llu fits no record", (unsigned long long)head);
}

int ring_writer_create(int ring_fd, int cursor_fd, struct ring_writer **out, struct err *e)
{
	struct ring_info info;
	struct ring_cursor cursor;
	int rc;

	struct ring_writer *w = calloc(1, sizeof(*w));
	if (!w)
		return err_set(e, ERR_NOMEM, "journal ring: out of memory");
	w->lock_fd = w->cursor_fd = -1;
	if ((rc = writer_lock(w, ring_fd, e)) != 0 || (rc = ring_info_read(ring_fd, &info, e)) != 0)
		goto out;
	w->cursor_fd = fcntl(cursor_fd, F_DUPFD_CLOEXEC, 3);
	if (w->cursor_fd < 0) {
		rc = err_sys(e, errno, "journal ring: cannot keep the cursor");
		goto out;
	}
	w->size = info.size;
	w->map = mmap(NULL, RING_HEADER_SIZE + w->size, PROT_READ | PROT_WRITE, MAP_SHARED, w->lock_fd, 0);
	if (w->map == MAP_FAILED) {
		w->map = NULL;
		rc = err_sys(e, errno, "journal ring: cannot map it");
		goto out;
	}
	w->data = w->map + RING_HEADER_SIZE;
	if ((rc = writer_recover(w, e)) != 0)
		goto out;
	/* Without a valid cursor nothing counts as free until the recorder says so. */
	(void)ring_writer_refresh(w, &cursor);
	*out = w;
	w = NULL;
out:
	ring_writer_destroy(w);
	return rc;
}

void ring_writer_destroy(struct ring_writer *w)
{
	if (!w)
		return;
	if (w->map)
		munmap(w->map, RING_HEADER_SIZE + w->size);
	if (w->lock_fd >= 0)
		close(w->lock_fd);
	if (w->cursor_fd >= 0)
		close(w->cursor_fd);
	free(w);
}

static void ring_put(struct ring_writer *w, uint64_t at, const void *p, size_t n)
{
	size_t place = (size_t)(at & (w->size - 1));
	size_t first = w->size - place < n ? w->size - place : n;
	memcpy(w->data + place, p, first);
	if (n > first)
		memcpy(w->data, (const uint8_t *)p + first, n - first);
}

static void ring_publish(struct ring_writer *w, uint64_t head, uint64_t next_seq)
{
	uint8_t *slot;

	w->slot ^= 1;
	slot = w->map + RING_AT_SLOTS + 16 * (size_t)w->slot;
	put_u64(slot, head);
	put_u64(slot + 8, next_seq);
	atomic_store_explicit((_Atomic uint64_t *)(void *)(w->map + RING_AT_HEAD), head, memory_order_release);
	/* The next record's slot must not be written before this head, or a kill between would leave none that fits. */
	atomic_signal_fence(memory_order_seq_cst);
	w->shown = head;
	w->shown_seq = next_seq;
}

void ring_hold(struct ring_writer *w)
{
	w->holds = true;
}

void ring_let(struct ring_writer *w, bool keep)
{
	w->holds = false;
	if (!keep) {
		w->head = w->shown;
		w->next_seq = w->shown_seq;
	} else if (w->head != w->shown) {
		ring_publish(w, w->head, w->next_seq);
	}
}

int ring_append(struct ring_writer *w, struct ring_record *rec, const struct iovec *iov, int iovcnt, bool reserve)
{
	static const uint8_t zeros[8];
	uint8_t header[RING_RECORD_HEADER];
	size_t len = 0;

	for (int i = 0; i < iovcnt; i++) {
		if (iov[i].iov_len > RING_RECORD_MAX - len)
			return ERR_TOO_LARGE;
		len += iov[i].iov_len;
	}
	size_t size = ring_record_size((uint32_t)len);
	if (size > ring_room(w, reserve))
		return ERR_AGAIN;
	rec->len = (uint32_t)len;
	rec->seq = w->next_seq;
	if (rec->boot_ns == 0)
		rec->boot_ns = clock_boot_ns();
	ring_record_header(header, rec, w->epoch, iov, iovcnt);
	uint64_t at = w->head;
	ring_put(w, at, header, sizeof(header));
	at += sizeof(header);
	for (int i = 0; i < iovcnt; i++) {
		if (iov[i].iov_len)
			ring_put(w, at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	ring_put(w, at, zeros, (size_t)(w->head + size - at));
	w->head += size;
	w->next_seq++;
	if (!w->holds)
		ring_publish(w, w->head, w->next_seq);
	return 0;
}

uint64_t ring_head(const struct ring_writer *w)
{
	return w->head;
}

size_t ring_size(const struct ring_writer *w)
{
	return (size_t)w->size;
}

static void ring_get(const struct ring_writer *w, uint64_t at, void *to, size_t n)
{
	size_t place = (size_t)(at & (w->size - 1));
	size_t first = w->size - place < n ? w->size - place : n;

	memcpy(to, w->data + place, first);
	if (n > first)
		memcpy((uint8_t *)to + first, w->data, n - first);
}

ssize_t ring_recall(const struct ring_writer *w, uint64_t at, const struct ring_record *meant, size_t skip, void *to,
		    size_t max)
{
	uint8_t header[RING_RECORD_HEADER];
	struct ring_record rec;
	size_t n;

	if (at > w->head || w->head - at < sizeof(header) || w->head - at > w->size)
		return ERR_NOT_FOUND;
	ring_get(w, at, header, sizeof(header));
	ring_record_fields(header, &rec);
	if (rec.type != meant->type || rec.stream != meant->stream || rec.offset != meant->offset ||
	    !id_equal(&rec.session, &meant->session) || w->head - at < ring_record_size(rec.len) || skip > rec.len)
		return ERR_NOT_FOUND;
	n = rec.len - skip < max ? rec.len - skip : max;
	if (n)
		ring_get(w, at + sizeof(header) + skip, to, n);
	return (ssize_t)n;
}

size_t ring_room(const struct ring_writer *w, bool reserve)
{
	uint64_t used = w->head - w->durable;
	uint64_t usable = reserve ? w->size : w->size - w->size / RESERVE_SHARE;
	return used < usable ? (size_t)(usable - used) : 0;
}

int ring_writer_refresh(struct ring_writer *w, struct ring_cursor *out)
{
	struct ring_cursor c;
	int rc = ring_cursor_read(w->cursor_fd, &c);
	if (rc)
		return rc;
	/* A cursor past the head belongs to another ring; one that went back cannot bring freed bytes back. */
	if (c.durable <= w->head && c.durable > w->durable)
		w->durable = c.durable;
	*out = c;
	return 0;
}
