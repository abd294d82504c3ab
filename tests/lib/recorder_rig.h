/*
 * recorder_rig.h - a recorder process of its own for a test: ring, state directory, keys, and questions to it.
 *
 * place_make/place_remove are the fixtures; recorder_start/recorder_end fork and end it.
 */
#ifndef TESTS_LIB_RECORDER_RIG_H
#define TESTS_LIB_RECORDER_RIG_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/msg.h"
#include "base/ring.h"
#include "base/sock.h"
#include "policy/grant.h"
#include "recorder/format/event.h"
#include "recorder/format/recording.h"
#include "recorder/serve/client.h"
#include "recorder/serve/process.h"
#include "recorder/verify/verify.h"
#include "tests/lib/ring_feed.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#define MIB      (1024 * 1024)
#define INSTANCE "018f0000-0000-7000-8000-000000000001"

static const char conf_text[] = "log:\n  level: error\nrecord:\n  segment_size: 1MiB\n  min_free: 1MiB\n"
				"  rules:\n    - {kind: agent, rule: metadata}\n    - {kind: \"*\", rule: full}\n";

struct place {
	char dir[64], ring[96], cursor[96], record[96];
	int ring_fd, cursor_fd, listen_fd, ipc;
	pid_t pid;
	struct ring_writer *w;
	uint8_t grant_seed[32], record_seed[32];
	struct grant_public_key grant_key, record_key;
};

static inline int memfd_of(const void *p, size_t n)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(write(fd, p, n), n);
	return fd;
}

static inline json_t *start_message(struct place *p)
{
	char *key = base64_encode(p->grant_key.key, 32, true);
	json_t *o =
	    json_pack("{s:s, s:[s,s,s,s,s], s:s, s:s, s:i, s:I, s:[{s:s, s:s}], s:[]}", "op", "start", "fds", "conf",
		      "ring", "cursor", "listen", "record_key", "state_dir", p->dir, "instance", INSTANCE, "floor_ns",
		      0, "net_uid", (json_int_t)getuid(), "grant_keys", "kid", p->grant_key.kid, "key", key, "revoked");
	free(key);
	return o;
}

/* Starts the recorder and waits until it says that it is ready. How often it said `starting` before. */
static inline unsigned recorder_start(struct place *p)
{
	int pair[2], fds[5];
	size_t n = 0;
	unsigned words = 0;
	struct err e = {0};

	assert_int_equal(sock_pair(SOCK_SEQPACKET, pair), 0);
	p->pid = fork();
	if (p->pid == 0) {
		close(pair[0]);
		_exit(process_run(pair[1]));
	}
	close(pair[1]);
	p->ipc = pair[0];
	fds[0] = memfd_of(conf_text, sizeof(conf_text) - 1);
	fds[1] = open(p->ring, O_RDONLY | O_CLOEXEC);
	fds[2] = p->cursor_fd;
	fds[3] = p->listen_fd;
	fds[4] = memfd_of(p->record_seed, 32);
	json_t *o = start_message(p), *ready = NULL;
	assert_int_equal(sock_send_packet(p->ipc, o, fds, 5, &e), 0);
	json_decref(o);
	close(fds[0]);
	close(fds[1]);
	close(fds[4]);
	for (;; words++) {
		if (sock_recv_packet(p->ipc, &ready, NULL, &n, &e))
			fail_msg("the recorder did not become ready: %s", e.message);
		if (strcmp(json_string_value(json_object_get(ready, "op")), "starting") != 0)
			break;
		assert_true(json_integer_value(json_object_get(ready, "done")) > 0);
		json_decref(ready);
	}
	assert_string_equal(json_string_value(json_object_get(ready, "kid")), p->record_key.kid);
	json_decref(ready);
	return words;
}

static inline int recorder_end(struct place *p, int sig)
{
	int status;
	if (sig)
		kill(p->pid, sig);
	close(p->ipc);
	assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
	p->pid = 0;
	return status;
}

static inline int place_make(void **state)
{
	struct place *p = calloc(1, sizeof(*p));
	char path[128];
	if (!p)
		return -1;
	snprintf(p->dir, sizeof(p->dir), "/tmp/test-recorder-XXXXXX");
	if (!mkdtemp(p->dir))
		return -1;
	snprintf(p->ring, sizeof(p->ring), "%s/ring", p->dir);
	snprintf(p->cursor, sizeof(p->cursor), "%s/cursor", p->dir);
	snprintf(p->record, sizeof(p->record), "%s/record", p->dir);
	snprintf(path, sizeof(path), "%s/recorder.sock", p->dir);
	if (ring_file_prepare(p->ring, 4 * MIB, NULL) || ring_cursor_prepare(p->cursor, NULL) ||
	    mkdir(p->record, 0700) || sock_listen_unix(path, SOCK_STREAM, 0600, &p->listen_fd, NULL) ||
	    grant_key_create(p->grant_seed, &p->grant_key) || grant_key_create(p->record_seed, &p->record_key))
		return -1;
	p->ring_fd = open(p->ring, O_RDWR | O_CLOEXEC);
	p->cursor_fd = open(p->cursor, O_RDWR | O_CLOEXEC);
	*state = p;
	return ring_writer_create(p->ring_fd, p->cursor_fd, &p->w, NULL);
}

static inline int place_remove(void **state)
{
	struct place *p = *state;
	char cmd[128];
	if (p->pid)
		recorder_end(p, SIGKILL);
	ring_writer_destroy(p->w);
	close(p->ring_fd);
	close(p->cursor_fd);
	close(p->listen_fd);
	(void)umount2(p->record, MNT_DETACH); /* of a test that failed in the middle */
	snprintf(cmd, sizeof(cmd), "rm -r %s", p->dir);
	int rc = system(cmd);
	free(p);
	return rc;
}

static inline void append(struct place *p, uint8_t type, uint8_t stream, const struct id *session, uint64_t offset,
			  const void *bytes, size_t n)
{
	struct ring_record rec = {.type = type, .stream = stream, .session = *session, .offset = offset};

	ring_feed(p->w, &rec, bytes, n);
}

static inline void text(struct place *p, uint8_t type, const struct id *session, const char *json)
{
	append(p, type, 0, session, 0, json, strlen(json));
}

static inline void session_open(struct place *p, struct id *out, const char *principal, const char *kind)
{
	char json[512];
	assert_int_equal(id_new(out), 0);
	snprintf(json, sizeof(json),
		 "{\"v\":1,\"kind\":\"round\",\"agent\":\"demo\",\"principal\":\"%s\",\"principal_kind\":\"%s\","
		 "\"task\":\"t\",\"exec_id\":\"x-%02x%02x\",\"digest\":\"d\",\"channel\":7,\"wall_ns\":%lld,\"boot_"
		 "id\":\"%s\"}",
		 principal, kind, out->b[14], out->b[15], (long long)clock_wall_ns(), clock_boot_id());
	text(p, RING_OPEN, out, json);
}

static inline void session_exit(struct place *p, const struct id *id)
{
	text(p, RING_EXIT, id, "{\"cause\":\"exit\",\"code\":0,\"signal\":0}");
}

/* --- asking */

static inline int ask_fd(struct place *p)
{
	int fd;
	assert_int_equal(recorder_connect(p->dir, &fd, NULL), 0);
	return fd;
}

static inline char *token_of(struct place *p, const char *principal, const char *agent, uint32_t scopes)
{
	struct grant g = {.kind = GRANT_AUDITOR, .scopes = scopes};
	char *token = NULL;
	struct err e = {0};
	assert_int_equal(id_new(&g.id), 0);
	snprintf(g.issuer, sizeof(g.issuer), "%s", INSTANCE);
	snprintf(g.principal, sizeof(g.principal), "%s", principal);
	snprintf(g.agent, sizeof(g.agent), "%s", agent);
	snprintf(g.reason, sizeof(g.reason), "test");
	snprintf(g.task, sizeof(g.task), "t");
	g.issued_ns = g.not_before_ns = clock_wall_ns() - 5 * (int64_t)NS_PER_SEC;
	g.expires_ns = g.issued_ns + 600 * (int64_t)NS_PER_SEC;
	if (grant_sign(&g, p->grant_key.kid, p->grant_seed, &token, &e))
		fail_msg("%s", e.message);
	return token;
}

struct answer {
	json_t *json; /* array of every J, the last one included */
	struct buf bytes;
	unsigned nbytes; /* B messages */
};

static inline void answer_finish(struct answer *a)
{
	json_decref(a->json);
	buf_finish(&a->bytes);
}

/* All of an answer, to its end. */
static inline void hear(int fd, struct answer *out)
{
	struct buf in;
	struct msg m;
	size_t size;
	bool end = false;
	struct err e = {0};

	*out = (struct answer){.json = json_array()};
	buf_init(&out->bytes, 256 * MIB);
	buf_init(&in, MSG_MAX + MSG_HEADER);
	while (!end) {
		if (msg_recv(fd, &in, &m, &size, &e))
			fail_msg("no answer: %s", e.message);
		if (m.kind == 'B') {
			out->nbytes++;
			assert_int_equal(buf_append(&out->bytes, m.payload + 1, m.len - 1), 0);
		} else {
			json_t *o;
			assert_int_equal(json_parse(m.payload, m.len, MSG_MAX, &o, NULL), 0);
			end = json_is_true(json_object_get(o, "end"));
			json_array_append_new(out->json, o);
		}
		buf_consume(&in, size);
	}
	buf_finish(&in);
}

/* steals request */
static inline void ask(int fd, json_t *request, struct answer *out)
{
	assert_int_equal(msg_send_json(fd, request, NULL), 0);
	json_decref(request);
	hear(fd, out);
}

static inline const json_t *nth(const struct answer *a, size_t i)
{
	return json_array_get(a->json, i);
}

static inline const char *error_code(const struct answer *a)
{
	return json_string_value(
	    json_object_get(json_object_get(nth(a, json_array_size(a->json) - 1), "error"), "code"));
}

static inline void flush(int fd, const struct id *session)
{
	struct answer a;
	char id[ID_STR_LEN];
	json_t *o = json_pack("{s:s}", "op", "flush");
	if (session) {
		id_format(session, id);
		json_object_set_new(o, "session", json_string(id));
	}
	ask(fd, o, &a);
	if (error_code(&a))
		fail_msg("flush: %s", error_code(&a));
	answer_finish(&a);
}

static inline json_t *question(const char *op, const char *token, const struct id *session)
{
	char id[ID_STR_LEN];
	json_t *o = json_pack("{s:s, s:s}", "op", op, "token", token);
	if (session) {
		id_format(session, id);
		json_object_set_new(o, "session", json_string(id));
	}
	return o;
}

/* Bytes of a session and a position, so that everybody can compute what must be there. */
static inline void pattern(const struct id *id, uint64_t offset, uint8_t *out, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t x = (offset + i) * UINT64_C(0x9e3779b97f4a7c15) + id->b[15];
		out[i] = (uint8_t)(x >> 40);
	}
}

static inline void send_pattern(struct place *p, const struct id *id, uint64_t *offset, size_t n)
{
	uint8_t bytes[32768];
	while (n) {
		size_t k = n < sizeof(bytes) ? n : sizeof(bytes);
		pattern(id, *offset, bytes, k);
		append(p, RING_DATA, STREAM_OUTPUT, id, *offset, bytes, k);
		*offset += k;
		n -= k;
	}
}

/* The whole stream, page by page. */
static inline void check_output(int fd, const char *token, const struct id *id, uint64_t total, unsigned page)
{
	uint64_t offset = 0;
	bool eof = false;
	uint8_t *want = malloc(MIB);
	while (!eof) {
		struct answer a;
		json_t *q = question("output", token, id);
		json_object_set_new(q, "offset", json_integer((json_int_t)offset));
		json_object_set_new(q, "limit", json_integer(page));
		json_object_set_new(q, "stream", json_string("stdout"));
		ask(fd, q, &a);
		if (error_code(&a))
			fail_msg("output: %s", error_code(&a));
		assert_int_equal(json_integer_value(json_object_get(nth(&a, 0), "offset")), offset);
		assert_int_equal(json_array_size(json_object_get(nth(&a, 0), "gaps")), 0);
		size_t n = buf_len(&a.bytes);
		pattern(id, offset, want, n);
		if (n)
			assert_memory_equal(buf_ptr(&a.bytes), want, n);
		offset += n;
		eof = json_is_true(json_object_get(nth(&a, 0), "eof"));
		if (eof)
			assert_int_equal(json_integer_value(json_object_get(nth(&a, 0), "total")), total);
		else if (n == 0)
			fail_msg("no bytes and no end at %llu of %llu", (unsigned long long)offset,
				 (unsigned long long)total);
		answer_finish(&a);
	}
	free(want);
	assert_int_equal(offset, total);
}

static inline void print_finding(void *arg, const struct verify_finding *f)
{
	(void)arg;
	print_error("%s: %s: %s\n", f->path, f->code, f->message);
}

#endif
