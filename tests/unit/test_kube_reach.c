// tier: check
/*
 * The way into a container, step by step, against execs that answer as they are told.
 *
 * The exec streams and the credentials are fake, defined here instead of in the library: a container without a
 * shell, of another machine, with an old muxlet, with a full disk. Real ones are in tests/e2e/k8s.
 *
 * A little over the length of a file: one set of fakes, and what is told of them.
 */
#include "control/kube/pods/reach.h"

#include "base/clock.h"
#include "base/log.h"
#include "control/kube/client/endpoint.h"
#include "control/kube/exec/remotecommand.h"
#include "control/kube/pods/program.h"
#include "muxd/muxlet/join.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

struct rc_stream {
	const struct rc_ops *ops;
	void *arg;
	char argv[1000]; /* joined by '|' */
	uint8_t *in;
	size_t in_len, in_room;
	uint64_t window;
	bool has_in;
};

static struct {
	uv_loop_t loop;
	struct rc_stream *x; /* the exec that runs */
	int opened, alive, asked;
	uint64_t rejected;
	struct kube_ask *ask;
	int ask_rc;
	size_t in_room; /* of the next exec */
	struct kube_endpoint ep;
	struct program program;
	uint8_t bytes[200000];
	struct reach *r;
	int done, ended, rc, fd;
	struct reach_result result;
	char message[ERR_MESSAGE_MAX], why[200];
	bool destroy_in_done, destroy_in_ended;
} t;

/* ---- fakes */

int rc_open(struct rc_client *c, const struct kube_endpoint *ep, const struct rc_params *p, const struct rc_ops *ops,
	    void *arg, struct rc_stream **out, struct err *e)
{
	struct rc_stream *x = calloc(1, sizeof(*x));

	(void)c, (void)e;
	assert_ptr_equal(ep, &t.ep);
	assert_string_equal(p->ns, "ns");
	assert_string_equal(p->pod, "pod");
	assert_string_equal(p->container, "main");
	assert_false(p->tty);
	assert_null(t.x); /* one at a time */
	for (const char *const *a = p->argv; *a; a++) {
		size_t n = strlen(x->argv);

		snprintf(x->argv + n, sizeof(x->argv) - n, "%s|", strchr(*a, '\n') ? "SCRIPT" : *a);
	}
	x->ops = ops;
	x->arg = arg;
	x->window = p->window;
	x->has_in = p->in;
	x->in_room = t.in_room;
	t.opened++;
	t.alive++;
	t.x = *out = x;
	return 0;
}

void rc_close(struct rc_stream *x)
{
	if (!x)
		return;
	if (t.x == x)
		t.x = NULL;
	t.alive--;
	free(x->in);
	free(x);
}

void rc_window(struct rc_stream *x, uint64_t until)
{
	assert_true(until >= x->window);
	x->window = until;
}

ssize_t rc_input(struct rc_stream *x, const void *p, size_t n)
{
	size_t take = n < x->in_room ? n : x->in_room;

	assert_true(x->has_in);
	x->in = realloc(x->in, x->in_len + take + 1);
	memcpy(x->in + x->in_len, p, take);
	x->in_len += take;
	x->in_room -= take;
	return (ssize_t)take;
}

void kube_creds_ask(struct kube_creds *c, struct kube_ask *a, uint64_t rejected, kube_creds_done *done, void *arg)
{
	(void)c;
	assert_null(t.ask);
	t.asked++;
	t.rejected = rejected;
	t.ask = a;
	a->done = done;
	a->arg = arg;
}

void kube_ask_cancel(struct kube_ask *a)
{
	if (t.ask == a)
		t.ask = NULL;
}

const struct kube_endpoint *kube_creds_endpoint(const struct kube_creds *c)
{
	(void)c;
	return &t.ep;
}

/* ---- what the container does */

static void turn(void)
{
	while (t.ask) {
		struct kube_ask *a = t.ask;
		struct err e = {0};

		t.ask = NULL;
		if (t.ask_rc)
			err_set(&e, t.ask_rc, "the plug-in failed");
		a->done(a->arg, t.ask_rc, &e);
	}
	for (int i = 0; i < 5; i++)
		uv_run(&t.loop, UV_RUN_NOWAIT);
}

static void says(int stream, const char *text)
{
	struct rc_stream *x = t.x;

	x->ops->data(x->arg, stream, (const uint8_t *)text, strlen(text));
}

static void exits(enum rc_cause cause, int code, int error, int http, const char *message)
{
	struct rc_exit x = {.cause = cause, .code = code, .http_status = http, .err = {.code = error}};
	struct rc_stream *s = t.x;

	snprintf(x.err.message, sizeof(x.err.message), "%s", message);
	assert_non_null(s);
	s->ops->exited(s->arg, &x);
	turn();
}

static void is_not_there(void)
{
	exits(RC_NOT_STARTED, -1, ERR_NO_PROGRAM, 0, "no such file or directory");
}

#define LINE "muxlet join=1 version=0.1.0 daemon=started uid=1000 machine=x86_64 workspace_size=1073741824\n"

/* ---- the test's side */

static void on_done(void *arg, int rc, const struct err *e, const struct reach_result *r, int fd)
{
	assert_ptr_equal(arg, &t);
	t.done++;
	t.rc = rc;
	t.fd = fd;
	if (r)
		t.result = *r;
	snprintf(t.message, sizeof(t.message), "%s", e ? e->message : "");
	if (t.destroy_in_done) {
		reach_destroy(t.r);
		t.r = NULL;
	}
}

static void on_ended(void *arg, const char *why)
{
	assert_ptr_equal(arg, &t);
	t.ended++;
	snprintf(t.why, sizeof(t.why), "%s", why);
	if (t.destroy_in_ended) {
		reach_destroy(t.r);
		t.r = NULL;
	}
}

static const struct reach_ops ops = {on_done, on_ended};
static const uint8_t secret[SANDBOX_SECRET_LEN] = "0123456789abcdef0123456789abcde";

static void begin(struct reach_params p)
{
	memset(&t, 0, sizeof(t));
	assert_int_equal(uv_loop_init(&t.loop), 0);
	for (size_t i = 0; i < sizeof(t.bytes); i++)
		t.bytes[i] = (uint8_t)(i * 31 + i / 257);
	t.program = (struct program){.bytes = t.bytes, .len = sizeof(t.bytes), .machine = "x86_64"};
	memset(t.program.sha256, 'd', 64);
	t.ep.generation = 5;
	t.in_room = 1 << 20;
	t.fd = -1;
	p.loop = &t.loop;
	p.program = &t.program;
	p.ns = "ns", p.pod = "pod", p.container = "main", p.name = "muxd-1", p.secret = secret;
	p.deadline_ms = p.deadline_ms ? p.deadline_ms : 60000;
	assert_int_equal(reach_create(&p, &ops, &t, &t.r), 0);
	turn();
}

static void end(void)
{
	reach_destroy(t.r);
	assert_int_equal(t.alive, 0);
	assert_null(t.ask);
	if (t.fd >= 0)
		close(t.fd);
	uv_run(&t.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&t.loop), 0);
}

static void came_up(const char *path, const char *delivery)
{
	says(1, LINE);
	assert_int_equal(t.done, 1);
	assert_int_equal(t.rc, 0);
	assert_string_equal(t.result.path, path);
	assert_string_equal(t.result.delivery, delivery);
	assert_string_equal(t.result.joined.version, "0.1.0");
	assert_true(t.result.joined.started);
	assert_int_equal(t.result.joined.workspace_size, 1 << 30);
}

static void failed(int rc, const char *words)
{
	assert_int_equal(t.done, 1);
	if (t.rc != rc || !strstr(t.message, words))
		fail_msg("%s: %s", err_name(t.rc), t.message);
	assert_int_equal(t.fd, -1);
}

#define DIGEST "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
#define LOOK   "/bin/sh|-c|SCRIPT|muxd||dddddddddddddddd|" DIGEST "|"

/* LOOK's answer, or SEND's. */
static void answers(const char *text)
{
	says(1, text);
	exits(RC_EXITED, 0, 0, 0, "");
}

/* ---- places in turn */

static void where_it_was_before(void **state)
{
	(void)state;
	begin((struct reach_params){
	    .known = "/tmp/x/muxlet", .known_delivery = "stream", .workdir = "/workspace", .leave_s = 9});
	assert_string_equal(t.x->argv, "/tmp/x/muxlet|--join|muxd-1|--workdir|/workspace|--leave|9|");
	assert_int_equal(t.x->in_len, JOIN_MAGIC_LEN + SANDBOX_SECRET_LEN);
	assert_memory_equal(t.x->in, JOIN_MAGIC, JOIN_MAGIC_LEN); /* the very bytes that muxlet wants */
	assert_memory_equal(t.x->in + JOIN_MAGIC_LEN, secret, SANDBOX_SECRET_LEN);
	came_up("/tmp/x/muxlet", "stream");
	end();
}

static void by_the_init_container(void **state)
{
	(void)state;
	begin((struct reach_params){.known = "/tmp/x/muxlet", .known_delivery = "stream", .muxlet_dir = true});
	is_not_there();
	assert_string_equal(t.x->argv, "/muxd/muxlet|--join|muxd-1|");
	came_up("/muxd/muxlet", "init");
	assert_int_equal(t.opened, 2);
	end();
}

static void in_the_image(void **state)
{
	(void)state;
	begin((struct reach_params){.image_path = "/usr/local/bin/muxlet", .muxlet_dir = true});
	exits(RC_EXITED, 126, 0, 0, ""); /* some runtimes say it so */
	assert_string_equal(t.x->argv, "/bin/sh|-c|SCRIPT|muxd|/usr/local/bin/muxlet|dddddddddddddddd|" DIGEST
				       "|/muxd|/dev/shm|/tmp|/var/tmp|/run|.|");
	assert_false(t.x->has_in);
	says(1, "machine x86_64\nimage /usr/local/bin/muxlet\n");
	exits(RC_EXITED, 0, 0, 0, "");
	assert_string_equal(t.x->argv, "/usr/local/bin/muxlet|--join|muxd-1|");
	came_up("/usr/local/bin/muxlet", "image");
	end();
}

static void an_old_one_in_the_image_is_passed_over(void **state)
{
	(void)state;
	begin((struct reach_params){.image_path = "/usr/local/bin/muxlet"});
	says(1, "machine x86_64\nimage /usr/local/bin/muxlet\n");
	exits(RC_EXITED, 0, 0, 0, "");
	says(2, "usage: muxlet --listen-fd N\n");
	exits(RC_EXITED, 64, 0, 0, "");
	assert_string_equal(t.x->argv, LOOK "/muxd|/dev/shm|/tmp|/var/tmp|/run|.|");
	says(1, "machine x86_64\nplace 2\nstream /tmp/.muxd-d/muxlet\n");
	exits(RC_EXITED, 0, 0, 0, "");
	came_up("/tmp/.muxd-d/muxlet", "stream");
	end();
}

static void streamed_in(void **state)
{
	(void)state;
	begin((struct reach_params){.image_path = "/usr/local/bin/muxlet"});
	says(1, "machine x86_64\ndir /tmp/.muxd-d\n");
	t.in_room = 70000; /* the queue is short: the rest follows when there is room */
	exits(RC_EXITED, 0, 0, 0, "");
	assert_string_equal(t.x->argv, "/bin/sh|-c|SCRIPT|muxd|/tmp/.muxd-d|200000|"
				       "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd|");
	assert_int_equal(t.x->in_len, 70000);
	while (t.x->in_len < sizeof(t.bytes)) {
		t.x->in_room = 50000;
		t.x->ops->writable(t.x->arg, 50000);
	}
	assert_memory_equal(t.x->in, t.bytes, sizeof(t.bytes));
	t.in_room = 1 << 20;
	says(1, "done\n");
	exits(RC_EXITED, 0, 0, 0, "");
	assert_string_equal(t.x->argv, "/tmp/.muxd-d/muxlet|--join|muxd-1|");
	came_up("/tmp/.muxd-d/muxlet", "stream");
	end();
}

static void without_a_shell_the_image_is_tried(void **state)
{
	(void)state;
	begin((struct reach_params){.image_path = "/usr/local/bin/muxlet"});
	is_not_there();
	assert_string_equal(t.x->argv, "/usr/local/bin/muxlet|--join|muxd-1|");
	came_up("/usr/local/bin/muxlet", "image");
	end();
}

/*
 * A directory that takes a script and kills a program (gVisor's /dev/shm), one that is full, one whose muxlet of before
 * runs no more, and one where muxlet is fine until it joins: each is told, left out, and the next one tried.
 */
static void the_next_directory_when_it_does_not_run(void **state)
{
	(void)state;
	begin((struct reach_params){.image_path = ""});
	assert_string_equal(t.x->argv, LOOK "/muxd|/dev/shm|/tmp|/var/tmp|/run|.|");
	answers("machine x86_64\nplace 1\ndir /dev/shm/.muxd-d\n");
	exits(RC_EXITED, 139, 0, 0, "");
	assert_string_equal(t.x->argv, LOOK "/muxd||/tmp|/var/tmp|/run|.|");
	answers("machine x86_64\nplace 2\ndir /tmp/.muxd-d\n");
	says(2, "head: write error: No space left on device\n");
	exits(RC_EXITED, 1, 0, 0, "");
	assert_string_equal(t.x->argv, LOOK "/muxd|||/var/tmp|/run|.|");
	answers("machine x86_64\nplace 3\nstream /var/tmp/.muxd-d/muxlet\n");
	exits(RC_EXITED, 126, 0, 0, "");
	assert_string_equal(t.x->argv, LOOK "/muxd||||/run|.|");
	answers("machine x86_64\nplace 4\ndir /run/.muxd-d\n");
	answers("done\n");
	assert_string_equal(t.x->argv, "/run/.muxd-d/muxlet|--join|muxd-1|");
	exits(RC_EXITED, 159, 0, 0, "");
	assert_string_equal(t.x->argv, LOOK "/muxd|||||.|");
	answers("machine x86_64\nplace 5\ndir /home/.muxd-d\n");
	answers("done\n");
	came_up("/home/.muxd-d/muxlet", "stream");
	assert_int_equal(t.opened, 12);
	end();
}

static void no_directory_runs_it(void **state)
{
	(void)state;
	begin((struct reach_params){.image_path = ""});
	answers("machine x86_64\nplace 1\ndir /dev/shm/.muxd-d\n");
	says(2, "Segmentation fault\n");
	exits(RC_EXITED, 139, 0, 0, "");
	answers("machine x86_64\nplace 2\ndir /tmp/.muxd-d\n");
	exits(RC_EXITED, 1, 0, 0, "");
	answers("machine x86_64\nnone\n");
	failed(ERR_UNSUPPORTED, "no directory there holds and runs it: /dev/shm/.muxd-d: Segmentation fault; "
				"/tmp/.muxd-d: exit code 1");
	end();

	/* A shell that names the same place for ever, or none, is not followed. */
	begin((struct reach_params){.image_path = ""});
	for (int i = 0; i < 2; i++) {
		answers("machine x86_64\nplace 1\ndir /dev/shm/.muxd-d\n");
		exits(RC_EXITED, 139, 0, 0, "");
	}
	failed(ERR_UNSUPPORTED, "it could not be delivered: exit code 139");
	end();
	begin((struct reach_params){.image_path = ""});
	answers("machine x86_64\nstream /tmp/.muxd-d/muxlet\n");
	is_not_there();
	failed(ERR_UNSUPPORTED, "");
	end();
}

/* ---- where it cannot run: each reason in words */

/* Plain is what comes next, and tells of every way that was left. */
static void each_way_has_its_reason(void **state)
{
	(void)state;
	begin((struct reach_params){.image_path = "/usr/local/bin/muxlet"});
	answers("machine x86_64\nplace 1\ndir /dev/shm/.muxd-d\n");
	says(2, "Segmentation fault\n");
	exits(RC_EXITED, 139, 0, 0, "");
	answers("machine x86_64\nnone\n");
	failed(ERR_UNSUPPORTED, "no directory there holds and runs it: /dev/shm/.muxd-d: Segmentation fault (init: "
				"nothing is mounted at /muxd; image: there is no /usr/local/bin/muxlet)");
	end();

	begin((struct reach_params){.image_path = "/usr/local/bin/muxlet", .muxlet_dir = true});
	exits(RC_EXITED, 126, 0, 0, "");
	answers("machine x86_64\nimage /usr/local/bin/muxlet\n");
	says(2, "usage: muxlet --listen-fd N\n");
	exits(RC_EXITED, 64, 0, 0, "");
	answers("machine x86_64\nnone\n");
	failed(ERR_UNSUPPORTED, "no directory there is writable and not mounted noexec (init: exit code 126; image: "
				"usage: muxlet --listen-fd N)");
	end();
}

static void reasons(void **state)
{
	(void)state;
	begin((struct reach_params){.image_path = "/usr/local/bin/muxlet"});
	is_not_there();
	is_not_there();
	failed(ERR_UNSUPPORTED, "there is no shell, and no muxlet in the image");
	end();

	begin((struct reach_params){.image_path = ""});
	is_not_there();
	failed(ERR_UNSUPPORTED, "there is no shell");
	end();

	begin((struct reach_params){.image_path = ""});
	says(1, "machine aarch64\ndir /tmp/.muxd-d\n");
	exits(RC_EXITED, 0, 0, 0, "");
	failed(ERR_UNSUPPORTED, "the node is aarch64, and this muxlet is for x86_64");
	end();

	begin((struct reach_params){.image_path = ""});
	says(1, "machine x86_64\nnone\n");
	exits(RC_EXITED, 0, 0, 0, "");
	failed(ERR_UNSUPPORTED, "no directory there is writable and not mounted noexec");
	end();

	begin((struct reach_params){.image_path = ""});
	says(1, "machine x86_64\ndir /tmp/.muxd-d\n");
	exits(RC_EXITED, 0, 0, 0, "");
	says(2, "head: write error:\n No space left on device\n");
	exits(RC_EXITED, 1, 0, 0, "");
	failed(ERR_UNSUPPORTED, "it could not be delivered: head: write error:  No space left on device");
	end();

	begin((struct reach_params){.image_path = ""});
	says(1, "I am no shell at all\n");
	exits(RC_EXITED, 0, 0, 0, "");
	failed(ERR_UNSUPPORTED, "its shell does not answer");
	end();
}

static void what_may_pass_is_no_verdict(void **state)
{
	(void)state;
	begin((struct reach_params){.image_path = ""});
	exits(RC_LOST, -1, ERR_K8S_UNREACHABLE, 0, "connection reset");
	failed(ERR_K8S_UNREACHABLE, "ns/pod/main: connection reset");
	end();

	begin((struct reach_params){.muxlet_dir = true});
	exits(RC_NOT_STARTED, -1, ERR_NOT_FOUND, 404, "pods \"pod\" not found");
	failed(ERR_NOT_FOUND, "not found");
	end();

	begin((struct reach_params){.muxlet_dir = true});
	exits(RC_NOT_STARTED, -1, ERR_BAD_STATE, 0, "container is in CONTAINER_EXITED state");
	failed(ERR_BAD_STATE, "CONTAINER_EXITED");
	end();

	begin((struct reach_params){.muxlet_dir = true});
	exits(RC_UNKNOWN, -1, ERR_K8S, 0, "no status came");
	failed(ERR_K8S, "no status came");
	end();

	begin((struct reach_params){.muxlet_dir = true});
	says(2, "muxlet: the socket's name is held by a process of another user\n");
	exits(RC_EXITED, 77, 0, 0, "");
	failed(ERR_CONFLICT, "held by a process of another user");
	end();

	begin((struct reach_params){.muxlet_dir = true}); /* what there is then decides, not this */
	exits(RC_EXITED, 137, 0, 0, "");
	failed(ERR_BAD_STATE, "killed before it answered");
	end();

	begin((struct reach_params){.muxlet_dir = true});
	says(2, "muxlet: no muxlet could be begun: Resource temporarily unavailable\n");
	exits(RC_EXITED, 71, 0, 0, "");
	failed(ERR_SANDBOX_CREATE, "Resource temporarily unavailable");
	end();
}

/* Nothing was begun: the exec is asked for again, until the deadline; then the last refusal is told. */
static void a_refusal_that_may_pass(void **state)
{
	static const char webhook[] = "InternalError: Internal error occurred: failed calling webhook \"x\": timeout";
	uint64_t end_ns = clock_boot_ns() + 30 * NS_PER_SEC;

	(void)state;
	begin((struct reach_params){.muxlet_dir = true});
	exits(RC_NOT_STARTED, -1, ERR_K8S, 500, webhook);
	assert_int_equal(t.done, 0);
	for (int i = 2; i < 4; i++) {
		while (t.opened < i && clock_boot_ns() < end_ns) {
			uv_run(&t.loop, UV_RUN_ONCE);
			turn();
		}
		assert_int_equal(t.opened, i);
		if (i == 2)
			exits(RC_NOT_STARTED, -1, ERR_K8S_BUSY, 429, "too many requests");
	}
	says(1, LINE);
	assert_int_equal(t.done, 1);
	end();

	begin((struct reach_params){.muxlet_dir = true}); /* a container that ends: the next try hears of it */
	exits(RC_NOT_STARTED, -1, ERR_K8S, 0, "failed to start exec: read init-p: connection reset by peer");
	assert_int_equal(t.done, 0);
	while (t.opened < 2 && clock_boot_ns() < end_ns) {
		uv_run(&t.loop, UV_RUN_ONCE);
		turn();
	}
	exits(RC_NOT_STARTED, -1, ERR_BAD_STATE, 0, "container not running");
	failed(ERR_BAD_STATE, "container not running");
	end();

	begin((struct reach_params){.muxlet_dir = true}); /* one that never begins anything is told */
	for (int i = 1; i <= 4; i++) {
		while (t.opened < i && clock_boot_ns() < end_ns) {
			uv_run(&t.loop, UV_RUN_ONCE);
			turn();
		}
		exits(RC_NOT_STARTED, -1, ERR_K8S, 0, "failed to create exec: no space");
	}
	failed(ERR_K8S, "no space");
	end();

	begin((struct reach_params){.muxlet_dir = true, .deadline_ms = 50});
	exits(RC_NOT_STARTED, -1, ERR_K8S, 500, webhook);
	while (!t.done && clock_boot_ns() < end_ns)
		uv_run(&t.loop, UV_RUN_ONCE);
	failed(ERR_TIMEOUT, "failed calling webhook");
	end();

	begin((struct reach_params){.muxlet_dir = true});
	exits(RC_NOT_STARTED, -1, ERR_K8S, 500, "InternalError: something else");
	failed(ERR_K8S, "something else");
	end();
}

static void fresh_credentials_once(void **state)
{
	(void)state;
	begin((struct reach_params){.muxlet_dir = true});
	assert_int_equal(t.rejected, 0);
	exits(RC_NOT_STARTED, -1, ERR_K8S_UNAUTHENTICATED, 401, "Unauthorized");
	assert_int_equal(t.done, 0);
	assert_int_equal(t.rejected, 5);
	assert_int_equal(t.opened, 2);
	exits(RC_NOT_STARTED, -1, ERR_K8S_UNAUTHENTICATED, 401, "Unauthorized");
	failed(ERR_K8S_UNAUTHENTICATED, "Unauthorized");
	end();
	memset(&t, 0, sizeof(t));
}

static void a_deadline(void **state)
{
	uint64_t end_ns = clock_boot_ns() + 30 * NS_PER_SEC;

	(void)state;
	begin((struct reach_params){.muxlet_dir = true, .deadline_ms = 50});
	while (!t.done && clock_boot_ns() < end_ns)
		uv_run(&t.loop, UV_RUN_ONCE);
	failed(ERR_TIMEOUT, "no stream to muxlet within");
	end();
}

/* ---- the stream */

static size_t hub_reads(uint8_t *p, size_t size)
{
	ssize_t n = recv(t.fd, p, size, MSG_DONTWAIT);

	return n > 0 ? (size_t)n : 0;
}

static void every_cut_of_the_first_line(void **state)
{
	static const char whole[] = LINE "\x10\0\0\0link";

	(void)state;
	for (size_t cut = 0; cut < sizeof(whole) - 1; cut++) {
		uint8_t got[100];

		begin((struct reach_params){.muxlet_dir = true});
		if (cut)
			t.x->ops->data(t.x->arg, 1, (const uint8_t *)whole, cut);
		t.x->ops->data(t.x->arg, 1, (const uint8_t *)whole + cut, sizeof(whole) - 1 - cut);
		assert_int_equal(t.done, 1);
		assert_int_equal(hub_reads(got, sizeof(got)), 8);
		assert_memory_equal(got, "\x10\0\0\0link", 8);
		end();
	}
}

/* More than is kept of a first line comes with it in one piece: not a byte is lost. */
static void a_long_piece_behind_the_first_line(void **state)
{
	static uint8_t piece[32769], got[40000];
	size_t head = strlen(LINE);

	(void)state;
	memcpy(piece, LINE, head);
	for (size_t i = head; i < sizeof(piece); i++)
		piece[i] = (uint8_t)(i * 7);
	begin((struct reach_params){.muxlet_dir = true});
	t.x->ops->data(t.x->arg, 1, piece, sizeof(piece));
	assert_int_equal(t.done, 1);
	assert_int_equal(hub_reads(got, sizeof(got)), sizeof(piece) - head);
	assert_memory_equal(got, piece + head, sizeof(piece) - head);
	end();
}

static void what_is_no_muxlet_is_not_believed(void **state)
{
	static char noise[5000];

	(void)state;
	memset(noise, 'x', sizeof(noise) - 1);
	begin((struct reach_params){.muxlet_dir = true});
	says(1, noise);
	failed(ERR_PROTOCOL, "does not speak as one");
	end();
	begin((struct reach_params){.muxlet_dir = true});
	says(1, "muxlet join=2 something\n");
	assert_int_equal(t.done, 0);
	exits(RC_EXITED, 0, 0, 0, "");
	failed(ERR_SANDBOX_CREATE, "exit code 0");
	end();
}

static void bytes_and_windows(void **state)
{
	uint64_t before;
	uint8_t got[100];

	(void)state;
	begin((struct reach_params){.muxlet_dir = true});
	says(2, "a warning\n");
	says(1, LINE);
	t.x->in_len = 0;
	assert_int_equal(send(t.fd, "to muxlet", 9, 0), 9);
	turn();
	assert_int_equal(t.x->in_len, 9);
	assert_memory_equal(t.x->in, "to muxlet", 9);
	says(1, "to hub");
	assert_int_equal(hub_reads(got, sizeof(got)), 6);
	before = t.x->window;
	says(2, "twelve bytes"); /* stderr is nobody's, and must not use up the window */
	assert_int_equal(t.x->window, before + 12);
	end();
}

static void the_end_of_the_exec_ends_the_descriptor(void **state)
{
	uint8_t got[100];

	(void)state;
	begin((struct reach_params){.muxlet_dir = true});
	says(1, LINE);
	says(1, "last words");
	exits(RC_LOST, -1, ERR_K8S_UNREACHABLE, 0, "connection reset by peer");
	assert_int_equal(t.ended, 1);
	assert_string_equal(t.why, "connection reset by peer");
	assert_int_equal(hub_reads(got, sizeof(got)), 10);
	assert_int_equal(recv(t.fd, got, 1, 0), 0);
	assert_int_equal(t.alive, 0);
	end();

	begin((struct reach_params){.muxlet_dir = true}); /* the hub hangs up: the exec goes */
	says(1, LINE);
	close(t.fd);
	t.fd = -1;
	turn();
	assert_int_equal(t.ended, 1);
	assert_int_equal(t.alive, 0);
	end();
}

static void destroyed_at_any_moment(void **state)
{
	(void)state;
	begin((struct reach_params){.muxlet_dir = true});
	end();
	begin((struct reach_params){.image_path = ""});
	says(1, "machine x86_64\ndir /tmp/.muxd-d\n");
	exits(RC_EXITED, 0, 0, 0, "");
	end();
	assert_int_equal(t.done, 0);
	begin((struct reach_params){.muxlet_dir = true});
	t.destroy_in_done = true;
	says(1, LINE "and more");
	assert_int_equal(t.alive, 0);
	end();
	begin((struct reach_params){.muxlet_dir = true});
	t.destroy_in_done = true;
	exits(RC_NOT_STARTED, -1, ERR_NOT_FOUND, 404, "gone");
	end();
	begin((struct reach_params){.muxlet_dir = true});
	t.destroy_in_ended = true;
	says(1, LINE);
	exits(RC_EXITED, 0, 0, 0, "");
	assert_int_equal(t.ended, 1);
	end();
	begin((struct reach_params){.muxlet_dir = true});
	says(1, LINE);
	end();
	assert_int_equal(t.ended, 0);
	reach_destroy(NULL);
}

static void credentials_that_fail(void **state)
{
	(void)state;
	begin((struct reach_params){.image_path = ""});
	says(1, "machine x86_64\ndir /tmp/.muxd-d\n");
	t.ask_rc = ERR_CONFIG;
	exits(RC_EXITED, 0, 0, 0, "");
	failed(ERR_CONFIG, "the plug-in failed");
	end();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(where_it_was_before),
	    cmocka_unit_test(by_the_init_container),
	    cmocka_unit_test(in_the_image),
	    cmocka_unit_test(an_old_one_in_the_image_is_passed_over),
	    cmocka_unit_test(streamed_in),
	    cmocka_unit_test(without_a_shell_the_image_is_tried),
	    cmocka_unit_test(the_next_directory_when_it_does_not_run),
	    cmocka_unit_test(no_directory_runs_it),
	    cmocka_unit_test(each_way_has_its_reason),
	    cmocka_unit_test(reasons),
	    cmocka_unit_test(what_may_pass_is_no_verdict),
	    cmocka_unit_test(a_refusal_that_may_pass),
	    cmocka_unit_test(fresh_credentials_once),
	    cmocka_unit_test(a_deadline),
	    cmocka_unit_test(every_cut_of_the_first_line),
	    cmocka_unit_test(a_long_piece_behind_the_first_line),
	    cmocka_unit_test(what_is_no_muxlet_is_not_believed),
	    cmocka_unit_test(bytes_and_windows),
	    cmocka_unit_test(the_end_of_the_exec_ends_the_descriptor),
	    cmocka_unit_test(destroyed_at_any_moment),
	    cmocka_unit_test(credentials_that_fail),
	};

	(void)log_setup("test", "error", LOG_TEXT, 2, NULL);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
