#include "muxd/muxlet/spool.h"

#include <stdlib.h>
#include <string.h>

struct chunk {
	struct chunk *next;
	size_t len; /* bytes filled */
	uint8_t data[SPOOL_CHUNK];
};

static struct chunk *chunk_get(struct pool *p)
{
	struct chunk *c = p->free;

	if (c) {
		p->free = c->next;
		p->nfree--;
	} else {
		c = malloc(sizeof(*c));
	}
	if (!c)
		return NULL;
	p->used++;
	c->next = NULL;
	c->len = 0;
	return c;
}

static void chunk_put(struct pool *p, struct chunk *c)
{
	p->used--;
	if (p->nfree >= (p->limit ? SPOOL_POOL_CACHE / 8 : SPOOL_POOL_CACHE)) {
		free(c);
		return;
	}
	c->next = p->free;
	p->free = c;
	p->nfree++;
}

void pool_limit(struct pool *p, uint64_t bytes)
{
	if (bytes < SPOOL_POOL_MAX)
		p->limit = (size_t)bytes / SPOOL_CHUNK + 1;
}

void pool_finish(struct pool *p)
{
	while (p->free) {
		struct chunk *c = p->free;

		p->free = c->next;
		free(c);
	}
	p->nfree = 0;
}

void spool_init(struct spool *s, struct pool *p)
{
	memset(s, 0, sizeof(*s));
	s->pool = p;
}

void spool_drop(struct spool *s)
{
	while (s->head) {
		struct chunk *c = s->head;

		s->head = c->next;
		chunk_put(s->pool, c);
	}
	s->tail = s->at = NULL;
	s->chunks = 0;
	s->start = s->base = s->sent = s->at_start = s->end;
}

void spool_finish(struct spool *s)
{
	if (s->pool)
		spool_drop(s);
}

/* How many more chunks it may take: its own limit, the pool's, and the one that is always granted. */
static size_t chunks_left(const struct spool *s)
{
	size_t own = s->chunks < SPOOL_MAX / SPOOL_CHUNK ? SPOOL_MAX / SPOOL_CHUNK - s->chunks : 0;
	size_t most = s->pool->limit ? s->pool->limit : SPOOL_POOL_MAX / SPOOL_CHUNK;
	size_t all = s->pool->used < most ? most - s->pool->used : 0;

	if (all == 0 && s->chunks == 0)
		return 1;
	return own < all ? own : all;
}

static size_t tail_room(const struct spool *s)
{
	return s->tail ? SPOOL_CHUNK - s->tail->len : 0;
}

size_t spool_room(const struct spool *s)
{
	return tail_room(s) + chunks_left(s) * SPOOL_CHUNK;
}

static struct chunk *append_chunk(struct spool *s)
{
	struct chunk *c = chunks_left(s) ? chunk_get(s->pool) : NULL;

	if (!c)
		return NULL;
	if (s->tail)
		s->tail->next = c;
	else
		s->head = c;
	s->chunks++;
	return c;
}

/* A second chunk is linked behind tail and stays empty until spool_commit() fills it. */
int spool_reserve(struct spool *s, size_t want, struct iovec iov[2])
{
	struct chunk *spare;
	size_t room;
	int n = 0;

	if (!s->tail) {
		s->tail = append_chunk(s);
		if (!s->tail)
			return 0;
		s->start = s->end;
	}
	room = tail_room(s);
	if (room) {
		iov[n].iov_base = s->tail->data + s->tail->len;
		iov[n++].iov_len = room < want ? room : want;
	}
	if (room >= want)
		return n;
	spare = s->tail->next ? s->tail->next : append_chunk(s);
	if (spare) {
		iov[n].iov_base = spare->data;
		iov[n++].iov_len = want - room < SPOOL_CHUNK ? want - room : SPOOL_CHUNK;
	}
	return n;
}

void spool_commit(struct spool *s, size_t n)
{
	size_t room = tail_room(s), here = n < room ? n : room;

	if (!n) {
		if (s->base == s->end)
			spool_drop(s); /* nothing came: the chunk is somebody else's to use */
		return;
	}
	s->tail->len += here;
	s->end += n;
	if (n > here) {
		s->tail = s->tail->next;
		s->tail->len = n - here;
	}
}

/* Behind the tail, or the empty one that is linked there already. */
static struct chunk *next_chunk(struct spool *s)
{
	struct chunk *c = s->tail && s->tail->next ? s->tail->next : chunk_get(s->pool);

	if (!c || (s->tail && s->tail->next))
		return c;
	if (s->tail) {
		s->tail->next = c;
	} else {
		s->head = c;
		s->start = s->end;
	}
	s->chunks++;
	return c;
}

int spool_append(struct spool *s, const void *p, size_t n)
{
	const uint8_t *from = p;

	while (n) {
		size_t here;

		if (!tail_room(s)) {
			struct chunk *c = next_chunk(s);

			if (!c)
				return -1;
			s->tail = c;
		}
		here = n < tail_room(s) ? n : tail_room(s);
		memcpy(s->tail->data + s->tail->len, from, here);
		s->tail->len += here;
		s->end += here;
		from += here;
		n -= here;
	}
	return 0;
}

size_t spool_peek(struct spool *s, size_t max, const uint8_t **out_p)
{
	size_t at, left;

	if (s->sent == s->end)
		return 0;
	if (!s->at) {
		s->at = s->head;
		s->at_start = s->start;
	}
	while (s->sent - s->at_start >= s->at->len) {
		s->at_start += s->at->len;
		s->at = s->at->next;
	}
	at = (size_t)(s->sent - s->at_start);
	left = s->at->len - at;
	*out_p = s->at->data + at;
	return left < max ? left : max;
}

void spool_advance(struct spool *s, size_t n)
{
	s->sent += n;
}

/* A chunk goes when all its bytes are acknowledged and nothing can be added to it, or nothing is left at all. */
static void free_front(struct spool *s)
{
	while (s->head && s->head != s->tail && s->base >= s->start + s->head->len) {
		struct chunk *c = s->head;

		s->head = c->next;
		s->start += c->len;
		s->chunks--;
		if (s->at == c)
			s->at = NULL;
		chunk_put(s->pool, c);
	}
	if (s->base == s->end && s->sent == s->end)
		spool_drop(s);
}

int spool_ack(struct spool *s, uint64_t offset)
{
	if (offset < s->base)
		return 0; /* said before */
	if (offset > s->sent)
		return -1;
	s->base = offset;
	free_front(s);
	return 0;
}

int spool_seek(struct spool *s, uint64_t offset)
{
	if (offset < s->base || offset > s->end)
		return -1;
	s->sent = offset;
	s->at = NULL;
	return spool_ack(s, offset);
}
