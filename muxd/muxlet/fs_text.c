#include "muxd/muxlet/fs_text.h"

#include <string.h>

static const char digits64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int fs_hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

void fs_hex(const uint8_t *p, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		*out++ = digits[p[i] >> 4];
		*out++ = digits[p[i] & 15];
	}
	*out = '\0';
}

/* What the second byte may be, which keeps out what is too long, half a character, or beyond the last one. */
static bool second_fits(uint8_t first, uint8_t second)
{
	uint8_t min = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	uint8_t max = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;

	return second >= min && second <= max;
}

size_t fs_utf8_length(const char *text, size_t n)
{
	const uint8_t *p = (const uint8_t *)text;
	size_t want;

	if (!n)
		return 0;
	want = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
	if (!want || want > n || (want > 1 && !second_fits(p[0], p[1])))
		return 0;
	for (size_t i = 2; i < want; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return want;
}

bool fs_utf8_whole(const char *p, size_t n)
{
	while (n) {
		size_t len = fs_utf8_length(p, n);

		if (!len)
			return false;
		p += len;
		n -= len;
	}
	return true;
}

size_t fs_utf8_put(unsigned c, char *out)
{
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};

	for (size_t i = n; i-- > 1; c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)(lead[n] | c);
	return n;
}

size_t fs_base64_decode(const char *text, char *out)
{
	size_t n = strlen(text), done = 0, pad = n && text[n - 1] == '=' ? 1 + (n > 1 && text[n - 2] == '=') : 0;

	if (n % 4)
		return SIZE_MAX;
	for (size_t i = 0; i < n; i += 4) {
		size_t given = i + 4 == n ? 4 - pad : 4;
		unsigned v = 0;

		for (size_t k = 0; k < 4; k++) {
			const char *at = k < given ? memchr(digits64, text[i + k], 64) : digits64;

			if (!at)
				return SIZE_MAX;
			v = v << 6 | (unsigned)(at - digits64);
		}
		for (size_t k = 0; k + 1 < given; k++)
			out[done++] = (char)(v >> (16 - 8 * k));
	}
	return done;
}

void fs_base64_encode(const uint8_t *p, size_t n, char *out)
{
	for (size_t i = 0; i < n; i += 3) {
		size_t have = n - i < 3 ? n - i : 3;
		unsigned v = 0;

		for (size_t k = 0; k < 3; k++)
			v = v << 8 | (k < have ? p[i + k] : 0);
		for (size_t k = 0; k < 4; k++)
			*out++ = k <= have ? digits64[v >> (18 - 6 * k) & 63] : '=';
	}
}
