#include "control/servers/catalogue.h"

#include "base/err.h"
#include "base/text.h"
#include "control/servers/digest.h"

#include <string.h>

/* Its place among the fingerprints: no tool has that name. */
#define SELF ""

/* The members of a tool that are fingerprinted, and so all that anybody is told of it. Members that are absent are no
 * part of it. */
static json_t *shown_of(const json_t *tool)
{
	static const char *const keys[] = {"name",        "title",        "description",
					   "inputSchema", "outputSchema", "annotations"};
	json_t *o = json_object(), *v;

	for (size_t i = 0; o && i < sizeof(keys) / sizeof(keys[0]); i++)
		if ((v = json_object_get(tool, keys[i])))
			json_object_set(o, keys[i], v);
	return o;
}

int catalogue_fingerprints(const json_t *tools, json_t **out, struct err *e)
{
	json_t *map = json_object(), *v, *shown;
	char sum[DIGEST_SZ];
	size_t i;
	int rc = map ? 0 : err_set(e, ERR_NOMEM, "no memory for fingerprints");

	if (!rc && json_array_size(tools) > CATALOGUE_TOOLS_MAX)
		rc = err_set(e, ERR_TOO_LARGE, "the server has more than %d tools", CATALOGUE_TOOLS_MAX);
	json_array_foreach(tools, i, v)
	{
		const char *name = json_get_text(v, "name");

		if (rc)
			break;
		if (!*name || strlen(name) > 256)
			rc = err_set(e, ERR_INVAL, "tool %zu has no name of 1 to 256 bytes", i);
		else if (json_object_get(map, name))
			rc = err_set(e, ERR_INVAL, "two tools are named \"%.100s\"", name);
		shown = rc ? NULL : shown_of(v);
		if (!rc && (!shown || digest_json(shown, sum) || json_object_set_new(map, name, json_string(sum))))
			rc = err_set(e, ERR_NOMEM, "no memory for fingerprints");
		json_decref(shown);
	}
	if (rc)
		json_decref(map);
	else
		*out = map;
	return rc;
}

json_t *catalogue_tools(const json_t *tools)
{
	json_t *list = json_array(), *v;
	size_t i;

	json_array_foreach(tools, i, v) if (list && json_array_append_new(list, shown_of(v)))
	{
		json_decref(list);
		return NULL;
	}
	return list;
}

int catalogue_add_self(json_t *seen, const json_t *hello)
{
	static const char *const keys[] = {"instructions", "serverInfo", "capabilities"};
	json_t *o = json_object(), *v;
	char sum[DIGEST_SZ];
	int rc = o ? 0 : ERR_NOMEM;

	for (size_t i = 0; !rc && i < sizeof(keys) / sizeof(keys[0]); i++)
		if ((v = json_object_get(hello, keys[i])) && json_object_set(o, keys[i], v))
			rc = ERR_NOMEM;
	if (!rc)
		rc = digest_json(o, sum);
	if (!rc && json_object_set_new(seen, SELF, json_string(sum)))
		rc = ERR_NOMEM;
	json_decref(o);
	return rc;
}

json_t *catalogue_changes(const json_t *approved, const json_t *seen)
{
	json_t *list = json_array(), *v;
	const char *name;

	if (!list)
		return NULL;
	json_object_foreach((json_t *)(uintptr_t)seen, name, v)
	{
		const char *was = json_string_value(json_object_get(approved, name));

		if (was && strcmp(was, json_string_value(v)) == 0)
			continue;
		if (json_array_append_new(list, json_pack("{s:s,s:s}", "tool", *name ? name : CATALOGUE_SELF, "change",
							  was ? "changed" : "new"))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}
