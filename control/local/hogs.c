#define LOG_SUBSYS "sandbox"
#include "control/local/hogs.h"

#include "base/conf.h"
#include "base/ids.h"
#include "base/log.h"
#include "control/local/cgroup.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uthash.h>

#define HOGS_MAX    4096 /* of more sandboxes the rest is left alone */
#define OTHERS_PART 1000 /* of a processor: who uses less does nothing */

struct hog {
	UT_hash_handle hh;
	char agent[AGENT_NAME_MAX + 1];
	struct cgroup group;
	uint64_t used_ns; /* at the last look */
	enum hog_state state;
	uint32_t weight;
	bool seen; /* by this look */
};

struct hogs {
	const struct cgroup_layout *layout;
	const char *instance, *weights;
	struct hog *all;
	uint64_t looked_ns;
};

/* ---- the rule */

static bool hog_is(const struct hog_use *u, uint64_t passed_ns)
{
	return u->used_ns >= passed_ns / (u->state == HOG_BEHIND ? 4 : 2);
}

void hogs_decide(struct hog_use *v, size_t n, uint64_t passed_ns, unsigned processors)
{
	uint64_t all = 0, others = 0, whole = passed_ns * processors;
	const struct hog_use *first = NULL;
	bool behind = false, alike = true, go;

	for (size_t i = 0; i < n; i++) {
		all += v[i].used_ns;
		behind |= v[i].state == HOG_BEHIND;
		if (!hog_is(&v[i], passed_ns)) {
			others += v[i].used_ns;
			continue;
		}
		first = first ? first : &v[i];
		alike &= v[i].weight == first->weight;
	}
	go = alike && others >= passed_ns / OTHERS_PART && all >= (behind ? whole / 2 : whole / 4 * 3);
	for (size_t i = 0; i < n; i++)
		v[i].state = go && hog_is(&v[i], passed_ns) ? HOG_BEHIND : HOG_BESIDE;
}

/* ---- the sandboxes that there are */

static void hogs_forget(struct hogs *h, struct hog *g)
{
	HASH_DEL(h->all, g); /* NOLINT(clang-analyzer-core.NullDereference): g is in it */
	free(g);
}

static struct hog *hogs_learn(struct hogs *h, const char *agent)
{
	struct hog *g = HASH_COUNT(h->all) < HOGS_MAX ? calloc(1, sizeof(*g)) : NULL;

	if (!g || strlen(agent) >= sizeof(g->agent)) {
		free(g);
		return NULL;
	}
	strcpy(g->agent, agent);
	cgroup_find(h->layout, h->instance, agent, &g->group);
	g->weight = conf_weight(h->weights, agent);
	g->state = cgroup_is_behind(&g->group) ? HOG_BEHIND : HOG_BESIDE;
	(void)cgroup_used(&g->group, &g->used_ns);
	HASH_ADD_STR(h->all, agent, g);
	return g;
}

static void hogs_on_agent(void *arg, const char *agent)
{
	struct hogs *h = arg;
	struct hog *g;

	HASH_FIND_STR(h->all, agent, g);
	g = g ? g : hogs_learn(h, agent);
	if (g)
		g->seen = true;
}

/* Nothing where nobody counts it. A group that counts from the start is another one of the same name. */
static uint64_t hog_spent(struct hog *g)
{
	uint64_t now = g->used_ns, before = g->used_ns;

	(void)cgroup_used(&g->group, &now);
	g->used_ns = now;
	if (now < before)
		g->state = HOG_BESIDE;
	return now > before ? now - before : 0;
}

/* Behind is written at each look: the group may be another one of the same name, made between two looks. */
static void hog_set_state(struct hog *g, enum hog_state state)
{
	bool changes = g->state != state;

	if ((!changes && state == HOG_BESIDE) || cgroup_set_behind(&g->group, state == HOG_BEHIND, g->weight) != 0 ||
	    !changes)
		return;
	g->state = state;
	log_debug(&(struct log_ids){.agent = g->agent}, "%s the other sandboxes for processor time",
		  state == HOG_BEHIND ? "behind" : "beside");
}

static size_t hogs_measure(struct hogs *h, struct hog_use *out)
{
	struct hog *g, *next;
	size_t n = 0;

	HASH_ITER(hh, h->all, g, next)
	{
		if (!g->seen) {
			hogs_forget(h, g);
			continue;
		}
		g->seen = false;
		out[n] = (struct hog_use){.weight = g->weight, .used_ns = hog_spent(g)};
		out[n++].state = g->state;
	}
	return n;
}

/* The processors that the daemon may run on, few in a container; all, where the set cannot hold them. */
static unsigned hogs_processors(void)
{
	cpu_set_t set;
	long all = sysconf(_SC_NPROCESSORS_ONLN);

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		all = CPU_COUNT(&set);
	return all > 0 ? (unsigned)all : 1;
}

unsigned hogs_look(struct hogs *h, uint64_t now_ns)
{
	uint64_t passed = now_ns - h->looked_ns, all = 0;
	struct hog_use *v;
	struct hog *g;
	bool behind = false;
	size_t n, i = 0;

	cgroup_each(h->layout, h->instance, hogs_on_agent, h);
	v = calloc(HASH_COUNT(h->all) + 1, sizeof(*v));
	if (!v)
		return HOGS_REST_MS;
	n = hogs_measure(h, v);
	if (h->looked_ns && passed)
		hogs_decide(v, n, passed, hogs_processors());
	for (g = h->all; g; g = g->hh.next, i++) {
		hog_set_state(g, v[i].state);
		behind |= g->state == HOG_BEHIND;
		all += v[i].used_ns;
	}
	h->looked_ns = now_ns;
	free(v);
	return behind || all >= passed / 2 ? HOGS_BUSY_MS : HOGS_REST_MS;
}

struct hogs *hogs_new(const struct cgroup_layout *layout, const char *instance, const char *weights)
{
	struct hogs *h = calloc(1, sizeof(*h));

	if (h)
		*h = (struct hogs){.layout = layout, .instance = instance, .weights = weights};
	return h;
}

void hogs_free(struct hogs *h)
{
	struct hog *g, *next;

	if (!h)
		return;
	HASH_ITER(hh, h->all, g, next)
	{
		hog_set_state(g, HOG_BESIDE);
		hogs_forget(h, g);
	}
	free(h);
}
