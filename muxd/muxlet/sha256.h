/*
 * sha256.h - SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), because muxlet has libc only.
 *
 * One-shot functions for the handshake's few dozen bytes; not tuned for bulk.
 * Values, no ownership. Working memory that saw a key is wiped before return.
 */
#ifndef MUXD_MUXLET_SHA256_H
#define MUXD_MUXLET_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHA256_LEN   32
#define SHA256_BLOCK 64

struct sha256 {
	uint32_t h[8];
	uint64_t bytes;
	uint8_t block[SHA256_BLOCK];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t n);
void sha256_finish(struct sha256 *s, uint8_t out[SHA256_LEN]); /* and wipes s */
void hmac_sha256(const void *key, size_t key_len, const void *p, size_t n, uint8_t out[SHA256_LEN]);
/* Takes the same time wherever they differ. */
bool bytes_equal_ct(const void *a, const void *b, size_t n);

#endif
