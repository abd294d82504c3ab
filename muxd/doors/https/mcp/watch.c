#include "muxd/doors/https/mcp/watch.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

struct watch {
	struct mcp_session session;
	char *server, *uri; /* NULL: the row is free */
};

struct mcp_watches {
	struct watch rows[MCP_WATCHES_MAX];
	size_t at; /* of the next one, where no row is free */
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

static struct watch *row_for(struct mcp_watches *w)
{
	for (size_t i = 0; i < MCP_WATCHES_MAX; i++)
		if (!w->rows[i].uri)
			return &w->rows[i];
	return &w->rows[w->at++ % MCP_WATCHES_MAX];
}

int mcp_watch_add(struct mcp_watches *w, const struct mcp_session *session, const char *server, const char *uri)
{
	struct watch made = {.session = *session};
	unsigned own = 0;
	struct watch *r;

	if (strlen(uri) > MCP_WATCH_URI)
		return ERR_TOO_LARGE;
	for (size_t i = 0; i < MCP_WATCHES_MAX; i++) {
		if (!w->rows[i].uri || !mcp_session_equal(&w->rows[i].session, session))
			continue;
		if (is_about(&w->rows[i], server, uri))
			return 0;
		own++;
	}
	if (own >= MCP_WATCHES_OWN)
		return ERR_LIMIT;
	made.server = strdup(server);
	made.uri = strdup(uri);
	if (!made.server || !made.uri) {
		watch_clear(&made);
		return ERR_NOMEM;
	}
	r = row_for(w);
	watch_clear(r);
	*r = made;
	return 0;
}

bool mcp_watch_remove(struct mcp_watches *w, const struct mcp_session *session, const char *server, const char *uri)
{
	bool others = false;

	for (size_t i = 0; i < MCP_WATCHES_MAX; i++) {
		if (!is_about(&w->rows[i], server, uri))
			continue;
		if (mcp_session_equal(&w->rows[i].session, session))
			watch_clear(&w->rows[i]);
		else
			others = true;
	}
	return others;
}

void mcp_watch_forget(struct mcp_watches *w, const struct mcp_session *session)
{
	for (size_t i = 0; i < MCP_WATCHES_MAX; i++)
		if (w->rows[i].uri && mcp_session_equal(&w->rows[i].session, session))
			watch_clear(&w->rows[i]);
}

const struct mcp_session *mcp_watch_next(const struct mcp_watches *w, const char *server, const char *uri, size_t *at)
{
	while (*at < MCP_WATCHES_MAX) {
		const struct watch *r = &w->rows[(*at)++];

		if (is_about(r, server, uri))
			return &r->session;
	}
	return NULL;
}
