/*
 * remotecommand.h - exec in a pod: a program's streams over one WebSocket to the API server.
 *
 * A `struct rc_client` is made once and shared by all streams; whoever made it destroys it. A `struct rc_stream` is
 * one exec and belongs to whoever opened it, until rc_close(). Everything happens on the loop's thread; no call here
 * blocks. Follows KEP-4006; v5.channel.k8s.io and v4.channel.k8s.io are offered together.
 *
 * States of a stream:
 *	RC_CONNECTING	connect, TLS, upgrade. Input and sizes are taken already and wait.
 *	RC_OPEN		the server answered 101; opened() was told.
 *	RC_DRAINING	how it ended is known or the connection is gone; output is held that the window has not let out.
 *	RC_ENDED	exited() was told. Only rc_close() is left.
 *
 * Calls back come from the loop, never from inside a call of this header but rc_client_destroy(). They may call any
 * function of this header but that one; after rc_close() none comes. exited() comes exactly once, after all data.
 *
 * What the protocol cannot do, whatever is asked here:
 *	- v4 has no end of stdin: rc_input_eof() is ERR_UNSUPPORTED. A program without tty gets it at rc_close().
 *	- Closing or losing the connection never ends the program in the pod; there is no signal.
 *	- A program ended by signal N shows as code 128+N on most runtimes; the signal itself is not told.
 *	- A server may close with output still on its way (v4, 1.20 and later): what was not sent is not known here.
 *	- A program that ends with more than a pipe of its input unread may never be reported (containerd 1.6 waits for
 *its own copy of stdin for good; kubectl hangs as well): who feeds programs that may not read needs a deadline.
 *
 * The WebSocket is ours (wsframe.h, rc_ws.h): docs/architecture.md says why it is not libwebsockets.
 */
#ifndef CONTROL_KUBE_EXEC_REMOTECOMMAND_H
#define CONTROL_KUBE_EXEC_REMOTECOMMAND_H

#include "control/kube/exec/rc_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct uv_loop_s;
struct err;
struct kube_endpoint;
struct rc_client;
struct rc_stream;

#define RC_INPUT_MAX  (256 * 1024) /* bytes of input that wait here */
#define RC_TARGET_MAX (96 * 1024)  /* path and query: namespace, pod and argv, percent-encoded */

#define RC_CONNECT_MS   30000
#define RC_KEEPALIVE_MS 30000

enum rc_state { RC_CONNECTING, RC_OPEN, RC_DRAINING, RC_ENDED };

struct rc_params {
	const char *ns, *pod;
	const char *container;   /* NULL: the only one; the server refuses with a list where there are several */
	const char *const *argv; /* NULL-ended, at least one */
	bool in, out, err;       /* which streams are there. At least one; with a tty in and out, and err is refused */
	bool tty;
	uint16_t cols, rows; /* tty: its first size; 0: the server's */
	uint64_t window;     /* first value of rc_window() */
	/* Milliseconds; 0: the default. */
	uint32_t connect_ms; /* until opened(): RC_CONNECT_MS */
	uint32_t
	    keepalive_ms; /* a ping and an empty message this often: RC_KEEPALIVE_MS. Below a server's idle limit */
	uint32_t dead_ms; /* nothing heard for so long: lost. Three times keepalive_ms */
	bool only_v4;     /* offer v4 alone */
};

struct rc_ops {
	void (*opened)(void *arg, int version); /* 5 or 4 */
	/* Output (1) or stderr (2), in the order of the wire. p is valid for the call only. */
	void (*data)(void *arg, int stream, const uint8_t *p, size_t n);
	/* After an rc_input() that took less than it was given: there is room again. */
	void (*writable)(void *arg, size_t room);
	void (*exited)(void *arg, const struct rc_exit *x);
};

int rc_client_create(struct uv_loop_s *loop, struct rc_client **out, struct err *e);
/*
 * NULL-safe. Streams that are left end now: exited() with RC_LOST and ERR_CANCELLED, from inside; their rc_close() is
 * still due. Memory goes when the loop has turned and the last stream is closed.
 */
void rc_client_destroy(struct rc_client *c);
unsigned rc_client_streams(const struct rc_client *c);

/*
 * ep, p and all they point to are copied as far as needed. ERR_INVAL, ERR_TOO_LARGE, ERR_UNSUPPORTED (a proxy that is
 * not http://), ERR_K8S_TLS (what is in ep does not parse), ERR_NOMEM. Everything that goes wrong later is told by
 * exited(); http_status 401 there asks for fresh credentials (kube_creds_ask()), and another rc_open().
 */
int rc_open(struct rc_client *c, const struct kube_endpoint *ep, const struct rc_params *p, const struct rc_ops *ops,
	    void *arg, struct rc_stream **out, struct err *e);
/* Cuts the connection. NULL-safe; from inside a call back too. Input that still waits is dropped. */
void rc_close(struct rc_stream *s);

enum rc_state rc_state(const struct rc_stream *s);
int rc_version(const struct rc_stream *s); /* 5, 4; 0 before opened() */

/* The consumer takes `until` bytes in all, output and stderr together since the beginning. It never goes down. */
void rc_window(struct rc_stream *s, uint64_t until);

/* Bytes taken, at most what rc_input_room() says; ERR_BAD_STATE after rc_input_eof() or without p->in, ERR_ENDED. */
ssize_t rc_input(struct rc_stream *s, const void *p, size_t n);
size_t rc_input_room(const struct rc_stream *s);
/* Bytes taken that are not on their way yet. */
size_t rc_input_queued(const struct rc_stream *s);
/* Behind all input. ERR_UNSUPPORTED on v4; before opened() it is remembered, and dropped should v4 be what opens. */
int rc_input_eof(struct rc_stream *s);
/* The newest wins. ERR_INVAL for a side of 0 or without a tty, ERR_ENDED. */
int rc_resize(struct rc_stream *s, uint16_t cols, uint16_t rows);

const char *rc_state_name(enum rc_state s);

#endif
