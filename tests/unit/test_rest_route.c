// tier: check
/* Finding routes, and the route table against docs/openapi.yaml: neither has a row that the other lacks. */
#include "tests/lib/fake_broker.c"

#include "base/text.h"
#include "muxd/doors/https/route.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static int find(struct http_exchange *x, enum http_method m, const char *path)
{
	struct err e = {0};

	memset(x, 0, sizeof(*x));
	x->method = m;
	snprintf(x->path, sizeof(x->path), "%s", path);
	return route_find(x, &e);
}

static void test_found(void **state)
{
	struct http_exchange x;

	(void)state;
	assert_int_equal(find(&x, HTTP_GET, "/"), 0);
	assert_string_equal(x.route->pattern, "/");
	assert_int_equal(find(&x, HTTP_POST, "/v1/agents/demo/rounds"), 0);
	assert_string_equal(x.route->pattern, "/v1/agents/{agent}/rounds");
	assert_string_equal(x.params[0], "demo");
	assert_int_equal(x.route->body, BODY_REQUIRED);
	assert_int_equal(find(&x, HTTP_HEAD, "/healthz"), 0);
	assert_int_equal(x.route->method, HTTP_GET);
	assert_int_equal(find(&x, HTTP_GET, "/v1/rounds/abc/output"), 0);
	assert_string_equal(x.params[0], "abc");
}

static void test_not_found(void **state)
{
	static const char *const paths[] = {"",
					    "/v1",
					    "/v1/",
					    "/healthz/",
					    "/v1/agents/",
					    "/v1/agents//rounds",
					    "/v1/rounds/a/b",
					    "//healthz",
					    "/v1/agents/a/b/c/d/rounds",
					    "/v1/agents/a/b/c/d",
					    "/v1/agents/a//b",
					    "/v1/agents/a/b/",
					    "/v1/agents/a/b/rounds/x",
					    "/HEALTHZ"};
	struct http_exchange x;
	char long_name[300] = "/v1/agents/";

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (find(&x, HTTP_GET, paths[i]) != ERR_NOT_FOUND || x.route)
			fail_msg("%s was found", paths[i]);
	memset(long_name + 11, 'a', 200);
	assert_int_equal(find(&x, HTTP_GET, long_name), ERR_NOT_FOUND);
}

static void test_other_method(void **state)
{
	struct http_exchange x;

	(void)state;
	assert_int_equal(find(&x, HTTP_DELETE, "/v1/sessions"), ERR_INVAL);
	assert_string_equal(x.allow, "GET, HEAD");
	assert_int_equal(find(&x, HTTP_GET, "/v1/agents/demo/rounds"), ERR_INVAL);
	assert_string_equal(x.allow, "POST");
	assert_null(x.route);
}

static void test_pods(void **state)
{
	static const struct {
		enum http_method method;
		const char *path, *pattern, *agent;
	} rows[] = {
	    {HTTP_GET, "/v1/agents/ns/pod", "/v1/agents/{agent}", "ns/pod"},
	    {HTTP_GET, "/v1/agents/ns/pod/c", "/v1/agents/{agent}", "ns/pod/c"},
	    {HTTP_POST, "/v1/agents/ns/pod/rounds", "/v1/agents/{agent}/rounds", "ns/pod"},
	    {HTTP_POST, "/v1/agents/ns/pod/c/rounds", "/v1/agents/{agent}/rounds", "ns/pod/c"},
	    {HTTP_POST, "/v1/agents/ns/pod/c/resume", "/v1/agents/{agent}/resume", "ns/pod/c"},
	    {HTTP_POST, "/v1/agents/rounds/rounds", "/v1/agents/{agent}/rounds", "rounds"},
	    {HTTP_POST, "/v1/agents/ns/rounds/rounds", "/v1/agents/{agent}/rounds", "ns/rounds"},
	};
	struct http_exchange x;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (find(&x, rows[i].method, rows[i].path))
			fail_msg("%s was not found", rows[i].path);
		assert_string_equal(x.route->pattern, rows[i].pattern);
		assert_string_equal(x.params[0], rows[i].agent);
	}
	/* an operation, not a pod of its name */
	assert_int_equal(find(&x, HTTP_GET, "/v1/agents/ns/rounds"), ERR_INVAL);
	assert_string_equal(x.allow, "POST");
	assert_int_equal(find(&x, HTTP_GET, "/v1/agents/ns/pod/resume"), ERR_INVAL);
	assert_string_equal(x.allow, "POST");
}

static void test_authorize(void **state)
{
	struct hub h = {0};
	struct http_exchange x;
	struct err e = {0};

	(void)state;
	assert_int_equal(find(&x, HTTP_GET, "/healthz"), 0);
	x.hub = &h;
	assert_int_equal(route_authorize(&x, NULL, &e), 0);
	assert_false(x.authenticated);
	assert_int_equal(find(&x, HTTP_GET, "/v1/agents/demo"), 0);
	x.hub = &h;
	assert_int_equal(route_authorize(&x, NULL, &e), ERR_UNAUTHENTICATED);
	assert_int_equal(route_authorize(&x, "expired", &e), ERR_TOKEN_EXPIRED);
	assert_false(x.authenticated);
	assert_int_equal(route_authorize(&x, "good", &e), 0);
	assert_true(x.authenticated);
	assert_true(id_equal(&x.rq.id, &x.id));
}

static void test_metrics_are_open_from_loopback_where_it_is_said(void **state)
{
	static const struct {
		const char *peer, *token;
		bool open;
		int rc;
	} cases[] = {
	    {"127.0.0.1:5", NULL, true, 0},
	    {"[::1]:5", NULL, true, 0},
	    {"[::ffff:127.0.0.1]:5", NULL, true, 0},
	    {"127.0.0.1:5", NULL, false, ERR_UNAUTHENTICATED},
	    {"[::1]:5", NULL, false, ERR_UNAUTHENTICATED},
	    {"127.0.0.1:5", "weak", false, ERR_FORBIDDEN},
	    {"192.0.2.1:5", NULL, true, ERR_UNAUTHENTICATED},
	    {"[::2]:5", NULL, true, ERR_UNAUTHENTICATED},
	    {"unknown", NULL, true, ERR_UNAUTHENTICATED},
	    {"192.0.2.1:5", "weak", false, ERR_FORBIDDEN},
	    {"192.0.2.1:5", "good", false, 0},
	};
	struct conf conf = {.metrics_token_file = (char[]){""}};
	struct hub h = {.conf = &conf};
	struct http_exchange x;
	struct err e = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(find(&x, HTTP_GET, "/metrics"), 0);
		x.hub = &h;
		snprintf(x.peer, sizeof(x.peer), "%s", cases[i].peer);
		conf.metrics_open_on_loopback = cases[i].open;
		e = (struct err){0};
		assert_int_equal(route_authorize(&x, cases[i].token, &e), cases[i].rc);
	}
}

static void put_tokens(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* A scraper's token opens /metrics from anywhere, nothing else, and for as long as it stands in the file. */
static void test_a_scraper_has_a_credential_of_its_own(void **state)
{
	static const char first[] = "0123456789abcdef0123456789abcdef", second[] = "fedcba9876543210fedcba9876543210";
	char path[] = "/tmp/muxd-scraper-XXXXXX";
	struct conf conf = {.metrics_token_file = path};
	struct hub h = {.conf = &conf};
	struct http_exchange x;
	struct err e = {0};
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	put_tokens(path, "# of the scraper\n\n  0123456789abcdef0123456789abcdef \r\nshort\n");
	assert_int_equal(find(&x, HTTP_GET, "/metrics"), 0);
	x.hub = &h;
	snprintf(x.peer, sizeof(x.peer), "192.0.2.1:5");
	assert_int_equal(route_authorize(&x, first, &e), 0);
	assert_int_not_equal(route_authorize(&x, second, &e), 0);
	assert_int_not_equal(route_authorize(&x, "short", &e), 0);
	assert_int_not_equal(route_authorize(&x, "", &e), 0);
	put_tokens(path, "fedcba9876543210fedcba9876543210");
	assert_int_equal(route_authorize(&x, second, &e), 0);
	assert_int_not_equal(route_authorize(&x, first, &e), 0);
	assert_int_equal(find(&x, HTTP_GET, "/v1/sessions"), 0);
	x.hub = &h;
	assert_int_not_equal(route_authorize(&x, second, &e), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(find(&x, HTTP_GET, "/metrics"), 0);
	x.hub = &h;
	assert_int_not_equal(route_authorize(&x, second, &e), 0);
}

/* --- the document */

#define DOCUMENT_MAX (1 << 20)

static char *document(void)
{
	FILE *f = fopen("docs/openapi.yaml", "r");
	char *text = calloc(1, DOCUMENT_MAX);
	size_t n;

	if (!f || !text)
		fail_msg("run it from the top of the tree: docs/openapi.yaml is not here");
	n = fread(text, 1, DOCUMENT_MAX - 1, f);
	if (n == 0 || n == DOCUMENT_MAX - 1)
		fail_msg("docs/openapi.yaml has %zu bytes or more", n);
	fclose(f);
	return text;
}

/* "METHOD PATH\n" for each operation of the document. */
static void operations(char *text, char *out, size_t size)
{
	char path[200] = "", *save = NULL;
	size_t len = 0;
	bool inside = false;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char method[20];

		if (line[0] != ' ')
			inside = strcmp(line, "paths:") == 0;
		else if (inside && strncmp(line, "  /", 3) == 0)
			snprintf(path, sizeof(path), "%.*s", (int)strcspn(line + 2, ":"), line + 2);
		else if (inside && sscanf(line, "    %19[a-z]:", method) == 1 && strncmp(line, "     ", 5) != 0) {
			for (char *c = method; *c; c++)
				*c = (char)(*c - 'a' + 'A');
			if (strcmp(method, "PARAMETERS") != 0)
				len += (size_t)snprintf(out + len, size - len, "%s %s\n", method, path);
		}
	}
}

/* A stranger is asked for a body by few rows, each of which says how long it may be and what it is for. */
/* A token of an issuer goes on to the handler of MCP where the configuration names one, and nowhere else. */
static void test_a_token_is_shown_at_mcp_alone(void **state)
{
	struct conf_issuer one = {.name = (char[]){"x"}, .issuer = (char[]){"https://x"}};
	struct conf conf = {.issuers = &one, .nissuers = 1};
	struct hub h = {.conf = &conf};
	struct http_exchange x;
	struct err e = {0};

	(void)state;
	assert_int_equal(find(&x, HTTP_POST, "/mcp"), 0);
	x.hub = &h;
	assert_int_not_equal(route_authorize(&x, "a.b.c", &e), 0);
	assert_null(x.token);
	one.reason = (char[]){"MCP"};
	assert_int_not_equal(route_authorize(&x, "a.b.c", &e), 0); /* under a Host that is none of the daemon's names */
	assert_null(x.token);
	text_put(x.own_url, sizeof(x.own_url), "https://localhost:8443");
	x.local = true; /* by the Unix socket */
	assert_int_not_equal(route_authorize(&x, "a.b.c", &e), 0);
	assert_null(x.token);
	x.local = false;
	e = (struct err){0};
	assert_int_equal(route_authorize(&x, "a.b.c", &e), 0);
	assert_false(x.authenticated);
	assert_string_equal(x.token, "a.b.c");
	free(x.token);
	assert_int_equal(find(&x, HTTP_POST, "/mcp/demo/files"), 0);
	x.hub = &h;
	text_put(x.own_url, sizeof(x.own_url), "https://localhost:8443");
	assert_int_equal(route_authorize(&x, "a b", &e), ERR_TOKEN_MALFORMED);
	e = (struct err){0};
	assert_int_equal(route_authorize(&x, NULL, &e), ERR_UNAUTHENTICATED);
	assert_int_equal(find(&x, HTTP_GET, "/v1/agents"), 0);
	x.hub = &h;
	e = (struct err){0};
	assert_int_not_equal(route_authorize(&x, "a.b.c", &e), 0);
	assert_null(x.token);
}

static void test_bodies_of_strangers(void **state)
{
	size_t n, open = 0;
	const struct route *r = route_table(&n);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		bool granted = r[i].auth == ROUTE_GRANT || r[i].auth == ROUTE_BASIC;
		const struct route_open *o = route_open_find(&r[i]);

		if (r[i].body == BODY_NONE)
			continue;
		if (granted == (o != NULL) || (o && (!o->wanted || !o->body_max || r[i].body == BODY_STREAM)))
			fail_msg("%s: its body without a grant", r[i].pattern);
		open += o != NULL;
	}
	assert_int_equal(open, 5);
}

static void test_document_and_table_agree(void **state)
{
	char ops[8192] = "", row[300], *text = document();
	size_t n, in_document = 0;
	const struct route *r = route_table(&n);

	(void)state;
	operations(text, ops, sizeof(ops));
	for (const char *c = ops; *c; c++)
		in_document += *c == '\n';
	for (size_t i = 0; i < n; i++) {
		snprintf(row, sizeof(row), "%s %s\n", http_method_name(r[i].method), r[i].pattern);
		if (!strstr(ops, row))
			fail_msg("not in docs/openapi.yaml: %s", row);
	}
	assert_int_equal(in_document, n);
	free(text);
}

static void test_document_lists_every_error(void **state)
{
	static const char *const codes[] = {
#define CODE(name, code, http, exit, hint) code,
	    ERR_TABLE(CODE)
#undef CODE
	};
	char *text = document(), *list = strstr(text, "    ErrorCode:"),
	     *end = list ? strstr(list, "\n    Error:") : NULL;
	char line[80];
	size_t n = 0;

	(void)state;
	assert_non_null(end);
	*end = '\0';
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		snprintf(line, sizeof(line), "\n        - %s", codes[i]);
		list = strstr(text, "    ErrorCode:");
		list = strstr(list, line);
		if (!list || (list[strlen(line)] != '\n' && list[strlen(line)] != '\0'))
			fail_msg("not in docs/openapi.yaml: %s", codes[i]);
	}
	for (list = strstr(text, "    ErrorCode:"); (list = strstr(list, "\n        - ")); list++)
		n++;
	assert_int_equal(n, sizeof(codes) / sizeof(codes[0]));
	free(text);
}

static void test_document_lists_every_kind(void **state)
{
	char *text = document(), want[200];
	int n = snprintf(want, sizeof(want), "    SessionKind:\n      type: string\n      enum: [");

	(void)state;
	for (int k = 0; k < SESSION_KINDS; k++)
		n += snprintf(want + n, sizeof(want) - (size_t)n, "%s%s", k ? ", " : "",
			      session_kind_name((enum session_kind)k));
	snprintf(want + n, sizeof(want) - (size_t)n, "]\n");
	if (!strstr(text, want))
		fail_msg("not in docs/openapi.yaml:\n%s", want);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_found),
	    cmocka_unit_test(test_not_found),
	    cmocka_unit_test(test_other_method),
	    cmocka_unit_test(test_pods),
	    cmocka_unit_test(test_authorize),
	    cmocka_unit_test(test_metrics_are_open_from_loopback_where_it_is_said),
	    cmocka_unit_test(test_a_scraper_has_a_credential_of_its_own),
	    cmocka_unit_test(test_a_token_is_shown_at_mcp_alone),
	    cmocka_unit_test(test_bodies_of_strangers),
	    cmocka_unit_test(test_document_and_table_agree),
	    cmocka_unit_test(test_document_lists_every_error),
	    cmocka_unit_test(test_document_lists_every_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
