// tier: check, slice EVERY=3
/* Verification of a whole record: its recordings against its log, and its log against heads that were exported. */
#include "tests/lib/verify_rig.h"

#include <sys/inotify.h>
#include <sys/wait.h>

static void each(void *arg, const char *path, const struct verify_result *r)
{
	struct seen *s = arg;

	(void)path;
	(void)r;
	s->lines++;
}

static struct verify_summary check_all(struct record *r, const struct chain_head *expect, struct seen *s)
{
	struct verify_summary sum;
	struct err e = {0};

	struct verify_outside outside = {.from = "a file"};
	struct verify_ask ask = {
	    .dir = r->dir, .keys = &r->keys, .outside = &outside, .sink = sink, .each = each, .arg = s};

	if (expect) {
		outside.head = *expect;
		ask.outside_n = 1;
	}
	need(verify_all(&ask, &sum, &e), &e, "verify_all");
	assert_int_equal(sum.intact, s->integrity == 0);
	assert_int_equal(sum.complete, s->completeness == 0);
	return sum;
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
		append_tombstone(c, &seals[0]);
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
	assert_true(sum.complete); /* one is still open: a state, no finding */
	assert_string_equal(s.codes, " not_sealed no_exit removed");
	assert_int_equal(sum.recordings, 3);
	assert_int_equal(s.lines, 3);
	assert_int_equal(sum.open, 1);
	assert_int_equal(sum.tombstones, 1);
	assert_int_equal(sum.missing, 0);
	assert_int_equal(sum.unsigned_entries, 0);
	assert_int_equal(sum.outside_found, 1);
	assert_int_equal(sum.head.seq, head.seq);
}

/* Restores the file when somebody has read it and let it go: a recorder that was between two of its steps. */
static pid_t restored_by(const char *path, const uint8_t *all, size_t n)
{
	int watch = inotify_init1(IN_CLOEXEC);
	char event[4096];
	pid_t pid;

	assert_true(watch >= 0 && inotify_add_watch(watch, path, IN_CLOSE_NOWRITE) >= 0);
	pid = fork();
	if (pid == 0) {
		if (read(watch, event, sizeof(event)) > 0)
			file_spill(path, all, n);
		_exit(0);
	}
	close(watch);
	return pid;
}

/* Seen while it is made, an open recording is empty. With a recorder at work that is no finding, unless it stays so. */
static void an_open_recording_is_looked_at_again(void **state)
{
	struct record *r = *state;
	struct chain_seal seals[3];
	struct seen whole = {0}, s = {0}, alone = {0}, stays = {0};
	char path[300], wal[300], cmd[400];
	struct verify_summary sum;
	FILE *p;
	size_t n;

	build_record(r, seals, false);
	(void)check_all(r, NULL, &whole);
	snprintf(cmd, sizeof(cmd), "ls %s/open/*.mrec", r->dir);
	p = popen(cmd, "r");
	assert_true(p && fgets(path, sizeof(path), p));
	pclose(p);
	path[strcspn(path, "\n")] = '\0';
	uint8_t *all = file_slurp(path, &n);

	assert_int_equal(truncate(path, 0), 0);
	sum = check_all(r, NULL, &alone); /* nobody is at work */
	assert_false(sum.intact);
	assert_non_null(strstr(alone.codes, "header_unreadable"));

	snprintf(wal, sizeof(wal), "%s/audit.db-wal", r->dir);
	file_spill(wal, (const uint8_t *)"", 0);
	pid_t writer = restored_by(path, all, n);
	sum = check_all(r, NULL, &s);
	waitpid(writer, NULL, 0);
	assert_true(sum.intact);
	assert_string_equal(s.codes, whole.codes);

	assert_int_equal(truncate(path, 0), 0);
	sum = check_all(r, NULL, &stays);
	assert_false(sum.intact);
	assert_string_equal(stays.codes, alone.codes); /* each is told once */
	free(all);
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

/* Whoever can write the files can append a tombstone; only the recorder can sign it. */
static void an_unsigned_tombstone_excuses_nothing(void **state)
{
	struct record *r = *state;
	struct chain_seal seals[3];
	struct chain *c = NULL;
	struct err e = {0};
	char path[256];

	build_record(r, seals, false);
	need(chain_open(r->dir, r->signer, &c, NULL, &e), &e, "chain_open");
	append_tombstone(c, &seals[1]);
	chain_close(c);
	record_path(r, &seals[1], path);
	assert_int_equal(unlink(path), 0);
	for (int i = 0; i < 2; i++) {
		struct seen s = {.session = seals[1].session};
		struct verify_summary sum = check_all(r, NULL, &s);
		assert_int_equal(sum.missing, 1);
		assert_int_equal(sum.tombstones, 0);
		assert_true(sum.intact && s.named);
		assert_non_null(strstr(s.codes, "recording_missing"));
		/* The next recorder does not make it true either. */
		need(chain_open(r->dir, r->signer, &c, NULL, &e), &e, "chain_open");
		need(chain_sign_head(c, (int64_t)WALL, &e), &e, "head");
		chain_close(c);
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
	assert_false(sum.complete || sum.outside_found);
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
	for (size_t at = any_below(every_given()); at < n; at += 3 * every_given()) {
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
	need(chain_name_key(c, signer_public(fresh), (int64_t)WALL, &e), &e, "name");
	need(chain_use_key(c, fresh, (int64_t)WALL, &e), &e, "change");
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

static struct signer *signer_of(uint8_t first)
{
	uint8_t seed[GRANT_KEY_LEN] = {first};
	struct signer *s = NULL;
	struct err e = {0};

	need(signer_create(seed, &s, &e), &e, "signer");
	return s;
}

/* A start with this key; what it finds there. */
static uint64_t start_with(struct record *r, const struct signer *s, bool sign)
{
	struct id nobody = {{0}};
	struct ring_record rec = record_make(r, &nobody, RING_AUDIT, "{\"event\":\"connect\"}", 19);
	struct chain *c = NULL;
	struct err e = {0};
	char before[17];

	need(chain_open(r->dir, s, &c, NULL, &e), &e, "open");
	if (sign) {
		need(chain_append_audit(c, &rec, (int64_t)WALL, &e), &e, "audit");
		need(chain_sign_head(c, (int64_t)WALL, &e), &e, "head");
	}
	uint64_t foreign = chain_foreign(c, before);
	chain_close(c);
	return foreign;
}

/* Keys that were lost and made anew, or exchanged: the recorder says so, over restarts, and verify names it. */
static void a_new_key_at_the_end_vouches_for_nothing_before_it(void **state)
{
	struct record *r = *state;
	struct grant_public_key old = r->key;
	struct signer *fresh = signer_of(42);
	struct chain_seal seals[3];
	struct seen s = {0};
	char path[256];

	build_record(r, seals, true);
	assert_int_equal(start_with(r, r->signer, true), 0);
	uint64_t foreign = start_with(r, fresh, true);
	assert_true(foreign > 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(start_with(r, fresh, i != 0), foreign);
	/* With today's key alone, with the old one alone, with both. */
	struct grant_public_key both[] = {old, *signer_public(fresh)};
	struct grant_keyset sets[] = {{&both[1], 1}, {&both[0], 1}, {both, 2}}, before = r->keys;
	for (int i = 0; i < 3; i++) {
		s = (struct seen){0};
		r->keys = sets[i];
		assert_false(check_all(r, NULL, &s).intact);
		assert_non_null(strstr(s.codes, "key_foreign"));
		/* The tombstone stands under the old key: today's does not make it true. */
		assert_int_equal(strstr(s.codes, "recording_missing") != NULL, i == 0);
	}
	r->keys = before;
	/* The old key put back: what the other one signed is set aside. */
	assert_int_equal(start_with(r, r->signer, true), 0);
	s = (struct seen){0};
	assert_true(check_all(r, NULL, &s).intact);
	record_path(r, &seals[1], path);
	assert_int_equal(access(path, F_OK), 0);
	signer_destroy(fresh);
}

/* A crash at any place of a rotation leaves a log that the next start goes on with, and that verifies. */
static void a_rotation_survives_a_crash(void **state)
{
	for (int crash = 0; crash < 4; crash++) {
		struct record *r = *state;
		struct signer *fresh = signer_of(77);
		struct chain_seal seals[3];
		struct chain *c = NULL;
		struct err e = {0};
		struct seen s = {0};

		build_record(r, seals, false);
		need(chain_open(r->dir, r->signer, &c, NULL, &e), &e, "open");
		if (crash > 0)
			need(chain_name_key(c, signer_public(fresh), (int64_t)WALL, &e), &e, "name");
		if (crash == 3)
			need(chain_use_key(c, fresh, (int64_t)WALL, &e), &e, "use");
		chain_close(c);
		/* 1: the old key is still there; 2, 3: the new one is. */
		for (int again = 0; again < 2; again++)
			assert_int_equal(start_with(r, crash > 1 ? fresh : r->signer, again == 0), 0);
		assert_true(check_all(r, NULL, &s).intact);
		if (crash > 1) {
			struct grant_public_key was = r->key;
			r->key = *signer_public(fresh);
			s = (struct seen){0};
			assert_true(check_all(r, NULL, &s).intact);
			r->key = was;
			/* Who has been replaced comes back as a stranger. */
			assert_true(start_with(r, r->signer, true) > 0);
			s = (struct seen){0};
			assert_false(check_all(r, NULL, &s).intact);
		}
		signer_destroy(fresh);
		verify_teardown(state);
		verify_setup(state);
	}
}

static void one_session_with_its_line_in_the_log(void **state)
{
	struct record *r = *state;
	struct chain_seal seals[3];
	struct verify_result v;
	struct seen s = {0};
	struct err e = {0};
	struct id unknown = record_id(500);
	struct verify_ask ask = {.dir = r->dir, .keys = &r->keys, .sink = sink, .arg = &s};

	build_record(r, seals, false);
	need(verify_session(&ask, &seals[1].session, &v, &e), &e, "verify_session");
	assert_true(v.intact && v.complete && v.sealed);
	assert_int_equal(verify_session(&ask, &unknown, &v, &e), ERR_NOT_FOUND);
}

/* Verified where it was moved to: its sealed recordings, the one that is open, and all of it. */
static void check_moved(struct record *r, const char *dir, const struct chain_seal *seal, const char *open_code)
{
	struct id open = record_id(9);
	struct verify_summary sum;
	struct verify_result v;
	struct seen s = {0};
	struct err e = {0};
	struct verify_ask ask = {.dir = dir, .keys = &r->keys, .sink = sink, .arg = &s};

	need(verify_session(&ask, &seal->session, &v, &e), &e, dir);
	if (!v.intact || !v.complete || !v.sealed || s.integrity)
		fail_msg("%s: a sealed one:%s", dir, s.codes);
	s = (struct seen){0};
	need(verify_session(&ask, &open, &v, &e), &e, dir);
	if (!v.intact || v.sealed || s.integrity || strcmp(s.codes, open_code) != 0)
		fail_msg("%s: the open one:%s", dir, s.codes);
	s = (struct seen){0};
	need(verify_all(&ask, &sum, &e), &e, dir);
	if (!sum.intact || sum.recordings + sum.missing == 0 || s.integrity)
		fail_msg("%s: all of it:%s", dir, s.codes);
}

/* No name of a folder above says what stands in a record: generated ones of all that a day's folder is made of. */
static void any_folder_verifies(void **state)
{
	static const char *const names[] = {
	    "-", "x-", "abcde-", "record with space", "a.mrec", "open", "2026-11-22", "1234-67-9-", "sealed", "d-d-"};
	static const char some[] = "-0123456789 .dm_";
	struct record *r = *state;
	struct chain_seal seals[3];
	char dir[400], command[1200];

	build_record(r, seals, false);
	srandom(1);
	for (size_t i = 0; i < 60; i++) {
		char name[20] = "";

		for (long k = 0, n = 1 + random() % 16; k < n; k++)
			name[k] = k ? some[(size_t)random() % (sizeof(some) - 1)] : 'n', name[k + 1] = '\0';
		if (i < sizeof(names) / sizeof(names[0]))
			snprintf(name, sizeof(name), "%s", names[i]);
		snprintf(dir, sizeof(dir), "%s.moved/%s", r->dir, name);
		snprintf(command, sizeof(command), "rm -rf '%s.moved' && mkdir '%s.moved' && cp -r '%s' '%s'", r->dir,
			 r->dir, r->dir, dir);
		assert_int_equal(system(command), 0);
		check_moved(r, dir, &seals[1], " not_sealed no_exit");
		strcat(dir, "/");
		check_moved(r, dir, &seals[1], " not_sealed no_exit");
		snprintf(command, sizeof(command), "ln -s '%s' '%s.moved/link-'", dir, r->dir);
		assert_int_equal(system(command), 0);
		snprintf(dir, sizeof(dir), "%s.moved/link-", r->dir);
		check_moved(r, dir, &seals[1], " not_sealed no_exit");
	}
	snprintf(command, sizeof(command), "rm -rf '%s.moved'", r->dir);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    VERIFY_TEST(a_whole_record_verifies),
	    VERIFY_TEST(any_folder_verifies),
	    VERIFY_TEST(an_open_recording_is_looked_at_again),
	    VERIFY_TEST(deleted_recordings_are_named),
	    VERIFY_TEST(an_unsigned_tombstone_excuses_nothing),
	    VERIFY_TEST(a_recording_put_in_place_of_another_is_named),
	    VERIFY_TEST(a_file_that_the_log_does_not_know_is_named),
	    VERIFY_TEST(a_seal_that_the_log_lacks_after_a_crash_is_pending),
	    VERIFY_TEST(a_roll_back_is_found_by_an_exported_head),
	    VERIFY_TEST(damage_to_the_log_is_named),
	    VERIFY_TEST(a_kept_recording_tells_of_a_roll_back),
	    VERIFY_TEST(a_head_of_another_record_is_refused),
	    VERIFY_TEST(keys_are_learned_from_the_log),
	    VERIFY_TEST(a_new_key_at_the_end_vouches_for_nothing_before_it),
	    VERIFY_TEST(a_rotation_survives_a_crash),
	    VERIFY_TEST(one_session_with_its_line_in_the_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
