// tier: check
#include "base/buf.h"
#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void appends_and_consumes_in_order(void **state)
{
	(void)state;
	struct buf b;
	buf_init(&b, 100);
	assert_null(buf_ptr(&b));
	assert_int_equal(buf_append_str(&b, "hello "), 0);
	assert_int_equal(buf_printf(&b, "%s-%d", "w", 7), 0);
	assert_string_equal(buf_cstr(&b), "hello w-7");
	buf_consume(&b, 6);
	assert_int_equal(buf_len(&b), 3);
	assert_memory_equal(buf_ptr(&b), "w-7", 3);
	assert_int_equal(buf_room(&b), 97);
	buf_truncate(&b, 1);
	assert_string_equal(buf_cstr(&b), "w");
	assert_int_equal(buf_append_str(&b, "x"), 0);
	assert_string_equal(buf_cstr(&b), "wx");
	buf_truncate(&b, 0);
	assert_int_equal(buf_room(&b), 100);
	buf_finish(&b);
	buf_finish(&b);
	buf_finish(NULL);
}

static void never_grows_past_its_limit(void **state)
{
	(void)state;
	struct buf b;
	uint8_t *p = NULL;
	buf_init(&b, 8);
	assert_int_equal(buf_append(&b, "12345678", 8), 0);
	assert_int_equal(buf_append(&b, "9", 1), ERR_TOO_LARGE);
	assert_int_equal(buf_printf(&b, "%d", 9), ERR_TOO_LARGE);
	assert_int_equal(buf_reserve(&b, SIZE_MAX, &p), ERR_TOO_LARGE);
	assert_null(p);
	assert_string_equal(buf_cstr(&b), "12345678");
	buf_consume(&b, 3);
	assert_int_equal(buf_append(&b, "abc", 3), 0);
	assert_string_equal(buf_cstr(&b), "45678abc");
	buf_finish(&b);
}

static void reserve_and_commit_write_in_place(void **state)
{
	(void)state;
	struct buf b;
	uint8_t *p;
	buf_init(&b, 1000);
	assert_int_equal(buf_reserve(&b, 500, &p), 0);
	memset(p, 'x', 500);
	buf_commit(&b, 4);
	assert_int_equal(buf_len(&b), 4);
	assert_string_equal(buf_cstr(&b), "xxxx");
	buf_clear(&b);
	assert_int_equal(buf_len(&b), 0);
	assert_int_equal(buf_append(&b, NULL, 0), 0);
	buf_finish_secret(&b);
}

/* A queue that lives long: what goes in comes out, whatever the sizes, and memory stays near the content. */
static void keeps_bytes_over_many_turns(void **state)
{
	(void)state;
	struct buf b;
	uint8_t in = 0, out = 0;
	unsigned seed = 1;
	buf_init(&b, 5000);
	for (int turn = 0; turn < 20000; turn++) {
		uint8_t piece[300];
		seed = seed * 1103515245 + 12345;
		size_t n = seed >> 16 & 255;
		for (size_t i = 0; i < n; i++)
			piece[i] = (uint8_t)(in + i);
		if (buf_append(&b, piece, n) == 0)
			in = (uint8_t)(in + n);
		seed = seed * 1103515245 + 12345;
		size_t take = seed >> 16 & 255;
		if (take > buf_len(&b))
			take = buf_len(&b);
		for (size_t i = 0; i < take; i++)
			assert_int_equal(buf_ptr(&b)[i], out++);
		buf_consume(&b, take);
		assert_true(b.cap <= 4 * 5000);
	}
	buf_finish(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(appends_and_consumes_in_order),
	    cmocka_unit_test(never_grows_past_its_limit),
	    cmocka_unit_test(reserve_and_commit_write_in_place),
	    cmocka_unit_test(keeps_bytes_over_many_turns),
	};
	return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
