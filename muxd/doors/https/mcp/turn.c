#include "muxd/doors/https/mcp/turn.h"

#include "base/err.h"
#include "base/text.h"
#include "muxd/doors/https/mcp/stream.h"

#include <openssl/sha.h>
#include <string.h>

void mcp_send(struct http_exchange *x, int status, json_t *o)
{
	if (o)
		http_reply_json_as(x, status, o);
	else
		http_reply_error(x, ERR_NOMEM, NULL);
	json_decref(o);
}

void mcp_turn_reply(const struct mcp_turn *t, json_t *result)
{
	if (t->new_era)
		result = mcp_new_era(result);
	mcp_send(t->x, 200, result ? mcp_result(t->m->id, result) : NULL);
}

void mcp_turn_refuse(const struct mcp_turn *t, int code, const char *message)
{
	mcp_send(t->x, 200, mcp_error(t->m->id, code, message, NULL));
}

void mcp_turn_notify(struct mcp_turn *t)
{
	const json_t *id = json_object_get(t->m->params, "requestId");

	if (t->has_session && t->m->method && strcmp(t->m->method, "notifications/cancelled") == 0 && id)
		mcp_stream_cancel(t->mcp->streams, &t->session, id, "its client cancelled the call");
	http_reply_text(t->x, 202, "application/json", "", 0);
}

void mcp_turn_exec_id(const struct mcp_turn *t, const char *where, char *out, size_t size)
{
	char session[ID_STR_LEN] = "", text[900];
	uint8_t digest[SHA256_DIGEST_LENGTH];
	struct id id;
	size_t at;

	out[0] = '\0';
	if (t->new_era && (!json_is_string(t->m->id) || id_parse(json_string_value(t->m->id), &id))) {
		if (id_new(&id) == 0)
			id_format(&id, out);
		return;
	}
	if (!t->new_era)
		id_format(&t->session.id, session);
	if (json_is_string(t->m->id))
		text_format(text, sizeof(text), "%s%s\ns%s", where, session, json_string_value(t->m->id));
	else
		text_format(text, sizeof(text), "%s%s\ni%lld", where, session, (long long)json_integer_value(t->m->id));
	SHA256((const uint8_t *)text, strlen(text), digest);
	at = text_put(out, size, "mcp-");
	for (size_t i = 0; i < 16; i++)
		at += text_format(out + at, size - at, "%02x", digest[i]);
}

bool mcp_turn_begin(struct mcp_turn *t, struct http_exchange *x, enum mcp_verb verb, const struct mcp_message *m,
		    bool (*has_method)(const char *method))
{
	const struct mcp_head *head = x->mcp_head;
	struct mcp_view v = {.verb = verb, .head = head, .message = m, .has_method = has_method};
	struct mcp_fault f;
	struct err e = {0};

	*t = (struct mcp_turn){.x = x, .mcp = x->mcp, .m = m};
	t->new_era = v.new_era = verb == MCP_POST && mcp_is_new_era(head, m);
	t->who = (struct mcp_caller){.hub = x->hub,
				     .api = x->api,
				     .metrics = x->metrics,
				     .rq = &x->rq,
				     .peer = x->peer,
				     .local = x->local,
				     .life = x->mcp->life};
	t->has_session = !t->new_era && head->session.given &&
			 mcp_session_parse(head->session.text, &x->rq.grant, &t->session) == 0 &&
			 !mcp_streams_ended(x->mcp->streams, &t->session);
	v.session_known = t->has_session;
	if (!mcp_rules_look(&v, &f))
		return false;
	if (f.status == 403) {
		err_set(&e, ERR_FORBIDDEN, "%s", f.text);
		(void)broker_verdict(x->hub, &x->rq, "mcp", &e);
	}
	mcp_send(x, f.status, mcp_error(m->id, (int)f.code, f.text, f.data));
	return true;
}
