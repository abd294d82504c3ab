#include "muxd/doors/https/mcp/rules.h"

#include <string.h>

typedef bool broken_fn(const struct mcp_view *v);

static bool is_method(const struct mcp_view *v, const char *method)
{
	return v->message->method && strcmp(v->message->method, method) == 0;
}

/* ---- conditions */

static bool host_foreign(const struct mcp_view *v)
{
	return v->head->host_foreign;
}

static bool origin_foreign(const struct mcp_view *v)
{
	return v->head->origin_foreign;
}

static bool type_other(const struct mcp_view *v)
{
	return !mcp_is_json(v->head->type.text);
}

static bool no_json(const struct mcp_view *v)
{
	return v->message->shape == MCP_NO_JSON;
}

static bool batch(const struct mcp_view *v)
{
	return v->message->shape == MCP_BATCH;
}

static bool no_message(const struct mcp_view *v)
{
	return v->message->shape == MCP_NO_MESSAGE;
}

static bool is_request(const struct mcp_view *v)
{
	return v->message->kind == MCP_REQUEST;
}

static bool meta_missing(const struct mcp_view *v)
{
	return is_request(v) && (!json_is_string(v->message->claim) ||
				 !json_is_object(json_object_get(v->message->meta, MCP_META_CAPABILITIES)));
}

static bool version_differs(const struct mcp_view *v)
{
	const char *claim = json_string_value(v->message->claim);

	return is_request(v) && v->head->version.given && strcmp(v->head->version.text, claim) != 0;
}

static bool method_differs(const struct mcp_view *v)
{
	return v->head->method.given && v->message->method && strcmp(v->head->method.text, v->message->method) != 0;
}

static bool version_unknown(const struct mcp_view *v)
{
	return is_request(v) && mcp_version_find(json_string_value(v->message->claim)) != MCP_2026_07_28;
}

static bool version_missing(const struct mcp_view *v)
{
	return is_request(v) && !v->head->version.given;
}

static bool method_missing(const struct mcp_view *v)
{
	return is_request(v) && !v->head->method.given;
}

static bool name_wrong(const struct mcp_view *v)
{
	const char *name = mcp_message_name(v->message);

	return is_request(v) && name && (!v->head->name_given || strcmp(v->head->name, name) != 0);
}

static bool tasks_undeclared(const struct mcp_view *v)
{
	return is_request(v) && strncmp(v->message->method, "tasks/", 6) == 0 && v->has_method(v->message->method) &&
	       !mcp_declares(v->message, MCP_EXTENSION_TASKS);
}

static bool method_unknown(const struct mcp_view *v)
{
	return is_request(v) && !v->has_method(v->message->method);
}

static bool accepts_not_both(const struct mcp_view *v)
{
	return !mcp_accepts(v->head->accept.text, "application/json") ||
	       !mcp_accepts(v->head->accept.text, "text/event-stream");
}

static bool accepts_no_stream(const struct mcp_view *v)
{
	return !mcp_accepts(v->head->accept.text, "text/event-stream");
}

static bool begun_twice(const struct mcp_view *v)
{
	return is_method(v, "initialize") && v->session_known;
}

static bool session_missing(const struct mcp_view *v)
{
	return !is_method(v, "initialize") && !v->head->session.given;
}

static bool session_unknown(const struct mcp_view *v)
{
	return !is_method(v, "initialize") && !v->session_known;
}

static bool version_bad(const struct mcp_view *v)
{
	enum mcp_version named = mcp_version_find(v->head->version.text);

	return v->head->version.given && !is_method(v, "initialize") && (named == MCP_NONE || named > MCP_OLD_NEWEST);
}

/* ---- what goes along with an error */

static json_t *versions_data(const struct mcp_view *v)
{
	return json_pack("{s:[s],s:s}", "supported", mcp_version_name(MCP_2026_07_28), "requested",
			 json_string_value(v->message->claim));
}

static json_t *tasks_data(const struct mcp_view *v)
{
	(void)v;
	return json_pack("{s:{s:{s:{}}}}", "requiredCapabilities", "extensions", MCP_EXTENSION_TASKS);
}

/* ---- the table */

enum era { OLD = 1, NEW = 2, ANY = 3 };
enum { ALL = MCP_POST | MCP_GET | MCP_DELETE };

static const struct {
	enum era era;
	unsigned verbs;
	broken_fn *broken;
	int status;
	enum mcp_code code;
	const char *text;
	json_t *(*data)(const struct mcp_view *v);
} rows[] = {
    {ANY, ALL, host_foreign, 403, MCP_REFUSED, "Host is none of this server's names", NULL},
    {ANY, ALL, origin_foreign, 403, MCP_REFUSED, "Origin is none of this server's", NULL},
    {ANY, MCP_POST, type_other, 415, MCP_REFUSED, "Content-Type must be application/json", NULL},
    {ANY, MCP_POST, no_json, 400, MCP_PARSE,
     "the body is no JSON, or over a limit (32 levels, 100000 values, no key twice)", NULL},
    {ANY, MCP_POST, batch, 400, MCP_INVALID, "batches are not taken: send one message at a time", NULL},
    {ANY, MCP_POST, no_message, 400, MCP_INVALID, "the body is no message of JSON-RPC 2.0", NULL},
    /* 2026-07-28 */
    {NEW, MCP_POST, meta_missing, 400, MCP_PARAMS,
     "params._meta must have " MCP_META_VERSION " and " MCP_META_CAPABILITIES, NULL},
    {NEW, MCP_POST, version_differs, 400, MCP_HEAD_DIFFERS, "MCP-Protocol-Version and _meta differ", NULL},
    {NEW, MCP_POST, method_differs, 400, MCP_HEAD_DIFFERS, "Mcp-Method and the body's method differ", NULL},
    {NEW, MCP_POST, version_unknown, 400, MCP_VERSION, "this version of the protocol is not spoken here",
     versions_data},
    {NEW, MCP_POST, version_missing, 400, MCP_HEAD_DIFFERS, "the field MCP-Protocol-Version is missing", NULL},
    {NEW, MCP_POST, method_missing, 400, MCP_HEAD_DIFFERS, "the field Mcp-Method is missing", NULL},
    {NEW, MCP_POST, name_wrong, 400, MCP_HEAD_DIFFERS, "Mcp-Name is missing, or is not what the body names", NULL},
    {NEW, MCP_POST, tasks_undeclared, 400, MCP_CAPABILITY, "declare the extension " MCP_EXTENSION_TASKS, tasks_data},
    {NEW, MCP_POST, method_unknown, 404, MCP_NO_METHOD, "no such method", NULL},
    /* 2025-06-18 and 2025-11-25 */
    {OLD, MCP_POST, accepts_not_both, 406, MCP_REFUSED, "Accept must have application/json and text/event-stream",
     NULL},
    {OLD, MCP_GET, accepts_no_stream, 406, MCP_REFUSED, "Accept must have text/event-stream", NULL},
    {OLD, MCP_POST, begun_twice, 400, MCP_INVALID, "this session is initialized already", NULL},
    {OLD, ALL, session_missing, 400, MCP_REFUSED, "the field Mcp-Session-Id is missing: initialize first", NULL},
    {OLD, ALL, session_unknown, 404, MCP_NO_SESSION, "no such session: initialize again", NULL},
    {OLD, ALL, version_bad, 400, MCP_REFUSED,
     "MCP-Protocol-Version is none of 2025-06-18 and 2025-11-25, which have sessions", NULL},
};

bool mcp_rules_look(const struct mcp_view *v, struct mcp_fault *out)
{
	enum era era = v->new_era ? NEW : OLD;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!(rows[i].era & era) || !(rows[i].verbs & (unsigned)v->verb) || !rows[i].broken(v))
			continue;
		*out = (struct mcp_fault){rows[i].status, rows[i].code, rows[i].text,
					  rows[i].data ? rows[i].data(v) : NULL};
		return true;
	}
	return false;
}

bool mcp_declares(const struct mcp_message *m, const char *extension)
{
	const json_t *capabilities = json_object_get(m->meta, MCP_META_CAPABILITIES);

	return json_object_get(json_object_get(capabilities, "extensions"), extension) != NULL;
}
