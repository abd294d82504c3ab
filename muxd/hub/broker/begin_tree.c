#define LOG_SUBSYS "begin"
#include "muxd/hub/broker/begin_tree.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/ring.h"
#include "base/text.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/broker/broker_artifact.h"
#include "muxd/hub/broker/git_clone.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/link/agent_link.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/session_state.h"

#include <stdlib.h>
#include <string.h>

#define PASSING_TTL_NS (3600 * NS_PER_SEC) /* it sleeps behind that, whatever became of what it was made for */
#define SAID_MAX       4096                /* of what git says */

enum begin_state { BEGIN_MAKING, BEGIN_OPENING, BEGIN_FILLING, BEGIN_CLONING, BEGIN_COPYING, BEGIN_READY };

struct begin_waiter {
	TAILQ_ENTRY(begin_waiter) entry;
	uint64_t until_ns; /* 0: never */
	begin_tree_waited *done;
	void *arg;
};

struct begin_tree {
	TAILQ_ENTRY(begin_tree) entry;
	struct hub *hub; /* NULL: it has gone */
	enum begin_state state;
	struct request rq; /* the caller's, of the sandbox alone */
	char agent[AGENT_NAME_MAX + 1];
	struct workspace_from from;
	char text[WORKSPACE_TEXT_SZ], sha256[ARTIFACT_SHA256_SZ];
	struct artifact_reader *reader; /* NULL: an empty one, or all is there */
	uint64_t size, sent;
	bool fed; /* all of it, and its end */
	struct attachment *a;
	struct id sandbox; /* what is wiped meanwhile is made by nobody anew */
	bool made;         /* the sandbox, or some of it */
	struct buf said;
	uint64_t until_ns;
	TAILQ_HEAD(, begin_waiter) waiters;
	begin_tree_done *done;
	begin_tree_waited *late;
	void *arg;
};

struct begin_trees {
	TAILQ_HEAD(, begin_tree) all; /* agents' beginnings that are being made */
};

struct begin_trees *begin_trees_create(void)
{
	struct begin_trees *x = calloc(1, sizeof(*x));

	if (x)
		TAILQ_INIT(&x->all);
	return x;
}

void begin_trees_destroy(struct begin_trees *x)
{
	free(x);
}

bool begin_trees_rest(const struct hub *h)
{
	return TAILQ_EMPTY(&hub_begin_trees(h)->all);
}

static void begin_fill(struct begin_tree *t);
static void begin_clone(struct begin_tree *t);
static void begin_copy(struct begin_tree *t);

/* A caller who has more time than is configured gives it to the transfer. */
static uint64_t begin_time(const struct begin_tree *t)
{
	uint64_t now = clock_boot_ns(), most = hub_conf(t->hub)->file_timeout_ns;

	return t->until_ns > now + most ? t->until_ns - now : most;
}

/* ---- its end */

static void begin_detach(struct begin_tree *t)
{
	struct attachment *a = t->a;

	t->a = NULL;
	attachment_detach(a);
}

static void begin_on_wiped(void *arg, int rc, const struct err *e, json_t *result)
{
	(void)arg, (void)result;
	if (rc && rc != ERR_NOT_FOUND && rc != ERR_CANCELLED)
		log_warn(NULL, "the sandbox that a workspace was made in stays until the next start: %s",
			 e ? e->message : err_name(rc));
}

static void begin_free(struct begin_tree *t)
{
	request_finish(&t->rq);
	buf_finish(&t->said);
	free(t);
}

/* Each of them looks for itself what there is now. */
static void begin_answer_waiters(struct begin_tree *t, int rc, const struct err *e)
{
	struct begin_waiter *w;

	while ((w = TAILQ_FIRST(&t->waiters))) {
		TAILQ_REMOVE(&t->waiters, w, entry);
		w->done(w->arg, rc, e);
		free(w);
	}
}

void begin_tree_end(struct begin_tree *t)
{
	if (!t)
		return;
	begin_detach(t);
	artifact_reader_end(t->reader);
	if (t->hub) {
		TAILQ_REMOVE(&hub_begin_trees(t->hub)->all, t, entry);
		if (t->made && !hub_stopping(t->hub))
			life_terminate(hub_life(t->hub), t->rq.grant.agent, "its workspace was copied", LIFE_END_WIPE,
				       0, begin_on_wiped, NULL);
		begin_answer_waiters(t, 0, NULL);
	}
	begin_free(t);
}

static void begin_tell(struct begin_tree *t, int rc, const struct err *e)
{
	(void)audit_event(t->hub, "sandbox.begin", &t->rq, t->agent, rc ? err_name(rc) : "ok",
			  json_pack("{s:s,s:s,s:s,s:s*}", "workspace", t->text, "sha256", t->sha256, "as",
				    t->rq.grant.agent, "message", rc ? e->message : NULL));
}

/* Its caller is answered before others go on, who may make it anew. */
static void begin_fail(struct begin_tree *t, int rc, const struct err *e)
{
	struct err why = {0};
	char head[200];

	text_format(head, sizeof(head), "nothing was made, as %.120s does not become a workspace", t->text);
	err_again(&why, rc, e, head);
	if (t->hub && rc != ERR_CANCELLED)
		begin_tell(t, rc, &why);
	t->done(t->arg, rc, &why, NULL, NULL);
	begin_tree_end(t);
}

/* ---- the session that its bytes go into, and the one that clones */

static void begin_feed(struct begin_tree *t)
{
	const uint8_t *p = NULL;
	size_t n;

	while (t->a && t->reader && (n = artifact_reader_peek(t->reader, &p))) {
		ssize_t taken = attachment_input(t->a, p, n);

		if (taken <= 0) /* later; or it has ended, and says why */
			return;
		artifact_reader_consume(t->reader, (size_t)taken);
		t->sent += (uint64_t)taken;
	}
	if (!t->a || t->sent < t->size || t->fed)
		return;
	t->fed = true;
	artifact_reader_end(t->reader);
	t->reader = NULL;
	(void)attachment_input_eof(t->a);
}

static void begin_on_bytes(void *arg)
{
	struct begin_tree *t = arg;

	if (t->state == BEGIN_FILLING)
		begin_feed(t);
}

static void begin_on_no_bytes(void *arg, int rc, const struct err *e)
{
	struct begin_tree *t = arg;
	struct artifact_reader *r = t->reader;

	t->reader = NULL;
	artifact_reader_end(r);
	if (t->state == BEGIN_FILLING)
		begin_fail(t, rc, e);
	else
		t->sent = UINT64_MAX; /* what is under way fails by that: begin_on_open() */
}

static const struct artifact_reader_ops reader_ops = {.readable = begin_on_bytes, .failed = begin_on_no_bytes};

static void begin_on_writable(void *arg)
{
	begin_on_bytes(arg);
}

/* The answer of an operation on files comes at its end; the words of git are for its end as well. */
static void begin_on_readable(void *arg)
{
	static const int streams[] = {STREAM_OUTPUT, STREAM_STDERR};
	struct begin_tree *t = arg;
	const uint8_t *p = NULL;
	size_t n;

	if (t->state != BEGIN_CLONING)
		return;
	for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++)
		while (t->a && (n = attachment_peek(t->a, streams[i], &p))) {
			size_t room = SAID_MAX - buf_len(&t->said);

			(void)buf_append(&t->said, p, n < room ? n : room);
			attachment_consume(t->a, streams[i], n);
		}
}

static void begin_on_notice(void *arg, const char *text, bool over)
{
	(void)arg, (void)text, (void)over;
}

static void begin_on_skipped(void *arg, int stream, uint64_t n)
{
	(void)arg, (void)stream, (void)n; /* a driver is not overtaken */
}

static void begin_on_ended(void *arg, const struct session_result *r)
{
	struct begin_tree *t = arg;
	struct err e = {0};
	int rc = t->state == BEGIN_CLONING
		     ? git_clone_result(r, (const char *)buf_ptr(&t->said), buf_len(&t->said), t->from.ref, &e)
		 : r->failed ? err_set(&e, r->failed, "%s", r->message)
			     : 0;

	begin_detach(t);
	if (rc)
		begin_fail(t, rc, &e);
	else if (t->state == BEGIN_FILLING && t->from.form == WORKSPACE_BUNDLE)
		begin_clone(t);
	else
		begin_copy(t);
}

static void begin_on_cut(void *arg, enum cut_cause cause, const char *text)
{
	struct begin_tree *t = arg;
	struct err e = {0};

	begin_detach(t);
	err_set(&e, cause == CUT_SHUTDOWN ? ERR_UNAVAILABLE : ERR_CUT, "%s", text);
	begin_fail(t, e.code, &e);
}

static const struct attachment_ops ops = {.readable = begin_on_readable,
					  .writable = begin_on_writable,
					  .notice = begin_on_notice,
					  .skipped = begin_on_skipped,
					  .ended = begin_on_ended,
					  .cut = begin_on_cut};

static void begin_on_filling(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			     const struct id *seen)
{
	struct begin_tree *t = arg;
	struct err here = {0};

	(void)s, (void)seen;
	t->a = rc ? NULL : a;
	t->state = BEGIN_FILLING;
	if (!rc && t->sent == UINT64_MAX)
		rc = err_set(&here, ERR_CORRUPT, "the artifact cannot be read to its end"), e = &here;
	if (rc)
		begin_fail(t, rc, e);
	else
		begin_feed(t);
}

static void begin_on_cloning(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			     const struct id *seen)
{
	struct begin_tree *t = arg;
	struct err here = {0};

	(void)s, (void)seen;
	t->a = rc ? NULL : a;
	t->state = BEGIN_CLONING;
	if (rc)
		rc = git_export_refused(rc, e, &here);
	if (rc)
		begin_fail(t, rc, &here);
	else
		begin_on_readable(t);
}

/* Parts of the call that the grant was asked about: what goes in is the artifact, and nothing of the caller's. */
static struct exec_spec begin_spec(const struct begin_tree *t, enum session_kind kind)
{
	return (struct exec_spec){.kind = kind,
				  .agent = t->rq.grant.agent,
				  .task = t->from.task,
				  .judged = true,
				  .part = true,
				  .only_in = &t->sandbox,
				  .timeout_ns = begin_time(t),
				  .head = UINT64_MAX,
				  .tail = UINT64_MAX};
}

static void begin_fill(struct begin_tree *t)
{
	bool bundle = t->from.form == WORKSPACE_BUNDLE;
	json_t *merge = json_pack("{s:b}", "merge", 1);
	const struct file_spec file = {.op = bundle ? FILE_PUT : FILE_TREE_PUT,
				       .path = bundle ? GIT_CLONE_BUNDLE : ".",
				       .request = bundle ? NULL : merge,
				       .mode = -1,
				       .size = t->size};
	struct exec_spec spec = begin_spec(t, SESSION_FILE);
	struct err e = {0};

	spec.file = &file;
	spec.stdin_open = true;
	if (merge)
		broker_open(t->hub, &t->rq, &spec, &ops, t, begin_on_filling, t);
	else
		begin_fail(t, err_set(&e, ERR_NOMEM, "no memory"), &e);
	json_decref(merge); /* the broker has its own */
}

static void begin_clone(struct begin_tree *t)
{
	const struct conf *c = hub_conf(t->hub);
	const char *argv[GIT_CLONE_ARGV];
	struct exec_spec spec = begin_spec(t, SESSION_ROUND);

	t->state = BEGIN_OPENING;
	git_clone_argv(t->from.ref, argv);
	spec.argv = argv;
	if (spec.timeout_ns > c->round_timeout_max_ns)
		spec.timeout_ns = c->round_timeout_max_ns;
	spec.head = spec.tail = 0;
	broker_open(t->hub, &t->rq, &spec, &ops, t, begin_on_cloning, t);
}

/* ---- the snapshot */

static void begin_on_copied(void *arg, int rc, const struct err *e, json_t *result)
{
	struct begin_tree *t = arg;
	const char *id = json_string_value(json_object_get(json_object_get(result, "snapshot"), "id"));
	struct err here = {0};
	struct id snapshot;

	if (!rc && (!id || id_parse(id, &snapshot)))
		rc = err_set(&here, ERR_INTERNAL, "its snapshot has no id"), e = &here;
	if (!rc && !t->hub)
		rc = err_set(&here, ERR_CANCELLED, "the daemon is stopping"), e = &here;
	if (rc) {
		begin_fail(t, rc, e);
		return;
	}
	t->state = BEGIN_READY;
	begin_tell(t, 0, NULL);
	t->done(t->arg, 0, NULL, t, &snapshot);
}

static void begin_copy(struct begin_tree *t)
{
	t->state = BEGIN_COPYING;
	life_snapshot(hub_life(t->hub), t->rq.grant.agent, 0, begin_on_copied, t);
}

/* ---- the sandbox */

static void begin_on_linked(void *arg, int rc, const struct err *e)
{
	if (rc)
		begin_fail(arg, rc, e);
	else
		begin_fill(arg);
}

static void begin_on_made(void *arg, int rc, const struct err *e, json_t *result)
{
	struct begin_tree *t = arg;
	const char *sandbox = json_string_value(json_object_get(result, "sandbox_id"));
	struct agent *a = t->hub && !rc ? agent_get(t->hub, t->rq.grant.agent) : NULL;
	struct err here = {0};

	t->made = rc != ERR_CANCELLED && rc != ERR_UNSUPPORTED;
	if (!rc && !t->hub)
		rc = err_set(&here, ERR_CANCELLED, "the daemon is stopping"), e = &here;
	else if (!rc && !a)
		rc = err_set(&here, ERR_NOMEM, "no memory"), e = &here;
	else if (!rc && (!sandbox || id_parse(sandbox, &t->sandbox)))
		rc = err_set(&here, ERR_LINK_LOST, "the sandbox that it is made in has ended"), e = &here;
	if (rc) {
		begin_fail(t, rc, e);
		return;
	}
	t->state = BEGIN_OPENING;
	agent_need(a, begin_on_linked, t);
}

static int begin_name(struct begin_tree *t, struct err *e)
{
	struct id id;

	if (id_new(&id))
		return err_set(e, ERR_SYS, "no randomness");
	(void)agent_make_name(t->agent, AGENT_BEGIN, &id, t->rq.grant.agent);
	return 0;
}

/* The grant may be one that writes to some paths alone, or opens no rounds: what is done there is the call's. */
static void begin_widen(struct request *rq)
{
	rq->grant.scopes |= SCOPE_FILES | SCOPE_ROUNDS;
	rq->grant.files = (struct grant_files){0};
}

static int begin_prepare(struct begin_tree *t, const struct begin_tree_of *of, struct err *e)
{
	int rc = begin_name(t, e);

	begin_widen(&t->rq);
	if (!rc && t->size)
		rc = artifact_read(hub_artifacts(t->hub), of->row, 0, t->size, &reader_ops, t, &t->reader, e);
	if (!rc &&
	    audit_event(t->hub, "sandbox.begin", &t->rq, t->agent, "asked",
			json_pack("{s:s,s:s,s:s}", "workspace", t->text, "sha256", t->sha256, "as", t->rq.grant.agent)))
		rc = err_set(e, ERR_RECORD_UNAVAILABLE, "the record cannot be written: nothing is changed");
	return rc;
}

int begin_tree_open(struct hub *h, const struct request *rq, const struct begin_tree_of *of, begin_tree_done *done,
		    begin_tree_waited *late, void *arg, struct err *e)
{
	struct life_fork f = {.passing = true, .writable = true, .empty = true, .options = *of->options};
	struct begin_tree *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return err_set(e, ERR_NOMEM, "no memory");
	t->hub = h;
	t->rq = *rq;
	t->from = *of->from;
	t->until_ns = of->until_ns;
	t->size = (uint64_t)json_integer_value(json_object_get(of->row, "size"));
	t->done = done;
	t->late = late;
	t->arg = arg;
	TAILQ_INIT(&t->waiters);
	buf_init(&t->said, SAID_MAX);
	text_put(t->agent, sizeof(t->agent), of->agent);
	text_put(t->sha256, sizeof(t->sha256), json_get_text(of->row, "sha256"));
	(void)workspace_from_text(&t->from, t->text);
	rc = begin_prepare(t, of, e);
	if (rc) {
		artifact_reader_end(t->reader);
		begin_free(t);
		return rc;
	}
	TAILQ_INSERT_TAIL(&hub_begin_trees(h)->all, t, entry);
	f.as = t->rq.grant.agent;
	f.options.idle_ttl_ns = 0; /* never */
	f.options.ttl_ns = PASSING_TTL_NS;
	life_fork(hub_life(h), &f, 0, begin_on_made, t);
	return 0;
}

/* ---- others that are to begin with the same name */

int begin_tree_wait(struct hub *h, const char *agent, uint64_t until_ns, begin_tree_waited *done, void *arg,
		    struct err *e)
{
	struct begin_waiter *w;
	struct begin_tree *t;

	TAILQ_FOREACH(t, &hub_begin_trees(h)->all, entry)
	if (strcmp(t->agent, agent) == 0)
		break;
	if (!t)
		return 0;
	w = malloc(sizeof(*w));
	if (!w)
		return err_set(e, ERR_NOMEM, "no memory");
	*w = (struct begin_waiter){.until_ns = until_ns, .done = done, .arg = arg};
	TAILQ_INSERT_TAIL(&t->waiters, w, entry);
	hub_stir(h);
	return BEGIN_WAITS;
}

static int begin_late(const struct begin_tree *t, struct err *e)
{
	return err_set(e, ERR_SANDBOX_TIMEOUT,
		       "%s is not there yet: what it begins with is being made, and that goes on: ask again", t->agent);
}

static struct begin_waiter *begin_late_waiter(struct begin_tree *t, uint64_t now)
{
	struct begin_waiter *w;

	TAILQ_FOREACH(w, &t->waiters, entry)
	if (w->until_ns && now >= w->until_ns)
		return w;
	return NULL;
}

/* One who is told may end or begin anything: then it is looked anew. */
static bool begin_tell_late(struct begin_tree *t, uint64_t now)
{
	struct begin_waiter *w = begin_late_waiter(t, now);
	struct err e = {0};

	if (t->until_ns && now >= t->until_ns) {
		t->until_ns = 0;
		t->late(t->arg, begin_late(t, &e), &e);
	} else if (w) {
		TAILQ_REMOVE(&t->waiters, w, entry);
		w->done(w->arg, begin_late(t, &e), &e);
		free(w);
	} else {
		return false;
	}
	return true;
}

void begin_trees_tick(struct hub *h, uint64_t now)
{
	struct begin_tree *t = TAILQ_FIRST(&hub_begin_trees(h)->all);

	while (t)
		t = begin_tell_late(t, now) ? TAILQ_FIRST(&hub_begin_trees(h)->all) : TAILQ_NEXT(t, entry);
}

void begin_trees_leave(struct hub *h)
{
	struct begin_tree *t;
	struct err e = {0};

	err_set(&e, ERR_CANCELLED, "the daemon is stopping");
	while ((t = TAILQ_FIRST(&hub_begin_trees(h)->all))) {
		TAILQ_REMOVE(&hub_begin_trees(h)->all, t, entry);
		t->hub = NULL;
		begin_answer_waiters(t, e.code, &e);
	}
}
