// tier: check
/* The HTTPS door against clients that are slow, hostile, too many, or speak no HTTP. */
#include "tests/lib/rest_server.h"

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

static void test_framing_refused(void **state)
{
	(void)state;
	once(ROUNDS "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc", 400, "close", "Content-Length");
	once(ROUNDS "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400, "close", "Content-Length");
	once(ROUNDS "Content-Length: -1\r\n\r\nabc", 400, "close", "Content-Length");
	once(ROUNDS "Content-Length: 3x\r\n\r\nabc", 400, "close", "Content-Length");
	once(ROUNDS "Content-Length: 99999999999999999999\r\n\r\n", 400, "close", "Content-Length");
	once("GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 400, "close", "no body");
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

#define AGENT "GET /v1/agents/demo HTTP/1.1\r\n" AUTH "\r\n"

/* An address that has its share is told so; who has a grant comes in as soon as there is room. */
static void test_limit_per_address(void **state)
{
	static struct client in[PER_ADDR];
	int fds[12], refused = 0;
	struct client c;

	(void)state;
	usleep(300 * 1000);
	for (size_t i = 0; i < PER_ADDR; i++) {
		open_client(&in[i]);
		client_send(&in[i], AGENT);
		expect(&in[i], 200, "Connection: keep-alive", NULL);
	}
	open_client(&c);
	client_send(&c, HEALTH);
	expect(&c, 429, "Retry-After: 1", "\"code\":\"limit_reached\"");
	assert_true(client_ended(&c));
	client_close(&c);
	open_client(&c);
	client_send(&c, AGENT);
	expect(&c, 429, "Connection: close", "api.max_per_address");
	client_close(&c);
	open_client(&c);
	client_send(&c, ROUNDS "Expect: 100-continue\r\nContent-Length: 9\r\n\r\n");
	expect(&c, 429, "Retry-After: 1", "limit_reached"); /* not 100 */
	client_close(&c);
	open_client(&c);
	client_send(&c, "GET /x HTTP/1.1\r\n" AUTH "X-Sandbox-ID: demo\r\nX-Sandbox-Port: 3000\r\n\r\n");
	expect(&c, 429, "Retry-After: 1", "limit_reached");
	client_close(&c);
	for (size_t i = 0; i < PER_ADDR; i++) { /* the ones who are in are none the worse for it */
		client_send(&in[i], AGENT);
		expect(&in[i], 200, "Connection: keep-alive", NULL);
	}
	for (size_t i = 0; i < 12; i++)
		fds[i] = client_tcp(server.port, 0);
	usleep(300 * 1000);
	for (size_t i = 0; i < 12; i++) {
		char byte;

		errno = 0;
		refused += recv(fds[i], &byte, 1, MSG_DONTWAIT) == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
		close(fds[i]);
	}
	assert_int_equal(refused, 4);
	usleep(300 * 1000);
	client_close(&in[0]);
	usleep(300 * 1000);
	open_client(&c);
	client_send(&c, AGENT);
	expect(&c, 200, "Connection: keep-alive", NULL);
	client_close(&c);
	for (size_t i = 1; i < PER_ADDR; i++)
		client_close(&in[i]);
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
		client_send(&c, "GET /v1/agents/demo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer bad\r\n\r\n");
		expect(&c, 401, NULL, NULL);
	}
	t0 = clock_boot_ns();
	client_send(&c, "GET /v1/agents/demo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer bad\r\n\r\n");
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_framing_refused),
	    cmocka_unit_test(test_too_large),
	    cmocka_unit_test(test_plain_http),
	    cmocka_unit_test(test_slow_reader),
	    cmocka_unit_test(test_timeouts),
	    cmocka_unit_test(test_hostile_churn),
	    cmocka_unit_test(test_wrong_tokens_get_slower),
	};
	/* Those who are in stay in, however long the others take to come. */
	const struct CMUnitTest patient[] = {cmocka_unit_test(test_limit_per_address)};
	int rc = cmocka_run_group_tests(tests, server_start, server_stop);

	server_idle_ns = 600 * NS_PER_SEC;
	return cmocka_run_group_tests(patient, server_start, server_stop) + rc;
}
