// tier: check
/* One buffer, one offset per viewer: what a stream holds, gives up and releases. */
#include "base/err.h"
#include "muxd/hub/session/stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Every byte of the stream is its offset modulo 251, so any place can be checked. */
static void put(struct stream *s, size_t n, uint64_t position, bool hold)
{
	uint8_t *p = malloc(n + 1);

	assert_non_null(p);
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)((s->end + i) % 251);
	assert_int_equal(stream_append(s, p, n, position, hold), 0);
	free(p);
}

static void check(const struct stream *s, uint64_t from, uint64_t until)
{
	const uint8_t *p;
	uint64_t at = from;
	size_t n;

	while ((n = stream_peek(s, at, &p))) {
		for (size_t i = 0; i < n; i++)
			assert_int_equal(p[i], (at + i) % 251);
		at += n;
	}
	assert_int_equal(at, until);
}

static void grows_and_keeps_the_newest(void **state)
{
	struct stream s;

	(void)state;
	stream_init(&s, 0);
	for (int i = 0; i < 100; i++)
		put(&s, 7777, 0, false);
	assert_int_equal(s.end, 777700);
	assert_int_equal(s.cap, STREAM_RING_MAX);
	check(&s, s.start, s.end);
	assert_int_equal(s.end - s.start, STREAM_RING_MAX);
	assert_int_equal(stream_peek(&s, s.start - 1, &(const uint8_t *){0}), 0);
	stream_finish(&s);
}

static void one_append_larger_than_the_ring(void **state)
{
	struct stream s;

	(void)state;
	stream_init(&s, 12345);
	put(&s, 10, 0, false);
	put(&s, STREAM_RING_MAX + 999, 0, false);
	check(&s, s.start, 12345 + 10 + STREAM_RING_MAX + 999);
	stream_finish(&s);
}

static void shrinks_to_what_is_kept(void **state)
{
	struct stream s;

	(void)state;
	stream_init(&s, 3);
	put(&s, 300000, 0, false);
	stream_shrink(&s, 10000);
	assert_true(s.cap <= 16384);
	check(&s, 300003 - 10000, 300003);
	put(&s, 5000, 0, false);
	check(&s, 300003 - 5000, 305003);
	stream_finish(&s);
}

static void shows_only_what_is_durable(void **state)
{
	struct stream s;

	(void)state;
	stream_init(&s, 0);
	for (uint64_t i = 1; i <= 2 * STREAM_MARKS; i++)
		put(&s, 100, i * 10, true);
	check(&s, 0, 0);
	assert_true(stream_release(&s, 10));
	check(&s, 0, 100);
	assert_false(stream_release(&s, 19));
	/* More appends than marks: the newest were joined, which shows them later, never earlier. */
	assert_true(stream_release(&s, (STREAM_MARKS - 1) * 10));
	check(&s, 0, (STREAM_MARKS - 1) * 100);
	assert_false(stream_release(&s, 2 * STREAM_MARKS * 10 - 1));
	assert_true(stream_release(&s, 2 * STREAM_MARKS * 10));
	check(&s, 0, 2 * STREAM_MARKS * 100);
	stream_finish(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(grows_and_keeps_the_newest),
	    cmocka_unit_test(one_append_larger_than_the_ring),
	    cmocka_unit_test(shrinks_to_what_is_kept),
	    cmocka_unit_test(shows_only_what_is_durable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
