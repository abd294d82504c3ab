#define LOG_SUBSYS "artifact"
#include "muxd/hub/broker/artifact_take.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/ring.h"
#include "base/text.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/broker/base_tree.h"
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/broker/git_export.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/core/later.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/file_limits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_NS (60 * NS_PER_SEC) /* what is kept of a round may be behind its end, on a machine that is busy */

#define SAID_MAX 4096 /* of what git says beside the export */

enum take_state { TAKE_COMPARING, TAKE_FETCHING, TAKE_PAGING, TAKE_STORING };

struct taking {
	struct hub *hub;
	struct request rq;
	enum take_state state;
	char task[GRANT_NAME_MAX + 1], name[ARTIFACT_NAME_MAX + 1], agent[AGENT_NAME_MAX + 1];
	char media_type[ARTIFACT_TYPE_MAX + 1], round[ID_STR_LEN];
	char base[ARTIFACT_BASE_MAX + 1];
	bool only_new, any_owner;
	struct artifact_writer *w;           /* NULL: not begun, or over */
	struct attachment *a;                /* of the transfer */
	uint64_t size_max, size, timeout_ns; /* size_max 0: none of its own */
	struct base_tree *tree;              /* of the snapshot; NULL: none, or over */
	bool fed;                            /* all of it */
	struct err lost;                     /* why it was, while its comparison was being opened */
	json_t *request;                     /* COMPARING: what muxlet is asked */
	char revision[GIT_REVISION_MAX + 1]; /* of git; "": no export by git */
	struct buf said;                     /* by git, beside its output */
	struct id id;                        /* PAGING: the round */
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
	base_tree_end(t->tree);
	json_decref(t->request);
	buf_finish(&t->said);
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
				     .any_owner = t->any_owner,
				     .apart = share_stands_apart(&t->rq.grant)};

	rc = call ? artifact_write(hub_artifacts(t->hub), &spec, &writer_ops, t, &t->w, e)
		  : err_set(e, ERR_NOMEM, "no memory for an event");
	json_decref(call);
	return rc;
}

/* ---- a file of a sandbox */

/* As the writer does, within the caller's own limit. */
static ssize_t artifact_take_bytes(struct taking *t, const uint8_t *p, size_t n, struct err *e)
{
	ssize_t taken;

	if (t->size_max && n > t->size_max - t->size)
		return err_set(e, ERR_TOO_LARGE, "it has more than the %" PRIu64 " bytes of max_bytes", t->size_max);
	taken = artifact_writer_take(t->w, p, n, e);
	t->size += taken > 0 ? (uint64_t)taken : 0;
	return taken;
}

/* The words of git are for its end; more than is kept of them is passed over. */
static void fetch_said(struct taking *t)
{
	const uint8_t *p = NULL;
	size_t n;

	while (t->revision[0] && (n = attachment_peek(t->a, STREAM_STDERR, &p))) {
		size_t room = SAID_MAX - buf_len(&t->said);

		(void)buf_append(&t->said, p, n < room ? n : room);
		attachment_consume(t->a, STREAM_STDERR, n);
	}
}

/* Moves on the bytes that are there, as far as the writer has room. False: it failed, and t is gone. */
static bool fetch_pump(struct taking *t)
{
	const uint8_t *p = NULL;
	struct err e = {0};
	size_t n;

	if (t->a)
		fetch_said(t);
	while (t->a && (n = attachment_peek(t->a, STREAM_OUTPUT, &p))) {
		ssize_t taken = artifact_take_bytes(t, p, n, &e);

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

/* The base on its way to who compares it; its end is the end of that input. */
static void feed_base(struct taking *t)
{
	const uint8_t *p = NULL;
	size_t n;

	while (t->tree && t->a && (n = base_tree_peek(t->tree, &p))) {
		ssize_t taken = attachment_input(t->a, p, n);

		if (taken <= 0) /* later; or it has ended, and says why */
			return;
		base_tree_consume(t->tree, (size_t)taken);
	}
	if (!t->tree || !t->a || !base_tree_is_over(t->tree) || t->fed)
		return;
	t->fed = true;
	(void)attachment_input_eof(t->a);
}

static void take_on_writable(void *arg)
{
	feed_base(arg);
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
	int rc = r->failed ? session_result_failed(r, &e) : 0;

	if (t->revision[0])
		rc = git_export_result(r, (const char *)buf_ptr(&t->said), buf_len(&t->said), t->revision, t->base,
				       sizeof(t->base), &e);
	if (rc) {
		take_fail(t, rc, &e);
		return;
	}
	if (t->revision[0])
		artifact_writer_base(t->w, t->base);
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
	if (!rc && t->lost.code) {
		attachment_detach(a);
		rc = t->lost.code, e = &t->lost;
	}
	if (!rc) {
		t->a = a;
		text_put(t->agent, sizeof(t->agent), s->agent->name);
		if (!t->base[0])
			text_put(t->base, sizeof(t->base), s->snapshot_id);
		if (t->revision[0])
			text_put(t->round, sizeof(t->round), s->id_text);
		rc = take_writer(t, &here), e = &here;
	} else if (t->revision[0]) {
		rc = git_export_refused(rc, e, &here), e = &here;
	}
	if (rc) {
		take_fail(t, rc, e);
		return;
	}
	feed_base(t);
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
				       .part = from->made_by, /* its round's */
				       .head = UINT64_MAX,
				       .tail = UINT64_MAX};

	t->state = TAKE_FETCHING;
	broker_open(t->hub, &t->rq, &spec, &fetch_ops, t, take_on_open, t);
}

/* ---- changes since a snapshot: the base comes first, and is then compared where the workspace is */

/* Never in a patch: the repository's own files, and what hosts keep credentials in. */
static const char *const never[] = {".git", ".netrc", ".git-credentials"};

static void compare_begin(struct taking *t)
{
	const struct file_spec file = {
	    .op = FILE_CHANGES, .path = ".", .request = t->request, .mode = -1, .size = UINT64_MAX};
	const struct exec_spec spec = {.kind = SESSION_FILE,
				       .agent = t->agent,
				       .task = t->task,
				       .file = &file,
				       .stdin_open = true,
				       .timeout_ns = t->timeout_ns,
				       .head = UINT64_MAX,
				       .tail = UINT64_MAX};

	t->state = TAKE_FETCHING;
	broker_open(t->hub, &t->rq, &spec, &fetch_ops, t, take_on_open, t);
}

static void take_on_base(void *arg)
{
	struct taking *t = arg;

	if (t->state == TAKE_COMPARING)
		compare_begin(t);
	else
		feed_base(t);
}

/* Before its comparison was opened there is nobody else who could answer. */
static void take_on_no_base(void *arg, int rc, const struct err *e)
{
	struct taking *t = arg;
	struct base_tree *tree = t->tree;

	t->tree = NULL;
	base_tree_end(tree);
	if (t->state == TAKE_COMPARING || t->a)
		take_fail(t, rc, e);
	else
		t->lost = *e; /* its comparison is being opened */
}

static const struct base_tree_ops base_ops = {.ready = take_on_base, .failed = take_on_no_base};

/* The same rules on both sides; ours are the last, which decide. */
static json_t *ignore_rules(const json_t *more)
{
	json_t *list = more ? json_copy((json_t *)(uintptr_t)more) : json_array();

	for (size_t i = 0; list && i < sizeof(never) / sizeof(never[0]); i++)
		json_array_append_new(list, json_string(never[i]));
	return list;
}

static void take_changes(struct taking *t, const struct artifact_take *from)
{
	const struct artifact_changes *c = from->changes;
	json_t *tree = json_pack("{s:o}", "ignore", ignore_rules(c->ignore));
	struct base_tree_from base = {.agent = from->agent,
				      .task = t->task,
				      .snapshot = c->snapshot,
				      .request = tree,
				      .timeout_ns = from->timeout_ns};
	struct policy_mark part = {0};
	struct err e = {0};
	int rc;

	t->state = TAKE_COMPARING;
	t->request = json_pack("{s:o, s:b}", "ignore", ignore_rules(c->ignore), "text_only", c->text_only);
	id_format(&c->snapshot, t->base);
	rc = tree && t->request ? broker_reach(t->hub, &t->rq, from->agent, SCOPE_FILES, "changes", &e)
				: err_set(&e, ERR_NOMEM, "no memory for an export");
	if (!rc && file_limits_check(&t->rq.grant.files, &(struct file_spec){.op = FILE_CHANGES, .path = "."}, &e))
		rc = broker_refused(t->hub, &t->rq, from->agent, "changes", &e);
	if (!rc)
		rc = broker_policy_file(t->hub, &t->rq, from->agent, t->task,
					&(struct file_spec){.op = FILE_CHANGES, .path = "."}, "changes", &part, &e);
	policy_mark_join(&t->rq.policy, &part);
	if (!rc)
		rc = base_tree_open(t->hub, &t->rq, &base, &base_ops, t, &t->tree, &e);
	json_decref(tree);
	if (rc)
		take_fail(t, rc, &e);
}

/* ---- changes since a revision of git */

static void take_git(struct taking *t, const struct artifact_take *from)
{
	const struct conf *c = hub_conf(t->hub);
	const char *argv[GIT_EXPORT_ARGV];
	const uint64_t usual =
	    c->file_timeout_ns < c->round_timeout_max_ns ? c->file_timeout_ns : c->round_timeout_max_ns;
	const struct exec_spec spec = {.kind = SESSION_ROUND,
				       .agent = from->agent,
				       .task = t->task,
				       .argv = argv,
				       .timeout_ns = from->timeout_ns ? from->timeout_ns : usual,
				       .head = 0,
				       .tail = 0};

	t->state = TAKE_FETCHING;
	text_put(t->revision, sizeof(t->revision), from->changes->revision);
	git_export_argv(t->revision, from->changes->path, from->changes->bundle, argv);
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
		ssize_t n = artifact_take_bytes(t, buf_ptr(&t->rest), buf_len(&t->rest), &e);

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
	} else if (hub_later(t->hub, take_on_later, t)) {
		err_set(&e, ERR_NOMEM, "no memory");
		take_fail(t, e.code, &e);
	}
}

/* Where bytes are missing: up to here. What is kept may end before the round did. */
static uint64_t page_lacks(const struct taking *t, const struct round_page *page)
{
	const struct session *s = hub_session_find(t->hub, &t->id);
	uint64_t total = s && s->state == SESSION_ENDED ? s->result->total[t->how.stream] : 0;

	if (page->offset > t->how.offset)
		return page->offset;
	if (total < page->total)
		total = page->total;
	return page->eof && page->offset + page->n < total ? total : 0;
}

static void take_on_page(void *arg, int rc, const struct err *e, const struct round_page *page)
{
	struct taking *t = arg;
	struct err here = {0};
	uint64_t lacks;

	if (!rc && page->behind) {
		page_wait(t);
		return;
	}
	if (!rc && !page->ended)
		rc = err_set(&here, ERR_BAD_STATE, "round %s runs: its output is taken once it has ended", t->round),
		e = &here;
	lacks = rc ? 0 : page_lacks(t, page);
	if (lacks)
		rc =
		    err_set(&here, ERR_CORRUPT,
			    "the output of round %s is not there whole: bytes %" PRIu64 "-%" PRIu64
			    " are not kept (rounds.output_keep, rounds.output_keep_stream)",
			    t->round, page->offset > t->how.offset ? t->how.offset : page->offset + page->n, lacks - 1),
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
	t->any_owner = grant_has_task(&rq->grant) || rq->grant.scopes & SCOPE_ADMIN;
	t->size_max = from->size_max;
	t->timeout_ns = from->timeout_ns;
	buf_init(&t->rest, ARTIFACT_PIECE);
	buf_init(&t->said, SAID_MAX);
	if (from->changes)
		text_put(t->agent, sizeof(t->agent), from->agent);
	if (from->changes && from->changes->revision)
		take_git(t, from);
	else if (from->changes)
		take_changes(t, from);
	else if (from->path)
		take_fetch(t, from);
	else
		take_pages(t, from);
}
