/* One recording from its header to its footer: every block, every checksum, every total. */
#include "recorder/verify/verify.h"

#include "base/crc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/text.h"
#include "recorder/chain/chain_text.h"
#include "recorder/chain/digest.h"
#include "recorder/chain/file.h"
#include "recorder/chain/sign.h"
#include "recorder/format/recording_load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * One recording under examination: the frame (header, blocks, index, footer) is walked at the end of this file; what
 * the blocks hold is followed first: offsets without holes, digests, totals, exit.
 */
struct verify_check {
	const char *path;
	const struct grant_keyset *keys;
	verify_sink *sink;
	void *arg;
	struct verify_result *result;
	struct recording_file file;
	/* the chain */
	uint8_t hash[DIGEST_LEN];  /* as stored in front of the next block */
	uint8_t other[DIGEST_LEN]; /* as computed, where the stored one did not fit */
	bool hash_known, other_known;
	uint64_t pos;    /* of the next block */
	uint32_t number; /* expected */
	bool end_found;  /* an index, or the end of an unsealed file */
	/* what the events say */
	struct digest digest[STREAM_COUNT];
	bool digest_known[STREAM_COUNT]; /* false behind a gap */
	uint64_t offset[STREAM_COUNT];
	uint64_t last_seq;
	bool exited, holes; /* holes: blocks are missing or unreadable, so what follows is not judged by totals */
	char *exit_json;
};

__attribute__((format(printf, 7, 8))) static void verify_found(struct verify_check *c, enum verify_class class,
							       const char *code, int64_t block, uint64_t pos,
							       uint64_t len, const char *fmt, ...)
{
	char message[ERR_MESSAGE_MAX];
	struct verify_finding f = {.class = class,
				   .code = code,
				   .path = c->path,
				   .session = c->result->session,
				   .block = block,
				   .pos = pos,
				   .len = len,
				   .message = message};
	va_list ap;

	va_start(ap, fmt);
	text_vformat(message, sizeof(message), fmt, ap);
	va_end(ap);
	if (class == VERIFY_INTEGRITY)
		c->result->intact = false;
	else if (class == VERIFY_COMPLETENESS)
		c->result->complete = false;
	if (c->sink)
		c->sink(c->arg, &f);
}

static void verify_content_begin(struct verify_check *c)
{
	for (int i = 0; i < STREAM_COUNT; i++) {
		digest_init(&c->digest[i]);
		c->digest_known[i] = true;
	}
}

static void follow_bytes(struct verify_check *c, const struct ring_record *rec, const struct block_header *h,
			 uint64_t pos)
{
	struct trunc_totals *t = &c->result->streams[rec->stream];
	const char *name = event_stream_name(rec->stream);
	uint64_t n = event_extent(rec), expected = c->offset[rec->stream];

	if (rec->offset != expected && !c->holes) {
		verify_found(c, VERIFY_COMPLETENESS, "offset_jump", h->number, pos, block_size(h),
			     "%s goes on at byte %" PRIu64 " where byte %" PRIu64 " was expected", name, rec->offset,
			     expected);
		c->digest_known[rec->stream] = false;
	}
	c->offset[rec->stream] = rec->offset + n;
	if (rec->type == RING_DATA) {
		t->kept += n;
		t->total += n;
		if (c->digest_known[rec->stream])
			digest_update(&c->digest[rec->stream], rec->payload, rec->len);
	} else if (rec->type == EVENT_GAP) {
		t->omitted += n;
		t->total += n;
		c->digest_known[rec->stream] = false;
	} else {
		t->missing += n;
		verify_found(c, VERIFY_COMPLETENESS, "bytes_lost", h->number, pos, block_size(h),
			     "the journal lost %" PRIu64 " bytes of %s at byte %" PRIu64, n, name, rec->offset);
	}
}

static int follow(struct verify_check *c, const struct ring_record *rec, const struct block_header *h, uint64_t pos)
{
	c->result->events++;
	if (rec->seq < c->last_seq && !c->holes)
		verify_found(c, VERIFY_INTEGRITY, "order", h->number, pos, block_size(h),
			     "event %" PRIu64 " follows event %" PRIu64, rec->seq, c->last_seq);
	c->last_seq = rec->seq;
	if (event_extent(rec))
		follow_bytes(c, rec, h, pos);
	if (rec->type == RING_EXIT) {
		c->exited = true;
		free(c->exit_json);
		c->exit_json = strndup((const char *)rec->payload, rec->len);
		if (!c->exit_json)
			return ERR_NOMEM;
	}
	return 0;
}

/* The raw payload of an intact block of events. ERR_NOMEM only. */
static int verify_content_block(struct verify_check *c, const struct block_header *h, uint64_t pos, const uint8_t *raw)
{
	struct event_context context;
	uint32_t events = 0;
	size_t at = 0;

	memset(&context, 0, sizeof context);
	while (at < h->raw_len) {
		struct ring_record rec;
		int used, rc;

		memset(&rec, 0, sizeof rec);
		used = event_decode(&context, raw + at, h->raw_len - at, &rec);
		if (used < 0) {
			verify_found(c, VERIFY_INTEGRITY, "event_malformed", h->number, pos, block_size(h),
				     "block %u holds no event at its byte %zu", h->number, at);
			c->holes = true;
			return 0;
		}
		rc = follow(c, &rec, h, pos);
		if (rc)
			return rc;
		at += (size_t)used;
		events++;
	}
	if (events != h->events)
		verify_found(c, VERIFY_INTEGRITY, "event_count", h->number, pos, block_size(h),
			     "block %u holds %u events, its header says %u", h->number, events, h->events);
	return 0;
}

static void check_index(struct verify_check *c, const struct trunc_totals *index)
{
	for (unsigned i = 0; i < STREAM_COUNT; i++) {
		const struct trunc_totals *seen = &c->result->streams[i], *said = &index[i];
		uint8_t sha[DIGEST_LEN];

		if (seen->total != said->total || seen->kept != said->kept || seen->omitted != said->omitted ||
		    seen->missing != said->missing)
			verify_found(c, VERIFY_INTEGRITY, "totals_differ", -1, 0, 0,
				     "%s: the events count %" PRIu64 " bytes (%" PRIu64 " left out), the index %" PRIu64
				     " (%" PRIu64 ")",
				     event_stream_name(i), seen->total, seen->omitted, said->total, said->omitted);
		digest_peek(&c->digest[i], sha);
		if (c->digest_known[i] && memcmp(sha, said->sha256, sizeof sha) != 0)
			verify_found(c, VERIFY_INTEGRITY, "digest_differs", -1, 0, 0,
				     "%s: the bytes do not have the SHA-256 that the index holds",
				     event_stream_name(i));
		memcpy(c->result->streams[i].sha256, said->sha256, DIGEST_LEN);
	}
}

/* The hub's count against the journal's. */
static void check_exit_totals(struct verify_check *c, const json_t *exit)
{
	const json_t *totals = json_object_get(exit, "totals");

	for (unsigned i = 0; json_is_array(totals) && i < STREAM_COUNT && i < json_array_size(totals); i++) {
		const json_t *v = json_array_get(totals, i);
		uint64_t said = json_is_integer(v) && json_integer_value(v) >= 0 ? (uint64_t)json_integer_value(v) : 0;

		if (said > c->offset[i])
			verify_found(c, VERIFY_COMPLETENESS, "bytes_lost", -1, 0, 0,
				     "%s ended at byte %" PRIu64 ", the recording ends at byte %" PRIu64,
				     event_stream_name(i), said, c->offset[i]);
	}
}

static void check_exit_digest(struct verify_check *c, const json_t *exit, unsigned stream, const char *key)
{
	const char *text = json_string_value(json_object_get(json_object_get(exit, "sha256"), key));
	uint8_t said[DIGEST_LEN];

	if (!text || chain_unhex(text, said, sizeof said) || c->result->streams[stream].missing)
		return;
	if (memcmp(said, c->result->streams[stream].sha256, sizeof said) != 0)
		verify_found(c, VERIFY_INTEGRITY, "exit_digest_differs", -1, 0, 0,
			     "%s: its SHA-256 is not the one that was told at the exit", key);
}

/* Totals and digests against the index (NULL: not sealed or not readable) and the exit. */
static void verify_content_end(struct verify_check *c, const struct trunc_totals *index)
{
	json_t *exit = NULL;

	/* With a block unreadable the index still tells that there was an end. */
	if (!c->exited && !(c->holes && c->file.exit_json))
		verify_found(c, c->result->open ? VERIFY_NOTE : VERIFY_COMPLETENESS, "no_exit", -1, 0, 0,
			     "the session's end is not in the recording");
	if (index && !c->holes)
		check_index(c, index);
	if (c->exit_json && json_parse(c->exit_json, strlen(c->exit_json), RING_RECORD_MAX, &exit, NULL) == 0) {
		check_exit_totals(c, exit);
		if (index && !c->holes) {
			check_exit_digest(c, exit, STREAM_OUTPUT, "stdout");
			check_exit_digest(c, exit, STREAM_STDERR, "stderr");
		}
		json_decref(exit);
	}
}

/* ---- the frame */

#define BLOCK_LEAST (BLOCK_HEADER + BLOCK_HASH)
#define SCAN_WINDOW (64 * 1024)

static void check_header(struct verify_check *c)
{
	const uint8_t *p = buf_ptr(&c->file.header);
	size_t n = buf_len(&c->file.header);

	format_header_hash(p, n - DIGEST_LEN, c->other);
	memcpy(c->hash, p + n - DIGEST_LEN, DIGEST_LEN);
	c->hash_known = true;
	c->other_known = memcmp(c->hash, c->other, DIGEST_LEN) != 0;
	if (c->other_known)
		verify_found(c, VERIFY_INTEGRITY, "header_changed", -1, 0, n, "bytes 0 to %zu: the header was changed",
			     n);
	c->pos = n;
}

static void recording_check_name(struct verify_check *c)
{
	const char *slash = strrchr(c->path, '/'), *name = slash ? slash + 1 : c->path;
	char want[ID_STR_LEN];

	id_format(&c->result->session, want);
	if (strncmp(name, want, strlen(want)) != 0 || strcmp(name + strlen(want), ".mrec") != 0)
		verify_found(c, VERIFY_INTEGRITY, "name_differs", -1, 0, 0, "the file holds session %s", want);
}

/* Does this block follow what stands before it? Takes the chain on to its stored hash. */
static bool follows(struct verify_check *c, const uint8_t *head, const uint8_t *stored, uint32_t n,
		    const uint8_t hash[DIGEST_LEN])
{
	uint8_t computed[DIGEST_LEN], again[DIGEST_LEN];
	bool fits = true;

	digest_link(c->hash, head, BLOCK_HEADER, stored, n, computed);
	if (c->hash_known)
		fits = memcmp(computed, hash, DIGEST_LEN) == 0;
	if (!fits && c->other_known) {
		digest_link(c->other, head, BLOCK_HEADER, stored, n, again);
		fits = memcmp(again, hash, DIGEST_LEN) == 0;
	}
	memcpy(c->other, computed, DIGEST_LEN);
	c->other_known = !fits && c->hash_known;
	memcpy(c->hash, hash, DIGEST_LEN);
	c->hash_known = true;
	return fits;
}

/* The content of a block of events, once its bytes are known to be those that were written. */
static int check_events(struct verify_check *c, const struct block_header *h, const uint8_t *stored)
{
	const uint8_t *raw = NULL;
	int rc;

	if (h->type != BLOCK_EVENTS) {
		if (h->type != BLOCK_INDEX && (h->flags & BLOCK_CRITICAL))
			verify_found(c, VERIFY_INTEGRITY, "block_unknown", h->number, c->pos, block_size(h),
				     "block %u is of type %u, which this version must know and does not", h->number,
				     h->type);
		return 0;
	}
	rc = block_expand(c->file.coder, h, stored, &raw, NULL);
	if (rc == ERR_NOMEM)
		return rc;
	if (rc) {
		verify_found(c, VERIFY_INTEGRITY, "block_unpack", h->number, c->pos, block_size(h),
			     "bytes %" PRIu64 " to %" PRIu64 ": block %u does not unpack", c->pos,
			     c->pos + block_size(h), h->number);
		c->holes = true;
		return 0;
	}
	return verify_content_block(c, h, c->pos, raw);
}

static void block_changed(struct verify_check *c, const struct block_header *h, const char *what, uint64_t from,
			  uint64_t to)
{
	verify_found(c, VERIFY_INTEGRITY, "block_changed", h->number, from, to - from,
		     "bytes %" PRIu64 " to %" PRIu64 ": %s of block %u was changed", from, to, what, h->number);
}

/*
 * One block whose header (h, encoded in head) was read or is known; its payload stands behind c->pos.
 * said: the hash that the index gives it, NULL without an index.
 */
static int check_block(struct verify_check *c, const struct block_header *h, const uint8_t *head, const uint8_t *said,
		       struct err *e)
{
	uint64_t payload = c->pos + BLOCK_HEADER, trailer = payload + h->stored_len;
	uint8_t hash[DIGEST_LEN];
	const uint8_t *stored = NULL;
	bool sound;
	int rc = block_read_stored(c->file.coder, c->file.fd, payload, h, c->path, &stored, e);

	if (!rc)
		rc = file_read_at(c->file.fd, hash, sizeof hash, trailer, c->path, e);
	if (rc)
		return rc;
	sound = crc32_add(0, stored, h->stored_len) == h->payload_crc;
	if (!follows(c, head, stored, h->stored_len, said ? said : hash)) {
		if (sound)
			block_changed(c, h, "the hash or the content", c->pos, trailer + BLOCK_HASH);
		else
			block_changed(c, h, "the content", payload, trailer);
	} else if (!sound) {
		block_changed(c, h, "the checksum", c->pos, payload);
	}
	if (said && memcmp(hash, said, sizeof hash) != 0)
		block_changed(c, h, "the hash", trailer, trailer + BLOCK_HASH);
	if (!sound)
		c->holes = true;
	c->result->blocks += h->type != BLOCK_INDEX;
	return sound ? check_events(c, h, stored) : 0;
}

/* With a usable index: every block where the index says, and as it says. */
static int walk_index(struct verify_check *c, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < c->file.n; i++) {
		const struct format_entry *en = &c->file.blocks[i];
		uint8_t head[BLOCK_HEADER], want[BLOCK_HEADER];

		c->pos = en->pos;
		block_header_encode(&en->header, want);
		rc = file_read_at(c->file.fd, head, sizeof head, en->pos, c->path, e);
		if (rc)
			return rc;
		if (memcmp(head, want, sizeof head) != 0)
			block_changed(c, &en->header, "the header", en->pos, en->pos + BLOCK_HEADER);
		if (en->header.number != i)
			verify_found(c, VERIFY_INTEGRITY, "block_number", (int64_t)i, en->pos, BLOCK_HEADER,
				     "block %zu calls itself %u", i, en->header.number);
		rc = check_block(c, &en->header, want, en->hash, e);
		c->pos = en->pos + block_size(&en->header);
	}
	c->number = (uint32_t)c->file.n;
	return rc;
}

/* The next place behind pos where a block header with a later number stands; the file's size when there is none. */
static int find_block(struct verify_check *c, uint64_t pos, uint64_t *out, struct err *e)
{
	uint8_t *window = malloc(SCAN_WINDOW + BLOCK_HEADER);
	uint64_t size = c->file.info.file_size;
	struct block_header h;
	int rc = 0;

	*out = size;
	if (!window) {
		err_set(e, ERR_NOMEM, "no memory to search for a block");
		return ERR_NOMEM;
	}
	while (!rc && *out == size && pos < size && size - pos >= BLOCK_LEAST) {
		/* Nothing was ever written in a hole: a file may seem to be far larger than the disk. */
		off_t data = lseek(c->file.fd, (off_t)pos, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break;
		if (data > (off_t)pos)
			pos = (uint64_t)data - pos > BLOCK_HEADER ? (uint64_t)data - BLOCK_HEADER : pos;
		if (size - pos < BLOCK_LEAST)
			break;
		size_t n = size - pos < SCAN_WINDOW + BLOCK_HEADER ? (size_t)(size - pos) : SCAN_WINDOW + BLOCK_HEADER;
		rc = file_read_at(c->file.fd, window, n, pos, c->path, e);
		for (size_t i = 0; !rc && i + BLOCK_HEADER <= n; i++) {
			if (window[i] == 'M' && block_header_decode(window + i, &h) == 0 && h.number >= c->number &&
			    block_size(&h) <= size - pos - i) {
				*out = pos + i;
				break;
			}
		}
		pos += n - BLOCK_HEADER + 1;
	}
	free(window);
	return rc;
}

/* Not a block here: the footer, a torn end, or damage to get past. */
static int step_over(struct verify_check *c, struct err *e)
{
	struct format_footer foot;
	uint8_t bytes[FORMAT_FOOTER];
	uint64_t size = c->file.info.file_size, next = 0;
	int rc;

	if (size - c->pos == FORMAT_FOOTER) {
		rc = file_read_at(c->file.fd, bytes, sizeof bytes, c->pos, c->path, e);
		if (rc)
			return rc;
		c->end_found = format_footer_decode(bytes, &foot) == 0;
		if (c->end_found)
			return 0;
	}
	rc = find_block(c, c->pos + 1, &next, e);
	if (rc)
		return rc;
	if (next == size) {
		c->end_found = true;
		return 0;
	}
	verify_found(c, VERIFY_INTEGRITY, "block_unreadable", c->number, c->pos, next - c->pos,
		     "bytes %" PRIu64 " to %" PRIu64 ": block %u cannot be read", c->pos, next, c->number);
	c->hash_known = c->other_known = false;
	c->holes = true;
	c->number++;
	c->pos = next;
	return 0;
}

static void check_number(struct verify_check *c, const struct block_header *h)
{
	if (h->number == c->number)
		return;
	if (h->number > c->number)
		verify_found(c, VERIFY_COMPLETENESS, "block_missing", c->number, c->pos, 0,
			     "byte %" PRIu64 ": %u block(s) are missing from here: %u to %u", c->pos,
			     h->number - c->number, c->number, h->number - 1);
	else
		verify_found(c, VERIFY_INTEGRITY, "block_repeated", h->number, c->pos, block_size(h),
			     "byte %" PRIu64 ": block %u stands here where block %u was expected", c->pos, h->number,
			     c->number);
	c->hash_known = c->other_known = false;
	c->holes = true;
}

/* Without a usable index: from block to block, past whatever is damaged. */
static int walk_file(struct verify_check *c, uint64_t *out_index_end, struct err *e)
{
	uint64_t size = c->file.info.file_size;
	int rc = 0;

	while (!rc && !c->end_found) {
		struct block_header h;
		uint8_t head[BLOCK_HEADER];

		if (size - c->pos < BLOCK_LEAST) {
			c->end_found = true;
			break;
		}
		rc = file_read_at(c->file.fd, head, sizeof head, c->pos, c->path, e);
		if (rc)
			break;
		if (block_header_decode(head, &h) || block_size(&h) > size - c->pos) {
			rc = step_over(c, e);
			continue;
		}
		check_number(c, &h);
		rc = check_block(c, &h, head, NULL, e);
		c->number = h.number + 1;
		c->pos += block_size(&h);
		if (h.type == BLOCK_INDEX) {
			*out_index_end = c->pos;
			c->end_found = true;
		}
	}
	return rc;
}

static void footer_changed(struct verify_check *c, uint64_t pos, const char *what)
{
	verify_found(c, VERIFY_INTEGRITY, "footer_changed", -1, pos, FORMAT_FOOTER,
		     "bytes %" PRIu64 " to %" PRIu64 ": the footer %s", pos, pos + FORMAT_FOOTER, what);
}

/* The footer against the chain and the key. */
static void check_footer(struct verify_check *c, const uint8_t bytes[FORMAT_FOOTER], bool whole)
{
	struct format_footer f;
	uint64_t pos = c->file.info.file_size - FORMAT_FOOTER;
	const struct grant_public_key *key;

	if (format_footer_decode(bytes, &f)) {
		footer_changed(c, pos, "cannot be read");
		return;
	}
	c->result->sealed = true;
	memcpy(c->result->kid, f.kid, sizeof c->result->kid);
	for (char *k = c->result->kid; *k; k++) /* a damaged file may hold anything; this is printed */
		*k = (*k >= '0' && *k <= '9') || (*k >= 'a' && *k <= 'f') ? *k : '?';
	format_leaf(c->file.salt, bytes, c->result->leaf);
	c->result->chain_seq = f.chain_seq;
	key = keyset_find(c->keys, f.kid);
	if (!key)
		verify_found(c, VERIFY_INTEGRITY, "key_unknown", -1, pos, FORMAT_FOOTER,
			     "the footer names the key %s, which is not among those given", c->result->kid);
	else if (sign_verify(key->key, FORMAT_PURPOSE, bytes, FORMAT_SIGNED, f.signature))
		footer_changed(c, pos, "does not have the signature that it bears");
	else
		c->result->signature_checked = true;
	if (f.file_size != c->file.info.file_size)
		verify_found(c, VERIFY_INTEGRITY, "size_differs", -1, 0, 0,
			     "the file has %" PRIu64 " bytes, sealed were %" PRIu64, c->file.info.file_size,
			     f.file_size);
	if (!id_equal(&f.session, &c->result->session))
		footer_changed(c, pos, "belongs to another session");
	if (whole && memcmp(f.final_hash, c->hash, DIGEST_LEN) != 0)
		footer_changed(c, pos, "does not belong to the blocks in front of it");
	if (f.blocks > c->result->blocks && !c->holes)
		verify_found(c, VERIFY_COMPLETENESS, "block_missing", (int64_t)c->result->blocks, 0, 0,
			     "%" PRIu64 " of %u blocks are there", c->result->blocks, f.blocks);
}

/* The index block itself, after its entries were walked. */
static int check_index_block(struct verify_check *c, struct err *e)
{
	struct block_header h;
	uint8_t head[BLOCK_HEADER];
	int rc = file_read_at(c->file.fd, head, sizeof head, c->pos, c->path, e);

	if (rc)
		return rc;
	if (block_header_decode(head, &h)) /* it was read a moment ago */
		return err_set(e, ERR_SYS, "%s changes while it is read", c->path);
	check_number(c, &h);
	return check_block(c, &h, head, NULL, e);
}

static int check_unindexed(struct verify_check *c, bool expect_sealed, struct err *e)
{
	uint64_t size = c->file.info.file_size, index_end = 0;
	uint8_t bytes[FORMAT_FOOTER];
	struct format_footer f;
	int rc = walk_file(c, &index_end, e);
	bool footer = false;

	if (rc)
		return rc;
	if (size >= FORMAT_FOOTER) {
		rc = file_read_at(c->file.fd, bytes, sizeof bytes, size - FORMAT_FOOTER, c->path, e);
		if (rc)
			return rc;
		footer = format_footer_decode(bytes, &f) == 0;
	}
	if (footer || index_end) {
		if (!index_end)
			verify_found(c, VERIFY_INTEGRITY, "index_unreadable", -1, c->pos, size - c->pos,
				     "bytes %" PRIu64 " to %" PRIu64 ": the index cannot be read", c->pos, size);
		if (footer || size - index_end == FORMAT_FOOTER)
			check_footer(c, bytes, index_end != 0);
		else
			verify_found(c, VERIFY_INTEGRITY, "footer_missing", -1, index_end, size - index_end,
				     "byte %" PRIu64 ": the footer is missing or cut", index_end);
		/* The index could not be used although blocks and footer are sound: then it is the index. */
		if (c->result->intact)
			verify_found(c, VERIFY_INTEGRITY, "index_changed", -1, c->pos, 0,
				     "the index does not fit the blocks");
	} else {
		if (expect_sealed)
			verify_found(c, VERIFY_INTEGRITY, "footer_missing", -1, c->pos, size - c->pos,
				     "byte %" PRIu64 ": the sealed end of the file is missing", c->pos);
		else if (c->pos != size)
			verify_found(c, VERIFY_NOTE, "torn_tail", -1, c->pos, size - c->pos,
				     "%" PRIu64 " bytes at the end are no whole block", size - c->pos);
		c->result->open = !expect_sealed;
		verify_found(c, expect_sealed ? VERIFY_COMPLETENESS : VERIFY_NOTE, "not_sealed", -1, 0, 0,
			     "the recording is not sealed");
	}
	verify_content_end(c, NULL);
	return 0;
}

static int check_frame(struct verify_check *c, bool expect_sealed, struct err *e)
{
	int rc;

	check_header(c);
	recording_check_name(c);
	verify_content_begin(c);
	rc = recording_file_index(&c->file, e);
	if (rc == ERR_CORRUPT || rc == ERR_EOF || rc == ERR_VERSION)
		return check_unindexed(c, expect_sealed, e);
	if (!rc)
		rc = walk_index(c, e);
	if (!rc)
		rc = check_index_block(c, e);
	if (rc)
		return rc;
	check_footer(c, c->file.footer, true);
	verify_content_end(c, c->file.info.streams);
	return 0;
}

int verify_recording(const char *path, const struct grant_keyset *keys, bool expect_sealed, verify_sink *sink,
		     void *arg, struct verify_result *out, struct err *e)
{
	struct verify_result result = {.intact = true, .complete = true};
	struct verify_check c = {.path = path, .keys = keys, .sink = sink, .arg = arg, .result = &result};
	struct err why = {0};
	int rc = recording_file_begin(&c.file, path, &why);

	if (rc == ERR_CORRUPT || rc == ERR_VERSION || rc == ERR_EOF) {
		result.size = c.file.info.file_size;
		verify_found(&c, VERIFY_INTEGRITY, "header_unreadable", -1, 0,
			     result.size < FORMAT_HEADER_MAX ? result.size : FORMAT_HEADER_MAX,
			     "the header at byte 0 cannot be read: %s", why.message);
		*out = result;
		return 0;
	}
	if (rc)
		return err_set(e, rc, "%s", why.message);
	result.session = c.file.info.session;
	result.size = c.file.info.file_size;
	rc = check_frame(&c, expect_sealed, e);
	recording_file_finish(&c.file);
	free(c.exit_json);
	if (!rc)
		*out = result;
	return rc;
}
