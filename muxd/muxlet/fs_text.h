/*
 * fs_text.h - base64 (RFC 4648) and hexadecimal digits, because muxlet has libc only. Pure.
 */
#ifndef MUXD_MUXLET_FS_TEXT_H
#define MUXD_MUXLET_FS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void fs_hex(const uint8_t *p, size_t n, char *out); /* 2n digits, lower case, and a NUL */

/* Bytes to out, which may be the text itself; SIZE_MAX: it is no base64, with its padding. */
size_t fs_base64_decode(const char *text, char *out);
#define FS_BASE64_SIZE(n) (((n) + 2) / 3 * 4)
/* FS_BASE64_SIZE(n) characters to out, and no NUL. */
void fs_base64_encode(const uint8_t *p, size_t n, char *out);

#endif
