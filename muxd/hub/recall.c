/*
 * A round that has left memory, answered from the record.
 *
 * Three questions to the recorder, one after the other: its facts, the beginning of stdout, the beginning of stderr.
 * The recorder checks the token itself and tells only who may know.
 */
#define LOG_SUBSYS "broker"
#include "muxd/hub/recall.h"
#include "base/clock.h"
#include "base/err.h"
#include "muxd/hub/attachment_state.h"
#include "muxd/hub/hub_state.h"
#include "muxd/hub/launch.h"
#include "muxd/hub/reader.h"
#include "muxd/hub/session_run.h"
#include "muxd/hub/session_state.h"

#include <stdlib.h>
#include <string.h>

#define DATA_MAX (1024 * 1024) /* of each stream, as a page of /output */

struct recall {
	struct hub *hub;
	struct request rq; /* for its token */
	struct id round;
	broker_json_done *done;
	void *arg;
	json_t *facts, *answer;
	int stream;
};

static void recall_end(struct recall *r, int rc, const struct err *e)
{
	r->done(r->arg, rc, rc ? e : NULL, rc ? NULL : r->answer);
	json_decref(r->facts);
	json_decref(r->answer);
	request_finish(&r->rq);
	free(r);
}

static const json_t *exit_of(const struct recall *r)
{
	return json_object_get(r->facts, "exit");
}

/* The beginning of a stream as the record has it, with the whole's length and digest. */
json_t *recall_stream(const json_t *exit, int stream, const json_t *page)
{
	const char *name = stream == STREAM_OUTPUT ? "stdout" : "stderr";
	const json_t *totals = json_object_get(exit, "totals");
	const json_t *sum = json_object_get(json_object_get(exit, "sha256"), name);
	json_int_t total = json_integer_value(json_array_get(totals, (size_t)stream));
	bool from_start = json_integer_value(json_object_get(page, "offset")) == 0;
	json_int_t end = from_start ? json_integer_value(json_object_get(page, "next_offset")) : 0;
	json_t *o = json_object();

	json_object_set_new(o, "data", from_start ? json_incref(json_object_get(page, "data")) : json_string(""));
	json_object_set_new(o, "encoding",
			    from_start ? json_incref(json_object_get(page, "encoding")) : json_string("utf-8"));
	json_object_set_new(o, "total_bytes", json_integer(total));
	json_object_set_new(o, "truncated", json_boolean(end < total));
	json_object_set_new(o, "sha256", json_string_length(sum) ? json_deep_copy(sum) : json_null());
	return o;
}

static void ask_stream(struct recall *r);

static void recall_on_page(void *arg, int rc, const struct err *e, json_t *page)
{
	struct recall *r = arg;

	if (rc) {
		recall_end(r, rc, e);
		return;
	}
	json_object_set_new(r->answer, r->stream == STREAM_OUTPUT ? "stdout" : "stderr",
			    recall_stream(exit_of(r), r->stream, page));
	if (++r->stream < STREAM_COUNT)
		ask_stream(r);
	else
		recall_end(r, 0, NULL);
}

static void ask_stream(struct recall *r)
{
	uint64_t head = r->hub->conf->round_head;

	broker_round_output(r->hub, &r->rq, &r->round, r->stream, 0, head && head < DATA_MAX ? head : DATA_MAX,
			    recall_on_page, r);
}

static void recall_copy(json_t *to, const char *key, const json_t *from, const char *name)
{
	json_t *v = json_object_get(from, name);

	json_object_set_new(to, key, v ? json_deep_copy(v) : json_null());
}

static json_t *exit_answer(const json_t *exit)
{
	json_int_t code = json_integer_value(json_object_get(exit, "code"));
	json_int_t sig = json_integer_value(json_object_get(exit, "signal"));
	const char *message = json_string_value(json_object_get(exit, "message"));
	json_t *o = json_object();

	recall_copy(o, "cause", exit, "cause");
	json_object_set_new(o, "code", code >= 0 ? json_integer(code) : json_null());
	json_object_set_new(o, "signal", sig ? json_string(signal_name((int)sig)) : json_null());
	if (message && *message)
		json_object_set_new(o, "message", json_string(message));
	return o;
}

static void begin_answer(struct recall *r)
{
	const json_t *exit = exit_of(r);
	char id[ID_STR_LEN];
	json_t *o = r->answer = json_object();

	id_format(&r->round, id);
	json_object_set_new(o, "round_id", json_string(id));
	recall_copy(o, "exec_id", r->facts, "exec_id");
	recall_copy(o, "task_id", r->facts, "task");
	recall_copy(o, "agent", r->facts, "agent");
	json_object_set_new(o, "state", json_string(exit ? "finished" : "ending"));
	json_object_set_new(o, "exit", exit ? exit_answer(exit) : json_null());
	json_object_set_new(
	    o, "duration_ms",
	    json_integer(json_integer_value(json_object_get(exit, "duration_ns")) / (json_int_t)NS_PER_MS));
	recall_copy(o, "started_at", r->facts, "opened_at");
	recall_copy(o, "cwd", exit, "cwd");
	recall_copy(o, "program", exit, "program");
	if (json_object_get(json_object_get(r->facts, "open"), "snapshot_id"))
		recall_copy(o, "snapshot_id", json_object_get(r->facts, "open"), "snapshot_id");
}

static void recall_on_facts(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n,
			    bool end)
{
	struct recall *r = arg;
	struct err here = {0};

	(void)p, (void)n;
	if (!rc && json && !r->facts)
		r->facts = json_deep_copy(json);
	if (!rc && !end)
		return;
	if (rc == ERR_NOT_FOUND) /* or kept from this grant */
		rc = err_set(&here, ERR_NOT_FOUND, "no such round"), e = &here;
	if (!rc && strcmp(json_string_value(json_object_get(r->facts, "kind")) ?: "", "round") != 0)
		rc = err_set(&here, ERR_NOT_FOUND, "no such round"), e = &here;
	if (rc) {
		recall_end(r, rc, e);
		return;
	}
	begin_answer(r);
	r->stream = STREAM_OUTPUT;
	ask_stream(r);
}

void round_recall(struct hub *h, const struct request *rq, const struct id *round, broker_json_done *done, void *arg)
{
	struct recall *r = calloc(1, sizeof(*r));
	char id[ID_STR_LEN];
	struct err e = {0};
	int rc = ERR_NOMEM;
	json_t *q;

	if (!r)
		goto fail;
	r->hub = h;
	r->rq = *rq;
	r->round = *round;
	r->done = done;
	r->arg = arg;
	id_format(round, id);
	q = json_pack("{s:s,s:s}", "op", "session", "session", id);
	rc = reader_ask(h, rq, q, recall_on_facts, r);
	if (!rc)
		return;
	request_finish(&r->rq);
	free(r);
fail:
	err_set(&e, rc, "the recorder could not be asked");
	done(arg, rc, &e, NULL);
}
