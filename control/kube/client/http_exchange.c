#define LOG_SUBSYS "kube"
#include "control/kube/client/http_exchange.h"

#include "base/err.h"
#include "base/log.h"
#include "control/kube/client/endpoint.h"

#include <stdlib.h>
#include <string.h>

#define STREAM_HELD_MAX (1024 * 1024) /* of one stream, before its owner has seen it */

/* --- what comes */

static bool is_refusal(CURL *easy)
{
	long status = 0;

	(void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	return status < 200 || status > 299;
}

/* The empty line behind a head that is not a 1xx. */
static size_t http_exchange_on_header(char *p, size_t size, size_t n, void *arg)
{
	struct kube_exchange *x = arg;

	if (x->stream && size * n == 2 && p[0] == '\r' && !is_refusal(x->easy))
		x->begun = x->ready = true;
	return size * n;
}

static size_t http_exchange_on_body(char *p, size_t size, size_t n, void *arg)
{
	struct kube_exchange *x = arg;
	size_t len = size * n;

	if (x->stream && !is_refusal(x->easy)) {
		x->ready = true;
		if (buf_len(&x->body) && buf_len(&x->body) + len > STREAM_HELD_MAX) {
			x->paused = true;
			return CURL_WRITEFUNC_PAUSE;
		}
	} else if (buf_len(&x->body) + len > x->answer_max) {
		x->full = true;
		return 0;
	}
	return buf_append(&x->body, p, len) < 0 ? 0 : len;
}

/* --- life */

struct kube_exchange *kube_exchange_create(struct kube_http *h, const struct kube_endpoint *ep,
					   const struct kube_http_question *q)
{
	struct kube_exchange *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->http = h;
	x->answer_max = q->answer_max;
	x->stream = q->stream;
	x->server = strdup(ep->server);
	x->easy = curl_easy_init();
	buf_init(&x->body, q->answer_max > STREAM_HELD_MAX ? q->answer_max : STREAM_HELD_MAX);
	if (!x->easy || !x->server) {
		kube_exchange_destroy(x);
		return NULL;
	}
	(void)curl_easy_setopt(x->easy, CURLOPT_PRIVATE, x);
	(void)curl_easy_setopt(x->easy, CURLOPT_ERRORBUFFER, x->fault);
	(void)curl_easy_setopt(x->easy, CURLOPT_HEADERFUNCTION, http_exchange_on_header);
	(void)curl_easy_setopt(x->easy, CURLOPT_HEADERDATA, x);
	(void)curl_easy_setopt(x->easy, CURLOPT_WRITEFUNCTION, http_exchange_on_body);
	(void)curl_easy_setopt(x->easy, CURLOPT_WRITEDATA, x);
	return x;
}

void kube_exchange_destroy(struct kube_exchange *x)
{
	curl_easy_cleanup(x->easy);
	curl_slist_free_all(x->headers);
	curl_slist_free_all(x->resolve);
	curl_slist_free_all(x->connect_to);
	buf_finish_secret(&x->body); /* a Secret may have been asked for */
	free(x->server);
	free(x);
}

/* --- what its owner sees */

/* The owner sees the bytes; it may cancel anything meanwhile, so they are taken out first. */
void kube_exchange_deliver(struct kube_exchange *x)
{
	struct buf bytes = x->body;
	void *arg = x->arg;
	const struct kube_http_ops *ops = x->ops;

	if (x->begun && !x->told) {
		x->told = true;
		ops->data(arg, NULL, 0);
		return;
	}
	buf_init(&x->body, x->answer_max > STREAM_HELD_MAX ? x->answer_max : STREAM_HELD_MAX);
	x->ready = false;
	if (x->paused) {
		x->paused = false;
		(void)curl_easy_pause(x->easy, CURLPAUSE_CONT);
	}
	if (buf_len(&bytes))
		ops->data(arg, buf_ptr(&bytes), buf_len(&bytes));
	buf_finish_secret(&bytes);
}

/* --- what went wrong */

static const char *fault_of(const struct kube_exchange *x, CURLcode code)
{
	return *x->fault ? x->fault : curl_easy_strerror(code);
}

static int connect_failed(const struct kube_exchange *x, struct err *e)
{
	long errnum = 0;

	(void)curl_easy_getinfo(x->easy, CURLINFO_OS_ERRNO, &errnum);
	if (errnum)
		return err_set(e, ERR_K8S_UNREACHABLE, "%s: cannot connect: %s", x->server, strerror((int)errnum));
	return err_set(e, ERR_K8S_UNREACHABLE, "%s: cannot connect: %s", x->server, fault_of(x, CURLE_COULDNT_CONNECT));
}

static int exchange_failed(const struct kube_exchange *x, CURLcode code, struct err *e)
{
	if (x->full)
		return err_set(e, ERR_TOO_LARGE, "%s: its answer is larger than %zu bytes", x->server, x->answer_max);
	/* in TLS 1.3 the server refuses a client's certificate behind the handshake */
	if (strstr(x->fault, " alert "))
		return err_set(e, ERR_K8S_TLS, "%s: TLS: %s", x->server, x->fault);
	switch (code) {
	case CURLE_COULDNT_CONNECT:
		return connect_failed(x, e);
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_PROXY:
		return err_set(e, ERR_K8S_UNREACHABLE, "%s: cannot connect: %s", x->server, fault_of(x, code));
	case CURLE_PEER_FAILED_VERIFICATION:
		return err_set(e, ERR_K8S_TLS, "%s: its certificate is not trusted: %s", x->server, fault_of(x, code));
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CIPHER:
		return err_set(e, ERR_K8S_TLS, "%s: TLS: %s", x->server, fault_of(x, code));
	case CURLE_OPERATION_TIMEDOUT:
		return err_set(e, ERR_K8S_UNREACHABLE, "%s: cannot connect in time: %s", x->server, fault_of(x, code));
	case CURLE_OUT_OF_MEMORY:
		return err_set(e, ERR_NOMEM, "%s: no memory", x->server);
	default:
		return err_set(e, ERR_EOF, "%s: the answer was cut: %s", x->server, fault_of(x, code));
	}
}

/* Did no byte of the question leave? Then it can go again, whatever its method. */
static bool never_sent(const struct kube_exchange *x)
{
	long sent = 0;

	return curl_easy_getinfo(x->easy, CURLINFO_REQUEST_SIZE, &sent) == CURLE_OK && sent == 0;
}

static void log_end(const struct kube_exchange *x, CURLcode code, long status)
{
	long version = 0, connects = 0;

	(void)curl_easy_getinfo(x->easy, CURLINFO_HTTP_VERSION, &version);
	(void)curl_easy_getinfo(x->easy, CURLINFO_NUM_CONNECTS, &connects);
	log_debug(NULL, "%s: %ld over %s on %s connection%s%s", x->server, status,
		  version >= CURL_HTTP_VERSION_2_0 ? "HTTP/2" : "HTTP/1.1", connects ? "a new" : "a kept",
		  code == CURLE_OK ? "" : ": ", code == CURLE_OK ? "" : fault_of(x, code));
}

void kube_exchange_end(struct kube_exchange *x, CURLcode code)
{
	struct kube_http_answer a = {0};
	struct err e = {0};
	curl_off_t retry_after = 0;
	long status = 0;
	int rc = 0;

	(void)curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
	(void)curl_easy_getinfo(x->easy, CURLINFO_RETRY_AFTER, &retry_after);
	log_end(x, code, status);
	if (code != CURLE_OK || x->full)
		rc = exchange_failed(x, code, &e);
	a.status = (int)status;
	a.retry_after_s = retry_after > 0 ? (uint64_t)retry_after : 0;
	a.unsent = code != CURLE_OK && never_sent(x);
	/* a handshake is broken off by a server that restarts, too */
	a.passing = rc == ERR_K8S_UNREACHABLE || rc == ERR_EOF || code == CURLE_SSL_CONNECT_ERROR;
	if (!x->stream || is_refusal(x->easy)) {
		a.body = buf_ptr(&x->body);
		a.len = buf_len(&x->body);
	}
	x->ops->end(x->arg, rc, &e, &a);
	kube_exchange_destroy(x);
}
