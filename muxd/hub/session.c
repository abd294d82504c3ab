#define LOG_SUBSYS "session"
#include "muxd/hub/session.h"

#include "control/life/life.h"
#include "muxd/base/clock.h"
#include "muxd/base/err.h"
#include "muxd/base/log.h"
#include "muxd/hub/screen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A killed program that neither dies nor is reported gone: the session ends without it. */
#define KILL_DEADLINE_NS (15 * NS_PER_SEC)

void session_set_state(struct session *s, enum session_state state)
{
	struct log_ids ids = {.session = s->id_text,
			      .agent = s->agent->name,
			      .lease = s->launch.lease[0] ? s->launch.lease : NULL,
			      .run = s->launch.run[0] ? s->launch.run : NULL};

	log_debug(&ids, "%s: %s -> %s", session_kind_name(s->kind), session_state_name(s->state),
		  session_state_name(state));
	s->state = state;
}

static void init_streams(struct session *s, const uint64_t at[STREAM_COUNT])
{
	for (int i = 0; i < STREAM_COUNT; i++) {
		stream_init(&s->stream[i], at[i]);
		buf_init(&s->backlog[i], 2 * SESSION_WINDOW);
		s->window[i] = s->acked[i] = at[i];
	}
	s->in_offset = at[STREAM_INPUT];
}

static struct session *allocate(struct agent *a, const struct id *id)
{
	struct session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->hub = a->hub;
	s->agent = a;
	s->id = *id;
	id_format(id, s->id_text);
	TAILQ_INIT(&s->attachments);
	LIST_INIT(&s->waiters);
	return s;
}

static void enlist(struct session *s)
{
	HASH_ADD(hh, s->hub->sessions, id, sizeof(s->id), s);
	HASH_ADD(hh_channel, s->agent->channels, channel, sizeof(s->channel), s);
	TAILQ_INSERT_HEAD(&s->hub->order, s, order);
	s->hub->stats.sessions_live[s->kind]++;
}

static int init_keeps(struct session *s)
{
	int rc = 0;

	for (int i = STREAM_OUTPUT; i < STREAM_COUNT && !rc && s->kind == SESSION_ROUND; i++)
		rc = keep_init(&s->keep[i], s->launch.head, s->launch.tail);
	return rc;
}

int session_create(struct agent *a, const struct request *rq, enum session_kind kind, struct launch *launch,
		   struct session **out, struct err *e)
{
	static const uint64_t zero[STREAM_COUNT];
	struct session *s = NULL;
	struct id id;

	sessions_trim(a->hub);
	if (id_new(&id) || !(s = allocate(a, &id)))
		return err_set(e, ERR_NOMEM, "no memory for a session");
	s->kind = kind;
	s->state = SESSION_OPENING;
	s->grant = rq->grant;
	s->door = rq->door;
	memcpy(s->peer, rq->peer, sizeof(s->peer));
	memcpy(s->snapshot_id, a->info.snapshot_id, sizeof(s->snapshot_id));
	if (s->hub->p.life) /* one may have been taken since the stream was asked for */
		life_current(s->hub->p.life, a->name, s->snapshot_id);
	s->channel = ++a->next_channel;
	s->opened_wall_ns = hub_now_wall(s->hub);
	s->opened_boot_ns = clock_boot_ns();
	init_streams(s, zero);
	s->launch = *launch;
	memset(launch, 0, sizeof(*launch));
	enlist(s);
	session_note_size(s);
	s->hub->stats.sessions_opened[kind]++;
	if (init_keeps(s)) {
		session_free(s);
		return err_set(e, ERR_NOMEM, "no memory for a session");
	}
	*out = s;
	return 0;
}

void session_free(struct session *s)
{
	if (!s)
		return;
	screen_close(s);
	if (s->state != SESSION_ENDED)
		s->hub->stats.sessions_live[s->kind]--;
	if (s->result_ready) {
		TAILQ_REMOVE(&s->hub->ended, s, of_ended);
		s->hub->ended_count--;
		s->hub->ended_bytes -= s->kept_bytes;
	}
	HASH_DELETE(hh, s->hub->sessions, s);
	HASH_DELETE(hh_channel, s->agent->channels, s);
	TAILQ_REMOVE(&s->hub->order, s, order);
	for (int i = 0; i < STREAM_COUNT; i++) {
		stream_finish(&s->stream[i]);
		buf_finish(&s->backlog[i]);
		keep_finish(&s->keep[i]);
	}
	buf_finish(&s->in_queue);
	buf_finish(&s->in_flight);
	launch_finish(&s->launch);
	free(s);
}

static int send_open(struct session *s, struct err *e)
{
	struct launch *l = &s->launch;
	struct link_open o = {.channel = s->channel,
			      .session = s->id,
			      .pty = l->pty,
			      .cols = (uint16_t)l->cols,
			      .rows = (uint16_t)l->rows,
			      .argv = (const char *const *)l->argv,
			      .env = (const char *const *)l->env,
			      .cwd = l->cwd,
			      .timeout_ms = l->timeout_ns / NS_PER_MS,
			      .grace_ms = s->hub->conf->round_kill_grace_ns / NS_PER_MS,
			      .stdin_open = l->pty || l->stdin_open || l->stdin_len,
			      .login_shell = l->login,
			      .self = l->transfer || l->port,
			      .window = SESSION_WINDOW};

	int rc = 0;

	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++)
		s->window[i] = SESSION_WINDOW;
	if (l->secret && (rc = link_secret(s->agent->link, s->channel, SECRET_FD, l->secret, l->secret_len)))
		err_set(e, rc, "the link did not take the secret: %s", err_name(rc));
	launch_forget_secret(l);
	rc = rc ? rc : link_open(s->agent->link, &o, e);
	/* OPEN has no pixels; a terminal that learned them later would be drawn again for no reason. */
	if (!rc && l->pty && (l->xpixel || l->ypixel))
		(void)link_resize(s->agent->link, s->channel, (uint16_t)l->cols, (uint16_t)l->rows,
				  (uint16_t)l->xpixel, (uint16_t)l->ypixel);
	return rc;
}

/* The intent stands in the journal before anything else of the session, and before the sandbox hears of it. */
int session_intend(struct session *s, struct err *e)
{
	json_t *o = session_open_json(s);
	int rc = o ? journal_json(s->hub->journal, RING_OPEN, &s->id, o) : ERR_NOMEM;

	json_decref(o);
	return rc ? err_set(e, rc == ERR_AGAIN ? ERR_RECORD_UNAVAILABLE : rc, "the session cannot be journaled: %s",
			    err_name(rc))
		  : 0;
}

int session_start(struct session *s, struct err *e)
{
	int rc;

	s->linger_at = 0;
	rc = send_open(s, e);
	if (rc)
		session_finish(s, EXIT_NOT_STARTED, -1, 0, e ? e->message : "the link refused");
	return rc;
}

static void feed_stdin(struct session *s)
{
	struct launch *l = &s->launch;
	size_t taken = 0;

	if (l->stdin_len && session_queue_input(s, l->stdin_data, l->stdin_len, &taken))
		session_kill(s, EXIT_LOST, "its input could not be queued");
	free(l->stdin_data);
	l->stdin_data = NULL;
	if (l->stdin_len && !l->stdin_open)
		(void)session_input_eof(s);
	l->stdin_len = 0;
}

/* What the terminal has already is not sent: programs would draw again. */
static void send_size_due(struct session *s)
{
	const struct launch *l = &s->launch;

	if (s->size_due && link_resize(s->agent->link, s->channel, (uint16_t)l->cols, (uint16_t)l->rows,
				       (uint16_t)l->xpixel, (uint16_t)l->ypixel) == 0)
		s->size_due = false;
}

void session_on_opened(struct session *s, int rc, const char *why)
{
	struct attachment *a;

	if (rc == 0) {
		s->started = true;
		if (s->state == SESSION_OPENING)
			session_set_state(s, SESSION_RUNNING);
		send_size_due(s);
		feed_stdin(s);
	}
	if (rc == 0)
		session_job_done(s, 0, why); /* else the EXIT that follows says more than `why` */
	TAILQ_FOREACH(a, &s->attachments, of_session)
	if (a->input_blocked)
		attachment_wake(a, WAKE_WRITABLE);
}

static void oom_checked(void *arg, int rc, const struct err *e, const struct sandbox_info *info, int fd);

void session_on_exit(struct session *s, const struct link_exit *x)
{
	struct sandbox_provider *p = s->hub->p.provider;

	if (s->exit_known)
		return;
	s->exit = *x;
	if (s->killing && s->kill_cause != EXIT_EXITED &&
	    (x->cause == EXIT_EXITED || x->cause == EXIT_KILLED || x->cause == EXIT_OOM))
		s->exit.cause = s->kill_cause; /* but what was lost or is not known stays so */
	if (x->cause == EXIT_EXITED && x->signal == 9 && !s->killing) {
		struct id *key = malloc(sizeof(*key) + sizeof(struct hub *));

		if (key) { /* a KILL that nobody here sent: ask whether the kernel was out of memory */
			*key = s->id;
			memcpy(key + 1, &s->hub, sizeof(s->hub));
			p->ops->stat(p, s->agent->name, oom_checked, key);
			return;
		}
	}
	s->exit_known = true;
	session_pump(s);
}

static void oom_checked(void *arg, int rc, const struct err *e, const struct sandbox_info *info, int fd)
{
	struct id *key = arg;
	struct session *s;
	struct hub *h;

	(void)e, (void)fd;
	memcpy(&h, key + 1, sizeof(h));
	s = rc == ERR_CANCELLED ? NULL : hub_session_find(h, key);
	free(key);
	if (!s || s->exit_known)
		return;
	if (rc == 0 && info->oom_kills > s->agent->oom_seen) {
		s->agent->oom_seen = info->oom_kills;
		s->exit.cause = EXIT_OOM;
	}
	s->exit_known = true;
	session_pump(s);
	hub_flush(h);
}

/* Why it did not start, as the caller may know it: the path of the call, the errno that was reported. */
static int not_started(const struct session *s, char *out, size_t size)
{
	const struct link_exit *x = &s->exit;

	if (strcmp(x->error_at, "cwd") == 0) {
		snprintf(out, size, "cwd %s: %s", s->launch.cwd ? s->launch.cwd : "/workspace", strerror(x->error));
		return ERR_INVAL;
	}
	if (strcmp(x->error_at, "exec") == 0) {
		snprintf(out, size, "%s: %s", s->launch.argv[0], strerror(x->error));
		return x->error == ENOENT                          ? ERR_NO_PROGRAM
		       : x->error == EACCES || x->error == ENOEXEC ? ERR_NOT_EXECUTABLE
								   : ERR_INVAL;
	}
	if (err_by_name(x->error_at)) {
		if (x->text[0])
			snprintf(out, size, "%s", x->text);
		return err_by_name(x->error_at);
	}
	if (x->error)
		snprintf(out, size, "%s: %s", x->error_at, strerror(x->error));
	return ERR_SANDBOX_CREATE;
}

/* Who ended it, then what its backend could and could not do about it. */
static void fill_message(const struct session *s, const char *message, char *out, size_t size)
{
	const char *text = s->exit.text;

	if (s->killing && s->kill_text[0]) {
		if (snprintf(out, size, "%.*s%s%s", *text ? 120 : 199, s->kill_text, *text ? "; " : "", text) < 0)
			out[0] = '\0';
	} else {
		snprintf(out, size, "%s", *text ? text : message ? message : "");
	}
}

/* The file's own numbers, and whether it is there. */
static void fill_transfer(struct session *s)
{
	struct session_result *r = &s->result;
	struct transfer *t = s->launch.transfer;
	struct err e = {0};

	(void)keep_digest(&t->content);
	if (t->op == FILE_PUT)
		r->total[STREAM_INPUT] = t->content.total;
	else
		r->total[STREAM_OUTPUT] = t->content.total;
	r->failed = transfer_result(t, s->agent->name, r, &e);
	if (r->failed)
		snprintf(r->message, sizeof(r->message), "%.190s", e.message);
	if (!t->head_known) /* there is nothing that a client could still take */
		session_pass_over(s, STREAM_OUTPUT);
}

static void fill_port(struct session *s)
{
	struct session_result *r = &s->result;
	struct err e = {0};

	r->failed = port_result(s, r, &e);
	if (r->failed)
		snprintf(r->message, sizeof(r->message), "%.190s", e.message);
}

static void fill_result(struct session *s, enum exit_cause cause, int code, int signum, const char *message)
{
	struct session_result *r = &s->result;

	r->cause = cause;
	r->code = code;
	r->signal = signum;
	r->duration_ns = clock_boot_ns() - s->opened_boot_ns;
	fill_message(s, message, r->message, sizeof(r->message));
	r->total[STREAM_INPUT] = s->in_offset;
	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++) {
		r->total[i] = s->stream[i].end;
		if (s->kind == SESSION_ROUND)
			snprintf(r->sha256[i], sizeof(r->sha256[i]), "%s", keep_digest(&s->keep[i]));
	}
	if (s->launch.transfer)
		fill_transfer(s);
	else if (s->launch.port && cause != EXIT_NOT_STARTED)
		fill_port(s);
}

static int journal_exit(struct session *s)
{
	const struct session_result *r = &s->result;
	json_t *o = json_pack("{s:s,s:i,s:i,s:s,s:[I,I,I],s:I,s:b}", "cause", exit_cause_name(r->cause), "code",
			      r->code, "signal", r->signal, "message", r->message, "totals", (json_int_t)r->total[0],
			      (json_int_t)r->total[1], (json_int_t)r->total[2], "duration_ns",
			      (json_int_t)r->duration_ns, "reported", r->cause == EXIT_EXITED);
	int rc;

	if (!o)
		return ERR_NOMEM;
	if (s->kind == SESSION_ROUND)
		json_object_set_new(o, "sha256",
				    json_pack("{s:s,s:s}", "stdout", r->sha256[1], "stderr", r->sha256[2]));
	if (s->launch.transfer)
		json_object_set_new(o, "file", transfer_json(s->launch.transfer));
	rc = journal_json(s->hub->journal, RING_EXIT, &s->id, o);
	if (!rc)
		s->exit_position = journal_position(s->hub->journal);
	json_decref(o);
	return rc;
}

/* Who moved which file, how large, with which digest: the same whichever rule its recording has. */
static void audit_transfer(struct session *s, const struct request *rq)
{
	const struct session_result *r = &s->result;
	json_t *d = transfer_json(s->launch.transfer);

	if (d) {
		json_object_set_new(d, "session", json_string(s->id_text));
		json_object_set_new(d, "task", json_string(s->launch.task));
		if (r->failed)
			json_object_set_new(d, "message", json_string(r->message));
	}
	(void)audit_event(s->hub, s->launch.transfer->op == FILE_PUT ? "file.put" : "file.get", rq, s->agent->name,
			  r->failed ? err_name(r->failed) : "ok", d);
}

static const char *end_event(const struct session *s)
{
	if (s->kind == SESSION_PORT)
		return "port.close";
	return s->kind == SESSION_ROUND ? "round.end" : "session.end";
}

static void audit_end(struct session *s)
{
	const char *outcome = exit_cause_name(s->result.cause);
	struct request rq = {.grant = s->grant, .id = s->id, .door = s->door};
	const struct session_result *r = &s->result;

	memcpy(rq.peer, s->peer, sizeof(rq.peer));
	memcpy(rq.lease, s->launch.lease, sizeof(rq.lease));
	memcpy(rq.run, s->launch.run, sizeof(rq.run));
	if (s->launch.transfer) {
		audit_transfer(s, &rq);
		return;
	}
	if (s->kind == SESSION_PORT)
		outcome = s->result.failed ? err_name(s->result.failed) : "ok";
	(void)audit_event(s->hub, end_event(s), &rq, s->agent->name, outcome,
			  json_pack("{s:s,s:s,s:i,s:i,s:s,s:I,s:I,s:s,s:s}", "session", s->id_text, "task",
				    s->launch.task, "code", r->code, "signal", r->signal, "message", r->message,
				    "stdout_bytes", (json_int_t)r->total[1], "stderr_bytes", (json_int_t)r->total[2],
				    "stdout_sha256", r->sha256[1], "stderr_sha256", r->sha256[2]));
}

bool session_shown(const struct session *s)
{
	return s->exit_in_ring &&
	       (!s->hub->conf->release_durable || journal_durable(s->hub->journal) >= s->exit_position);
}

static void tell_end(struct session *s)
{
	struct session_waiter *w;
	struct attachment *a;

	s->result_ready = true;
	s->kept_bytes = keep_held(&s->keep[STREAM_OUTPUT]) + keep_held(&s->keep[STREAM_STDERR]);
	if (s->kind == SESSION_PORT) { /* the record has it, and nobody asks for it again */
		TAILQ_INSERT_HEAD(&s->hub->ended, s, of_ended);
		s->forget_at = 0;
	} else {
		TAILQ_INSERT_TAIL(&s->hub->ended, s, of_ended);
	}
	s->hub->ended_count++;
	s->hub->ended_bytes += s->kept_bytes;
	TAILQ_FOREACH(a, &s->attachments, of_session)
	attachment_check_end(a);
	while ((w = LIST_FIRST(&s->waiters))) {
		LIST_REMOVE(w, entry);
		w->fn(w->arg, s);
	}
}

/* In three steps that may lie turns apart: EXIT in the journal, then (by configuration) durable, then told. */
void session_finish(struct session *s, enum exit_cause cause, int code, int signum, const char *message)
{
	if (!s->exit_in_ring) {
		int refusal = ERR_SANDBOX_CREATE;

		s->exit_known = true;
		s->exit.cause = cause, s->exit.code = code, s->exit.signal = signum;
		if (message && message != s->exit.error_at)
			snprintf(s->exit.error_at, sizeof(s->exit.error_at), "%s", message);
		fill_result(s, cause, code, signum, message);
		if (cause == EXIT_NOT_STARTED)
			refusal = not_started(s, s->result.message, sizeof(s->result.message));
		if (journal_exit(s))
			return; /* session_pump() comes back when there is room */
		s->exit_in_ring = true;
		s->hub->stats.rounds_by_cause[cause] += s->kind == SESSION_ROUND;
		if (s->kind == SESSION_ROUND)
			metric_times_add(&s->hub->round_times, s->result.duration_ns);
		s->hub->stats.sessions_live[s->kind]--;
		session_set_state(s, SESSION_ENDED);
		s->ended_wall_ns = hub_now_wall(s->hub);
		s->forget_at = clock_boot_ns() + s->hub->conf->round_keep_ns;
		audit_end(s);
		agent_touch(s->agent);
		session_ack(s, true);
		if (s->agent->link && link_state(s->agent->link) == LINK_UP)
			(void)link_forget(s->agent->link,
					  s->channel); /* else LIST shows it again, and it is forgotten then */
		session_job_done(s, refusal, s->result.message);
	}
	if (!s->result_ready && session_shown(s))
		tell_end(s);
}

void session_kill(struct session *s, enum exit_cause cause, const char *why)
{
	if (s->state == SESSION_ENDED || s->killing)
		return;
	s->killing = true;
	s->kill_cause = cause;
	s->kill_deadline = clock_boot_ns() + KILL_DEADLINE_NS + s->hub->conf->round_kill_grace_ns;
	snprintf(s->kill_text, sizeof(s->kill_text), "%s", why);
	session_event(s, "kill", json_pack("{s:s}", "why", why));
	if (s->state == SESSION_RUNNING || s->state == SESSION_OPENING) {
		session_set_state(s, SESSION_ENDING);
		(void)link_kill(s->agent->link, s->channel,
				EXIT_KILLED); /* a broken link kills after it has come back */
	}
}

void session_suspend(struct session *s)
{
	if (s->state == SESSION_ENDED)
		return;
	if (s->state != SESSION_SUSPENDED) {
		session_event(s, "link_lost", NULL);
		session_set_state(s, SESSION_SUSPENDED);
	}
}

void session_resume(struct session *s, const struct link_channel_info *info)
{
	uint64_t have[STREAM_COUNT];

	for (int i = 0; i < STREAM_COUNT; i++)
		have[i] = s->stream[i].end + buf_len(&s->backlog[i]);
	have[STREAM_INPUT] = info->exited ? info->input_consumed : session_input_settle(s, info);
	if (link_resume(s->agent->link, s->channel, have, SESSION_WINDOW)) {
		session_finish(s, EXIT_LOST, -1, 0, "the sandbox no longer has the output from where the record ends");
		(void)link_kill(s->agent->link, s->channel, EXIT_KILLED);
		return;
	}
	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++)
		s->window[i] = have[i] + SESSION_WINDOW;
	s->started = true;
	session_event(s, "link_up", NULL);
	session_set_state(s, s->killing ? SESSION_ENDING : SESSION_RUNNING);
	if (!info->exited)
		session_input_again(s, have[STREAM_INPUT]);
	send_size_due(s);
	if (s->killing)
		(void)link_kill(s->agent->link, s->channel, EXIT_KILLED);
	session_job_done(s, 0, NULL);
	session_on_consumed(s, have[STREAM_INPUT]);
}

void session_wait(struct session *s, struct session_waiter *w, session_waiter_fn *fn, void *arg)
{
	w->fn = fn;
	w->arg = arg;
	LIST_INSERT_HEAD(&s->waiters, w, entry);
}

void session_event(struct session *s, const char *event, json_t *detail)
{
	json_t *o = detail ? detail : json_object();

	if (o && !s->exit_in_ring) {
		json_object_set_new(o, "event", json_string(event));
		if (journal_json(s->hub->journal, RING_EVENT, &s->id, o))
			log_warn(&(struct log_ids){.session = s->id_text}, "event %s not journaled: the ring is full",
				 event);
	}
	json_decref(o);
}

static bool wanted(const struct session *s)
{
	return !TAILQ_EMPTY(&s->attachments) || !LIST_EMPTY(&s->waiters);
}

void sessions_trim(struct hub *h)
{
	struct session *s, *next;

	for (s = TAILQ_FIRST(&h->ended); s; s = next) {
		next = TAILQ_NEXT(s, of_ended);
		if (h->ended_count <= h->conf->round_keep_max && h->ended_bytes <= h->conf->round_keep_size)
			return;
		if (!wanted(s))
			session_free(s);
	}
}

void session_tick(struct session *s, uint64_t now)
{
	screen_tick(s, now);
	if (s->state == SESSION_ENDED) {
		if (now >= s->forget_at && s->result_ready && !wanted(s))
			session_free(s);
		return;
	}
	if (s->linger_at && now >= s->linger_at) {
		s->linger_at = 0;
		session_kill(s, EXIT_KILLED, "nobody came back to it");
	}
	if (s->kill_deadline && now >= s->kill_deadline && s->state == SESSION_ENDING)
		session_finish(s, EXIT_UNKNOWN, -1, 0, "it was told to end and did not report back");
	if (!s->launch.timeout_ns || now - s->opened_boot_ns < s->launch.timeout_ns + KILL_DEADLINE_NS)
		return;
	if (s->state == SESSION_RUNNING)
		session_kill(s, EXIT_TIMEOUT, "it passed its timeout");
	else if (s->kind == SESSION_FILE) /* its client need not wait until the sandbox is there again */
		session_finish(s, EXIT_TIMEOUT, -1, 0, NULL);
}

const struct id *session_id(const struct session *s)
{
	return &s->id;
}
enum session_kind session_kind(const struct session *s)
{
	return s->kind;
}
enum session_state session_state(const struct session *s)
{
	return s->state;
}
const char *session_agent(const struct session *s)
{
	return s->agent->name;
}
const char *session_principal(const struct session *s)
{
	return s->grant.principal;
}
const char *session_task(const struct session *s)
{
	return s->launch.task;
}
const struct session_result *session_result(const struct session *s)
{
	return s->result_ready ? &s->result : NULL;
}

struct session *session_restore_alloc(struct agent *a, const struct id *id, enum session_kind kind, uint32_t channel,
				      const uint64_t at[STREAM_COUNT])
{
	struct session *s = allocate(a, id);

	if (!s)
		return NULL;
	s->kind = kind;
	s->state = SESSION_SUSPENDED;
	s->channel = channel;
	s->door = "record";
	init_streams(s, at);
	if (channel > a->next_channel)
		a->next_channel = channel;
	enlist(s);
	return s;
}
