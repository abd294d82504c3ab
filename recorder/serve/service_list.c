/* Lists out of the index for recorder.sock: sessions, events of the audit log, what the hub has to recover. */
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "recorder/serve/auth.h"
#include "recorder/serve/service_conn.h"

#include <string.h>

#define EXEC_ID_NS (24 * 3600 * (int64_t)NS_PER_SEC)
#define PAGE       1000
#define FOLLOW_NS  (200 * NS_PER_MS)
#define COMPARE_NS (2 * NS_PER_SEC) /* that long an answer waits for the index to be compared with the record */

static json_t *parsed(const char *text)
{
	json_t *o = NULL;
	if (text && json_parse(text, strlen(text), RING_RECORD_MAX, &o, NULL))
		return NULL;
	return o;
}

struct recover {
	struct conn *c;
	struct live *now;
	int rc;
};

static bool recover_live(void *arg, const struct live_session *s)
{
	struct recover *r = arg;
	char id[ID_STR_LEN];
	id_format(&s->id, id);
	json_t *o = json_pack("{s:s, s:[I,I,I], s:b}", "session", id, "offsets", (json_int_t)s->offsets[0],
			      (json_int_t)s->offsets[1], (json_int_t)s->offsets[2], "ended", s->ended);
	json_t *open = parsed(s->open), *exit = parsed(s->exit);
	json_object_set_new(o, "open", open ? open : json_null());
	if (exit)
		json_object_set_new(o, "exit", exit);
	r->rc = conn_send(r->c, o);
	return r->rc == 0;
}

static int recover_row(void *arg, json_t *o)
{
	struct recover *r = arg;
	struct live_session s;
	struct id id;
	const char *text = json_string_value(json_object_get(o, "session"));

	if (!text || id_parse(text, &id))
		return 0;
	if (live_get(r->now, &id, &s) == 0) {
		live_session_finish(&s);
		return 0;
	}
	json_object_set_new(o, "ended", json_true());
	return conn_send(r->c, json_incref(o));
}

int service_recover(struct conn *c, const json_t *request, struct err *e)
{
	struct recover r = {.c = c};
	(void)request;

	if (conn_house(c, e))
		return e->code;
	conn_is_hub(c);
	int rc = drain_live_now(c->s->p.drain, &r.now, e);
	if (rc)
		return rc;
	/* The copy is private: sending under its lock holds up nobody. */
	live_each(r.now, recover_live, &r);
	rc = r.rc;
	if (rc == 0)
		rc = index_recent_execs(c->index, clock_wall_ns() - EXEC_ID_NS, recover_row, &r, e);
	live_destroy(r.now);
	return rc ? rc : conn_send(c, json_pack("{s:b}", "end", 1));
}

/* The hub again, to a recorder that came after it: what it asks for others is theirs, and it is there. */
int service_hub(struct conn *c, const json_t *request, struct err *e)
{
	(void)request;
	if (conn_house(c, e))
		return e->code;
	conn_is_hub(c);
	return conn_send(c, json_pack("{s:b}", "end", 1));
}

/* A client of the hub's will not come again. */
int service_gone(struct conn *c, const json_t *request, struct err *e)
{
	(void)request;
	if (conn_house(c, e))
		return e->code;
	ledger_client_gone(c->s->ledger, &c->reader);
	return conn_send(c, json_pack("{s:b}", "end", 1));
}

/* Bytes that were given under a grant that has ended since are told of all the same. */
static int given_grant(struct conn *c, const json_t *request, bool begins, struct err *e)
{
	const char *token = "";
	int rc;

	if (begins)
		return conn_grant(c, request, e);
	if ((rc = json_need_str(request, "token", &token, e)) == 0)
		rc = auth_verify(c->s->p.auth, token, &c->grant, e);
	c->reader.grant = c->grant;
	return rc && id_is_nil(&c->grant.id) ? rc : 0;
}

/*
 * What the hub gives of a round's output as it passes goes into the account of who reads it. bytes 0: a reading begins,
 * which is audited before anything is given.
 */
int service_given(struct conn *c, const json_t *request, struct err *e)
{
	struct reading_of what = {.op = READ_OUTPUT, .outcome = "ok"};
	const char *agent = "";
	int64_t offset = 0, bytes = 0;
	struct id session;
	unsigned stream;
	int rc = conn_house(c, e);

	if (rc == 0)
		rc = read_session_id(request, &session, e);
	if (rc == 0)
		rc = read_stream(request, &stream, e);
	if (rc == 0)
		rc = json_opt_str(request, "agent", &agent, e);
	if (rc == 0)
		rc = json_opt_int(request, "offset", 0, INT64_MAX, &offset, e);
	if (rc == 0)
		rc = json_opt_int(request, "bytes", 0, INT64_MAX, &bytes, e);
	if (rc == 0)
		rc = given_grant(c, request, bytes == 0, e);
	if (rc)
		return rc;
	what.session = &session;
	what.agent = agent;
	what.sent[stream].offset = (uint64_t)offset;
	what.sent[stream].bytes = (uint64_t)bytes;
	if (bytes)
		ledger_sent(c->s->ledger, &c->reader, &what);
	else
		rc = conn_audit(c, &what, e);
	return rc ? rc : conn_send(c, json_pack("{s:b}", "end", 1));
}

/* Filters of the request, narrowed to what the grant covers. ERR_FORBIDDEN when nothing is left. */
static int read_filter(struct conn *c, const json_t *request, struct index_filter *out, struct err *e)
{
	static const struct {
		const char *key;
		size_t at;
	} texts[] = {
	    {"agent", offsetof(struct index_filter, agent)},
	    {"principal", offsetof(struct index_filter, principal)},
	    {"kind", offsetof(struct index_filter, kind)},
	    {"state", offsetof(struct index_filter, state)},
	    {"event", offsetof(struct index_filter, event)},
	    {"session", offsetof(struct index_filter, session)},
	    {"before", offsetof(struct index_filter, before)},
	    {"lease", offsetof(struct index_filter, lease)},
	    {"run", offsetof(struct index_filter, run)},
	    {"client_request", offsetof(struct index_filter, client_request)},
	};
	struct index_filter f = {.limit = PAGE};
	int64_t since = 0;
	int rc = conn_grant(c, request, e);

	for (size_t i = 0; rc == 0 && i < sizeof(texts) / sizeof(texts[0]); i++)
		rc = json_opt_str(request, texts[i].key, (const char **)(void *)((char *)&f + texts[i].at), e);
	if (rc == 0)
		rc = json_opt_int(request, "limit", 1, PAGE, &f.limit, e);
	if (rc == 0)
		rc = json_opt_int(request, "since_seq", 0, INT64_MAX, &since, e);
	if (rc)
		return rc;
	f.since = (uint64_t)since;
	if (strcmp(c->grant.agent, "*") != 0) {
		if (f.agent && !grant_covers(c->grant.agent, f.agent))
			return err_set(e, ERR_FORBIDDEN, "the grant is for agent %s", c->grant.agent);
		if (!f.agent && !grant_of_one(&c->grant))
			return err_set(e, ERR_INVAL, "name an agent: the grant is for several (%s)", c->grant.agent);
		if (!f.agent)
			f.agent = c->grant.agent;
	}
	*out = f;
	return grant_allows(&c->grant, f.agent ? f.agent : c->grant.agent, SCOPE_REPLAY, e);
}

static int read_filter_audited(struct conn *c, const json_t *request, enum ledger_op op, struct index_filter *out,
			       struct err *e)
{
	int rc = read_filter(c, request, out, e);

	if (rc)
		return rc == ERR_FORBIDDEN ? conn_refused(c, op, NULL, c->grant.agent, rc) : rc;
	conn_catch_up(c, true);
	return conn_audit(c, &(struct reading_of){.op = op, .agent = out->agent, .outcome = "ok"}, e);
}

/* Rows on their way out. */
struct listing {
	struct conn *c;
	struct index_filter f;
	char before[ID_STR_LEN]; /* sessions: the last that went out */
	uint64_t n;
	int (*out)(struct listing *l, json_t *o);
	int64_t budget;    /* bytes of rows that may go out yet; 0: any */
	bool full;         /* they did */
	json_t *one;       /* kept instead of sent */
	bool differed;     /* rows were not the recorder's, and were made again */
	uint64_t left_out; /* there was no time for that */
};

static int send_row(struct listing *l, json_t *o)
{
	return conn_send(l->c, json_incref(o));
}

static int keep_row(struct listing *l, json_t *o)
{
	json_decref(l->one);
	l->one = json_incref(o);
	return 0;
}

/* Of a session that goes on memory knows best how far it is; the index is behind, and vouches for no offsets. */
static void put_offsets(struct conn *c, json_t *o)
{
	const char *state = json_string_value(json_object_get(o, "state"));
	const char *text = json_string_value(json_object_get(o, "session"));
	struct live_session s;
	struct id id;

	if (!state || !text || (strcmp(state, "open") != 0 && strcmp(state, "ended") != 0) || id_parse(text, &id) ||
	    live_get(c->s->p.live, &id, &s))
		return;
	json_object_set_new(
	    o, "offsets",
	    json_pack("[I,I,I]", (json_int_t)s.offsets[0], (json_int_t)s.offsets[1], (json_int_t)s.offsets[2]));
	live_session_finish(&s);
}

static int session_out(void *arg, json_t *o)
{
	struct listing *l = arg;
	int rc;

	put_offsets(l->c, o);
	rc = l->out(l, o);
	text_put(l->before, sizeof(l->before), json_string_value(json_object_get(o, "session")));
	l->f.before = l->before;
	l->f.limit--;
	l->n++;
	return rc;
}

static int audit_out(void *arg, json_t *o)
{
	struct listing *l = arg;
	int rc = l->out(l, o);

	l->f.since = (uint64_t)json_integer_value(json_object_get(o, "seq"));
	l->f.limit--;
	l->n++;
	if (l->budget) {
		l->budget -= (int64_t)json_dumpb(o, NULL, 0, JSON_COMPACT);
		l->full = l->budget <= 0;
	}
	return rc ? rc : l->full;
}

typedef int index_query(struct index *ix, const struct index_filter *f, index_row *row, void *arg, struct err *e);

/*
 * What is shown is what the recorder wrote. A row that it did not write ends the query; the index is compared with the
 * record and put right, and the answer goes on behind the last row that went out.
 */
static int list_sound(struct listing *l, index_query *query, index_row *row, struct err *e)
{
	struct cutter *cutter = l->c->s->p.cutter;
	int rc;

	(void)cutter_compare(cutter, false, COMPARE_NS);
	rc = query(l->c->index, &l->f, row, l, e);
	if (rc != ERR_CORRUPT || !index_take_unsound(l->c->index))
		return rc;
	l->differed = true;
	(void)cutter_compare(cutter, true, COMPARE_NS);
	l->f.pass_over = true;
	rc = l->f.limit > 0 ? query(l->c->index, &l->f, row, l, e) : 0;
	l->left_out += index_take_unsound(l->c->index);
	return rc;
}

/* The last message; o is stolen. */
static int list_end(const struct listing *l, json_t *o)
{
	const char *warning = l->differed
				  ? "audit.db had rows that the recorder did not write: what is shown is from the "
				    "record (audit event index.differs)"
			      : l->c->behind[0] ? l->c->behind
						: NULL;

	if (o && warning)
		json_object_set_new(o, "warning", json_string(warning));
	if (o && l->left_out)
		json_object_set_new(o, "left_out", json_integer((json_int_t)l->left_out));
	if (o)
		json_object_set_new(o, "end", json_true());
	return conn_send(l->c, o);
}

int service_sessions(struct conn *c, const json_t *request, struct err *e)
{
	struct listing l = {.c = c, .out = send_row};
	int rc = read_filter_audited(c, request, READ_SESSIONS, &l.f, e);
	if (rc == 0)
		rc = list_sound(&l, index_sessions, session_out, e);
	return rc ? rc : list_end(&l, json_object());
}

int service_session(struct conn *c, const json_t *request, struct err *e)
{
	const char *text, *agent = "", *principal = "";
	struct listing l = {.c = c, .out = keep_row};
	struct id id;

	int rc = conn_grant(c, request, e);
	if (rc == 0)
		rc = json_need_str(request, "session", &text, e);
	if (rc == 0 && id_parse(text, &id))
		rc = err_set(e, ERR_INVAL, "session: this is no session id");
	if (rc)
		return rc;
	conn_catch_up(c, true);
	l.f = (struct index_filter){.session = text, .limit = 1};
	if ((rc = list_sound(&l, index_sessions, session_out, e)) != 0)
		return rc;
	if (!l.one)
		return err_set(e, ERR_NOT_FOUND, "there is no session %s in the record", text);
	(void)json_opt_str(l.one, "agent", &agent, NULL);
	(void)json_opt_str(l.one, "principal", &principal, NULL);
	bool own = read_owns(c, principal, json_object_get(l.one, "open"));

	if ((!own || grant_allows(&c->grant, agent, 0, NULL)) && grant_allows(&c->grant, agent, SCOPE_REPLAY, NULL))
		rc = conn_refused(c, READ_SESSION, &id, agent, read_denied(c, text, agent, own, e));
	else
		rc = conn_audit(
		    c, &(struct reading_of){.op = READ_SESSION, .session = &id, .agent = agent, .outcome = "ok"}, e);
	if (rc) {
		json_decref(l.one);
		return rc;
	}
	return list_end(&l, l.one);
}

/* Without a start the newest `limit` events are meant, as with tail. */
static int audit_start(struct conn *c, const json_t *request, struct index_filter *f, struct err *e)
{
	if (json_object_get(request, "since_seq"))
		return 0;
	return index_audit_start(c->index, f, &f->since, e);
}

int service_audit(struct conn *c, const json_t *request, struct err *e)
{
	struct listing l = {.c = c, .out = send_row};
	bool follow = false;

	int rc = read_filter_audited(c, request, READ_AUDIT, &l.f, e);
	int64_t limit = l.f.limit;
	if (rc == 0)
		rc = json_opt_bool(request, "follow", &follow, e);
	if (rc == 0)
		rc = json_opt_int(request, "bytes", 1, INT64_MAX, &l.budget, e);
	if (rc == 0)
		rc = audit_start(c, request, &l.f, e);
	if (rc)
		return rc;
	do {
		l.n = 0;
		l.f.limit = limit;
		l.f.pass_over = false;
		rc = list_sound(&l, index_audit, audit_out, e);
		rc = rc == 1 && l.full ? 0 : rc;
		if (rc == 0 && follow && l.n == 0) {
			struct cutter_status k;
			rc = conn_flush(c);
			cutter_status(c->s->p.cutter, &k);
			(void)cutter_wait_consumed(c->s->p.cutter, k.consumed + 1, FOLLOW_NS);
			if (rc == 0)
				rc = conn_goes_on(c, request, e);
		}
	} while (rc == 0 && follow);
	return rc ? rc
		  : list_end(&l, json_pack("{s:I, s:b}", "last_seq", (json_int_t)l.f.since, "more",
					   (int)(l.full || l.f.limit <= 0)));
}

int service_audit_head(struct conn *c, const json_t *request, struct err *e)
{
	struct index_filter f = {0};
	int rc = read_filter_audited(c, request, READ_AUDIT, &f, e);

	return rc ? rc : conn_send_head(c, e);
}
