#include "control/artifacts/artifact_wish.h"

#include "base/err.h"
#include "control/artifacts/artifacts.h"

#include <string.h>

#define PATH_LONGEST 4095

int artifact_wish_check_name(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	struct err why = {0};

	return artifact_name_check(json_string_value(v), &why) ? schema_fault(s, at, ERR_INVAL, "%.160s", why.message)
							       : 0;
}

int artifact_wish_check_stream(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	const char *name = json_string_value(v);

	return strcmp(name, "stdout") == 0 || strcmp(name, "stderr") == 0
		   ? 0
		   : schema_fault(s, at, ERR_INVAL, "is neither stdout nor stderr");
}

static int check_wish(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	static const struct schema_field fields[] = {
	    {"name", SCHEMA_TEXT, true, 1, 0, artifact_wish_check_name, 0},
	    {"path", SCHEMA_TEXT, false, 1, PATH_LONGEST, NULL, 0},
	    {"stream", SCHEMA_TEXT, false, 1, 0, artifact_wish_check_stream, 0},
	};
	struct schema alone = {.e = s->e, .null_is_absent = s->null_is_absent};
	static const struct schema_field object = {.kind = SCHEMA_OBJECT};
	int rc = schema_value(&alone, at, &object, v);

	if (!rc)
		rc = schema_object(&alone, at, v, SCHEMA_FIELDS(fields));
	if (!rc && json_is_string(json_object_get(v, "path")) == json_is_string(json_object_get(v, "stream")))
		rc = schema_fault(s, at, ERR_INVAL, "needs one of path and stream");
	return rc;
}

static bool named_before(const json_t *list, size_t i)
{
	const char *name = json_string_value(json_object_get(json_array_get(list, i), "name"));

	for (size_t k = 0; k < i; k++)
		if (strcmp(name, json_string_value(json_object_get(json_array_get(list, k), "name"))) == 0)
			return true;
	return false;
}

int artifact_wishes_check(const struct schema *s, const struct schema_at *at, const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		struct schema_at here = {.up = at, .index = i};
		int rc = check_wish(s, &here, json_array_get(list, i));

		if (!rc && named_before(list, i))
			rc = schema_fault(s, &here, ERR_INVAL, "has a name that stands in the list already");
		if (rc)
			return rc;
	}
	return 0;
}

void artifact_wish_read(const json_t *list, size_t i, struct artifact_wish *out)
{
	const json_t *o = json_array_get(list, i);

	*out = (struct artifact_wish){.name = json_string_value(json_object_get(o, "name")),
				      .path = json_string_value(json_object_get(o, "path")),
				      .stream = json_string_value(json_object_get(o, "stream"))};
}

json_t *artifact_wish_pending(const char *name)
{
	return json_pack("{s:s, s:s}", "name", name, "state", "pending");
}

json_t *artifact_wish_kept(const char *name, const json_t *row)
{
	return json_pack("{s:s, s:s, s:O, s:O, s:O}", "name", name, "state", "kept", "task_id",
			 json_object_get(row, "task"), "size", json_object_get(row, "size"), "sha256",
			 json_object_get(row, "sha256"));
}

json_t *artifact_wish_failed(const char *name, int rc, const char *message)
{
	return json_pack("{s:s, s:s, s:{s:s, s:s}}", "name", name, "state", "failed", "error", "code", err_name(rc),
			 "message", message && *message ? message : err_name(rc));
}
