// tier: check
/*
 * Entries of another log, from anybody, and what this log says of a batch of them. Entries are whole and in order, or
 * none is taken; what is said of a batch comes out as it went in.
 */
#include "base/err.h"
#include "recorder/chain/merged.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int count(void *arg, const struct chain_entry *en)
{
	uint64_t *last = arg;

	if (en->seq != *last + 1)
		abort();
	*last = en->seq;
	return 0;
}

static void entries(const uint8_t *data, size_t size)
{
	static const struct id log_id = {{1}};
	struct grant_public_key key = {.kid = "0000000000000000"};
	const struct grant_keyset keys = {&key, 1};
	struct merged_place at, before;
	struct err e = {0};
	uint64_t last = 0;
	int rc;

	merged_begin(&log_id, &at);
	before = at;
	rc = merged_walk(&at, data, size, NULL, count, &last, &e);
	if (rc ? memcmp(&at, &before, sizeof at) != 0 || e.code != rc : at.seq != last || at.size != size)
		abort();
	(void)merged_walk(&before, data, size, &keys, NULL, NULL, &e);
}

static void batch(const uint8_t *data, size_t size)
{
	const struct chain_entry en = {.type = CHAIN_MERGED, .payload = data, .len = size};
	struct merged_batch b, again;
	struct chain_entry copy = en;
	json_t *o;
	char *text;

	if (merged_of(&en, &b))
		return;
	o = merged_json(&b);
	text = o ? json_text(o) : NULL;
	if (!text)
		abort();
	copy.payload = (const uint8_t *)text;
	copy.len = strlen(text);
	if (merged_of(&copy, &again) || memcmp(&b.to, &again.to, sizeof b.to) != 0 ||
	    memcmp(b.signature, again.signature, sizeof b.signature) != 0)
		abort();
	json_decref(o);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	entries(data, size);
	batch(data, size);
	return 0;
}
