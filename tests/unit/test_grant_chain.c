// tier: check, slice HISTORIES=5000, whole HISTORIES=100000
/*
 * Grants that are made from others, renewed and taken back, in random histories under a clock that goes any way: what
 * is in force is compared, after each step, with a model that keeps a tree of promises. Nothing lives longer or reaches
 * further than its chain allows.
 */
#include "base/err.h"
#include "muxd/monitor/grants.h"
#include "policy/grant_narrow.h"
#include "policy/id_times.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000000)
#define START  (INT64_C(1800000000) * SECOND)
#define NODES  24
#define STEPS  40

static uint64_t seed = 1;

static unsigned pick(unsigned n)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(seed >> 33) % n;
}

/* A grant of the history, and what the model says of it: made from whom, renewing whom, taken back or not. */
struct node {
	struct grant g;
	int parent, renews; /* -1: none */
	bool revoked;
};
struct history {
	struct node node[NODES];
	int n;
	int64_t now;
	struct id_times *revoked, *renewed;
};

static struct grant random_grant(int64_t now)
{
	static const char *const agents[] = {"*", "ci-*", "ci-a*", "ci-a1", "ci-b", "demo"};
	static const char *const principals[] = {"ci", "ci/w", "ci/w/1", "cix", "ada"};
	static const char *const tasks[] = {"", "t1", "t2"};
	static const char *const paths[] = {"", "**\n", "src/**\n", "src/a/**\n", "src/a/b.c\n", "*.md\nsrc/**\n"};
	struct grant g = {.kind = (enum grant_kind)pick(4),
			  .scopes = (pick(512) | (pick(3) ? SCOPE_GRANT : 0)) & 0x3ffu,
			  .issued_ns = now,
			  .not_before_ns = now,
			  .expires_ns = now + (1 + pick(900)) * SECOND,
			  .issuer = "01890a5d-ac96-774b-bcce-b302099a8057",
			  .reason = "history"};

	g.scopes = g.scopes ? g.scopes : SCOPE_ROUNDS;
	strcpy(g.agent, agents[pick(6)]);
	strcpy(g.principal, principals[pick(5)]);
	strcpy(g.task, tasks[pick(3)]);
	g.files.read.given = pick(2);
	if (g.files.read.given)
		strcpy(g.files.read.text, paths[pick(6)]);
	g.files.size_max = pick(3) ? 0 : 1 + pick(100);
	assert_int_equal(id_new(&g.id), 0);
	return g;
}

/* ---- the model: plain, slow, and of its own */

static int first_of(const struct history *h, int i)
{
	while (h->node[i].renews >= 0)
		i = h->node[i].renews;
	return i;
}

/* Until when the permission lasts that this grant is one token of. */
static int64_t model_ends(const struct history *h, int i)
{
	int64_t ends = 0;

	for (int k = 0; k < h->n; k++)
		if (first_of(h, k) == first_of(h, i) && h->node[k].g.expires_ns > ends)
			ends = h->node[k].g.expires_ns;
	return ends;
}

static bool model_revoked(const struct history *h, int i)
{
	for (int k = 0; k < h->n; k++)
		if (first_of(h, k) == first_of(h, i) && h->node[k].revoked)
			return true;
	return h->node[first_of(h, i)].parent >= 0 && model_revoked(h, h->node[first_of(h, i)].parent);
}

static bool reaches(const struct grant *g, const char *agent, uint32_t scope)
{
	return grant_allows(g, agent, scope, NULL) == 0;
}

/* No agent, scope, task or size that the parent does not have. */
static void check_within(const struct grant *parent, const struct grant *child)
{
	static const char *const agents[] = {"ci-a1", "ci-a2", "ci-b", "ci", "demo", "prod/web-0", "prod/web-0/app"};

	for (size_t i = 0; i < sizeof(agents) / sizeof(agents[0]); i++)
		for (uint32_t bit = 1; bit <= SCOPE_GRANT; bit <<= 1)
			if (reaches(child, agents[i], bit) && !reaches(parent, agents[i], bit))
				fail_msg("%s reaches %s, its parent %s does not", child->agent, agents[i],
					 parent->agent);
	assert_true(!parent->task[0] || strcmp(parent->task, child->task) == 0);
	assert_true(strncmp(child->principal, parent->principal, strlen(parent->principal)) == 0);
	assert_true(!parent->files.size_max ||
		    (child->files.size_max && child->files.size_max <= parent->files.size_max));
	assert_true(!parent->files.read.given || child->files.read.given);
}

/* ---- the steps */

static int add(struct history *h, const struct grant *g, int parent, int renews)
{
	if (h->n == NODES)
		return -1;
	h->node[h->n] = (struct node){*g, parent, renews, false};
	return h->n++;
}

static bool alive(const struct history *h, int i)
{
	return h->now < h->node[i].g.expires_ns && !model_revoked(h, i);
}

static void step_child(struct history *h)
{
	int from = (int)pick((unsigned)h->n);
	struct grant g = random_grant(h->now);

	if (!alive(h, from) || grant_narrow_kin(&h->node[from].g, &g.kin, NULL) || grant_check(&g, NULL))
		return;
	if (grant_narrow(&h->node[from].g, model_ends(h, from), &g, NULL))
		return;
	check_within(&h->node[from].g, &g);
	assert_true(g.expires_ns <= model_ends(h, from));
	(void)add(h, &g, from, -1);
}

static void step_renew(struct history *h)
{
	int from = (int)pick((unsigned)h->n), top = first_of(h, from);
	int64_t bound = h->node[top].parent >= 0 ? model_ends(h, h->node[top].parent) : INT64_MAX;
	struct grant g = h->node[from].g;

	if (!alive(h, from))
		return;
	assert_int_equal(id_new(&g.id), 0);
	g.kin.first = h->node[top].g.id;
	g.since_ns = h->node[top].g.issued_ns;
	g.issued_ns = g.not_before_ns = h->now;
	g.expires_ns = h->now + (1 + pick(900)) * SECOND;
	g.expires_ns = g.expires_ns < bound ? g.expires_ns : bound;
	if (g.expires_ns <= model_ends(h, from)) /* the monitor gives no renewal that ends before what there is */
		return;
	if (g.issued_ns < g.since_ns || grant_check(&g, NULL) || add(h, &g, h->node[top].parent, from) < 0)
		return;
	assert_int_equal(id_times_add(h->renewed, &g.kin.first, g.expires_ns), 0);
}

static void step_revoke(struct history *h)
{
	int i = (int)pick((unsigned)h->n);
	struct grant_line l = grant_line(&h->node[i].g);

	h->node[i].revoked = true;
	assert_int_equal(id_times_add(h->revoked, grant_line_first(&l), INT64_MAX), 0);
}

static void compare(const struct history *h)
{
	struct grant_news news = {.revoked = h->revoked, .renewed = h->renewed};

	for (int i = 0; i < h->n; i++) {
		struct grant_line l = grant_line(&h->node[i].g);
		int rc = grant_line_check(&l, &news, h->now, NULL);
		int up = h->node[first_of(h, i)].parent;

		assert_int_equal(rc, h->now >= model_ends(h, i) ? ERR_TOKEN_EXPIRED
				     : model_revoked(h, i)      ? ERR_TOKEN_REVOKED
								: 0);
		if (rc == 0 && up >= 0) { /* nothing lives whose parent does not */
			struct grant_line parent = grant_line(&h->node[up].g);

			assert_int_equal(grant_line_check(&parent, &news, h->now, NULL), 0);
		}
	}
}

static void one_history(void)
{
	struct history h = {.now = START};
	struct grant g = random_grant(h.now);

	assert_int_equal(id_times_create(&h.revoked), 0);
	assert_int_equal(id_times_create(&h.renewed), 0);
	while (grant_check(&g, NULL))
		g = random_grant(h.now);
	(void)add(&h, &g, -1, -1);
	for (int s = 0; s < STEPS; s++) {
		switch (pick(8)) {
		case 0:
			step_revoke(&h);
			break;
		case 1:
		case 2:
			step_renew(&h);
			break;
		case 3: /* the guarded clock never goes back by much, and stands or leaps */
			h.now += (int64_t)pick(600) * SECOND - 60 * SECOND;
			break;
		default:
			step_child(&h);
		}
		compare(&h);
	}
	id_times_destroy(h.revoked);
	id_times_destroy(h.renewed);
}

static void nothing_outlives_or_outreaches_its_chain(void **state)
{
	const char *text = getenv("HISTORIES"), *given = getenv("SEED");
	unsigned long n = text ? strtoul(text, NULL, 10) : 5000;

	(void)state;
	for (unsigned long i = 0; i < n; i++) {
		seed = (given ? strtoul(given, NULL, 10) : 20261126) + i;
		one_history();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_outlives_or_outreaches_its_chain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
