#include "muxd/doors/rest/route.h"
#include "muxd/doors/rest/handlers.h"

#include <stdio.h>
#include <string.h>

static const struct route routes[] = {
    {HTTP_GET, "/", rest_index, ROUTE_OPEN, BODY_NONE, "none"},
    {HTTP_GET, "/healthz", rest_healthz, ROUTE_OPEN, BODY_NONE, "none"},
    {HTTP_GET, "/readyz", rest_readyz, ROUTE_OPEN, BODY_NONE, "none"},
    {HTTP_GET, "/metrics", rest_metrics_show, ROUTE_LOOPBACK, BODY_NONE, "observe or admin, none from loopback"},
    {HTTP_GET, "/v1/agents/{agent}", rest_agent_show, ROUTE_GRANT, BODY_NONE, "any on the agent"},
    {HTTP_POST, "/v1/agents/{agent}/resume", rest_agent_resume, ROUTE_GRANT, BODY_OPTIONAL,
     "terminal, rounds or lifecycle"},
    {HTTP_POST, "/v1/agents/{agent}/rounds", rest_round_start, ROUTE_GRANT, BODY_REQUIRED, "rounds"},
    {HTTP_GET, "/v1/agents/{agent}/terminal", rest_websocket, ROUTE_OPEN, BODY_NONE, "terminal"},
    {HTTP_GET, "/v1/rounds/{id}", rest_round_show, ROUTE_GRANT, BODY_NONE, "rounds (own), observe or replay"},
    {HTTP_GET, "/v1/rounds/{id}/output", rest_round_output, ROUTE_GRANT, BODY_NONE, "rounds (own), observe or replay"},
    {HTTP_POST, "/v1/rounds/{id}/stdin", rest_round_stdin, ROUTE_GRANT, BODY_REQUIRED, "rounds (own) or drive"},
    {HTTP_POST, "/v1/rounds/{id}/signal", rest_round_signal, ROUTE_GRANT, BODY_REQUIRED, "rounds (own) or drive"},
    {HTTP_GET, "/v1/sessions", rest_session_list, ROUTE_GRANT, BODY_NONE, "observe, or one's own"},
    {HTTP_POST, "/v1/sessions/{id}/terminate", rest_session_terminate, ROUTE_GRANT, BODY_REQUIRED,
     "terminal or rounds (own), drive or admin"},
    {HTTP_GET, "/v1/sessions/{id}/attach", rest_websocket, ROUTE_OPEN, BODY_NONE, "drive or observe"},
};

_Static_assert(sizeof(routes) / sizeof(routes[0]) < ROUTES_MAX, "raise ROUTES_MAX");

const struct route *route_table(size_t *out_n)
{
	*out_n = sizeof(routes) / sizeof(routes[0]);
	return routes;
}

size_t route_index(const struct route *r)
{
	return r ? (size_t)(r - routes) : sizeof(routes) / sizeof(routes[0]);
}

/* One segment of the path into the next parameter. ERR_NOT_FOUND when it is empty or too long. */
static int take_param(struct http_exchange *x, size_t n, const char **path)
{
	size_t len = strcspn(*path, "/");

	if (len == 0 || n >= HTTP_PARAMS_MAX || len >= sizeof(x->params[0]))
		return ERR_NOT_FOUND;
	memcpy(x->params[n], *path, len);
	x->params[n][len] = '\0';
	*path += len;
	return 0;
}

static bool pattern_matches(struct http_exchange *x, const char *pattern)
{
	const char *path = x->path;
	size_t n = 0;

	while (*pattern) {
		if (*pattern == '{') {
			if (take_param(x, n++, &path))
				return false;
			pattern = strchr(pattern, '}') + 1;
		} else if (*pattern++ != *path++) {
			return false;
		}
	}
	return *path == '\0';
}

static void allow_add(struct http_exchange *x, enum http_method m)
{
	size_t len = strlen(x->allow);

	snprintf(x->allow + len, sizeof(x->allow) - len, "%s%s", len ? ", " : "",
		 m == HTTP_GET ? "GET, HEAD" : http_method_name(m));
}

int route_find(struct http_exchange *x, struct err *e)
{
	enum http_method want = x->method == HTTP_HEAD ? HTTP_GET : x->method;

	x->route = NULL;
	x->allow[0] = '\0';
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		if (!pattern_matches(x, routes[i].pattern))
			continue;
		if (routes[i].method == want) {
			x->route = &routes[i];
			x->allow[0] = '\0';
			return 0;
		}
		allow_add(x, routes[i].method);
	}
	if (x->allow[0])
		return err_set(e, ERR_INVAL, "%s is not possible here; allowed: %s", http_method_name(x->method),
			       x->allow);
	return err_set(e, ERR_NOT_FOUND, "no such path in this API: see docs/api.md");
}

static bool peer_is_loopback(const char *peer)
{
	return strncmp(peer, "127.", 4) == 0 || strncmp(peer, "[::1]", 5) == 0 ||
	       strncmp(peer, "[::ffff:127.", 12) == 0;
}

static int authenticate(struct http_exchange *x, const char *token, struct err *e)
{
	int rc;

	if (!token)
		return err_set(e, ERR_UNAUTHENTICATED, "send a grant: Authorization: Bearer TOKEN");
	rc = broker_authenticate(x->hub, token, strlen(token), "rest", x->peer, &x->rq, e);
	if (rc)
		return rc;
	x->rq.id = x->id;
	x->authenticated = true;
	return 0;
}

int route_authorize(struct http_exchange *x, const char *token, struct err *e)
{
	int rc;

	if (x->route->auth == ROUTE_OPEN || (x->route->auth == ROUTE_LOOPBACK && peer_is_loopback(x->peer)))
		return 0;
	rc = authenticate(x, token, e);
	if (rc == 0 && x->route->auth == ROUTE_LOOPBACK && !(x->rq.grant.scopes & (SCOPE_OBSERVE | SCOPE_ADMIN)))
		rc = err_set(e, ERR_FORBIDDEN, "the grant lacks scope observe or admin");
	return rc;
}
