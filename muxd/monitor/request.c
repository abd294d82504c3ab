#include "muxd/monitor/request.h"

#include "base/err.h"
#include "base/err_json.h"
#include "muxd/monitor/issue.h"
#include "muxd/monitor/listen.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *request_error(int rc, const struct err *e)
{
	json_t *o = json_pack("{s:i, s:{s:s, s:s, s:s}}", "rc", rc, "error", "code", err_name(rc), "message",
			      e && e->message[0] ? e->message : err_name(rc), "hint", err_hint(rc));

	err_share_send(e, json_object_get(o, "error"));
	return o;
}

static int take_scopes(const json_t *o, uint32_t *out, struct err *e)
{
	const json_t *v = json_object_get(o, "scopes");
	uint32_t all = 0, one;
	size_t i;
	const json_t *item;
	int rc;

	if (!v || json_is_null(v))
		return 0;
	if (json_is_string(v))
		return *json_string_value(v) ? grant_scopes_parse(json_string_value(v), out, e) : 0;
	if (!json_is_array(v))
		return err_set(e, ERR_INVAL, "scopes is neither a text nor a list");
	json_array_foreach(v, i, item)
	{
		if (!json_is_string(item))
			return err_set(e, ERR_INVAL, "scopes holds something that is no text");
		rc = grant_scopes_parse(json_string_value(item), &one, e);
		if (rc)
			return rc;
		all |= one;
	}
	*out = all;
	return 0;
}

int request_wish(const json_t *o, struct wish *w, struct err *e)
{
	const char *kind = NULL, *reason = NULL, *task = NULL;
	int64_t ttl = 0;
	int rc;

	if ((rc = json_opt_str(o, "reason", &reason, e)))
		return rc;
	if (!reason)
		return err_set(e, ERR_REASON_REQUIRED, "reason is missing");
	if ((rc = json_need_str(o, "principal", &w->principal, e)) || (rc = json_need_str(o, "agent", &w->agent, e)) ||
	    (rc = json_need_str(o, "kind", &kind, e)) || (rc = grant_kind_parse(kind, &w->kind, e)) ||
	    (rc = take_scopes(o, &w->scopes, e)) || (rc = json_opt_str(o, "task", &task, e)) ||
	    (rc = json_opt_int(o, "ttl_ns", 0, INT64_MAX, &ttl, e)))
		return rc;
	if (json_is_integer(json_object_get(o, "ttl_ns")) && ttl == 0)
		return err_set(e, ERR_INVAL, "ttl must be longer than nothing");
	if ((rc = grant_files_take(o, &w->files, e)) || (rc = grant_bounds_take(o, &w->bounds, e)))
		return rc;
	w->reason = reason;
	w->task = task && *task ? task : NULL;
	w->ttl_ns = (uint64_t)ttl;
	return 0;
}

int request_renewal(const json_t *o, struct wish *w, struct err *e)
{
	int64_t ttl = 0;
	int rc = json_opt_str(o, "reason", &w->reason, e);

	if (rc == 0 && !w->reason)
		rc = err_set(e, ERR_REASON_REQUIRED, "reason is missing");
	if (rc == 0)
		rc = json_opt_int(o, "ttl_ns", 1, INT64_MAX, &ttl, e);
	w->ttl_ns = (uint64_t)ttl;
	return rc;
}

int request_child(const json_t *o, struct wish *w, struct err *e)
{
	const char *kind = NULL;
	int rc = request_renewal(o, w, e);

	if (rc || (rc = json_opt_str(o, "principal", &w->principal, e)) ||
	    (rc = json_opt_str(o, "agent", &w->agent, e)) || (rc = json_opt_str(o, "task", &w->task, e)) ||
	    (rc = json_opt_str(o, "kind", &kind, e)) || (rc = take_scopes(o, &w->scopes, e)))
		return rc;
	w->kind_given = kind != NULL;
	rc = kind ? grant_kind_parse(kind, &w->kind, e) : 0;
	if (rc == 0)
		rc = grant_files_take(o, &w->files, e);
	return rc ? rc : grant_bounds_take(o, &w->bounds, e);
}

int request_add_doors(json_t *o, const char *agent, const char *token, const char *https, const char *ssh)
{
	char host[ADDRESS_MAX], *url = NULL, *command = NULL;
	unsigned port;
	int rc = ERR_NOMEM;

	address_for_client(https, host, &port);
	if (asprintf(&url, strchr(host, ':') ? "https://[%s]:%u/#%s" : "https://%s:%u/#%s", host, port, token) < 0)
		return ERR_NOMEM;
	address_for_client(ssh, host, &port);
	if (asprintf(&command, "ssh -p %u %s@%s", port, agent, host) < 0)
		command = NULL;
	/* A grant for every agent logs in as one of them: which, only its holder knows. */
	if (command && json_object_set_new(o, "web_url", json_string(url)) == 0 &&
	    json_object_set_new(o, "ssh_command", strchr(agent, '*') ? json_null() : json_string(command)) == 0)
		rc = 0;
	OPENSSL_cleanse(url, strlen(url));
	free(url);
	free(command);
	return rc;
}
