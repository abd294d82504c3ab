#include "control/kube/pods/template.h"

#include "base/err.h"
#include "base/text.h"
#include "base/yamldoc.h"
#include "control/kube/pods/own.h"

#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a file */

static int check_file(const struct yamldoc *doc, const struct template_rules *r, json_t *t, struct err *e)
{
	char at[TEMPLATE_PATH_MAX] = "";
	struct err why = {0};

	if (!template_check_at(t, r, at, &why))
		return 0;
	return yamlnode_fail(yamldoc_at(doc, at), e, "%s", why.message);
}

int template_parse(const char *text, size_t len, const char *file, const struct template_rules *r, json_t **out,
		   struct err *e)
{
	struct yamldoc *doc = NULL;
	json_t *t = NULL;
	int rc;

	if (len > TEMPLATE_TEXT_MAX)
		return err_set(e, ERR_CONFIG, "%s: a pod template has %d bytes at the most", file, TEMPLATE_TEXT_MAX);
	rc = yamldoc_parse(text, len, file, &doc, e);
	if (!rc)
		rc = yamldoc_json(doc, TEMPLATE_NODES_MAX, &t, e);
	if (!rc && json_is_null(t)) {
		json_decref(t);
		t = json_object();
		rc = t ? 0 : err_set(e, ERR_NOMEM, "no memory for %s", file);
	}
	if (!rc)
		rc = check_file(doc, r, t, e);
	yamldoc_destroy(doc);
	if (rc)
		json_decref(t);
	else
		*out = t;
	return rc;
}

/* ---- the merge: over a pod, from which a null takes away; or over another template, in which it stays for that */

static int merge_object(json_t *o, const json_t *patch, const struct template_field *fields, bool nulls);

static json_t *find_by(const json_t *list, const char *key, const json_t *value)
{
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)(uintptr_t)list, i, o)
	{
		if (json_equal(json_object_get(o, key), value))
			return o;
	}
	return NULL;
}

/* A variable has a value or comes from somewhere: the one that is said last takes the other's place. */
static void one_of_two(json_t *there, const json_t *o)
{
	if (json_object_get(o, "value"))
		(void)json_object_del(there, "valueFrom");
	if (json_object_get(o, "valueFrom"))
		(void)json_object_del(there, "value");
}

static int merge_list(json_t *list, const json_t *patch, const struct template_field *f, bool nulls)
{
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)(uintptr_t)patch, i, o)
	{
		json_t *there = find_by(list, f->key, json_object_get(o, f->key));

		if (!there) {
			there = json_object();
			if (json_array_append_new(list, there))
				return ERR_NOMEM;
		}
		if (strcmp(f->name, "env") == 0)
			one_of_two(there, o);
		if (merge_object(there, o, f->fields, nulls))
			return ERR_NOMEM;
	}
	return 0;
}

static int merge_map(json_t *o, const json_t *patch, bool nulls)
{
	const char *key;
	json_t *v;
	int rc = 0;

	json_object_foreach((json_t *)(uintptr_t)patch, key, v)
	{
		if (json_is_null(v) && !nulls)
			(void)json_object_del(o, key);
		else
			rc |= json_object_set(o, key, v);
	}
	return rc ? ERR_NOMEM : 0;
}

/* An absent field becomes an empty one first, so that nulls inside of it are heeded. */
static json_t *container_for(json_t *o, const struct template_field *f)
{
	json_t *there = json_object_get(o, f->name);

	if (there && !json_is_null(there))
		return there;
	there = f->kind == TEMPLATE_LIST ? json_array() : json_object();
	return json_object_set_new(o, f->name, there) ? NULL : there;
}

static int merge_field(json_t *o, const struct template_field *f, const json_t *v, bool nulls)
{
	bool whole = f->kind < TEMPLATE_MAP || (f->kind == TEMPLATE_LIST && !f->key) || json_is_null(v);
	json_t *there;

	if (json_is_null(v) && !nulls) {
		(void)json_object_del(o, f->name);
		return 0;
	}
	if (whole)
		return json_object_set_new(o, f->name, json_deep_copy(v)) ? ERR_NOMEM : 0;
	there = container_for(o, f);
	if (!there)
		return ERR_NOMEM;
	if (f->kind == TEMPLATE_LIST)
		return merge_list(there, v, f, nulls);
	return f->kind == TEMPLATE_OBJECT ? merge_object(there, v, f->fields, nulls) : merge_map(there, v, nulls);
}

static int merge_object(json_t *o, const json_t *patch, const struct template_field *fields, bool nulls)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)patch, key, v)
	{
		const struct template_field *f = template_field_find(fields, key);
		int rc = f ? merge_field(o, f, v, nulls) : ERR_INVAL; /* a checked one has no other */

		if (rc)
			return rc;
	}
	return 0;
}

int template_over(json_t *under, const json_t *over)
{
	return merge_object(under, over, template_root, true);
}

/* Whatever a container that is not ours says of itself, it is confined as ours is. */
static int template_confine(json_t *container)
{
	json_t *security = json_object_get(container, "securityContext"), *ours;
	int rc = 0;

	if (!security) {
		security = json_object();
		rc = json_object_set_new(container, "securityContext", security);
	}
	ours = json_pack("{s:b,s:b,s:{s:[s]}}", "allowPrivilegeEscalation", 0, "privileged", 0, "capabilities", "drop",
			 "ALL");
	if (rc || !ours || json_object_update(security, ours))
		rc = ERR_NOMEM;
	json_decref(ours);
	return rc;
}

static int confine_all(json_t *containers)
{
	size_t i;
	json_t *o;

	json_array_foreach(containers, i, o)
	{
		const char *name = json_string_value(json_object_get(o, "name"));

		if (name && strcmp(name, KUBE_CONTAINER) != 0 && template_confine(o))
			return ERR_NOMEM;
	}
	return 0;
}

int template_apply(const json_t *t, json_t *pod)
{
	json_t *spec = json_object_get(pod, "spec"), *ours = json_incref(json_object_get(spec, "tolerations"));
	json_t *theirs;
	int rc = merge_object(pod, t, template_root, false);

	theirs = json_object_get(spec, "tolerations");
	if (!rc && ours && !theirs)
		rc = json_object_set(spec, "tolerations", ours) ? ERR_NOMEM : 0;
	else if (!rc && ours && theirs != ours)
		rc = json_array_extend(theirs, ours) ? ERR_NOMEM : 0;
	if (!rc)
		rc = confine_all(json_object_get(spec, "containers"));
	json_decref(ours);
	return rc;
}

json_t *template_placement(const json_t *t)
{
	static const char *const keys[] = {"nodeSelector", "tolerations", "affinity", "priorityClassName",
					   "imagePullSecrets"};
	json_t *spec = json_object(), *o, *v;
	int rc = spec ? 0 : ERR_NOMEM;

	for (size_t i = 0; !rc && i < sizeof(keys) / sizeof(keys[0]); i++)
		if ((v = json_object_get(json_object_get(t, "spec"), keys[i])))
			rc = json_object_set(spec, keys[i], v);
	o = rc ? NULL : json_pack("{s:O}", "spec", spec);
	json_decref(spec);
	return o;
}

void template_digest(const json_t *t, char out[TEMPLATE_DIGEST_HEX + 1])
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	char *text = json_object_size(t) ? json_dumps(t, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	unsigned n = 0;

	out[0] = '\0';
	if (text && EVP_Digest(text, strlen(text), digest, &n, EVP_sha256(), NULL))
		for (size_t i = 0; i < TEMPLATE_DIGEST_HEX; i += 2)
			snprintf(out + i, 3, "%02x", digest[i / 2]);
	free(text);
}

/* ---- what the server kept */

/* A server leaves out what says nothing. hostUsers is no such field: false is all that it can say. */
static bool says_nothing(const struct template_field *f, const json_t *v)
{
	if (json_is_null(v))
		return true;
	if (f && f->rule == RULE_FALSE && strcmp(f->name, "hostUsers") == 0)
		return false;
	return json_is_false(v) || (json_is_integer(v) && !json_integer_value(v)) ||
	       (json_is_string(v) && !json_string_length(v)) || (json_is_array(v) && !json_array_size(v)) ||
	       (json_is_object(v) && !json_object_size(v));
}

static bool kept_object(const json_t *o, const json_t *got, const struct template_field *fields,
			char at[TEMPLATE_PATH_MAX]);

/* Of a list that is taken as a whole: does some item of it have all that, word for word? */
static bool has_all(const json_t *want, const json_t *got)
{
	const char *key;
	json_t *v;
	size_t i;

	if (json_is_object(want)) {
		json_object_foreach((json_t *)(uintptr_t)want, key, v)
		{
			if (!says_nothing(NULL, v) && !has_all(v, json_object_get(got, key)))
				return false;
		}
		return true;
	}
	if (!json_is_array(want))
		return json_equal(want, got);
	json_array_foreach((json_t *)(uintptr_t)want, i, v)
	{
		if (!has_all(v, json_array_get(got, i)))
			return false;
	}
	return true;
}

static bool kept_item(const json_t *want, const json_t *got, size_t at_index, const struct template_field *f,
		      char at[TEMPLATE_PATH_MAX])
{
	const json_t *there = NULL;
	size_t i;
	json_t *o;

	if (f->key) {
		there = find_by(got, f->key, json_object_get(want, f->key));
		return there && kept_object(want, there, f->fields, at);
	}
	json_array_foreach((json_t *)(uintptr_t)got, i, o)
	{
		if (has_all(want, o))
			return true;
	}
	there = json_array_get(got, at_index); /* the one that it was, for the field that is missing in it */
	if (there)
		(void)kept_object(want, there, f->fields, at);
	return false;
}

static bool kept_list(const json_t *list, const json_t *got, const struct template_field *f, char at[TEMPLATE_PATH_MAX])
{
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)(uintptr_t)list, i, o)
	{
		char number[24];
		size_t was;

		snprintf(number, sizeof(number), "%zu", i);
		was = template_path_down(at, number);
		if (!kept_item(o, got, i, f, at))
			return false;
		at[was] = '\0';
	}
	return true;
}

static bool kept_map(const json_t *o, const json_t *got, char at[TEMPLATE_PATH_MAX])
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)o, key, v)
	{
		if (json_is_null(v) || json_object_get(got, key))
			continue;
		(void)template_path_down(at, key);
		return false;
	}
	return true;
}

static bool kept_field(const json_t *v, const json_t *got, const struct template_field *f, char at[TEMPLATE_PATH_MAX])
{
	if (!got)
		return false;
	if (f->kind == TEMPLATE_OBJECT)
		return kept_object(v, got, f->fields, at);
	if (f->kind == TEMPLATE_LIST)
		return kept_list(v, got, f, at);
	return f->kind != TEMPLATE_MAP && f->kind != TEMPLATE_QUANTITIES ? true : kept_map(v, got, at);
}

static bool kept_object(const json_t *o, const json_t *got, const struct template_field *fields,
			char at[TEMPLATE_PATH_MAX])
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)o, key, v)
	{
		const struct template_field *f = template_field_find(fields, key);
		size_t was;

		if (!f || says_nothing(f, v))
			continue;
		was = template_path_down(at, key);
		if (!kept_field(v, json_object_get(got, key), f, at))
			return false;
		at[was] = '\0';
	}
	return true;
}

bool template_kept(const json_t *t, const json_t *pod, char at[TEMPLATE_PATH_MAX])
{
	at[0] = '\0';
	return kept_object(t, pod, template_root, at);
}
