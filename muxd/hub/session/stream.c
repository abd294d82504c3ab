#include "muxd/hub/session/stream.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

#define STREAM_RING_MIN 512 /* a prompt and a few keys: most sessions are idle */

void stream_init(struct stream *s, uint64_t offset)
{
	memset(s, 0, sizeof(*s));
	s->start = s->end = s->visible = offset;
}

void stream_finish(struct stream *s)
{
	free(s->data);
	free(s->marks);
	s->data = NULL;
	s->marks = NULL;
	s->cap = s->nmarks = 0;
}

static void copy_out(const struct stream *s, uint64_t offset, uint8_t *to, size_t n)
{
	size_t at = (size_t)(offset & (s->cap - 1));
	size_t first = s->cap - at < n ? s->cap - at : n;

	memcpy(to, s->data + at, first);
	memcpy(to + first, s->data, n - first);
}

/* Places are offset modulo cap, so a new size means that every byte moves to its new place. */
static int resize(struct stream *s, size_t cap, uint64_t from)
{
	size_t n = (size_t)(s->end - from), at;
	uint8_t *old, *data = malloc(cap);

	if (!data)
		return ERR_NOMEM;
	at = (size_t)(from & (cap - 1));
	if (n) {
		size_t first = cap - at < n ? cap - at : n;

		copy_out(s, from, data + at, first);
		copy_out(s, from + first, data, n - first);
	}
	old = s->data;
	s->data = data;
	s->cap = cap;
	s->start = from;
	free(old);
	return 0;
}

static int stream_make_room(struct stream *s, size_t n)
{
	size_t want = (size_t)(s->end - s->start) + n;
	size_t cap = s->cap ? s->cap : STREAM_RING_MIN;

	while (cap < want && cap < STREAM_RING_MAX)
		cap *= 2;
	return cap == s->cap ? 0 : resize(s, cap, s->start);
}

static void mark(struct stream *s, uint64_t position)
{
	if (s->nmarks == STREAM_MARKS)
		s->nmarks--; /* the newest two become one: a little later, never too early */
	s->marks[s->nmarks++] = (struct stream_mark){.position = position, .offset = s->end};
}

int stream_append(struct stream *s, const uint8_t *p, size_t n, uint64_t position, bool hold)
{
	size_t at, first, keep = n < STREAM_RING_MAX ? n : STREAM_RING_MAX;
	int rc = stream_make_room(s, keep);

	if (!rc && hold && !s->marks && !(s->marks = malloc(STREAM_MARKS * sizeof(*s->marks))))
		rc = ERR_NOMEM;
	if (rc)
		return rc;
	s->end += n;
	p += n - keep;
	at = (size_t)((s->end - keep) & (s->cap - 1));
	first = s->cap - at < keep ? s->cap - at : keep;
	memcpy(s->data + at, p, first);
	memcpy(s->data, p + first, keep - first);
	if (s->end - s->start > s->cap)
		s->start = s->end - s->cap;
	if (hold)
		mark(s, position);
	else
		s->visible = s->end;
	return 0;
}

size_t stream_peek(const struct stream *s, uint64_t offset, const uint8_t **out_p)
{
	size_t at, n;

	if (offset < s->start || offset >= s->visible)
		return 0;
	at = (size_t)(offset & (s->cap - 1));
	n = (size_t)(s->visible - offset);
	*out_p = s->data + at;
	return s->cap - at < n ? s->cap - at : n;
}

bool stream_release(struct stream *s, uint64_t durable)
{
	uint64_t before = s->visible;
	unsigned i = 0;

	while (i < s->nmarks && s->marks[i].position <= durable)
		s->visible = s->marks[i++].offset;
	if (i)
		memmove(s->marks, s->marks + i, (s->nmarks - i) * sizeof(s->marks[0]));
	s->nmarks -= i;
	return s->visible != before;
}

void stream_shrink(struct stream *s, size_t keep)
{
	uint64_t have = s->end - s->start, from;
	size_t cap = STREAM_RING_MIN;

	from = have > keep ? s->end - keep : s->start;
	while (cap < s->end - from)
		cap *= 2;
	if (s->data && cap < s->cap)
		(void)resize(s, cap, from); /* without memory for the smaller one the larger one stays */
}
