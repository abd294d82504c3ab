/* A run from the call that begins it: the steps of a stored workflow, a round each, in the sandbox of a lease. */
#define LOG_SUBSYS "run"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "control/artifacts/artifact_wish.h"
#include "control/store/store.h"
#include "control/work/state.h"
#include "control/work/workflow.h"

#include <stdlib.h>
#include <string.h>

/* A round that neither ends nor is told lost: the run does not wait for it longer than this past its time. */
#define OVERDUE_NS (60 * NS_PER_SEC)
/* Of one transfer of an artifact. */
#define TAKE_LEAST_NS (30 * NS_PER_SEC)
#define TAKE_MOST_NS  (600 * NS_PER_SEC)

/* A token in the request's own text: jansson frees without wiping. */
static void wipe_text(json_t *body)
{
	json_t *v = json_object_get(body, "token");

	if (json_is_string(v))
		explicit_bzero((char *)(uintptr_t)json_string_value(v), json_string_length(v));
}

/* The run, its lease and its sandbox end in one transaction; what came of the run is in its row. Asked again where that
 * could not be stored. */
static void store_end(struct run *r)
{
	char cause[64];
	struct lease_end end = {.state = "RELEASED", .cause = cause};
	struct lease *l = lease_find(r->w, r->row.lease);

	text_format(cause, sizeof(cause), "its run %s",
		    strcmp(r->row.state, "SUCCEEDED") == 0 ? "succeeded" : "failed");
	if (l && !l->ending && clock_boot_ns() >= l->retry_at)
		lease_end(r->w, l, &end);
}

static void run_steps_finish(struct run *r, const char *state, const char *reason, const char *message)
{
	if (r->ending || r->over)
		return;
	r->ending = true;
	text_put(r->row.state, sizeof(r->row.state), state);
	text_put(r->row.reason, sizeof(r->row.reason), reason ? reason : "");
	text_put(r->row.message, sizeof(r->row.message), message ? message : "");
	run_forget_token(r);
	store_end(r);
}

/* ---- steps */

static void next_step(struct run *r);

static void store_progress(struct run *r);

static json_t *stream_json(const struct work_stream *s)
{
	return json_pack("{s:I,s:s?}", "bytes", (json_int_t)s->bytes, "sha256", *s->sha256 ? s->sha256 : NULL);
}

/* The output of a step is read by its round's id, as any round's. */
static json_t *result_json(const struct workflow_step *s, const struct work_result *x, const char *refused)
{
	json_t *o = json_pack(
	    "{s:s?,s:s?,s:s,s:o,s:o,s:I}", "name", *s->name ? s->name : NULL, "roundId", *x->round ? x->round : NULL,
	    "cause", x->cause, "code", x->code >= 0 ? json_integer(x->code) : json_null(), "signal",
	    x->signal ? json_integer(x->signal) : json_null(), "durationMs", (json_int_t)(x->duration_ns / NS_PER_MS));

	if (o && *x->round) {
		json_object_set_new(o, "stdout", stream_json(&x->out));
		json_object_set_new(o, "stderr", stream_json(&x->err));
	}
	if (o && (*x->message || refused))
		json_object_set_new(o, "message", json_string(refused ? refused : x->message));
	return o;
}

static const char *reason_of(const struct work_result *x)
{
	return strcmp(x->cause, "timeout") == 0                                    ? "timeout"
	       : strcmp(x->cause, "lost") == 0 || strcmp(x->cause, "unknown") == 0 ? "lost"
										   : "error";
}

/* Goes on after the last step's end, once its artifacts are taken. */
static void run_steps_judge(struct run *r)
{
	const struct work_result *x = &r->last;
	struct workflow_step s;
	char message[200];
	int rc = r->last_rc;

	workflow_step(r->definition, r->step - 1, &s);
	if (!rc && ((strcmp(x->cause, "exit") == 0 && (x->code == 0 || s.go_on)) ||
		    (strcmp(x->cause, "timeout") == 0 && s.go_on && clock_boot_ns() < r->deadline))) {
		store_progress(r);
		next_step(r);
		return;
	}
	if (rc)
		text_format(message, sizeof(message), "step %zu: %.170s", r->step, r->last_e.message);
	else if (x->code >= 0 && strcmp(x->cause, "exit") == 0)
		snprintf(message, sizeof(message), "step %zu ended with code %d", r->step, x->code);
	else
		text_format(message, sizeof(message), "step %zu: %s%s%.140s", r->step, x->cause,
			    *x->message ? ": " : "", x->message);
	run_steps_finish(r, "FAILED", rc ? "error" : reason_of(x), message);
}

/* The run has gone on without it, or the daemon is about to. */
static bool run_steps_left(struct run *r)
{
	r->out = false;
	if (r->w->stopped)
		return true;
	if (r->over) {
		run_free(r);
		return true;
	}
	return r->ending;
}

static void take_next(struct run *r);

static void run_steps_on_taken(void *arg, int rc, const struct err *e, const json_t *row)
{
	struct artifact_wish wish;
	struct workflow_step s;
	struct run *r = arg;
	json_t *o;

	if (run_steps_left(r))
		return;
	workflow_step(r->definition, r->step - 1, &s);
	artifact_wish_read(s.artifacts, r->taking, &wish);
	o = rc ? artifact_wish_failed(wish.name, rc, e ? e->message : NULL) : artifact_wish_kept(wish.name, row);
	if (o) {
		json_object_set_new(o, "step", json_integer((json_int_t)r->step));
		json_object_set_new(o, "roundId", json_string(r->last.round));
	}
	json_array_append_new(r->artifacts, o);
	r->taking++;
	take_next(r);
}

/* Transfers have what is left of the run's time, and half a minute where that is little: a step that timed out has a
 * log. */
static uint64_t take_time(const struct run *r)
{
	uint64_t now = clock_boot_ns(), left = now < r->deadline ? r->deadline - now : 0;

	return left < TAKE_LEAST_NS ? TAKE_LEAST_NS : left > TAKE_MOST_NS ? TAKE_MOST_NS : left;
}

/* The step's artifacts one after the other, while its sandbox is still the run's. */
static void take_next(struct run *r)
{
	struct artifact_wish wish;
	struct workflow_step s;
	struct work_take t = {.sandbox = r->sandbox,
			      .lease = r->row.lease,
			      .run = r->row.run,
			      .round = r->last.round,
			      .sandbox_id = r->last.sandbox_id};

	workflow_step(r->definition, r->step - 1, &s);
	if (!*r->last.round || r->taking >= json_array_size(s.artifacts)) {
		run_steps_judge(r);
		return;
	}
	artifact_wish_read(s.artifacts, r->taking, &wish);
	t.name = wish.name;
	t.path = wish.path;
	t.is_stderr = wish.stream && strcmp(wish.stream, "stderr") == 0;
	t.timeout_ns = take_time(r);
	r->out = true;
	r->w->host.take(r->w->host.ctx, r->auth, &t, run_steps_on_taken, r);
}

static void run_steps_on_step(void *arg, int rc, const struct err *e, const struct work_result *x)
{
	static const struct work_result none = {.cause = "not_started", .code = -1};
	struct workflow_step s;
	struct run *r = arg;

	if (run_steps_left(r))
		return;
	workflow_step(r->definition, r->step, &s);
	r->last = rc ? none : *x;
	r->last_rc = rc;
	r->last_e = (struct err){0};
	if (rc)
		err_again(&r->last_e, rc, e, NULL);
	json_array_append_new(r->results, result_json(&s, &r->last, rc ? r->last_e.message : NULL));
	r->step++;
	r->taking = 0;
	take_next(r);
}

struct words {
	const char **argv;
	char **env;
};

static void words_finish(struct words *v)
{
	for (char **p = v->env; p && *p; p++)
		free(*p);
	free(v->env);
	free(v->argv);
}

static int words_make(const struct workflow_step *s, struct words *out)
{
	size_t i, n = 0;
	const char *key;
	json_t *v;

	out->argv = calloc(json_array_size(s->argv) + 1, sizeof(*out->argv));
	out->env = calloc(json_object_size(s->env) + 1, sizeof(*out->env));
	if (!out->argv || !out->env)
		return ERR_NOMEM;
	json_array_foreach((json_t *)(uintptr_t)s->argv, i, v) out->argv[i] = json_string_value(v);
	json_object_foreach((json_t *)(uintptr_t)s->env, key, v)
	{
		if (asprintf(&out->env[n], "%s=%s", key, json_string_value(v)) < 0) {
			out->env[n] = NULL;
			return ERR_NOMEM;
		}
		n++;
	}
	return 0;
}

static void start_step(struct run *r, const struct workflow_step *s, const struct words *v, uint64_t left)
{
	struct work_exec x = {.sandbox = r->sandbox,
			      .run = r->row.run,
			      .argv = s->source ? workflow_runner(s->language)
				      : s->argv ? v->argv
						: NULL,
			      .command = s->shell,
			      .env = (const char *const *)v->env,
			      .cwd = s->cwd,
			      .input = s->source,
			      .input_len = s->source ? strlen(s->source) : 0,
			      .token = r->token,
			      .token_len = r->token_len,
			      .timeout_ns = left};

	bool last = r->step + 1 == workflow_steps(r->definition);

	if (s->timeout_s && s->timeout_s * NS_PER_SEC < left)
		x.timeout_ns = s->timeout_s * NS_PER_SEC;
	r->out = true;
	r->w->host.exec(r->w->host.ctx, r->auth, &x, run_steps_on_step, r);
	if (last)
		run_forget_secret(r);
}

static void next_step(struct run *r)
{
	uint64_t now = clock_boot_ns();
	struct workflow_step s;
	struct words v = {0};

	if (r->step == workflow_steps(r->definition)) {
		run_steps_finish(r, "SUCCEEDED", NULL, NULL);
		return;
	}
	if (now >= r->deadline) {
		run_steps_finish(r, "FAILED", "timeout", "the run timed out between two steps");
		return;
	}
	workflow_step(r->definition, r->step, &s);
	if (words_make(&s, &v))
		run_steps_finish(r, "FAILED", "error", "no memory for a step");
	else
		start_step(r, &s, &v, r->deadline - now);
	words_finish(&v);
}

struct progress {
	struct job j;
	char id[ID_STR_LEN], sandbox[WORK_SANDBOX_MAX];
	char *steps, *artifacts;
};

static int progress_in_db(struct sqlite3 *db, struct job *j, struct err *e)
{
	struct progress *k = (struct progress *)j;

	return db_run_steps(db, k->id, k->steps, k->artifacts, e);
}

static void drop_progress(struct job *j)
{
	free(((struct progress *)j)->steps);
	free(((struct progress *)j)->artifacts);
}

static void run_steps_on_progress(struct job *j, int rc, const struct err *e)
{
	if (rc)
		log_warn(&(struct log_ids){.agent = ((struct progress *)j)->sandbox},
			 "the progress of a run was not stored: %s", e ? e->message : err_name(rc));
}

static void store_progress(struct run *r)
{
	struct progress *k = job_create(r->w, sizeof(*k), NULL, NULL);

	if (!k)
		return;
	k->j.drop = drop_progress;
	memcpy(k->id, r->row.id, sizeof(k->id));
	memcpy(k->sandbox, r->sandbox, sizeof(k->sandbox));
	k->steps = json_dumps(r->results, JSON_COMPACT);
	k->artifacts = json_dumps(r->artifacts, JSON_COMPACT);
	job_write(&k->j, progress_in_db, run_steps_on_progress);
}

/* What does not come to its end by itself. */
void runs_tick(struct work *w, uint64_t now)
{
	struct run *r, *next;

	for (r = TAILQ_FIRST(&w->runs); r; r = next) {
		next = TAILQ_NEXT(r, entry);
		if (!r->over && !r->ending && now > r->deadline + OVERDUE_NS)
			run_steps_finish(r, "FAILED", "timeout", "the run timed out, and its round did not end");
		else if (r->ending && !r->over) /* its end could not be stored, or is being */
			store_end(r);
	}
}

/* ---- the beginning */

struct run_job {
	struct job j;
	struct run *run; /* until it begins */
};

static int insert_in_db(struct sqlite3 *db, struct job *j, struct err *e)
{
	return db_run_insert(db, &((struct run_job *)j)->run->row, e);
}

static void run_steps_on_inserted(struct job *j, int rc, const struct err *e)
{
	struct run_job *k = (struct run_job *)j;
	struct run *r = k->run;
	struct lease *l = lease_find(j->w, r->row.lease);
	struct pool_entry *p;
	struct err here = {0};

	k->run = NULL;
	if (!rc && !l) /* ended in the same moment, and its run in the store with it */
		rc = err_set(&here, ERR_BAD_STATE, "the lease has ended"), e = &here;
	if (rc) {
		if (l && l->run == r)
			l->run = NULL;
		job_answer(j, rc, e, NULL);
		run_free(r);
		return;
	}
	r->begun = clock_boot_ns();
	r->deadline = r->begun + (uint64_t)r->row.timeout_s * NS_PER_SEC;
	j->w->n.runs_live++;
	memcpy(l->row.run, r->row.run, sizeof(l->row.run));
	if ((p = pool_find(j->w, l->row.sandbox)) != NULL)
		memcpy(p->ids.run, r->row.run, sizeof(p->ids.run));
	job_answer(j, 0, NULL, json_pack("{s:b}", "accepted", 1));
	next_step(r);
}

static void drop_run_job(struct job *j)
{
	struct run_job *k = (struct run_job *)j;

	if (k->run)
		run_free(k->run);
}

struct start {
	const struct work_caller *caller;
	struct run_body body;
	struct lease_row lease;
	struct run_row first;
	struct workflow_row workflow;
	bool lease_found, seen;
};

static int start_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	struct start *s = arg;
	int rc = db_lease_get(db, s->body.lease, &s->lease, &s->lease_found, e);

	if (!rc && !s->lease_found)
		rc = err_set(e, ERR_NOT_FOUND, "there is no lease %s", s->body.lease);
	if (!rc)
		rc = may_touch(s->caller, s->lease.principal, "lease", s->body.lease, e);
	if (!rc)
		rc = db_run_by_key(db, s->body.lease, s->body.run, &s->first, &s->seen, e);
	return rc || s->seen ? rc : workflow_find(db, s->caller, s->body.workflow, &s->workflow, e);
}

static int check_seen(const struct start *s, struct err *e)
{
	if (s->first.asked_timeout_s == s->body.asked_timeout_s && strcmp(s->lease.workflow, s->body.workflow) == 0)
		return 0;
	return err_set(e, ERR_CONFLICT, "runId %.64s was used with another body: run %s of lease %s", s->body.run,
		       s->first.run, s->first.lease);
}

static int check_lease(const struct work *w, const struct start *s, struct err *e)
{
	const struct lease *l = lease_find(w, s->body.lease);

	if (strcmp(s->lease.workflow, s->body.workflow) != 0)
		return err_set(e, ERR_INVAL, "workflowId is %.64s, and the lease is for %.64s", s->body.workflow,
			       s->lease.workflow);
	if (!l || l->ending || strcmp(s->lease.state, "ACTIVE") != 0)
		return err_set(e, ERR_BAD_STATE, "the lease is %s: it has to be ACTIVE",
			       strcmp(s->lease.state, "ACTIVE") == 0 ? "about to end" : s->lease.state);
	if (l->run)
		return err_set(e, ERR_BAD_STATE, "the lease has its run: %s. A sandbox serves one", l->run->row.run);
	return 0;
}

/*
 * Nobody asks for longer than his grant lasts. A run that names no time has its usual one: the end of its grant, which
 * may be renewed meanwhile, ends the step under way, and no other begins behind it.
 */
static int find_timeout(const struct work *w, const struct start *s, const json_t *definition, int64_t *out,
			struct err *e)
{
	int64_t left = (s->caller->expires_ns - now_wall(w)) / (int64_t)NS_PER_SEC;
	int64_t hint = (int64_t)workflow_timeout_s(definition), wanted = s->body.asked_timeout_s;

	if (wanted > left)
		return err_set(e, ERR_FORBIDDEN,
			       "timeoutSeconds is %lld, and the grant ends in %lld s: ask with a longer one",
			       (long long)wanted, (long long)left);
	if (!wanted)
		wanted = hint ? hint : w->conf.limits.run_timeout_s;
	*out = wanted;
	return left > 0 ? 0 : err_set(e, ERR_TOKEN_EXPIRED, "the grant is about to end");
}

static void fill_row(struct run_row *row, const struct start *s)
{
	struct id id;

	(void)id_new(&id);
	id_format(&id, row->id);
	memcpy(row->lease, s->body.lease, sizeof(row->lease));
	memcpy(row->run, s->body.run, sizeof(row->run));
	text_put(row->call, sizeof(row->call), s->caller->request);
	text_put(row->principal, sizeof(row->principal), s->caller->principal);
	memcpy(row->user, s->lease.user, sizeof(row->user));
	text_put(row->workflow, sizeof(row->workflow), s->workflow.name);
	row->version = s->workflow.version;
	row->asked_timeout_s = s->body.asked_timeout_s;
}

static int run_make(struct work *w, const struct start *s, struct run **out, struct err *e)
{
	struct run *r = calloc(1, sizeof(*r));
	int rc = 0;

	if (!r)
		return err_set(e, ERR_NOMEM, "no memory for a run");
	r->w = w;
	TAILQ_INSERT_TAIL(&w->runs, r, entry);
	r->deadline = UINT64_MAX / 2; /* until it begins */
	fill_row(&r->row, s);
	r->row.created_ns = now_wall(w);
	memcpy(r->sandbox, s->lease.sandbox, sizeof(r->sandbox));
	r->results = json_array();
	r->artifacts = json_array();
	r->definition = json_loads(s->workflow.body, 0, NULL);
	r->token = malloc(s->body.token_len);
	if (!r->definition)
		rc = err_set(e, ERR_CORRUPT, "the stored definition of %s cannot be read", s->workflow.name);
	else if (!r->token || !r->results || !r->artifacts)
		rc = err_set(e, ERR_NOMEM, "no memory for a run");
	else
		rc = find_timeout(w, s, r->definition, &r->row.timeout_s, e);
	if (rc) {
		run_free(r);
		return rc;
	}
	memcpy(r->token, s->body.token, s->body.token_len);
	r->token_len = s->body.token_len;
	*out = r;
	return 0;
}

/* Output is read from the record, in the caller's name. */
static bool takes_output(const struct run *r)
{
	struct artifact_wish wish;
	struct workflow_step s;

	for (size_t i = 0; i < workflow_steps(r->definition); i++) {
		workflow_step(r->definition, i, &s);
		for (size_t k = 0; k < json_array_size(s.artifacts); k++) {
			artifact_wish_read(s.artifacts, k, &wish);
			if (wish.stream)
				return true;
		}
	}
	return false;
}

static void run_steps_begin(struct work *w, const struct start *s, work_done *done, void *arg)
{
	struct run_job *k;
	struct run *r = NULL;
	struct err e = {0};
	int rc = run_make(w, s, &r, &e);

	if (rc) {
		answer(done, arg, rc, &e, NULL);
		return;
	}
	if (!(k = job_create(w, sizeof(*k), done, arg))) {
		run_free(r);
		return;
	}
	k->run = r;
	k->j.drop = drop_run_job;
	lease_find(w, s->body.lease)->run = r;
	r->auth = s->caller->auth;
	*s->caller->auth_taken = true;
	if (!takes_output(r))
		w->host.reads_nothing(w->host.ctx, r->auth);
	job_write(&k->j, insert_in_db, run_steps_on_inserted);
}

/* The same run asked for again while the first call is still being written: it hears what becomes of that. */
struct again {
	struct job j;
	struct run_body body;
	struct run_row first;
	bool seen;
};

static int again_in_db(struct sqlite3 *db, struct job *j, struct err *e)
{
	struct again *k = (struct again *)j;

	return db_run_by_key(db, k->body.lease, k->body.run, &k->first, &k->seen, e);
}

static void run_steps_on_again(struct job *j, int rc, const struct err *e)
{
	struct err here = {0};

	if (!rc && !((struct again *)j)->seen)
		rc = err_set(&here, ERR_UNAVAILABLE, "the run was not begun: ask again"), e = &here;
	job_answer(j, rc, e, rc ? NULL : json_pack("{s:b}", "accepted", 1));
}

static bool being_begun(const struct work *w, const struct start *s)
{
	const struct lease *l = lease_find(w, s->body.lease);

	return !s->seen && l && l->run && strcmp(l->run->row.run, s->body.run) == 0;
}

static void begin_again(struct work *w, const struct start *s, work_done *done, void *arg)
{
	struct again *k = job_create(w, sizeof(*k), done, arg);

	if (!k)
		return;
	k->body = s->body;
	k->body.token = NULL; /* the caller's */
	job_write(&k->j, again_in_db, run_steps_on_again);
}

void run_start(struct work *w, const struct work_caller *c, json_t *body, work_done *done, void *arg)
{
	struct start s = {.caller = c};
	struct err e = {0};
	int rc = run_body(body, &w->conf.limits, &s.body, &e);
	bool again;

	if (!rc)
		rc = store_read(w->store, start_in_db, &s, &e);
	again = !rc && being_begun(w, &s);
	if (again)
		s.first = lease_find(w, s.body.lease)->run->row;
	if (!rc)
		rc = s.seen || again ? check_seen(&s, &e) : check_lease(w, &s, &e);
	if (rc)
		answer(done, arg, rc, &e, NULL);
	else if (again)
		begin_again(w, &s, done, arg);
	else if (s.seen)
		answer(done, arg, 0, NULL, json_pack("{s:b}", "accepted", 1));
	else
		run_steps_begin(w, &s, done, arg);
	wipe_text(body);
	free(s.workflow.body);
}
