#include "policy/revocation.h"

#include "base/err.h"
#include "base/list.h"

#include <stdlib.h>
#include <string.h>

struct entry {
	struct id grant;
	int64_t expires_ns;
};

/* Sorted by id. Ids sort by creation, so most new entries go near the end. */
struct revocations {
	struct entry *list;
	size_t n;
};

int revocations_create(struct revocations **out)
{
	struct revocations *r = calloc(1, sizeof *r);

	if (!r)
		return ERR_NOMEM;
	*out = r;
	return 0;
}

void revocations_destroy(struct revocations *r)
{
	if (!r)
		return;
	free(r->list);
	free(r);
}

/* Index of the first entry that is not below `grant`. */
static size_t lower_bound(const struct revocations *r, const struct id *grant)
{
	size_t lo = 0, hi = r->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (memcmp(r->list[mid].grant.b, grant->b, sizeof grant->b) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int revocations_add(struct revocations *r, const struct id *grant, int64_t expires_ns)
{
	size_t at = lower_bound(r, grant);

	if (at < r->n && id_equal(&r->list[at].grant, grant)) {
		if (expires_ns > r->list[at].expires_ns)
			r->list[at].expires_ns = expires_ns;
		return 0;
	}
	return list_insert(&r->list, &r->n, at, &(struct entry){*grant, expires_ns}, sizeof *r->list);
}

bool revocations_has(const struct revocations *r, const struct id *grant)
{
	size_t at = lower_bound(r, grant);

	return at < r->n && id_equal(&r->list[at].grant, grant);
}

void revocations_expire(struct revocations *r, int64_t now_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->n; i++) {
		if (r->list[i].expires_ns > now_ns)
			r->list[kept++] = r->list[i];
	}
	r->n = kept;
}

size_t revocations_count(const struct revocations *r)
{
	return r->n;
}
