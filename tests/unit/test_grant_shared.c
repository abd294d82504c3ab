// tier: check
/* One copy of a grant for whoever holds it, until nobody does. */
#include "policy/grant_shared.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void one_copy_for_all(void **state)
{
	struct grant g = {.principal = "anna", .reason = "a look", .expires_ns = 7}, other = g;
	struct grants_shared s = {0};
	const struct grant *a, *b, *c;

	(void)state;
	other.expires_ns = 8; /* the same id, and not the same grant */
	a = grant_share(&s, &g);
	b = grant_share(&s, &g);
	c = grant_share(&s, &other);
	assert_non_null(a);
	assert_non_null(c);
	assert_ptr_equal(a, b);
	assert_ptr_not_equal(a, c);
	assert_memory_equal(a, &g, sizeof(g));
	memset(&g, 0, sizeof(g)); /* it is a copy */
	assert_string_equal(a->principal, "anna");
	grant_unshare(&s, a);
	assert_string_equal(b->reason, "a look"); /* somebody holds it still */
	grant_unshare(&s, NULL);
	grant_unshare(&s, c);
	grant_unshare(&s, b);
	assert_null(s.all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(one_copy_for_all)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
