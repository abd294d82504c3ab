/*
 * http.h - HTTP to an API server: libcurl's multi interface on the loop. Only http*.c know it.
 *
 * One exchange is one question and one answer, tried once: who repeats, and when,
 * is rest.h's matter. Connections are kept and shared, HTTP/2 is taken where TLS
 * offers it.
 *
 * Nothing of the caller runs inside libcurl: data and end come afterwards, and may
 * start, cancel or destroy whatever they like.
 */
#ifndef CONTROL_KUBE_CLIENT_HTTP_H
#define CONTROL_KUBE_CLIENT_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct kube_endpoint;
struct kube_exchange;
struct kube_http;
struct uv_loop_s;

struct kube_http_question {
	const char *method;
	const char *path;                  /* behind base_path: "/api/v1/pods?limit=1" */
	const char *content_type, *accept; /* NULL: none */
	const char *const *headers;        /* "Name: value" each, NULL-ended; NULL: none more */
	/* Copied. body NULL: none, even if len says otherwise. */
	const void *body;
	size_t body_len;
	uint64_t connect_ms; /* TCP and TLS together */
	size_t answer_max;   /* bytes; of a stream's refusal too */
	bool stream;         /* a 2xx body goes to data, piece by piece */
};

struct kube_http_answer {
	int status;          /* 0: none came */
	const uint8_t *body; /* borrowed for the call; empty for a stream */
	size_t len;
	uint64_t retry_after_s; /* 0: not said */
	bool unsent;            /* the server has not seen the question for sure: sending it again is safe */
	bool passing;           /* a failure that may pass by itself: not one of TLS or of limits */
};

struct kube_http_ops {
	/* Streams only: first, when a 2xx answer begins, with NULL and 0; then with bytes. */
	void (*data)(void *arg, const uint8_t *p, size_t n);
	/* Once, unless cancelled. rc 0: an answer came whole, whatever its status. Else ERR_K8S_UNREACHABLE,
	 * ERR_K8S_TLS, ERR_TIMEOUT (connecting), ERR_TOO_LARGE, ERR_EOF (cut), each naming the server. */
	void (*end)(void *arg, int rc, const struct err *e, const struct kube_http_answer *a);
};

int kube_http_create(struct uv_loop_s *loop, struct kube_http **out, struct err *e);
/* Exchanges end without end(). The loop has to run until the handles are closed. NULL-safe. */
void kube_http_destroy(struct kube_http *h);

/* ep is read during the call only. ERR_NOMEM; then end() is not called. ops has to outlive it. */
int kube_http_start(struct kube_http *h, const struct kube_endpoint *ep, const struct kube_http_question *q,
		    const struct kube_http_ops *ops, void *arg, struct kube_exchange **out, struct err *e);
/*
 * end() is not called. silent_ms: when nothing at all came on its connection for so long, that is dead, and shut for
 * the others on it too; 0: it is not looked at. NULL-safe.
 */
void kube_http_cancel(struct kube_exchange *x, uint64_t silent_ms);

#endif
