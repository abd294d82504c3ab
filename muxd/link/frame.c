/* The form of frames; what they mean is in docs/protocol.md. Shared with muxlet: libc only. */
#include "muxd/link/frame.h"

#include "base/bytes.h"

#include <string.h>

/*
 * A place in a buffer of known size, which is written (out) or read (in): what a frame holds is said once for both.
 * Once `bad` it stays so, and nothing more is read or written.
 */
struct cursor {
	uint8_t *out;
	const uint8_t *in;
	size_t left;
	bool bad;
};

/* Are there n bytes more? They are the caller's. */
static bool frame_room(struct cursor *c, size_t n)
{
	c->bad = c->bad || c->left < n;
	if (!c->bad)
		c->left -= n;
	return !c->bad;
}

static void frame_put_bytes(struct cursor *c, const void *v, size_t n)
{
	if (!frame_room(c, n) || !n)
		return;
	memcpy(c->out, v, n);
	c->out += n;
}

static void put_strings(struct cursor *c, const char *const *v, uint32_t n)
{
	for (uint32_t i = 0; i < n && !c->bad; i++)
		frame_put_bytes(c, v[i], strlen(v[i]) + 1);
}

static const uint8_t *frame_take(struct cursor *c, size_t n)
{
	const uint8_t *at = c->in;

	if (!frame_room(c, n))
		return NULL;
	c->in += n;
	return at;
}

static void any_bytes(struct cursor *c, void *v, size_t n)
{
	const uint8_t *p;

	if (c->out)
		frame_put_bytes(c, v, n);
	else if ((p = frame_take(c, n)))
		memcpy(v, p, n);
}

/* A number of n bytes: v is written, or what was read comes back. */
static uint64_t any_number(struct cursor *c, uint64_t v, size_t n)
{
	uint8_t bytes[8] = {0};

	if (c->out)
		put_u64(bytes, v);
	any_bytes(c, bytes, n);
	return get_u64(bytes);
}

static void any_8(struct cursor *c, uint8_t *v)
{
	*v = (uint8_t)any_number(c, *v, 1);
}

static void any_16(struct cursor *c, uint16_t *v)
{
	*v = (uint16_t)any_number(c, *v, 2);
}

static void any_32(struct cursor *c, uint32_t *v)
{
	*v = (uint32_t)any_number(c, *v, 4);
}

static void any_64(struct cursor *c, uint64_t *v)
{
	*v = any_number(c, *v, 8);
}

static void any_three(struct cursor *c, uint64_t v[3])
{
	for (int i = 0; i < 3; i++)
		any_64(c, &v[i]);
}

/* The bytes left of a frame. A read over the bound breaks the frame. */
static void any_rest(struct cursor *c, struct frame *f, size_t max)
{
	if (c->out) {
		frame_put_bytes(c, f->p, f->n);
	} else {
		f->n = c->left;
		f->p = frame_take(c, c->left);
	}
	c->bad = c->bad || f->n > max;
}

/* A sentence of our own is cut. */
static void any_text(struct cursor *c, struct frame *f)
{
	if (c->out && f->n > FRAME_TEXT_MAX)
		f->n = FRAME_TEXT_MAX;
	any_rest(c, f, FRAME_TEXT_MAX);
}

/* But for the proof. */
static void hello_head(struct cursor *c, struct frame_hello *h)
{
	uint32_t magic = FRAME_MAGIC;

	any_32(c, &magic);
	c->bad = c->bad || magic != FRAME_MAGIC;
	any_16(c, &h->major);
	any_16(c, &h->minor);
	any_64(c, &h->features);
	any_64(c, &h->epoch);
	any_bytes(c, h->nonce, FRAME_NONCE);
}

static void exit_fields(struct cursor *c, struct frame_exit *x)
{
	any_8(c, &x->cause);
	any_8(c, &x->signal);
	any_32(c, (uint32_t *)&x->code);
	any_32(c, (uint32_t *)&x->error);
	any_bytes(c, x->at, FRAME_AT_LEN);
	any_three(c, x->total);
	if (!c->out)
		x->at[FRAME_AT_LEN - 1] = 0;
}

static void list_fields(struct cursor *c, struct frame_list *l)
{
	any_bytes(c, l->session, 16);
	any_8(c, &l->flags);
	any_64(c, &l->consumed);
	any_three(c, l->kept_from);
	any_three(c, l->produced);
	exit_fields(c, &l->exit);
}

/* The rest must be 1 + argc + envc strings, each with its NUL, and nothing else. */
static void open_strings_get(struct cursor *c, struct frame_open *o)
{
	uint64_t strings = 0;

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

static void open_fields(struct cursor *c, struct frame_open *o)
{
	any_bytes(c, o->session, 16);
	any_16(c, &o->flags);
	any_16(c, &o->cols);
	any_16(c, &o->rows);
	any_16(c, &o->xpixel);
	any_16(c, &o->ypixel);
	any_64(c, &o->timeout_ms);
	any_64(c, &o->grace_ms);
	any_64(c, &o->window);
	if (o->flags & OPEN_IDLE)
		any_64(c, &o->idle_ms);
	any_32(c, &o->argc);
	any_32(c, &o->envc);
	if (!c->out) {
		open_strings_get(c, o);
		return;
	}
	frame_put_bytes(c, o->cwd, strlen(o->cwd) + 1);
	put_strings(c, o->argv, o->argc);
	put_strings(c, o->env, o->envc);
	c->bad = c->bad || o->argc == 0;
}

static void channel_fields(struct cursor *c, struct frame *f)
{
	switch (f->type) {
	case FRAME_LIST:
		list_fields(c, &f->u.list);
		break;
	case FRAME_OPEN:
		open_fields(c, &f->u.open);
		break;
	case FRAME_OPENED:
		any_16(c, &f->u.opened.code);
		any_32(c, &f->u.opened.pid);
		any_text(c, f);
		break;
	case FRAME_BEGUN:
		any_rest(c, f, FRAME_BEGUN_MAX);
		break;
	case FRAME_ERROR:
		any_16(c, &f->u.opened.code);
		any_text(c, f);
		break;
	case FRAME_DATA:
		any_8(c, &f->stream);
		any_64(c, &f->offset);
		any_rest(c, f, FRAME_DATA_MAX);
		c->bad = c->bad || f->n == 0;
		break;
	case FRAME_EOF:
	case FRAME_WINDOW:
	case FRAME_ACK:
	case FRAME_CONSUMED:
		any_8(c, &f->stream);
		any_64(c, &f->offset);
		break;
	case FRAME_RESIZE:
		any_16(c, &f->u.resize.cols);
		any_16(c, &f->u.resize.rows);
		any_16(c, &f->u.resize.xpixel);
		any_16(c, &f->u.resize.ypixel);
		break;
	case FRAME_SIGNAL:
	case FRAME_KILL:
	case FRAME_ECHO:
		any_8(c, &f->u.number);
		break;
	case FRAME_EXIT:
		exit_fields(c, &f->u.exit);
		any_text(c, f);
		break;
	case FRAME_RESUME:
		any_three(c, f->u.resume.have);
		any_64(c, &f->u.resume.window);
		break;
	case FRAME_FORGET: /* the channel is all */
		break;
	case FRAME_SECRET:
		any_16(c, &f->u.fd);
		any_rest(c, f, FRAME_SECRET_MAX);
		break;
	default:
		c->bad = true;
	}
}

static void frame_fields(struct cursor *c, struct frame *f)
{
	switch (f->type) {
	case FRAME_HELLO:
		hello_head(c, &f->u.hello);
		any_bytes(c, f->u.hello.proof, FRAME_PROOF_LEN);
		break;
	case FRAME_PROOF:
		any_bytes(c, f->u.proof, FRAME_PROOF_LEN);
		break;
	case FRAME_LISTED:
		any_64(c, &f->offset);
		if (!c->out && !c->left) /* of a muxlet from before FEATURE_STARTS */
			break;
		any_64(c, &f->u.listed.life);
		any_64(c, &f->u.listed.opens);
		break;
	case FRAME_PING:
	case FRAME_PONG:
	case FRAME_CLEAR:
		any_64(c, &f->offset);
		break;
	case FRAME_CLEARED:
		any_64(c, &f->offset);
		any_16(c, &f->u.opened.code);
		break;
	case FRAME_GOODBYE:
		any_16(c, &f->u.opened.code);
		any_text(c, f);
		break;
	default:
		any_32(c, &f->channel);
		c->bad = c->bad || (!c->out && f->channel == 0 && f->type != FRAME_ERROR);
		channel_fields(c, f);
	}
}

static bool exit_sound(const struct frame_exit *x)
{
	return x->cause <= CAUSE_IDLE_TIMEOUT && x->signal <= 64;
}

/* Of one that was read: do its values make sense? */
static bool frame_sound(const struct frame *f)
{
	const struct frame_list *l = &f->u.list;

	switch (f->type) {
	case FRAME_LIST:
		return exit_sound(&l->exit) && l->kept_from[1] <= l->produced[1] && l->kept_from[2] <= l->produced[2];
	case FRAME_BEGUN:
		return f->n && memchr(f->p, 0, f->n);
	case FRAME_DATA:
		return f->stream <= 2 && f->offset <= UINT64_MAX - FRAME_DATA_MAX;
	case FRAME_EOF:
	case FRAME_WINDOW:
	case FRAME_ACK:
	case FRAME_CONSUMED:
		return f->stream <= 2;
	case FRAME_SIGNAL:
		return f->u.number >= 1 && f->u.number <= 64;
	case FRAME_KILL:
		return f->u.number <= CAUSE_IDLE_TIMEOUT;
	case FRAME_EXIT:
		return exit_sound(&f->u.exit);
	default:
		return true;
	}
}

size_t frame_encode(const struct frame *f, uint8_t *out, size_t cap)
{
	struct cursor c = {.out = out, .left = cap};
	struct frame copy = *f;
	uint32_t later = 0;
	size_t size;

	any_32(&c, &later);
	any_8(&c, &copy.type);
	any_8(&c, &copy.flags);
	frame_fields(&c, &copy);
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
	*out = (struct frame){.type = who ? p[4] : 0, .flags = p[5]};
	if (!who)
		return 1;
	c = (struct cursor){.in = p + FRAME_HEADER, .left = *size - FRAME_HEADER};
	frame_fields(&c, out);
	return c.bad || !frame_sound(out) ? broken(why, "a frame whose fields do not fit") : 1;
}

void frame_transcript(const char who[8], const struct frame_hello *hub, const struct frame_hello *let,
		      uint8_t out[FRAME_TRANSCRIPT])
{
	struct cursor c = {.out = out, .left = FRAME_TRANSCRIPT};
	struct frame_hello of_hub = *hub, of_let = *let;

	frame_put_bytes(&c, who, 8);
	hello_head(&c, &of_hub);
	hello_head(&c, &of_let);
}
