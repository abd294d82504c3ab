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

/* Bytes of a question, and its frame; a longer one is not sent. */
#define RECORDER_QUESTION_MAX (512 * 1024)

/* One message of an answer. head/end: JSON (borrowed); bytes: p/n. Exactly one of json and p is set. */
typedef void recorder_answer(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n,
			     bool end);

/* The stream is of no use any more; all who waited have been told. Once, never after recorder_client_destroy(). */
typedef void recorder_lost(void *arg);

/* fd: connected stream, becomes the client's. Requests are answered in order. lost: may be NULL. */
int recorder_client_create(struct uv_loop_s *loop, int fd, recorder_lost *lost, void *arg,
			   struct recorder_client **out);
void recorder_client_destroy(struct recorder_client *c); /* pending answers end with ERR_CANCELLED */
/*
 * The same where another client has its place already, whether or not the end of this stream has been seen: pending
 * answers end with ERR_UNAVAILABLE, as at a lost stream, so that whoever waits may ask the other one.
 */
void recorder_client_replace(struct recorder_client *c);
/*
 * request is borrowed. cb is called until end is true; after an error it is the last call. ERR_TOO_LARGE: longer than
 * RECORDER_QUESTION_MAX; ERR_UNAVAILABLE: the stream is lost; then cb is not called.
 */
int recorder_client_ask(struct recorder_client *c, const json_t *request, recorder_answer *cb, void *arg);

/* Blocking, for muxctl and tests: connect to DIR/recorder.sock. */
int recorder_connect(const char *state_dir, int *out_fd, struct err *e);

#endif
