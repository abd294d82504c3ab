// tier: check
/*
 * Who asks an API server, and over which way: tokens and certificates that rotate, plug-ins, TLS, proxies. The server
 * is a fake (tests/lib/fake_apiserver.py); the real one is met in tests/e2e/k8s.
 */
#include "tests/lib/kube_outcome.h"

/* --- who we are */

static void test_client_certificate_name_and_base_path(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};
	struct err e = {0};

	if (rig_connect(r,
			"current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
			"clusters: [{name: k, cluster: {server: 'https://127.0.0.1:%PORT/base/', "
			"tls-server-name: kubernetes" CA "}}]\n"
			"users: [{name: u, user: {client-certificate: me.crt, client-key: me.key}}]\n",
			NULL, NULL, &e) < 0)
		fail_msg("%s", e.message);
	get(r, &config_x, &o);
	json_t *seen = rig_ask(r, "{\"do\":\"seen\"}"), *one = json_array_get(seen, 0);
	char host[32];
	snprintf(host, sizeof(host), "127.0.0.1:%d", r->port);
	assert_string_equal(json_string_value(json_object_get(one, "cert")), "me");
	assert_string_equal(json_string_value(json_object_get(one, "sni")), "kubernetes");
	assert_string_equal(json_string_value(json_object_get(one, "path")), "/base" CONFIGMAPS "/x");
	assert_string_equal(json_string_value(json_object_get(json_object_get(one, "headers"), "host")), host);
	assert_null(json_object_get(json_object_get(one, "headers"), "authorization"));
	json_decref(seen);
	outcome_reset(&o);
}

static void test_a_rotated_token_is_read_again(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};

	rig_put_file(r, "token", "one\n");
	connect_as(r, "{tokenFile: token}", CA);
	rig_do(r, "{\"do\":\"tokens\",\"accept\":[\"one\"]}");
	get(r, &config_x, &o);
	failed(&o, ERR_NOT_FOUND, NULL);
	rig_put_file(r, "token", "two\n");
	rig_do(r, "{\"do\":\"tokens\",\"accept\":[\"two\"]}");
	rig_do(r, "{\"do\":\"seen\"}");
	get(r, &config_x, &o);
	failed(&o, ERR_NOT_FOUND, NULL);
	assert_int_equal(rig_seen(r, "GET", "/x"), 2); /* 401, then the new token */
	rig_do(r, "{\"do\":\"tokens\",\"accept\":[\"three\"]}");
	get(r, &config_x, &o);
	failed(&o, ERR_K8S_UNAUTHENTICATED, "get configmaps/x in ns", "401 Unauthorized", NULL);
	assert_int_equal(rig_seen(r, "GET", "/x"), 1); /* the file says nothing new: once is enough */
	outcome_reset(&o);
}

static void test_a_token_file_is_read_again_when_old(void **state)
{
	static const struct kube_creds_limits limits = {.reread_ms = 1};
	struct kube_rig *r = *state;
	struct outcome o = {0};
	struct err e = {0};

	rig_put_file(r, "token", "one");
	assert_int_equal(rig_connect_as(r, "{tokenFile: token}", CA, &limits, NULL, &e), 0);
	rig_put_file(r, "token", "two");
	rig_do(r, "{\"do\":\"tokens\",\"accept\":[\"two\"]}");
	usleep(2000);
	get(r, &config_x, &o);
	failed(&o, ERR_NOT_FOUND, NULL);
	assert_int_equal(rig_seen(r, "GET", "/x"), 1);
	/* half of a rotation: what was there counts */
	assert_int_equal(unlink(rig_path(r, "token")), 0);
	usleep(2000);
	get(r, &config_x, &o);
	failed(&o, ERR_NOT_FOUND, NULL);
	outcome_reset(&o);
}

static void test_a_long_token(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};
	static char token[16385];

	memset(token, 't', sizeof(token) - 1);
	rig_put_file(r, "token", token);
	connect_as(r, "{tokenFile: token}", CA);
	rig_do(r, "{\"do\":\"tokens\",\"accept\":[\"%s\"]}", token);
	get(r, &config_x, &o);
	failed(&o, ERR_NOT_FOUND, NULL);
	outcome_reset(&o);
}

static void test_bad_files_are_told_at_the_start(void **state)
{
	struct kube_rig *r = *state;
	struct err e = {0};

	assert_int_equal(rig_connect_as(r, "{tokenFile: missing}", CA, NULL, NULL, &e), ERR_NOT_FOUND);
	assert_non_null(strstr(e.message, "/missing"));
	rig_put_file(r, "empty", "\n");
	assert_int_equal(rig_connect_as(r, "{tokenFile: empty}", CA, NULL, NULL, &e), ERR_CONFIG);
	assert_non_null(strstr(e.message, "/empty is empty"));
	rig_put_file(r, "two", "a\nb");
	assert_int_equal(rig_connect_as(r, "{tokenFile: two}", CA, NULL, NULL, &e), ERR_CONFIG);
	assert_int_equal(rig_connect_as(r, "{token: x}", ", certificate-authority: empty", NULL, NULL, &e), ERR_CONFIG);
	assert_non_null(strstr(e.message, "/empty is not a PEM certificate"));
	assert_int_equal(rig_connect_as(r, "{client-certificate: me.crt, client-key: server.key}", CA, NULL, NULL, &e),
			 ERR_CONFIG);
	assert_non_null(strstr(e.message, "do not belong together"));
	assert_int_equal(rig_connect_as(r, "{client-certificate: me.crt, client-key: me.crt}", CA, NULL, NULL, &e),
			 ERR_CONFIG);
	assert_non_null(strstr(e.message, "not a PEM key"));
}

static void test_an_expired_client_certificate_is_named(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};
	struct pki other = pki_make(NULL, "nobody", NULL, -30, -1);

	pki_write(&other, rig_path(r, "old.crt"), rig_path(r, "old.key"));
	pki_free(&other);
	/* it is refused with a 401, without a word why */
	rig_stop_fake(r);
	const char *args[] = {"--cert", rig_path(r, "server.crt"), "--key", rig_path(r, "server.key"), NULL};
	rig_start_fake(r, args);
	connect_as(r, "{client-certificate: old.crt, client-key: old.key}", CA);
	rig_do(r, "{\"do\":\"tokens\",\"accept\":[]}");
	get(r, &config_x, &o);
	failed(&o, ERR_K8S_UNAUTHENTICATED, "the client certificate of config (context c) expired on", NULL);
	outcome_reset(&o);
}

/* --- plug-ins */

#define PLUGIN(command)                                                                                                \
	"{exec: {apiVersion: client.authentication.k8s.io/v1, command: " command                                       \
	", args: [a, 'b c'], env: [{name: GREETING, value: hello}], provideClusterInfo: true, installHint: try apt}}"

static void put_plugin(struct kube_rig *r, const char *script)
{
	rig_put_file(r, "login", script);
	assert_int_equal(chmod(rig_path(r, "login"), 0755), 0);
}

#define CREDENTIAL(status)                                                                                             \
	"{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":" status "}"

static void test_a_plugin_gives_the_token(void **state)
{
	static const struct kube_creds_limits limits = {.plugin_rest_ms = 1};
	struct kube_rig *r = *state;
	struct outcome o = {0};
	struct err e = {0};

	/* each run gives the token of the file, and is counted */
	put_plugin(r, "#!/bin/sh\ncd \"$(dirname \"$0\")\"\necho run >>runs\n"
		      "[ \"$1/$2/$GREETING\" = 'a/b c/hello' ] || exit 3\n"
		      "echo \"$KUBERNETES_EXEC_INFO\" >info\n"
		      "printf '" CREDENTIAL("{\"token\":\"%s\"}") "' \"$(cat current)\"\n");
	rig_put_file(r, "current", "one");
	assert_int_equal(rig_connect_as(r, PLUGIN("./login"), CA, &limits, NULL, &e), 0);
	rig_do(r, "{\"do\":\"tokens\",\"accept\":[\"one\"]}");
	for (int i = 0; i < 3; i++) {
		get(r, &config_x, &o);
		failed(&o, ERR_NOT_FOUND, NULL);
	}
	FILE *f = fopen(rig_path(r, "runs"), "r");
	char text[8192] = "";
	assert_int_equal(fread(text, 1, sizeof(text) - 1, f), 4);
	fclose(f);
	f = fopen(rig_path(r, "info"), "r");
	size_t len = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	json_t *info = json_loadb(text, len, 0, NULL), *spec = json_object_get(info, "spec");
	assert_string_equal(json_string_value(json_object_get(info, "kind")), "ExecCredential");
	assert_true(json_is_false(json_object_get(spec, "interactive")));
	assert_non_null(json_object_get(json_object_get(spec, "cluster"), "certificate-authority-data"));
	json_decref(info);
	/* a 401 runs it again */
	rig_put_file(r, "current", "two");
	rig_do(r, "{\"do\":\"tokens\",\"accept\":[\"two\"]}");
	get(r, &config_x, &o);
	failed(&o, ERR_NOT_FOUND, NULL);
	outcome_reset(&o);
}

static void test_a_plugins_answer_expires(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};

	put_plugin(r, "#!/bin/sh\ncd \"$(dirname \"$0\")\"\necho run >>runs\n"
		      "printf '" CREDENTIAL("{\"token\":\"t\",\"expirationTimestamp\":\"%s\"}") "' \"$(cat until)\"\n");
	rig_put_file(r, "until", "2100-01-01T00:00:00Z");
	connect_as(r, PLUGIN("./login"), CA);
	get(r, &config_x, &o);
	get(r, &config_x, &o);
	struct stat st;
	assert_int_equal(stat(rig_path(r, "runs"), &st), 0);
	assert_int_equal(st.st_size, 4);
	rig_disconnect(r);
	/* one that has passed already is used, and never asked for in a circle */
	rig_put_file(r, "until", "2001-01-01T00:00:00Z");
	connect_as(r, PLUGIN("./login"), CA);
	get(r, &config_x, &o);
	failed(&o, ERR_NOT_FOUND, NULL);
	assert_int_equal(stat(rig_path(r, "runs"), &st), 0);
	assert_int_equal(st.st_size, 8);
	outcome_reset(&o);
}

static void plugin_fails(struct kube_rig *r, const char *script, int rc, const char *why)
{
	struct kube_creds_limits limits = {.plugin_deadline_ms = rc == ERR_TIMEOUT ? 200 : 0};
	struct outcome o = {0};
	struct err e = {0};

	if (script)
		put_plugin(r, script);
	assert_int_equal(rig_connect_as(r, PLUGIN("./login"), CA, &limits, NULL, &e), 0);
	get(r, &config_x, &o);
	failed(&o, rc, "credential plug-in", "config (context c)", why, NULL);
	assert_null(strstr(o.message, "hunter2"));
	outcome_reset(&o);
	rig_disconnect(r);
}

static void test_plugins_that_fail(void **state)
{
	struct kube_rig *r = *state;

	plugin_fails(r, NULL, ERR_CONFIG, "cannot be started: no such file or directory; try apt");
	plugin_fails(r, "#!/bin/sh\necho 'please log in' >&2\nexit 7\n", ERR_CONFIG,
		     "ended with code 7: please log in");
	plugin_fails(r, "#!/bin/sh\nkill -9 $$\n", ERR_CONFIG, "was killed by signal 9");
	plugin_fails(r, "#!/bin/sh\necho hunter2\n", ERR_CONFIG, "what it printed is not JSON");
	plugin_fails(r, "#!/bin/sh\necho '{\"kind\":\"Pod\"}'\n", ERR_CONFIG, "not an ExecCredential");
	plugin_fails(r, "#!/bin/sh\necho '" CREDENTIAL("{}") "'\n", ERR_CONFIG, "neither a token nor a certificate");
	plugin_fails(r, "#!/bin/sh\necho '" CREDENTIAL("{\"token\":\"hunter2 x\"}") "'\n", ERR_CONFIG, "no token has");
	plugin_fails(r, "#!/bin/sh\necho '" CREDENTIAL("{\"token\":\"x\",\"expirationTimestamp\":\"soon\"}") "'\n",
		     ERR_CONFIG, "RFC 3339");
	plugin_fails(
	    r,
	    "#!/bin/sh\necho '{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1beta1\"}'\n",
	    ERR_CONFIG, "not as client.authentication.k8s.io/v1");
	plugin_fails(r, "#!/bin/sh\nsleep 60\n", ERR_TIMEOUT, "took too long");
	plugin_fails(r, "#!/bin/sh\ntrap '' TERM\nsleep 60 & wait; sleep 60\n", ERR_TIMEOUT, "took too long");
}

static void test_a_plugin_that_floods(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};

	put_plugin(r, "#!/bin/sh\nexec head -c 10000000 /dev/zero\n");
	connect_as(r, PLUGIN("./login"), CA);
	get(r, &config_x, &o);
	failed(&o, ERR_CONFIG, "printed more than", NULL);
	outcome_reset(&o);
}

static void test_leaving_while_a_plugin_runs(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};

	put_plugin(r, "#!/bin/sh\necho $$ >\"$(dirname \"$0\")/pid\"\nexec sleep 600\n");
	connect_as(r, PLUGIN("./login"), CA);
	ask_get(r, &config_x, &o);
	for (int i = 0; i < 3000 && access(rig_path(r, "pid"), F_OK); i++) {
		uv_run(&r->loop, UV_RUN_NOWAIT);
		usleep(10000);
	}
	assert_int_equal(access(rig_path(r, "pid"), F_OK), 0);
	rig_disconnect(r);
	failed(&o, ERR_CANCELLED, NULL);
	outcome_reset(&o);
	/* teardown finds no handle open, so the program was reaped */
}

/* --- TLS and the way there */

static void unreachable(struct kube_rig *r, const char *cluster, int rc, const char *why)
{
	struct outcome o = {0};

	connect_as(r, "{token: abc}", cluster);
	get(r, &config_x, &o);
	failed(&o, rc, "get configmaps/x in ns: https://127.0.0.1:", why, NULL);
	outcome_reset(&o);
	rig_disconnect(r);
}

static void test_certificates_that_are_not_trusted(void **state)
{
	struct kube_rig *r = *state;
	struct pki ca = pki_make(NULL, "another CA", NULL, -1, 30);
	struct outcome o = {0};

	pki_write(&ca, rig_path(r, "other-ca.crt"), NULL);
	pki_free(&ca);
	unreachable(r, ", certificate-authority: other-ca.crt", ERR_K8S_TLS, "its certificate is not trusted: ");
	unreachable(r, "", ERR_K8S_TLS, "its certificate is not trusted: "); /* the system's */
	unreachable(r, CA ", tls-server-name: elsewhere", ERR_K8S_TLS, "elsewhere");
	assert_int_equal(rig_seen(r, "GET", "/x"), 0);
	connect_as(r, "{token: abc}", ", insecure-skip-tls-verify: true");
	get(r, &config_x, &o);
	failed(&o, ERR_NOT_FOUND, NULL);
	outcome_reset(&o);
}

static void test_an_expired_server_certificate(void **state)
{
	struct kube_rig *r = rig_create();
	struct pki ca = pki_make(NULL, "test CA", NULL, -30, 30);
	struct pki old = pki_make(&ca, "server", "IP:127.0.0.1", -30, -1);

	(void)state;
	pki_write(&ca, rig_path(r, "ca.crt"), NULL);
	pki_write(&old, rig_path(r, "old.crt"), rig_path(r, "old.key"));
	pki_free(&ca);
	pki_free(&old);
	rig_start_with(r, "old.crt", "old.key");
	unreachable(r, CA, ERR_K8S_TLS, "certificate has expired");
	rig_destroy(r);
}

static void test_a_server_that_is_not_there(void **state)
{
	static const struct kube_options quick = {.tries = 2, .backoff_ms = 1};
	struct kube_rig *r = *state;
	struct outcome o = {0};
	struct err e = {0};
	json_t *map = json_pack("{s:{s:s}}", "metadata", "name", "x");

	rig_stop_fake(r);
	assert_int_equal(rig_connect_as(r, "{token: abc}", CA, NULL, &quick, &e), 0);
	get(r, &config_x, &o);
	failed(&o, ERR_K8S_UNREACHABLE, "https://127.0.0.1:", "cannot connect: Connection refused", NULL);
	/* nothing was sent, so a create is tried again too, and its outcome is known */
	outcome_reset(&o);
	kube_create(r->kube, &config_x, map, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	failed(&o, ERR_K8S_UNREACHABLE, NULL);
	assert_null(strstr(o.message, "not known"));
	rig_disconnect(r);
	assert_int_equal(rig_connect(r,
				     "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n"
				     "clusters: [{name: k, cluster: {server: 'https://" NO_NAME ":6443'}}]\n",
				     NULL, &quick, &e),
			 0);
	get(r, &config_x, &o);
	failed(&o, ERR_K8S_UNREACHABLE, "https://" NO_NAME ":6443: the name " NO_NAME " cannot be looked up", NULL);
	json_decref(map);
	outcome_reset(&o);
}

static void test_names_and_proxies(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};
	struct err e = {0};
	char expected[64];

	assert_int_equal(rig_connect(r,
				     "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
				     "clusters: [{name: k, cluster: {server: 'https://localhost:%PORT', "
				     "certificate-authority: ca.crt}}]\nusers: [{name: u, user: {token: abc}}]\n",
				     NULL, NULL, &e),
			 0);
	get(r, &config_x, &o);
	failed(&o, ERR_NOT_FOUND, NULL);
	rig_disconnect(r);
	rig_do(r, "{\"do\":\"seen\"}");
	/* the proxy alone knows where "kubernetes" is */
	assert_int_equal(
	    rig_connect(r,
			"current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
			"clusters: [{name: k, cluster: {server: 'https://kubernetes:%PORT', "
			"certificate-authority: ca.crt, proxy-url: 'http://ann:secret@localhost:%PROXY'}}]\n"
			"users: [{name: u, user: {token: abc}}]\n",
			NULL, NULL, &e),
	    0);
	get(r, &config_x, &o);
	failed(&o, ERR_NOT_FOUND, NULL);
	json_t *seen = rig_ask(r, "{\"do\":\"seen\"}"), *first = json_array_get(seen, 0);
	snprintf(expected, sizeof(expected), "kubernetes:%d", r->port);
	assert_string_equal(json_string_value(json_object_get(first, "method")), "CONNECT");
	assert_string_equal(json_string_value(json_object_get(first, "path")), expected);
	assert_string_equal(
	    json_string_value(json_object_get(json_object_get(first, "headers"), "proxy-authorization")),
	    "Basic YW5uOnNlY3JldA==");
	assert_null(json_object_get(json_object_get(first, "headers"), "authorization"));
	json_decref(seen);
	outcome_reset(&o);
}

static void test_the_environments_proxy_does_not_count(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};

	setenv("https_proxy", "http://127.0.0.1:1", 1);
	setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
	connect_as(r, "{token: abc}", CA);
	get(r, &config_x, &o);
	unsetenv("https_proxy");
	unsetenv("ALL_PROXY");
	failed(&o, ERR_NOT_FOUND, NULL);
	outcome_reset(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    REST(test_client_certificate_name_and_base_path),
	    REST(test_a_rotated_token_is_read_again),
	    REST(test_a_token_file_is_read_again_when_old),
	    REST(test_a_long_token),
	    REST(test_bad_files_are_told_at_the_start),
	    REST(test_an_expired_client_certificate_is_named),
	    REST(test_a_plugin_gives_the_token),
	    REST(test_a_plugins_answer_expires),
	    REST(test_plugins_that_fail),
	    REST(test_a_plugin_that_floods),
	    REST(test_leaving_while_a_plugin_runs),
	    REST(test_certificates_that_are_not_trusted),
	    cmocka_unit_test(test_an_expired_server_certificate),
	    REST(test_a_server_that_is_not_there),
	    REST(test_names_and_proxies),
	    REST(test_the_environments_proxy_does_not_count),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
