/* What the hub has done by the monitor: grants signed, screen workers started. */
#include "muxd/net/asks.h"

#include "base/err.h"
#include "base/json.h"
#include "muxd/net/ipc.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- grants */

struct issue {
	hub_issue_done *done;
	void *arg;
	struct grant grant; /* as asked for; the answer adds id and times */
};

static void parse_grant(const json_t *o, struct grant *g)
{
	const char *s;

	if ((s = json_string_value(json_object_get(o, "id"))))
		(void)id_parse(s, &g->id);
	g->issued_ns = json_integer_value(json_object_get(o, "issued_ns"));
	g->not_before_ns = json_integer_value(json_object_get(o, "not_before_ns"));
	g->expires_ns = json_integer_value(json_object_get(o, "expires_ns"));
}

static void asks_on_issued(void *arg, int rc, const struct err *e, const json_t *json, int fd)
{
	struct issue *i = arg;
	const char *token = json_string_value(json_object_get(json, "token"));
	struct err here = {0};

	if (fd >= 0)
		close(fd);
	if (!rc && !token)
		rc = err_set(&here, ERR_INTERNAL, "the monitor's grant has no token"), e = &here;
	if (!rc)
		parse_grant(json_object_get(json, "grant"), &i->grant);
	i->done(i->arg, rc, rc ? e : NULL, token, rc ? NULL : &i->grant);
	free(i);
}

void net_ask_grant(void *ctx, const struct grant *wanted, uint64_t ttl_ns, const char *via, hub_issue_done *done,
		   void *arg)
{
	struct issue *i = malloc(sizeof(*i));
	struct err e = {0};
	char scopes[128];
	json_t *grant;

	if (!i) {
		err_set(&e, ERR_NOMEM, "no memory");
		done(arg, ERR_NOMEM, &e, NULL, NULL);
		return;
	}
	i->done = done;
	i->arg = arg;
	i->grant = *wanted;
	grant_scopes_format(wanted->scopes, scopes, sizeof(scopes));
	grant = json_pack("{s:s,s:s,s:s,s:s,s:s,s:I,s:s}", "principal", wanted->principal, "kind",
			  grant_kind_name(wanted->kind), "agent", wanted->agent, "scopes", scopes, "task", wanted->task,
			  "ttl_ns", (json_int_t)ttl_ns, "reason", wanted->reason);
	if (grant && grant_files_put(grant, &wanted->files)) {
		json_decref(grant);
		grant = NULL;
	}
	ipc_ask(ctx, json_pack("{s:s,s:s,s:o}", "op", "grant.issue", "via", via, "grant", grant), asks_on_issued, i);
}

struct holder_ask {
	hub_ask_done *done;
	void *arg;
};

static void asks_on_holder(void *arg, int rc, const struct err *e, const json_t *json, int fd)
{
	struct holder_ask *a = arg;

	if (fd >= 0)
		close(fd);
	a->done(a->arg, rc, rc ? e : NULL, rc ? NULL : (json_t *)json);
	free(a);
}

void net_ask_holder(void *ctx, json_t *question, hub_ask_done *done, void *arg)
{
	struct holder_ask *a = question ? malloc(sizeof(*a)) : NULL;
	struct err e = {0};

	if (!a) {
		json_decref(question);
		err_set(&e, ERR_NOMEM, "no memory");
		done(arg, ERR_NOMEM, &e, NULL);
		return;
	}
	*a = (struct holder_ask){done, arg};
	ipc_ask(ctx, question, asks_on_holder, a);
}

/* ---- screen workers, which the monitor starts */

struct screen_job {
	hub_screen_done *done;
	void *arg;
};

static void asks_on_screen(void *arg, int rc, const struct err *e, const json_t *json, int fd)
{
	struct screen_job *j = arg;
	struct err here = {0};

	(void)json;
	if (!rc && fd < 0)
		rc = err_set(&here, ERR_INTERNAL, "the monitor's answer has no descriptor"), e = &here;
	if (rc && fd >= 0)
		close(fd);
	j->done(j->arg, rc, rc ? e : NULL, rc ? -1 : fd);
	free(j);
}

void net_ask_screen(void *ctx, hub_screen_done *done, void *arg)
{
	struct screen_job *j = malloc(sizeof(*j));
	struct err e = {0};

	if (!j) {
		err_set(&e, ERR_NOMEM, "no memory");
		done(arg, ERR_NOMEM, &e, -1);
		return;
	}
	*j = (struct screen_job){.done = done, .arg = arg};
	ipc_ask(ctx, json_pack("{s:s}", "op", "screen.start"), asks_on_screen, j);
}

void net_ask_ahead(void *ctx)
{
	(void)ipc_tell(ctx, json_pack("{s:s}", "op", "ahead"));
}
