// tier: check
/* The log over audit events and recordings: appended, read back, cut by crashes, changed by hand. */
#include "tests/lib/folders_fail.h"
#include "tests/lib/recordings.h"

#include "recorder/chain/chain_format.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

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

static struct chain *reopen(struct record *r, uint64_t *cut)
{
	struct chain *c = NULL;
	struct err e = {0};

	need(chain_open(r->dir, r->signer, &c, cut, &e), &e, "chain_open");
	return c;
}

static int audit(struct record *r, struct chain *c, const char *json)
{
	struct id nobody = {{0}};
	struct ring_record rec = record_make(r, &nobody, RING_AUDIT, json, strlen(json));

	return chain_append_audit(c, &rec, (int64_t)WALL, NULL);
}

/* Entries by type, as letters; damage as '!'. */
static void story(const char *dir, char *out, size_t size)
{
	static const char letters[] = "?astHkdrlpm";
	struct chain_reader *reader = NULL;
	struct chain_entry en;
	struct err e = {0};
	size_t n = 0;
	int rc;

	need(chain_reader_create(dir, 0, &reader, &e), &e, "chain_reader_create");
	while ((rc = chain_reader_next(reader, &en, &e)) == 1 || rc == ERR_CORRUPT) {
		assert_true(n + 1 < size);
		out[n++] = rc == 1 ? letters[en.type] : '!';
	}
	assert_int_equal(rc, 0);
	out[n] = '\0';
	chain_reader_destroy(reader);
}

static void log_path(const struct record *r, unsigned number, char out[256])
{
	snprintf(out, 256, "%s/chain/%08u.mchain", r->dir, number);
}

static void entries_come_back_in_order(void **state)
{
	struct record *r = *state;
	struct chain *c = reopen(r, NULL);
	struct chain_seal seal = {.session = record_id(1), .journal_seq = 50, .size = 1234, .day = "2026-11-21"}, got;
	struct chain_reader *reader = NULL;
	struct chain_entry en;
	struct chain_head head;
	struct err e = {0};
	char text[64];
	uint64_t fresh;

	memset(seal.leaf, 0xab, sizeof seal.leaf);
	assert_int_equal(audit(r, c, "{\"event\":\"connect\"}"), 0);
	need(chain_append_seal(c, &seal, false, &e), &e, "seal");
	chain_head(c, &head, &fresh);
	assert_int_equal(fresh, 2);
	need(chain_sign_head(c, (int64_t)WALL, &e), &e, "head");
	need(chain_sign_head(c, (int64_t)WALL, &e), &e, "head again");
	append_tombstone(c, &seal);
	chain_close(c);
	story(r->dir, text, sizeof text);
	assert_string_equal(text, "kHasHt");

	need(chain_reader_create(r->dir, 3, &reader, &e), &e, "reader");
	assert_int_equal(chain_reader_next(reader, &en, &e), 1);
	assert_int_equal(en.seq, 3);
	assert_int_equal(en.type, CHAIN_AUDIT);
	assert_memory_equal(en.payload, "{\"event\":\"connect\"}", en.len);
	assert_int_equal(chain_reader_next(reader, &en, &e), 1);
	assert_int_equal(chain_entry_seal(&en, &got), 0);
	assert_memory_equal(got.leaf, seal.leaf, sizeof got.leaf);
	assert_string_equal(got.day, seal.day);
	assert_int_equal(got.size, 1234);
	assert_int_equal(got.journal_seq, 50);
	assert_int_equal(chain_reader_next(reader, &en, &e), 1);
	assert_int_equal(chain_entry_head(reader, &en, &head), 0);
	assert_int_equal(head.seq, 4);
	assert_int_equal(chain_head_verify(&head, &r->keys), 0);
	head.seq++;
	assert_int_equal(chain_head_verify(&head, &r->keys), ERR_TOKEN_FORGED);
	chain_reader_destroy(reader);
}

/* Every type of JSON: it comes back, an older reader may go past those that are not critical, and none counts without a
 * head. */
static void entries_of_json_come_back_and_need_a_head(void **state)
{
	static const struct {
		enum chain_type type;
		bool critical;
	} types[] = {
	    {CHAIN_DIGEST, false}, {CHAIN_ANCHOR, false}, {CHAIN_HOLD, true}, {CHAIN_PART, false}, {CHAIN_HOLE, false}};
	struct record *r = *state;
	struct chain *c = reopen(r, NULL);
	struct id session = record_id(1);
	struct chain_reader *reader = NULL;
	struct chain_entry en;
	struct err e = {0};
	char text[64];
	int n = 0;

	for (size_t i = 0; i < 5; i++) {
		json_t *o = json_pack("{s:i}", "number", (int)i);
		need(chain_append_json(c, types[i].type, i ? &session : NULL, o, &e), &e, "append");
		json_decref(o);
	}
	assert_int_equal(chain_append_json(c, CHAIN_AUDIT, NULL, NULL, &e), ERR_INTERNAL);
	need(chain_sign_head(c, (int64_t)WALL, &e), &e, "head");
	for (size_t i = 0; i < 5; i++) {
		json_t *o = json_pack("{s:i}", "late", (int)i);
		need(chain_append_json(c, types[i].type, &session, o, &e), &e, "append");
		json_decref(o);
	}
	assert_int_equal(audit(r, c, "{}"), 0);
	need(chain_sync(c, &e), &e, "sync");
	chain_close(c);
	story(r->dir, text, sizeof text);
	assert_string_equal(text, "kHdrlpmHdrlpma");

	need(chain_reader_create(r->dir, 3, &reader, &e), &e, "reader");
	for (; n < 5 && chain_reader_next(reader, &en, &e) == 1; n++) {
		json_t *o = NULL;
		assert_int_equal(en.type, types[n].type);
		assert_int_equal(chain_type_critical(en.type), types[n].critical);
		assert_int_equal(id_is_nil(&en.session), n == 0);
		assert_int_equal(chain_entry_json(&en, &o), 0);
		assert_int_equal(json_integer_value(json_object_get(o, "number")), n);
		json_decref(o);
	}
	assert_int_equal(n, 5);
	chain_reader_destroy(reader);

	c = reopen(r, NULL);
	chain_close(c);
	story(r->dir, text, sizeof text);
	assert_string_equal(text, "kHdrlpmHakH");
}

static void deriving_again_doubles_nothing(void **state)
{
	struct record *r = *state;
	struct chain *c = reopen(r, NULL);
	struct chain_seal seal = {.session = record_id(1), .day = "2026-11-21"};
	struct err e = {0};
	char text[64];

	assert_int_equal(audit(r, c, "{}"), 0);
	assert_int_equal(audit(r, c, "{}"), 0);
	need(chain_append_seal(c, &seal, false, &e), &e, "seal");
	need(chain_sync(c, &e), &e, "sync");
	chain_close(c);
	c = reopen(r, NULL);
	assert_int_equal(chain_audit_seq(c), 2);
	r->seq = 0; /* the segments are read from their start again */
	for (int i = 0; i < 3; i++)
		assert_int_equal(audit(r, c, "{}"), 0);
	need(chain_append_seal(c, &seal, true, &e), &e, "seal again");
	chain_close(c);
	story(r->dir, text, sizeof text);
	assert_string_equal(text, "kHaasa");
}

static void a_torn_tail_is_cut_at_every_length(void **state)
{
	struct record *r = *state;
	struct chain *c = reopen(r, NULL);
	char path[256], torn[256], text[64];
	size_t n = 0, synced;
	uint8_t *all;

	log_path(r, 1, path);
	assert_int_equal(audit(r, c, "{\"n\":1}"), 0);
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	synced = (size_t)st.st_size;
	assert_int_equal(audit(r, c, "{\"n\":2}"), 0);
	chain_close(c);
	all = file_slurp(path, &n);
	snprintf(torn, sizeof torn, "%s/chain/00000001.torn", r->dir);
	for (size_t cut = synced; cut < n; cut++) {
		uint64_t bytes = 99;

		file_spill(path, all, cut);
		unlink(torn);
		c = reopen(r, &bytes);
		assert_int_equal(bytes, cut - synced);
		assert_int_equal(chain_audit_seq(c), 1);
		r->seq = 1;
		assert_int_equal(audit(r, c, "{\"n\":2}"), 0);
		chain_close(c);
		story(r->dir, text, sizeof text);
		assert_string_equal(text, "kHaa");
		if (bytes) {
			size_t kept;
			uint8_t *p = file_slurp(torn, &kept);
			assert_int_equal(kept, bytes);
			assert_memory_equal(p, all + synced, kept);
			free(p);
		}
	}
	/* Rubbish of any kind in the tail, as a power cut leaves it. */
	for (size_t at = synced; at < n; at += 7) {
		uint64_t bytes = 0;

		all[at] ^= 0xff;
		file_spill(path, all, n);
		c = reopen(r, &bytes);
		assert_int_equal(bytes, n - synced);
		chain_close(c);
		all[at] ^= 0xff;
	}
	free(all);
}

static void damage_before_signed_heads_is_no_torn_tail(void **state)
{
	struct record *r = *state;
	struct chain *c = reopen(r, NULL);
	struct err e = {0};
	char path[256], text[64];
	size_t n;
	uint8_t *all;

	for (int i = 0; i < 3; i++) {
		assert_int_equal(audit(r, c, "{\"who\":\"ann\"}"), 0);
		need(chain_sign_head(c, (int64_t)WALL, &e), &e, "head");
	}
	chain_close(c);
	log_path(r, 1, path);
	all = file_slurp(path, &n);
	for (size_t at = 0; at < n / 2; at++) {
		all[at] ^= 1;
		file_spill(path, all, n);
		assert_int_not_equal(chain_open(r->dir, r->signer, &c, NULL, &e), 0);
		assert_non_null(strstr(e.message, "00000001.mchain"));
		story(r->dir, text, sizeof text);
		assert_non_null(strchr(text, '!'));
		all[at] ^= 1;
	}
	free(all);
}

static void every_flipped_byte_is_named(void **state)
{
	struct record *r = *state;
	struct chain *c = reopen(r, NULL);
	struct chain_reader *reader;
	struct chain_entry en;
	struct err e = {0};
	char path[256];
	size_t n;
	uint8_t *all;

	for (int i = 0; i < 4; i++)
		assert_int_equal(audit(r, c, "{\"who\":\"ann\"}"), 0);
	chain_close(c);
	log_path(r, 1, path);
	all = file_slurp(path, &n);
	for (size_t at = 0; at < n; at++) {
		unsigned faults = 0, entries = 0;
		bool placed = false;
		int rc;

		all[at] ^= 0x10;
		file_spill(path, all, n);
		need(chain_reader_create(r->dir, 0, &reader, &e), &e, "reader");
		while ((rc = chain_reader_next(reader, &en, &e)) != 0) {
			unsigned long long from, to;
			const char *p = strstr(e.message, "bytes ");

			if (rc == 1) {
				entries++;
				continue;
			}
			faults++;
			if (rc == ERR_VERSION)
				break;
			assert_int_equal(rc, ERR_CORRUPT);
			if (p && sscanf(p, "bytes %llu to %llu", &from, &to) == 2 && from <= at && at < to)
				placed = true;
		}
		/* Changing the last hash of all is seen by nobody but the next entry or head: it is part of the tail.
		 */
		assert_true(faults >= 1);
		assert_true(placed || rc == ERR_VERSION);
		assert_true(entries >= 4 || rc == ERR_VERSION || at < 88);
		chain_reader_destroy(reader);
		all[at] ^= 0x10;
	}
	free(all);
}

static void a_deleted_entry_is_missed(void **state)
{
	struct record *r = *state;
	struct chain *c = reopen(r, NULL);
	uint64_t starts[8] = {0};
	char path[256], text[64];
	size_t n;
	uint8_t *all;

	log_path(r, 1, path);
	for (int i = 0; i < 5; i++) {
		struct stat st;
		assert_int_equal(stat(path, &st), 0);
		starts[i] = (uint64_t)st.st_size;
		assert_int_equal(audit(r, c, "{\"who\":\"ann\"}"), 0);
	}
	chain_close(c);
	all = file_slurp(path, &n);
	for (int i = 0; i < 4; i++) {
		uint8_t *less = malloc(n);
		memcpy(less, all, starts[i]);
		memcpy(less + starts[i], all + starts[i + 1], n - starts[i + 1]);
		file_spill(path, less, n - (starts[i + 1] - starts[i]));
		story(r->dir, text, sizeof text);
		assert_int_equal(strlen(text), 7);
		assert_int_equal(strcspn(text, "!"), 2 + (size_t)i);
		free(less);
	}
	free(all);
}

static void heads_travel_as_json(void **state)
{
	struct record *r = *state;
	struct chain *c = reopen(r, NULL);
	struct chain_head head, back;
	struct grant_keyset none = {NULL, 0};
	struct err e = {0};
	char *text;

	chain_head(c, &head, NULL);
	text = chain_head_export(&head);
	assert_non_null(text);
	need(chain_head_import(text, strlen(text), &back, &e), &e, "import");
	assert_memory_equal(&back.hash, &head.hash, sizeof head.hash);
	assert_int_equal(back.seq, head.seq);
	assert_int_equal(chain_head_verify(&back, &r->keys), 0);
	assert_int_equal(chain_head_verify(&back, &none), ERR_NOT_FOUND);
	for (size_t n = 0; n < strlen(text); n++)
		assert_int_equal(chain_head_import(text, n, &back, &e), ERR_INVAL);
	free(text);
	chain_close(c);
}

static void a_new_key_is_vouched_for_by_the_old(void **state)
{
	struct record *r = *state;
	struct chain *c = reopen(r, NULL);
	uint8_t seed[GRANT_KEY_LEN] = {42};
	struct signer *fresh = NULL;
	struct chain_head head;
	struct err e = {0};
	char text[64];

	need(signer_create(seed, &fresh, &e), &e, "signer");
	need(chain_name_key(c, signer_public(fresh), (int64_t)WALL, &e), &e, "name");
	need(chain_use_key(c, fresh, (int64_t)WALL, &e), &e, "change");
	chain_head(c, &head, NULL);
	assert_string_equal(head.kid, signer_public(fresh)->kid);
	chain_close(c);
	need(chain_open(r->dir, fresh, &c, NULL, &e), &e, "open");
	chain_close(c);
	story(r->dir, text, sizeof text);
	assert_string_equal(text, "kHkHH");
	/* Opened with a key that was changed while nobody ran: it is announced. */
	c = reopen(r, NULL);
	chain_close(c);
	story(r->dir, text, sizeof text);
	assert_string_equal(text, "kHkHHkH");
	signer_destroy(fresh);
}

/* Entries behind the last head that only a head makes true are set aside; the rest is appended again. */
static void what_was_never_signed_is_not_gone_on_from(void **state)
{
	struct record *r = *state;
	struct chain *c = reopen(r, NULL);
	struct chain_seal seal = {.session = record_id(1), .day = "2026-11-21"};
	uint8_t seed[GRANT_KEY_LEN] = {42};
	struct signer *stranger = NULL;
	struct err e = {0};
	char text[64], path[256];
	uint64_t cut = 0, seq;
	struct stat st;

	need(chain_append_seal(c, &seal, false, &e), &e, "seal");
	need(chain_sign_head(c, (int64_t)WALL, &e), &e, "head");
	assert_int_equal(audit(r, c, "{\"event\":\"one\"}"), 0);
	append_tombstone(c, &seal);
	assert_int_equal(audit(r, c, "{\"event\":\"two\"}"), 0);
	seal.session = record_id(2);
	need(chain_append_seal(c, &seal, false, &e), &e, "seal");
	seq = chain_audit_seq(c);
	chain_close(c);
	c = reopen(r, &cut);
	assert_true(cut > 0);
	assert_int_equal(chain_audit_seq(c), seq);
	chain_close(c);
	story(r->dir, text, sizeof text);
	assert_string_equal(text, "kHsHaaskH");
	snprintf(path, sizeof path, "%s/chain/00000001.torn", r->dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, cut);

	/* A stranger who can write announces himself, signs, and erases. */
	need(signer_create(seed, &stranger, &e), &e, "signer");
	need(chain_open(r->dir, stranger, &c, NULL, &e), &e, "open");
	append_tombstone(c, &seal);
	need(chain_sign_head(c, (int64_t)WALL, &e), &e, "head");
	chain_close(c);
	chain_close(reopen(r, &cut));
	assert_true(cut > 0);
	story(r->dir, text, sizeof text);
	assert_string_equal(text, "kHsHaaskHkH");
	signer_destroy(stranger);
}

static void files_follow_one_another(void **state)
{
	struct record *r = *state;
	struct chain *c = reopen(r, NULL);
	static char big[120001];
	struct chain_reader *reader = NULL;
	struct chain_entry en;
	struct err e = {0};
	uint64_t entries = 0, last = 0;
	char path[256];
	int rc;

	memset(big, 'x', sizeof big - 1);
	for (int i = 0; i < 1200; i++)
		assert_int_equal(audit(r, c, big), 0);
	chain_close(c);
	log_path(r, 3, path);
	assert_int_equal(access(path, F_OK), 0);
	c = reopen(r, NULL);
	assert_int_equal(chain_audit_seq(c), 1200);
	chain_close(c);
	need(chain_reader_create(r->dir, 0, &reader, &e), &e, "reader");
	while ((rc = chain_reader_next(reader, &en, &e)) == 1) {
		assert_int_equal(en.seq, ++last);
		entries += en.type == CHAIN_AUDIT;
	}
	assert_int_equal(rc, 0);
	assert_int_equal(entries, 1200);
	chain_reader_destroy(reader);
	need(chain_reader_create(r->dir, last - 5, &reader, &e), &e, "reader");
	assert_int_equal(chain_reader_next(reader, &en, &e), 1);
	assert_int_equal(en.seq, last - 5);
	assert_int_equal(en.file, 3);
	chain_reader_destroy(reader);
	/* A whole file gone is a hole that is named. */
	log_path(r, 2, path);
	unlink(path);
	need(chain_reader_create(r->dir, 0, &reader, &e), &e, "reader");
	while ((rc = chain_reader_next(reader, &en, &e)) == 1)
		;
	assert_int_equal(rc, ERR_CORRUPT);
	assert_non_null(strstr(e.message, "a file of the log is gone"));
	chain_reader_destroy(reader);
}

/* The new file's name is not on the disk: nothing behind it is told as stored, and nothing goes into the old one. */
static void a_file_without_a_synced_name_is_gone_on_in(void **state)
{
	struct record *r = *state;
	struct chain *c = reopen(r, NULL);
	static char big[120001];
	char path[256], text[1024];

	memset(big, 'x', sizeof big - 1);
	log_path(r, 2, path);
	folders_fail = true;
	while (access(path, F_OK) != 0)
		assert_int_equal(audit(r, c, big), 0);
	assert_int_equal(chain_sync(c, NULL), ERR_DISK_FULL);
	assert_int_equal(audit(r, c, "{}"), ERR_RECORD_UNAVAILABLE);
	assert_int_equal(chain_reopen(c, NULL), ERR_DISK_FULL);
	folders_fail = false;
	assert_int_equal(chain_reopen(c, NULL), 0);
	assert_int_equal(audit(r, c, "{}"), 0);
	assert_int_equal(chain_sync(c, NULL), 0);
	chain_close(c);
	chain_close(reopen(r, NULL));
	story(r->dir, text, sizeof text);
	assert_null(strchr(text, '!'));
	assert_string_equal(strrchr(text, 'k'), "kHa");
}

struct worker {
	struct chain *c;
	unsigned from;
};

static void *seal_many(void *arg)
{
	struct worker *w = arg;

	for (unsigned i = 0; i < 100; i++) {
		struct chain_seal seal = {.session = record_id(w->from + i), .day = "2026-11-21"};
		if (chain_append_seal(w->c, &seal, false, NULL) || (i % 10 == 0 && chain_sign_head(w->c, 1, NULL)))
			return w;
	}
	return NULL;
}

static void two_threads_may_append(void **state)
{
	struct record *r = *state;
	struct chain *c = reopen(r, NULL);
	struct worker w[2] = {{c, 0}, {c, 1000}};
	pthread_t t[2];
	char text[1024];
	void *failed;

	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, seal_many, &w[i]), 0);
	for (int i = 0; i < 2; i++) {
		pthread_join(t[i], &failed);
		assert_null(failed);
	}
	chain_close(c);
	story(r->dir, text, sizeof text);
	assert_null(strchr(text, '!'));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(entries_come_back_in_order),
	    T(entries_of_json_come_back_and_need_a_head),
	    T(deriving_again_doubles_nothing),
	    T(a_torn_tail_is_cut_at_every_length),
	    T(damage_before_signed_heads_is_no_torn_tail),
	    T(every_flipped_byte_is_named),
	    T(a_deleted_entry_is_missed),
	    T(heads_travel_as_json),
	    T(a_new_key_is_vouched_for_by_the_old),
	    T(what_was_never_signed_is_not_gone_on_from),
	    T(a_file_without_a_synced_name_is_gone_on_in),
	    T(files_follow_one_another),
	    T(two_threads_may_append),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
