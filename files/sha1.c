#include "files/sha1.h"

#include <string.h>

void sha1_init(struct sha1 *s)
{
	static const uint32_t first[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};

	memcpy(s->h, first, sizeof(first));
	s->bytes = 0;
}

static uint32_t rol(uint32_t v, int n)
{
	return v << n | v >> (32 - n);
}

static void sha1_block(struct sha1 *s, const uint8_t *p)
{
	uint32_t w[80], a = s->h[0], b = s->h[1], c = s->h[2], d = s->h[3], e = s->h[4];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 |
		       p[4 * i + 3];
	for (int i = 16; i < 80; i++)
		w[i] = rol(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (int i = 0; i < 80; i++) {
		uint32_t f = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
			     : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
			     : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
				      : (b ^ c ^ d) + 0xca62c1d6;
		uint32_t t = rol(a, 5) + f + e + w[i];

		e = d;
		d = c;
		c = rol(b, 30);
		b = a;
		a = t;
	}
	s->h[0] += a;
	s->h[1] += b;
	s->h[2] += c;
	s->h[3] += d;
	s->h[4] += e;
}

void sha1_add(struct sha1 *s, const void *data, size_t n)
{
	const uint8_t *p = data;
	size_t have = s->bytes % sizeof(s->block);

	s->bytes += n;
	while (n) {
		size_t take = sizeof(s->block) - have < n ? sizeof(s->block) - have : n;

		memcpy(s->block + have, p, take);
		p += take;
		n -= take;
		have += take;
		if (have == sizeof(s->block)) {
			sha1_block(s, s->block);
			have = 0;
		}
	}
}

void sha1_finish(struct sha1 *s, uint8_t out[SHA1_LEN])
{
	static const uint8_t pad[64] = {0x80};
	uint64_t bits = s->bytes * 8;
	uint8_t length[8];

	for (int i = 0; i < 8; i++)
		length[i] = (uint8_t)(bits >> (56 - 8 * i));
	sha1_add(s, pad, 1 + (119 - s->bytes % 64) % 64);
	sha1_add(s, length, sizeof(length));
	for (int i = 0; i < SHA1_LEN; i++)
		out[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}
