/*
 * Grants that the monitor signs for staff: by public key at once, by a token of the cluster after a review there.
 *
 * A job: (REVIEWING ->) ISSUING -> done. Its end may come after the hub's, with
 * ERR_CANCELLED: then the hub is not touched.
 */
#define LOG_SUBSYS "broker"
#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/broker/broker_state.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/session/attachment_state.h"
#include "policy/reason.h"

#include <stdlib.h>
#include <string.h>

#define REVIEWS_MAX 64 /* a stranger's token costs the API server a question */

struct issue_job {
	struct hub *hub;
	struct request rq; /* where he comes from; no grant */
	const char *what;  /* he came with: in the audit log when it does not serve */
	const char *via;
	struct grant grant; /* as wanted, then as given */
	uint64_t ttl_ns;
	broker_grant_done *done;
	void *arg;
};

static struct origin job_origin(const struct issue_job *job)
{
	return (struct origin){.door = job->rq.door, .peer = job->rq.peer, .endpoint = job->rq.endpoint};
}

static void broker_issue_job_end(struct issue_job *job, int rc, const struct err *e, const char *token)
{
	struct request *rq = &job->rq;

	if (rc == 0) {
		rq->grant = job->grant;
		text_put(rq->token, sizeof(rq->token), token);
		hub_counters(job->hub)->auth_ok++;
	} else if (rc != ERR_CANCELLED) {
		struct origin from = job_origin(job);

		broker_audit_refused(job->hub, &from, job->what, NULL, e);
	}
	job->done(job->arg, rc, e, rc ? NULL : rq);
	request_finish(rq);
	free(job);
}

static void broker_issue_on_issued(void *arg, int rc, const struct err *e, const char *token, const struct grant *g)
{
	struct issue_job *job = arg;

	if (rc == 0)
		job->grant = *g;
	broker_issue_job_end(job, rc, e, token);
}

static void job_issue(struct issue_job *job)
{
	const struct hub_issuer *i = &hub_params(job->hub)->issuer;

	i->issue(i->ctx, &job->grant, job->ttl_ns, job->via, broker_issue_on_issued, job);
}

/* A job whose checks gave rc; what is refused ends here, and NULL comes back. job NULL: no memory for it. */
static struct issue_job *job_begin(struct hub *h, struct issue_job *job, int rc, const struct err *e,
				   const struct origin *from, broker_grant_done *done, void *arg)
{
	struct err none = {0};

	if (!job)
		rc = err_set(&none, ERR_NOMEM, "no memory"), e = &none;
	if (rc) {
		if (job && rc != ERR_UNSUPPORTED)
			broker_audit_refused(h, from, job->what, NULL, e);
		free(job);
		done(arg, rc, e, NULL);
		return NULL;
	}
	job->hub = h;
	request_begin(&job->rq, from);
	job->done = done;
	job->arg = arg;
	return job;
}

/* ---- staff by public key */

static const struct conf_staff *find_staff(const struct conf *c, const char *principal)
{
	for (size_t i = 0; i < c->nstaff; i++)
		if (strcmp(c->staff[i].principal, principal) == 0)
			return &c->staff[i];
	return NULL;
}

static int staff_grant(struct hub *h, const char *principal, const char *agent, const char *reason, struct grant *out,
		       uint64_t *out_ttl, struct err *e)
{
	const struct conf_staff *staff = find_staff(hub_conf(h), principal);
	bool listed = false;
	int rc;

	if (!staff)
		return err_set(e, ERR_FORBIDDEN, "no such person of staff in the configuration");
	for (size_t i = 0; i < staff->nagents; i++)
		listed = listed || grant_covers(staff->agents[i], agent);
	if (!listed)
		return err_set(e, ERR_FORBIDDEN, "%s may not enter %s", principal, agent);
	if (strlen(reason) > GRANT_REASON_MAX)
		return err_set(e, ERR_TOO_LARGE, "reason too long (max %d bytes)", GRANT_REASON_MAX);
	memset(out, 0, sizeof(*out));
	out->kind = GRANT_STAFF;
	rc = grant_scopes_parse(staff->scopes && staff->scopes[0] ? staff->scopes : "terminal,rounds,observe,drive",
				&out->scopes, e);
	text_put(out->principal, sizeof(out->principal), principal);
	text_put(out->agent, sizeof(out->agent), agent);
	snprintf(out->task, sizeof(out->task), "console");
	text_put(out->reason, sizeof(out->reason), reason);
	*out_ttl = staff->ttl_ns ? staff->ttl_ns : hub_conf(h)->grant_ttl_ns;
	return rc;
}

void broker_issue_staff(struct hub *h, const char *principal, const char *agent, const char *reason,
			const struct origin *from, broker_grant_done *done, void *arg)
{
	struct issue_job *job = calloc(1, sizeof(*job));
	struct err e = {0};
	int rc = 0;

	if (job) {
		job->what = "public key";
		job->via = "ssh-key";
		rc = staff_grant(h, principal, agent, reason, &job->grant, &job->ttl_ns, &e);
	}
	job = job_begin(h, job, rc, &e, from, done, arg);
	if (job)
		job_issue(job);
}

/* ---- staff by a token of the cluster */

static void broker_issue_on_reviewed(void *arg, int rc, const struct err *e, const char *principal)
{
	struct issue_job *job = arg;
	struct err own = {0};

	if (rc != ERR_CANCELLED)
		hub_broker(job->hub)->reviews--;
	/* Kubernetes allows more characters in a name than the record's listings do */
	if (rc == 0 && (rc = token_name_check("the cluster's name for you", principal, &own)))
		e = &own;
	if (rc) {
		broker_issue_job_end(job, rc, e, NULL);
		return;
	}
	text_put(job->grant.principal, sizeof(job->grant.principal), principal);
	job_issue(job);
}

static int wanted_scopes(const struct conf *c, const struct staff_wish *w, uint32_t *out, struct err *e)
{
	uint32_t allowed = 0;
	char text[128];
	int rc = grant_scopes_parse(c->kubernetes_staff_scopes, &allowed, e);

	if (rc)
		return rc;
	if (w->scopes & ~allowed) {
		grant_scopes_format(w->scopes & ~allowed, text, sizeof(text));
		return err_set(e, ERR_FORBIDDEN, "a token of the cluster gives no scope %s (kubernetes.staff_scopes)",
			       text);
	}
	*out = w->scopes ? w->scopes : allowed;
	return 0;
}

/* Everything that can be said without the cluster. */
static int check_wish(struct hub *h, const struct staff_wish *w, struct issue_job *job, struct err *e)
{
	const struct conf *c = hub_conf(h);
	uint64_t ttl = w->ttl_ns ? w->ttl_ns : c->grant_ttl_ns;
	int rc;

	if (!c->kubernetes_staff || !hub_params(h)->reviewer.review)
		return err_set(e, ERR_UNSUPPORTED, "%s",
			       c->kubernetes_staff ? "this daemon has no cluster to ask: kubernetes.kubeconfig"
						   : "tokens of a cluster open no grants here: kubernetes.staff");
	if ((rc = reason_check(w->reason, e)) || (rc = target_name_check(w->agent, e)) ||
	    (w->task && *w->task && (rc = token_name_check("task_id", w->task, e))) ||
	    (rc = wanted_scopes(c, w, &job->grant.scopes, e)))
		return rc;
	if (hub_broker(h)->reviews >= REVIEWS_MAX)
		return err_set(e, ERR_AGAIN, "%d tokens are being reviewed already", REVIEWS_MAX);
	job->ttl_ns = ttl < c->kubernetes_staff_ttl_ns ? ttl : c->kubernetes_staff_ttl_ns;
	job->grant.kind = GRANT_STAFF;
	job->grant.files = w->files;
	text_put(job->grant.agent, sizeof(job->grant.agent), w->agent);
	text_put(job->grant.task, sizeof(job->grant.task), w->task && *w->task ? w->task : "console");
	text_put(job->grant.reason, sizeof(job->grant.reason), w->reason);
	return 0;
}

void broker_issue_cluster(struct hub *h, const struct staff_wish *w, const struct origin *from, broker_grant_done *done,
			  void *arg)
{
	struct issue_job *job = calloc(1, sizeof(*job));
	struct err e = {0};
	int rc = 0;

	if (job) {
		job->what = "token of the cluster";
		job->via = "cluster";
		rc = check_wish(h, w, job, &e);
	}
	job = job_begin(h, job, rc, &e, from, done, arg);
	if (!job)
		return;
	hub_broker(h)->reviews++;
	hub_params(h)->reviewer.review(hub_params(h)->reviewer.ctx, w->token, hub_conf(h)->kubernetes_staff_audience,
				       w->agent, broker_issue_on_reviewed, job);
}
