// tier: check
/* Files over the HTTPS door. */
#include "tests/lib/rest_server.h"

#define FILES(q) "/v1/agents/demo/files?path=" q " HTTP/1.1\r\n" AUTH

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
	/* one record with its head: the transfer is not open yet */
	once("PUT " FILES("a") "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400, "close", "malformed");
	once("PUT " FILES("a") "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nxyz\r\n", 400, "close", "malformed");
	once("PUT /v1/agents/demo/files HTTP/1.1\r\n" AUTH "Content-Length: 3\r\n\r\nabc", 400, "close",
	     "path is missing");
	once("PUT " FILES("a%0ab") "Content-Length: 3\r\n\r\nabc", 400, "close", "line end");
	once("PUT /v1/agents/demo/files?path=a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n", 401, NULL,
	     "unauthenticated");
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_put),
	    cmocka_unit_test(test_put_that_fails),
	    cmocka_unit_test(test_get),
	    cmocka_unit_test(test_get_that_fails),
	};

	return cmocka_run_group_tests(tests, server_start, server_stop);
}
