/*
 * digest.h - SHA-256 whose state can be stored and taken up again, and HMAC.
 *
 * A recording's per-stream digest is the plain SHA-256 of all bytes of the stream
 * and must survive a crash of the recorder in the middle of a session. EVP gives no
 * access to its state; OpenSSL's SHA256_CTX is a plain struct with public fields
 * (deprecated, not gone), with the same assembler code below it. So this one file
 * uses it and writes the fields out in a form of our own. Values, no ownership.
 */
#ifndef RECORDER_CHAIN_DIGEST_H
#define RECORDER_CHAIN_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define DIGEST_LEN        32
#define DIGEST_STATE_SIZE 112

struct digest {
	uint32_t h[8];
	uint64_t bytes;      /* hashed so far */
	uint8_t pending[64]; /* bytes % 64 of them, not in h yet */
};

void digest_init(struct digest *d);
void digest_update(struct digest *d, const void *p, size_t n);
/* The digest of everything so far; d can go on. */
void digest_peek(const struct digest *d, uint8_t out[DIGEST_LEN]);
void digest_save(const struct digest *d, uint8_t out[DIGEST_STATE_SIZE]);
void digest_load(struct digest *d, const uint8_t p[DIGEST_STATE_SIZE]);

/* One link: SHA-256(prev || a || b). */
void digest_link(const uint8_t prev[DIGEST_LEN], const void *a, size_t an, const void *b, size_t bn,
		 uint8_t out[DIGEST_LEN]);
void digest_hmac(const uint8_t key[DIGEST_LEN], const void *p, size_t n, uint8_t out[DIGEST_LEN]);

#endif
