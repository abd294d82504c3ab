/* What the bytes of a file are. */
#include "files/content.h"

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

static size_t content_expect(uint8_t lead)
{
	if (lead < 0x80)
		return 1;
	if (lead >= 0xc2 && lead <= 0xdf)
		return 2;
	if (lead >= 0xe0 && lead <= 0xef)
		return 3;
	return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

size_t content_char(const void *p, size_t n, uint32_t *out_cp)
{
	static const uint32_t lowest[5] = {0, 0, 0x80, 0x800, 0x10000};
	static const uint8_t mask[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	const uint8_t *b = p;
	size_t want = n ? content_expect(b[0]) : 0;

	if (want == 0 || want > n)
		return 0;
	uint32_t cp = b[0] & mask[want];
	for (size_t i = 1; i < want; i++) {
		if ((b[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (b[i] & 0x3f);
	}
	if (cp < lowest[want] || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
		return 0;
	if (out_cp)
		*out_cp = cp;
	return want;
}

/* A character has four bytes at most, so the one that max would cut begins in the three before it. */
size_t content_cut(const void *p, size_t n, size_t max)
{
	const uint8_t *b = p;

	if (n <= max)
		return n;
	for (size_t back = 1; back <= 3 && back <= max; back++)
		if (content_char(b + max - back, n - (max - back), NULL) > back)
			return max - back;
	return max;
}

size_t content_quote(char *dst, size_t size, const void *p, size_t n)
{
	const uint8_t *b = p;
	size_t out = 0, at = 0, whole = 0;

	while (at < n) {
		uint32_t cp = 0;
		size_t step = content_char(b + at, n - at, &cp);
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
