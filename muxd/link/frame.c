/* The form of frames; what they mean is in docs/protocol.md. Shared with muxlet: libc only. */
#include "muxd/link/frame.h"

#include "base/bytes.h"

#include <string.h>

/* A place in a buffer of known size. Once `bad` it stays so, and nothing more is read or written. */
struct cursor {
	uint8_t *out;
	const uint8_t *in;
	size_t left;
	bool bad;
};

static uint8_t *room(struct cursor *c, size_t n)
{
	uint8_t *at = c->out;

	if (c->bad || c->left < n) {
		c->bad = true;
		return NULL;
	}
	c->out += n;
	c->left -= n;
	return at;
}

static void w8(struct cursor *c, uint8_t v)
{
	uint8_t *p = room(c, 1);

	if (p)
		*p = v;
}

static void w16(struct cursor *c, uint16_t v)
{
	uint8_t *p = room(c, 2);

	if (p)
		put_u16(p, v);
}

static void w32(struct cursor *c, uint32_t v)
{
	uint8_t *p = room(c, 4);

	if (p)
		put_u32(p, v);
}

static void w64(struct cursor *c, uint64_t v)
{
	uint8_t *p = room(c, 8);

	if (p)
		put_u64(p, v);
}

static void wbytes(struct cursor *c, const void *v, size_t n)
{
	uint8_t *p = room(c, n);

	if (p && n)
		memcpy(p, v, n);
}

static void wstrings(struct cursor *c, const char *const *v, uint32_t n)
{
	for (uint32_t i = 0; i < n && !c->bad; i++)
		wbytes(c, v[i], strlen(v[i]) + 1);
}

static const uint8_t *frame_take(struct cursor *c, size_t n)
{
	const uint8_t *at = c->in;

	if (c->bad || c->left < n) {
		c->bad = true;
		return NULL;
	}
	c->in += n;
	c->left -= n;
	return at;
}

static uint8_t r8(struct cursor *c)
{
	const uint8_t *p = frame_take(c, 1);

	return p ? *p : 0;
}

static uint16_t r16(struct cursor *c)
{
	const uint8_t *p = frame_take(c, 2);

	return p ? get_u16(p) : 0;
}

static uint32_t r32(struct cursor *c)
{
	const uint8_t *p = frame_take(c, 4);

	return p ? get_u32(p) : 0;
}

static uint64_t r64(struct cursor *c)
{
	const uint8_t *p = frame_take(c, 8);

	return p ? get_u64(p) : 0;
}

static void rbytes(struct cursor *c, void *out, size_t n)
{
	const uint8_t *p = frame_take(c, n);

	if (p)
		memcpy(out, p, n);
}

static void hello_head(struct cursor *c, const struct frame_hello *h)
{
	w32(c, FRAME_MAGIC);
	w16(c, h->major);
	w16(c, h->minor);
	w64(c, h->features);
	w64(c, h->epoch);
	wbytes(c, h->nonce, FRAME_NONCE);
}

static void exit_put(struct cursor *c, const struct frame_exit *x)
{
	w8(c, x->cause);
	w8(c, x->signal);
	w32(c, (uint32_t)x->code);
	w32(c, (uint32_t)x->error);
	wbytes(c, x->at, FRAME_AT_LEN);
	for (int i = 0; i < 3; i++)
		w64(c, x->total[i]);
}

static void exit_get(struct cursor *c, struct frame_exit *x)
{
	x->cause = r8(c);
	x->signal = r8(c);
	x->code = (int32_t)r32(c);
	x->error = (int32_t)r32(c);
	rbytes(c, x->at, FRAME_AT_LEN);
	x->at[FRAME_AT_LEN - 1] = 0;
	for (int i = 0; i < 3; i++)
		x->total[i] = r64(c);
	if (x->cause > CAUSE_NOT_STARTED || x->signal > 64)
		c->bad = true;
}

static void list_put(struct cursor *c, const struct frame_list *l)
{
	wbytes(c, l->session, 16);
	w8(c, l->flags);
	w64(c, l->consumed);
	for (int i = 0; i < 3; i++)
		w64(c, l->kept_from[i]);
	for (int i = 0; i < 3; i++)
		w64(c, l->produced[i]);
	exit_put(c, &l->exit);
}

static void list_get(struct cursor *c, struct frame_list *l)
{
	rbytes(c, l->session, 16);
	l->flags = r8(c);
	l->consumed = r64(c);
	for (int i = 0; i < 3; i++)
		l->kept_from[i] = r64(c);
	for (int i = 0; i < 3; i++)
		l->produced[i] = r64(c);
	exit_get(c, &l->exit);
	for (int i = 1; i < 3; i++)
		if (l->kept_from[i] > l->produced[i])
			c->bad = true;
}

static void open_put(struct cursor *c, const struct frame_open *o)
{
	wbytes(c, o->session, 16);
	w16(c, o->flags);
	w16(c, o->cols);
	w16(c, o->rows);
	w16(c, o->xpixel);
	w16(c, o->ypixel);
	w64(c, o->timeout_ms);
	w64(c, o->grace_ms);
	w64(c, o->window);
	w32(c, o->argc);
	w32(c, o->envc);
	wbytes(c, o->cwd, strlen(o->cwd) + 1);
	wstrings(c, o->argv, o->argc);
	wstrings(c, o->env, o->envc);
	if (o->argc == 0)
		c->bad = true;
}

/* The rest must be 1 + argc + envc strings, each with its NUL, and nothing else. */
static void open_get(struct cursor *c, struct frame_open *o)
{
	uint64_t strings = 0;

	rbytes(c, o->session, 16);
	o->flags = r16(c);
	o->cols = r16(c);
	o->rows = r16(c);
	o->xpixel = r16(c);
	o->ypixel = r16(c);
	o->timeout_ms = r64(c);
	o->grace_ms = r64(c);
	o->window = r64(c);
	o->argc = r32(c);
	o->envc = r32(c);
	if (c->bad)
		return;
	for (size_t i = 0; i < c->left; i++)
		strings += c->in[i] == 0;
	if (o->argc == 0 || strings != (uint64_t)1 + o->argc + o->envc || c->in[c->left - 1] != 0) {
		c->bad = true;
		return;
	}
	o->cwd = (const char *)c->in;
	o->strings = o->cwd + strlen(o->cwd) + 1;
	c->left = 0;
}

static void rest_get(struct cursor *c, struct frame *f, size_t max)
{
	if (c->left > max)
		c->bad = true;
	f->n = c->left;
	f->p = frame_take(c, c->left);
}

static void body_put(struct cursor *c, const struct frame *f)
{
	switch (f->type) {
	case FRAME_HELLO:
		hello_head(c, &f->u.hello);
		wbytes(c, f->u.hello.proof, FRAME_PROOF_LEN);
		return;
	case FRAME_PROOF:
		wbytes(c, f->u.proof, FRAME_PROOF_LEN);
		return;
	case FRAME_LISTED:
	case FRAME_PING:
	case FRAME_PONG:
	case FRAME_CLEAR:
		w64(c, f->offset);
		return;
	case FRAME_CLEARED:
		w64(c, f->offset);
		w16(c, f->u.opened.code);
		return;
	case FRAME_GOODBYE:
		w16(c, f->u.opened.code);
		wbytes(c, f->p, f->n < FRAME_TEXT_MAX ? f->n : FRAME_TEXT_MAX);
		return;
	default:
		break;
	}
	w32(c, f->channel);
	switch (f->type) {
	case FRAME_LIST:
		list_put(c, &f->u.list);
		break;
	case FRAME_OPEN:
		open_put(c, &f->u.open);
		break;
	case FRAME_OPENED:
		w16(c, f->u.opened.code);
		w32(c, f->u.opened.pid);
		wbytes(c, f->p, f->n < FRAME_TEXT_MAX ? f->n : FRAME_TEXT_MAX);
		break;
	case FRAME_BEGUN:
		wbytes(c, f->p, f->n);
		c->bad = c->bad || f->n > FRAME_BEGUN_MAX;
		break;
	case FRAME_ERROR:
		w16(c, f->u.opened.code);
		wbytes(c, f->p, f->n < FRAME_TEXT_MAX ? f->n : FRAME_TEXT_MAX);
		break;
	case FRAME_DATA:
		w8(c, f->stream);
		w64(c, f->offset);
		wbytes(c, f->p, f->n);
		c->bad = c->bad || f->n == 0 || f->n > FRAME_DATA_MAX;
		break;
	case FRAME_EOF:
	case FRAME_WINDOW:
	case FRAME_ACK:
	case FRAME_CONSUMED:
		w8(c, f->stream);
		w64(c, f->offset);
		break;
	case FRAME_RESIZE:
		w16(c, f->u.resize.cols);
		w16(c, f->u.resize.rows);
		w16(c, f->u.resize.xpixel);
		w16(c, f->u.resize.ypixel);
		break;
	case FRAME_SIGNAL:
	case FRAME_KILL:
	case FRAME_ECHO:
		w8(c, f->u.number);
		break;
	case FRAME_EXIT:
		exit_put(c, &f->u.exit);
		wbytes(c, f->p, f->n < FRAME_TEXT_MAX ? f->n : FRAME_TEXT_MAX);
		break;
	case FRAME_RESUME:
		for (int i = 0; i < 3; i++)
			w64(c, f->u.resume.have[i]);
		w64(c, f->u.resume.window);
		break;
	case FRAME_FORGET:
		break;
	case FRAME_SECRET:
		w16(c, f->u.fd);
		wbytes(c, f->p, f->n);
		c->bad = c->bad || f->n > FRAME_SECRET_MAX;
		break;
	default:
		c->bad = true;
	}
}

static void body_get(struct cursor *c, struct frame *f)
{
	switch (f->type) {
	case FRAME_HELLO:
		if (r32(c) != FRAME_MAGIC)
			c->bad = true;
		f->u.hello.major = r16(c);
		f->u.hello.minor = r16(c);
		f->u.hello.features = r64(c);
		f->u.hello.epoch = r64(c);
		rbytes(c, f->u.hello.nonce, FRAME_NONCE);
		rbytes(c, f->u.hello.proof, FRAME_PROOF_LEN);
		return;
	case FRAME_PROOF:
		rbytes(c, f->u.proof, FRAME_PROOF_LEN);
		return;
	case FRAME_LISTED:
	case FRAME_PING:
	case FRAME_PONG:
	case FRAME_CLEAR:
		f->offset = r64(c);
		return;
	case FRAME_CLEARED:
		f->offset = r64(c);
		f->u.opened.code = r16(c);
		return;
	case FRAME_GOODBYE:
		f->u.opened.code = r16(c);
		rest_get(c, f, FRAME_TEXT_MAX);
		return;
	default:
		break;
	}
	f->channel = r32(c);
	if (f->channel == 0 && f->type != FRAME_ERROR)
		c->bad = true;
	switch (f->type) {
	case FRAME_LIST:
		list_get(c, &f->u.list);
		break;
	case FRAME_OPEN:
		open_get(c, &f->u.open);
		break;
	case FRAME_OPENED:
		f->u.opened.code = r16(c);
		f->u.opened.pid = r32(c);
		rest_get(c, f, FRAME_TEXT_MAX);
		break;
	case FRAME_BEGUN:
		rest_get(c, f, FRAME_BEGUN_MAX);
		c->bad = c->bad || (f->n && !memchr(f->p, 0, f->n)) || f->n == 0;
		break;
	case FRAME_ERROR:
		f->u.opened.code = r16(c);
		rest_get(c, f, FRAME_TEXT_MAX);
		break;
	case FRAME_DATA:
		f->stream = r8(c);
		f->offset = r64(c);
		rest_get(c, f, FRAME_DATA_MAX);
		c->bad = c->bad || f->stream > 2 || f->n == 0 || f->offset > UINT64_MAX - FRAME_DATA_MAX;
		break;
	case FRAME_EOF:
	case FRAME_WINDOW:
	case FRAME_ACK:
	case FRAME_CONSUMED:
		f->stream = r8(c);
		f->offset = r64(c);
		c->bad = c->bad || f->stream > 2;
		break;
	case FRAME_RESIZE:
		f->u.resize.cols = r16(c);
		f->u.resize.rows = r16(c);
		f->u.resize.xpixel = r16(c);
		f->u.resize.ypixel = r16(c);
		break;
	case FRAME_SIGNAL:
		f->u.number = r8(c);
		c->bad = c->bad || f->u.number == 0 || f->u.number > 64;
		break;
	case FRAME_KILL:
		f->u.number = r8(c);
		c->bad = c->bad || f->u.number > CAUSE_NOT_STARTED;
		break;
	case FRAME_ECHO:
		f->u.number = r8(c);
		break;
	case FRAME_EXIT:
		exit_get(c, &f->u.exit);
		rest_get(c, f, FRAME_TEXT_MAX);
		break;
	case FRAME_RESUME:
		for (int i = 0; i < 3; i++)
			f->u.resume.have[i] = r64(c);
		f->u.resume.window = r64(c);
		break;
	case FRAME_SECRET:
		f->u.fd = r16(c);
		rest_get(c, f, FRAME_SECRET_MAX);
		break;
	default: /* FRAME_FORGET: the channel is all */
		break;
	}
}

size_t frame_encode(const struct frame *f, uint8_t *out, size_t cap)
{
	struct cursor c = {.out = out, .left = cap};
	size_t size;

	w32(&c, 0);
	w8(&c, f->type);
	w8(&c, f->flags);
	body_put(&c, f);
	size = cap - c.left;
	if (c.bad || size > (f->type == FRAME_OPEN ? FRAME_OPEN_MAX : FRAME_MAX))
		return 0;
	put_u32(out, (uint32_t)(size - 4));
	return size;
}

void frame_data_header(uint8_t out[FRAME_DATA_HEADER], uint32_t channel, uint8_t stream, uint64_t offset, size_t n)
{
	put_u32(out, (uint32_t)(FRAME_DATA_HEADER - 4 + n));
	out[4] = FRAME_DATA;
	out[5] = 0;
	put_u32(out + 6, channel);
	out[10] = stream;
	put_u64(out + 11, offset);
}

static char sender_of(uint8_t type)
{
#define FRAME_WHO_(name, number, who) [number] = who,
	static const char who_sends[] = {FRAME_TABLE(FRAME_WHO_)};
#undef FRAME_WHO_

	return type < sizeof(who_sends) ? who_sends[type] : 0;
}

const char *frame_type_name(uint8_t type)
{
#define FRAME_NAME_(name, number, who) [number] = #name,
	static const char *const names[] = {FRAME_TABLE(FRAME_NAME_)};
#undef FRAME_NAME_

	return type < sizeof(names) / sizeof(names[0]) && names[type] ? names[type] : "?";
}

static int broken(const char **why, const char *text)
{
	*why = text;
	return -1;
}

int frame_decode(const uint8_t *p, size_t n, char from, struct frame *out, size_t *size, const char **why)
{
	struct cursor c;
	uint32_t len;
	char who;

	*size = 0;
	if (n < FRAME_HEADER)
		return 0;
	len = get_u32(p);
	if (len < FRAME_HEADER - 4)
		return broken(why, "a frame without a type");
	if (len > (p[4] == FRAME_OPEN && from == 'H' ? FRAME_OPEN_MAX : FRAME_MAX) - 4)
		return broken(why, "a frame over its limit");
	who = sender_of(p[4]);
	if (who && who != 'B' && who != from)
		return broken(why, "a frame that this side may not send");
	if (!who && (p[5] & FRAME_CRITICAL))
		return broken(why, "an unknown critical frame");
	*size = (size_t)len + 4;
	if (n < *size)
		return 0;
	out->type = who ? p[4] : 0;
	out->flags = p[5];
	out->channel = 0;
	out->stream = 0;
	out->offset = 0;
	out->p = NULL;
	out->n = 0;
	if (!who)
		return 1;
	c = (struct cursor){.in = p + FRAME_HEADER, .left = *size - FRAME_HEADER};
	body_get(&c, out);
	return c.bad ? broken(why, "a frame whose fields do not fit") : 1;
}

void frame_transcript(const char who[8], const struct frame_hello *hub, const struct frame_hello *let,
		      uint8_t out[FRAME_TRANSCRIPT])
{
	struct cursor c = {.out = out, .left = FRAME_TRANSCRIPT};

	wbytes(&c, who, 8);
	hello_head(&c, hub);
	hello_head(&c, let);
}
