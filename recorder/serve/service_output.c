/* Pages of a stream from the record: of any session as its recording has it, of a round whole where that is kept. */
#include "base/bytes.h"
#include "base/err.h"
#include "recorder/format/event.h"
#include "recorder/serve/service_conn.h"

#include <string.h>

#define OUTPUT_MAX ((uint64_t)1024 * 1024)
#define PIECE_MAX  ((size_t)64 * 1024)
#define GAPS_MAX   1000
#define HOLES_MAX  64

/* One page of a stream: leading gaps, then bytes without a hole. */
struct page {
	unsigned stream;
	uint64_t want, limit; /* asked for */
	uint64_t at;          /* offset of bytes[0] */
	struct buf bytes;
	json_t *gaps;
	json_t *sizes;     /* for a screen: [[offset, cols, rows], ...] of the terminal, NULL when nobody asked */
	bool screen, live; /* of a session that runs, the hub says who may see it */
	bool house;        /* for the hub itself, of a session that runs: it had these bytes before it was restarted */
	bool full;
	bool missing;  /* asked for: what the recording does not have of the whole stream */
	json_t *holes; /* that, [{offset, bytes}]; NULL when nobody asked */
};

static int page_gap(struct page *p, uint64_t offset, uint64_t n)
{
	if (buf_len(&p->bytes) || json_array_size(p->gaps) >= GAPS_MAX) {
		p->full = true;
		return 0;
	}
	if (offset < p->at) {
		n -= p->at - offset;
		offset = p->at;
	}
	p->at = offset + n;
	return json_array_append_new(p->gaps,
				     json_pack("{s:I, s:I}", "offset", (json_int_t)offset, "bytes", (json_int_t)n))
		   ? ERR_NOMEM
		   : 0;
}

/* Sizes belong to the page when they came at its first byte or later. */
static int page_size(struct page *p, const struct ring_record *rec, uint64_t seen)
{
	if (!p->sizes || rec->len < 4 || seen < p->want || json_array_size(p->sizes) >= GAPS_MAX)
		return 0;
	return json_array_append_new(
		   p->sizes, json_pack("[I, i, i]", (json_int_t)seen, get_u16(rec->payload), get_u16(rec->payload + 2)))
		   ? ERR_NOMEM
		   : 0;
}

/* Take what the page still wants of this event. Sets full at its limit or before a hole. */
static int page_take(struct page *p, const struct ring_record *rec)
{
	uint64_t extent = event_extent(rec), end = rec->offset + extent, at = p->at + buf_len(&p->bytes);
	if (rec->stream != p->stream || !extent || end <= at)
		return 0;
	if (rec->type != RING_DATA)
		return page_gap(p, rec->offset, extent);
	if (rec->offset > at) {
		/* Bytes that wait in the cutter for their rule: not to be had yet. */
		int rc = page_gap(p, at, rec->offset - at);
		if (rc || p->full)
			return rc;
		at = rec->offset;
	}
	uint64_t skip = at - rec->offset, room = p->limit - buf_len(&p->bytes);
	uint64_t n = rec->len - skip < room ? rec->len - skip : room;
	p->full = n == room;
	return buf_append(&p->bytes, rec->payload + skip, (size_t)n);
}

static void page_note(struct conn *c, const struct page *p)
{
	const struct ring_record *rec = &c->paged_rec;
	uint64_t end = rec->stream == p->stream ? rec->offset + event_extent(rec) : 0;

	if (!p->full && end > c->paged_seen)
		c->paged_seen = end;
}

static int page_fill(struct conn *c, struct page *p, struct err *e)
{
	int rc = 0;
	while (rc == 0 && !p->full) {
		if (!c->paged_full) {
			rc = source_next(c->paged, &c->paged_rec, e);
			if (rc <= 0)
				return rc;
			c->paged_full = true;
		}
		rc = c->paged_rec.type == RING_RESIZE ? page_size(p, &c->paged_rec, c->paged_seen)
						      : page_take(p, &c->paged_rec);
		if (rc)
			return err_set(e, rc, "out of memory");
		page_note(c, p);
		/* A record that reaches past the page is where the next page begins. */
		if (!p->full)
			c->paged_full = false;
	}
	return rc;
}

static enum ledger_op page_op(const struct page *p)
{
	return p->screen ? READ_SCREEN : READ_OUTPUT;
}

/* ---- what is missing of the whole */

/* Bytes [from, until), which may go on from the last one. */
static int hole_add(json_t *holes, uint64_t from, uint64_t until)
{
	json_t *last = json_array_get(holes, json_array_size(holes) - 1);
	uint64_t begin = (uint64_t)json_integer_value(json_object_get(last, "offset"));

	if (last && begin + (uint64_t)json_integer_value(json_object_get(last, "bytes")) == from)
		return json_object_set_new(last, "bytes", json_integer((json_int_t)(until - begin)));
	if (json_array_size(holes) == HOLES_MAX)
		return 0; /* who reads finds one that was not announced, and stops */
	return json_array_append_new(
	    holes, json_pack("{s:I, s:I}", "offset", (json_int_t)from, "bytes", (json_int_t)(until - from)));
}

static int holes_look(struct source *s, unsigned stream, json_t *holes, struct err *e)
{
	struct ring_record rec;
	uint64_t at = 0;
	int rc;

	while ((rc = source_next(s, &rec, e)) == 1) {
		uint64_t extent = event_extent(&rec), end = rec.offset + extent;

		if (rec.stream != stream || !extent || end <= at)
			continue;
		if (rec.offset > at && hole_add(holes, at, rec.offset))
			return err_set(e, ERR_NOMEM, "out of memory");
		if (rec.type != RING_DATA && hole_add(holes, rec.offset > at ? rec.offset : at, end))
			return err_set(e, ERR_NOMEM, "out of memory");
		at = end;
	}
	return rc;
}

/* A recording that left nothing out is not read for this. */
static bool has_all(const struct source *s, unsigned stream)
{
	struct recording *r = source_info(s)->sealed ? source_recording(s) : NULL;
	const struct trunc_totals *t = r ? &recording_info(r)->streams[stream] : NULL;

	return t && !t->omitted && !t->missing;
}

static int page_missing(struct conn *c, const struct id *session, struct page *p, struct err *e)
{
	struct source *s = NULL;
	int rc = 0;

	if (!p->missing)
		return 0;
	if (!(p->holes = json_array()))
		return err_set(e, ERR_NOMEM, "out of memory");
	if (!has_all(c->paged, p->stream) && (rc = read_open(c, session, &s, e)) == 0)
		rc = holes_look(s, p->stream, p->holes, e);
	source_destroy(s);
	return rc;
}

static int see_allowed(struct conn *c, const struct page *p, struct err *e)
{
	const struct source_info *info = source_info(c->paged);
	int rc = 0;

	if (!p->house)
		rc = read_see(c, info, p->screen || p->live, e);
	else if (info->ended || info->sealed)
		rc = err_set(e, ERR_FORBIDDEN, "the session has ended: whoever reads it needs a token");

	return rc ? conn_refused(c, page_op(p), &info->session, info->agent, rc) : 0;
}

/* A source that stands at or before the offset: that of the last page when it fits, else a new one. */
static int page_source(struct conn *c, const struct id *session, const struct page *p, struct err *e)
{
	if (c->paged && id_equal(&source_info(c->paged)->session, session) && c->paged_stream == p->stream &&
	    c->paged_offset == p->want && id_equal(&c->paged_grant, &c->grant.id))
		return see_allowed(c, p, e);
	conn_forget_page(c);
	c->paged_seen = 0;
	int rc = read_open(c, session, &c->paged, e);
	if (rc)
		return rc;
	rc = see_allowed(c, p, e);
	if (rc == 0 && source_info(c->paged)->sealed && p->want < source_info(c->paged)->totals[p->stream])
		rc = source_seek_offset(c->paged, p->stream, p->want, e);
	if (rc) {
		conn_forget_page(c);
		return rc;
	}
	c->paged_grant = c->grant.id;
	c->paged_stream = p->stream;
	return 0;
}

/* Which bytes it will be told is known before the first of them is sent. */
static int page_audit(struct conn *c, struct page *p, struct err *e)
{
	struct reading_of what = read_of(page_op(p), source_info(c->paged));

	if (p->house) /* nobody reads: what the hub had before it was restarted is put together again */
		return 0;
	what.sent[p->stream].offset = p->at;
	what.sent[p->stream].bytes = buf_len(&p->bytes);
	return conn_audit(c, &what, e);
}

static int page_send(struct conn *c, struct page *p)
{
	const struct source_info *info = source_info(c->paged);
	uint64_t end = p->at + buf_len(&p->bytes);
	uint64_t total = info->totals[p->stream] > end ? info->totals[p->stream] : end;
	json_t *head =
	    json_pack("{s:I, s:I, s:O, s:b, s:b}", "offset", (json_int_t)p->at, "total", (json_int_t)total, "gaps",
		      p->gaps, "eof", info->ended && !p->full && !c->paged_full, "ended", info->sealed || info->ended);
	if (head && p->sizes && json_object_set(head, "sizes", p->sizes)) {
		json_decref(head);
		head = NULL;
	}
	if (head && p->holes && json_object_set(head, "missing", p->holes)) {
		json_decref(head);
		head = NULL;
	}
	int rc = conn_send(c, head);
	const uint8_t *at = buf_ptr(&p->bytes);
	for (size_t left = buf_len(&p->bytes), n; rc == 0 && left; left -= n, at += n) {
		n = left < PIECE_MAX ? left : PIECE_MAX;
		rc = conn_send_bytes(c, (uint8_t)p->stream, at, n);
	}
	c->paged_offset = end;
	return rc ? rc : conn_send(c, json_pack("{s:b}", "end", 1));
}

/* Of what is not kept whole the end is found by its bytes alone. */
static int page_place(struct conn *c, const json_t *request, const struct id *session, unsigned stream, int64_t *offset,
		      struct err *e)
{
	struct source *s = NULL;
	int64_t tail = 0;
	int rc = json_opt_int(request, "tail", 1, INT64_MAX, &tail, e);

	if (rc == 0 && json_object_get(request, "lines"))
		return err_set(
		    e, ERR_UNSUPPORTED,
		    "the output of this round is not kept whole any more: lines are not counted in what is left");
	if (rc || !tail || (rc = read_open(c, session, &s, e)) != 0)
		return rc;
	uint64_t total = source_info(s)->totals[stream];
	*offset = total > (uint64_t)tail ? (int64_t)(total - (uint64_t)tail) : 0;
	source_destroy(s);
	return 0;
}

int service_output(struct conn *c, const json_t *request, struct err *e)
{
	struct page p = {.limit = OUTPUT_MAX};
	int64_t offset = 0, limit = (int64_t)OUTPUT_MAX;
	struct id session;
	bool kept = false;

	int rc = json_opt_bool(request, "house", &p.house, e);
	if (rc == 0)
		rc = p.house ? conn_house(c, e) : conn_grant(c, request, e);
	if (rc == 0)
		rc = read_session_id(request, &session, e);
	if (rc == 0)
		rc = read_stream(request, &p.stream, e);
	if (rc == 0)
		rc = json_opt_int(request, "offset", 0, INT64_MAX, &offset, e);
	if (rc == 0)
		rc = json_opt_int(request, "limit", 1, INT64_MAX, &limit, e);
	if (rc == 0)
		rc = json_opt_bool(request, "screen", &p.screen, e);
	if (rc == 0)
		rc = json_opt_bool(request, "live", &p.live, e);
	if (rc == 0)
		rc = json_opt_bool(request, "missing", &p.missing, e);
	if (rc == 0 && !p.screen && !p.house)
		rc = kept_output(c, request, &session, &kept, e);
	if (rc == 0 && !kept)
		rc = page_place(c, request, &session, p.stream, &offset, e);
	p.at = p.want = (uint64_t)offset;
	if (rc || kept || (rc = page_source(c, &session, &p, e)) != 0)
		return rc;
	p.limit = (uint64_t)limit < OUTPUT_MAX ? (uint64_t)limit : OUTPUT_MAX;
	p.gaps = json_array();
	p.sizes = p.screen ? json_array() : NULL;
	buf_init(&p.bytes, OUTPUT_MAX);
	rc = p.gaps ? page_missing(c, &session, &p, e) : err_set(e, ERR_NOMEM, "out of memory");
	if (rc == 0)
		rc = page_fill(c, &p, e);
	if (rc == 0)
		rc = page_audit(c, &p, e);
	if (rc == 0)
		rc = page_send(c, &p);
	else
		conn_forget_page(c);
	json_decref(p.gaps);
	json_decref(p.sizes);
	json_decref(p.holes);
	buf_finish(&p.bytes);
	return rc;
}
