#include "control/servers/settings_def.h"

#include "base/err.h"
#include "control/servers/program_def.h"

#include <stdlib.h>
#include <string.h>

#define LABEL_MAX   63
#define LABEL_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/"

static int check_workdir(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	const char *text = json_string_value(v);

	return text[0] == '/' && strlen(text) == json_string_length(v)
		   ? 0
		   : schema_fault(s, at, ERR_INVAL, "is no path that begins with /");
}

/* Without those that are to go. */
static json_t *given(const json_t *o)
{
	json_t *copy = json_object(), *v;
	const char *key;

	json_object_foreach((json_t *)(uintptr_t)o, key, v) if (!json_is_null(v)) json_object_set(copy, key, v);
	return copy;
}

static int check_env(const struct schema *s, const struct schema_at *at, const json_t *env)
{
	json_t *there = given(env);
	int rc = program_check_env(s, at, there);

	json_decref(there);
	return rc;
}

static int check_labels(const struct schema *s, const struct schema_at *at, const json_t *labels)
{
	const char *key;
	json_t *v;

	if (json_object_size(labels) > SETTINGS_LABELS_MAX)
		return schema_fault(s, at, ERR_TOO_LARGE, "has more than %d names", SETTINGS_LABELS_MAX);
	json_object_foreach((json_t *)(uintptr_t)labels, key, v)
	{
		const struct schema_at here = {at, key, 0};
		size_t n = strlen(key);

		if (!n || n > LABEL_MAX || strspn(key, LABEL_CHARS) != n)
			return schema_fault(s, &here, ERR_INVAL, "is no name of a label");
		if (!json_is_null(v) && (!json_is_string(v) || json_string_length(v) > LABEL_MAX ||
					 strlen(json_string_value(v)) != json_string_length(v)))
			return schema_fault(s, &here, ERR_INVAL, "is no text of up to %d bytes", LABEL_MAX);
	}
	return 0;
}

static const struct schema_field fields[] = {
    {"workdir", SCHEMA_TEXT, false, 1, 4095, check_workdir, 0},
    {"env", SCHEMA_OBJECT, false, 0, 0, check_env, 0},
    {"labels", SCHEMA_OBJECT, false, 0, 0, check_labels, 0},
    {SETTINGS_EXEC_TIMEOUT, SCHEMA_INTEGER, false, 1, SETTINGS_TIMEOUT_MAX_MS, NULL, 0},
    {SETTINGS_TRANSFER_TIMEOUT, SCHEMA_INTEGER, false, 1, SETTINGS_TIMEOUT_MAX_MS, NULL, 0},
};

/* The audit log names who set them in one event, which has to fit into a record of the journal. */
static bool is_long(const json_t *o)
{
	char *text = json_text(o);
	bool longer = text && strlen(text) > PROGRAM_LIST_MAX;

	free(text);
	return longer;
}

int settings_check(const json_t *change, struct err *e)
{
	const struct schema s = {.e = e, .null_is_absent = true};

	int rc = schema_object(&s, NULL, change, SCHEMA_FIELDS(fields));

	if (!rc && is_long(change))
		rc = schema_fault(&s, NULL, ERR_TOO_LARGE, "workdir, env and labels are longer than %d KiB together",
				  PROGRAM_LIST_MAX >> 10);
	return rc;
}

static int merge_member(json_t *io, const char *key, const json_t *change)
{
	json_t *now = json_object_get(io, key), *o = json_is_object(now) ? json_copy(now) : json_object(), *v;
	const char *name;
	int rc = o ? 0 : -1;

	json_object_foreach((json_t *)(uintptr_t)change, name, v)
	{
		if (json_is_null(v))
			(void)json_object_del(o, name);
		else
			rc |= json_object_set(o, name, v);
	}
	if (!json_object_size(o)) {
		json_decref(o);
		(void)json_object_del(io, key);
		return rc;
	}
	return rc | json_object_set_new(io, key, o);
}

json_t *settings_merge(const json_t *now, const json_t *change)
{
	json_t *o = json_is_object(now) ? json_copy((json_t *)(uintptr_t)now) : json_object(), *v;
	const char *key;
	int rc = o ? 0 : -1;

	json_object_foreach((json_t *)(uintptr_t)change, key, v)
	{
		if (json_is_null(v))
			(void)json_object_del(o, key);
		else if (json_is_object(v))
			rc |= merge_member(o, key, v);
		else
			rc |= json_object_set(o, key, v);
	}
	if (!rc)
		return o;
	json_decref(o);
	return NULL;
}
