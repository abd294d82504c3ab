#include "muxd/monitor/sandboxes.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct job {
	struct job *next;
	enum sandbox_job what;
	char agent[AGENT_NAME_MAX + 1];
	sandbox_answered *done;
	void *arg;
	struct sandbox_answer answer;
};

struct sandboxes {
	uv_loop_t *loop;
	uv_work_t work;
	struct local *local; /* touched by the worker while `running`, by nobody else then */
	struct job *first, **last;
	struct job *running;
	size_t n;
};

static void job_free(struct job *j)
{
	if (j->answer.fd >= 0)
		close(j->answer.fd);
	OPENSSL_cleanse(&j->answer.info, sizeof j->answer.info);
	if (j->answer.list)
		OPENSSL_cleanse(j->answer.list, j->answer.n * sizeof *j->answer.list);
	free(j->answer.list);
	free(j);
}

static int run(struct local *l, struct job *j)
{
	struct sandbox_answer *a = &j->answer;

	switch (j->what) {
	case JOB_ENSURE:
		return local_ensure(l, j->agent, &a->info, &a->fd, &a->err);
	case JOB_CONNECT:
		return local_connect(l, j->agent, &a->info, &a->fd, &a->err);
	case JOB_STAT:
		return local_stat(l, j->agent, &a->info, &a->err);
	case JOB_DESTROY:
	case JOB_WIPE:
		return local_destroy_sandbox(l, j->agent, j->what == JOB_WIPE, &a->err);
	case JOB_LIST:
		return local_list(l, &a->list, &a->n, &a->err);
	case JOB_DESTROY_ALL:
		return local_destroy_all(l, &a->err);
	}
	return err_set(&a->err, ERR_INTERNAL, "unknown sandbox job");
}

/* This machine has no sandboxes: nothing to list, nothing to end. */
static int run_without(struct job *j)
{
	if (j->what == JOB_LIST || j->what == JOB_DESTROY_ALL)
		return 0;
	return err_set(&j->answer.err, ERR_UNSUPPORTED,
		       "this machine could not run sandboxes when the daemon started, with sandbox.backend kubernetes");
}

static void on_work(uv_work_t *w)
{
	struct sandboxes *s = w->data;

	s->running->answer.rc = s->local ? run(s->local, s->running) : run_without(s->running);
}

static void on_done(uv_work_t *w, int status);

static void next(struct sandboxes *s)
{
	struct job *j = s->first;

	if (s->running || !j)
		return;
	s->first = j->next;
	if (!s->first)
		s->last = &s->first;
	s->running = j;
	uv_queue_work(s->loop, &s->work, on_work, on_done);
}

static void on_done(uv_work_t *w, int status)
{
	struct sandboxes *s = w->data;
	struct job *j = s->running;

	if (status)
		j->answer.rc = err_set(&j->answer.err, ERR_CANCELLED, "the daemon is ending");
	s->running = NULL;
	s->n--;
	next(s); /* before the callback, which may take its time */
	j->done(j->arg, &j->answer);
	job_free(j);
}

int sandboxes_create(uv_loop_t *loop, struct local *local, struct sandboxes **out)
{
	struct sandboxes *s = calloc(1, sizeof *s);

	if (!s)
		return ERR_NOMEM;
	s->loop = loop;
	s->local = local;
	s->last = &s->first;
	s->work.data = s;
	*out = s;
	return 0;
}

void sandboxes_destroy(struct sandboxes *s)
{
	if (!s)
		return;
	local_destroy(s->local);
	free(s);
}

int sandboxes_ask(struct sandboxes *s, enum sandbox_job what, const char *agent, sandbox_answered *done, void *arg)
{
	struct job *j;

	if (s->n >= SANDBOX_JOBS_MAX)
		return ERR_LIMIT;
	j = calloc(1, sizeof *j);
	if (!j)
		return ERR_NOMEM;
	j->what = what;
	j->done = done;
	j->arg = arg;
	j->answer.fd = -1;
	if (agent)
		snprintf(j->agent, sizeof j->agent, "%s", agent);
	*s->last = j;
	s->last = &j->next;
	s->n++;
	next(s);
	return 0;
}

bool sandboxes_idle(const struct sandboxes *s)
{
	return s->n == 0;
}

json_t *sandbox_info_json(const struct sandbox_info *i, bool with_secret)
{
	char id[ID_STR_LEN];
	char *secret = NULL;
	json_t *o;

	id_format(&i->sandbox_id, id);
	o = json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:b, s:b, s:b, s:b, s:s}", "agent", i->agent,
		      "sandbox_id", id, "state", sandbox_state_name(i->state), "detail", i->detail, "pid", (int)i->pid,
		      "created_wall_ns", (json_int_t)i->created_wall_ns, "epoch", (json_int_t)i->epoch, "oom_kills",
		      (json_int_t)i->oom_kills, "cap_enforced", i->cap_enforced, "memory_enforced", i->memory_enforced,
		      "pids_enforced", i->pids_enforced, "cpu_enforced", i->cpu_enforced, "snapshot_id",
		      i->snapshot_id);
	if (!o || !with_secret)
		return o;
	secret = base64_encode(i->secret, sizeof i->secret, true);
	if (!secret || json_object_set_new(o, "secret", json_string(secret))) {
		json_decref(o);
		o = NULL;
	}
	if (secret)
		OPENSSL_cleanse(secret, strlen(secret));
	free(secret);
	return o;
}
