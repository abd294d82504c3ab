/* Questions to the API server and their answers: as libcurl's options, in its multi handle, on the loop. */
#define LOG_SUBSYS "kube"
#include "control/kube/client/http.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "control/kube/client/endpoint.h"
#include "control/kube/client/lookup.h"
#include "control/kube/client/tcp.h"
#include "control/kube/client/url.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <uv.h>

#define KEPT_MAX        32            /* idle connections */
#define STREAM_HELD_MAX (1024 * 1024) /* of one stream, before its owner has seen it */

struct kube_http {
	uv_loop_t *loop;
	CURLM *multi;
	uv_timer_t timer;
	TAILQ_HEAD(, kube_exchange) exchanges;
	struct kube_tcp sockets;
	int handles; /* libuv's, not closed */
	bool closing;
};

/* libcurl's socket in the loop. */
struct watched {
	uv_poll_t poll;
	struct kube_http *http;
	curl_socket_t fd;
	int events;
	bool faulted;
};

/*
 * One question and its answer, as libcurl knows it. States: asked; begun (a stream's 2xx came); ended, when its owner
 * is told and it is destroyed.
 */
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

/* --- a question as libcurl's options */

static int add_header(struct kube_exchange *x, const char *fmt, const char *value)
{
	size_t size = strlen(fmt) + strlen(value) + 1;
	char *line = malloc(size);
	struct curl_slist *more = NULL;

	if (line) {
		snprintf(line, size, fmt, value);
		more = curl_slist_append(x->headers, line);
		explicit_bzero(line, size);
	}
	free(line);
	if (!more)
		return ERR_NOMEM;
	x->headers = more;
	return 0;
}

static int add_headers(struct kube_exchange *x, const struct kube_endpoint *ep, const struct kube_http_question *q)
{
	int rc = add_header(x, "Host: %s", ep->host_header);

	if (rc == 0)
		rc = add_header(x, "%s", "Expect:");
	if (rc == 0 && ep->token && ep->tls)
		rc = add_header(x, "Authorization: Bearer %s", ep->token);
	if (rc == 0 && q->accept)
		rc = add_header(x, "Accept: %s", q->accept);
	if (rc == 0)
		rc = add_header(x, q->content_type ? "Content-Type: %s" : "Content-Type:%s",
				q->content_type ? q->content_type : "");
	for (const char *const *more = q->headers; rc == 0 && more && *more; more++)
		rc = add_header(x, "%s", *more);
	return rc == 0 && curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, x->headers) != CURLE_OK ? ERR_NOMEM : rc;
}

static int set_blob(CURL *easy, CURLoption option, const char *data, size_t len)
{
	struct curl_blob blob = {.data = (void *)(uintptr_t)data, .len = len, .flags = CURL_BLOB_COPY};

	return data && curl_easy_setopt(easy, option, &blob) != CURLE_OK ? ERR_NOMEM : 0;
}

static int set_tls(CURL *easy, const struct kube_endpoint *ep)
{
	int rc = set_blob(easy, CURLOPT_CAINFO_BLOB, ep->ca_pem, ep->ca_pem_len);

	if (rc == 0)
		rc = set_blob(easy, CURLOPT_SSLCERT_BLOB, ep->cert_pem, ep->cert_pem_len);
	if (rc == 0)
		rc = set_blob(easy, CURLOPT_SSLKEY_BLOB, ep->key_pem, ep->key_pem_len);
	/* a CA of the cluster's own means that the system's do not count: they would through the directory */
	if (ep->ca_pem)
		(void)curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	(void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, ep->insecure ? 0L : 1L);
	(void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, ep->insecure ? 0L : 2L);
	(void)curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	(void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	return rc;
}

/* The URL carries the name that the certificate must have; where to connect is said apart. */
static int set_target(struct kube_exchange *x, const struct kube_endpoint *ep, const char *path)
{
	const char *name = ep->tls ? ep->tls_server_name : ep->host;
	char *url = kube_url_format(ep->tls ? "https://" : "http://", name, ep->port, ep->base_path, path);
	char *to = kube_url_format("::", ep->host, ep->port, "", "");
	CURLcode rc = url && to ? curl_easy_setopt(x->easy, CURLOPT_URL, url) : CURLE_OUT_OF_MEMORY;

	if (rc == CURLE_OK && strcmp(name, ep->host) != 0) {
		x->connect_to = curl_slist_append(NULL, to);
		rc = x->connect_to ? curl_easy_setopt(x->easy, CURLOPT_CONNECT_TO, x->connect_to) : CURLE_OUT_OF_MEMORY;
	}
	free(url);
	free(to);
	return rc == CURLE_OK ? 0 : ERR_NOMEM;
}

/* libcurl would start a thread for each name it does not know. */
static int set_addresses(struct kube_exchange *x, const struct kube_endpoint *ep)
{
	char *line = NULL;

	if (kube_lookup_numeric(ep->connect_host))
		return 0;
	if (asprintf(&line, "%s:%u:%s", ep->connect_host, ep->connect_port, ep->addresses) < 0)
		return ERR_NOMEM;
	x->resolve = curl_slist_append(NULL, line);
	free(line);
	return x->resolve && curl_easy_setopt(x->easy, CURLOPT_RESOLVE, x->resolve) == CURLE_OK ? 0 : ERR_NOMEM;
}

/* A proxy of the environment does not count: "" switches it off. */
static int set_proxy(CURL *easy, const struct kube_endpoint *ep)
{
	CURLcode rc = curl_easy_setopt(easy, CURLOPT_PROXY, ep->proxy ? ep->proxy : "");

	(void)curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
	if (rc == CURLE_OK && ep->proxy) {
		(void)curl_easy_setopt(easy, CURLOPT_PROXYPORT, (long)ep->connect_port);
		(void)curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
		/* socks5:// in libcurl looks the server's name up on this side; Kubernetes means the other */
		if (strncmp(ep->proxy, "socks5://", 9) == 0) {
			(void)curl_easy_setopt(easy, CURLOPT_PROXYTYPE, (long)CURLPROXY_SOCKS5_HOSTNAME);
			rc = curl_easy_setopt(easy, CURLOPT_PROXY, ep->proxy + 9);
		}
	}
	return rc == CURLE_OK ? 0 : ERR_NOMEM;
}

static int set_method(CURL *easy, const struct kube_http_question *q)
{
	CURLcode rc;

	if (q->body) {
		(void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body_len);
		rc = curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, q->body);
		if (rc != CURLE_OK)
			return ERR_NOMEM;
	}
	if (strcmp(q->method, "GET") == 0 && !q->body)
		rc = curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
	else
		rc = curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, q->method);
	return rc == CURLE_OK ? 0 : ERR_NOMEM;
}

static void set_manners(CURL *easy, uint64_t connect_ms)
{
	(void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms);
	(void)curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
	(void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	(void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	(void)curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 65536L);
}

/* Where to, how protected, what. Both are copied. ERR_NOMEM. */
static int kube_exchange_ask(struct kube_exchange *x, const struct kube_endpoint *ep,
			     const struct kube_http_question *q)
{
	int rc = set_target(x, ep, q->path);

	if (rc == 0)
		rc = set_addresses(x, ep);
	if (rc == 0)
		rc = set_proxy(x->easy, ep);
	if (rc == 0 && ep->tls)
		rc = set_tls(x->easy, ep);
	if (rc == 0)
		rc = set_method(x->easy, q);
	if (rc == 0)
		rc = add_headers(x, ep, q);
	set_manners(x->easy, q->connect_ms);
	return rc;
}

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

/* The exchange is in no multi handle. */
static void kube_exchange_destroy(struct kube_exchange *x)
{
	curl_easy_cleanup(x->easy);
	curl_slist_free_all(x->headers);
	curl_slist_free_all(x->resolve);
	curl_slist_free_all(x->connect_to);
	buf_finish_secret(&x->body); /* a Secret may have been asked for */
	free(x->server);
	free(x);
}

/* Nothing is set yet that the question says. NULL: no memory. */
static struct kube_exchange *kube_exchange_create(struct kube_http *h, const struct kube_endpoint *ep,
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

/* --- what its owner sees */

/* The owner sees the bytes; it may cancel anything meanwhile, so they are taken out first. */
static void kube_exchange_deliver(struct kube_exchange *x)
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

static void kube_exchange_end(struct kube_exchange *x, CURLcode code)
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

static void http_turn(struct kube_http *h);

/* --- the loop */

static void http_release(struct kube_http *h)
{
	if (--h->handles > 0)
		return;
	free(h);
	curl_global_cleanup();
}

static void http_on_timer_closed(uv_handle_t *t)
{
	http_release(t->data);
}

static void http_on_watched_closed(uv_handle_t *p)
{
	struct watched *w = p->data;

	http_release(w->http);
	free(w);
}

static void drive(struct kube_http *h, curl_socket_t fd, int events)
{
	int running;

	(void)curl_multi_socket_action(h->multi, fd, events, &running);
	http_turn(h);
}

static void http_on_poll(uv_poll_t *p, int status, int events)
{
	struct watched *w = p->data;
	int what = 0;

	if (events & UV_READABLE)
		what |= CURL_CSELECT_IN;
	if (events & UV_WRITABLE)
		what |= CURL_CSELECT_OUT;
	if (status < 0 && !w->faulted) {
		/* a reset, say: libuv stops; what came before it is still to be read, and tells more */
		w->faulted = true;
		what = CURL_CSELECT_IN | CURL_CSELECT_OUT;
		(void)uv_poll_start(p, w->events, http_on_poll);
	} else if (status < 0) {
		what = CURL_CSELECT_ERR;
	}
	drive(w->http, w->fd, what);
}

static void http_on_timer(uv_timer_t *t)
{
	drive(t->data, CURL_SOCKET_TIMEOUT, 0);
}

static int http_on_curl_timer(CURLM *multi, long ms, void *arg)
{
	struct kube_http *h = arg;

	(void)multi;
	if (ms < 0 || h->closing)
		(void)uv_timer_stop(&h->timer);
	else
		(void)uv_timer_start(&h->timer, http_on_timer, (uint64_t)ms, 0);
	return 0;
}

static struct watched *http_watch(struct kube_http *h, curl_socket_t fd)
{
	struct watched *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	if (uv_poll_init(h->loop, &w->poll, fd) < 0) {
		free(w);
		return NULL;
	}
	w->poll.data = w;
	w->http = h;
	w->fd = fd;
	h->handles++;
	(void)curl_multi_assign(h->multi, fd, w);
	return w;
}

static int http_on_curl_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *of_socket)
{
	struct kube_http *h = arg;
	struct watched *w = of_socket;

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (w) {
			(void)curl_multi_assign(h->multi, fd, NULL);
			(void)uv_poll_stop(&w->poll);
			uv_close((uv_handle_t *)&w->poll, http_on_watched_closed);
		}
		return 0;
	}
	if (!w)
		w = http_watch(h, fd);
	if (!w)
		return -1;
	w->events = (what != CURL_POLL_OUT ? UV_READABLE : 0) | (what != CURL_POLL_IN ? UV_WRITABLE : 0);
	return uv_poll_start(&w->poll, w->events, http_on_poll) < 0 ? -1 : 0;
}

/* --- sockets */

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	struct kube_http *h = arg;

	(void)purpose;
	return kube_tcp_open(&h->sockets, a->family, a->socktype, a->protocol);
}

static int close_socket(void *arg, curl_socket_t fd)
{
	struct kube_http *h = arg;

	return kube_tcp_close(&h->sockets, fd);
}

static void use_our_sockets(struct kube_exchange *x)
{
	(void)curl_easy_setopt(x->easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	(void)curl_easy_setopt(x->easy, CURLOPT_OPENSOCKETDATA, x->http);
	(void)curl_easy_setopt(x->easy, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
	(void)curl_easy_setopt(x->easy, CURLOPT_CLOSESOCKETDATA, x->http);
}

/*
 * libcurl would go on putting others on a dead connection. Shut, it fails them at once, and they go elsewhere. Which
 * one an exchange is on, libcurl tells by its local port alone while the exchange lasts.
 */
static void shut_if_silent(struct kube_exchange *x, uint64_t silent_ms)
{
	long port = 0;

	if (curl_easy_getinfo(x->easy, CURLINFO_LOCAL_PORT, &port) == CURLE_OK && port != 0 &&
	    kube_tcp_give_up(&x->http->sockets, (int)port, silent_ms) > 0)
		log_debug(NULL, "%s: nothing for %llu ms, the connection is given up", x->server,
			  (unsigned long long)silent_ms);
}

static void detach(struct kube_exchange *x)
{
	(void)curl_multi_remove_handle(x->http->multi, x->easy);
	TAILQ_REMOVE(&x->http->exchanges, x, entry);
}

/* --- after libcurl */

static struct kube_exchange *first_ready(struct kube_http *h)
{
	struct kube_exchange *x;

	TAILQ_FOREACH(x, &h->exchanges, entry)
	if (x->ready)
		return x;
	return NULL;
}

static void deliver_all(struct kube_http *h)
{
	struct kube_exchange *x;

	while (!h->closing && (x = first_ready(h)))
		kube_exchange_deliver(x);
}

static void http_turn(struct kube_http *h)
{
	struct kube_exchange *x;
	CURLMsg *m;
	int left;

	/* what an exchange got comes before its end, also when an end() of another moved things */
	while (deliver_all(h), !h->closing && (m = curl_multi_info_read(h->multi, &left))) {
		CURLcode code = m->data.result;
		char *private = NULL;
		if (m->msg != CURLMSG_DONE)
			continue;
		(void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &private);
		x = (struct kube_exchange *)private;
		detach(x);
		kube_exchange_end(x, code);
	}
}

/* --- exchanges */

int kube_http_start(struct kube_http *h, const struct kube_endpoint *ep, const struct kube_http_question *q,
		    const struct kube_http_ops *ops, void *arg, struct kube_exchange **out, struct err *e)
{
	struct kube_exchange *x = kube_exchange_create(h, ep, q);
	int rc = x ? kube_exchange_ask(x, ep, q) : ERR_NOMEM;

	if (x)
		use_our_sockets(x);
	if (rc == 0 && curl_multi_add_handle(h->multi, x->easy) != CURLM_OK)
		rc = ERR_NOMEM;
	if (rc < 0) {
		if (x)
			kube_exchange_destroy(x);
		return err_set(e, rc, "%s: no memory for a request", ep->server);
	}
	x->ops = ops;
	x->arg = arg;
	TAILQ_INSERT_TAIL(&h->exchanges, x, entry);
	*out = x;
	return 0;
}

void kube_http_cancel(struct kube_exchange *x, uint64_t silent_ms)
{
	if (!x)
		return;
	if (silent_ms)
		shut_if_silent(x, silent_ms);
	detach(x);
	kube_exchange_destroy(x);
}

/* --- life */

static int set_multi(struct kube_http *h)
{
	CURLMcode rc = curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, http_on_curl_socket);

	if (rc == CURLM_OK)
		rc = curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h);
	if (rc == CURLM_OK)
		rc = curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, http_on_curl_timer);
	if (rc == CURLM_OK)
		rc = curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h);
	if (rc == CURLM_OK)
		rc = curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)KEPT_MAX);
	return rc == CURLM_OK ? 0 : ERR_NOMEM;
}

int kube_http_create(struct uv_loop_s *loop, struct kube_http **out, struct err *e)
{
	struct kube_http *h = calloc(1, sizeof(*h));

	if (!h)
		return err_set(e, ERR_NOMEM, "no memory for HTTP");
	/* counted by libcurl; http_release() gives it back */
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		free(h);
		return err_set(e, ERR_NOMEM, "libcurl cannot be initialised");
	}
	h->loop = loop;
	TAILQ_INIT(&h->exchanges);
	TAILQ_INIT(&h->sockets);
	h->multi = curl_multi_init();
	if (!h->multi || set_multi(h) < 0) {
		(void)curl_multi_cleanup(h->multi);
		curl_global_cleanup();
		free(h);
		return err_set(e, ERR_NOMEM, "no memory for HTTP");
	}
	(void)uv_timer_init(loop, &h->timer);
	h->timer.data = h;
	h->handles = 1;
	*out = h;
	return 0;
}

void kube_http_destroy(struct kube_http *h)
{
	struct kube_exchange *x;

	if (!h)
		return;
	h->closing = true;
	while ((x = TAILQ_FIRST(&h->exchanges))) {
		detach(x);
		kube_exchange_destroy(x);
	}
	(void)curl_multi_cleanup(h->multi);
	h->multi = NULL;
	uv_close((uv_handle_t *)&h->timer, http_on_timer_closed);
}
