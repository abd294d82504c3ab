#include "muxd/base/between.h"

#include "muxd/base/visible.h"

#include <stdio.h>
#include <string.h>

#define TITLE_TEXT_MAX 400

enum { BETWEEN_GROUND, BETWEEN_ESC, BETWEEN_ESC_MORE, BETWEEN_CSI, BETWEEN_OSC, BETWEEN_STRING, BETWEEN_STRING_ESC };

/* How many bytes the character that p ends with still wants. */
static uint8_t wants(const uint8_t *p, size_t n)
{
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		uint8_t c = p[n - back];
		unsigned len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;

		if ((c & 0xc0) != 0x80)
			return (uint8_t)(len > back ? len - back : 0);
	}
	return 0;
}

/* Plain text up to the next escape sequence. */
static size_t ground(struct between *b, const uint8_t *p, size_t n)
{
	const uint8_t *esc = memchr(p, 0x1b, n);
	size_t len = esc ? (size_t)(esc - p) : n, at = 0;

	while (at < len && b->more && (p[at] & 0xc0) == 0x80) {
		at++;
		b->more--;
	}
	if (at < len)
		b->more = wants(p + at, len - at);
	if (!esc)
		return n;
	b->state = BETWEEN_ESC;
	b->more = 0;
	return len + 1;
}

/* BEL ends an OSC, and no other string. */
static size_t string(struct between *b, const uint8_t *p, size_t n)
{
	bool osc = b->state == BETWEEN_OSC;

	for (size_t i = 0; i < n; i++)
		if (p[i] == 0x1b || (osc && p[i] == 0x07) || p[i] == 0x18 || p[i] == 0x1a) {
			b->state = p[i] == 0x1b ? BETWEEN_STRING_ESC : BETWEEN_GROUND;
			return i + 1;
		}
	return n;
}

static void sequence(struct between *b, uint8_t c)
{
	if (c == 0x1b) {
		b->state = BETWEEN_ESC;
	} else if (c == 0x18 || c == 0x1a) {
		b->state = BETWEEN_GROUND;
	} else if (b->state == BETWEEN_CSI) {
		if ((c >= 0x40 && c < 0x7f) || c >= 0x80)
			b->state = BETWEEN_GROUND;
	} else if (b->state == BETWEEN_ESC_MORE) {
		if (c >= 0x30)
			b->state = BETWEEN_GROUND;
	} else if (c == '[') {
		b->state = BETWEEN_CSI;
	} else if (c == ']') {
		b->state = BETWEEN_OSC;
	} else if (c == 'P' || c == 'X' || c == '^' || c == '_') {
		b->state = BETWEEN_STRING;
	} else if (c >= 0x20) {
		b->state = c < 0x30 ? BETWEEN_ESC_MORE : BETWEEN_GROUND;
	}
}

void between_feed(struct between *b, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	while (n) {
		size_t took = 1;

		if (b->state == BETWEEN_GROUND)
			took = ground(b, p, n);
		else if (b->state == BETWEEN_STRING || b->state == BETWEEN_OSC)
			took = string(b, p, n);
		else
			sequence(b, *p);
		p += took;
		n -= took;
	}
}

size_t between_title(char out[BETWEEN_TITLE_MAX], const char *text, bool first, const char *fallback)
{
	char shown[TITLE_TEXT_MAX];
	const char *words = text ? text : fallback;

	visible_put(shown, sizeof(shown), words, strlen(words), 0);
	int n = snprintf(out, BETWEEN_TITLE_MAX, "%s\033]2;%s%s\033\\%s", text && first ? "\033[22;2t" : "",
			 text ? "[muxd] " : "", shown, text ? "" : "\033[23;2t");
	return n > 0 ? (size_t)n : 0;
}

bool between_has_title(const char *term)
{
	static const char *const none[] = {"", "dumb", "unknown", "emacs"};

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		if (!term || strcmp(term, none[i]) == 0)
			return false;
	return true;
}
