/*
 * utf8.h - walking text that may not be UTF-8, one character at a time.
 *
 * Bytes from sandboxes, names from peers: nothing is assumed. Values, no state. Libc alone: the engines on files and
 * muxlet, which run inside sandboxes, are built with it.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Length of the well-formed character at p (1 to 4), its code point in *out_cp (NULL allowed);
 * 0 when the bytes there are none: overlong, surrogate, past U+10FFFF, cut short, or n is 0.
 */
size_t utf8_step(const uint8_t *p, size_t n, uint32_t *out_cp);
/* Length of the beginning of a character at p whose rest is not there (1 to 3), as a cut leaves it; 0: there is none.
 */
size_t utf8_begun(const uint8_t *p, size_t n);
/* How many of the last bytes (up to 3) begin a character that goes on behind them. */
size_t utf8_open_end(const uint8_t *p, size_t n);
/* The character as 1 to 4 bytes in out; returns how many. cp: below 0x110000. */
size_t utf8_put(uint32_t cp, void *out);
/* Every byte belongs to a well-formed character; nothing at all is valid. NUL is a character. */
bool utf8_valid(const uint8_t *p, size_t n);
/* C0, DEL and C1: what a terminal may act on. */
static inline bool utf8_is_control(uint32_t cp)
{
	return cp < 0x20 || (cp >= 0x7f && cp < 0xa0);
}

#endif
