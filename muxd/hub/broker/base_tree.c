#define LOG_SUBSYS "export"
#include "muxd/hub/broker/base_tree.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/ring.h"
#include "base/text.h"
#include "control/life/life.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/broker/broker_shape.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/link/agent_link.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/session_state.h"

#include <stdlib.h>
#include <string.h>

#define FORK_TTL_NS (3600 * NS_PER_SEC) /* it sleeps behind that, whatever became of its reader */

enum base_state { BASE_FORKING, BASE_OPENING, BASE_READING, BASE_OVER };

struct base_tree {
	struct hub *hub;
	enum base_state state;
	struct request rq; /* the reader's, of the fork alone */
	char task[GRANT_NAME_MAX + 1];
	json_t *request;
	uint64_t timeout_ns;
	const struct base_tree_ops *ops; /* NULL: nobody reads any more */
	void *arg;
	struct attachment *a;
	struct id sandbox; /* of the fork: what is wiped meanwhile is made by nobody anew */
	bool made;         /* the fork, or some of it */
};

static void base_on_wiped(void *arg, int rc, const struct err *e, json_t *result)
{
	(void)arg, (void)result;
	if (rc && rc != ERR_NOT_FOUND && rc != ERR_CANCELLED)
		log_warn(NULL, "the fork that an export was read from stays until the next start: %s",
			 e ? e->message : err_name(rc));
}

static void base_free(struct base_tree *t)
{
	if (t->made && hub_life(t->hub))
		life_terminate(hub_life(t->hub), t->rq.grant.agent, "its tree was read", LIFE_END_WIPE, 0,
			       base_on_wiped, NULL);
	request_finish(&t->rq);
	json_decref(t->request);
	free(t);
}

static void base_fail(struct base_tree *t, int rc, const struct err *e)
{
	const struct base_tree_ops *ops = t->ops;

	t->state = BASE_OVER;
	t->ops = NULL;
	if (ops)
		ops->failed(t->arg, rc, e);
}

/* ---- the transfer */

static void base_on_readable(void *arg)
{
	struct base_tree *t = arg;

	if (t->ops)
		t->ops->ready(t->arg);
}

static void base_on_writable(void *arg)
{
	(void)arg; /* nothing is sent */
}

static void base_on_notice(void *arg, const char *text, bool over)
{
	(void)arg, (void)text, (void)over;
}

static void base_on_skipped(void *arg, int stream, uint64_t n)
{
	(void)arg, (void)stream, (void)n; /* a driver is not overtaken */
}

static void base_detach(struct base_tree *t)
{
	struct attachment *a = t->a;

	t->a = NULL;
	attachment_detach(a);
}

static void base_on_ended(void *arg, const struct session_result *r)
{
	struct base_tree *t = arg;
	struct err e = {0};

	base_detach(t);
	if (r->failed) {
		err_set(&e, r->failed, "the snapshot's tree: %s", r->message);
		base_fail(t, e.code, &e);
		return;
	}
	t->state = BASE_OVER;
	base_on_readable(t);
}

static void base_on_cut(void *arg, enum cut_cause cause, const char *text)
{
	struct base_tree *t = arg;
	struct err e = {0};

	base_detach(t);
	err_set(&e, cause == CUT_SHUTDOWN ? ERR_UNAVAILABLE : ERR_CUT, "%s", text);
	base_fail(t, e.code, &e);
}

static const struct attachment_ops ops = {.readable = base_on_readable,
					  .writable = base_on_writable,
					  .notice = base_on_notice,
					  .skipped = base_on_skipped,
					  .ended = base_on_ended,
					  .cut = base_on_cut};

static void base_on_open(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			 const struct id *seen)
{
	struct base_tree *t = arg;

	(void)s, (void)seen;
	t->a = rc ? NULL : a;
	t->state = BASE_READING;
	if (!t->ops) {
		base_detach(t);
		base_free(t);
	} else if (rc) {
		base_fail(t, rc, e);
	} else {
		t->ops->ready(t->arg);
	}
}

static void base_fetch(struct base_tree *t)
{
	const struct file_spec file = {
	    .op = FILE_TREE_GET, .path = ".", .request = t->request, .mode = -1, .size = UINT64_MAX};
	const struct exec_spec spec = {.kind = SESSION_FILE,
				       .agent = t->rq.grant.agent,
				       .task = t->task,
				       .file = &file,
				       .judged = true, /* with the export that it is for */
				       .only_in = &t->sandbox,
				       .timeout_ns = t->timeout_ns,
				       .head = UINT64_MAX,
				       .tail = UINT64_MAX};

	broker_open(t->hub, &t->rq, &spec, &ops, t, base_on_open, t);
}

static void base_on_linked(void *arg, int rc, const struct err *e)
{
	struct base_tree *t = arg;

	if (!rc && t->ops)
		base_fetch(t);
	else
		base_on_open(t, rc ? rc : ERR_CANCELLED, e, NULL, NULL, NULL);
}

/* ---- the fork */

static void base_link(struct base_tree *t, const char *sandbox)
{
	struct agent *a = agent_get(t->hub, t->rq.grant.agent);
	struct err e = {0};

	t->state = BASE_OPENING;
	if (!a || !sandbox || id_parse(sandbox, &t->sandbox)) {
		err_set(&e, a ? ERR_LINK_LOST : ERR_NOMEM, "the base cannot be read: %s",
			a ? "its sandbox has ended" : "no memory");
		base_on_open(t, e.code, &e, NULL, NULL, NULL);
		return;
	}
	agent_need(a, base_on_linked, t);
}

/* Neither is it told that there is such a snapshot of another agent. */
static int fork_failed(int rc, const struct err *e, struct err *out)
{
	if (rc != ERR_NOT_FOUND && rc != ERR_INVAL)
		return err_set(out, rc, "the base cannot be read: %s", e && e->message[0] ? e->message : err_name(rc));
	return err_set(out, ERR_BASE_UNKNOWN, "the agent has no such snapshot");
}

static void base_on_forked(void *arg, int rc, const struct err *e, json_t *result)
{
	struct base_tree *t = arg;
	struct err here = {0};

	t->made = rc != ERR_NOT_FOUND && rc != ERR_INVAL && rc != ERR_CANCELLED;
	if (!t->ops) {
		t->state = BASE_OVER;
		base_free(t);
	} else if (rc) {
		base_fail(t, fork_failed(rc, e, &here), &here);
	} else {
		base_link(t, json_string_value(json_object_get(result, "sandbox_id")));
	}
}

static int base_name(const char *agent, char out[AGENT_NAME_MAX + 1], struct err *e)
{
	struct id id;

	if (id_new(&id))
		return err_set(e, ERR_SYS, "no randomness");
	(void)agent_make_name(agent, AGENT_BASE, &id, out);
	return 0;
}

int base_tree_open(struct hub *h, const struct request *rq, const struct base_tree_from *from,
		   const struct base_tree_ops *base_ops, void *arg, struct base_tree **out, struct err *e)
{
	struct life_fork f = {.snapshot = from->snapshot,
			      .agent = from->agent,
			      .passing = true,
			      .options = {.idle_ttl_ns = UINT64_MAX, .ttl_ns = FORK_TTL_NS}};
	struct base_tree *t;
	char id[ID_STR_LEN];
	int rc = 0;

	if (!hub_life(h) || target_is_pod(from->agent))
		return err_set(e, ERR_UNSUPPORTED, "%s has no snapshots: name a revision of git as the base",
			       from->agent);
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(e, ERR_NOMEM, "no memory for a base");
	t->hub = h;
	t->rq = *rq;
	t->request = json_incref((json_t *)(uintptr_t)from->request);
	t->timeout_ns = from->timeout_ns;
	t->ops = base_ops;
	t->arg = arg;
	text_put(t->task, sizeof(t->task), from->task);
	rc = base_name(from->agent, t->rq.grant.agent, e);
	id_format(&from->snapshot, id);
	if (!rc)
		rc = broker_shape_copy(h, rq,
				       &(struct shape_ask){.op = POLICY_ARTIFACT_WRITE,
							   .agent = t->rq.grant.agent,
							   .task = t->task,
							   .of = from->agent,
							   .copies = true},
				       "artifacts", &f.options, e);
	if (!rc && audit_event(h, "sandbox.fork", rq, from->agent, "asked",
			       json_pack("{s:s,s:s,s:s,s:b}", "reason", "changes since it are exported", "snapshot_id",
					 id, "as", t->rq.grant.agent, "writable", 0)))
		rc = err_set(e, ERR_RECORD_UNAVAILABLE, "the record cannot be written: nothing is changed");
	if (rc) {
		request_finish(&t->rq);
		json_decref(t->request);
		free(t);
		return rc;
	}
	*out = t;
	f.as = t->rq.grant.agent;
	life_fork(hub_life(h), &f, 0, base_on_forked, t);
	return 0;
}

size_t base_tree_peek(struct base_tree *t, const uint8_t **out)
{
	return t->a ? attachment_peek(t->a, STREAM_OUTPUT, out) : 0;
}

void base_tree_consume(struct base_tree *t, size_t n)
{
	attachment_consume(t->a, STREAM_OUTPUT, n);
}

bool base_tree_is_open(const struct base_tree *t)
{
	return t->state >= BASE_READING;
}

bool base_tree_is_over(const struct base_tree *t)
{
	return t->state == BASE_OVER;
}

void base_tree_end(struct base_tree *t)
{
	if (!t)
		return;
	t->ops = NULL;
	if (t->state == BASE_FORKING || t->state == BASE_OPENING)
		return; /* the answer that is under way ends it */
	base_detach(t);
	base_free(t);
}
