#include "muxd/screen/sgr.h"

#include <string.h>

/* How many arguments from i + 1 on hang on it by colons. */
static unsigned joined(const struct filter_csi *c, unsigned i)
{
	unsigned n = 0;

	while (i + 1 + n < c->n && c->joined & UINT32_C(1) << (i + 1 + n))
		n++;
	return n;
}

static int arg(const struct filter_csi *c, unsigned i, int missing)
{
	return i < c->n && c->args[i] >= 0 ? c->args[i] : missing;
}

static bool rgb(const struct filter_csi *c, unsigned i, uint32_t *out)
{
	uint32_t v = 0;

	if (i + 3 > c->n)
		return false;
	for (unsigned k = 0; k < 3; k++) {
		int part = arg(c, i + k, 0);

		if (part > 255)
			return false;
		v = v << 8 | (uint32_t)part;
	}
	*out = COLOR_RGB | v;
	return true;
}

/* 38;5;n 38;2;r;g;b 38:5:n 38:2:r:g:b 38:2:space:r:g:b. Returns how many arguments follow i. */
static unsigned color(const struct filter_csi *c, unsigned i, uint32_t *out)
{
	unsigned n = joined(c, i), own = n;
	int kind = arg(c, i + 1, -1), index = arg(c, i + 2, 0);

	if (!n)
		own = kind == 5 ? 2 : kind == 2 ? 4 : 1;
	if (kind == 5 && own >= 2 && i + 2 < c->n && index <= 255)
		*out = COLOR_INDEX | (uint32_t)index;
	else if (kind == 2 && own >= 4)
		(void)rgb(c, i + (n >= 5 ? 3 : 2), out);
	return own;
}

static void attribute(struct pen *p, int v)
{
	static const uint8_t on[] = {0,         PEN_BOLD,  PEN_FAINT,   PEN_ITALIC, 0,
				     PEN_BLINK, PEN_BLINK, PEN_REVERSE, PEN_HIDDEN, PEN_STRIKE};
	static const uint8_t off[] = {0,         0, PEN_BOLD | PEN_FAINT, PEN_ITALIC, 0,
				      PEN_BLINK, 0, PEN_REVERSE,          PEN_HIDDEN, PEN_STRIKE};

	if (v < 10)
		p->attrs |= on[v];
	else if (v >= 20 && v < 30)
		p->attrs &= (uint8_t)~off[v - 20];
	if (v == 21)
		p->underline = 2;
	else if (v == 24)
		p->underline = 0;
	else if (v == 53)
		p->attrs |= PEN_OVERLINE;
	else if (v == 55)
		p->attrs &= (uint8_t)~PEN_OVERLINE;
}

static void plain_color(struct pen *p, int v)
{
	if (v >= 30 && v <= 37)
		p->fg = COLOR_INDEX | (uint32_t)(v - 30);
	else if (v >= 90 && v <= 97)
		p->fg = COLOR_INDEX | (uint32_t)(v - 90 + 8);
	else if (v >= 40 && v <= 47)
		p->bg = COLOR_INDEX | (uint32_t)(v - 40);
	else if (v >= 100 && v <= 107)
		p->bg = COLOR_INDEX | (uint32_t)(v - 100 + 8);
	else if (v == 39)
		p->fg = 0;
	else if (v == 49)
		p->bg = 0;
	else if (v == 59)
		p->under = 0;
}

void sgr_apply(struct pen *pen, const struct filter_csi *c)
{
	for (unsigned i = 0; i < c->n; i++) {
		int v = arg(c, i, 0);

		if (v == 0) {
			memset(pen, 0, sizeof(*pen));
		} else if (v == 38 || v == 48 || v == 58) {
			i += color(c, i, v == 38 ? &pen->fg : v == 48 ? &pen->bg : &pen->under);
			continue;
		} else if (v == 4) {
			int style = joined(c, i) ? arg(c, i + 1, 1) : 1;

			pen->underline = style <= 5 ? (uint8_t)style : 1;
		} else {
			attribute(pen, v);
			plain_color(pen, v);
		}
		i += joined(c, i);
	}
}
