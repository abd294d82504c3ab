/* Addresses in turn, the socket and its poll. */
#define LOG_SUBSYS "kube"
#include "control/kube/exec/rc_ws_state.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "control/kube/client/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- the way there */

static void wipe(char **s)
{
	if (*s)
		explicit_bzero(*s, strlen(*s));
	free(*s);
	*s = NULL;
}

/* "user:s%40cret@proxy:3128" to "Basic ..."; NULL without a user. */
static int proxy_user(const char *from, char **out, struct err *e)
{
	size_t n = strcspn(from, "@/"), len = 0;
	char *plain, *text = NULL;
	unsigned v;

	if (from[n] != '@')
		return 0;
	plain = malloc(n + 1);
	for (size_t i = 0; plain && i < n; i++) {
		plain[len] = from[i];
		if (from[i] == '%' && n - i > 2 && sscanf(from + i + 1, "%2x", &v) == 1) {
			plain[len] = (char)v;
			i += 2;
		}
		len++;
	}
	text = plain ? base64_encode(plain, len, false) : NULL;
	if (text && asprintf(out, "Basic %s", text) < 0)
		*out = NULL;
	if (plain)
		explicit_bzero(plain, n + 1);
	free(plain);
	wipe(&text);
	return *out ? 0 : err_set(e, ERR_NOMEM, "out of memory");
}

static int copy_proxy(struct rc_ws *w, const struct kube_endpoint *ep, struct err *e)
{
	if (!ep->proxy)
		return 0;
	if (strncmp(ep->proxy, "http://", 7) != 0)
		return err_set(e, ERR_UNSUPPORTED, "exec through this kind of proxy is not possible: http:// alone is");
	if (asprintf(&w->proxy_host, strchr(ep->host, ':') ? "[%s]:%u" : "%s:%u", ep->host, ep->port) < 0) {
		w->proxy_host = NULL;
		return err_set(e, ERR_NOMEM, "out of memory");
	}
	return proxy_user(ep->proxy + 7, &w->proxy_auth, e);
}

int rc_ws_copy_way(struct rc_ws *w, const struct kube_endpoint *ep, struct err *e)
{
	w->server = strdup(ep->server);
	w->addresses = strdup(ep->addresses);
	w->next = w->addresses;
	w->connect_port = ep->connect_port;
	if (!w->server || !w->addresses)
		return err_set(e, ERR_NOMEM, "out of memory");
	return copy_proxy(w, ep, e);
}

void rc_ws_free_way(struct rc_ws *w)
{
	free(w->server);
	free(w->addresses);
	free(w->proxy_host);
	wipe(&w->proxy_auth);
}

/* --- the socket */

static void on_closed(uv_handle_t *h)
{
	free(h);
}

/* The descriptor goes now, the rest when the loop has turned: it is no concern of w any more. */
void rc_ws_drop_socket(struct rc_ws *w)
{
	struct rc_ws_socket *s = w->socket;

	SSL_free(w->ssl);
	w->ssl = NULL;
	if (!s)
		return;
	w->socket = NULL;
	(void)uv_poll_stop(&s->poll); /* takes it out of epoll: a child that was just forked keeps it open */
	s->poll.data = NULL;
	uv_close((uv_handle_t *)&s->poll, on_closed);
	close(s->fd);
}

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct rc_ws *w = h->data;

	if (status < 0) {
		/* libuv stopped the poll. What the server said before it hung up is still there to be read. */
		w->hung_up = w->mute = true;
		w->socket->polled = 0;
		events = UV_READABLE | UV_WRITABLE;
	}
	rc_ws_step(w, events);
}

static int wanted(const struct rc_ws *w)
{
	int out = buf_len(&w->out) && !w->mute ? UV_WRITABLE : 0;

	if (w->state == RC_WS_CONNECTING)
		return UV_WRITABLE;
	if (w->state == RC_WS_DEAD)
		return 0;
	return out | (w->state < RC_WS_OPEN || w->reading ? UV_READABLE : 0);
}

void rc_ws_update_poll(struct rc_ws *w)
{
	int want = wanted(w);

	if (!w->socket)
		return;
	if (w->hung_up) {
		/* the loop tells no more of this socket */
		if (want)
			rc_task_queue(w->client, &w->task);
		return;
	}
	if (want != w->socket->polled) {
		if (want)
			(void)uv_poll_start(&w->socket->poll, want, on_poll);
		else
			(void)uv_poll_stop(&w->socket->poll);
		w->socket->polled = want;
	}
	if (w->state == RC_WS_OPEN &&
	    ((w->reading && rc_ws_holds_input(w)) || ((w->want_write || w->pong_due) && !w->mute && !buf_len(&w->out))))
		rc_task_queue(w->client, &w->task);
}

/* --- addresses */

static int sockaddr_of(const struct rc_ws *w, struct sockaddr_storage *sa, socklen_t *len)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)sa;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)sa;

	memset(sa, 0, sizeof(*sa));
	if (inet_pton(AF_INET, w->address, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(w->connect_port);
		*len = sizeof(*v4);
	} else if (inet_pton(AF_INET6, w->address, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(w->connect_port);
		*len = sizeof(*v6);
	} else {
		return EAFNOSUPPORT;
	}
	return 0;
}

/* 0, or errno. */
static int begin_connect(struct rc_ws *w)
{
	struct rc_ws_socket *s = calloc(1, sizeof(*s));
	struct sockaddr_storage sa;
	socklen_t len = 0;
	int one = 1, rc = s ? sockaddr_of(w, &sa, &len) : ENOMEM;

	if (rc == 0) {
		s->fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		rc = s->fd < 0 ? errno : 0;
	}
	if (rc) {
		free(s);
		return rc;
	}
	(void)setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(s->fd, (struct sockaddr *)&sa, len) && errno != EINPROGRESS)
		rc = errno;
	if (rc == 0)
		rc = -uv_poll_init(w->client->loop, &s->poll, s->fd);
	if (rc) {
		close(s->fd);
		free(s);
		return rc;
	}
	s->poll.data = w;
	w->socket = s;
	return 0;
}

void rc_ws_try_address(struct rc_ws *w)
{
	uint64_t now = clock_boot_ns(), left = w->deadline_ns > now ? w->deadline_ns - now : 0;
	unsigned shares = w->next ? 2 : 1;
	int rc;

	for (const char *s = w->next; s && (s = strchr(s, ',')); s++)
		shares++;
	w->attempt_ns = now + left / shares;
	rc_ws_start_timer(w);
	rc = begin_connect(w);
	if (rc)
		rc_ws_address_failed(w, rc);
}

void rc_ws_next_address(struct rc_ws *w)
{
	size_t n;

	rc_ws_set_state(w, RC_WS_CONNECTING);
	w->hung_up = w->mute = w->ended = false;
	buf_finish_secret(&w->out);
	buf_clear(&w->answer);
	if (!w->next) {
		w->end.how = RC_WS_END_FAILED;
		rc_ws_tell_end(w);
		return;
	}
	n = strcspn(w->next, ",");
	text_format(w->address, sizeof(w->address), "%.*s", (int)n, w->next);
	w->next = w->next[n] ? w->next + n + 1 : NULL;
	rc_task_queue(w->client, &w->task);
}

/* The last one's reason is what is told. */
void rc_ws_address_failed(struct rc_ws *w, int errnum)
{
	err_set(&w->end.err, ERR_K8S_UNREACHABLE, "%s (%s): %s", w->server, w->address, strerror(errnum));
	rc_ws_drop_socket(w);
	rc_ws_next_address(w);
}

bool rc_ws_connected(struct rc_ws *w)
{
	int errnum = 0;
	socklen_t len = sizeof(errnum);

	if (getsockopt(w->socket->fd, SOL_SOCKET, SO_ERROR, &errnum, &len) || errnum || w->hung_up) {
		rc_ws_address_failed(w, errnum ? errnum : ECONNABORTED);
		return false;
	}
	w->next = NULL;
	w->end.err.code = 0;
	w->attempt_ns = w->deadline_ns;
	rc_ws_start_timer(w);
	return true;
}
