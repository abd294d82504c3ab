/* muxctl cluster check: who in a cluster can enter sandboxes past muxd, and what to do about it. Asks no daemon. */
#include "muxd/ctl/cluster_api.h"
#include "muxd/ctl/cluster_look.h"
#include "muxd/ctl/nouns.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_SOMEBODY  3
#define STATUS_NOT_KNOWN 4

static const struct ctl_option check_options[] = {
    {"kubeconfig", 0, "FILE", "Whose view it is (default: $KUBECONFIG, else ~/.kube/config); never muxd's own."},
    {"context", 0, "NAME", "Context of it (default: its current-context)."},
    {"muxd", 0, "NAMESPACE", "Where muxd runs (default: muxd)."},
    {"account", 0, "NAME", "Its service account there (default: muxd)."},
    {"sandboxes", 0, "NAMESPACE",
     "A namespace of sandboxes, in place of those with the label; may be given many times."},
    {"except", 0, "WHO", "Who may, as the table writes it, * for any text; may be given many times."},
    {"all", 'a', NULL, "Show parts of Kubernetes, and who is excepted, too."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_column can_columns[] = {
    {"who", "WHO"}, {"way", "WAY"}, {"where", "WHERE"}, {"rights", "RIGHTS"},
    {"by", "BY"},   {"fix", "FIX"}, {NULL, NULL},
};

static const struct ctl_column unknown_columns[] = {{"what", "NOT KNOWN"}, {"why", "WHY"}, {NULL, NULL}};

static bool is_excepted(const struct ctl_args *a, const char *who)
{
	for (size_t i = 0; i < a->nvalues; i++)
		if (strcmp(a->values[i].name, "except") == 0 && fnmatch(a->values[i].value, who, 0) == 0)
			return true;
	return false;
}

static int given_sandboxes(const struct ctl_args *a, json_t **out, struct err *e)
{
	*out = NULL;
	for (size_t i = 0; i < a->nvalues; i++) {
		if (strcmp(a->values[i].name, "sandboxes") != 0)
			continue;
		if (!*out)
			*out = json_array();
		if (json_array_append_new(*out, json_string(a->values[i].value)))
			return err_set(e, ERR_NOMEM, "no memory for the namespaces");
	}
	return 0;
}

/* ---- what is shown */

/* "a, b": lists of a row are texts in the table. */
static int cluster_join(json_t *row, const char *key)
{
	const json_t *list = json_object_get(row, key), *v;
	struct buf b;
	size_t i;
	int rc = 0;

	buf_init(&b, 64 * 1024);
	json_array_foreach(list, i, v)
	{
		if (rc == 0)
			rc = buf_printf(&b, "%s%s", i ? ", " : "", json_string_value(v));
	}
	if (rc == 0)
		rc = json_object_set_new(row, key, json_string(buf_len(&b) ? buf_cstr(&b) : "")) ? ERR_NOMEM : 0;
	buf_finish(&b);
	return rc;
}

static int cluster_shown(const json_t *row, json_t *out)
{
	json_t *copy = json_deep_copy(row);
	int rc = copy ? 0 : ERR_NOMEM;

	if (rc == 0)
		rc = cluster_join(copy, "rights");
	if (rc == 0)
		rc = cluster_join(copy, "by");
	if (rc == 0 && !*json_string_value(json_object_get(copy, "where")))
		json_object_set_new(copy, "where", json_string("(cluster)"));
	if (rc == 0 && json_array_append(out, copy))
		rc = ERR_NOMEM;
	json_decref(copy);
	return rc;
}

struct counts {
	size_t open, excepted, components;
};

/* Each row is marked, and counted where it belongs. */
static struct counts cluster_count(const struct ctl_args *a, struct cluster_found *f)
{
	struct counts n = {0, 0, 0};
	json_t *row;
	size_t i;

	json_array_foreach(f->can, i, row)
	{
		bool excepted = is_excepted(a, json_string_value(json_object_get(row, "who")));

		json_object_set_new(row, "excepted", json_boolean(excepted));
		if (excepted)
			n.excepted++;
		else if (json_is_true(json_object_get(row, "component")))
			n.components++;
		else
			n.open++;
	}
	return n;
}

static int print_rows(struct ctl *c, const struct ctl_args *a, const struct cluster_found *f, struct err *e)
{
	json_t *rows = json_array();
	const json_t *row;
	int rc = 0, status = 0;
	size_t i;

	json_array_foreach(f->can, i, row)
	{
		bool quiet =
		    json_is_true(json_object_get(row, "excepted")) || json_is_true(json_object_get(row, "component"));

		if (rc == 0 && (!quiet || args_has(a, "all")))
			rc = cluster_shown(row, rows);
	}
	if (rc)
		err_set(e, rc, "no memory for the table");
	else if (json_array_size(rows))
		status = ctl_print_table(c, rows, can_columns);
	json_decref(rows);
	return rc ? ctl_fail(c, e) : status;
}

static void print_end(const struct cluster_found *f, const struct counts *n)
{
	size_t unknown = json_array_size(f->unknown);

	if (n->open)
		printf("\n%zu ways in past muxd; the webhook or policy holds off those through pods and nodes at the "
		       "API server, "
		       "as long as it is in force.\n",
		       n->open);
	else
		printf("Nobody%s can enter past muxd%s.\n", n->excepted ? " else" : "",
		       unknown ? ", as far as could be read" : "");
	if (n->excepted || n->components)
		printf("Not counted: %zu by --except, %zu parts of Kubernetes (--all shows them).\n", n->excepted,
		       n->components);
}

static int print_found(struct ctl *c, const struct ctl_args *a, const struct cluster_found *f, const struct counts *n,
		       struct err *e)
{
	char *server = ctl_clean(f->me);
	int status;

	printf("As %s. Namespaces of sandboxes:",
	       server && *server ? server : "the kubeconfig's user (the server does not say who)");
	free(server);
	for (size_t i = 0; i < json_array_size(f->sandboxes); i++) {
		char *name = ctl_text(json_array_get(f->sandboxes, i));
		printf(" %s", name ? name : "");
		free(name);
	}
	printf("\n\n");
	status = print_rows(c, a, f, e);
	if (status == 0)
		print_end(f, n);
	if (status == 0 && json_array_size(f->unknown)) {
		putchar('\n');
		status = ctl_print_table(c, f->unknown, unknown_columns);
	}
	return status;
}

static int print_as_json(struct ctl *c, const struct cluster_found *f)
{
	json_t *o = json_pack("{s:s,s:O,s:O,s:O}", "as", f->me, "sandboxes", f->sandboxes, "can", f->can, "unknown",
			      f->unknown);
	int status = o ? ctl_print_json(c, o) : 71;

	json_decref(o);
	return status;
}

static int ctl_cluster_check(struct ctl *c, const struct ctl_args *a)
{
	struct cluster_wish wish = {.muxd = args_get_or(a, "muxd", "muxd"),
				    .account = args_get_or(a, "account", "muxd")};
	struct cluster_found f = {0};
	struct cluster_api *api = NULL;
	struct counts n;
	struct err e = {0};
	int status, rc = given_sandboxes(a, &wish.sandboxes, &e);

	if (rc == 0)
		rc = cluster_api_open(args_get(a, "kubeconfig"), args_get(a, "context"), &api, &e);
	if (rc == 0)
		rc = cluster_look(api, &wish, &f, &e);
	if (rc) {
		status = ctl_fail(c, &e);
		goto out;
	}
	n = cluster_count(a, &f);
	status = c->json ? print_as_json(c, &f) : print_found(c, a, &f, &n, &e);
	if (status == 0)
		status = n.open ? STATUS_SOMEBODY : json_array_size(f.unknown) ? STATUS_NOT_KNOWN : 0;
	cluster_found_finish(&f);
out:
	cluster_api_close(api);
	json_decref(wish.sandboxes);
	return status;
}

const struct ctl_command cluster_commands[] = {
    {"cluster check", "", 0, 0, "List who in a Kubernetes cluster can enter sandboxes without muxd, and the fix.",
     check_options, .run = ctl_cluster_check,
     .more = "Exit status: 0 nobody, 3 somebody, 4 nobody as far as muxd may read."},
    {0},
};
