/*
 * spool.h - output of one stream from the moment it is read until it is acknowledged.
 *
 * A list of 64 KiB chunks that programs' output is read into and that frames
 * are written from, without a copy between. Chunks come from a pool with a
 * limit over all spools; each spool may hold one chunk beyond it, so that no
 * channel starves, and one piece that was being read (pipes.h) when the limit
 * was met: those bytes are in memory wherever they stand. Owned by a channel's output.
 *
 *   start <= base (acknowledged) <= sent <= end, all absolute offsets
 */
#ifndef MUXD_MUXLET_SPOOL_H
#define MUXD_MUXLET_SPOOL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define SPOOL_CHUNK      (64 * 1024)
#define SPOOL_MAX        (4 * 1024 * 1024)  /* per spool: LINK_SPOOL_MAX */
#define SPOOL_POOL_MAX   (64 * 1024 * 1024) /* over all spools, but for a chunk of each, and what is just read of it */
#define SPOOL_POOL_CACHE 32                 /* free chunks kept at hand */

struct chunk;

struct pool {
	struct chunk *free;
	size_t nfree, used;
	size_t limit; /* in chunks; 0: SPOOL_POOL_MAX; else fewer free ones are kept at hand, too */
};

struct spool {
	struct pool *pool;
	struct chunk *head, *tail, *at; /* at: holds `sent`, or NULL when that is the end of tail */
	size_t chunks;
	uint64_t start;    /* offset of head's first byte */
	uint64_t base;     /* first byte not acknowledged */
	uint64_t sent;     /* next byte to send */
	uint64_t at_start; /* offset of at's first byte */
	uint64_t end;      /* produced so far */
};

void pool_finish(struct pool *p);
/* Less than SPOOL_POOL_MAX, in bytes: where muxlet's memory is short as well. */
void pool_limit(struct pool *p, uint64_t bytes);
void spool_init(struct spool *s, struct pool *p);
void spool_finish(struct spool *s);
/* Bytes that may be read into it now, without allocating. */
size_t spool_room(const struct spool *s);
/* Up to want bytes of room as one or two pieces; how many pieces, 0 when full or out of memory. */
int spool_reserve(struct spool *s, size_t want, struct iovec iov[2]);
void spool_commit(struct spool *s, size_t n);
/* What was read already is kept, whatever the limits say: there is at most one such piece a spool. -1: no memory. */
int spool_append(struct spool *s, const void *p, size_t n);
/* Contiguous bytes at `sent` (at most max); 0 when there are none. */
size_t spool_peek(struct spool *s, size_t max, const uint8_t **out_p);
void spool_advance(struct spool *s, size_t n);
/* Frees up to offset; base <= offset <= sent, else -1. */
int spool_ack(struct spool *s, uint64_t offset);
/* The next byte to send is at offset; base <= offset <= end, else -1. */
int spool_seek(struct spool *s, uint64_t offset);
/* Forgets every byte; offsets stay. */
void spool_drop(struct spool *s);

#endif
