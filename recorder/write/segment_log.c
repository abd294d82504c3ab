#include "recorder/write/segment_log.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/ring_record.h"
#include "recorder/chain/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define NEW_NAME      "segment.new"
#define SEARCH_BUDGET (256 * 1024 * 1024)

struct segment_log {
	int dir_fd;
	int fd; /* newest segment; -1 before begin() */
	uint64_t max_size;
	uint64_t used; /* the highest number that was ever given, as far as is known */
	const struct segment_io *io;
};

static int system_free_bytes(int dir_fd, uint64_t *out)
{
	struct statvfs v;
	if (fstatvfs(dir_fd, &v) < 0)
		return -1;
	*out = (uint64_t)v.f_bavail * v.f_frsize;
	return 0;
}

const struct segment_io segment_io_system = {pwrite, fdatasync, fallocate, system_free_bytes};

int segment_log_create(int dir_fd, uint64_t max_size, const struct segment_io *io, struct segment_log **out)
{
	struct segment_log *log = calloc(1, sizeof(*log));
	if (!log)
		return ERR_NOMEM;
	log->dir_fd = dir_fd;
	log->fd = -1;
	log->max_size = max_size;
	log->io = io;
	*out = log;
	return 0;
}

void segment_log_destroy(struct segment_log *log)
{
	if (!log)
		return;
	if (log->fd >= 0)
		close(log->fd);
	free(log);
}

static int log_sync_dir(const struct segment_log *log, struct err *e)
{
	return fsync(log->dir_fd) < 0 ? err_sys(e, errno, "cannot sync the segments' directory") : 0;
}

static int write_whole(const struct segment_log *log, int fd, const void *p, size_t n, uint64_t at, struct err *e)
{
	const uint8_t *from = p;
	while (n) {
		ssize_t put = log->io->pwrite(fd, from, n, (off_t)at);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return err_sys(e, put < 0 ? errno : EIO, "cannot write to the segment log");
		from += put;
		n -= (size_t)put;
		at += (uint64_t)put;
	}
	return 0;
}

/*
 * Bytes of the tail that do not parse may hide whole records behind a bad place:
 * then they are evidence. The bytes may be made to look like headers, so the
 * search is bounded; what it cannot decide counts as evidence.
 */
static bool tail_holds_records(const uint8_t *p, size_t n)
{
	size_t budget = SEARCH_BUDGET;
	struct ring_record rec;
	for (size_t at = 8; at + RING_RECORD_HEADER <= n; at += 8) {
		size_t cost = RING_RECORD_HEADER + get_u32(p + at + 4);
		if (cost > RING_RECORD_SIZE_MAX || cost > n - at)
			continue;
		if (cost > budget || ring_record_decode(p + at, n - at, &rec, NULL, NULL) == 1)
			return true;
		budget -= cost;
	}
	return false;
}

static int tail_set_aside(struct segment_log *log, const char *name, const uint8_t *p, size_t n, struct err *e)
{
	char copy[SEGMENT_NAME_MAX + 8];
	snprintf(copy, sizeof(copy), "%s.torn", name);
	int fd = openat(log->dir_fd, copy, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, errno, "cannot create %s", copy);
	int rc = write_whole(log, fd, p, n, 0, e);
	if (rc == 0 && fsync(fd) < 0)
		rc = err_sys(e, errno, "cannot sync %s", copy);
	close(fd);
	return rc;
}

static int tail_read(int fd, uint64_t offset, size_t n, uint8_t **out, struct err *e)
{
	uint8_t *p = malloc(n);
	if (!p)
		return err_set(e, ERR_NOMEM, "out of memory reading a torn segment");
	for (size_t got = 0; got < n;) {
		ssize_t k = pread(fd, p + got, n - got, (off_t)(offset + got));
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0) {
			free(p);
			return err_sys(e, k < 0 ? errno : EIO, "cannot read a torn segment");
		}
		got += (size_t)k;
	}
	*out = p;
	return 0;
}

static int log_cut_tail(struct segment_log *log, uint64_t number, uint64_t offset, struct segment_tear *tear,
			struct err *e)
{
	char name[SEGMENT_NAME_MAX];
	struct stat st;
	uint8_t *bytes = NULL;
	int rc = 0;

	segment_name(number, name);
	if (fstat(log->fd, &st) < 0)
		return err_sys(e, errno, "cannot look at segment %s", name);
	tear->number = number;
	tear->offset = offset;
	if ((uint64_t)st.st_size <= offset)
		return 0;
	tear->bytes = (uint64_t)st.st_size - offset;
	if ((rc = tail_read(log->fd, offset, (size_t)tear->bytes, &bytes, e)) != 0 || !bytes)
		return rc;
	tear->set_aside = tail_holds_records(bytes, (size_t)tear->bytes);
	if (tear->set_aside)
		rc = tail_set_aside(log, name, bytes, (size_t)tear->bytes, e);
	free(bytes);
	if (rc == 0 && ftruncate(log->fd, (off_t)offset) < 0)
		rc = err_sys(e, errno, "cannot cut the torn tail of segment %s", name);
	return rc;
}

/* Follow the records of segment `number` to the last whole one. */
static int log_scan(struct segment_log *log, uint64_t number, struct segment_tail *out, struct err *e)
{
	struct segment_reader *r;
	struct segment_record rec;
	int rc = segment_reader_create(log->dir_fd, number, &r, e);
	if (rc)
		return rc;
	const struct segment_header *h = segment_reader_header(r);
	struct segment_tail t = {
	    .number = number, .ring = h->ring, .ring_pos = h->ring_base, .ring_seq = h->ring_seq, .boot = h->boot};
	while ((rc = segment_read(r, UINT64_MAX, &rec, e)) == 1) {
		if (rec.own)
			continue;
		t.ring_pos += rec.raw_len;
		t.ring_seq = rec.rec.seq + 1;
	}
	t.offset = segment_reader_offset(r);
	t.lsn = segment_reader_lsn(r);
	segment_reader_destroy(r);
	if (rc == 0 || rc == ERR_CORRUPT) {
		*out = t;
		return 0;
	}
	return rc;
}

static int log_recover_newest(struct segment_log *log, uint64_t number, struct segment_tail *out,
			      struct segment_tear *tear, struct err *e)
{
	char name[SEGMENT_NAME_MAX];
	uint64_t size;
	int rc = log_scan(log, number, out, e);
	if (rc)
		return rc;
	segment_name(number, name);
	if ((rc = file_open_at(log->dir_fd, name, O_RDWR, name, &log->fd, &size, e)) != 0)
		return rc;
	if ((rc = log_cut_tail(log, number, out->offset, tear, e)) != 0)
		return rc;
	/* The process before us may have died between writing and syncing. */
	return segment_log_sync(log, e);
}

static int log_set_damaged_aside(struct segment_log *log, uint64_t number, struct err *e)
{
	char name[SEGMENT_NAME_MAX], aside[SEGMENT_NAME_MAX + 16];
	segment_name(number, name);
	snprintf(aside, sizeof(aside), "%s.damaged", name);
	if (renameat(log->dir_fd, name, log->dir_fd, aside) < 0)
		return err_sys(e, errno, "cannot set segment %s aside", name);
	return log_sync_dir(log, e);
}

void segment_log_used(struct segment_log *log, uint64_t number)
{
	if (number > log->used)
		log->used = number;
}

int segment_log_recover(struct segment_log *log, struct segment_tail *out, struct segment_tear *out_tear, struct err *e)
{
	struct segment_tail tail = {.lsn = 1};
	struct segment_tear tear = {0}, aside = {0};
	uint64_t *list = NULL;
	size_t n = 0;

	if (unlinkat(log->dir_fd, NEW_NAME, 0) < 0 && errno != ENOENT)
		return err_sys(e, errno, "cannot remove a segment that was never begun");
	int rc = segment_list(log->dir_fd, &list, &n, e);
	if (rc == 0 && n)
		segment_log_used(log, list[n - 1]);
	while (rc == 0 && n > 0) {
		rc = log_recover_newest(log, list[n - 1], &tail, &tear, e);
		if (rc != ERR_CORRUPT)
			break;
		/* The segment's header is damaged. Keep the file, go on with the one before: nothing may stop the
		 * record. */
		aside = (struct segment_tear){.number = list[n - 1], .set_aside = true};
		rc = log_set_damaged_aside(log, list[n - 1], e);
		n--;
	}
	free(list);
	if (rc)
		return rc;
	*out = tail;
	*out_tear = aside.set_aside ? aside : tear;
	return 0;
}

static int new_file_fill(struct segment_log *log, int fd, const struct segment_header *h, struct err *e)
{
	uint8_t bytes[SEGMENT_HEADER];

	/* Space now rather than ENOSPC in the middle; a file system that cannot do it is no reason to stop. */
	if (log->io->fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)log->max_size) < 0 && errno != EOPNOTSUPP &&
	    errno != ENOSYS)
		return err_sys(e, errno, "cannot allocate a segment of %" PRIu64 " bytes", log->max_size);
	segment_header_encode(h, bytes);
	int rc = write_whole(log, fd, bytes, sizeof(bytes), 0, e);
	if (rc == 0 && log->io->fdatasync(fd) < 0)
		rc = err_sys(e, errno, "cannot sync a new segment");
	return rc;
}

/* Give back what was allocated behind the last record. Best effort: it costs space, not truth. */
static void log_close(struct segment_log *log, uint64_t size)
{
	if (log->fd < 0)
		return;
	(void)!ftruncate(log->fd, (off_t)size);
	close(log->fd);
	log->fd = -1;
}

int segment_log_begin(struct segment_log *log, struct segment_tail *tail, struct err *e)
{
	char name[SEGMENT_NAME_MAX];
	segment_log_used(log, tail->number);
	struct segment_header h = {.number = log->used + 1,
				   .base_lsn = tail->lsn,
				   .ring = tail->ring,
				   .ring_base = tail->ring_pos,
				   .ring_seq = tail->ring_seq,
				   .boot = tail->boot,
				   .wall_ns = clock_wall_ns(),
				   .boot_ns = clock_boot_ns()};

	segment_name(h.number, name);
	int fd = openat(log->dir_fd, NEW_NAME, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, errno, "cannot create a segment");
	int rc = new_file_fill(log, fd, &h, e);
	if (rc == 0 && renameat(log->dir_fd, NEW_NAME, log->dir_fd, name) < 0)
		rc = err_sys(e, errno, "cannot name segment %s", name);
	if (rc == 0 && (rc = log_sync_dir(log, e)) != 0)
		(void)!unlinkat(log->dir_fd, name, 0); /* the log goes on in the one before */
	if (rc) {
		close(fd);
		(void)!unlinkat(log->dir_fd, NEW_NAME, 0);
		return rc;
	}
	log_close(log, tail->offset);
	log->fd = fd;
	tail->number = h.number;
	tail->offset = SEGMENT_HEADER;
	return 0;
}

int segment_log_write(struct segment_log *log, const struct segment_tail *tail, const void *p, size_t n, struct err *e)
{
	return write_whole(log, log->fd, p, n, tail->offset, e);
}

bool segment_log_full(const struct segment_log *log, const struct segment_tail *tail, size_t n)
{
	return log->fd < 0 || (tail->offset > SEGMENT_HEADER && tail->offset + n > log->max_size);
}

int segment_log_sync(struct segment_log *log, struct err *e)
{
	return log->io->fdatasync(log->fd) < 0 ? err_sys(e, errno, "cannot sync the segment log") : 0;
}

int segment_log_rewind(struct segment_log *log, const struct segment_tail *tail, struct err *e)
{
	if (log->fd < 0)
		return 0;
	if (ftruncate(log->fd, (off_t)tail->offset) < 0)
		return err_sys(e, errno, "cannot cut segment %" PRIu64 " back", tail->number);
	close(log->fd);
	log->fd = -1;
	return 0;
}

int segment_log_free_bytes(const struct segment_log *log, uint64_t *out)
{
	return log->io->free_bytes(log->dir_fd, out);
}

int segment_delete(int dir_fd, uint64_t number, struct err *e)
{
	char name[SEGMENT_NAME_MAX];
	segment_name(number, name);
	if (unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT)
		return err_sys(e, errno, "cannot delete segment %s", name);
	return 0;
}
