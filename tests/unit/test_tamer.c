// tier: check
/* tamer.h: what of a terminal's output reaches the terminal of somebody who looks on; by examples, and by 10,000
 * hostile texts. */
#include "base/buf.h"
#include "base/err.h"
#include "base/tamer.h"
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RESET "\033[?1049l\033[!p\033[H\033[2J"

static const struct {
	const char *in, *out;
} table[] = {
    {"plain \033[1;31mred\033[m caf\xc3\xa9\r\n\tx\b", "plain \033[1;31mred\033[m caf\xc3\xa9\r\n\tx\b"},
    {"\033[38:2::1:2:3m\033[;5H\033[2J\033[K", "\033[38:2::1:2:3m\033[;5H\033[2J\033[K"},
    {"\033[?1049h\033[?25l\0337\033[5;9r\033(0qx\033(B\0338", "\033[?1049h\033[?25l\0337\033[5;9r\033(0qx\033(B\0338"},
    {"\033[4h\033[20h\033[4 q\033[!p\033#8\033M", "\033[4h\033[20h\033[4 q\033[!p\033#8\033M"},
    /* the clipboard, links, titles, colours that are asked for, pictures, notifications */
    {"\033]52;c;aGk=\a\033]8;;file:///etc/passwd\033\\link\033]8;;\033\\", "link"},
    {"\033]0;root@host\a\033]2;x\033\\\033]10;?\a\033]1337;File=x:aGk=\a\033]777;notify;a;b\a.", "."},
    /* printing, device attributes, cursor and window reports, terminfo, answers by hand */
    {"\033[5i\033[4i\033[?5i\033[c\033[>c\033[=c\033[6n\033[5n\033[?6n\033[21t\033[14t\033[>q\033[?u.", "."},
    {"\033P+q544e\033\\\033P$qm\033\\\033_Ga=q;\033\\\033^x\033\\\033Xx\033\\\005.", "."},
    /* keyboard, mouse, focus, paste, lines that a terminal locks, a window of other width */
    {"\033[?1000h\033[?1006;1004;2004h\033[?1h\033=\033[>4;2m\033[2h\033[12l\033[?3h\033[1;2;3;4;5T.", "."},
    {"\033[?25;1000;7h\033[2;4h", "\033[?25;7h\033[4h"},
    /* the scrollback, full resets, margins */
    {"\033[3J\033[?3J\033[2;3J\033c\033[2;5s\033[s\033[u", RESET "\033[s\033[u"},
    /* C1, in UTF-8 and as a byte; bells and other controls; what turns lines and joins unseen */
    {"\xc2\x9b"
     "6n\x9b"
     "6n\a\x01\x7f",
     "6n\xef\xbf\xbd"
     "6n"},
    {"a\xe2\x80\xae"
     "b\xd8\x9c\xe2\x81\xa6"
     "c\xe2\x80\xa8\xf3\xa0\x81\x81\xef\xbb\xbf"
     "d",
     "abcd"},
    {"\xd9\x85\xe2\x80\x8c\xd8\xb1 \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80 \xee\x82\xb0",
     "\xd9\x85\xe2\x80\x8c\xd8\xb1 \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80 \xee\x82\xb0"},
};

static void tame(const void *p, size_t n, size_t cut, struct buf *out)
{
	struct tamer t;

	tamer_init(&t);
	assert_int_equal(tamer_feed(&t, p, cut, out), 0);
	assert_int_equal(tamer_feed(&t, (const uint8_t *)p + cut, n - cut, out), 0);
}

static void what_draws_is_left(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		for (size_t cut = 0, n = strlen(table[i].in); cut <= n; cut++) {
			struct buf out;

			buf_init(&out, 64 * 1024);
			tame(table[i].in, n, cut, &out);
			assert_string_equal(buf_cstr(&out), table[i].out);
			buf_finish(&out);
		}
}

static void no_room_is_said_before_anything_is_done(void **state)
{
	struct tamer t;
	struct buf out;

	(void)state;
	buf_init(&out, 10 * TAMER_GROWTH);
	tamer_init(&t);
	assert_int_equal(tamer_feed(&t, "12345678901", 11, &out), ERR_TOO_LARGE);
	assert_int_equal(buf_len(&out), 0);
	assert_int_equal(tamer_feed(&t, "1234567890", 10, &out), 0);
	assert_int_equal(buf_len(&out), 10);
	buf_finish(&out);
}

static uint64_t seed = UINT64_C(0x2545f4914f6cdd1d);

static unsigned below(unsigned n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)((seed >> 11) % n);
}

/* Sequences of every shape, whole and broken, text, controls, bytes. */
static size_t hostile(uint8_t *out, size_t max)
{
	static const char leaders[] = "?><=", intermeds[] = " !\"#$%&'()*+,-./", strings[] = "]PX^_";
	size_t n = 0, want = 1 + below((unsigned)max - 80);

	while (n < want) {
		switch (below(8)) {
		case 0: /* CSI */
			out[n++] = 0x1b, out[n++] = '[';
			if (below(3) == 0)
				out[n++] = (uint8_t)leaders[below(4)];
			for (unsigned i = below(4); i; i--) {
				for (unsigned d = below(5); d; d--)
					out[n++] = (uint8_t)('0' + below(10));
				out[n++] = below(4) ? ';' : ':';
			}
			if (below(4) == 0)
				out[n++] = (uint8_t)intermeds[below(16)];
			out[n++] = (uint8_t)(0x40 + below(63));
			break;
		case 1: /* a string, ended or not */
			out[n++] = 0x1b, out[n++] = (uint8_t)strings[below(5)];
			for (unsigned i = below(30); i; i--)
				out[n++] = (uint8_t)(0x20 + below(95));
			if (below(4))
				out[n++] = 0x1b, out[n++] = '\\';
			else if (below(2))
				out[n++] = 7;
			break;
		case 2: /* ESC, an intermediate, a final byte */
			out[n++] = 0x1b;
			if (below(2))
				out[n++] = (uint8_t)intermeds[below(16)];
			out[n++] = (uint8_t)(0x30 + below(79));
			break;
		case 3:
			out[n++] = (uint8_t)below(0x20);
			break;
		case 4: /* C1 in UTF-8 */
			out[n++] = 0xc2, out[n++] = (uint8_t)(0x80 + below(0x20));
			break;
		case 5: /* any of the first plane */
			out[n++] = (uint8_t)(0xe0 | below(16)), out[n++] = (uint8_t)(0x80 | below(64)),
			out[n++] = (uint8_t)(0x80 | below(64));
			break;
		case 6:
			out[n++] = (uint8_t)below(256);
			break;
		default:
			out[n++] = (uint8_t)(0x20 + below(95));
		}
	}
	return n;
}

/* Written anew, and not from tamer.c: one control sequence of those that draw. Returns its length, 0: it is none. */
static size_t allowed_csi(const uint8_t *p, size_t n)
{
	size_t at = 2, from;
	int first = -1, count = 1;
	bool private = at < n && p[at] == '?', space, bang;

	at += private;
	for (from = at; at < n && ((p[at] >= '0' && p[at] <= '9') || p[at] == ';' || p[at] == ':'); at++)
		count += p[at] == ';' || p[at] == ':';
	if (at > from && p[from] >= '0' && p[from] <= '9')
		first = atoi((const char *)p + from);
	if (at == n)
		return 0;
	space = p[at] == ' ', bang = p[at] == '!';
	at += space || bang;
	if (at == n)
		return 0;
	char c = (char)p[at++];
	if (space || bang)
		return !private && c == (space ? 'q' : 'p') ? at : 0;
	if (private && (c == 'h' || c == 'l')) {
		static const int fine[] = {5, 6, 7, 12, 25, 47, 1047, 1048, 1049};
		char list[200] = {0}, *each = list;
		memcpy(list, p + from, at - 1 - from);
		for (char *word; (word = strsep(&each, ";:"));) {
			bool ok = false;
			for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
				ok = ok || atoi(word) == fine[i];
			if (!ok)
				return 0;
		}
		return at;
	}
	if (private)
		return (c == 'K' || (c == 'J' && first < 3 && count == 1)) ? at : 0;
	if (c == 'h' || c == 'l') {
		char list[200] = {0}, *each = list;
		memcpy(list, p + from, at - 1 - from);
		for (char *word; (word = strsep(&each, ";:"));)
			if (atoi(word) != 4 && atoi(word) != 20)
				return 0;
		return at;
	}
	if (c == 'J' && (first > 2 || count > 1))
		return 0;
	if (c == 'T' && count > 1)
		return 0;
	if ((c == 's' || c == 'u') && at - 1 > from)
		return 0;
	return strchr("@ABCDEFGHIJKLMPSTXZ`abdefgjkmrsu", c) ? at : 0;
}

static void assert_draws_only(const uint8_t *p, size_t n)
{
	for (size_t at = 0, size; at < n; at += size) {
		uint32_t cp = 0;

		size = 1;
		if (p[at] == 0x1b && at + 1 < n) {
			if (p[at + 1] == '[')
				size = allowed_csi(p + at, n - at);
			else if (strchr("()", p[at + 1]) && at + 2 < n && strchr("0AB", p[at + 2]))
				size = 3;
			else if (p[at + 1] == '#' && at + 2 < n && p[at + 2] == '8')
				size = 3;
			else
				size = strchr("78DEHM", p[at + 1]) ? 2 : 0;
		} else if (p[at] >= 0x80) {
			size = utf8_step(p + at, n - at, &cp);
			if (cp < 0xa0 || (cp >= 0x202a && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069))
				size = 0;
		} else if (p[at] < 0x20) {
			size = memchr("\b\t\n\r\x0e\x0f", p[at], 6) ? 1 : 0;
		} else if (p[at] == 0x7f) {
			size = 0;
		}
		if (size == 0)
			fail_msg("byte %zu: 0x%02x 0x%02x 0x%02x", at, p[at], at + 1 < n ? p[at + 1] : 0,
				 at + 2 < n ? p[at + 2] : 0);
	}
}

/* Each as a whole, cut at a place, and again over its own result, which is another's input then. */
static void hostile_texts_only_draw(void **state)
{
	const char *texts = getenv("TEXTS");

	(void)state;
	for (unsigned i = 0, count = texts ? (unsigned)atoi(texts) : 10000; i < count; i++) {
		uint8_t in[600];
		size_t n = hostile(in, sizeof(in));
		struct buf whole, cut, again;

		buf_init(&whole, sizeof(in) * TAMER_GROWTH);
		buf_init(&cut, sizeof(in) * TAMER_GROWTH);
		buf_init(&again, sizeof(in) * TAMER_GROWTH * TAMER_GROWTH);
		tame(in, n, n, &whole);
		tame(in, n, below((unsigned)n), &cut);
		tame(buf_ptr(&whole), buf_len(&whole), buf_len(&whole), &again);
		assert_draws_only(buf_ptr(&whole), buf_len(&whole));
		assert_int_equal(buf_len(&whole), buf_len(&cut));
		assert_int_equal(buf_len(&whole), buf_len(&again));
		if (buf_len(&whole)) {
			assert_memory_equal(buf_ptr(&whole), buf_ptr(&cut), buf_len(&whole));
			assert_memory_equal(buf_ptr(&whole), buf_ptr(&again), buf_len(&whole));
		}
		buf_finish(&whole);
		buf_finish(&cut);
		buf_finish(&again);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_draws_is_left),
	    cmocka_unit_test(no_room_is_said_before_anything_is_done),
	    cmocka_unit_test(hostile_texts_only_draw),
	};
	return cmocka_run_group_tests_name("tamer", tests, NULL, NULL);
}
