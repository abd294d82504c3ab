#include "muxd/doors/life_args.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"

#include <string.h>

#define KEYS_MAX   24
#define TIMEOUT_MS (24 * INT64_C(3600000))
#define TTL_MIN    NS_PER_SEC
#define TTL_MAX    (3650 * 86400 * NS_PER_SEC)

static const char *const verb_keys[VERB_COUNT][17] = {
    [VERB_RESUME] = {"idle_ttl", "ttl", "pod_template", "timeout_ms", "workdir", "env", "labels", "image", "resources",
		     "workspace", "app_id", "cluster", "namespace", "exec_timeout_ms", "transfer_timeout_ms"},
    [VERB_STOP] = {"reason", "timeout_ms"},
    [VERB_KILL] = {"reason", "timeout_ms"},
    [VERB_TERMINATE] = {"reason", "how", "timeout_ms"},
    [VERB_SNAPSHOT] = {"reason", "timeout_ms"},
    [VERB_RESTORE] = {"snapshot_id", "check", "accept_differs", "reason", "timeout_ms"},
    [VERB_FORK] = {"snapshot_id", "as", "writable", "idle_ttl", "ttl", "reason", "timeout_ms", "at", "check",
		   "accept_differs", "pod_template", "image", "resources"},
    [VERB_DROP] = {"snapshot_id", "reason"},
};

static int check_keys(enum life_verb v, const json_t *o, bool of_session, struct err *e)
{
	const char *keys[KEYS_MAX] = {NULL};
	size_t n = 0;

	for (size_t i = 0; verb_keys[v][i]; i++)
		keys[n++] = of_session && strcmp(verb_keys[v][i], "at") == 0 ? "at_ms" : verb_keys[v][i];
	return json_only_keys(o, keys, e);
}

static int read_duration(const json_t *o, const char *key, uint64_t *out, struct err *e)
{
	const char *text = NULL;
	uint64_t ns = 0;
	int rc = json_opt_str(o, key, &text, e);

	if (rc || !text)
		return rc;
	if (clock_parse_duration(text, &ns))
		return err_set(e, ERR_INVAL, "%s is \"%.40s\", not a duration as 90s, 1h30m, or 0s for none", key,
			       text);
	if (ns && (ns < TTL_MIN || ns > TTL_MAX))
		return err_set(e, ERR_INVAL, "%s is \"%.40s\": 1s to 3650d are allowed, and 0s for none", key, text);
	*out = ns;
	return 0;
}

static int read_how(const json_t *o, struct life_call *out, struct err *e)
{
	static const char *const names[] = {"snapshot", "keep", "wipe"};
	const char *text = NULL;
	int rc = json_opt_str(o, "how", &text, e);

	if (rc || !text)
		return rc;
	for (int i = 0; i < 3; i++)
		if (strcmp(text, names[i]) == 0) {
			out->how = (enum life_end)i;
			return 0;
		}
	return err_set(e, ERR_INVAL, "how is \"%.40s\", not snapshot, keep or wipe", text);
}

static int read_snapshot(const json_t *o, struct id *out, struct err *e)
{
	const char *text = NULL;
	int rc = json_opt_str(o, "snapshot_id", &text, e);

	if (!rc && text && (id_parse(text, out) || id_is_nil(out)))
		rc = err_set(e, ERR_INVAL, "snapshot_id is \"%.64s\", not the id of a snapshot", text);
	return rc;
}

static int read_moment(const json_t *o, bool of_session, int64_t *out, struct err *e)
{
	const char *text = NULL;
	int64_t ms = 0;
	int rc;

	if (of_session) {
		rc = json_opt_int(o, "at_ms", 0, INT64_MAX / (int64_t)NS_PER_MS / 4, &ms, e);
		*out = ms * (int64_t)NS_PER_MS;
		return rc;
	}
	rc = json_opt_str(o, "at", &text, e);
	if (!rc && text && clock_parse_utc(text, out))
		rc = err_set(e, ERR_INVAL, "at is \"%.40s\", not a time as 2026-11-21T08:01:40Z", text);
	return rc;
}

/* Evidence is looked at in a copy that cannot be written to, or is of a session: checked, unless it says otherwise. */
static int read_check(enum life_verb v, const json_t *o, bool of_session, struct life_call *out, struct err *e)
{
	out->check = v == VERB_FORK && (of_session || !out->writable);
	return json_opt_bool(o, "check", &out->check, e);
}

/* null is said, and takes one away. */
static int read_template(const json_t *o, const json_t **out, struct err *e)
{
	const json_t *t = json_object_get(o, "pod_template");

	if (t && !json_is_object(t) && !json_is_null(t))
		return err_set(e, ERR_INVAL, "pod_template is no object; null takes an agent's own away");
	*out = t;
	return 0;
}

/* null is said here, too. What no name can be is known nowhere. */
static int read_image(const json_t *o, struct life_options *out, struct err *e)
{
	const json_t *v = json_object_get(o, "image");
	const char *name = json_string_value(v);
	size_t n = name ? strlen(name) : 0;

	if (!v)
		return 0;
	if (!json_is_null(v) && (n == 0 || n > SANDBOX_IMAGE_MAX || n != json_string_length(v)))
		return err_set(e, ERR_INVAL, "image is no name of an image; null takes an agent's own away");
	out->sets_image = true;
	if (name)
		memcpy(out->image, name, n + 1);
	return 0;
}

/* A null takes away what was asked for before, as it does an image. */
static int read_resources(const json_t *o, struct life_options *out, struct err *e)
{
	const json_t *v = json_object_get(o, "resources");

	out->sets_resources = v != NULL;
	return resources_read(v, &out->resources, e);
}

/* A DNS label. */
static int read_label(const json_t *o, const char *key, char out[DNS_LABEL_MAX + 1], struct err *e)
{
	const char *text = NULL;
	int rc = json_opt_str(o, key, &text, e);

	if (!rc && text && !(rc = dns_label_check(key, text, e)))
		memcpy(out, text, strlen(text) + 1);
	return rc;
}

/* Here a null is said, as with an image. */
static int read_app(const json_t *o, struct life_options *out, struct err *e)
{
	int rc = read_label(o, "app_id", out->app_id, e);

	out->sets_app = !rc && json_object_get(o, "app_id");
	return rc;
}

static int read_workspace(const json_t *o, struct life_call *out, struct err *e)
{
	struct workspace_from from;
	const char *text = NULL;
	int rc = json_opt_str(o, "workspace", &text, e);

	if (rc || !text)
		return rc;
	rc = workspace_from_parse(text, &from, e);
	if (!rc && from.form == WORKSPACE_SNAPSHOT)
		out->snapshot = from.snapshot;
	else if (!rc)
		out->from = from;
	return rc;
}

static bool has_settings(const json_t *o)
{
	static const char *const keys[] = {"workdir", "env", "labels", "exec_timeout_ms", "transfer_timeout_ms"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (json_object_get(o, keys[i]))
			return true;
	return false;
}

int life_args_read(enum life_verb v, const json_t *o, bool of_session, struct life_call *out, struct err *e)
{
	int64_t timeout = 0;
	int rc;

	life_call_init(out);
	out->check = v == VERB_FORK;
	if (!o)
		return 0;
	if ((rc = check_keys(v, o, of_session, e)) || (rc = json_opt_str(o, "reason", &out->reason, e)) ||
	    (rc = json_opt_int(o, "timeout_ms", 1, TIMEOUT_MS, &timeout, e)) ||
	    (rc = read_duration(o, "idle_ttl", &out->options.idle_ttl_ns, e)) ||
	    (rc = read_duration(o, "ttl", &out->options.ttl_ns, e)) || (rc = read_how(o, out, e)) ||
	    (rc = read_snapshot(o, &out->snapshot, e)) || (rc = json_opt_str(o, "as", &out->as, e)) ||
	    (rc = json_opt_bool(o, "writable", &out->writable, e)) ||
	    (rc = json_opt_bool(o, "accept_differs", &out->any, e)) || (rc = read_check(v, o, of_session, out, e)) ||
	    (rc = read_template(o, &out->pod_template, e)) || (rc = read_image(o, &out->options, e)) ||
	    (rc = read_resources(o, &out->options, e)) || (rc = read_app(o, &out->options, e)) ||
	    (rc = read_label(o, "cluster", out->place.cluster, e)) ||
	    (rc = read_label(o, "namespace", out->place.ns, e)) ||
	    (v == VERB_RESUME && (rc = read_workspace(o, out, e))) ||
	    (v == VERB_FORK && (rc = read_moment(o, of_session, &out->at_ns, e))))
		return rc;
	if (v == VERB_RESUME && has_settings(o))
		out->settings = o; /* the broker takes those alone */
	out->timeout_ns = (uint64_t)timeout * NS_PER_MS;
	return 0;
}
