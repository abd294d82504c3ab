/* An export in the making: which streams it takes, its times, its counts, and the bytes that wait to be handed on. */
#include "recorder/export/export_out.h"

#include "base/utf8.h"
#include "recorder/format/event.h"

#include <string.h>

#define FLUSH_AT (64 * 1024)

bool export_wants(const struct export *x, unsigned stream)
{
	switch (x->options->stream) {
	case EXPORT_OUTPUT:
		return stream != STREAM_INPUT;
	case EXPORT_INPUT:
		return stream == STREAM_INPUT;
	case EXPORT_STDOUT:
		return stream == STREAM_OUTPUT;
	case EXPORT_STDERR:
		return stream == STREAM_STDERR;
	default:
		return stream != STREAM_INPUT ||
		       (x->options->format != EXPORT_TEXT && x->options->format != EXPORT_RAW);
	}
}

int64_t export_wall(const struct export *x, uint64_t boot_ns)
{
	return (int64_t)((uint64_t)x->anchor_wall + (boot_ns - x->anchor_ns));
}

int export_flush(struct export *x, bool all, struct err *e)
{
	size_t n = buf_len(&x->out);
	int rc = 0;

	if (!n || (!all && n < FLUSH_AT))
		return 0;
	rc = x->write(x->arg, buf_ptr(&x->out), n, e);
	if (!rc) {
		x->result.written += n;
		buf_clear(&x->out);
	}
	return rc;
}

static void take_wall(struct export *x, const struct ring_record *rec)
{
	json_t *o = NULL;
	int64_t wall = 0;

	if (json_parse(rec->payload, rec->len, RING_RECORD_MAX, &o, NULL))
		return;
	if (json_need_int(o, "wall_ns", 0, INT64_MAX, &wall, NULL) == 0) {
		x->anchor_ns = rec->boot_ns;
		x->anchor_wall = wall;
	}
	if (rec->type == RING_OPEN && !x->open)
		x->open = json_incref(o);
	json_decref(o);
}

void export_count(struct export *x, const struct ring_record *rec)
{
	x->result.events++;
	if (rec->type == EVENT_GAP && export_wants(x, rec->stream)) {
		x->result.gaps++;
		x->result.gap_bytes += event_extent(rec);
	}
	if (rec->type == EVENT_MISSING && export_wants(x, rec->stream))
		x->result.missing_bytes += event_extent(rec);
	if (rec->type == RING_EXIT)
		x->result.ended = true;
	if (rec->type == RING_OPEN && !x->begun) {
		x->begun = true;
		x->open_ns = x->anchor_ns = rec->boot_ns;
	}
	if (rec->type == RING_OPEN || rec->type == RING_CLOCK)
		take_wall(x, rec);
}

/* ---- UTF-8 that comes in pieces */

/* How many of the n bytes at p are the beginning of some character (Unicode, table 3-7); 0 or 1 for a stray byte. */
static size_t beginning(const uint8_t *p, size_t n, size_t *out_whole)
{
	uint8_t low = 0x80, high = 0xbf;
	size_t i;

	*out_whole = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
	if (p[0] < 0xc2 || p[0] > 0xf4) {
		*out_whole = 1;
		return 1;
	}
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	for (i = 1; i < n && i < *out_whole; i++) {
		if (p[i] < low || p[i] > high)
			return i;
		low = 0x80;
		high = 0xbf;
	}
	return i;
}

/* One character, or the bytes that are none, at p. Bytes used; 0: more are needed. */
static size_t export_utf8_take(const uint8_t *p, size_t n, bool last, uint32_t *out_cp, bool *out_valid)
{
	size_t used = utf8_step(p, n, out_cp), whole;

	*out_valid = used != 0;
	if (used)
		return used;
	used = beginning(p, n, &whole);
	*out_cp = 0xfffd;
	return used == n && n < whole && !last ? 0 : used;
}

static int export_utf8_give(uint32_t cp, bool valid, const uint8_t *p, size_t n, export_char *cb, void *arg,
			    uint64_t *invalid)
{
	static const uint8_t replacement[] = {0xef, 0xbf, 0xbd};

	if (valid)
		return cb(arg, cp, p, n);
	*invalid += n;
	return cb(arg, cp, replacement, sizeof replacement);
}

/* The bytes that waited together with the first new ones. Sets *out_used: how many new ones are dealt with. */
static int feed_held(struct export_utf8 *u, const uint8_t *p, size_t n, bool last, export_char *cb, void *arg,
		     uint64_t *invalid, size_t *out_used)
{
	uint8_t joined[8];
	size_t fresh = n < 4 ? n : 4, total = u->n + fresh, at = 0, old = u->n;
	int rc = 0;

	memcpy(joined, u->held, u->n);
	if (fresh)
		memcpy(joined + u->n, p, fresh);
	while (!rc && at < old) {
		uint32_t cp;
		bool valid;
		size_t used = export_utf8_take(joined + at, total - at, last, &cp, &valid);
		if (!used) { /* still unfinished, so everything there is belongs to it */
			u->n = total - at;
			memmove(u->held, joined + at, u->n);
			*out_used = n;
			return 0;
		}
		rc = export_utf8_give(cp, valid, joined + at, used, cb, arg, invalid);
		at += used;
	}
	u->n = 0;
	*out_used = at - old;
	return rc;
}

int export_utf8_feed(struct export_utf8 *u, const uint8_t *p, size_t n, bool last, export_char *cb, void *arg,
		     uint64_t *invalid)
{
	size_t at = 0;
	int rc = 0;

	if (u->n)
		rc = feed_held(u, p, n, last, cb, arg, invalid, &at);
	while (!rc && at < n) {
		uint32_t cp;
		bool valid;
		size_t used = export_utf8_take(p + at, n - at, last, &cp, &valid);
		if (!used) {
			u->n = n - at;
			memcpy(u->held, p + at, u->n);
			return 0;
		}
		rc = export_utf8_give(cp, valid, p + at, used, cb, arg, invalid);
		at += used;
	}
	return rc;
}
