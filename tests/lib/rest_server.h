/*
 * rest_server.h - the HTTPS door on real sockets, with a fake hub in a process of its own, for tests of what clients
 * get.
 *
 * At the end the door closes with clients attached, and its process must end cleanly (the sanitizers look there).
 * Static functions, for inclusion by one test, whose group is set up by server_start() and torn down by server_stop().
 */
#ifndef TESTS_LIB_REST_SERVER_H
#define TESTS_LIB_REST_SERVER_H

#include "tests/lib/fake_broker.c"
#include "tests/lib/https_client.h"

#include "base/log.h"
#include "base/sock.h"
#include "muxd/doors/door.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/wait.h>

#include <cmocka.h>

#define AUTH     "Host: localhost\r\nAuthorization: Bearer good\r\n"
#define ROUNDS   "POST /v1/agents/demo/rounds HTTP/1.1\r\n" AUTH
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

static inline void on_term(uv_signal_t *s, int signum)
{
	struct serving *v = s->data;

	(void)signum;
	rest_door_close(v->door);
	rest_door_close(v->door); /* harmless */
	uv_close((uv_handle_t *)s, NULL);
}

/* Sets more before the door serves; before server_start(). */
static void (*server_prepare)(struct hub *h, struct rest_door *d);

/* How long a connection may be idle; before server_start(). */
static uint64_t server_idle_ns = 2 * NS_PER_SEC;

static inline int serve(int listen_fd)
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
	h->conf->api_connect_rate = 1000;
	h->conf->metrics_open_on_loopback = true;
	h->conf->kubernetes_staff = true;
	h->conf->api_header_timeout_ns = 1500 * NS_PER_MS;
	h->conf->api_idle_timeout_ns = server_idle_ns;
	make_certificate(&cert, &key);
	if (rest_door_open(h, listen_fd, -1, cert, key, &v.door, &e)) {
		fprintf(stderr, "%s\n", e.message);
		return 3;
	}
	if (server_prepare)
		server_prepare(h, v.door);
	uv_signal_init(&v.loop, &v.term);
	v.term.data = &v;
	uv_signal_start(&v.term, on_term, SIGTERM);
	uv_run(&v.loop, UV_RUN_DEFAULT);
	rc = uv_loop_close(&v.loop) ? 4 : 0;
	fake_hub_destroy(h);
	return rc;
}

static inline int server_start(void **state)
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

static inline int server_stop(void **state)
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

static inline void open_client(struct client *c)
{
	if (!client_open(c, server.port, 0))
		fail_msg("cannot connect");
}

static inline void post(struct client *c, const char *body)
{
	char head[256];

	snprintf(head, sizeof(head), ROUNDS "Content-Length: %zu\r\n\r\n", strlen(body));
	assert_true(client_send(c, head));
	assert_true(client_send(c, body));
}

static inline void expect(struct client *c, int status, const char *in_head, const char *in_body)
{
	struct answer a;

	client_answer(c, status != 100, &a);
	if (a.status != status || (in_head && !strstr(a.head, in_head)) || (in_body && !strstr(a.body, in_body)))
		fail_msg("got %d, not %d: %s%s", a.status, status, a.head, a.body ? a.body : "");
	free(a.body);
}

/* One request on a connection of its own; the connection ends with the answer. */
static inline void once(const char *request, int status, const char *in_head, const char *in_body)
{
	struct client c;

	open_client(&c);
	(void)client_send(&c, request);
	expect(&c, status, in_head, in_body);
	client_close(&c);
}

#endif
