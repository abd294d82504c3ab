/*
 * An execution as it stands: its round, and what the lines of it say (executions.h). Lines that memory does not hold
 * are read from the record, a page at a time.
 */
#define LOG_SUBSYS "broker"
#include "base/buf.h"
#include "base/err.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/broker/broker_context.h"
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/broker/executions.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/session/session_state.h"

#include <stdlib.h>
#include <string.h>

#define NO_EXECUTION "execution not found, or your grant is for another agent"

struct execution_job {
	struct hub *hub;
	struct request rq;
	struct id round;
	struct context_use use;
	json_t *told; /* the round */
	struct buf lines;
	broker_json_done *done;
	void *arg;
};

static void execution_end(struct execution_job *j, int rc, const struct err *e, json_t *answer)
{
	struct err here = {0};

	if (!rc && !answer)
		rc = err_set(&here, ERR_NOMEM, "no memory for the answer"), e = &here;
	j->done(j->arg, rc, rc ? e : NULL, rc ? NULL : answer);
	json_decref(answer);
	json_decref(j->told);
	buf_finish(&j->lines);
	request_finish(&j->rq);
	free(j);
}

/* Of a shell's command what it printed is its round's, and there is no more. */
static json_t *shell_answer(const json_t *round)
{
	return json_pack("{s:O?,s:O?,s:[],s:n,s:n,s:n,s:n,s:i}", "stdout", json_object_get(round, "stdout"), "stderr",
			 json_object_get(round, "stderr"), "results", "error", "execution_count", "cause", "message",
			 "lines_left_out", 0);
}

/* An end that its round knows of stands before what the code said. */
static const char *execution_cause(const struct context_use *u, const json_t *exit, const json_t *said)
{
	const char *how = json_get_text(exit, "cause");

	if (json_is_null(exit))
		return NULL;
	if (strcmp(how, "exit") != 0)
		return how;
	if (json_is_string(said))
		return json_string_value(said);
	if (strcmp(json_get_text(exit, "signal"), "INT") == 0) /* before who looks after the time was there, too */
		return "interrupted";
	if (u->language == CONTEXT_BASH)
		return "done";
	return u->role == CONTEXT_ONCE ? "exited" : "context_died";
}

static json_t *id_or_null(const struct context_use *u)
{
	char text[ID_STR_LEN];

	if (u->role == CONTEXT_ONCE)
		return json_null();
	id_format(&u->id, text);
	return json_string(text);
}

/* o: what it said. */
static json_t *execution_json(const struct execution_job *j, json_t *o)
{
	const json_t *t = j->told, *exit = json_object_get(t, "exit");
	const char *cause = execution_cause(&j->use, exit, json_object_get(o, "cause"));
	bool coded = j->use.role == CONTEXT_ONCE || j->use.language == CONTEXT_BASH;

	if (!o)
		return NULL;
	json_object_set_new(o, "execution_id", json_string(json_get_text(t, "round_id")));
	json_object_set_new(o, "context_id", id_or_null(&j->use));
	json_object_set_new(o, "language", json_string(context_language_name(j->use.language)));
	json_object_set_new(o, "state", json_string(cause ? "finished" : "running"));
	json_object_set_new(o, "cause", cause ? json_string(cause) : json_null());
	json_object_set_new(o, "exit_code",
			    coded && cause ? json_deep_copy(json_object_get(exit, "code")) : json_null());
	if (json_is_null(json_object_get(o, "message")) && json_object_get(exit, "message"))
		json_object_set(o, "message", json_object_get(exit, "message"));
	json_object_set_new(o, "code_bytes", json_integer((json_int_t)j->use.code_bytes));
	json_object_set_new(o, "code_sha256", json_string(j->use.code_sha256));
	static const char *const same[] = {"exec_id", "task_id", "agent", "duration_ms", "started_at"};
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
		json_object_set(o, same[i], json_object_get(t, same[i]));
	return o;
}

static void execution_read(struct execution_job *j);

static bool has_ended(const struct execution_job *j)
{
	return json_is_object(json_object_get(j->told, "exit"));
}

static void execution_on_read(void *arg, int rc, const struct err *e, json_t *said)
{
	struct execution_job *j = arg;
	struct err here = {0};

	if (!rc && (rc = broker_in_force(j->hub, &j->rq, "round", &here))) {
		json_decref(said);
		e = &here;
	}
	execution_end(j, rc, e, rc ? NULL : execution_json(j, said));
}

static void execution_tell(struct execution_job *j)
{
	if (j->use.language == CONTEXT_BASH)
		execution_end(j, 0, NULL, execution_json(j, shell_answer(j->told)));
	else
		executions_read(hub_executions(j->hub), &j->round, has_ended(j), &j->lines, execution_on_read, j);
}

/* Takes the bytes of {data, encoding} behind the lines; false: there was none. */
static bool take_lines(struct execution_job *j, const json_t *o)
{
	const json_t *data = json_object_get(o, "data");
	const void *p = json_string_value(data);
	size_t n = json_string_length(data);
	uint8_t *owned = NULL;
	bool took;

	if (strcmp(json_get_text(o, "encoding"), "base64") == 0)
		p = base64_decode(p, n, false, &owned, &n) ? NULL : owned;
	took = p && n && buf_append(&j->lines, p, n) == 0;
	free(owned);
	return took;
}

/* A page of nothing is all there is. */
static void execution_on_page(void *arg, int rc, const struct err *e, json_t *page)
{
	struct execution_job *j = arg;

	if (rc)
		execution_end(j, rc, e, NULL);
	else if (take_lines(j, page))
		execution_read(j);
	else
		execution_tell(j);
}

/* The rest that there is by now, if it is not here. */
static void execution_read(struct execution_job *j)
{
	const json_t *out = json_object_get(j->told, "stdout");
	int64_t total = json_integer_value(json_object_get(out, "total_bytes"));
	struct round_read how = {.stream = 1, .offset = buf_len(&j->lines), .now = true};

	if (j->use.language == CONTEXT_BASH || (uint64_t)total <= how.offset || how.offset >= CONTEXT_OUTPUT_MAX) {
		execution_tell(j);
		return;
	}
	how.limit = CONTEXT_OUTPUT_MAX - how.offset;
	broker_round_output(j->hub, &j->rq, &j->round, &how, execution_on_page, j);
}

/* A round in memory was told without what it printed, which is here: as it is for lines, as text for a shell's. */
static void execution_begin(struct execution_job *j)
{
	struct session *s = hub_session_find(j->hub, &j->round);

	if (!s) {
		(void)take_lines(j, json_object_get(j->told, "stdout"));
	} else if (j->use.language == CONTEXT_BASH) {
		json_decref(j->told);
		j->told = session_round_json(s);
	} else if (s->keep[STREAM_OUTPUT].head_len) {
		(void)buf_append(&j->lines, s->keep[STREAM_OUTPUT].head, s->keep[STREAM_OUTPUT].head_len);
	}
}

static void execution_on_round(void *arg, int rc, const struct err *e, json_t *round)
{
	struct execution_job *j = arg;
	struct err here = {0};
	json_t *kept;

	if (!rc && (context_use_read(json_object_get(round, "context"), &j->use) ||
		    (j->use.role != CONTEXT_EXECUTION && j->use.role != CONTEXT_ONCE)))
		rc = err_set(&here, ERR_NOT_FOUND, NO_EXECUTION), e = &here;
	if (rc == ERR_NOT_FOUND)
		rc = err_set(&here, ERR_NOT_FOUND, NO_EXECUTION), e = &here;
	if (rc) {
		execution_end(j, rc, e, NULL);
		return;
	}
	j->told = json_incref(round);
	kept =
	    j->use.language != CONTEXT_BASH && has_ended(j) ? executions_kept(hub_executions(j->hub), &j->round) : NULL;
	if (kept) {
		execution_end(j, 0, NULL, execution_json(j, kept));
		return;
	}
	execution_begin(j);
	execution_read(j);
}

void broker_execution(struct hub *h, const struct request *rq, const struct id *round, uint64_t wait_ns,
		      broker_json_done *done, void *arg)
{
	struct execution_job *j = calloc(1, sizeof(*j));
	struct err e = {0};

	if (!j) {
		done(arg, err_set(&e, ERR_NOMEM, "no memory"), &e, NULL);
		return;
	}
	j->hub = h;
	j->rq = *rq;
	j->round = *round;
	j->done = done;
	j->arg = arg;
	buf_init(&j->lines, CONTEXT_OUTPUT_MAX);
	broker_round_wait_brief(h, rq, round, wait_ns, execution_on_round, j, arg);
}
