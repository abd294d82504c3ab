/* Whole output of rounds: pages of it, from byte 0 to the end, while it runs and as long as it is kept. */
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "files/match.h"
#include "recorder/serve/service_conn.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_MAX     ((uint64_t)1024 * 1024)
#define PIECE_MAX    ((size_t)64 * 1024)
#define CATCH_UP_NS  (500 * NS_PER_MS)
#define MISSING_MAX  64
#define PAGE_TRIES   4
#define LINES_MAX    10000
#define LINES_BACK   ((uint64_t)16 * 1024 * 1024) /* how far back the last lines are looked for */
#define GREP_SCAN    ((uint64_t)4 * 1024 * 1024)  /* bytes that one question looks through */
#define GREP_NS      (100 * NS_PER_MS)            /* and about how long */
#define GREP_LINE    ((size_t)16 * 1024)          /* a longer line is looked at in pieces */
#define GREP_SHOWN   ((size_t)4 * 1024)           /* of a line in the answer */
#define GREP_ANSWER  ((size_t)128 * 1024)         /* of all of them */
#define GREP_MATCHES 1000
#define LINES_PIECE  ((uint64_t)256 * 1024)

/* The last page: whose it was, so that the next one asks the index nothing. */
struct kept_page {
	struct id session, grant;
	bool live;
	char agent[AGENT_NAME_MAX + 1];
	struct outputs_reader reader;
};

struct question {
	const struct id *session;
	unsigned stream;
	uint64_t offset;
	size_t limit;
	uint64_t tail, lines; /* not 0: the offset is so many bytes, or lines, before the end */
	bool live;            /* as of `output` */
	bool now;             /* what is there already will do: who follows asks again */
	bool missing;         /* the head says what is missing of the whole */
};

void conn_forget_kept(struct conn *c)
{
	if (c->kept)
		outputs_reader_finish(&c->kept->reader);
	free(c->kept);
	c->kept = NULL;
}

static struct outputs *outputs_of(const struct conn *c)
{
	return c->s->p.feeder ? feeder_outputs(c->s->p.feeder) : NULL;
}

/* The answer has all that was journaled before the question; of a round that has ended all is there. */
static int kept_look(struct conn *c, const struct question *q, struct outputs_range *missing, size_t *out_n,
		     struct outputs_read *out)
{
	struct outputs *o = outputs_of(c);
	uint64_t lsn;
	int rc = o ? outputs_missing(o, q->session, q->stream, missing, MISSING_MAX, out_n, out) : ERR_NOT_FOUND;

	if (!o || q->now ||
	    (rc == 0 && (out->ended || q->offset <= out->total - (q->limit < out->total ? q->limit : out->total))))
		return rc;
	if (drain_flush(c->s->p.drain, CATCH_UP_NS, &lsn) == 0)
		(void)feeder_wait(c->s->p.feeder, lsn, CATCH_UP_NS);
	return outputs_missing(o, q->session, q->stream, missing, MISSING_MAX, out_n, out);
}

static bool asked_before(const struct conn *c, const struct question *q)
{
	return c->kept && id_equal(&c->kept->session, q->session) && id_equal(&c->kept->grant, &c->grant.id) &&
	       c->kept->live == q->live;
}

static int kept_remember(struct conn *c, const struct question *q, const struct source_info *info, struct err *e)
{
	if (!(c->kept = calloc(1, sizeof(*c->kept))))
		return err_set(e, ERR_NOMEM, "out of memory");
	c->kept->session = *q->session;
	c->kept->grant = c->grant.id;
	c->kept->live = q->live;
	text_put(c->kept->agent, sizeof(c->kept->agent), info->agent);
	return 0;
}

/* For whom it is kept: who opened it, and who may watch it while it runs. */
static int kept_check(struct conn *c, const struct question *q, bool ended, bool *out_kept, struct err *e)
{
	struct source *s = NULL;
	struct source_info info;
	int rc;

	*out_kept = true;
	if (asked_before(c, q) && !(q->live && ended))
		return 0;
	conn_forget_kept(c);
	if ((rc = read_open(c, q->session, &s, e)) != 0)
		return rc;
	info = *source_info(s);
	info.ended = ended;
	*out_kept = read_own(c, &info) || (q->live && read_live(c, &info));
	rc = *out_kept ? kept_remember(c, q, &info, e) : 0;
	source_destroy(s);
	return rc;
}

static json_t *ranges_json(const struct outputs_range *r, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < n; i++)
		json_array_append_new(list, json_pack("{s:I, s:I}", "offset", (json_int_t)r[i].from, "bytes",
						      (json_int_t)(r[i].until - r[i].from)));
	return list;
}

static int kept_audit(struct conn *c, const struct question *q, uint64_t offset, size_t n, struct err *e)
{
	struct reading_of what = {.op = READ_OUTPUT, .session = q->session, .agent = c->kept->agent, .outcome = "ok"};

	what.sent[q->stream].offset = offset;
	what.sent[q->stream].bytes = n;
	return conn_audit(c, &what, e);
}

static int kept_send(struct conn *c, const struct question *q, const struct outputs_read *at, const struct buf *bytes,
		     const struct outputs_range *missing, size_t n_missing)
{
	uint64_t end = at->offset + buf_len(bytes);
	struct outputs_range gap = {q->offset, at->offset};
	json_t *head = json_pack("{s:I, s:I, s:o, s:b, s:b}", "offset", (json_int_t)at->offset, "total",
				 (json_int_t)at->total, "gaps", ranges_json(&gap, at->offset > q->offset), "eof",
				 at->ended && end >= at->total, "ended", at->ended);
	int rc;

	if (head && q->missing)
		json_object_set_new(head, "missing", ranges_json(missing, n_missing));
	rc = conn_send(c, head);
	for (size_t done = 0, n; rc == 0 && done < buf_len(bytes); done += n) {
		n = buf_len(bytes) - done < PIECE_MAX ? buf_len(bytes) - done : PIECE_MAX;
		rc = conn_send_bytes(c, (uint8_t)q->stream, buf_ptr(bytes) + done, n);
	}
	return rc ? rc : conn_send(c, json_pack("{s:b}", "end", 1));
}

static int question_parse(const json_t *request, struct question *out, struct err *e)
{
	int64_t offset = 0, limit = (int64_t)PAGE_MAX, tail = 0, lines = 0;
	int rc = read_stream(request, &out->stream, e);

	if (rc == 0)
		rc = json_opt_int(request, "offset", 0, INT64_MAX, &offset, e);
	if (rc == 0)
		rc = json_opt_int(request, "limit", 1, INT64_MAX, &limit, e);
	if (rc == 0)
		rc = json_opt_bool(request, "live", &out->live, e);
	if (rc == 0)
		rc = json_opt_bool(request, "now", &out->now, e);
	if (rc == 0)
		rc = json_opt_bool(request, "missing", &out->missing, e);
	if (rc == 0)
		rc = json_opt_int(request, "tail", 1, INT64_MAX, &tail, e);
	if (rc == 0)
		rc = json_opt_int(request, "lines", 1, LINES_MAX, &lines, e);
	out->tail = (uint64_t)tail;
	out->lines = (uint64_t)lines;
	out->offset = tail || lines ? INT64_MAX : (uint64_t)offset;
	out->limit = (uint64_t)limit < PAGE_MAX ? (size_t)limit : PAGE_MAX;
	return rc;
}

/* Where the last of q->lines begin in a piece that ends at *left newlines from the end. SIZE_MAX: before it. */
static size_t lines_begin(const uint8_t *p, size_t n, uint64_t *left)
{
	while (n--) {
		if (p[n] == '\n' && (*left)-- == 0)
			return n + 1;
	}
	return SIZE_MAX;
}

/* Bytes before `until`, from `from` on or behind the last hole there. */
static int piece_read(struct conn *c, const struct question *q, uint64_t from, uint64_t until, struct buf *b,
		      struct outputs_read *at, struct err *e)
{
	int rc;

	do {
		buf_clear(b);
		rc = outputs_read(outputs_of(c), &c->kept->reader, q->session, q->stream, from, b,
				  (size_t)(until - from), at, e);
		from = rc ? from : at->offset + buf_len(b);
	} while (rc == 0 && buf_len(b) && from < until);
	if (rc == 0 && buf_len(b) && from > until) /* it began in a hole, so that it went on behind that */
		buf_truncate(b, at->offset < until ? (size_t)(until - at->offset) : 0);
	return rc;
}

/* Backwards from the end; a hole, or LINES_BACK, is where the looking ends. */
static int lines_find(struct conn *c, const struct question *q, uint64_t total, uint64_t *out, struct err *e)
{
	/* the newline at the very end ends the last line, and none is behind it */
	uint64_t until = total, left = q->lines, least = total > LINES_BACK ? total - LINES_BACK : 0;
	struct buf b;
	int rc = 0;

	buf_init(&b, LINES_PIECE);
	*out = least;
	while (rc == 0 && until > least) {
		uint64_t from = until - least > LINES_PIECE ? until - LINES_PIECE : least;
		struct outputs_read at;
		size_t begin;

		rc = piece_read(c, q, from, until, &b, &at, e);
		if (rc)
			break;
		if (until == total && buf_len(&b) && buf_ptr(&b)[buf_len(&b) - 1] != '\n')
			left--;
		begin = lines_begin(buf_ptr(&b), buf_len(&b), &left);
		*out = begin == SIZE_MAX ? at.offset : at.offset + begin;
		until = begin == SIZE_MAX && at.offset == from ? from : 0;
	}
	buf_finish(&b);
	return rc;
}

static int question_place(struct conn *c, struct question *q, uint64_t total, struct err *e)
{
	if (q->tail)
		q->offset = total > q->tail ? total - q->tail : 0;
	return q->lines ? lines_find(c, q, total, &q->offset, e) : 0;
}

static bool any_missing(const struct outputs_range *r, size_t n, uint64_t from, uint64_t until)
{
	for (size_t i = 0; i < n; i++)
		if (r[i].from < until && from < r[i].until)
			return true;
	return false;
}

/*
 * The bytes, and what is missing as of the moment in which the round has ended, or has not: of one that has, nothing
 * goes any more. Of one that runs these bytes may have gone meanwhile.
 */
static int page_read(struct conn *c, const struct question *q, struct buf *bytes, struct outputs_range *missing,
		     size_t *out_n, struct outputs_read *out, struct err *e)
{
	struct outputs *o = outputs_of(c);
	struct outputs_read now;
	int rc;

	for (int i = 0; i < PAGE_TRIES; i++) {
		buf_clear(bytes);
		rc = outputs_read(o, &c->kept->reader, q->session, q->stream, q->offset, bytes, q->limit, out, e);
		if (rc || !q->missing)
			return rc;
		if (outputs_missing(o, q->session, q->stream, missing, MISSING_MAX, out_n, &now))
			return err_set(e, ERR_NOT_FOUND, "no output of that round is kept");
		out->total = now.total;
		out->ended = now.ended;
		if (!any_missing(missing, *out_n, out->offset, out->offset + buf_len(bytes)))
			return 0;
	}
	return err_set(e, ERR_UNAVAILABLE, "the output goes faster than it is read: ask again");
}

int kept_output(struct conn *c, const json_t *request, const struct id *session, bool *out_kept, struct err *e)
{
	struct question q = {.session = session};
	struct outputs_range missing[MISSING_MAX];
	struct outputs_read at = {0};
	size_t n_missing = 0;
	struct buf bytes;
	int rc = question_parse(request, &q, e);

	if (rc == 0)
		*out_kept = q.stream != STREAM_INPUT && kept_look(c, &q, missing, &n_missing, &at) == 0;
	if (rc == 0 && *out_kept)
		rc = kept_check(c, &q, at.ended, out_kept, e);
	if (rc || !*out_kept || (rc = question_place(c, &q, at.total, e)) != 0)
		return rc;
	buf_init(&bytes, PAGE_MAX);
	rc = page_read(c, &q, &bytes, missing, &n_missing, &at, e);
	if (rc == 0)
		rc = kept_audit(c, &q, at.offset, buf_len(&bytes), e);
	if (rc == 0)
		rc = kept_send(c, &q, &at, &bytes, missing, n_missing);
	buf_finish(&bytes);
	return rc;
}

/* ---- looking for lines */

struct grep {
	struct match *match;
	uint64_t until_ns;
	size_t matches, most; /* found; at most */
	size_t shown;         /* bytes of them */
	uint64_t lines;       /* looked at, so far */
	json_t *found;
};

static int grep_add(struct grep *g, uint64_t offset, const uint8_t *p, size_t n)
{
	size_t shown = text_cut(p, n, GREP_SHOWN);
	json_t *o = json_pack("{s:I, s:I, s:I, s:b}", "offset", (json_int_t)offset, "line", (json_int_t)g->lines,
			      "bytes", (json_int_t)n, "cut", shown < n);
	int rc = o ? json_set_bytes(o, "data", "encoding", p, shown) : ERR_NOMEM;

	if (rc == 0 && json_array_append(g->found, o))
		rc = ERR_NOMEM;
	json_decref(o);
	g->matches++;
	g->shown += shown;
	return rc;
}

static bool grep_full(const struct grep *g)
{
	return g->matches >= g->most || g->shown >= GREP_ANSWER || clock_boot_ns() >= g->until_ns;
}

/*
 * Lines of n bytes that begin at offset; *out_done: how many of them were looked at. whole: nothing comes behind them,
 * so that a last line without its end is one.
 */
static int grep_lines(struct grep *g, uint64_t offset, const uint8_t *p, size_t n, bool whole, size_t *out_done)
{
	size_t at = 0;
	int rc = 0;

	while (rc == 0 && at < n && !(at && grep_full(g))) {
		size_t most = n - at < GREP_LINE ? n - at : GREP_LINE, len, text;
		const uint8_t *end = memchr(p + at, '\n', most);

		if (!end && most < GREP_LINE && !whole)
			break;
		len = end ? (size_t)(end + 1 - (p + at)) : most;
		text = match_line_text(p + at, len);
		switch (match_line(g->match, p + at, text, NULL)) {
		case MATCH_YES:
			rc = grep_add(g, offset + at, p + at, text);
			break;
		case MATCH_TOO_COMPLEX:
			return ERR_INVAL;
		case MATCH_NO:
			break;
		}
		g->lines += end != NULL;
		at += len;
	}
	*out_done = at;
	return rc;
}

static int grep_run(struct conn *c, const struct question *q, struct grep *g, struct outputs_read *at,
		    uint64_t *out_next, struct err *e)
{
	struct buf b;
	size_t done = 0;
	int rc;

	buf_init(&b, GREP_SCAN);
	rc = outputs_read(outputs_of(c), &c->kept->reader, q->session, q->stream, q->offset, &b, GREP_SCAN, at, e);
	/* a hole ends a line as the end does */
	bool whole = rc == 0 && buf_len(&b) < GREP_SCAN && (at->ended || at->offset + buf_len(&b) < at->total);
	if (rc == 0 && buf_len(&b) && (rc = grep_lines(g, at->offset, buf_ptr(&b), buf_len(&b), whole, &done)) != 0)
		err_set(e, rc,
			rc == ERR_INVAL ? "grep: the expression is too complex for this output" : "out of memory");
	*out_next = at->offset + done;
	/* what was looked through was read */
	if (rc == 0)
		rc = kept_audit(c, q, at->offset, done, e);
	buf_finish(&b);
	return rc;
}

static int grep_send(struct conn *c, const struct grep *g, const struct outputs_read *at, uint64_t next)
{
	return conn_send(c, json_pack("{s:O, s:I, s:I, s:I, s:I, s:b, s:b}", "matches", g->found, "lines",
				      (json_int_t)g->lines, "offset", (json_int_t)at->offset, "next_offset",
				      (json_int_t)next, "total", (json_int_t)at->total, "eof",
				      at->ended && next >= at->total, "end", 1));
}

static int grep_parse(const json_t *request, struct grep *g, struct err *e)
{
	struct match_error why = {0};
	const char *text = NULL;
	bool regex = false, fold = false;
	int64_t most = GREP_MATCHES;
	int rc = json_need_str(request, "pattern", &text, e);

	if (rc == 0)
		rc = json_opt_bool(request, "regex", &regex, e);
	if (rc == 0)
		rc = json_opt_bool(request, "ignore_case", &fold, e);
	if (rc == 0)
		rc = json_opt_int(request, "matches", 1, GREP_MATCHES, &most, e);
	g->most = (size_t)most;
	g->until_ns = clock_boot_ns() + GREP_NS;
	if (rc == 0 && !(g->found = json_array()))
		rc = err_set(e, ERR_NOMEM, "out of memory");
	if (rc == 0 && !*text)
		rc = err_set(e, ERR_INVAL, "grep: the pattern is empty");
	if (rc == 0 &&
	    !(g->match = match_new(text, strlen(text), (regex ? 0 : MATCH_LITERAL) | (fold ? MATCH_NOCASE : 0), &why)))
		rc = err_set(e, ERR_INVAL, "grep: %s (at byte %zu of the pattern)", why.why, why.at);
	return rc;
}

/* The owner decides whether there is one at all; then its remains are looked at. */
static int grep_refuse(struct conn *c, const struct id *session, const struct question *q, struct err *e)
{
	struct source *s = NULL;
	int rc = read_open(c, session, &s, e);

	if (rc == 0 && (rc = read_see(c, source_info(s), q->live, e)) != 0)
		rc = conn_refused(c, READ_OUTPUT, session, source_info(s)->agent, rc);
	else if (rc == 0)
		rc = err_set(e, ERR_UNSUPPORTED,
			     "the output of this session is not kept whole for you: nothing can be looked for in it");
	source_destroy(s);
	return rc;
}

/* One bounded look; who asked goes on at next_offset. Of what is not kept whole nothing is looked for. */
int service_grep(struct conn *c, const json_t *request, struct err *e)
{
	struct outputs_range missing[MISSING_MAX];
	struct question q = {0};
	struct outputs_read at = {0};
	struct grep g = {0};
	struct id session;
	uint64_t next = 0;
	size_t n_missing;
	bool kept = false;
	int rc = conn_grant(c, request, e);

	if (rc == 0)
		rc = read_session_id(request, &session, e);
	if (rc == 0)
		rc = question_parse(request, &q, e);
	q.session = &session;
	if (rc == 0)
		rc = grep_parse(request, &g, e);
	if (rc == 0 && kept_look(c, &q, missing, &n_missing, &at) == 0)
		rc = kept_check(c, &q, at.ended, &kept, e);
	if (rc == 0 && !kept)
		rc = grep_refuse(c, &session, &q, e);
	if (rc == 0)
		rc = grep_run(c, &q, &g, &at, &next, e);
	if (rc == 0)
		rc = grep_send(c, &g, &at, next);
	match_free(g.match);
	json_decref(g.found);
	return rc;
}
