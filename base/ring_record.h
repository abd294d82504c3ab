/*
 * ring_record.h - one journal record as bytes: the same in the ring, in segments and on recorder.sock.
 *
 * A 56-byte header, the payload, zeros up to the next multiple of 8. The CRC-32
 * covers the header behind it and the payload, so a record that was torn or
 * overwritten is found. A decoded record's payload stands RING_RECORD_HEADER
 * bytes behind the start of its encoded form. Values and borrowed bytes; no state.
 *
 *    0 u32 crc     8 u64 seq       24 session[16]   48 u8 type     50 u16 flags
 *    4 u32 len    16 u64 boot_ns   40 u64 offset    49 u8 stream   52 u32 epoch (low half)
 */
#ifndef BASE_RING_RECORD_H
#define BASE_RING_RECORD_H

#include "base/ring.h"

#include <stddef.h>
#include <stdint.h>

#define RING_RECORD_HEADER   56
#define RING_RECORD_SIZE_MAX (RING_RECORD_HEADER + RING_RECORD_MAX)

/* Bytes that a record with this payload takes, padding included. */
static inline size_t ring_record_size(uint32_t len)
{
	return ((size_t)RING_RECORD_HEADER + len + 7) & ~(size_t)7;
}

/* Header of rec (its len and payload given as iov) with the CRC over both. */
void ring_record_header(uint8_t out[RING_RECORD_HEADER], const struct ring_record *rec, uint32_t epoch,
			const struct iovec *iov, int iovcnt);
/* Whole record with padding into out, which holds ring_record_size(rec->len) bytes. Returns that size. */
size_t ring_record_encode(uint8_t *out, const struct ring_record *rec, uint32_t epoch);
/* Fields of a header, unchecked: of one that this process wrote itself. No payload. */
void ring_record_fields(const uint8_t header[RING_RECORD_HEADER], struct ring_record *out);
/*
 * Front of p: 1 and the record (payload points into p), its size and epoch
 * (either may be NULL); 0 when more bytes are needed; ERR_CORRUPT when no
 * record can begin with these bytes.
 */
int ring_record_decode(const uint8_t *p, size_t n, struct ring_record *out, size_t *out_size, uint32_t *out_epoch);

#endif
