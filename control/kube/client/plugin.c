#define LOG_SUBSYS "kube"
#include "control/kube/client/plugin.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "control/kube/client/kubeconfig.h"
#include "control/kube/client/material.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

extern char **environ;

#define STDERR_MAX 4096 /* more is read and dropped */
#define GRACE_MS   2000 /* TERM to KILL; also exit to the end of its output */
#define READ_CHUNK 8192
#define HANDLES    4
#define INFO_NAME  "KUBERNETES_EXEC_INFO"

enum plugin_state {
	PLUGIN_RUNNING,
	PLUGIN_TERMINATED, /* its time is up, TERM sent */
	PLUGIN_EXITED,     /* gone; its output may not be at its end */
	PLUGIN_CANCELLED,  /* killed, to be reaped */
	PLUGIN_CLOSING,    /* handles are closing */
};

struct kube_plugin {
	enum plugin_state state;
	const struct kubeconfig *conf; /* not ours: not to be looked at once cancelled */
	kube_plugin_done *done;
	void *arg;
	uv_process_t process;
	uv_pipe_t out, err;
	uv_timer_t timer;
	int open; /* handles not closed */
	bool out_ended, flooded, late;
	int64_t status;
	int sig;
	struct buf text, complaint;
	char chunk[READ_CHUNK];
};

static const char *const state_names[] = {"running", "terminated", "exited", "cancelled", "closing"};

static void plugin_set_state(struct kube_plugin *p, enum plugin_state s)
{
	log_debug(NULL, "credential plug-in, pid %d: %s -> %s", (int)p->process.pid, state_names[p->state],
		  state_names[s]);
	p->state = s;
}

/* --- the end */

static void plugin_on_closed(uv_handle_t *h)
{
	struct kube_plugin *p = h->data;

	if (--p->open > 0)
		return;
	buf_finish_secret(&p->text);
	buf_finish(&p->complaint);
	explicit_bzero(p->chunk, sizeof(p->chunk));
	free(p);
}

static void plugin_close_all(struct kube_plugin *p)
{
	uv_handle_t *handles[HANDLES] = {(uv_handle_t *)&p->process, (uv_handle_t *)&p->out, (uv_handle_t *)&p->err,
					 (uv_handle_t *)&p->timer};

	plugin_set_state(p, PLUGIN_CLOSING);
	for (int i = 0; i < HANDLES; i++)
		uv_close(handles[i], plugin_on_closed);
}

/* First line of what it complained about. */
static int failed(struct kube_plugin *p, struct err *e)
{
	const char *name = p->conf->plugin->argv[0], *text = buf_cstr(&p->complaint);
	int n = text ? (int)strcspn(text, "\r\n") : 0;
	char how[48];

	if (p->late)
		return err_set(e, ERR_TIMEOUT, "credential plug-in %.100s of %.100s took too long%s%.*s", name,
			       p->conf->name, n ? ": " : "", n, n ? text : "");
	if (p->flooded)
		return err_set(e, ERR_CONFIG, "credential plug-in %.100s of %.100s printed more than %d bytes", name,
			       p->conf->name, KUBE_PLUGIN_OUT_MAX);
	snprintf(how, sizeof(how), p->sig ? "was killed by signal %d" : "ended with code %d",
		 p->sig ? p->sig : (int)p->status);
	return err_set(e, ERR_CONFIG, "credential plug-in %.100s of %.100s %s%s%.*s", name, p->conf->name, how,
		       n ? ": " : "", n, n ? text : "");
}

static int plugin_read_answer(struct kube_plugin *p, struct kube_plugin_answer *answer, struct err *e)
{
	struct err why = {0};

	if (p->late || p->flooded || p->sig || p->status)
		return failed(p, e);
	int rc = kube_plugin_parse((const char *)buf_ptr(&p->text), buf_len(&p->text), p->conf->plugin->api_version,
				   answer, &why);
	return rc < 0 ? err_set(e, rc, "credential plug-in %.100s of %.100s: %s", p->conf->plugin->argv[0],
				p->conf->name, why.message)
		      : 0;
}

static void plugin_finish(struct kube_plugin *p)
{
	struct kube_plugin_answer answer = {0};
	struct err e = {0};
	int rc = plugin_read_answer(p, &answer, &e);

	plugin_close_all(p);
	p->done(p->arg, rc, &e, rc < 0 ? NULL : &answer);
	kube_plugin_answer_finish(&answer);
}

static void kill_group(struct kube_plugin *p, int sig)
{
	if (uv_kill(-p->process.pid, sig) < 0)
		(void)uv_process_kill(&p->process, sig);
}

/* Its time is up; then the grace is. */
static void plugin_on_timer(uv_timer_t *t)
{
	struct kube_plugin *p = t->data;

	if (p->state == PLUGIN_EXITED) {
		/* a child of it keeps its stdout open: what is there counts */
		plugin_finish(p);
		return;
	}
	p->late = true;
	kill_group(p, p->state == PLUGIN_RUNNING ? SIGTERM : SIGKILL);
	plugin_set_state(p, PLUGIN_TERMINATED);
	uv_timer_start(&p->timer, plugin_on_timer, GRACE_MS, 0);
}

static void plugin_on_exit_of(uv_process_t *h, int64_t status, int sig)
{
	struct kube_plugin *p = h->data;

	p->status = status;
	p->sig = sig;
	if (p->state == PLUGIN_CANCELLED) {
		plugin_close_all(p);
		return;
	}
	plugin_set_state(p, PLUGIN_EXITED);
	if (p->out_ended)
		plugin_finish(p);
	else
		uv_timer_start(&p->timer, plugin_on_timer, GRACE_MS, 0);
}

/* --- its output */

static void plugin_on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *out)
{
	struct kube_plugin *p = h->data;

	(void)hint;
	*out = uv_buf_init(p->chunk, sizeof(p->chunk));
}

static void plugin_on_out(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct kube_plugin *p = s->data;

	if (n > 0 && buf_append(&p->text, b->base, (size_t)n) < 0 && !p->flooded) {
		p->flooded = true;
		kill_group(p, SIGKILL);
	}
	if (n >= 0)
		return;
	uv_read_stop(s);
	p->out_ended = true;
	if (p->state == PLUGIN_EXITED)
		plugin_finish(p);
}

static void plugin_on_err(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct kube_plugin *p = s->data;
	size_t room = buf_room(&p->complaint);

	if (n < 0)
		uv_read_stop(s);
	else if (n > 0)
		(void)buf_append(&p->complaint, b->base, (size_t)n < room ? (size_t)n : room);
}

/* --- the start */

static json_t *cluster_info(const struct kubeconfig *k, const struct kube_material *m)
{
	json_t *o = json_pack("{s:s, s:b}", "server", k->server, "insecure-skip-tls-verify", k->insecure);
	char *ca = m->ca.data ? base64_encode(m->ca.data, m->ca.len, false) : NULL;

	if (k->tls_server_name)
		json_object_set_new(o, "tls-server-name", json_string(k->tls_server_name));
	if (k->proxy)
		json_object_set_new(o, "proxy-url", json_string(k->proxy));
	if (ca)
		json_object_set_new(o, "certificate-authority-data", json_string(ca));
	free(ca);
	return o;
}

/* KUBERNETES_EXEC_INFO={"kind":"ExecCredential",...} */
static char *exec_info(const struct kubeconfig *k, const struct kube_material *m)
{
	json_t *o = json_pack("{s:s, s:s, s:{s:b}}", "kind", "ExecCredential", "apiVersion", k->plugin->api_version,
			      "spec", "interactive", false);
	char *out = NULL;

	if (k->plugin->cluster_info)
		json_object_set_new(json_object_get(o, "spec"), "cluster", cluster_info(k, m));
	char *text = json_text(o);
	if (text && asprintf(&out, INFO_NAME "=%s", text) < 0)
		out = NULL;
	free(text);
	json_decref(o);
	return out;
}

static bool same_name(const char *a, const char *b)
{
	size_t n = strcspn(b, "=");

	return strncmp(a, b, n) == 0 && (a[n] == '=' || a[n] == '\0');
}

static bool replaced(const char *variable, char *const *by)
{
	for (; *by; by++)
		if (same_name(variable, *by))
			return true;
	return same_name(variable, INFO_NAME);
}

/* The daemon's variables, then those configured, then info. The list is the caller's, not its strings. */
static char **make_env(char *const *configured, char *info)
{
	size_t n = 0, have = 0, more = 0;

	while (environ[have])
		have++;
	while (configured[more])
		more++;
	char **env = calloc(have + more + 2, sizeof(*env));
	if (!env)
		return NULL;
	for (size_t i = 0; i < have; i++)
		if (!replaced(environ[i], configured))
			env[n++] = environ[i];
	for (size_t i = 0; i < more; i++)
		env[n++] = configured[i];
	env[n] = info;
	return env;
}

static int spawn(uv_loop_t *loop, struct kube_plugin *p, char **env)
{
	uv_stdio_container_t stdio[3] = {
	    {.flags = UV_IGNORE},
	    {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&p->out},
	    {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&p->err},
	};
	uv_process_options_t options = {
	    .exit_cb = plugin_on_exit_of,
	    .file = p->conf->plugin->argv[0],
	    .args = p->conf->plugin->argv,
	    .env = env,
	    .flags = UV_PROCESS_DETACHED,
	    .stdio_count = 3,
	    .stdio = stdio,
	};
	int rc = uv_spawn(loop, &p->process, &options);

	if (rc < 0)
		return rc;
	(void)uv_read_start((uv_stream_t *)&p->out, plugin_on_alloc, plugin_on_out);
	(void)uv_read_start((uv_stream_t *)&p->err, plugin_on_alloc, plugin_on_err);
	return 0;
}

static int not_started(const struct kubeconfig *k, int uv_rc, struct err *e)
{
	const char *hint = k->plugin->install_hint;

	return err_set(e, ERR_CONFIG, "credential plug-in %.100s of %.100s cannot be started: %s%s%.150s",
		       k->plugin->argv[0], k->name, uv_strerror(uv_rc), *hint ? "; " : "", hint);
}

static struct kube_plugin *create(uv_loop_t *loop, const struct kubeconfig *k, kube_plugin_done *done, void *arg)
{
	struct kube_plugin *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->conf = k;
	p->done = done;
	p->arg = arg;
	buf_init(&p->text, KUBE_PLUGIN_OUT_MAX);
	buf_init(&p->complaint, STDERR_MAX);
	(void)uv_pipe_init(loop, &p->out, 0);
	(void)uv_pipe_init(loop, &p->err, 0);
	(void)uv_timer_init(loop, &p->timer);
	p->process.data = p->out.data = p->err.data = p->timer.data = p;
	p->open = HANDLES;
	return p;
}

int kube_plugin_run(struct uv_loop_s *loop, const struct kubeconfig *k, const struct kube_material *m,
		    uint64_t deadline_ms, kube_plugin_done *done, void *arg, struct kube_plugin **out, struct err *e)
{
	char *info = exec_info(k, m);
	char **env = info ? make_env(k->plugin->env, info) : NULL;
	struct kube_plugin *p = env ? create(loop, k, done, arg) : NULL;
	int rc = p ? 0 : err_set(e, ERR_NOMEM, "no memory for a credential plug-in");

	if (p) {
		int uv_rc = spawn(loop, p, env);
		if (uv_rc < 0) {
			/* a process handle is initialised even by a spawn that failed */
			rc = not_started(k, uv_rc, e);
			plugin_close_all(p);
		} else {
			(void)uv_timer_start(&p->timer, plugin_on_timer, deadline_ms, 0);
			*out = p;
		}
	}
	free(env);
	free(info);
	return rc;
}

void kube_plugin_cancel(struct kube_plugin *p)
{
	if (!p)
		return;
	bool gone = p->state == PLUGIN_EXITED;
	uv_read_stop((uv_stream_t *)&p->out);
	uv_read_stop((uv_stream_t *)&p->err);
	uv_timer_stop(&p->timer);
	plugin_set_state(p, PLUGIN_CANCELLED);
	/* closing the handle of a live process would leave a zombie behind */
	if (gone)
		plugin_close_all(p);
	else
		kill_group(p, SIGKILL);
}
