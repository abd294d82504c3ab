/*
 * What the codes of audit.db's rows cost a list of 10,000 events, and what putting a sealed session's row costs beside
 * its seal: index_rows DIR. Medians of 11.
 */
#include "base/err.h"
#include "recorder/index/index_derive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EVENTS 10000
#define RUNS   11

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void need(int rc, const struct err *e, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "%s: %s\n", what, e->message);
	exit(1);
}

static int row(void *arg, json_t *o)
{
	char *text = json_text(o); /* as it goes out */

	*(size_t *)arg += strlen(text);
	free(text);
	return 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double list(const char *path, const uint8_t *key)
{
	double ms[RUNS];
	struct err e = {0};

	for (int i = 0; i < RUNS; i++) {
		struct index_filter f = {.limit = EVENTS};
		struct index *ix;
		size_t bytes = 0;
		need(index_open_reader(path, &ix, &e), &e, "open");
		if (key)
			index_use_key(ix, key);
		uint64_t from = cpu_ns();
		need(index_audit(ix, &f, row, &bytes, &e), &e, "list");
		ms[i] = (double)(cpu_ns() - from) / 1e6;
		index_close(ix);
	}
	qsort(ms, RUNS, sizeof(ms[0]), compare);
	return ms[RUNS / 2];
}

static double fill(const char *path, const uint8_t *key)
{
	static const struct id nobody;
	struct err e = {0};
	struct index *ix;
	char json[512];

	need(index_open(path, &ix, &e), &e, "open");
	if (key)
		index_use_key(ix, key);
	uint64_t from = cpu_ns();
	need(index_begin(ix, &e), &e, "begin");
	for (int i = 1; i <= EVENTS; i++) {
		snprintf(
		    json, sizeof(json),
		    "{\"v\":1,\"event\":\"round.end\",\"outcome\":\"ok\",\"principal\":\"pat\",\"agent\":\"demo-%d\","
		    "\"grant_id\":\"0199aaaa-0000-7000-8000-000000000001\",\"round_id\":\"0199aaaa-0000-7000-8000-%"
		    "012d\","
		    "\"exit\":{\"cause\":\"exit\",\"code\":0},\"door\":\"rest\",\"peer\":\"127.0.0.1:%d\"}",
		    i % 20, i, 1024 + i);
		need(index_put_audit(ix, (uint64_t)i, 1700000000000000000 + i, &nobody, json, &e), &e, "put");
	}
	need(index_put_complete(ix, &e), &e, "complete");
	need(index_commit(ix, false, &e), &e, "commit");
	index_close(ix);
	return (double)(cpu_ns() - from) / 1e6;
}

int main(int argc, char **argv)
{
	static const uint8_t key[32] = {7};
	char plain[4096], keyed[4096];

	if (argc != 2)
		return 64;
	snprintf(plain, sizeof(plain), "%s/plain.db", argv[1]);
	snprintf(keyed, sizeof(keyed), "%s/keyed.db", argv[1]);
	double put0 = fill(plain, NULL), put1 = fill(keyed, key);
	double list0 = list(plain, NULL), list1 = list(keyed, key);
	printf("list of %d events: %.1f ms without codes, %.1f ms with (%+.1f %%)\n", EVENTS, list0, list1,
	       100 * (list1 - list0) / list0);
	printf("putting %d events: %.1f ms without codes, %.1f ms with (%+.1f %%)\n", EVENTS, put0, put1,
	       100 * (put1 - put0) / put0);
	return 0;
}
