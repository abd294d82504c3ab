#include "muxd/base/clock.h"
#include "muxd/base/err.h"
#include "muxd/base/ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void an_id_is_a_uuid_version_7(void **state)
{
	(void)state;
	struct id id, back;
	char text[ID_STR_LEN];
	clock_test_set(1, INT64_C(2000000000123) * 1000000);
	assert_int_equal(id_new(&id), 0);
	clock_test_reset();
	id_format(&id, text);
	assert_int_equal(strlen(text), 36);
	assert_memory_equal(text, "01d1a94a-207b-7", 15);
	assert_non_null(strchr("89ab", text[19]));
	assert_int_equal(id_parse(text, &back), 0);
	assert_true(id_equal(&id, &back));
	assert_false(id_is_nil(&id));
}

static void ids_grow_even_when_the_clock_steps_back(void **state)
{
	(void)state;
	struct id last, next;
	assert_int_equal(id_new(&last), 0);
	for (int i = 0; i < 50000; i++) {
		/* Half of the time in one and the same past millisecond. */
		if (i % 1000 == 0)
			clock_test_set(1, i % 2000 ? INT64_C(1000) : INT64_C(2100000000000) * 1000000 + i);
		assert_int_equal(id_new(&next), 0);
		assert_true(memcmp(last.b, next.b, 16) < 0);
		last = next;
	}
	clock_test_reset();
}

static void parses_exactly_the_text_form(void **state)
{
	(void)state;
	struct id id = {{1}};
	static const char *const wrong[] = {"",
					    "0199a3c4-7b1e-7abc-8def-0123456789a",
					    "0199a3c4-7b1e-7abc-8def-0123456789abc",
					    "0199a3c4-7b1e-7abc-8def_0123456789ab",
					    "0199a3c47-b1e-7abc-8def-0123456789ab",
					    "g199a3c4-7b1e-7abc-8def-0123456789ab",
					    "0199a3c4-7b1e-7abc-8def-0123456789a "};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(id_parse(wrong[i], &id), ERR_INVAL);
	assert_int_equal(id.b[0], 1);
	assert_int_equal(id_parse("0199A3C4-7b1e-7abc-8def-0123456789AB", &id), 0);
	assert_int_equal(id.b[15], 0xab);
}

static void agents_are_labels_or_uuids(void **state)
{
	(void)state;
	static const char *const good[] = {"demo",
					   "a",
					   "7",
					   "a-b-c",
					   "0199A3C4-7B1E-7ABC-8DEF-0123456789AB",
					   "123456789012345678901234567890123456789012345678901234567890123"};
	static const char *const wrong[] = {"",
					    "Demo",
					    "-a",
					    "a-",
					    "a_b",
					    "a.b",
					    "a b",
					    "a/b",
					    "\xc3\xa9",
					    "a\n",
					    "1234567890123456789012345678901234567890123456789012345678901234"};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(agent_name_check(good[i], NULL), 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(agent_name_check(wrong[i], NULL), ERR_INVAL);
	assert_int_equal(agent_name_check(NULL, NULL), ERR_INVAL);
	struct err e = {0};
	agent_name_check("my_agent", &e);
	assert_string_equal(e.message,
			    "agent name has \"_\" at character 3: a to z, 0 to 9 and inner dashes are allowed");
}

static void targets_may_be_pods(void **state)
{
	(void)state;
	static const char *const good[] = {"demo", "ns/pod", "ns/pod-0.web/main"};
	static const char *const wrong[] = {"/",          "ns/",       "/pod",   "ns/pod/",
					    "ns/pod/c/d", "ns/pod./c", "Ns/pod", "ns/po d"};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(target_name_check(good[i], NULL), 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(target_name_check(wrong[i], NULL), ERR_INVAL);
	assert_int_equal(target_name_check(NULL, NULL), ERR_INVAL);
}

static void tokens_are_plain_and_named_in_errors(void **state)
{
	(void)state;
	struct err e = {0};
	char big[130];
	assert_int_equal(token_name_check("task", "issue-7/step:2@x+y_z.1", NULL), 0);
	assert_int_equal(token_name_check("task", "", &e), ERR_INVAL);
	assert_string_equal(e.message, "task is empty");
	assert_int_equal(token_name_check("exec_id", "a b", &e), ERR_INVAL);
	assert_string_equal(e.message, "exec_id has 0x20 at character 2: letters, digits and ._@:/+- are allowed");
	memset(big, 'a', 129);
	big[129] = '\0';
	assert_int_equal(token_name_check("task", big, NULL), ERR_INVAL);
	big[128] = '\0';
	assert_int_equal(token_name_check("task", big, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_id_is_a_uuid_version_7),    cmocka_unit_test(ids_grow_even_when_the_clock_steps_back),
	    cmocka_unit_test(parses_exactly_the_text_form), cmocka_unit_test(agents_are_labels_or_uuids),
	    cmocka_unit_test(targets_may_be_pods),          cmocka_unit_test(tokens_are_plain_and_named_in_errors),
	};
	return cmocka_run_group_tests_name("ids", tests, NULL, NULL);
}
