// tier: check
/* MCP servers of an agent: what a list may hold, its versions in the store, and tools that change behind an approval.
 */
#include "base/err.h"
#include "base/json.h"
#include "control/servers/catalogue.h"
#include "control/servers/lists.h"
#include "control/servers/server_def.h"
#include "control/servers/servers.h"
#include "control/store/store.h"
#include "muxd/hub/core/hub_state.h"
#include "muxd/hub/inside/inside_state.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

static json_t *parse(const char *text)
{
	json_t *v = NULL;

	assert_int_equal(json_parse(text, strlen(text), SIZE_MAX, &v, NULL), 0);
	return v;
}

static int check(const char *text, struct err *e)
{
	json_t *list = parse(text), *taken = NULL;
	int rc = server_list_check(list, &taken, e);

	json_decref(list);
	json_decref(taken);
	return rc;
}

static void test_lists(void **state)
{
	static const struct {
		const char *list;
		int rc;
		const char *at;
	} rows[] = {
	    {"[]", 0, ""},
	    {"[{\"name\":\"a\",\"command\":[\"x\",\"--max-tokens\",\"100\"],\"env\":{\"MAX_TOKENS\":\"1\",\"HOME\":\"/"
	     "workspace/a/very/long/path/with/1/2/3/4\"}}]",
	     0, ""},
	    {"{}", ERR_INVAL, "/servers"},
	    {"[{\"command\":[\"x\"]}]", ERR_INVAL, "/servers/0/name"},
	    {"[{\"name\":\"a/b\",\"command\":[\"x\"]}]", ERR_INVAL, "/servers/0/name"},
	    {"[{\"name\":\"a\",\"command\":[]}]", ERR_INVAL, "/servers/0/command"},
	    {"[{\"name\":\"a\",\"command\":[\"\"]}]", ERR_INVAL, "/servers/0/command/0"},
	    {"[{\"name\":\"a\",\"command\":[\"x\"],\"more\":1}]", ERR_INVAL, "/servers/0/more"},
	    {"[{\"name\":\"a\",\"command\":[\"x\"]},{\"name\":\"a\",\"command\":[\"x\"]}]", ERR_CONFLICT, "/servers/1"},
	    {"[{\"name\":\"a\",\"scope\":\"platform\",\"command\":[\"x\"]}]", ERR_PLATFORM_SERVER, "/servers/0/scope"},
	    {"[{\"name\":\"a\",\"url\":\"https://x/\"}]", ERR_EGRESS, "/servers/0/url"},
	    {"[{\"name\":\"a\",\"url\":\"http://127.0.0.1:8001/mcp\",\"asks\":[\"roots\"]}]", 0, ""},
	    {"[{\"name\":\"a\",\"url\":\"http://127.0.0.1:8001/mcp\",\"command\":[\"x\"]}]", ERR_INVAL,
	     "/servers/0/url"},
	    {"[{\"name\":\"a\",\"url\":\"http://127.0.0.1:8001/mcp\",\"env\":{\"A\":\"b\"}}]", ERR_INVAL,
	     "/servers/0/env"},
	    {"[{\"name\":\"a\",\"url\":\"http://127.0.0.1:8001/mcp\",\"cwd\":\"/\"}]", ERR_INVAL, "/servers/0/cwd"},
	    {"[{\"name\":\"a\",\"url\":\"https://127.0.0.1:8001/mcp\"}]", ERR_INVAL, "/servers/0/url: is https"},
	    {"[{\"name\":\"a\",\"url\":\"http://127.0.0.1:8001/mcp?token=x\"}]", ERR_SECRET_REFUSED, "/servers/0/url"},
	    {"[{\"name\":\"a\",\"url\":\"http://u:p@127.0.0.1/\"}]", ERR_SECRET_REFUSED, "/servers/0/url"},
	    {"[{\"name\":\"a\"}]", ERR_INVAL, "/servers/0/command"},
	    {"[{\"name\":\"a\",\"command\":[\"x\"],\"env\":{\"DB_PASSWORD\":\"\"}}]", ERR_SECRET_REFUSED,
	     "/servers/0/env/DB_PASSWORD"},
	    {"[{\"name\":\"a\",\"command\":[\"x\"],\"env\":{\"A\":\"Bearer abcdefghijkl\"}}]", ERR_SECRET_REFUSED,
	     "/servers/0/env/A"},
	    {"[{\"name\":\"a\",\"command\":[\"x\",\"--token\",\"v\"]}]", ERR_SECRET_REFUSED, "/servers/0/command/2"},
	    {"[{\"name\":\"a\",\"command\":[\"x\",\"--api-key=v\"]}]", ERR_SECRET_REFUSED, "/servers/0/command/1"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err e = {0};

		assert_int_equal(check(rows[i].list, &e), rows[i].rc);
		assert_int_equal(strncmp(e.message, rows[i].at, strlen(rows[i].at)), 0);
	}
}

/* Wherever in a word a secret stands, the first one included. */
static void test_secrets(void **state)
{
	static const struct {
		const char *command;
		int rc;
	} rows[] = {
	    {"[\"x\",\"--header\",\"Authorization: Bearer X\"]", ERR_SECRET_REFUSED},
	    {"[\"env\",\"TOKEN=x\",\"x\"]", ERR_SECRET_REFUSED},
	    {"[\"TOKEN=x\"]", ERR_SECRET_REFUSED},
	    {"[\"sh\",\"-c\",\"K=ghp_0123456789abcdef x\"]", ERR_SECRET_REFUSED},
	    {"[\"sh\",\"-c\",\"export DB_PASSWORD=p; x\"]", ERR_SECRET_REFUSED},
	    {"[\"x\",\"0123456789abcdef0123456789abcdef\"]", ERR_SECRET_REFUSED},
	    {"[\"x\",\"key/0123456789ABCDEF0123456789ABCDEF/1\"]", ERR_SECRET_REFUSED},
	    {"[\"x\",\"postgres://u:p@h/db\"]", ERR_SECRET_REFUSED},
	    {"[\"x\",\"--db=https://u@h\"]", ERR_SECRET_REFUSED},
	    {"[\"x\",\"{\\\"api_key\\\":\\\"v\\\",\\\"K\\\":\\\"x7Kq92LmPz04RtYw81NbVc53HgJd66Fs\\\"}\"]",
	     ERR_SECRET_REFUSED},
	    {"[\"ghp_0123456789abcdef\"]", ERR_SECRET_REFUSED},
	    {"[\"npx\",\"-y\",\"@scope/server-filesystem@1.2.3\",\"/workspace\",\"--max-tokens=100\"]", 0},
	    {"[\"x\",\"postgres://h:5432/db?user=me\",\"http://127.0.0.1/@me\",\"a:b\",\"risk-based\"]", 0},
	};
	char list[400];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err e = {0};

		snprintf(list, sizeof(list), "[{\"name\":\"a\",\"command\":%s}]", rows[i].command);
		assert_int_equal(check(list, &e), rows[i].rc);
	}
}

/* A list is in an event of the audit log as it is. */
static void test_list_length(void **state)
{
	json_t *list = json_array(), *command = json_array(), *taken = NULL;
	char word[4001];
	struct err e = {0};

	(void)state;
	memset(word, ' ', sizeof(word) - 1);
	word[sizeof(word) - 1] = '\0';
	for (int i = 0; i < 17; i++)
		json_array_append_new(command, json_string(word));
	json_array_append_new(list, json_pack("{s:s,s:o}", "name", "a", "command", command));
	assert_int_equal(server_list_check(list, &taken, &e), ERR_TOO_LARGE);
	assert_string_equal(e.message, "/servers: is longer than 64 KiB");
	json_array_remove(command, 16);
	assert_int_equal(server_list_check(list, &taken, &e), 0);
	json_decref(taken);
	json_decref(list);
}

/* Another definition has another fingerprint, whatever the order of its members. */
static void test_definitions(void **state)
{
	json_t *list = parse("[{\"name\":\"a\",\"command\":[\"x\"]},{\"command\":[\"y\"],\"name\":\"b\"}]"),
	       *taken = NULL;
	struct server_def a, b;
	struct err e = {0};

	(void)state;
	assert_int_equal(server_list_check(list, &taken, &e), 0);
	assert_int_equal(server_list_find(taken, "a", &a, &e), 0);
	assert_int_equal(server_list_find(taken, "b", &b, &e), 0);
	assert_string_not_equal(a.fingerprint, b.fingerprint);
	assert_int_equal(a.start_timeout_ms, SERVER_START_MS);
	assert_int_equal(server_list_find(taken, "c", &b, &e), ERR_NOT_FOUND);
	json_decref(taken);
	json_decref(list);
}

/* Its questions are in its fingerprint: opened, it is another server. */
static void test_asks(void **state)
{
	static const struct {
		const char *asks;
		int rc;
	} rows[] = {{"[]", 0},
		    {"[\"sampling\",\"elicitation\",\"roots\"]", 0},
		    {"[\"roots\",\"roots\"]", ERR_INVAL},
		    {"[\"money\"]", ERR_INVAL},
		    {"[7]", ERR_INVAL},
		    {"[\"roots\",\"sampling\",\"elicitation\",\"roots\"]", ERR_TOO_LARGE},
		    {"\"roots\"", ERR_INVAL}};
	char text[200], before[SERVER_FINGERPRINT_N] = "";

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *list, *taken = NULL;
		struct server_def d;
		struct err e = {0};

		snprintf(text, sizeof(text), "[{\"name\":\"a\",\"command\":[\"x\"],\"asks\":%s}]", rows[i].asks);
		list = parse(text);
		assert_int_equal(server_list_check(list, &taken, &e), rows[i].rc);
		if (!rows[i].rc) {
			assert_int_equal(server_list_find(taken, "a", &d, &e), 0);
			assert_string_not_equal(d.fingerprint, before);
			memcpy(before, d.fingerprint, sizeof(before));
		}
		json_decref(taken);
		json_decref(list);
	}
}

static json_t *seen_of(const char *tools)
{
	json_t *list = parse(tools), *seen = NULL;
	struct err e = {0};

	assert_int_equal(catalogue_fingerprints(list, &seen, &e), 0);
	json_decref(list);
	return seen;
}

static void changes_are(json_t *approved, const char *tools, const char *expected)
{
	json_t *seen = seen_of(tools), *changes = catalogue_changes(approved, seen);
	char *text = json_text(changes);

	assert_string_equal(text, expected);
	free(text);
	json_decref(changes);
	json_decref(seen);
}

/* A word in a description or a member of a schema counts, as models are told it; the rest of a tool does not. */
static void test_changes(void **state)
{
	json_t *approved =
	    seen_of("[{\"name\":\"a\",\"description\":\"d\",\"inputSchema\":{\"x\":1,\"y\":2}},{\"name\":\"b\"}]");

	(void)state;
	changes_are(approved,
		    "[{\"inputSchema\":{\"y\":2,\"x\":1},\"description\":\"d\",\"name\":\"a\",\"_meta\":{\"t\":1}}]",
		    "[]");
	changes_are(approved, "[{\"name\":\"a\",\"description\":\"D\",\"inputSchema\":{\"x\":1,\"y\":2}}]",
		    "[{\"tool\":\"a\",\"change\":\"changed\"}]");
	changes_are(approved, "[{\"name\":\"a\",\"description\":\"d\",\"inputSchema\":{\"x\":1,\"y\":3}}]",
		    "[{\"tool\":\"a\",\"change\":\"changed\"}]");
	changes_are(approved, "[{\"name\":\"b\"},{\"name\":\"c\"}]", "[{\"tool\":\"c\",\"change\":\"new\"}]");
	json_decref(approved);
}

/* A server's words about itself count as a tool does. A tool is kept as it is fingerprinted, and nothing else of it. */
static void test_self(void **state)
{
	json_t *approved = seen_of("[{\"name\":\"a\"}]"), *seen = seen_of("[{\"name\":\"a\"}]"), *hello, *changes,
	       *tools;
	char *text;

	(void)state;
	hello = parse("{\"instructions\":\"x\",\"serverInfo\":{\"name\":\"n\"},\"capabilities\":{}}");
	assert_int_equal(catalogue_add_self(approved, hello), 0);
	assert_int_equal(catalogue_add_self(seen, hello), 0);
	changes = catalogue_changes(approved, seen);
	assert_int_equal(json_array_size(changes), 0);
	json_decref(changes);
	json_object_set_new(hello, "instructions", json_string("y"));
	assert_int_equal(catalogue_add_self(seen, hello), 0);
	changes = catalogue_changes(approved, seen);
	text = json_text(changes);
	assert_string_equal(text, "[{\"tool\":\"" CATALOGUE_SELF "\",\"change\":\"changed\"}]");
	free(text);
	json_decref(changes);
	json_decref(hello);
	json_decref(seen);
	json_decref(approved);
	hello = parse("[{\"name\":\"a\",\"_meta\":{\"t\":1},\"icons\":[],\"title\":\"t\"}]");
	tools = catalogue_tools(hello);
	text = json_text(tools);
	assert_string_equal(text, "[{\"name\":\"a\",\"title\":\"t\"}]");
	free(text);
	json_decref(tools);
	json_decref(hello);
}

/* A line is read by what it costs, too: brackets and commas in a text are no values. */
static void test_width(void **state)
{
	static const char head[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":[", tail[] = "0]}}";
	static const char texts[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"\\\"[[,,{{\"}}";
	size_t n = sizeof(head) - 1;
	char *line = malloc(INSIDE_LINE_MAX);
	struct inside_line l;

	(void)state;
	memcpy(line, head, n);
	while (n < INSIDE_LINE_MAX - 16) {
		memcpy(line + n, "{},", 3);
		n += 3;
	}
	memcpy(line + n, tail, sizeof(tail) - 1);
	inside_line_read(line, n + sizeof(tail) - 1, &l);
	assert_int_equal(l.kind, INSIDE_GARBAGE);
	assert_true(l.values > INSIDE_VALUES_MAX);
	assert_null(l.root);
	inside_line_finish(&l);
	free(line);
	inside_line_read(texts, sizeof(texts) - 1, &l);
	assert_int_equal(l.kind, INSIDE_RESULT);
	assert_int_equal(l.values, 5);
	inside_line_finish(&l);
}

/* ---- answers that are kept */

static struct inside_call *kept_call(struct hub *h)
{
	struct inside_call *c = calloc(1, sizeof(*c));

	TAILQ_INIT(&c->callers);
	c->answer = strdup("{\"result\":{\"a\":1}}");
	strcpy(c->round, "r");
	c->bytes = 100;
	TAILQ_INSERT_TAIL(&h->insides->kept, c, entry);
	h->insides->kept_bytes += c->bytes;
	return c;
}

/* A caller that is told of an answer has others kept, so that all are trimmed meanwhile. */
static void on_again(void *arg, int rc, const struct err *e, const json_t *answer, const char *round)
{
	struct hub *h = arg;

	(void)e;
	inside_kept_trim(h, 0);
	assert_int_equal(rc, 0);
	assert_string_equal(json_get_text(answer, "round_id"), "r");
	assert_string_equal(round, "r");
	h->insides->failures++; /* how often it was called */
}

/* An answer that somebody waits for stays until everybody has heard it. */
static void test_kept(void **state)
{
	static const struct inside_ops ops = {.done = on_again};
	struct hub *h = calloc(1, sizeof(*h));
	struct insides all = {.kept_bytes = 0};
	struct request rq = {.door = "local"};
	const struct inside_ask ask = {.rq = &rq, .ops = &ops, .arg = h};
	struct inside_call *c;

	(void)state;
	TAILQ_INIT(&all.kept);
	h->insides = &all;
	kept_call(h);
	c = kept_call(h);
	assert_int_equal(inside_call_join(c, &ask), 0);
	assert_int_equal(inside_call_join(c, &ask), 0);
	inside_kept_trim(h, 0);
	assert_ptr_equal(TAILQ_FIRST(&all.kept), c);
	assert_null(TAILQ_NEXT(c, entry));
	inside_call_again(c);
	assert_int_equal(all.failures, 2);
	inside_kept_trim(h, 0);
	assert_true(TAILQ_EMPTY(&all.kept));
	assert_int_equal(all.kept_bytes, 0);
	free(h);
}

static struct inside *half_line(struct hub *h, size_t n)
{
	struct inside *x = calloc(1, sizeof(*x));
	char *text = malloc(n);

	x->hub = h;
	inside_lines_init(&x->lines);
	memset(text, 'x', n);
	assert_int_equal(inside_lines_feed(&x->lines, text, n), 0);
	free(text);
	x->line_ns = NS_PER_SEC;
	TAILQ_INSERT_TAIL(&h->insides->all, x, entry);
	return x;
}

/* A line that does not end is waited for 30 s; where all of them hold too much, the longest goes at once. */
static void test_half_lines(void **state)
{
	struct hub *h = calloc(1, sizeof(*h));
	struct insides all = {.kept_bytes = 0};
	struct inside *x[20], *longest;
	unsigned gone = 0;

	(void)state;
	TAILQ_INIT(&all.all);
	h->insides = &all;
	for (int i = 0; i < 20; i++) {
		x[i] = half_line(h, i == 3 ? 7000000 : 4000000);
		inside_watch_lines(x[i]);
		gone += inside_line_due(x[i], 2 * NS_PER_SEC) == ERR_MCP_SERVER;
		if (i == 8)
			assert_false(x[3]->line_longest);
	}
	longest = x[3];
	gone += inside_line_due(longest, 2 * NS_PER_SEC) == ERR_MCP_SERVER;
	assert_non_null(strstr(longest->why, "all such lines"));
	assert_true(gone > 2 && gone < 12);
	assert_int_equal(inside_line_due(x[0], 30 * NS_PER_SEC), 0);
	assert_int_equal(inside_line_due(x[0], 31 * NS_PER_SEC), ERR_MCP_SERVER);
	assert_int_equal(inside_line_due(x[0], 32 * NS_PER_SEC), 0); /* told once */
	for (int i = 0; i < 20; i++) {
		inside_lines_finish(&x[i]->lines);
		free(x[i]);
	}
	free(h);
}

/* The end of stderr is text whatever bytes it has, and begins with a whole character. */
static void test_tail(void **state)
{
	struct inside *x = calloc(1, sizeof(*x));
	json_t *shown;

	(void)state;
	inside_tail_add(x, "", "a\xff\0b\xc3", 5);
	shown = inside_show(x, true);
	assert_string_equal(json_get_text(shown, "stderr"), "a??b?");
	json_decref(shown);
	for (int i = 0; i < INSIDE_TAIL_MAX / 2; i++)
		inside_tail_add(x, "", "\xc3\xa9", 2);
	inside_tail_add(x, "", "!", 1);
	shown = inside_show(x, true);
	assert_int_equal(strncmp(json_get_text(shown, "stderr"), "\xc3\xa9\xc3\xa9", 4), 0);
	json_decref(shown);
	buf_finish(&x->tail);
	free(x);
}

/* ---- in the store */

struct bench {
	char dir[64], path[96];
	uv_loop_t loop;
	struct store *store;
	int rc;
	json_t *result;
	bool told;
};

static int bench_begin(void **state)
{
	struct bench *b = calloc(1, sizeof(*b));
	struct err e = {0};

	strcpy(b->dir, "/tmp/muxd-test-servers-XXXXXX");
	assert_non_null(mkdtemp(b->dir));
	snprintf(b->path, sizeof(b->path), "%s/control.db", b->dir);
	uv_loop_init(&b->loop);
	assert_int_equal(store_open(&b->loop, b->path, &b->store, &e), 0);
	*state = b;
	return 0;
}

static int bench_end(void **state)
{
	struct bench *b = *state;
	char command[128];

	store_close(b->store);
	uv_run(&b->loop, UV_RUN_DEFAULT);
	uv_loop_close(&b->loop);
	json_decref(b->result);
	snprintf(command, sizeof(command), "rm -rf %s", b->dir);
	(void)!system(command);
	free(b);
	return 0;
}

static void bench_told(void *arg, int rc, const struct err *e, json_t *result)
{
	struct bench *b = arg;

	(void)e;
	json_decref(b->result);
	b->rc = rc;
	b->result = json_incref(result);
	b->told = true;
}

static void bench_wait(struct bench *b)
{
	while (!b->told)
		uv_run(&b->loop, UV_RUN_ONCE);
	b->told = false;
}

static int put(struct bench *b, const char *list, int64_t if_version)
{
	json_t *checked = parse(list), *call = json_object();

	lists_put(
	    b->store, &list_servers,
	    &(struct list_put){
		.agent = "a", .list = checked, .if_version = if_version, .principal = "p", .call = call, .now_ns = 1},
	    bench_told, b);
	json_decref(call);
	json_decref(checked);
	bench_wait(b);
	return b->rc;
}

static int64_t version(struct bench *b)
{
	return json_integer_value(json_object_get(b->result, "version"));
}

static void test_versions(void **state)
{
	struct bench *b = *state;
	json_t *old = NULL;
	struct err e = {0};
	char list[64];

	assert_int_equal(put(b, "[1]", 0), 0);
	assert_int_equal(version(b), 1);
	assert_int_equal(put(b, "[2]", 0), ERR_LIST_CHANGED);
	assert_int_equal(put(b, "[1]", 1), 0); /* the same again */
	assert_int_equal(version(b), 1);
	for (int i = 2; i <= LIST_VERSIONS + 2; i++) {
		snprintf(list, sizeof(list), "[%d]", i);
		assert_int_equal(put(b, list, -1), 0);
	}
	assert_int_equal(version(b), LIST_VERSIONS + 2);
	assert_int_equal(lists_get(b->store, &list_servers, "a", 2, &old, &e), ERR_NOT_FOUND);
	assert_int_equal(lists_get(b->store, &list_servers, "a", 3, &old, &e), 0);
	assert_int_equal(json_integer_value(json_array_get(json_object_get(old, "servers"), 0)), 3);
	json_decref(old);
}

/* The list of agent "a" is that one now; out borrows from what is returned. */
static json_t *configure(struct bench *b, const char *text, struct server_def *out)
{
	json_t *list = parse(text), *taken = NULL, *call = json_object();
	struct err e = {0};

	assert_int_equal(server_list_check(list, &taken, &e), 0);
	lists_put(b->store, &list_servers,
		  &(struct list_put){
		      .agent = "a", .list = taken, .if_version = -1, .principal = "p", .call = call, .now_ns = 1},
		  bench_told, b);
	bench_wait(b);
	assert_int_equal(server_list_find(taken, "s", out, &e), 0);
	json_decref(call);
	json_decref(list);
	return taken;
}

static int saw(struct bench *b, const struct catalogue_key *k, const char *tools)
{
	json_t *catalogue = json_pack("{s:o}", "tools", parse(tools)), *seen = seen_of(tools);

	catalogue_put(b->store, k, catalogue, seen, 1, bench_told, b);
	json_decref(catalogue);
	json_decref(seen);
	bench_wait(b);
	return b->rc;
}

static void see(struct bench *b, const struct catalogue_key *k, const char *tools)
{
	assert_int_equal(saw(b, k, tools), 0);
}

struct counted {
	int64_t rows;
	bool told;
};

static int on_changes(sqlite3 *db, void *job, struct err *e)
{
	(void)e;
	((struct counted *)job)->rows = sqlite3_total_changes64(db);
	return 0;
}

static void on_counted(void *job, int rc, const struct err *e)
{
	(void)e;
	assert_int_equal(rc, 0);
	((struct counted *)job)->told = true;
}

/* Rows that the writer has written so far. */
static int64_t rows_written(struct bench *b)
{
	struct counted c = {.told = false};

	store_write(b->store, on_changes, on_counted, &c);
	while (!c.told)
		uv_run(&b->loop, UV_RUN_ONCE);
	return c.rows;
}

static size_t changes(const json_t *stored)
{
	return json_array_size(json_object_get(stored, "changes"));
}

static int approve(struct bench *b, const struct catalogue_key *k, const char *fingerprint)
{
	json_t *call = json_object();

	catalogue_approve(b->store, k, fingerprint, "p", call, 2, bench_told, b);
	json_decref(call);
	bench_wait(b);
	return b->rc;
}

/* First seen is approved; what changes is not, until somebody says so; another definition begins anew. */
static void test_approval(void **state)
{
	struct bench *b = *state;
	static const char one[] = "[{\"name\":\"s\",\"command\":[\"one\"]}]",
			  two[] = "[{\"name\":\"s\",\"command\":[\"two\"]}]";
	struct server_def a, z;
	json_t *list = configure(b, one, &a), *next;
	const struct catalogue_key k = {"a", "s", a.fingerprint}, other = {"a", "s", z.fingerprint};
	char fingerprint[65];
	int64_t written;
	json_t *stored = NULL;
	struct err e = {0};

	assert_int_equal(approve(b, &k, "x"), ERR_NOT_FOUND);
	see(b, &k, "[{\"name\":\"t\"}]");
	assert_int_equal(changes(b->result), 0);
	assert_string_equal(json_get_text(b->result, "approved_by"), "first seen");
	written = rows_written(b);
	see(b, &k, "[{\"name\":\"t\"}]"); /* which is no change, and no write */
	assert_int_equal(rows_written(b), written);
	see(b, &k, "[{\"name\":\"t\",\"description\":\"other\"}]");
	assert_int_equal(changes(b->result), 1);
	snprintf(fingerprint, sizeof(fingerprint), "%s", json_get_text(b->result, "fingerprint"));
	see(b, &k, "[{\"name\":\"t\",\"description\":\"another\"}]");
	assert_int_equal(approve(b, &k, fingerprint), ERR_LIST_CHANGED);
	snprintf(fingerprint, sizeof(fingerprint), "%s", json_get_text(b->result, "fingerprint"));
	assert_int_equal(catalogue_get(b->store, &k, &stored, &e), 0);
	snprintf(fingerprint, sizeof(fingerprint), "%s", json_get_text(stored, "fingerprint"));
	assert_int_equal(approve(b, &k, fingerprint), 0);
	assert_int_equal(changes(b->result), 0);
	assert_string_equal(json_get_text(b->result, "approved_by"), "p");
	json_decref(stored);
	next = configure(b, two, &z);
	assert_int_equal(catalogue_get(b->store, &other, &stored, &e), ERR_NOT_FOUND);
	see(b, &other, "[{\"name\":\"u\"}]");
	assert_int_equal(changes(b->result), 0);
	assert_int_equal(catalogue_get(b->store, &k, &stored, &e), ERR_NOT_FOUND);
	/* The one that was configured before is late with what it has: nothing of it is kept. */
	assert_int_equal(saw(b, &k, "[{\"name\":\"t\"}]"), ERR_LIST_CHANGED);
	assert_int_equal(catalogue_get(b->store, &other, &stored, &e), 0);
	json_decref(stored);
	json_decref(next);
	json_decref(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_lists),
	    cmocka_unit_test(test_secrets),
	    cmocka_unit_test(test_list_length),
	    cmocka_unit_test(test_definitions),
	    cmocka_unit_test(test_asks),
	    cmocka_unit_test(test_changes),
	    cmocka_unit_test(test_self),
	    cmocka_unit_test(test_width),
	    cmocka_unit_test(test_kept),
	    cmocka_unit_test(test_half_lines),
	    cmocka_unit_test(test_tail),
	    cmocka_unit_test_setup_teardown(test_versions, bench_begin, bench_end),
	    cmocka_unit_test_setup_teardown(test_approval, bench_begin, bench_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
