/*
 * fake_broker.c - a FAKE hub for tests of the HTTPS door. It is no hub: it runs
 * nothing, records nothing and believes the token "good", and "child", "other" of grants made from that one.
 *
 * Included by the test that wants it (one translation unit). Rounds are played:
 *   ["echo", TEXT...]  ends at once, stdout is the texts joined by spaces
 *   ["sleep", MS]      ends after MS milliseconds
 *   ["big", N]         ends at once with N bytes of 'x' on stdout and on stderr
 *   ["late", N, COUNT] the same once COUNT rounds are waited for
 *   command "late"     as ["late", 3000000, 3]
 *   ["cat"]            ends when stdin does, stdout is what was written
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/broker/broker_grant.h"
#include "muxd/hub/broker/broker_life.h"
#include "muxd/hub/broker/broker_record.h"
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/broker/broker_shown.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/session/listener.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define FAKE_ROUNDS 256

struct session {
	bool used, ended, stdin_open;
	struct id id;
	char exec_id[129], task[129], digest[512];
	char signal[16];
	char *out;
	size_t out_len;
	bool same_err;
	unsigned late; /* until so many are waited for */
	uint64_t ends_ns;
	uint64_t offset;
};

struct fake_wait {
	uv_timer_t timer;
	struct hub *hub;
	struct session *s;
	broker_json_done *done;
	void *arg;
	uint64_t until_ns;
};

struct hub {
	uv_loop_t *loop;
	struct conf *conf;
	enum hub_record_state record;
	bool not_ready;
	struct session rounds[FAKE_ROUNDS];
	unsigned auth_failed, waits_pending;
	const void *left; /* whose wait ends */
	char last_reason[128];
};

struct uv_loop_s *hub_loop(const struct hub *h)
{
	return h->loop;
}
const struct conf *hub_conf(const struct hub *h)
{
	return h->conf;
}
int64_t hub_now_wall(struct hub *h)
{
	(void)h;
	return clock_wall_ns();
}
enum hub_record_state hub_record_state(const struct hub *h)
{
	return h->record;
}
const char *hub_record_state_name(enum hub_record_state s)
{
	static const char *const names[] = {"ok", "starting", "silent", "disk_full", "failed"};

	return names[s];
}
bool hub_ready(const struct hub *h)
{
	return !h->not_ready && h->record == RECORD_OK;
}
void hub_stats(struct hub *h, struct hub_stats *out)
{
	memset(out, 0, sizeof(*out));
	out->auth_failed = h->auth_failed;
	out->ring_size = 1 << 20;
	out->record = h->record;
}

/* No token of an issuer was shown to it before. */
const char *broker_shown_find(struct hub *h, const char *token)
{
	(void)h, (void)token;
	return NULL;
}

const json_t *hub_witnesses(const struct hub *h)
{
	(void)h;
	return NULL;
}

json_t *hub_metrics(struct hub *h)
{
	(void)h;
	return json_array();
}

const char *session_kind_name(enum session_kind k)
{
	static const char *const names[] = {"terminal", "exec", "round", "file", "port", "mcp"};

	return names[k];
}
const char *session_state_name(enum session_state s)
{
	static const char *const names[] = {"opening", "running", "suspended", "ending", "ended"};

	return names[s];
}
const char *exit_cause_name(enum exit_cause c)
{
	static const char *const names[] = {"exit", "timeout", "killed",      "oom",
					    "lost", "unknown", "not_started", "idle_timeout"};

	return names[c];
}
int signal_parse(const char *s, int *out, struct err *e)
{
	if (strcmp(s, "INT") != 0 && strcmp(s, "SIGINT") != 0 && strcmp(s, "2") != 0)
		return err_set(e, ERR_INVAL, "unknown signal \"%.20s\"", s);
	*out = SIGINT;
	return 0;
}
const char *signal_name(int signum)
{
	return signum == SIGINT ? "INT" : "?";
}
void request_finish(struct request *rq)
{
	explicit_bzero(rq->token, sizeof(rq->token));
}
const struct id *session_id(const struct session *s)
{
	return &s->id;
}

struct session *hub_session_find(struct hub *h, const struct id *id)
{
	for (size_t i = 0; i < FAKE_ROUNDS; i++)
		if (h->rounds[i].used && id_equal(&h->rounds[i].id, id))
			return &h->rounds[i];
	return NULL;
}

json_t *session_describe(const struct session *s)
{
	char id[ID_STR_LEN];

	id_format(&s->id, id);
	return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:[],s:[s]}", "id", id, "kind", "round", "state",
			 s->ended ? "ended" : "running", "agent", "demo", "principal", "p", "principal_kind", "agent",
			 "grant_id", id, "reason", "test", "task", s->task, "attachments", "argv", "fake");
}

void hub_client_gone(struct hub *h, const char *door, const char *peer)
{
	(void)h, (void)door, (void)peer;
}

int broker_verdict(struct hub *h, const struct request *rq, const char *what, const struct err *e)
{
	(void)h, (void)rq, (void)what;
	return e->code;
}

void broker_refuse(struct hub *h, const char *token, size_t len, const struct origin *from, const char *what,
		   const struct err *e)
{
	(void)h, (void)token, (void)len, (void)from, (void)what, (void)e;
}

int broker_authenticate_held(struct hub *h, const char *token, size_t len, const struct origin *from,
			     struct request *out, struct err *e)
{
	return broker_authenticate(h, token, len, from, out, e);
}

int broker_authenticate(struct hub *h, const char *token, size_t len, const struct origin *from, struct request *out,
			struct err *e)
{
	(void)len;
	memset(out, 0, sizeof(*out));
	if (!token)
		return e->code ? e->code : err_set(e, ERR_UNAUTHENTICATED, "no grant was sent");
	bool child = strcmp(token, "child") == 0 || strcmp(token, "other") == 0;

	if (strcmp(token, "good") != 0 && strcmp(token, "weak") != 0 && !child) {
		h->auth_failed++;
		if (strcmp(token, "expired") == 0)
			return err_set(e, ERR_TOKEN_EXPIRED, "the token has expired");
		return err_set(e, ERR_TOKEN_FORGED, "the token was not signed here");
	}
	memcpy(&out->grant.id, token, 4); /* the same each time */
	if (child) {
		memcpy(&out->grant.kin.above[0], "good", 4);
		out->grant.kin.depth = 1;
		snprintf(out->grant.task, sizeof(out->grant.task), "t");
	}
	out->grant.kind = GRANT_AGENT; /* staff may have more connections */
	out->grant.scopes = strcmp(token, "weak") == 0 ? SCOPE_FILES : 0xff;
	snprintf(out->grant.agent, sizeof(out->grant.agent), "demo");
	snprintf(out->grant.principal, sizeof(out->grant.principal), child ? "p/%s" : "p", token);
	out->door = from->door;
	snprintf(out->peer, sizeof(out->peer), "%s", from->peer);
	return 0;
}

int broker_grant_check(struct hub *h, const struct grant_line *grant, struct err *e)
{
	(void)h, (void)grant, (void)e;
	return 0;
}

int64_t hub_grant_ends(const struct hub *h, const struct grant_line *l)
{
	(void)h;
	return l->expires_ns;
}

void broker_grant(struct hub *h, const struct request *rq, const struct grant_ask *ask, broker_json_done *done,
		  void *arg)
{
	struct err e = {0};

	(void)h, (void)rq, (void)ask;
	done(arg, err_set(&e, ERR_UNSUPPORTED, "nobody signs grants here"), &e, NULL);
}

int broker_in_force(struct hub *h, const struct request *rq, const char *what, struct err *e)
{
	(void)h, (void)rq, (void)what, (void)e;
	return 0;
}

static json_t *fake_stream(const struct session *s, bool empty)
{
	json_t *o = json_object();

	json_set_bytes(o, "data", "encoding", (const uint8_t *)(empty ? "" : s->out), empty ? 0 : s->out_len);
	json_object_set_new(o, "total_bytes", json_integer(empty ? 0 : (json_int_t)s->out_len));
	json_object_set_new(o, "truncated", json_false());
	json_object_set_new(o, "sha256",
			    s->ended ? json_string("0000000000000000000000000000000000000000000000000000000000000000")
				     : json_null());
	return o;
}

static json_t *fake_round(const struct session *s)
{
	char id[ID_STR_LEN];
	json_t *o, *exit = json_null();

	id_format(&s->id, id);
	if (s->ended)
		exit = s->signal[0] ? json_pack("{s:s,s:n,s:s}", "cause", "killed", "code", "signal", s->signal)
				    : json_pack("{s:s,s:i,s:n}", "cause", "exit", "code", 0, "signal");
	o = json_pack("{s:s,s:s?,s:s,s:s,s:s,s:o,s:o,s:o,s:i}", "round_id", id, "exec_id",
		      s->exec_id[0] ? s->exec_id : NULL, "task_id", s->task, "agent", "demo", "state",
		      s->ended ? "finished" : "running", "exit", exit, "stdout", fake_stream(s, false), "stderr",
		      fake_stream(s, !s->same_err), "duration_ms", 1);
	return o;
}

static void fake_big(struct session *s, const char *size, const char *late)
{
	s->late = late ? (unsigned)strtoul(late, NULL, 10) : 0;
	s->ended = !s->late;
	s->out_len = strtoul(size, NULL, 10);
	s->out = malloc(s->out_len + 1);
	memset(s->out, 'x', s->out_len);
	s->same_err = true;
}

static void fake_play(struct session *s, const struct exec_spec *spec)
{
	const char *what = spec->argv ? spec->argv[0] : "echo";

	s->ended = true;
	if (strcmp(what, "sleep") == 0) {
		s->ended = false;
		s->ends_ns = clock_boot_ns() + strtoull(spec->argv[1], NULL, 10) * NS_PER_MS;
	} else if (strcmp(what, "big") == 0) {
		fake_big(s, spec->argv[1], NULL);
	} else if (strcmp(what, "late") == 0) {
		fake_big(s, spec->argv[1], spec->argv[2]);
	} else if (spec->command && strcmp(spec->command, "late") == 0) {
		fake_big(s, "3000000", "3");
	} else if (strcmp(what, "cat") == 0) {
		s->ended = !spec->stdin_open;
		s->stdin_open = spec->stdin_open;
		s->out_len = spec->stdin_len;
		s->out = malloc(s->out_len + 1);
		if (spec->stdin_len)
			memcpy(s->out, spec->stdin_data, spec->stdin_len);
	} else if (spec->argv) {
		char *at;

		s->out = at = calloc(1, 65536);
		for (size_t i = 1; spec->argv[i]; i++)
			at += sprintf(at, "%s%s", i > 1 ? " " : "", spec->argv[i]);
		s->out_len = (size_t)(at - s->out);
	}
}

#include "tests/lib/fake_files.c"

static void fake_digest(const struct exec_spec *spec, char *out, size_t size)
{
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; spec->argv && spec->argv[i] && n < size; i++)
		n += (size_t)snprintf(out + n, size - n, "%s|", spec->argv[i]);
	if (spec->command)
		snprintf(out, size, "%s", spec->command);
}

void broker_open(struct hub *h, const struct request *rq, const struct exec_spec *spec,
		 const struct attachment_ops *ops, void *ops_arg, broker_open_done *done, void *arg)
{
	struct session *s = NULL;
	char digest[512];
	struct err e = {0};

	if (spec->file || spec->kind == SESSION_TERMINAL) {
		fake_file(h, spec, ops, ops_arg, done, arg);
		return;
	}
	if (!(rq->grant.scopes & SCOPE_ROUNDS))
		err_set(&e, ERR_FORBIDDEN, "the grant lacks scope rounds");
	else if (strcmp(spec->agent, "demo") != 0)
		err_set(&e, ERR_NOT_FOUND, "no agent %s", spec->agent);
	else if (!spec->task && !rq->grant.task[0])
		err_set(&e, ERR_TASK_REQUIRED, "no task");
	else if (h->record == RECORD_DISK_FULL)
		err_set(&e, ERR_DISK_FULL, "the record's disk is full");
	if (e.code) {
		done(arg, e.code, &e, NULL, NULL, NULL);
		return;
	}
	fake_digest(spec, digest, sizeof(digest));
	for (size_t i = 0; spec->exec_id && i < FAKE_ROUNDS; i++) {
		if (!h->rounds[i].used || strcmp(h->rounds[i].exec_id, spec->exec_id) != 0)
			continue;
		if (strcmp(h->rounds[i].digest, digest) != 0) {
			err_set(&e, ERR_CONFLICT, "exec_id %s was used for something else", spec->exec_id);
			done(arg, e.code, &e, NULL, NULL, NULL);
		} else {
			done(arg, 0, NULL, &h->rounds[i], NULL, NULL);
		}
		return;
	}
	for (size_t i = 0; !s && i < FAKE_ROUNDS; i++)
		s = h->rounds[i].used ? NULL : &h->rounds[i];
	if (!s) {
		err_limit(&e, ERR_LIMIT, &(struct err_share){"fixed.fake", "daemon", FAKE_ROUNDS, FAKE_ROUNDS, 1},
			  "the fake plays %d rounds", FAKE_ROUNDS);
		done(arg, e.code, &e, NULL, NULL, NULL);
		return;
	}
	s->used = true;
	id_new(&s->id);
	snprintf(s->exec_id, sizeof(s->exec_id), "%s", spec->exec_id ? spec->exec_id : "");
	snprintf(s->task, sizeof(s->task), "%s", spec->task ? spec->task : rq->grant.task);
	snprintf(s->digest, sizeof(s->digest), "%s", digest);
	fake_play(s, spec);
	done(arg, 0, NULL, s, NULL, false);
}

static void fake_wait_closed(uv_handle_t *t)
{
	free(t->data);
}

static void fake_wait_tick(uv_timer_t *t)
{
	struct fake_wait *w = t->data;
	json_t *o;

	if (w->hub->left == w->arg) {
		w->hub->waits_pending--;
		w->hub->left = NULL;
		w->done(w->arg, ERR_CANCELLED, NULL, NULL);
		uv_close((uv_handle_t *)t, fake_wait_closed);
		return;
	}
	for (size_t i = 0; i < FAKE_ROUNDS; i++)
		if (w->hub->rounds[i].late && w->hub->waits_pending >= w->hub->rounds[i].late)
			w->hub->rounds[i].ended = true;
	if (w->s->ends_ns && clock_boot_ns() >= w->s->ends_ns)
		w->s->ended = true;
	if (!w->s->ended && clock_boot_ns() < w->until_ns)
		return;
	o = fake_round(w->s);
	w->hub->waits_pending--;
	w->done(w->arg, 0, NULL, o);
	json_decref(o);
	uv_close((uv_handle_t *)t, fake_wait_closed);
}

void broker_round_left(struct hub *h, const struct id *round, const void *asker)
{
	(void)round;
	h->left = asker;
}

void broker_round_wait(struct hub *h, const struct request *rq, const struct id *round, uint64_t wait_ns,
		       broker_json_done *done, void *arg)
{
	struct session *s = hub_session_find(h, round);
	struct fake_wait *w;
	struct err e = {0};

	(void)rq;
	if (!s) {
		err_set(&e, ERR_NOT_FOUND, "no such round");
		done(arg, e.code, &e, NULL);
		return;
	}
	w = calloc(1, sizeof(*w));
	w->hub = h;
	w->s = s;
	w->done = done;
	w->arg = arg;
	w->until_ns = clock_boot_ns() + wait_ns;
	h->waits_pending++;
	uv_timer_init(h->loop, &w->timer);
	w->timer.data = w;
	uv_timer_start(&w->timer, fake_wait_tick, 0, 5);
}

/* As one that has ended, of which all is kept. */
void broker_round_read(struct hub *h, const struct request *rq, const struct id *round, const struct round_read *how,
		       broker_page_read *done, void *arg)
{
	struct session *s = hub_session_find(h, round);
	struct round_page page = {.offset = how->offset, .ended = true};
	struct err e = {0};

	(void)rq;
	if (!s) {
		done(arg, err_set(&e, ERR_NOT_FOUND, "no such round"), &e, NULL);
		return;
	}
	page.total = s->out_len;
	if (how->tail)
		page.offset = page.total > how->tail ? page.total - how->tail : 0;
	if (page.offset < page.total) {
		page.p = (const uint8_t *)s->out + page.offset;
		page.n =
		    page.total - page.offset < how->limit ? (size_t)(page.total - page.offset) : (size_t)how->limit;
	}
	page.eof = page.offset + page.n >= page.total;
	done(arg, 0, NULL, &page);
}

void round_listen(struct hub *h, const struct id *round, struct round_listener *l)
{
	(void)h, (void)round, (void)l;
}

void round_unlisten(struct round_listener *l)
{
	(void)l;
}

/* Nothing is at hand: whoever follows reads the record. */
void broker_round_follow(struct hub *h, const struct request *rq, const struct id *round, int stream, uint64_t offset,
			 broker_followed *done, void *arg)
{
	struct err e = {0};

	(void)h, (void)rq, (void)round, (void)stream, (void)offset;
	done(arg, err_set(&e, ERR_NOT_FOUND, "no such round"), &e);
}

ssize_t broker_round_live(struct hub *h, const struct request *rq, const struct id *round, int stream, uint64_t offset,
			  uint8_t *to, size_t max)
{
	(void)h, (void)rq, (void)round, (void)stream, (void)offset, (void)to, (void)max;
	return ERR_NOT_FOUND;
}

void broker_round_given(struct hub *h, const struct request *rq, const struct id *round, int stream, uint64_t offset,
			uint64_t n)
{
	(void)h, (void)rq, (void)round, (void)stream, (void)offset, (void)n;
}

void broker_round_grep(struct hub *h, const struct request *rq, const struct id *round, const struct round_grep *what,
		       broker_json_done *done, void *arg)
{
	struct err e = {0};

	(void)h, (void)rq, (void)round, (void)what;
	done(arg, err_set(&e, ERR_UNSUPPORTED, "nothing is looked for here"), &e, NULL);
}

void broker_round_output(struct hub *h, const struct request *rq, const struct id *round, const struct round_read *how,
			 broker_json_done *done, void *arg)
{
	struct session *s = hub_session_find(h, round);
	uint64_t offset = how->offset, limit = how->limit;
	struct err e = {0};
	size_t n;
	json_t *o;

	(void)rq;
	if (!s || offset > s->out_len) {
		err_set(&e, s ? ERR_INVAL : ERR_NOT_FOUND, s ? "offset is past the end" : "no such round");
		done(arg, e.code, &e, NULL);
		return;
	}
	n = s->out_len - offset < limit ? s->out_len - offset : limit;
	o = json_pack("{s:I,s:I,s:I,s:b,s:[]}", "offset", (json_int_t)offset, "total_bytes", (json_int_t)s->out_len,
		      "next_offset", (json_int_t)(offset + n), "eof", offset + n == s->out_len, "gaps");
	json_set_bytes(o, "data", "encoding", (const uint8_t *)s->out + offset, n);
	done(arg, 0, NULL, o);
	json_decref(o);
}

int broker_round_type(struct hub *h, const struct request *rq, const struct id *round, const void *p, size_t n,
		      struct err *e)
{
	size_t taken;

	return broker_round_stdin(h, rq, round, UINT64_MAX, p, n, false, &taken, e);
}

int broker_round_stdin(struct hub *h, const struct request *rq, const struct id *round, uint64_t offset, const void *p,
		       size_t n, bool eof, size_t *out_taken, struct err *e)
{
	struct session *s = hub_session_find(h, round);

	(void)rq;
	(void)offset;
	if (!s)
		return err_set(e, ERR_NOT_FOUND, "no such round");
	if (!s->stdin_open)
		return err_set(e, ERR_BAD_STATE, "the round's stdin is closed");
	s->out = realloc(s->out, s->out_len + n + 1);
	if (n)
		memcpy(s->out + s->out_len, p, n);
	s->out_len += n;
	*out_taken = n;
	if (eof) {
		s->ended = true;
		s->stdin_open = false;
	}
	return 0;
}

int broker_round_signal(struct hub *h, const struct request *rq, const struct id *round, int signum, struct err *e)
{
	struct session *s = hub_session_find(h, round);

	(void)rq;
	if (!s)
		return err_set(e, ERR_NOT_FOUND, "no such round");
	if (s->ended)
		return err_set(e, ERR_ENDED, "the round has ended");
	s->ended = true;
	snprintf(s->signal, sizeof(s->signal), "%s", signal_name(signum));
	return 0;
}

int broker_sessions(struct hub *h, const struct request *rq, const struct session_filter *f, json_t **out,
		    struct err *e)
{
	json_t *list = json_array();

	(void)rq;
	(void)e;
	for (size_t i = 0; i < FAKE_ROUNDS && json_array_size(list) < f->limit; i++)
		if (h->rounds[i].used && (!f->kind || strcmp(f->kind, "round") == 0))
			json_array_append_new(list, session_describe(&h->rounds[i]));
	*out = list;
	return 0;
}

/* There is no policy. */
bool broker_policy_may(struct hub *h, const struct request *rq, enum policy_op op)
{
	(void)h, (void)rq, (void)op;
	return true;
}

int broker_policy_show(struct hub *h, const struct request *rq, json_t **out, struct err *e)
{
	(void)h, (void)rq, (void)e;
	*out = json_pack("{s:n}", "version");
	return 0;
}

int broker_terminate(struct hub *h, const struct request *rq, const struct id *session, const char *reason,
		     struct err *e)
{
	struct session *s = hub_session_find(h, session);

	(void)rq;
	if (!s)
		return err_set(e, ERR_NOT_FOUND, "no such session");
	if (s->ended)
		return err_set(e, ERR_ENDED, "the session has ended already");
	snprintf(h->last_reason, sizeof(h->last_reason), "%s", reason);
	s->ended = true;
	snprintf(s->signal, sizeof(s->signal), "HUP");
	return 0;
}

void broker_agent(struct hub *h, const struct request *rq, const char *agent, broker_json_done *done, void *arg)
{
	struct err e = {0};
	json_t *o;

	(void)h;
	(void)rq;
	if (strcmp(agent, "demo") != 0) {
		err_set(&e, ERR_NOT_FOUND, "no agent %s", agent);
		done(arg, e.code, &e, NULL);
		return;
	}
	o = json_pack("{s:s,s:s,s:n,s:s,s:n,s:n,s:n,s:i,s:s,s:{s:b,s:b,s:b,s:b}}", "agent", agent, "state", "running",
		      "sandbox_id", "backend", "local", "workspace_snapshot_id", "last_activity_at", "created_at",
		      "sessions", 0, "detail", "", "enforced", "workspace_size", 1, "memory", 1, "pids", 1, "cpu", 1);
	done(arg, 0, NULL, o);
	json_decref(o);
}

/* One agent, demo, where the filter lets it through; what was asked for stands beside it. */
void broker_agents(struct hub *h, const struct request *rq, const struct life_filter *f, broker_json_done *done,
		   void *arg)
{
	bool shown = (!f->state || strcmp(f->state, "running") == 0) && (!f->after || strcmp("demo", f->after) > 0);
	json_t *o = json_pack("{s:[],s:b,s:I}", "agents", "more", 0, "limit", (json_int_t)f->limit);

	(void)h;
	(void)rq;
	if (shown)
		json_array_append_new(json_object_get(o, "agents"),
				      json_pack("{s:s,s:s}", "agent", "demo", "state", "running"));
	done(arg, 0, NULL, o);
	json_decref(o);
}

void life_call_init(struct life_call *c)
{
	memset(c, 0, sizeof(*c));
	c->options.idle_ttl_ns = c->options.ttl_ns = UINT64_MAX;
	c->how = LIFE_END_BY_REASON;
}
const char *life_verb_name(enum life_verb v)
{
	static const char *const names[] = {"resume", "stop", "terminate", "snapshot", "restore", "fork", "drop"};

	return names[v];
}
bool life_verb_needs_reason(enum life_verb v)
{
	return v == VERB_STOP || v == VERB_TERMINATE || v == VERB_RESTORE || v == VERB_DROP;
}

/* Does nothing, and answers with what it was asked for. */
void broker_life(struct hub *h, const struct request *rq, enum life_verb v, const struct life_call *c,
		 broker_json_done *done, void *arg)
{
	char snapshot[ID_STR_LEN], session[ID_STR_LEN];
	struct err e = {0};
	json_t *o;

	(void)h;
	id_format(&c->snapshot, snapshot);
	id_format(&c->session, session);
	if (!(rq->grant.scopes & SCOPE_LIFECYCLE))
		err_set(&e, ERR_FORBIDDEN, "the grant lacks scope lifecycle");
	else if (life_verb_needs_reason(v) && (!c->reason || !*c->reason))
		err_set(&e, ERR_REASON_REQUIRED, "no reason");
	else if (c->agent && strcmp(c->agent, "demo") != 0)
		err_set(&e, ERR_NOT_FOUND, "no agent %s", c->agent);
	o = json_pack("{s:s?,s:s,s:s,s:s?,s:s,s:s,s:s?,s:b,s:i,s:I,s:I,s:I,s:I,s:s?,s:s,s:s}", "agent", c->agent,
		      "state", "running", "verb", life_verb_name(v), "reason", c->reason, "snapshot_id", snapshot,
		      "session", session, "as", c->as, "writable", (int)c->writable, "how", (int)c->how, "at_ns",
		      (json_int_t)c->at_ns, "timeout_ns", (json_int_t)c->timeout_ns, "idle_ttl_ns",
		      (json_int_t)c->options.idle_ttl_ns, "ttl_ns", (json_int_t)c->options.ttl_ns, "app_id",
		      c->options.sets_app ? c->options.app_id : NULL, "cluster", c->place.cluster, "namespace",
		      c->place.ns);
	done(arg, e.code, e.code ? &e : NULL, e.code ? NULL : o);
	json_decref(o);
}

void broker_snapshots(struct hub *h, const struct request *rq, const char *agent, broker_json_done *done, void *arg)
{
	json_t *o = json_pack("{s:[]}", "snapshots");

	(void)h, (void)rq, (void)agent;
	done(arg, 0, NULL, o);
	json_decref(o);
}

void broker_log(struct hub *h, const struct request *rq, const char *agent, size_t max, broker_json_done *done,
		void *arg)
{
	json_t *o =
	    json_pack("{s:s,s:I,s:s,s:s}", "agent", agent, "bytes", (json_int_t)max, "data", "", "encoding", "utf-8");

	(void)h, (void)rq;
	done(arg, 0, NULL, o);
	json_decref(o);
}

void broker_destroy(struct hub *h, const struct request *rq, const char *agent, const char *reason, bool wipe,
		    broker_json_done *done, void *arg)
{
	json_t *o = json_pack("{s:s,s:s}", "agent", agent, "state", "stopped");
	struct err e = {0};

	(void)h;
	(void)rq;
	(void)wipe;
	if (!*reason)
		err_set(&e, ERR_REASON_REQUIRED, "no reason");
	done(arg, e.code, e.code ? &e : NULL, e.code ? NULL : o);
	json_decref(o);
}

/* Believes the token "cluster": it is anna's, and she may enter everything but "secret". */
void broker_issue_cluster(struct hub *h, const struct staff_wish *w, const struct origin *from, broker_grant_done *done,
			  void *arg)
{
	struct request rq = {.door = from->door};
	struct err e = {0};

	if (strcmp(w->token, "cluster") != 0) {
		h->auth_failed++;
		err_set(&e, ERR_UNAUTHENTICATED, "the cluster does not know this token");
	} else if (strcmp(w->agent, "secret") == 0) {
		err_set(&e, ERR_FORBIDDEN, "anna may not exec into it by the cluster's rules");
	}
	snprintf(rq.token, sizeof(rq.token), "good");
	snprintf(rq.grant.principal, sizeof(rq.grant.principal), "anna");
	snprintf(rq.grant.agent, sizeof(rq.grant.agent), "%s", w->agent);
	snprintf(rq.grant.reason, sizeof(rq.grant.reason), "%s", w->reason);
	rq.grant.scopes = w->scopes ? w->scopes : SCOPE_TERMINAL | SCOPE_ROUNDS;
	rq.grant.expires_ns = INT64_C(1700000000) * (int64_t)NS_PER_SEC + (int64_t)w->ttl_ns;
	done(arg, e.code, e.code ? &e : NULL, e.code ? NULL : &rq);
}

static inline struct hub *fake_hub_create(uv_loop_t *loop)
{
	struct hub *h = calloc(1, sizeof(*h));

	h->loop = loop;
	if (conf_create(&h->conf))
		abort();
	return h;
}

static inline void fake_hub_destroy(struct hub *h)
{
	for (size_t i = 0; i < FAKE_ROUNDS; i++)
		free(h->rounds[i].out);
	conf_destroy(h->conf);
	free(h);
}

/* Leases and the rest of control/work/: the fake has none. */
void broker_work(struct hub *h, const struct request *rq, const char *call, const char *id, json_t *body,
		 broker_json_done *done, void *arg)
{
	struct err e = {0};

	(void)h, (void)rq, (void)call, (void)id, (void)body;
	done(arg, err_set(&e, ERR_UNSUPPORTED, "the fake has no leases"), &e, NULL);
}

int hub_work_metrics(struct hub *h, struct buf *out)
{
	(void)h;
	return buf_append_str(out, "# HELP muxd_leases_active Leases that live now.\n# TYPE muxd_leases_active gauge\n"
				   "muxd_leases_active 0\n");
}

void broker_whole_name(struct hub *h, const struct request *rq, const char *name, broker_name_done *done, void *arg)
{
	(void)h, (void)rq;
	done(arg, 0, NULL, name);
}

/* Every id is an agent's name here. */
void broker_locate(struct hub *h, const struct request *rq, uint32_t scope, const char *id, const char *space,
		   broker_name_done *done, void *arg)
{
	(void)h, (void)rq, (void)scope, (void)space;
	done(arg, 0, NULL, id);
}

void broker_keeping(struct hub *h, const struct request *rq, json_t *q, const char *list, broker_json_done *done,
		    void *arg)
{
	struct err e = {0};

	(void)h, (void)rq, (void)list;
	json_decref(q);
	done(arg, err_set(&e, ERR_UNSUPPORTED, "the fake has no record"), &e, NULL);
}

const json_t *hub_alarms(const struct hub *h)
{
	(void)h;
	return NULL;
}
