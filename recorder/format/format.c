#include "recorder/format/format.h"

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "recorder/format/recording.h"

#include <string.h>

#define FIELD_HEAD     8
#define FIELD_CRITICAL 1
#define FOOTER_MAGIC   "MRECEND\n"
#define TOTALS_SIZE    64
#define RULE_SIZE      24
#define LEAF_PURPOSE   "muxd leaf 1"

enum header_tag { TAG_SESSION = 1, TAG_SALT = 2, TAG_OPEN = 3, TAG_TIMES = 4, TAG_RULE = 5, TAG_PROGRAM = 6 };
enum index_tag { TAG_BLOCKS = 1, TAG_STREAMS = 2, TAG_EXIT = 3, TAG_SUMMARY = 4 };

struct field {
	uint16_t tag;
	bool critical;
	const uint8_t *p;
	size_t n;
};

static int put_field(struct buf *out, unsigned tag, unsigned flags, const void *p, size_t n)
{
	uint8_t head[FIELD_HEAD];
	int rc;

	put_u16(head, (uint16_t)tag);
	put_u16(head + 2, (uint16_t)flags);
	put_u32(head + 4, (uint32_t)n);
	rc = buf_append(out, head, sizeof head);
	return rc ? rc : buf_append(out, p, n);
}

/* 1 and a field, 0 at the end. */
static int next_field(const uint8_t **p, size_t *n, struct field *out)
{
	if (*n == 0)
		return 0;
	if (*n < FIELD_HEAD || get_u32(*p + 4) > *n - FIELD_HEAD)
		return ERR_CORRUPT;
	out->tag = get_u16(*p);
	out->critical = get_u16(*p + 2) & FIELD_CRITICAL;
	out->p = *p + FIELD_HEAD;
	out->n = get_u32(*p + 4);
	*p += FIELD_HEAD + out->n;
	*n -= FIELD_HEAD + out->n;
	return 1;
}

static int unknown_field(const struct field *f, const char *where, struct err *e)
{
	return f->critical ? err_set(e, ERR_VERSION, "the %s has a field %u that this version must know and does not",
				     where, f->tag)
			   : 0;
}

static int put_header_fields(const struct format_header *h, struct buf *out)
{
	uint8_t times[24], rule[RULE_SIZE] = {0};
	int rc;

	put_u64(times, h->open_seq);
	put_u64(times + 8, h->open_ns);
	put_u64(times + 16, (uint64_t)h->wall_ns);
	rule[0] = (uint8_t)h->rule.kind;
	rule[1] = h->rule.burst;
	put_u64(rule + 8, h->rule.head);
	put_u64(rule + 16, h->rule.tail);
	rc = put_field(out, TAG_SESSION, FIELD_CRITICAL, h->session.b, sizeof h->session.b);
	if (!rc)
		rc = put_field(out, TAG_SALT, FIELD_CRITICAL, h->salt, sizeof h->salt);
	if (!rc)
		rc = put_field(out, TAG_OPEN, FIELD_CRITICAL, h->open, h->open_len);
	if (!rc)
		rc = put_field(out, TAG_TIMES, FIELD_CRITICAL, times, sizeof times);
	if (!rc)
		rc = put_field(out, TAG_RULE, FIELD_CRITICAL, rule, sizeof rule);
	if (!rc)
		rc = put_field(out, TAG_PROGRAM, 0, MUXD_VERSION, strlen(MUXD_VERSION));
	return rc;
}

int format_header_encode(const struct format_header *h, struct buf *out, uint8_t out_hash[DIGEST_LEN])
{
	uint8_t front[FORMAT_HEADER_MIN];
	struct buf fields;
	size_t total;
	int rc;

	buf_init(&fields, FORMAT_HEADER_MAX - sizeof front - DIGEST_LEN);
	rc = put_header_fields(h, &fields);
	total = sizeof front + buf_len(&fields) + DIGEST_LEN;
	memcpy(front, FORMAT_MAGIC, 8);
	put_u16(front + 8, RECORDING_MAJOR);
	put_u16(front + 10, RECORDING_MINOR);
	put_u32(front + 12, (uint32_t)total);
	if (!rc)
		rc = buf_append(out, front, sizeof front);
	if (!rc)
		rc = buf_append(out, buf_ptr(&fields), buf_len(&fields));
	if (!rc) {
		format_header_hash(buf_ptr(out) + buf_len(out) - (total - DIGEST_LEN), total - DIGEST_LEN, out_hash);
		rc = buf_append(out, out_hash, DIGEST_LEN);
	}
	buf_finish(&fields);
	return rc;
}

void format_header_hash(const uint8_t *p, size_t n, uint8_t out[DIGEST_LEN])
{
	static const uint8_t zero[DIGEST_LEN];

	digest_link(zero, p, n, NULL, 0, out);
}

int format_header_size(const uint8_t p[FORMAT_HEADER_MIN], size_t *out, struct err *e)
{
	size_t n = get_u32(p + 12);

	if (memcmp(p, FORMAT_MAGIC, 8) != 0)
		return err_set(e, ERR_CORRUPT, "this is not a recording of muxd");
	if (get_u16(p + 8) != RECORDING_MAJOR)
		return err_set(e, ERR_VERSION, "the recording has format %u, this version reads %u", get_u16(p + 8),
			       RECORDING_MAJOR);
	if (n < FORMAT_HEADER_MIN + DIGEST_LEN || n > FORMAT_HEADER_MAX)
		return err_set(e, ERR_CORRUPT, "the recording's header has an impossible length");
	*out = n;
	return 0;
}

static int take_header_field(const struct field *f, struct format_header *h, unsigned *seen, struct err *e)
{
	static const size_t sizes[] = {[TAG_SESSION] = 16, [TAG_SALT] = 32, [TAG_TIMES] = 24, [TAG_RULE] = RULE_SIZE};

	if (f->tag < 1 || f->tag > TAG_PROGRAM)
		return unknown_field(f, "recording's header", e);
	if (f->tag <= TAG_RULE && sizes[f->tag] && f->n != sizes[f->tag])
		return err_set(e, ERR_CORRUPT, "field %u of the recording's header has a wrong length", f->tag);
	if (*seen & 1u << f->tag)
		return err_set(e, ERR_CORRUPT, "field %u of the recording's header stands there twice", f->tag);
	*seen |= 1u << f->tag;
	if (f->tag == TAG_SESSION) {
		memcpy(h->session.b, f->p, 16);
	} else if (f->tag == TAG_SALT) {
		memcpy(h->salt, f->p, 32);
	} else if (f->tag == TAG_OPEN) {
		h->open = f->p;
		h->open_len = f->n;
	} else if (f->tag == TAG_TIMES) {
		h->open_seq = get_u64(f->p);
		h->open_ns = get_u64(f->p + 8);
		h->wall_ns = (int64_t)get_u64(f->p + 16);
	} else if (f->tag == TAG_RULE) {
		if (f->p[0] > RULE_METADATA || f->p[1] > 1)
			return err_set(e, ERR_VERSION,
				       "the recording was made by a rule that this version does not know");
		h->rule.kind = (enum conf_rule_kind)f->p[0];
		h->rule.burst = f->p[1];
		h->rule.head = get_u64(f->p + 8);
		h->rule.tail = get_u64(f->p + 16);
	}
	return 0;
}

int format_header_decode(const uint8_t *p, size_t n, struct format_header *out, struct err *e)
{
	const unsigned need = 1u << TAG_SESSION | 1u << TAG_SALT | 1u << TAG_OPEN | 1u << TAG_TIMES | 1u << TAG_RULE;
	struct format_header h;
	struct field f;
	unsigned seen = 0;
	size_t total = 0;
	int rc = n < FORMAT_HEADER_MIN ? ERR_CORRUPT : format_header_size(p, &total, e);

	if (!rc && total != n)
		rc = ERR_CORRUPT;
	if (rc)
		return rc == ERR_CORRUPT ? err_set(e, rc, "the recording's header is cut short") : rc;
	memset(&h, 0, sizeof h);
	p += FORMAT_HEADER_MIN;
	n -= FORMAT_HEADER_MIN + DIGEST_LEN;
	while ((rc = next_field(&p, &n, &f)) == 1) {
		rc = take_header_field(&f, &h, &seen, e);
		if (rc)
			return rc;
	}
	if (rc || (seen & need) != need)
		return err_set(e, ERR_CORRUPT, "the recording's header lacks a field");
	*out = h;
	return 0;
}

void format_entry_encode(const struct format_entry *en, uint8_t out[FORMAT_ENTRY])
{
	put_u64(out, en->pos);
	block_header_encode(&en->header, out + 8);
	memset(out + 8, 0, BLOCK_MAGIC_LEN); /* whoever searches a damaged file for blocks must not find them here */
	memcpy(out + 8 + BLOCK_HEADER, en->hash, DIGEST_LEN);
}

int format_entry_decode(const uint8_t p[FORMAT_ENTRY], struct format_entry *out)
{
	uint8_t head[BLOCK_HEADER];
	int rc;

	memcpy(head, p + 8, sizeof head);
	block_header_magic(head);
	rc = block_header_decode(head, &out->header);
	if (rc)
		return rc;
	out->pos = get_u64(p);
	memcpy(out->hash, p + 8 + BLOCK_HEADER, DIGEST_LEN);
	return 0;
}

static void put_totals(const struct trunc_totals *t, uint8_t *p)
{
	put_u64(p, t->total);
	put_u64(p + 8, t->kept);
	put_u64(p + 16, t->omitted);
	put_u64(p + 24, t->missing);
	memcpy(p + 32, t->sha256, 32);
}

static void get_totals(const uint8_t *p, struct trunc_totals *t)
{
	t->total = get_u64(p);
	t->kept = get_u64(p + 8);
	t->omitted = get_u64(p + 16);
	t->missing = get_u64(p + 24);
	memcpy(t->sha256, p + 32, 32);
}

int format_index_encode(const struct format_index *x, struct buf *out)
{
	uint8_t streams[STREAM_COUNT * TOTALS_SIZE], summary[24];
	int rc;

	for (int i = 0; i < STREAM_COUNT; i++)
		put_totals(&x->streams[i], streams + i * TOTALS_SIZE);
	put_u64(summary, x->events);
	put_u64(summary + 8, x->last_seq);
	put_u64(summary + 16, x->last_ns);
	rc = put_field(out, TAG_SUMMARY, FIELD_CRITICAL, summary, sizeof summary);
	if (!rc)
		rc = put_field(out, TAG_STREAMS, FIELD_CRITICAL, streams, sizeof streams);
	if (!rc && x->exit)
		rc = put_field(out, TAG_EXIT, 0, x->exit, x->exit_len);
	if (!rc)
		rc = put_field(out, TAG_BLOCKS, FIELD_CRITICAL, x->entries, x->n * FORMAT_ENTRY);
	return rc;
}

static int take_index_field(const struct field *f, struct format_index *x, unsigned *seen, struct err *e)
{
	bool fits = true;

	if (f->tag < 1 || f->tag > TAG_SUMMARY)
		return unknown_field(f, "recording's index", e);
	if (*seen & 1u << f->tag)
		return err_set(e, ERR_CORRUPT, "field %u of the recording's index stands there twice", f->tag);
	*seen |= 1u << f->tag;
	if (f->tag == TAG_BLOCKS) {
		fits = f->n % FORMAT_ENTRY == 0;
		x->entries = f->p;
		x->n = f->n / FORMAT_ENTRY;
	} else if (f->tag == TAG_STREAMS) {
		fits = f->n == STREAM_COUNT * TOTALS_SIZE;
		for (int i = 0; fits && i < STREAM_COUNT; i++)
			get_totals(f->p + i * TOTALS_SIZE, &x->streams[i]);
	} else if (f->tag == TAG_EXIT) {
		x->exit = f->p;
		x->exit_len = f->n;
	} else {
		fits = f->n == 24;
		if (fits) {
			x->events = get_u64(f->p);
			x->last_seq = get_u64(f->p + 8);
			x->last_ns = get_u64(f->p + 16);
		}
	}
	return fits ? 0 : err_set(e, ERR_CORRUPT, "field %u of the recording's index has a wrong length", f->tag);
}

int format_index_decode(const uint8_t *p, size_t n, struct format_index *out, struct err *e)
{
	const unsigned need = 1u << TAG_BLOCKS | 1u << TAG_STREAMS | 1u << TAG_SUMMARY;
	struct format_index x;
	struct field f;
	unsigned seen = 0;
	int rc;

	memset(&x, 0, sizeof x);
	while ((rc = next_field(&p, &n, &f)) == 1) {
		rc = take_index_field(&f, &x, &seen, e);
		if (rc)
			return rc;
	}
	if (rc || (seen & need) != need)
		return err_set(e, ERR_CORRUPT, "the recording's index lacks a field");
	*out = x;
	return 0;
}

void format_footer_encode(const struct format_footer *f, uint8_t out[FORMAT_FOOTER])
{
	memcpy(out, FOOTER_MAGIC, 8);
	put_u32(out + 8, FORMAT_FOOTER);
	put_u32(out + 12, f->blocks);
	put_u64(out + 16, f->file_size);
	put_u64(out + 24, f->index_pos);
	put_u64(out + 32, f->index_size);
	memcpy(out + 40, f->final_hash, 32);
	memcpy(out + 72, f->log_id.b, 16);
	put_u64(out + 88, f->chain_seq);
	memcpy(out + 96, f->chain_hash, 32);
	put_u64(out + 128, (uint64_t)f->sealed_wall_ns);
	memcpy(out + 136, f->kid, 16);
	memcpy(out + 152, f->session.b, 16);
	memcpy(out + FORMAT_SIGNED, f->signature, 64);
}

int format_footer_decode(const uint8_t p[FORMAT_FOOTER], struct format_footer *out)
{
	if (memcmp(p, FOOTER_MAGIC, 8) != 0 || get_u32(p + 8) != FORMAT_FOOTER)
		return ERR_CORRUPT;
	out->blocks = get_u32(p + 12);
	out->file_size = get_u64(p + 16);
	out->index_pos = get_u64(p + 24);
	out->index_size = get_u64(p + 32);
	memcpy(out->final_hash, p + 40, 32);
	memcpy(out->log_id.b, p + 72, 16);
	out->chain_seq = get_u64(p + 88);
	memcpy(out->chain_hash, p + 96, 32);
	out->sealed_wall_ns = (int64_t)get_u64(p + 128);
	memcpy(out->kid, p + 136, 16);
	out->kid[16] = '\0';
	memcpy(out->session.b, p + 152, 16);
	memcpy(out->signature, p + FORMAT_SIGNED, 64);
	return 0;
}

void format_leaf(const uint8_t salt[32], const uint8_t footer[FORMAT_FOOTER], uint8_t out[CHAIN_HASH])
{
	uint8_t message[sizeof LEAF_PURPOSE + FORMAT_SIGNED];

	memcpy(message, LEAF_PURPOSE, sizeof LEAF_PURPOSE);
	memcpy(message + sizeof LEAF_PURPOSE, footer, FORMAT_SIGNED);
	digest_hmac(salt, message, sizeof message, out);
}
