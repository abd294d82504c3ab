/*
 * http_exchange.h - one question and its answer, as libcurl knows it; for http.c alone, which makes it, puts it into
 * its multi handle and takes it out again.
 *
 * States: asked; begun (a stream's 2xx came); ended, when its owner is told and it is destroyed.
 */
#ifndef CONTROL_KUBE_CLIENT_HTTP_EXCHANGE_H
#define CONTROL_KUBE_CLIENT_HTTP_EXCHANGE_H

#include "base/buf.h"
#include "control/kube/client/http.h"

#include <curl/curl.h>
#include <sys/queue.h>

struct kube_exchange {
	TAILQ_ENTRY(kube_exchange) entry;
	struct kube_http *http;
	CURL *easy;
	struct curl_slist *headers, *resolve, *connect_to;
	const struct kube_http_ops *ops;
	void *arg;
	struct buf body;
	char *server; /* for messages */
	size_t answer_max;
	bool stream;
	bool paused, full;
	bool ready;       /* something waits for its owner */
	bool begun, told; /* a stream: a 2xx came; its owner knows */
	char fault[CURL_ERROR_SIZE];
};

/* Its answer is kept for the owner; nothing is set yet that the question says. NULL: no memory. */
struct kube_exchange *kube_exchange_create(struct kube_http *h, const struct kube_endpoint *ep,
					   const struct kube_http_question *q);
/* The exchange is in no multi handle. Not NULL-safe. */
void kube_exchange_destroy(struct kube_exchange *x);
/* http_question.c: where to, how protected, what. Both are copied. ERR_NOMEM. */
int kube_exchange_ask(struct kube_exchange *x, const struct kube_endpoint *ep, const struct kube_http_question *q);
/* What waits (ready) goes to its owner, who may destroy x meanwhile. */
void kube_exchange_deliver(struct kube_exchange *x);
/* The owner is told how it ended; then it is destroyed. */
void kube_exchange_end(struct kube_exchange *x, CURLcode code);

#endif
