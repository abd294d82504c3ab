/*
 * exec_rig.h - exec streams against the fake API server (fake_exec_server.py), for one test program.
 *
 * A `struct run` is one stream and what was seen of it. Static functions, for inclusion by one test.
 */
#ifndef TESTS_LIB_EXEC_RIG_H
#define TESTS_LIB_EXEC_RIG_H

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "control/kube/client/endpoint.h"
#include "control/kube/exec/remotecommand.h"
#include "tests/lib/patience.h"

#include <dirent.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define DEADLINE_S 60

struct rig {
	uv_loop_t loop;
	struct rc_client *client;
	pid_t fake;
	int fake_stdin;
	char dir[64]; /* certificates */
	json_t *ports;
	uv_timer_t alarm, napper;
	bool rang, woken;
};

struct run {
	struct rig *rig;
	struct rc_stream *stream;
	struct rc_params params;
	int opened;         /* version; 0: not */
	char text[3][4096]; /* the beginning of output and stderr */
	uint64_t total[3];
	EVP_MD_CTX *digest; /* of output */
	int calls_after_exit;
	int exits;
	struct rc_exit exit;
	uint64_t grant; /* more window after each byte: 0 = the test moves it */
	/* input */
	uint64_t to_send, sent; /* bytes of the pattern */
	bool eof_after;
	bool close_in_data, close_in_open;
};

static struct rig rig;

/* --- the fake */

static void rig_start(void)
{
	int in[2], out[2];
	char line[512] = "";
	FILE *f;

	if (getenv("EXEC_LOG")) /* to look at what happens */
		(void)log_setup("test", "debug", LOG_TEXT, 2, NULL);
	strcpy(rig.dir, "/tmp/muxd-exec-XXXXXX");
	if (!mkdtemp(rig.dir) || pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		abort();
	rig.fake = fork();
	if (rig.fake == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execlp("python3", "python3", "tests/lib/fake_exec_server.py", rig.dir, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	rig.fake_stdin = in[1];
	f = fdopen(out[0], "r");
	if (!fgets(line, sizeof(line), f) || json_parse(line, strlen(line), sizeof(line), &rig.ports, NULL))
		abort();
	fclose(f);
	uv_loop_init(&rig.loop);
	uv_timer_init(&rig.loop, &rig.alarm);
	uv_timer_init(&rig.loop, &rig.napper);
	rig.alarm.data = &rig.rang; /* turns the loop */
	rig.napper.data = &rig.woken;
	if (rc_client_create(&rig.loop, &rig.client, NULL))
		abort();
}

static void rig_stop(void)
{
	char cmd[128];

	rc_client_destroy(rig.client);
	uv_close((uv_handle_t *)&rig.alarm, NULL);
	uv_close((uv_handle_t *)&rig.napper, NULL);
	uv_run(&rig.loop, UV_RUN_DEFAULT);
	if (uv_loop_close(&rig.loop))
		abort(); /* a handle was left */
	close(rig.fake_stdin);
	waitpid(rig.fake, NULL, 0);
	json_decref(rig.ports);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", rig.dir);
	if (system(cmd))
		abort();
}

static uint16_t rig_port(const char *name)
{
	return (uint16_t)json_integer_value(json_object_get(rig.ports, name));
}

/* DIR/name, NUL-terminated; to be freed. */
static char *rig_pem(const char *name, size_t *out_len)
{
	char path[128], *p = calloc(1, 65536);
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", rig.dir, name);
	f = fopen(path, "r");
	if (!f)
		abort();
	*out_len = fread(p, 1, 65535, f);
	fclose(f);
	return p;
}

/* --- an endpoint, as kube_creds would give it; what it points to lives until the next call */
static struct kube_endpoint *endpoint(const char *which)
{
	static struct kube_endpoint ep;
	static char server[160], header[128], *ca;
	size_t n;

	free(ca);
	ca = rig_pem("ca.pem", &n);
	ep = (struct kube_endpoint){.server = server, .host = "127.0.0.1", .port = rig_port(which), .generation = 1};
	ep.tls = strcmp(which, "plain") != 0 && strcmp(which, "dead") != 0;
	if (strcmp(which, "tls6") == 0)
		ep.host = "::1";
	snprintf(header, sizeof(header), strchr(ep.host, ':') ? "[%s]:%u" : "%s:%u", ep.host, ep.port);
	snprintf(server, sizeof(server), "http%s://%s", ep.tls ? "s" : "", header);
	ep.host_header = header;
	ep.base_path = "";
	ep.tls_server_name = ep.host;
	ep.ca_pem = ca;
	ep.ca_pem_len = n;
	ep.connect_host = ep.host;
	ep.connect_port = ep.port;
	ep.addresses = ep.host;
	return &ep;
}

/* The stream of the fake: blocks of 64 KiB, a number in front of each. */
static void pattern(uint64_t at, uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t j = (at + i) & 0xffff;

		p[i] = j < 8 ? (uint8_t)((at + i) >> 16 >> (8 * j)) : (uint8_t)(j * 31 + (j >> 8) * 7);
	}
}

static void digest_text(EVP_MD_CTX *ctx, char out[65])
{
	unsigned char md[32];
	EVP_MD_CTX *copy = EVP_MD_CTX_new();

	EVP_MD_CTX_copy_ex(copy, ctx);
	EVP_DigestFinal_ex(copy, md, NULL);
	EVP_MD_CTX_free(copy);
	for (int i = 0; i < 32; i++)
		snprintf(out + 2 * i, 3, "%02x", md[i]);
}

__attribute__((unused)) static void pattern_digest(uint64_t total, char out[65])
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	static uint8_t block[65536];

	EVP_DigestInit_ex(ctx, EVP_sha256(), NULL);
	for (uint64_t at = 0; at < total; at += sizeof(block)) {
		size_t n = total - at < sizeof(block) ? (size_t)(total - at) : sizeof(block);

		pattern(at, block, n);
		EVP_DigestUpdate(ctx, block, n);
	}
	digest_text(ctx, out);
	EVP_MD_CTX_free(ctx);
}

/* --- one stream */

static void run_feed(struct run *r)
{
	uint8_t block[16384];
	ssize_t n = 1;

	while (r->sent < r->to_send && n > 0) {
		size_t want = r->to_send - r->sent < sizeof(block) ? (size_t)(r->to_send - r->sent) : sizeof(block);

		pattern(r->sent, block, want);
		n = rc_input(r->stream, block, want);
		if (n > 0)
			r->sent += (uint64_t)n;
	}
	if (r->sent == r->to_send && r->eof_after) {
		r->eof_after = false;
		(void)rc_input_eof(r->stream);
	}
}

static void run_opened(void *arg, int version)
{
	struct run *r = arg;

	r->opened = version;
	r->calls_after_exit += r->exits;
	if (r->close_in_open) {
		rc_close(r->stream);
		r->stream = NULL;
	}
}

static void run_data(void *arg, int stream, const uint8_t *p, size_t n)
{
	struct run *r = arg;
	size_t at = r->total[stream] < 4095 ? (size_t)r->total[stream] : 4095;

	r->calls_after_exit += r->exits;
	memcpy(r->text[stream] + at, p, n < 4095 - at ? n : 4095 - at);
	r->total[stream] += n;
	if (stream == 1)
		EVP_DigestUpdate(r->digest, p, n);
	if (r->close_in_data) {
		rc_close(r->stream);
		r->stream = NULL;
	} else if (r->grant) {
		rc_window(r->stream, r->total[1] + r->total[2] + r->grant);
	}
}

static void run_writable(void *arg, size_t room)
{
	struct run *r = arg;

	r->calls_after_exit += r->exits + (room == 0);
	run_feed(r);
}

static void run_exited(void *arg, const struct rc_exit *x)
{
	struct run *r = arg;

	r->exits++;
	r->exit = *x;
}

static const struct rc_ops run_ops = {
    .opened = run_opened, .data = run_data, .writable = run_writable, .exited = run_exited};

/* Words of the fake's script; blanks part them, a word in braces may hold some. */
static const char *const *words(const char *script)
{
	static char text[65536];
	static const char *argv[64];
	size_t n = 0;
	int depth = 0;

	snprintf(text, sizeof(text), "%s", script);
	argv[n++] = text;
	for (char *p = text; *p; p++) {
		depth += (*p == '{') - (*p == '}');
		if (*p == ' ' && depth == 0) {
			*p = '\0';
			argv[n++] = p + 1;
		}
	}
	argv[n] = NULL;
	return argv;
}

static void run_init(struct run *r, const char *script)
{
	memset(r, 0, sizeof(*r));
	r->rig = &rig;
	r->digest = EVP_MD_CTX_new();
	EVP_DigestInit_ex(r->digest, EVP_sha256(), NULL);
	r->grant = 1 << 20;
	r->params = (struct rc_params){
	    .ns = "ns", .pod = "pod", .argv = words(script), .in = true, .out = true, .err = true, .window = 1 << 20};
}

static int run_open(struct run *r, const struct kube_endpoint *ep, struct err *e)
{
	return rc_open(rig.client, ep, &r->params, &run_ops, r, &r->stream, e);
}

static void run_finish(struct run *r)
{
	rc_close(r->stream);
	r->stream = NULL;
	EVP_MD_CTX_free(r->digest);
}

static void on_ring(uv_timer_t *t)
{
	*(bool *)t->data = true;
}

/* Turns the loop until it is true, or its time is over (tests/lib/patience.h): then false. */
#define until(cond)                                                                                                    \
	({                                                                                                             \
		struct patience left_ = patience_of(DEADLINE_S * NS_PER_SEC);                                          \
		bool ok_;                                                                                              \
		uv_timer_start(&rig.alarm, on_ring, 200, 200);                                                         \
		while (!(ok_ = (cond)) && !patience_over(&left_))                                                      \
			uv_run(&rig.loop, UV_RUN_ONCE);                                                                \
		uv_timer_stop(&rig.alarm);                                                                             \
		ok_;                                                                                                   \
	})

static inline void nap(unsigned ms)
{
	rig.woken = false;
	uv_timer_start(&rig.napper, on_ring, ms, 0);
	(void)until(rig.woken);
}

/* Open, go on until the exit, close. */
static bool run_script(struct run *r, const struct kube_endpoint *ep, const char *script)
{
	struct err e = {0};

	run_init(r, script);
	if (run_open(r, ep, &e)) {
		fprintf(stderr, "%s\n", e.message);
		return false;
	}
	return until(r->exits > 0);
}

static inline unsigned open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

__attribute__((unused)) static int start(void **state)
{
	(void)state;
	rig_start();
	return 0;
}

__attribute__((unused)) static int stop(void **state)
{
	(void)state;
	rig_stop();
	return 0;
}

__attribute__((unused)) static void check_exit(const struct run *r, enum rc_cause cause, int code)
{
	if (r->exit.cause != cause || r->exit.code != code)
		fail_msg("%s, code %d: %s", rc_cause_name(r->exit.cause), r->exit.code, r->exit.err.message);
	assert_int_equal(r->exits, 1);
	assert_int_equal(r->calls_after_exit, 0);
	assert_int_equal(rc_state(r->stream), RC_ENDED);
	assert_true((r->exit.err.code == 0) == (cause == RC_EXITED));
	assert_true((r->exit.err.message[0] == 0) == (cause == RC_EXITED && code == 0));
}

#endif
