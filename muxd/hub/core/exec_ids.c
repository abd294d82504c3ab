#include "muxd/hub/core/exec_ids.h"

#include "base/err.h"
#include "base/text.h"
#include "policy/grant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <uthash.h>

#define EXPIRE_AT_ONCE 4096
#define KEY_MAX        (AGENT_NAME_MAX + 2 * GRANT_NAME_MAX + 8)

struct exec_key {
	UT_hash_handle hh;         /* by key */
	UT_hash_handle hh_session; /* by use.session */
	TAILQ_ENTRY(exec_key) order, of_owner;
	struct owner *owner;
	struct exec_use use;
	uint64_t boot_ns;
	char key[]; /* agent, principal and exec_id, a line each */
};
TAILQ_HEAD(key_list, exec_key);

/* An agent that has some. */
struct owner {
	UT_hash_handle hh;
	struct key_list keys; /* oldest first */
	unsigned count;
	char agent[];
};

struct exec_ids {
	struct exec_key *by_key, *by_session;
	struct owner *owners;
	struct key_list order; /* oldest first */
	exec_ids_live *live;
	void *arg;
};

struct exec_ids *exec_ids_create(exec_ids_live *live, void *arg)
{
	struct exec_ids *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	TAILQ_INIT(&x->order);
	x->live = live;
	x->arg = arg;
	return x;
}

static void exec_ids_forget(struct exec_ids *x, struct exec_key *k)
{
	struct owner *o = k->owner;

	HASH_DEL(x->by_key, k);
	HASH_DELETE(hh_session, x->by_session, k); /* NOLINT(clang-analyzer-core.NullDereference): k is in it */
	TAILQ_REMOVE(&x->order, k, order);
	TAILQ_REMOVE(&o->keys, k, of_owner);
	free(k);
	if (--o->count)
		return;
	HASH_DEL(x->owners, o);
	free(o);
}

void exec_ids_destroy(struct exec_ids *x)
{
	struct exec_key *k;

	if (!x)
		return;
	while ((k = TAILQ_FIRST(&x->order)))
		exec_ids_forget(x, k);
	free(x);
}

void exec_ids_forget_session(struct exec_ids *x, const struct id *session)
{
	struct exec_key *k = NULL;

	HASH_FIND(hh_session, x->by_session, session, sizeof(*session), k);
	if (k)
		exec_ids_forget(x, k);
}

static int make_key(char *out, size_t size, const char *agent, const char *principal, const char *exec_id)
{
	int n = snprintf(out, size, "%s\n%s\n%s", agent, principal, exec_id);

	return n > 0 && (size_t)n < size ? n : ERR_TOO_LARGE;
}

static struct exec_key *hub_exec_ids_find(struct exec_ids *x, const char *key, int n)
{
	struct exec_key *k = NULL;

	if (n > 0)
		HASH_FIND(hh, x->by_key, key, (unsigned)n, k);
	return k;
}

const struct exec_use *exec_ids_find(struct exec_ids *x, const char *agent, int64_t life, const char *principal,
				     const char *exec_id)
{
	char key[KEY_MAX];
	struct exec_key *k = hub_exec_ids_find(x, key, make_key(key, sizeof(key), agent, principal, exec_id));

	if (k && life >= 0 && k->use.life > 0 && k->use.life != life) {
		exec_ids_forget(x, k);
		k = NULL;
	}
	return k ? &k->use : NULL;
}

bool exec_ids_has_session(struct exec_ids *x, const struct id *session, const char *principal)
{
	size_t n = strlen(principal);
	struct exec_key *k = NULL;
	const char *p;

	HASH_FIND(hh_session, x->by_session, session, sizeof(*session), k);
	p = k ? strchr(k->key, '\n') : NULL;
	return p && strncmp(p + 1, principal, n) == 0 && p[1 + n] == '\n';
}

static struct owner *owner_get(struct exec_ids *x, const char *agent)
{
	struct owner *o = NULL;

	HASH_FIND_STR(x->owners, agent, o);
	if (o || !(o = calloc(1, sizeof(*o) + strlen(agent) + 1)))
		return o;
	strcpy(o->agent, agent);
	TAILQ_INIT(&o->keys);
	HASH_ADD_STR(x->owners, agent, o);
	return o;
}

/* A round that runs is as good as one that begins now. */
static void renew(struct exec_ids *x, struct exec_key *k, uint64_t now)
{
	TAILQ_REMOVE(&x->order, k, order);
	TAILQ_INSERT_TAIL(&x->order, k, order);
	TAILQ_REMOVE(&k->owner->keys, k, of_owner);
	TAILQ_INSERT_TAIL(&k->owner->keys, k, of_owner);
	k->boot_ns = now;
}

/* The oldest of the agent, or of all, whose round has ended. What is passed by on the way goes to the end, so that
 * it is not looked at again soon. */
static void forget_oldest(struct exec_ids *x, struct owner *o)
{
	uint64_t now = clock_boot_ns();

	for (unsigned tries = o ? o->count : HASH_COUNT(x->by_key); tries; tries--) {
		struct exec_key *k = o ? TAILQ_FIRST(&o->keys) : TAILQ_FIRST(&x->order);

		if (!x->live(x->arg, &k->use.session)) {
			exec_ids_forget(x, k);
			return;
		}
		renew(x, k, now);
	}
}

static void use_set(struct exec_ids *x, struct exec_key *k, const struct exec_use *use)
{
	k->use = *use;
	HASH_ADD(hh_session, x->by_session, use.session, sizeof(k->use.session), k);
}

/* The record tells what is known already whenever the recorder comes again. */
static int add_again(struct exec_ids *x, struct exec_key *k, const struct exec_use *use)
{
	if (memcmp(use->session.b, k->use.session.b, sizeof(use->session.b)) <= 0)
		return 0;
	HASH_DELETE(hh_session, x->by_session, k);
	use_set(x, k, use);
	renew(x, k, clock_boot_ns());
	return 0;
}

static void add_new(struct exec_ids *x, struct owner *o, struct exec_key *k, int n)
{
	k->owner = o;
	k->boot_ns = clock_boot_ns();
	HASH_ADD_KEYPTR(hh, x->by_key, k->key, (unsigned)n, k);
	TAILQ_INSERT_TAIL(&x->order, k, order);
	TAILQ_INSERT_TAIL(&o->keys, k, of_owner);
	o->count++;
}

int exec_ids_add(struct exec_ids *x, const char *agent, const char *principal, const char *exec_id,
		 const struct exec_use *use)
{
	char key[KEY_MAX];
	int n = make_key(key, sizeof(key), agent, principal, exec_id);
	struct exec_key *k = hub_exec_ids_find(x, key, n);
	struct owner *o;

	if (n < 0)
		return n;
	if (k)
		return add_again(x, k, use);
	k = calloc(1, sizeof(*k) + (size_t)n + 1);
	o = k ? owner_get(x, agent) : NULL;
	if (!o) {
		free(k);
		return ERR_NOMEM;
	}
	memcpy(k->key, key, (size_t)n + 1);
	add_new(x, o, k, n);
	use_set(x, k, use);
	if (o->count > EXEC_IDS_PER_AGENT)
		forget_oldest(x, o);
	if (HASH_COUNT(x->by_key) > EXEC_IDS_MAX)
		forget_oldest(x, NULL);
	return 0;
}

void exec_ids_expire(struct exec_ids *x, uint64_t now)
{
	struct exec_key *k;

	for (unsigned i = 0; i < EXPIRE_AT_ONCE && (k = TAILQ_FIRST(&x->order)); i++) {
		if (now < k->boot_ns || now - k->boot_ns < EXEC_IDS_KEPT_NS)
			return;
		if (x->live(x->arg, &k->use.session))
			renew(x, k, now);
		else
			exec_ids_forget(x, k);
	}
}

unsigned exec_ids_count(const struct exec_ids *x)
{
	return HASH_COUNT(x->by_key);
}
