// tier: check, slice EVERY=4
/* Verification of one recording: what is whole verifies, and whatever is changed or taken away is named with its place.
 */
#include "tests/lib/verify_rig.h"

static void what_is_whole_verifies(void **state)
{
	struct record *r = *state;
	struct chain_seal seal;
	struct seen s = {0};
	char path[256];

	build_small(r, 1, NULL, &seal);
	record_path(r, &seal, path);
	struct verify_result v = check(r, path, &s);
	assert_string_equal(s.codes, "");
	assert_true(v.sealed && v.signature_checked);
	assert_int_equal(v.blocks, 4);
	assert_int_equal(v.events, 10);
	assert_memory_equal(v.leaf, seal.leaf, sizeof v.leaf);
	assert_int_equal(v.streams[STREAM_INPUT].total, 4);
}

/* Every bit of the file, header, salt, blocks, hashes, index, footer and signature alike. */
static void every_flipped_bit_is_named_with_its_place(void **state)
{
	struct record *r = *state;
	size_t every = every_given();
	struct chain_seal seal;
	char path[256];
	size_t n;
	uint8_t *all;

	build_small(r, 1, NULL, &seal);
	record_path(r, &seal, path);
	all = file_slurp(path, &n);
	for (size_t at = any_below(every); at < n; at += every) {
		for (int bit = 0; bit < 8; bit++) {
			struct seen s = {.at = at};
			all[at] ^= (uint8_t)(1 << bit);
			file_spill(path, all, n);
			check(r, path, &s);
			if (!s.integrity || !s.placed)
				fail_msg("byte %zu bit %d: %u findings:%s", at, bit, s.integrity, s.codes);
			all[at] ^= (uint8_t)(1 << bit);
		}
	}
	free(all);
}

/* A long recording, a sample of places. */
static void a_flipped_byte_in_a_long_one_is_one_block(void **state)
{
	struct record *r = *state;
	struct id id = record_id(1);
	struct builder *b = record_open(r, &id, "terminal", NULL);
	static uint8_t data[50000];
	struct chain_seal seal;
	char path[256];
	size_t n;
	uint8_t *all;

	srand(3);
	for (int i = 0; i < 40; i++) {
		for (size_t k = 0; k < sizeof data; k++)
			data[k] = (uint8_t)(k % 3 ? rand() : 'x');
		record_data(r, b, STREAM_OUTPUT, data, sizeof data);
	}
	record_exit(r, b, 0);
	record_seal(r, b, NULL, &seal);
	record_path(r, &seal, path);
	all = file_slurp(path, &n);
	for (size_t at = 1000; at + 5000 < n; at += n / 40) {
		struct seen s = {.at = at};
		all[at] ^= 4;
		file_spill(path, all, n);
		check(r, path, &s);
		assert_true(s.placed);
		assert_int_equal(s.integrity, 1);
		assert_string_equal(s.codes, " block_changed");
		all[at] ^= 4;
	}
	free(all);
}

/* Places of the blocks, from a reader that knows nothing of verify. */
static size_t block_places(const uint8_t *p, size_t n, size_t places[16])
{
	size_t count = 0;

	for (size_t i = 0; i + 4 < n && count < 16; i++)
		if (memcmp(p + i, "MBLK", 4) == 0)
			places[count++] = i;
	return count;
}

static void a_deleted_block_is_named(void **state)
{
	struct record *r = *state;
	struct chain_seal seal;
	char path[256], want[64];
	size_t n, places[16] = {0}, count;
	uint8_t *all, *less;

	build_small(r, 1, NULL, &seal);
	record_path(r, &seal, path);
	all = file_slurp(path, &n);
	less = malloc(n);
	count = block_places(all, n, places);
	assert_int_equal(count, 5); /* four, and the index */
	for (size_t i = 0; i + 1 < count; i++) {
		struct seen s = {0};
		size_t gone = places[i + 1] - places[i];
		memcpy(less, all, places[i]);
		memcpy(less + places[i], all + places[i + 1], n - places[i + 1]);
		file_spill(path, less, n - gone);
		struct verify_result v = check(r, path, &s);
		snprintf(want, sizeof want, " block_missing");
		assert_non_null(strstr(s.codes, want));
		assert_false(v.intact);
		assert_false(v.complete);
	}
	/* Two blocks in another order. */
	size_t a = places[1] - places[0], b = places[2] - places[1];
	memcpy(less, all, n);
	memcpy(less + places[0], all + places[1], b);
	memcpy(less + places[0] + b, all + places[0], a);
	file_spill(path, less, n);
	struct seen s = {0};
	assert_false(check(r, path, &s).intact);
	free(less);
	free(all);
}

static void a_cut_tail_is_named_at_every_length(void **state)
{
	struct record *r = *state;
	struct chain_seal seal;
	char path[256];
	size_t n;
	uint8_t *all;

	build_small(r, 1, NULL, &seal);
	record_path(r, &seal, path);
	all = file_slurp(path, &n);
	for (size_t cut = 0; cut < n; cut++) {
		struct seen s = {0};
		file_spill(path, all, cut);
		struct verify_result v = check(r, path, &s);
		assert_false(v.intact);
	}
	/* And something at the end that was not there. */
	struct seen s = {0};
	uint8_t *more = calloc(1, n + 100);
	memcpy(more, all, n);
	file_spill(path, more, n + 100);
	assert_false(check(r, path, &s).intact);
	free(more);
	free(all);
}

static void another_key_does_not_vouch(void **state)
{
	struct record *r = *state;
	struct grant_public_key other;
	struct grant_keyset keys = {&other, 1};
	uint8_t seed[GRANT_KEY_LEN] = {9};
	struct verify_result v;
	struct chain_seal seal;
	struct seen s = {0};
	struct err e = {0};
	char path[256];

	build_small(r, 1, NULL, &seal);
	record_path(r, &seal, path);
	assert_int_equal(grant_key_public(seed, &other), 0);
	need(verify_recording(path, &keys, true, sink, &s, &v, &e), &e, "verify");
	assert_false(v.intact || v.signature_checked);
	assert_string_equal(s.codes, " key_unknown");
	/* The right name on the wrong key. */
	memcpy(other.kid, r->key.kid, sizeof other.kid);
	s = (struct seen){0};
	need(verify_recording(path, &keys, true, sink, &s, &v, &e), &e, "verify");
	assert_string_equal(s.codes, " footer_changed");
}

static void what_is_missing_is_not_called_changed(void **state)
{
	struct record *r = *state;
	struct id id = record_id(1);
	struct builder *b = record_open(r, &id, "terminal", NULL);
	struct ring_record rec = record_make(r, &id, RING_DATA, "tail", 4);
	struct chain_seal seal;
	struct seen s = {0};
	char path[256];

	rec.stream = STREAM_OUTPUT;
	rec.offset = 10; /* ten bytes that the journal never had */
	record_put(b, &rec);
	record_seal(r, b, NULL, &seal); /* and no exit */
	record_path(r, &seal, path);
	struct verify_result v = check(r, path, &s);
	assert_true(v.intact);
	assert_false(v.complete);
	assert_string_equal(s.codes, " bytes_lost no_exit");

	/* The hub counted more at the exit than the journal holds. */
	id = record_id(2);
	b = record_open(r, &id, "terminal", NULL);
	record_text(r, b, STREAM_OUTPUT, "abc");
	record_json(r, b, RING_EXIT, "{\"cause\":\"exit\",\"code\":0,\"totals\":[0,5,0]}");
	record_seal(r, b, NULL, &seal);
	record_path(r, &seal, path);
	s = (struct seen){0};
	v = check(r, path, &s);
	assert_true(v.intact);
	assert_string_equal(s.codes, " bytes_lost");
}

static void left_out_by_rule_is_neither(void **state)
{
	struct record *r = *state;
	struct trunc_rule rule = {.kind = RULE_TRUNCATED, .head = 10, .tail = 10};
	struct id id = record_id(1);
	struct builder *b = record_open(r, &id, "round", &rule);
	static uint8_t data[5000];
	struct chain_seal seal;
	struct seen s = {0};
	char path[256];

	record_data(r, b, STREAM_OUTPUT, data, sizeof data);
	record_exit(r, b, 0);
	record_seal(r, b, NULL, &seal);
	record_path(r, &seal, path);
	struct verify_result v = check(r, path, &s);
	assert_string_equal(s.codes, "");
	assert_int_equal(v.streams[STREAM_OUTPUT].total, 5000);
	assert_int_equal(v.streams[STREAM_OUTPUT].omitted, 4980);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    VERIFY_TEST(what_is_whole_verifies),
	    VERIFY_TEST(every_flipped_bit_is_named_with_its_place),
	    VERIFY_TEST(a_flipped_byte_in_a_long_one_is_one_block),
	    VERIFY_TEST(a_deleted_block_is_named),
	    VERIFY_TEST(a_cut_tail_is_named_at_every_length),
	    VERIFY_TEST(another_key_does_not_vouch),
	    VERIFY_TEST(what_is_missing_is_not_called_changed),
	    VERIFY_TEST(left_out_by_rule_is_neither),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
