/* Output from the record: of a round that runs or ran, and of any session. */
#define LOG_SUBSYS "broker"
#include "base/err.h"
#include "base/log.h"
#include "muxd/hub/broker_check.h"
#include "muxd/hub/launch.h"
#include "muxd/hub/reader.h"
#include "muxd/hub/session_state.h"

#include <stdlib.h>

#define OUTPUT_LIMIT_MAX (1024 * 1024)

struct output_job {
	broker_json_done *done; /* one of the two */
	broker_bytes_done *bytes_done;
	void *arg;
	json_t *head;
	struct buf bytes;
	uint64_t offset, limit;
	bool live; /* of a round that runs: who may look was checked here */
};

static void output_finish(struct output_job *j, int rc, const struct err *e)
{
	int64_t total = 0, offset = (int64_t)j->offset;
	struct err here = {0};

	if (!rc && !j->head)
		rc = err_set(&here, ERR_INTERNAL, "the recorder's answer has no head"), e = &here;
	if (!rc) {
		(void)json_opt_int(j->head, "total", 0, INT64_MAX, &total, NULL);
		(void)json_opt_int(j->head, "offset", 0, INT64_MAX, &offset, NULL);
	}
	if (j->bytes_done) {
		j->bytes_done(j->arg, rc, rc ? e : NULL, (uint64_t)offset, buf_ptr(&j->bytes), buf_len(&j->bytes));
		goto out;
	}
	if (!rc) {
		json_object_del(j->head, "total");
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
	if (p && buf_append(&j->bytes, p, n))
		log_warn(NULL, "the recorder sent more than was asked for: cut");
	if (json && !j->head && json_object_get(json, "offset"))
		j->head = json_deep_copy(json);
	if (end)
		output_finish(j, 0, &here);
}

static int ask_output(struct hub *h, const struct request *rq, const struct id *session, int stream, uint64_t offset,
		      uint64_t limit, const struct output_job *how)
{
	static const char *const names[] = {"input", "stdout", "stderr"};
	struct output_job *j = malloc(sizeof(*j));
	char id[ID_STR_LEN];
	json_t *q;
	int rc;

	if (!j)
		return ERR_NOMEM;
	id_format(session, id);
	*j = *how;
	j->offset = offset;
	j->limit = limit && limit < OUTPUT_LIMIT_MAX ? limit : OUTPUT_LIMIT_MAX;
	buf_init(&j->bytes, OUTPUT_LIMIT_MAX);
	q = json_pack("{s:s,s:s,s:s,s:I,s:I,s:b}", "op", "output", "session", id, "stream", names[stream], "offset",
		      (json_int_t)offset, "limit", (json_int_t)j->limit, "live", j->live);
	rc = reader_ask(h, rq, q, broker_output_on_output, j);
	if (rc)
		free(j);
	return rc;
}

void broker_round_output(struct hub *h, const struct request *rq, const struct id *round, int stream, uint64_t offset,
			 uint64_t limit, broker_json_done *done, void *arg)
{
	struct output_job how = {.done = done, .arg = arg};
	struct session *s = hub_session_find(h, round);
	struct err e = {0};
	int rc = s && s->kind == SESSION_ROUND ? broker_find_round(h, rq, round, 0, "output", &s, &e) : 0;

	how.live = s && !rc && s->kind == SESSION_ROUND && s->state != SESSION_ENDED;
	if (!rc && ask_output(h, rq, round, stream, offset, limit, &how))
		rc = err_set(&e, ERR_UNAVAILABLE, "the recorder could not be asked");
	if (rc)
		done(arg, rc, &e, NULL);
}

void broker_output_bytes(struct hub *h, const struct request *rq, const struct id *session, int stream, uint64_t offset,
			 uint64_t limit, broker_bytes_done *done, void *arg)
{
	struct output_job how = {.bytes_done = done, .arg = arg};
	struct err e = {0};

	if (ask_output(h, rq, session, stream, offset, limit, &how)) {
		err_set(&e, ERR_UNAVAILABLE, "the recorder could not be asked");
		done(arg, e.code, &e, offset, NULL, 0);
	}
}
