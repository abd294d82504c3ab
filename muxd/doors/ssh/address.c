#include "muxd/doors/ssh/address.h"

#include "muxd/base/clock.h"
#include "muxd/base/err.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define BUCKETS 256

struct ssh_address {
	LIST_ENTRY(ssh_address) bucket;
	TAILQ_ENTRY(ssh_address) age;    /* oldest use first */
	uint8_t key[17];                 /* family, then the address */
	uint32_t live, logins, failures; /* logins: of the live ones, who is not in yet */
	uint64_t forgot_ns;              /* up to when failures have been forgotten */
	bool refused;
};

struct ssh_address_table {
	LIST_HEAD(, ssh_address) buckets[BUCKETS];
	TAILQ_HEAD(, ssh_address) age;
	size_t n;
};

int ssh_address_table_create(struct ssh_address_table **out)
{
	struct ssh_address_table *t = calloc(1, sizeof(*t));

	if (!t)
		return ERR_NOMEM;
	TAILQ_INIT(&t->age);
	*out = t;
	return 0;
}

void ssh_address_table_destroy(struct ssh_address_table *t)
{
	struct ssh_address *a;

	if (!t)
		return;
	while ((a = TAILQ_FIRST(&t->age))) {
		TAILQ_REMOVE(&t->age, a, age);
		free(a);
	}
	free(t);
}

static void key_make(const struct sockaddr *sa, uint8_t key[17])
{
	memset(key, 0, 17);
	key[0] = sa->sa_family == AF_INET6 ? 6 : 4;
	if (sa->sa_family == AF_INET) {
		memcpy(key + 1, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
	} else if (sa->sa_family == AF_INET6) {
		const struct in6_addr *in6 = &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;

		if (IN6_IS_ADDR_V4MAPPED(in6)) {
			key[0] = 4;
			memcpy(key + 1, in6->s6_addr + 12, 4);
		} else {
			memcpy(key + 1, in6->s6_addr, 8);
		}
	}
}

static unsigned key_hash(const uint8_t key[17])
{
	uint32_t h = 2166136261u;

	for (int i = 0; i < 17; i++)
		h = (h ^ key[i]) * 16777619u;
	return h % BUCKETS;
}

static void entry_drop(struct ssh_address_table *t, struct ssh_address *a)
{
	LIST_REMOVE(a, bucket);
	TAILQ_REMOVE(&t->age, a, age);
	t->n--;
	free(a);
}

static void make_room(struct ssh_address_table *t)
{
	struct ssh_address *a;

	TAILQ_FOREACH(a, &t->age, age)
	{
		if (a->live == 0) {
			entry_drop(t, a);
			return;
		}
	}
}

static struct ssh_address *entry_get(struct ssh_address_table *t, const struct sockaddr *sa)
{
	uint8_t key[17];
	unsigned h;
	struct ssh_address *a;

	key_make(sa, key);
	h = key_hash(key);
	LIST_FOREACH(a, &t->buckets[h], bucket)
	{
		if (memcmp(a->key, key, sizeof(key)) == 0) {
			TAILQ_REMOVE(&t->age, a, age);
			TAILQ_INSERT_TAIL(&t->age, a, age);
			return a;
		}
	}
	if (t->n >= SSH_ADDRESS_MAX)
		make_room(t);
	a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	memcpy(a->key, key, sizeof(key));
	LIST_INSERT_HEAD(&t->buckets[h], a, bucket);
	TAILQ_INSERT_TAIL(&t->age, a, age);
	t->n++;
	return a;
}

static void forget(struct ssh_address *a, uint64_t now_ns)
{
	uint64_t n = now_ns > a->forgot_ns ? (now_ns - a->forgot_ns) / SSH_ADDRESS_FORGET_NS : 0;

	if (n >= a->failures) {
		a->failures = 0;
		a->forgot_ns = now_ns;
	} else {
		a->failures -= (uint32_t)n;
		a->forgot_ns += n * SSH_ADDRESS_FORGET_NS;
	}
}

int ssh_address_enter(struct ssh_address_table *t, const struct sockaddr *sa, uint32_t max_live, uint32_t max_logins,
		      uint64_t now_ns, struct ssh_address **out, bool *out_first)
{
	struct ssh_address *a = entry_get(t, sa);
	int rc = 0;

	*out_first = false;
	if (!a)
		return ERR_NOMEM;
	forget(a, now_ns);
	if (a->failures >= SSH_ADDRESS_REFUSE)
		rc = ERR_RATE_LIMITED;
	else if (a->live >= max_live || a->logins >= max_logins)
		rc = ERR_LIMIT;
	if (rc) {
		*out_first = !a->refused;
		a->refused = true;
		return rc;
	}
	a->refused = false;
	a->live++;
	a->logins++;
	*out = a;
	return 0;
}

void ssh_address_settled(struct ssh_address *a)
{
	a->logins--;
}

void ssh_address_leave(struct ssh_address *a, uint64_t now_ns)
{
	a->live--;
	forget(a, now_ns);
}

void ssh_address_failed(struct ssh_address *a, uint64_t now_ns)
{
	forget(a, now_ns);
	a->failures++;
}

uint64_t ssh_address_delay_ns(struct ssh_address *a, uint64_t now_ns)
{
	uint32_t over;

	forget(a, now_ns);
	if (a->failures < SSH_ADDRESS_PATIENCE)
		return 0;
	over = a->failures - SSH_ADDRESS_PATIENCE + 1;
	return (over > 8 ? 8 : over) * NS_PER_SEC;
}
