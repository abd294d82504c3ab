#include "muxd/ctl/recall.h"

#include <time.h>

#define PAGE    (1024 * 1024)
#define WAIT_NS (50 * 1000 * 1000)
#define WAITS   200 /* what was just journaled is read a moment later */

struct recall {
	struct ctl *c;
	struct ctl_peer peer;
	json_t *question;
	recall_take *take;
	void *arg;
	uint64_t offset, missing;
};

static int open_record(struct recall *r, const json_t *round, const char *stream, struct err *e)
{
	const char *id = "", *agent = "";
	int rc = json_need_str(round, "round_id", &id, e);

	if (rc == 0)
		rc = json_need_str(round, "agent", &agent, e);
	if (rc)
		return rc;
	struct ctl_wish w = {.kind = "staff", .agent = agent, .scopes = "rounds", .reason = "muxctl exec"};
	r->question = json_pack("{s:s,s:s,s:s,s:i}", "op", "output", "session", id, "stream", stream, "limit", PAGE);
	return ctl_peer_open(r->c, r->question, &w, &r->peer, e);
}

/* {"offset"}: what stands before it and was not asked for anew is a hole. */
static int recall_take_head(struct recall *r, const json_t *head, struct err *e)
{
	int64_t offset = 0;
	int rc = json_need_int(head, "offset", 0, INT64_MAX, &offset, e);

	if (rc == 0 && (uint64_t)offset > r->offset) {
		r->missing += (uint64_t)offset - r->offset;
		r->offset = (uint64_t)offset;
	}
	return rc;
}

static int read_page(struct recall *r, struct err *e)
{
	bool end = false;
	int rc;

	json_object_set_new(r->question, "offset", json_integer((json_int_t)r->offset));
	rc = msg_send_json(r->peer.fd, r->question, e);
	while (rc == 0 && !end) {
		struct msg m;
		json_t *o = NULL;
		if ((rc = ctl_peer_next(&r->peer, &m, e)) < 0)
			break;
		if (m.kind == 'B') {
			rc = m.len > 1 ? r->take(r->arg, m.payload + 1, m.len - 1) : 0;
			r->offset += m.len - 1;
			continue;
		}
		rc = json_parse(m.payload, m.len, MSG_MAX, &o, e);
		if (rc == 0 && json_is_object(json_object_get(o, "error")))
			rc = ctl_remote_error(r->c, json_object_get(o, "error"), e);
		else if (rc == 0 && json_object_get(o, "offset"))
			rc = recall_take_head(r, o, e);
		end = json_is_true(json_object_get(o, "end"));
		json_decref(o);
	}
	return rc;
}

int ctl_recall_stream(struct ctl *c, const json_t *round, const char *stream, recall_take *take, void *arg,
		      uint64_t *out_missing, struct err *e)
{
	struct recall r = {.c = c, .peer = {.fd = -1}, .take = take, .arg = arg};
	struct timespec pause = {.tv_nsec = WAIT_NS};
	int64_t total = 0;
	int rc = json_need_int(json_object_get(round, stream), "total_bytes", 0, INT64_MAX, &total, e);

	if (rc == 0 && total)
		rc = open_record(&r, round, stream, e);
	for (int waits = 0; rc == 0 && r.offset < (uint64_t)total;) {
		uint64_t before = r.offset;
		rc = read_page(&r, e);
		if (rc || r.offset > before)
			continue;
		if (++waits > WAITS)
			rc = err_set(e, ERR_TIMEOUT, "the record has %llu of %lld bytes of %s",
				     (unsigned long long)r.offset, (long long)total, stream);
		nanosleep(&pause, NULL);
	}
	json_decref(r.question);
	ctl_peer_close(&r.peer);
	*out_missing = r.missing;
	return rc;
}

int recall_exit(struct ctl *c, const char *session, json_t **out, struct err *e)
{
	struct ctl_wish w = {.kind = "auditor", .agent = "*", .scopes = "replay", .reason = "muxctl exec"};
	struct timespec pause = {.tv_nsec = WAIT_NS};
	int rc = 0;

	*out = NULL;
	for (int waits = 0; rc == 0 && !*out && waits < WAITS; waits++) {
		json_t *row = NULL;
		const json_t *exit;

		if (waits)
			nanosleep(&pause, NULL);
		rc = ctl_ask(c, json_pack("{s:s,s:s}", "op", "session", "session", session), &w, NULL, &row, e);
		exit = json_object_get(row, "exit");
		if (rc == 0 && json_is_object(exit) && !(*out = json_pack("{s:O}", "exit", exit)))
			rc = err_set(e, ERR_NOMEM, "no memory for the session's end");
		json_decref(row);
	}
	return rc == 0 && !*out ? err_set(e, ERR_TIMEOUT, "the record does not have the session's end yet") : rc;
}
