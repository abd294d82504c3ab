#include "policy/profile_keys.h"

#include "base/conf_table.h"
#include "base/err.h"

#include <string.h>

static int profile_check_key(struct yamlnode k, const char *what, const char *known, const struct profile_later *later,
			     struct err *e)
{
	const char *key = yamlnode_text(k), *near;
	size_t len = 0;

	for (const struct profile_later *l = later; key && l && l->key; l++)
		if (strcmp(l->key, key) == 0)
			return yamlnode_fail(k, e, "%s of %s %s", key, what, l->why);
	near = conf_choice_nearest(known, key ? key : "", &len);
	if (near && key && strlen(key) == len && memcmp(key, near, len) == 0)
		return 0;
	if (near)
		return yamlnode_fail(k, e, "unknown key \"%.64s\" in %s, did you mean %.*s?", key, what, (int)len,
				     near);
	return yamlnode_fail(k, e, "unknown key \"%.64s\" in %s, known are: %s", key ? key : "", what, known);
}

int profile_check_keys(struct yamlnode map, const char *what, const char *known, const struct profile_later *later,
		       struct err *e)
{
	int rc = 0;

	if (yamlnode_form(map) != YAMLNODE_MAP)
		return yamlnode_fail(map, e, "%s is not a mapping of keys to values", what);
	for (size_t i = 0; rc == 0 && i < yamlnode_count(map); i++) {
		struct yamlnode k, v;

		rc = yamlnode_pair(map, what, i, &k, &v, e);
		if (rc == 0)
			rc = profile_check_key(k, what, known, later, e);
	}
	return rc;
}
