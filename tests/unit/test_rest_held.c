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
	/* of 8 MiB each: two of one grant, and four of all those of its principal */
	d->hold = (struct hold_limits){.bodies = HELD * 65536,
				       .pages = 1 << 20,
				       .begins = 10 << 20,
				       .own = 20 << 20,
				       .share = 36 << 20,
				       .answers = 1 << 30};
	h->conf->router_runtime = true;
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

#define BIG  "{\"task_id\":\"t\",\"argv\":[\"big\",\"3000000\"]}"
#define LATE "{\"task_id\":\"t\",\"exec_id\":\"l%u\",\"argv\":[\"late\",\"3000000\",\"3\"]}"

static void post_as(struct client *c, const char *token, const char *body)
{
	char head[256];

	snprintf(head, sizeof(head),
		 "POST /v1/agents/demo/rounds HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
		 "Content-Length: %zu\r\n\r\n",
		 token, strlen(body));
	assert_true(client_send(c, head));
	assert_true(client_send(c, body));
}

/* Its answer is there, and stays. */
static void reads_nothing(struct client *c, const char *token)
{
	char byte;

	assert_true(client_open(c, server.port, 4096));
	post_as(c, token, BIG);
	assert_int_equal(SSL_peek(c->ssl, &byte, 1), 1);
}

static void has_all_of_it(struct client *c)
{
	struct answer a;

	client_answer(c, true, &a);
	assert_int_equal(a.status, 200);
	assert_true(a.len > 6000000);
	free(a.body);
}

/* Two answers that are not read: the next call is not begun, and is once one of them was read. */
static void who_does_not_read_begins_nothing(void **state)
{
	struct client slow[2], c;

	(void)state;
	reads_nothing(&slow[0], "good");
	reads_nothing(&slow[1], "good");
	open_client(&c);
	post(&c, "{\"task_id\":\"t\",\"exec_id\":\"e1\",\"argv\":[\"echo\",\"hello\"]}");
	expect(&c, 429, "Retry-After: 5\r\n", "(nothing was done)");
	client_send(&c, HEALTH);
	expect(&c, 200, NULL, "ok");
	once("DELETE /v1/grants/0 HTTP/1.1\r\n" AUTH "\r\n", 400, NULL, "not a UUID"); /* to end something is begun */
	has_all_of_it(&slow[0]);
	post(&c, "{\"task_id\":\"t\",\"exec_id\":\"e1\",\"argv\":[\"echo\",\"other\"]}");
	expect(&c, 200, NULL, "other"); /* e1 was free still */
	client_close(&slow[0]);
	client_close(&slow[1]);
	client_close(&c);
}

/* Three calls are begun together: what has no room is lost by name, which is no 429, and its round has its answer. */
static void an_answer_that_has_no_room_is_lost_by_name(void **state)
{
	struct client c[3];
	struct answer a;
	char body[3][256];
	unsigned lost = 3;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		assert_true(client_open(&c[i], server.port, 4096));
		snprintf(body[i], sizeof(body[i]), LATE, i);
		post(&c[i], body[i]);
	}
	for (unsigned i = 0; i < 3; i++)
		(void)SSL_peek(c[i].ssl, &(char){0}, 1); /* all of the answers are there before one is read */
	for (unsigned i = 0; i < 3; i++) {
		client_answer(&c[i], true, &a);
		if (a.status == 500) {
			assert_int_equal(lost, 3);
			lost = i;
			assert_null(strstr(a.head, "Retry-After"));
			assert_non_null(strstr(a.body, "\"answer_lost\""));
			assert_non_null(strstr(a.body, "what was asked for is done"));
		} else {
			assert_int_equal(a.status, 200);
		}
		free(a.body);
	}
	assert_int_not_equal(lost, 3);
	post(&c[lost], body[lost]);
	has_all_of_it(&c[lost]);
	for (unsigned i = 0; i < 3; i++)
		client_close(&c[i]);
}

/* The same through the API of a sandbox's runtime: what has ended keeps its exit code, and lacks its output. */
static void a_command_keeps_its_exit_code(void **state)
{
	static const char execute[] = "POST /execute HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer child\r\n"
				      "X-Sandbox-ID: demo\r\nX-Sandbox-Port: 8888\r\n"
				      "Content-Type: application/json\r\nContent-Length: 18\r\n\r\n"
				      "{\"command\":\"late\"}";
	struct client c[3];
	struct answer a;
	unsigned lost = 0;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		assert_true(client_open(&c[i], server.port, 4096));
		client_send(&c[i], execute);
	}
	for (unsigned i = 0; i < 3; i++)
		(void)SSL_peek(c[i].ssl, &(char){0}, 1);
	for (unsigned i = 0; i < 3; i++) {
		client_answer(&c[i], true, &a);
		if (a.status != 200)
			fail_msg("%d: %s", a.status, a.body);
		assert_non_null(strstr(a.body, "\"exit_code\":0"));
		lost += strstr(a.body, "the output is left out; GET /v1/rounds/") != NULL;
		free(a.body);
		client_close(&c[i]);
	}
	assert_int_equal(lost, 1);
}

/* Grants made from another one fill what is its principal's: they give way to it, and not it to them. */
static void a_child_uses_up_nothing_of_its_parent(void **state)
{
	struct client child[2], other[2], mine[2];
	struct answer a;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		reads_nothing(&child[i], "child");
		reads_nothing(&other[i], "other");
	}
	for (unsigned i = 0; i < 2; i++)
		reads_nothing(&mine[i], "good");
	for (unsigned i = 0; i < 2; i++)
		has_all_of_it(&mine[i]);
	for (unsigned i = 0; i < 2; i++) { /* the oldest: one of each */
		client_answer(&(i ? other : child)[0], true, &a);
		assert_int_equal(a.status, 0); /* it ended */
		has_all_of_it(&(i ? other : child)[1]);
	}
	for (unsigned i = 0; i < 2; i++) {
		client_close(&child[i]);
		client_close(&other[i]);
		client_close(&mine[i]);
	}
}

static int start(void **state)
{
	server_prepare = prepare;
	server_idle_ns = 60 * NS_PER_SEC; /* who reads nothing here reads later */
	return server_start(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_not_configured_reads_no_body),
	    cmocka_unit_test(a_stranger_has_a_limit_of_its_own),
	    cmocka_unit_test(bodies_of_strangers_have_one_room),
	    cmocka_unit_test(who_does_not_read_begins_nothing),
	    cmocka_unit_test(an_answer_that_has_no_room_is_lost_by_name),
	    cmocka_unit_test(a_command_keeps_its_exit_code),
	    cmocka_unit_test(a_child_uses_up_nothing_of_its_parent),
	};

	return cmocka_run_group_tests_name("rest_held", tests, start, server_stop);
}
