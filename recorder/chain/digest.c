#define OPENSSL_SUPPRESS_DEPRECATED /* see digest.h */
#include "recorder/chain/digest.h"

#include "base/bytes.h"

#include <openssl/sha.h>
#include <string.h>

_Static_assert(sizeof(((SHA256_CTX *)0)->data) == 64 && sizeof(((SHA256_CTX *)0)->h) == 32,
	       "SHA256_CTX is not the struct that digest.c knows");

static void to_ctx(const struct digest *d, SHA256_CTX *c)
{
	SHA256_Init(c);
	for (int i = 0; i < 8; i++)
		c->h[i] = d->h[i];
	c->Nl = (SHA_LONG)(d->bytes << 3);
	c->Nh = (SHA_LONG)(d->bytes >> 29);
	c->num = (unsigned)(d->bytes % 64);
	memcpy(c->data, d->pending, c->num);
}

static void from_ctx(struct digest *d, const SHA256_CTX *c, uint64_t bytes)
{
	for (int i = 0; i < 8; i++)
		d->h[i] = c->h[i];
	d->bytes = bytes;
	memcpy(d->pending, c->data, bytes % 64);
}

void digest_init(struct digest *d)
{
	SHA256_CTX c;

	SHA256_Init(&c);
	memset(d, 0, sizeof *d);
	from_ctx(d, &c, 0);
}

void digest_update(struct digest *d, const void *p, size_t n)
{
	SHA256_CTX c;

	to_ctx(d, &c);
	SHA256_Update(&c, p, n);
	from_ctx(d, &c, d->bytes + n);
}

void digest_peek(const struct digest *d, uint8_t out[DIGEST_LEN])
{
	SHA256_CTX c;

	to_ctx(d, &c);
	SHA256_Final(out, &c);
}

void digest_save(const struct digest *d, uint8_t out[DIGEST_STATE_SIZE])
{
	memset(out, 0, DIGEST_STATE_SIZE);
	for (int i = 0; i < 8; i++)
		put_u32(out + 4 * i, d->h[i]);
	put_u64(out + 32, d->bytes);
	memcpy(out + 40, d->pending, d->bytes % 64);
}

void digest_load(struct digest *d, const uint8_t p[DIGEST_STATE_SIZE])
{
	for (int i = 0; i < 8; i++)
		d->h[i] = get_u32(p + 4 * i);
	d->bytes = get_u64(p + 32);
	memcpy(d->pending, p + 40, 64);
}

void digest_link(const uint8_t prev[DIGEST_LEN], const void *a, size_t an, const void *b, size_t bn,
		 uint8_t out[DIGEST_LEN])
{
	SHA256_CTX c;

	SHA256_Init(&c);
	SHA256_Update(&c, prev, DIGEST_LEN);
	SHA256_Update(&c, a, an);
	if (bn)
		SHA256_Update(&c, b, bn);
	SHA256_Final(out, &c);
}

/* RFC 2104 with a key of less than one block: no allocation, cannot fail. */
void digest_hmac(const uint8_t key[DIGEST_LEN], const void *p, size_t n, uint8_t out[DIGEST_LEN])
{
	uint8_t pad[64], inner[DIGEST_LEN];
	SHA256_CTX c;

	memset(pad, 0x36, sizeof pad);
	for (int i = 0; i < DIGEST_LEN; i++)
		pad[i] ^= key[i];
	SHA256_Init(&c);
	SHA256_Update(&c, pad, sizeof pad);
	SHA256_Update(&c, p, n);
	SHA256_Final(inner, &c);
	for (int i = 0; i < 64; i++)
		pad[i] ^= 0x36 ^ 0x5c;
	SHA256_Init(&c);
	SHA256_Update(&c, pad, sizeof pad);
	SHA256_Update(&c, inner, sizeof inner);
	SHA256_Final(out, &c);
}
