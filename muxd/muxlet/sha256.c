#include "muxd/muxlet/sha256.h"

#include <string.h>

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t ror(uint32_t v, int n)
{
	return v >> n | v << (32 - n);
}

static void compress(uint32_t h[8], const uint8_t *p)
{
	uint32_t w[64], a[8];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 |
		       p[4 * i + 3];
	for (int i = 16; i < 64; i++) {
		uint32_t x = w[i - 15], y = w[i - 2];

		w[i] = w[i - 16] + (ror(x, 7) ^ ror(x, 18) ^ x >> 3) + w[i - 7] + (ror(y, 17) ^ ror(y, 19) ^ y >> 10);
	}
	memcpy(a, h, sizeof(a));
	for (int i = 0; i < 64; i++) {
		uint32_t t1 = a[7] + (ror(a[4], 6) ^ ror(a[4], 11) ^ ror(a[4], 25)) + ((a[4] & a[5]) ^ (~a[4] & a[6])) +
			      K[i] + w[i];
		uint32_t t2 =
		    (ror(a[0], 2) ^ ror(a[0], 13) ^ ror(a[0], 22)) + ((a[0] & a[1]) ^ (a[0] & a[2]) ^ (a[1] & a[2]));

		memmove(a + 1, a, 7 * sizeof(a[0]));
		a[4] += t1;
		a[0] = t1 + t2;
	}
	for (int i = 0; i < 8; i++)
		h[i] += a[i];
	explicit_bzero(w, sizeof(w));
	explicit_bzero(a, sizeof(a));
}

void sha256_init(struct sha256 *s)
{
	static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
					  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

	memcpy(s->h, start, sizeof(start));
	s->bytes = 0;
}

void sha256_add(struct sha256 *s, const void *p, size_t n)
{
	const uint8_t *in = p;

	while (n) {
		size_t at = s->bytes % SHA256_BLOCK, take = SHA256_BLOCK - at < n ? SHA256_BLOCK - at : n;

		memcpy(s->block + at, in, take);
		s->bytes += take;
		in += take;
		n -= take;
		if (at + take == SHA256_BLOCK)
			compress(s->h, s->block);
	}
}

void sha256_finish(struct sha256 *s, uint8_t out[SHA256_LEN])
{
	static const uint8_t pad[SHA256_BLOCK] = {0x80};
	uint64_t bits = s->bytes * 8;
	uint8_t tail[8];

	sha256_add(s, pad, 1 + (SHA256_BLOCK + 55 - s->bytes % SHA256_BLOCK) % SHA256_BLOCK);
	for (int i = 0; i < 8; i++)
		tail[i] = (uint8_t)(bits >> (56 - 8 * i));
	sha256_add(s, tail, sizeof(tail));
	for (int i = 0; i < SHA256_LEN; i++)
		out[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
	explicit_bzero(s, sizeof(*s));
}

void hmac_sha256(const void *key, size_t key_len, const void *p, size_t n, uint8_t out[SHA256_LEN])
{
	uint8_t k[SHA256_BLOCK] = {0}, pad[SHA256_BLOCK];
	struct sha256 s;

	sha256_init(&s);
	if (key_len > SHA256_BLOCK) {
		sha256_add(&s, key, key_len);
		sha256_finish(&s, k);
		sha256_init(&s);
	} else {
		memcpy(k, key, key_len);
	}
	for (size_t i = 0; i < sizeof(pad); i++)
		pad[i] = k[i] ^ 0x36;
	sha256_add(&s, pad, sizeof(pad));
	sha256_add(&s, p, n);
	sha256_finish(&s, out);
	for (size_t i = 0; i < sizeof(pad); i++)
		pad[i] = k[i] ^ 0x5c;
	sha256_init(&s);
	sha256_add(&s, pad, sizeof(pad));
	sha256_add(&s, out, SHA256_LEN);
	sha256_finish(&s, out);
	explicit_bzero(k, sizeof(k));
	explicit_bzero(pad, sizeof(pad));
}

bool bytes_equal_ct(const void *a, const void *b, size_t n)
{
	const volatile uint8_t *x = a, *y = b;
	uint8_t differ = 0;

	for (size_t i = 0; i < n; i++)
		differ |= x[i] ^ y[i];
	return differ == 0;
}
