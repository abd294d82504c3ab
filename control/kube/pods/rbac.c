#include "control/kube/pods/rbac.h"

#include <string.h>

#define AGGREGATES_MAX 4 /* roles of roles of roles */

/* What a binding gives, and by which rule. */
struct gift {
	const char *verb;
	bool everything;
};

static const json_t *metadata(const json_t *o)
{
	return json_object_get(o, "metadata");
}

static bool rbac_has(const json_t *list, const char *s)
{
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v)
	{
		if (json_is_string(v) && strcmp(json_string_value(v), s) == 0)
			return true;
	}
	return false;
}

static bool has_or_all(const json_t *list, const char *s)
{
	return rbac_has(list, "*") || rbac_has(list, s);
}

/* ---- rules */

/* "pods/exec" is meant by itself, by all resources, and by the subresource of all ("*" and "/exec"). */
static bool has_resource(const json_t *list, const char *resource)
{
	const char *sub = strchr(resource, '/');
	const json_t *v;
	size_t i;

	if (has_or_all(list, resource))
		return true;
	json_array_foreach(list, i, v)
	{
		const char *s = json_string_value(v);

		if (sub && s && s[0] == '*' && strcmp(s + 1, sub) == 0)
			return true;
	}
	return false;
}

static bool rbac_has_name(const json_t *rule, const char *name)
{
	const json_t *names = json_object_get(rule, "resourceNames");

	return !name || json_array_size(names) == 0 || rbac_has(names, name);
}

static bool rule_gives(const json_t *rule, const struct rbac_want *w, struct gift *out)
{
	const json_t *verbs = json_object_get(rule, "verbs"), *groups = json_object_get(rule, "apiGroups");
	const json_t *resources = json_object_get(rule, "resources");

	if (!has_or_all(groups, w->group) || !has_resource(resources, w->resource) || !rbac_has_name(rule, w->name))
		return false;
	for (size_t i = 0; w->verbs[i]; i++)
		if (has_or_all(verbs, w->verbs[i])) {
			*out = (struct gift){
			    .verb = w->verbs[i],
			    .everything = rbac_has(verbs, "*") && rbac_has(groups, "*") && rbac_has(resources, "*") &&
					  json_array_size(json_object_get(rule, "resourceNames")) == 0};
			return true;
		}
	return false;
}

/* ---- aggregated roles */

static bool expression_holds(const json_t *expression, const json_t *labels)
{
	const char *operator= json_get_text(expression, "operator");
	const char *value = json_string_value(json_object_get(labels, json_get_text(expression, "key")));
	const json_t *values = json_object_get(expression, "values");

	if (strcmp(operator, "In") == 0)
		return value && rbac_has(values, value);
	if (strcmp(operator, "NotIn") == 0)
		return !value || !rbac_has(values, value);
	if (strcmp(operator, "Exists") == 0)
		return value != NULL;
	return strcmp(operator, "DoesNotExist") == 0 && !value;
}

static bool selector_matches(const json_t *selector, const json_t *labels)
{
	const json_t *v;
	const char *key;
	size_t i;

	json_object_foreach((json_t *)(uintptr_t)json_object_get(selector, "matchLabels"), key, v)
	{
		if (!json_is_string(v) || strcmp(json_get_text(labels, key), json_string_value(v)) != 0 ||
		    !json_object_get(labels, key))
			return false;
	}
	json_array_foreach(json_object_get(selector, "matchExpressions"), i, v)
	{
		if (!expression_holds(v, labels))
			return false;
	}
	return true;
}

static bool is_selected(const json_t *role, const json_t *part)
{
	const json_t *selectors = json_object_get(json_object_get(role, "aggregationRule"), "clusterRoleSelectors"), *v;
	size_t i;

	json_array_foreach(selectors, i, v)
	{
		if (part != role && selector_matches(v, json_object_get(metadata(part), "labels")))
			return true;
	}
	return false;
}

static bool role_gives(const struct rbac *r, const json_t *role, const struct rbac_want *w, int depth,
		       struct gift *out);

static bool parts_give(const struct rbac *r, const json_t *role, const struct rbac_want *w, int depth, struct gift *out)
{
	const json_t *part;
	size_t i;

	if (depth >= AGGREGATES_MAX || !json_object_get(role, "aggregationRule"))
		return false;
	json_array_foreach(r->cluster_roles, i, part)
	{
		if (is_selected(role, part) && role_gives(r, part, w, depth + 1, out))
			return true;
	}
	return false;
}

/* A rule that is everything is told before a lesser one. */
static bool role_gives(const struct rbac *r, const json_t *role, const struct rbac_want *w, int depth, struct gift *out)
{
	const json_t *rule;
	struct gift g;
	bool given = false;
	size_t i;

	json_array_foreach(json_object_get(role, "rules"), i, rule)
	{
		if (rule_gives(rule, w, &g) && (!given || g.everything)) {
			*out = g;
			given = true;
		}
	}
	return given || parts_give(r, role, w, depth, out);
}

/* ---- bindings */

static const json_t *find_role(const struct rbac *r, const char *kind, const char *name, const char *ns)
{
	bool cluster = strcmp(kind, "ClusterRole") == 0;
	const json_t *role;
	size_t i;

	json_array_foreach(cluster ? r->cluster_roles : r->roles, i, role)
	{
		if (strcmp(json_get_text(metadata(role), "name"), name) == 0 &&
		    (cluster || strcmp(json_get_text(metadata(role), "namespace"), ns) == 0))
			return role;
	}
	return NULL;
}

static void tell_subjects(const json_t *binding, struct rbac_grant *g,
			  void (*found)(void *arg, const struct rbac_grant *g), void *arg)
{
	const json_t *subject;
	size_t i;

	json_array_foreach(json_object_get(binding, "subjects"), i, subject)
	{
		g->kind = json_get_text(subject, "kind");
		g->name = json_get_text(subject, "name");
		g->ns = strcmp(g->kind, "ServiceAccount") == 0 ? json_get_text(subject, "namespace") : "";
		found(arg, g);
	}
}

static void look_at(const struct rbac *r, const json_t *binding, const struct rbac_want *w,
		    void (*found)(void *arg, const struct rbac_grant *g), void *arg)
{
	const json_t *ref = json_object_get(binding, "roleRef"), *labels = json_object_get(metadata(binding), "labels");
	struct rbac_grant g = {.binding = json_get_text(metadata(binding), "name"),
			       .binding_ns = json_get_text(metadata(binding), "namespace"),
			       .role_kind = json_get_text(ref, "kind"),
			       .role = json_get_text(ref, "name"),
			       .built_in =
				   strcmp(json_get_text(labels, "kubernetes.io/bootstrapping"), "rbac-defaults") == 0};
	const json_t *role = find_role(r, g.role_kind, g.role, g.binding_ns);
	struct gift gift;

	if (!role || !role_gives(r, role, w, 0, &gift))
		return;
	g.verb = gift.verb;
	g.everything = gift.everything;
	tell_subjects(binding, &g, found, arg);
}

void rbac_who(const struct rbac *r, const struct rbac_want *w, void (*found)(void *arg, const struct rbac_grant *g),
	      void *arg)
{
	const json_t *binding;
	size_t i;

	json_array_foreach(r->cluster_role_bindings, i, binding) look_at(r, binding, w, found, arg);
	json_array_foreach(r->role_bindings, i, binding)
	{
		if (w->ns && strcmp(json_get_text(metadata(binding), "namespace"), w->ns) == 0)
			look_at(r, binding, w, found, arg);
	}
}
