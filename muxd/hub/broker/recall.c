/*
 * Sessions that have left memory, from the record: the answer of a round, and for a client who was there and comes back
 * who it was and how it ended.
 *
 * The recorder is asked for the facts, and of a round then for the beginning of stdout and of stderr. It checks the
 * token itself and tells only who may know. Who could not have attached while a session ran is refused here, as then.
 */
#define LOG_SUBSYS "broker"
#include "muxd/hub/broker/recall.h"
#include "base/clock.h"
#include "base/err.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/record/reader.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/launch.h"
#include "muxd/hub/session/session_json.h"
#include "muxd/hub/session/session_state.h"

#include <stdlib.h>
#include <string.h>

#define DATA_MAX (1024 * 1024) /* of each stream, as a page of /output */

struct recall {
	struct hub *hub;
	struct request rq; /* for its token */
	struct id session;
	int role; /* of who comes back */
	struct session_result result;
	json_t *answer; /* of a round, with the streams up to `stream` */
	int stream;
	broker_json_done *done;
	void *arg;
};

static void recall_end(struct recall *r, int rc, const struct err *e)
{
	r->done(r->arg, rc, rc ? e : NULL, rc ? NULL : r->answer);
	json_decref(r->answer);
	request_finish(&r->rq);
	free(r);
}

static const char *recall_text(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key)) ?: "";
}

/* Filled in where it stays: a copy of its token elsewhere would be wiped by nobody. NULL: that was told. */
static struct recall *recall_create(struct hub *h, const struct request *rq, const struct id *session,
				    broker_json_done *done, void *arg)
{
	struct recall *r = calloc(1, sizeof(*r));
	struct err e = {0};

	if (!r) {
		done(arg, err_set(&e, ERR_NOMEM, "the recorder could not be asked"), &e, NULL);
		return NULL;
	}
	r->hub = h;
	r->rq = *rq;
	r->session = *session;
	r->done = done;
	r->arg = arg;
	return r;
}

/* As broker_owns(): the program of an MCP server is nobody's own. */
static bool recall_owns(const struct recall *r, const json_t *facts)
{
	const json_t *open = json_object_get(facts, "open");

	return strcmp(recall_text(json_object_get(open, "mcp"), "role"), "server") != 0 &&
	       !*json_get_text(json_object_get(open, "service"), "name") &&
	       grant_owns(&r->rq.grant, recall_text(facts, "principal"), *recall_text(open, "run_id"),
			  recall_text(open, "task"));
}

/* ---- a round */

/* The beginning of a stream as the record has it, with the whole's length and digest. */
json_t *recall_stream(const struct session_result *r, int stream, const json_t *page)
{
	bool from_start = json_integer_value(json_object_get(page, "offset")) == 0;
	json_int_t end = from_start ? json_integer_value(json_object_get(page, "next_offset")) : 0;
	const char *sum = r->sha256[stream];

	return json_pack("{s:s,s:s,s:I,s:b,s:s?}", "data", from_start ? recall_text(page, "data") : "", "encoding",
			 from_start ? recall_text(page, "encoding") : "utf-8", "total_bytes",
			 (json_int_t)r->total[stream], "truncated", (uint64_t)end < r->total[stream], "sha256",
			 *sum ? sum : NULL);
}

static void ask_stream(struct recall *r);

static void recall_on_page(void *arg, int rc, const struct err *e, json_t *page)
{
	struct recall *r = arg;

	if (!rc)
		json_object_set_new(r->answer, r->stream == STREAM_OUTPUT ? "stdout" : "stderr",
				    recall_stream(&r->result, r->stream, page));
	if (!rc && ++r->stream < STREAM_COUNT)
		ask_stream(r);
	else
		recall_end(r, rc, e);
}

static void ask_stream(struct recall *r)
{
	uint64_t head = hub_conf(r->hub)->round_head;
	struct round_read how = {.stream = r->stream, .limit = head && head < DATA_MAX ? head : DATA_MAX};

	broker_round_output(r->hub, &r->rq, &r->session, &how, recall_on_page, r);
}

json_t *recall_round(const struct id *round, const json_t *facts, const struct session_result *result)
{
	const json_t *exit = json_object_get(facts, "exit"), *open = json_object_get(facts, "open");
	const json_t *mcp = json_object_get(open, "mcp");
	struct shell_use shell = {0};
	struct context_use context = {0};
	char id[ID_STR_LEN];

	(void)shell_use_read(json_object_get(open, "shell"), &shell); /* most are in none */
	(void)context_use_read(json_object_get(open, "context"), &context);
	id_format(round, id);
	return round_told_json(&(struct round_told){
	    .id = id,
	    .exec_id = json_string_value(json_object_get(facts, "exec_id")),
	    .task = json_string_value(json_object_get(facts, "task")),
	    .agent = json_string_value(json_object_get(facts, "agent")),
	    .state = exit ? "finished" : "ending",
	    .started_at = json_string_value(json_object_get(facts, "opened_at")),
	    .cwd = json_string_value(json_object_get(exit, "cwd")),
	    .program = json_string_value(json_object_get(exit, "program")),
	    .root = json_string_value(json_object_get(open, "root")),
	    .snapshot_id = json_string_value(json_object_get(open, "snapshot_id")),
	    .service = json_string_value(json_object_get(json_object_get(open, "service"), "name")),
	    .shell = round_shell_json(&shell),
	    .context = context.role ? context_use_json(&context) : NULL,
	    .mcp = json_is_object(mcp) ? json_deep_copy(mcp) : NULL,
	    .result = exit ? result : NULL,
	    .duration_ns = result->duration_ns});
}

static bool is_round(const json_t *facts)
{
	const char *kind = recall_text(facts, "kind");

	return strcmp(kind, session_kind_name(SESSION_ROUND)) == 0 || strcmp(kind, session_kind_name(SESSION_MCP)) == 0;
}

static void recall_on_round(void *arg, int rc, const struct err *e, json_t *facts)
{
	struct recall *r = arg;
	struct err here = {0};

	if (rc == ERR_NOT_FOUND || (!rc && !is_round(facts))) /* or kept from this grant */
		rc = err_set(&here, ERR_NOT_FOUND, NO_ROUND), e = &here;
	if (!rc && (rc = broker_policy_recalled(r->hub, &r->rq, facts, &here)))
		e = &here;
	if (!rc) {
		session_result_read(json_object_get(facts, "exit"), &r->result);
		r->answer = recall_round(&r->session, facts, &r->result);
		if (!r->answer)
			rc = err_set(&here, ERR_NOMEM, "no memory for the answer"), e = &here;
	}
	if (rc)
		recall_end(r, rc, e);
	else
		ask_stream(r);
}

void round_recall(struct hub *h, const struct request *rq, const struct id *round, broker_json_done *done, void *arg)
{
	struct recall *r = recall_create(h, rq, round, done, arg);

	if (!r)
		return;
	r->stream = STREAM_OUTPUT;
	reader_ask_session(h, &r->rq, &r->session, recall_on_round, r);
}

/* ---- who comes back to a session */

/* As broker_attach() judges of one that runs. */
static int may_attach(const struct recall *r, const json_t *facts, struct err *e)
{
	const char *kind = recall_text(facts, "kind");
	const json_t *open = json_object_get(facts, "open");
	bool own = recall_owns(r, facts);
	enum session_kind k = strcmp(kind, session_kind_name(SESSION_ROUND)) == 0 ? SESSION_ROUND : SESSION_EXEC;
	bool typed = json_is_true(json_object_get(open, "pty"));
	enum attachment_role role =
	    r->role < 0 ? attach_role(&r->rq.grant, k, own, typed) : (enum attachment_role)r->role;

	if (strcmp(kind, session_kind_name(SESSION_FILE)) == 0 || strcmp(kind, session_kind_name(SESSION_PORT)) == 0 ||
	    strcmp(kind, session_kind_name(SESSION_MCP)) == 0)
		return err_set(e, ERR_NOT_FOUND, NO_SESSION);
	return broker_check_any(r->hub, &r->rq,
				&(struct policy_question){.op = attach_op(k, role, own),
							  .agent = recall_text(facts, "agent"),
							  .task = recall_text(open, "task"),
							  .opens_nothing = true},
				attach_scope(k, role, own, typed), "attach", NULL, e);
}

static int past_answer(struct recall *r, const json_t *facts, struct err *e)
{
	const json_t *exit = json_object_get(facts, "exit"), *open = json_object_get(facts, "open");
	int rc = may_attach(r, facts, e);

	if (rc)
		return rc;
	if (!exit) /* the recorder has not come that far */
		return err_set(e, ERR_UNAVAILABLE, "the end of this session is not in the record yet");
	session_result_read(exit, &r->result);
	r->answer = json_pack("{s:s,s:s,s:s,s:I,s:I,s:o}", "agent", recall_text(facts, "agent"), "kind",
			      recall_text(facts, "kind"), "principal", recall_text(facts, "principal"), "cols",
			      json_integer_value(json_object_get(open, "cols")), "rows",
			      json_integer_value(json_object_get(open, "rows")), "exit", session_farewell(&r->result));
	return r->answer ? 0 : err_set(e, ERR_NOMEM, "no memory");
}

static void recall_on_past(void *arg, int rc, const struct err *e, json_t *facts)
{
	struct recall *r = arg;
	struct err here = {0};

	if (rc == ERR_FORBIDDEN || rc == ERR_NOT_FOUND) /* whether there is one is not told to everybody */
		rc = err_set(&here, ERR_NOT_FOUND, NO_SESSION), e = &here;
	else if (!rc)
		rc = past_answer(r, facts, &here), e = &here;
	recall_end(r, rc, e);
}

void broker_past(struct hub *h, const struct request *rq, const struct id *session, int role, broker_json_done *done,
		 void *arg)
{
	struct recall *r = recall_create(h, rq, session, done, arg);

	if (!r)
		return;
	r->role = role;
	reader_ask_session(h, &r->rq, &r->session, recall_on_past, r);
}
