/* Verification: what is whole verifies, and whatever is changed or taken away is named with its place. */
#include "tests/lib/recordings.h"

#include "recorder/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct seen {
	unsigned integrity, completeness, notes;
	char codes[4096];  /* " code code ..." */
	uint64_t at;       /* place that should be named */
	bool placed;       /* an integrity finding covers it */
	struct id session; /* should be named */
	bool named;
	unsigned lines; /* recordings reported */
};

static void sink(void *arg, const struct verify_finding *f)
{
	struct seen *s = arg;

	if (f->class == VERIFY_INTEGRITY)
		s->integrity++;
	else if (f->class == VERIFY_COMPLETENESS)
		s->completeness++;
	else
		s->notes++;
	assert_true(f->message[0]);
	if (strlen(s->codes) + strlen(f->code) + 2 < sizeof s->codes)
		strcat(strcat(s->codes, " "), f->code);
	if (f->class == VERIFY_INTEGRITY && s->at >= f->pos && s->at < f->pos + f->len)
		s->placed = true;
	if (id_equal(&f->session, &s->session))
		s->named = true;
}

static void each(void *arg, const char *path, const struct verify_result *r)
{
	struct seen *s = arg;

	(void)path;
	(void)r;
	s->lines++;
}

static int setup(void **state)
{
	static struct record r;

	record_begin(&r, 7);
	*state = &r;
	return 0;
}

static int teardown(void **state)
{
	record_end(*state);
	return 0;
}

static struct verify_result check(struct record *r, const char *path, struct seen *s)
{
	struct verify_result result;
	struct err e = {0};

	need(verify_recording(path, &r->keys, true, sink, s, &result, &e), &e, "verify_recording");
	assert_int_equal(result.intact, s->integrity == 0);
	assert_int_equal(result.complete, s->completeness == 0);
	return result;
}

static struct verify_summary check_all(struct record *r, const struct chain_head *expect, struct seen *s)
{
	struct verify_summary sum;
	struct err e = {0};

	need(verify_all(r->dir, &r->keys, expect, sink, each, s, &sum, &e), &e, "verify_all");
	assert_int_equal(sum.intact, s->integrity == 0);
	assert_int_equal(sum.complete, s->completeness == 0);
	return sum;
}

/* Small enough to flip each of its bytes: four blocks, by checkpoints. */
static void build_small(struct record *r, unsigned n, struct chain *chain, struct chain_seal *out)
{
	struct id id = record_id(n);
	struct builder *b = record_open(r, &id, "terminal", NULL);
	struct err e = {0};
	char text[64];

	for (int i = 0; i < 4; i++) {
		struct buf state;
		buf_init(&state, 1 << 20);
		snprintf(text, sizeof text, "block %d of the session, and some text\r\n", i);
		record_text(r, b, STREAM_OUTPUT, text);
		record_text(r, b, STREAM_INPUT, "k");
		if (i < 3)
			need(builder_checkpoint(b, &state, &e), &e, "checkpoint");
		buf_finish(&state);
	}
	record_exit(r, b, 0);
	record_seal(r, b, chain, out);
}

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
	struct chain_seal seal;
	char path[256];
	size_t n;
	uint8_t *all;

	build_small(r, 1, NULL, &seal);
	record_path(r, &seal, path);
	all = file_slurp(path, &n);
	for (size_t at = 0; at < n; at++) {
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

/* A record of three recordings, one of them erased by retention, and one still open. */
static struct chain_head build_record(struct record *r, struct chain_seal seals[3], bool tombstone)
{
	struct chain *c = NULL;
	struct chain_head head;
	struct id id = record_id(9);
	struct id nobody = {{0}};
	struct err e = {0};
	char path[256];
	struct buf state;

	need(chain_open(r->dir, r->signer, &c, NULL, &e), &e, "chain_open");
	for (unsigned i = 0; i < 3; i++) {
		struct ring_record rec = record_make(r, &nobody, RING_AUDIT, "{\"event\":\"connect\"}", 19);
		need(chain_append_audit(c, &rec, (int64_t)WALL, &e), &e, "audit");
		build_small(r, i + 1, c, &seals[i]);
		need(chain_sign_head(c, (int64_t)WALL + i, &e), &e, "head");
	}
	if (tombstone) {
		need(chain_append_tombstone(c, &seals[0], "retention", "recorder", &e), &e, "tombstone");
		need(chain_sign_head(c, (int64_t)WALL + 9, &e), &e, "head");
		record_path(r, &seals[0], path);
		assert_int_equal(unlink(path), 0);
	}
	struct builder *b = record_open(r, &id, "terminal", NULL);
	buf_init(&state, 1 << 20);
	need(builder_checkpoint(b, &state, &e), &e, "checkpoint");
	buf_finish(&state);
	builder_destroy(b);
	chain_head(c, &head, NULL);
	chain_close(c);
	return head;
}

static void a_whole_record_verifies(void **state)
{
	struct record *r = *state;
	struct chain_seal seals[3];
	struct chain_head head = build_record(r, seals, true);
	struct seen s = {0};
	struct verify_summary sum = check_all(r, &head, &s);

	assert_true(sum.intact);
	assert_false(sum.complete); /* one is still open, and so not sealed and without an end */
	assert_string_equal(s.codes, " not_sealed no_exit");
	assert_int_equal(sum.recordings, 3);
	assert_int_equal(s.lines, 3);
	assert_int_equal(sum.open, 1);
	assert_int_equal(sum.tombstones, 1);
	assert_int_equal(sum.missing, 0);
	assert_int_equal(sum.unsigned_entries, 0);
	assert_true(sum.expected_found);
	assert_int_equal(sum.head.seq, head.seq);
}

static void deleted_recordings_are_named(void **state)
{
	struct record *r = *state;
	struct chain_seal seals[3];
	char path[256];

	build_record(r, seals, false);
	for (int i = 0; i < 3; i++) {
		struct seen s = {.session = seals[i].session};
		size_t n;
		record_path(r, &seals[i], path);
		uint8_t *all = file_slurp(path, &n);
		unlink(path);
		struct verify_summary sum = check_all(r, NULL, &s);
		assert_int_equal(sum.missing, 1);
		assert_non_null(strstr(s.codes, "recording_missing"));
		assert_true(s.named);
		assert_true(sum.intact);
		file_spill(path, all, n);
		free(all);
	}
}

static void a_recording_put_in_place_of_another_is_named(void **state)
{
	struct record *r = *state;
	struct chain_seal seals[3], again;
	char path[256], other[256];
	struct seen s = {0};

	build_record(r, seals, false);
	/* One under another's name. */
	record_path(r, &seals[0], path);
	record_path(r, &seals[1], other);
	assert_int_equal(rename(other, path), 0);
	struct verify_summary sum = check_all(r, NULL, &s);
	assert_false(sum.intact);
	assert_non_null(strstr(s.codes, "name_differs"));
	assert_non_null(strstr(s.codes, "recording_missing"));
	/* The same session sealed anew, even with the right key: its leaf is another. */
	unlink(path);
	r->seq = 0;
	build_small(r, 1, NULL, &again);
	s = (struct seen){.session = seals[0].session};
	sum = check_all(r, NULL, &s);
	assert_false(sum.intact);
	assert_non_null(strstr(s.codes, "leaf_differs"));
	assert_true(s.named);
}

static void a_file_that_the_log_does_not_know_is_named(void **state)
{
	struct record *r = *state;
	struct chain_seal seals[3], extra;
	struct chain_head none = {.seq = 0};
	struct id id = record_id(77);
	struct seen s = {.session = id};
	struct err e = {0};

	build_record(r, seals, false);
	struct builder *b = record_open(r, &id, "terminal", NULL);
	record_exit(r, b, 0);
	need(builder_seal(b, r->signer, &none, &extra, &e), &e, "seal");
	builder_destroy(b);
	struct verify_summary sum = check_all(r, NULL, &s);
	assert_int_equal(sum.unknown, 1);
	assert_non_null(strstr(s.codes, "recording_unknown"));
	assert_true(s.named);
}

static void a_seal_that_the_log_lacks_after_a_crash_is_pending(void **state)
{
	struct record *r = *state;
	struct chain_seal seals[3], extra;
	struct chain_head head = build_record(r, seals, false);
	struct id id = record_id(77);
	struct seen s = {0};
	struct err e = {0};

	struct builder *b = record_open(r, &id, "terminal", NULL);
	record_exit(r, b, 0);
	need(builder_seal(b, r->signer, &head, &extra, &e), &e, "seal");
	builder_destroy(b);
	assert_true(check_all(r, NULL, &s).intact);
	assert_non_null(strstr(s.codes, "seal_pending"));
}

/* The newest recording deleted together with the log's tail: only an exported head can tell. */
static void a_roll_back_is_found_by_an_exported_head(void **state)
{
	struct record *r = *state;
	struct chain_seal seals[3];
	struct chain_head head = build_record(r, seals, false);
	struct seen s = {0};
	char path[256];
	size_t n, at;
	uint8_t *all;

	snprintf(path, sizeof path, "%s/chain/00000001.mchain", r->dir);
	all = file_slurp(path, &n);
	/* Cut behind the second seal's head: five entries are left after key and head, audit, seal, head twice. */
	size_t places[32] = {0}, count = 0;
	for (size_t i = 0; i + 4 < n && count < 32; i++)
		if (memcmp(all + i, "MENT", 4) == 0)
			places[count++] = i;
	assert_int_equal(count, 11);
	at = places[8];
	file_spill(path, all, at);
	record_path(r, &seals[2], path);
	unlink(path);
	struct verify_summary sum = check_all(r, NULL, &s);
	assert_null(strstr(s.codes, "recording_missing"));
	assert_null(strstr(s.codes, "rolled_back"));
	s = (struct seen){0};
	sum = check_all(r, &head, &s);
	assert_false(sum.complete || sum.expected_found);
	assert_non_null(strstr(s.codes, "rolled_back"));
	/* The whole log gone is found too. */
	snprintf(path, sizeof path, "%s/chain/00000001.mchain", r->dir);
	unlink(path);
	s = (struct seen){0};
	check_all(r, &head, &s);
	assert_non_null(strstr(s.codes, "log_missing"));
	assert_non_null(strstr(s.codes, "rolled_back"));
	free(all);
}

/* A crash in the middle of an entry is no change; a changed entry is one, and every bit of the log counts. */
static void damage_to_the_log_is_named(void **state)
{
	struct record *r = *state;
	struct chain_seal seals[3];
	struct seen s = {0};
	char path[256];
	size_t n;
	uint8_t *all;

	build_record(r, seals, false);
	snprintf(path, sizeof path, "%s/chain/00000001.mchain", r->dir);
	all = file_slurp(path, &n);
	for (size_t at = 0; at < n; at += 3) {
		s = (struct seen){0};
		all[at] ^= 1;
		file_spill(path, all, n);
		if (check_all(r, NULL, &s).intact)
			fail_msg("byte %zu of the log:%s", at, s.codes);
		all[at] ^= 1;
	}
	file_spill(path, all, n - 10);
	s = (struct seen){0};
	assert_true(check_all(r, NULL, &s).intact);
	assert_non_null(strstr(s.codes, "log_torn"));
	free(all);
}

static void a_kept_recording_tells_of_a_roll_back(void **state)
{
	struct record *r = *state;
	struct chain_seal seals[3];
	struct seen s = {0};
	char path[256];
	size_t n, count = 0, places[32] = {0};
	uint8_t *all;

	build_record(r, seals, false);
	snprintf(path, sizeof path, "%s/chain/00000001.mchain", r->dir);
	all = file_slurp(path, &n);
	for (size_t i = 0; i + 4 < n && count < 32; i++)
		if (memcmp(all + i, "MENT", 4) == 0)
			places[count++] = i;
	file_spill(path, all, places[5]); /* up to the first recording's head */
	free(all);
	check_all(r, NULL, &s);
	assert_non_null(strstr(s.codes, "rolled_back"));
}

static void a_head_of_another_record_is_refused(void **state)
{
	struct record *r = *state, other;
	struct chain_seal seals[3];
	struct chain_head head;
	struct seen s = {0};
	struct chain *c = NULL;
	struct err e = {0};

	record_begin(&other, 7);
	need(chain_open(other.dir, other.signer, &c, NULL, &e), &e, "open");
	chain_head(c, &head, NULL);
	chain_close(c);
	record_end(&other);
	build_record(r, seals, false);
	check_all(r, &head, &s);
	assert_non_null(strstr(s.codes, "expected_log"));
}

static void keys_are_learned_from_the_log(void **state)
{
	struct record *r = *state;
	uint8_t seed[GRANT_KEY_LEN] = {42};
	struct signer *fresh = NULL;
	struct grant_public_key old = r->key;
	struct chain_seal seals[3], last;
	struct chain *c = NULL;
	struct err e = {0};
	struct seen s = {0};

	build_record(r, seals, false);
	need(signer_create(seed, &fresh, &e), &e, "signer");
	need(chain_open(r->dir, r->signer, &c, NULL, &e), &e, "open");
	need(chain_change_key(c, fresh, (int64_t)WALL, &e), &e, "change");
	struct signer *before = r->signer;
	r->signer = fresh;
	build_small(r, 50, c, &last);
	need(chain_sign_head(c, (int64_t)WALL, &e), &e, "head");
	chain_close(c);
	r->signer = before;
	/* The old key alone, the new key alone: each vouches for the other by way of the log. */
	assert_true(check_all(r, NULL, &s).intact);
	r->key = *signer_public(fresh);
	s = (struct seen){0};
	assert_true(check_all(r, NULL, &s).intact);
	r->key = old;
	signer_destroy(fresh);
	/* A stranger's key vouches for nothing. */
	seed[0] = 43;
	assert_int_equal(grant_key_public(seed, &r->key), 0);
	s = (struct seen){0};
	assert_false(check_all(r, NULL, &s).intact);
	assert_non_null(strstr(s.codes, "log_unsigned"));
}

static void one_session_with_its_line_in_the_log(void **state)
{
	struct record *r = *state;
	struct chain_seal seals[3];
	struct verify_result v;
	struct seen s = {0};
	struct err e = {0};
	struct id unknown = record_id(500);

	build_record(r, seals, false);
	need(verify_session(r->dir, &seals[1].session, &r->keys, sink, &s, &v, &e), &e, "verify_session");
	assert_true(v.intact && v.complete && v.sealed);
	assert_int_equal(verify_session(r->dir, &unknown, &r->keys, sink, &s, &v, &e), ERR_NOT_FOUND);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(what_is_whole_verifies),
	    T(every_flipped_bit_is_named_with_its_place),
	    T(a_flipped_byte_in_a_long_one_is_one_block),
	    T(a_deleted_block_is_named),
	    T(a_cut_tail_is_named_at_every_length),
	    T(another_key_does_not_vouch),
	    T(what_is_missing_is_not_called_changed),
	    T(left_out_by_rule_is_neither),
	    T(a_whole_record_verifies),
	    T(deleted_recordings_are_named),
	    T(a_recording_put_in_place_of_another_is_named),
	    T(a_file_that_the_log_does_not_know_is_named),
	    T(a_seal_that_the_log_lacks_after_a_crash_is_pending),
	    T(a_roll_back_is_found_by_an_exported_head),
	    T(damage_to_the_log_is_named),
	    T(a_kept_recording_tells_of_a_roll_back),
	    T(a_head_of_another_record_is_refused),
	    T(keys_are_learned_from_the_log),
	    T(one_session_with_its_line_in_the_log),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
