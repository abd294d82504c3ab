#include "base/tamer.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/utf8.h"

#include <stdio.h>

/* Private modes that draw: colours of the screen, origin, wrap, the cursor, the other screen. */
static const int modes_shown[] = {5, 6, 7, 12, 25, 47, 1047, 1048, 1049};

/* Without width, and nothing that a letter needs; they turn lines, tag, join invisibly. Sorted. */
static const struct {
	uint32_t first, last;
} unseen[] = {
    {0x061c, 0x061c}, {0x180e, 0x180e}, {0x200b, 0x200b}, {0x200e, 0x200f},   {0x2028, 0x202e},
    {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe00ff}, {0xe01f0, 0xe0fff},
};

static void tamer_put(struct tamer *t, const void *p, size_t n)
{
	if (t->rc == 0)
		t->rc = buf_append(t->out, p, n);
}

static bool is_unseen(uint32_t cp)
{
	for (size_t i = 0; i < sizeof(unseen) / sizeof(unseen[0]); i++)
		if (cp <= unseen[i].last)
			return cp >= unseen[i].first;
	return false;
}

/* In runs: nearly all text is whole. */
static void tamer_on_text(void *arg, const uint8_t *p, size_t n)
{
	size_t from = 0, at = 0;

	while (at < n) {
		uint32_t cp = 0;
		size_t size = p[at] < 0x80 ? 1 : utf8_step(p + at, n - at, &cp);

		if (p[at] >= 0x80 && (size == 0 || is_unseen(cp))) {
			tamer_put(arg, p + from, at - from);
			from = at + (size ? size : 1);
		}
		at += size ? size : 1;
	}
	tamer_put(arg, p + from, n - from);
}

static void tamer_on_control(void *arg, uint8_t c)
{
	tamer_put(arg, &c, 1);
}

static void tamer_on_escape(void *arg, char intermed, char final)
{
	/* A full reset empties the scrollback, and forgets what the person has set. */
	static const char reset[] = "\033[?1049l\033[!p\033[H\033[2J";
	char text[3] = {0x1b, intermed ? intermed : final, final};

	if (!intermed && final == 'c')
		tamer_put(arg, reset, sizeof(reset) - 1);
	else if (intermed || (final != '=' && final != '>')) /* what the keypad sends */
		tamer_put(arg, text, intermed ? 3 : 2);
}

static bool is_one_of(int n, const int *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (list[i] == n)
			return true;
	return false;
}

static bool sets_modes(const struct filter_csi *c)
{
	return (c->final == 'h' || c->final == 'l') && !c->intermed;
}

static bool may_show_mode(const struct filter_csi *c, int mode)
{
	static const int ansi[] = {4, 20};

	return c->leader ? is_one_of(mode, modes_shown, sizeof(modes_shown) / sizeof(modes_shown[0]))
			 : is_one_of(mode, ansi, sizeof(ansi) / sizeof(ansi[0]));
}

static bool may_show(const struct filter_csi *c)
{
	if (c->leader == '>') /* what keys send */
		return false;
	if (c->final == 'J')
		return c->n == 1 && c->args[0] <= 2; /* 3 is the scrollback */
	if (c->final == 'T')
		return c->n == 1; /* with more it follows the mouse */
	if ((c->final == 's' || c->final == 'u') && !c->intermed)
		return c->n == 1 && c->args[0] < 0; /* with some it sets margins */
	return true;
}

static void tamer_on_csi(void *arg, const struct filter_csi *c)
{
	char text[8 + FILTER_ARGS_MAX * 6];
	size_t n = 0;
	unsigned said = 0;

	if (!may_show(c))
		return;
	text[n++] = 0x1b;
	text[n++] = '[';
	if (c->leader)
		text[n++] = c->leader;
	for (unsigned i = 0; i < c->n; i++) {
		if (sets_modes(c) && !may_show_mode(c, c->args[i]))
			continue;
		if (said++)
			text[n++] = c->joined & (UINT32_C(1) << i) ? ':' : ';';
		if (c->args[i] >= 0)
			n += (size_t)snprintf(text + n, 6, "%d", c->args[i]);
	}
	if (sets_modes(c) && !said)
		return;
	if (c->intermed)
		text[n++] = c->intermed;
	text[n++] = c->final;
	tamer_put(arg, text, n);
}

/* Whose window it is chose its title. */
static void tamer_on_title(void *arg, const char *p, size_t n)
{
	(void)arg;
	(void)p;
	(void)n;
}

static const struct filter_ops tamer_ops = {.text = tamer_on_text,
					    .control = tamer_on_control,
					    .escape = tamer_on_escape,
					    .csi = tamer_on_csi,
					    .title = tamer_on_title};

void tamer_init(struct tamer *t)
{
	*t = (struct tamer){.rc = 0};
	filter_init(&t->filter, &tamer_ops, t);
}

int tamer_feed(struct tamer *t, const void *p, size_t n, struct buf *out)
{
	if (n > buf_room(out) / TAMER_GROWTH)
		return ERR_TOO_LARGE;
	t->out = out;
	t->rc = 0;
	filter_feed(&t->filter, p, n);
	t->out = NULL;
	return t->rc;
}

void tamer_cut(struct tamer *t)
{
	filter_cut(&t->filter);
}
