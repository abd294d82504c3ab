#include "muxd/ctl/vtscan.h"

enum vtscan_state { VT_GROUND, VT_ESC, VT_ESC_MORE, VT_CSI, VT_STRING, VT_STRING_ESC };

static void ground(struct vtscan *s, uint8_t c)
{
	if (c == 0x1b) {
		s->state = VT_ESC;
		s->more = 0;
	} else if (c >= 0xc2 && c <= 0xf4) {
		s->more = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
	} else if (c >= 0x80 && c < 0xc0 && s->more) {
		s->more--;
	} else {
		s->more = 0;
	}
}

static void scrolls_to_the_end(struct vtscan *s, unsigned top)
{
	s->whole = true;
	s->top = top ? top : 1;
}

static void escape(struct vtscan *s, uint8_t c)
{
	if (c == '[')
		s->state = VT_CSI;
	else if (c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_')
		s->state = VT_STRING;
	else if (c >= 0x20 && c < 0x30)
		s->state = VT_ESC_MORE;
	else if (c != 0x1b)
		s->state = VT_GROUND;
	if (c == '7')
		s->saved = true;
	else if (c == '8' || c == 'c')
		s->saved = false;
	if (c == 'c')
		scrolls_to_the_end(s, 1);
	s->first = s->last = c;
	s->nparams = s->params[0] = s->params[1] = 0;
}

static void escape_more(struct vtscan *s, uint8_t c)
{
	if (c == 0x1b) {
		s->state = VT_ESC;
	} else if (c >= 0x30) {
		s->state = VT_GROUND;
		if (c == '8' && s->first == '#')
			scrolls_to_the_end(s, 1);
	}
}

/* CSI top ; bottom r. A private marker or an intermediate makes it another sequence. */
static void final(struct vtscan *s, uint8_t c)
{
	bool plain = s->last == '[' || s->last == ';' || (s->last >= '0' && s->last <= '9');

	if (c == 'r' && plain && s->first != '?') {
		s->whole = false;
		if (s->params[1] == 0 || (s->rows && s->params[1] > s->rows))
			scrolls_to_the_end(s, s->params[0]);
	} else if (c == 'p' && s->last == '!') {
		s->saved = false;
		scrolls_to_the_end(s, 1);
	} else if ((c == 's' || c == 'u') && s->last == '[') {
		s->saved = c == 's';
	}
}

static void vtscan_control(struct vtscan *s, uint8_t c)
{
	uint16_t *param = s->nparams < 2 ? &s->params[s->nparams] : NULL;

	if (c == 0x1b) {
		s->state = VT_ESC;
	} else if (c >= 0x40 && c != 0x7f) {
		s->state = VT_GROUND;
		final(s, c);
	} else if (c == ';') {
		s->nparams += s->nparams < 2;
	} else if (c >= '0' && c <= '9' && param) {
		*param = *param < 1000 ? (uint16_t)(*param * 10 + (c - '0')) : *param;
	} else if (c >= 0x3c && c <= 0x3f) {
		s->first = '?';
	}
	if (c >= 0x20)
		s->last = c;
}

static void feed(struct vtscan *s, uint8_t c)
{
	/* CAN and SUB end anything. */
	if (c == 0x18 || c == 0x1a) {
		s->state = VT_GROUND;
		s->more = 0;
		return;
	}
	switch (s->state) {
	case VT_ESC:
		escape(s, c);
		break;
	case VT_ESC_MORE:
		escape_more(s, c);
		break;
	case VT_CSI:
		vtscan_control(s, c);
		break;
	case VT_STRING:
		if (c == 0x1b)
			s->state = VT_STRING_ESC;
		else if (c == 0x07)
			s->state = VT_GROUND;
		break;
	case VT_STRING_ESC:
		if (c == '\\')
			s->state = VT_GROUND;
		else
			escape(s, c);
		break;
	default:
		ground(s, c);
	}
}

size_t vtscan_feed(struct vtscan *s, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		bool was = s->whole && !s->saved;

		feed(s, p[i]);
		if (s->whole && !s->saved && !was)
			return i + 1;
	}
	return n;
}

bool vtscan_between(const struct vtscan *s)
{
	return s->state == VT_GROUND && s->more == 0;
}
