/*
 * content.h - what the bytes of a file are: text or binary, where they may be cut, how they are quoted.
 *
 * Bytes of programs and people; nothing is assumed of them. Values, no state, libc alone (the room's rule, match.h).
 */
#ifndef FILES_CONTENT_H
#define FILES_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTENT_LOOK 8192 /* bytes at the beginning that decide whether a file is binary */

/*
 * Binary: a NUL, or more than one control in ten that no text has, among the first CONTENT_LOOK bytes. Empty is text.
 * UTF-16 is binary therefore, as it is for git and grep.
 */
bool content_is_binary(const void *p, size_t n);
/*
 * How many of n bytes to keep of at most max: n if they fit, else no more than whole characters. Bytes that belong to
 * no character may be cut anywhere.
 */
size_t content_cut(const void *p, size_t n, size_t max);
/*
 * The bytes as text for a message, into dst of size bytes (above 0) with a NUL: controls and bytes of no character
 * are "?", and a text that does not fit ends with "..." behind a whole character. The length is returned.
 */
size_t content_quote(char *dst, size_t size, const void *p, size_t n);

#endif
