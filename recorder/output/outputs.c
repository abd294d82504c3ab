/* Bytes from the log go into blocks, blocks into chunks, and the oldest middle of a long stream goes. */
#define LOG_SUBSYS "output"
#include "recorder/output/outputs.h"

#include "base/err.h"
#include "base/log.h"
#include "recorder/chain/file.h"
#include "recorder/format/block.h"
#include "recorder/output/outputs_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PEND_LEAST   4096
#define CHUNK_MOST   (UINT64_C(8) << 20) /* bytes of a file, about */
#define HEAD_PART    8                   /* of limits.stream, for the beginning */
#define CHUNKS_PART  32
#define SYNC_ONE_MAX 64 /* files that are synced one by one; more: their file system at once */

int outputs_open(struct outputs *o, const struct chunk_of *of, struct err *e)
{
	struct output *u;
	int rc;

	if (!o->limits.age_ns || output_find(o, &of->round))
		return 0;
	pthread_mutex_lock(&o->lock);
	rc = output_add(o, of, &u);
	pthread_mutex_unlock(&o->lock);
	return rc ? err_set(e, rc, "out of memory") : 0;
}

bool outputs_has(struct outputs *o, const struct id *round)
{
	return output_find(o, round) != NULL;
}

/* ---- blocks */

static uint64_t chunk_most(const struct outputs *o)
{
	uint64_t part = o->limits.stream / CHUNKS_PART;

	return part < CHUNK_MOST ? part : CHUNK_MOST;
}

/* The oldest chunk behind the beginning goes, the one that is written to never. */
static void trim(struct outputs *o, struct output *u, struct strand *s)
{
	while (s->chunks && s->bytes > o->limits.stream && s->n > 2) {
		uint64_t head = 0;
		size_t i = 0;

		while (i < s->n && head < o->limits.stream / HEAD_PART)
			head += s->chunks[i++].size;
		if (i + 1 >= s->n)
			return;
		strand_drop(o, u, s, i);
	}
}

/* The chunk that the pending bytes go into: the last one while it has room and they follow it. */
static int chunk_for(struct outputs *o, struct output *u, struct strand *s, struct chunk **out, struct err *e)
{
	struct chunk *last = s->n ? &s->chunks[s->n - 1] : NULL, made;
	struct chunk_of of = u->of;
	uint32_t number = last ? last->number + 1 : 0;
	int rc;

	if (last && last->last == s->pend.at && last->size < chunk_most(o) && last->blocks < CHUNK_BLOCKS) {
		*out = last;
		return 0;
	}
	if (last ? last->last != s->pend.at : s->pend.at != 0)
		number++;
	of.stream = (uint8_t)stream_of(u, s);
	rc = chunk_create(o->dir_fd, &of, number, s->pend.at, &made, e);
	if (rc)
		return rc;
	if ((rc = strand_add(s, &made)) != 0)
		return err_set(e, rc, "out of memory");
	output_grew(o, u, s, (int64_t)made.size);
	*out = &s->chunks[s->n - 1];
	return 0;
}

/* A disk that takes nothing leaves a hole in what is kept, and no more than that. */
static void block_lost(struct outputs *o, size_t n, const struct err *why)
{
	o->seen.lost += n;
	if (!o->disk_refuses)
		log_warn(NULL, "rounds' output is not kept: %s", why->message);
	o->disk_refuses = true;
}

static void pend_clear(struct outputs *o, struct strand *s)
{
	o->seen.pending -= s->pend.len;
	s->pend.at += s->pend.len;
	s->pend.len = 0;
}

static void strand_flush(struct outputs *o, struct output *u, struct strand *s)
{
	struct chunk_of of = u->of;
	struct chunk *c = NULL;
	struct err e = {0};
	uint64_t before;
	int rc;

	if (!s->pend.len)
		return;
	of.stream = (uint8_t)stream_of(u, s);
	rc = chunk_for(o, u, s, &c, &e);
	before = c ? c->size : 0;
	if (rc == 0)
		rc = chunk_append(o->dir_fd, &of, c, o->coder, s->pend.p, s->pend.len, &e);
	if (rc)
		block_lost(o, s->pend.len, &e);
	else
		o->disk_refuses = false;
	if (rc == 0 && c)
		output_grew(o, u, s, (int64_t)(c->size - before));
	s->dirty = true;
	pend_clear(o, s);
	trim(o, u, s);
}

static void flush_all(struct outputs *o)
{
	struct output *u;

	TAILQ_FOREACH(u, &o->list, entry)
	for (size_t i = 0; i < STRANDS; i++)
		strand_flush(o, u, &u->strands[i]);
}

static int pend_room(struct pend *p, size_t need)
{
	size_t cap = p->cap ? p->cap : PEND_LEAST;
	uint8_t *grown;

	while (cap < need)
		cap *= 2;
	if (cap <= p->cap)
		return 0;
	grown = realloc(p->p, cap);
	if (!grown)
		return ERR_NOMEM;
	p->p = grown;
	p->cap = cap;
	return 0;
}

/* ---- feeding */

static int strand_take(struct outputs *o, struct output *u, struct strand *s, uint64_t offset, const uint8_t *p,
		       size_t n)
{
	if (offset > s->end) { /* the journal lacks what is between */
		strand_flush(o, u, s);
		s->end = s->pend.at = offset;
	}
	while (n) {
		size_t room = CHUNK_RAW_MAX - s->pend.len, take = n < room ? n : room;

		if (pend_room(&s->pend, s->pend.len + take))
			return ERR_NOMEM;
		memcpy(s->pend.p + s->pend.len, p, take);
		s->pend.len += take;
		s->end += take;
		o->seen.pending += take;
		p += take;
		n -= take;
		if (s->pend.len == CHUNK_RAW_MAX)
			strand_flush(o, u, s);
	}
	return 0;
}

int outputs_data(struct outputs *o, const struct id *round, unsigned stream, uint64_t offset, const void *p, size_t n,
		 struct err *e)
{
	struct output *u = output_find(o, round);
	struct strand *s;
	uint64_t skip = 0;
	int rc;

	if (!u || u->state != OUTPUT_RUNS || (stream != STREAM_OUTPUT && stream != STREAM_STDERR))
		return 0;
	s = strand_of(u, stream);
	if (offset < s->end)
		skip = s->end - offset < n ? s->end - offset : n;
	if (skip == n)
		return 0;
	pthread_mutex_lock(&o->lock);
	rc = strand_take(o, u, s, offset + skip, (const uint8_t *)p + skip, n - (size_t)skip);
	if (rc == 0 && o->seen.pending > OUTPUTS_PENDING_MAX)
		flush_all(o);
	pthread_mutex_unlock(&o->lock);
	return rc ? err_set(e, rc, "out of memory") : 0;
}

/* A round without a byte has no file, and nothing to say. */
static int strand_close(struct outputs *o, struct output *u, struct strand *s, struct err *e)
{
	const uint64_t totals[STRANDS] = {u->strands[0].end, u->strands[1].end};
	struct chunk_of of = u->of;
	int rc;

	if (s->closed || !s->n)
		return 0;
	of.stream = (uint8_t)stream_of(u, s);
	rc = chunk_end(o->dir_fd, &of, &s->chunks[s->n - 1], u->touched_ns, totals, e);
	if (rc)
		return rc;
	output_grew(o, u, s, CHUNK_END_SIZE);
	s->closed = s->dirty = true;
	return 0;
}

/* An end that fails is tried again with the next checkpoint. */
static int output_close(struct outputs *o, struct output *u, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < STRANDS; i++)
		rc = strand_close(o, u, &u->strands[i], e);
	if (rc)
		block_lost(o, 0, e);
	else
		u->state = OUTPUT_ENDED;
	return rc;
}

static int outputs_close_all(struct outputs *o, struct err *e)
{
	struct output *u;
	int rc = 0, one;

	TAILQ_FOREACH(u, &o->list, entry)
	{
		one = u->state == OUTPUT_ENDING ? output_close(o, u, e) : 0;
		rc = rc ? rc : one;
	}
	return rc;
}

/* Nothing comes behind that. */
static void strand_stop(struct outputs *o, struct output *u, struct strand *s, uint64_t total)
{
	strand_flush(o, u, s);
	free(s->pend.p);
	s->pend.p = NULL;
	s->pend.cap = 0;
	if (s->end < total)
		s->end = s->pend.at = total;
}

/* Both streams' bytes are in their files before one of these says how many there are. */
void outputs_end(struct outputs *o, const struct id *round, int64_t wall_ns, const uint64_t totals[STRANDS])
{
	struct output *u = output_find(o, round);
	struct err e = {0};

	if (!u || u->state != OUTPUT_RUNS)
		return;
	pthread_mutex_lock(&o->lock);
	for (size_t i = 0; i < STRANDS; i++)
		strand_stop(o, u, &u->strands[i], totals ? totals[i] : 0);
	output_ended(o, u, wall_ns);
	(void)output_close(o, u, &e);
	pthread_mutex_unlock(&o->lock);
}

void outputs_unended(struct outputs *o, outputs_row *fn, void *arg)
{
	struct output *u;

	TAILQ_FOREACH(u, &o->list, entry)
	if (u->state == OUTPUT_RUNS)
		fn(arg, &u->of, u->is_found ? &u->found : NULL);
}

/* ---- to the disk */

static int sync_name(int dir_fd, const char *name, struct err *e)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), rc = 0;

	if (fd < 0) /* trimmed since */
		return errno == ENOENT ? 0 : err_sys(e, errno, "cannot open output/%s", name);
	rc = file_sync(fd, name, e);
	close(fd);
	return rc;
}

static int strand_sync(struct outputs *o, struct output *u, struct strand *s, struct err *e)
{
	char name[CHUNK_NAME_MAX];
	int rc = 0;

	for (size_t i = s->n; rc == 0 && i-- > 0 && s->chunks[i].number >= s->synced;) {
		chunk_name(&u->of.round, stream_of(u, s), s->chunks[i].number, name);
		rc = sync_name(o->dir_fd, name, e);
	}
	return rc;
}

static void strand_synced(struct strand *s)
{
	s->dirty = false;
	s->synced = s->n ? s->chunks[s->n - 1].number : 0;
}

static size_t dirty_files(struct outputs *o)
{
	const struct output *u;
	size_t n = 0;

	TAILQ_FOREACH(u, &o->list, entry)
	for (size_t i = 0; i < STRANDS; i++)
		n += u->strands[i].dirty;
	return n;
}

/* Readers do not wait for the disk: the lock is not held, and who feeds is here. */
static int sync_files(struct outputs *o, struct err *e)
{
	size_t n = dirty_files(o);
	bool all = n > SYNC_ONE_MAX;
	struct output *u;
	int rc = 0;

	if (all && syncfs(o->dir_fd) != 0)
		return err_sys(e, errno, "cannot sync output");
	TAILQ_FOREACH(u, &o->list, entry)
	for (size_t i = 0; rc == 0 && i < STRANDS; i++) {
		if (!u->strands[i].dirty)
			continue;
		rc = all ? 0 : strand_sync(o, u, &u->strands[i], e);
		if (rc == 0)
			strand_synced(&u->strands[i]);
	}
	if (rc == 0 && n && fsync(o->dir_fd) != 0)
		rc = err_sys(e, errno, "cannot sync output");
	return rc;
}

int outputs_checkpoint(struct outputs *o, struct err *e)
{
	struct err unsynced = {0};
	int rc, synced;

	pthread_mutex_lock(&o->lock);
	flush_all(o);
	rc = outputs_close_all(o, e);
	pthread_mutex_unlock(&o->lock);
	synced = sync_files(o, rc ? &unsynced : e);
	return rc ? rc : synced;
}
