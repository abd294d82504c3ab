#include "muxd/hub/core/place.h"

#include "base/err.h"
#include "muxd/hub/core/hub_ground.h"

#include <string.h>

static bool has_pods(const struct hub *h)
{
	return strcmp(hub_conf(h)->sandbox_backend, "local") != 0;
}

const char *place_namespace(const struct hub *h)
{
	return has_pods(h) ? hub_params(h)->cluster_namespace : "";
}

static int check_cluster(const struct hub *h, const char *asked, struct err *e)
{
	const char *own = hub_conf(h)->kubernetes_cluster_name;

	if (!*own)
		return err_set(e, ERR_UNSUPPORTED,
			       "cluster: there is no %s here: this daemon serves one cluster without a name "
			       "(kubernetes.cluster_name)",
			       asked);
	return strcmp(asked, own) == 0
		   ? 0
		   : err_set(e, ERR_UNSUPPORTED, "cluster: there is no %s here: this daemon serves %s", asked, own);
}

int place_check(const struct hub *h, const char *agent, const struct place *asked, struct err *e)
{
	const char *what = asked->cluster[0] ? "cluster" : "namespace";
	int rc = 0;

	if (!place_is_named(asked))
		return 0;
	if (target_is_pod(agent))
		return err_set(e, ERR_INVAL, "%s: %s is a pod of others, whose name says where it is: leave it out",
			       what, agent);
	if (!has_pods(h))
		return err_set(e, ERR_UNSUPPORTED,
			       "%s: there is no %s here: sandboxes of this daemon are on its own machine "
			       "(sandbox.backend: local)",
			       what, asked->cluster[0] ? asked->cluster : asked->ns);
	if (asked->cluster[0])
		rc = check_cluster(h, asked->cluster, e);
	if (!rc && asked->ns[0] && strcmp(asked->ns, place_namespace(h)) != 0)
		rc = err_set(e, ERR_UNSUPPORTED, "namespace: this daemon makes no sandbox in %s, but in %s", asked->ns,
			     place_namespace(h));
	return rc;
}

static json_t *text_or_null(const char *text)
{
	return text && *text ? json_string(text) : json_null();
}

json_t *place_reference(const struct hub *h, const char *agent, const char *app_id)
{
	bool others = target_is_pod(agent);
	const char *cluster = others || has_pods(h) ? hub_conf(h)->kubernetes_cluster_name : "";

	return json_pack("{s:s,s:o,s:o,s:o}", "name", agent, "cluster", text_or_null(cluster), "namespace",
			 others ? json_stringn(agent, strcspn(agent, "/")) : text_or_null(place_namespace(h)), "app_id",
			 text_or_null(app_id));
}
