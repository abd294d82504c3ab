/* The check of a template: each field by the table, and by what is ours. */
#include "base/err.h"
#include "base/text.h"
#include "control/kube/pods/own.h"
#include "control/kube/pods/template.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct walk {
	const struct template_rules *rules;
	char at[TEMPLATE_PATH_MAX]; /* pointer of what is being looked at */
	bool own;                   /* it is in our container */
	struct err *e;
};

static int template_check_refuse(struct walk *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int template_check_refuse(struct walk *w, const char *fmt, ...)
{
	char why[ERR_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	text_vformat(why, sizeof(why), fmt, ap);
	va_end(ap);
	return err_set(w->e, ERR_INVAL, "%s %s", w->at[0] ? w->at : "the template", why);
}

static size_t down(struct walk *w, const char *key)
{
	return template_path_down(w->at, key);
}

static size_t down_to(struct walk *w, size_t i)
{
	char number[24];

	snprintf(number, sizeof(number), "%zu", i);
	return down(w, number);
}

static void up(struct walk *w, size_t was)
{
	w->at[was] = '\0';
}

/* ---- what is ours */

static bool template_begins(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* An entry that ends in '/', '.' or '-' stands for all names that begin so. */
static bool is_among(const char *name, const char *const *list)
{
	for (; *list; list++) {
		char last = (*list)[strlen(*list) - 1];

		if (strchr("/.-", last) ? template_begins(name, *list) : strcmp(name, *list) == 0)
			return true;
	}
	return false;
}

static const char *const our_labels[] = {"agent_id",  "compute_session_id", "thread-id", "app.kubernetes.io/managed-by",
					 "muxd.dev/", "agents.x-k8s.io/",   NULL};
/* The last ones are words to a runtime, which takes a container's confinement from them. */
static const char *const our_annotations[] = {"muxd.dev/",
					      "agents.x-k8s.io/",
					      "kubectl.kubernetes.io/",
					      "kubernetes.io/",
					      "container.apparmor.security.beta.kubernetes.io/",
					      "container.seccomp.security.alpha.kubernetes.io/",
					      "seccomp.security.alpha.kubernetes.io/",
					      "security.alpha.kubernetes.io/",
					      "io.kubernetes.cri-o.",
					      "io.kubernetes.cri.",
					      "io.containerd.",
					      "io.katacontainers.",
					      "dev.gvisor.",
					      "run.oci.",
					      "cdi.k8s.io/",
					      NULL};
static const char *const our_env[] = {"HOME", "MUXD_SECRET", "MUXLET_SECRET", NULL};

bool template_lists(const char *list, const char *name)
{
	size_t n = strlen(name), len;

	for (; list && *list; list += len + (list[len] == ',')) {
		len = strcspn(list, ",");
		if (len == n && strncmp(list, name, n) == 0)
			return true;
	}
	return false;
}

static int check_listed(struct walk *w, const char *what, const char *key, const char *list, const char *name)
{
	if (*name && template_lists(list, name))
		return 0;
	return template_check_refuse(w, "names %s \"%.60s\", and %s lists %.100s", what, name, key,
				     list && *list ? list : "none");
}

static bool is_in(const char *path, const char *dir)
{
	return template_begins(path, dir) && (!path[strlen(dir)] || path[strlen(dir)] == '/');
}

static int check_mount(struct walk *w, const char *path)
{
	static const char *const always[] = {"/proc", "/sys", NULL}, *const in_ours[] = {KUBE_WORKSPACE,
											 KUBE_MUXLET_DIR, "/dev", NULL};

	if (*path != '/' || !path[1] || strstr(path, "//") || strstr(path, "/./") || strstr(path, "/../") ||
	    path[strlen(path) - 1] == '/' || path[strlen(path) - 1] == '.')
		return template_check_refuse(w, "is \"%.60s\", not a plain absolute path below /", path);
	for (size_t i = 0; always[i]; i++)
		if (is_in(path, always[i]))
			return template_check_refuse(w, "is in %s, which is the runtime's", always[i]);
	for (size_t i = 0; w->own && in_ours[i]; i++)
		if (is_in(path, in_ours[i]) && strcmp(path, "/dev/shm") != 0)
			return template_check_refuse(w, "is in %s, which is muxd's own", in_ours[i]);
	if (w->own && w->rules->muxlet && is_in(w->rules->muxlet, path))
		return template_check_refuse(w, "lies over %.60s, where muxlet is", w->rules->muxlet);
	return 0;
}

static int check_env(struct walk *w, const char *name)
{
	if (!*name)
		return template_check_refuse(w, "is empty");
	if (w->own && (is_among(name, our_env) || template_begins(name, "MUXD_") || template_begins(name, "MUXLET_")))
		return template_check_refuse(w, "is %.40s, which muxd says itself", name);
	if (w->own && template_begins(name, "LD_"))
		return template_check_refuse(w, "is %.40s, which would reach into muxlet", name);
	return 0;
}

static int check_text(struct walk *w, enum template_rule rule, const char *s)
{
	const struct template_rules *r = w->rules;

	switch (rule) {
	case RULE_NOT_EMPTY:
		return *s ? 0 : template_check_refuse(w, "is empty");
	case RULE_VOLUME:
		if (!*s || strcmp(s, KUBE_VOLUME_WORK) == 0 || strcmp(s, KUBE_VOLUME_LET) == 0)
			return template_check_refuse(
			    w, "is \"%s\": a name other than workspace and muxlet is needed, these are muxd's", s);
		return 0;
	case RULE_OWN_NAME:
		return *s && strcmp(s, KUBE_INIT) != 0
			   ? 0
			   : template_check_refuse(w, "is \"%s\", not a name for a container", s);
	case RULE_CONFIG_MAP:
		return check_listed(w, "the configMap", "kubernetes.pod_template_config_maps", r->config_maps, s);
	case RULE_SECRET:
		return check_listed(w, "the secret", "kubernetes.pod_template_secrets", r->secrets, s);
	case RULE_CLAIM:
		return check_listed(w, "the claim", "kubernetes.pod_template_claims", r->claims, s);
	case RULE_MOUNT:
		return check_mount(w, s);
	case RULE_ENV:
		return check_env(w, s);
	default:
		return 0;
	}
}

static bool is_quantity(const char *s)
{
	static const char *const units[] = {"",  "n", "u",  "m",  "k",  "M",  "G",  "T",
					    "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
	size_t n = strspn(s, "0123456789");

	if (s[n] == '.')
		n += 1 + strspn(s + n + 1, "0123456789");
	if (!n || !isdigit((unsigned char)*s) || n > 20)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(s + n, units[i]) == 0)
			return true;
	return false;
}

/* ---- by kind */

static int check_object(struct walk *w, const json_t *o, const struct template_field *fields);

static int check_pair(struct walk *w, const struct template_field *f, const char *key, const json_t *v)
{
	bool quantity = f->kind == TEMPLATE_QUANTITIES;
	const char *s = json_string_value(v);

	if (!*key)
		return template_check_refuse(w, "has no name");
	if (f->rule == RULE_LABELS && is_among(key, our_labels))
		return template_check_refuse(w, "is a label that is muxd's own");
	if (f->rule == RULE_ANNOTATIONS && is_among(key, our_annotations))
		return template_check_refuse(
		    w, "is an annotation that a template may not set: muxd, the cluster or the container's "
		       "runtime goes by it");
	if (json_is_null(v))
		return quantity && !strchr(key, '/')
			   ? template_check_refuse(w, "is null: what muxd asks for can be changed, not taken "
						      "away")
			   : 0;
	if (quantity && json_is_integer(v))
		return json_integer_value(v) >= 0 ? 0 : template_check_refuse(w, "is negative");
	if (!s)
		return template_check_refuse(w, "is not text; put it in quotes");
	return !quantity || is_quantity(s) ? 0
					   : template_check_refuse(w, "is \"%.40s\", not a quantity as 500m or 2Gi", s);
}

static int check_map(struct walk *w, const struct template_field *f, const json_t *o)
{
	const char *key;
	json_t *v;
	int rc = 0;

	if (!json_is_object(o))
		return template_check_refuse(w, "is not a mapping of names to texts");
	json_object_foreach((json_t *)(uintptr_t)o, key, v)
	{
		size_t was = down(w, key);

		rc = check_pair(w, f, key, v);
		if (rc)
			return rc;
		up(w, was);
	}
	return 0;
}

static int check_texts(struct walk *w, const json_t *list)
{
	size_t i;
	json_t *v;

	if (!json_is_array(list))
		return template_check_refuse(w, "is not a list");
	json_array_foreach((json_t *)(uintptr_t)list, i, v)
	{
		size_t was = down_to(w, i);

		if (!json_is_string(v))
			return template_check_refuse(w, "is not text; put it in quotes");
		up(w, was);
	}
	return 0;
}

/* An item of a merged list is nothing without its key, and stands in it once. */
static int template_check_check_key(struct walk *w, const struct template_field *f, const json_t *list, size_t i)
{
	const json_t *key = json_object_get(json_array_get(list, i), f->key);

	if (!key || json_is_null(key))
		return template_check_refuse(w, "has no %s, by which the list is merged", f->key);
	for (size_t k = 0; k < i; k++)
		if (json_equal(json_object_get(json_array_get(list, k), f->key), key))
			return template_check_refuse(w, "has the %s of an earlier one", f->key);
	return 0;
}

static bool is_own(const json_t *o)
{
	const char *name = json_string_value(json_object_get(o, "name"));

	return name && strcmp(name, KUBE_CONTAINER) == 0;
}

/* Others may look into the workspace; nobody mounts what brings muxlet, or ours a second time. */
static int check_mounted(struct walk *w, const json_t *mount)
{
	const char *name = json_string_value(json_object_get(mount, "name"));
	bool work = name && strcmp(name, KUBE_VOLUME_WORK) == 0;

	if (!name || (!work && strcmp(name, KUBE_VOLUME_LET) != 0))
		return 0;
	if (work && !w->own && json_is_true(json_object_get(mount, "readOnly")))
		return 0;
	return template_check_refuse(w, "mounts the volume %s, which is muxd's own%s", name,
				     work ? ": an additional container may do so with readOnly: true" : "");
}

static int check_volume(struct walk *w, const json_t *o)
{
	size_t n = 0;

	for (const struct template_field *f = template_volume_sources; f->name; f++)
		n += json_object_get(o, f->name) != NULL;
	return n == 1 ? 0
		      : template_check_refuse(
			    w, "needs one of emptyDir, configMap, secret, persistentVolumeClaim and ephemeral");
}

static int check_item(struct walk *w, const struct template_field *f, const json_t *o)
{
	bool containers = strcmp(f->name, "containers") == 0, was = w->own;
	int rc;

	if (containers)
		w->own = is_own(o);
	rc = check_object(w, o, containers && w->own ? template_own_fields : f->fields);
	if (!rc && containers && !w->own && !json_object_get(o, "image"))
		rc = template_check_refuse(w, "has no image, which a container besides %s needs", KUBE_CONTAINER);
	if (!rc && strcmp(f->name, "volumeMounts") == 0)
		rc = check_mounted(w, o);
	if (!rc && strcmp(f->name, "volumes") == 0)
		rc = check_volume(w, o);
	w->own = was;
	return rc;
}

static int check_list(struct walk *w, const struct template_field *f, const json_t *list)
{
	size_t i;
	json_t *o;

	if (!json_is_array(list))
		return template_check_refuse(w, "is not a list");
	json_array_foreach((json_t *)(uintptr_t)list, i, o)
	{
		size_t was = down_to(w, i);
		int rc = check_item(w, f, o);

		if (!rc && f->key)
			rc = template_check_check_key(w, f, list, i);
		if (rc)
			return rc;
		up(w, was);
	}
	return 0;
}

static int check_number(struct walk *w, const struct template_field *f, const json_t *v)
{
	if (!json_is_integer(v) && !(f->kind == TEMPLATE_PORT && json_is_string(v)))
		return template_check_refuse(w, "is not a number");
	if (f->rule == RULE_UID && json_integer_value(v) < 1)
		return template_check_refuse(w, "is not above 0: no container of a sandbox runs as root");
	return 0;
}

static int check_bool(struct walk *w, const struct template_field *f, const json_t *v)
{
	if (!json_is_boolean(v))
		return template_check_refuse(w, "is neither true nor false");
	if ((f->rule == RULE_FALSE && json_is_true(v)) || (f->rule == RULE_TRUE && json_is_false(v)))
		return template_check_refuse(w, "may only be %s: what confines a sandbox is not taken away",
					     f->rule == RULE_TRUE ? "true" : "false");
	return 0;
}

static int check_value(struct walk *w, const struct template_field *f, const json_t *v)
{
	if (json_is_null(v))
		return f->takes_null
			   ? 0
			   : template_check_refuse(w, "is null, which may take away only what is not muxd's own");
	switch (f->kind) {
	case TEMPLATE_TEXT:
		if (!json_is_string(v))
			return template_check_refuse(w, "is not text; put it in quotes");
		return check_text(w, f->rule, json_string_value(v));
	case TEMPLATE_NUMBER:
	case TEMPLATE_PORT:
		return check_number(w, f, v);
	case TEMPLATE_BOOL:
		return check_bool(w, f, v);
	case TEMPLATE_TEXTS:
		return check_texts(w, v);
	case TEMPLATE_MAP:
	case TEMPLATE_QUANTITIES:
		return check_map(w, f, v);
	case TEMPLATE_LIST:
		return check_list(w, f, v);
	default:
		return check_object(w, v, f->fields);
	}
}

static int refuse_unknown(struct walk *w, const struct template_field *fields)
{
	char list[300] = "";
	size_t n = 0;

	for (; fields->name; fields++) {
		text_format(list + n, sizeof(list) - n, "%s%s", n ? ", " : "", fields->name);
		n = strlen(list);
	}
	return template_check_refuse(w, "is not for a template; allowed here: %s", list);
}

static int check_object(struct walk *w, const json_t *o, const struct template_field *fields)
{
	const char *key;
	json_t *v;

	if (!json_is_object(o))
		return template_check_refuse(w, "is not an object");
	json_object_foreach((json_t *)(uintptr_t)o, key, v)
	{
		const struct template_field *f = template_field_find(fields, key);
		size_t was = down(w, key);
		int rc = f ? check_value(w, f, v) : refuse_unknown(w, fields);

		if (rc)
			return rc;
		up(w, was);
	}
	return 0;
}

int template_check_at(const json_t *t, const struct template_rules *r, char at[TEMPLATE_PATH_MAX], struct err *e)
{
	struct walk w = {.rules = r, .e = e};
	int rc = check_object(&w, t, template_root);

	text_put(at, TEMPLATE_PATH_MAX, w.at);
	return rc;
}

int template_check(const json_t *t, const struct template_rules *r, struct err *e)
{
	char at[TEMPLATE_PATH_MAX];

	return template_check_at(t, r, at, e);
}
