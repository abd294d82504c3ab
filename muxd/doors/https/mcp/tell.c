/* Answers of the API, as the structured content of tools. */
#include "base/text.h"
#include "muxd/doors/https/mcp/tools.h"
#include "muxd/doors/https/stream_text.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_MAX (4u * 1024 * 1024)

static json_int_t total_of(const json_t *stream)
{
	return json_integer_value(json_object_get(stream, "total_bytes"));
}

static json_t *tell_text_of(const json_t *stream)
{
	char gap[128];

	text_format(gap, sizeof(gap), "\n[%lld bytes in all; some are left out here: sandbox.round.output has them]\n",
		    (long long)total_of(stream));
	return stream_text(stream, TEXT_MAX, gap, "");
}

static void put_streams(json_t *o, const json_t *ours)
{
	static const char *const names[][3] = {{"stdout", "stdout_truncated", "stdout_bytes"},
					       {"stderr", "stderr_truncated", "stderr_bytes"}};

	for (size_t i = 0; i < 2; i++) {
		const json_t *s = json_object_get(ours, names[i][0]);

		json_object_set_new(o, names[i][0], tell_text_of(s));
		json_object_set_new(o, names[i][1], json_boolean(json_is_true(json_object_get(s, "truncated"))));
		json_object_set_new(o, names[i][2], json_integer(total_of(s)));
	}
}

static json_t *tell_value_of(const json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	return v ? json_incref(v) : json_null();
}

json_t *mcp_tell_round(const json_t *round)
{
	const json_t *exit = json_object_get(round, "exit");
	const char *cause = json_get_text(exit, "cause"), *message = json_get_text(exit, "message");
	json_t *o = json_pack("{s:s,s:s,s:o,s:o,s:o,s:b,s:o}", "round_id", json_get_text(round, "round_id"), "state",
			      json_get_text(round, "state"), "exit_code", tell_value_of(exit, "code"), "signal",
			      tell_value_of(exit, "signal"), "cause", tell_value_of(exit, "cause"), "timed_out",
			      strcmp(cause, "timeout") == 0 || strcmp(cause, "idle_timeout") == 0, "duration_ms",
			      tell_value_of(round, "duration_ms"));

	put_streams(o, round);
	if (*message)
		json_object_set_new(o, "message", json_string(message));
	return o;
}

/* The address of a port is the daemon's own, with two fields in the head of the request (docs/api.md, "Ports"). */
json_t *mcp_tell_ports(const json_t *agent)
{
	const char *name = json_get_text(agent, "agent");
	json_t *ports = json_array(), *one;
	size_t i;

	json_array_foreach(json_object_get(agent, "endpoints"), i, one)
	{
		char port[24];
		json_t *p = json_copy(one);

		text_format(port, sizeof(port), "%lld", (long long)json_integer_value(json_object_get(one, "port")));
		json_object_set_new(p, "headers", json_pack("{s:s,s:s}", "X-Sandbox-ID", name, "X-Sandbox-Port", port));
		json_array_append_new(ports, p);
	}
	return json_pack("{s:s,s:s,s:o}", "session_id", name, "state", json_get_text(agent, "state"), "ports", ports);
}

json_t *mcp_tell_execution(const json_t *execution)
{
	static const char *const keys[] = {"execution_id", "state", "cause",      "exit_code",
					   "results",      "error", "duration_ms"};
	json_t *o = json_object();

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		json_object_set_new(o, keys[i], tell_value_of(execution, keys[i]));
	put_streams(o, execution);
	return o;
}

/* The value behind a field's name in lines of a head, or "". */
static void field_of(const char *headers, const char *name, char *out, size_t size)
{
	const char *p = strstr(headers, name);
	size_t n;

	out[0] = '\0';
	if (!p)
		return;
	p += strlen(name);
	n = strcspn(p, "\r\n");
	text_put_bytes(out, size, p, n);
}

json_t *mcp_tell_screen(const uint8_t *p, size_t n, const char *headers)
{
	char offset[24], size[24], cursor[24];

	field_of(headers, "Muxd-Offset: ", offset, sizeof(offset));
	field_of(headers, "Muxd-Size: ", size, sizeof(size));
	field_of(headers, "Muxd-Cursor: ", cursor, sizeof(cursor));
	return json_pack("{s:o,s:I,s:s,s:s}", "text", n ? json_stringn((const char *)p, n) : json_string(""), "offset",
			 (json_int_t)strtoll(offset, NULL, 10), "size", size, "cursor", cursor);
}

json_t *mcp_tell_bytes(const uint8_t *p, size_t n, bool more, const char *headers)
{
	char tag[80], range[96];
	const char *slash;
	long long total = (long long)n;
	json_t *o = json_object();

	field_of(headers, "ETag: \"", tag, sizeof(tag));
	tag[strcspn(tag, "\"")] = '\0';
	field_of(headers, "Content-Range: ", range, sizeof(range));
	slash = strrchr(range, '/');
	if (slash)
		total = strtoll(slash + 1, NULL, 10);
	if (!o || json_set_bytes(o, "data", "encoding", p ? p : (const uint8_t *)"", n)) {
		json_decref(o);
		return NULL;
	}
	json_object_set_new(o, "bytes", json_integer((json_int_t)n));
	if (!more)
		json_object_set_new(o, "total_bytes", json_integer(total));
	json_object_set_new(o, "truncated", json_boolean(more || total > (long long)n));
	if (*tag)
		json_object_set_new(o, "sha256", json_string(tag));
	return o;
}
