#include "muxd/doors/https/mcp/shown.h"

#include "base/text.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/mcp/mcp.h"
#include "muxd/doors/https/mcp/turn.h"
#include "muxd/doors/https/route.h"
#include "muxd/hub/broker/broker_shown.h"
#include "muxd/hub/core/hub.h"

#include <string.h>

#define RETRY_S 5

/* ---- a token */

static void mcp_shown_on_entered(void *arg, int rc, const struct err *e, const struct request *rq)
{
	struct http_exchange *x = arg;
	struct err gone = {0};

	if (rc == 0 && x->gone)
		rc = err_set(&gone, ERR_CANCELLED, "the client went away"), e = &gone;
	if (rc) {
		x->retry_after_s = rc == ERR_LIMIT ? RETRY_S : 0;
		http_reply_error(x, rc, e);
		return;
	}
	x->rq = *rq;
	x->rq.id = x->id;
	x->authenticated = true;
	x->route->handle(x);
}

/* A page of others' sent it: it is refused before its token is spent. */
static bool mcp_shown_refuses(struct http_exchange *x, const struct origin *from)
{
	static const struct mcp_message none;
	struct mcp_view v = {.verb = MCP_POST, .head = x->mcp_head, .message = &none};
	struct mcp_fault f;
	struct err e = {0};

	if (!(v.head->host_foreign || v.head->origin_foreign) || !mcp_rules_look(&v, &f))
		return false;
	err_set(&e, ERR_FORBIDDEN, "%s", f.text);
	broker_refuse(x->hub, NULL, 0, from, "origin", &e);
	mcp_send(x, f.status, mcp_error(NULL, (int)f.code, f.text, f.data));
	return true;
}

bool mcp_shown_waits(struct http_exchange *x)
{
	struct origin from = http_origin(x, "rest");

	if (x->authenticated)
		return false;
	if (!mcp_shown_refuses(x, &from))
		broker_shown_enter(x->hub, x->token ? x->token : "", x->body.cap, &from, mcp_shown_on_entered, x);
	return true;
}

/* ---- the document */

/* The scopes that a token may have to name, where any issuer looks for them in it. */
static json_t *scopes_of(const struct conf *c)
{
	json_t *list = NULL;
	uint32_t all = 0;
	char text[GRANT_SCOPES_TEXT];

	for (const struct conf_issuer *x = NULL; (x = conf_issuer_shown(c, x ? x->name : NULL));) {
		uint32_t one = 0;

		if (x->scopes_claim && grant_scopes_parse(x->scopes, &one, NULL) == 0)
			all |= one;
	}
	grant_scopes_format(all, text, sizeof(text));
	for (const char *p = text; all && *p; p += strcspn(p, ","), p += *p == ',') {
		list = list ? list : json_array();
		json_array_append_new(list, json_stringn(p, strcspn(p, ",")));
	}
	return list;
}

/*
 * A token has to be for the audience that its issuer's entry says. Where that is an address it is what this resource is
 * called, and a client that came by another one learns it; else the client's own address will do.
 */
void rest_mcp_resource(struct http_exchange *x)
{
	const struct conf *c = hub_conf(x->hub);
	const struct conf_issuer *first = conf_issuer_shown(c, NULL);
	json_t *issuers, *o;
	struct err e = {0};
	char here[sizeof(x->own_url) + sizeof(MCP_PATH)];

	if (!first || !x->own_url[0]) {
		http_reply_error(x, err_set(&e, ERR_NOT_FOUND, "no issuer's tokens open /mcp here: send a grant"), &e);
		return;
	}
	text_format(here, sizeof(here), "%s%s", x->own_url, MCP_PATH);
	issuers = json_array();
	for (const struct conf_issuer *i = first; i; i = conf_issuer_shown(c, i->name))
		json_array_append_new(issuers, json_string(i->issuer));
	o = json_pack("{s:s,s:o,s:[s],s:s,s:o*}", "resource",
		      strncmp(first->audience, "https://", 8) == 0 ? first->audience : here, "authorization_servers",
		      issuers, "bearer_methods_supported", "header", "resource_name", "muxd sandboxes",
		      "scopes_supported", scopes_of(c));
	http_reply_result(x, 0, &e, o);
	json_decref(o);
}
