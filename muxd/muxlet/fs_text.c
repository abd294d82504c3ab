#include "muxd/muxlet/fs_text.h"

#include <string.h>

static const char digits64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void fs_hex(const uint8_t *p, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		*out++ = digits[p[i] >> 4];
		*out++ = digits[p[i] & 15];
	}
	*out = '\0';
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
