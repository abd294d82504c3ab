/*
 * Questions to an API server: credentials, refusals, repetitions, faults. The server is a fake
 * (tests/lib/fake_apiserver.py); the real one is met in tests/e2e/k8s.
 */
#include "control/kube/status.h"
#include "control/kube/verbs.h"
#include "tests/lib/kube_rig.h"

#define CA         ", certificate-authority: ca.crt"
#define CONFIGMAPS "/api/v1/namespaces/ns/configmaps"

/* A label of 64 characters: no resolver asks anybody for it. */
#define NO_NAME "a123456789012345678901234567890123456789012345678901234567890123.test"

static const struct kube_ref config_x = {.resource = "configmaps", .namespace_ = "ns", .name = "x"};

/* What became of one call. */
struct outcome {
	bool done;
	int times, rc, status;
	char message[ERR_MESSAGE_MAX];
	json_t *body;
	char *text;
	size_t len, streamed;
	bool begun;
	struct kube_call *call;
};

static void on_done(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct outcome *o = arg;

	o->done = true;
	o->times++;
	o->rc = rc;
	o->status = reply->status;
	if (rc < 0)
		memcpy(o->message, e->message, sizeof(o->message));
	o->body = json_incref((json_t *)(uintptr_t)reply->body);
	o->text = strndup(reply->text ? (const char *)reply->text : "", reply->len);
	o->len = reply->len;
	o->call = NULL;
}

static void outcome_reset(struct outcome *o)
{
	json_decref(o->body);
	free(o->text);
	*o = (struct outcome){0};
}

static void ask_get(struct kube_rig *r, const struct kube_ref *ref, struct outcome *o)
{
	outcome_reset(o);
	assert_int_equal(kube_get(r->kube, ref, on_done, o, &o->call, NULL), 0);
	assert_false(o->done);
}

static void get(struct kube_rig *r, const struct kube_ref *ref, struct outcome *o)
{
	ask_get(r, ref, o);
	rig_until(r, &o->done);
}

static void connect_as(struct kube_rig *r, const char *user, const char *cluster)
{
	struct err e = {0};

	if (rig_connect_as(r, user, cluster, NULL, NULL, &e) < 0)
		fail_msg("%s", e.message);
}

static void fine(const struct outcome *o)
{
	if (o->rc)
		fail_msg("%s", o->message);
	assert_int_equal(o->times, 1);
}

/* It failed so, and the message has all of these words (up to a NULL). */
static void failed(const struct outcome *o, int rc, ...)
{
	const char *word;
	va_list ap;

	if (o->rc != rc)
		fail_msg("%s instead of %s: %s", err_name(o->rc), err_name(rc), o->message);
	assert_int_equal(o->times, 1);
	va_start(ap, rc);
	while ((word = va_arg(ap, const char *)))
		if (!strstr(o->message, word))
			fail_msg("\"%s\" does not say \"%s\"", o->message, word);
	va_end(ap);
}

static int setup(void **state)
{
	struct kube_rig *r = rig_create();

	rig_start_with(r, "server.crt", "server.key");
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	rig_destroy(*state);
	return 0;
}

/* --- verbs */

static void test_an_object_lives_and_dies(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};
	json_t *map = json_pack("{s:{s:s}, s:{s:s}}", "metadata", "name", "x", "data", "a", "1");
	char uid[64];

	connect_as(r, "{token: abc}", CA);
	get(r, &config_x, &o);
	failed(&o, ERR_NOT_FOUND, "get configmaps/x in ns at https://127.0.0.1:", ": 404 NotFound: \"x\" not found",
	       NULL);
	assert_true(kube_status_is(o.body));
	outcome_reset(&o);
	kube_create(r->kube, &config_x, map, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	fine(&o);
	assert_int_equal(o.status, 201);
	outcome_reset(&o);
	kube_create(r->kube, &config_x, map, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	failed(&o, ERR_K8S_CONFLICT, "create configmaps/x in ns", "AlreadyExists", NULL);
	get(r, &config_x, &o);
	fine(&o);
	assert_string_equal(json_string_value(json_object_get(json_object_get(o.body, "data"), "a")), "1");
	snprintf(uid, sizeof(uid), "%s",
		 json_string_value(json_object_get(json_object_get(o.body, "metadata"), "uid")));

	struct kube_delete_options other = {.uid = "00000000-0000-0000-0000-000000000000", .grace_s = 0};
	outcome_reset(&o);
	kube_delete(r->kube, &config_x, &other, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	failed(&o, ERR_K8S_CONFLICT, "the UID in the precondition", NULL);
	outcome_reset(&o);
	other.uid = uid;
	other.propagation = "Foreground";
	rig_do(r, "{\"do\":\"seen\"}");
	kube_delete(r->kube, &config_x, &other, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	fine(&o);
	json_t *seen = rig_ask(r, "{\"do\":\"seen\"}");
	json_t *body = json_loads(json_string_value(json_object_get(json_array_get(seen, 0), "body")), 0, NULL);
	assert_string_equal(json_string_value(json_object_get(body, "propagationPolicy")), "Foreground");
	assert_true(json_is_integer(json_object_get(body, "gracePeriodSeconds")));
	json_decref(body);
	json_decref(seen);
	json_decref(map);
	outcome_reset(&o);
}

static void test_apply_patch_and_replace(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};
	json_t *map = json_pack("{s:{s:s}, s:{s:s}}", "metadata", "name", "x", "data", "a", "1");
	json_t *patch = json_pack("{s:{s:s, s:n}}", "data", "b", "2", "a");

	connect_as(r, "{token: abc}", CA);
	kube_apply(r->kube, &config_x, map, true, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	fine(&o);
	json_t *seen = rig_ask(r, "{\"do\":\"seen\"}"), *first = json_array_get(seen, 0);
	json_t *query = json_object_get(first, "query");
	assert_string_equal(json_string_value(json_object_get(query, "fieldManager")), "muxd");
	assert_string_equal(json_string_value(json_object_get(query, "force")), "true");
	assert_string_equal(json_string_value(json_object_get(json_object_get(first, "headers"), "content-type")),
			    "application/apply-patch+yaml");
	json_decref(seen);
	outcome_reset(&o);
	kube_patch(r->kube, &config_x, KUBE_PATCH_MERGE, patch, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	fine(&o);
	assert_null(json_object_get(json_object_get(o.body, "data"), "a"));
	assert_string_equal(json_string_value(json_object_get(json_object_get(o.body, "data"), "b")), "2");
	json_object_set_new(json_object_get(map, "metadata"), "resourceVersion", json_string("1"));
	outcome_reset(&o);
	kube_replace(r->kube, &config_x, map, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	failed(&o, ERR_K8S_CONFLICT, "update configmaps/x in ns", "the object has been modified", NULL);
	json_decref(map);
	json_decref(patch);
	outcome_reset(&o);
}

static void on_piece(void *arg, const uint8_t *p, size_t n)
{
	struct outcome *o = arg;

	assert_false(o->done);
	if (n == 0) {
		assert_false(o->begun);
		o->begun = true;
	}
	assert_true(o->begun && (n == 0) == (p == NULL));
	for (size_t i = 0; i < n; i++)
		assert_int_equal(p[i], 'l');
	o->streamed += n;
}

static void test_logs_whole_and_as_a_stream(void **state)
{
	static const struct kube_ref pod = {.resource = "pods", .namespace_ = "ns", .name = "x"};
	struct kube_rig *r = *state;
	struct outcome o = {0};
	char *big = malloc(3000001);

	memset(big, 'l', 3000000);
	big[3000000] = '\0';
	connect_as(r, "{token: abc}", CA);
	rig_do(r, "{\"do\":\"rule\",\"path\":\"/pods/x/log\\\\?container=c&tailLines=5$\",\"text\":\"not {json\\n\"}");
	kube_logs(r->kube, &pod, &(struct kube_log_options){.container = "c", .tail_lines = 5}, on_done, &o, NULL,
		  NULL);
	rig_until(r, &o.done);
	fine(&o);
	assert_string_equal(o.text, "not {json\n");
	outcome_reset(&o);
	rig_do(r, "{\"do\":\"rule\",\"path\":\"follow=true\",\"text\":\"%s\"}", big);
	kube_logs(r->kube, &pod, &(struct kube_log_options){.tail_lines = -1, .follow = true, .data = on_piece},
		  on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	fine(&o);
	assert_int_equal(o.streamed, 3000000);
	assert_int_equal(o.len, 0);
	outcome_reset(&o);
	rig_do(
	    r,
	    "{\"do\":\"rule\",\"path\":\"log\",\"status\":400,\"body\":{\"kind\":\"Status\",\"reason\":\"BadRequest\","
	    "\"message\":\"a container name must be specified for pod x, choose one of: [a b]\"}}");
	kube_logs(r->kube, &pod, &(struct kube_log_options){.tail_lines = -1, .follow = true, .data = on_piece},
		  on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	failed(&o, ERR_K8S, "400 BadRequest: a container name must be specified", "[a b]", NULL);
	assert_false(o.begun);
	outcome_reset(&o);
	free(big);
}

static void test_names_stay_where_they_belong(void **state)
{
	struct kube_rig *r = *state;
	struct kube_ref bad = config_x, odd = config_x;
	struct outcome o = {0};
	struct err e = {0};

	connect_as(r, "{token: abc}", CA);
	bad.name = "..";
	assert_int_equal(kube_get(r->kube, &bad, on_done, &o, NULL, &e), ERR_INVAL);
	bad.name = "";
	assert_int_equal(kube_get(r->kube, &bad, on_done, &o, NULL, &e), ERR_INVAL);
	bad.name = NULL;
	assert_int_equal(kube_delete(r->kube, &bad, NULL, on_done, &o, NULL, &e), ERR_INVAL);
	odd.name = "../../secrets/a?b=c#d e";
	get(r, &odd, &o);
	failed(&o, ERR_NOT_FOUND, NULL);
	json_t *seen = rig_ask(r, "{\"do\":\"seen\"}");
	assert_int_equal(json_array_size(seen), 1);
	assert_string_equal(json_string_value(json_object_get(json_array_get(seen, 0), "path")),
			    CONFIGMAPS "/..%2F..%2Fsecrets%2Fa%3Fb%3Dc%23d%20e");
	json_decref(seen);
	outcome_reset(&o);
}

static void test_one_connection_serves_many(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};
	size_t i;
	json_t *one;

	connect_as(r, "{token: abc}", CA);
	for (i = 0; i < 50; i++)
		get(r, &config_x, &o);
	json_t *seen = rig_ask(r, "{\"do\":\"seen\"}");
	assert_int_equal(json_array_size(seen), 50);
	json_int_t conn = json_integer_value(json_object_get(json_array_get(seen, 0), "conn"));
	json_array_foreach(seen, i, one) assert_int_equal(json_integer_value(json_object_get(one, "conn")), conn);
	json_decref(seen);
	outcome_reset(&o);
}

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

/* --- refusals and repetitions */

static void test_refusals_keep_the_servers_words(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};

	connect_as(r, "{token: abc}", CA);
	rig_do(r, "{\"do\":\"rule\",\"status\":403,\"body\":{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":"
		  "\"configmaps \\\"x\\\" is forbidden: User \\\"ann\\\" cannot get resource \\\"configmaps\\\"\"}}");
	get(r, &config_x, &o);
	failed(&o, ERR_K8S_FORBIDDEN, "403 Forbidden: configmaps \"x\" is forbidden: User \"ann\" cannot get resource",
	       NULL);
	rig_do(r, "{\"do\":\"rule\",\"status\":422,\"body\":{\"kind\":\"Status\",\"reason\":\"Invalid\",\"message\":"
		  "\"Pod \\\"x\\\" is "
		  "invalid\",\"details\":{\"causes\":[{\"field\":\"spec.containers[0].image\",\"message\":\"Required "
		  "value\"}]}}}");
	get(r, &config_x, &o);
	failed(&o, ERR_K8S_INVALID, "422 Invalid: Pod \"x\" is invalid; spec.containers[0].image: Required value",
	       NULL);
	rig_do(r, "{\"do\":\"rule\",\"status\":410,\"body\":{\"kind\":\"Status\",\"reason\":\"Expired\",\"message\":"
		  "\"too old\"}}");
	get(r, &config_x, &o);
	failed(&o, ERR_K8S_GONE, "410 Expired: too old", NULL);
	rig_do(r, "{\"do\":\"rule\",\"status\":500,\"text\":\"<html>oops</html>\"}");
	get(r, &config_x, &o);
	failed(&o, ERR_K8S, "500 without a Status of Kubernetes", NULL);
	rig_do(r, "{\"do\":\"rule\",\"status\":400,\"text\":\"client sent\\nnonsense\"}");
	get(r, &config_x, &o);
	failed(&o, ERR_K8S, "400 client sent", NULL);
	rig_do(r, "{\"do\":\"rule\",\"status\":302,\"headers\":{\"Location\":\"https://127.0.0.1:1/\"},\"body\":{}}");
	get(r, &config_x, &o); /* followed by nobody */
	fine(&o);
	assert_int_equal(o.status, 302);
	outcome_reset(&o);
}

static void test_retry_after_is_kept(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};
	json_t *map = json_pack("{s:{s:s}}", "metadata", "name", "x");
	time_t before;

	connect_as(r, "{token: abc}", CA);
	rig_do(r, "{\"do\":\"rule\",\"status\":429,\"headers\":{\"Retry-After\":1},\"body\":{}}");
	before = time(NULL);
	kube_create(r->kube, &config_x, map, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	fine(&o);
	assert_true(time(NULL) > before);
	assert_int_equal(rig_seen(r, "POST", "/configmaps"), 2);
	rig_do(r,
	       "{\"do\":\"rule\",\"status\":503,\"body\":{\"kind\":\"Status\",\"details\":{\"retryAfterSeconds\":1}}}");
	get(r, &config_x, &o);
	fine(&o);
	assert_int_equal(rig_seen(r, "GET", "/x"), 2);
	/* longer than the caller can wait: told at once */
	rig_do(r, "{\"do\":\"rule\",\"status\":429,\"headers\":{\"Retry-After\":3600},\"text\":\"busy\"}");
	get(r, &config_x, &o);
	failed(&o, ERR_K8S_BUSY, "429 busy", NULL);
	json_decref(map);
	outcome_reset(&o);
}

static void test_tries_are_counted(void **state)
{
	static const struct kube_options quick = {.tries = 3, .backoff_ms = 1};
	struct kube_rig *r = *state;
	struct outcome o = {0};
	struct err e = {0};
	json_t *map = json_pack("{s:{s:s}}", "metadata", "name", "y");

	assert_int_equal(rig_connect_as(r, "{token: abc}", CA, NULL, &quick, &e), 0);
	rig_do(r, "{\"do\":\"rule\",\"times\":0,\"status\":503,\"text\":\"no\"}");
	get(r, &config_x, &o);
	failed(&o, ERR_K8S_BUSY, "503 no", NULL);
	assert_int_equal(rig_seen(r, "GET", "/x"), 3);
	outcome_reset(&o);
	kube_create(r->kube, &config_x, map, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	failed(&o, ERR_K8S_BUSY, NULL); /* it may have been done: a create is not repeated */
	assert_int_equal(rig_seen(r, "POST", "/configmaps"), 1);
	json_decref(map);
	outcome_reset(&o);
}

static void test_cut_answers(void **state)
{
	static const struct kube_options quick = {.tries = 3, .backoff_ms = 1};
	struct kube_rig *r = *state;
	struct outcome o = {0};
	struct err e = {0};
	json_t *map = json_pack("{s:{s:s}}", "metadata", "name", "x");

	assert_int_equal(rig_connect_as(r, "{token: abc}", CA, NULL, &quick, &e), 0);
	rig_do(r, "{\"do\":\"rule\",\"times\":2,\"text\":\"{\\\"a\\\": 1234567890}\",\"cut\":5}");
	get(r, &config_x, &o);
	failed(&o, ERR_NOT_FOUND, NULL); /* the third time */
	assert_int_equal(rig_seen(r, "GET", "/x"), 3);
	rig_do(r, "{\"do\":\"rule\",\"times\":0,\"method\":\"POST\",\"body\":{},\"cut\":1}");
	outcome_reset(&o);
	kube_create(r->kube, &config_x, map, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	failed(&o, ERR_EOF, "the answer was cut", "whether it was done is not known", NULL);
	assert_int_equal(rig_seen(r, "POST", "/configmaps"), 1);
	json_decref(map);
	outcome_reset(&o);
}

static void test_a_silent_answer_stops_nobody_else(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0}, other = {0};
	struct kube_request hurried = {.method = "GET", .path = CONFIGMAPS "/x", .deadline_ms = 600};

	connect_as(r, "{token: abc}", CA);
	rig_do(r, "{\"do\":\"rule\",\"path\":\"/x$\",\"hang\":true,\"times\":0}");
	assert_int_equal(kube_request(r->kube, &hurried, on_done, &o, NULL, NULL), 0);
	ask_get(r, &(struct kube_ref){.resource = "configmaps", .namespace_ = "ns", .name = "y"}, &other);
	rig_until(r, &o.done);
	rig_until(r, &other.done);
	failed(&o, ERR_TIMEOUT, "GET " CONFIGMAPS "/x at https://127.0.0.1:", "no answer in 600 ms", NULL);
	failed(&other, ERR_NOT_FOUND, NULL);
	outcome_reset(&o);
	outcome_reset(&other);
}

static void test_a_slow_body_byte_by_byte(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};

	connect_as(r, "{token: abc}", CA);
	rig_do(r, "{\"do\":\"drip\",\"bytes\":1}");
	rig_do(r, "{\"do\":\"put\",\"path\":\"" CONFIGMAPS "/x\",\"object\":{\"data\":{\"a\":\"gr\\u00fc\\u00dfe\"}}}");
	get(r, &config_x, &o);
	fine(&o);
	assert_string_equal(json_string_value(json_object_get(json_object_get(o.body, "data"), "a")),
			    "gr\xc3\xbc\xc3\x9f"
			    "e");
	outcome_reset(&o);
}

static void test_answers_that_are_too_large_or_no_json(void **state)
{
	static const struct kube_options small = {.answer_max = 1000};
	struct kube_rig *r = *state;
	struct outcome o = {0};
	struct err e = {0};
	char text[1001];

	memset(text, ' ', sizeof(text) - 1);
	text[1000] = '\0';
	text[0] = '7';
	assert_int_equal(rig_connect_as(r, "{token: abc}", CA, NULL, &small, &e), 0);
	rig_do(r, "{\"do\":\"rule\",\"text\":\"%s\"}", text);
	get(r, &config_x, &o);
	fine(&o);
	assert_int_equal(json_integer_value(o.body), 7);
	rig_do(r, "{\"do\":\"rule\",\"text\":\"%s.\"}", text);
	get(r, &config_x, &o);
	failed(&o, ERR_TOO_LARGE, "larger than 1000 bytes", NULL);
	rig_do(r, "{\"do\":\"rule\",\"text\":\"{\\\"a\\\":\"}");
	get(r, &config_x, &o);
	failed(&o, ERR_PROTOCOL, "get configmaps/x in ns", "not JSON", NULL);
	outcome_reset(&o);
}

/* --- leaving */

static void test_cancel(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};

	connect_as(r, "{token: abc}", CA);
	rig_do(r, "{\"do\":\"rule\",\"hang\":true,\"times\":0}");
	ask_get(r, &config_x, &o);
	kube_cancel(o.call); /* before anything was sent */
	failed(&o, ERR_CANCELLED, "get configmaps/x in ns: cancelled", NULL);
	ask_get(r, &config_x, &o);
	for (int i = 0; i < 3000 && rig_seen(r, "GET", "/x") == 0; i++) {
		uv_run(&r->loop, UV_RUN_NOWAIT);
		usleep(10000);
	}
	kube_cancel(o.call); /* while it waits for an answer */
	failed(&o, ERR_CANCELLED, NULL);
	outcome_reset(&o);
}

static void test_destroy_ends_every_call_once(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o[20] = {0};

	connect_as(r, "{token: abc}", CA);
	rig_do(r, "{\"do\":\"rule\",\"hang\":true,\"times\":10}");
	for (int i = 0; i < 20; i++)
		ask_get(r, &config_x, &o[i]);
	bool any = false;
	for (int i = 0; i < 3000 && !any; i++) {
		uv_run(&r->loop, UV_RUN_NOWAIT);
		usleep(1000);
		for (int j = 0; j < 20; j++)
			any |= o[j].done;
	}
	rig_disconnect(r);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(o[i].times, 1);
		assert_true(o[i].rc == ERR_CANCELLED || o[i].rc == ERR_NOT_FOUND);
		outcome_reset(&o[i]);
	}
}

struct leaver {
	struct kube_rig *rig;
	struct outcome o;
};

static void leave(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct leaver *l = arg;

	on_done(&l->o, rc, e, reply);
	rig_disconnect(l->rig);
}

static void leave_in_stream(void *arg, const uint8_t *p, size_t n)
{
	struct leaver *l = arg;

	(void)p;
	if (n)
		rig_disconnect(l->rig);
}

static void done_in_stream(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	on_done(&((struct leaver *)arg)->o, rc, e, reply);
}

static void test_the_client_may_be_destroyed_by_its_callbacks(void **state)
{
	struct kube_rig *r = *state;
	struct leaver l = {.rig = r};
	struct outcome other = {0};

	connect_as(r, "{token: abc}", CA);
	rig_do(r, "{\"do\":\"rule\",\"path\":\"/y\",\"hang\":true,\"times\":0}");
	ask_get(r, &(struct kube_ref){.resource = "configmaps", .namespace_ = "ns", .name = "y"}, &other);
	kube_get(r->kube, &config_x, leave, &l, NULL, NULL);
	rig_until(r, &l.o.done);
	failed(&other, ERR_CANCELLED, NULL);
	outcome_reset(&l.o);
	outcome_reset(&other);

	connect_as(r, "{token: abc}", CA);
	rig_do(r, "{\"do\":\"rule\",\"path\":\"log\",\"text\":\"lllll\"}");
	kube_logs(r->kube, &(struct kube_ref){.resource = "pods", .namespace_ = "ns", .name = "x"},
		  &(struct kube_log_options){.tail_lines = -1, .data = leave_in_stream}, done_in_stream, &l, NULL,
		  NULL);
	rig_until(r, &l.o.done);
	failed(&l.o, ERR_CANCELLED, NULL);
	outcome_reset(&l.o);
}

static void test_a_hundred_at_once(void **state)
{
	struct kube_rig *r = *state;
	static struct outcome o[100];

	connect_as(r, "{token: abc}", CA);
	for (int i = 0; i < 100; i++)
		ask_get(r, &config_x, &o[i]);
	for (int i = 0; i < 100; i++) {
		rig_until(r, &o[i].done);
		failed(&o[i], ERR_NOT_FOUND, NULL);
		outcome_reset(&o[i]);
	}
}

#define REST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    REST(test_an_object_lives_and_dies),
	    REST(test_apply_patch_and_replace),
	    REST(test_logs_whole_and_as_a_stream),
	    REST(test_names_stay_where_they_belong),
	    REST(test_one_connection_serves_many),
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
	    REST(test_refusals_keep_the_servers_words),
	    REST(test_retry_after_is_kept),
	    REST(test_tries_are_counted),
	    REST(test_cut_answers),
	    REST(test_a_silent_answer_stops_nobody_else),
	    REST(test_a_slow_body_byte_by_byte),
	    REST(test_answers_that_are_too_large_or_no_json),
	    REST(test_cancel),
	    REST(test_destroy_ends_every_call_once),
	    REST(test_the_client_may_be_destroyed_by_its_callbacks),
	    REST(test_a_hundred_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
