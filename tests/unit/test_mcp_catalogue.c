// tier: check
/* The calls of the API and the tools of MCP: each call is a tool, or docs/mcp.md says why it is none; and no tool is
 * shown that no operation of policies stands for. */
#include "tests/lib/fake_broker.c"

#include "muxd/doors/https/mcp/tools.h"
#include "muxd/doors/https/route.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static char *slurp(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = calloc(1, 1 << 20);

	assert_non_null(f);
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
	fclose(f);
	return text;
}

static bool is_tool(const struct route *r)
{
	size_t n;
	const struct mcp_tool *t = mcp_tools(&n);

	for (size_t i = 0; i < n; i++)
		if (t[i].method == r->method && strcmp(t[i].pattern, r->pattern) == 0)
			return true;
	return false;
}

static void each_call_is_a_tool_or_has_a_reason(void **state)
{
	char *text = slurp("docs/mcp.md"), *from = strstr(text, "### Calls without a tool"), *to;
	const struct route *r;
	size_t n;

	(void)state;
	assert_non_null(from);
	to = strstr(from, "\n## ");
	assert_non_null(to);
	*to = '\0';
	r = route_table(&n);
	for (size_t i = 0; i < n; i++) {
		char said[300];
		bool listed;

		snprintf(said, sizeof(said), "`%s %s`", http_method_name(r[i].method), r[i].pattern);
		listed = strstr(from, said) != NULL;
		if (strncmp(r[i].pattern, "/v1/", 4) != 0 && strncmp(r[i].pattern, "/sandboxes/", 11) != 0)
			continue; /* pages, MCP itself, and what is no call */
		if (listed == is_tool(&r[i]))
			fail_msg("%s: %s", said,
				 listed ? "it is a tool, and docs/mcp.md says why it is none"
					: "no tool, and no reason");
	}
	free(text);
}

/* A row of the API, arguments that are within it, schemas that can be read. */
static void each_tool_is_a_call(void **state)
{
	size_t n, rows;
	const struct mcp_tool *t = mcp_tools(&n);
	const struct route *r = route_table(&rows);
	json_t *made = mcp_tools_make();

	(void)state;
	assert_non_null(made);
	for (size_t i = 0; i < n; i++) {
		size_t names = 0, queries = 0, k = 0;

		while (k < rows && !(r[k].method == t[i].method && strcmp(r[k].pattern, t[i].pattern) == 0))
			k++;
		if (k == rows)
			fail_msg("%s is no call of the API", t[i].name);
		if (!mcp_tool_has_operation(&t[i]))
			fail_msg("%s has no row of operations (judged[]): nobody would be shown it", t[i].name);
		for (size_t a = 0; a < t[i].nargs; a++) {
			names += t[i].args[a].to == TO_NAME;
			queries += t[i].args[a].to == TO_QUERY;
			if (strcmp(t[i].args[a].name, "task_id") == 0 && strncmp(t[i].name, "sandbox.", 8) == 0)
				assert_true(t[i].args[a].required);
		}
		for (const char *p = strchr(t[i].pattern, '{'); p; p = strchr(p + 1, '{'))
			names--;
		if (names || queries > 6 || t[i].nargs > MCP_ARGS_MAX)
			fail_msg("%s: its arguments are not those of its path", t[i].name);
		if (!json_is_object(json_object_get(json_array_get(made, i), "outputSchema")))
			fail_msg("%s: its output schema is no JSON", t[i].name);
		for (size_t other = 0; other < i; other++)
			if (mcp_tool_find(t[other].name) != &t[other] || strcmp(t[other].name, t[i].name) == 0)
				fail_msg("%s stands twice", t[i].name);
	}
	json_decref(made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_call_is_a_tool_or_has_a_reason),
	    cmocka_unit_test(each_tool_is_a_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
