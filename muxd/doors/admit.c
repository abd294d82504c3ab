#include "muxd/doors/admit.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/prefix.h"

#include <stdlib.h>
#include <sys/queue.h>

#define BUCKETS        1024
#define OVER_MIN       8
#define OVER_MAX       64 /* of the door; of one address OVER_MIN */
#define WEIGHT         16 /* of a stranger, and of a failed log-in; of one behind a gateway 1 */
#define RATE_FORGET_NS (2 * NS_PER_SEC)
#define WIDE_RATE      4 /* of an IPv6 /48, as a multiple of one address's; of a /32 as much again */

enum level { HOST, SITE, REGION, LEVELS };

LIST_HEAD(group_list, group);

/* A prefix: a HOST is an address or /64, its SITE a /24 or /48, that one's REGION a /16 or /32. */
struct group {
	struct group *next; /* in its bucket */
	struct prefix key;
	enum level level;
	struct group *up;          /* NULL: a REGION */
	LIST_ENTRY(group) sibling; /* in up->below, or admit->regions */
	struct group_list below;
	uint32_t load;      /* of its strangers */
	double tokens;      /* connections that may come now */
	uint64_t filled_ns; /* 0: none came yet */
	/* HOST */
	TAILQ_ENTRY(group) idle; /* in admit->idle while live is 0 */
	TAILQ_HEAD(, admit_place) strangers;
	uint32_t live, nstrangers, in, over;
	uint32_t failures;
	uint64_t forgot_ns; /* up to when failures have been forgotten */
	bool gateway;
};

struct admit_place {
	struct admit *table;
	struct group *host;
	LIST_ENTRY(admit_place) of_table;
	TAILQ_ENTRY(admit_place) of_host; /* in host->strangers while it is one */
	enum admit_state state;
	uint64_t heard_ns;
	void *owner;
};

struct admit {
	LIST_HEAD(, admit_place) places;
	struct group *buckets[BUCKETS];
	struct group_list regions;
	TAILQ_HEAD(, group) idle; /* hosts without connections, the quietest first */
	size_t nhosts, nidle;
	size_t count[ADMIT_STATES];
};

int admit_create(struct admit **out)
{
	struct admit *a = calloc(1, sizeof(*a));

	if (!a)
		return ERR_NOMEM;
	LIST_INIT(&a->places);
	LIST_INIT(&a->regions);
	TAILQ_INIT(&a->idle);
	*out = a;
	return 0;
}

void admit_destroy(struct admit *a)
{
	struct admit_place *p;

	if (!a)
		return;
	while ((p = LIST_FIRST(&a->places))) {
		LIST_REMOVE(p, of_table);
		free(p);
	}
	for (size_t i = 0; i < BUCKETS; i++) {
		while (a->buckets[i]) {
			struct group *next = a->buckets[i]->next;

			free(a->buckets[i]);
			a->buckets[i] = next;
		}
	}
	free(a);
}

/* ---- prefixes */

static struct prefix admit_key_of(const struct prefix *host, enum level level)
{
	static const unsigned v4[LEVELS] = {32, 24, 16}, v6[LEVELS] = {64, 48, 32};

	return prefix_wide(host, host->family == 6 ? v6[level] : v4[level]);
}

static struct group **bucket_of(struct admit *a, const struct prefix *key, enum level level)
{
	uint32_t h = 2166136261u + (uint32_t)level;

	for (size_t i = 0; i < sizeof(key->b); i++)
		h = (h ^ key->b[i]) * 16777619u;
	return &a->buckets[(h ^ key->family) % BUCKETS];
}

static bool is_needed(const struct group *g)
{
	return g->level == HOST || !LIST_EMPTY(&g->below);
}

/* The wider groups of a group go with it when it was their last. */
static void group_drop(struct admit *a, struct group *g)
{
	while (g) {
		struct group **at = bucket_of(a, &g->key, g->level), *up = g->up;

		while (*at != g)
			at = &(*at)->next;
		*at = g->next;
		LIST_REMOVE(g, sibling);
		if (g->level == HOST) {
			TAILQ_REMOVE(&a->idle, g, idle);
			a->nidle--;
			a->nhosts--;
		}
		free(g);
		g = up && !is_needed(up) ? up : NULL;
	}
}

static struct group *group_get(struct admit *a, const struct prefix *host, enum level level)
{
	struct prefix key = admit_key_of(host, level);
	struct group **bucket = bucket_of(a, &key, level), *g = *bucket, *up = NULL;

	while (g && (g->level != level || !prefix_equal(&g->key, &key)))
		g = g->next;
	if (g)
		return g;
	if (level + 1 < LEVELS && !(up = group_get(a, host, level + 1)))
		return NULL;
	g = calloc(1, sizeof(*g));
	if (!g) {
		if (up && !is_needed(up))
			group_drop(a, up);
		return NULL;
	}
	g->key = key;
	g->level = level;
	g->up = up;
	LIST_INIT(&g->below);
	TAILQ_INIT(&g->strangers);
	g->next = *bucket;
	*bucket = g;
	LIST_INSERT_HEAD(up ? &up->below : &a->regions, g, sibling);
	if (level == HOST) {
		TAILQ_INSERT_TAIL(&a->idle, g, idle);
		a->nidle++;
		a->nhosts++;
	}
	return g;
}

static void admit_forget(struct group *g, uint64_t now_ns)
{
	uint64_t each = g->gateway ? ADMIT_FORGET_NS / WEIGHT : ADMIT_FORGET_NS;
	uint64_t n = now_ns > g->forgot_ns ? (now_ns - g->forgot_ns) / each : 0;

	if (n >= g->failures) {
		g->failures = 0;
		g->forgot_ns = now_ns;
	} else {
		g->failures -= (uint32_t)n;
		g->forgot_ns += n * each;
	}
}

static uint32_t failures_of(const struct group *host)
{
	return host->gateway ? host->failures / WEIGHT : host->failures;
}

/* ---- shares */

static uint32_t most_of(const struct admit_rules *r, const struct group *host)
{
	return host->gateway ? r->gateway_max : r->per_address;
}

/* Of a door, and again of each address: of staff and auditors alone. */
static uint32_t staff_of(const struct admit_rules *r)
{
	return r->max / 16;
}

/* How many connections strangers may hold together now. */
static uint32_t room_of(const struct admit *a, const struct admit_rules *r)
{
	uint32_t theirs = r->max - r->max / 4;
	uint32_t left = a->count[ADMIT_IN] < r->max ? r->max - (uint32_t)a->count[ADMIT_IN] : 0;

	return theirs < left ? theirs : left;
}

static size_t strangers_of(const struct admit *a)
{
	return a->count[ADMIT_SILENT] + a->count[ADMIT_SPOKE];
}

/* Of `most`, what is left of it when the strangers' room is so full: all up to half, `least` in the end. */
static uint32_t shrunk(const struct admit *a, const struct admit_rules *r, uint32_t most, uint32_t least)
{
	uint64_t used = strangers_of(a), room = room_of(a, r), left;

	if (most < least)
		least = most;
	if (used <= room / 2)
		return most;
	left = used < room ? most * 2 * (room - used) / room : 0;
	return left > least ? (uint32_t)left : least;
}

static uint32_t share_of(const struct admit *a, const struct admit_rules *r, const struct group *host)
{
	uint32_t most = most_of(r, host), half = room_of(a, r) / 2;

	if (!host->gateway && most > half)
		most = half;
	return shrunk(a, r, most, ADMIT_SHARE_MIN);
}

/* One token of a bucket of two seconds' worth. */
static bool take_token(struct group *g, double rate, uint64_t now_ns)
{
	if (!g->filled_ns)
		g->tokens = 2 * rate;
	else if (now_ns > g->filled_ns)
		g->tokens += (double)(now_ns - g->filled_ns) / (double)NS_PER_SEC * rate;
	g->filled_ns = now_ns;
	if (g->tokens > 2 * rate)
		g->tokens = 2 * rate;
	if (g->tokens < 1)
		return false;
	g->tokens -= 1;
	return true;
}

static bool too_fast(struct admit *a, const struct admit_rules *r, struct group *host, uint64_t now_ns)
{
	uint32_t full = r->rate;
	double rate;

	if (host->gateway && r->per_address)
		full = (uint32_t)((uint64_t)full * r->gateway_max / r->per_address);
	rate = shrunk(a, r, full, ADMIT_RATE_MIN);
	if (!take_token(host, rate, now_ns))
		return true;
	/* one customer may have many of an IPv6 prefix; IPv4 neighbours are strangers to each other */
	return host->key.family == 6 && (!take_token(host->up, rate * WIDE_RATE, now_ns) ||
					 !take_token(host->up->up, rate * WIDE_RATE * WIDE_RATE, now_ns));
}

/* ---- who has to go */

/* True: y goes before x. */
static bool goes_first(const struct admit_place *x, const struct admit_place *y)
{
	if (!x || x->state != y->state)
		return !x || y->state < x->state;
	return y->heard_ns < x->heard_ns;
}

static struct admit_place *first_of(const struct group *host)
{
	struct admit_place *best = NULL, *p;

	TAILQ_FOREACH(p, &host->strangers, of_host)
	if (goes_first(best, p))
		best = p;
	return best;
}

/* Where most is, from the widest down. */
static struct admit_place *heaviest(const struct group_list *list)
{
	struct admit_place *best = NULL, *p;
	const struct group *g;
	uint32_t load = 0;

	LIST_FOREACH(g, list, sibling)
	if (g->load > load)
		load = g->load;
	LIST_FOREACH(g, list, sibling)
	{
		if (!load || g->load != load)
			continue;
		p = g->level == HOST ? first_of(g) : heaviest(&g->below);
		if (p && goes_first(best, p))
			best = p;
	}
	return best;
}

static struct admit_place *long_silent(const struct group *host, uint64_t now_ns)
{
	struct admit_place *p = first_of(host);

	return p && p->state == ADMIT_SILENT && now_ns - p->heard_ns >= ADMIT_SILENT_NS ? p : NULL;
}

/* ---- places */

static bool is_stranger(enum admit_state s)
{
	return s == ADMIT_SILENT || s == ADMIT_SPOKE;
}

static void weigh(struct admit_place *p, bool on)
{
	uint32_t w = p->host->gateway ? 1 : WEIGHT;

	for (struct group *g = p->host; g; g = g->up)
		g->load = on ? g->load + w : g->load - w;
	if (on) {
		TAILQ_INSERT_TAIL(&p->host->strangers, p, of_host);
		p->host->nstrangers++;
	} else {
		TAILQ_REMOVE(&p->host->strangers, p, of_host);
		p->host->nstrangers--;
	}
}

static void admit_set_state(struct admit_place *p, enum admit_state to)
{
	enum admit_state from = p->state;

	if (is_stranger(from) != is_stranger(to))
		weigh(p, is_stranger(to));
	p->host->in += (uint32_t)(to == ADMIT_IN) - (uint32_t)(from == ADMIT_IN);
	p->host->over += (uint32_t)(to == ADMIT_OVER) - (uint32_t)(from == ADMIT_OVER);
	p->table->count[from]--;
	p->table->count[to]++;
	p->state = to;
}

static void *evict(struct admit_place *p)
{
	if (!p)
		return NULL;
	admit_set_state(p, ADMIT_ENDING);
	return p->owner;
}

static int place_make(struct admit *a, struct group *host, enum admit_state state, uint64_t now_ns,
		      struct admit_place **out)
{
	struct admit_place *p = calloc(1, sizeof(*p));

	if (!p)
		return ERR_NOMEM;
	p->table = a;
	p->host = host;
	p->heard_ns = now_ns;
	p->state = ADMIT_ENDING; /* which is not counted as anything */
	a->count[ADMIT_ENDING]++;
	LIST_INSERT_HEAD(&a->places, p, of_table);
	if (host->live++ == 0) {
		TAILQ_REMOVE(&a->idle, host, idle);
		a->nidle--;
	}
	admit_set_state(p, state);
	*out = p;
	return 0;
}

static uint32_t over_max(const struct admit_rules *r)
{
	uint32_t n = r->max / 16;

	return n < OVER_MIN ? OVER_MIN : n > OVER_MAX ? OVER_MAX : n;
}

/* A place as a stranger, if need be somebody else's. False: there is none. */
static bool find_place(const struct admit *a, const struct admit_rules *r, const struct group *host, uint64_t now_ns,
		       struct admit_place **out_victim)
{
	size_t room = room_of(a, r);

	*out_victim = NULL;
	if (room == 0)
		return false;
	if (host->nstrangers >= share_of(a, r, host))
		*out_victim = long_silent(host, now_ns);
	else if (strangers_of(a) >= room)
		*out_victim = heaviest(&a->regions);
	else
		return true;
	return *out_victim != NULL;
}

/* Behind an address that holds its share there may be staff, for whom there is room: a credential tells. */
static bool may_be_staff(const struct admit_rules *r, const struct group *host, int rc)
{
	return rc == ERR_LIMIT && host->live < most_of(r, host) + staff_of(r);
}

/* The newcomer's state, SILENT or OVER, and who goes for it. */
static int admit_judge(struct admit *a, const struct admit_rules *r, struct group *host, uint64_t now_ns,
		       enum admit_state *out, struct admit_place **out_victim)
{
	int rc = 0;

	*out_victim = NULL;
	if (r->failures_max && failures_of(host) >= r->failures_max)
		return ERR_RATE_LIMITED;
	if (too_fast(a, r, host, now_ns))
		rc = ERR_RATE_LIMITED;
	else if (host->live >= most_of(r, host))
		rc = ERR_LIMIT;
	if (rc && !r->tells && !may_be_staff(r, host, rc))
		return rc;
	*out = ADMIT_SILENT;
	if (!rc && find_place(a, r, host, now_ns, out_victim))
		return 0;
	*out = ADMIT_OVER;
	return a->count[ADMIT_OVER] < over_max(r) && host->over < OVER_MIN ? 0 : rc ? rc : ERR_LIMIT;
}

int admit_enter(struct admit *a, const struct admit_rules *r, const struct sockaddr *sa, uint64_t now_ns,
		struct admit_place **out, void **out_victim)
{
	struct admit_place *victim;
	enum admit_state state;
	struct prefix whole, key;
	struct group *host;
	int rc;

	prefix_of(sa, &whole);
	key = prefix_host(&whole);
	host = group_get(a, &key, HOST);
	if (!host)
		return ERR_NOMEM;
	if (host->live == 0) {
		/* a change of the list counts for an address once nobody is there */
		host->gateway = r->gateways && prefix_list_covers(r->gateways, &whole);
		TAILQ_REMOVE(&a->idle, host, idle);
		TAILQ_INSERT_TAIL(&a->idle, host, idle);
	}
	admit_forget(host, now_ns);
	rc = admit_judge(a, r, host, now_ns, &state, &victim);
	if (rc == 0)
		rc = place_make(a, host, state, now_ns, out);
	if (rc == 0)
		*out_victim = evict(victim);
	if (a->nidle > ADMIT_ADDRESSES_MAX)
		group_drop(a, TAILQ_FIRST(&a->idle));
	return rc;
}

void admit_own(struct admit_place *p, void *owner)
{
	p->owner = owner;
}

void *admit_victim(struct admit *a)
{
	return evict(heaviest(&a->regions));
}

void admit_spoke(struct admit_place *p, uint64_t now_ns)
{
	p->heard_ns = now_ns;
	if (p->state == ADMIT_SILENT)
		admit_set_state(p, ADMIT_SPOKE);
}

bool admit_in(struct admit_place *p, const struct admit_rules *r, bool staff, uint64_t now_ns)
{
	size_t most = staff ? r->max : r->max - staff_of(r);
	size_t here = most_of(r, p->host) + (staff ? staff_of(r) : 0);

	p->heard_ns = now_ns;
	if (p->state == ADMIT_IN)
		return true;
	if (p->state == ADMIT_ENDING || p->table->count[ADMIT_IN] >= most || p->host->in >= here)
		return false;
	admit_set_state(p, ADMIT_IN);
	return true;
}

void admit_out(struct admit_place *p, uint64_t now_ns)
{
	p->heard_ns = now_ns;
	if (p->state == ADMIT_IN)
		admit_set_state(p, ADMIT_SPOKE);
}

static bool admit_is_forgotten(struct group *host, uint64_t now_ns)
{
	admit_forget(host, now_ns);
	return host->failures == 0 && now_ns - host->filled_ns > RATE_FORGET_NS;
}

void admit_leave(struct admit_place *p)
{
	struct admit *a = p->table;
	struct group *host = p->host;

	admit_set_state(p, ADMIT_ENDING);
	a->count[ADMIT_ENDING]--;
	LIST_REMOVE(p, of_table);
	free(p);
	if (--host->live)
		return;
	TAILQ_INSERT_TAIL(&a->idle, host, idle);
	a->nidle++;
	if (a->nidle > ADMIT_ADDRESSES_MAX)
		group_drop(a, TAILQ_FIRST(&a->idle));
}

enum admit_state admit_state(const struct admit_place *p)
{
	return p->state;
}

size_t admit_count(const struct admit *a, enum admit_state s)
{
	return a->count[s];
}

size_t admit_addresses(const struct admit *a)
{
	return a->nhosts;
}

uint32_t admit_failed(struct admit_place *p, uint64_t now_ns)
{
	admit_forget(p->host, now_ns);
	p->host->failures++;
	return failures_of(p->host);
}

uint32_t admit_failures(struct admit_place *p, uint64_t now_ns)
{
	admit_forget(p->host, now_ns);
	return failures_of(p->host);
}

void admit_prune(struct admit *a, uint64_t now_ns)
{
	struct group *g, *next;

	for (g = TAILQ_FIRST(&a->idle); g; g = next) {
		next = TAILQ_NEXT(g, idle);
		if (admit_is_forgotten(g, now_ns))
			group_drop(a, g);
	}
}
