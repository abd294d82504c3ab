#include "muxd/monitor/tally.h"

#include "base/err.h"
#include "base/list.h"

#include <stdlib.h>
#include <string.h>

static size_t tally_at(const struct tally *t, const struct id *id)
{
	size_t lo = 0, hi = t->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (memcmp(t->list[mid].id.b, id->b, sizeof(id->b)) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int64_t tally_count(const struct tally *t, const struct id *id)
{
	size_t at = tally_at(t, id);

	return at < t->n && id_equal(&t->list[at].id, id) ? t->list[at].n : 0;
}

int tally_add(struct tally *t, const struct id *id, int64_t until_ns, int64_t more)
{
	const struct tally_entry fresh = {*id, until_ns, more};
	size_t at = tally_at(t, id);

	if (at == t->n || !id_equal(&t->list[at].id, id))
		return t->n < TALLY_MAX ? list_insert(&t->list, &t->n, at, &fresh, sizeof(fresh)) : ERR_LIMIT;
	t->list[at].n += more;
	if (until_ns > t->list[at].until_ns)
		t->list[at].until_ns = until_ns;
	return 0;
}

/* Made anew: list_insert() finds the end of its room by the number of entries. */
size_t tally_expire(struct tally *t, int64_t now_ns)
{
	struct tally kept = {0};
	size_t gone;

	for (size_t i = 0; i < t->n; i++)
		if (t->list[i].until_ns > now_ns &&
		    list_insert(&kept.list, &kept.n, kept.n, &t->list[i], sizeof(t->list[i]))) {
			tally_finish(&kept);
			return 0; /* no memory now: they are dropped later */
		}
	gone = t->n - kept.n;
	tally_finish(t);
	*t = kept;
	return gone;
}

void tally_finish(struct tally *t)
{
	free(t->list);
	*t = (struct tally){0};
}
