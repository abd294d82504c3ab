// tier: check
/* Hunks between two texts: read back strictly they make the second; as patch(1) has it; short; bounded. */
#include "files/diff.h"
#include "tests/lib/diff_apply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static struct diff_text hunks_of(const char *a, size_t an, const char *b, size_t bn)
{
	struct diff_text hunks = {0}, made = {0};

	assert_int_equal(diff_unified(a, an, b, bn, diff_text_add, &hunks), 0);
	if (!diff_apply(&hunks, a, an, &made) || made.n != bn || memcmp(made.p ? made.p : "", b, bn) != 0)
		fail_msg("from:\n%.*s\nto:\n%.*s\nhunks:\n%.*s", (int)an, a, (int)bn, b, (int)hunks.n, hunks.p);
	free(made.p);
	return hunks;
}

static void test_texts(void **state)
{
	static const struct {
		const char *a, *b, *want;
	} table[] = {
	    {"", "", ""},
	    {"a\n", "a\n", ""},
	    {"a\n", "b\n", "@@ -1,1 +1,1 @@\n-a\n+b\n"},
	    {"", "b\n", "@@ -0,0 +1,1 @@\n+b\n"},
	    {"a\n", "", "@@ -1,1 +0,0 @@\n-a\n"},
	    {"a", "a\n", "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"},
	    {"a\nb\nc\nd\ne\nf\ng\n", "a\nb\nc\nX\nd\ne\nf\ng\n", "@@ -1,6 +1,7 @@\n a\n b\n c\n+X\n d\n e\n f\n"},
	    /* six lines between two changes belong to both, seven are two hunks */
	    {"1\na\nb\nc\nd\ne\nf\n2\n", "3\na\nb\nc\nd\ne\nf\n4\n",
	     "@@ -1,8 +1,8 @@\n-1\n+3\n a\n b\n c\n d\n e\n f\n-2\n+4\n"},
	    {"1\na\nb\nc\nd\ne\nf\ng\n2\n", "3\na\nb\nc\nd\ne\nf\ng\n4\n",
	     "@@ -1,4 +1,4 @@\n-1\n+3\n a\n b\n c\n@@ -6,4 +6,4 @@\n e\n f\n g\n-2\n+4\n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct diff_text h = hunks_of(table[i].a, strlen(table[i].a), table[i].b, strlen(table[i].b));

		assert_int_equal(h.n, strlen(table[i].want));
		assert_memory_equal(h.p ? h.p : "", table[i].want, h.n);
		free(h.p);
	}
}

static uint32_t roll(uint32_t *seed)
{
	return *seed = *seed * 1664525u + 1013904223u;
}

/* Lines of few kinds, so that many are equal. */
static size_t any_text(uint32_t *seed, char *to, size_t lines)
{
	size_t n = 0;

	for (size_t i = 0; i < lines; i++) {
		to[n++] = (char)('a' + (roll(seed) >> 16) % 4);
		if (i + 1 < lines || roll(seed) >> 31)
			to[n++] = '\n';
	}
	return n;
}

static void test_random(void **state)
{
	uint32_t seed = 7;
	char a[256], b[256];

	(void)state;
	for (int i = 0; i < 20000; i++) {
		size_t an = any_text(&seed, a, (roll(&seed) >> 16) % 60), bn = any_text(&seed, b, (roll(&seed) >> 16) % 60);

		free(hunks_of(a, an, b, bn).p);
	}
}

static size_t count_lines(const struct diff_text *h, char sign)
{
	size_t n = 0;

	for (size_t at = 0; at < h->n; at += diff_line(h->p + at, h->n - at))
		n += h->p[at] == sign;
	return n;
}

/* The shortest: one line that moved is one taken away and one added. */
static void test_short(void **state)
{
	char a[4096] = "", b[4096] = "";
	struct diff_text h;

	(void)state;
	for (int i = 0; i < 200; i++)
		sprintf(a + strlen(a), "line %d\n", i);
	for (int i = 1; i < 200; i++)
		sprintf(b + strlen(b), "line %d\n", i);
	strcat(b, "line 0\n");
	h = hunks_of(a, strlen(a), b, strlen(b));
	assert_int_equal(count_lines(&h, '-'), 1);
	assert_int_equal(count_lines(&h, '+'), 1);
	free(h.p);
}

/* Nothing in common, and much of it: behind the bound of work it is still right, and over in time. */
static void test_bounded(void **state)
{
	size_t size = 4 << 20, an = 0, bn = 0;
	char *a = malloc(size), *b = malloc(size);
	uint32_t seed = 1;
	time_t began = time(NULL);

	(void)state;
	while (an + 16 < size)
		an += (size_t)sprintf(a + an, "%u\n", roll(&seed) >> 12);
	while (bn + 16 < size)
		bn += (size_t)sprintf(b + bn, "%u\n", roll(&seed) >> 12);
	free(hunks_of(a, an, b, bn).p);
	assert_true(time(NULL) - began < 60);
	assert_int_equal(diff_unified(a, DIFF_TEXT_MAX + 1, b, 1, diff_text_add, &(struct diff_text){0}), -1);
	free(a);
	free(b);
}

static int stop(void *arg, const char *p, size_t n)
{
	(void)p, (void)n;
	return --*(int *)arg ? 0 : 28;
}

static void test_stopped(void **state)
{
	int left = 3;

	(void)state;
	assert_int_equal(diff_unified("a\n", 2, "b\n", 2, stop, &left), 28);
	assert_int_equal(left, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_texts),   cmocka_unit_test(test_random),  cmocka_unit_test(test_short),
	    cmocka_unit_test(test_bounded), cmocka_unit_test(test_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
