/*
 * GET /v1/rounds/{id}/output: a page as JSON, or the bytes themselves: a range, all of it, or on and on to the end.
 *
 * Who follows is given them from the journal as they pass, straight into the record of TLS, and page by page from the
 * record where the journal does not have them any more. A slow reader holds nothing back.
 */
#include "base/clock.h"
#include "base/ring.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/range.h"
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/session/listener.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define OUTPUT_DEFAULT (64 * 1024)
#define OUTPUT_MAX     (1024 * 1024)
#define PAGE           (256 * 1024) /* two of them are in memory for each client */
#define MISSING_MAX    64
#define GREP_DEFAULT   100
#define GREP_MOST      1000
#define PATIENCE       (60 * NS_PER_SEC) /* of one who asks right behind the end, on a machine that is busy */
#define FOLLOW_LEAST   (5 * NS_PER_MS)   /* between two looks for more, twice as long each time */
#define FOLLOW_MOST    (200 * NS_PER_MS)
#define GIVEN_MOST     (16 * 1024 * 1024) /* bytes that were given before the audit log's account hears of them */

struct hole {
	uint64_t from, until;
};

/*
 * One answer in bytes; flow_arg of its exchange. It asks for the next page while the last one is being sent, or, of who
 * follows, takes what is there when there is room. Freed once the exchange has let go of it, nothing is asked any more,
 * and the timer is closed.
 */
struct reading {
	struct http_exchange *x; /* NULL: it is over */
	struct id round;
	struct round_read how; /* how.offset: of the next page */
	struct range range;
	bool follow;
	struct round_listener listener; /* of who follows */
	uint64_t given; /* bytes before how.offset that were given as they passed, and not told of yet */
	bool begun;     /* the head is out */
	bool asked;     /* a page is on its way */
	bool over;      /* there is no next page */
	uint64_t until; /* behind the last byte that is promised; UINT64_MAX: to the end */
	struct buf page, next;
	struct hole holes[MISSING_MAX];
	size_t n_holes;
	uv_timer_t later;
	uint64_t pause_ns;
	uint64_t patience_ns; /* boot: until then what is kept may be behind the round's end */
	bool closing, closed;
};

static void reading_free(struct reading *r)
{
	if (r->x || r->asked || !r->closed)
		return;
	buf_finish(&r->page);
	buf_finish(&r->next);
	free(r);
}

static void output_on_closed(uv_handle_t *t)
{
	struct reading *r = t->data;

	r->closed = true;
	reading_free(r);
}

static void tell_given(struct reading *r)
{
	if (r->given)
		broker_round_given(r->x->hub, &r->x->rq, &r->round, r->how.stream, r->how.offset - r->given, r->given);
	r->given = 0;
}

static void reading_end(struct reading *r)
{
	tell_given(r);
	round_unlisten(&r->listener);
	r->x = NULL;
	if (!r->closing) {
		r->closing = true;
		uv_close((uv_handle_t *)&r->later, output_on_closed);
	}
}

static void reading_wake(struct reading *r)
{
	if (r->x && r->x->wake)
		r->x->wake(r->x->done_arg, r->x);
}

/* The rest will never come: an answer that is cut short must not look whole. */
static void reading_break(struct reading *r)
{
	r->over = true;
	if (!r->x)
		return;
	r->x->stream_broken = true;
	reading_wake(r);
}

/* ---- the next page */

static void output_on_page(void *arg, int rc, const struct err *e, const struct round_page *page);

static void output_ask(struct reading *r)
{
	if (r->asked || r->over || !r->x || buf_len(&r->next))
		return;
	r->how.limit = r->until - r->how.offset < PAGE ? r->until - r->how.offset : PAGE;
	r->how.now = r->follow && r->begun;
	r->asked = true;
	tell_given(r);
	broker_round_read(r->x->hub, &r->x->rq, &r->round, &r->how, output_on_page, r);
}

static void output_on_later(uv_timer_t *t)
{
	struct reading *r = t->data;

	if (r->follow && r->begun)
		reading_wake(r);
	else
		output_ask(r);
}

static void ask_later(struct reading *r)
{
	r->pause_ns = r->pause_ns ? 2 * r->pause_ns : FOLLOW_LEAST;
	if (r->pause_ns > FOLLOW_MOST)
		r->pause_ns = FOLLOW_MOST;
	uv_timer_start(&r->later, output_on_later, r->pause_ns / NS_PER_MS, 0);
}

static bool known_hole(const struct reading *r, uint64_t from, uint64_t until)
{
	for (size_t i = 0; i < r->n_holes; i++)
		if (r->holes[i].from <= from && until <= r->holes[i].until)
			return true;
	return false;
}

/* Sends the part of the page that was promised. ERR_CORRUPT: bytes are missing that were promised. */
static int page_take(struct reading *r, const struct round_page *page)
{
	uint64_t room;
	size_t n = page->n;

	if (page->offset > r->how.offset && !known_hole(r, r->how.offset, page->offset))
		return ERR_CORRUPT;
	room = page->offset < r->until ? r->until - page->offset : 0;
	if (n > room)
		n = (size_t)room;
	if (n == page->n && page->bytes && !buf_len(&r->next)) {
		buf_finish(&r->next);
		r->next = *page->bytes;
		buf_init(page->bytes, page->bytes->max);
	} else if (n && buf_append(&r->next, page->p, n)) {
		return ERR_NOMEM;
	}
	r->how.offset = page->offset + n;
	r->over = page->eof || r->how.offset >= r->until;
	return 0;
}

static void turn_pages(struct reading *r)
{
	struct buf was = r->page;

	if (buf_len(&r->page) || !buf_len(&r->next))
		return;
	r->page = r->next;
	r->next = was;
	buf_clear(&r->next);
}

/* ---- what the connection asks for */

static ssize_t output_live(const struct reading *r, uint8_t *to, size_t max)
{
	return broker_round_live(r->x->hub, &r->x->rq, &r->round, r->how.stream, r->how.offset, to, max);
}

static void live_took(struct reading *r, size_t n)
{
	r->pause_ns = 0;
	r->how.offset += n;
	r->over = r->how.offset >= r->until;
	r->given += n;
	if (r->given >= GIVEN_MOST)
		tell_given(r);
}

static size_t give_live(struct reading *r, uint8_t *to, size_t max)
{
	uint64_t left = r->until - r->how.offset;
	bool waits = uv_is_active((uv_handle_t *)&r->later);
	ssize_t n = output_live(r, to, left < max ? (size_t)left : max);

	if (n > 0) {
		live_took(r, (size_t)n);
		return (size_t)n;
	}
	if (n == ERR_EOF)
		r->over = true;
	else if (n == ERR_NOT_FOUND && !waits)
		output_ask(r);
	else if (n == ERR_AGAIN && !waits)
		ask_later(r);
	return 0;
}

static size_t give_page(struct reading *r, uint8_t *to, size_t max)
{
	size_t n = buf_len(&r->page) < max ? buf_len(&r->page) : max;

	if (n)
		memcpy(to, buf_ptr(&r->page), n);
	buf_consume(&r->page, n);
	if (!uv_is_active((uv_handle_t *)&r->later) && !(r->follow && output_live(r, NULL, 0) != ERR_NOT_FOUND))
		output_ask(r);
	return n;
}

static size_t output_give(struct http_exchange *x, uint8_t *to, size_t max)
{
	struct reading *r = x->flow_arg;
	size_t n;

	turn_pages(r);
	if (r->follow && !r->over && !r->asked && !buf_len(&r->page))
		n = give_live(r, to, max);
	else
		n = give_page(r, to, max);
	if (r->over && !buf_len(&r->page) && !buf_len(&r->next))
		x->stream_over = true;
	return n;
}

static void output_on_event(void *arg, const char *event, const json_t *detail)
{
	(void)arg, (void)event, (void)detail;
}

/* A page that is on its way goes first. */
static void output_on_moved(void *arg)
{
	struct reading *r = arg;

	if (r->begun && !r->asked)
		reading_wake(r);
}

static void output_drop(struct http_exchange *x)
{
	struct reading *r = x->flow_arg;

	x->flow_arg = NULL;
	x->flow = NULL;
	if (!r)
		return;
	reading_end(r);
}

static const struct http_flow flow = {.give = output_give, .drop = output_drop, .while_granted = "output"};

/* ---- the head */

static void take_missing(struct reading *r, const json_t *list)
{
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)(uintptr_t)list, i, o)
	{
		uint64_t from = (uint64_t)json_integer_value(json_object_get(o, "offset"));

		if (r->n_holes < MISSING_MAX)
			r->holes[r->n_holes++] =
			    (struct hole){from, from + (uint64_t)json_integer_value(json_object_get(o, "bytes"))};
	}
}

/* Bytes of [from, until) that are there. */
static uint64_t bytes_there(const struct reading *r, uint64_t from, uint64_t until)
{
	uint64_t n = until - from;

	for (size_t i = 0; i < r->n_holes; i++) {
		uint64_t a = r->holes[i].from > from ? r->holes[i].from : from;
		uint64_t b = r->holes[i].until < until ? r->holes[i].until : until;

		if (a < b)
			n -= b - a;
	}
	return n;
}

static int head_missing(struct reading *r)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < r->n_holes; i++)
		rc = buf_printf(&r->x->headers, "%s%" PRIu64 "-%" PRIu64, i ? ", " : "Muxd-Missing: bytes ",
				r->holes[i].from, r->holes[i].until - 1);
	if (rc == 0 && r->n_holes)
		rc = buf_append_str(&r->x->headers, "\r\n");
	return rc;
}

static int head_own(struct reading *r, const struct round_page *page)
{
	int rc = head_missing(r);

	if (rc == 0 && page->ended)
		rc = buf_printf(&r->x->headers, "Muxd-Total-Bytes: %" PRIu64 "\r\n", page->total);
	if (rc == 0 && !r->follow)
		rc = buf_append_str(&r->x->headers, "Accept-Ranges: bytes\r\n");
	if (rc == 0 && !r->range.given)
		rc = buf_printf(&r->x->headers, "Muxd-Offset: %" PRIu64 "\r\n", page->offset);
	return rc;
}

/* The first run of bytes without a hole, which RFC 9110 (15.3.7) allows: Content-Range says what it is. */
static void narrow(struct reading *r, uint64_t from)
{
	for (size_t i = 0; i < r->n_holes; i++)
		if (r->holes[i].from > from && r->holes[i].from < r->until)
			r->until = r->holes[i].from;
}

static void reply_unsatisfied(struct reading *r, uint64_t total)
{
	struct http_exchange *x = r->x;
	struct err e = {0};

	reading_end(r);
	x->complete_known = true;
	x->complete = total;
	err_set(&e, ERR_INVAL,
		"the range is past the end, or of bytes that are missing: the stream has %" PRIu64 " bytes", total);
	http_reply_status(x, 416, ERR_INVAL, &e);
}

static void reply_failed(struct reading *r, int rc, const struct err *e)
{
	struct http_exchange *x = r->x;

	reading_end(r);
	http_reply_error(x, rc, e);
}

/* An answer gives x away: nothing of it is touched behind that. */
static void reply_begin(struct reading *r, int status, uint64_t n)
{
	struct http_exchange *x = r->x;

	r->begun = true;
	x->flow_arg = r;
	x->flow = &flow;
	if (r->follow)
		round_listen(x->hub, &r->round, &r->listener);
	if (r->follow)
		http_reply_chunked(x, status, "application/octet-stream");
	else
		http_reply_stream(x, status, "application/octet-stream", n);
}

static int head_range(struct reading *r, const struct round_page *page)
{
	char total[24] = "*";

	if (page->ended)
		snprintf(total, sizeof(total), "%" PRIu64, page->total);
	return buf_printf(&r->x->headers, "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%s\r\n", page->offset,
			  r->until - 1, total);
}

static void output_begin(struct reading *r, const struct round_page *page)
{
	int rc;

	take_missing(r, page->missing);
	if (r->how.tail || r->how.lines)
		r->how.offset = page->offset;
	if (r->how.tail && !r->follow && r->until - page->offset > r->how.tail)
		r->until = page->offset + r->how.tail; /* it may have grown since */
	r->how.tail = r->how.lines = 0;
	r->how.missing = false;
	if (!r->follow && r->until > page->total)
		r->until = page->total;
	if (r->range.given && (page->offset >= r->until || !page->n)) {
		reply_unsatisfied(r, page->total);
		return;
	}
	if (r->range.given) {
		narrow(r, page->offset);
		r->how.offset = page->offset;
	}
	uint64_t n = r->how.offset < r->until && !r->follow ? bytes_there(r, r->how.offset, r->until) : 0;
	rc = page_take(r, page);
	if (rc == 0)
		rc = head_own(r, page);
	if (rc == 0 && r->range.given)
		rc = head_range(r, page);
	if (rc)
		reply_failed(r, rc, NULL);
	else
		reply_begin(r, r->range.given ? 206 : 200, n);
}

static void output_on_page(void *arg, int rc, const struct err *e, const struct round_page *page)
{
	struct reading *r = arg;

	r->asked = false;
	if (!r->x) {
		reading_free(r);
		return;
	}
	if (!r->begun) {
		if (rc)
			reply_failed(r, rc, e);
		else if (page->behind && !r->follow && !r->x->gone && clock_boot_ns() < r->patience_ns)
			ask_later(r);
		else
			output_begin(r, page);
		return;
	}
	if (rc || page_take(r, page) || (!page->n && !r->over && !r->follow)) {
		reading_break(r);
		return;
	}
	if (page->n || r->over) {
		r->pause_ns = 0;
		reading_wake(r);
	} else {
		ask_later(r);
	}
}

/* Of a round that runs the journal may have all from there on. */
static void output_on_followed(void *arg, int rc, const struct err *e)
{
	struct reading *r = arg;

	r->asked = false;
	if (!r->x) {
		reading_free(r);
	} else if (rc == ERR_NOT_FOUND) {
		output_ask(r);
	} else {
		rc = rc ? rc : buf_printf(&r->x->headers, "Muxd-Offset: %" PRIu64 "\r\n", r->how.offset);
		if (rc)
			reply_failed(r, rc, e);
		else
			reply_begin(r, 200, 0);
	}
}

static void ask_to_follow(struct reading *r)
{
	r->asked = true;
	broker_round_follow(r->x->hub, &r->x->rq, &r->round, r->how.stream, r->how.offset, output_on_followed, r);
}

/* ---- the call */

static int output_stream(const struct http_exchange *x, int *out, struct err *e)
{
	const char *s = http_query_str(x, "stream");

	if (!s || strcmp(s, "stdout") == 0)
		*out = STREAM_OUTPUT;
	else if (strcmp(s, "stderr") == 0)
		*out = STREAM_STDERR;
	else
		return err_set(e, ERR_INVAL, "query parameter stream must be stdout or stderr");
	return 0;
}

static int read_where(const struct http_exchange *x, struct round_read *out, struct err *e)
{
	int64_t offset = 0, tail = 0, lines = 0;
	int rc = output_stream(x, &out->stream, e);

	if (rc == 0)
		rc = http_query_int(x, "offset", 0, INT64_MAX, &offset, e);
	if (rc == 0)
		rc = http_query_int(x, "tail", 1, INT64_MAX, &tail, e);
	if (rc == 0)
		rc = http_query_int(x, "lines", 1, ROUND_LINES_MAX, &lines, e);
	if (rc == 0 && (http_query_str(x, "offset") != NULL) + (tail != 0) + (lines != 0) > 1)
		rc = err_set(e, ERR_INVAL, "query parameters offset, tail and lines exclude each other");
	out->offset = (uint64_t)offset;
	out->tail = (uint64_t)tail;
	out->lines = (uint32_t)lines;
	return rc;
}

/* A range says where; what else says so excludes it. */
static int apply_range(struct reading *r, struct err *e)
{
	const struct round_read *how = &r->how;

	if (!r->range.given)
		return 0;
	if (how->offset || how->tail || how->lines || r->follow || r->until != UINT64_MAX)
		return err_set(e, ERR_INVAL, "Range excludes offset, limit, tail, lines and follow");
	r->how.offset = r->range.first;
	r->how.tail = r->range.suffix;
	if (r->range.first == UINT64_MAX) /* bytes=-0 */
		r->how.offset = INT64_MAX;
	else if (r->range.last != UINT64_MAX)
		r->until = r->range.last + 1;
	return 0;
}

static int read_bytes(struct http_exchange *x, bool follow, const struct round_read *how, struct reading **out,
		      struct err *e)
{
	struct reading *r = calloc(1, sizeof(*r));
	int64_t limit = 0;
	int rc = r ? http_query_int(x, "limit", 1, INT64_MAX, &limit, e) : err_set(e, ERR_NOMEM, "out of memory");

	if (rc == 0) {
		*r = (struct reading){.x = x, .round = x->object, .how = *how, .follow = follow, .until = UINT64_MAX};
		if (limit && how->offset <= UINT64_MAX - (uint64_t)limit)
			r->until = how->offset + (uint64_t)limit;
		if (limit && (how->tail || how->lines))
			rc = err_set(e, ERR_INVAL, "query parameter limit does not go with tail and lines");
	}
	if (rc == 0)
		rc = range_parse(x->range, &r->range, e);
	if (rc == 0)
		rc = apply_range(r, e);
	if (rc) {
		free(r);
		return rc;
	}
	*out = r;
	return 0;
}

static void output_bytes(struct http_exchange *x, bool follow, const struct round_read *how)
{
	struct reading *r = NULL;
	struct err e = {0};
	int rc = read_bytes(x, follow, how, &r, &e);

	if (rc) {
		http_reply_error(x, rc, &e);
		return;
	}
	uv_timer_init(hub_loop(x->hub), &r->later);
	r->later.data = r;
	buf_init(&r->page, PAGE);
	buf_init(&r->next, PAGE);
	r->how.missing = true;
	r->patience_ns = clock_boot_ns() + PATIENCE;
	r->listener = (struct round_listener){.moved = output_on_moved, .event = output_on_event, .arg = r};
	if (r->follow && !how->tail && !how->lines)
		ask_to_follow(r);
	else
		output_ask(r);
}

static void output_page(struct http_exchange *x, struct round_read *how)
{
	int64_t limit = OUTPUT_DEFAULT;
	struct err e = {0};
	int rc = http_query_int(x, "limit", 1, OUTPUT_MAX, &limit, &e);

	how->limit = (uint64_t)limit;
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_round_output(x->hub, &x->rq, &x->object, how, http_reply_result, x);
}

static int read_grep(const struct http_exchange *x, struct round_grep *out, struct err *e)
{
	int64_t matches = GREP_DEFAULT;
	int rc = http_query_bool(x, "regex", &out->regex, e);

	if (rc == 0)
		rc = http_query_bool(x, "ignore_case", &out->ignore_case, e);
	if (rc == 0)
		rc = http_query_int(x, "limit", 1, GREP_MOST, &matches, e);
	out->matches = (uint32_t)matches;
	return rc;
}

/* Of lines `limit` is a number of them. */
static void output_grep(struct http_exchange *x, const struct round_read *where)
{
	struct round_grep what = {
	    .stream = where->stream, .offset = where->offset, .pattern = http_query_str(x, "grep")};
	struct err e = {0};
	int rc = read_grep(x, &what, &e);

	if (rc == 0 && (where->tail || where->lines || http_query_str(x, "raw") || http_query_str(x, "follow")))
		rc = err_set(&e, ERR_INVAL, "query parameter grep does not go with tail, lines, raw and follow");
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_round_grep(x->hub, &x->rq, &x->object, &what, http_reply_result, x);
}

void rest_round_output(struct http_exchange *x)
{
	struct round_read how = {0};
	bool raw = false, follow = false;
	struct err e = {0};
	int rc = read_where(x, &how, &e);

	if (rc == 0)
		rc = http_query_bool(x, "raw", &raw, &e);
	if (rc == 0)
		rc = http_query_bool(x, "follow", &follow, &e);
	if (rc)
		http_reply_error(x, rc, &e);
	else if (http_query_str(x, "grep"))
		output_grep(x, &how);
	else if (raw || follow || x->accepts_bytes || x->range[0])
		output_bytes(x, follow, &how);
	else
		output_page(x, &how);
}
