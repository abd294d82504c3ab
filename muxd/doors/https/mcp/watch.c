#include "muxd/doors/https/mcp/watch.h"

#include "base/err.h"
#include "policy/grant_narrow.h"

#include <stdlib.h>
#include <string.h>

struct watch {
	struct mcp_holder who;
	uint64_t made;      /* how many were before */
	char *server, *uri; /* NULL: the row is free */
};

struct mcp_watches {
	struct watch rows[MCP_WATCHES_MAX];
	uint64_t made;
};

int mcp_watches_create(struct mcp_watches **out)
{
	struct mcp_watches *w = calloc(1, sizeof(*w));

	if (!w)
		return ERR_NOMEM;
	*out = w;
	return 0;
}

static void watch_clear(struct watch *r)
{
	free(r->server);
	free(r->uri);
	*r = (struct watch){0};
}

void mcp_watches_free(struct mcp_watches *w)
{
	for (size_t i = 0; w && i < MCP_WATCHES_MAX; i++)
		watch_clear(&w->rows[i]);
	free(w);
}

static bool is_about(const struct watch *r, const char *server, const char *uri)
{
	return r->uri && strcmp(r->uri, uri) == 0 && strcmp(r->server, server) == 0;
}

static bool is_of(const struct watch *r, const struct mcp_session *session)
{
	return r->uri && mcp_session_equal(&r->who.session, session);
}

/* A free row, or the oldest one of the same principal: MCP_WATCHES_MAX where neither is. */
static size_t row_for(const struct mcp_watches *w, const struct mcp_holder *who)
{
	size_t empty = MCP_WATCHES_MAX, oldest = MCP_WATCHES_MAX, own = 0;

	for (size_t i = 0; i < MCP_WATCHES_MAX; i++) {
		if (!w->rows[i].uri) {
			empty = empty == MCP_WATCHES_MAX ? i : empty;
		} else if (grant_same_root(w->rows[i].who.principal, who->principal)) {
			own++;
			if (oldest == MCP_WATCHES_MAX || w->rows[i].made < w->rows[oldest].made)
				oldest = i;
		}
	}
	return own >= MCP_WATCHES_SHARE || empty == MCP_WATCHES_MAX ? oldest : empty;
}

static size_t watch_row_of(const struct mcp_watches *w, const struct mcp_session *session, const char *server,
			   const char *uri)
{
	size_t i = 0;

	while (i < MCP_WATCHES_MAX && !(is_about(&w->rows[i], server, uri) && is_of(&w->rows[i], session)))
		i++;
	return i;
}

int mcp_watch_may(const struct mcp_watches *w, const struct mcp_holder *who, const char *server, const char *uri)
{
	unsigned own = 0;

	if (strlen(uri) > MCP_WATCH_URI)
		return ERR_TOO_LARGE;
	if (watch_row_of(w, &who->session, server, uri) < MCP_WATCHES_MAX)
		return 0;
	for (size_t i = 0; i < MCP_WATCHES_MAX; i++)
		own += is_of(&w->rows[i], &who->session);
	if (own >= MCP_WATCHES_OWN)
		return ERR_LIMIT;
	return row_for(w, who) < MCP_WATCHES_MAX ? 0 : ERR_UNAVAILABLE;
}

int mcp_watch_add(struct mcp_watches *w, const struct mcp_holder *who, const char *server, const char *uri)
{
	struct watch made = {.who = *who, .made = ++w->made};
	size_t i = watch_row_of(w, &who->session, server, uri);
	int rc = mcp_watch_may(w, who, server, uri);

	if (rc)
		return rc;
	if (i < MCP_WATCHES_MAX) { /* the same once more, under the grant that he has now */
		w->rows[i].who = *who;
		return 0;
	}
	made.server = strdup(server);
	made.uri = strdup(uri);
	if (!made.server || !made.uri) {
		watch_clear(&made);
		return ERR_NOMEM;
	}
	i = row_for(w, who);
	watch_clear(&w->rows[i]);
	w->rows[i] = made;
	return 0;
}

bool mcp_watch_remove(struct mcp_watches *w, const struct mcp_session *session, const char *server, const char *uri)
{
	size_t own = watch_row_of(w, session, server, uri), at = 0;

	if (own == MCP_WATCHES_MAX)
		return false;
	watch_clear(&w->rows[own]);
	return mcp_watch_next(w, server, uri, &at) == NULL;
}

void mcp_watch_forget(struct mcp_watches *w, const struct mcp_session *session)
{
	for (size_t i = 0; i < MCP_WATCHES_MAX; i++)
		if (is_of(&w->rows[i], session))
			watch_clear(&w->rows[i]);
}

void mcp_watches_sweep(struct mcp_watches *w, mcp_holds_fn *holds, void *arg)
{
	for (size_t i = 0; i < MCP_WATCHES_MAX; i++)
		if (w->rows[i].uri && !holds(arg, &w->rows[i].who))
			watch_clear(&w->rows[i]);
}

const struct mcp_holder *mcp_watch_next(const struct mcp_watches *w, const char *server, const char *uri, size_t *at)
{
	while (*at < MCP_WATCHES_MAX) {
		const struct watch *r = &w->rows[(*at)++];

		if (is_about(r, server, uri))
			return &r->who;
	}
	return NULL;
}
