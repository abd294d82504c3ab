/*
 * Staff by a token of the cluster: reviewed there, then the monitor signs a grant.
 *
 * A job: REVIEWING -> ISSUING -> done. Its end may come after the hub's, with
 * ERR_CANCELLED: then the hub is not touched.
 */
#define LOG_SUBSYS "broker"
#include "muxd/base/err.h"
#include "muxd/hub/broker.h"
#include "muxd/hub/internal.h"
#include "policy/reason.h"

#include <stdlib.h>
#include <string.h>

#define WHAT        "token of the cluster"
#define REVIEWS_MAX 64 /* a stranger's token costs the API server a question */

struct cluster_job {
	struct hub *hub;
	const char *door;
	char peer[64];
	struct grant grant; /* as wanted, then as given */
	uint64_t ttl_ns;
	broker_grant_done *done;
	void *arg;
};

static void end(struct cluster_job *job, int rc, const struct err *e, const char *token)
{
	struct request rq;

	broker_origin(&rq, job->door, job->peer);
	if (rc == 0) {
		rq.grant = job->grant;
		snprintf(rq.token, sizeof(rq.token), "%s", token);
		job->hub->stats.auth_ok++;
	} else if (rc != ERR_CANCELLED) {
		broker_audit_refused(job->hub, job->door, job->peer, WHAT, e);
	}
	job->done(job->arg, rc, e, rc ? NULL : &rq);
	request_finish(&rq);
	free(job);
}

static void on_issued(void *arg, int rc, const struct err *e, const char *token, const struct grant *g)
{
	struct cluster_job *job = arg;

	if (rc == 0)
		job->grant = *g;
	end(job, rc, e, token);
}

static void on_reviewed(void *arg, int rc, const struct err *e, const char *principal)
{
	struct cluster_job *job = arg;
	struct err own = {0};

	if (rc != ERR_CANCELLED)
		job->hub->reviews--;
	/* Kubernetes allows more characters in a name than the record's listings do */
	if (rc == 0 && (rc = token_name_check("the cluster's name for you", principal, &own)))
		e = &own;
	if (rc) {
		end(job, rc, e, NULL);
		return;
	}
	snprintf(job->grant.principal, sizeof(job->grant.principal), "%s", principal);
	job->hub->p.issuer.issue(job->hub->p.issuer.ctx, &job->grant, job->ttl_ns, "cluster", on_issued, job);
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
static int check_wish(struct hub *h, const struct staff_wish *w, struct cluster_job *job, struct err *e)
{
	const struct conf *c = h->conf;
	uint64_t ttl = w->ttl_ns ? w->ttl_ns : c->grant_ttl_ns;
	int rc;

	if (!c->kubernetes_staff || !h->p.reviewer.review)
		return err_set(e, ERR_UNSUPPORTED, "%s",
			       c->kubernetes_staff ? "this daemon has no cluster to ask: kubernetes.kubeconfig"
						   : "tokens of a cluster open no grants here: kubernetes.staff");
	if ((rc = reason_check(w->reason, e)) || (rc = target_name_check(w->agent, e)) ||
	    (w->task && *w->task && (rc = token_name_check("task_id", w->task, e))) ||
	    (rc = wanted_scopes(c, w, &job->grant.scopes, e)))
		return rc;
	if (h->reviews >= REVIEWS_MAX)
		return err_set(e, ERR_AGAIN, "%d tokens are being reviewed already", REVIEWS_MAX);
	job->ttl_ns = ttl < c->kubernetes_staff_ttl_ns ? ttl : c->kubernetes_staff_ttl_ns;
	job->grant.kind = GRANT_STAFF;
	snprintf(job->grant.agent, sizeof(job->grant.agent), "%s", w->agent);
	snprintf(job->grant.task, sizeof(job->grant.task), "%s", w->task && *w->task ? w->task : "console");
	snprintf(job->grant.reason, sizeof(job->grant.reason), "%s", w->reason);
	return 0;
}

void broker_issue_cluster(struct hub *h, const struct staff_wish *w, const char *door, const char *peer,
			  broker_grant_done *done, void *arg)
{
	struct cluster_job *job = calloc(1, sizeof(*job));
	struct err e = {0};
	int rc = job ? check_wish(h, w, job, &e) : err_set(&e, ERR_NOMEM, "no memory");

	if (rc) {
		if (rc != ERR_UNSUPPORTED)
			broker_audit_refused(h, door, peer, WHAT, &e);
		free(job);
		done(arg, rc, &e, NULL);
		return;
	}
	job->hub = h;
	job->door = door;
	snprintf(job->peer, sizeof(job->peer), "%s", peer);
	job->done = done;
	job->arg = arg;
	h->reviews++;
	h->p.reviewer.review(h->p.reviewer.ctx, w->token, h->conf->kubernetes_staff_audience, w->agent, on_reviewed,
			     job);
}
