#include "muxd/hub/record/trail.h"

#include "base/err.h"
#include "muxd/hub/core/journal.h"

#include <stdlib.h>

#define TRAIL_MIN 4 /* most rounds print little */

static struct trail_mark *trail_mark(const struct trail *t, uint32_t i)
{
	return &t->marks[(t->first + i) & (t->cap - 1)];
}

static int trail_grow(struct trail *t)
{
	uint32_t cap = t->cap ? 2 * t->cap : TRAIL_MIN;
	struct trail_mark *marks = malloc(cap * sizeof(*marks));

	if (!marks)
		return ERR_NOMEM;
	for (uint32_t i = 0; i < t->n; i++)
		marks[i] = *trail_mark(t, i);
	free(t->marks);
	t->marks = marks;
	t->cap = cap;
	t->first = 0;
	return 0;
}

void trail_add(struct trail *t, uint64_t offset, uint64_t at)
{
	if (t->n == t->cap && (t->cap == TRAIL_MARKS || trail_grow(t))) {
		if (!t->n)
			return;
		t->first++;
		t->n--;
	}
	*trail_mark(t, t->n++) = (struct trail_mark){.offset = offset, .at = at};
}

void trail_finish(struct trail *t)
{
	free(t->marks);
	*t = (struct trail){0};
}

size_t trail_held(const struct trail *t)
{
	return t->cap * sizeof(*t->marks);
}

/* How many begin at the offset or before it: the last of these holds it. */
static uint32_t trail_count(const struct trail *t, uint64_t offset)
{
	uint32_t low = 0, high = t->n;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (trail_mark(t, mid)->offset <= offset)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

ssize_t trail_read(const struct trail *t, const struct journal *j, const struct id *session, int stream,
		   uint64_t offset, uint64_t until, uint8_t *to, size_t max)
{
	struct journal_data d = {.session = *session, .stream = stream};
	uint32_t i = trail_count(t, offset);
	size_t done = 0;

	if (i-- == 0)
		return ERR_NOT_FOUND;
	for (; i < t->n && trail_mark(t, i)->at < until; i++) {
		ssize_t n;

		d.offset = trail_mark(t, i)->offset;
		n = journal_recall(j, trail_mark(t, i)->at, &d, (size_t)(offset + done - d.offset), to + done,
				   max - done);
		if (n < 0)
			return done ? (ssize_t)done : n;
		done += (size_t)n;
		if (done == max)
			break;
	}
	return (ssize_t)done;
}
