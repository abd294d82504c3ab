/* Images and resources that sandboxes of a profile's tasks may have: from its YAML, and against the configuration. */
#include "policy/profile_shape.h"

#include "base/conf.h"
#include "base/conf_table.h"
#include "base/err.h"
#include "base/text.h"
#include "policy/profile_keys.h"

#include <stdlib.h>
#include <string.h>

#define IMAGES_MAX 64
#define NONE       "none" /* a sandbox without an image */

void profile_shape_finish(struct policy_profile *p)
{
	for (size_t i = 0; i < p->images.n; i++)
		free(p->images.list[i].name);
	free(p->images.list);
}

/* ---- image */

static const char *profile_shape_find(const struct policy_images *m, const char *name)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->list[i].name && strcmp(m->list[i].name, name) == 0)
			return m->list[i].name;
	return m->none && strcmp(name, NONE) == 0 ? "" : NULL;
}

static int profile_shape_add(struct policy_images *m, struct yamlnode at, struct err *e)
{
	const char *name = yamlnode_text(at);
	struct policy_image *x = &m->list[m->n];
	struct err why = {0};

	if (!name)
		return yamlnode_fail(at, e, "image has an entry that is no name: none is a sandbox without an image");
	if (conf_check_image_name(name, &why))
		return yamlnode_fail(at, e, "\"%.64s\" of image %s", name, why.message);
	if (profile_shape_find(m, name))
		return yamlnode_fail(at, e, "%.64s stands twice in image", name);
	if (strcmp(name, NONE) == 0) {
		m->none = true;
		return 0;
	}
	*x = (struct policy_image){strdup(name), yamlnode_line(at), yamlnode_column(at)};
	if (!x->name)
		return err_set(e, ERR_NOMEM, "no memory for the policy");
	m->n++;
	return 0;
}

/* One name, or a list of them. */
static int take_image_names(struct policy_profile *p, struct yamlnode v, struct err *e)
{
	bool one = yamlnode_form(v) == YAMLNODE_TEXT;
	struct policy_images *m = &p->images;
	size_t n = one ? 1 : yamlnode_count(v);
	int rc = 0;

	if (!one && yamlnode_form(v) != YAMLNODE_LIST)
		return yamlnode_fail(v, e, "image of profile \"%s\" is neither a name nor a list of names", p->name);
	if (n == 0)
		return yamlnode_fail(v, e,
				     "image of profile \"%s\" is empty, which is no sandbox at all: none is one "
				     "without an image, and without the key every image is allowed",
				     p->name);
	if (n > IMAGES_MAX)
		return yamlnode_fail(v, e, "image of profile \"%s\" has %zu entries, %d are allowed", p->name, n,
				     IMAGES_MAX);
	m->list = calloc(n, sizeof(*m->list));
	if (!m->list)
		return err_set(e, ERR_NOMEM, "no memory for the policy");
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = profile_shape_add(m, one ? v : yamlnode_item(v, i), e);
	m->limited = true;
	if (m->n + m->none == 1)
		m->preset = m->n ? m->list[0].name : "";
	return rc;
}

/* Without `allow` any image is allowed, and the default alone is kept. */
static int take_image_default(struct policy_profile *p, struct yamlnode v, struct err *e)
{
	struct policy_images *m = &p->images;
	int rc;

	if (!m->limited) {
		rc = yamlnode_form(v) == YAMLNODE_TEXT ? take_image_names(p, v, e)
						       : yamlnode_fail(v, e, "default of image is no name");
		m->limited = false;
		return rc;
	}
	m->preset = yamlnode_text(v) ? profile_shape_find(m, yamlnode_text(v)) : NULL;
	return m->preset ? 0
			 : yamlnode_fail(v, e, "default of image of profile \"%s\" is not among those that it allows",
					 p->name);
}

static int take_image(struct policy_profile *p, struct yamlnode v, struct err *e)
{
	static const struct profile_later later[] = {
	    {"any", "is not needed: without allow every image of sandbox.images is allowed"},
	    {"images", "is written allow, for one or a list"},
	    {NULL, NULL}};
	struct yamlnode names = {0}, preset = {0};
	int rc;

	if (yamlnode_form(v) != YAMLNODE_MAP)
		return take_image_names(p, v, e);
	if ((rc = profile_check_keys(v, "image", "allow|default", later, e)) ||
	    (rc = yamlnode_get(v, "image", "allow", &names, e)) ||
	    (rc = yamlnode_get(v, "image", "default", &preset, e)))
		return rc;
	if (yamlnode_absent(names) && yamlnode_absent(preset))
		return yamlnode_fail(v, e, "image of profile \"%s\" says nothing: give it allow, default or both",
				     p->name);
	if (!yamlnode_absent(names))
		rc = take_image_names(p, names, e);
	return rc || yamlnode_absent(preset) ? rc : take_image_default(p, preset, e);
}

/* ---- resources */

/* One of them, read by who reads those of a call: one form for both. */
static int take_quantity(struct yamlnode map, const char *what, const char *key, struct resources *io, struct err *e)
{
	struct yamlnode v = {0};
	struct resources one = {0};
	struct err why = {0};
	json_t *o = json_object(), *value;
	int rc = yamlnode_get(map, what, key, &v, e);
	const char *text = yamlnode_text(v);
	char *end = NULL;

	if (rc || yamlnode_absent(v)) {
		json_decref(o);
		return rc;
	}
	if (strcmp(key, "pids") == 0 && text && *text >= '0' && *text <= '9' && strlen(text) < 10)
		value = json_integer((json_int_t)strtoul(text, &end, 10));
	else
		value = json_string(text ? text : "");
	if (json_object_set_new(o, key, value) || (end && *end) || resources_read(o, &one, &why))
		rc = yamlnode_fail(v, e, "%s of %s: %s", key, what,
				   why.message[0] ? why.message : "is no number of processes, as 200");
	json_decref(o);
	io->cpu_milli += one.cpu_milli;
	io->memory += one.memory;
	io->pids += one.pids;
	return rc;
}

static int take_quantities(struct yamlnode map, const char *key, struct resources *out, struct yamlnode *at,
			   struct err *e)
{
	int rc = yamlnode_get(map, "resources", key, at, e);

	if (rc || yamlnode_absent(*at))
		return rc;
	if ((rc = profile_check_keys(*at, key, "cpu|memory|pids", NULL, e)) ||
	    (rc = take_quantity(*at, key, "cpu", out, e)) || (rc = take_quantity(*at, key, "memory", out, e)) ||
	    (rc = take_quantity(*at, key, "pids", out, e)))
		return rc;
	return resources_none(out)
		   ? yamlnode_fail(*at, e, "%s of resources says nothing: give it cpu, memory or pids", key)
		   : 0;
}

static int take_over(struct policy_profile *p, struct yamlnode map, struct err *e)
{
	struct yamlnode v = {0};
	int rc = yamlnode_get(map, "resources", "over", &v, e);
	const char *text = yamlnode_text(v);

	if (rc || yamlnode_absent(v))
		return rc;
	if (!text || (strcmp(text, "refuse") != 0 && strcmp(text, "clip") != 0))
		return yamlnode_fail(v, e, "over says what comes of more than the most: refuse, or clip");
	if (resources_none(&p->resources.most))
		return yamlnode_fail(v, e, "over is of resources.most, which profile \"%s\" does not have", p->name);
	p->resources.clips = strcmp(text, "clip") == 0;
	return 0;
}

static bool is_over(uint64_t value, uint64_t most)
{
	return most && value > most;
}

static int take_resources(struct policy_profile *p, struct yamlnode v, struct err *e)
{
	static const struct profile_later later[] = {{"cpu", "is written under most or default"},
						     {"memory", "is written under most or default"},
						     {"pids", "is written under most or default"},
						     {"max", "is written most"},
						     {NULL, NULL}};
	struct policy_resources *r = &p->resources;
	struct yamlnode most = {0}, preset = {0};
	int rc;

	if ((rc = profile_check_keys(v, "resources", "most|default|over", later, e)) ||
	    (rc = take_quantities(v, "most", &r->most, &most, e)) ||
	    (rc = take_quantities(v, "default", &r->preset, &preset, e)) || (rc = take_over(p, v, e)))
		return rc;
	if (yamlnode_absent(most) && yamlnode_absent(preset))
		return yamlnode_fail(v, e, "resources of profile \"%s\" says nothing: give it most, default or both",
				     p->name);
	if (is_over(r->preset.cpu_milli, r->most.cpu_milli) || is_over(r->preset.memory, r->most.memory) ||
	    is_over(r->preset.pids, r->most.pids))
		return yamlnode_fail(preset, e, "default of resources is more than most of profile \"%s\"", p->name);
	r->line = yamlnode_line(v);
	r->column = yamlnode_column(v);
	return 0;
}

int profile_take_shape(struct policy_profile *p, struct yamlnode map, struct err *e)
{
	struct yamlnode image = {0}, resources = {0};
	int rc = yamlnode_get(map, "a profile", "image", &image, e);

	if (!rc)
		rc = yamlnode_get(map, "a profile", "resources", &resources, e);
	if (!rc && !yamlnode_absent(image))
		rc = take_image(p, image, e);
	if (!rc && !yamlnode_absent(resources))
		rc = take_resources(p, resources, e);
	return rc;
}

/* ---- against the configuration */

/* The name of sandbox.images that is nearest to it. False: none is near. */
static bool nearest_image(const struct conf *c, const char *name, char *out, size_t size)
{
	char names[64 * (CONF_IMAGE_NAME_MAX + 1) + 1] = "";
	const char *near;
	size_t len = 0, used = 0;

	for (size_t i = 0; i < c->nimages && used + strlen(c->images[i].name) + 2 < sizeof(names); i++) {
		text_format(names + used, sizeof(names) - used, "%s%s", used ? "|" : "", c->images[i].name);
		used += strlen(names + used);
	}
	near = used ? conf_choice_nearest(names, name, &len) : NULL;
	if (near)
		text_format(out, size, "%.*s", (int)len, near);
	return near != NULL;
}

static int check_image(const struct policy *p, const struct policy_profile *of, const struct policy_image *x,
		       const struct conf *c, struct err *e)
{
	char near[CONF_IMAGE_NAME_MAX + 1];
	struct err why = {0};
	bool known = conf_image_find(c, x->name) != NULL;

	if (!conf_image_allowed(c, x->name, &why))
		return 0;
	if (!known && nearest_image(c, x->name, near, sizeof(near)))
		return err_set(e, ERR_CONFIG, "%s:%u:%u: image of profile \"%s\": %s, did you mean %s?", p->name,
			       x->line, x->column, of->name, why.message, near);
	return err_set(e, ERR_CONFIG, "%s:%u:%u: image of profile \"%s\": %s", p->name, x->line, x->column, of->name,
		       why.message);
}

/* A call with as much would be refused for the same. */
static int check_resources(const struct policy *p, const struct policy_profile *of, const struct conf *c, struct err *e)
{
	const struct policy_resources *r = &of->resources;
	const char *why = NULL;

	if (!r->line || strcmp(c->sandbox_backend, "local") == 0)
		return 0;
	if (*c->kubernetes_warm_pool)
		why = "pods of kubernetes.warm_pool have the resources of their template, and no other";
	else if (r->most.pids || r->preset.pids)
		why = "pids are not for pods: the node's kubelet limits their processes";
	return why ? err_set(e, ERR_CONFIG, "%s:%u:%u: resources of profile \"%s\": %s", p->name, r->line, r->column,
			     of->name, why)
		   : 0;
}

int policy_check_conf(const struct policy *p, const struct conf *c, struct err *e)
{
	int rc = 0;

	for (const struct policy_profile *of = p->profiles; !rc && of < p->profiles + p->nprofiles; of++) {
		for (size_t i = 0; !rc && i < of->images.n; i++)
			rc = check_image(p, of, &of->images.list[i], c, e);
		if (!rc)
			rc = check_resources(p, of, c, e);
	}
	return rc;
}
