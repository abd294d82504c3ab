#include "muxd/ctl/cluster_look.h"

#include "base/err.h"
#include "base/text.h"
#include "control/kube/client/verbs.h"
#include "control/kube/pods/rbac.h"
#include "muxd/ctl/cluster_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABEL     "muxd.dev/sandboxes=true"
#define RBAC      "rbac.authorization.k8s.io"
#define ACCESS    "authorization.k8s.io"
#define CERTS     "certificates.k8s.io"
#define ACCOUNTS  "system:serviceaccount:"
#define DEFAULT   "muxd-sandboxes"
#define BUILT_IN  "system:kube-"
#define TEXT_SIZE 512

/* ---- the ways */

enum { WAY_CLUSTER = 1, WAY_SANDBOXES = 2, WAY_MUXD = 4 };

/* The objects of which a rule has to allow one by name to count. */
enum way_name { WAY_ANY, WAY_GUARD, WAY_ACCOUNT, WAY_NAMESPACE, WAY_SIGNER };
#define NAMES_MAX 3

/* as deploy/ names the webhook and the policies */
#define CLUSTER_GUARD       "muxd-sandboxes"
#define CLUSTER_NODES_GUARD "muxd-nodes"

/* The API server takes their certificates for a user: for any, muxd's too, or for a node, which muxd may run on. */
#define SIGNER       "kubernetes.io/kube-apiserver-client"
#define NODE_SIGNER  SIGNER "-kubelet"
#define EVERY_SIGNER "kubernetes.io/*" /* as a rule may name them together */

/*
 * The ways into a cluster's sandboxes past muxd, each as a right that Kubernetes gives. Where says in which namespaces
 * the right leads in: those of sandboxes, muxd's own (its keys, its account), or the cluster's as a whole.
 */
struct way {
	const char *name; /* "exec" */
	int where;
	const char *group, *resource;
	const char *const *verbs; /* NULL-ended */
	enum way_name of;
	const char *fix;
};

static const char *const all_methods[] = {"get", "create", "update", "patch", "delete", NULL};
static const char *const open_[] = {"get", "create", NULL};
static const char *const make[] = {"create", "update", "patch", NULL};
static const char *const change[] = {"update", "patch", NULL};
static const char *const remove_[] = {"update", "patch", "delete", NULL};
static const char *const clear[] = {"deletecollection", NULL};
static const char *const create[] = {"create", NULL};
static const char *const see[] = {"get", "list", "watch", NULL};
static const char *const impersonate[] = {"impersonate", NULL};
static const char *const bind_[] = {"bind", NULL};
static const char *const escalate[] = {"escalate", NULL};
static const char *const approve[] = {"approve", NULL};

#define INSIDE (WAY_SANDBOXES | WAY_MUXD)
#define ALL    (WAY_CLUSTER | WAY_SANDBOXES | WAY_MUXD)
#define GUARDS "admissionregistration.k8s.io"

#define NODES    "give nodes/metrics for scraping instead: the kubelet's port asks no webhook"
#define ENTER    "take it away here: sandboxes are entered with muxctl exec or ssh; the webhook alone holds it off"
#define PODS     "leave the making of pods here to muxd: another pod can mount a sandbox's claim, or be muxd's account"
#define SECRETS  "keep reading of secrets out of muxd's namespace: its certificate and account are there"
#define BECOME   "limit it by resourceNames to whom may be acted for, never muxd's account or system:masters"
#define ESCALATE "leave it to the cluster's administrators: who has it can give himself every other right"
#define GUARD    "leave the webhook, the policies and the namespace's label to the cluster's administrators"
#define TOKEN    "leave tokens of muxd's account to the kubelet"
#define APPROVE  "leave it to the cluster's administrators: a certificate can be made out to muxd's own account"

static const struct way ways[] = {
    {"node proxy", WAY_CLUSTER, "", "nodes/proxy", all_methods, WAY_ANY, NODES},
    {"exec", INSIDE, "", "pods/exec", open_, WAY_ANY, ENTER},
    {"attach", INSIDE, "", "pods/attach", open_, WAY_ANY, ENTER},
    {"port-forward", WAY_SANDBOXES, "", "pods/portforward", open_, WAY_ANY, ENTER},
    {"pod proxy", WAY_SANDBOXES, "", "pods/proxy", all_methods, WAY_ANY, ENTER},
    {"service proxy", WAY_SANDBOXES, "", "services/proxy", all_methods, WAY_ANY, ENTER},
    {"ephemeral containers", INSIDE, "", "pods/ephemeralcontainers", change, WAY_ANY, ENTER},
    {"make pods", INSIDE, "", "pods", create, WAY_ANY, PODS},
    {"change pods", INSIDE, "", "pods", change, WAY_ANY, PODS},
    {"make pods", INSIDE, "", "replicationcontrollers", make, WAY_ANY, PODS},
    {"make pods", INSIDE, "apps", "deployments", make, WAY_ANY, PODS},
    {"make pods", INSIDE, "apps", "replicasets", make, WAY_ANY, PODS},
    {"make pods", INSIDE, "apps", "statefulsets", make, WAY_ANY, PODS},
    {"make pods", INSIDE, "apps", "daemonsets", make, WAY_ANY, PODS},
    {"make pods", INSIDE, "batch", "jobs", make, WAY_ANY, PODS},
    {"make pods", INSIDE, "batch", "cronjobs", make, WAY_ANY, PODS},
    {"muxd's secrets", WAY_MUXD, "", "secrets", see, WAY_ANY, SECRETS},
    {"muxd's configuration", WAY_MUXD, "", "configmaps", change, WAY_ANY, GUARD},
    {"impersonate", WAY_CLUSTER, "", "users", impersonate, WAY_ANY, BECOME},
    {"impersonate", WAY_CLUSTER, "", "groups", impersonate, WAY_ANY, BECOME},
    {"impersonate", WAY_CLUSTER | WAY_MUXD, "", "serviceaccounts", impersonate, WAY_ACCOUNT, BECOME},
    {"bind", ALL, RBAC, "clusterroles", bind_, WAY_ANY, ESCALATE},
    {"bind", ALL, RBAC, "roles", bind_, WAY_ANY, ESCALATE},
    {"escalate", ALL, RBAC, "clusterroles", escalate, WAY_ANY, ESCALATE},
    {"escalate", ALL, RBAC, "roles", escalate, WAY_ANY, ESCALATE},
    {"webhook", WAY_CLUSTER, GUARDS, "validatingwebhookconfigurations", remove_, WAY_GUARD, GUARD},
    {"webhook", WAY_CLUSTER, GUARDS, "validatingwebhookconfigurations", clear, WAY_ANY, GUARD},
    {"webhook", WAY_CLUSTER, GUARDS, "mutatingwebhookconfigurations", make, WAY_ANY, GUARD},
    {"policy", WAY_CLUSTER, GUARDS, "validatingadmissionpolicies", remove_, WAY_GUARD, GUARD},
    {"policy", WAY_CLUSTER, GUARDS, "validatingadmissionpolicies", clear, WAY_ANY, GUARD},
    {"policy", WAY_CLUSTER, GUARDS, "validatingadmissionpolicybindings", remove_, WAY_GUARD, GUARD},
    {"policy", WAY_CLUSTER, GUARDS, "validatingadmissionpolicybindings", clear, WAY_ANY, GUARD},
    {"label", WAY_SANDBOXES, "", "namespaces", change, WAY_NAMESPACE, GUARD},
    {"muxd's token", WAY_MUXD, "", "serviceaccounts/token", create, WAY_ACCOUNT, TOKEN},
    {"approve certificates", WAY_CLUSTER, CERTS, "signers", approve, WAY_SIGNER, APPROVE},
};

/* ---- the look */

struct look {
	struct cluster_api *api;
	const struct cluster_wish *wish;
	struct cluster_found *found;
	json_t *index; /* rows by who, way and where */
	json_t *roles, *cluster_roles, *role_bindings, *cluster_role_bindings;
	/* what is looked at now */
	const struct way *way;
	const char *ns;    /* NULL: the cluster */
	const char *group; /* of reviews of a group; NULL: the caller's own */
	bool full;         /* no memory */
};

/* Whom a row is about, and by what he has it. */
struct holder {
	const char *kind, *name, *ns, *by;
	bool component, everything;
};

static void unknown(struct look *l, const char *what, const struct err *e)
{
	json_t *row = json_pack("{s:s,s:s}", "what", what, "why", e->message);

	l->full |= json_array_append_new(l->found->unknown, row) != 0;
}

/* ---- rows */

static void add_text(struct look *l, json_t *list, const char *s)
{
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v)
	{
		if (strcmp(json_string_value(v), s) == 0)
			return;
	}
	l->full |= json_array_append_new(list, json_string(s)) != 0;
}

static json_t *new_row(struct look *l, const struct holder *h, const char *who, const char *where)
{
	json_t *row = json_pack(
	    "{s:s,s:s,s:s,s:s,s:s,s:[],s:s,s:[],s:s,s:b}", "who", who, "kind", h->kind, "name", h->name, "namespace",
	    h->ns, "way", h->everything ? "everything" : l->way->name, "rights", "where", where, "by", "fix",
	    h->everything ? "for the cluster's administrators alone; name them with --except" : l->way->fix,
	    "component", (int)h->component);

	if (!row || json_array_append_new(l->found->can, row))
		return NULL;
	return row;
}

/* One of the way's verbs is held by h, in l->ns. Who holds everything has one row. */
static void cluster_look_add(struct look *l, const struct holder *h, const char *verb, const char *everywhere)
{
	const char *where = h->everything ? everywhere : l->ns ? l->ns : "";
	char who[TEXT_SIZE], key[2 * TEXT_SIZE], right[TEXT_SIZE];
	json_t *row;

	text_format(who, sizeof(who), "%s %s%s%s", h->kind, h->ns, *h->ns ? "/" : "", h->name);
	text_format(key, sizeof(key), "%s\n%s\n%s", who, h->everything ? "" : l->way->name, where);
	text_format(right, sizeof(right), "%s %s", h->everything ? "*" : verb, h->everything ? "*" : l->way->resource);
	row = json_object_get(l->index, key);
	if (!row) {
		row = new_row(l, h, who, where);
		l->full |= !row || json_object_set(l->index, key, row) != 0;
	}
	if (!row)
		return;
	add_text(l, json_object_get(row, "rights"), right);
	add_text(l, json_object_get(row, "by"), h->by);
}

/* ---- by the roles and bindings */

/* What muxd is there for. */
static bool is_muxds_own(const struct look *l, const struct rbac_grant *g)
{
	bool its = strcmp(g->kind, "ServiceAccount") == 0 && strcmp(g->ns, l->wish->muxd) == 0 &&
		   strcmp(g->name, l->wish->account) == 0;

	return its && !g->everything && l->ns && strcmp(l->ns, l->wish->muxd) != 0 &&
	       (strcmp(l->way->name, "exec") == 0 ||
		(strcmp(l->way->resource, "pods") == 0 && strcmp(g->verb, "create") == 0));
}

/* Of a way through the cluster as a whole, too: who has it everywhere has a row already. */
static bool is_told_of_all(const struct look *l)
{
	return l->ns && l->way->where & WAY_CLUSTER;
}

static bool is_component(const struct rbac_grant *g)
{
	if (!g->built_in)
		return false;
	if (strcmp(g->kind, "ServiceAccount") == 0)
		return strcmp(g->ns, "kube-system") == 0;
	return strcmp(g->kind, "User") == 0 && strncmp(g->name, BUILT_IN, strlen(BUILT_IN)) == 0;
}

static void cluster_look_on_grant(void *arg, const struct rbac_grant *g)
{
	struct look *l = arg;
	char by[TEXT_SIZE];
	struct holder h = {g->kind, g->name, g->ns, by, is_component(g), g->everything};

	if (is_muxds_own(l, g) || (is_told_of_all(l) && !*g->binding_ns))
		return;
	text_format(by, sizeof(by), "%s %s%s%s -> %s %s", *g->binding_ns ? "RoleBinding" : "ClusterRoleBinding",
		    g->binding_ns, *g->binding_ns ? "/" : "", g->binding, g->role_kind, g->role);
	cluster_look_add(l, &h, g->verb, g->binding_ns);
}

/* The names that a rule may be limited to, and count all the same. */
static size_t names_of(const struct look *l, const char *out[NAMES_MAX])
{
	out[0] = NULL;
	if (l->way->of == WAY_GUARD) {
		out[0] = CLUSTER_GUARD;
		out[1] = CLUSTER_NODES_GUARD;
		return 2;
	}
	if (l->way->of == WAY_SIGNER) {
		out[0] = SIGNER;
		out[1] = NODE_SIGNER;
		out[2] = EVERY_SIGNER;
		return 3;
	}
	if (l->way->of == WAY_ACCOUNT)
		out[0] = l->wish->account;
	if (l->way->of == WAY_NAMESPACE)
		out[0] = l->ns;
	return 1;
}

static void by_rules(struct look *l)
{
	const struct rbac rules = {l->roles, l->cluster_roles, l->role_bindings, l->cluster_role_bindings};
	const char *names[NAMES_MAX];
	size_t n = names_of(l, names);

	for (size_t i = 0; i < n; i++) {
		const struct rbac_want w = {.group = l->way->group,
					    .resource = l->way->resource,
					    .verbs = l->way->verbs,
					    .ns = l->ns,
					    .name = names[i]};

		rbac_who(&rules, &w, cluster_look_on_grant, l);
	}
}

/* ---- by reviews */

static json_t *review_of(const struct look *l, const char *group, const char *resource, const char *verb,
			 const char *name)
{
	const char *slash = strchr(resource, '/');
	char plain[64];
	json_t *o;

	text_format(plain, sizeof(plain), "%.*s", slash ? (int)(slash - resource) : 63, resource);
	o = json_pack("{s:s,s:s,s:{s:{s:s,s:s,s:s,s:s,s:s,s:s}}}", "apiVersion", ACCESS "/v1", "kind",
		      l->group ? "SubjectAccessReview" : "SelfSubjectAccessReview", "spec", "resourceAttributes",
		      "verb", verb, "group", group, "resource", plain, "subresource", slash ? slash + 1 : "",
		      "namespace", l->ns ? l->ns : "", "name", name ? name : "");
	if (o && l->group) {
		json_t *spec = json_object_get(o, "spec");
		bool anonymous = strcmp(l->group, "system:unauthenticated") == 0;

		json_object_set_new(spec, "user", json_string(anonymous ? "system:anonymous" : "muxctl:anybody"));
		json_object_set_new(spec, "groups", json_pack("[s]", l->group));
	}
	return o;
}

/* 1: allowed, 0: not; negative: nobody says. */
static int review(struct look *l, const char *group, const char *resource, const char *verb, const char *name,
		  struct err *e)
{
	const struct kube_ref ref = {.group = ACCESS,
				     .resource = l->group ? "subjectaccessreviews" : "selfsubjectaccessreviews"};
	json_t *question = review_of(l, group, resource, verb, name), *answer = NULL;
	int rc = question ? cluster_api_review(l->api, &ref, question, &answer, e)
			  : err_set(e, ERR_NOMEM, "no memory for a review");

	if (rc == 0)
		rc = json_is_true(json_object_get(json_object_get(answer, "status"), "allowed"));
	json_decref(question);
	json_decref(answer);
	return rc;
}

static struct holder reviewed(const struct look *l, bool everything)
{
	if (l->group)
		return (struct holder){"Group", l->group, "", "access review", false, everything};
	return (struct holder){
	    "you:", *l->found->me ? l->found->me : "(the kubeconfig's user)", "", "access review", false, everything};
}

/* 1: it was allowed. Of a group the first verb alone: RBAC has told the rest, and what else allows things allows all of
 * them. */
static int by_review(struct look *l, struct err *e)
{
	struct holder h = reviewed(l, false);
	const char *names[NAMES_MAX];
	size_t n = names_of(l, names);
	int rc = 0;

	for (size_t i = 0; rc == 0 && l->way->verbs[i] && !(l->group && i); i++) {
		for (size_t k = 0; rc == 0 && k < n; k++)
			rc = review(l, l->way->group, l->way->resource, l->way->verbs[i], names[k], e);
		if (rc > 0)
			cluster_look_add(l, &h, l->way->verbs[i], "");
	}
	return rc;
}

/* ---- every way, wherever it leads in */

/* By reviews 1: allowed there. */
static int at(struct look *l, const char *ns, bool reviews, struct err *e)
{
	l->ns = ns;
	if (reviews)
		return by_review(l, e);
	by_rules(l);
	return 0;
}

static int one_way(struct look *l, bool reviews, struct err *e)
{
	const json_t *box;
	int rc = 0;
	size_t i;

	if (l->way->where & WAY_CLUSTER && (rc = at(l, NULL, reviews, e)))
		return rc; /* allowed everywhere, or nobody says */
	json_array_foreach(l->found->sandboxes, i, box)
	{
		if (rc >= 0 && l->way->where & WAY_SANDBOXES)
			rc = at(l, json_string_value(box), reviews, e);
	}
	if (rc >= 0 && l->way->where & WAY_MUXD)
		rc = at(l, l->wish->muxd, reviews, e);
	return rc;
}

static int every_way(struct look *l, bool reviews, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc >= 0 && i < sizeof(ways) / sizeof(ways[0]); i++) {
		l->way = &ways[i];
		rc = one_way(l, reviews, e);
	}
	return rc < 0 ? rc : 0;
}

static void ask_reviews(struct look *l, const char *group)
{
	struct holder h;
	struct err e = {0};
	char what[TEXT_SIZE];
	int rc;

	l->group = group;
	l->ns = NULL;
	l->way = ways;
	rc = review(l, "*", "*", "*", NULL, &e);
	if (rc > 0) {
		h = reviewed(l, true);
		cluster_look_add(l, &h, "*", "");
	} else if (rc == 0) {
		rc = every_way(l, true, &e);
	}
	if (rc < 0) {
		text_format(what, sizeof(what), "what %s may (access reviews)", group ? group : "you");
		unknown(l, what, &e);
	}
}

/* ---- what is read */

/* Of all namespaces, and where that is not allowed of those that matter. */
static json_t *read_spread(struct look *l, const char *resource)
{
	struct kube_ref ref = {.group = RBAC, .resource = resource};
	json_t *all = NULL, *some;
	struct err e = {0};
	size_t n = json_array_size(l->found->sandboxes);

	if (cluster_api_list(l->api, &ref, NULL, &all, &e) == 0)
		return all;
	all = json_array();
	for (size_t i = 0; i <= n; i++) {
		char what[TEXT_SIZE];

		ref.namespace_ = i < n ? json_string_value(json_array_get(l->found->sandboxes, i)) : l->wish->muxd;
		some = NULL;
		if (cluster_api_list(l->api, &ref, NULL, &some, &e) == 0) {
			l->full |= json_array_extend(all, some) != 0;
		} else {
			text_format(what, sizeof(what), "%s in %s", resource, ref.namespace_);
			unknown(l, what, &e);
		}
		json_decref(some);
	}
	return all;
}

static json_t *read_whole(struct look *l, const char *resource)
{
	const struct kube_ref ref = {.group = RBAC, .resource = resource};
	json_t *all = NULL;
	struct err e = {0};

	if (cluster_api_list(l->api, &ref, NULL, &all, &e))
		unknown(l, resource, &e);
	return all;
}

static int read_sandboxes(struct look *l)
{
	static const struct kube_ref ref = {.resource = "namespaces"};
	json_t *items = NULL;
	const json_t *o;
	struct err e = {0};
	size_t i;

	if (l->wish->sandboxes)
		return json_array_extend(l->found->sandboxes, l->wish->sandboxes);
	if (cluster_api_list(l->api, &ref, LABEL, &items, &e))
		unknown(l, "which namespaces carry the label " LABEL, &e);
	json_array_foreach(items, i, o)
	{
		json_array_append(l->found->sandboxes, json_object_get(json_object_get(o, "metadata"), "name"));
	}
	json_decref(items);
	if (json_array_size(l->found->sandboxes) == 0)
		json_array_append_new(l->found->sandboxes, json_string(DEFAULT));
	return 0;
}

/* ---- who asks */

/* A server that does not know the question is asked no more; one that cannot be reached ends it all. */
static bool is_told(int rc)
{
	return rc == 0 || rc == ERR_NOT_FOUND || rc == ERR_K8S_FORBIDDEN || rc == ERR_K8S_INVALID || rc == ERR_K8S;
}

static int ask_who_by(struct look *l, const char *version, struct err *e)
{
	const struct kube_ref ref = {
	    .group = "authentication.k8s.io", .version = version, .resource = "selfsubjectreviews"};
	char group[64];
	json_t *o, *answer = NULL, *user;
	int rc;

	text_format(group, sizeof(group), "authentication.k8s.io/%s", version);
	o = json_pack("{s:s,s:s}", "apiVersion", group, "kind", "SelfSubjectReview");
	rc = o ? cluster_api_review(l->api, &ref, o, &answer, e) : err_set(e, ERR_NOMEM, "no memory for a review");
	user = json_object_get(json_object_get(answer, "status"), "userInfo");
	text_put(l->found->me, sizeof(l->found->me), json_string_value(json_object_get(user, "username")));
	json_decref(o);
	json_decref(answer);
	return rc;
}

static int ask_who(struct look *l, struct err *e)
{
	int rc = ask_who_by(l, "v1", e);

	if (rc && is_told(rc))
		rc = ask_who_by(l, "v1beta1", e);
	if (!*l->found->me)
		cluster_api_token_subject(l->api, l->found->me, sizeof(l->found->me));
	return is_told(rc) ? 0 : rc;
}

static int not_as_muxd(const struct look *l, struct err *e)
{
	char own[TEXT_SIZE];

	text_format(own, sizeof(own), ACCOUNTS "%s:%s", l->wish->muxd, l->wish->account);
	if (strcmp(l->found->me, own) == 0)
		return err_set(e, ERR_FORBIDDEN,
			       "this kubeconfig is muxd's own account, which may not know the cluster's rules: "
			       "give your own with --kubeconfig");
	return 0;
}

/* ---- all of it */

static void look_finish(struct look *l)
{
	json_decref(l->index);
	json_decref(l->roles);
	json_decref(l->cluster_roles);
	json_decref(l->role_bindings);
	json_decref(l->cluster_role_bindings);
}

static void read_rules(struct look *l)
{
	l->cluster_roles = read_whole(l, "clusterroles");
	l->cluster_role_bindings = read_whole(l, "clusterrolebindings");
	l->roles = read_spread(l, "roles");
	l->role_bindings = read_spread(l, "rolebindings");
}

int cluster_look(struct cluster_api *api, const struct cluster_wish *wish, struct cluster_found *out, struct err *e)
{
	struct look l = {.api = api, .wish = wish, .found = out, .index = json_object()};
	int rc;

	*out = (struct cluster_found){.sandboxes = json_array(), .can = json_array(), .unknown = json_array()};
	rc = ask_who(&l, e);
	if (rc == 0)
		rc = not_as_muxd(&l, e);
	if (rc == 0) {
		(void)read_sandboxes(&l);
		read_rules(&l);
		(void)every_way(&l, false, e);
		ask_reviews(&l, NULL);
		ask_reviews(&l, "system:authenticated");
		ask_reviews(&l, "system:unauthenticated");
		if (l.full)
			rc = err_set(e, ERR_NOMEM, "no memory for what was found");
	}
	look_finish(&l);
	if (rc)
		cluster_found_finish(out);
	return rc;
}

void cluster_found_finish(struct cluster_found *f)
{
	json_decref(f->sandboxes);
	json_decref(f->can);
	json_decref(f->unknown);
	*f = (struct cluster_found){0};
}
