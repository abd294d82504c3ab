#include "muxd/doors/https/mcp/message.h"
#include "base/err.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const versions[MCP_VERSIONS] = {"", "2025-06-18", "2025-11-25", "2026-07-28"};

const char *mcp_version_name(enum mcp_version v)
{
	return versions[v];
}

enum mcp_version mcp_version_find(const char *name)
{
	for (int v = MCP_NONE + 1; v < MCP_VERSIONS; v++)
		if (strcmp(versions[v], name) == 0)
			return (enum mcp_version)v;
	return MCP_NONE;
}

/* ---- the head */

/* RFC 9110, 5.5. Returns the length. */
static size_t put_trimmed(char *out, size_t size, const char *raw)
{
	size_t n;

	raw += strspn(raw, " \t");
	n = strlen(raw);
	while (n && (raw[n - 1] == ' ' || raw[n - 1] == '\t'))
		n--;
	return text_put_bytes(out, size, raw, n);
}

void mcp_field_put(struct mcp_field *f, const char *raw)
{
	f->given = true;
	(void)put_trimmed(f->text, sizeof(f->text), raw);
}

void mcp_head_name(struct mcp_head *h, const char *raw)
{
	static const char before[] = "=?base64?", behind[] = "?=";
	size_t n, frame = sizeof(before) - 1 + sizeof(behind) - 1;
	uint8_t *bytes = NULL;
	size_t len = 0;

	h->name_given = true;
	n = put_trimmed(h->name, sizeof(h->name), raw);
	raw += strspn(raw, " \t");
	if (n < frame || strncasecmp(raw, before, sizeof(before) - 1) != 0 || strncmp(raw + n - 2, behind, 2) != 0 ||
	    base64_decode(raw + sizeof(before) - 1, n - frame, false, &bytes, &len))
		return;
	if (len < sizeof(h->name) && !memchr(bytes, 0, len)) {
		memcpy(h->name, bytes, len);
		h->name[len] = '\0';
	}
	free(bytes);
}

bool mcp_host_name(const char *text, char *out, size_t size)
{
	const char *scheme = strstr(text, "://"), *p = scheme ? scheme + 3 : text;
	bool bracket = *p == '[';
	size_t n;

	p += bracket;
	n = strcspn(p, bracket ? "]" : ":/");
	if (n == 0 || n >= size)
		return false;
	memcpy(out, p, n);
	out[n] = '\0';
	return true;
}

bool mcp_accepts(const char *accept, const char *type)
{
	const char *slash = strchr(type, '/');
	size_t major = (size_t)(slash - type) + 1, whole = strlen(type);

	for (const char *p = accept; *p; p += strcspn(p, ","), p += *p == ',') {
		size_t n;

		p += strspn(p, " \t");
		n = strcspn(p, ",; \t");
		if ((n == 3 && strncmp(p, "*/*", 3) == 0) || (n == whole && strncasecmp(p, type, n) == 0) ||
		    (n == major + 1 && p[major] == '*' && strncasecmp(p, type, major) == 0))
			return true;
	}
	return false;
}

bool mcp_is_json(const char *content_type)
{
	static const char json[] = "application/json";
	size_t n = strcspn(content_type, "; \t");

	return n == sizeof(json) - 1 && strncasecmp(content_type, json, n) == 0;
}

/* ---- the message */

static bool id_fits(const json_t *id)
{
	return json_is_integer(id) || (json_is_string(id) && json_string_length(id) <= 512);
}

static enum mcp_shape message_shape(struct mcp_message *m)
{
	const json_t *version = json_object_get(m->root, "jsonrpc"), *id = json_object_get(m->root, "id");
	const json_t *method = json_object_get(m->root, "method"), *params = json_object_get(m->root, "params");

	if (json_is_array(m->root))
		return MCP_BATCH;
	if (!json_is_string(version) || strcmp(json_string_value(version), "2.0") != 0)
		return MCP_NO_MESSAGE;
	if (id && id_fits(id))
		m->id = id;
	if (!method) {
		bool one = !json_object_get(m->root, "result") != !json_object_get(m->root, "error");

		m->kind = MCP_RESPONSE;
		return one && (m->id || json_object_get(m->root, "error")) ? MCP_GOOD : MCP_NO_MESSAGE;
	}
	if (!json_is_string(method) || (params && !json_is_object(params)) || (id && !m->id))
		return MCP_NO_MESSAGE;
	m->method = json_string_value(method);
	m->params = params;
	m->meta = json_object_get(params, "_meta");
	m->meta = json_is_object(m->meta) ? m->meta : NULL;
	m->claim = json_object_get(m->meta, MCP_META_VERSION);
	m->kind = id ? MCP_REQUEST : MCP_NOTIFICATION;
	return MCP_GOOD;
}

void mcp_message_read(const void *p, size_t n, size_t max, struct mcp_message *out)
{
	memset(out, 0, sizeof(*out));
	if (json_parse(p, n, max, &out->root, NULL)) {
		out->root = NULL;
		out->shape = MCP_NO_JSON;
		return;
	}
	out->shape = message_shape(out);
}

void mcp_message_finish(struct mcp_message *m)
{
	if (m)
		json_decref(m->root);
}

bool mcp_is_new_era(const struct mcp_head *h, const struct mcp_message *m)
{
	return m->claim || strcmp(h->version.text, versions[MCP_2026_07_28]) == 0;
}

const char *mcp_message_name(const struct mcp_message *m)
{
	static const struct {
		const char *method, *key;
	} rows[] = {{"tools/call", "name"},  {"prompts/get", "name"},    {"resources/read", "uri"},
		    {"tasks/get", "taskId"}, {"tasks/update", "taskId"}, {"tasks/cancel", "taskId"}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (m->method && strcmp(m->method, rows[i].method) == 0)
			return json_get_text(m->params, rows[i].key);
	return NULL;
}

bool mcp_answers_fit(const json_t *responses)
{
	const char *key;
	json_t *v;

	if (!json_is_object(responses))
		return false;
	json_object_foreach((json_t *)(uintptr_t)responses, key, v) if (!json_is_object(v)) return false;
	return true;
}

/* ---- answers */

static json_t *id_of(const json_t *id)
{
	return id ? json_incref((json_t *)(uintptr_t)id) : json_null();
}

json_t *mcp_result(const json_t *id, json_t *result)
{
	return json_pack("{s:s,s:o,s:o}", "jsonrpc", "2.0", "id", id_of(id), "result", result);
}

json_t *mcp_error(const json_t *id, int code, const char *message, json_t *data)
{
	return json_pack("{s:s,s:o,s:{s:i,s:s,s:o*}}", "jsonrpc", "2.0", "id", id_of(id), "error", "code", code,
			 "message", message, "data", data);
}

json_t *mcp_new_era(json_t *result)
{
	if (!result)
		return NULL;
	if (!json_object_get(result, "resultType"))
		json_object_set_new(result, "resultType", json_string("complete"));
	if (!json_object_get(result, "_meta"))
		json_object_set_new(result, "_meta", json_object());
	json_object_set_new(json_object_get(result, "_meta"), MCP_META_SERVER,
			    json_pack("{s:s,s:s}", "name", "muxd", "version", MUXD_VERSION));
	return result;
}

json_t *mcp_cached(json_t *result, unsigned ttl_ms)
{
	if (!result)
		return NULL;
	json_object_set_new(result, "ttlMs", json_integer((json_int_t)ttl_ms));
	json_object_set_new(result, "cacheScope", json_string("private"));
	return result;
}
