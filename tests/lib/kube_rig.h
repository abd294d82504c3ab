/*
 * kube_rig.h - a loop, a fake API server (fake_apiserver.py) and a client of it, for tests.
 *
 * Everything static: a test is one file. Waiting is for conditions, 30 s at the most.
 */
#ifndef TESTS_LIB_KUBE_RIG_H
#define TESTS_LIB_KUBE_RIG_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "control/kube/client/kube_creds.h"
#include "control/kube/client/kubeconfig.h"
#include "control/kube/client/rest.h"
#include "tests/lib/patience.h"
#include "tests/lib/pki.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#define RIG_WAIT_S 30 /* as tests/lib/patience.h counts them */
#define RIG_UNUSED __attribute__((unused))

struct kube_rig {
	uv_loop_t loop;
	char dir[64];
	pid_t fake;
	int to;
	FILE *from;
	int port, proxy_port;
	struct kube_creds *creds;
	struct kube *kube;
};

static RIG_UNUSED const char *rig_path(const struct kube_rig *r, const char *name)
{
	static char paths[8][160];
	static unsigned at;
	char *p = paths[at++ % 8];

	snprintf(p, sizeof(paths[0]), "%s/%s", r->dir, name);
	return p;
}

static RIG_UNUSED void rig_put_file(const struct kube_rig *r, const char *name, const char *text)
{
	char temporary[200];

	snprintf(temporary, sizeof(temporary), "%s.new", rig_path(r, name));
	FILE *f = fopen(temporary, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(rename(temporary, rig_path(r, name)), 0);
}

/* --- the fake */

static json_t *rig_answer(struct kube_rig *r)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t n = getline(&line, &size, r->from);
	json_error_t fault;

	if (n <= 0)
		fail_msg("the fake API server is gone");
	json_t *o = json_loadb(line, (size_t)n, JSON_DECODE_ANY, &fault);
	free(line);
	assert_non_null(o);
	return o;
}

/* A command as JSON text, printf-like; the answer is the caller's. */
static RIG_UNUSED json_t *rig_ask(struct kube_rig *r, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	int n = vasprintf(&text, fmt, ap);
	va_end(ap);
	assert_true(n > 0);
	text[n] = '\n'; /* in the place of the NUL: the length says the rest */
	assert_int_equal(write(r->to, text, (size_t)n + 1), n + 1);
	free(text);
	return rig_answer(r);
}

#define rig_do(r, ...) json_decref(rig_ask((r), __VA_ARGS__))

static void rig_start_fake(struct kube_rig *r, const char *const *args)
{
	const char *argv[16] = {"python3", "tests/lib/fake_apiserver.py"};
	int in[2], out[2], n = 2;

	while (*args)
		argv[n++] = *args++;
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	r->fake = fork();
	assert_true(r->fake >= 0);
	if (r->fake == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0);
		dup2(out[1], 1);
		execvp(argv[0], (char **)(uintptr_t)argv);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	r->to = in[1];
	r->from = fdopen(out[0], "r");
	assert_non_null(r->from);
	json_t *ports = rig_answer(r);
	r->port = (int)json_integer_value(json_object_get(ports, "port"));
	r->proxy_port = (int)json_integer_value(json_object_get(ports, "proxy"));
	json_decref(ports);
}

/* How often a request whose path ends so was seen since the last time; all are forgotten. */
static RIG_UNUSED size_t rig_seen(struct kube_rig *r, const char *method, const char *end)
{
	json_t *seen = rig_ask(r, "{\"do\":\"seen\"}"), *o;
	size_t i, n = 0;

	json_array_foreach(seen, i, o)
	{
		const char *path = json_string_value(json_object_get(o, "path"));
		size_t len = strlen(path), want = strlen(end);
		if (strcmp(json_string_value(json_object_get(o, "method")), method) == 0 && len >= want &&
		    strcmp(path + len - want, end) == 0)
			n++;
	}
	json_decref(seen);
	return n;
}

/* --- the client */

/* A kubeconfig's text becomes a client. %PORT, %PROXY and %DIR stand for what they say. */
static RIG_UNUSED int rig_connect(struct kube_rig *r, const char *text, const struct kube_creds_limits *limits,
				  const struct kube_options *options, struct err *e)
{
	struct kubeconfig *k = NULL;
	struct buf b;
	int rc;

	buf_init(&b, 65536);
	for (const char *p = text; *p; p++) {
		if (strncmp(p, "%PORT", 5) == 0) {
			buf_printf(&b, "%d", r->port);
			p += 4;
		} else if (strncmp(p, "%PROXY", 6) == 0) {
			buf_printf(&b, "%d", r->proxy_port);
			p += 5;
		} else {
			buf_append(&b, p, 1);
		}
	}
	rc = kubeconfig_parse((const char *)buf_ptr(&b), buf_len(&b), "config", r->dir, NULL, &k, e);
	buf_finish(&b);
	if (rc == 0)
		rc = kube_creds_create(&r->loop, k, limits, &r->creds, e);
	if (rc < 0) {
		kubeconfig_destroy(k);
		return rc;
	}
	return kube_client_create(&r->loop, r->creds, options, &r->kube, e);
}

/* user: "{token: abc}"; cluster: fields behind the server, with a comma before them, or "". */
static RIG_UNUSED int rig_connect_as(struct kube_rig *r, const char *user, const char *cluster,
				     const struct kube_creds_limits *limits, const struct kube_options *options,
				     struct err *e)
{
	char text[8192];

	snprintf(text, sizeof(text),
		 "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u, namespace: ns}}]\n"
		 "clusters: [{name: k, cluster: {server: 'https://127.0.0.1:%%PORT'%s}}]\n"
		 "users: [{name: u, user: %s}]\n",
		 cluster, user);
	return rig_connect(r, text, limits, options, e);
}

static RIG_UNUSED void rig_disconnect(struct kube_rig *r)
{
	kube_client_destroy(r->kube);
	kube_creds_destroy(r->creds);
	r->kube = NULL;
	r->creds = NULL;
}

/* --- waiting */

static void rig_tick(uv_timer_t *t)
{
	(void)t;
}

/* Runs the loop until *what, for 30 s. */
static RIG_UNUSED void rig_until(struct kube_rig *r, const bool *what)
{
	uv_timer_t t;
	struct patience left = patience_of(RIG_WAIT_S * UINT64_C(1000000000));

	uv_timer_init(&r->loop, &t);
	uv_timer_start(&t, rig_tick, 20, 20);
	while (!*what && !patience_over(&left))
		uv_run(&r->loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&t, NULL);
	uv_run(&r->loop, UV_RUN_NOWAIT);
	if (!*what)
		fail_msg("nothing happened for %d s", RIG_WAIT_S);
}

/* Likewise until so many watches are open at the server. */
static RIG_UNUSED void rig_until_open(struct kube_rig *r, int n)
{
	for (struct patience left = patience_of(RIG_WAIT_S * UINT64_C(1000000000)); !patience_over(&left);) {
		json_t *open = rig_ask(r, "{\"do\":\"open\"}");
		bool there = json_integer_value(open) == n;
		json_decref(open);
		if (there)
			return;
		uv_timer_t t;
		uv_timer_init(&r->loop, &t);
		uv_timer_start(&t, rig_tick, 20, 0);
		uv_run(&r->loop, UV_RUN_ONCE);
		uv_close((uv_handle_t *)&t, NULL);
		uv_run(&r->loop, UV_RUN_NOWAIT);
	}
	fail_msg("not %d watches for %d s", n, RIG_WAIT_S);
}

/* --- life */

/* In r->dir: ca.crt, server.crt and .key (localhost, 127.0.0.1), me.crt and .key (a client, CN=me). */
static void rig_make_pki(struct kube_rig *r)
{
	struct pki ca = pki_make(NULL, "test CA", NULL, -1, 30);
	struct pki server = pki_make(&ca, "server", "DNS:localhost,DNS:kubernetes,IP:127.0.0.1", -1, 30);
	struct pki me = pki_make(&ca, "me", NULL, -1, 30);

	pki_write(&ca, rig_path(r, "ca.crt"), rig_path(r, "ca.key"));
	pki_write(&server, rig_path(r, "server.crt"), rig_path(r, "server.key"));
	pki_write(&me, rig_path(r, "me.crt"), rig_path(r, "me.key"));
	pki_free(&ca);
	pki_free(&server);
	pki_free(&me);
}

/* cert, key: names in r->dir of what the server shows. */
static RIG_UNUSED void rig_start_with(struct kube_rig *r, const char *cert, const char *key)
{
	const char *args[] = {"--cert",      rig_path(r, cert),     "--key",   rig_path(r, key),
			      "--client-ca", rig_path(r, "ca.crt"), "--proxy", NULL};

	rig_start_fake(r, args);
}

static RIG_UNUSED void rig_stop_fake(struct kube_rig *r)
{
	if (r->fake <= 0)
		return;
	close(r->to);
	fclose(r->from);
	kill(r->fake, SIGKILL);
	waitpid(r->fake, NULL, 0);
	r->fake = 0;
}

static RIG_UNUSED struct kube_rig *rig_create(void)
{
	struct kube_rig *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	signal(SIGPIPE, SIG_IGN);
	if (getenv("KUBE_TEST_LOG"))
		log_setup("test", "debug", LOG_TEXT, 2, NULL);
	strcpy(r->dir, "/tmp/muxd-kube-XXXXXX");
	assert_non_null(mkdtemp(r->dir));
	assert_int_equal(uv_loop_init(&r->loop), 0);
	rig_make_pki(r);
	return r;
}

static RIG_UNUSED void rig_destroy(struct kube_rig *r)
{
	char command[128];

	rig_disconnect(r);
	for (struct patience left = patience_of(RIG_WAIT_S * UINT64_C(1000000000));
	     uv_run(&r->loop, UV_RUN_NOWAIT) && !patience_over(&left);)
		usleep(1000);
	assert_int_equal(uv_loop_close(&r->loop), 0); /* a handle was left open otherwise */
	rig_stop_fake(r);
	snprintf(command, sizeof(command), "rm -rf %s", r->dir);
	assert_int_equal(system(command), 0);
	free(r);
}

#endif
