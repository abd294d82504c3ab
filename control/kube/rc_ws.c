#define LOG_SUBSYS "kube"
#include "control/kube/rc_ws_state.h"

#include "control/kube/endpoint.h"
#include "control/kube/rc_target.h"
#include "control/kube/remotecommand.h"
#include "muxd/base/clock.h"
#include "muxd/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_MAX       (RC_TARGET_MAX + KUBE_TOKEN_MAX + 4096)
#define PROXY_USER_MAX 95 /* user, colon, password: libwebsockets has no room for more */

static void step(struct rc_ws *w, int events);

void rc_ws_set_state(struct rc_ws *w, enum rc_ws_state s)
{
	static const char *const names[] = {"connecting", "tls", "asked", "refused", "open", "dead"};

	if (w->state == s)
		return;
	log_debug(NULL, "exec at %s: %s to %s", w->server, names[w->state], names[s]);
	w->state = s;
}

/* --- handles, memory */

static void free_ws(struct rc_ws *w)
{
	if (w->proxy)
		explicit_bzero(w->proxy, strlen(w->proxy));
	free(w->proxy);
	free(w->server);
	free(w->host);
	free(w->addresses);
	buf_finish_secret(&w->head);
	buf_finish(&w->answer);
	rc_tls_destroy(w->tls);
	rc_client_unref(w->client);
	free(w);
}

static void on_timer_closed(uv_handle_t *h)
{
	free_ws(h->data);
}

static void on_poll_closed(uv_handle_t *h)
{
	free(h);
}

/* The duplicate goes now, the rest when the loop has turned: it is no concern of w any more. */
void rc_ws_drop_poll(struct rc_ws *w)
{
	struct rc_ws_poll *p = w->poll;

	if (!p)
		return;
	w->poll = NULL;
	w->polled = 0;
	(void)uv_poll_stop(&p->h);
	p->h.data = NULL;
	uv_close((uv_handle_t *)&p->h, on_poll_closed);
	close(p->fd);
}

/* --- polling */

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct rc_ws *w = h->data;

	if (status < 0) {
		/* libuv stopped the poll. What the server said before it hung up is still there to be read. */
		w->hung_up = w->mute = true;
		w->polled = 0;
		events = w->state == RC_WS_CONNECTING ? UV_WRITABLE : UV_READABLE;
	}
	step(w, events);
}

static int add_poll(struct rc_ws *w, struct err *e)
{
	struct rc_ws_poll *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return err_set(e, ERR_NOMEM, "out of memory");
	p->fd = fcntl(rc_ws_lws_fd(w), F_DUPFD_CLOEXEC, 0);
	if (p->fd < 0) {
		free(p);
		return err_sys(e, errno, "a second descriptor for a connection");
	}
	rc = uv_poll_init(w->client->loop, &p->h, p->fd);
	if (rc) {
		close(p->fd);
		free(p);
		return err_sys(e, -rc, "polling a connection");
	}
	p->h.data = w;
	w->poll = p;
	w->polled = 0;
	return 0;
}

static int wanted(const struct rc_ws *w)
{
	switch (w->state) {
	case RC_WS_CONNECTING:
		return UV_WRITABLE;
	case RC_WS_TLS:
		return UV_READABLE | (rc_ws_lws_wants_out(w) ? UV_WRITABLE : 0);
	case RC_WS_ASKED:
		return w->looks ? 0 : UV_READABLE;
	case RC_WS_REFUSED:
		return UV_READABLE;
	case RC_WS_OPEN:
		return (w->reading ? UV_READABLE : 0) | (rc_ws_lws_backlog(w) && !w->mute ? UV_WRITABLE : 0);
	default:
		return 0;
	}
}

static void update_poll(struct rc_ws *w)
{
	int want = wanted(w);

	if (!w->poll || !w->wsi)
		return;
	if (w->hung_up) {
		/* the loop tells no more of this socket */
		if (want & (UV_READABLE | UV_WRITABLE))
			rc_task_queue(w->client, &w->task);
		return;
	}
	if (want != w->polled) {
		if (want)
			(void)uv_poll_start(&w->poll->h, want, on_poll);
		else
			(void)uv_poll_stop(&w->poll->h);
		w->polled = want;
	}
	if (w->state == RC_WS_OPEN && w->want_write && !w->mute && !(want & UV_WRITABLE))
		rc_task_queue(w->client, &w->task);
}

/* --- the end */

void rc_ws_tell_end(struct rc_ws *w)
{
	const struct rc_ws_ops *ops = w->ops;

	if (w->told)
		return;
	w->told = true;
	rc_ws_set_state(w, RC_WS_DEAD);
	(void)uv_timer_stop(&w->timer);
	rc_task_cancel(w->client, &w->task);
	buf_finish_secret(&w->head);
	if (ops)
		ops->end(w->arg, &w->end);
}

void rc_ws_fail(struct rc_ws *w, int code, const char *why)
{
	w->end.how = RC_WS_END_FAILED;
	w->end.asked = w->state >= RC_WS_ASKED && code != ERR_K8S_TLS;
	if (why)
		err_set(&w->end.err, code, "%s (%s): %s", w->server, w->address, why);
	rc_ws_lws_kill(w);
	rc_ws_drop_poll(w);
	rc_ws_tell_end(w);
}

/* Whatever was on the way when the connection went before it was open. */
static void fail_early(struct rc_ws *w)
{
	char words[256], why[ERR_MESSAGE_MAX];
	struct err said = w->end.err;

	if (w->state == RC_WS_ASKED && w->tls && rc_tls_refused(w->tls)) {
		/* TLS 1.3: what a server thinks of our certificate comes after the handshake */
		rc_ws_fail(w, ERR_K8S_TLS, rc_tls_words(w->tls, words, sizeof(words)));
	} else if (w->state == RC_WS_TLS && w->proxy && !w->proxy_fine) {
		snprintf(why, sizeof(why), "the proxy %s", *w->proxy_said ? w->proxy_said : "hung up");
		rc_ws_fail(w, ERR_K8S_UNREACHABLE, why);
	} else if (w->state == RC_WS_TLS && w->tls && said.code != ERR_NOMEM) {
		rc_ws_fail(w, ERR_K8S_TLS, rc_tls_words(w->tls, words, sizeof(words)));
	} else if (said.code) {
		snprintf(why, sizeof(why), "%s", said.message);
		rc_ws_fail(w, said.code, why);
	} else {
		rc_ws_fail(w, ERR_K8S_UNREACHABLE, "the server hung up before it answered");
	}
}

/* --- connecting */

/* The present address did not work; the last one's reason is what is told. */
static void refused_here(struct rc_ws *w, int errnum)
{
	err_set(&w->end.err, ERR_K8S_UNREACHABLE, "%s (%s): %s", w->server, w->address, strerror(errnum));
	rc_ws_lws_kill(w);
	rc_ws_drop_poll(w);
	rc_ws_next_address(w);
}

static void on_timer(uv_timer_t *t);

/* ms from now, or at the end of what the present attempt may take. */
void rc_ws_start_timer(struct rc_ws *w, uint64_t ms)
{
	uint64_t now = clock_boot_ns(), left = w->attempt_ns > now ? (w->attempt_ns - now) / NS_PER_MS + 1 : 0;

	(void)uv_timer_start(&w->timer, on_timer, ms < left ? ms : left, 0);
}

static int vhost_for(struct rc_ws *w, struct err *e)
{
	char proxy[512];

	if (!w->proxy)
		return rc_client_vhost(w->client, NULL, &w->vhost, e);
	if (snprintf(proxy, sizeof(proxy), strchr(w->address, ':') ? "%s[%s]:%u" : "%s%s:%u", w->proxy, w->address,
		     w->connect_port) >= (int)sizeof(proxy))
		return err_set(e, ERR_UNSUPPORTED, "the proxy's user and password are too long");
	int rc = rc_client_vhost(w->client, proxy, &w->vhost, e);

	explicit_bzero(proxy, sizeof(proxy));
	return rc;
}

static void try_address(struct rc_ws *w)
{
	uint64_t now = clock_boot_ns(), left = w->deadline_ns > now ? w->deadline_ns - now : 0;
	unsigned shares = 1;
	struct err e = {0};

	for (const char *s = w->next; s && *s; s += strcspn(s, ",") + 1) {
		shares++;
		if (!strchr(s, ','))
			break;
	}
	w->attempt_ns = now + left / shares;
	rc_ws_start_timer(w, UINT64_MAX);
	if (vhost_for(w, &e) == 0 && rc_ws_lws_connect(w, &e) == 0 && add_poll(w, &e) == 0) {
		update_poll(w);
		return;
	}
	w->end.err = e;
	rc_ws_lws_kill(w);
	rc_ws_drop_poll(w);
	rc_ws_next_address(w);
}

void rc_ws_next_address(struct rc_ws *w)
{
	size_t n;

	rc_ws_set_state(w, RC_WS_CONNECTING);
	w->hung_up = w->mute = w->proxy_fine = false;
	if (!w->next || !w->ops) {
		w->end.how = RC_WS_END_FAILED;
		rc_ws_tell_end(w);
		return;
	}
	n = strcspn(w->next, ",");
	snprintf(w->address, sizeof(w->address), "%.*s", (int)n, w->next);
	w->next = w->next[n] ? w->next + n + 1 : NULL;
	rc_task_queue(w->client, &w->task);
}

static void connected(struct rc_ws *w)
{
	int errnum = 0;
	socklen_t len = sizeof(errnum);

	if (getsockopt(w->poll->fd, SOL_SOCKET, SO_ERROR, &errnum, &len) || errnum) {
		refused_here(w, errnum ? errnum : errno);
		return;
	}
	w->next = NULL;
	rc_ws_set_state(w, RC_WS_TLS);
	w->attempt_ns = w->deadline_ns;
	rc_ws_start_timer(w, UINT64_MAX);
	rc_ws_lws_serve(w, POLLOUT);
}

static void on_timer(uv_timer_t *t)
{
	struct rc_ws *w = t->data;
	static const char *const what[] = {"no connection in time", "no TLS in time", "no answer in time"};

	if (clock_boot_ns() < w->attempt_ns) {
		rc_ws_start_timer(w, UINT64_MAX);
		step(w, UV_READABLE);
	} else if (w->state == RC_WS_CONNECTING && w->next) {
		refused_here(w, ETIMEDOUT);
	} else if (w->state == RC_WS_REFUSED) {
		w->hung_up = true;
		step(w, UV_READABLE);
	} else if (w->state <= RC_WS_ASKED) {
		rc_ws_fail(w, ERR_TIMEOUT, what[w->state]);
	}
}

/* --- what the socket is ready for */

/* Without TLS a write to a connection that was hung up would end reading, too: see rc_ws.h. */
static bool may_write(struct rc_ws *w)
{
	struct pollfd p = {.fd = w->poll->fd, .events = POLLRDHUP};

	if (!w->mute && !w->tls && poll(&p, 1, 0) > 0)
		w->mute = true;
	return !w->mute;
}

static void step_open(struct rc_ws *w, bool read)
{
	if (read)
		rc_ws_lws_serve(w, POLLIN);
	/* pongs and close frames that libwebsockets owes go out here, too */
	if (w->wsi && w->ops && may_write(w))
		rc_ws_lws_serve(w, POLLOUT);
	if (w->peer_closed)
		rc_ws_lws_kill(w);
}

static void step_early(struct rc_ws *w, int events)
{
	if (w->state == RC_WS_CONNECTING) {
		if (w->poll && (events & UV_WRITABLE))
			connected(w);
		else if (!w->poll)
			try_address(w);
		return;
	}
	if (w->state == RC_WS_TLS) {
		if (!w->proxy || w->proxy_fine || rc_ws_look_at_proxy(w))
			rc_ws_lws_serve(
			    w, (short)((events & UV_READABLE ? POLLIN : 0) | (events & UV_WRITABLE ? POLLOUT : 0)));
		return;
	}
	if (w->state == RC_WS_ASKED && !w->answer_is_101)
		rc_ws_look_at_answer(w);
	if (w->state == RC_WS_ASKED && w->answer_is_101)
		rc_ws_lws_serve(w, POLLIN);
	if (w->state == RC_WS_REFUSED)
		rc_ws_read_refusal(w);
	/* what came behind the 101 waits inside libwebsockets, where no poll sees it */
	if (w->state == RC_WS_OPEN && w->wsi) {
		(void)uv_timer_stop(&w->timer);
		buf_finish_secret(&w->head);
		step_open(w, true);
	}
}

static void release(struct rc_ws *w)
{
	if (w->released)
		return;
	w->released = true;
	rc_ws_lws_kill(w);
	rc_ws_drop_poll(w);
	rc_task_cancel(w->client, &w->task);
	rc_ws_set_state(w, RC_WS_DEAD);
	uv_close((uv_handle_t *)&w->timer, on_timer_closed);
}

static void settle(struct rc_ws *w);

static void step(struct rc_ws *w, int events)
{
	if (w->state == RC_WS_DEAD)
		return;
	if (w->state == RC_WS_OPEN)
		step_open(w, (events & UV_READABLE) && w->reading);
	else
		step_early(w, events);
	settle(w);
}

/* After libwebsockets had its turn: closed meanwhile, over, or polled for what is wanted now. */
static void settle(struct rc_ws *w)
{
	if (w->state == RC_WS_DEAD)
		return;
	if (!w->ops) {
		release(w);
	} else if (!w->wsi && w->state == RC_WS_OPEN) {
		rc_ws_drop_poll(w);
		w->end.how = w->peer_closed ? RC_WS_END_CLOSED : RC_WS_END_LOST;
		if (!w->peer_closed)
			err_set(&w->end.err, ERR_LINK_LOST, "%s: the connection %s", w->server,
				w->hung_up ? "was reset" : "ended without a word");
		rc_ws_tell_end(w);
	} else if (!w->wsi && w->end.how == RC_WS_END_REFUSED) {
		rc_ws_drop_poll(w);
		rc_ws_tell_end(w);
	} else if (!w->wsi && w->state != RC_WS_CONNECTING) {
		fail_early(w);
	} else {
		update_poll(w);
	}
}

static void on_task(void *arg)
{
	struct rc_ws *w = arg;

	if (!w->ops)
		release(w);
	else if (w->state == RC_WS_OPEN)
		step(w, w->hung_up ? UV_READABLE : 0);
	else
		step(w, UV_READABLE);
}

/* --- what the stream calls */

/* "http://user:s%40cret@proxy:3128" to "user:s@cret@"; "" without a user. */
static int proxy_user(const char *proxy, char **out, struct err *e)
{
	const char *from = proxy + strlen("http://"), *at;
	char *to;

	if (strncmp(proxy, "http://", strlen("http://")) != 0)
		return err_set(e, ERR_UNSUPPORTED, "exec through this kind of proxy is not possible: http:// alone is");
	at = from + strcspn(from, "@/");
	*out = to = calloc(1, (size_t)(at - from) + 2);
	if (!to)
		return err_set(e, ERR_NOMEM, "out of memory");
	if (*at != '@')
		return 0;
	for (; from < at; from++, to++) {
		unsigned v;

		*to = *from;
		if (*from == '%' && at - from > 2 && sscanf(from + 1, "%2x", &v) == 1) {
			*to = (char)v;
			from += 2;
		}
	}
	*to = '@';
	if (to - *out <= PROXY_USER_MAX)
		return 0;
	return err_set(e, ERR_UNSUPPORTED, "a proxy's user and password may be %d bytes long", PROXY_USER_MAX);
}

static int copy_endpoint(struct rc_ws *w, const struct kube_endpoint *ep, struct err *e)
{
	w->server = strdup(ep->server);
	w->host = strdup(ep->host);
	w->addresses = strdup(ep->addresses);
	w->next = w->addresses;
	w->port = ep->port;
	w->connect_port = ep->connect_port;
	if (!w->server || !w->host || !w->addresses)
		return err_set(e, ERR_NOMEM, "out of memory");
	if (ep->proxy && proxy_user(ep->proxy, &w->proxy, e))
		return e && e->code ? e->code : ERR_UNSUPPORTED;
	return ep->tls ? rc_tls_create(ep, ep->ca_pem || ep->insecure ? NULL : rc_client_trust(w->client), &w->tls, e)
		       : 0;
}

int rc_ws_open(struct rc_client *c, const struct kube_endpoint *ep, const char *target, const char *protocols,
	       uint32_t connect_ms, const struct rc_ws_ops *ops, void *arg, struct rc_ws **out, struct err *e)
{
	struct rc_ws *w = calloc(1, sizeof(*w));
	struct err mine = {0};
	int rc;

	if (!w)
		return err_set(e, ERR_NOMEM, "out of memory");
	*w = (struct rc_ws){.client = c, .ops = ops, .arg = arg, .reading = true};
	w->task = (struct rc_task){.run = on_task, .arg = w};
	buf_init(&w->head, HEAD_MAX);
	buf_init(&w->answer, RC_REFUSAL_MAX);
	rc_client_ref(c);
	snprintf(w->offer, sizeof(w->offer), "%s", protocols);
	rc = copy_endpoint(w, ep, &mine);
	if (rc == 0)
		rc = rc_request_head(ep, target, protocols, &w->head, &mine);
	if (rc) {
		free_ws(w);
		return err_set(e, rc, "%s", mine.message);
	}
	(void)uv_timer_init(c->loop, &w->timer); /* cannot fail */
	w->timer.data = w;
	w->deadline_ns = clock_boot_ns() + connect_ms * NS_PER_MS;
	rc_ws_next_address(w);
	*out = w;
	return 0;
}

void rc_ws_close(struct rc_ws *w)
{
	if (!w || !w->ops)
		return;
	w->ops = NULL;
	if (!w->client->serving)
		release(w);
	else
		rc_task_queue(w->client, &w->task);
}

void rc_ws_read(struct rc_ws *w, bool on)
{
	if (w->reading == on || w->state != RC_WS_OPEN)
		return;
	w->reading = on;
	if (w->client->serving != w)
		update_poll(w);
}

void rc_ws_want_write(struct rc_ws *w)
{
	if (w->want_write)
		return;
	w->want_write = true;
	if (w->state == RC_WS_OPEN && w->client->serving != w)
		update_poll(w);
}

uint32_t rc_ws_silent_ms(const struct rc_ws *w)
{
	struct tcp_info i = {0};
	socklen_t len = sizeof(i);

	if (!w->poll || getsockopt(w->poll->fd, IPPROTO_TCP, TCP_INFO, &i, &len))
		return 0;
	return i.tcpi_unacked > 0 || i.tcpi_probes > 1 ? i.tcpi_last_ack_recv : 0;
}
