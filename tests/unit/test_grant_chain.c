// tier: check, slice HISTORIES=2000, whole HISTORIES=100000
/*
 * Grants that are made from others or exchanged for outside tokens, renewed, used and taken back, and leases at an edge
 * that hears of it now and then, in random histories under a clock that goes any way and daemons that are started
 * again: what is in force and what is left is compared, after each step, with a model that keeps a tree of promises.
 * Nothing lives longer, reaches further or opens more than its chain allows.
 */
#include "base/err.h"
#include "files/paths.h"
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
#define KEYS   4
#define TOKENS 3
#define EDGE   "01890a5d-ac96-774b-bcce-b302099a8058"
#define KNOWN  (300 * SECOND) /* what the edge knows of revocations may be so old */

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
	bool revoked, outside;
	uint32_t spent;  /* of the permission that its first is of: a lease's whole number at the centre */
	uint32_t opened; /* by it and all that was made from it, wherever */
};
/* A daemon's memory of grants: its log, started again at any time, and the latest time that it saw. */
struct store {
	char path[64];
	struct grants *g;
	int64_t floor, key_until[KEYS];
	struct id key[KEYS];
};
struct history {
	struct node node[NODES];
	int n;
	int64_t now;
	struct id_times *revoked, *renewed;
	struct store centre, edge;
	struct id_times *edge_revoked; /* as the edge heard, the last time at edge_heard */
	int64_t edge_heard;
	struct id token[TOKENS]; /* of an outside issuer: how often each counts, and did */
	unsigned token_max[TOKENS], token_used[TOKENS];
};

static void random_paths(struct grant_paths *out)
{
	static const char *const lists[] = {"",
					    "**\n",
					    "src/**\n",
					    "src/a/**\n",
					    "src/a/b.c\n",
					    "*.md\nsrc/**\n",
					    "src/*\n",
					    "src/a*/**\n",
					    "src/?/b.c\ndocs/**\n",
					    "**/*.md\n",
					    "docs/**\nsrc/a/**\n*.md\n"};

	out->given = pick(3) > 0;
	strcpy(out->text, out->given ? lists[pick(sizeof(lists) / sizeof(lists[0]))] : "");
}

static struct grant random_grant(int64_t now)
{
	static const char *const agents[] = {"*", "ci-*", "ci-a*", "ci-a1", "ci-b", "demo"};
	static const char *const principals[] = {"ci", "ci/w", "ci/w/1", "cix", "ada"};
	static const char *const tasks[] = {"", "t1", "t2"};
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
	random_paths(&g.files.read);
	random_paths(&g.files.write);
	g.files.size_max = pick(3) ? 0 : 1 + pick(100);
	g.bounds.uses = pick(3) ? 1 + pick(5) : 0;
	g.bounds.operations = pick(3) ? 0 : 1 + pick(15);
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

/* Does the permission have a number, and so many of it left? */
static bool model_has(const struct history *h, int i, uint32_t n)
{
	const struct node *first = &h->node[first_of(h, i)];

	return !first->g.bounds.uses || first->spent + n <= first->g.bounds.uses;
}

/* A grant and all above it. */
static bool model_may_spend(const struct history *h, int i, uint32_t n)
{
	for (; i >= 0; i = h->node[first_of(h, i)].parent)
		if (!model_has(h, i, n))
			return false;
	return true;
}

static void model_spend(struct history *h, int i, uint32_t n)
{
	for (; i >= 0; i = h->node[first_of(h, i)].parent)
		if (h->node[first_of(h, i)].g.bounds.uses)
			h->node[first_of(h, i)].spent += n;
}

/* Something was opened under it: what was promised of each above it holds. */
static void model_open(struct history *h, int i)
{
	for (; i >= 0; i = h->node[first_of(h, i)].parent) {
		struct node *first = &h->node[first_of(h, i)];

		first->opened++;
		if (first->g.bounds.uses && first->opened > first->g.bounds.uses)
			fail_msg("%u were opened, and %u was the most", first->opened, first->g.bounds.uses);
	}
}

static bool reaches(const struct grant *g, const char *agent, uint32_t scope)
{
	return grant_allows(g, agent, scope, NULL) == 0;
}

/* As the hub and muxlet hold a file's operation to it: the patterns mean what they mean there. */
static struct paths *paths_of(const struct grant_paths *p)
{
	char text[GRANT_PATHS_TEXT];
	const char *list[GRANT_PATHS_MAX + 1] = {NULL};
	size_t n = 0;
	struct paths *out;

	strcpy(text, p->text);
	for (char *at = text, *end; (end = strchr(at, '\n')); at = end + 1) {
		*end = '\0';
		list[n++] = at;
	}
	out = paths_new(list);
	assert_non_null(out);
	return out;
}

/* No file, and no directory with all below it, that the wider list does not open. */
static void check_paths(const char *what, const struct grant_paths *wide, const struct grant_paths *narrow)
{
	static const char *const samples[] = {".",        "README.md", "a.c",         "src",           "src/x.c",
					      "src/x.md", "src/a",     "src/a/b.c",   "src/a/c.c",     "src/a/d/e.c",
					      "src/ab/x", "src/b/b.c", "src/b/d/b.c", "docs/a.md",     "docs/b/c.txt",
					      "doc/a.md", "srcs/x.c",  ".git/config", "docs/b/c/d.md", "src/a/b.c/x"};
	struct paths *of_wide, *of_narrow;

	if (!wide->given)
		return;
	assert_true(narrow->given);
	of_wide = paths_of(wide);
	of_narrow = paths_of(narrow);
	for (size_t i = 0; i < 2 * sizeof(samples) / sizeof(samples[0]); i++)
		if (paths_have(of_narrow, samples[i / 2], i % 2) && !paths_have(of_wide, samples[i / 2], i % 2))
			fail_msg("%s reaches %s by \"%s\", and not by \"%s\" above it", what, samples[i / 2],
				 narrow->text, wide->text);
	paths_free(of_wide);
	paths_free(of_narrow);
}

static void check_principal(const char *above, const char *below)
{
	size_t n = strlen(above);

	assert_true(strncmp(above, below, n) == 0 && (!below[n] || below[n] == '/'));
}

/* No agent, scope, path, task or size that the parent does not have. */
static void check_within(const struct grant *parent, const struct grant *child)
{
	static const char *const agents[] = {"ci-a1", "ci-a2", "ci-b", "ci", "demo", "prod/web-0", "prod/web-0/app"};

	for (size_t i = 0; i < sizeof(agents) / sizeof(agents[0]); i++)
		for (uint32_t bit = 1; bit <= SCOPE_GRANT; bit <<= 1)
			if (reaches(child, agents[i], bit) && !reaches(parent, agents[i], bit))
				fail_msg("%s reaches %s, its parent %s does not", child->agent, agents[i],
					 parent->agent);
	assert_true(!parent->task[0] || strcmp(parent->task, child->task) == 0);
	assert_true(child->kind == parent->kind || child->kind == GRANT_AGENT);
	check_principal(parent->principal, child->principal);
	assert_true(!parent->files.size_max ||
		    (child->files.size_max && child->files.size_max <= parent->files.size_max));
	check_paths("read", &parent->files.read, &child->files.read);
	check_paths("write", &parent->files.write, &child->files.write);
	assert_true(!parent->bounds.uses || (child->bounds.uses && child->bounds.uses <= parent->bounds.uses));
	for (enum policy_op op = 0; op < POLICY_OPS; op++)
		assert_true(grant_bounds_allow(&child->bounds, op, NULL) ||
			    !grant_bounds_allow(&parent->bounds, op, NULL));
}

/* ---- the daemons */

static void store_open(struct store *s)
{
	struct grants_load load;
	struct err e = {0};

	if (grants_open(s->path, s->floor, &s->g, &load, &e))
		fail_msg("%s", e.message);
	for (int i = 0; i < KEYS; i++)
		s->key_until[i] = s->key_until[i] > s->floor ? s->key_until[i] : 0;
}

static void store_begin(struct store *s, const char *name)
{
	snprintf(s->path, sizeof(s->path), "%s/muxd-chain.%d.%s", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm",
		 (int)getpid(), name);
	(void)unlink(s->path);
	s->floor = START;
	for (int i = 0; i < KEYS; i++)
		assert_int_equal(id_new(&s->key[i]), 0);
	store_open(s);
}

static void store_end(struct store *s)
{
	grants_close(s->g);
	(void)unlink(s->path);
}

/* Its clock never goes back. */
static void store_tick(struct store *s, int64_t now)
{
	s->floor = now > s->floor ? now : s->floor;
	assert_int_equal(grants_expire(s->g, s->floor, NULL), 0);
	for (int i = 0; i < KEYS; i++)
		s->key_until[i] = s->key_until[i] > s->floor ? s->key_until[i] : 0;
}

/* One use, with one of its keys or none: what comes out is as `may` says, but a key that is known is none. */
static bool store_spend(struct store *s, const struct grant *g, int64_t until, bool may)
{
	int key = (int)pick(KEYS * 2);
	struct grants_spend u = {.grant = g, .n = 1, .until_ns = until, .key_until_ns = s->floor + 120 * SECOND};
	bool known = key < KEYS && s->key_until[key];
	int rc;

	if (key < KEYS)
		u.key = s->key[key];
	rc = grants_spend(s->g, &u, NULL);
	assert_int_equal(rc, may || known ? 0 : ERR_TOKEN_USED);
	if (rc == 0 && !known && key < KEYS)
		s->key_until[key] = u.key_until_ns;
	return rc == 0 && !known;
}

/* ---- the steps */

static int add(struct history *h, const struct grant *g, int parent, int renews)
{
	if (h->n == NODES)
		return -1;
	h->node[h->n] = (struct node){.g = *g, .parent = parent, .renews = renews};
	return h->n++;
}

/* A grant that is over may be known no more; the monitor looks at the latest time that it saw. */
static bool known(const struct history *h, int i)
{
	return h->centre.floor < h->node[i].g.expires_ns;
}

static void keep(struct history *h, const struct grant *g, const char *via)
{
	struct err e = {0};

	if (grants_create(h->centre.g, g, via, "test", &e))
		fail_msg("%s", e.message);
}

static bool alive(const struct history *h, int i)
{
	return h->now < h->node[i].g.expires_ns && known(h, i) && !model_revoked(h, i) && !h->node[i].g.edge[0];
}

static void make_lease(const struct grant *parent, struct grant *g)
{
	strcpy(g->edge, EDGE);
	g->scopes &= ~(uint32_t)SCOPE_GRANT;
	g->scopes = g->scopes ? g->scopes : SCOPE_ROUNDS;
	g->bounds.uses = g->bounds.uses ? g->bounds.uses : parent->bounds.uses;
	if (!g->task[0])
		strcpy(g->task, "t1");
}

/* A lease of a grant with a number takes its own out of it. */
static bool pays(struct history *h, int from, const struct grant *lease)
{
	struct grants_spend s = {.grant = &h->node[from].g, .n = lease->bounds.uses, .until_ns = model_ends(h, from)};
	bool may = model_may_spend(h, from, lease->bounds.uses);

	if (!h->node[from].g.bounds.uses)
		return true;
	assert_int_equal(grants_spend(h->centre.g, &s, NULL), may ? 0 : ERR_TOKEN_USED);
	if (may)
		model_spend(h, from, lease->bounds.uses);
	return may;
}

/* One of any kind is hardly ever within another: most of it is as in that one. */
static void resemble(const struct grant *parent, struct grant *g)
{
	g->scopes = pick(8) ? g->scopes & parent->scopes : g->scopes;
	g->scopes = g->scopes ? g->scopes : parent->scopes;
	g->kind = pick(8) ? parent->kind : g->kind;
	if (pick(8))
		strcpy(g->agent, parent->agent);
	if (pick(8))
		strcpy(g->principal, parent->principal);
	if (pick(8))
		strcpy(g->task, parent->task);
	if (pick(3))
		g->files.read = parent->files.read;
	if (pick(3))
		g->files.write = parent->files.write;
	if (pick(3))
		g->files.size_max = parent->files.size_max;
	if (pick(4))
		g->bounds.operations = parent->bounds.operations;
	if (pick(2))
		g->bounds.uses = parent->bounds.uses;
	if (pick(4) && g->expires_ns > parent->expires_ns)
		g->expires_ns = parent->expires_ns;
}

static void step_child(struct history *h, bool lease)
{
	int from = (int)pick((unsigned)h->n);
	struct grant g = random_grant(h->now);

	resemble(&h->node[from].g, &g);
	if (lease)
		make_lease(&h->node[from].g, &g);
	if (!alive(h, from) || grant_narrow_kin(&h->node[from].g, &g.kin, NULL) || grant_check(&g, NULL) ||
	    h->n == NODES)
		return;
	if (grant_narrow(&h->node[from].g, model_ends(h, from), &g, NULL))
		return;
	for (int up = from; up >= 0; up = h->node[first_of(h, up)].parent) /* the whole chain, each by itself */
		check_within(&h->node[up].g, &g);
	assert_true(g.expires_ns <= model_ends(h, from));
	if (lease && !pays(h, from, &g))
		return;
	keep(h, &g, "grant");
	(void)add(h, &g, from, -1);
}

/* For a token of an issuer, as often as it counts, and no longer than it. */
static void step_exchange(struct history *h)
{
	unsigned t = pick(TOKENS);
	struct grants_use u = {h->token[t], START + 2000 * SECOND, h->token_max[t], "issuer x", 100};
	struct grant g = random_grant(h->now);
	int i, rc;

	if (grant_check(&g, NULL) || h->n == NODES || h->centre.floor >= u.until_ns)
		return;
	g.expires_ns = g.expires_ns < u.until_ns ? g.expires_ns : u.until_ns;
	if (grant_check(&g, NULL))
		return;
	rc = grants_use(h->centre.g, &u, NULL);
	assert_int_equal(rc, h->token_used[t] < h->token_max[t] ? 0 : ERR_TOKEN_USED);
	if (rc)
		return;
	h->token_used[t]++;
	keep(h, &g, "issuer");
	i = add(h, &g, -1, -1);
	h->node[i].outside = true;
}

static void step_use(struct history *h)
{
	int i = (int)pick((unsigned)h->n);

	if (!alive(h, i) || !h->node[i].g.bounds.uses)
		return;
	if (store_spend(&h->centre, &h->node[i].g, model_ends(h, i), model_may_spend(h, i, 1))) {
		model_spend(h, i, 1);
		model_open(h, i);
	}
}

/* ---- at the edge: by what it heard last, its own clock, and its own count */

static int edge_hears(void *arg, const struct grant *g)
{
	struct history *h = arg;

	return g->edge[0] ? id_times_add(h->edge_revoked, &g->id, g->expires_ns) : 0;
}

static void step_sync(struct history *h)
{
	assert_int_equal(grants_each_gone(h->centre.g, edge_hears, h), 0);
	h->edge_heard = h->centre.floor;
	for (int i = 0; i < h->n; i++) /* all that came of what was taken back is among it */
		if (h->node[i].g.edge[0] && known(h, i) && model_revoked(h, i))
			assert_true(id_times_has(h->edge_revoked, &h->node[i].g.id));
}

static int edge_says(const struct history *h, int i)
{
	struct grant_news news = {.revoked = h->edge_revoked, .known_until_ns = h->edge_heard + KNOWN};
	struct grant_line l = grant_line(&h->node[i].g);

	return grant_line_check(&l, &news, h->edge.floor, NULL);
}

static void step_edge_use(struct history *h)
{
	int i = (int)pick((unsigned)h->n);
	struct grant *g = &h->node[i].g;
	bool may;

	if (!g->edge[0] || edge_says(h, i))
		return;
	may = !g->bounds.uses || h->node[i].opened < g->bounds.uses;
	if (!g->bounds.uses || store_spend(&h->edge, g, g->expires_ns, may))
		model_open(h, i);
}

/* Nothing that is over, and nothing by what was heard too long ago. */
static void compare_edge(const struct history *h)
{
	for (int i = 0; i < h->n; i++) {
		bool over = h->edge.floor >= h->node[i].g.expires_ns, old = h->edge.floor >= h->edge_heard + KNOWN;

		if (h->node[i].g.edge[0] && (over || old))
			assert_int_not_equal(edge_says(h, i), 0);
	}
}

static void step_renew(struct history *h)
{
	int from = (int)pick((unsigned)h->n), top = first_of(h, from);
	int64_t bound = h->node[top].parent >= 0 ? model_ends(h, h->node[top].parent) : INT64_MAX;
	struct grant g = h->node[from].g;

	if (!alive(h, from) || h->node[top].outside || h->n == NODES)
		return;
	assert_int_equal(id_new(&g.id), 0);
	g.kin.first = h->node[top].g.id;
	g.since_ns = h->node[top].g.issued_ns;
	g.issued_ns = g.not_before_ns = h->now;
	g.expires_ns = h->now + (1 + pick(900)) * SECOND;
	g.expires_ns = g.expires_ns < bound ? g.expires_ns : bound;
	if (g.expires_ns <= model_ends(h, from)) /* the monitor gives no renewal that ends before what there is */
		return;
	if (g.issued_ns < g.since_ns || grant_check(&g, NULL) || g.expires_ns <= h->centre.floor)
		return;
	keep(h, &g, "grant");
	if (pick(6) == 0) { /* the daemon ends before it was journaled: it was never given */
		grants_close(h->centre.g);
		store_open(&h->centre);
		return;
	}
	assert_int_equal(grants_renewed(h->centre.g, &g.id, NULL), 0);
	(void)add(h, &g, h->node[top].parent, from);
	assert_int_equal(id_times_add(h->renewed, &g.kin.first, g.expires_ns), 0);
}

static void step_revoke(struct history *h)
{
	int i = (int)pick((unsigned)h->n);
	struct grant_line l = grant_line(&h->node[i].g);
	struct grants_revoked out;

	if (!known(h, i))
		return;
	h->node[i].revoked = true;
	assert_int_equal(
	    grants_revoke(h->centre.g, &h->node[i].g.id, GRANTS_WITH_ALL, h->centre.floor, "admin", "test", &out, NULL),
	    0);
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
		if (known(h, i) && h->node[i].g.bounds.uses && !h->node[i].g.edge[0])
			assert_int_equal(grants_spent(h->centre.g, &h->node[i].g), h->node[first_of(h, i)].spent);
	}
	compare_edge(h);
}

static void step_clock(struct history *h)
{
	/* The guarded clock never goes back by much, and stands or leaps. */
	h->now += (int64_t)pick(600) * SECOND - 60 * SECOND;
	store_tick(&h->centre, h->now);
	store_tick(&h->edge, h->now - (int64_t)pick(60) * SECOND);
}

static void step_restart(struct history *h)
{
	struct store *s = pick(2) ? &h->centre : &h->edge;

	grants_close(s->g);
	store_open(s);
}

static void step(struct history *h)
{
	static void (*const steps[])(struct history * h) = {step_revoke,   step_renew,    step_renew,    step_clock,
							    step_exchange, step_use,      step_use,      step_use,
							    step_sync,     step_edge_use, step_edge_use, step_restart};
	unsigned which = pick(20);

	if (which < sizeof(steps) / sizeof(steps[0]))
		steps[which](h);
	else
		step_child(h, which == 19 || which == 18);
}

static void one_history(void)
{
	struct history h = {.now = START};
	struct grant g = random_grant(h.now);

	assert_int_equal(id_times_create(&h.revoked), 0);
	assert_int_equal(id_times_create(&h.renewed), 0);
	assert_int_equal(id_times_create(&h.edge_revoked), 0);
	store_begin(&h.centre, "centre");
	store_begin(&h.edge, "edge");
	h.edge_heard = START;
	for (int t = 0; t < TOKENS; t++) {
		assert_int_equal(id_new(&h.token[t]), 0);
		h.token_max[t] = 1 + pick(2);
	}
	while (grant_check(&g, NULL))
		g = random_grant(h.now);
	keep(&h, &g, "admin");
	(void)add(&h, &g, -1, -1);
	for (int s = 0; s < STEPS; s++) {
		step(&h);
		compare(&h);
	}
	store_end(&h.centre);
	store_end(&h.edge);
	id_times_destroy(h.revoked);
	id_times_destroy(h.renewed);
	id_times_destroy(h.edge_revoked);
}

static void nothing_outlives_outreaches_or_outspends_its_chain(void **state)
{
	const char *text = getenv("HISTORIES"), *given = getenv("SEED");
	unsigned long n = text ? strtoul(text, NULL, 10) : 2000;

	(void)state;
	for (unsigned long i = 0; i < n; i++) {
		seed = (given ? strtoul(given, NULL, 10) : 20261126) + i;
		one_history();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_outlives_outreaches_or_outspends_its_chain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
