#include "muxd/monitor/tally.h"

#include "base/err.h"
#include "base/list.h"
#include "base/text.h"

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

/* ERR_NOMEM. */
static int source_of(struct tally *t, const char *of, size_t *out)
{
	struct tally_source fresh = {.n = 0};
	size_t i = 0;
	int rc;

	text_put(fresh.name, sizeof(fresh.name), of);
	while (i < t->nsources && strcmp(t->sources[i].name, fresh.name) != 0)
		i++;
	rc = i < t->nsources ? 0 : list_append(&t->sources, &t->nsources, &fresh, sizeof(fresh));
	if (rc == 0)
		*out = i;
	return rc;
}

bool tally_is_full(const struct tally *t, const struct id *id, const char *of, size_t share)
{
	size_t n = 0;

	for (size_t i = 0; i < t->nsources; i++)
		if (strcmp(t->sources[i].name, of) == 0)
			n = t->sources[i].n;
	return n >= share && !tally_count(t, id);
}

static void entry_join(struct tally_entry *to, const struct tally_entry *more)
{
	to->n += more->n;
	if (more->until_ns > to->until_ns)
		to->until_ns = more->until_ns;
}

static int entry_put(struct tally *t, size_t at, const struct tally_entry *fresh)
{
	int rc = list_insert(&t->list, &t->n, at, fresh, sizeof(*fresh));

	if (rc == 0)
		t->sources[fresh->of].n++;
	return rc;
}

int tally_add(struct tally *t, const struct id *id, const char *of, int64_t until_ns, int64_t more)
{
	struct tally_entry fresh = {*id, until_ns, more, 0};
	size_t at = tally_at(t, id);
	int rc;

	if (at < t->n && id_equal(&t->list[at].id, id)) {
		entry_join(&t->list[at], &fresh);
		return 0;
	}
	rc = source_of(t, of, &fresh.of);
	return rc ? rc : entry_put(t, at, &fresh);
}

void tally_extend(struct tally *t, const struct id *id, int64_t until_ns)
{
	size_t at = tally_at(t, id);

	if (at < t->n && id_equal(&t->list[at].id, id) && until_ns > t->list[at].until_ns)
		t->list[at].until_ns = until_ns;
}

int tally_gather(struct tally *t, const struct id *id, const char *of, int64_t until_ns, int64_t more)
{
	struct tally_entry fresh = {*id, until_ns, more, 0};
	int rc = source_of(t, of, &fresh.of);

	return rc ? rc : entry_put(t, t->n, &fresh);
}

static int by_id(const void *a, const void *b)
{
	return memcmp(((const struct tally_entry *)a)->id.b, ((const struct tally_entry *)b)->id.b,
		      sizeof(((const struct tally_entry *)a)->id.b));
}

size_t tally_settle(struct tally *t)
{
	size_t kept = 0, joined;

	if (t->n)
		qsort(t->list, t->n, sizeof(t->list[0]), by_id);
	for (size_t i = 0; i < t->n; i++) {
		if (kept && id_equal(&t->list[kept - 1].id, &t->list[i].id)) {
			t->sources[t->list[i].of].n--;
			entry_join(&t->list[kept - 1], &t->list[i]);
		} else {
			t->list[kept++] = t->list[i];
		}
	}
	joined = t->n - kept;
	t->n = kept;
	return joined;
}

size_t tally_expire(struct tally *t, int64_t now_ns)
{
	size_t kept = 0, gone;

	for (size_t i = 0; i < t->n; i++) {
		if (t->list[i].until_ns > now_ns)
			t->list[kept++] = t->list[i];
		else
			t->sources[t->list[i].of].n--;
	}
	gone = t->n - kept;
	t->n = kept;
	return gone;
}

void tally_finish(struct tally *t)
{
	free(t->list);
	free(t->sources);
	*t = (struct tally){0};
}
