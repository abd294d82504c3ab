#include "recorder/write/follower.h"

#include "base/err.h"

#include <stdlib.h>

struct follower {
	int dir_fd;
	struct segment_reader *r; /* NULL: open `at` first */
	struct index_cursor at;
	uint64_t unread; /* lsn up to which this segment was passed over: clock records in it may count; 0: none */
	int64_t wall_minus_boot;
	struct id boot;
};

int follower_create(int dir_fd, const struct index_cursor *from, struct follower **out, struct err *e)
{
	struct follower *f = calloc(1, sizeof(*f));
	if (!f)
		return err_set(e, ERR_NOMEM, "out of memory");
	f->dir_fd = dir_fd;
	f->at = *from;
	*out = f;
	return 0;
}

void follower_destroy(struct follower *f)
{
	if (!f)
		return;
	segment_reader_destroy(f->r);
	free(f);
}

/* The first segment at or above number; 0 when there is none. */
static int segment_from(int dir_fd, uint64_t number, uint64_t *out, struct err *e)
{
	uint64_t *list;
	size_t n;
	int rc = segment_list(dir_fd, &list, &n, e);
	if (rc)
		return rc;
	*out = 0;
	for (size_t i = 0; i < n && !*out; i++) {
		if (list[i] >= number)
			*out = list[i];
	}
	free(list);
	return 0;
}

static int follower_open(struct follower *f, struct err *e)
{
	uint64_t number;
	int rc = segment_from(f->dir_fd, f->at.segment, &number, e);
	if (rc)
		return rc;
	if (!number)
		return err_set(e, ERR_NOT_FOUND, "the segment log has nothing to follow");
	if ((rc = segment_reader_create(f->dir_fd, number, &f->r, e)) != 0)
		return rc;
	const struct segment_header *h = segment_reader_header(f->r);
	f->wall_minus_boot = h->wall_ns - (int64_t)h->boot_ns;
	f->boot = h->boot;
	f->unread = 0;
	if (number == f->at.segment && f->at.offset > SEGMENT_HEADER) {
		segment_reader_seek(f->r, f->at.offset, f->at.lsn);
		f->unread = f->at.lsn;
	}
	f->at.segment = number;
	f->at.offset = segment_reader_offset(f->r);
	f->at.lsn = segment_reader_lsn(f->r);
	return 0;
}

static void follower_next_segment(struct follower *f)
{
	segment_reader_destroy(f->r);
	f->r = NULL;
	f->at.segment++;
	f->at.offset = 0;
}

/* A clock record: the hub says what time it was. */
static void follower_clock(struct follower *f, const struct ring_record *rec)
{
	json_t *o = NULL;
	int64_t wall = 0;
	if (json_parse(rec->payload, rec->len, RING_RECORD_MAX, &o, NULL))
		return;
	if (json_need_int(o, "wall_ns", 0, INT64_MAX, &wall, NULL) == 0)
		f->wall_minus_boot = wall - (int64_t)rec->boot_ns;
	f->unread = 0;
	json_decref(o);
}

/*
 * A time follows from the segments, wherever reading began: an entry that is read once more has the time that it had.
 * Behind a place that cannot be read no clock record is found.
 */
static void follower_catch_up(struct follower *f)
{
	struct segment_reader *r;
	struct segment_record sr;
	uint64_t until = f->unread;

	f->unread = 0;
	if (segment_reader_create(f->dir_fd, f->at.segment, &r, NULL))
		return;
	while (segment_reader_lsn(r) < until && segment_read(r, UINT64_MAX, &sr, NULL) == 1)
		if (sr.rec.type == RING_CLOCK)
			follower_clock(f, &sr.rec);
	segment_reader_destroy(r);
}

int follower_read(struct follower *f, const struct segment_tail *until, struct segment_record *out, struct err *e)
{
	for (;;) {
		if (until->number == 0 || f->at.segment > until->number)
			return 0;
		int rc = f->r ? 0 : follower_open(f, e);
		if (rc)
			return rc;
		bool newest = f->at.segment >= until->number;
		rc = segment_read(f->r, newest ? until->offset : UINT64_MAX, out, e);
		f->at.offset = segment_reader_offset(f->r);
		f->at.lsn = segment_reader_lsn(f->r);
		if (rc == 1 && out->rec.type == RING_CLOCK)
			follower_clock(f, &out->rec);
		if (rc || newest)
			return rc;
		follower_next_segment(f);
	}
}

void follower_skip(struct follower *f, const struct segment_tail *until)
{
	if (f->at.segment < until->number) {
		follower_next_segment(f);
		return;
	}
	segment_reader_seek(f->r, until->offset, until->lsn);
	f->at.offset = until->offset;
	f->at.lsn = until->lsn;
}

void follower_cursor(const struct follower *f, struct index_cursor *out)
{
	*out = f->at;
}

int64_t follower_wall_ns(struct follower *f, uint64_t boot_ns)
{
	if (f->unread)
		follower_catch_up(f);
	return (int64_t)boot_ns + f->wall_minus_boot;
}

uint64_t follower_segment(const struct follower *f)
{
	return f->r ? f->at.segment : 0;
}

const struct id *follower_boot(const struct follower *f)
{
	return &f->boot;
}
