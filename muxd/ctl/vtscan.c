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
	s->whole |= c == 'c';
	s->last = c;
}

/* CSI r without parameters, CSI ! p. */
static void control(struct vtscan *s, uint8_t c)
{
	if (c == 0x1b)
		s->state = VT_ESC;
	else if (c >= 0x40 && c != 0x7f)
		s->state = VT_GROUND;
	s->whole |= (c == 'r' && s->last == '[') || (c == 'p' && s->last == '!');
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
		if (c == 0x1b)
			s->state = VT_ESC;
		else if (c >= 0x30)
			s->state = VT_GROUND;
		break;
	case VT_CSI:
		control(s, c);
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

void vtscan_feed(struct vtscan *s, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		feed(s, p[i]);
}

bool vtscan_between(const struct vtscan *s)
{
	return s->state == VT_GROUND && s->more == 0;
}
