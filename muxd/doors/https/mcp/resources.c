#include "muxd/doors/https/mcp/resources.h"
#include "base/hex.h"
#include "base/text.h"
#include "muxd/doors/https/mcp/rules.h"

#include <stdlib.h>
#include <string.h>

#define SCHEME      "muxd://"
#define CONTENT_MAX (1024u * 1024)
#define PAGE        "100"
#define NO_RESOURCE "no such resource, or it is another's"
#define NOT_FOUND   (-32002) /* of the old era */
#define TTL_MS      0        /* files change */
#define UTF8_REST   3        /* bytes of a character behind its first */

/* ---- addresses */

static const struct {
	const char *prefix;
	uint32_t scopes; /* one of these */
	const char *uri, *name, *text;
} kinds[] = {
    [RESOURCE_FILE] = {SCHEME "workspace/", SCOPE_FILES, SCHEME "workspace/{session_id}/{+path}", "workspace-file",
		       "A file of a sandbox's workspace, 1 MiB at most."},
    [RESOURCE_ARTIFACT] = {SCHEME "artifacts/", SCOPE_FILES, SCHEME "artifacts/{task_id}/{name}", "artifact",
			   "An artifact of a task, its first MiB."},
    [RESOURCE_OUTPUT] = {SCHEME "rounds/", SCOPE_ROUNDS | SCOPE_OBSERVE | SCOPE_REPLAY,
			 SCHEME "rounds/{round_id}/{stream}{?offset,limit}", "round-output",
			 "The output of a round (stdout or stderr), by range."},
};

/* n characters of an address, %XX decoded. */
static int uri_decode(const char *p, size_t n, char *out, size_t size)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		int c = (unsigned char)p[i];

		if (c == '%') {
			int high = i + 2 < n ? hex_value(p[i + 1]) : -1, low = high >= 0 ? hex_value(p[i + 2]) : -1;

			c = low < 0 ? 0 : high * 16 + low;
			i += 2;
		}
		if (c == 0 || at + 1 >= size)
			return ERR_INVAL;
		out[at++] = (char)c;
	}
	out[at] = '\0';
	return at ? 0 : ERR_INVAL;
}

static int64_t number_of(const char *query, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = query; *p; p += strcspn(p, "&"), p += *p == '&')
		if (strncmp(p, key, n) == 0 && p[n] == '=' && strspn(p + n + 1, "0123456789") < 19)
			return strtoll(p + n + 1, NULL, 10);
	return -1;
}

int mcp_uri_parse(const char *uri, struct mcp_uri *out)
{
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		size_t n = strlen(kinds[k].prefix), first, rest;
		const char *p = uri + n, *query;

		if (strncmp(uri, kinds[k].prefix, n) != 0)
			continue;
		out->kind = (enum mcp_resource_kind)k;
		first = strcspn(p, "/?");
		rest = p[first] == '/' ? strcspn(p + first + 1, "?") : 0;
		query = rest && p[first + 1 + rest] ? p + first + 2 + rest : "";
		out->offset = number_of(query, "offset");
		out->limit = number_of(query, "limit");
		return rest && uri_decode(p, first, out->first, sizeof(out->first)) == 0
			   ? uri_decode(p + first + 1, rest, out->rest, sizeof(out->rest))
			   : ERR_INVAL;
	}
	return ERR_INVAL;
}

static int put_encoded(struct buf *b, const char *s)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
	int rc = 0;

	for (; *s && rc == 0; s++)
		rc = strchr(plain, *s) ? buf_append(b, s, 1) : buf_printf(b, "%%%02X", (unsigned)(unsigned char)*s);
	return rc;
}

/* ---- lists */

json_t *mcp_resource_templates(const struct grant *g)
{
	json_t *list = json_array();

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		if (kinds[k].scopes & g->scopes)
			json_array_append_new(list, json_pack("{s:s,s:s,s:s}", "uriTemplate", kinds[k].uri, "name",
							      kinds[k].name, "description", kinds[k].text));
	return json_pack("{s:o}", "resourceTemplates", list);
}

static json_t *listed(const char *task, const json_t *artifact)
{
	const char *name = json_get_text(artifact, "name"), *type = json_get_text(artifact, "media_type");
	struct buf uri;
	json_t *o;

	buf_init(&uri, 4096);
	(void)buf_append_str(&uri, kinds[RESOURCE_ARTIFACT].prefix);
	(void)put_encoded(&uri, task);
	(void)buf_append_str(&uri, "/");
	(void)put_encoded(&uri, name);
	o = json_pack("{s:s,s:s,s:I}", "uri", buf_cstr(&uri) ?: "", "name", name, "size",
		      (json_int_t)json_integer_value(json_object_get(artifact, "size")));
	if (*type)
		json_object_set_new(o, "mimeType", json_string(type));
	buf_finish(&uri);
	return o;
}

static json_t *cached(const struct mcp_question *q, json_t *o)
{
	return q->new_era ? mcp_cached(o, TTL_MS) : o;
}

static json_t *resources_on_list(const struct mcp_question *q, const struct inner_answer *a, int *out_code,
				 const char **out_text)
{
	const json_t *artifacts = json_object_get(a->json, "artifacts"), *one;
	json_t *list;
	size_t i;

	if (a->rc) {
		*out_code = MCP_INTERNAL;
		*out_text = a->message;
		return NULL;
	}
	list = json_array();
	json_array_foreach((json_t *)(uintptr_t)artifacts, i, one) json_array_append_new(list, listed(q->text, one));
	one = json_array_get(artifacts, json_array_size(artifacts) - 1);
	list = json_pack("{s:o}", "resources", list);
	if (json_is_true(json_object_get(a->json, "more")) && one)
		json_object_set_new(list, "nextCursor", json_string(json_get_text(one, "name")));
	return cached(q, list);
}

void mcp_resources_list(struct mcp_question *q, const char *cursor)
{
	const struct grant *g = &q->who.rq->grant;
	struct inner_ask ask = {
	    .method = HTTP_GET, .pattern = "/v1/tasks/{task}/artifacts", .names = {g->task}, .query = {"limit=" PAGE}};
	char after[160];

	if (!g->task[0] || !(g->scopes & SCOPE_FILES)) {
		mcp_question_reply(q, cached(q, json_pack("{s:[]}", "resources")));
		return;
	}
	text_format(after, sizeof(after), "after=%s", cursor);
	ask.query[1] = *cursor ? after : NULL;
	q->then = resources_on_list;
	q->text = g->task;
	mcp_question_ask(q, &ask);
}

/* ---- one */

/* more: it is the beginning of something longer, which may have cut its last character. */
static void content_put(json_t *o, const uint8_t *p, size_t n, bool more)
{
	json_t *coded = json_object();

	if (more && n > UTF8_REST)
		n = text_cut(p, n, n - UTF8_REST);
	if (json_set_bytes(coded, "data", "encoding", p ? p : (const uint8_t *)"", n) == 0)
		json_object_set(o, strcmp(json_get_text(coded, "encoding"), "base64") == 0 ? "blob" : "text",
				json_object_get(coded, "data"));
	json_decref(coded);
}

static void type_put(json_t *o, const char *headers)
{
	const char *p = strstr(headers, "Muxd-Media-Type: ");

	if (p)
		json_object_set_new(o, "mimeType", json_stringn(p + 17, strcspn(p + 17, "\r\n")));
}

/* Where there is more than what is given, _meta says so, and how many bytes there are where that is known. */
static void cut_put(json_t *o, const struct inner_answer *a)
{
	const json_t *total = json_object_get(a->json, "total_bytes"), *next = json_object_get(a->json, "next_offset");
	const json_t *size = total ? total : json_object_get(a->json, "size");
	bool cut = a->more || json_is_true(json_object_get(a->json, "truncated"));
	json_t *meta;

	if (!cut && (!next || json_integer_value(next) >= json_integer_value(total)))
		return;
	meta = json_pack("{s:b}", "truncated", 1);
	if (size)
		json_object_set_new(meta, "size", json_integer(json_integer_value(size)));
	json_object_set_new(o, "_meta", meta);
}

static json_t *resources_on_read(const struct mcp_question *q, const struct inner_answer *a, int *out_code,
				 const char **out_text)
{
	json_t *o;

	if (a->rc) {
		bool absent = err_http_status(a->rc) == 404 || a->rc == ERR_INVAL;

		*out_code = !absent ? MCP_INTERNAL : q->new_era ? MCP_PARAMS : NOT_FOUND;
		*out_text = absent ? NO_RESOURCE : a->message;
		return NULL;
	}
	o = json_pack("{s:s}", "uri", q->uri);
	if (a->json)
		json_object_set(o, strcmp(json_get_text(a->json, "encoding"), "base64") == 0 ? "blob" : "text",
				json_object_get(a->json, "data"));
	else
		content_put(o, a->content, a->content_len, a->more);
	if (!q->verb)
		cut_put(o, a);
	type_put(o, a->headers);
	return cached(q, json_pack("{s:[o]}", "contents", o));
}

/* The call that an address is. query and body are the caller's room. */
static void ask_of(const struct mcp_uri *u, struct inner_ask *ask, char query[3][64], struct buf *body)
{
	json_t *o;

	ask->names[0] = u->first;
	ask->content_max = CONTENT_MAX;
	switch (u->kind) {
	case RESOURCE_FILE:
		ask->method = HTTP_POST;
		ask->pattern = "/v1/agents/{agent}/fs/read";
		o = json_pack("{s:s}", "path", u->rest);
		(void)json_append(body, o);
		json_decref(o);
		ask->body = buf_ptr(body);
		ask->body_len = buf_len(body);
		break;
	case RESOURCE_ARTIFACT:
		ask->pattern = "/v1/tasks/{task}/artifacts/{name}";
		ask->names[1] = u->rest;
		break;
	default:
		ask->pattern = "/v1/rounds/{id}/output";
		text_format(query[0], 64, "stream=%.40s", u->rest);
		text_format(query[1], 64, "offset=%lld", u->offset < 0 ? 0LL : (long long)u->offset);
		text_format(query[2], 64, "limit=%lld", u->limit < 0 ? (long long)CONTENT_MAX : (long long)u->limit);
		for (size_t i = 0; i < 3; i++)
			ask->query[i] = query[i];
		break;
	}
}

void mcp_resource_read(struct mcp_question *q, const char *uri)
{
	struct inner_ask ask = {.method = HTTP_GET};
	char query[3][64];
	struct mcp_uri u;
	struct buf body;

	q->uri = uri;
	if (mcp_uri_parse(uri, &u)) {
		mcp_question_refuse(q, q->new_era ? MCP_PARAMS : NOT_FOUND, NO_RESOURCE);
		return;
	}
	buf_init(&body, 16384);
	ask_of(&u, &ask, query, &body);
	q->verb = u.limit >= 0; /* a part was asked for */
	q->then = resources_on_read;
	mcp_question_ask(q, &ask);
	buf_finish(&body);
}
