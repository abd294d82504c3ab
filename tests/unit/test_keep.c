// tier: check
/* What a round's answer keeps: head, tail, total and the digest of everything. */
#include "base/json.h"
#include "muxd/hub/session/keep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *str(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static void feed(struct keep *k, const char *text, size_t piece)
{
	for (size_t at = 0, n = strlen(text); at < n; at += piece)
		assert_int_equal(keep_add(k, (const uint8_t *)text + at, n - at < piece ? n - at : piece), 0);
}

static void small_output_is_whole(void **state)
{
	struct keep k;
	json_t *o;

	(void)state;
	assert_int_equal(keep_init(&k, 100, 100), 0);
	feed(&k, "hello\n", 2);
	assert_string_equal(keep_digest(&k), "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
	o = keep_json(&k);
	assert_string_equal(str(o, "data"), "hello\n");
	assert_string_equal(str(o, "encoding"), "utf-8");
	assert_true(json_is_false(json_object_get(o, "truncated")));
	assert_null(json_object_get(o, "tail"));
	json_decref(o);
	keep_finish(&k);
}

/* Output may come behind a look at the digest, also behind one that the record knew: none is told of fewer bytes. */
static void a_digest_is_of_every_byte(void **state)
{
	struct buf head, tail;
	struct keep k;

	(void)state;
	assert_int_equal(keep_init(&k, 100, 100), 0);
	feed(&k, "hel", 3);
	assert_string_equal(keep_digest(&k), "d6a81f224bbf2f7c22baddbd5d40730eb20cfb0b3d74e10cab61788214caceb1");
	feed(&k, "lo\n", 3);
	assert_string_equal(keep_digest(&k), "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
	buf_init(&head, 100);
	buf_init(&tail, 100);
	assert_int_equal(buf_append_str(&head, "hello\n"), 0);
	k.whole = false; /* as behind a restart */
	assert_int_equal(keep_regain(&k, 100, &head, &tail, "5891"), 0);
	assert_string_equal(keep_digest(&k), "5891");
	feed(&k, "!", 1);
	assert_string_equal(keep_digest(&k), "");
	buf_finish(&head);
	buf_finish(&tail);
	keep_finish(&k);
}

/* A stream that goes on is told up to its last whole character, and from where to read on. */
static void half_a_character_is_for_the_next_answer(void **state)
{
	static const struct {
		const char *bytes, *data;
		unsigned head, next;
	} rows[] = {
	    {"ab", "ab", 100, 2},         {"a\xe2\x82", "a", 100, 1}, {"a\xe2\x82\xac", "a\xe2\x82\xac", 100, 4},
	    {"\xf0\x9f\x98", "", 100, 0}, {"", "", 100, 0},           {"abc\xe2", "a", 1, 3},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct keep k;
		json_t *o;

		assert_int_equal(keep_init(&k, rows[i].head, 2), 0);
		feed(&k, rows[i].bytes, 1);
		o = keep_so_far(&k);
		assert_string_equal(str(o, "data"), rows[i].data);
		assert_string_equal(str(o, "encoding"), "utf-8");
		assert_int_equal(json_integer_value(json_object_get(o, "next_offset")), rows[i].next);
		assert_int_equal(json_integer_value(json_object_get(o, "total_bytes")), strlen(rows[i].bytes));
		json_decref(o);
		keep_finish(&k);
	}
}

/* Any piece size, any budget: head and tail are exactly the ends, and nothing is counted twice. */
static void head_and_tail_are_the_ends(void **state)
{
	static const struct {
		uint64_t head, tail;
	} budgets[] = {{0, 0}, {0, 7}, {7, 0}, {10, 16}, {13, 13}, {26, 26}, {60, 60}};
	const char *all = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t n = strlen(all);

	(void)state;
	for (size_t b = 0; b < sizeof(budgets) / sizeof(budgets[0]); b++)
		for (size_t piece = 1; piece <= n; piece += 5) {
			uint64_t head = budgets[b].head, tail = budgets[b].tail;
			struct keep k;
			json_t *o;

			assert_int_equal(keep_init(&k, head, tail), 0);
			feed(&k, all, piece);
			o = keep_json(&k);
			assert_int_equal(json_integer_value(json_object_get(o, "total_bytes")), n);
			if (head + tail >= n) {
				assert_string_equal(str(o, "data"), all);
				assert_true(json_is_false(json_object_get(o, "truncated")));
			} else {
				assert_int_equal(strlen(str(o, "data")), head);
				assert_memory_equal(str(o, "data"), all, head);
				assert_string_equal(str(o, "tail"), all + n - tail);
				assert_int_equal(json_integer_value(json_object_get(o, "omitted_bytes")),
						 n - head - tail);
			}
			json_decref(o);
			keep_finish(&k);
		}
}

static void bytes_that_are_no_text_say_so(void **state)
{
	struct keep k;
	json_t *o;

	(void)state;
	assert_int_equal(keep_init(&k, 100, 100), 0);
	assert_int_equal(keep_add(&k, (const uint8_t *)"\xff\x00z", 3), 0);
	o = keep_json(&k);
	assert_string_equal(str(o, "encoding"), "base64");
	assert_string_equal(str(o, "data"), "/wB6");
	json_decref(o);
	keep_finish(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(small_output_is_whole),
	    cmocka_unit_test(a_digest_is_of_every_byte),
	    cmocka_unit_test(half_a_character_is_for_the_next_answer),
	    cmocka_unit_test(head_and_tail_are_the_ends),
	    cmocka_unit_test(bytes_that_are_no_text_say_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
