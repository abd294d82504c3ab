#include "base/clock.h"
#include "base/err.h"
#include "recorder/chain/chain.h"
#include "recorder/chain/chain_text.h"
#include "recorder/serve/service_conn.h"

#include <string.h>
#include <unistd.h>

#define FLUSH_NS   (30 * NS_PER_SEC)
#define DIGESTS_NS (1 * NS_PER_SEC)

/* Peers that may ask how things are: the daemon's own processes and root. */
static bool is_house(const struct conn *c)
{
	return c->uid == 0 || c->uid == getuid() || c->uid == c->s->p.net_uid;
}

static int need_house_or_grant(struct conn *c, const json_t *request, struct err *e)
{
	return is_house(c) ? 0 : conn_grant(c, request, e);
}

static const char *state_name(enum ring_reader_state s)
{
	static const char *const names[] = {"starting", "ok", "disk_full", "failed"};
	return names[s];
}

static int service_status(struct conn *c, const json_t *request, struct err *e)
{
	struct drain_status d;
	struct cutter_status k;
	char last[32];

	int rc = need_house_or_grant(c, request, e);
	if (rc)
		return rc;
	drain_status(c->s->p.drain, &d);
	cutter_status(c->s->p.cutter, &k);
	uint64_t ago = d.last_commit_ns ? clock_boot_ns() - d.last_commit_ns : 0;
	clock_format_utc(clock_wall_ns() - (int64_t)ago, last, sizeof(last));
	json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "state", state_name(d.state), "message",
			      d.message, "durable_seq", (json_int_t)(d.durable.lsn - 1), "backlog_bytes",
			      (json_int_t)d.backlog, "ring_size", (json_int_t)d.ring_size, "free_bytes",
			      (json_int_t)d.free_bytes, "commits", (json_int_t)d.commits, "bytes", (json_int_t)d.bytes);
	json_object_set_new(o, "last_commit_at", d.last_commit_ns ? json_string(last) : json_null());
	json_object_set_new(
	    o, "damaged",
	    json_pack("{s:I, s:I}", "count", (json_int_t)d.damages, "position", (json_int_t)d.damage_position));
	json_object_set_new(o, "live_sessions", json_integer((json_int_t)live_count(c->s->p.live)));
	json_object_set_new(o, "cutter",
			    json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "state", k.state, "message", k.message,
				      "debt_bytes", (json_int_t)k.debt, "sealed", (json_int_t)k.sealed, "open",
				      (json_int_t)k.open, "refused_records", (json_int_t)k.refused));
	json_object_set_new(o, "end", json_true());
	return conn_send(c, o);
}

static int service_head(struct conn *c, const json_t *request, struct err *e)
{
	int rc = need_house_or_grant(c, request, e);

	return rc ? rc : conn_send_head(c, e);
}

/* For a hub that was restarted, of rounds that ran on: what it had counted itself until then. */
static int service_digests(struct conn *c, const json_t *request, struct err *e)
{
	const json_t *said = json_object_get(request, "totals");
	uint8_t digests[STREAM_COUNT][32];
	uint64_t totals[STREAM_COUNT];
	char text[STREAM_COUNT][65];
	struct id session;

	int rc = conn_house(c, e);
	if (rc == 0)
		rc = read_session_id(request, &session, e);
	if (rc == 0 && json_array_size(said) != STREAM_COUNT)
		rc = err_set(e, ERR_INVAL, "totals: three numbers");
	for (size_t i = 0; rc == 0 && i < STREAM_COUNT; i++)
		totals[i] = (uint64_t)json_integer_value(json_array_get(said, i));
	if (rc == 0)
		rc = cutter_digests(c->s->p.cutter, &session, totals, DIGESTS_NS, digests, e);
	if (rc)
		return rc;
	for (size_t i = 0; i < STREAM_COUNT; i++)
		chain_hex(digests[i], sizeof(digests[i]), text[i]);
	return conn_send(
	    c, json_pack("{s:s, s:s, s:b}", "stdout", text[STREAM_OUTPUT], "stderr", text[STREAM_STDERR], "end", 1));
}

static int service_flush(struct conn *c, const json_t *request, struct err *e)
{
	const char *text = NULL;
	struct id session;
	struct chain_head head;
	uint64_t lsn = 0;
	int64_t timeout_ms = FLUSH_NS / NS_PER_MS;

	int rc = need_house_or_grant(c, request, e);
	if (rc == 0)
		rc = json_opt_str(request, "session", &text, e);
	if (rc == 0)
		rc = json_opt_int(request, "timeout_ms", 0, 600000, &timeout_ms, e);
	if (rc == 0 && text && id_parse(text, &session))
		rc = err_set(e, ERR_INVAL, "session: this is no session id");
	if (rc)
		return rc;
	uint64_t timeout = (uint64_t)timeout_ms * NS_PER_MS;
	if (drain_flush(c->s->p.drain, timeout, &lsn))
		return err_set(e, ERR_TIMEOUT, "the record did not become durable in time");
	if ((rc = cutter_wait(c->s->p.cutter, lsn, text ? &session : NULL, timeout, e)) != 0 ||
	    (rc = cutter_head(c->s->p.cutter, &head, e)) != 0)
		return rc;
	return conn_send(c, json_pack("{s:I, s:b}", "durable_seq", (json_int_t)(lsn - 1), "end", 1));
}

#define HEADS_DEFAULT 200
#define HEADS_MAX     500

static int service_carrier(struct conn *c, const json_t *request, struct err *e)
{
	(void)request;
	if (c->is_hub)
		return conn_forbidden(c, c->op, "the hub carries no heads", e);
	if (conn_house(c, e))
		return e->code;
	c->is_carrier = true;
	return conn_send(c, json_pack("{s:b}", "end", 1));
}

static int send_end(struct conn *c, json_t *o)
{
	if (o && json_object_set_new(o, "end", json_true())) {
		json_decref(o);
		o = NULL;
	}
	return conn_send(c, o);
}

static int carried_news(struct conn *c, const json_t *request, struct err *e)
{
	(void)request;
	(void)e;
	return send_end(c, witnesses_news(c->s->p.witnesses));
}

static int carried_head(struct conn *c, const json_t *request, struct err *e)
{
	(void)request;
	return conn_send_head(c, e);
}

/* From which entry on is for the witness to say: one that merges the log wants all of it. */
static int carried_entries(struct conn *c, const json_t *request, struct err *e)
{
	int64_t after = 0, until = 0;
	json_t *o = NULL;
	int rc = 0;

	if (!witnesses_take_entries(c->s->p.witnesses))
		return conn_forbidden(c, "entries", "no witness takes entries of the log", e);
	rc = json_need_int(request, "after", 0, INT64_MAX - 1, &after, e);
	if (rc == 0)
		rc = json_need_int(request, "until", 0, INT64_MAX, &until, e);
	if (rc == 0)
		rc = keeper_batch(c->s->p.keeper, (uint64_t)after, (uint64_t)until, &o, e);
	return rc ? rc : send_end(c, o);
}

static int carried_receipt(struct conn *c, const json_t *request, struct err *e)
{
	const char *name = "";
	int rc = json_need_str(request, "witness", &name, e);

	if (rc == 0)
		rc = witnesses_receipt(c->s->p.witnesses, name, json_object_get(request, "head"),
				       json_object_get(request, "receipt"), e);
	return rc ? rc : conn_send(c, json_pack("{s:b}", "end", 1));
}

static int carried_failed(struct conn *c, const json_t *request, struct err *e)
{
	const char *name = "", *why = "";
	int rc = json_need_str(request, "witness", &name, e);

	if (rc == 0)
		rc = json_need_str(request, "message", &why, e);
	if (rc == 0)
		witnesses_failed(c->s->p.witnesses, name, why);
	return rc ? rc : conn_send(c, json_pack("{s:b}", "end", 1));
}

static int carried_known(struct conn *c, const json_t *request, struct err *e)
{
	const char *name = "";
	int rc = json_need_str(request, "witness", &name, e);

	if (rc == 0)
		rc = witnesses_known(c->s->p.witnesses, name, json_object_get(request, "head"), e);
	return rc ? rc : conn_send(c, json_pack("{s:b}", "end", 1));
}

/* A carrier's questions; it may ask no others. */
static int service_carried(struct conn *c, const char *name, const json_t *request, struct err *e)
{
	static const struct {
		const char *name;
		service_op *op;
	} ops[] = {
	    {"news", carried_news},       {"head", carried_head},     {"entries", carried_entries},
	    {"receipt", carried_receipt}, {"failed", carried_failed}, {"known", carried_known},
	};

	for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
		if (strcmp(ops[i].name, name) == 0)
			return ops[i].op(c, request, e);
	return conn_forbidden(c, name, "op: a carrier of heads may not ask that", e);
}

/* ---- the hub */

static int service_witnesses(struct conn *c, const json_t *request, struct err *e)
{
	(void)request;
	if (conn_house(c, e))
		return e->code;
	return conn_send(c, json_pack("{s:o, s:b}", "witnesses", witnesses_status(c->s->p.witnesses), "end", 1));
}

/* The sender of a witness's statement proves its origin by the signatures; a grant has nothing to do with it. */
static int service_witness_keep(struct conn *c, const json_t *request, struct err *e)
{
	json_t *o = NULL;

	if (conn_house(c, e))
		return e->code;
	int rc = keeper_take(c->s->p.keeper, json_object_get(request, "question"), &o, e);
	return rc ? rc : send_end(c, o);
}

static int service_witness_heads(struct conn *c, const json_t *request, struct err *e)
{
	int64_t limit = HEADS_DEFAULT;
	const char *log_id = "";
	json_t *o = NULL;

	if (conn_house(c, e))
		return e->code;
	int rc = json_need_str(request, "log_id", &log_id, e);
	if (rc == 0)
		rc = json_opt_int(request, "limit", 1, HEADS_MAX, &limit, e);
	if (rc == 0)
		rc = keeper_heads(c->s->p.keeper, log_id, (size_t)limit, &o, e);
	return rc ? rc : send_end(c, o);
}

/* ---- all of them */

int service_dispatch(struct conn *c, const json_t *request, struct err *e)
{
	static const struct {
		const char *name;
		service_op *op;
	} ops[] = {
	    {"recover", service_recover},   {"sessions", service_sessions},   {"session", service_session},
	    {"refers", service_refers},     {"events", service_events},       {"output", service_output},
	    {"audit", service_audit},       {"recording", service_recording}, {"page", service_page},
	    {"keyframe", service_keyframe}, {"head", service_head},           {"status", service_status},
	    {"flush", service_flush},       {"gone", service_gone},           {"read", service_read},
	    {"hub", service_hub},           {"retention", service_retention}, {"retention.apply", service_apply},
	    {"holds", service_holds},       {"hold.add", service_hold_add},   {"hold.release", service_hold_release},
	    {"digests", service_digests},   {"carrier", service_carrier},     {"witnesses", service_witnesses},
	    {"keep", service_witness_keep}, {"kept", service_witness_heads},  {"audit.head", service_audit_head},
	    {"snapshot", service_snapshot}, {"grep", service_grep},           {"given", service_given},
	};
	const char *name;
	int rc = json_need_str(request, "op", &name, e);
	if (rc)
		return rc;
	memset(&c->grant, 0, sizeof(c->grant));
	if (c->is_carrier)
		return service_carried(c, name, request, e);
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (strcmp(ops[i].name, name) == 0) {
			c->op = ops[i].name;
			service_conn_origin(c, request);
			/* who asks is known before there is anything to look at, or the hub would ask for itself alone
			 */
			rc = ops[i].op == service_hub ? 0 : conn_index(c, e);
			bool damaged = rc == ERR_CORRUPT;
			if (rc == 0)
				rc = ops[i].op(c, request, e);
			if (damaged || (c->index && index_damaged(c->index)))
				cutter_index_lost(c->s->p.cutter);
			return rc;
		}
	}
	return err_set(e, ERR_INVAL, "op: the recorder does not know this question");
}
