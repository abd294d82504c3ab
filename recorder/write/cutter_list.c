/* The recordings that are being cut, sorted by the ids of their sessions. */
#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "recorder/write/cutter_state.h"

#include <stdlib.h>
#include <string.h>

/* First place whose id is not below `id`. New sessions have the highest ids, so adding is cheap. */
static size_t cut_place(const struct cutter *c, const struct id *id)
{
	size_t lo = 0, hi = c->n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (memcmp(c->sessions[mid]->id.b, id->b, 16) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct cut_session *cut_find(struct cutter *c, const struct id *id)
{
	if (c->last && id_equal(&c->last->id, id))
		return c->last;
	size_t at = cut_place(c, id);
	if (at == c->n || !id_equal(&c->sessions[at]->id, id))
		return NULL;
	return c->last = c->sessions[at];
}

int cut_add(struct cutter *c, const struct id *id, struct builder *b, struct cut_session **out, struct err *e)
{
	struct cut_session *s = calloc(1, sizeof(*s));
	if (!s || list_insert(&c->sessions, &c->n, cut_place(c, id), &s, sizeof(s))) {
		free(s);
		return err_set(e, ERR_NOMEM, "out of memory");
	}
	s->id = *id;
	s->b = b;
	*out = s;
	return 0;
}

void cut_remove(struct cutter *c, struct cut_session *s)
{
	size_t at = cut_place(c, &s->id);
	memmove(c->sessions + at, c->sessions + at + 1, (c->n - at - 1) * sizeof(struct cut_session *));
	c->n--;
	c->last = NULL;
	memory_went(&c->rest, clock_boot_ns());
	builder_destroy(s->b);
	free(s);
}

void cut_clear(struct cutter *c)
{
	for (size_t i = 0; i < c->n; i++) {
		builder_destroy(c->sessions[i]->b);
		free(c->sessions[i]);
	}
	c->n = 0;
	c->last = NULL;
}
