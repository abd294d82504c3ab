#include "muxd/ctl/cluster_api.h"

#include "base/err.h"
#include "base/text.h"
#include "control/kube/client/endpoint.h"
#include "control/kube/client/kube_creds.h"
#include "control/kube/client/kubeconfig.h"
#include "control/kube/client/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define PAGE      500
#define ITEMS_MAX 200000
#define JWT_MAX   (16 * 1024)

struct cluster_api {
	uv_loop_t loop;
	struct kube_creds *creds;
	struct kube *kube;
};

/* What became of the one question that is out. */
struct answer {
	bool done;
	int rc;
	struct err *e;
	json_t *body;
};

static void cluster_api_on_done(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct answer *a = arg;

	a->done = true;
	a->rc = rc;
	if (rc)
		err_set(a->e, rc, "%s", e->message);
	else
		a->body = json_incref((json_t *)(uintptr_t)reply->body);
}

static int await(struct cluster_api *a, int rc, struct answer *answer, json_t **out)
{
	if (rc)
		return rc;
	while (!answer->done)
		uv_run(&a->loop, UV_RUN_ONCE);
	if (answer->rc == 0 && !json_is_object(answer->body)) {
		json_decref(answer->body);
		return err_set(answer->e, ERR_PROTOCOL, "the API server's answer is no object");
	}
	if (answer->rc == 0)
		*out = answer->body;
	return answer->rc;
}

/* ---- life */

static int find_files(const char *files, char *out, size_t size, struct err *e)
{
	const char *home = getenv("HOME");

	if (!files)
		files = getenv("KUBECONFIG");
	if (files && *files)
		return (size_t)snprintf(out, size, "%s", files) < size ? 0
								       : err_set(e, ERR_INVAL, "the path is too long");
	if (!home || (size_t)snprintf(out, size, "%s/.kube/config", home) >= size)
		return err_set(e, ERR_NOT_FOUND, "no kubeconfig: give --kubeconfig, or set KUBECONFIG");
	return 0;
}

int cluster_api_open(const char *files, const char *context, struct cluster_api **out, struct err *e)
{
	struct cluster_api *a = calloc(1, sizeof(*a));
	struct kubeconfig *k = NULL;
	char path[4096];
	int rc;

	if (!a)
		return err_set(e, ERR_NOMEM, "no memory for the cluster");
	if (uv_loop_init(&a->loop)) {
		free(a);
		return err_set(e, ERR_SYS, "no event loop");
	}
	rc = find_files(files, path, sizeof(path), e);
	if (rc == 0)
		rc = kubeconfig_load(path, context, &k, e);
	if (rc == 0 && (rc = kube_creds_create(&a->loop, k, NULL, &a->creds, e)))
		kubeconfig_destroy(k);
	if (rc == 0)
		rc = kube_client_create(&a->loop, a->creds, NULL, &a->kube, e);
	if (rc)
		cluster_api_close(a);
	else
		*out = a;
	return rc;
}

void cluster_api_close(struct cluster_api *a)
{
	if (!a)
		return;
	kube_client_destroy(a->kube);
	kube_creds_destroy(a->creds);
	uv_run(&a->loop, UV_RUN_DEFAULT);
	uv_loop_close(&a->loop);
	free(a);
}

/* ---- questions */

static const char *continue_of(const json_t *page)
{
	const char *s = json_string_value(json_object_get(json_object_get(page, "metadata"), "continue"));

	return s && *s ? s : NULL;
}

int cluster_api_list(struct cluster_api *a, const struct kube_ref *r, const char *labels, json_t **out, struct err *e)
{
	json_t *items = json_array(), *page = NULL;
	int rc = items ? 0 : err_set(e, ERR_NOMEM, "no memory for a list");

	while (rc == 0) {
		struct kube_list_options o = {
		    .labels = labels, .continue_ = page ? continue_of(page) : NULL, .limit = PAGE};
		struct answer answer = {.e = e};
		json_t *next = NULL;

		rc = await(a, kube_list(a->kube, r, &o, cluster_api_on_done, &answer, NULL, e), &answer, &next);
		json_decref(page);
		page = next;
		if (rc)
			break;
		if (json_array_extend(items, json_object_get(page, "items")))
			rc = err_set(e, ERR_PROTOCOL, "the API server's list has no items");
		else if (json_array_size(items) > ITEMS_MAX)
			rc = err_set(e, ERR_TOO_LARGE, "more than %d %s", ITEMS_MAX, r->resource);
		else if (!continue_of(page))
			break;
	}
	json_decref(page);
	if (rc)
		json_decref(items);
	else
		*out = items;
	return rc;
}

int cluster_api_review(struct cluster_api *a, const struct kube_ref *r, const json_t *question, json_t **out,
		       struct err *e)
{
	struct answer answer = {.e = e};

	return await(a, kube_create(a->kube, r, question, cluster_api_on_done, &answer, NULL, e), &answer, out);
}

/* ---- who it is */

void cluster_api_token_subject(struct cluster_api *a, char *out, size_t size)
{
	const char *token = kube_creds_endpoint(a->creds)->token, *from = token ? strchr(token, '.') : NULL;
	const char *to = from ? strchr(from + 1, '.') : NULL, *sub;
	uint8_t *text = NULL;
	json_t *claims = NULL;
	size_t len = 0;

	*out = '\0';
	if (!to || base64_decode(from + 1, (size_t)(to - from - 1), true, &text, &len))
		return;
	if (json_parse(text, len, JWT_MAX, &claims, NULL) == 0 &&
	    (sub = json_string_value(json_object_get(claims, "sub"))))
		text_put(out, size, sub);
	json_decref(claims);
	free(text);
}
