#include "base/err_json.h"

#include "base/err.h"
#include "base/text.h"

json_t *err_share_json(const struct err_share *s)
{
	if (!s->limit[0])
		return NULL;
	return json_pack("{s:s,s:s,s:I,s:I}", "limit", s->limit, "of", s->of, "value", (json_int_t)s->value, "in_use",
			 (json_int_t)s->in_use);
}

/* The Status of Kubernetes. */
static json_t *kube_json(const struct err *e)
{
	return json_pack("{s:{s:i,s:s,s:s}}", "kubernetes", "code", e->kube.code, "reason", e->kube.reason, "message",
			 e->message + e->kube.at);
}

static json_t *policy_json(const struct err_policy *p)
{
	return json_pack("{s:s,s:s,s:s,s:s}", "operation", p->operation, "rule", p->rule, "version", p->version,
			 "needs", p->needs);
}

json_t *err_details_json(const struct err *e)
{
	json_t *o;

	if (!e)
		return NULL;
	o = e->kube.code ? kube_json(e) : err_share_json(&e->share);
	if (o && e->share.retry_s)
		(void)json_object_set_new(o, "retry_after", json_integer(e->share.retry_s));
	if (e->policy.version[0] && (o || (o = json_object())))
		(void)json_object_set_new(o, "policy", policy_json(&e->policy));
	if (e->begun.id[0] && (o || (o = json_object())))
		(void)json_object_set_new(o, e->begun.round ? "round_id" : "session_id", json_string(e->begun.id));
	return o;
}

void err_share_send(const struct err *e, json_t *o)
{
	json_t *s = e ? err_share_json(&e->share) : NULL;

	if (!s)
		return;
	(void)json_object_set_new(s, "retry_s", json_integer(e->share.retry_s));
	(void)json_object_set_new(o, "limit", s);
}

static uint64_t number_of(const json_t *o, const char *key)
{
	const json_t *n = json_object_get(o, key);

	return json_is_integer(n) && json_integer_value(n) > 0 ? (uint64_t)json_integer_value(n) : 0;
}

void err_share_take(const json_t *o, struct err *e)
{
	const json_t *s = json_object_get(o, "limit");
	uint64_t retry = number_of(s, "retry_s");

	if (!json_is_object(s))
		return;
	text_put(e->share.limit, sizeof(e->share.limit), json_get_text(s, "limit"));
	text_put(e->share.of, sizeof(e->share.of), json_get_text(s, "of"));
	e->share.value = number_of(s, "value");
	e->share.in_use = number_of(s, "in_use");
	e->share.retry_s = retry < 86400 ? (unsigned)retry : 86400;
}
