#include "recorder/chain/succession.h"

#include "base/err.h"
#include "base/list.h"
#include "recorder/chain/sign.h"

#include <stdlib.h>
#include <string.h>

void succession_begin(struct succession *s, const struct grant_keyset *given)
{
	*s = (struct succession){.given = given, .in_force = -1};
}

void succession_finish(struct succession *s)
{
	free(s->keys);
	free(s->runs);
	*s = (struct succession){.in_force = -1};
}

static bool given(const struct succession *s, const struct grant_public_key *key)
{
	const struct grant_public_key *k = keyset_find(s->given, key->kid);

	return k && memcmp(k->key, key->key, GRANT_KEY_LEN) == 0;
}

static long succession_find(const struct succession *s, const char kid[16])
{
	for (size_t i = 0; i < s->n; i++)
		if (memcmp(s->keys[i].key.kid, kid, 16) == 0)
			return (long)i;
	return -1;
}

static int succession_add(struct succession *s, const struct grant_public_key *key, long *out)
{
	struct succession_key k = {.key = *key, .given = given(s, key), .run = -1};

	if (s->n >= RECORD_KEYS_MAX)
		return ERR_LIMIT;
	if (list_append(&s->keys, &s->n, &k, sizeof k))
		return ERR_NOMEM;
	*out = (long)s->n - 1;
	return 0;
}

static int begin_run(struct succession *s, uint64_t from)
{
	return list_append(&s->runs, &s->runs_n, &(struct succession_run){.from = from}, sizeof *s->runs);
}

int succession_announce(struct succession *s, const struct grant_public_key *key, uint64_t seq)
{
	long at = succession_find(s, key->kid);
	int rc = at < 0 ? succession_add(s, key, &at) : 0;

	if (rc)
		return rc;
	if (!s->keys[at].first)
		s->keys[at].first = seq;
	if (s->in_force < 0) { /* the first key of a log vouches for what stands in front of it */
		rc = begin_run(s, 1);
		s->in_force = rc ? -1 : at;
	} else if (at != s->in_force && !s->keys[at].announced) {
		s->keys[at].announced = seq;
	}
	return rc;
}

static int succession_turn(struct succession *s, long at, uint64_t seq, enum succession_step *out)
{
	struct succession_key *k = &s->keys[at];
	int rc = 0;

	*out = SUCCESSION_GOES_ON;
	if (at == s->in_force)
		return 0;
	if (s->in_force < 0) {
		rc = begin_run(s, 1);
	} else if (k->promised) {
		*out = SUCCESSION_TURN;
	} else {
		*out = SUCCESSION_FOREIGN;
		rc = begin_run(s, k->announced ? k->announced : seq);
	}
	if (rc)
		return rc;
	k->announced = 0;
	k->promised = false;
	s->in_force = at;
	return 0;
}

/* What was announced in front of this head is promised by it. */
static void promise(struct succession *s, const struct chain_head *h)
{
	for (size_t i = 0; i < s->n; i++) {
		struct succession_key *k = &s->keys[i];

		if (!k->announced || k->promised || k->announced > h->seq)
			continue;
		k->promised = true;
		if (k->head)
			continue;
		k->head = h->seq + 1;
		k->head_wall_ns = h->wall_ns;
		memcpy(k->head_kid, h->kid, sizeof k->head_kid);
	}
}

int succession_head(struct succession *s, const struct chain_head *h, enum succession_step *out)
{
	long at = succession_find(s, h->kid);
	const struct grant_public_key *key = at >= 0 ? &s->keys[at].key : keyset_find(s->given, h->kid);
	enum succession_step step;
	int rc;

	if (!key)
		return ERR_NOT_FOUND;
	rc = chain_head_verify(h, &(struct grant_keyset){(struct grant_public_key *)key, 1});
	if (!rc && at < 0)
		rc = succession_add(s, key, &at);
	if (!rc)
		rc = succession_turn(s, at, h->seq + 1, &step);
	if (rc)
		return rc;
	struct succession_run *run = &s->runs[s->runs_n - 1];
	struct succession_key *k = &s->keys[at];
	run->trusted = run->trusted || succession_trusts(s, k);
	k->run = (long)s->runs_n - 1;
	run->to = h->seq + 1;
	promise(s, h);
	*out = step;
	return 0;
}

const struct succession_key *succession_in_force(const struct succession *s)
{
	return s->in_force < 0 ? NULL : &s->keys[s->in_force];
}

const struct succession_run *succession_run(const struct succession *s)
{
	return s->runs_n ? &s->runs[s->runs_n - 1] : NULL;
}

bool succession_trusts(const struct succession *s, const struct succession_key *k)
{
	return k->given || (k->run >= 0 && s->runs[k->run].trusted);
}

bool succession_vouches(const struct succession *s, uint64_t seq)
{
	for (size_t i = 0; i < s->runs_n; i++)
		if (s->runs[i].trusted && seq >= s->runs[i].from && seq <= s->runs[i].to)
			return true;
	return false;
}
