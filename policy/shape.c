#include "policy/shape.h"

#include "base/text.h"

#include <inttypes.h>
#include <string.h>

/* ---- image */

static bool image_is_listed(const struct policy_images *m, const char *name)
{
	if (!m->limited || !*name)
		return !m->limited || m->none;
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->list[i].name, name) == 0)
			return true;
	return false;
}

static const char *shape_image(const struct policy_profile *p, const struct policy_question *q)
{
	const struct policy_images *m = &p->images;
	const char *kept = q->kept_image ? q->kept_image : "";

	if (q->image || q->fixed)
		return q->image ? q->image : "";
	if (*kept && image_is_listed(m, kept))
		return kept;
	return m->preset ? m->preset : kept;
}

/* ---- resources */

/* As it is named, or kept from before, or as the profile has it; what nobody named is never more than the most. */
static uint64_t shape_field(uint64_t named, uint64_t kept, uint64_t preset, uint64_t most)
{
	uint64_t n = named ? named : kept ? kept : preset ? preset : most;

	return most && n > most ? most : n;
}

static struct resources shape_resources(const struct policy_profile *p, const struct policy_question *q)
{
	const struct resources *most = &p->resources.most, *preset = &p->resources.preset, *named = &q->resources;

	if (q->fixed)
		return *named;
	return (struct resources){
	    shape_field(named->memory, q->kept.memory, preset->memory, most->memory),
	    (uint32_t)shape_field(named->cpu_milli, q->kept.cpu_milli, preset->cpu_milli, most->cpu_milli),
	    (uint32_t)shape_field(named->pids, q->kept.pids, preset->pids, most->pids)};
}

/* The first that is named over the most; NULL: none is. */
static const char *first_over(const struct policy_profile *p, const struct policy_question *q)
{
	const struct resources *most = &p->resources.most, *named = &q->resources;

	if (most->cpu_milli && named->cpu_milli > most->cpu_milli)
		return "cpu";
	if (most->memory && named->memory > most->memory)
		return "memory";
	return most->pids && named->pids > most->pids ? "pids" : NULL;
}

/* ---- both */

enum verdict_why policy_shape_judge(const struct policy_profile *p, const struct policy_question *q)
{
	bool clips = p->resources.clips && !q->fixed;

	if (!q->makes)
		return VERDICT_NAMED;
	if ((q->own_template && p->images.limited) || !image_is_listed(&p->images, shape_image(p, q)))
		return VERDICT_IMAGE;
	if ((q->own_template && !resources_none(&p->resources.most)) || (!clips && first_over(p, q)))
		return VERDICT_RESOURCES;
	return VERDICT_NAMED;
}

void verdict_shape(const struct verdict *v, const struct policy_question *q, struct policy_shape *out)
{
	static const struct policy_profile as_asked;
	const struct policy_profile *p = v->profile ? v->profile : &as_asked;
	const char *had = q->image ? q->image : q->kept_image ? q->kept_image : "";
	const struct resources none = {0}, *asked = resources_none(&q->resources) ? &q->kept : &q->resources;

	*out = (struct policy_shape){.image = shape_image(p, q),
				     .resources = p->resources.line ? shape_resources(p, q) : *asked,
				     .most = v->profile ? p->resources.most : none};
	out->says_image = p->images.limited || p->images.preset;
	out->says_resources = p->resources.line != 0;
	out->gives_image = strcmp(out->image, had) != 0;
	out->gives_resources = !resources_equal(&out->resources, asked);
}

const char *policy_shape_name(enum verdict_why why)
{
	return why == VERDICT_IMAGE ? "image" : why == VERDICT_RESOURCES ? "resources" : NULL;
}

/* ---- in words */

static void shape_quantity(const char *which, const struct resources *r, char out[RESOURCES_TEXT])
{
	if (strcmp(which, "cpu") == 0)
		resources_cpu_text(r->cpu_milli, out);
	else if (strcmp(which, "memory") == 0)
		resources_memory_text(r->memory, out);
	else
		text_format(out, RESOURCES_TEXT, "%" PRIu32, r->pids);
}

void policy_shape_message(const struct policy_profile *p, enum verdict_why why, const struct policy_question *q,
			  char *out, size_t size)
{
	const char *image = shape_image(p, q), *over = first_over(p, q);
	char asked[RESOURCES_TEXT], most[RESOURCES_TEXT];

	if (q->own_template) {
		text_format(out, size,
			    "profile \"%s\" says which %s a sandbox has, and a pod template of its own may say "
			    "otherwise",
			    p->name, why == VERDICT_IMAGE ? "image" : "resources");
	} else if (why == VERDICT_IMAGE) {
		text_format(out, size, "profile \"%s\" does not allow a sandbox %s%.100s", p->name,
			    *image ? "of image " : "without an image", image);
	} else if (q->fixed) {
		text_format(out, size, "a sandbox of the pool has more %s than profile \"%s\" allows",
			    over ? over : "cpu", p->name);
	} else {
		shape_quantity(over ? over : "cpu", &q->resources, asked);
		shape_quantity(over ? over : "cpu", &p->resources.most, most);
		text_format(out, size, "%s of %s is over the %s that profile \"%s\" allows", over ? over : "cpu", asked,
			    most, p->name);
	}
}

static void shape_names(const struct policy_images *m, char *out, size_t size)
{
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < m->n && used + 1 < size; i++) {
		text_format(out + used, size - used, "%s%.40s", i ? ", " : "", m->list[i].name);
		used += strlen(out + used);
	}
	if (m->none && used + 1 < size)
		text_format(out + used, size - used, "%snone", used ? ", " : "");
}

void policy_shape_hint(const struct policy_profile *p, enum verdict_why why, const struct policy_question *q, char *out,
		       size_t size)
{
	const char *image = shape_image(p, q), *over = first_over(p, q);
	char names[80];

	shape_names(&p->images, names, sizeof(names));
	if (q->own_template)
		text_format(out, size, "no pod template of the agent's own");
	else if (why == VERDICT_IMAGE)
		text_format(out, size, "%.64s in image of profile %s, which has: %s", *image ? image : "none", p->name,
			    names);
	else
		text_format(out, size, "more in resources.most.%s of profile %s%s", over ? over : "cpu", p->name,
			    q->fixed ? "" : ", or over: clip");
}
