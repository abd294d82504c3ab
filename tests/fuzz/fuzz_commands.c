// tier: check
/*
 * Commands off a hostile terminal: output with marks, keys of any kind, holes, sizes. 0xff and two bytes are a resize,
 * 0xfe a hole in the output, 0xfd a length and so many keys, 0xfc the same, hidden; the rest is output. Whatever comes:
 * the same commands however the output was cut into pieces, each behind the one before it, in text of bounded size that
 * is UTF-8, and each comes whole through a frame.
 */
#include "base/buf.h"
#include "base/utf8.h"
#include "muxd/screen/commands.h"
#include "muxd/screen/frame.h"
#include "muxd/screen/term.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TOLD_MAX (4 * 1024 * 1024)

struct run {
	struct commands *c;
	struct term *t;
	uint64_t in, out, last;
	struct buf told;
};

static void must(bool ok)
{
	if (!ok)
		abort();
}

static bool text_is_sound(const char *s, size_t max)
{
	return strlen(s) <= max && utf8_valid((const uint8_t *)s, strlen(s));
}

static void found(void *arg, const struct command *c)
{
	struct run *r = arg;
	size_t before = buf_len(&r->told), size;
	struct screen_frame f;
	struct command back;
	struct buf one;

	must(c->at > r->last && c->at <= r->out + 65536);
	r->last = c->at;
	must(text_is_sound(c->text, COMMAND_TEXT_MAX) && text_is_sound(c->mark, COMMAND_TEXT_MAX) &&
	     text_is_sound(c->nonce, COMMAND_NONCE_MAX));
	must(c->text[0] || c->mark[0]);
	if (command_put(&r->told, c))
		return;
	buf_init(&one, TOLD_MAX);
	must(buf_append(&one, buf_ptr(&r->told) + before, buf_len(&r->told) - before) == 0);
	must(screen_frame_next(&one, &f, &size) == 1 && command_get(&f, &back) == 0);
	must(strcmp(back.text, c->text) == 0 && strcmp(back.mark, c->mark) == 0 && strcmp(back.nonce, c->nonce) == 0);
	must(back.at == c->at && back.input == c->input && back.hand == c->hand && back.shared == c->shared);
	buf_finish(&one);
}

static void keys(struct run *r, const uint8_t *p, size_t n, bool hidden)
{
	struct command_keys k = {.offset = r->in, .hand = (uint16_t)(n % 3), .hidden = hidden, .p = p, .n = n};

	commands_keys(r->c, r->t, &k);
	r->in += n;
}

/* piece: of how many bytes of output at a time. */
static void run(struct run *r, const uint8_t *p, size_t n, size_t piece)
{
	*r = (struct run){.in = 0};
	buf_init(&r->told, TOLD_MAX);
	must(commands_create(found, r, &r->c) == 0 && term_create(p[0] % 100, p[1] % 30, &r->t) == 0);
	for (size_t at = 2, len; at < n; at += len) {
		if (p[at] == 0xff && at + 2 < n) {
			must(term_resize(r->t, p[at + 1] % 100, p[at + 2] % 30) == 0);
			len = 3;
		} else if (p[at] >= 0xfc && p[at] < 0xfe && at + 1 < n && p[at + 1] <= n - at - 2) {
			len = 2 + (size_t)p[at + 1];
			keys(r, p + at + 2, len - 2, p[at] == 0xfc);
		} else if (p[at] == 0xfe) {
			term_cut(r->t);
			commands_cut(r->c);
			len = 1;
		} else {
			for (len = 1; len < piece && at + len < n && p[at + len] < 0xfc; len++)
				;
			commands_output(r->c, r->t, r->out, p + at, len);
			r->out += len;
		}
	}
	commands_settle(r->c);
}

static void finish(struct run *r)
{
	commands_destroy(r->c);
	term_destroy(r->t);
	buf_finish(&r->told);
}

/* What a worker that was taken over may say. */
static void lie(const uint8_t *data, size_t size)
{
	struct screen_frame f = {.type = SCREEN_COMMAND, .payload = data, .len = size};
	struct command c;

	if (command_get(&f, &c) == 0)
		must(text_is_sound(c.text, COMMAND_TEXT_MAX) && text_is_sound(c.mark, COMMAND_TEXT_MAX) &&
		     text_is_sound(c.nonce, COMMAND_NONCE_MAX));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run whole, cut;

	lie(data, size);
	if (size < 2 || size > 16384)
		return 0;
	run(&whole, data, size, SIZE_MAX);
	run(&cut, data, size, 1);
	must(buf_len(&whole.told) == buf_len(&cut.told));
	must(!buf_len(&cut.told) || memcmp(buf_ptr(&whole.told), buf_ptr(&cut.told), buf_len(&cut.told)) == 0);
	finish(&whole);
	finish(&cut);
	return 0;
}
