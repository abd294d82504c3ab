/*
 * What a verdict of the policy costs: a policy of 100 profiles of which the last one matches, with 16 patterns of
 * paths, and the table of cases. Prints {"name": [nanoseconds of each run]}, each the mean of many questions.
 */
#include "base/err.h"
#include "policy/call.h"
#include "policy/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS  11
#define TIMES 20000

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static struct policy *make(void)
{
	static char text[POLICY_TEXT_MAX];
	size_t n = (size_t)snprintf(text, sizeof(text), "policy: 1\notherwise: deny\nprofiles:\n");
	struct policy *p = NULL;
	struct err e = {0};

	for (int i = 0; i < 100; i++) {
		n += (size_t)snprintf(
		    text + n, sizeof(text) - n,
		    "- {name: p%d, match: {task: ['task-%d-*', 'other-%d-*'], kind: agent}, allow: [round.start, "
		    "mcp.call: {servers: {github: [search, 'issues.*']}}, file.write: {paths: [",
		    i, i, i);
		for (int k = 0; k < 16; k++)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s'dir%d/**'", k ? ", " : "", k);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "]}]}\n");
	}
	if (policy_parse(text, n, "bench", &p, &e)) {
		fprintf(stderr, "%s\n", e.message);
		exit(1);
	}
	return p;
}

static void measure(const struct policy *p, const char *name, const char *call, bool last)
{
	struct policy_call c;
	struct err e = {0};
	unsigned allowed = 0;

	if (policy_call_parse(call, &c, &e)) {
		fprintf(stderr, "%s\n", e.message);
		exit(1);
	}
	printf("\"%s\": [", name);
	for (int run = 0; run < RUNS; run++) {
		uint64_t from = now_ns();

		for (int i = 0; i < TIMES; i++)
			allowed += policy_verdict(p, &c.q).allowed;
		printf("%s%.1f", run ? ", " : "", (double)(now_ns() - from) / TIMES);
	}
	printf("]%s", last ? "" : ", ");
	if (allowed != 0 && allowed != RUNS * TIMES)
		exit(1);
}

int main(void)
{
	struct policy *p = make();

	printf("{");
	measure(p, "round.start", "round.start task=task-99-x", false);
	measure(p, "mcp.call", "mcp.call task=task-99-x server=github tool=issues.list", false);
	measure(p, "file.write", "file.write task=task-99-x path=dir15/some/where/deep/below/a_file_of_the_source.c",
		false);
	measure(p, "denied path", "file.write task=task-99-x path=elsewhere/some/where/deep/below/a_file_of_it.c",
		false);
	measure(p, "no profile", "round.start task=nobody", true);
	puts("}");
	policy_destroy(p);
	return 0;
}
