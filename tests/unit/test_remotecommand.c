// tier: check
/*
 * Exec streams against a fake API server, for what the real one cannot be made to show; over TLS and without.
 * Real kubelets are in tests/e2e/k8s.
 */
#include "tests/lib/exec_rig.h"

/* --- what servers do, by TLS and without */

static const struct {
	const char *script;
	enum rc_cause cause;
	int code;
	const char *out, *err; /* NULL: whatever */
	const char *says;      /* in the message */
	int error;
} cases[] = {
    {"exit 0", RC_EXITED, 0, "", "", NULL, 0},
    {"exit 7 out err", RC_EXITED, 7, "out", "err", NULL, 0},
    {"v4 exit 7 out err", RC_EXITED, 7, "out", "err", NULL, 0},
    {"half_close", RC_EXITED, 3, "out", "err", NULL, 0},
    {"empty", RC_EXITED, 0, "x", "", NULL, 0},
    {"late", RC_EXITED, 5, "before behind", "", NULL, 0},
    {"linger", RC_EXITED, 5, "all", "", NULL, 0},
    {"pings 20", RC_EXITED, 0, "", "", NULL, 0},
    {"fragment exit 7 output errors", RC_EXITED, 7, "output", "errors", NULL, 0},
    {"drip exit 7 output errors", RC_EXITED, 7, "output", "errors", NULL, 0},
    {"drip fragment exit 7 output errors", RC_EXITED, 7, "output", "errors", NULL, 0},
    {"drip empty", RC_EXITED, 0, "x", "", NULL, 0},
    {"old exit 7 out", RC_EXITED, 7, "out", "", NULL, 0},
    /* no status, strange ones */
    {"close 1000", RC_UNKNOWN, -1, "some output", "", "without a status", ERR_EOF},
    {"close 1011 oh-dear", RC_UNKNOWN, -1, "some output", "", "1011 oh-dear", ERR_EOF},
    {"status {\"status\":\"Failure\",\"reason\":\"NonZeroExitCode\",\"message\":\"gone\",\"details\":{\"causes\":"
     "[{\"reason\":\"OOMKilled\",\"message\":\"7\"}]}}",
     RC_UNKNOWN, -1, "", "", "gone", ERR_K8S},
    {"status {\"status\":\"Failure\",\"reason\":\"InternalError\",\"message\":\"failed to start exec: executable file "
     "not found in $PATH\"}",
     RC_NOT_STARTED, -1, "", "", "not found in $PATH", ERR_NO_PROGRAM},
    {"status {not a status}", RC_UNKNOWN, -1, "", "", "not JSON", ERR_PROTOCOL},
    {"status {\"status\":\"Success\"", RC_UNKNOWN, -1, "", "", "not JSON", ERR_PROTOCOL},
    /* connections that end */
    {"cut", RC_LOST, -1, "before the cut", "", "without a word", ERR_LINK_LOST},
    {"cut inside", RC_LOST, -1, NULL, "", NULL, ERR_LINK_LOST},
    {"cut head", RC_LOST, -1, "before the cut", "", NULL, ERR_LINK_LOST},
    {"cut status", RC_LOST, -1, "before the cut", "", NULL, ERR_LINK_LOST},
    {"cut reset", RC_LOST, -1, NULL, "", NULL, ERR_LINK_LOST},
    {"illegal", RC_LOST, -1, "so far", "", "an opcode that is not known", ERR_PROTOCOL},
    /* upgrades that are refused */
    {"refuse 403 json {pods \"pod\" is forbidden: no}", RC_NOT_STARTED, -1, "", "", "is forbidden: no",
     ERR_K8S_FORBIDDEN},
    {"refuse 403 chunked {pods \"pod\" is forbidden: no}", RC_NOT_STARTED, -1, "", "", "is forbidden: no",
     ERR_K8S_FORBIDDEN},
    {"refuse 404 slow {pods \"pod\" not found}", RC_NOT_STARTED, -1, "", "", "pods \"pod\" not found", ERR_NOT_FOUND},
    {"refuse 400 eof {choose one of: [a b]}", RC_NOT_STARTED, -1, "", "", "choose one of: [a b]", ERR_K8S},
    {"drip refuse 403 json {pods \"pod\" is forbidden: no}", RC_NOT_STARTED, -1, "", "", "is forbidden: no",
     ERR_K8S_FORBIDDEN},
    {"refuse 401 json Unauthorized", RC_NOT_STARTED, -1, "", "", "Unauthorized", ERR_K8S_UNAUTHENTICATED},
    {"refuse 403 bare", RC_NOT_STARTED, -1, "", "", "403", ERR_K8S_FORBIDDEN},
    {"refuse 403 endless", RC_NOT_STARTED, -1, "", "", "403", ERR_K8S_FORBIDDEN},
    {"refuse 429 text slowly", RC_NOT_STARTED, -1, "", "", "slowly", ERR_K8S_BUSY},
    {"refuse 500 json {error dialing backend}", RC_NOT_STARTED, -1, "", "", "error dialing backend", ERR_K8S},
    {"refuse 500 text {container not found (\"main\")}", RC_NOT_STARTED, -1, "", "", "container not found",
     ERR_NOT_FOUND},
    /* a gateway's: nobody knows what the server behind it did */
    {"refuse 504 text gateway-timeout", RC_UNKNOWN, -1, "", "", "gateway-timeout", ERR_TIMEOUT},
    {"refuse 302 redirect", RC_NOT_STARTED, -1, "", "", "302", ERR_K8S},
    {"refuse 200 noise", RC_UNKNOWN, -1, "", "", "not HTTP", ERR_PROTOCOL},
    {"noproto exit 0", RC_UNKNOWN, -1, "", "", "none of v5", ERR_PROTOCOL},
    {"oddproto exit 0", RC_UNKNOWN, -1, "", "", "protocol that is none of", ERR_PROTOCOL},
    {"badaccept exit 0", RC_UNKNOWN, -1, "", "", "Accept", ERR_PROTOCOL},
};

static void test_cases(void **state)
{
	const char *const by[] = {"plain", "tls"};

	(void)state;
	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		const char *script = cases[i / 2].script;
		struct run r;

		if (!run_script(&r, endpoint(by[i % 2]), script))
			fail_msg("%s, %s: no end (%s)", by[i % 2], script, r.text[1]);
		if (r.exit.cause != cases[i / 2].cause || r.exit.code != cases[i / 2].code ||
		    r.exit.err.code != cases[i / 2].error)
			fail_msg("%s, %s: %s, code %d, %s: %s", by[i % 2], script, rc_cause_name(r.exit.cause),
				 r.exit.code, err_name(r.exit.err.code), r.exit.err.message);
		if ((cases[i / 2].out && strcmp(r.text[1], cases[i / 2].out) != 0) ||
		    (cases[i / 2].err && strcmp(r.text[2], cases[i / 2].err) != 0))
			fail_msg("%s, %s: \"%s\", \"%s\"", by[i % 2], script, r.text[1], r.text[2]);
		if (cases[i / 2].says && !strstr(r.exit.err.message, cases[i / 2].says))
			fail_msg("%s, %s: \"%s\" does not say \"%s\"", by[i % 2], script, r.exit.err.message,
				 cases[i / 2].says);
		assert_int_equal(r.exits, 1);
		assert_int_equal(r.calls_after_exit, 0);
		run_finish(&r);
	}
	assert_int_equal(rc_client_streams(rig.client), 0);
}

static void test_refusal_says_more(void **state)
{
	struct run r;

	(void)state;
	assert_true(run_script(&r, endpoint("tls"), "refuse 401 json Unauthorized"));
	assert_int_equal(r.exit.http_status, 401);
	assert_string_equal(r.exit.reason, "Unauthorized");
	assert_int_equal(r.opened, 0);
	run_finish(&r);
}

/* --- finding the server */

static void check_failure(const struct kube_endpoint *ep, uint32_t connect_ms, const char *script, enum rc_cause cause,
			  int code, const char *says)
{
	struct run r;
	struct err e = {0};

	run_init(&r, script);
	r.params.connect_ms = connect_ms;
	assert_int_equal(run_open(&r, ep, &e), 0);
	assert_true(until(r.exits));
	if (r.exit.err.code != code || !strstr(r.exit.err.message, says))
		fail_msg("%s: %s does not say \"%s\"", err_name(r.exit.err.code), r.exit.err.message, says);
	check_exit(&r, cause, -1);
	run_finish(&r);
}

static void test_no_server(void **state)
{
	struct kube_endpoint *ep = endpoint("dead");

	(void)state;
	check_failure(ep, 0, "exit 0", RC_NOT_STARTED, ERR_K8S_UNREACHABLE, "Connection refused");
	ep = endpoint("plain"); /* waits for a request, and takes our TLS for its beginning */
	ep->tls = true;
	check_failure(ep, 300, "exit 0", RC_NOT_STARTED, ERR_TIMEOUT, "no TLS in time");
	/* no answer: it may have begun */
	check_failure(endpoint("tls"), 300, "mute exit 0", RC_UNKNOWN, ERR_TIMEOUT, "no answer in time");
}

static void test_addresses(void **state)
{
	struct kube_endpoint *ep = endpoint("tls");
	struct run r;

	(void)state;
	/* nobody listens on the first two */
	ep->addresses = "::1,127.0.0.2,127.0.0.1";
	assert_true(run_script(&r, ep, "exit 7"));
	check_exit(&r, RC_EXITED, 7);
	run_finish(&r);
	assert_true(run_script(&r, endpoint("tls6"), "exit 7"));
	check_exit(&r, RC_EXITED, 7);
	run_finish(&r);
	ep = endpoint("tls");
	ep->addresses = "127.0.0.2,127.0.0.3";
	check_failure(ep, 0, "exit 0", RC_NOT_STARTED, ERR_K8S_UNREACHABLE, "127.0.0.3");
}

static void test_tls(void **state)
{
	struct kube_endpoint *ep = endpoint("tls");
	char *other, *cert, *key;
	struct err e = {0};
	struct run r;
	size_t n, cert_len, key_len;

	(void)state;
	other = rig_pem("other.pem", &n);
	/* a name that the address is not, and that the certificate carries */
	ep->tls_server_name = "api.test";
	assert_true(run_script(&r, ep, "exit 7"));
	check_exit(&r, RC_EXITED, 7);
	run_finish(&r);
	ep->tls_server_name = "other.test";
	check_failure(ep, 0, "exit 0", RC_NOT_STARTED, ERR_K8S_TLS, "hostname mismatch");
	ep->tls_server_name = "127.0.0.9";
	check_failure(ep, 0, "exit 0", RC_NOT_STARTED, ERR_K8S_TLS, "IP address mismatch");
	ep->insecure = true;
	assert_true(run_script(&r, ep, "exit 7"));
	check_exit(&r, RC_EXITED, 7);
	run_finish(&r);

	ep = endpoint("tls");
	ep->ca_pem = other;
	ep->ca_pem_len = n;
	check_failure(ep, 0, "exit 0", RC_NOT_STARTED, ERR_K8S_TLS, "issuer certificate");
	ep->ca_pem = NULL; /* the system's */
	check_failure(ep, 0, "exit 0", RC_NOT_STARTED, ERR_K8S_TLS, "issuer certificate");
	ep->insecure = true;
	assert_true(run_script(&r, ep, "exit 7"));
	check_exit(&r, RC_EXITED, 7);
	run_finish(&r);
	check_failure(endpoint("expired"), 0, "exit 0", RC_NOT_STARTED, ERR_K8S_TLS, "certificate has expired");

	ep = endpoint("tls");
	ep->ca_pem = "-----BEGIN CERTIFICATE-----\nrubbish\n-----END CERTIFICATE-----\n";
	ep->ca_pem_len = strlen(ep->ca_pem);
	run_init(&r, "exit 0");
	assert_int_equal(run_open(&r, ep, &e), ERR_K8S_TLS);
	assert_non_null(strstr(e.message, "certificate authority"));
	run_finish(&r);
	free(other);

	/* client certificates, with the intermediate that the server does not have */
	cert = rig_pem("client-chain.pem", &cert_len);
	key = rig_pem("client.key", &key_len);
	check_failure(endpoint("mutual"), 0, "exit 0", RC_NOT_STARTED, ERR_K8S_TLS, "certificate required");
	ep = endpoint("mutual");
	ep->cert_pem = cert;
	ep->cert_pem_len = cert_len;
	ep->key_pem = key;
	ep->key_pem_len = key_len;
	assert_true(run_script(&r, ep, "exit 7"));
	check_exit(&r, RC_EXITED, 7);
	run_finish(&r);
	ep->key_pem = ep->ca_pem;
	ep->key_pem_len = ep->ca_pem_len;
	run_init(&r, "exit 0");
	assert_int_equal(run_open(&r, ep, &e), ERR_K8S_TLS);
	assert_non_null(strstr(e.message, "key"));
	run_finish(&r);
	free(cert);
	free(key);
}

static void test_proxy(void **state)
{
	struct kube_endpoint *ep = endpoint("tls");
	struct err e = {0};
	struct run r;

	(void)state;
	ep->proxy = "http://proxy.test:1";
	ep->connect_port = rig_port("proxy");
	ep->host = "api.test"; /* the proxy looks it up */
	ep->tls_server_name = "api.test";
	assert_true(run_script(&r, ep, "exit 7"));
	check_exit(&r, RC_EXITED, 7);
	run_finish(&r);
	ep->host = "secret.test";
	check_failure(ep, 0, "exit 0", RC_NOT_STARTED, ERR_K8S_UNREACHABLE, "the proxy said: HTTP/1.1 407");
	ep->proxy = "http://user:p%40ss@proxy.test:1";
	assert_true(run_script(&r, ep, "exit 7"));
	check_exit(&r, RC_EXITED, 7);
	run_finish(&r);
	ep->host = "refused.test";
	check_failure(ep, 0, "exit 0", RC_NOT_STARTED, ERR_K8S_UNREACHABLE, "the proxy said: HTTP/1.1 502");
	ep->connect_port = rig_port("dead");
	check_failure(ep, 0, "exit 0", RC_NOT_STARTED, ERR_K8S_UNREACHABLE, "Connection refused");
	run_init(&r, "exit 0");
	ep->proxy = "socks5://proxy.test:1";
	assert_int_equal(run_open(&r, ep, &e), ERR_UNSUPPORTED);
	run_finish(&r);
}

/* --- the request */

static void check_head(const char *by, size_t token_len, size_t arg_len)
{
	struct kube_endpoint *ep = endpoint(by);
	char *token = calloc(1, token_len + 1), *script = calloc(1, arg_len + 16), *seen;
	struct run r;
	json_t *o = NULL;

	memset(token, 't', token_len);
	strcpy(script, "bytes 0 ");
	memset(script + strlen(script), 'a', arg_len);
	ep->token = token_len ? token : NULL;
	assert_true(run_script(&r, ep, script));
	check_exit(&r, RC_EXITED, 0);
	run_finish(&r);

	assert_true(run_script(&r, ep, "head"));
	seen = r.text[1];
	if (r.total[1] < sizeof(r.text[1])) {
		assert_int_equal(json_parse(seen, strlen(seen), sizeof(r.text[1]), &o, NULL), 0);
		assert_string_equal(json_string_value(json_object_get(json_object_get(o, "headers"), "host")),
				    ep->host_header);
		json_decref(o);
	}
	if (token_len)
		assert_in_range(r.total[1], token_len, token_len + 2000);
	run_finish(&r);
	free(token);
	free(script);
}

static void test_long_heads(void **state)
{
	(void)state;
	check_head("tls", 0, 10);
	check_head("tls", 8192, 10);
	check_head("tls", 16384, 10);
	check_head("tls", 16384, 60000);
	check_head("plain", 0, 60000);
	check_head("tls", 100, 2020);
	check_head("tls", 100, 2048);
}

/* --- closing, whenever */

static void test_close_early(void **state)
{
	(void)state;
	for (unsigned us = 0; us < 6000; us += 100) {
		struct run r;
		struct err e = {0};

		run_init(&r, "bytes 1000000");
		assert_int_equal(run_open(&r, endpoint("tls"), &e), 0);
		for (unsigned i = 0; i < us / 100; i++) {
			uv_run(&rig.loop, UV_RUN_NOWAIT);
			usleep(100);
		}
		run_finish(&r);
	}
	assert_int_equal(rc_client_streams(rig.client), 0);
}

static void test_close_inside(void **state)
{
	struct run r;
	struct err e = {0};

	(void)state;
	for (int i = 0; i < 4; i++) {
		run_init(&r, "bytes 1000000");
		r.close_in_open = i < 2;
		r.close_in_data = i >= 2;
		assert_int_equal(run_open(&r, endpoint(i % 2 ? "tls" : "plain"), &e), 0);
		assert_true(until(!r.stream));
		nap(20);
		assert_int_equal(r.exits, 0);
		run_finish(&r);
	}
}

static void test_many_at_once(void **state)
{
	enum { N = 60 };
	static struct run runs[N];
	struct err e = {0};
	unsigned before, done = 0;

	(void)state;
	nap(100);
	before = open_descriptors();
	for (int i = 0; i < N; i++) {
		run_init(&runs[i], i % 3 ? "exit 7 output" : "bytes 300000");
		assert_int_equal(run_open(&runs[i], endpoint(i % 2 ? "tls" : "plain"), &e), 0);
	}
	assert_int_equal(rc_client_streams(rig.client), N);
	for (int i = 0; i < N; i++)
		done += until(runs[i].exits);
	assert_int_equal(done, N);
	for (int i = 0; i < N; i++) {
		check_exit(&runs[i], RC_EXITED, i % 3 ? 7 : 0);
		run_finish(&runs[i]);
	}
	nap(20);
	assert_int_equal(open_descriptors(), before);
}

/* The client goes first: every stream ends with that cause, in whatever state it is. */
static void test_destroy_client(void **state)
{
	static const char *const scripts[] = {"bytes 100000000", "mute exit 0", "exit 7", "refuse 403 slow no",
					      "silent deaf"};
	struct rc_client *kept = rig.client;

	(void)state;
	for (unsigned turns = 0; turns < 40; turns++) {
		struct run runs[5];
		struct err e = {0};

		assert_int_equal(rc_client_create(&rig.loop, &rig.client, &e), 0);
		for (int i = 0; i < 5; i++) {
			run_init(&runs[i], scripts[i]);
			assert_int_equal(run_open(&runs[i], endpoint(turns % 2 ? "tls" : "plain"), &e), 0);
		}
		for (unsigned t = 0; t < turns; t++) {
			uv_run(&rig.loop, UV_RUN_NOWAIT);
			usleep(200);
		}
		rc_client_destroy(rig.client);
		for (int i = 0; i < 5; i++) {
			assert_int_equal(runs[i].exits, 1);
			if (runs[i].exit.cause != RC_EXITED && runs[i].exit.cause != RC_LOST &&
			    runs[i].exit.cause != RC_NOT_STARTED)
				fail_msg("%s", rc_cause_name(runs[i].exit.cause));
			if (i % 2)
				uv_run(&rig.loop, UV_RUN_NOWAIT);
			run_finish(&runs[i]);
		}
	}
	rig.client = kept;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_cases),
	    cmocka_unit_test(test_refusal_says_more),
	    cmocka_unit_test(test_no_server),
	    cmocka_unit_test(test_addresses),
	    cmocka_unit_test(test_tls),
	    cmocka_unit_test(test_proxy),
	    cmocka_unit_test(test_long_heads),
	    cmocka_unit_test(test_close_early),
	    cmocka_unit_test(test_close_inside),
	    cmocka_unit_test(test_many_at_once),
	    cmocka_unit_test(test_destroy_client),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, start, stop);
}
