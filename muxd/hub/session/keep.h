/*
 * keep.h - what a round's answer keeps of one stream: head, tail, total, SHA-256.
 *
 * Owned by its session. Head and tail are bounded by the call's limits; the
 * digest and the total cover every byte.
 */
#ifndef MUXD_HUB_SESSION_KEEP_H
#define MUXD_HUB_SESSION_KEEP_H

#include "base/buf.h"
#include "base/json.h"

struct evp_md_ctx_st;

struct keep {
	uint64_t head_max, tail_max, total;
	uint8_t *head, *tail; /* tail is a ring of tail_cap bytes */
	size_t head_len, head_cap, tail_cap;
	uint64_t tail_total; /* bytes ever given to the tail */
	struct evp_md_ctx_st *sha;
	bool whole;   /* false: started in the middle (a restart), so digest and head are not known here */
	char hex[65]; /* of so many bytes: */
	uint64_t hex_total;
};

int keep_init(struct keep *k, uint64_t head_max, uint64_t tail_max);
void keep_finish(struct keep *k);                         /* NULL-safe fields */
size_t keep_held(const struct keep *k);                   /* bytes of memory behind head and tail */
int keep_add(struct keep *k, const uint8_t *p, size_t n); /* ERR_NOMEM: bytes are still counted and hashed */
const char *keep_digest(struct keep *k); /* of every byte until now, as often as asked; "" when not known */
/*
 * One that started in the middle, at its end: `head` from byte 0 on, `tail` up to the last byte, as the record has
 * them; hex: the digest of the whole. ERR_NOMEM: as before.
 */
int keep_regain(struct keep *k, uint64_t head_max, const struct buf *head, const struct buf *tail, const char *hex);
/* {data, encoding, total_bytes, truncated, sha256}; when truncated also tail, tail_encoding, omitted_bytes. */
json_t *keep_json(const struct keep *k);
/* Of a stream that goes on: a character that has only begun stays out, and next_offset says where to read on. */
json_t *keep_so_far(const struct keep *k);
json_t *keep_brief(const struct keep *k); /* total_bytes and sha256 alone */

#endif
