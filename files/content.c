/* Text or binary, by the bytes of a file. */
#include "files/content.h"

#include "base/utf8.h"

#include <string.h>

bool content_is_binary(const void *p, size_t n)
{
	const uint8_t *b = p;
	size_t odd = 0;

	if (n > CONTENT_LOOK)
		n = CONTENT_LOOK;
	if (n && memchr(b, 0, n))
		return true;
	for (size_t i = 0; i < n; i++)
		odd += (b[i] < 0x20 && !(b[i] >= '\b' && b[i] <= '\r') && b[i] != 0x1b) || b[i] == 0x7f;
	return odd > n / 10;
}

/* A character has four bytes at most, so the one that max would cut begins in the three before it. */
size_t content_cut(const void *p, size_t n, size_t max)
{
	const uint8_t *b = p;

	if (n <= max)
		return n;
	for (size_t back = 1; back <= 3 && back <= max; back++)
		if (utf8_step(b + max - back, n - (max - back), NULL) > back)
			return max - back;
	return max;
}

size_t content_quote(char *dst, size_t size, const void *p, size_t n)
{
	const uint8_t *b = p;
	size_t out = 0, at = 0, whole = 0;

	while (at < n) {
		uint32_t cp = 0;
		size_t step = utf8_step(b + at, n - at, &cp);
		bool shown = step && cp >= 0x20 && (cp < 0x7f || cp >= 0xa0);
		size_t put = shown ? step : 1;

		if (out + put >= size)
			break;
		if (shown)
			memcpy(dst + out, b + at, step);
		else
			dst[out] = cp == '\t' && step ? ' ' : '?';
		out += put;
		at += step ? step : 1;
		if (out + 3 < size)
			whole = out;
	}
	if (at < n && size > 3) {
		memcpy(dst + whole, "...", 3);
		out = whole + 3;
	}
	dst[out] = 0;
	return out;
}
