#include "recorder/serve/auth.h"

#include "base/clock.h"
#include "base/err.h"
#include "policy/id_times.h"
#include "policy/time_floor.h"
#include "recorder/chain/digest.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_MAX  64
#define KNOWN_MAX 16

/* A token whose signature was good: who reads on and on shows it with each page. */
struct known {
	uint8_t digest[DIGEST_LEN];
	struct grant grant;
	uint64_t used; /* 0: free */
};

struct auth {
	pthread_mutex_t lock;
	char instance[ID_STR_LEN];
	struct grant_keyset keys;
	struct id_times *revoked;
	struct time_floor floor;
	struct known known[KNOWN_MAX]; /* under the keys as they are */
	uint64_t uses;
};

int auth_create(const char *instance, int64_t floor_ns, struct auth **out)
{
	struct auth *a = calloc(1, sizeof(*a));
	if (!a || id_times_create(&a->revoked)) {
		free(a);
		return ERR_NOMEM;
	}
	pthread_mutex_init(&a->lock, NULL);
	snprintf(a->instance, sizeof(a->instance), "%s", instance);
	time_floor_init(&a->floor, floor_ns, clock_wall_ns(), clock_boot_ns());
	*out = a;
	return 0;
}

void auth_destroy(struct auth *a)
{
	if (!a)
		return;
	id_times_destroy(a->revoked);
	free(a->keys.keys);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

static int parse_key(const json_t *o, struct grant_public_key *out, struct err *e)
{
	const char *kid, *key;
	uint8_t *bytes;
	size_t n;
	int rc = json_need_str(o, "kid", &kid, e);
	if (rc || (rc = json_need_str(o, "key", &key, e)) != 0)
		return rc;
	if (strlen(kid) >= sizeof(out->kid))
		return err_set(e, ERR_INVAL, "grant_keys: a kid is too long");
	if (base64_decode(key, strlen(key), true, &bytes, &n))
		return err_set(e, ERR_INVAL, "grant_keys: a key is not base64url");
	if (n == GRANT_KEY_LEN) {
		memcpy(out->key, bytes, n);
		snprintf(out->kid, sizeof(out->kid), "%s", kid);
	} else {
		rc = err_set(e, ERR_INVAL, "grant_keys: a key has %zu bytes", n);
	}
	free(bytes);
	return rc;
}

int auth_set_keys(struct auth *a, const json_t *keys, struct err *e)
{
	size_t n = json_array_size(keys);
	int rc = 0;

	if (!json_is_array(keys) || n > KEYS_MAX)
		return err_set(e, ERR_INVAL, "grant_keys is no list of at most %d keys", KEYS_MAX);
	struct grant_public_key *list = calloc(n ? n : 1, sizeof(*list));
	if (!list)
		return err_set(e, ERR_NOMEM, "out of memory");
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = parse_key(json_array_get(keys, i), &list[i], e);
	if (rc) {
		free(list);
		return rc;
	}
	pthread_mutex_lock(&a->lock);
	free(a->keys.keys);
	a->keys = (struct grant_keyset){.keys = list, .n = n};
	memset(a->known, 0, sizeof(a->known));
	pthread_mutex_unlock(&a->lock);
	return 0;
}

int auth_revoke(struct auth *a, const json_t *revocation, struct err *e)
{
	const char *text;
	int64_t expires;
	struct id id;
	int rc = json_need_str(revocation, "id", &text, e);
	if (rc == 0)
		rc = json_need_int(revocation, "expires_ns", 0, INT64_MAX, &expires, e);
	if (rc == 0 && id_parse(text, &id))
		rc = err_set(e, ERR_INVAL, "a revocation names no grant");
	if (rc)
		return rc;
	pthread_mutex_lock(&a->lock);
	rc = id_times_add(a->revoked, &id, expires);
	id_times_expire(a->revoked, time_floor_now(&a->floor, clock_wall_ns(), clock_boot_ns()));
	pthread_mutex_unlock(&a->lock);
	return rc ? err_set(e, rc, "a revocation could not be kept") : 0;
}

/* The one of that digest; else the one that was not used for the longest time, which is free then. */
static struct known *known_find(struct auth *a, const uint8_t digest[DIGEST_LEN])
{
	struct known *oldest = &a->known[0];

	for (size_t i = 0; i < KNOWN_MAX; i++) {
		if (a->known[i].used && memcmp(a->known[i].digest, digest, DIGEST_LEN) == 0)
			return &a->known[i];
		if (a->known[i].used < oldest->used)
			oldest = &a->known[i];
	}
	oldest->used = 0;
	return oldest;
}

/* A signature is looked at once; times each time. */
static int verify_once(struct auth *a, const char *token, int64_t now, struct grant *out, struct err *e)
{
	uint8_t digest[DIGEST_LEN];
	struct digest d;
	struct known *k;
	int rc;

	digest_init(&d);
	digest_update(&d, token, strlen(token));
	digest_peek(&d, digest);
	k = known_find(a, digest);
	rc = k->used ? grant_check_times(&k->grant, now, e)
		     : grant_verify(token, strlen(token), &a->keys, a->instance, now, &k->grant, e);
	if (rc == 0) {
		memcpy(k->digest, digest, DIGEST_LEN);
		k->used = ++a->uses;
	}
	*out = k->grant;
	return rc;
}

int auth_verify(struct auth *a, const char *token, struct grant *out, struct err *e)
{
	struct grant g;
	pthread_mutex_lock(&a->lock);
	int64_t now = time_floor_now(&a->floor, clock_wall_ns(), clock_boot_ns());
	int rc = verify_once(a, token, now, &g, e);
	struct grant_line line = rc == 0 ? grant_line(&g) : (struct grant_line){0};
	if (rc == 0 && grant_line_revoked(&line, &(struct grant_news){.revoked = a->revoked}))
		rc = err_set(e, ERR_TOKEN_REVOKED, "the grant was revoked");
	pthread_mutex_unlock(&a->lock);
	if (rc == 0 || rc == ERR_TOKEN_EXPIRED || rc == ERR_TOKEN_NOT_YET || rc == ERR_TOKEN_REVOKED)
		*out = g;
	return rc;
}
