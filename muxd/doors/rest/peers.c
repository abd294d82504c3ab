#include "muxd/doors/rest/peers.h"
#include "muxd/base/clock.h"
#include "muxd/base/err.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BUCKETS       256
#define WINDOW_NS     (60 * NS_PER_SEC)
#define FAILURES_FREE 10

struct peer {
	struct peer *next;
	uint8_t key[17];
	uint32_t conns;
	uint32_t failures;
	uint64_t window_ns; /* when the failures began */
	double tokens;      /* connections that may come now */
	uint64_t filled_ns;
};

struct peers {
	struct peer *buckets[BUCKETS];
	size_t n;
};

int peers_create(struct peers **out)
{
	struct peers *p = calloc(1, sizeof(*p));

	if (!p)
		return ERR_NOMEM;
	*out = p;
	return 0;
}

void peers_destroy(struct peers *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < BUCKETS; i++) {
		while (p->buckets[i]) {
			struct peer *next = p->buckets[i]->next;

			free(p->buckets[i]);
			p->buckets[i] = next;
		}
	}
	free(p);
}

static void make_key(const struct sockaddr *sa, uint8_t key[17])
{
	memset(key, 0, 17);
	key[0] = (uint8_t)sa->sa_family;
	if (sa->sa_family == AF_INET) {
		memcpy(key + 1, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
	} else if (sa->sa_family == AF_INET6) {
		const struct in6_addr *a = &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;

		/* a v4-mapped address is its own host; else the /64, which one customer owns whole */
		memcpy(key + 1, a, IN6_IS_ADDR_V4MAPPED(a) ? 16 : 8);
	}
}

static size_t bucket_of(const uint8_t key[17])
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < 17; i++)
		h = (h ^ key[i]) * 16777619u;
	return h % BUCKETS;
}

static struct peer *find(struct peers *p, const uint8_t key[17])
{
	struct peer *s = p->buckets[bucket_of(key)];

	while (s && memcmp(s->key, key, 17) != 0)
		s = s->next;
	return s;
}

/* A bucket of two seconds' worth. */
static bool too_fast(struct peer *s, uint32_t rate, uint64_t now_ns)
{
	s->tokens += (double)(now_ns - s->filled_ns) / (double)NS_PER_SEC * rate;
	s->filled_ns = now_ns;
	if (s->tokens > 2.0 * rate)
		s->tokens = 2.0 * rate;
	if (s->tokens < 1)
		return true;
	s->tokens -= 1;
	return false;
}

int peers_enter(struct peers *p, const struct sockaddr *sa, uint32_t max, uint32_t rate, uint64_t now_ns,
		struct peer **out)
{
	uint8_t key[17];
	struct peer *s;

	make_key(sa, key);
	s = find(p, key);
	if (s && s->conns >= max)
		return ERR_LIMIT;
	if (s && too_fast(s, rate, now_ns))
		return ERR_RATE_LIMITED;
	if (!s) {
		size_t b = bucket_of(key);

		s = calloc(1, sizeof(*s));
		if (!s)
			return ERR_NOMEM;
		memcpy(s->key, key, 17);
		s->tokens = 2.0 * rate - 1;
		s->filled_ns = now_ns;
		s->next = p->buckets[b];
		p->buckets[b] = s;
		p->n++;
	}
	s->conns++;
	*out = s;
	return 0;
}

static bool idle(const struct peer *s, uint64_t now_ns)
{
	return s->conns == 0 && now_ns - s->filled_ns > 2 * NS_PER_SEC && (s->failures == 0 || now_ns - s->window_ns > WINDOW_NS);
}

static void prune_bucket(struct peers *p, size_t b, uint64_t now_ns)
{
	struct peer **at = &p->buckets[b];

	while (*at) {
		struct peer *s = *at;

		if (!idle(s, now_ns)) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		free(s);
		p->n--;
	}
}

void peers_leave(struct peers *p, struct peer *peer, uint64_t now_ns)
{
	peer->conns--;
	prune_bucket(p, bucket_of(peer->key), now_ns);
}

bool peers_failed(struct peer *peer, uint64_t now_ns)
{
	if (peer->failures == 0 || now_ns - peer->window_ns > WINDOW_NS) {
		peer->failures = 0;
		peer->window_ns = now_ns;
	}
	return ++peer->failures > FAILURES_FREE;
}

void peers_prune(struct peers *p, uint64_t now_ns)
{
	for (size_t b = 0; b < BUCKETS; b++)
		prune_bucket(p, b, now_ns);
}

size_t peers_count(const struct peers *p)
{
	return p->n;
}
