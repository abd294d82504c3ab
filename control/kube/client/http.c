#define LOG_SUBSYS "kube"
#include "control/kube/client/http.h"

#include "base/err.h"
#include "base/log.h"
#include "control/kube/client/endpoint.h"
#include "control/kube/client/http_exchange.h"
#include "control/kube/client/tcp.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <uv.h>

#define KEPT_MAX 32 /* idle connections */

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
