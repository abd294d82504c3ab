#include "control/kube/client/known.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct known_entry {
	UT_hash_handle hh;
	char *uid, *version;
	uint64_t list; /* last seen in */
	char key[];    /* "namespace/name" */
};

static const char *meta(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(json_object_get(o, "metadata"), key));

	return s ? s : "";
}

static char *known_key_of(const json_t *o)
{
	const char *name = meta(o, "name");
	char *key = NULL;

	if (!*name || asprintf(&key, "%s/%s", meta(o, "namespace"), name) < 0)
		return NULL;
	return key;
}

static struct known_entry *known_find(const struct known *k, const char *key)
{
	struct known_entry *found = NULL;

	HASH_FIND_STR(k->table, key, found);
	return found;
}

static void entry_free(struct known_entry *en)
{
	if (!en)
		return;
	free(en->uid);
	free(en->version);
	free(en);
}

static struct known_entry *entry_create(const char *key, const json_t *o)
{
	size_t size = strlen(key) + 1;
	struct known_entry *en = calloc(1, sizeof(*en) + size);

	if (!en)
		return NULL;
	memcpy(en->key, key, size);
	en->uid = strdup(meta(o, "uid"));
	en->version = strdup(meta(o, "resourceVersion"));
	if (en->uid && en->version)
		return en;
	entry_free(en);
	return NULL;
}

static json_t *remains(const struct known_entry *en)
{
	const char *slash = strchr(en->key, '/');
	json_t *m = json_pack("{s:s, s:s, s:s}", "name", slash + 1, "uid", en->uid, "resourceVersion", en->version);

	if (slash != en->key)
		json_object_set_new(m, "namespace", json_stringn(en->key, (size_t)(slash - en->key)));
	return json_pack("{s:o}", "metadata", m);
}

static void unlink_entry(struct known *k, struct known_entry *en)
{
	HASH_DEL(k->table, en);
	entry_free(en);
}

/* Another version of what is known already. */
static int refresh(struct known_entry *en, const json_t *o, enum known_change *out, json_t **out_old)
{
	const char *version = meta(o, "resourceVersion");
	enum known_change change = KNOWN_MODIFIED;

	if (strcmp(en->uid, meta(o, "uid")) != 0)
		change = KNOWN_REPLACED;
	else if (strcmp(en->version, version) == 0)
		change = KNOWN_SAME;
	if (change != KNOWN_SAME) {
		char *uid = strdup(meta(o, "uid")), *v = strdup(version);
		json_t *old = change == KNOWN_REPLACED ? remains(en) : NULL;
		if (!uid || !v || (change == KNOWN_REPLACED && !old)) {
			free(uid);
			free(v);
			json_decref(old);
			return ERR_NOMEM;
		}
		free(en->uid);
		free(en->version);
		en->uid = uid;
		en->version = v;
		*out_old = old;
	}
	*out = change;
	return 0;
}

static int known_add(struct known *k, const char *key, const json_t *o)
{
	struct known_entry *en = entry_create(key, o);

	if (!en)
		return ERR_NOMEM;
	HASH_ADD_STR(k->table, key, en);
	if (!en->hh.tbl) {
		entry_free(en);
		return ERR_NOMEM;
	}
	en->list = k->list;
	return 0;
}

int known_update(struct known *k, const json_t *o, enum known_change *out, json_t **out_old)
{
	char *key = known_key_of(o);
	int rc = 0;

	*out_old = NULL;
	if (!key || !*meta(o, "uid")) {
		free(key);
		return ERR_PROTOCOL;
	}
	struct known_entry *en = known_find(k, key);
	if (en) {
		rc = refresh(en, o, out, out_old);
		en->list = k->list;
	} else {
		rc = known_add(k, key, o);
		*out = KNOWN_ADDED;
	}
	free(key);
	return rc;
}

int known_remove(struct known *k, const json_t *o)
{
	char *key = known_key_of(o);
	struct known_entry *en = key ? known_find(k, key) : NULL;
	int known = en && strcmp(en->uid, meta(o, "uid")) == 0;

	if (known)
		unlink_entry(k, en);
	free(key);
	return known;
}

json_t *known_sweep(struct known *k)
{
	for (struct known_entry *en = k->table; en; en = en->hh.next) {
		if (en->list == k->list)
			continue;
		json_t *o = remains(en);
		if (o)
			unlink_entry(k, en);
		return o;
	}
	return NULL;
}

size_t known_count(const struct known *k)
{
	return HASH_COUNT(k->table);
}

void known_finish(struct known *k)
{
	struct known_entry *en, *next;

	HASH_ITER(hh, k->table, en, next)
	{
		unlink_entry(k, en);
	}
}
