#include "recorder/verify/verify_check.h"

#include "base/err.h"
#include "base/json.h"
#include "base/text.h"
#include "recorder/chain/chain_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void verify_found(struct verify_check *c, enum verify_class class, const char *code, int64_t block, uint64_t pos,
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

void verify_content_begin(struct verify_check *c)
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

int verify_content_block(struct verify_check *c, const struct block_header *h, uint64_t pos, const uint8_t *raw)
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

/* What the hub counted against what came into the journal. */
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

void verify_content_end(struct verify_check *c, const struct trunc_totals *index)
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
