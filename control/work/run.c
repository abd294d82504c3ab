/*
 * A run in memory: its token, which is here, on the link and in the sandbox's memfd and nowhere else, and what is
 * counted when it is over.
 */
#define LOG_SUBSYS "run"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "control/work/state.h"

#include <stdlib.h>
#include <string.h>

void run_forget_secret(struct run *r)
{
	if (r->token)
		explicit_bzero(r->token, r->token_len);
	free(r->token);
	r->token = NULL;
	r->token_len = 0;
}

void run_forget_token(struct run *r)
{
	run_forget_secret(r);
	if (r->auth)
		r->w->host.release(r->w->host.ctx, r->auth);
	r->auth = NULL;
}

void run_free(struct run *r)
{
	TAILQ_REMOVE(&r->w->runs, r, entry);
	run_forget_token(r);
	json_decref(r->definition);
	json_decref(r->results);
	json_decref(r->artifacts);
	free(r);
}

static struct log_ids ids_of(const struct run *r)
{
	const struct work_ids *i = work_ids_of(r->w, r->sandbox);

	return (struct log_ids){.request = r->row.call,
				.agent = r->sandbox,
				.lease = r->row.lease,
				.run = r->row.run,
				.client_request = i ? i->request : NULL};
}

void run_over(struct run *r, const char *state, const char *reason)
{
	struct work *w = r->w;
	struct log_ids ids = ids_of(r);
	uint64_t took = clock_boot_ns() - r->begun;

	for (unsigned i = 0; i < WORK_REASONS; i++)
		w->n.runs_failed[i] += strcmp(reason, work_reason_name(i)) == 0;
	w->n.runs_succeeded += strcmp(state, "SUCCEEDED") == 0;
	w->n.runs_live--;
	w->n.run_duration_ns += took;
	count_time(w->n.run_buckets, work_run_bucket_ms, took);
	log_info(&ids, "%s%s%s", state, *reason ? ": " : "", reason);
	r->over = true;
	run_forget_token(r);
	if (!r->out)
		run_free(r);
}
