/*
 * The record, read by players: lists, one recording, its events page by page.
 *
 * The recorder judges with the token that was presented, and audits; here questions are put and answers collected.
 */
#define LOG_SUBSYS "broker"
#include "base/err.h"
#include "base/log.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/broker/broker_record.h"
#include "muxd/hub/broker/broker_state.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/record/reader.h"
#include "muxd/hub/session/launch.h"
#include "muxd/hub/session/session_state.h"

#include <stdlib.h>
#include <string.h>

#define AUDIT_BYTES    (1024 * 1024)     /* of events in one answer, and one that is long */
#define PAGE_BYTES_MAX (4 * 1024 * 1024) /* a page, and one last event that is long */
#define STRANGERS_MAX  4                 /* questions without a grant: the recorder answers one after the other */

struct record_job {
	broker_json_done *done; /* one of the two */
	broker_page_done *page_done;
	void *arg;
	json_t *rows; /* lists: what came before the end; else NULL */
	enum policy_op op;
	const char *key;   /* of the list in the answer (static) */
	bool audit;        /* rows are audit events, and the end says where they go on */
	bool screen;       /* one object of the first row, the bytes and the end */
	size_t *strangers; /* counts it; NULL: asked with a grant */
	int rc;            /* what failed here before the end came */
	struct buf bytes;
};

static void recordings_job_free(struct record_job *j)
{
	if (j->strangers)
		--*j->strangers;
	json_decref(j->rows);
	buf_finish(&j->bytes);
	free(j);
}

static void job_fail(struct record_job *j, int rc, const struct err *e)
{
	if (j->done)
		j->done(j->arg, rc, e, NULL);
	else
		j->page_done(j->arg, rc, e, NULL, 0, NULL);
	recordings_job_free(j);
}

static json_t *screen_json(const struct record_job *j, const json_t *last)
{
	json_t *o = json_copy((json_t *)(uintptr_t)last);
	char *data = buf_len(&j->bytes) ? base64_encode(buf_ptr(&j->bytes), buf_len(&j->bytes), false) : NULL;

	json_object_update(o, json_array_get(j->rows, 0));
	if (data)
		json_object_set_new(o, "data", json_string(data));
	free(data);
	return o;
}

/* Rows that the recorder left out, or had to put right first, are told of with the list. */
static void tell_unsound(json_t *o, const json_t *last)
{
	static const char *const keys[] = {"warning", "left_out"};

	for (size_t i = 0; o && i < sizeof(keys) / sizeof(keys[0]); i++)
		if (json_object_get(last, keys[i]))
			json_object_set(o, keys[i], json_object_get(last, keys[i]));
}

static void recordings_job_end(struct record_job *j, const json_t *last)
{
	json_t *o;

	if (j->page_done) {
		j->page_done(j->arg, 0, NULL, buf_ptr(&j->bytes), buf_len(&j->bytes), last);
		recordings_job_free(j);
		return;
	}
	if (j->screen)
		o = screen_json(j, last);
	else if (j->audit)
		o = json_pack("{s:O,s:O?,s:O?}", "events", j->rows, "after", json_object_get(last, "last_seq"), "more",
			      json_object_get(last, "more"));
	else
		o = j->rows ? json_pack("{s:O}", j->key, j->rows) : json_copy((json_t *)(uintptr_t)last);
	json_object_del(o, "end");
	tell_unsound(o, last);
	j->done(j->arg, 0, NULL, o);
	json_decref(o);
	recordings_job_free(j);
}

static void recordings_on_answer(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n,
				 bool end)
{
	struct record_job *j = arg;
	struct err here = {0};

	if (!rc && p && buf_append(&j->bytes, p, n))
		log_warn(NULL, "the recorder sent more than was asked for: cut");
	if (!rc && json && !end && j->rows && json_array_append(j->rows, (json_t *)(uintptr_t)json))
		j->rc = ERR_NOMEM;
	if (!rc && end && j->rc)
		rc = err_set(&here, j->rc, "no memory for the list"), e = &here;
	if (rc)
		job_fail(j, rc, e);
	else if (end)
		recordings_job_end(j, json);
}

/* q: stolen. */
static void recordings_ask(struct hub *h, const struct request *rq, json_t *q, struct record_job how)
{
	struct record_job *j = malloc(sizeof(*j));
	struct err e = {0};
	const struct policy_question asked = {.op = how.op};
	const char *what = json_get_text(q, "op");
	int rc = !j                             ? ERR_NOMEM
		 : how.op == POLICY_RECORD_KEEP ? broker_policy_told(h, rq, &asked, what, &e)
						: broker_policy(h, rq, &asked, what, NULL, &e);

	if (j) {
		*j = how;
		buf_init(&j->bytes, PAGE_BYTES_MAX);
	}
	if (!rc)
		rc = reader_ask(h, rq, json_incref(q), recordings_on_answer, j);
	json_decref(q);
	if (!rc)
		return;
	if (!e.code)
		err_set(&e, ERR_UNAVAILABLE, "the recorder could not be asked");
	if (j) {
		job_fail(j, e.code, &e);
	} else {
		json_decref(how.rows);
		if (how.done)
			how.done(how.arg, e.code, &e, NULL);
		else
			how.page_done(how.arg, e.code, &e, NULL, 0, NULL);
	}
}

static json_t *list_question(const struct recording_filter *f)
{
	const struct {
		const char *key, *value;
	} texts[] = {{"agent", f->agent}, {"principal", f->principal}, {"kind", f->kind}, {"state", f->state}};
	json_t *q = json_pack("{s:s,s:I}", "op", "sessions", "limit", (json_int_t)f->limit);
	char id[ID_STR_LEN];

	for (size_t i = 0; q && i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].value)
			json_object_set_new(q, texts[i].key, json_string(texts[i].value));
	if (q && !id_is_nil(&f->before)) {
		id_format(&f->before, id);
		json_object_set_new(q, "before", json_string(id));
	}
	return q;
}

void broker_recordings(struct hub *h, const struct request *rq, const struct recording_filter *f,
		       broker_json_done *done, void *arg)
{
	recordings_ask(
	    h, rq, list_question(f),
	    (struct record_job){
		.op = POLICY_RECORD_READ, .done = done, .arg = arg, .rows = json_array(), .key = "recordings"});
}

void broker_recording(struct hub *h, const struct request *rq, const struct id *session, broker_json_done *done,
		      void *arg)
{
	char id[ID_STR_LEN];

	id_format(session, id);
	recordings_ask(h, rq, json_pack("{s:s,s:s}", "op", "recording", "session", id),
		       (struct record_job){.op = POLICY_RECORD_READ, .done = done, .arg = arg});
}

void broker_recording_screen(struct hub *h, const struct request *rq, const struct id *session, uint64_t at_ns,
			     broker_json_done *done, void *arg)
{
	char id[ID_STR_LEN];

	id_format(session, id);
	recordings_ask(h, rq, json_pack("{s:s,s:s,s:I}", "op", "keyframe", "session", id, "at_ns", (json_int_t)at_ns),
		       (struct record_job){
			   .op = POLICY_RECORD_READ, .done = done, .arg = arg, .rows = json_array(), .screen = true});
}

void broker_recording_page(struct hub *h, const struct request *rq, const struct id *session, uint64_t from_ns,
			   uint64_t after_seq, uint64_t limit, broker_page_done *done, void *arg)
{
	char id[ID_STR_LEN];

	id_format(session, id);
	recordings_ask(h, rq,
		       json_pack("{s:s,s:s,s:I,s:I,s:I}", "op", "page", "session", id, "from_ns", (json_int_t)from_ns,
				 "after_seq", (json_int_t)after_seq, "limit", (json_int_t)limit),
		       (struct record_job){.op = POLICY_RECORD_READ, .page_done = done, .arg = arg});
}

void broker_keeping(struct hub *h, const struct request *rq, json_t *q, const char *list, broker_json_done *done,
		    void *arg)
{
	const char *op = json_get_text(q, "op");
	bool keeps =
	    strcmp(op, "retention.apply") == 0 || strcmp(op, "hold.add") == 0 || strcmp(op, "hold.release") == 0;

	recordings_ask(h, rq, q,
		       (struct record_job){.op = keeps ? POLICY_RECORD_KEEP : POLICY_RECORD_READ,
					   .done = done,
					   .arg = arg,
					   .rows = list ? json_array() : NULL,
					   .key = list});
}

void broker_audit(struct hub *h, const struct request *rq, const struct audit_filter *f, broker_json_done *done,
		  void *arg)
{
	const struct {
		const char *key, *value;
	} texts[] = {{"agent", f->agent},
		     {"principal", f->principal},
		     {"event", f->event},
		     {"session", f->session},
		     {"lease", f->lease},
		     {"run", f->run},
		     {"client_request", f->client_request}};
	json_t *q = json_pack("{s:s,s:I,s:I,s:I}", "op", "audit", "since_seq", (json_int_t)f->after, "limit",
			      (json_int_t)f->limit, "bytes", (json_int_t)AUDIT_BYTES);

	for (size_t i = 0; q && i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].value)
			json_object_set_new(q, texts[i].key, json_string(texts[i].value));
	recordings_ask(h, rq, q,
		       (struct record_job){
			   .op = POLICY_RECORD_READ, .done = done, .arg = arg, .rows = json_array(), .audit = true});
}

void broker_head(struct hub *h, const struct request *rq, broker_json_done *done, void *arg)
{
	recordings_ask(h, rq, json_pack("{s:s}", "op", "audit.head"),
		       (struct record_job){.op = POLICY_RECORD_READ, .done = done, .arg = arg});
}

/* Of strangers only so many wait at a time: the others are told to come again. */
static int open_job(struct hub *h, const json_t *q, broker_json_done *done, void *arg, struct record_job **out,
		    struct err *e)
{
	struct record_job *j;

	if (!hub_recorder(h))
		return err_set(e, ERR_UNAVAILABLE, "the recorder could not be asked");
	if (hub_broker(h)->strangers_questions >= STRANGERS_MAX)
		return err_set(e, ERR_AGAIN, "%d questions without a grant wait for the recorder", STRANGERS_MAX);
	j = q ? malloc(sizeof(*j)) : NULL;
	if (!j)
		return err_set(e, ERR_NOMEM, "out of memory");
	*j = (struct record_job){
	    .op = POLICY_RECORD_READ, .done = done, .arg = arg, .strangers = &hub_broker(h)->strangers_questions};
	buf_init(&j->bytes, PAGE_BYTES_MAX);
	hub_broker(h)->strangers_questions++;
	*out = j;
	return 0;
}

/* Nobody's grant is behind it: the signatures in it say who sent it. q: stolen. */
static void ask_openly(struct hub *h, json_t *q, broker_json_done *done, void *arg)
{
	struct record_job *j = NULL;
	struct err e = {0};
	int rc = open_job(h, q, done, arg, &j, &e);

	if (rc == 0 && (rc = recorder_client_ask(hub_recorder(h), q, recordings_on_answer, j)) != 0) {
		recordings_job_free(j);
		err_set(&e, rc,
			rc == ERR_TOO_LARGE ? "the question is longer than the recorder takes"
					    : "the recorder could not be asked");
	}
	json_decref(q);
	if (rc)
		done(arg, rc, &e, NULL);
}

void broker_witness_keep(struct hub *h, json_t *question, broker_json_done *done, void *arg)
{
	ask_openly(h, json_pack("{s:s,s:O}", "op", "keep", "question", question), done, arg);
}

void broker_witness_heads(struct hub *h, const char *log_id, size_t limit, broker_json_done *done, void *arg)
{
	ask_openly(h, json_pack("{s:s,s:s,s:I}", "op", "kept", "log_id", log_id, "limit", (json_int_t)limit), done,
		   arg);
}
