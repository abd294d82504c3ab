#include "muxd/net/reviewer.h"

#include "base/err.h"
#include "base/text.h"
#include "control/kube/pods/review.h"
#include "control/kube/pods/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

struct question {
	TAILQ_ENTRY(question) entry;
	struct reviewer *of;
	struct kube_review *review;
	hub_review_done *done;
	void *arg;
};

struct reviewer {
	struct kube *kube;
	char *ns;
	bool agents_in_cluster;
	enum kube_hold hold;
	TAILQ_HEAD(, question) questions;
};

static void reviewer_on_reviewed(void *arg, int rc, const struct err *e, const char *username)
{
	struct question *q = arg;

	TAILQ_REMOVE(&q->of->questions, q, entry);
	q->done(q->arg, rc, e, username);
	free(q);
}

/* The pod of an agent need not be there yet: who may exec into it is said by its name. */
static int find_pod(const struct reviewer *v, const char *agent, struct target *t, struct err *e)
{
	int rc = target_parse(agent, t, e);

	if (rc || *t->pod)
		return rc;
	if (!v->agents_in_cluster)
		return err_set(e, ERR_FORBIDDEN, "%s is no pod: who may enter it is not for the cluster to say", agent);
	text_put(t->ns, sizeof(t->ns), v->ns);
	return kube_pod_name(v->hold, t->agent, t->pod, e);
}

static int reviewer_ask(struct reviewer *v, const char *token, const char *audience, const char *agent,
			struct question *q, struct err *e)
{
	struct target t;
	int rc = find_pod(v, agent, &t, e);
	const struct kube_review_wish w = {.token = token, .audience = audience, .ns = t.ns, .pod = t.pod};

	return rc ? rc : kube_review_start(v->kube, &w, reviewer_on_reviewed, q, &q->review, e);
}

static void review(void *ctx, const char *token, const char *audience, const char *agent, hub_review_done *done,
		   void *arg)
{
	struct question *q = calloc(1, sizeof(*q));
	struct reviewer *v = ctx;
	struct err e = {0};
	int rc = ERR_NOMEM;

	if (q) {
		*q = (struct question){.of = v, .done = done, .arg = arg};
		rc = reviewer_ask(v, token, audience, agent, q, &e);
	} else {
		err_set(&e, rc, "no memory for a review");
	}
	if (rc) {
		free(q);
		done(arg, rc, &e, NULL);
		return;
	}
	TAILQ_INSERT_TAIL(&v->questions, q, entry);
}

int reviewer_create(struct kube *k, const char *ns, bool agents_in_cluster, enum kube_hold hold, struct reviewer **out)
{
	struct reviewer *v = calloc(1, sizeof(*v));

	if (!v)
		return ERR_NOMEM;
	v->ns = strdup(ns);
	if (!v->ns) {
		free(v);
		return ERR_NOMEM;
	}
	v->kube = k;
	v->agents_in_cluster = agents_in_cluster;
	v->hold = hold;
	TAILQ_INIT(&v->questions);
	*out = v;
	return 0;
}

void reviewer_destroy(struct reviewer *v)
{
	struct question *q;

	if (!v)
		return;
	while ((q = TAILQ_FIRST(&v->questions)))
		kube_review_cancel(q->review);
	free(v->ns);
	free(v);
}

struct hub_reviewer reviewer_for_hub(struct reviewer *v)
{
	return (struct hub_reviewer){.review = v ? review : NULL, .ctx = v};
}
