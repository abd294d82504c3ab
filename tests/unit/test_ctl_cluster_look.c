// tier: check
/* The ways past muxd, held against roles and reviews that this test answers in the API server's place. */
#include "base/err.h"
#include "base/text.h"
#include "control/kube/client/verbs.h"
#include "muxd/ctl/cluster_api.h"
#include "muxd/ctl/cluster_look.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The one role of the cluster, which Eve has, and what reviews say yes to: "verb resource name". */
struct cluster_api {
	const char *group, *resource, *verb, *name; /* name NULL: the rule names no object */
	const char *yes;                            /* NULL: to nothing */
};

/* ---- in place of muxd/ctl/cluster_api.c */

int cluster_api_list(struct cluster_api *a, const struct kube_ref *r, const char *labels, json_t **out, struct err *e)
{
	(void)labels;
	(void)e;
	if (strcmp(r->resource, "clusterroles") == 0)
		*out = json_pack("[{s:{s:s},s:[{s:[s],s:[s],s:[s]}]}]", "metadata", "name", "r", "rules", "apiGroups",
				 a->group, "resources", a->resource, "verbs", a->verb);
	else if (strcmp(r->resource, "clusterrolebindings") == 0)
		*out = json_pack("[{s:{s:s},s:{s:s,s:s},s:[{s:s,s:s}]}]", "metadata", "name", "b", "roleRef", "kind",
				 "ClusterRole", "name", "r", "subjects", "kind", "User", "name", "eve");
	else
		*out = json_array();
	if (a->name && strcmp(r->resource, "clusterroles") == 0)
		json_object_set_new(json_array_get(json_object_get(json_array_get(*out, 0), "rules"), 0),
				    "resourceNames", json_pack("[s]", a->name));
	return 0;
}

int cluster_api_review(struct cluster_api *a, const struct kube_ref *r, const json_t *question, json_t **out,
		       struct err *e)
{
	const json_t *asked = json_object_get(json_object_get(question, "spec"), "resourceAttributes");
	char text[200];

	(void)e;
	if (strcmp(r->resource, "selfsubjectreviews") == 0) {
		*out = json_pack("{s:{s:{s:s}}}", "status", "userInfo", "username", "anna");
		return 0;
	}
	snprintf(text, sizeof(text), "%s %s %s", json_get_text(asked, "verb"), json_get_text(asked, "resource"),
		 json_get_text(asked, "name"));
	*out = json_pack("{s:{s:b}}", "status", "allowed", a->yes && strcmp(a->yes, text) == 0);
	return 0;
}

void cluster_api_token_subject(struct cluster_api *a, char *out, size_t size)
{
	(void)a;
	text_put(out, size, "");
}

/* ---- */

/* "User eve: exec; ", of all that are found. */
static void found(struct cluster_api *a, char *out, size_t size)
{
	const struct cluster_wish wish = {.muxd = "muxd", .account = "muxd"};
	struct cluster_found f;
	struct err e = {0};
	const json_t *row;
	size_t i, len = 0;

	out[0] = '\0';
	assert_int_equal(cluster_look(a, &wish, &f, &e), 0);
	assert_int_equal(json_array_size(f.unknown), 0);
	json_array_foreach(f.can, i, row)
	{
		assert_true(*json_get_text(row, "fix") != '\0');
		len += (size_t)snprintf(out + len, size - len, "%s: %s; ", json_get_text(row, "who"),
					json_get_text(row, "way"));
	}
	cluster_found_finish(&f);
}

#define CERTS  "certificates.k8s.io"
#define GUARDS "admissionregistration.k8s.io"
#define SIGNER "kubernetes.io/kube-apiserver-client"

static void a_right_by_a_role(void **state)
{
	static const struct {
		struct cluster_api a;
		const char *found;
	} rows[] = {
	    {{"", "pods/exec", "create", NULL, NULL}, "User eve: exec; User eve: exec; "}, /* sandboxes, muxd */
	    {{"", "pods/log", "get", NULL, NULL}, ""},
	    {{CERTS, "signers", "approve", NULL, NULL}, "User eve: approve certificates; "},
	    {{CERTS, "signers", "approve", SIGNER, NULL}, "User eve: approve certificates; "},
	    {{CERTS, "signers", "approve", SIGNER "-kubelet", NULL}, "User eve: approve certificates; "},
	    {{CERTS, "signers", "approve", "kubernetes.io/*", NULL}, "User eve: approve certificates; "},
	    {{CERTS, "signers", "*", SIGNER, NULL}, "User eve: approve certificates; "},
	    /* Certificates of servers, signers of others, and who signs without the authority's key, lead nowhere. */
	    {{CERTS, "signers", "approve", "kubernetes.io/kubelet-serving", NULL}, ""},
	    {{CERTS, "signers", "approve", "example.com/*", NULL}, ""},
	    {{CERTS, "signers", "sign", SIGNER, NULL}, ""},
	    {{CERTS, "certificatesigningrequests", "create", NULL, NULL}, ""},
	    {{GUARDS, "validatingwebhookconfigurations", "patch", "muxd-nodes", NULL}, "User eve: webhook; "},
	    {{GUARDS, "validatingwebhookconfigurations", "patch", "others", NULL}, ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cluster_api a = rows[i].a;
		char text[1000];

		found(&a, text, sizeof(text));
		if (strcmp(text, rows[i].found) != 0)
			fail_msg("%s %s %s: found \"%s\"", a.verb, a.resource, a.name ? a.name : "", text);
	}
}

/* The caller, and both groups of everybody. */
static void a_right_by_a_review(void **state)
{
	static const struct {
		const char *yes, *way;
	} rows[] = {
	    {"approve signers " SIGNER, "approve certificates"},
	    {"approve signers " SIGNER "-kubelet", "approve certificates"},
	    {"approve signers kubernetes.io/*", "approve certificates"},
	    {"update validatingwebhookconfigurations muxd-sandboxes", "webhook"},
	    {"update validatingwebhookconfigurations muxd-nodes", "webhook"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cluster_api a = {"", "pods/log", "get", NULL, rows[i].yes};
		char text[1000], wanted[200];

		found(&a, text, sizeof(text));
		snprintf(wanted, sizeof(wanted),
			 "you: anna: %s; Group system:authenticated: %s; Group system:unauthenticated: %s; ",
			 rows[i].way, rows[i].way, rows[i].way);
		if (strcmp(text, wanted) != 0)
			fail_msg("%s: found \"%s\"", rows[i].yes, text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_right_by_a_role),
	    cmocka_unit_test(a_right_by_a_review),
	};

	return cmocka_run_group_tests_name("ctl_cluster_look", tests, NULL, NULL);
}
