/*
 * text.h - text of bounded size: the one way to put what people and programs wrote into a struct.
 *
 * Whatever goes in, UTF-8 comes out, so that no JSON writer, database or terminal behind it has a reason
 * to refuse it. What does not fit is cut at a character, never inside one. What is no UTF-8 is replaced by
 * one rule: each byte that belongs to no character becomes '?'; text never grows by it. Controls stay as
 * they are: whether they may be shown is for who shows them.
 *
 * snprintf with "%s" or "%.60s" cuts by bytes. Of text that is not our own, use text_format() instead
 * (tests/lib/layers.sh looks for it). Values, no state.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>

/* src (NULL: "") into dst of size bytes, NUL included; size is above 0. dst may be src. The length is returned. */
size_t text_put(char *dst, size_t size, const char *src);
/* The same of n bytes that need no NUL at their end; a NUL among them becomes '?'. */
size_t text_put_bytes(char *dst, size_t size, const void *src, size_t n);
/*
 * As snprintf, and whole characters alone: of one that a precision ("%.60s") or the end of dst cut in two, nothing
 * stays. The length of what is in dst is returned. No argument may point into dst.
 */
size_t text_format(char *dst, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
size_t text_vformat(char *dst, size_t size, const char *fmt, va_list ap) __attribute__((format(printf, 3, 0)));
/* How many of the n bytes at p are whole characters (or single bytes of none) within max bytes: what may be copied. */
size_t text_cut(const void *p, size_t n, size_t max);

#endif
