// tier: check
/* When memory is given back: after a crowd, in a quiet moment, and without one a minute later. */
#include "base/clock.h"
#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void the_moment(void **state)
{
	struct memory_rest m = {0};
	uint64_t now = NS_PER_SEC;

	(void)state;
	for (int i = 0; i < 15; i++)
		memory_moved(&m, now);
	assert_false(memory_due(&m, now + 100 * NS_PER_SEC)); /* a few are not worth it */
	now += 100 * NS_PER_SEC;
	m = (struct memory_rest){0};
	for (int i = 0; i < 16; i++)
		memory_moved(&m, now);
	assert_false(memory_due(&m, now + NS_PER_SEC));
	assert_true(memory_due(&m, now + 2 * NS_PER_SEC));
	assert_false(memory_due(&m, now + 500 * NS_PER_SEC)); /* once */
	for (uint64_t end = now + 59 * NS_PER_SEC; now < end; now += NS_PER_SEC) {
		memory_moved(&m, now);
		assert_false(memory_due(&m, now));
	}
	memory_moved(&m, now + NS_PER_SEC);
	assert_true(memory_due(&m, now + NS_PER_SEC)); /* never quiet */
}

static unsigned long resident(void)
{
	unsigned long all, rss = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu %lu", &all, &rss), 2);
	fclose(f);
	return rss * 4;
}

/* Pieces between what stays, as sessions leave them. */
static void it_is_given_back(void **state)
{
	enum { N = 2000, PIECE = 20000 };
	static char *p[N], *stays[N];
	struct memory_rest m = {0};
	unsigned long most;

	(void)state;
#if defined(__SANITIZE_ADDRESS__)
	skip(); /* another allocator */
#endif
	for (int i = 0; i < N; i++) {
		p[i] = malloc(PIECE);
		stays[i] = malloc(16);
		assert_non_null(p[i]);
		memset(p[i], 1, PIECE);
	}
	most = resident();
	for (int i = 0; i < N; i++) {
		free(p[i]);
		memory_moved(&m, 0);
	}
	assert_true(resident() > most - 8000); /* or there was nothing to do */
	assert_true(memory_due(&m, 100 * NS_PER_SEC));
	memory_give();
	assert_true(resident() < most - 20000);
	for (int i = 0; i < N; i++)
		free(stays[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_moment),
	    cmocka_unit_test(it_is_given_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
