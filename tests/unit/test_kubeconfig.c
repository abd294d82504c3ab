// tier: check
/* Kubeconfig files as people and clouds write them, and what is said about broken ones. */
#include "base/err.h"
#include "control/kube/client/kubeconfig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* "-----BEGIN" and "key" in base64 */
#define CA_B64  "LS0tLS1CRUdJTg=="
#define KEY_B64 "a2V5"

#define HEAD                 "apiVersion: v1\nkind: Config\ncurrent-context: dev\n"
#define DEV_CONTEXT          "contexts:\n- name: dev\n  context: {cluster: one, user: ann}\n"
#define ONE_CLUSTER          "clusters:\n- name: one\n  cluster: {server: 'https://10.0.0.1:6443'}\n"
#define ANN_USER(fields)     "users:\n- name: ann\n  user: {" fields "}\n"
#define WITH_USER(fields)    HEAD DEV_CONTEXT ONE_CLUSTER ANN_USER(fields)
#define WITH_CLUSTER(fields) HEAD DEV_CONTEXT "clusters:\n- name: one\n  cluster: {" fields "}\n" ANN_USER("token: abc")

static struct kubeconfig *good_in(const char *text, const char *context)
{
	struct kubeconfig *k = NULL;
	struct err e = {0};

	if (kubeconfig_parse(text, strlen(text), "config", "/etc/kube", context, &k, &e) < 0)
		fail_msg("%s", e.message);
	return k;
}

static struct kubeconfig *good(const char *text)
{
	return good_in(text, NULL);
}

/* The complaint about a text has all these words in it. */
static void bad(const char *text, const char *where, const char *what)
{
	struct kubeconfig *k = NULL;
	struct err e = {0};

	assert_int_equal(kubeconfig_parse(text, strlen(text), "config", "/etc/kube", NULL, &k, &e), ERR_CONFIG);
	assert_null(k);
	if (strncmp(e.message, where, strlen(where)) != 0 || !strstr(e.message, what))
		fail_msg("\"%s\" does not begin with \"%s\" or does not say \"%s\"", e.message, where, what);
}

static void test_certificates_in_place(void **state)
{
	struct kubeconfig *k =
	    good(HEAD DEV_CONTEXT "clusters:\n- name: one\n  cluster:\n    server: https://[fd00::1]:6443/base/\n"
				  "    certificate-authority-data: " CA_B64 "\n    tls-server-name: kubernetes\n"
				  "    proxy-url: socks5://ann:secret@proxy\n" ANN_USER(
				      "client-certificate-data: " CA_B64 ", client-key-data: " KEY_B64));

	(void)state;
	assert_string_equal(k->name, "config (context dev)");
	assert_string_equal(k->url.scheme, "https");
	assert_string_equal(k->url.host, "fd00::1");
	assert_int_equal(k->url.port, 6443);
	assert_string_equal(k->url.path, "/base");
	assert_string_equal(k->ca.data, "-----BEGIN");
	assert_int_equal(k->ca.len, 10);
	assert_string_equal(k->cert.data, "-----BEGIN");
	assert_string_equal(k->key.data, "key");
	assert_string_equal(k->tls_server_name, "kubernetes");
	assert_string_equal(k->proxy, "socks5://ann:secret@proxy");
	assert_string_equal(k->proxy_url.host, "proxy");
	assert_int_equal(k->proxy_url.port, 1080);
	assert_string_equal(k->namespace_, "default");
	assert_null(k->plugin);
	kubeconfig_destroy(k);
}

static void test_paths_begin_at_the_file(void **state)
{
	struct kubeconfig *k =
	    good(HEAD DEV_CONTEXT
		 "clusters:\n- name: one\n  cluster: {server: host, certificate-authority: pki/ca.crt}\n" ANN_USER(
		     "client-certificate: ../me.crt, client-key: /root/me.key, tokenFile: tok"));

	(void)state;
	assert_string_equal(k->url.scheme, "https");
	assert_int_equal(k->url.port, 443);
	assert_string_equal(k->ca.path, "/etc/kube/pki/ca.crt");
	assert_string_equal(k->cert.path, "/etc/kube/../me.crt");
	assert_string_equal(k->key.path, "/root/me.key");
	assert_string_equal(k->token.path, "/etc/kube/tok");
	kubeconfig_destroy(k);
}

static void test_data_wins_over_a_path_and_a_token_file_over_a_token(void **state)
{
	struct kubeconfig *k = good(
	    HEAD DEV_CONTEXT "clusters:\n- name: one\n  cluster: {server: host, certificate-authority: ca, "
			     "certificate-authority-data: " CA_B64 "}\n" ANN_USER("token: abc, tokenFile: /run/token"));

	(void)state;
	assert_non_null(k->ca.data);
	assert_null(k->ca.path);
	assert_string_equal(k->token.path, "/run/token");
	assert_null(k->token.data);
	kubeconfig_destroy(k);
}

static void test_wrapped_base64(void **state)
{
	struct kubeconfig *k =
	    good(HEAD DEV_CONTEXT
		 "clusters:\n- name: one\n  cluster:\n    server: host\n"
		 "    certificate-authority-data: |\n      LS0tLS1C\n      RUdJTg==\n" ANN_USER("token: t"));

	(void)state;
	assert_string_equal(k->ca.data, "-----BEGIN");
	kubeconfig_destroy(k);
}

static void test_json_is_a_kubeconfig_too(void **state)
{
	struct kubeconfig *k =
	    good("{\"current-context\":\"c\",\"contexts\":[{\"name\":\"c\",\"context\":{\"cluster\":\"k\","
		 "\"namespace\":\"ns\"}}],"
		 "\"clusters\":[{\"name\":\"k\",\"cluster\":{\"server\":\"http://127.0.0.1:8001\"}}],\"users\":null}");

	(void)state;
	assert_string_equal(k->url.scheme, "http");
	assert_string_equal(k->namespace_, "ns");
	assert_null(k->token.data);
	kubeconfig_destroy(k);
}

static void test_plugin(void **state)
{
	struct kubeconfig *k =
	    good(HEAD DEV_CONTEXT ONE_CLUSTER
		 "users:\n- name: ann\n  user:\n    exec:\n      apiVersion: client.authentication.k8s.io/v1beta1\n"
		 "      command: ./bin/login\n      args: [get-token, --cluster, one]\n"
		 "      env: [{name: PROFILE, value: dev}, {name: EMPTY}]\n"
		 "      installHint: apt install login\n      provideClusterInfo: true\n"
		 "      interactiveMode: IfAvailable\n");

	(void)state;
	assert_string_equal(k->plugin->argv[0], "/etc/kube/./bin/login");
	assert_string_equal(k->plugin->argv[3], "one");
	assert_null(k->plugin->argv[4]);
	assert_string_equal(k->plugin->env[0], "PROFILE=dev");
	assert_string_equal(k->plugin->env[1], "EMPTY=");
	assert_null(k->plugin->env[2]);
	assert_string_equal(k->plugin->install_hint, "apt install login");
	assert_true(k->plugin->cluster_info);
	kubeconfig_destroy(k);

	k = good(WITH_USER("exec: {apiVersion: client.authentication.k8s.io/v1, command: aws}"));
	assert_string_equal(k->plugin->argv[0], "aws"); /* a bare name is for PATH */
	assert_false(k->plugin->cluster_info);
	kubeconfig_destroy(k);
}

static void test_contexts(void **state)
{
	static const char text[] = "contexts:\n- name: dev\n  context: {cluster: one, user: ann, namespace: blue}\n"
				   "- name: prod\n  context: {cluster: two}\n"
				   "clusters:\n- name: one\n  cluster: {server: 'https://one'}\n- name: two\n  "
				   "cluster: {server: 'https://two'}\n" ANN_USER("token: abc");
	struct kubeconfig *k = good_in(text, "prod");
	struct err e = {0};

	(void)state;
	assert_string_equal(k->url.host, "two");
	assert_null(k->token.data);
	kubeconfig_destroy(k);
	k = good_in(text, "dev");
	assert_string_equal(k->namespace_, "blue");
	assert_string_equal(k->token.data, "abc");
	kubeconfig_destroy(k);
	k = NULL;
	assert_int_equal(kubeconfig_parse(text, strlen(text), "config", NULL, "stage", &k, &e), ERR_CONFIG);
	assert_string_equal(e.message, "config: there is no context \"stage\"; there are: dev, prod");
	assert_int_equal(kubeconfig_parse(text, strlen(text), "config", NULL, NULL, &k, &e), ERR_CONFIG);
	assert_string_equal(e.message, "config: no current-context, and none was chosen; there are: dev, prod");
	assert_int_equal(kubeconfig_parse("", 0, "config", NULL, NULL, &k, &e), ERR_CONFIG);
	assert_string_equal(e.message, "config: no current-context, and none was chosen; there are: none");
}

static void test_broken_ones_are_named(void **state)
{
	(void)state;
	bad("a: [1\n", "config:2:1:", "");
	bad("\t", "config:1:", "");
	bad("- a\n", "config:1:1:", "the kubeconfig is not a mapping");
	bad(HEAD "contexts: 7\n", "config:4:11:", "contexts of the kubeconfig is not a list");
	bad("a: 1\n---\nb: 2\n", "config:3:1:", "second document");
	bad("curent-context: x\n",
	    "config:1:1:", "unknown key \"curent-context\" in the kubeconfig, did you mean current-context?");
	bad(HEAD DEV_CONTEXT, "config:6:22:", "cluster of context \"dev\": there is no cluster \"one\"");
	bad(HEAD DEV_CONTEXT ONE_CLUSTER, "config:6:33:", "user of context \"dev\": there is no user \"ann\"");
	bad(HEAD "contexts:\n- name: dev\n  context: {user: ann}\n",
	    "config:6:12:", "context \"dev\" names no cluster");
	bad(HEAD "contexts:\n- name: dev\n", "config:5:3:", "context \"dev\" is empty");
	bad(HEAD "contexts:\n- name: dev\n  context: {cluster: one, cluster: two}\n",
	    "config:6:27:", "cluster stands twice");
	bad(HEAD "contexts:\n- name: [dev]\n", "config:5:9:", "name of contexts is not text");
}

static void test_broken_clusters(void **state)
{
	(void)state;
	bad(WITH_CLUSTER(""), "config:9:12:", "cluster \"one\" has no server");
	bad(WITH_CLUSTER("server: [x]"), "config:9:21:", "server of cluster \"one\" is not text");
	bad(WITH_CLUSTER("server: 'ftp://x'"),
	    "config:9:21:", "server of cluster \"one\": it does not begin with one of https|http");
	bad(WITH_CLUSTER("server: 'https://'"), "config:9:21:", "server");
	bad(WITH_CLUSTER("server: 'https://h:99999'"), "config:9:21:", "server");
	bad(WITH_CLUSTER("server: 'https://u:p@h'"), "config:9:21:", "a user or a password has no place");
	bad(WITH_CLUSTER("server: 'https://h/?x=1'"), "config:9:21:", "a query");
	bad(WITH_CLUSTER("server: \"https://h\\r\\nx\""), "config:9:21:", "a control character");
	bad(WITH_CLUSTER("server: h, proxy-url: 'quic://x'"), "config:9:35:", "proxy-url of cluster \"one\"");
	bad(WITH_CLUSTER("server: h, insecure-skip-tls-verify: maybe"), "config:9:50:", "neither true nor false");
	bad(WITH_CLUSTER("server: h, certificate-authority-data: '%%%'"),
	    "config:9:52:", "certificate-authority-data of cluster \"one\": it is not base64");
	bad(WITH_CLUSTER("server: h, certificate-autority: x"), "config:9:24:", "did you mean certificate-authority?");
	bad(WITH_CLUSTER("server: h, certificate-authority: x, insecure-skip-tls-verify: true"),
	    "config:9:76:", "only one of them");
	bad(WITH_CLUSTER("server: 'http://h'"), "config:12:9:", "would send its credentials in clear");
}

static void test_broken_users(void **state)
{
	(void)state;
	bad(WITH_USER("username: ann, password: hunter2"), "config:12:20:", "knows no passwords");
	bad(WITH_USER("auth-provider: {name: gcp}"), "config:12:25:", "given it up");
	bad(WITH_USER("as: root, token: x"), "config:12:14:", "impersonation");
	bad(WITH_USER("client-certificate: x"), "config:12:9:", "client-certificate without a client-key");
	bad(WITH_USER("client-key: x"), "config:12:9:", "client-key without a client-certificate");
	bad(WITH_USER("token: \"a b\""), "config:12:17:", "a space");
	bad(WITH_USER("exec: {command: x}"), "config:12:16:", "apiVersion of exec of user \"ann\"");
	bad(WITH_USER("exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}"),
	    "config:12:29:", "v1beta1 are known");
	bad(WITH_USER("exec: {apiVersion: client.authentication.k8s.io/v1}"),
	    "config:12:16:", "exec of user \"ann\" has no command");
	bad(WITH_USER("exec: {apiVersion: client.authentication.k8s.io/v1, command: x, args: y}"),
	    "config:12:80:", "args of exec of user \"ann\" is not a list");
	bad(WITH_USER("exec: {apiVersion: client.authentication.k8s.io/v1, command: x, env: [{value: y}]}"),
	    "config:12:", "has no name");
	bad(WITH_USER("exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Always}"),
	    "config:12:", "no terminal");
	bad(WITH_USER("exec: {apiVersion: client.authentication.k8s.io/v1, command: x}, token: y"),
	    "config:12:9:", "only one can be meant");
}

/* A value that may be a secret is never quoted. */
static void test_complaints_hold_no_secret(void **state)
{
	static const char *const texts[] = {
	    WITH_USER("token: \"hunter2 \""),
	    WITH_USER("username: a, password: hunter2"),
	    WITH_USER("client-certificate-data: hunter2, client-key: x"),
	    WITH_CLUSTER("server: h, proxy-url: 'gopher://ann:hunter2@x'"),
	    WITH_CLUSTER("server: 'https://ann:hunter2@x'"),
	};
	struct kubeconfig *k = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct err e = {0};
		assert_int_equal(kubeconfig_parse(texts[i], strlen(texts[i]), "config", NULL, NULL, &k, &e),
				 ERR_CONFIG);
		if (strstr(e.message, "hunter2"))
			fail_msg("%s", e.message);
	}
}

/* --- files */

static char dir[64];

static const char *put(const char *name, const char *text)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	return path;
}

static int make_dir(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/muxd-kubeconfig-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static void test_several_files_are_one(void **state)
{
	struct kubeconfig *k = NULL;
	struct err e = {0};
	char list[512], expected[300];

	(void)state;
	put("a", "current-context: dev\ncontexts:\n- name: dev\n  context: {cluster: one, user: ann}\n" ANN_USER(
		     "tokenFile: tok"));
	put("b", "current-context: other\n" ONE_CLUSTER ANN_USER("token: never"));
	snprintf(list, sizeof(list), "%s/missing:%s/a::%s/b", dir, dir, dir);
	if (kubeconfig_load(list, NULL, &k, &e) < 0)
		fail_msg("%s", e.message);
	assert_string_equal(k->url.host, "10.0.0.1");
	snprintf(expected, sizeof(expected), "%s/tok", dir);
	assert_string_equal(k->token.path, expected);
	kubeconfig_destroy(k);
	k = NULL;
	snprintf(list, sizeof(list), "%s/missing:%s/none", dir, dir);
	assert_int_equal(kubeconfig_load(list, NULL, &k, &e), ERR_NOT_FOUND);
	assert_non_null(strstr(e.message, "/missing"));
	assert_int_equal(kubeconfig_load(dir, NULL, &k, &e), ERR_NOT_A_FILE); /* a directory */
	put("c", "clusters: {\n");
	snprintf(list, sizeof(list), "%s/b:%s/c", dir, dir);
	assert_int_equal(kubeconfig_load(list, NULL, &k, &e), ERR_CONFIG);
	snprintf(expected, sizeof(expected), "%s/c:2:1:", dir);
	assert_int_equal(strncmp(e.message, expected, strlen(expected)), 0);
}

static void test_in_a_pod(void **state)
{
	struct kubeconfig *k = NULL;
	struct err e = {0};
	char expected[300];

	(void)state;
	assert_int_equal(kubeconfig_in_cluster(NULL, NULL, dir, &k, &e), ERR_CONFIG);
	assert_int_equal(kubeconfig_in_cluster("10.96.0.1", "443", dir, &k, &e), ERR_CONFIG);
	assert_non_null(strstr(e.message, "/token"));
	put("token", "abc");
	put("ca.crt", "pem");
	put("namespace", "blue\n");
	if (kubeconfig_in_cluster("fd00::1", "443", dir, &k, &e) < 0)
		fail_msg("%s", e.message);
	assert_string_equal(k->server, "https://[fd00::1]:443");
	assert_string_equal(k->url.host, "fd00::1");
	assert_string_equal(k->namespace_, "blue");
	snprintf(expected, sizeof(expected), "%s/ca.crt", dir);
	assert_string_equal(k->ca.path, expected);
	kubeconfig_destroy(k);
	k = NULL;
	assert_int_equal(kubeconfig_in_cluster("a b", "443", dir, &k, &e), ERR_CONFIG);
	assert_int_equal(kubeconfig_in_cluster("host", "port", dir, &k, &e), ERR_CONFIG);
	assert_null(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_certificates_in_place),
	    cmocka_unit_test(test_paths_begin_at_the_file),
	    cmocka_unit_test(test_data_wins_over_a_path_and_a_token_file_over_a_token),
	    cmocka_unit_test(test_wrapped_base64),
	    cmocka_unit_test(test_json_is_a_kubeconfig_too),
	    cmocka_unit_test(test_plugin),
	    cmocka_unit_test(test_contexts),
	    cmocka_unit_test(test_broken_ones_are_named),
	    cmocka_unit_test(test_broken_clusters),
	    cmocka_unit_test(test_broken_users),
	    cmocka_unit_test(test_complaints_hold_no_secret),
	    cmocka_unit_test_setup_teardown(test_several_files_are_one, make_dir, remove_dir),
	    cmocka_unit_test_setup_teardown(test_in_a_pod, make_dir, remove_dir),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
