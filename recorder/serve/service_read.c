/* A session's events for recorder.sock, at once, as a stream and by pages, after it is known who may read. */
#include "base/clock.h"
#include "base/err.h"
#include "recorder/chain/chain_text.h"
#include "recorder/draw/keyframes.h"
#include "recorder/format/event.h"
#include "recorder/format/summary.h"
#include "recorder/serve/service_conn.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLLOW_NS (200 * NS_PER_MS)

int read_session_id(const json_t *request, struct id *out, struct err *e)
{
	const char *text;
	int rc = json_need_str(request, "session", &text, e);
	if (rc == 0 && id_parse(text, out))
		rc = err_set(e, ERR_INVAL, "session: this is no session id");
	return rc;
}

/* The program of an MCP server or a service serves many: it is nobody's own, not even of whoever needed it first. */
bool read_owns(const struct conn *c, const char *principal, const json_t *open)
{
	const char *run = "", *task = "", *role = json_get_text(json_object_get(open, "mcp"), "role");

	(void)json_opt_str(open, "run_id", &run, NULL);
	(void)json_opt_str(open, "task", &task, NULL);
	return strcmp(role, "server") != 0 && !*json_get_text(json_object_get(open, "service"), "name") &&
	       grant_owns(&c->grant, principal, *run, task);
}

static bool owns_source(const struct conn *c, const struct source_info *info)
{
	json_t *open = NULL;
	bool yes;

	if (strcmp(info->principal, c->grant.principal) != 0 ||
	    json_parse(info->open, strlen(info->open), RING_RECORD_MAX, &open, NULL))
		return false;
	yes = read_owns(c, info->principal, open);
	json_decref(open);
	return yes;
}

bool read_own(const struct conn *c, const struct source_info *info)
{
	const char *agent = info->agent[0] ? info->agent : "*";

	return owns_source(c, info) && grant_allows(&c->grant, agent, 0, NULL) == 0 &&
	       c->grant.scopes & SCOPES_READ_OWN;
}

/* Replay covers everything of an agent; one's own session can be read with whatever opened it. */
static int may_read(struct conn *c, const struct source_info *info, bool own_will_do, struct err *e)
{
	const char *agent = info->agent[0] ? info->agent : "*";
	char id[ID_STR_LEN];

	if (grant_allows(&c->grant, agent, SCOPE_REPLAY, NULL) == 0)
		return 0;
	if (own_will_do && read_own(c, info))
		return 0;
	id_format(&info->session, id);
	return read_denied(c, id, agent, owns_source(c, info), e);
}

int read_denied(struct conn *c, const char *session, const char *agent, bool own, struct err *e)
{
	if (grant_allows(&c->grant, agent, 0, NULL) == 0 &&
	    (own || c->grant.scopes & (SCOPE_OBSERVE | SCOPE_DRIVE | SCOPE_ADMIN)))
		return grant_allows(&c->grant, agent, SCOPE_REPLAY, e);
	/* as of one that was never there: whose it is, and that it is, is not told to everybody */
	return err_set(e, ERR_NOT_FOUND, "there is no session %s in the record", session);
}

int read_open(struct conn *c, const struct id *session, struct source **out, struct err *e)
{
	struct source_place place;
	struct trunc_rule rule;
	struct source *s = NULL;
	conn_place(c, &place);
	int rc = source_create(&place, session, &s, e);
	/* A sealed one is what it will always be; of others what was journaled before the question is in the answer. */
	if (rc || !source_info(s)->sealed) {
		source_destroy(s);
		conn_catch_up(c, false);
		rc = source_create(&place, session, &s, e);
	}
	if (rc)
		return rc;
	*out = s;
	cutter_rule(c->s->p.cutter, source_info(*out)->open, &rule);
	source_set_rule(*out, &rule);
	return 0;
}

struct reading_of read_of(enum ledger_op op, const struct source_info *info)
{
	return (struct reading_of){.op = op, .session = &info->session, .agent = info->agent, .outcome = "ok"};
}

int read_check(struct conn *c, enum ledger_op op, struct source *s, bool own_will_do, struct err *e)
{
	const struct source_info *info = source_info(s);
	struct reading_of what = read_of(op, info);
	int rc = may_read(c, info, own_will_do, e);

	return rc ? conn_refused(c, op, &info->session, info->agent, rc) : conn_audit(c, &what, e);
}

static int read_send_event(struct conn *c, struct source *s, enum ledger_op op, const struct ring_record *rec,
			   size_t *out_bytes)
{
	struct event_context alone = {0};
	struct reading_of what = read_of(op, source_info(s));

	if (!c->scratch && !(c->scratch = malloc(EVENT_HEADER_MAX + RING_RECORD_MAX)))
		return ERR_NOMEM;
	if (rec->len > RING_RECORD_MAX)
		return ERR_INTERNAL;
	size_t n = event_encode(&alone, rec, c->scratch);
	memcpy(c->scratch + n, rec->payload, rec->len);
	*out_bytes = n + rec->len;
	if (rec->type == RING_DATA && rec->stream < LEDGER_STREAMS) {
		what.sent[rec->stream].offset = rec->offset;
		what.sent[rec->stream].bytes = rec->len;
		ledger_sent(c->s->ledger, &c->reader, &what);
	}
	return conn_send_bytes(c, 0, c->scratch, n + rec->len);
}

static int send_events(struct conn *c, struct source *s, const json_t *request, bool follow, struct err *e)
{
	struct segment_tail durable;
	struct ring_record rec;
	size_t bytes;
	int rc;

	for (;;) {
		drain_durable(c->s->p.drain, &durable);
		while ((rc = source_next(s, &rec, e)) == 1) {
			if ((rc = read_send_event(c, s, READ_EVENTS, &rec, &bytes)) != 0)
				return rc;
		}
		if (rc || !follow || source_info(s)->ended)
			return rc;
		if ((rc = conn_flush(c)) != 0)
			return rc;
		(void)drain_wait(c->s->p.drain, durable.lsn, FOLLOW_NS, NULL);
		if ((rc = conn_goes_on(c, request, e)) != 0)
			return rc;
	}
}

json_t *read_head(const struct source_info *info)
{
	char id[ID_STR_LEN];
	json_t *open = NULL;
	id_format(&info->session, id);
	if (json_parse(info->open, strlen(info->open), RING_RECORD_MAX, &open, NULL))
		open = json_object();
	return json_pack("{s:s, s:s, s:o}", "session", id, "state", info->sealed ? "sealed" : "open", "open", open);
}

int service_events(struct conn *c, const json_t *request, struct err *e)
{
	struct source *s = NULL;
	struct id session;
	int64_t from = 0;
	bool follow = false;

	int rc = conn_grant(c, request, e);
	if (rc == 0)
		rc = read_session_id(request, &session, e);
	if (rc == 0)
		rc = json_opt_int(request, "from_ns", 0, INT64_MAX, &from, e);
	if (rc == 0)
		rc = json_opt_bool(request, "follow", &follow, e);
	if (rc || (rc = read_open(c, &session, &s, e)) != 0)
		return rc;
	rc = read_check(c, READ_EVENTS, s, false, e);
	if (rc == 0 && from)
		rc = source_seek_time(s, (uint64_t)from, e);
	if (rc == 0)
		rc = conn_send(c, read_head(source_info(s)));
	if (rc == 0)
		rc = send_events(c, s, request, follow, e);
	if (rc == 0)
		rc = conn_send(c, json_pack("{s:b, s:b}", "end", 1, "ended", source_info(s)->ended));
	source_destroy(s);
	return rc;
}

/* Whoever can open a sealed recording's file says so first, and is told of in the audit log as one who read it all. */
int service_read(struct conn *c, const json_t *request, struct err *e)
{
	struct source *s = NULL;
	struct reading_of what;
	struct id session;
	int rc = conn_grant(c, request, e);

	if (rc == 0)
		rc = read_session_id(request, &session, e);
	if (rc || (rc = read_open(c, &session, &s, e)) != 0)
		return rc;
	what = read_of(READ_FILE, source_info(s));
	for (int i = 0; i < LEDGER_STREAMS; i++)
		what.sent[i].bytes = source_info(s)->totals[i];
	rc = may_read(c, source_info(s), false, e);
	rc = rc ? conn_refused(c, READ_FILE, &session, source_info(s)->agent, rc) : conn_audit(c, &what, e);
	source_destroy(s);
	return rc ? rc : conn_send(c, json_pack("{s:b}", "end", 1));
}

int read_stream(const json_t *request, unsigned *out, struct err *e)
{
	static const struct {
		const char *name;
		unsigned stream;
	} names[] = {
	    {"input", STREAM_INPUT}, {"output", STREAM_OUTPUT}, {"stdout", STREAM_OUTPUT}, {"stderr", STREAM_STDERR}};
	const char *text = "output";
	int rc = json_opt_str(request, "stream", &text, e);
	if (rc)
		return rc;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(names[i].name, text) == 0) {
			*out = names[i].stream;
			return 0;
		}
	}
	return err_set(e, ERR_INVAL, "stream: one of input, output, stdout, stderr");
}

/* Who may attach to a terminal sees its screen, who may watch a round its output: the hub checks that, of a session
 * that runs. */
bool read_live(const struct conn *c, const struct source_info *info)
{
	const char *agent = info->agent[0] ? info->agent : "*";
	bool hub = c->uid == c->s->p.net_uid || c->uid == getuid();

	return hub && !info->ended &&
	       (grant_allows(&c->grant, agent, SCOPE_OBSERVE, NULL) == 0 ||
		grant_allows(&c->grant, agent, SCOPE_DRIVE, NULL) == 0);
}

int read_see(struct conn *c, const struct source_info *info, bool live, struct err *e)
{
	if (live && read_live(c, info))
		return 0;
	return may_read(c, info, true, e);
}

#define READINGS_MAX 8
#define PAGE_MAX     ((int64_t)1024 * 1024)

struct reading {
	struct reading *next; /* the last used first */
	struct source *source;
	struct id grant;
	uint64_t seq;           /* of the last event handed out */
	struct ring_record rec; /* taken from the source, not handed out */
	bool full;
};

static void reading_destroy(struct reading *r)
{
	source_destroy(r->source);
	free(r);
}

void conn_forget_readings(struct conn *c)
{
	struct reading *r;

	while ((r = c->readings)) {
		c->readings = r->next;
		reading_destroy(r);
	}
}

static void service_pages_keep(struct conn *c, struct reading *r)
{
	struct reading **at = &c->readings;

	r->next = c->readings;
	c->readings = r;
	for (int i = 0; *at && i < READINGS_MAX; i++)
		at = &(*at)->next;
	if (*at) {
		reading_destroy(*at);
		*at = NULL;
	}
}

/* Takes out the one that stands where this page begins. */
static struct reading *kept(struct conn *c, const struct id *session, uint64_t seq)
{
	struct reading *r, **at;

	for (at = &c->readings; (r = *at); at = &r->next)
		if (r->seq == seq && id_equal(&source_info(r->source)->session, session) &&
		    id_equal(&r->grant, &c->grant.id)) {
			*at = r->next;
			return r;
		}
	return NULL;
}

static int service_pages_begin(struct conn *c, const struct id *session, uint64_t from_ns, uint64_t seq,
			       struct reading **out, struct err *e)
{
	struct reading *r = calloc(1, sizeof(*r));
	int rc = r ? read_open(c, session, &r->source, e) : err_set(e, ERR_NOMEM, "out of memory");

	if (rc == 0)
		rc = read_check(c, READ_PAGE, r->source, false, e);
	if (rc == 0 && from_ns)
		rc = source_seek_time(r->source, from_ns, e);
	else if (rc == 0 && seq)
		rc = source_seek_seq(r->source, seq, e);
	if (rc) {
		if (r)
			reading_destroy(r);
		return rc;
	}
	r->grant = c->grant.id;
	r->seq = seq;
	*out = r;
	return 0;
}

/* Events of one sequence are never on two pages: the next page begins behind a sequence. */
static int send_page(struct conn *c, struct reading *r, size_t limit, struct err *e)
{
	uint64_t after = r->seq;
	size_t sent = 0, n = 0;
	int rc = 1;

	while (rc == 1) {
		if (!r->full && (rc = source_next(r->source, &r->rec, e)) != 1)
			break;
		r->full = true;
		if (sent >= limit && r->rec.seq != r->seq)
			break;
		r->full = false;
		if (r->rec.seq <= after)
			continue; /* of the page before, where this one did not go on from it */
		rc = read_send_event(c, r->source, READ_PAGE, &r->rec, &n) ? ERR_EOF : 1;
		sent += n;
		r->seq = r->rec.seq;
	}
	return rc < 0 ? rc : 0;
}

static json_t *u64_text(uint64_t v)
{
	return json_sprintf("%llu", (unsigned long long)v);
}

static json_t *page_end(const struct reading *r)
{
	return json_pack("{s:b, s:o, s:b, s:b}", "end", 1, "next_seq", u64_text(r->seq), "more", r->full, "ended",
			 source_info(r->source)->ended && !r->full);
}

static int opt_u64(const json_t *request, const char *key, uint64_t *out, struct err *e)
{
	int64_t v = 0;
	int rc = json_opt_int(request, key, 0, INT64_MAX, &v, e);

	*out = (uint64_t)v;
	return rc;
}

int service_page(struct conn *c, const json_t *request, struct err *e)
{
	struct reading *r = NULL;
	struct id session;
	uint64_t from = 0, seq = 0;
	int64_t limit = PAGE_MAX;
	int rc = conn_grant(c, request, e);

	if (rc == 0)
		rc = read_session_id(request, &session, e);
	if (rc == 0)
		rc = opt_u64(request, "from_ns", &from, e);
	if (rc == 0)
		rc = opt_u64(request, "after_seq", &seq, e);
	if (rc == 0)
		rc = json_opt_int(request, "limit", 1, PAGE_MAX, &limit, e);
	if (rc)
		return rc;
	if (seq && (r = kept(c, &session, seq))) {
		conn_catch_up(c, false);
		rc = read_check(c, READ_PAGE, r->source, false, e);
	} else {
		rc = service_pages_begin(c, &session, from, seq, &r, e);
	}
	if (rc == 0)
		rc = send_page(c, r, (size_t)limit, e);
	if (rc == 0)
		rc = conn_send(c, page_end(r));
	if (rc == 0 && r->seq)
		service_pages_keep(c, r);
	else if (r)
		reading_destroy(r);
	return rc;
}

/* An unsealed recording says when it began; the rest is still being made. */
static int begun(struct source *s, json_t **out, struct err *e)
{
	struct ring_record rec;
	int rc = source_next(s, &rec, e);

	if (rc < 0)
		return rc;
	*out = json_object();
	if (rc == 1)
		json_object_set_new(*out, "first_ns", u64_text(rec.boot_ns));
	return 0;
}

int service_recording(struct conn *c, const json_t *request, struct err *e)
{
	json_t *o = NULL, *head;
	struct source *s = NULL;
	struct id session;
	int rc = conn_grant(c, request, e);

	if (rc == 0)
		rc = read_session_id(request, &session, e);
	if (rc == 0)
		rc = read_open(c, &session, &s, e);
	if (rc)
		return rc;
	rc = read_check(c, READ_RECORDING, s, false, e);
	if (rc == 0)
		rc = source_info(s)->sealed && source_recording(s) ? summary_make(source_recording(s), &o, e)
								   : begun(s, &o, e);
	if (rc == 0) {
		head = read_head(source_info(s));
		json_object_update(o, head);
		json_decref(head);
		json_object_set_new(o, "end", json_true());
		rc = conn_send(c, json_incref(o));
	}
	json_decref(o);
	source_destroy(s);
	return rc;
}

/*
 * The screen at or before a moment, as the log vouches for it; what is not as it was drawn is named, goes, and is drawn
 * again. 1, 0: none so early, ERR_NOT_FOUND: there are none (yet).
 */
static int find_screen(struct conn *c, const struct id *session, uint64_t at, struct keyframe *k, struct buf *data)
{
	char path[FILE_PATH_MAX], keys[FILE_PATH_MAX], root[65] = "";
	uint8_t want[DIGEST_LEN];
	struct err e = {0};
	int rc;

	if (recording_find(c->s->dir, session, path, sizeof(path), NULL) ||
	    index_keyframes(c->index, session, root, NULL) || !root[0] || chain_unhex(root, want, DIGEST_LEN))
		return ERR_NOT_FOUND;
	rc = keyframes_find(path, session, want, at, k, data, &e);
	if (rc != ERR_CORRUPT)
		return rc;
	cutter_tell(c->s->p.cutter, "keyframes.differ", session, e.message);
	if (keyframes_path(path, keys, NULL) == 0)
		(void)unlink(keys);
	return ERR_NOT_FOUND;
}

/* How a player begins in the middle: the screen at or before a moment. Without keyframes (yet) it begins at the start.
 */
int service_keyframe(struct conn *c, const json_t *request, struct err *e)
{
	struct source *s = NULL;
	struct keyframe k;
	struct id session;
	uint64_t at = 0;
	struct buf data;
	int rc = conn_grant(c, request, e), found = 0;

	buf_init(&data, KEYFRAME_DATA_MAX);
	if (rc == 0)
		rc = read_session_id(request, &session, e);
	if (rc == 0)
		rc = opt_u64(request, "at_ns", &at, e);
	if (rc == 0)
		rc = read_open(c, &session, &s, e);
	if (rc == 0)
		rc = read_check(c, READ_KEYFRAME, s, false, e);
	if (rc == 0 && source_info(s)->sealed)
		found = find_screen(c, &session, at, &k, &data);
	if (found == ERR_NOT_FOUND && c->s->p.keyframer)
		keyframer_want(c->s->p.keyframer, &session);
	if (rc == 0 && found == 1)
		rc = conn_send(c, json_pack("{s:o, s:o, s:i, s:i}", "at_ns", u64_text(k.ns), "seq", u64_text(k.seq),
					    "cols", (int)k.cols, "rows", (int)k.rows));
	if (rc == 0 && found == 1)
		rc = conn_send_bytes(c, 0, buf_ptr(&data), buf_len(&data));
	if (rc == 0)
		rc = conn_send(
		    c, json_pack("{s:b, s:b, s:b}", "end", 1, "found", found == 1, "waits", found == ERR_NOT_FOUND));
	buf_finish(&data);
	source_destroy(s);
	return rc;
}
