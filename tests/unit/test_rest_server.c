/*
 * The HTTPS door on real sockets, with a fake hub in a process of its own: what
 * well-behaved, odd and hostile clients get. At the end the door closes with
 * clients attached, and its process must end cleanly (the sanitizers look there).
 */
#include "tests/lib/fake_broker.c"
#include "tests/lib/https_client.h"

#include "muxd/base/log.h"
#include "muxd/base/sock.h"
#include "muxd/doors/door.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/wait.h>

#include <cmocka.h>

#define AUTH     "Host: localhost\r\nAuthorization: Bearer good\r\n"
#define ROUNDS   "POST /v1/agents/demo/rounds HTTP/1.1\r\n" AUTH
#define FILES(q) "/v1/agents/demo/files?path=" q " HTTP/1.1\r\n" AUTH
#define HEALTH   "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define MAX_BODY (64 * 1024)
#define PER_ADDR 20

static struct {
	int port;
	pid_t pid;
} server;

/* --- the server's process */

struct serving {
	uv_loop_t loop;
	struct rest_door *door;
	uv_signal_t term;
};

static void on_term(uv_signal_t *s, int signum)
{
	struct serving *v = s->data;

	(void)signum;
	rest_door_close(v->door);
	rest_door_close(v->door); /* harmless */
	uv_close((uv_handle_t *)s, NULL);
}

static int serve(int listen_fd)
{
	struct serving v = {0};
	struct err e = {0};
	struct hub *h;
	int cert, key, rc;

	log_setup("test", getenv("TEST_LOG") ? getenv("TEST_LOG") : "error", LOG_TEXT, 2, NULL);
	uv_loop_init(&v.loop);
	h = fake_hub_create(&v.loop);
	h->conf->api_max_body = MAX_BODY;
	h->conf->api_max_per_address = PER_ADDR;
	h->conf->api_header_timeout_ns = 1500 * NS_PER_MS;
	h->conf->api_idle_timeout_ns = 2000 * NS_PER_MS;
	make_certificate(&cert, &key);
	if (rest_door_open(h, listen_fd, cert, key, &v.door, &e)) {
		fprintf(stderr, "%s\n", e.message);
		return 3;
	}
	uv_signal_init(&v.loop, &v.term);
	v.term.data = &v;
	uv_signal_start(&v.term, on_term, SIGTERM);
	uv_run(&v.loop, UV_RUN_DEFAULT);
	rc = uv_loop_close(&v.loop) ? 4 : 0;
	fake_hub_destroy(h);
	return rc;
}

static int start(void **state)
{
	struct err e = {0};
	char name[64];
	int fd;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	if (sock_listen_tcp("127.0.0.1:0", &fd, &e) || sock_name(fd, 0, name, sizeof(name)))
		return -1;
	server.port = atoi(strrchr(name, ':') + 1);
	server.pid = fork();
	if (server.pid == 0)
		exit(serve(fd));
	close(fd);
	return server.pid < 0;
}

static int stop(void **state)
{
	struct client c;
	struct answer a;
	int status = 0;

	(void)state;
	/* one that waits for a round and one that is silent are attached when the door closes */
	if (!client_open(&c, server.port, 0))
		return -1;
	client_send(&c, ROUNDS "Content-Length: 39\r\n\r\n{\"task_id\":\"t\",\"argv\":[\"sleep\",\"0900\"]}");
	usleep(200 * 1000);
	kill(server.pid, SIGTERM);
	if (waitpid(server.pid, &status, 0) != server.pid || status)
		fprintf(stderr, "the server ended with %d\n", status);
	client_answer(&c, true, &a);
	if (a.status != 503 || !strstr(a.body, "stopping")) {
		fprintf(stderr, "who waited was not told: %d\n", a.status);
		status = 1;
	}
	free(a.body);
	client_close(&c);
	return status;
}

static void open_client(struct client *c)
{
	if (!client_open(c, server.port, 0))
		fail_msg("cannot connect");
}

static void post(struct client *c, const char *body)
{
	char head[256];

	snprintf(head, sizeof(head), ROUNDS "Content-Length: %zu\r\n\r\n", strlen(body));
	assert_true(client_send(c, head));
	assert_true(client_send(c, body));
}

static void expect(struct client *c, int status, const char *in_head, const char *in_body)
{
	struct answer a;

	client_answer(c, status != 100, &a);
	if (a.status != status || (in_head && !strstr(a.head, in_head)) || (in_body && !strstr(a.body, in_body)))
		fail_msg("got %d, not %d: %s%s", a.status, status, a.head, a.body ? a.body : "");
	free(a.body);
}

/* One request on a connection of its own; the connection ends with the answer. */
static void once(const char *request, int status, const char *in_head, const char *in_body)
{
	struct client c;

	open_client(&c);
	(void)client_send(&c, request);
	expect(&c, status, in_head, in_body);
	client_close(&c);
}

static unsigned long server_ticks(void)
{
	char path[64], line[1024] = "";
	unsigned long user = 0, sys = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", server.pid);
	f = fopen(path, "r");
	if (f && fgets(line, sizeof(line), f))
		sscanf(strrchr(line, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys);
	if (f)
		fclose(f);
	return user + sys;
}

/* --- the tests */

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

static void test_framing_refused(void **state)
{
	(void)state;
	once(ROUNDS "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc", 400, "close", "exclude");
	once(ROUNDS "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400, "close", "Content-Length");
	once(ROUNDS "Content-Length: -1\r\n\r\nabc", 400, "close", "Content-Length");
	once(ROUNDS "Content-Length: 3x\r\n\r\nabc", 400, "close", "Content-Length");
	once(ROUNDS "Content-Length: 99999999999999999999\r\n\r\n", 400, "close", "Content-Length");
	once("GET /healthz HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 400, "close", "no body");
	once(ROUNDS "Expect: magic\r\nContent-Length: 3\r\n\r\n", 400, NULL, "expectation");
}

static void test_too_large(void **state)
{
	char *big = malloc(4 * MAX_BODY);
	struct client c;

	(void)state;
	memset(big, ' ', 4 * MAX_BODY);
	open_client(&c);
	client_send(&c, ROUNDS "Content-Length: 262144\r\n\r\n");
	(void)client_write(&c, big, 4 * MAX_BODY);
	expect(&c, 413, "Connection: close", "too_large");
	client_close(&c);
	open_client(&c);
	client_send(&c, ROUNDS "Transfer-Encoding: chunked\r\n\r\n40000\r\n");
	(void)client_write(&c, big, 4 * MAX_BODY);
	expect(&c, 413, "Connection: close", "too_large");
	client_close(&c);
	free(big);
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
	once("POST /v1/agents/demo/rounds HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 39\r\n\r\n", 401,
	     "WWW-Authenticate: Bearer", "unauthenticated");
}

static void test_refusals(void **state)
{
	(void)state;
	once("GET /nothing HTTP/1.1\r\n\r\n", 404, NULL, "not_found");
	once("DELETE /v1/sessions HTTP/1.1\r\n" AUTH "\r\n", 405, "Allow: GET, HEAD\r\n", "invalid_request");
	once("GET /v1/agents/demo HTTP/1.1\r\n\r\n", 401, "WWW-Authenticate: Bearer", "unauthenticated");
	once("GET /v1/agents/demo HTTP/1.1\r\nAuthorization: Basic Z29vZA==\r\n\r\n", 401, NULL, "token_malformed");
	once("GET /v1/agents/demo HTTP/1.1\r\nAuthorization: Bearer expired\r\n\r\n", 401, NULL, "token_expired");
	once("GET /v1/agents/demo?x=1 HTTP/1.1\r\n" AUTH "\r\n", 400, NULL, "parameter x");
	once("PROPFIND / HTTP/1.1\r\n\r\n", 405, "Connection: close", "invalid_request");
	once("CONNECT a:1 HTTP/1.1\r\n\r\n", 405, NULL, "invalid_request");
	once("\x01\x02\x03\x04\r\n\r\n", 405, NULL, "invalid_request");
	once("GET /v1/agents/demo/terminal HTTP/1.1\r\n" AUTH "Upgrade: websocket\r\nConnection: Upgrade\r\n"
	     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
	     501, "Connection: close", "unsupported");
	once("GET / HTTP/1.1\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nHTTP2-Settings: AAMAAABk\r\n\r\n", 501, NULL,
	     "unsupported");
}

static void test_long_token(void **state)
{
	char *request = malloc(16384);
	char *token = malloc(9001);

	(void)state;
	memset(token, 'a', 9000);
	token[8000] = '\0';
	snprintf(request, 16384, "GET /v1/agents/demo HTTP/1.1\r\nAuthorization: Bearer %s\r\n\r\n", token);
	once(request, 401, NULL, "token_signature");
	token[8000] = 'a';
	token[9000] = '\0';
	snprintf(request, 16384, "GET /v1/agents/demo HTTP/1.1\r\nAuthorization: Bearer %s\r\n\r\n", token);
	once(request, 401, NULL, "token_malformed");
	free(token);
	free(request);
}

static void grant(const char *token, const char *body, int status, const char *in_body)
{
	char request[1024];

	snprintf(request, sizeof(request),
		 "POST /v1/grants HTTP/1.1\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Length: "
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
	once("POST /v1/grants HTTP/1.1\r\nContent-Length: 2\r\n\r\n", 401, "WWW-Authenticate: Bearer",
	     "token of the cluster");
}

static void test_plain_http(void **state)
{
	char text[1024] = "";
	int fd = client_tcp(server.port, 0);

	(void)state;
	assert_int_equal(write(fd, HEALTH, strlen(HEALTH)), strlen(HEALTH));
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	assert_memory_equal(text, "HTTP/1.1 400 ", 13);
	assert_non_null(strstr(text, "speaks HTTPS"));
	close(fd);
}

/* 600 kB for a client that reads nothing for a while and has sent ahead: the server must not spin meanwhile. */
static void test_slow_reader(void **state)
{
	struct client c;
	struct answer a;
	unsigned long before, after;

	(void)state;
	assert_true(client_open(&c, server.port, 4096));
	post(&c, "{\"task_id\":\"t\",\"argv\":[\"big\",\"3000000\"]}");
	for (int i = 0; i < 50; i++)
		client_send(&c, HEALTH);
	usleep(300 * 1000);
	before = server_ticks();
	usleep(1000 * 1000);
	after = server_ticks();
	client_answer(&c, true, &a);
	assert_int_equal(a.status, 200);
	assert_true(a.len > 6000000);
	free(a.body);
	for (int i = 0; i < 50; i++)
		expect(&c, 200, NULL, "ok");
	client_close(&c);
	if (after - before > 20)
		fail_msg("%lu ticks of processor time in one second of waiting", after - before);
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
	client_send(&c, "GET /metrics HTTP/1.1\r\n\r\n");
	expect(&c, 200, NULL, "muxd_api_connections 1\n");
	client_send(&c, "GET /metrics HTTP/1.1\r\n\r\n");
	expect(&c, 200, NULL, "route=\"/v1/agents/{agent}/rounds\",status=\"499\"} 5\n");
	client_close(&c);
}

/* Larger than api.max_body, and taken slower than it comes: what does not fit waits at the client. */
static void test_put(void **state)
{
	static char big[1000000];
	struct client c;

	(void)state;
	memset(big, 'x', sizeof(big));
	open_client(&c);
	client_send(&c, "PUT " FILES("a") "Content-Length: 1000000\r\n\r\n");
	assert_true(client_write(&c, big, sizeof(big)));
	expect(&c, 200, "keep-alive", "\"size\":1000000");
	client_send(&c, "PUT " FILES("a") "Content-Length: 0\r\n\r\n");
	expect(&c, 200, "keep-alive", "\"size\":0");
	client_send(&c, "PUT " FILES("a") "Transfer-Encoding: chunked\r\n\r\n186A0\r\n");
	assert_true(client_write(&c, big, 100000));
	client_send(&c, "\r\n3\r\nabc\r\n0\r\n\r\n");
	expect(&c, 200, "close", "\"size\":100003");
	client_close(&c);
	once("PUT " FILES("a") "\r\n", 400, "close", "Content-Length");
	once("PUT " FILES("a") "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400, "close", "chunked");
	once("PUT /v1/agents/demo/files HTTP/1.1\r\n" AUTH "Content-Length: 3\r\n\r\nabc", 400, "close",
	     "path is missing");
	once("PUT " FILES("a%0ab") "Content-Length: 3\r\n\r\nabc", 400, "close", "line end");
	once("PUT /v1/agents/demo/files?path=a HTTP/1.1\r\nContent-Length: 3\r\n\r\n", 401, NULL, "unauthenticated");
}

static void test_put_that_fails(void **state)
{
	static char big[1000000];
	struct client c;

	(void)state;
	memset(big, 'x', sizeof(big));
	open_client(&c);
	client_send(&c, "PUT " FILES("full") "Content-Length: 1000000\r\n\r\n");
	(void)client_write(&c, big, sizeof(big));
	expect(&c, 507, "Connection: close", "workspace_full");
	client_close(&c);
	/* a body that stops coming */
	once("PUT " FILES("a") "Content-Length: 10\r\n\r\nabc", 408, "close", "in time");
	/* clients that leave: at once, in the middle, before the answer */
	for (int i = 0; i < 6; i++) {
		open_client(&c);
		client_send(&c, "PUT " FILES("a") "Content-Length: 100000\r\n\r\n");
		if (i % 3)
			(void)client_write(&c, big, i % 3 == 1 ? 50000 : 100000);
		client_close(&c);
	}
	once(HEALTH, 200, NULL, "ok");
}

static void test_get(void **state)
{
	struct client c;
	struct answer a;

	(void)state;
	open_client(&c);
	for (int i = 0; i < 3; i++) {
		static const char *const sizes[] = {"0", "1", "1000000"};
		char request[200];

		snprintf(request, sizeof(request), "GET " FILES("%s") "\r\n", sizes[i]);
		client_send(&c, request);
		client_answer(&c, true, &a);
		assert_int_equal(a.status, 200);
		assert_int_equal(a.len, atoi(sizes[i]));
		assert_non_null(strstr(a.head, "X-File-Mode: 0644"));
		assert_non_null(strstr(a.head, "application/octet-stream"));
		for (size_t k = 0; k < a.len; k++)
			assert_int_equal(a.body[k], 'x');
		free(a.body);
	}
	client_send(&c, "GET " FILES("none") "\r\n");
	expect(&c, 404, "keep-alive", "file_not_found");
	client_send(&c, "HEAD " FILES("1000") "\r\n");
	client_answer(&c, false, &a);
	assert_int_equal(a.status, 200);
	assert_non_null(strstr(a.head, "Content-Length: 1000\r\n"));
	free(a.body);
	client_send(&c, HEALTH);
	expect(&c, 200, NULL, "ok");
	client_close(&c);
}

/* An answer that is as long as it says is whole: one that fails is shorter, and the connection ends. */
static void test_get_that_fails(void **state)
{
	struct client c;
	struct answer a;

	(void)state;
	open_client(&c);
	client_send(&c, "GET " FILES("cut/1000000") "\r\n");
	client_answer(&c, true, &a);
	assert_int_equal(a.status, 0);
	assert_non_null(strstr(c.in, "Content-Length: 1000000"));
	assert_true(c.len > 100000 && c.len < 600000);
	client_close(&c);
	for (int i = 0; i < 3; i++) { /* clients that leave, some of which never read */
		assert_true(client_open(&c, server.port, 4096));
		client_send(&c, "GET " FILES("100000000") "\r\n");
		if (i)
			usleep(50 * 1000);
		client_close(&c);
	}
	once(HEALTH, 200, NULL, "ok");
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

/* Slow heads, slow bodies, silence: each ends in its time. */
static void test_timeouts(void **state)
{
	struct client c;
	struct answer a;
	char byte;
	int fd = client_tcp(server.port, 0);

	(void)state;
	assert_int_equal(read(fd, &byte, 1), 0); /* never said hello */
	close(fd);
	open_client(&c);
	for (int i = 0; i < 8 && client_send(&c, "E"); i++)
		usleep(300 * 1000);
	assert_true(client_ended(&c));
	client_close(&c);
	open_client(&c);
	client_send(&c, ROUNDS "Content-Length: 100\r\n\r\n{");
	expect(&c, 408, "Connection: close", "timeout");
	client_close(&c);
	open_client(&c);
	client_send(&c, HEALTH);
	expect(&c, 200, NULL, NULL);
	client_answer(&c, true, &a); /* idle */
	assert_int_equal(a.status, 0);
	client_close(&c);
}

static void test_limit_per_address(void **state)
{
	int fds[PER_ADDR + 5];
	int refused = 0;

	(void)state;
	usleep(300 * 1000);
	for (size_t i = 0; i < PER_ADDR + 5; i++)
		fds[i] = client_tcp(server.port, 0);
	usleep(300 * 1000);
	for (size_t i = 0; i < PER_ADDR + 5; i++) {
		char byte;

		refused += recv(fds[i], &byte, 1, MSG_DONTWAIT) == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
		errno = 0;
	}
	for (size_t i = 0; i < PER_ADDR + 5; i++)
		close(fds[i]);
	assert_int_equal(refused, 5);
	usleep(300 * 1000);
	once(HEALTH, 200, NULL, "ok");
}

static void test_hostile_churn(void **state)
{
	static const char request[] =
	    ROUNDS "Content-Length: 39\r\n\r\n{\"task_id\":\"t\",\"argv\":[\"echo\",\"hello\"]}";
	struct linger hard = {.l_onoff = 1};
	struct client c;

	(void)state;
	for (size_t i = 0; i < sizeof(request); i++) {
		open_client(&c);
		(void)client_write(&c, request, i + 1);
		if (i % 3 == 0)
			setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
		if (i % 5 == 0)
			SSL_shutdown(c.ssl);
		client_close(&c);
	}
	for (size_t i = 0; i < 60; i++) {
		uint8_t junk[60];
		int fd = client_tcp(server.port, 0);

		random_bytes(junk, sizeof(junk));
		(void)!write(fd, junk, i);
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
		close(fd);
	}
	usleep(500 * 1000); /* the burst was more than one address may have */
	once(HEALTH, 200, NULL, "ok");
}

/* The tenth and following refusals in a minute come late; right ones do not. */
static void test_wrong_tokens_get_slower(void **state)
{
	struct client c;
	uint64_t t0;

	(void)state;
	open_client(&c);
	for (int i = 0; i < 11; i++) {
		client_send(&c, "GET /v1/agents/demo HTTP/1.1\r\nAuthorization: Bearer bad\r\n\r\n");
		expect(&c, 401, NULL, NULL);
	}
	t0 = clock_boot_ns();
	client_send(&c, "GET /v1/agents/demo HTTP/1.1\r\nAuthorization: Bearer bad\r\n\r\n");
	expect(&c, 401, NULL, NULL);
	assert_true(clock_boot_ns() - t0 > 800 * NS_PER_MS);
	for (int i = 0; i < 5; i++) { /* one of them at once: a busy machine may hold up the others */
		t0 = clock_boot_ns();
		client_send(&c, "GET /v1/agents/demo HTTP/1.1\r\n" AUTH "\r\n");
		expect(&c, 200, NULL, NULL);
		if (clock_boot_ns() - t0 < 500 * NS_PER_MS)
			break;
		assert_int_not_equal(i, 4);
	}
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
	assert_int_equal(rest_door_open(h, listen_fd, cert, other_key, &door, &e), ERR_CONFIG);
	assert_non_null(strstr(e.message, "TLS"));
	assert_null(door);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	rest_door_close(NULL);
	rest_door_reload(NULL);
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
	    cmocka_unit_test(test_framing_refused),
	    cmocka_unit_test(test_too_large),
	    cmocka_unit_test(test_expect_continue),
	    cmocka_unit_test(test_refusals),
	    cmocka_unit_test(test_long_token),
	    cmocka_unit_test(test_grants_by_the_cluster),
	    cmocka_unit_test(test_plain_http),
	    cmocka_unit_test(test_slow_reader),
	    cmocka_unit_test(test_client_leaves),
	    cmocka_unit_test(test_wait_and_poll),
	    cmocka_unit_test(test_timeouts),
	    cmocka_unit_test(test_limit_per_address),
	    cmocka_unit_test(test_hostile_churn),
	    cmocka_unit_test(test_wrong_tokens_get_slower),
	    cmocka_unit_test(test_open_fails),
	    cmocka_unit_test(test_put),
	    cmocka_unit_test(test_put_that_fails),
	    cmocka_unit_test(test_get),
	    cmocka_unit_test(test_get_that_fails),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
