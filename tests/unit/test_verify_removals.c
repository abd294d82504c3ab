// tier: check
/* What retention removed, against what the log says was in force and held: honest tombstones, and all others. */
#include "tests/lib/verify_rig.h"

#include "recorder/index/holds.h"
#include "recorder/index/retention_policy.h"

#define SECOND ((int64_t)NS_PER_SEC)
#define HOUR   (3600 * SECOND)
#define T0     ((int64_t)WALL)

/* A log that is written entry by entry, with the recordings of it. */
struct scene {
	struct record *r;
	struct chain *c;
	struct chain_seal seals[2];
};

static void begin(struct scene *s, struct record *r)
{
	struct err e = {0};

	*s = (struct scene){.r = r};
	need(chain_open(r->dir, r->signer, &s->c, NULL, &e), &e, "chain_open");
}

static void event(struct scene *s, json_t *o)
{
	struct id nobody = {{0}};
	struct err e = {0};
	char *text = json_text(o);
	struct ring_record rec = record_make(s->r, &nobody, RING_AUDIT, text, strlen(text));

	need(chain_append_audit(s->c, &rec, T0, &e), &e, "audit");
	free(text);
	json_decref(o);
}

static void config(struct scene *s, bool first, int64_t at, int64_t retain, int64_t wait, const char *digest)
{
	event(s, json_pack("{s:s,s:I,s:I,s:I,s:s,s:s,s:b}", "event", "config.loaded", "at_ns", (json_int_t)(T0 + at),
			   "retain_ns", (json_int_t)retain, "wait_ns", (json_int_t)wait, "digest", digest, "principal",
			   "joe", "first", (int)first));
}

static void seal(struct scene *s, unsigned i)
{
	struct err e = {0};

	build_small(s->r, i + 1, s->c, &s->seals[i]);
	need(chain_sign_head(s->c, T0, &e), &e, "head");
}

static void hold(struct scene *s, const char *op, json_t *held)
{
	struct err e = {0};
	json_t *o = json_pack("{s:s,s:s,s:o,s:I}", "event", op, "hold", "0193aaaa-0000-7000-8000-000000000001", "held",
			      held, "at_ns", (json_int_t)T0);

	need(chain_append_json(s->c, CHAIN_HOLD, NULL, o, &e), &e, "hold");
	json_decref(o);
}

/* Removed at T0 + at; the recording was sealed at T0 - age + at. */
static void bury(struct scene *s, unsigned i, int64_t at, int64_t age, int64_t limit, const char *digest)
{
	struct err e = {0};
	json_t *why =
	    json_pack("{s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:s,s:s}", "reason", "retention", "rule", "record.retain",
		      "policy", digest, "by", "joe", "limit_ns", (json_int_t)limit, "removed_ns", (json_int_t)(T0 + at),
		      "sealed_ns", (json_int_t)(T0 + at - age), "opened_ns", (json_int_t)(T0 + at - age - 1),
		      "ended_ns", (json_int_t)(T0 + at - age - 1), "agent", "demo", "principal", "mary");
	char path[256];

	need(chain_append_tombstone(s->c, &s->seals[i], why, &e), &e, "tombstone");
	need(chain_sign_head(s->c, T0, &e), &e, "head");
	record_path(s->r, &s->seals[i], path);
	assert_int_equal(unlink(path), 0);
	json_decref(why);
}

static bool has(const struct seen *s, const char *code)
{
	char word[64];

	snprintf(word, sizeof word, " %s", code);
	const char *at = strstr(s->codes, word);
	return at && (at[strlen(word)] == ' ' || !at[strlen(word)]);
}

/* Ends it, and has it judged: want "" for no finding but the notes of what was removed. */
static void judge(struct scene *s, const char *want)
{
	struct seen seen = {.integrity = 0};
	struct verify_summary sum;
	struct verify_ask ask = {.dir = s->r->dir, .keys = &s->r->keys, .sink = sink, .arg = &seen};
	struct err e = {0};

	chain_close(s->c);
	need(verify_all(&ask, &sum, &e), &e, "verify_all");
	assert_int_equal(seen.integrity, 0);
	assert_int_equal(seen.completeness, *want ? 1 : 0);
	if (*want)
		assert_true(has(&seen, want));
	assert_true(has(&seen, "removed") || strcmp(want, "removed_unexplained") == 0);
}

static void honest(void **state)
{
	struct scene s;

	begin(&s, *state);
	config(&s, true, 0, HOUR, 24 * HOUR, "a");
	seal(&s, 0);
	bury(&s, 0, 3 * HOUR, 2 * HOUR, HOUR, "a");
	judge(&s, "");
}

static void shorter_after_the_wait(void **state)
{
	struct scene s;

	begin(&s, *state);
	config(&s, true, 0, 0, 24 * HOUR, "a");
	seal(&s, 0);
	config(&s, false, HOUR, SECOND, 24 * HOUR, "b");
	bury(&s, 0, 25 * HOUR + 1, 2 * SECOND, SECOND, "b");
	judge(&s, "");
}

static void shorter_before_it(void **state)
{
	struct scene s;

	begin(&s, *state);
	config(&s, true, 0, 0, 24 * HOUR, "a");
	seal(&s, 0);
	config(&s, false, HOUR, SECOND, 24 * HOUR, "b");
	bury(&s, 0, 25 * HOUR - 1, 2 * SECOND, SECOND, "b");
	judge(&s, "removed_early");
}

static void too_young(void **state)
{
	struct scene s;

	begin(&s, *state);
	config(&s, true, 0, HOUR, 24 * HOUR, "a");
	seal(&s, 0);
	bury(&s, 0, HOUR, HOUR - 1, HOUR, "a");
	judge(&s, "removed_early");
}

static void by_another_limit(void **state)
{
	struct scene s;

	begin(&s, *state);
	config(&s, true, 0, HOUR, 24 * HOUR, "a");
	seal(&s, 0);
	bury(&s, 0, HOUR, 2 * SECOND, SECOND, "a");
	judge(&s, "removed_early");
}

static void by_another_configuration(void **state)
{
	struct scene s;

	begin(&s, *state);
	config(&s, true, 0, HOUR, 24 * HOUR, "a");
	seal(&s, 0);
	bury(&s, 0, 3 * HOUR, 2 * HOUR, HOUR, "x");
	judge(&s, "removed_early");
}

static void no_configuration_at_all(void **state)
{
	struct scene s;

	begin(&s, *state);
	seal(&s, 0);
	bury(&s, 0, 3 * HOUR, 2 * HOUR, HOUR, "a");
	judge(&s, "removed_early");
}

/* One that says it is the first, long after something was sealed: as if it could not have been shorter before. */
static void not_the_first(void **state)
{
	struct scene s;

	begin(&s, *state);
	clock_test_set(BOOT, T0);
	seal(&s, 0);
	clock_test_set(BOOT, T0 + 3 * HOUR);
	config(&s, true, 2 * HOUR, SECOND, 0, "a");
	bury(&s, 0, 3 * HOUR, 2 * SECOND, SECOND, "a");
	clock_test_reset();
	judge(&s, "removed_early");
}

/* The recorder told of it at its start, and the first session was over before that was in the log. */
static void the_first_on_its_way(void **state)
{
	struct scene s;

	begin(&s, *state);
	clock_test_set(BOOT, T0);
	seal(&s, 0);
	clock_test_set(BOOT, T0 + 3 * HOUR);
	config(&s, true, SECOND, SECOND, 0, "a");
	bury(&s, 0, 3 * HOUR, 2 * SECOND, SECOND, "a");
	clock_test_reset();
	judge(&s, "");
}

static void an_admins_word(void **state)
{
	struct scene s;

	begin(&s, *state);
	config(&s, true, 0, 0, 24 * HOUR, "a");
	seal(&s, 0);
	config(&s, false, HOUR, SECOND, 24 * HOUR, "b");
	event(&s, json_pack("{s:s,s:I,s:s,s:s}", "event", "retention.apply", "at_ns", (json_int_t)(T0 + HOUR + 1),
			    "digest", "b", "principal", "boss"));
	bury(&s, 0, HOUR + 3, 2 * SECOND, SECOND, "b");
	judge(&s, "");
}

static void under_a_hold(void **state)
{
	struct scene s;

	begin(&s, *state);
	config(&s, true, 0, HOUR, 24 * HOUR, "a");
	seal(&s, 0);
	hold(&s, HOLD_ADD, json_pack("{s:s}", "principal", "mary"));
	bury(&s, 0, 3 * HOUR, 2 * HOUR, HOUR, "a");
	judge(&s, "removed_held");
}

static void after_its_release(void **state)
{
	struct scene s;

	begin(&s, *state);
	config(&s, true, 0, HOUR, 24 * HOUR, "a");
	seal(&s, 0);
	hold(&s, HOLD_ADD, json_pack("{s:s}", "agent", "demo"));
	hold(&s, HOLD_RELEASE, json_pack("{s:s}", "agent", "demo"));
	bury(&s, 0, 3 * HOUR, 2 * HOUR, HOUR, "a");
	judge(&s, "");
}

static void held_by_somebody_else(void **state)
{
	struct scene s;

	begin(&s, *state);
	config(&s, true, 0, HOUR, 24 * HOUR, "a");
	seal(&s, 0);
	hold(&s, HOLD_ADD, json_pack("{s:s,s:s}", "agent", "demo", "principal", "joe"));
	bury(&s, 0, 3 * HOUR, 2 * HOUR, HOUR, "a");
	judge(&s, "");
}

static void without_a_word(void **state)
{
	struct scene s;
	char path[256];
	struct err e = {0};

	begin(&s, *state);
	config(&s, true, 0, HOUR, 24 * HOUR, "a");
	seal(&s, 0);
	append_tombstone(s.c, &s.seals[0]);
	need(chain_sign_head(s.c, T0, &e), &e, "head");
	record_path(s.r, &s.seals[0], path);
	assert_int_equal(unlink(path), 0);
	judge(&s, "removed_unexplained");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    VERIFY_TEST(honest),
	    VERIFY_TEST(shorter_after_the_wait),
	    VERIFY_TEST(shorter_before_it),
	    VERIFY_TEST(too_young),
	    VERIFY_TEST(by_another_limit),
	    VERIFY_TEST(by_another_configuration),
	    VERIFY_TEST(no_configuration_at_all),
	    VERIFY_TEST(not_the_first),
	    VERIFY_TEST(the_first_on_its_way),
	    VERIFY_TEST(an_admins_word),
	    VERIFY_TEST(under_a_hold),
	    VERIFY_TEST(after_its_release),
	    VERIFY_TEST(held_by_somebody_else),
	    VERIFY_TEST(without_a_word),
	};
	return cmocka_run_group_tests_name("verify_removals", tests, NULL, NULL);
}
