#define LOG_SUBSYS "artifact"
#include "muxd/hub/artifact_take.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/ring.h"
#include "base/text.h"
#include "muxd/hub/audit.h"
#include "muxd/hub/gate.h"
#include "muxd/hub/hub_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_NS (60 * NS_PER_SEC) /* what is kept of a round may be behind its end, on a machine that is busy */

enum take_state { TAKE_FETCHING, TAKE_PAGING, TAKE_STORING };

struct taking {
	struct hub *hub;
	struct request rq;
	enum take_state state;
	char task[GRANT_NAME_MAX + 1], name[ARTIFACT_NAME_MAX + 1], agent[AGENT_NAME_MAX + 1];
	char media_type[ARTIFACT_TYPE_MAX + 1], round[ID_STR_LEN], base[ID_STR_LEN];
	bool only_new, any_owner;
	struct artifact_writer *w; /* NULL: not begun, or over */
	struct attachment *a;      /* of the transfer */
	struct id id;              /* PAGING: the round */
	struct round_read how;
	struct buf rest; /* PAGING: of a page, what the writer had no room for */
	bool eof;
	uint64_t patience_ns;
	broker_json_done *done;
	void *arg;
};

static void take_free(struct taking *t)
{
	request_finish(&t->rq);
	buf_finish(&t->rest);
	free(t);
}

static void take_fail(struct taking *t, int rc, const struct err *e)
{
	struct attachment *a = t->a;
	struct err why = {0};

	err_again(&why, rc, e, NULL);
	t->a = NULL;
	attachment_detach(a);
	artifact_writer_abort(t->w);
	t->w = NULL;
	t->done(t->arg, rc, &why, NULL);
	take_free(t);
}

static void take_on_stored(void *arg, int rc, const struct err *e, const json_t *row)
{
	struct taking *t = arg;

	t->w = NULL;
	t->done(t->arg, rc, e, (json_t *)(uintptr_t)row);
	take_free(t);
}

static void take_finish(struct taking *t)
{
	t->state = TAKE_STORING;
	artifact_writer_finish(t->w);
}

static void take_on_ready(void *arg);

static const struct artifact_writer_ops writer_ops = {.ready = take_on_ready, .done = take_on_stored};

static int take_writer(struct taking *t, struct err *e)
{
	json_t *call = audit_request_json(&t->rq);
	int rc;
	struct artifact_spec spec = {.task = t->task,
				     .name = t->name,
				     .principal = t->rq.grant.principal,
				     .agent = t->agent,
				     .round = t->round,
				     .run = t->rq.work.run,
				     .base = t->base,
				     .media_type = t->media_type,
				     .call = call,
				     .size = UINT64_MAX,
				     .only_new = t->only_new,
				     .any_owner = t->any_owner};

	rc = call ? artifact_write(t->hub->p.artifacts, &spec, &writer_ops, t, &t->w, e)
		  : err_set(e, ERR_NOMEM, "no memory for an event");
	json_decref(call);
	return rc;
}

/* ---- a file of a sandbox */

/* Moves on the bytes that are there, as far as the writer has room. False: it failed, and t is gone. */
static bool fetch_pump(struct taking *t)
{
	const uint8_t *p = NULL;
	struct err e = {0};
	size_t n;

	while (t->a && (n = attachment_peek(t->a, STREAM_OUTPUT, &p))) {
		ssize_t taken = artifact_writer_take(t->w, p, n, &e);

		if (taken < 0) {
			take_fail(t, (int)taken, &e);
			return false;
		}
		if (!taken)
			return true;
		attachment_consume(t->a, STREAM_OUTPUT, (size_t)taken);
	}
	return true;
}

static void take_on_readable(void *arg)
{
	(void)fetch_pump(arg);
}

static void take_on_writable(void *arg)
{
	(void)arg; /* nothing is sent */
}

static void take_on_notice(void *arg, const char *text, bool over)
{
	(void)arg, (void)text, (void)over;
}

static void take_on_skipped(void *arg, int stream, uint64_t n)
{
	(void)arg, (void)stream, (void)n; /* a driver is not overtaken */
}

static void take_on_ended(void *arg, const struct session_result *r)
{
	struct taking *t = arg;
	struct err e = {0};

	if (r->failed) {
		take_fail(t, r->failed, (err_set(&e, r->failed, "%s", r->message), &e));
		return;
	}
	attachment_detach(t->a);
	t->a = NULL;
	take_finish(t);
}

static void take_on_cut(void *arg, enum cut_cause cause, const char *text)
{
	struct err e = {0};

	err_set(&e, cause == CUT_SHUTDOWN ? ERR_UNAVAILABLE : ERR_CUT, "%s", text);
	take_fail(arg, e.code, &e);
}

static const struct attachment_ops fetch_ops = {.readable = take_on_readable,
						.writable = take_on_writable,
						.notice = take_on_notice,
						.skipped = take_on_skipped,
						.ended = take_on_ended,
						.cut = take_on_cut};

static void take_on_open(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			 const struct id *seen)
{
	struct taking *t = arg;
	struct err here = {0};

	(void)seen; /* a transfer has no exec_id */
	if (!rc) {
		t->a = a;
		text_put(t->agent, sizeof(t->agent), s->agent->name);
		text_put(t->base, sizeof(t->base), s->snapshot_id);
		rc = take_writer(t, &here), e = &here;
	}
	if (rc)
		take_fail(t, rc, e);
	else
		(void)fetch_pump(t);
}

static void take_fetch(struct taking *t, const struct artifact_take *from)
{
	const struct file_spec file = {.op = FILE_GET, .path = from->path, .mode = -1, .size = UINT64_MAX};
	const struct exec_spec spec = {.kind = SESSION_FILE,
				       .agent = from->agent,
				       .task = t->task,
				       .file = &file,
				       .timeout_ns = from->timeout_ns,
				       .only_in = from->made_by ? &from->sandbox : NULL,
				       .head = UINT64_MAX,
				       .tail = UINT64_MAX};

	t->state = TAKE_FETCHING;
	broker_open(t->hub, &t->rq, &spec, &fetch_ops, t, take_on_open, t);
}

/* ---- a round's output */

static void take_on_page(void *arg, int rc, const struct err *e, const struct round_page *page);

static void page_ask(struct taking *t)
{
	t->how.limit = ARTIFACT_PIECE;
	broker_round_read(t->hub, &t->rq, &t->id, &t->how, take_on_page, t);
}

/* The rest of a page first, then the next page, then the end. */
static void page_pump(struct taking *t)
{
	struct err e = {0};

	while (buf_len(&t->rest)) {
		ssize_t n = artifact_writer_take(t->w, buf_ptr(&t->rest), buf_len(&t->rest), &e);

		if (n < 0) {
			take_fail(t, (int)n, &e);
			return;
		}
		if (!n)
			return;
		buf_consume(&t->rest, (size_t)n);
	}
	if (t->eof)
		take_finish(t);
	else
		page_ask(t);
}

static void take_on_ready(void *arg)
{
	struct taking *t = arg;

	if (t->state == TAKE_PAGING)
		page_pump(t);
	else if (t->state == TAKE_FETCHING)
		(void)fetch_pump(t);
}

static void take_on_later(void *arg, int rc, const struct err *e)
{
	if (rc)
		take_fail(arg, rc, e);
	else
		page_ask(arg);
}

static void page_wait(struct taking *t)
{
	struct err e = {0};

	if (clock_boot_ns() >= t->patience_ns) {
		err_set(&e, ERR_UNAVAILABLE, "the record is behind the end of round %s: take it later", t->round);
		take_fail(t, e.code, &e);
	} else if (gate_later(t->hub, take_on_later, t)) {
		err_set(&e, ERR_NOMEM, "no memory");
		take_fail(t, e.code, &e);
	}
}

static void take_on_page(void *arg, int rc, const struct err *e, const struct round_page *page)
{
	struct taking *t = arg;
	struct err here = {0};

	if (!rc && page->behind) {
		page_wait(t);
		return;
	}
	if (!rc && !page->ended)
		rc = err_set(&here, ERR_BAD_STATE, "round %s runs: its output is taken once it has ended", t->round),
		e = &here;
	if (!rc && page->offset > t->how.offset)
		rc = err_set(&here, ERR_CORRUPT,
			     "the output of round %s is not there whole: bytes %" PRIu64 "-%" PRIu64
			     " are not kept (rounds.output_keep, rounds.output_keep_stream)",
			     t->round, t->how.offset, page->offset - 1),
		e = &here;
	if (!rc && page->n && buf_append(&t->rest, page->p, page->n))
		rc = err_set(&here, ERR_NOMEM, "no memory for a page"), e = &here;
	if (rc) {
		take_fail(t, rc, e);
		return;
	}
	t->how.offset = page->offset + page->n;
	t->eof = page->eof;
	page_pump(t);
}

static void take_pages(struct taking *t, const struct artifact_take *from)
{
	const struct session *s = hub_session_find(t->hub, &from->round);
	struct err e = {0};
	int rc = 0;

	t->state = TAKE_PAGING;
	t->id = from->round;
	t->how = (struct round_read){.stream = from->stream};
	t->patience_ns = clock_boot_ns() + PATIENCE_NS;
	id_format(&from->round, t->round);
	if (s && s->kind == SESSION_ROUND && s->state != SESSION_ENDED)
		rc = err_set(&e, ERR_BAD_STATE, "round %s runs: its output is taken once it has ended", t->round);
	if (s) {
		text_put(t->agent, sizeof(t->agent), s->agent->name);
		text_put(t->base, sizeof(t->base), s->snapshot_id);
	}
	if (!rc)
		rc = take_writer(t, &e);
	if (rc)
		take_fail(t, rc, &e);
	else
		page_ask(t);
}

void artifact_take(struct hub *h, const struct request *rq, const struct artifact_take *from, broker_json_done *done,
		   void *arg)
{
	struct taking *t = calloc(1, sizeof(*t));
	struct err e = {0};

	if (!t) {
		done(arg, err_set(&e, ERR_NOMEM, "no memory"), &e, NULL);
		return;
	}
	t->hub = h;
	t->rq = *rq;
	t->done = done;
	t->arg = arg;
	text_put(t->task, sizeof(t->task), from->task);
	text_put(t->name, sizeof(t->name), from->name);
	text_put(t->media_type, sizeof(t->media_type), from->media_type);
	text_put(t->round, sizeof(t->round), from->made_by);
	t->only_new = from->only_new;
	t->any_owner = rq->grant.task[0] || rq->grant.scopes & SCOPE_ADMIN;
	buf_init(&t->rest, ARTIFACT_PIECE);
	if (from->path)
		take_fetch(t, from);
	else
		take_pages(t, from);
}
