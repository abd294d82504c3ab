#include "muxd/screen/version.h"

#include "base/buf.h"
#include "base/crc.h"
#include "base/err.h"
#include "muxd/screen/draw.h"
#include "muxd/screen/term.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS    256
#define PIECES    8 /* of each round */
#define DRAWN_MAX (256 * 1024)

/* Whatever a term keeps is in one of them. */
static const char *const pieces[] = {
    "plain text ",
    "a line\r\n",
    "na\303\257ve \316\261\316\262 ",
    "\346\274\242\345\255\227",
    "\360\237\230\200",
    "e\314\201o\314\210",
    "a\314\201\314\202\314\203\314\204\314\205\314\206",
    "\xff\xc3(",
    "\033[1;31m",
    "\033[0;4:3;58;5;9m",
    "\033[38;2;1;2;3;48;5;200m",
    "\033[7;9;53m",
    "\033[m",
    "\033[5;7H",
    "\033[3A\033[2C",
    "\033[4D\033[1B",
    "\033[2J",
    "\033[K",
    "\033[1J",
    "\033[3X",
    "\033[2P\033[3@",
    "\033[2L",
    "\033[M",
    "\033[3;9r",
    "\033[r",
    "\033[2S\033[1T",
    "\033M\033D\033E",
    "\0337",
    "\0338",
    "\033[?1049h",
    "\033[?1049l",
    "\033[?47h",
    "\033[?47l",
    "\033[?6h",
    "\033[?6l",
    "\033[?7l",
    "\033[?7h",
    "\033[4h",
    "\033[4l",
    "\033[?25l\033[?2004h",
    "\033(0lqk\033(B",
    "\016x\017",
    "\016y",
    "\033[7;999Hz",
    "\033[99;3H",
    "\033)0",
    "\033[3g\033[8G\033H",
    "\t",
    "\b\b!",
    "\033]2;title\007",
    "\033[3 q",
    "\033[>4;1m",
    "\033=",
    "\033[5b",
    "\033c",
    "a line that is longer than any row of this small terminal, so that it goes on in the next one",
};

static uint32_t roll(uint32_t *state, uint32_t below)
{
	*state = *state * 1664525 + 1013904223;
	return (*state >> 8) % below;
}

static int one_round(struct term *t, uint32_t *state, struct buf *drawn)
{
	for (unsigned i = 0; i < PIECES; i++) {
		const char *p = pieces[roll(state, sizeof(pieces) / sizeof(pieces[0]))];

		term_feed(t, (const uint8_t *)p, strlen(p));
	}
	return draw_term(t, drawn);
}

static int sample(struct term *t, uint32_t *out_crc)
{
	struct buf drawn;
	uint32_t state = 1;
	int rc = 0;

	*out_crc = 0;
	buf_init(&drawn, DRAWN_MAX);
	for (unsigned i = 0; rc == 0 && i < ROUNDS; i++) {
		if (i % 4 == 3)
			rc = term_resize(t, 20 + (int)roll(&state, 60), 6 + (int)roll(&state, 20));
		if (rc == 0)
			rc = one_round(t, &state, &drawn);
		if (rc == 0)
			*out_crc = crc32_add(*out_crc, buf_ptr(&drawn), buf_len(&drawn));
		buf_clear(&drawn);
	}
	buf_finish(&drawn);
	return rc;
}

int version_of_drawing(char out[VERSION_MAX])
{
	struct term *t;
	uint32_t crc;
	int rc = term_create(40, 12, &t);

	if (rc)
		return rc;
	rc = sample(t, &crc);
	term_destroy(t);
	if (rc == 0)
		snprintf(out, VERSION_MAX, "%d-%08x", SCREEN_DRAWING, (unsigned)crc);
	return rc;
}
