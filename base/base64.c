/* RFC 4648, both alphabets; declared in json.h. Decoding takes one spelling of a value only. */
#include "base/err.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

static const char base64_std[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char base64_url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

char *base64_encode(const void *p, size_t n, bool url)
{
	const char *alphabet = url ? base64_url : base64_std;
	const uint8_t *in = p;

	if (n > SIZE_MAX / 4 * 3 - 8)
		return NULL;
	char *out = malloc((n + 2) / 3 * 4 + 1), *to = out;
	if (!out)
		return NULL;
	for (; n >= 3; in += 3, n -= 3) {
		uint32_t v = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];
		*to++ = alphabet[v >> 18];
		*to++ = alphabet[v >> 12 & 63];
		*to++ = alphabet[v >> 6 & 63];
		*to++ = alphabet[v & 63];
	}
	if (n) {
		uint32_t v = (uint32_t)in[0] << 16 | (n == 2 ? (uint32_t)in[1] << 8 : 0);
		*to++ = alphabet[v >> 18];
		*to++ = alphabet[v >> 12 & 63];
		if (n == 2)
			*to++ = alphabet[v >> 6 & 63];
		else if (!url)
			*to++ = '=';
		if (!url)
			*to++ = '=';
	}
	*to = '\0';
	return out;
}

static int base64_value(char c, bool url)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == (url ? '-' : '+'))
		return 62;
	if (c == (url ? '_' : '/'))
		return 63;
	return -1;
}

/* Length without padding; ERR_INVAL where padding is wrong or missing (the URL form has none). */
static int base64_strip(const char *s, size_t len, bool url, size_t *out_len)
{
	if (url) {
		*out_len = len;
		return len % 4 == 1 ? ERR_INVAL : 0;
	}
	if (len % 4)
		return ERR_INVAL;
	for (int i = 0; i < 2 && len && s[len - 1] == '='; i++)
		len--;
	*out_len = len;
	return 0;
}

int base64_decode(const char *s, size_t len, bool url, uint8_t **out, size_t *out_len)
{
	size_t chars, n = 0;
	uint32_t acc = 0;
	int bits = 0;

	if (base64_strip(s, len, url, &chars) < 0)
		return ERR_INVAL;
	uint8_t *to = malloc(chars / 4 * 3 + 4);
	if (!to)
		return ERR_NOMEM;
	for (size_t i = 0; i < chars; i++) {
		int v = base64_value(s[i], url);
		if (v < 0)
			goto bad;
		acc = (acc << 6 | (uint32_t)v) & 0xffffff;
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			to[n++] = (uint8_t)(acc >> bits);
		}
	}
	/* Bits left over must be zero, or two spellings would mean one value. */
	if (bits && (acc & ((1u << bits) - 1)))
		goto bad;
	to[n] = 0;
	*out = to;
	*out_len = n;
	return 0;
bad:
	explicit_bzero(to, n);
	free(to);
	return ERR_INVAL;
}
