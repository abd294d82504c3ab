#include "policy/grant_shared.h"

#include <stdlib.h>
#include <uthash.h>

/* Found by all its bytes: two that differ in one of them, if only behind the end of a text, are two. */
struct grant_shared {
	struct grant grant;
	size_t holders;
	UT_hash_handle hh;
};

const struct grant *grant_share(struct grants_shared *s, const struct grant *g)
{
	struct grant_shared *one;

	HASH_FIND(hh, s->all, g, sizeof(*g), one);
	if (!one) {
		one = calloc(1, sizeof(*one));
		if (!one)
			return NULL;
		memcpy(&one->grant, g, sizeof(*g));
		HASH_ADD(hh, s->all, grant, sizeof(one->grant), one);
	}
	one->holders++;
	return &one->grant;
}

void grant_unshare(struct grants_shared *s, const struct grant *g)
{
	struct grant_shared *one;

	if (!g)
		return;
	HASH_FIND(hh, s->all, g, sizeof(*g), one);
	if (!one || --one->holders)
		return;
	HASH_DEL(s->all, one);
	free(one);
}
