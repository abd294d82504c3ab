#include "base/buf.h"

#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUF_FIRST 256

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){.max = max};
}

void buf_finish(struct buf *b)
{
	if (!b)
		return;
	free(b->data);
	*b = (struct buf){.max = b->max};
}

void buf_finish_secret(struct buf *b)
{
	if (b && b->data)
		explicit_bzero(b->data, b->cap);
	buf_finish(b);
}

/*
 * Room for n more after the content, and for the NUL of buf_cstr(). Grown memory
 * is copied and wiped rather than realloc'ed: a buffer does not know if it
 * holds a token, and realloc would leave a copy behind.
 */
static int buf_grow(struct buf *b, size_t n)
{
	if (n > b->max - b->len)
		return ERR_TOO_LARGE;
	size_t need = b->len + n + 1;
	if (need == 0)
		return ERR_TOO_LARGE;
	if (b->data && need <= b->cap - b->off)
		return 0;
	if (b->data && need <= b->cap && b->off >= b->cap / 2) {
		memmove(b->data, b->data + b->off, b->len);
		b->off = 0;
		return 0;
	}
	size_t cap = b->cap ? b->cap : BUF_FIRST;
	while (cap < need)
		cap = cap > SIZE_MAX / 2 ? need : cap * 2;
	uint8_t *data = malloc(cap);
	if (!data)
		return ERR_NOMEM;
	if (b->data) {
		memcpy(data, b->data + b->off, b->len);
		explicit_bzero(b->data + b->off, b->len);
		free(b->data);
	}
	b->data = data;
	b->cap = cap;
	b->off = 0;
	return 0;
}

int buf_reserve(struct buf *b, size_t n, uint8_t **out_p)
{
	int rc = buf_grow(b, n);

	if (rc == 0)
		*out_p = b->data + b->off + b->len;
	return rc;
}

void buf_commit(struct buf *b, size_t n)
{
	b->len += n;
}

int buf_append(struct buf *b, const void *p, size_t n)
{
	uint8_t *to;
	int rc = n ? buf_reserve(b, n, &to) : 0;

	if (rc == 0 && n) {
		memcpy(to, p, n);
		b->len += n;
	}
	return rc;
}

int buf_append_str(struct buf *b, const char *s)
{
	return buf_append(b, s, strlen(s));
}

static int buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;
	uint8_t *to;

	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, ap);
	int rc = n < 0 ? ERR_INVAL : buf_reserve(b, (size_t)n, &to);
	if (rc == 0) {
		vsnprintf((char *)to, (size_t)n + 1, fmt, again); /* bytes: as measured above */
		b->len += (size_t)n;
	}
	va_end(again);
	return rc;
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int rc = buf_vprintf(b, fmt, ap);
	va_end(ap);
	return rc;
}

void buf_consume(struct buf *b, size_t n)
{
	if (n > b->len)
		n = b->len;
	b->off += n;
	b->len -= n;
	if (b->len == 0)
		b->off = 0;
}

void buf_clear(struct buf *b)
{
	b->off = 0;
	b->len = 0;
}

void buf_truncate(struct buf *b, size_t n)
{
	if (n < b->len)
		b->len = n;
	if (b->len == 0)
		b->off = 0;
}

const char *buf_cstr(struct buf *b)
{
	if (buf_grow(b, 0) < 0)
		return NULL;
	b->data[b->off + b->len] = '\0';
	return (const char *)b->data + b->off;
}
