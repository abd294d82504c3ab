/*
 * crc.h - the checksum of ring, segments, blocks and chain: CRC-32 of IEEE 802.3, the one of zlib and gzip.
 *
 * It finds accidents, torn writes above all; against intent there are hashes and
 * signatures. Every journaled byte passes it twice, so it is libdeflate's, which
 * was ten times as fast as zlib's on the target.
 */
#ifndef BASE_CRC_H
#define BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* crc: 0, or the result for the bytes before these. p may be NULL when n is 0. */
uint32_t crc32_add(uint32_t crc, const void *p, size_t n);

#endif
