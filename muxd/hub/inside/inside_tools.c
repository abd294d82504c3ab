/* A server inside: its answer to initialize, and its tools, until they are in the store. */
#define LOG_SUBSYS "mcp"
#include "base/err.h"
#include "base/text.h"
#include "control/servers/catalogue.h"
#include "control/servers/servers.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/inside/inside_state.h"
#include "muxd/hub/session/session_state.h"

#include <stdlib.h>
#include <string.h>

#define PAGES_MAX 100
#define HELLO_MAX (64u * 1024)

int inside_hello(struct inside *x, const json_t *result, size_t bytes, bool *out_tools)
{
	static const char *const versions[] = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"};
	const char *version = json_get_text(result, "protocolVersion");
	const json_t *capabilities = json_object_get(result, "capabilities");
	bool known = false;

	if (bytes > HELLO_MAX)
		return inside_fault(x, "its answer to initialize is longer than %u KiB", HELLO_MAX >> 10);
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		known = known || strcmp(version, versions[i]) == 0;
	if (!known)
		return inside_fault(x, "it speaks version \"%.40s\" of the protocol: none that is known here", version);
	if (!json_is_object(capabilities))
		return inside_fault(x, "its answer to initialize has no capabilities");
	json_decref(x->hello);
	x->hello =
	    json_pack("{s:s,s:O,s:O*,s:O*}", "protocolVersion", version, "capabilities", capabilities, "serverInfo",
		      json_object_get(result, "serverInfo"), "instructions", json_object_get(result, "instructions"));
	*out_tools = json_is_object(json_object_get(capabilities, "tools"));
	return x->hello ? 0 : ERR_NOMEM;
}

int inside_tools_ask(struct inside *x, const char *cursor)
{
	if (!cursor) {
		json_decref(x->tools);
		x->tools = json_array();
		x->pages = 0;
		x->tools_bytes = x->tools_values = 0;
		if (!x->tools)
			return ERR_NOMEM;
	}
	x->own_number = x->next_number++;
	return inside_send(x, json_pack("{s:s,s:I,s:s,s:{s:s*}}", "jsonrpc", "2.0", "id", (json_int_t)x->own_number,
					"method", "tools/list", "params", "cursor", cursor));
}

int inside_tools_page(struct inside *x, const struct inside_line *l, size_t bytes, bool *out_whole)
{
	const json_t *tools = json_object_get(l->result, "tools"), *cursor = json_object_get(l->result, "nextCursor");

	if (!json_is_array(tools))
		return inside_fault(x, "its answer to tools/list has no list of tools");
	x->tools_bytes += bytes;
	x->tools_values += l->values;
	if (x->tools_bytes > CATALOGUE_MAX || x->tools_values > INSIDE_VALUES_MAX)
		return inside_fault(x, "its tools are more than %d MiB, or than %u values", CATALOGUE_MAX >> 20,
				    INSIDE_VALUES_MAX);
	if (json_array_extend(x->tools, (json_t *)(uintptr_t)tools))
		return ERR_NOMEM;
	if (json_array_size(x->tools) > CATALOGUE_TOOLS_MAX || ++x->pages > PAGES_MAX)
		return inside_fault(x, "it has more than %d tools, or pages of them without end", CATALOGUE_TOOLS_MAX);
	*out_whole = !json_is_string(cursor);
	return *out_whole ? 0 : inside_tools_ask(x, json_string_value(cursor));
}

struct inside_storing {
	struct inside *x;
	inside_stored_fn *then;
};

static void inside_on_stored(void *arg, int rc, const struct err *e, json_t *result)
{
	struct inside_storing *s = arg;

	if (s->x) { /* else its program has gone, or the hub */
		s->x->under_way--;
		s->x->storing = NULL;
		s->then(s->x, rc, rc ? e->message : NULL, result);
	}
	free(s);
}

void inside_tools_leave(struct inside *x)
{
	if (!x->storing)
		return;
	x->storing->x = NULL;
	x->storing = NULL;
	x->under_way--;
}

static json_t *catalogue_of(struct inside *x)
{
	json_t *o = json_copy(x->hello), *tools = catalogue_tools(x->tools);

	if (o && tools && json_object_set(o, "tools", tools) == 0) {
		json_decref(tools);
		return o;
	}
	json_decref(tools);
	json_decref(o);
	return NULL;
}

static bool is_too_large(const json_t *catalogue)
{
	char *text = json_text(catalogue);
	bool large = text && strlen(text) > CATALOGUE_MAX;

	free(text);
	return large;
}

int inside_tools_store(struct inside *x, inside_stored_fn *then)
{
	const struct catalogue_key k = {x->stored_as, x->name, x->fingerprint};
	struct inside_storing *s = malloc(sizeof(*s));
	json_t *catalogue = catalogue_of(x), *seen = NULL;
	struct err e = {0};
	int rc = s && catalogue ? 0 : ERR_NOMEM;

	if (!rc && is_too_large(catalogue))
		rc = inside_fault(x, "its tools are more than %d MiB", CATALOGUE_MAX >> 20);
	if (!rc && (rc = catalogue_fingerprints(x->tools, &seen, &e)))
		rc = inside_fault(x, "its tools are no list: %s", e.message);
	if (!rc)
		rc = catalogue_add_self(seen, x->hello);
	if (!rc) {
		inside_tools_leave(x);
		*s = (struct inside_storing){x, then};
		x->under_way++;
		x->storing = s;
		catalogue_put(hub_store(x->hub), &k, catalogue, seen, hub_now_wall(x->hub), inside_on_stored, s);
	} else {
		free(s);
	}
	json_decref(catalogue);
	json_decref(seen);
	return rc;
}
