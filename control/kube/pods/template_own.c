#include "control/kube/pods/template_own.h"

#include "base/err.h"
#include "base/text.h"
#include "control/kube/pods/own.h"

#include <stdio.h>
#include <string.h>

/* "/spec/volumes/3" and why. */
static int template_own_refuse(struct err *e, const char *in, const char *key, const char *why)
{
	char at[TEMPLATE_PATH_MAX];

	text_put(at, sizeof(at), in);
	if (key)
		(void)template_path_down(at, key);
	return err_set(e, ERR_INVAL, "%s %s", at, why);
}

static int refuse_item(struct err *e, const char *in, size_t i, const char *why)
{
	char number[24];

	snprintf(number, sizeof(number), "%zu", i);
	return template_own_refuse(e, in, number, why);
}

static const char *template_own_name_of(const json_t *o)
{
	const char *name = json_string_value(json_object_get(o, "name"));

	return name ? name : "";
}

static bool template_own_has_name(const json_t *list, const char *name)
{
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)(uintptr_t)list, i, o)
	{
		if (strcmp(template_own_name_of(o), name) == 0)
			return true;
	}
	return false;
}

static const json_t *in_spec(const json_t *t, const char *key)
{
	return json_object_get(json_object_get(t, "spec"), key);
}

static const json_t *in_metadata(const json_t *t, const char *key)
{
	return json_object_get(json_object_get(t, "metadata"), key);
}

/* ---- what the configured one says stays */

static int check_map(const json_t *configured, const json_t *own, const char *key, struct err *e)
{
	const json_t *said = in_metadata(configured, key);
	const char *name;
	json_t *v;
	char at[40];

	text_format(at, sizeof(at), "/metadata/%s", key);
	json_object_foreach((json_t *)(uintptr_t)in_metadata(own, key), name, v)
	{
		if (json_object_get(said, name) && !json_equal(json_object_get(said, name), v))
			return template_own_refuse(e, at, name,
						   "is set by kubernetes.pod_template, and stays as it is there");
	}
	return 0;
}

static int check_items(const json_t *configured, const json_t *own, const char *key, struct err *e)
{
	size_t i;
	json_t *o;
	char at[40];

	text_format(at, sizeof(at), "/spec/%s", key);
	json_array_foreach((json_t *)(uintptr_t)in_spec(own, key), i, o)
	{
		if (strcmp(template_own_name_of(o), KUBE_CONTAINER) != 0 &&
		    template_own_has_name(in_spec(configured, key), template_own_name_of(o)))
			return refuse_item(e, at, i,
					   "is named like one of kubernetes.pod_template, which stays as it is");
	}
	return 0;
}

/* ---- what has to be listed */

static int check_priority(const json_t *configured, const json_t *own, const struct template_rules *r, struct err *e)
{
	static const char at[] = "/spec/priorityClassName";
	const json_t *v = in_spec(own, "priorityClassName"), *said = in_spec(configured, "priorityClassName");

	if (!v || (said && json_equal(said, v)) || (json_is_null(v) && !said))
		return 0;
	if (json_is_null(v))
		return template_own_refuse(e, at, NULL, "is null, and kubernetes.pod_template sets one");
	if (template_lists(r->priority_classes, json_string_value(v)))
		return 0;
	return template_own_refuse(e, at, NULL, "is not in kubernetes.pod_template_priority_classes");
}

static int check_pull_secrets(const json_t *configured, const json_t *own, const struct template_rules *r,
			      struct err *e)
{
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)(uintptr_t)in_spec(own, "imagePullSecrets"), i, o)
	{
		if (!template_lists(r->secrets, template_own_name_of(o)) &&
		    !template_own_has_name(in_spec(configured, "imagePullSecrets"), template_own_name_of(o)))
			return refuse_item(e, "/spec/imagePullSecrets", i, "is not in kubernetes.pod_template_secrets");
	}
	return 0;
}

static int check_own(const json_t *configured, const json_t *own, const struct template_rules *r, struct err *e)
{
	int rc = template_check(own, r, e);

	if (!rc)
		rc = check_map(configured, own, "labels", e);
	if (!rc)
		rc = check_map(configured, own, "annotations", e);
	if (!rc)
		rc = check_items(configured, own, "containers", e);
	if (!rc)
		rc = check_items(configured, own, "volumes", e);
	if (!rc)
		rc = check_priority(configured, own, r, e);
	return rc ? rc : check_pull_secrets(configured, own, r, e);
}

/* Both were checked: what they come to is, too. */
static int merge(const json_t *configured, const json_t *own, const struct template_rules *r, json_t **out,
		 struct err *e)
{
	json_t *t = configured ? json_deep_copy(configured) : json_object();
	struct err why = {0};
	int rc = t ? template_over(t, own) : ERR_NOMEM;

	if (rc)
		err_set(e, rc, "no memory for a pod template");
	else if ((rc = template_check(t, r, &why)))
		err_set(e, rc, "over kubernetes.pod_template: %.350s", why.message);
	if (rc)
		json_decref(t);
	else
		*out = t;
	return rc;
}

int template_own_merge(const json_t *configured, const char *own, const struct template_rules *r, json_t **out,
		       struct err *e)
{
	size_t len = own ? strlen(own) : 0;
	json_t *t = NULL;
	int rc;

	if (!len) {
		*out = json_incref((json_t *)(uintptr_t)configured);
		return 0;
	}
	if (len > TEMPLATE_OWN_MAX)
		return err_set(e, ERR_TOO_LARGE, "a pod template of an agent's own has %d bytes at the most",
			       TEMPLATE_OWN_MAX);
	rc = json_parse(own, len, TEMPLATE_OWN_MAX, &t, e);
	if (!rc)
		rc = check_own(configured, t, r, e);
	if (!rc)
		rc = merge(configured, t, r, out, e);
	json_decref(t);
	return rc;
}
