#include "base/between.h"

#include "base/visible.h"

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

/* C1 controls in UTF-8 are U+0080 to U+009F, and terminals take them for ESC and a letter. */
#define C1_LEAD 0xc2
#define C1_ST   0x9c

static void between_control(struct between *b, uint8_t c)
{
	if (c == 0x9b)
		b->state = BETWEEN_CSI;
	else if (c == 0x9d)
		b->state = BETWEEN_OSC;
	else if (c == 0x90 || c == 0x98 || c == 0x9e || c == 0x9f)
		b->state = BETWEEN_STRING;
}

/* The next byte of a character that began before. False: it is none, and what began is no character. */
static bool goes_on(struct between *b, uint8_t c)
{
	bool is_c1 = b->lead == C1_LEAD && c < 0xa0;

	b->lead = 0;
	if ((c & 0xc0) != 0x80) {
		b->more = 0;
		return false;
	}
	b->more--;
	if (is_c1)
		between_control(b, c);
	return true;
}

/* The first C1 control of p, whole; NULL: none. */
static const uint8_t *find_c1(const uint8_t *p, size_t n)
{
	const uint8_t *end = p + n;

	while ((p = memchr(p, C1_LEAD, (size_t)(end - p))) && p + 1 < end) {
		if (p[1] >= 0x80 && p[1] < 0xa0)
			return p;
		p++;
	}
	return NULL;
}

/* Plain text up to the next escape sequence. */
static size_t ground(struct between *b, const uint8_t *p, size_t n)
{
	const uint8_t *esc, *c1;
	size_t len;

	if (b->more && goes_on(b, *p))
		return 1;
	esc = memchr(p, 0x1b, n);
	len = esc ? (size_t)(esc - p) : n;
	c1 = find_c1(p, len);
	if (c1) {
		between_control(b, c1[1]);
		return (size_t)(c1 - p) + 2;
	}
	if (esc) {
		b->state = BETWEEN_ESC;
		return len + 1;
	}
	b->more = wants(p, len);
	b->lead = p[n - 1] == C1_LEAD ? C1_LEAD : 0;
	return n;
}

/* BEL ends an OSC, and no other string. */
static size_t string(struct between *b, const uint8_t *p, size_t n)
{
	bool osc = b->state == BETWEEN_OSC;

	for (size_t i = 0; i < n; i++) {
		bool st = b->lead == C1_LEAD && p[i] == C1_ST;

		b->lead = p[i] == C1_LEAD ? C1_LEAD : 0;
		if (p[i] == 0x1b || st || (osc && p[i] == 0x07) || p[i] == 0x18 || p[i] == 0x1a) {
			b->state = p[i] == 0x1b ? BETWEEN_STRING_ESC : BETWEEN_GROUND;
			return i + 1;
		}
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
		if (c >= 0x40 && c < 0x7f)
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
		else if (*p < 0x80)
			sequence(b, *p);
		else /* no part of a sequence: it is broken off */
			b->state = BETWEEN_GROUND, took = 0;
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
