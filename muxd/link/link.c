/*
 * The hub's end of a link: its stream, what the hub asks over it, what muxlet says over it, checked frame by frame
 * (nothing of it is believed that could not be so), how it lives and ends. One file of more than 1,000 lines: both
 * directions change the same channels, and either half alone would show its insides to the other.
 */
#define LOG_SUBSYS "link"
#include "muxd/link/link.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/sock.h"
#include "base/text.h"
#include "muxd/link/link_state.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SAID_AT_ONCE 5 /* words of muxlet's own that are logged; then one each */
#define SAID_EACH_NS (60 * NS_PER_SEC)

static const char *const state_names[] = {"idle", "hello", "list", "up", "cut"};

static void link_set_state(struct link *l, enum link_state s)
{
	log_debug(&(struct log_ids){.agent = l->name}, "%s -> %s", state_names[l->state], state_names[s]);
	l->state = s;
}

enum link_state link_state(const struct link *l)
{
	return l->state;
}

bool link_has_files(const struct link *l)
{
	return l->state == LINK_UP && l->features & FEATURE_FILES;
}

bool link_has_fs(const struct link *l)
{
	return l->state == LINK_UP && l->features & FEATURE_FS;
}

bool link_has_survey(const struct link *l)
{
	return l->state == LINK_UP && l->features & FEATURE_SURVEY;
}

bool link_has_changes(const struct link *l)
{
	return l->state == LINK_UP && l->features & FEATURE_CHANGES;
}

bool link_has_sync(const struct link *l)
{
	return l->state == LINK_UP && l->features & FEATURE_SYNC;
}

bool link_has_freeze(const struct link *l)
{
	return l->state == LINK_UP && l->features & FEATURE_FREEZE;
}

bool link_has_clear(const struct link *l)
{
	return l->state == LINK_UP && l->features & FEATURE_CLEAR;
}

bool link_has_idle(const struct link *l)
{
	return l->state == LINK_UP && l->features & FEATURE_IDLE;
}

bool link_has_filespace(const struct link *l)
{
	return l->state == LINK_UP && l->features & FEATURE_FILESPACE;
}

bool link_has_probe(const struct link *l)
{
	return l->state == LINK_UP && l->features & FEATURE_PROBE;
}

bool link_has_ports(const struct link *l)
{
	return l->state == LINK_UP && l->features & FEATURE_PORTS;
}

struct link_mark link_mark(const struct link *l)
{
	return l->state == LINK_UP ? l->mark : (struct link_mark){0};
}

bool link_mark_never_came(const struct link_mark *start, const struct link_mark *now)
{
	return start->life && start->life == now->life && now->opens < start->opens;
}

/* ---- channels */

static struct link_channel *link_channel_find(const struct link *l, uint32_t channel)
{
	struct link_channel *c = NULL;

	HASH_FIND(hh, l->channels, &channel, sizeof(channel), c);
	return c;
}

bool link_knows(const struct link *l, uint32_t channel)
{
	return link_channel_find(l, channel) != NULL;
}

static struct link_channel *link_channel_add(struct link *l, uint32_t channel)
{
	struct link_channel *c = calloc(1, sizeof(*c));

	if (c) {
		c->channel = channel;
		HASH_ADD(hh, l->channels, channel, sizeof(channel), c);
		l->highest = channel > l->highest ? channel : l->highest;
	}
	return c;
}

static void link_channel_remove(struct link *l, struct link_channel *c)
{
	HASH_DELETE(hh, l->channels, c);
	free(c);
}

static void link_channels_clear(struct link *l)
{
	struct link_channel *c, *next;

	HASH_ITER(hh, l->channels, c, next)
	link_channel_remove(l, c);
	l->highest = 0;
}

/* ---- the stream */

static void link_on_poll(uv_poll_t *p, int status, int events);
static void link_on_prepare(uv_prepare_t *p);
static void link_free_handle(uv_handle_t *h)
{
	free(h);
}

static void link_watch(struct link *l)
{
	uv_poll_start(l->poll, UV_READABLE | (l->writing ? UV_WRITABLE : 0), link_on_poll);
}

static void drop_stream(struct link *l)
{
	if (!l->poll)
		return;
	uv_poll_stop(l->poll);
	uv_close((uv_handle_t *)l->poll, link_free_handle);
	l->poll = NULL;
	close(l->fd);
	l->fd = -1;
	uv_timer_stop(&l->timer);
	uv_prepare_stop(&l->prepare);
	buf_finish_secret(&l->out); /* frames that never went may hold secrets; the next stream begins with none */
	l->wipe_out = false;
	free(l->in);
	l->in = NULL;
	free(l->list);
	l->list = NULL;
	l->nlist = l->list_cap = 0;
	link_channels_clear(l);
}

static void link_down(struct link *l, int rc, const char *why)
{
	if (!l->poll)
		return;
	log_debug(&(struct log_ids){.agent = l->name}, "down: %s", why);
	drop_stream(l);
	link_set_state(l, rc == ERR_PROTOCOL ? LINK_CUT : LINK_IDLE);
	if (!l->dead)
		l->ops->down(l->arg, rc, why);
}

static void link_flush(struct link *l)
{
	while (buf_len(&l->out)) {
		ssize_t n = send(l->fd, buf_ptr(&l->out), buf_len(&l->out), MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			link_down(l, ERR_LINK_LOST, strerror(errno));
			return;
		}
		if (n < 0)
			break;
		buf_consume(&l->out, (size_t)n);
	}
	if (l->wipe_out && !buf_len(&l->out)) {
		buf_finish_secret(&l->out);
		l->wipe_out = false;
	}
	uv_prepare_stop(&l->prepare);
	if (l->writing != (buf_len(&l->out) > 0)) {
		l->writing = buf_len(&l->out) > 0;
		link_watch(l);
	}
}

/* Once a turn, before the loop sleeps: everything that was said in it goes out in one write. */
static void link_on_prepare(uv_prepare_t *p)
{
	link_flush(p->data);
}

static int link_put(struct link *l, const struct frame *f)
{
	size_t cap = f->type == FRAME_OPEN ? FRAME_OPEN_MAX : f->type == FRAME_SECRET ? FRAME_MAX : 512, n;
	uint8_t *p;
	int rc;

	if (f->type == FRAME_DATA)
		cap = FRAME_DATA_HEADER + f->n;
	rc = buf_reserve(&l->out, cap, &p);
	if (rc)
		return rc;
	n = frame_encode(f, p, cap);
	if (!n)
		return ERR_TOO_LARGE;
	buf_commit(&l->out, n);
	if (!l->writing)
		uv_prepare_start(&l->prepare, link_on_prepare);
	return 0;
}

/* ---- what the hub asks: one function a frame */

static struct link_channel *find_live(struct link *l, uint32_t channel)
{
	struct link_channel *c = l->state == LINK_UP ? link_channel_find(l, channel) : NULL;

	return c && c->live ? c : NULL;
}

static uint32_t link_count(const char *const *v)
{
	uint32_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

int link_open(struct link *l, const struct link_open *o, struct err *e)
{
	struct frame f = {.type = FRAME_OPEN, .flags = FRAME_CRITICAL, .channel = o->channel};
	struct frame_open *to = &f.u.open;
	struct link_channel *c;
	int rc;

	if (l->state != LINK_UP)
		return err_set(e, ERR_BAD_STATE, "the link to the sandbox is not up");
	if (!o->channel || link_channel_find(l, o->channel))
		return err_set(e, ERR_CONFLICT, "channel %u is in use", o->channel);
	memcpy(to->session, o->session.b, sizeof(to->session));
	to->flags = (uint16_t)((o->pty ? OPEN_PTY : 0) | (o->stdin_open ? OPEN_STDIN : 0) |
			       (o->login_shell ? OPEN_LOGIN : 0) | (o->self ? OPEN_SELF : 0) |
			       (o->reserve && l->features & (FEATURE_CLEAR | FEATURE_QUEUE) ? OPEN_RESERVE : 0) |
			       (o->idle_ms && link_has_idle(l) ? OPEN_IDLE : 0) |
			       (o->tree && link_has_probe(l) ? OPEN_TREE : 0));
	to->cols = o->cols;
	to->rows = o->rows;
	to->timeout_ms = o->timeout_ms;
	to->idle_ms = o->idle_ms;
	to->grace_ms = o->grace_ms;
	to->window = o->window;
	to->argc = link_count(o->argv);
	to->envc = link_count(o->env);
	to->cwd = o->cwd ? o->cwd : "";
	to->argv = o->argv;
	to->env = o->env;
	c = link_channel_add(l, o->channel);
	if (!c)
		return err_set(e, ERR_NOMEM, "no memory for a channel");
	rc = link_put(l, &f);
	if (rc) {
		link_channel_remove(l, c);
		return err_set(e, rc, "the call does not fit a frame");
	}
	l->mark.opens += l->mark.life != 0;
	c->live = true;
	c->pty = o->pty;
	c->window[1] = c->window[2] = o->window;
	return 0;
}

int link_resume(struct link *l, uint32_t channel, const uint64_t have[3], uint64_t window)
{
	struct link_channel *c = l->state == LINK_UP ? link_channel_find(l, channel) : NULL;
	struct frame f = {.type = FRAME_RESUME, .flags = FRAME_CRITICAL, .channel = channel};
	int rc;

	if (!c || c->live)
		return ERR_BAD_STATE;
	for (int s = 1; s < 3; s++)
		if (have[s] < c->kept_from[s] || have[s] > c->produced[s])
			return ERR_INVAL;
	memcpy(f.u.resume.have, have, sizeof(f.u.resume.have));
	f.u.resume.window = window;
	rc = link_put(l, &f);
	if (rc)
		return rc;
	c->live = true;
	c->echo_unsaid = true;
	c->exited = false; /* its EXIT comes again, after its output */
	for (int s = 1; s < 3; s++) {
		c->next[s] = have[s];
		c->window[s] = window > UINT64_MAX - have[s] ? UINT64_MAX : have[s] + window;
	}
	if (have[0] > c->consumed)
		c->consumed = have[0]; /* what lies between was not delivered, and will not be */
	c->sent = c->consumed;
	return 0;
}

size_t link_input_room(const struct link *l, uint32_t channel, uint64_t offset)
{
	const struct link_channel *c = l->state == LINK_UP ? link_channel_find(l, channel) : NULL;
	size_t room;

	if (!c || !c->live || c->exited || offset < c->consumed || offset > c->consumed + LINK_INPUT_WINDOW)
		return 0;
	room = (size_t)(c->consumed + LINK_INPUT_WINDOW - offset);
	return l->out.len + room + FRAME_MAX > l->out.max ? 0 : room;
}

ssize_t link_input(struct link *l, uint32_t channel, uint64_t offset, const void *p, size_t n)
{
	struct frame f = {.type = FRAME_DATA, .channel = channel};
	struct link_channel *c = find_live(l, channel);
	size_t room = link_input_room(l, channel, offset), done = 0;

	if (!c)
		return ERR_BAD_STATE;
	if (offset > c->sent)
		return ERR_INVAL; /* a gap */
	n = n < room ? n : room;
	while (done < n) {
		f.offset = offset + done;
		f.p = (const uint8_t *)p + done;
		f.n = n - done < FRAME_DATA_MAX ? n - done : FRAME_DATA_MAX;
		if (link_put(l, &f))
			break;
		done += f.n;
	}
	if (offset + done > c->sent)
		c->sent = offset + done;
	return (ssize_t)done;
}

static int put_offset(struct link *l, uint8_t type, uint32_t channel, int stream, uint64_t offset)
{
	struct frame f = {.type = type, .channel = channel, .stream = (uint8_t)stream, .offset = offset};

	return find_live(l, channel) ? link_put(l, &f) : ERR_BAD_STATE;
}

int link_input_eof(struct link *l, uint32_t channel, uint64_t offset)
{
	const struct link_channel *c = find_live(l, channel);

	if (c && offset > c->sent)
		return ERR_INVAL;
	return put_offset(l, FRAME_EOF, channel, 0, offset);
}

int link_window(struct link *l, uint32_t channel, int stream, uint64_t until)
{
	struct link_channel *c = find_live(l, channel);
	int rc;

	if (stream < 1 || stream > 2)
		return ERR_INVAL;
	if (c && until <= c->window[stream])
		return 0;
	rc = put_offset(l, FRAME_WINDOW, channel, stream, until);
	if (!rc && until > c->window[stream])
		c->window[stream] = until;
	return rc;
}

int link_ack(struct link *l, uint32_t channel, int stream, uint64_t offset)
{
	const struct link_channel *c = find_live(l, channel);

	if (stream < 1 || stream > 2 || (c && offset > c->next[stream]))
		return ERR_INVAL;
	return put_offset(l, FRAME_ACK, channel, stream, offset);
}

int link_resize(struct link *l, uint32_t channel, uint16_t cols, uint16_t rows, uint16_t xpixel, uint16_t ypixel)
{
	struct frame f = {.type = FRAME_RESIZE, .channel = channel};

	if (!cols || !rows)
		return ERR_INVAL;
	f.u.resize.cols = cols;
	f.u.resize.rows = rows;
	f.u.resize.xpixel = xpixel;
	f.u.resize.ypixel = ypixel;
	return find_live(l, channel) ? link_put(l, &f) : ERR_BAD_STATE;
}

static int link_put_number(struct link *l, uint8_t type, uint32_t channel, int number)
{
	struct frame f = {.type = type, .channel = channel, .u.number = (uint8_t)number};

	return l->state == LINK_UP && link_channel_find(l, channel) ? link_put(l, &f) : ERR_BAD_STATE;
}

int link_signal(struct link *l, uint32_t channel, int signum)
{
	if (signum < 1 || signum > 64)
		return ERR_INVAL;
	return link_put_number(l, FRAME_SIGNAL, channel, signum);
}

int link_kill(struct link *l, uint32_t channel, enum exit_cause cause)
{
	const struct link_channel *c = link_channel_find(l, channel);

	return c && c->exited ? ERR_ENDED : link_put_number(l, FRAME_KILL, channel, (int)cause);
}

int link_clear(struct link *l)
{
	struct frame f = {.type = FRAME_CLEAR, .flags = FRAME_CRITICAL, .offset = l->clear_token + 1};
	int rc;

	if (!link_has_clear(l))
		return l->state == LINK_UP ? ERR_UNSUPPORTED : ERR_BAD_STATE;
	if (l->clearing)
		return ERR_CONFLICT;
	rc = link_put(l, &f);
	if (rc)
		return rc;
	l->clearing = true;
	l->clear_token++;
	return 0;
}

int link_forget(struct link *l, uint32_t channel)
{
	struct link_channel *c = l->state == LINK_UP ? link_channel_find(l, channel) : NULL;
	struct frame f = {.type = FRAME_FORGET, .channel = channel};
	int rc;

	if (!c)
		return ERR_BAD_STATE;
	rc = link_put(l, &f);
	if (rc)
		return rc;
	if (c->live && !c->exited) {
		c->live = false;
		c->forgotten = true;
	} else {
		link_channel_remove(l, c);
	}
	return 0;
}

int link_secret(struct link *l, uint32_t channel, int fd_number, const void *p, size_t n)
{
	struct frame f = {.type = FRAME_SECRET, .channel = channel, .p = p, .n = n};

	if (l->state != LINK_UP)
		return ERR_BAD_STATE;
	if (n > FRAME_SECRET_MAX)
		return ERR_TOO_LARGE;
	if (!channel || fd_number < 3 || fd_number > 255 || link_channel_find(l, channel))
		return ERR_INVAL;
	f.u.fd = (uint16_t)fd_number;
	l->wipe_out = true;
	return link_put(l, &f);
}

/* ---- what muxlet says */

static int breaks(const char **why, const char *text)
{
	*why = text;
	return ERR_PROTOCOL;
}

/* ---- handshake */

static int link_hello_start(struct link *l)
{
	struct frame f = {.type = FRAME_HELLO, .flags = FRAME_CRITICAL};
	int rc = random_bytes(l->hub_hello.nonce, sizeof(l->hub_hello.nonce));

	if (rc)
		return rc;
	l->hub_hello.major = FRAME_MAJOR;
	l->hub_hello.minor = FRAME_MINOR;
	l->hub_hello.features = FEATURE_FILES | FEATURE_PORTS | FEATURE_SYNC | FEATURE_FREEZE | FEATURE_CLEAR |
				FEATURE_QUEUE | FEATURE_FS | FEATURE_IDLE | FEATURE_SURVEY | FEATURE_CHANGES |
				FEATURE_STARTS | FEATURE_PROBE | FEATURE_FILESPACE;
	l->hub_hello.epoch = l->p.epoch;
	f.u.hello = l->hub_hello;
	return link_put(l, &f);
}

static int prove(const struct link *l, const char *who, const struct frame_hello *let, uint8_t out[FRAME_PROOF_LEN])
{
	uint8_t text[FRAME_TRANSCRIPT];
	unsigned n = 0;

	frame_transcript(who, &l->hub_hello, let, text);
	return HMAC(EVP_sha256(), l->p.secret, LINK_SECRET_LEN, text, sizeof(text), out, &n) ? 0 : ERR_NOMEM;
}

static int link_on_hello(struct link *l, const struct frame *f, const char **why)
{
	struct frame answer = {.type = FRAME_PROOF, .flags = FRAME_CRITICAL};
	uint8_t expected[FRAME_PROOF_LEN];

	if (l->state != LINK_HELLO)
		return breaks(why, "a second HELLO");
	if (f->u.hello.major != FRAME_MAJOR) {
		*why = "muxlet speaks another version of the link protocol";
		return ERR_VERSION;
	}
	*why = "out of memory for a proof";
	if (prove(l, "muxd-let", &f->u.hello, expected))
		return ERR_NOMEM;
	if (CRYPTO_memcmp(expected, f->u.hello.proof, sizeof(expected)) != 0)
		return breaks(why, "it does not know the sandbox's secret");
	OPENSSL_cleanse(expected, sizeof(expected));
	if (f->u.hello.epoch == UINT64_MAX)
		return breaks(why, "an epoch that no stream can follow");
	l->features = l->hub_hello.features & f->u.hello.features;
	l->epoch_taken = f->u.hello.epoch; /* proven: if ours is not higher it will say so, and the next one is */
	if (prove(l, "muxd-hub", &f->u.hello, answer.u.proof))
		return ERR_NOMEM;
	link_set_state(l, LINK_LIST);
	return link_put(l, &answer);
}

/* A peer's words for people: no control characters, up to the first NUL. */
static void clean_text(const void *p, size_t n, char *out, size_t size)
{
	const uint8_t *in = p;
	size_t i;

	for (i = 0; i < n && i + 1 < size && in[i]; i++)
		out[i] = in[i] < 32 || in[i] == 127 ? '?' : (char)in[i];
	out[i] = '\0';
}

static void fill_exit(struct link_exit *x, const struct frame_exit *from)
{
	memset(x, 0, sizeof(*x));
	x->cause = (enum exit_cause)from->cause;
	x->code = from->code;
	x->signal = from->signal;
	x->error = from->error;
	clean_text(from->at, sizeof(from->at), x->error_at, sizeof(x->error_at));
	memcpy(x->total, from->total, sizeof(x->total));
}

static int list_room(struct link *l)
{
	size_t cap = l->list_cap ? l->list_cap * 2 : 16;
	struct link_channel_info *p;

	if (l->nlist < l->list_cap)
		return 0;
	p = realloc(l->list, cap * sizeof(*p));
	if (!p)
		return ERR_NOMEM;
	l->list = p;
	l->list_cap = cap;
	return 0;
}

static int link_on_list(struct link *l, const struct frame *f, const char **why)
{
	const struct frame_list *from = &f->u.list;
	struct link_channel_info *i;
	struct link_channel *c;

	if (l->state != LINK_LIST)
		return breaks(why, "LIST out of order");
	if (l->nlist >= LINK_LIST_MAX)
		return breaks(why, "more channels than there can be");
	if (!f->channel || link_channel_find(l, f->channel))
		return breaks(why, "a channel is listed twice");
	if (f->channel > LINK_CHANNEL_MAX)
		return breaks(why, "a channel that nobody can have opened");
	for (int s = 1; s < 3; s++)
		if (from->kept_from[s] > from->produced[s])
			return breaks(why, "a spool that begins after its end");
	c = link_channel_add(l, f->channel);
	if (!c || list_room(l))
		return ERR_NOMEM;
	c->pty = from->flags & LIST_PTY;
	c->opened = true;
	c->exited = from->flags & LIST_EXITED;
	c->consumed = c->sent = from->consumed;
	memcpy(c->kept_from, from->kept_from, sizeof(c->kept_from));
	memcpy(c->produced, from->produced, sizeof(c->produced));
	i = &l->list[l->nlist++];
	memset(i, 0, sizeof(*i));
	i->channel = f->channel;
	memcpy(i->session.b, from->session, sizeof(i->session.b));
	i->pty = c->pty;
	i->exited = c->exited;
	i->input_consumed = from->consumed;
	memcpy(i->kept_from, from->kept_from, sizeof(i->kept_from));
	memcpy(i->produced, from->produced, sizeof(i->produced));
	fill_exit(&i->exit, &from->exit);
	return 0;
}

static int link_on_listed(struct link *l, const struct frame *f, const char **why)
{
	struct link_channel_info *list = l->list;
	size_t n = l->nlist;

	if (l->state != LINK_LIST || f->offset != n)
		return breaks(why, "LISTED out of order or with another count");
	l->mark = (struct link_mark){0};
	if (l->features & FEATURE_STARTS && f->u.listed.life)
		l->mark = (struct link_mark){.life = f->u.listed.life, .opens = f->u.listed.opens};
	link_set_state(l, LINK_UP);
	l->list = NULL;
	l->nlist = l->list_cap = 0;
	l->ops->up(l->arg, list, n);
	free(list);
	return 0;
}

/* ---- channels */

static int code_error(unsigned code)
{
	switch (code) {
	case CODE_OK:
		return 0;
	case CODE_LIMIT:
		return ERR_LIMIT;
	case CODE_CONFLICT:
		return ERR_CONFLICT;
	case CODE_INVALID:
	case CODE_NOT_FOUND:
		return ERR_INVAL;
	case CODE_STATE:
		return ERR_BAD_STATE;
	case CODE_SHUTDOWN:
		return ERR_LINK_LOST;
	default:
		return ERR_SYS;
	}
}

/* NULL with *rc 0: of a channel that was forgotten while this was on its way. */
static struct link_channel *live(struct link *l, const struct frame *f, int *rc, const char **why)
{
	struct link_channel *c = link_channel_find(l, f->channel);

	*rc = 0;
	if (c && c->live)
		return c;
	if (c || f->channel > l->highest)
		*rc = breaks(why, "a frame for a channel that was not opened");
	return NULL;
}

static int link_on_opened(struct link *l, const struct frame *f, const char **why)
{
	char text[FRAME_TEXT_MAX + 1];
	int rc;
	struct link_channel *c = live(l, f, &rc, why);

	if (!c)
		return rc;
	if (c->opened)
		return breaks(why, "a channel that was opened twice");
	c->opened = true;
	clean_text(f->p, f->n, text, sizeof(text));
	l->ops->opened(l->arg, f->channel, code_error(f->u.opened.code), text);
	return 0;
}

/* The decoder has seen that there is a NUL between the two. */
static int link_on_begun(struct link *l, const struct frame *f, const char **why)
{
	char text[FRAME_BEGUN_MAX + 1];
	int rc;
	struct link_channel *c = live(l, f, &rc, why);

	if (!c || !l->ops->begun)
		return rc;
	memcpy(text, f->p, f->n);
	text[f->n] = '\0';
	l->ops->begun(l->arg, f->channel, text, text + strlen(text) + 1);
	return 0;
}

static int link_on_data(struct link *l, const struct frame *f, const char **why)
{
	int rc;
	struct link_channel *c = live(l, f, &rc, why);
	unsigned s = f->stream;
	uint64_t from;

	if (!c)
		return rc;
	if (s < 1 || s > 2 || (c->pty && s == 2))
		return breaks(why, "DATA on a stream that the channel does not have");
	if (c->exited || !c->opened)
		return breaks(why, "DATA of a program that does not run");
	from = c->next[s];
	if (f->offset > from)
		return breaks(why, "DATA with a gap");
	if (f->offset + f->n > c->window[s])
		return breaks(why, "DATA beyond its window");
	if (f->offset + f->n <= from)
		return 0; /* said before */
	c->next[s] = f->offset + f->n;
	l->ops->data(l->arg, f->channel, (int)s, from, f->p + (from - f->offset), (size_t)(c->next[s] - from));
	return 0;
}

static int link_on_consumed(struct link *l, const struct frame *f, const char **why)
{
	int rc;
	struct link_channel *c = live(l, f, &rc, why);

	if (!c)
		return rc;
	if (f->stream != 0 || f->offset < c->consumed || f->offset > c->sent)
		return breaks(why, "CONSUMED backwards, or beyond what was sent");
	c->consumed = f->offset;
	l->ops->input_consumed(l->arg, f->channel, f->offset);
	return 0;
}

/* Never both a code and a signal. Neither: not started, or nobody knows; who ended by itself has one of them. */
static bool exit_adds_up(const struct frame_exit *x)
{
	bool neither = x->signal == 0 && x->code == -1;

	if (x->cause == CAUSE_NOT_STARTED)
		return neither;
	if (neither)
		return x->cause != CAUSE_EXITED && x->cause != CAUSE_OOM;
	return x->signal ? x->code == -1 : x->code >= 0 && x->code <= 255;
}

static int link_on_channel_exit(struct link *l, const struct frame *f, const char **why)
{
	int rc;
	struct link_channel *c = live(l, f, &rc, why);
	struct link_exit x;

	if (!c)
		return rc;
	if (c->exited || !c->opened)
		return breaks(why, "EXIT of a program that does not run");
	if (!exit_adds_up(&f->u.exit))
		return breaks(why, "EXIT with neither a code nor a signal, or with both");
	if (f->u.exit.total[1] != c->next[1] || f->u.exit.total[2] != c->next[2] || f->u.exit.total[0] > c->sent)
		return breaks(why, "EXIT with other totals than what came");
	c->exited = true;
	fill_exit(&x, &f->u.exit);
	clean_text(f->p, f->n, x.text, sizeof(x.text));
	l->ops->exited(l->arg, f->channel, &x);
	return 0;
}

static enum link_echo echo_mode(uint8_t flags)
{
	if (!(flags & ECHO_CANONICAL))
		return LINK_ECHO_KEYS;
	return flags & ECHO_ON ? LINK_ECHO_LINES : LINK_ECHO_OFF;
}

static int link_on_echo(struct link *l, const struct frame *f, const char **why)
{
	int rc;
	struct link_channel *c = live(l, f, &rc, why);
	enum link_echo mode = echo_mode(f->u.number);

	if (!c)
		return rc;
	if (!c->pty)
		return breaks(why, "ECHO of a program without a terminal");
	if (mode == c->echo && !c->echo_unsaid)
		return 0;
	c->echo = mode;
	c->echo_unsaid = false;
	l->ops->echo(l->arg, f->channel, mode);
	return 0;
}

/* ---- the stream itself */

static int link_on_ping(struct link *l, const struct frame *f)
{
	struct frame answer = {.type = FRAME_PONG, .offset = f->offset};

	return link_put(l, &answer);
}

static int link_on_pong(struct link *l, const struct frame *f, const char **why)
{
	uint64_t rtt;

	if (!l->ping_ns || f->offset != l->ping_token)
		return breaks(why, "PONG without a PING");
	rtt = clock_boot_ns() - l->ping_ns;
	l->ping_ns = 0;
	if (l->ops->pong)
		l->ops->pong(l->arg, rtt);
	return 0;
}

static int link_on_cleared(struct link *l, const struct frame *f, const char **why)
{
	if (!l->clearing || f->offset != l->clear_token)
		return breaks(why, "CLEARED without a CLEAR");
	l->clearing = false;
	if (l->ops->cleared)
		l->ops->cleared(l->arg, f->u.opened.code == CODE_OK ? 0 : ERR_TIMEOUT);
	return 0;
}

/* A sandbox says what it likes, as often as it likes: neither the log nor the loop's time is its own. */
static void log_text(struct link *l, const struct frame *f)
{
	uint64_t now = clock_boot_ns();
	char text[FRAME_TEXT_MAX + 1], left_out[48] = "";

	if (l->said >= SAID_AT_ONCE && now - l->said_ns < SAID_EACH_NS) {
		l->unsaid++;
		return;
	}
	if (l->unsaid)
		snprintf(left_out, sizeof(left_out), " (after %" PRIu64 " that are left out)", l->unsaid);
	clean_text(f->p, f->n, text, sizeof(text));
	log_info(&(struct log_ids){.agent = l->name}, "muxlet says %s, code %u: %s%s", frame_type_name(f->type),
		 f->u.opened.code, text, left_out);
	l->said++;
	l->said_ns = now;
	l->unsaid = 0;
}

/* A program that has to wait for its turn is told its place. */
static bool tell_wait(struct link *l, const struct frame *f)
{
	const struct link_channel *c = link_channel_find(l, f->channel);
	char text[FRAME_TEXT_MAX + 1];

	if (f->u.opened.code != CODE_LIMIT || !(l->features & FEATURE_QUEUE) || !c || !c->live || c->opened ||
	    !l->ops->waits)
		return false;
	clean_text(f->p, f->n, text, sizeof(text));
	l->ops->waits(l->arg, f->channel, text);
	return true;
}

static int link_on_text(struct link *l, const struct frame *f, const char **why)
{
	if (f->type == FRAME_ERROR && tell_wait(l, f))
		return 0;
	log_text(l, f);
	if (f->type == FRAME_ERROR)
		return 0;
	switch (f->u.opened.code) {
	case CODE_STALE:
		*why = "a newer stream took over";
		return ERR_CONFLICT;
	case CODE_VERSION:
		*why = "muxlet speaks another version of the link protocol";
		return ERR_VERSION;
	case CODE_SHUTDOWN:
		*why = "the sandbox ends";
		return ERR_LINK_LOST;
	default: /* it says that we broke the protocol, or have no right: a new stream may do better */
		*why = "muxlet ended the stream";
		return ERR_UNAVAILABLE;
	}
}

/* What was on its way when the hub forgot a living channel is nobody's fault. */
static bool link_is_forgotten(const struct link *l, const struct frame *f)
{
	const struct link_channel *c = f->channel ? link_channel_find(l, f->channel) : NULL;

	return c && c->forgotten;
}

static int link_handle(struct link *l, const struct frame *f, const char **why)
{
	if (l->state == LINK_HELLO && f->type != FRAME_HELLO && f->type != FRAME_GOODBYE)
		return breaks(why, "a frame before HELLO");
	if (l->state == LINK_LIST && f->type != FRAME_LIST && f->type != FRAME_LISTED && f->type != FRAME_GOODBYE)
		return breaks(why, "a frame before LISTED");
	if (link_is_forgotten(l, f))
		return 0;
	switch (f->type) {
	case FRAME_HELLO:
		return link_on_hello(l, f, why);
	case FRAME_LIST:
		return link_on_list(l, f, why);
	case FRAME_LISTED:
		return link_on_listed(l, f, why);
	case FRAME_OPENED:
		return link_on_opened(l, f, why);
	case FRAME_BEGUN:
		return link_on_begun(l, f, why);
	case FRAME_DATA:
		return link_on_data(l, f, why);
	case FRAME_CONSUMED:
		return link_on_consumed(l, f, why);
	case FRAME_EXIT:
		return link_on_channel_exit(l, f, why);
	case FRAME_ECHO:
		return link_on_echo(l, f, why);
	case FRAME_PING:
		return link_on_ping(l, f);
	case FRAME_PONG:
		return link_on_pong(l, f, why);
	case FRAME_CLEARED:
		return link_on_cleared(l, f, why);
	case FRAME_ERROR:
	case FRAME_GOODBYE:
		return link_on_text(l, f, why);
	default:
		return breaks(why, "a frame that only the hub may send");
	}
}

/* ---- the stream, read */

/* Whole frames in the buffer, one after the other, until one is not whole or the link is no more. */
static void take_frames(struct link *l)
{
	const char *why = "a frame breaks its form";

	while (!l->dead && l->poll) {
		struct frame f;
		size_t size = 0;
		int got = frame_decode(l->in + l->in_at, l->in_len - l->in_at, 'M', &f, &size, &why), rc;

		if (got == 0)
			return;
		rc = got < 0 ? ERR_PROTOCOL : f.type == 0 ? 0 : link_handle(l, &f, &why);
		if (rc) {
			if (!l->dead)
				link_down(l, rc, why);
			return;
		}
		if (l->poll)
			l->in_at += size;
	}
}

/* Bytes that wait in the buffer stand at its beginning then: less than a frame. */
static void link_compact(struct link *l)
{
	if (!l->in_at)
		return;
	memmove(l->in, l->in + l->in_at, l->in_len - l->in_at);
	l->in_len -= l->in_at;
	l->in_at = 0;
}

/* Without memory it stays as it is. */
static void link_set_turn(struct link *l, size_t turn)
{
	uint8_t *in;

	link_compact(l);
	in = realloc(l->in, FRAME_MAX + turn);
	if (!in)
		return;
	l->in = in;
	l->turn = turn;
}

static ssize_t link_fill(struct link *l)
{
	ssize_t n;

	link_compact(l);
	n = recv(l->fd, l->in + l->in_len, l->turn, MSG_DONTWAIT); /* less than a frame waits: there is room */
	if (n > 0)
		l->in_len += (size_t)n;
	l->filled = l->filled || n == (ssize_t)l->turn;
	return n;
}

/* The memory of a flood goes some seconds behind it. */
static void link_shrink(struct link *l)
{
	if (l->turn > LINK_TURN && !l->filled)
		link_set_turn(l, LINK_TURN);
	l->filled = false;
}

static void link_on_poll(uv_poll_t *p, int status, int events)
{
	struct link *l = p->data;
	ssize_t n;

	if (status < 0) {
		link_down(l, ERR_LINK_LOST, uv_strerror(status));
		return;
	}
	if (events & UV_READABLE) {
		n = link_fill(l);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
			link_down(l, ERR_LINK_LOST, n ? strerror(errno) : "the stream was closed");
			return;
		}
		if (n > 0) {
			l->heard_ns = clock_boot_ns();
			take_frames(l);
		}
		if (n == LINK_TURN && !l->dead && l->poll && l->turn == LINK_TURN)
			link_set_turn(l, LINK_TURN_BULK);
	}
	if (!l->dead && l->poll && events & UV_WRITABLE)
		link_flush(l);
}

static void link_on_timer(uv_timer_t *t)
{
	struct link *l = t->data;
	uint64_t now = clock_boot_ns();
	struct frame f = {.type = FRAME_PING};

	if (l->state != LINK_UP) {
		link_down(l, ERR_TIMEOUT, "no handshake within 10 s");
		return;
	}
	if (now - l->heard_ns > LINK_SILENT_NS) {
		link_down(l, ERR_TIMEOUT, "silent for 20 s and more");
		return;
	}
	link_shrink(l);
	if (l->ping_ns)
		return;
	f.offset = ++l->ping_token;
	l->ping_ns = now;
	(void)link_put(l, &f); /* when so much is queued that it has no room, silence is noticed all the same */
}

int link_attach(struct link *l, int fd, uint64_t epoch)
{
	int rc = ERR_NOMEM;

	if (l->poll || l->state == LINK_CUT || l->dead) {
		close(fd);
		return ERR_BAD_STATE;
	}
	l->in = malloc(FRAME_MAX + LINK_TURN);
	l->poll = malloc(sizeof(*l->poll));
	if (!l->in || !l->poll || sock_set_nonblock(fd, 1) || uv_poll_init(l->loop, l->poll, fd))
		goto fail;
	l->fd = fd;
	l->poll->data = l;
	l->in_at = l->in_len = 0;
	l->turn = LINK_TURN;
	l->filled = false;
	l->writing = false;
	l->p.epoch = epoch > l->epoch_taken ? epoch : l->epoch_taken + 1; /* a clock that was set back */
	l->heard_ns = clock_boot_ns();
	l->ping_ns = 0;
	l->clearing = false;
	link_set_state(l, LINK_HELLO);
	rc = link_hello_start(l);
	link_watch(l);
	uv_timer_start(&l->timer, link_on_timer, LINK_HANDSHAKE_MS, LINK_PING_MS);
	if (rc) {
		drop_stream(l);
		link_set_state(l, LINK_IDLE);
	}
	return rc;
fail:
	free(l->in);
	free(l->poll);
	l->in = NULL;
	l->poll = NULL;
	close(fd);
	return rc;
}

int link_create(struct uv_loop_s *loop, const struct link_params *p, const struct link_ops *ops, void *arg,
		struct link **out)
{
	struct link *l = calloc(1, sizeof(*l));

	if (!l)
		return ERR_NOMEM;
	l->loop = loop;
	l->ops = ops;
	l->arg = arg;
	l->p = *p;
	text_put(l->name, sizeof(l->name), p->name ? p->name : "");
	l->p.name = l->name;
	l->fd = -1;
	buf_init(&l->out, LINK_OUT_MAX);
	uv_prepare_init(loop, &l->prepare);
	uv_timer_init(loop, &l->timer);
	l->prepare.data = l->timer.data = l;
	l->handles = 2;
	*out = l;
	return 0;
}

static void link_on_handle_closed(uv_handle_t *h)
{
	struct link *l = h->data;

	if (--l->handles)
		return;
	buf_finish(&l->out);
	explicit_bzero(l, sizeof(*l));
	free(l);
}

void link_destroy(struct link *l)
{
	if (!l || l->dead)
		return;
	l->dead = true;
	if (l->poll && buf_len(&l->out)) /* what was said last may still go: an ACK, a KILL */
		(void)!send(l->fd, buf_ptr(&l->out), buf_len(&l->out), MSG_NOSIGNAL | MSG_DONTWAIT);
	drop_stream(l);
	uv_close((uv_handle_t *)&l->prepare, link_on_handle_closed);
	uv_close((uv_handle_t *)&l->timer, link_on_handle_closed);
}

size_t link_queued(const struct link *l)
{
	return buf_len(&l->out);
}

/* ---- words */

static const char *const cause_names[] = {"exit", "timeout", "killed",      "oom",
					  "lost", "unknown", "not_started", "idle_timeout"};

const char *exit_cause_name(enum exit_cause c)
{
	return c <= EXIT_IDLE_TIMEOUT ? cause_names[c] : "unknown";
}

const char *exit_cause_error(enum exit_cause c)
{
	return c == EXIT_TIMEOUT || c == EXIT_IDLE_TIMEOUT ? err_name(ERR_EXEC_TIMEOUT) : NULL;
}

int exit_cause_parse(const char *s, enum exit_cause *out)
{
	for (int i = EXIT_EXITED; i <= EXIT_IDLE_TIMEOUT; i++)
		if (strcmp(s, cause_names[i]) == 0) {
			*out = (enum exit_cause)i;
			return 0;
		}
	return ERR_INVAL;
}
