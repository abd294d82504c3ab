#include "recorder/serve/auth.h"

#include "base/clock.h"
#include "base/err.h"
#include "policy/grant_known.h"
#include "policy/id_times.h"
#include "policy/time_floor.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct auth {
	pthread_mutex_t lock;
	char instance[ID_STR_LEN], centre[ID_STR_LEN]; /* centre "": this daemon is no edge */
	int64_t lease_max_ns, state_max_ns, heard_ns;
	struct grant_keyset keys;
	struct id_times *revoked;
	struct time_floor floor;
	struct grants_known known;
};

int auth_create(const char *instance, const char *centre, int64_t floor_ns, struct auth **out)
{
	struct auth *a = calloc(1, sizeof(*a));
	if (!a || id_times_create(&a->revoked)) {
		free(a);
		return ERR_NOMEM;
	}
	pthread_mutex_init(&a->lock, NULL);
	snprintf(a->instance, sizeof(a->instance), "%s", instance);
	snprintf(a->centre, sizeof(a->centre), "%s", centre);
	time_floor_init(&a->floor, floor_ns, clock_wall_ns(), clock_boot_ns());
	*out = a;
	return 0;
}

void auth_destroy(struct auth *a)
{
	if (!a)
		return;
	id_times_destroy(a->revoked);
	grants_known_finish(&a->known);
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

	if (!json_is_array(keys) || n > GRANT_KEYS_MAX)
		return err_set(e, ERR_INVAL, "grant_keys is no list of at most %d keys", GRANT_KEYS_MAX);
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
	pthread_mutex_unlock(&a->lock);
	return 0;
}

void auth_set_edge(struct auth *a, int64_t lease_max_ns, int64_t state_max_ns)
{
	pthread_mutex_lock(&a->lock);
	a->lease_max_ns = lease_max_ns;
	a->state_max_ns = state_max_ns;
	pthread_mutex_unlock(&a->lock);
}

int auth_set_edge_state(struct auth *a, const json_t *state, struct err *e)
{
	int64_t at = 0;
	int rc = json_need_int(state, "at_ns", 0, INT64_MAX / 2, &at, e);

	if (rc)
		return rc;
	pthread_mutex_lock(&a->lock);
	a->heard_ns = at;
	time_floor_raise(&a->floor, at, clock_boot_ns());
	pthread_mutex_unlock(&a->lock);
	return 0;
}

/* Under the lock. */
static struct grant_trust trust_of(const struct auth *a)
{
	bool edge = a->centre[0];

	return (struct grant_trust){.keys = &a->keys,
				    .issuer = edge ? a->centre : a->instance,
				    .edge = edge ? a->instance : NULL,
				    .lease_max_ns = a->lease_max_ns};
}

static struct grant_news news_of(const struct auth *a)
{
	int64_t until = a->heard_ns ? a->heard_ns + a->state_max_ns : 1;

	return (struct grant_news){.revoked = a->revoked, .known_until_ns = a->centre[0] ? until : 0};
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

int auth_verify(struct auth *a, const char *token, struct grant *out, struct err *e)
{
	struct grant g;
	pthread_mutex_lock(&a->lock);
	int64_t now = time_floor_now(&a->floor, clock_wall_ns(), clock_boot_ns());
	struct grant_trust trust = trust_of(a);
	struct grant_news news = news_of(a);
	int rc = grants_known_verify(&a->known, token, strlen(token), &trust, now, &g, e);
	struct grant_line line = rc == 0 ? grant_line(&g) : (struct grant_line){0};
	if (rc == 0 && grant_line_revoked(&line, &news))
		rc = err_set(e, ERR_TOKEN_REVOKED, "the grant was revoked");
	if (rc == 0)
		rc = grant_news_check(&news, now, e);
	pthread_mutex_unlock(&a->lock);
	if (rc == 0 || rc == ERR_TOKEN_EXPIRED || rc == ERR_TOKEN_NOT_YET || rc == ERR_TOKEN_REVOKED)
		*out = g;
	return rc;
}
