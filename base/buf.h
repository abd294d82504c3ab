/*
 * buf.h - a bounded byte buffer: append at the end, consume at the front.
 *
 * Owned by whoever initialised it; not thread-safe. It never grows past `max`,
 * so peer-sized data cannot grow the process. Failure leaves it as it was.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

struct buf {
	uint8_t *data; /* allocation; NULL until first use */
	size_t off;    /* first unread byte */
	size_t len;    /* unread bytes from off */
	size_t cap;    /* allocated */
	size_t max;    /* hard limit for len */
};

void buf_init(struct buf *b, size_t max);
void buf_finish(struct buf *b);        /* NULL-safe; wipes nothing */
void buf_finish_secret(struct buf *b); /* the same, overwritten first */
static inline const uint8_t *buf_ptr(const struct buf *b)
{
	return b->data ? b->data + b->off : NULL;
}
static inline size_t buf_len(const struct buf *b)
{
	return b->len;
}
static inline size_t buf_room(const struct buf *b)
{
	return b->max - b->len;
}

/* ERR_TOO_LARGE past max, ERR_NOMEM. */
int buf_append(struct buf *b, const void *p, size_t n);
int buf_append_str(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Room for n more bytes; *out_p stays valid until the next call on b; then buf_commit() what was written. */
int buf_reserve(struct buf *b, size_t n, uint8_t **out_p);
void buf_commit(struct buf *b, size_t n);
void buf_consume(struct buf *b, size_t n); /* n <= len */
void buf_clear(struct buf *b);
void buf_truncate(struct buf *b, size_t n); /* to its first n bytes, n <= len */
/* NUL-terminated view of the content (the NUL is not counted). NULL when out of memory. */
const char *buf_cstr(struct buf *b);

#endif
