// tier: check
#include "base/clock.h"
#include "base/err.h"
#include "base/ids.h"

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

static void targets_come_apart(void **state)
{
	(void)state;
	static const struct {
		const char *name, *agent, *ns, *pod, *container;
	} t[] = {{"demo", "demo", "", "", ""},
		 {"ns/pod", "", "ns", "pod", ""},
		 {"ns/web-0.west/main", "", "ns", "web-0.west", "main"},
		 {"0199a3c4-7b1e-7abc-8def-0123456789ab", "0199a3c4-7b1e-7abc-8def-0123456789ab", "", "", ""}};
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct target got;
		assert_int_equal(target_parse(t[i].name, &got, NULL), 0);
		assert_string_equal(got.agent, t[i].agent);
		assert_string_equal(got.ns, t[i].ns);
		assert_string_equal(got.pod, t[i].pod);
		assert_string_equal(got.container, t[i].container);
		assert_int_equal(target_is_pod(t[i].name), t[i].ns[0] != '\0');
	}
}

static void hostile_targets_are_refused(void **state)
{
	(void)state;
	static const char *const t[] = {"../pod",     "ns/..",     "ns/../x", "ns//c",      "ns/pod/",    "ns/pod//",
					"ns/pod/c\n", "ns/p%2fod", "ns\\pod", "ns/pod/c d", "ns/.pod/c",  "n.s/pod",
					"ns/pod/c.d", "*/pod",     "ns/*",    "-ns/pod",    "ns/pod\xff", "ns/pod?x=y"};
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct target got = {.pod = "untouched"};
		struct err e = {0};
		if (target_parse(t[i], &got, &e) != ERR_INVAL || e.code != ERR_INVAL || !e.message[0])
			fail_msg("%s was taken", t[i]);
		assert_string_equal(got.pod, "untouched");
	}
	char big[AGENT_NAME_MAX + 2] = "ns/";
	memset(big + 3, 'a', sizeof(big) - 4);
	for (size_t i = 60; i < sizeof(big) - 2; i += 60)
		big[i] = '.';
	struct target got;
	struct err e = {0};
	assert_int_equal(target_parse(big, &got, &e), ERR_INVAL);
	assert_string_equal(e.message, "target name has 193 characters, 192 are allowed");
	big[AGENT_NAME_MAX] = '\0';
	assert_int_equal(target_parse(big, &got, &e), 0);
}

static void a_pod_covers_its_containers_and_nothing_else(void **state)
{
	(void)state;
	static const struct {
		const char *wide, *name;
		bool covers;
	} t[] = {{"demo", "demo", true},
		 {"demo", "demo2", false},
		 {"demo", "demo/pod", false},
		 {"ns/pod", "ns/pod", true},
		 {"ns/pod", "ns/pod/main", true},
		 {"ns/pod", "ns/pod2", false},
		 {"ns/pod", "ns/pod2/main", false},
		 {"ns/pod/main", "ns/pod", false},
		 {"ns/pod/main", "ns/pod/main", true},
		 {"ns/pod/main", "ns/pod/ma", false},
		 {"ns", "ns/pod", false}};
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		if (target_covers(t[i].wide, t[i].name) != t[i].covers)
			fail_msg("%s and %s", t[i].wide, t[i].name);
}

/* Names that muxd makes say what they were made of, and grow no longer by it. */
static void made_names_lead_back(void **state)
{
	static const struct {
		const char *name, *origin;
		enum agent_making how;
	} t[] = {{"demo-fork-0123456789ab", "demo", AGENT_FORK},
		 {"demo-base-a1004dbeb38f", "demo", AGENT_BASE},
		 {"demo-mcp-a1004dbeb38f", "demo", AGENT_MCP},
		 {"demo-begin-a1004dbeb38f", "demo", AGENT_BEGIN},
		 {"a-fork-0123456789ab-base-0123456789ab", "a", AGENT_BASE},
		 {"demo-fork-0123456789a", "demo-fork-0123456789a", AGENT_CHOSEN},
		 {"demo-fork-0123456789AB", "demo-fork-0123456789AB", AGENT_CHOSEN},
		 {"demo-fork-0123456789abc", "demo-fork-0123456789abc", AGENT_CHOSEN},
		 {"demo-look-0123456789ab", "demo-look-0123456789ab", AGENT_CHOSEN},
		 {"-fork-0123456789ab", "-fork-0123456789ab", AGENT_CHOSEN},
		 {"0123456789ab", "0123456789ab", AGENT_CHOSEN},
		 {"01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c11", "01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c11", AGENT_CHOSEN},
		 {"ns/demo-fork-0123456789ab", "ns/demo-fork-0123456789ab", AGENT_CHOSEN},
		 {"demo-fork-*", "demo-fork-*", AGENT_CHOSEN},
		 {"", "", AGENT_CHOSEN}};
	char made[AGENT_NAME_MAX + 1], again[AGENT_NAME_MAX + 1], origin[AGENT_NAME_MAX + 1], longest[64];
	struct id id;

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		assert_string_equal(target_origin(t[i].name, origin), t[i].origin);
		assert_int_equal(agent_making(t[i].name), t[i].how);
	}
	assert_int_equal(id_new(&id), 0);
	assert_true(agent_make_name("demo", AGENT_FORK, &id, made));
	assert_string_equal(target_origin(made, origin), "demo");
	assert_true(agent_make_name(made, AGENT_BASE, &id, again));
	assert_int_equal(strlen(again), strlen(made));
	assert_string_equal(target_origin(again, origin), "demo");
	memset(longest, 'a', 63);
	longest[63] = '\0';
	assert_false(agent_make_name(longest, AGENT_FORK, &id, made)); /* no agent has the name that is left of it */
	assert_int_equal(agent_name_check(made, NULL), 0);
	assert_int_equal(agent_name_check(target_origin(made, origin), NULL), ERR_INVAL);
	assert_false(agent_make_name(made, AGENT_BASE, &id, again));
	longest[45] = '\0';
	assert_true(agent_make_name(longest, AGENT_FORK, &id, made));
	assert_string_equal(target_origin(made, origin), longest);
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
	    cmocka_unit_test(an_id_is_a_uuid_version_7),
	    cmocka_unit_test(ids_grow_even_when_the_clock_steps_back),
	    cmocka_unit_test(parses_exactly_the_text_form),
	    cmocka_unit_test(agents_are_labels_or_uuids),
	    cmocka_unit_test(targets_may_be_pods),
	    cmocka_unit_test(targets_come_apart),
	    cmocka_unit_test(hostile_targets_are_refused),
	    cmocka_unit_test(a_pod_covers_its_containers_and_nothing_else),
	    cmocka_unit_test(made_names_lead_back),
	    cmocka_unit_test(tokens_are_plain_and_named_in_errors),
	};
	return cmocka_run_group_tests_name("ids", tests, NULL, NULL);
}
