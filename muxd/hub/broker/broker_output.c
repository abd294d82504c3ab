/* Output from the record: of a round that runs or ran, and of any session. */
#define LOG_SUBSYS "broker"
#include "base/err.h"
#include "base/log.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/broker/broker_record.h"
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/record/reader.h"
#include "muxd/hub/record/trail.h"
#include "muxd/hub/session/launch.h"
#include "muxd/hub/session/session_state.h"

#include <stdlib.h>

#define OUTPUT_LIMIT_MAX (1024 * 1024)
#define OUTPUT_PIECE     (64 * 1024) /* of the recorder's answer, each but the last */

struct output_job {
	broker_json_done *done; /* one of the three */
	broker_bytes_done *bytes_done;
	broker_page_read *page_done;
	void *arg;
	json_t *head;
	struct buf bytes;
	struct hub *hub;
	struct id round;
	struct round_read how;
	bool live; /* of a round that runs: who may look was checked here */
};

static void output_finish(struct output_job *j, int rc, const struct err *e)
{
	int64_t total = 0, offset = (int64_t)j->how.offset;
	struct err here = {0};

	if (!rc && !j->head)
		rc = err_set(&here, ERR_INTERNAL, "the recorder's answer has no head"), e = &here;
	if (!rc) {
		(void)json_opt_int(j->head, "total", 0, INT64_MAX, &total, NULL);
		(void)json_opt_int(j->head, "offset", 0, INT64_MAX, &offset, NULL);
	}
	if (j->page_done) {
		/* A failure may come when the hub has gone. */
		const struct session *s = rc ? NULL : hub_session_find(j->hub, &j->round);
		struct round_page page = {.offset = (uint64_t)offset,
					  .total = (uint64_t)total,
					  .ended = json_is_true(json_object_get(j->head, "ended")),
					  .eof = json_is_true(json_object_get(j->head, "eof")),
					  .p = buf_ptr(&j->bytes),
					  .n = buf_len(&j->bytes),
					  .bytes = buf_len(&j->bytes) ? &j->bytes : NULL,
					  .missing = json_object_get(j->head, "missing")};

		page.behind = !page.ended && (!s || s->end == END_TOLD);

		j->page_done(j->arg, rc, rc ? e : NULL, rc ? NULL : &page);
		goto out;
	}
	if (j->bytes_done) {
		j->bytes_done(j->arg, rc, rc ? e : NULL, (uint64_t)offset, buf_ptr(&j->bytes), buf_len(&j->bytes));
		goto out;
	}
	if (!rc) {
		json_object_del(j->head, "total");
		json_object_del(j->head, "ended");
		json_object_set_new(j->head, "total_bytes", json_integer(total));
		json_object_set_new(j->head, "offset", json_integer(offset));
		json_object_set_new(j->head, "next_offset", json_integer(offset + (int64_t)buf_len(&j->bytes)));
		rc = json_set_bytes(j->head, "data", "encoding",
				    buf_ptr(&j->bytes) ? buf_ptr(&j->bytes) : (const uint8_t *)"", buf_len(&j->bytes));
	}
	j->done(j->arg, rc, rc ? e : NULL, rc ? NULL : j->head);
out:
	json_decref(j->head);
	buf_finish(&j->bytes);
	free(j);
}

static void broker_output_on_output(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p,
				    size_t n, bool end)
{
	struct output_job *j = arg;
	struct err here = {0};

	if (rc == ERR_NOT_FOUND) /* or kept from this grant */
		rc = err_set(&here, ERR_NOT_FOUND, j->bytes_done ? NO_SESSION : NO_ROUND), e = &here;
	if (rc) {
		output_finish(j, rc, e);
		return;
	}
	if (p && !buf_len(&j->bytes) && n == OUTPUT_PIECE) /* more follow: room for all of them at once */
		(void)buf_reserve(&j->bytes, (size_t)j->how.limit, &(uint8_t *){NULL});
	if (p && buf_append(&j->bytes, p, n))
		log_warn(NULL, "the recorder sent more than was asked for: cut");
	if (json && !j->head && json_object_get(json, "offset"))
		j->head = json_deep_copy(json);
	if (end)
		output_finish(j, 0, &here);
}

static json_t *output_question(const struct output_job *j, const struct id *session)
{
	static const char *const names[] = {"input", "stdout", "stderr"};
	const struct round_read *how = &j->how;
	char id[ID_STR_LEN];
	json_t *q;

	id_format(session, id);
	q = json_pack("{s:s,s:s,s:s,s:I,s:I,s:b}", "op", "output", "session", id, "stream", names[how->stream],
		      "offset", (json_int_t)how->offset, "limit", (json_int_t)how->limit, "live", j->live);
	if (q && how->tail)
		json_object_set_new(q, "tail", json_integer((json_int_t)how->tail));
	if (q && how->lines)
		json_object_set_new(q, "lines", json_integer(how->lines));
	if (q && how->now)
		json_object_set_new(q, "now", json_true());
	if (q && how->missing)
		json_object_set_new(q, "missing", json_true());
	return q;
}

static int ask_output(struct hub *h, const struct request *rq, const struct id *session, const struct output_job *what)
{
	struct output_job *j = malloc(sizeof(*j));
	int rc;

	if (!j)
		return ERR_NOMEM;
	*j = *what;
	if (!j->how.limit || j->how.limit > OUTPUT_LIMIT_MAX)
		j->how.limit = OUTPUT_LIMIT_MAX;
	buf_init(&j->bytes, OUTPUT_LIMIT_MAX);
	rc = reader_ask(h, rq, output_question(j, session), broker_output_on_output, j);
	if (rc)
		free(j);
	return rc;
}

/* Of a round that has left memory the policy is asked by the facts of the record, before the recorder for bytes. */
struct output_check {
	struct hub *hub;
	struct request rq; /* for its token */
	struct id round;
	struct output_job job;
};

static void output_on_checked(void *arg, int rc, const struct err *e, json_t *none)
{
	struct output_check *c = arg;
	struct err here = {0};

	(void)none;
	if (!rc && ask_output(c->hub, &c->rq, &c->round, &c->job))
		rc = err_set(&here, ERR_UNAVAILABLE, "the recorder could not be asked"), e = &here;
	if (rc && c->job.page_done)
		c->job.page_done(c->job.arg, rc, e, NULL);
	else if (rc)
		c->job.done(c->job.arg, rc, e, NULL);
	request_finish(&c->rq);
	free(c);
}

static int check_first(struct hub *h, const struct request *rq, const struct id *round, const struct output_job *j,
		       struct err *e)
{
	struct output_check *c = malloc(sizeof(*c));

	if (!c)
		return err_set(e, ERR_NOMEM, "no memory");
	*c = (struct output_check){.hub = h, .rq = *rq, .round = *round, .job = *j};
	broker_policy_round(h, &c->rq, &c->round, output_on_checked, c);
	return 0;
}

/* Of a round that is at hand the hub says who may look; else the recorder does. */
static int ask_round(struct hub *h, const struct request *rq, const struct id *round, struct output_job *j,
		     struct err *e)
{
	struct session *s = hub_session_find(h, round);
	bool at_hand = s && s->kind == SESSION_ROUND;
	int rc = at_hand ? broker_find_round(h, rq, round, 0, "output", &s, e) : 0;

	if (!at_hand && broker_policy_is(h, rq))
		return check_first(h, rq, round, j, e);
	j->live = at_hand && !rc && s->state != SESSION_ENDED;
	if (!rc && ask_output(h, rq, round, j))
		rc = err_set(e, ERR_UNAVAILABLE, "the recorder could not be asked");
	return rc;
}

void broker_round_output(struct hub *h, const struct request *rq, const struct id *round, const struct round_read *how,
			 broker_json_done *done, void *arg)
{
	struct output_job j = {.done = done, .arg = arg, .how = *how};
	struct err e = {0};
	int rc = ask_round(h, rq, round, &j, &e);

	if (rc)
		done(arg, rc, &e, NULL);
}

/* Nothing new since the last page: the recorder need not be asked. */
static bool nothing_new(const struct session *s, const struct round_read *how)
{
	return how->now && s && s->kind == SESSION_ROUND && s->end == END_NOT_YET &&
	       s->stream[how->stream].end <= how->offset;
}

void broker_round_read(struct hub *h, const struct request *rq, const struct id *round, const struct round_read *how,
		       broker_page_read *done, void *arg)
{
	struct output_job j = {.page_done = done, .arg = arg, .how = *how, .hub = h, .round = *round};
	struct session *s = hub_session_find(h, round);
	struct err e = {0};
	int rc;

	if (nothing_new(s, how)) {
		rc = broker_find_round(h, rq, round, 0, "output", &s, &e);
		done(arg, rc, &e, rc ? NULL : &(struct round_page){.offset = how->offset, .total = how->offset});
		return;
	}
	rc = ask_round(h, rq, round, &j, &e);
	if (rc)
		done(arg, rc, &e, NULL);
}

/* ---- as it passes */

/* As the recorder judges of what it keeps whole: its own caller, and who may watch it. */
static struct session *find_to_follow(struct hub *h, const struct request *rq, const struct id *round)
{
	struct grant_line line = grant_line(&rq->grant);
	struct session *s = hub_session_find(h, round);
	struct err e = {0};
	uint32_t any;

	if (!s || s->kind != SESSION_ROUND || broker_grant_check(h, &line, &e) ||
	    grant_allows(&rq->grant, s->agent->name, 0, NULL))
		return NULL;
	any = broker_owns(rq, s) ? SCOPES_READ_OWN : SCOPE_OBSERVE | SCOPE_DRIVE;
	return rq->grant.scopes & any ? s : NULL;
}

ssize_t broker_round_live(struct hub *h, const struct request *rq, const struct id *round, int stream, uint64_t offset,
			  uint8_t *to, size_t max)
{
	struct session *s = find_to_follow(h, rq, round);
	uint64_t until = hub_conf(h)->release_durable ? journal_durable(hub_journal(h)) : UINT64_MAX;
	ssize_t n;

	if (!s)
		return ERR_NOT_FOUND;
	if (offset >= s->stream[stream].end)
		return s->end == END_TOLD ? ERR_EOF : 0;
	if (!s->trails)
		return ERR_NOT_FOUND;
	if (journal_state(hub_journal(h)) != RECORD_OK && s->state != SESSION_ENDED)
		return ERR_AGAIN;
	n = trail_read(&s->trails[stream], hub_journal(h), round, stream, offset, until, to, max);
	return n || !max ? n : ERR_AGAIN;
}

struct follow_job {
	broker_followed *done;
	void *arg;
};

static void broker_output_on_followed(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p,
				      size_t n, bool end)
{
	struct follow_job *j = arg;

	(void)json, (void)p, (void)n;
	if (!end && !rc)
		return;
	if (j->done)
		j->done(j->arg, rc, e);
	else if (rc && rc != ERR_CANCELLED)
		log_warn(NULL, "what a follower of a round was given is not in the audit log: %s",
			 e ? e->message : err_name(rc));
	free(j);
}

/* The recorder's account of who has read what (recorder/serve/ledger.h). */
static int tell_given(struct hub *h, const struct request *rq, const struct session *s, const struct id *round,
		      int stream, uint64_t offset, uint64_t n, const struct follow_job *what)
{
	static const char *const names[] = {"input", "stdout", "stderr"};
	struct follow_job *j = malloc(sizeof(*j));
	char id[ID_STR_LEN];
	int rc;

	if (!j)
		return ERR_NOMEM;
	*j = *what;
	id_format(round, id);
	rc = reader_ask(h, rq,
			json_pack("{s:s,s:s,s:s,s:s,s:I,s:I}", "op", "given", "session", id, "agent",
				  s ? s->agent->name : "", "stream", names[stream], "offset", (json_int_t)offset,
				  "bytes", (json_int_t)n),
			broker_output_on_followed, j);
	if (rc)
		free(j);
	return rc;
}

void broker_round_follow(struct hub *h, const struct request *rq, const struct id *round, int stream, uint64_t offset,
			 broker_followed *done, void *arg)
{
	struct follow_job j = {.done = done, .arg = arg};
	struct session *s = find_to_follow(h, rq, round);
	struct err e = {0};
	int rc = 0;

	if (!s || broker_round_live(h, rq, round, stream, offset, NULL, 0) == ERR_NOT_FOUND)
		rc = err_set(&e, ERR_NOT_FOUND, NO_ROUND);
	else
		rc = broker_find_round(h, rq, round, 0, "output", &s, &e);
	if (!rc && tell_given(h, rq, s, round, stream, offset, 0, &j))
		rc = err_set(&e, ERR_UNAVAILABLE, "the recorder could not be asked");
	if (rc)
		done(arg, rc, &e);
}

void broker_round_given(struct hub *h, const struct request *rq, const struct id *round, int stream, uint64_t offset,
			uint64_t n)
{
	struct follow_job j = {0};

	if (n && tell_given(h, rq, hub_session_find(h, round), round, stream, offset, n, &j))
		log_warn(NULL, "%llu bytes of output that %s was given are not in the audit log", (unsigned long long)n,
			 rq->grant.principal);
}

void broker_output_bytes(struct hub *h, const struct request *rq, const struct id *session, int stream, uint64_t offset,
			 uint64_t limit, broker_bytes_done *done, void *arg)
{
	struct output_job how = {
	    .bytes_done = done, .arg = arg, .how = {.stream = stream, .offset = offset, .limit = limit}};
	struct err e = {0};

	if (ask_output(h, rq, session, &how)) {
		err_set(&e, ERR_UNAVAILABLE, "the recorder could not be asked");
		done(arg, e.code, &e, offset, NULL, 0);
	}
}
