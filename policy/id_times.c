#include "policy/id_times.h"

#include "base/err.h"
#include "base/list.h"

#include <stdlib.h>
#include <string.h>

struct entry {
	struct id id;
	int64_t until_ns;
};

/* Sorted by id. Ids sort by creation, so most new entries go near the end. */
struct id_times {
	struct entry *list;
	size_t n;
};

int id_times_create(struct id_times **out)
{
	struct id_times *t = calloc(1, sizeof *t);

	if (!t)
		return ERR_NOMEM;
	*out = t;
	return 0;
}

void id_times_destroy(struct id_times *t)
{
	if (!t)
		return;
	free(t->list);
	free(t);
}

/* Index of the first entry that is not below `id`. */
static size_t lower_bound(const struct id_times *t, const struct id *id)
{
	size_t lo = 0, hi = t->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (memcmp(t->list[mid].id.b, id->b, sizeof id->b) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int id_times_add(struct id_times *t, const struct id *id, int64_t until_ns)
{
	size_t at = lower_bound(t, id);

	if (at < t->n && id_equal(&t->list[at].id, id)) {
		if (until_ns > t->list[at].until_ns)
			t->list[at].until_ns = until_ns;
		return 0;
	}
	return list_insert(&t->list, &t->n, at, &(struct entry){*id, until_ns}, sizeof *t->list);
}

bool id_times_has(const struct id_times *t, const struct id *id)
{
	size_t at = lower_bound(t, id);

	return at < t->n && id_equal(&t->list[at].id, id);
}

int64_t id_times_until(const struct id_times *t, const struct id *id)
{
	size_t at = lower_bound(t, id);

	return at < t->n && id_equal(&t->list[at].id, id) ? t->list[at].until_ns : 0;
}

void id_times_expire(struct id_times *t, int64_t now_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->n; i++) {
		if (t->list[i].until_ns > now_ns)
			t->list[kept++] = t->list[i];
	}
	t->n = kept;
}

size_t id_times_count(const struct id_times *t)
{
	return t->n;
}
