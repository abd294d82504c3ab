// tier: check
/*
 * Strangers, and holders of grants, hold so much of the door's memory and no more: bodies that nobody asked for are not
 * read, those of strangers are short and few, and who does not read the answers it has gets no more of them.
 */
#include "tests/lib/rest_server.h"

#include "muxd/doors/https/server.h"

#define HEADS  "POST /v1/witness/heads HTTP/1.1\r\nHost: x\r\n"
#define REVIEW "POST /k8s/admission HTTP/1.1\r\nHost: x\r\n"
#define GRANTS "POST /v1/grants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
#define BODY   "Content-Length: 60000\r\n\r\n"
#define READ   48000 /* of a body of 60000, which is held as 64 KiB */
#define HELD   4     /* bodies that have room */

static void prepare(struct hub *h, struct rest_door *d)
{
	d->hold = (struct hold_limits){
	    .bodies = HELD * 65536, .pages = 1 << 20, .share = 20 << 20, .answers = 1 << 30}; /* two answers of 8 MiB */
	free(h->conf->kubernetes_admission_user);
	h->conf->kubernetes_admission_user = strdup("muxd");
}

static void unwanted(const char *head, int status, const char *says)
{
	struct client c;
	struct answer a;

	open_client(&c);
	client_send(&c, head);
	client_answer(&c, true, &a); /* at once: not a byte of the body was sent */
	assert_int_equal(a.status, status);
	assert_non_null(strstr(a.body, says));
	free(a.body);
	client_close(&c);
}

static void what_is_not_configured_reads_no_body(void **state)
{
	(void)state;
	unwanted(HEADS BODY, 501, "witness.pushers");
	unwanted(HEADS "Transfer-Encoding: chunked\r\n\r\n", 501, "witness.pushers");
	unwanted("POST /v1/agents/demo/rounds HTTP/1.1\r\nHost: x\r\n" BODY, 401, "unauthenticated");
}

static void a_stranger_has_a_limit_of_its_own(void **state)
{
	struct client c;
	char *body = malloc(60001);

	(void)state;
	memset(body, ' ', 60000);
	body[60000] = '\0';
	unwanted(GRANTS "abc\r\n" BODY, 413, "without a grant");
	open_client(&c);
	client_send(&c, GRANTS "abc\r\nTransfer-Encoding: chunked\r\n\r\nea60\r\n");
	(void)client_write(&c, body, 60000);
	expect(&c, 413, "Connection: close", "too_large");
	client_close(&c);
	open_client(&c); /* a holder has api.max_body */
	client_send(&c, ROUNDS BODY);
	(void)client_write(&c, body, 60000);
	expect(&c, 400, NULL, "invalid_request");
	client_close(&c);
	free(body);
}

/* More bodies of strangers than there is room for: the oldest give way, and who comes last is served. */
static void bodies_of_strangers_have_one_room(void **state)
{
	struct client c[2 * HELD];
	char *body = malloc(60001);

	(void)state;
	memset(body, ' ', 60000);
	for (int i = 0; i < 2 * HELD; i++) {
		open_client(&c[i]);
		client_send(&c[i], REVIEW BODY);
		assert_true(client_write(&c[i], body, READ));
		if (i >= HELD)
			expect(&c[i - HELD], 429, "Retry-After: 5\r\n", "limit_reached");
	}
	for (int i = 2 * HELD - 1; i >= HELD; i--) {
		assert_true(client_write(&c[i], body, 60000 - READ));
		expect(&c[i], 400, NULL, "invalid_request"); /* it was read: blanks are no review */
	}
	for (int i = 0; i < 2 * HELD; i++)
		client_close(&c[i]);
	free(body);
	for (int i = 0; i < 3 * HELD; i++) /* what was held is free again */
		once(REVIEW "Content-Length: 2\r\n\r\n{}", 400, NULL, "apiVersion");
}

#define BIG "{\"task_id\":\"t\",\"argv\":[\"big\",\"3000000\"]}"

static void slow_reader(struct client *c)
{
	char byte;

	assert_true(client_open(c, server.port, 4096));
	post(c, BIG);
	assert_int_equal(SSL_peek(c->ssl, &byte, 1), 1); /* its answer is there */
}

/* Answers that their holder does not read: two have room, the third is refused, and once one was read the next has. */
static void answers_that_are_not_read_have_a_share(void **state)
{
	struct client slow[2], c;
	struct answer a;

	(void)state;
	slow_reader(&slow[0]);
	slow_reader(&slow[1]);
	open_client(&c);
	post(&c, BIG);
	expect(&c, 429, "Retry-After: 5\r\n", "wait to be read");
	client_send(&c, HEALTH);
	expect(&c, 200, NULL, "ok");
	post(&c, "{\"task_id\":\"t\",\"argv\":[\"echo\",\"hello\"]}"); /* a short one always has room */
	expect(&c, 200, NULL, "hello");
	client_answer(&slow[0], true, &a);
	assert_int_equal(a.status, 200);
	assert_true(a.len > 6000000);
	free(a.body);
	post(&c, BIG);
	client_answer(&c, true, &a);
	assert_int_equal(a.status, 200);
	free(a.body);
	client_close(&slow[0]);
	client_close(&slow[1]);
	client_close(&c);
}

static int start(void **state)
{
	server_prepare = prepare;
	return server_start(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_not_configured_reads_no_body),
	    cmocka_unit_test(a_stranger_has_a_limit_of_its_own),
	    cmocka_unit_test(bodies_of_strangers_have_one_room),
	    cmocka_unit_test(answers_that_are_not_read_have_a_share),
	};

	return cmocka_run_group_tests_name("rest_held", tests, start, server_stop);
}
