// tier: check
/* The HTTPS door as well-behaved and odd clients meet it. */
#include "tests/lib/rest_server.h"

static void test_keep_alive(void **state)
{
	struct client c;
	const unsigned char *proto;
	unsigned len;

	(void)state;
	open_client(&c);
	SSL_get0_alpn_selected(c.ssl, &proto, &len);
	assert_int_equal(len, 8);
	assert_memory_equal(proto, "http/1.1", 8);
	for (int i = 0; i < 5; i++) {
		post(&c, "{\"task_id\":\"t\",\"argv\":[\"echo\",\"hello\"]}");
		expect(&c, 200, "Connection: keep-alive", "\"hello\"");
		client_send(&c, HEALTH);
		expect(&c, 200, "X-Request-Id: ", "\"ok\"");
	}
	client_send(&c,
		    "HEAD /healthz HTTP/1.1\r\nHost: x\r\nX-Request-Id: 01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c11\r\n\r\n");
	struct answer a;
	client_answer(&c, false, &a);
	assert_int_equal(a.status, 200);
	assert_non_null(strstr(a.head, "X-Request-Id: 01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c11"));
	free(a.body);
	client_send(&c, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	expect(&c, 200, "Connection: close", NULL);
	assert_true(client_ended(&c));
	client_close(&c);
}

static void test_no_body_no_length(void **state)
{
	(void)state;
	once("POST /v1/agents/demo/resume HTTP/1.1\r\n" AUTH "\r\n", 200, "Connection: close", "running");
	once("POST /v1/agents/demo/resume HTTP/1.1\r\n" AUTH "Content-Length: 0\r\n\r\n", 200, "Connection: keep-alive",
	     "running");
	once(ROUNDS "\r\n", 400, NULL, "empty");
	once("GET /healthz HTTP/1.0\r\n\r\n", 200, "Connection: close", "ok");
}

/* Requests without a body may be sent ahead; with one they end the connection, and never the server. */
static void test_sent_ahead(void **state)
{
	struct client c;
	struct answer a;

	(void)state;
	open_client(&c);
	client_send(&c, HEALTH HEALTH HEALTH);
	for (int i = 0; i < 3; i++)
		expect(&c, 200, NULL, "ok");
	client_close(&c);
	open_client(&c);
	client_send(&c, HEALTH ROUNDS "Content-Length: 39\r\n\r\n{\"task_id\":\"t\",\"argv\":[\"echo\",\"hello\"]}");
	expect(&c, 200, NULL, "ok");
	client_answer(&c, true, &a);
	assert_int_equal(a.status, 0);
	client_close(&c);
	once(HEALTH, 200, NULL, "ok");
}

static void test_body_in_pieces(void **state)
{
	static const char request[] =
	    ROUNDS "Content-Length: 39\r\n\r\n{\"task_id\":\"t\",\"argv\":[\"echo\",\"hello\"]}";
	struct client c;

	(void)state;
	open_client(&c);
	for (const char *p = request; *p; p++)
		assert_true(client_write(&c, p, 1));
	expect(&c, 200, NULL, "hello");
	client_close(&c);
}

static void test_chunked(void **state)
{
	(void)state;
	once(ROUNDS "Transfer-Encoding: chunked\r\n\r\n"
		    "10\r\n{\"task_id\":\"t\",\"\r\n17\r\nargv\":[\"echo\",\"hello\"]}\r\n0\r\n\r\n",
	     200, "Connection: close", "hello");
	once(ROUNDS "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400, "Connection: close", "chunked");
	once(ROUNDS "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400, NULL, "Transfer-Encoding");
}

static void test_expect_continue(void **state)
{
	struct client c;

	(void)state;
	open_client(&c);
	client_send(&c, ROUNDS "Expect: 100-continue\r\nContent-Length: 39\r\n\r\n");
	expect(&c, 100, NULL, NULL);
	client_send(&c, "{\"task_id\":\"t\",\"argv\":[\"echo\",\"hello\"]}");
	expect(&c, 200, NULL, "hello");
	client_close(&c);
	/* a stranger's body is not asked for */
	once("POST /v1/agents/demo/rounds HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 39\r\n\r\n",
	     401, "WWW-Authenticate: Bearer", "unauthenticated");
}

static void test_refusals(void **state)
{
	(void)state;
	once("GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", 404, NULL, "not_found");
	once("DELETE /v1/sessions HTTP/1.1\r\n" AUTH "\r\n", 405, "Allow: GET, HEAD\r\n", "invalid_request");
	once("GET /v1/agents/demo HTTP/1.1\r\nHost: x\r\n\r\n", 401, "WWW-Authenticate: Bearer", "unauthenticated");
	once("GET /v1/agents/demo HTTP/1.1\r\nHost: x\r\nAuthorization: Basic Z29vZA==\r\n\r\n", 401, NULL,
	     "token_malformed");
	once("GET /v1/agents/demo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer expired\r\n\r\n", 401, NULL,
	     "token_expired");
	once("GET /v1/agents/demo?x=1 HTTP/1.1\r\n" AUTH "\r\n", 400, NULL, "parameter x");
	once("PROPFIND / HTTP/1.1\r\nHost: x\r\n\r\n", 405, "Connection: close", "invalid_request");
	once("CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n", 400, NULL, "target");
	once("\x01\x02\x03\x04\r\n\r\n", 400, NULL, "invalid_request");
	once("GET /v1/agents/demo/terminal HTTP/1.1\r\n" AUTH "Upgrade: websocket\r\nConnection: Upgrade\r\n"
	     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
	     400, "Connection: close", "muxd.v1");
	once("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
	     501, NULL, "unsupported");
}

static void test_long_token(void **state)
{
	char *request = malloc(16384);
	char *token = malloc(9001);

	(void)state;
	memset(token, 'a', 9000);
	token[8000] = '\0';
	snprintf(request, 16384, "GET /v1/agents/demo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", token);
	once(request, 401, NULL, "token_signature");
	token[8000] = 'a';
	token[9000] = '\0';
	snprintf(request, 16384, "GET /v1/agents/demo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", token);
	once(request, 401, NULL, "token_malformed");
	free(token);
	free(request);
}

static void grant(const char *token, const char *body, int status, const char *in_body)
{
	char request[1024];

	snprintf(
	    request, sizeof(request),
	    "POST /v1/grants HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Length: "
	    "%zu\r\n\r\n%s",
	    token, strlen(body), body);
	once(request, status, NULL, in_body);
}

static void test_grants_by_the_cluster(void **state)
{
	(void)state;
	grant("cluster",
	      "{\"target\":\"prod/web-0/app\",\"reason\":\"a disk is full\",\"scopes\":\"terminal\",\"ttl\":\"1m\"}",
	      201, "\"principal\":\"anna\",\"kind\":\"staff\",\"target\":\"prod/web-0/app\",\"scopes\":\"terminal\"");
	grant("cluster", "{\"target\":\"demo\",\"reason\":\"r\",\"ttl\":\"1m\"}", 201,
	      "\"expires_at\":\"2023-11-14T22:14:20");
	grant("good", "{\"target\":\"demo\",\"reason\":\"r\"}", 401, "unauthenticated");
	grant("clus\tter", "{\"target\":\"demo\",\"reason\":\"r\"}", 401, "token_malformed");
	grant("cluster", "{\"target\":\"secret\",\"reason\":\"r\"}", 403, "rules");
	grant("cluster", "{\"target\":\"demo\"}", 400, "reason_required");
	grant("cluster", "{\"reason\":\"r\"}", 400, "target");
	grant("cluster", "{\"target\":\"demo\",\"reason\":\"r\",\"ttl\":\"0\"}", 400, "ttl");
	grant("cluster", "{\"target\":\"demo\",\"reason\":\"r\",\"ttl\":900}", 400, "ttl");
	grant("cluster", "{\"target\":\"demo\",\"reason\":\"r\",\"scopes\":\"everything\"}", 400, "everything");
	grant("cluster", "{\"target\":\"demo\",\"reason\":\"r\",\"principal\":\"root\"}", 400, "principal");
	once("POST /v1/grants HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n", 401, "WWW-Authenticate: Bearer",
	     "token of the cluster");
}

static void test_client_leaves(void **state)
{
	struct client c;

	(void)state;
	for (int i = 0; i < 5; i++) {
		open_client(&c);
		post(&c, "{\"task_id\":\"t\",\"argv\":[\"sleep\",\"700\"]}");
		usleep(20 * 1000);
		client_close(&c);
	}
	usleep(1000 * 1000);
	open_client(&c);
	client_send(&c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	expect(&c, 200, NULL, "muxd_api_connections 1\n");
	client_send(&c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	expect(&c, 200, NULL, "route=\"/v1/agents/{agent}/rounds\",status=\"499\"} 5\n");
	client_close(&c);
}

static void test_wait_and_poll(void **state)
{
	struct client c;
	struct answer a;
	char request[300];

	(void)state;
	open_client(&c);
	post(&c, "{\"task_id\":\"t\",\"argv\":[\"sleep\",\"300\"],\"wait_ms\":20}");
	client_answer(&c, true, &a);
	assert_int_equal(a.status, 202);
	snprintf(request, sizeof(request), "GET %.*s?wait_ms=5000 HTTP/1.1\r\n" AUTH "\r\n", 47,
		 strstr(a.head, "Location: ") + 10);
	free(a.body);
	client_send(&c, request);
	expect(&c, 200, NULL, "finished");
	client_close(&c);
}

static void test_open_fails(void **state)
{
	struct rest_door *door = NULL;
	struct err e = {0};
	uv_loop_t loop;
	struct hub *h;
	int listen_fd, cert, key, other_cert, other_key;

	(void)state;
	uv_loop_init(&loop);
	h = fake_hub_create(&loop);
	make_certificate(&cert, &key);
	make_certificate(&other_cert, &other_key);
	assert_int_equal(sock_listen_tcp("127.0.0.1:0", &listen_fd, &e), 0);
	assert_int_equal(rest_door_open(h, listen_fd, -1, cert, other_key, &door, &e), ERR_CONFIG);
	assert_non_null(strstr(e.message, "TLS"));
	assert_null(door);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	rest_door_close(NULL);
	fake_hub_destroy(h);
	assert_int_equal(fcntl(listen_fd, F_GETFD), -1); /* taken in any case */
	assert_int_equal(fcntl(cert, F_GETFD), -1);
	close(key);
	close(other_cert);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_keep_alive),
	    cmocka_unit_test(test_no_body_no_length),
	    cmocka_unit_test(test_sent_ahead),
	    cmocka_unit_test(test_body_in_pieces),
	    cmocka_unit_test(test_chunked),
	    cmocka_unit_test(test_expect_continue),
	    cmocka_unit_test(test_refusals),
	    cmocka_unit_test(test_long_token),
	    cmocka_unit_test(test_grants_by_the_cluster),
	    cmocka_unit_test(test_client_leaves),
	    cmocka_unit_test(test_wait_and_poll),
	    cmocka_unit_test(test_open_fails),
	};

	return cmocka_run_group_tests(tests, server_start, server_stop);
}
