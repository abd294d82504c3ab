// tier: check
/* A client's WebSocket frames as a server reads them: what is refused, and that pieces change nothing. */
#include "base/wsframe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
	const char *bytes;
	size_t n;
	bool fine;
} cases[] = {
    {"\x82\x83mask\1\2\3", 9, true},
    {"\x82\x80mask", 6, true},
    {"\x02\x80mask\x80\x81maskx", 13, true},
    {"\x02\x80mask\x89\x80mask\x80\x80mask\x82\x80mask", 24, true},
    {"\x80\x80mask", 6, false},
    {"\x82\x80mask\x80\x80mask", 12, false},
    {"\x02\x80mask\x82\x80mask", 12, false},
    {"\x89\x80mask", 6, true},
    {"\x88\x82mask\3\xe8", 8, true},
    {"\x82\x03\1\2\3", 5, false},
    {"\x89\x00", 2, false},
    {"\xc2\x80mask", 6, false},
    {"\xa2\x80mask", 6, false},
    {"\x92\x80mask", 6, false},
    {"\x83\x80mask", 6, false},
    {"\x8b\x80mask", 6, false},
    {"\x09\x80mask", 6, false},
    {"\x89\xfe\0\x7e", 4, false},
    {"\x82\xfe\0\x7d", 4, false},
    {"\x82\xff\0\0\0\0\0\0\xff\xff", 10, false},
    {"\x82\xff\x80\0\0\0", 6, false},
    {"\x88\x81maskx", 7, false},
};

/* In pieces of `step` bytes, of which a decoder may take less at once: it takes off masks where they lie. */
static bool look(const uint8_t *from, size_t n, size_t step)
{
	struct wsframe f = {.server = true};
	uint8_t *p = malloc(n);
	bool fine = true;

	memcpy(p, from, n);
	for (size_t at = 0; at < n && fine; at += step)
		for (size_t piece = n - at < step ? n - at : step, done = 0; done < piece && fine;) {
			struct wsframe_event ev;
			ssize_t took = wsframe_decode(&f, p + at + done, piece - done, &ev, NULL);

			fine = took > 0;
			done += fine ? (size_t)took : 0;
		}
	free(p);
	return fine;
}

/* Masked text, in pieces of every size: what was meant comes out, and its end is told. */
static void masks_are_taken_off(void **state)
{
	static const char text[] = "Passwords, keys, and a line of text that is longer than eight bytes";
	uint8_t frame[sizeof(text) + WSFRAME_HEAD_MAX], mask[4] = {1, 0x80, 7, 0xff}, out[sizeof(text)];
	size_t head = wsframe_head(WSFRAME_OP_BINARY, sizeof(text), mask, frame);

	(void)state;
	for (size_t step = 1; step <= head + sizeof(text); step++) {
		struct wsframe f = {.server = true};
		size_t len = 0, n = head + sizeof(text);
		struct wsframe_event ev = {0};

		wsframe_mask((const uint8_t *)text, frame + head, sizeof(text), mask, 0);
		for (size_t at = 0, took; at < n; at += took) {
			took = (size_t)wsframe_decode(&f, frame + at, n - at < step ? n - at : step, &ev, NULL);
			if (ev.kind == WSFRAME_DATA)
				memcpy(out + len, ev.p, ev.n);
			len += ev.kind == WSFRAME_DATA ? ev.n : 0;
		}
		assert_true(ev.last && !ev.text);
		assert_int_equal(len, sizeof(text));
		assert_memory_equal(out, text, len);
	}
}

static void frames_are_judged(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t step = 1; step <= cases[i].n; step++)
			if (look((const uint8_t *)cases[i].bytes, cases[i].n, step) != cases[i].fine)
				fail_msg("case %zu, in pieces of %zu", i, step);
}

/* Frames of any length, one behind the other, in pieces of any size: fine. One bit of a head less: not. */
static void lengths_are_followed(void **state)
{
	static uint8_t p[400 * 1024];

	(void)state;
	srand(4);
	for (int round = 0; round < 300; round++) {
		size_t n = 0, heads[20];

		for (int i = 0; i < 20; i++) {
			size_t len = (size_t)rand() % (i % 3 ? 120 : i % 2 ? 16000 : 70000);

			heads[i] = n;
			p[n++] = 0x82;
			if (len < 126) {
				p[n++] = (uint8_t)(0x80 | len);
			} else {
				int wide = len < 65536 ? 2 : 8;

				p[n++] = wide == 2 ? 0xfe : 0xff;
				for (int b = wide; b--;)
					p[n++] = (uint8_t)((uint64_t)len >> (8 * b));
			}
			for (size_t b = 0; b < len + 4; b++)
				p[n++] = (uint8_t)rand();
			if (n > sizeof(p) - 80000)
				break;
		}
		assert_true(look(p, n, 1 + (size_t)rand() % 20000));
		p[heads[rand() % 2] + 1] &= 0x7f;
		assert_false(look(p, n, 1 + (size_t)rand() % 20000));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(frames_are_judged),
	    cmocka_unit_test(masks_are_taken_off),
	    cmocka_unit_test(lengths_are_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
