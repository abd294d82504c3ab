// tier: check
/*
 * Where a path behind nodes/proxy leads. The table is made: every way into a pod by a kubelet, in every spelling that a
 * proxy, a router or a mux on the way could take for it; a reader that undoes all of that says which of them must not
 * pass. With --print the verdicts come out, one line a path, for what says the same in another language.
 */
#include "muxd/doors/https/node_path.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BOX       "boxes"
#define PLAIN_LEN 80
#define PATH_LEN  512
#define STEPS     64

/* ---- paths */

static const char *const ways[] = {"run/%s/p/c",        "run/%s/p/uid-1/c",       "exec/%s/p/c",
				   "exec/%s/p/uid-1/c", "attach/%s/p/c",          "attach/%s/p/u/c",
				   "cri/exec/%s",       "cri/attach/%s",          "cri/portforward/%s",
				   "portForward/%s/p",  "portForward/%s/p/uid-1", "checkpoint/%s/p/c"};
static const char *const spaces[] = {BOX, "other"};

typedef void take_fn(const char *path, void *arg);

static void spell(char *out, const char *in, size_t at, const char *what)
{
	snprintf(out, PATH_LEN, "%.*s%s%s", (int)at, in, what, in + at);
}

/* What may stand before any slash, or in place of a letter, and mean the same to somebody. */
static void spellings(const char *plain, take_fn *take, void *arg)
{
	static const char *const before[] = {"/",    "/.",  "/x/..", "/./.", "//",         "/%2e",    "/x/%2e%2e",
					     "%2f.", "\\.", "/%2E/", "/%5c", "/x/y/../..", "/x%2f..", "/%252e"};
	char out[PATH_LEN], letter[8];

	take(plain, arg);
	take(plain + 1, arg); /* without its first slash */
	for (size_t i = 0; plain[i]; i++) {
		for (size_t k = 0; plain[i] == '/' && k < sizeof(before) / sizeof(before[0]); k++) {
			spell(out, plain, i, before[k]);
			take(out, arg);
		}
		snprintf(letter, sizeof(letter), "%%%02x", plain[i]);
		snprintf(out, sizeof(out), "%.*s%s%s", (int)i, plain, letter, plain + i + 1);
		take(out, arg);
		snprintf(letter, sizeof(letter), "%%25%02X", plain[i]);
		snprintf(out, sizeof(out), "%.*s%s%s", (int)i, plain, letter, plain + i + 1);
		take(out, arg);
		snprintf(out, sizeof(out), "%s", plain);
		out[i] = (char)toupper((unsigned char)out[i]);
		take(out, arg);
	}
	snprintf(out, sizeof(out), "%s/", plain);
	take(out, arg);
	snprintf(out, sizeof(out), "/logs/../metrics/..%s", plain);
	take(out, arg);
	snprintf(out, sizeof(out), "%s;x=1", plain);
	take(out, arg);
}

static void every_way_in(take_fn *take, void *arg)
{
	char way[64], plain[PLAIN_LEN];

	for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
		for (size_t s = 0; s < sizeof(spaces) / sizeof(spaces[0]); s++) {
			snprintf(way, sizeof(way), ways[w], spaces[s]);
			snprintf(plain, sizeof(plain), "/%s", way);
			spellings(plain, take, arg);
		}
}

static const char *const harmless[] = {
    "",
    "/",
    "/healthz",
    "/healthz/syncloop",
    "/metrics",
    "/metrics/cadvisor",
    "metrics/probes",
    "/metrics/",
    "/stats/summary",
    "/pods",
    "/pods/",
    "/runningpods/",
    "/configz",
    "/spec/",
    "/logs/",
    "/logs/run/exec/boxes",
    "/logs/pods/boxes_p_uid/c/0.log",
    "/containerLogs/boxes/p/c",
    "/debug/pprof/profile",
    "/debug/flags/v",
    "/runs/boxes/p/c",
    "/executor",
    "/critical",
    "/metrics/...",
    "/.well-known/x",
};

/* ---- the reader that undoes everything */

static void unescape(char *s)
{
	char *out = s;

	for (; *s; s++) {
		unsigned byte = 0;
		char hex[3] = {s[1], s[1] ? s[2] : '\0', '\0'};

		if (*s == '%' && isxdigit((unsigned char)hex[0]) && isxdigit((unsigned char)hex[1])) {
			byte = (unsigned)strtoul(hex, NULL, 16);
			*out++ = (char)byte;
			s += 2;
		} else {
			*out++ = *s == '\\' ? '/' : (char)tolower((unsigned char)*s);
		}
	}
	*out = '\0';
}

/* Into a pod of boxes, or by a token? rounds: how often somebody on the way takes escapes off. */
static bool leads_in(const char *path, int rounds)
{
	static const char *const words[] = {"run", "exec", "attach", "portforward", "checkpoint"};
	char text[PATH_LEN], *step[STEPS], *rest = NULL;
	size_t n = 0;

	snprintf(text, sizeof(text), "%s", path);
	for (char *p = text; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	for (int i = 0; i < rounds; i++)
		unescape(text);
	for (char *s = strtok_r(text, "/", &rest); s && n < STEPS; s = strtok_r(NULL, "/", &rest)) {
		if (strcmp(s, "..") == 0)
			n -= n > 0;
		else if (strcmp(s, ".") != 0)
			step[n++] = s;
	}
	if (n > 0 && strcmp(step[0], "cri") == 0)
		return true;
	for (size_t i = 0; n > 2 && i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(step[0], words[i]) == 0)
			return strcmp(step[1], BOX) == 0;
	return false;
}

static bool passes(const char *path)
{
	char ns[NODE_PATH_NS_MAX + 1];
	enum node_way way = node_path_read(path, ns);

	return way == NODE_PATH_OTHER || (way == NODE_PATH_ENTERS && strcmp(ns, BOX) != 0);
}

/* ---- tests */

struct count {
	size_t seen, refused, wrong;
};

static void judge(const char *path, void *arg)
{
	struct count *c = arg;
	bool in = false;

	for (int rounds = 0; rounds <= 3; rounds++)
		in = in || leads_in(path, rounds);
	c->seen++;
	c->refused += !passes(path);
	if (in && passes(path)) {
		c->wrong++;
		print_error("passes: %s\n", path);
	}
}

static void no_spelling_of_a_way_in_passes(void **state)
{
	struct count c = {0, 0, 0};

	(void)state;
	every_way_in(judge, &c);
	print_message("%zu paths, %zu refused\n", c.seen, c.refused);
	assert_true(c.seen > 2000 && c.refused > c.seen / 2 && c.refused < c.seen);
	assert_int_equal(c.wrong, 0);
}

static void what_enters_nothing_passes(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		if (!passes(harmless[i]))
			fail_msg("refused: %s", harmless[i]);
}

static void the_namespace_is_told(void **state)
{
	char ns[NODE_PATH_NS_MAX + 1], long_ns[200];

	(void)state;
	assert_int_equal(node_path_read("/Run/Team-A/p/c", ns), NODE_PATH_ENTERS);
	assert_string_equal(ns, "team-a");
	assert_int_equal(node_path_read("portForward/x/p", ns), NODE_PATH_ENTERS);
	assert_string_equal(ns, "x");
	snprintf(long_ns, sizeof(long_ns), "/run/%064d/p/c", 0);
	assert_int_equal(node_path_read(long_ns, ns), NODE_PATH_UNCLEAR);
	assert_string_equal(ns, "");
	snprintf(long_ns, sizeof(long_ns), "/run/%063d/p/c", 0);
	assert_int_equal(node_path_read(long_ns, ns), NODE_PATH_ENTERS);
	assert_int_equal(strlen(ns), NODE_PATH_NS_MAX);
}

static void half_a_way_in_is_unclear(void **state)
{
	static const char *const half[] = {"/run",    "/run/", "/exec/boxes", "/attach/boxes/", "/portForward/", "/cri",
					   "/CRI/x/", "/a b",  "/a\tb",       "/caf\xc3\xa9",   "/x/..",         "..",
					   "./run",   "/x/."};
	char ns[NODE_PATH_NS_MAX + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(half) / sizeof(half[0]); i++)
		if (node_path_read(half[i], ns) != NODE_PATH_UNCLEAR || *ns)
			fail_msg("clear: %s", half[i]);
}

static void print(const char *path, void *arg)
{
	(void)arg;
	printf("%s\t%s\n", passes(path) ? "pass" : "refuse", path);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(no_spelling_of_a_way_in_passes),
	    cmocka_unit_test(what_enters_nothing_passes),
	    cmocka_unit_test(the_namespace_is_told),
	    cmocka_unit_test(half_a_way_in_is_unclear),
	};

	if (argc == 2 && strcmp(argv[1], "--print") == 0) {
		every_way_in(print, NULL);
		for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
			print(harmless[i], NULL);
		return 0;
	}
	return cmocka_run_group_tests_name("node_path", tests, NULL, NULL);
}
