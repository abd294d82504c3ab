/*
 * client.h - asking the recorder, from the hub (asynchronous) or a tool (blocking).
 *
 * The conversation is in docs/conversations.md ("recorder.sock"). The recorder
 * verifies the token itself; a client needs no right of its own.
 */
#ifndef RECORDER_SERVE_CLIENT_H
#define RECORDER_SERVE_CLIENT_H

#include "base/json.h"
#include "base/ring.h"

struct err;
struct uv_loop_s;
struct recorder_client;

/* One message of an answer. head/end: JSON (borrowed); bytes: p/n. Exactly one of json and p is set. */
typedef void recorder_answer(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n,
			     bool end);

/* fd: connected stream, becomes the client's. Requests are answered in order. */
int recorder_client_create(struct uv_loop_s *loop, int fd, struct recorder_client **out);
void recorder_client_destroy(struct recorder_client *c); /* pending answers end with ERR_CANCELLED */
/* request is borrowed. cb is called until end is true; after an error it is the last call. */
int recorder_client_ask(struct recorder_client *c, const json_t *request, recorder_answer *cb, void *arg);

/* Blocking, for muxctl and tests: connect to DIR/recorder.sock. */
int recorder_connect(const char *state_dir, int *out_fd, struct err *e);

#endif
