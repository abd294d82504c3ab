#include "muxd/doors/https/handlers.h"
#include "muxd/hub/core/hub.h"

#include <ctype.h>

#define LIST_DEFAULT 100
#define LIST_MAX     1000

/* A filter of the list must be a word of its set: a typing error must not look like an empty list. */
static int one_of(const struct http_exchange *x, const char *key, const char *const *words, struct err *e)
{
	const char *s = http_query_str(x, key);

	if (!s)
		return 0;
	for (; *words; words++)
		if (strcmp(s, *words) == 0)
			return 0;
	return err_set(e, ERR_INVAL, "query parameter %s: \"%.40s\" is not known", key, s);
}

static int check_filters(const struct http_exchange *x, int64_t *limit, struct err *e)
{
	const char *kinds[] = {session_kind_name(SESSION_TERMINAL),
			       session_kind_name(SESSION_EXEC),
			       session_kind_name(SESSION_ROUND),
			       session_kind_name(SESSION_FILE),
			       session_kind_name(SESSION_PORT),
			       session_kind_name(SESSION_MCP),
			       NULL};
	const char *states[] = {session_state_name(SESSION_OPENING),   session_state_name(SESSION_RUNNING),
				session_state_name(SESSION_SUSPENDED), session_state_name(SESSION_ENDING),
				session_state_name(SESSION_ENDED),     NULL};
	const char *agent = http_query_str(x, "agent");
	int rc = one_of(x, "live", (const char *[]){"true", "false", NULL}, e);

	if (rc == 0)
		rc = one_of(x, "kind", kinds, e);
	if (rc == 0)
		rc = one_of(x, "state", states, e);
	if (rc == 0 && agent)
		rc = target_name_check(agent, e);
	return rc ? rc : http_query_int(x, "limit", 1, LIST_MAX, limit, e);
}

void rest_session_list(struct http_exchange *x)
{
	const char *live = http_query_str(x, "live");
	json_t *list = NULL, *result;
	int64_t limit = LIST_DEFAULT;
	struct err e = {0};
	int rc = check_filters(x, &limit, &e);

	if (rc == 0)
		rc = broker_sessions(x->hub, &x->rq,
				     &(struct session_filter){.agent = http_query_str(x, "agent"),
							      .state = http_query_str(x, "state"),
							      .kind = http_query_str(x, "kind"),
							      .live = live && *live == 't',
							      .limit = (size_t)limit},
				     &list, &e);
	if (rc) {
		http_reply_error(x, rc, &e);
		return;
	}
	result = json_is_array(list) ? json_pack("{s:o}", "sessions", list) : list;
	http_reply_result(x, 0, NULL, result);
	json_decref(result);
}

void rest_session_show(struct http_exchange *x)
{
	struct session_filter f = {.only = x->object, .limit = 1};
	json_t *list = NULL;
	struct err e = {0};
	int rc = broker_sessions(x->hub, &x->rq, &f, &list, &e);

	if (rc == 0 && (id_is_nil(&f.only) || json_array_size(list) == 0)) {
		rc = err_set(&e, ERR_NOT_FOUND, "no such session is at hand: /v1/recordings has those of the record");
		if (hub_session_find(x->hub, &f.only)) /* it is, and not for this grant */
			rc = broker_verdict(x->hub, &x->rq, "session", &e);
	}
	http_reply_result(x, rc, &e, json_array_get(list, 0));
	json_decref(list);
}

static bool blank(const char *s)
{
	while (isspace((unsigned char)*s))
		s++;
	return *s == '\0';
}

/* The session as it is now; its id and `ending` when it is forgotten already. */
static void terminate_reply(struct http_exchange *x, const struct id *id)
{
	struct session *s = hub_session_find(x->hub, id);
	json_t *o = s ? session_describe(s) : NULL;

	if (!o)
		o = json_pack("{s:s,s:s}", "id", x->params[0], "state", session_state_name(SESSION_ENDING));
	http_reply_result(x, 0, NULL, o);
	json_decref(o);
}

void rest_session_terminate(struct http_exchange *x)
{
	static const char *const keys[] = {"reason", NULL};
	const char *reason = "";
	json_t *o = NULL;
	struct err e = {0};
	int rc = rest_body_object(x, keys, true, &o, &e);

	if (rc == 0)
		rc = json_opt_str(o, "reason", &reason, &e);
	if (rc == 0 && blank(reason))
		rc = err_set(&e, ERR_REASON_REQUIRED, "reason is missing or empty");
	if (rc == 0 && strlen(reason) > GRANT_REASON_MAX)
		rc = err_set(&e, ERR_INVAL, "reason is longer than %d bytes", GRANT_REASON_MAX);
	if (rc == 0)
		rc = broker_terminate(x->hub, &x->rq, &x->object, reason, &e);
	if (rc)
		http_reply_error(x, rc, &e);
	else
		terminate_reply(x, &x->object);
	json_decref(o);
}
