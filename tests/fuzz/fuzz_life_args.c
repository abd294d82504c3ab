// tier: check
/*
 * The first byte chooses the verb, and whether a fork is of a session; the rest is the JSON of a lifecycle call. What
 * is accepted is within its bounds; what is refused is named.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "muxd/doors/life_args.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_ttl(uint64_t ns)
{
	if (ns != UINT64_MAX && ns && (ns < NS_PER_SEC || ns > 3650 * 86400 * NS_PER_SEC))
		abort();
}

/* A name of it is read as the same again. */
static void check_from(const struct workspace_from *from)
{
	char text[WORKSPACE_TEXT_SZ];
	struct workspace_from again;

	if (from->form == WORKSPACE_NONE)
		return;
	if (from->form == WORKSPACE_SNAPSHOT || !from->task[0] || !from->name[0] || strchr(from->name, '/') ||
	    workspace_from_parse(workspace_from_text(from, text), &again, NULL) || again.form != from->form ||
	    strcmp(again.task, from->task) != 0 || strcmp(again.name, from->name) != 0 ||
	    strcmp(again.ref, from->ref) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct life_call c;
	json_t *o = NULL;
	struct err e = {0};
	int rc;

	if (size == 0 || json_parse(data + 1, size - 1, 1 << 16, &o, NULL))
		return 0;
	rc = json_is_object(o) ? life_args_read((enum life_verb)(data[0] % VERB_COUNT), o, data[0] & 0x80, &c, &e) : 0;
	if (rc == 0 && json_is_object(o)) {
		check_ttl(c.options.idle_ttl_ns);
		check_ttl(c.options.ttl_ns);
		if (strnlen(c.options.image, sizeof(c.options.image)) > SANDBOX_IMAGE_MAX ||
		    (c.options.image[0] && !c.options.sets_image))
			abort();
		if ((c.options.app_id[0] && (!c.options.sets_app || dns_label_check("app_id", c.options.app_id, &e))) ||
		    (c.place.cluster[0] && dns_label_check("cluster", c.place.cluster, &e)) ||
		    (c.place.ns[0] && dns_label_check("namespace", c.place.ns, &e)))
			abort();
		if ((c.options.resources.memory && (c.options.resources.memory < RESOURCES_MEMORY_MIN ||
						    c.options.resources.memory > RESOURCES_MEMORY_MAX)) ||
		    c.options.resources.cpu_milli > RESOURCES_CPU_MAX ||
		    c.options.resources.pids > RESOURCES_PIDS_MAX ||
		    (!c.options.sets_resources && !resources_none(&c.options.resources)))
			abort();
		if (c.how > LIFE_END_BY_REASON || (c.reason && strlen(c.reason) > size) ||
		    (c.as && strlen(c.as) > size))
			abort();
		check_from(&c.from);
	} else if (rc && (e.code != rc || !e.message[0])) {
		abort();
	}
	json_decref(o);
	return 0;
}
