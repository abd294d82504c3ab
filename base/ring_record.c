#include "base/ring_record.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"

#include <string.h>

void ring_record_header(uint8_t out[RING_RECORD_HEADER], const struct ring_record *rec, uint32_t epoch,
			const struct iovec *iov, int iovcnt)
{
	put_u32(out + 4, rec->len);
	put_u64(out + 8, rec->seq);
	put_u64(out + 16, rec->boot_ns);
	memcpy(out + 24, rec->session.b, sizeof(rec->session.b));
	put_u64(out + 40, rec->offset);
	out[48] = rec->type;
	out[49] = rec->stream;
	put_u16(out + 50, rec->flags);
	put_u32(out + 52, epoch);
	uint32_t crc = crc32_add(0, out + 4, RING_RECORD_HEADER - 4);
	for (int i = 0; i < iovcnt; i++)
		crc = crc32_add(crc, iov[i].iov_base, iov[i].iov_len);
	put_u32(out, crc);
}

size_t ring_record_encode(uint8_t *out, const struct ring_record *rec, uint32_t epoch)
{
	size_t size = ring_record_size(rec->len);
	struct iovec iov = {.iov_base = (void *)(uintptr_t)rec->payload, .iov_len = rec->len};
	ring_record_header(out, rec, epoch, &iov, 1);
	if (rec->len)
		memcpy(out + RING_RECORD_HEADER, rec->payload, rec->len);
	memset(out + RING_RECORD_HEADER + rec->len, 0, size - RING_RECORD_HEADER - rec->len);
	return size;
}

void ring_record_fields(const uint8_t header[RING_RECORD_HEADER], struct ring_record *out)
{
	*out = (struct ring_record){
	    .seq = get_u64(header + 8),
	    .boot_ns = get_u64(header + 16),
	    .offset = get_u64(header + 40),
	    .type = header[48],
	    .stream = header[49],
	    .flags = get_u16(header + 50),
	    .len = get_u32(header + 4),
	};
	memcpy(out->session.b, header + 24, sizeof(out->session.b));
}

int ring_record_decode(const uint8_t *p, size_t n, struct ring_record *out, size_t *out_size, uint32_t *out_epoch)
{
	if (n < RING_RECORD_HEADER)
		return 0;
	uint32_t len = get_u32(p + 4);
	if (len > RING_RECORD_MAX || p[48] == 0 || p[49] >= STREAM_COUNT)
		return ERR_CORRUPT;
	size_t size = ring_record_size(len);
	if (n < size)
		return 0;
	if (get_u32(p) != crc32_add(0, p + 4, RING_RECORD_HEADER - 4 + len))
		return ERR_CORRUPT;
	ring_record_fields(p, out);
	out->payload = p + RING_RECORD_HEADER;
	if (out_size)
		*out_size = size;
	if (out_epoch)
		*out_epoch = get_u32(p + 52);
	return 1;
}
