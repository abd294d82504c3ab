/*
 * kube_probe.c - the Kubernetes client of control/kube against a real API server, for stories. Not installed.
 *
 *	kube_probe KUBECONFIG get RESOURCE NAME     the object as JSON
 *	kube_probe KUBECONFIG tour                  every verb on a ConfigMap and a Pod, each step told
 *	kube_probe KUBECONFIG watch RESOURCE [LABELS]
 *	                                            a line a change (+name ~name -name, sync. resync.) until stdin ends
 *	kube_probe KUBECONFIG many N                N requests at once
 *	kube_probe KUBECONFIG ask MS                a line of stdin: the name of a ConfigMap; of stdout: what became of
 *it
 *
 * KUBECONFIG: a path, PATH@CONTEXT, or pod:DIR for a service account's directory (with KUBERNETES_SERVICE_HOST and
 * _PORT). PROBE_LOG=1: the client's log on stderr. Exit code 0, or that of the error, which is told on stderr as CODE:
 *MESSAGE.
 */
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "control/kube/client/kube_creds.h"
#include "control/kube/client/kubeconfig.h"
#include "control/kube/client/watch.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

struct probe {
	uv_loop_t loop;
	struct kube_creds *creds;
	struct kube *kube;
	const char *ns;
	int left; /* calls that are out */
	int rc, status;
	char message[ERR_MESSAGE_MAX];
	json_t *body;
	char *text;
	struct kube_watch *watch;
	uv_poll_t input;
};

static void on_done(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct probe *p = arg;

	p->left--;
	p->rc = rc;
	p->status = reply->status;
	if (e)
		memcpy(p->message, e->message, sizeof(p->message));
	json_decref(p->body);
	p->body = json_incref((json_t *)(uintptr_t)reply->body);
	free(p->text);
	p->text = strndup(reply->text ? (const char *)reply->text : "", reply->len);
}

static void finish(struct probe *p)
{
	while (p->left > 0)
		uv_run(&p->loop, UV_RUN_ONCE);
}

static int told(const struct probe *p)
{
	if (p->rc == 0)
		return 0;
	fprintf(stderr, "%s: %s\n", err_name(p->rc), p->message);
	return err_exit_code(p->rc);
}

/* --- a tour */

static void step(struct probe *p, const char *what, bool fine)
{
	if (fine) {
		printf("ok %s\n", what);
		return;
	}
	fprintf(stderr, "%s: rc %s, HTTP %d, %s\n", what, err_name(p->rc), p->status, p->message);
	exit(1);
}

static const char *path_text(const json_t *o, const char *a, const char *b)
{
	const char *s = json_string_value(json_object_get(json_object_get(o, a), b));

	return s ? s : "";
}

/* One call of the tour, awaited. */
#define CALL(p, call)                                                                                                  \
	do {                                                                                                           \
		(p)->left = 1;                                                                                         \
		if ((call) < 0)                                                                                        \
			exit(70);                                                                                      \
		finish(p);                                                                                             \
	} while (0)

static void tour_config_map(struct probe *p)
{
	struct kube_ref r = {.resource = "configmaps", .namespace_ = p->ns, .name = "probe"};
	json_t *map = json_pack("{s:s, s:s, s:{s:s}, s:{s:s}}", "apiVersion", "v1", "kind", "ConfigMap", "metadata",
				"name", "probe", "data", "a", "1");
	json_t *patch = json_pack("{s:{s:s}}", "data", "b", "2");
	struct kube_delete_options del = {.uid = "00000000-0000-0000-0000-000000000000", .grace_s = -1};
	char uid[64];

	CALL(p, kube_get(p->kube, &r, on_done, p, NULL, NULL));
	step(p, "an object that is not there", p->rc == ERR_NOT_FOUND && strstr(p->message, "NotFound"));
	CALL(p, kube_create(p->kube, &r, map, on_done, p, NULL, NULL));
	step(p, "create", p->rc == 0 && p->status == 201);
	snprintf(uid, sizeof(uid), "%s", path_text(p->body, "metadata", "uid"));
	CALL(p, kube_create(p->kube, &r, map, on_done, p, NULL, NULL));
	step(p, "create again", p->rc == ERR_K8S_CONFLICT && strstr(p->message, "AlreadyExists"));
	CALL(p, kube_patch(p->kube, &r, KUBE_PATCH_MERGE, patch, on_done, p, NULL, NULL));
	step(p, "merge patch", p->rc == 0 && strcmp(path_text(p->body, "data", "b"), "2") == 0);
	CALL(p, kube_patch(p->kube, &r, KUBE_PATCH_STRATEGIC, patch, on_done, p, NULL, NULL));
	step(p, "strategic merge patch", p->rc == 0);
	json_object_set_new(patch, "metadata", json_pack("{s:s}", "resourceVersion", "1"));
	CALL(p, kube_patch(p->kube, &r, KUBE_PATCH_MERGE, patch, on_done, p, NULL, NULL));
	step(p, "merge patch of an old version", p->rc == ERR_K8S_CONFLICT && strstr(p->message, "Conflict"));
	CALL(p, kube_delete(p->kube, &r, &del, on_done, p, NULL, NULL));
	step(p, "delete of another incarnation", p->rc == ERR_K8S_CONFLICT);
	del.uid = uid;
	CALL(p, kube_delete(p->kube, &r, &del, on_done, p, NULL, NULL));
	step(p, "delete", p->rc == 0);
	CALL(p, kube_delete(p->kube, &r, NULL, on_done, p, NULL, NULL));
	step(p, "delete again", p->rc == ERR_NOT_FOUND);
	json_decref(map);
	json_decref(patch);
}

static void tour_pod(struct probe *p)
{
	struct kube_ref r = {.resource = "pods", .namespace_ = p->ns, .name = "probe"};
	struct kube_delete_options now = {.grace_s = 0, .propagation = "Background"};
	json_t *pod =
	    json_pack("{s:s, s:s, s:{s:s}, s:{s:s, s:i, s:[{s:s, s:s, s:s, s:[s, s, s]}]}}", "apiVersion", "v1", "kind",
		      "Pod", "metadata", "name", "probe", "spec", "restartPolicy", "Never",
		      "terminationGracePeriodSeconds", 0, "containers", "name", "c", "image", "localhost/busybox:1",
		      "imagePullPolicy", "Never", "command", "sh", "-c", "echo hello; sleep 600");
	json_t *bad = json_deep_copy(pod);
	const char *phase = "";

	json_object_del(json_array_get(json_object_get(json_object_get(bad, "spec"), "containers"), 0), "name");
	CALL(p, kube_create(p->kube, &r, bad, on_done, p, NULL, NULL));
	step(p, "a pod that is invalid", p->rc == ERR_K8S_INVALID && strstr(p->message, "spec.containers[0].name"));
	CALL(p, kube_create(p->kube, &r, pod, on_done, p, NULL, NULL));
	step(p, "create a pod", p->rc == 0);
	for (int i = 0; i < 600 && strcmp(phase, "Running") != 0; i++) {
		usleep(100000);
		CALL(p, kube_get(p->kube, &r, on_done, p, NULL, NULL));
		phase = path_text(p->body, "status", "phase");
	}
	step(p, "it runs", strcmp(phase, "Running") == 0);
	CALL(p, kube_logs(p->kube, &r, &(struct kube_log_options){.container = "c", .tail_lines = -1}, on_done, p, NULL,
			  NULL));
	step(p, "its log", p->rc == 0 && strcmp(p->text, "hello\n") == 0);
	CALL(p, kube_logs(p->kube, &r, &(struct kube_log_options){.container = "x", .tail_lines = -1}, on_done, p, NULL,
			  NULL));
	step(p, "the log of no container",
	     p->rc == ERR_K8S && strstr(p->message, "container x is not valid for pod probe"));
	CALL(p, kube_delete(p->kube, &r, &now, on_done, p, NULL, NULL));
	step(p, "delete the pod", p->rc == 0);
	json_decref(pod);
	json_decref(bad);
}

static int tour(struct probe *p)
{
	tour_config_map(p);
	tour_pod(p);
	return 0;
}

/* --- the others */

static int get(struct probe *p, const char *resource, const char *name)
{
	struct kube_ref r = {.resource = resource, .namespace_ = p->ns, .name = name};
	struct err e = {0};

	p->left = 1;
	int rc = kube_get(p->kube, &r, on_done, p, NULL, &e);
	if (rc < 0) {
		fprintf(stderr, "%s: %s\n", err_name(rc), e.message);
		return err_exit_code(rc);
	}
	finish(p);
	if (p->rc == 0)
		puts(p->text);
	return told(p);
}

static int many(struct probe *p, int n)
{
	struct kube_ref r = {.resource = "configmaps", .namespace_ = p->ns};
	uint64_t t = uv_hrtime();
	int failed = 0;

	p->left = n;
	for (int i = 0; i < n; i++)
		if (kube_list(p->kube, &r, &(struct kube_list_options){.limit = 1}, on_done, p, NULL, NULL) < 0)
			return 70;
	while (p->left > 0) {
		uv_run(&p->loop, UV_RUN_ONCE);
		failed += p->rc != 0;
	}
	printf("%d requests, %d ms, %s\n", n, (int)((uv_hrtime() - t) / 1000000), failed ? "some failed" : "all fine");
	return told(p);
}

/* One after another, on what connection there is. */
static int ask(struct probe *p)
{
	char name[64];

	while (fgets(name, sizeof(name), stdin)) {
		name[strcspn(name, "\n")] = '\0';
		get(p, "configmaps", name);
		puts(p->rc ? err_name(p->rc) : "ok");
		fflush(stdout);
	}
	return 0;
}

static void say(const char *mark, const json_t *o)
{
	printf("%s%s\n", mark, o ? path_text(o, "metadata", "name") : "");
	fflush(stdout);
}

static void on_added(void *arg, const json_t *o)
{
	(void)arg;
	say("+", o);
}

static void on_modified(void *arg, const json_t *o)
{
	(void)arg;
	say("~", o);
}

static void on_deleted(void *arg, const json_t *o)
{
	(void)arg;
	say("-", o);
}

static void on_synced(void *arg, bool resync)
{
	(void)arg;
	say(resync ? "resync." : "sync.", NULL);
}

static void on_trouble(void *arg, int rc, const struct err *e)
{
	(void)arg;
	fprintf(stderr, "%s: %s\n", rc ? err_name(rc) : "well", rc ? e->message : "again");
}

static void on_input(uv_poll_t *h, int status, int events)
{
	struct probe *p = h->data;
	char c[64];

	(void)events;
	if (status == 0 && read(0, c, sizeof(c)) > 0)
		return;
	kube_watch_destroy(p->watch);
	uv_close((uv_handle_t *)h, NULL);
	p->left = 0;
}

static int watch(struct probe *p, const char *resource, const char *labels)
{
	static const struct kube_watch_ops ops = {on_added, on_modified, on_deleted, on_synced, on_trouble};
	struct kube_ref r = {.resource = resource, .namespace_ = p->ns};
	struct kube_watch_options o = {.labels = labels, .timeout_s = 20};

	if (kube_watch_create(p->kube, &r, &o, &ops, p, &p->watch, NULL) < 0 ||
	    uv_poll_init(&p->loop, &p->input, 0) < 0)
		return 70;
	p->input.data = p;
	uv_poll_start(&p->input, UV_READABLE, on_input);
	p->left = 1;
	finish(p);
	return 0;
}

/* --- the start */

static int load(const char *where, struct kubeconfig **out, struct err *e)
{
	char path[4096];
	const char *at = strrchr(where, '@');

	if (strncmp(where, "pod:", 4) == 0)
		return kubeconfig_in_cluster(getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT"),
					     where + 4, out, e);
	snprintf(path, sizeof(path), "%.*s", at ? (int)(at - where) : (int)strlen(where), where);
	return kubeconfig_load(path, at ? at + 1 : NULL, out, e);
}

static int connect_to(struct probe *p, const char *where, uint64_t deadline_ms, struct err *e)
{
	struct kubeconfig *k = NULL;
	int rc = load(where, &k, e);

	if (rc == 0)
		rc = kube_creds_create(&p->loop, k, NULL, &p->creds, e);
	if (rc < 0) {
		kubeconfig_destroy(k);
		return rc;
	}
	p->ns = k->namespace_;
	return kube_client_create(&p->loop, p->creds, &(struct kube_options){.deadline_ms = deadline_ms}, &p->kube, e);
}

static int run(struct probe *p, int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[2], "get") == 0)
		return get(p, argv[3], argv[4]);
	if (argc == 3 && strcmp(argv[2], "tour") == 0)
		return tour(p);
	if (argc == 4 && strcmp(argv[2], "many") == 0)
		return many(p, atoi(argv[3]));
	if (argc == 4 && strcmp(argv[2], "ask") == 0)
		return ask(p);
	if (argc >= 4 && argc <= 5 && strcmp(argv[2], "watch") == 0)
		return watch(p, argv[3], argv[4]);
	fprintf(stderr,
		"usage: kube_probe KUBECONFIG get RESOURCE NAME | tour | many N | ask MS | watch RESOURCE [LABELS]\n");
	return 64;
}

int main(int argc, char **argv)
{
	struct probe p = {0};
	struct err e = {0};

	signal(SIGPIPE, SIG_IGN);
	if (getenv("PROBE_LOG"))
		(void)log_setup("probe", "debug", LOG_TEXT, 2, NULL);
	uv_loop_init(&p.loop);
	uint64_t deadline_ms = argc == 4 && strcmp(argv[2], "ask") == 0 ? (uint64_t)atoi(argv[3]) : 0;
	int rc = argc < 2 ? 0 : connect_to(&p, argv[1], deadline_ms, &e);
	int code = rc < 0 ? err_exit_code(rc) : run(&p, argc, argv);
	if (rc < 0)
		fprintf(stderr, "%s: %s\n", err_name(rc), e.message);
	kube_client_destroy(p.kube);
	kube_creds_destroy(p.creds);
	uv_run(&p.loop, UV_RUN_DEFAULT);
	uv_loop_close(&p.loop);
	json_decref(p.body);
	free(p.text);
	return code;
}
