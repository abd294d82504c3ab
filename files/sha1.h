/*
 * sha1.h - SHA-1 (FIPS 180-4), because git names contents by it and muxlet has libc only. Nothing is proven by it here.
 *
 * Values, no ownership.
 */
#ifndef FILES_SHA1_H
#define FILES_SHA1_H

#include <stddef.h>
#include <stdint.h>

#define SHA1_LEN 20

struct sha1 {
	uint32_t h[5];
	uint64_t bytes;
	uint8_t block[64];
};

void sha1_init(struct sha1 *s);
void sha1_add(struct sha1 *s, const void *p, size_t n);
void sha1_finish(struct sha1 *s, uint8_t out[SHA1_LEN]);

#endif
