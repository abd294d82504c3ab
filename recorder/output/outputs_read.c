/* Reading of what is kept: from the chunk that holds an offset, or from what waits for its block. */
#include "base/err.h"
#include "recorder/chain/file.h"
#include "recorder/format/block.h"
#include "recorder/output/outputs_state.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static void reader_close(struct outputs_reader *r)
{
	if (r->open)
		close(r->fd);
	r->open = false;
	r->block = NULL;
}

void outputs_reader_finish(struct outputs_reader *r)
{
	reader_close(r);
	block_coder_destroy(r->coder);
	r->coder = NULL;
}

/* ---- where an offset is. With the lock. */

/* The first chunk that holds the offset or stands behind it; n: none does. */
static size_t chunk_at(const struct strand *s, uint64_t offset)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->chunks[mid].last > offset)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

static void state_of(const struct output *u, const struct strand *s, struct outputs_read *out)
{
	out->total = s->end;
	out->ended = u->state != OUTPUT_RUNS;
}

struct place {
	bool waits; /* its bytes were given from memory, or there are none */
	struct chunk chunk;
};

/* Holes are passed over: out->offset is where bytes are. */
static int place_find(const struct strand *s, struct buf *to, size_t most, struct outputs_read *out, struct place *at)
{
	size_t i = chunk_at(s, out->offset), n, skip;

	at->waits = i == s->n;
	if (!at->waits) {
		at->chunk = s->chunks[i];
		if (out->offset < at->chunk.first)
			out->offset = at->chunk.first;
		return 0;
	}
	if (!s->pend.len) {
		if (out->offset < s->end)
			out->offset = s->end; /* what the disk did not take, or was removed, up to the end */
		return 0;
	}
	if (out->offset < s->pend.at)
		out->offset = s->pend.at;
	if (out->offset >= s->pend.at + s->pend.len)
		return 0;
	skip = (size_t)(out->offset - s->pend.at);
	n = s->pend.len - skip < most ? s->pend.len - skip : most;
	return buf_append(to, s->pend.p + skip, n);
}

/* ---- the chunk's file */

static bool stands_before(const struct outputs_reader *r, const struct id *round, unsigned stream,
			  const struct chunk *c, uint64_t offset)
{
	return r->open && id_equal(&r->round, round) && r->stream == stream && r->chunk.number == c->number &&
	       r->offset <= offset;
}

static int reader_open(struct outputs *o, struct outputs_reader *r, const struct id *round, unsigned stream,
		       const struct chunk *c, struct err *e)
{
	char name[CHUNK_NAME_MAX];
	uint64_t size;
	int rc = r->coder ? 0 : block_coder_create(&r->coder);

	reader_close(r);
	chunk_name(round, stream, c->number, name);
	if (rc == 0)
		rc = file_open_at(o->dir_fd, name, O_RDONLY, name, &r->fd, &size, e);
	if (rc)
		return rc == ERR_NOT_FOUND ? ERR_AGAIN : rc; /* trimmed under this reader */
	r->open = true;
	r->round = *round;
	r->stream = stream;
	r->chunk = *c;
	r->pos = CHUNK_HEADER;
	r->offset = c->first;
	return 0;
}

/* Blocks before the one that holds the offset are passed over by their headers. */
static int blocks_read(struct outputs_reader *r, uint64_t limit, uint64_t offset, struct buf *to, size_t most,
		       struct err *e)
{
	size_t room = most;
	int rc = 0;

	while (room && r->pos < limit) {
		struct chunk_block b;
		uint64_t pos = r->pos;

		if ((rc = chunk_next(r->fd, &pos, r->coder, &b, NULL, e)) <= 0)
			return rc;
		if (b.type == CHUNK_BYTES && b.offset + b.raw_len > offset) {
			size_t skip = (size_t)(offset - b.offset), n = b.raw_len - skip;
			if (b.offset > offset)
				return err_set(e, ERR_CORRUPT, "a file of kept output has a hole");
			pos = r->pos;
			if (!r->block && (rc = chunk_next(r->fd, &pos, r->coder, &b, &r->block, e)) <= 0)
				return rc;
			pos = r->pos + CHUNK_BLOCK + b.stored_len;
			n = n < room ? n : room;
			if (buf_append(to, r->block + skip, n))
				return err_set(e, ERR_NOMEM, "out of memory");
			offset += n;
			room -= n;
			if (offset < b.offset + b.raw_len)
				return 0; /* the next read begins in this block */
		}
		r->pos = pos;
		r->block = NULL;
		r->offset = b.offset + (b.type == CHUNK_BYTES ? b.raw_len : 0);
	}
	return 0;
}

static int chunk_give(struct outputs *o, struct outputs_reader *r, const struct id *round, unsigned stream,
		      const struct chunk *c, uint64_t offset, struct buf *to, size_t most, struct err *e)
{
	int rc = stands_before(r, round, stream, c, offset) ? 0 : reader_open(o, r, round, stream, c, e);

	return rc ? rc : blocks_read(r, c->size, offset, to, most, e);
}

/* One chunk's worth, or what waits. 1: more may follow without a hole. */
static int read_piece(struct outputs *o, struct outputs_reader *r, const struct id *round, unsigned stream,
		      struct buf *to, size_t most, struct outputs_read *at, struct err *e)
{
	struct output *u;
	struct place place = {.waits = true};
	size_t had = buf_len(to);
	int rc;

	pthread_mutex_lock(&o->lock);
	u = output_find(o, round);
	rc = u ? place_find(strand_of(u, stream), to, most, at, &place) : ERR_NOT_FOUND;
	if (u)
		state_of(u, strand_of(u, stream), at);
	pthread_mutex_unlock(&o->lock);
	if (rc)
		return rc == ERR_NOT_FOUND ? rc : err_set(e, rc, "out of memory");
	if (!place.waits && (rc = chunk_give(o, r, round, stream, &place.chunk, at->offset, to, most, e)) == 0 &&
	    buf_len(to) == had)
		rc = err_set(e, ERR_CORRUPT, "a file of kept output lacks byte %llu", (unsigned long long)at->offset);
	if (rc == ERR_CORRUPT) { /* what cannot be read is missing; the rest of that chunk goes with it */
		reader_close(r);
		at->offset = place.chunk.last;
		return 1;
	}
	return rc ? rc : buf_len(to) > had && !place.waits;
}

#define TRIES 16 /* a chunk that went while it was looked for: where the bytes are is asked again */

int outputs_read(struct outputs *o, struct outputs_reader *r, const struct id *round, unsigned stream, uint64_t offset,
		 struct buf *to, size_t most, struct outputs_read *out, struct err *e)
{
	struct outputs_read first = {.offset = offset}, at;
	size_t begin = buf_len(to), got = 0;
	uint64_t next = offset;
	int rc = 1;

	for (int tries = 0; rc == 1 && got < most;) {
		at.offset = next;
		rc = read_piece(o, r, round, stream, to, most - got, &at, e);
		if (rc == ERR_AGAIN && tries < TRIES) {
			rc = 1;
			tries++;
			continue;
		}
		if (rc < 0)
			break;
		first.total = at.total;
		first.ended = at.ended;
		if (got && at.offset != next) { /* behind a hole: those bytes are the next read's */
			buf_truncate(to, begin + got);
			break;
		}
		if (!got)
			first.offset = at.offset;
		got = buf_len(to) - begin;
		next = first.offset + got;
	}
	if (rc == ERR_NOT_FOUND)
		return err_set(e, rc, "no output of that round is kept");
	if (rc < 0)
		return rc;
	*out = first;
	return 0;
}

/* ---- what is missing */

int outputs_missing(struct outputs *o, const struct id *round, unsigned stream, struct outputs_range *out, size_t max,
		    size_t *out_n, struct outputs_read *out_state)
{
	uint64_t at = 0;
	size_t n = 0;

	pthread_mutex_lock(&o->lock);
	struct output *u = output_find(o, round);
	if (u) {
		const struct strand *s = strand_of(u, stream);

		for (size_t i = 0; i <= s->n; i++) {
			uint64_t from = i < s->n ? s->chunks[i].first : s->pend.len ? s->pend.at : s->end;

			if (from > at && n < max)
				out[n++] = (struct outputs_range){at, from};
			at = i < s->n ? s->chunks[i].last : s->end;
		}
		state_of(u, s, out_state);
		out_state->offset = 0;
		*out_n = n;
	}
	pthread_mutex_unlock(&o->lock);
	return u ? 0 : ERR_NOT_FOUND;
}
