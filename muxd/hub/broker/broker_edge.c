/* Edges, at their centre: who asks, and what the monitor signs for it. */
#define LOG_SUBSYS "broker"
#include "muxd/hub/broker/broker_edge.h"
#include "base/err.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/session/session_state.h"
#include "policy/edge.h"

#include <stdlib.h>
#include <string.h>

struct edge_job {
	broker_json_done *done;
	void *arg;
};

static int key_of(const struct conf_edge *x, struct grant_public_key *out)
{
	uint8_t *raw = NULL;
	size_t n = 0;
	int rc = base64_decode(x->key, strlen(x->key), true, &raw, &n);

	if (rc == 0 && n == GRANT_KEY_LEN)
		memcpy(out->key, raw, n);
	else
		rc = ERR_INVAL;
	free(raw);
	return rc ? rc : grant_key_id(out->key, out->kid);
}

static int edge_of(struct hub *h, const char *token, const struct conf_edge **out, struct err *e)
{
	const struct conf *c = hub_conf(h);
	struct grant_public_key key;
	size_t len = strlen(token);
	char kid[17];
	int rc = edge_call_kid(token, len, kid, e);

	if (rc)
		return rc;
	for (size_t i = 0; i < c->nedges; i++) {
		if (key_of(&c->edges[i], &key) || strcmp(key.kid, kid) != 0)
			continue;
		rc = edge_call_verify(token, len, &key, c->edges[i].id, hub_params(h)->instance, hub_now_wall(h), e);
		if (rc == 0)
			*out = &c->edges[i];
		return rc;
	}
	return err_set(e, ERR_TOKEN_FORGED, "no edge of edge.known has that key");
}

int broker_edge(struct hub *h, const char *token, const struct origin *from, const struct conf_edge **out,
		struct err *e)
{
	int rc = token ? edge_of(h, token, out, e)
		       : err_set(e, ERR_UNAUTHENTICATED, "send the edge's call: Authorization: Bearer TOKEN");

	if (rc)
		broker_refuse(h, token, token ? strlen(token) : 0, from, token ? "token" : "no token", e);
	return rc;
}

static void broker_edge_on_state(void *arg, int rc, const struct err *e, json_t *result)
{
	struct edge_job *j = arg;
	json_t *o = rc ? NULL : json_pack("{s:O?}", "state", json_object_get(result, "state"));

	j->done(j->arg, rc, e, o);
	json_decref(o);
	free(j);
}

void broker_edge_state(struct hub *h, const char *token, const struct origin *from, broker_json_done *done, void *arg)
{
	const struct hub_issuer *i = &hub_params(h)->issuer;
	const struct conf_edge *x = NULL;
	struct edge_job *j = NULL;
	struct err e = {0};
	int rc = broker_edge(h, token, from, &x, &e);

	if (rc == 0 && !i->ask)
		rc = err_set(&e, ERR_UNSUPPORTED, "nobody signs here");
	if (rc == 0 && !(j = calloc(1, sizeof(*j))))
		rc = err_set(&e, ERR_NOMEM, "no memory");
	if (rc) {
		done(arg, rc, &e, NULL);
		return;
	}
	*j = (struct edge_job){done, arg};
	i->ask(i->ctx, json_pack("{s:s,s:s}", "op", "edge.sign", "edge", x->id), broker_edge_on_state, j);
}
