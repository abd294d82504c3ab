// tier: check
/* What net is given of a kubeconfig: files of its own, fresh ones when they rotate, and one line when something is
 * wrong. */
#include "base/conf.h"
#include "base/err.h"
#include "control/kube/client/kubeconfig.h"
#include "muxd/monitor/cluster.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
	char dir[64];
	struct identity who;
	struct layout layout;
	struct conf *conf;
};

static const char *in_dir(const struct fixture *f, const char *name)
{
	static char path[8][160];
	static unsigned next;
	char *p = path[next++ % 8];

	snprintf(p, sizeof(path[0]), "%s/%s", f->dir, name);
	return p;
}

static void put(const struct fixture *f, const char *name, const char *text)
{
	FILE *out = fopen(in_dir(f, name), "w");

	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
}

static char *get(const struct fixture *f, const char *name)
{
	static char text[4096];
	FILE *in = fopen(in_dir(f, name), "r");
	size_t n;

	if (!in)
		return NULL;
	n = fread(text, 1, sizeof(text) - 1, in);
	text[n] = '\0';
	fclose(in);
	return text;
}

static const char config[] =
    "apiVersion: v1\nkind: Config\ncurrent-context: dev\n"
    "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:6443', certificate-authority: ca.pem,"
    " tls-server-name: api.test}}]\n"
    "users: [{name: u, user: {client-certificate: u.crt, client-key-data: S0VZCg==}}]\n"
    "contexts: [{name: dev, context: {cluster: c, user: u, namespace: agents}}]\n";

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char text[200];

	strcpy(f->dir, "/tmp/muxd-cluster.XXXXXX");
	if (!f || !mkdtemp(f->dir))
		return -1;
	f->who =
	    (struct identity){.owner = {geteuid(), getegid()}, .net = FILE_OWNER_SELF, .recorder = FILE_OWNER_SELF};
	if (layout_open(in_dir(f, "state"), &f->who, &f->layout, NULL))
		return -1;
	put(f, "kubeconfig", config);
	put(f, "ca.pem", "CA\n");
	put(f, "u.crt", "CERT\n");
	snprintf(text, sizeof(text), "kubernetes: {kubeconfig: %s}\n", in_dir(f, "kubeconfig"));
	*state = f;
	return conf_parse(text, strlen(text), "test", &f->conf, NULL);
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];

	conf_destroy(f->conf);
	layout_close(&f->layout);
	snprintf(command, sizeof(command), "rm -rf '%s'", f->dir);
	free(f);
	return system(command);
}

static void open_cluster(struct fixture *f, struct cluster *c)
{
	struct err e = {0};

	*c = (struct cluster){0};
	if (cluster_open(c, f->conf, &f->layout, &f->who, &e))
		fail_msg("%s", e.message);
}

static void net_gets_files_and_a_kubeconfig_that_names_them(void **state)
{
	struct fixture *f = *state;
	struct kubeconfig *k = NULL;
	struct cluster c;
	struct stat st;
	struct err e = {0};

	open_cluster(f, &c);
	assert_string_equal(get(f, "state/keys/kube/ca.crt"), "CA\n");
	assert_string_equal(get(f, "state/keys/kube/client.crt"), "CERT\n");
	assert_string_equal(get(f, "state/keys/kube/client.key"), "KEY\n");
	assert_null(get(f, "state/keys/kube/token"));
	assert_int_equal(stat(in_dir(f, "state/keys/kube/client.key"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(stat(in_dir(f, "state/keys/kube"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);

	if (kubeconfig_parse(c.text, c.len, "it", NULL, NULL, &k, &e))
		fail_msg("%s", e.message);
	assert_string_equal(k->server, "https://127.0.0.1:6443");
	assert_string_equal(k->tls_server_name, "api.test");
	assert_string_equal(k->namespace_, "agents");
	assert_string_equal(k->key.path, in_dir(f, "state/keys/kube/client.key"));
	assert_null(k->key.data);
	assert_null(strstr(c.text, "KEY"));
	assert_null(strstr(c.text, "S0VZ"));
	kubeconfig_destroy(k);
	cluster_finish(&c);
}

static void a_plug_in_goes_on_to_net(void **state)
{
	struct fixture *f = *state;
	struct kubeconfig *k = NULL;
	struct cluster c;
	struct err e = {0};

	put(f, "kubeconfig",
	    "current-context: dev\n"
	    "clusters: [{name: c, cluster: {server: 'https://a.test', proxy-url: 'http://me:pw@127.0.0.1:3128'}}]\n"
	    "users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ./get-token, args: "
	    "[a, 'b c'], env: [{name: X, value: 'y=z'}], provideClusterInfo: true, installHint: fetch it}}}]\n"
	    "contexts: [{name: dev, context: {cluster: c, user: u}}]\n");
	open_cluster(f, &c);
	if (kubeconfig_parse(c.text, c.len, "it", NULL, NULL, &k, &e))
		fail_msg("%s", e.message);
	assert_string_equal(k->proxy, "http://me:pw@127.0.0.1:3128");
	assert_non_null(k->plugin);
	assert_string_equal(k->plugin->argv[0], in_dir(f, "./get-token"));
	assert_string_equal(k->plugin->argv[2], "b c");
	assert_null(k->plugin->argv[3]);
	assert_string_equal(k->plugin->env[0], "X=y=z");
	assert_string_equal(k->plugin->install_hint, "fetch it");
	assert_true(k->plugin->cluster_info);
	kubeconfig_destroy(k);
	cluster_finish(&c);
}

static void rotated_files_arrive_and_a_missing_one_leaves_the_old(void **state)
{
	struct fixture *f = *state;
	struct cluster c;

	open_cluster(f, &c);
	put(f, "u.crt", "CERT2\n");
	cluster_refresh(&c, &f->layout, &f->who);
	assert_string_equal(get(f, "state/keys/kube/client.crt"), "CERT2\n");
	assert_int_equal(unlink(in_dir(f, "u.crt")), 0);
	put(f, "ca.pem", "CA2\n");
	cluster_refresh(&c, &f->layout, &f->who);
	assert_true(c.stale);
	assert_string_equal(get(f, "state/keys/kube/client.crt"), "CERT2\n");
	assert_string_equal(get(f, "state/keys/kube/ca.crt"), "CA\n"); /* no half of a new set */
	put(f, "u.crt", "CERT3\n");
	cluster_refresh(&c, &f->layout, &f->who);
	assert_false(c.stale);
	assert_string_equal(get(f, "state/keys/kube/client.crt"), "CERT3\n");
	assert_string_equal(get(f, "state/keys/kube/ca.crt"), "CA2\n");
	cluster_finish(&c);
}

static void a_reload_takes_new_credentials_and_leaves_another_server_for_the_next_start(void **state)
{
	struct fixture *f = *state;
	struct cluster c;
	struct err e = {0};
	bool changed = true;
	char text[2000], *at;

	open_cluster(f, &c);
	snprintf(text, sizeof(text), "%s", config);
	at = strstr(text, "S0VZCg==");
	memcpy(at, "S0VaCg==", 8);
	put(f, "kubeconfig", text);
	assert_int_equal(cluster_reload(&c, f->conf, &f->layout, &f->who, &changed, &e), 0);
	assert_false(changed);
	assert_string_equal(get(f, "state/keys/kube/client.key"), "KEZ\n");

	at = strstr(text, "6443");
	memcpy(at, "6444", 4);
	put(f, "kubeconfig", text);
	put(f, "u.crt", "OTHER\n");
	assert_int_equal(cluster_reload(&c, f->conf, &f->layout, &f->who, &changed, &e), 0);
	assert_true(changed);
	assert_string_equal(get(f, "state/keys/kube/client.crt"), "CERT\n");

	put(f, "kubeconfig", "clusters: [\n");
	assert_int_equal(cluster_reload(&c, f->conf, &f->layout, &f->who, &changed, &e), ERR_CONFIG);
	assert_non_null(strstr(e.message, "kubernetes.kubeconfig: "));
	assert_non_null(strstr(e.message, in_dir(f, "kubeconfig:2:1: ")));
	assert_string_equal(get(f, "state/keys/kube/client.crt"), "CERT\n");
	cluster_finish(&c);
}

/* As docs/sandboxes.md says of it; before, a net that was started again had the new one. */
static void a_reload_looks_at_the_pod_template_and_leaves_it_for_the_next_start(void **state)
{
	struct fixture *f = *state;
	struct cluster c;
	struct err e = {0};
	bool changed = true;

	free(f->conf->kubernetes_pod_template);
	f->conf->kubernetes_pod_template = strdup(in_dir(f, "pod.yaml"));
	put(f, "pod.yaml", "spec: {nodeSelector: {disk: ssd}}\n");
	open_cluster(f, &c);
	put(f, "pod.yaml", "spec: {nodeSelector: {disk: slow}}\n");
	put(f, "u.crt", "CERT2\n");
	assert_int_equal(cluster_reload(&c, f->conf, &f->layout, &f->who, &changed, &e), 0);
	assert_false(changed);
	assert_non_null(strstr(c.pod_template, "ssd"));
	assert_string_equal(get(f, "state/keys/kube/client.crt"), "CERT2\n");
	put(f, "pod.yaml", "spec: {hostPID: true}\n");
	assert_int_equal(cluster_reload(&c, f->conf, &f->layout, &f->who, &changed, &e), ERR_CONFIG);
	assert_non_null(strstr(e.message, "/spec/hostPID"));
	assert_non_null(strstr(c.pod_template, "ssd"));
	cluster_finish(&c);
}

static void what_is_wrong_is_one_line(void **state)
{
	struct fixture *f = *state;
	struct cluster c = {0};
	struct err e = {0};

	assert_int_equal(unlink(in_dir(f, "ca.pem")), 0);
	assert_int_equal(cluster_open(&c, f->conf, &f->layout, &f->who, &e), ERR_NOT_FOUND);
	assert_non_null(strstr(e.message, "certificate-authority of "));
	assert_non_null(strstr(e.message, in_dir(f, "ca.pem")));
	assert_null(c.text);
	assert_int_equal(unlink(in_dir(f, "kubeconfig")), 0);
	assert_int_equal(cluster_open(&c, f->conf, &f->layout, &f->who, &e), ERR_CONFIG);
	assert_non_null(strstr(e.message, "kubernetes.kubeconfig: there is no kubeconfig"));
}

static void without_a_cluster_nothing_is_left(void **state)
{
	struct fixture *f = *state;
	struct conf *none = NULL;
	struct cluster c;

	open_cluster(f, &c);
	cluster_finish(&c);
	assert_int_equal(conf_create(&none), 0);
	assert_int_equal(cluster_open(&c, none, &f->layout, &f->who, NULL), 0);
	assert_string_equal(c.text, "");
	assert_int_equal(access(in_dir(f, "state/keys/kube"), F_OK), -1);
	cluster_refresh(&c, &f->layout, &f->who);
	cluster_finish(&c);
	cluster_finish(NULL);
	conf_destroy(none);
}

static void a_secret_mounted_as_a_link_is_read(void **state)
{
	struct fixture *f = *state;
	struct cluster c;

	assert_int_equal(rename(in_dir(f, "ca.pem"), in_dir(f, "real")), 0);
	assert_int_equal(symlink("real", in_dir(f, "ca.pem")), 0);
	open_cluster(f, &c);
	assert_string_equal(get(f, "state/keys/kube/ca.crt"), "CA\n");
	cluster_finish(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(net_gets_files_and_a_kubeconfig_that_names_them, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_plug_in_goes_on_to_net, setup, teardown),
	    cmocka_unit_test_setup_teardown(rotated_files_arrive_and_a_missing_one_leaves_the_old, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_reload_takes_new_credentials_and_leaves_another_server_for_the_next_start,
					    setup, teardown),
	    cmocka_unit_test_setup_teardown(a_reload_looks_at_the_pod_template_and_leaves_it_for_the_next_start, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(what_is_wrong_is_one_line, setup, teardown),
	    cmocka_unit_test_setup_teardown(without_a_cluster_nothing_is_left, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_secret_mounted_as_a_link_is_read, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
