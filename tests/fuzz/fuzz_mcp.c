// tier: check
/* A request of a stranger for MCP: lines of its head (a letter says which field), an empty line, and the body. */
#include "base/err.h"
#include "base/text.h"
#include "muxd/doors/https/mcp/log_level.h"
#include "muxd/doors/https/mcp/resources.h"
#include "muxd/doors/https/mcp/rules.h"
#include "muxd/doors/https/mcp/session.h"
#include "muxd/doors/https/mcp/tools.h"
#include "muxd/hub/inside/inside_question.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool has_method(const char *method)
{
	return strncmp(method, "tools/", 6) == 0 || strncmp(method, "tasks/", 6) == 0;
}

static void field_put(struct mcp_head *h, char which, const char *line)
{
	static const char letters[] = "atsvml";
	struct mcp_field *const fields[] = {&h->accept, &h->type, &h->session, &h->version, &h->method, &h->last_event};
	const char *at = which ? strchr(letters, which) : NULL;

	if (which == 'n')
		mcp_head_name(h, line);
	if (!at)
		return;
	mcp_field_put(fields[at - letters], line);
}

static size_t head_read(struct mcp_head *h, const uint8_t *data, size_t size)
{
	size_t at = 0;

	while (at < size && data[at] != '\n') {
		const uint8_t *end = memchr(data + at, '\n', size - at);
		size_t n = end ? (size_t)(end - data) - at : size - at;
		char line[300];

		text_put_bytes(line, sizeof(line), data + at + 1, n - 1);
		field_put(h, (char)data[at], line);
		at += n + (end != NULL);
	}
	return at < size ? at + 1 : size;
}

/* Arguments that were found good become a call, whose names were among them. */
static void call_try(const struct mcp_message *m)
{
	const struct mcp_tool *t = mcp_tool_find(json_get_text(m->params, "name"));
	const json_t *args = json_object_get(m->params, "arguments");
	struct mcp_ask ask;
	struct err e = {0};
	int rc = t ? mcp_args_check(t, args, &e) : ERR_INVAL;

	if (rc && t && !e.message[0])
		abort();
	if (rc)
		return;
	rc = mcp_ask_make(t, args, "exec", 1024 * 1024, &ask, &e);
	if (rc == 0 && strchr(t->pattern, '{') && !ask.names[0])
		abort();
	mcp_ask_finish(&ask);
}

/* Answers to questions of a server inside, and what a client declares that it can answer. */
static void answers_try(const struct mcp_message *m)
{
	const json_t *responses = json_object_get(m->params, "inputResponses");
	const json_t *declared = json_object_get(m->meta, MCP_META_CAPABILITIES);
	unsigned bits = question_declared(declared);
	json_t *again = question_capabilities(bits);

	if (question_declared(again) != bits || bits & ~(unsigned)QUESTION_KINDS)
		abort();
	json_decref(again);
	if (mcp_answers_fit(responses) && !json_is_object(responses))
		abort();
	if (m->shape == MCP_GOOD && m->kind == MCP_RESPONSE && question_answer_fits(m->root) &&
	    !json_object_get(m->root, "result") == !json_object_get(m->root, "error"))
		abort();
	if (mcp_log_level(json_get_text(m->meta, MCP_META_LOG_LEVEL)) > MCP_LOG_NONE)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct mcp_head head;
	struct mcp_message m;
	static const struct grant whose = {.kind = GRANT_AGENT, .scopes = SCOPE_ROUNDS, .principal = "principal"};
	static struct mcp_uri uri;
	struct mcp_session s;
	struct mcp_fault f = {0};
	char name[64], again[MCP_SESSION_SZ];
	size_t at;

	memset(&head, 0, sizeof(head));
	at = head_read(&head, data, size);
	mcp_message_read(data + at, size - at, 1024 * 1024, &m);
	struct mcp_view v = {.verb = MCP_POST, .head = &head, .message = &m, .has_method = has_method};

	if (mcp_uri_parse(head.name, &uri) == 0 && (!uri.first[0] || !uri.rest[0]))
		abort();
	(void)mcp_host_name(head.session.text, name, sizeof(name));
	if (mcp_session_parse(head.session.text, &whose, &s) == 0) {
		mcp_session_format(&s, again);
		if (strcmp(again, head.session.text) != 0)
			abort();
		v.session_known = true;
	}
	v.new_era = mcp_is_new_era(&head, &m);
	if (mcp_rules_look(&v, &f)) {
		if (f.status < 400 || !f.text)
			abort();
		json_decref(f.data);
	} else if (!m.method && m.kind != MCP_RESPONSE) {
		abort();
	} else if (m.method) {
		call_try(&m);
	}
	answers_try(&m);
	mcp_message_finish(&m);
	return 0;
}
