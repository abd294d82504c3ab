/*
 * plugin.h - one run of an exec credential plug-in (client.authentication.k8s.io/v1, v1beta1).
 *
 * The program runs in a process group of its own with the daemon's environment,
 * the configured variables and KUBERNETES_EXEC_INFO; stdin is /dev/null. What it
 * prints is bounded, the time it takes too: past it, TERM, then KILL for the group.
 * Its answer is wiped after done().
 */
#ifndef CONTROL_KUBE_CLIENT_PLUGIN_H
#define CONTROL_KUBE_CLIENT_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct kubeconfig;
struct kube_material;
struct kube_plugin;
struct uv_loop_s;

#define KUBE_PLUGIN_OUT_MAX (256 * 1024)

struct kube_plugin_answer {
	char *token, *cert, *key; /* NULL: not given. cert and key only together (PEM) */
	int64_t expires_wall_ns;  /* 0: not said */
};

/* answer is NULL unless rc is 0; its strings may be taken (set them to NULL). */
typedef void kube_plugin_done(void *arg, int rc, const struct err *e, struct kube_plugin_answer *answer);

/*
 * done is called once, later, unless cancelled; *out is good until then. ERR_CONFIG when the program cannot be
 * started (with its installHint), fails (with the first line it wrote to stderr) or answers nonsense; ERR_TIMEOUT.
 * k has to live until done or cancel. m: whose CA is given to a plug-in that asks for the cluster.
 */
int kube_plugin_run(struct uv_loop_s *loop, const struct kubeconfig *k, const struct kube_material *m,
		    uint64_t deadline_ms, kube_plugin_done *done, void *arg, struct kube_plugin **out, struct err *e);
/* done is not called; the program is killed. The loop has to run until it is reaped. NULL-safe. */
void kube_plugin_cancel(struct kube_plugin *p);

/* What a plug-in printed. ERR_CONFIG; no message quotes it. */
int kube_plugin_parse(const char *text, size_t len, const char *api_version, struct kube_plugin_answer *out,
		      struct err *e);
void kube_plugin_answer_finish(struct kube_plugin_answer *a);

#endif
