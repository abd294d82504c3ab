/* The plain backend at the top: peers are made and go, their descriptors are read and written, their turns come. */
#define LOG_SUBSYS "plain"
#include "muxd/plain/peer.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/sock.h"
#include "muxd/plain/plain.h"

#include <errno.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define IN_CAP FRAME_MAX

static void free_plain_if_done(struct plain *pl)
{
	if (pl->closing && TAILQ_EMPTY(&pl->peers))
		free(pl);
}

static void free_peer(struct plain_peer *p)
{
	free(p->agent);
	free(p->ns);
	free(p->pod);
	free(p->container);
	free(p->visitor);
	free(p->muxlet);
	free(p->in);
	buf_finish(&p->out);
	buf_finish(&p->look_text);
	buf_finish(&p->sweep_text);
	explicit_bzero(p, sizeof(*p));
	free(p);
}

static void plain_on_handle_closed(uv_handle_t *h)
{
	struct plain_peer *p = h->data;
	struct plain *pl = p->plain;

	if (--p->handles)
		return;
	TAILQ_REMOVE(&pl->peers, p, entry);
	free_peer(p);
	free_plain_if_done(pl);
}

static void peer_close(struct plain_peer *p, const char *why)
{
	struct plain_channel *c;

	if (p->state == PEER_CLOSED)
		return;
	log_debug(&(struct log_ids){.agent = p->agent}, "peer ends: %s", why);
	p->state = PEER_CLOSED;
	look_stop(p);
	while ((c = TAILQ_FIRST(&p->channels)))
		plain_channel_destroy(c);
	sweep_stop(p);
	uv_close((uv_handle_t *)&p->poll, plain_on_handle_closed);
	uv_close((uv_handle_t *)&p->timer, plain_on_handle_closed);
	uv_close((uv_handle_t *)&p->prepare, plain_on_handle_closed);
	close(p->fd);
	p->fd = -1;
}

/* ---- out */

static void plain_on_poll(uv_poll_t *h, int status, int events);

static void plain_watch(struct plain_peer *p)
{
	uv_poll_start(&p->poll, UV_READABLE | (p->writing ? UV_WRITABLE : 0), plain_on_poll);
}

static void plain_flush(struct plain_peer *p)
{
	while (buf_len(&p->out)) {
		ssize_t n = send(p->fd, buf_ptr(&p->out), buf_len(&p->out), MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			peer_close(p, strerror(errno));
			return;
		}
		if (n < 0)
			break;
		buf_consume(&p->out, (size_t)n);
	}
	if (p->writing != (buf_len(&p->out) > 0)) {
		p->writing = buf_len(&p->out) > 0;
		plain_watch(p);
	}
}

/* Output in turns: a quantum of each channel is what its held bytes and the window make it. */
static void pump(struct plain_peer *p)
{
	struct plain_channel *c, *next;

	for (c = TAILQ_FIRST(&p->channels); c; c = next) {
		next = TAILQ_NEXT(c, entry);
		channel_pump(c);
		channel_settle(c);
	}
	if (p->turn)
		channel_start_waiting(p);
}

static void arm_timer(struct plain_peer *p);

/* Before the loop sleeps: whatever marked the peer due, its turn comes then. */
static void plain_on_prepare(uv_prepare_t *h)
{
	struct plain_peer *p = h->data;
	bool due = p->due;

	p->due = false;
	if (due && p->state == PEER_UP)
		pump(p);
	if (p->broken)
		peer_close(p, "too much waits for the hub");
	if (due && p->state != PEER_CLOSED)
		plain_flush(p);
	if (p->retime && p->state != PEER_CLOSED)
		arm_timer(p);
}

/* ---- in */

static int room_for(struct plain_peer *p, size_t size)
{
	uint8_t *bigger;

	if (size <= p->in_cap)
		return 0;
	bigger = p->state == PEER_UP ? realloc(p->in, size) : NULL;
	if (!bigger)
		return -1;
	p->in = bigger;
	p->in_cap = size;
	return 0;
}

static void take_frames(struct plain_peer *p)
{
	size_t at = 0, size = 0;
	const char *why = "";
	struct frame f;
	int rc;

	while ((rc = frame_decode(p->in + at, p->in_len - at, 'H', &f, &size, &why)) > 0) {
		if (request_handle(p, &f)) {
			peer_close(p, p->why);
			return;
		}
		at += size;
	}
	if (rc < 0 || room_for(p, size)) {
		peer_close(p, rc < 0 ? why : "no memory for a frame");
		return;
	}
	p->in_len -= at;
	memmove(p->in, p->in + at, p->in_len);
	if (p->in_len == 0 && p->in_cap > IN_CAP) { /* after a big OPEN */
		p->in_cap = IN_CAP;
		p->in = realloc(p->in, IN_CAP); /* smaller: glibc does it in place */
		if (!p->in)
			peer_close(p, "no memory");
	}
}

static void plain_on_poll(uv_poll_t *h, int status, int events)
{
	struct plain_peer *p = h->data;
	ssize_t n;

	if (status < 0) {
		peer_close(p, uv_strerror(status));
		return;
	}
	if (events & UV_READABLE) {
		n = recv(p->fd, p->in + p->in_len, p->in_cap - p->in_len, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
			peer_close(p, n ? strerror(errno) : "the hub closed it");
			return;
		}
		if (n > 0) {
			p->in_len += (size_t)n;
			take_frames(p);
		}
	}
	peer_kick(p);
}

/* ---- time */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return !a ? b : !b || a < b ? a : b;
}

static void plain_on_timer(uv_timer_t *t)
{
	struct plain_peer *p = t->data;
	struct plain_channel *c, *next;
	uint64_t now = clock_boot_ns();

	look_tick(p, now);
	sweep_tick(p, now);
	queue_tick(p, now);
	for (c = TAILQ_FIRST(&p->channels); c; c = next) {
		next = TAILQ_NEXT(c, entry);
		channel_tick(c, now);
	}
	peer_timer(p);
	peer_kick(p);
}

static void arm_timer(struct plain_peer *p)
{
	uint64_t first = earlier(p->look_deadline_ns, p->sweep_deadline_ns), now = clock_boot_ns();
	const struct plain_channel *c;

	p->retime = false;
	TAILQ_FOREACH(c, &p->channels, entry)
	first = earlier(first, earlier(c->eof_at_ns, earlier(c->deadline_ns, c->next_ns)));
	first = earlier(first, queue_due(p));
	if (!first)
		uv_timer_stop(&p->timer);
	else
		uv_timer_start(&p->timer, plain_on_timer, first > now ? (first - now) / NS_PER_MS + 1 : 0, 0);
}

/* ---- beginning */

/* Marks the programs of this daemon in this container, for this agent; tells nothing of the secret. */
static int make_owner(struct plain_peer *p)
{
	static const char what[] = "muxd plain owner";
	uint8_t sum[32];
	unsigned n = 0;
	char *text;
	int ok;

	text = malloc(sizeof(what) + strlen(p->agent) + 1);
	if (!text)
		return ERR_NOMEM;
	memcpy(text, what, sizeof(what));
	memcpy(text + sizeof(what), p->agent, strlen(p->agent) + 1);
	ok = HMAC(EVP_sha256(), p->secret, sizeof(p->secret), (const uint8_t *)text, sizeof(what) + strlen(p->agent),
		  sum, &n) != NULL;
	free(text);
	for (size_t i = 0; ok && i < (sizeof(p->owner) - 1) / 2; i++)
		snprintf(p->owner + 2 * i, 3, "%02x", sum[i]);
	return ok ? 0 : ERR_NOMEM;
}

static int fill_peer(struct plain_peer *p, const struct kube_plain_target *t)
{
	p->agent = strdup(t->agent);
	p->ns = strdup(t->ns);
	p->pod = strdup(t->pod);
	p->container = t->container ? strdup(t->container) : NULL;
	p->visitor = t->visitor ? strdup(t->visitor) : NULL;
	p->muxlet = t->visitor ? strdup(t->muxlet) : NULL;
	p->in = malloc(IN_CAP);
	p->in_cap = IN_CAP;
	p->creds = t->creds;
	p->rc = t->rc;
	p->fd = -1;
	memcpy(p->secret, t->secret, sizeof(p->secret));
	TAILQ_INIT(&p->channels);
	TAILQ_INIT(&p->sweeps);
	buf_init(&p->out, PLAIN_OUT_MAX);
	buf_init(&p->look_text, 4096);
	buf_init(&p->sweep_text, 4096);
	if (!p->agent || !p->ns || !p->pod || (t->container && !p->container) ||
	    (t->visitor && (!p->visitor || !p->muxlet)) || !p->in)
		return ERR_NOMEM;
	return make_owner(p);
}

int plain_open(void *arg, const struct kube_plain_target *t, int *out_fd, struct err *e)
{
	struct plain *pl = arg;
	struct plain_peer *p = calloc(1, sizeof(*p));
	int ends[2];

	if (!p || fill_peer(p, t)) {
		if (p)
			free_peer(p);
		return err_set(e, ERR_NOMEM, "no memory for the plain backend");
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends)) {
		free_peer(p);
		return err_sys(e, errno, "a socket pair for the plain backend");
	}
	p->plain = pl;
	p->stands = pl->programs;
	p->loop = pl->loop;
	p->fd = ends[0];
	if (uv_poll_init(pl->loop, &p->poll, p->fd)) {
		close(ends[0]);
		close(ends[1]);
		free_peer(p);
		return err_set(e, ERR_SYS, "the loop takes no more descriptors");
	}
	uv_timer_init(pl->loop, &p->timer);
	uv_prepare_init(pl->loop, &p->prepare);
	p->poll.data = p->timer.data = p->prepare.data = p;
	p->handles = 3;
	uv_prepare_start(&p->prepare, plain_on_prepare);
	uv_unref((uv_handle_t *)&p->prepare);
	TAILQ_INSERT_TAIL(&pl->peers, p, entry);
	plain_watch(p);
	*out_fd = ends[1];
	return 0;
}

int plain_create(struct uv_loop_s *loop, unsigned programs, uint64_t wait_ns, struct plain **out)
{
	struct plain *pl = calloc(1, sizeof(*pl));

	if (!pl)
		return ERR_NOMEM;
	pl->loop = loop;
	pl->programs = programs ? programs : 1;
	pl->wait_ns = wait_ns;
	TAILQ_INIT(&pl->peers);
	*out = pl;
	return 0;
}

void plain_destroy(struct plain *pl)
{
	struct plain_peer *p;

	if (!pl)
		return;
	TAILQ_FOREACH(p, &pl->peers, entry)
	peer_close(p, "the daemon is stopping");
	pl->closing = true;
	free_plain_if_done(pl);
}
