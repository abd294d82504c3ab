#include "recorder/format/event.h"

#include "base/bytes.h"
#include "base/err.h"

#include <string.h>

static size_t put_varint(uint8_t *p, uint64_t v)
{
	size_t n = 0;

	while (v >= 0x80) {
		p[n++] = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	p[n++] = (uint8_t)v;
	return n;
}

/* Bytes used, 0 when it is cut short or over 64 bits. */
static size_t get_varint(const uint8_t *p, size_t n, uint64_t *out)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n && i < 10; i++) {
		if (i == 9 && p[i] > 1)
			return 0;
		v |= (uint64_t)(p[i] & 0x7f) << (7 * i);
		if (!(p[i] & 0x80)) {
			*out = v;
			return i + 1;
		}
	}
	return 0;
}

/* Differences wrap: any two values have one, so a clock that went back costs bytes, not correctness. */
static uint64_t zigzag(uint64_t difference)
{
	return (difference << 1) ^ (difference >> 63 ? UINT64_MAX : 0);
}

static uint64_t unzigzag(uint64_t v)
{
	return (v >> 1) ^ (v & 1 ? UINT64_MAX : 0);
}

uint64_t event_extent(const struct ring_record *rec)
{
	switch (rec->type) {
	case RING_DATA:
		return rec->len;
	case EVENT_GAP:
		return rec->len == EVENT_GAP_SIZE ? get_u64(rec->payload) : 0;
	case EVENT_MISSING:
		return rec->len == 8 ? get_u64(rec->payload) : 0;
	default:
		return 0;
	}
}

static bool has_offset(unsigned type)
{
	return type == RING_DATA || type == EVENT_GAP || type == EVENT_MISSING;
}

static void context_move(struct event_context *c, const struct ring_record *rec)
{
	c->seq = rec->seq;
	c->boot_ns = rec->boot_ns;
	if (has_offset(rec->type))
		c->offset[rec->stream] = rec->offset + event_extent(rec);
}

static uint64_t expected_offset(const struct event_context *c, const struct ring_record *rec)
{
	return has_offset(rec->type) ? c->offset[rec->stream] : 0;
}

size_t event_encode(struct event_context *c, const struct ring_record *rec, uint8_t out[EVENT_HEADER_MAX])
{
	size_t n = 0;

	out[n++] = rec->type;
	out[n++] = rec->stream;
	n += put_varint(out + n, rec->flags);
	n += put_varint(out + n, rec->len);
	n += put_varint(out + n, zigzag(rec->seq - c->seq));
	n += put_varint(out + n, zigzag(rec->boot_ns - c->boot_ns));
	n += put_varint(out + n, zigzag(rec->offset - expected_offset(c, rec)));
	context_move(c, rec);
	return n;
}

int event_decode(struct event_context *c, const uint8_t *p, size_t n, struct ring_record *out)
{
	struct ring_record rec = *out;
	uint64_t v[5];
	size_t at = 2;

	if (n < 2)
		return ERR_CORRUPT;
	rec.type = p[0];
	rec.stream = p[1];
	for (int i = 0; i < 5; i++) {
		size_t used = get_varint(p + at, n - at, &v[i]);
		if (!used)
			return ERR_CORRUPT;
		at += used;
	}
	if (v[0] > UINT16_MAX || v[1] > n - at || rec.stream >= STREAM_COUNT)
		return ERR_CORRUPT;
	if (v[1] > RING_RECORD_MAX)
		return ERR_TOO_LARGE;
	rec.flags = (uint16_t)v[0];
	rec.len = (uint32_t)v[1];
	rec.seq = c->seq + unzigzag(v[2]);
	rec.boot_ns = c->boot_ns + unzigzag(v[3]);
	rec.offset = expected_offset(c, &rec) + unzigzag(v[4]);
	rec.payload = p + at;
	context_move(c, &rec);
	*out = rec;
	return (int)(at + rec.len);
}

void event_gap_encode(const struct event_gap *g, uint8_t out[EVENT_GAP_SIZE])
{
	memset(out, 0, EVENT_GAP_SIZE);
	put_u64(out, g->bytes);
	put_u64(out + 8, g->last_ns);
	put_u64(out + 16, g->last_seq);
	out[24] = g->rule;
	memcpy(out + 32, g->sha256, 32);
}

int event_gap_decode(const struct ring_record *rec, struct event_gap *out)
{
	const uint8_t *p = rec->payload;

	if (rec->type != EVENT_GAP || rec->len != EVENT_GAP_SIZE)
		return ERR_CORRUPT;
	out->bytes = get_u64(p);
	out->last_ns = get_u64(p + 8);
	out->last_seq = get_u64(p + 16);
	out->rule = p[24];
	memcpy(out->sha256, p + 32, 32);
	return 0;
}

const char *event_type_name(unsigned type)
{
	static const char *const names[] = {"unknown", "open",  "data",  "resize", "event",
					    "exit",    "audit", "clock", "secret"};

	if (type == EVENT_GAP)
		return "gap";
	if (type == EVENT_MISSING)
		return "missing";
	return type < sizeof names / sizeof *names ? names[type] : names[0];
}

const char *event_stream_name(unsigned stream)
{
	static const char *const names[STREAM_COUNT] = {"input", "output", "stderr"};

	return stream < STREAM_COUNT ? names[stream] : "unknown";
}
