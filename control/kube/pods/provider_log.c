/* The log of a pod's container: its end, as the API server has it. */
#define LOG_SUBSYS "kube"
#include "base/buf.h"
#include "base/text.h"
#include "control/kube/pods/provider_state.h"

#include <stdlib.h>

#define TAIL_LINES  10000
#define PASSING_MAX (64u << 20) /* so much of a log is read for its end, and no more */

struct log_job {
	struct kube_call *call;
	struct buf tail;
	size_t max, passed;
	bool cut;
	sandbox_done *done;
	void *arg;
	char name[AGENT_NAME_MAX + 1];
};

/* limitBytes of Kubernetes cuts the end off, so the end is kept here. */
static void provider_log_on_data(void *arg, const uint8_t *p, size_t n)
{
	struct log_job *j = arg;

	if (j->cut || !n)
		return;
	j->passed += n;
	if (n > j->max)
		p += n - j->max, n = j->max;
	if (buf_len(&j->tail) + n > j->max)
		buf_consume(&j->tail, buf_len(&j->tail) + n - j->max);
	if (buf_append(&j->tail, p, n))
		buf_clear(&j->tail);
	if (j->passed > PASSING_MAX) {
		j->cut = true;
		kube_cancel(j->call);
	}
}

static void provider_log_on_done(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct log_job *j = arg;
	struct err here = {0};

	(void)reply;
	if (rc == ERR_CANCELLED && j->cut)
		rc = 0;
	if (rc == ERR_NOT_FOUND)
		err_set(&here, rc, "%.192s has no pod now, and a cluster keeps the log no longer than that", j->name),
		    e = &here;
	j->done(
	    j->arg,
	    &(struct sandbox_answer){
		.rc = rc, .e = rc ? e : NULL, .text = buf_ptr(&j->tail), .n = rc ? 0 : buf_len(&j->tail), .fd = -1});
	buf_finish(&j->tail);
	free(j);
}

void kp_log(struct kp *kp, const struct sandbox_ask *q, sandbox_done *done, void *arg)
{
	const char *agent = q->agent;
	struct log_job *j = calloc(1, sizeof(*j));
	char ns[AGENT_NAME_MAX + 1], pod[AGENT_NAME_MAX + 1];
	struct kube_log_options o = {.tail_lines = TAIL_LINES, .data = provider_log_on_data};
	struct kube_ref ref;
	struct target t;
	struct err e = {0};
	bool ours;
	int rc = j ? kp_locate(kp, agent, &t, ns, pod, &ours, &e) : err_set(&e, ERR_NOMEM, "no memory for a log");

	if (!rc && ours && kname_find(kp, agent))
		text_put(pod, sizeof(pod), kname_find(kp, agent)->pod);
	if (!rc && kp->stopping)
		rc = err_set(&e, ERR_CANCELLED, "the daemon is stopping");
	if (!rc) {
		j->max = q->max;
		j->done = done;
		j->arg = arg;
		text_put(j->name, sizeof(j->name), agent);
		buf_init(&j->tail, q->max);
		o.container = t.container[0] ? t.container : NULL;
		ref = kp_pods(ns, pod);
		rc = kube_logs(kp->p.kube, &ref, &o, provider_log_on_done, j, &j->call, &e);
	}
	if (rc) {
		free(j);
		sandbox_answer(done, arg, rc, &e, NULL, -1);
	}
}
