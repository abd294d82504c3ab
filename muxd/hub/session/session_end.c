/* How a session ends: what its sandbox reported becomes its result, is journaled, audited, and then told. */
#define LOG_SUBSYS "session"
#include "muxd/hub/session/session.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/text.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/agent/filespace_due.h"
#include "muxd/hub/agent/survey.h"
#include "muxd/hub/core/exec_ids.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/core/shelf.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/record/share.h"
#include "muxd/hub/record/trail.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/port.h"
#include "muxd/hub/session/regain.h"
#include "muxd/hub/session/screen.h"
#include "muxd/hub/session/session_end.h"
#include "muxd/hub/session/session_input.h"
#include "muxd/hub/session/session_json.h"
#include "muxd/hub/session/session_output.h"
#include "muxd/hub/session/session_run.h"
#include "muxd/hub/session/session_share.h"
#include "muxd/hub/session/session_state.h"
#include "muxd/hub/session/wake.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Whether memory ran out is worth a question, not an end: the answer may be lost with who was asked. */
#define EXIT_ASK_NS   (20 * NS_PER_SEC)
#define START_RETRY_S 1 /* a program inside may end at any time */

static void session_set_end(struct session *s, enum session_end end)
{
	static const char *const names[] = {"not yet", "asked", "known", "recorded", "told"};

	log_debug(&(struct log_ids){.session = s->id_text, .agent = s->agent->name}, "end: %s -> %s", names[s->end],
		  names[end]);
	s->end = end;
}

/* The exit is told later, but from here on it is a fact: lifecycle copies what the program left. */
static void end_known(struct session *s)
{
	session_set_end(s, END_KNOWN);
	s->agent->last_exit_boot_ns = clock_boot_ns();
}

/* No process could be made for it: that is a limit, and there is a way out which needs none. */
static int full(struct session *s, char *out, size_t size)
{
	const struct agent *a = s->agent;
	uint64_t pids = a->info.backend == SANDBOX_LOCAL ? hub_conf(s->hub)->pids_max : 0;
	char most[64] = "";

	s->result->share = (struct err_share){"podPidsLimit", "agent", 0, 0, START_RETRY_S};
	if (pids) {
		s->result->share = (struct err_share){"sandbox.pids", "agent", pids, pids, START_RETRY_S};
		snprintf(most, sizeof(most), " of %llu (sandbox.pids)", (unsigned long long)pids);
	}
	text_format(out, size, "%.64s is at its limit%s of processes; muxctl sandbox kill ends everything inside",
		    a->name, most);
	return ERR_LIMIT;
}

/* Nothing but a new sandbox helps, which whoever asks next has begun. */
static int unable(const struct session *s, const char *why, char *out, size_t size)
{
	char text[160];

	text_format(text, sizeof(text), "%s: nothing can be started", why);
	agent_unable(s->agent, text);
	text_format(out, size, "%s cannot start anything: %s. Ask again: it is begun anew", s->agent->name, why);
	return ERR_UNAVAILABLE;
}

/*
 * An error of muxd's is the word of what speaks to a pod without a muxlet, which is the daemon itself, and the
 * hub's own of a start that was lost. Of a muxlet it is none: a program inside would have its caller hear that the disk
 * is full, or that its grant is not good.
 */
static bool is_named(const struct session *s)
{
	return s->agent->info.backend == SANDBOX_PLAIN || strcmp(s->exit.error_at, err_name(ERR_DID_NOT_RUN)) == 0;
}

/* Why it did not start, as the caller may know it: the path of the call, the errno that was reported. */
static int not_started(struct session *s, char *out, size_t size)
{
	const struct link_exit *x = &s->exit;

	if (strcmp(x->error_at, "cwd") == 0) {
		text_format(out, size, "cwd %s: %s", s->launch.cwd ? s->launch.cwd : "/workspace", strerror(x->error));
		return ERR_INVAL;
	}
	if (strcmp(x->error_at, "exec") == 0) {
		text_format(out, size, "%s: %s", s->launch.argv[0], strerror(x->error));
		return x->error == ENOENT                          ? ERR_NO_PROGRAM
		       : x->error == EACCES || x->error == ENOEXEC ? ERR_NOT_EXECUTABLE
								   : ERR_INVAL;
	}
	if (x->error == EAGAIN && (strcmp(x->error_at, "spawn") == 0 || strcmp(x->error_at, "exec") == 0))
		return full(s, out, size);
	if (x->error == EMFILE)
		return unable(s, "its muxlet has no descriptors left", out, size);
	if (x->error == EDEADLK && strcmp(x->error_at, "pipe") == 0)
		return unable(s, "programs inside hold the pipes that its muxlet works at", out, size);
	if (strcmp(x->error_at, "programs") == 0) {
		s->result->share =
		    (struct err_share){"fixed.programs", "agent", SHARE_CHANNELS, SHARE_CHANNELS, START_RETRY_S};
		text_format(out, size, "%u programs run in this sandbox already", SHARE_CHANNELS);
		return ERR_LIMIT;
	}
	if (is_named(s) && err_by_name(x->error_at)) {
		if (x->text[0])
			text_put(out, size, x->text);
		if (err_by_name(x->error_at) == ERR_LIMIT)
			s->result->share =
			    (struct err_share){"kubernetes.plain_programs", "agent",
					       hub_conf(s->hub)->kubernetes_plain_programs, 0, START_RETRY_S};
		return err_by_name(x->error_at);
	}
	if (x->error)
		text_format(out, size, "%s: %s", x->error_at, strerror(x->error));
	return ERR_SANDBOX_CREATE;
}

/* The message names who ended the session, then what its backend could and could not do about it. */
static void fill_message(const struct session *s, char *out, size_t size)
{
	const char *text = s->exit.text, *who = s->killing && s->kill_text ? s->kill_text : "";
	char limit[32], silent[64];

	if (s->exit.cause == EXIT_IDLE_TIMEOUT) {
		clock_format_duration(s->launch.idle_ns, limit, sizeof(limit));
		text_format(silent, sizeof(silent), "no output for %s", limit);
		who = silent;
	}
	if (*who) {
		text_format(out, size, "%.*s%s%s", *text ? 120 : 199, who, *text ? "; " : "", text);
	} else {
		text_put(out, size, *text ? text : s->exit.error_at);
	}
}

/* A size that nobody knew when it began: the verdict is told as one that is told before. */
static void session_denied_late(struct session *s)
{
	const struct err_policy *p = &s->result->policy;
	struct request rq;

	session_request(s, &rq);
	rq.policy = (struct policy_mark){0};
	audit_denial(s->hub, &rq, s->agent->name,
		     json_pack("{s:s,s:s,s:s*,s:s,s:s,s:s,s:s,s:s}", "what", s->launch.transfer->row->event,
			       "operation", p->operation, "task", s->launch.task[0] ? s->launch.task : NULL, "rule",
			       p->rule, "version", p->version, "needs", p->needs, "message", s->result->message,
			       "session", s->id_text));
}

int session_result_failed(const struct session_result *r, struct err *e)
{
	err_set(e, r->failed, "%s", r->message);
	e->policy = r->policy;
	return r->failed;
}

int session_file_over(const struct session *s, struct err *e)
{
	return transfer_over(s->launch.transfer, e);
}

/* The file's own numbers, and whether it is there. */
static void fill_transfer(struct session *s)
{
	struct session_result *r = s->result;
	struct transfer *t = s->launch.transfer;
	struct err e = {0};

	(void)keep_digest(&t->content);
	if (t->row->takes)
		r->total[STREAM_INPUT] = t->content.total;
	else if (t->row->gives)
		r->total[STREAM_OUTPUT] = t->content.total;
	r->failed = transfer_result(t, s->agent->name, r, &e);
	r->policy = e.policy;
	if (r->failed)
		text_format(r->message, sizeof(r->message), "%.190s", e.message);
	if (!t->head_known) /* there is nothing that a client could still take */
		session_pass_over(s, STREAM_OUTPUT);
}

static void fill_port(struct session *s)
{
	struct session_result *r = s->result;
	struct err e = {0};

	r->failed = port_result(s, r, &e);
	if (r->failed)
		text_format(r->message, sizeof(r->message), "%.190s", e.message);
}

static void fill_result(struct session *s)
{
	struct session_result *r = s->result;

	r->cause = s->exit.cause;
	r->code = s->exit.code;
	r->signal = s->exit.signal;
	r->duration_ns = clock_boot_ns() - s->opened_boot_ns;
	fill_message(s, r->message, sizeof(r->message));
	r->total[STREAM_INPUT] = s->in_offset;
	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++) {
		r->total[i] = s->stream[i].end;
		if (s->kind == SESSION_ROUND)
			text_put(r->sha256[i], sizeof(r->sha256[i]), keep_digest(&s->keep[i]));
	}
	if (s->launch.transfer)
		fill_transfer(s);
	else if (s->launch.port && r->cause != EXIT_NOT_STARTED)
		fill_port(s);
}

/* NULL: no memory. */
static json_t *exit_record(const struct session *s)
{
	const struct session_result *r = s->result;
	json_t *o = json_pack("{s:s,s:i,s:i,s:s,s:[I,I,I],s:I,s:b}", "cause", exit_cause_name(r->cause), "code",
			      r->code, "signal", r->signal, "message", r->message, "totals", (json_int_t)r->total[0],
			      (json_int_t)r->total[1], (json_int_t)r->total[2], "duration_ns",
			      (json_int_t)r->duration_ns, "reported", r->cause == EXIT_EXITED);

	if (o && s->kind == SESSION_ROUND)
		json_object_set_new(o, "sha256",
				    json_pack("{s:s,s:s}", "stdout", r->sha256[1], "stderr", r->sha256[2]));
	if (o && s->launch.transfer)
		json_object_set_new(o, "file", transfer_json(s->launch.transfer));
	if (o && r->refused)
		json_object_set_new(o, "refused", json_string(err_name(r->refused)));
	if (o && s->begun_cwd)
		session_set_begun(s, o);
	return o;
}

/* Without words and digests, and without memory of its own. */
static int journal_bare_exit(struct session *s)
{
	const struct session_result *r = s->result;
	char text[400];
	int n = snprintf(text, sizeof(text),
			 "{\"cause\":\"%s\",\"code\":%d,\"signal\":%d,\"message\":\"\",\"totals\":[%" PRIu64 ",%" PRIu64
			 ",%" PRIu64 "],\"duration_ns\":%" PRIu64 ",\"reported\":%s}",
			 exit_cause_name(r->cause), r->code, r->signal, r->total[0], r->total[1], r->total[2],
			 r->duration_ns, r->cause == EXIT_EXITED ? "true" : "false");

	if (n < 0 || (size_t)n >= sizeof(text))
		return ERR_INTERNAL;
	return journal_bytes(hub_journal(s->hub), RING_EXIT, &s->id, text, (size_t)n);
}

/* Only room in the ring is waited for. What cannot be written in full for another reason stands there in brief, so that
 * no session is open for ever. */
static int journal_exit(struct session *s)
{
	json_t *o = exit_record(s);
	int rc = o ? journal_json(hub_journal(s->hub), RING_EXIT, &s->id, o) : ERR_NOMEM;

	json_decref(o);
	if (rc && rc != ERR_AGAIN) {
		log_error(&(struct log_ids){.session = s->id_text, .agent = s->agent->name},
			  "its end goes into the record without a message: %s", err_name(rc));
		rc = journal_bare_exit(s);
	}
	if (!rc)
		s->exit_position = journal_position(hub_journal(s->hub));
	return rc;
}

/* The event names who moved which file, its size and digest: the same whichever rule the recording has. */
static int audit_transfer(struct session *s, const struct request *rq)
{
	const struct session_result *r = s->result;
	json_t *d = transfer_json(s->launch.transfer);

	if (d) {
		json_object_set_new(d, "session", json_string(s->id_text));
		json_object_set_new(d, "task", json_string(s->launch.task));
		if (r->failed)
			json_object_set_new(d, "message", json_string(r->message));
	}
	return audit_event(s->hub, s->launch.transfer->row->event, rq, s->agent->name,
			   r->failed ? err_name(r->failed) : "ok", d);
}

static const char *end_event(const struct session *s)
{
	if (s->kind == SESSION_PORT)
		return "port.close";
	return s->kind == SESSION_ROUND ? "round.end" : "session.end";
}

/* NULL: the hub has none, the recorder tells it (session.streams). */
static const char *digest_of(const struct session_result *r, int stream)
{
	return r->sha256[stream][0] ? r->sha256[stream] : NULL;
}

static int audit_end(struct session *s)
{
	const char *outcome = exit_cause_name(s->result->cause);
	const struct session_result *r = s->result;
	struct request rq;

	session_request(s, &rq);
	if (s->launch.transfer)
		return audit_transfer(s, &rq);
	if (s->kind == SESSION_PORT)
		outcome = s->result->failed ? err_name(s->result->failed) : "ok";
	return audit_event(s->hub, end_event(s), &rq, s->agent->name, outcome,
			   json_pack("{s:s,s:s,s:i,s:i,s:s*,s:s,s:I,s:I,s:s*,s:s*,s:o*}", "session", s->id_text, "task",
				     s->launch.task, "code", r->code, "signal", r->signal, "error",
				     session_result_error(r), "message", r->message, "stdout_bytes",
				     (json_int_t)r->total[1], "stderr_bytes", (json_int_t)r->total[2], "stdout_sha256",
				     digest_of(r, 1), "stderr_sha256", digest_of(r, 2), "context",
				     s->launch.context.role ? context_use_json(&s->launch.context) : NULL));
}

/* Again until it stands there: an end that the audit log does not tell would look like work that goes on. */
void session_audit_end(struct session *s)
{
	s->audit_due = audit_end(s) != 0;
}

/*
 * The record and the audit log have it both, whoever is killed meanwhile; without room for both it waits. What cannot
 * be told for another reason (no memory) does not keep the session open.
 */
static bool end_written(struct session *s)
{
	struct journal *j = hub_journal(s->hub);
	bool written;
	int rc;

	journal_hold(j);
	written = journal_exit(s) == 0;
	rc = written ? audit_end(s) : 0;
	written = written && rc != ERR_AGAIN;
	journal_let(j, written);
	s->audit_due = written && rc;
	return written;
}

/* The last state: who is told may let go of the session, so nothing is done with it afterwards. */
static bool end_tell(struct session *s)
{
	struct session_waiter *w;
	struct attachment *a;

	if (!session_shown(s))
		return false;
	session_set_end(s, END_TOLD);
	/* The events of a short round are asked for behind its end, and need not wait for the record. */
	if (LIST_EMPTY(&s->listeners) && session_trail_held(s) > TRAIL_KEPT)
		session_forget_trail(s);
	s->kept_bytes = session_trail_held(s) + s->in_queue.cap /* not taken */ +
			(s->launch.transfer ? s->launch.transfer->reply_bytes : 0);
	for (int i = STREAM_OUTPUT; i < STREAM_COUNT && s->keep; i++)
		s->kept_bytes += keep_held(&s->keep[i]);
	if (s->kind == SESSION_PORT) /* the record has it, and nobody asks for it again */
		s->forget_at = 0;
	shelf_end(s, s->kind == SESSION_PORT);
	TAILQ_FOREACH(a, &s->attachments, of_session)
	attachment_check_end(a);
	listeners_moved(s);
	while ((w = LIST_FIRST(&s->waiters))) {
		LIST_REMOVE(w, entry);
		w->fn(w->arg, s);
	}
	return false;
}

/* The first that is known of its end stands: what comes later knows less. An exit that was reported is known, though
 * whether memory ran out is still being asked. */
static void know_end(struct session *s, enum exit_cause cause, int code, int signum, const char *message)
{
	bool reported = s->end == END_ASKED;

	if (s->end >= END_KNOWN)
		return;
	end_known(s);
	if (reported)
		return;
	s->exit.cause = cause, s->exit.code = code, s->exit.signal = signum;
	if (message && !s->killing)
		text_put(s->exit.text, sizeof(s->exit.text), message);
}

/* Who still waits for its start hears that somebody ended it, or why it did not start. */
static int end_refusal(struct session *s)
{
	if (s->exit.cause == EXIT_LOST || s->exit.cause == EXIT_UNKNOWN)
		return ERR_LINK_LOST;
	if (s->exit.cause == EXIT_NOT_STARTED)
		return not_started(s, s->result->message, sizeof(s->result->message));
	return ERR_ENDED;
}

static void end_settle(struct session *s)
{
	struct hub *h = s->hub;

	hub_counters(h)->rounds_by_cause[s->result->cause] += s->kind == SESSION_ROUND;
	if (s->kind == SESSION_ROUND)
		metric_times_add(shelf_round_times(h), s->result->duration_ns);
	hub_counters(h)->sessions_live[s->kind]--;
	session_share_give(s);
	session_set_state(s, SESSION_ENDED);
	if (s->result->policy.version[0]) /* once: an end that waits for room is filled in again and again */
		session_denied_late(s);
	s->ended_wall_ns = hub_now_wall(h);
	s->forget_at = clock_boot_ns() + hub_conf(h)->round_keep_ns;
	if (s->launch.shell.name[0])
		shells_settle(hub_shells(h), &(struct shell_owner){s->agent->name, s->grant->principal},
			      s->launch.shell.name, &s->id, s->result->cause == EXIT_EXITED && s->result->code >= 0);
	if (s->launch.context.role)
		contexts_settle(hub_contexts(h), &s->launch.context, &s->id, s->result);
	if (session_result_passes(s->result)) /* the same call may come again, and then it runs */
		exec_ids_forget_session(hub_exec_ids(h), &s->id);
	survey_session_ended(s);
	filespace_session_ended(s);
	session_touch(s);
	session_ack(s, true);
	if (s->agent->link && link_state(s->agent->link) == LINK_UP) /* else LIST shows it again, and then */
		(void)link_forget(s->agent->link, s->channel);
}

/* Without memory for it the end waits, as it does for room in the record (session_sweep()). */
static bool result_begin(struct session *s)
{
	if (!s->result)
		s->result = calloc(1, sizeof(*s->result));
	if (!s->result)
		log_error(&(struct log_ids){.session = s->id_text, .agent = s->agent->name},
			  "its end waits: no memory for it");
	return s->result != NULL;
}

static bool end_record(struct session *s)
{
	int refusal;

	if (session_backlog(s) || regain_waits(s, session_pump) || !journal_takes_end(hub_journal(s->hub)) ||
	    !result_begin(s))
		return false;
	fill_result(s);
	refusal = end_refusal(s);
	s->result->refused = s->exit.cause == EXIT_NOT_STARTED ? refusal : 0;
	if (!end_written(s))
		return false;
	session_set_end(s, END_RECORDED);
	end_settle(s);
	session_opened(s, refusal, s->result->message);
	return true;
}

/* How far its end gets now; session_pump() comes back to what has to wait. */
static void end_turn(struct session *s)
{
	/* Each leaves its state, or says that it cannot yet. */
	static bool (*const leave[])(struct session * s) = {
	    [END_NOT_YET] = NULL,      [END_ASKED] = NULL, [END_KNOWN] = end_record,
	    [END_RECORDED] = end_tell, [END_TOLD] = NULL,
	};

	while (leave[s->end] && leave[s->end](s))
		;
}

void session_finish(struct session *s, enum exit_cause cause, int code, int signum, const char *message)
{
	know_end(s, cause, code, signum, message);
	end_turn(s);
}

void session_never_came(struct session *s)
{
	static const char name[] = "the word to start it was lost on its way, and nothing of it ran";

	if (s->end >= END_KNOWN)
		return;
	text_put(s->exit.error_at, sizeof(s->exit.error_at), err_name(ERR_DID_NOT_RUN));
	session_finish(s, EXIT_NOT_STARTED, -1, 0, name);
}

/* ---- told to end */

/* Without memory it ends all the same, and nothing is said of why. */
static void session_set_kill_text(struct session *s, const char *why)
{
	s->kill_text = malloc(KILL_TEXT_MAX + 1);
	if (s->kill_text)
		text_put(s->kill_text, KILL_TEXT_MAX + 1, why);
}

bool session_condemn(struct session *s, enum exit_cause cause, const char *why)
{
	if (s->state == SESSION_ENDED || s->killing)
		return false;
	session_ahead_flush(s);
	s->killing = true;
	s->kill_cause = cause;
	s->kill_deadline = clock_boot_ns() + SESSION_KILL_DEADLINE_NS + hub_conf(s->hub)->round_kill_grace_ns;
	session_set_kill_text(s, why);
	session_event(s, "kill", json_pack("{s:s}", "why", why));
	if (s->state != SESSION_RUNNING && s->state != SESSION_OPENING)
		return false; /* a broken link kills after it has come back */
	session_set_state(s, SESSION_ENDING);
	return true;
}

void session_kill(struct session *s, enum exit_cause cause, const char *why)
{
	if (session_condemn(s, cause, why))
		(void)link_kill(s->agent->link, s->channel, EXIT_KILLED);
}

void session_settle(struct session *s)
{
	const char *why = s->doom;

	s->doom = NULL;
	if (why)
		session_kill(s, s->doom_cause, why);
}

/* Everything that may have waited for room, for the record, or for the link. */
void session_pump(struct session *s)
{
	if (journal_state(hub_journal(s->hub)) == RECORD_OK && s->state != SESSION_ENDED) {
		session_pump_output(s);
		session_pump_input(s);
		session_wake_input(s);
		session_settle(s);
		end_turn(s);
		session_update_window(s);
		session_ack(s, false);
	}
	session_show(s);
	if (s->audit_due)
		session_audit_end(s);
	if (s->end == END_RECORDED)
		end_turn(s);
	session_shrink(s);
}

/* ---- what its sandbox says of it */

void session_on_consumed(struct session *s, uint64_t offset)
{
	struct attachment *a;

	session_input_landed(s, offset);
	session_pump(s);
	TAILQ_FOREACH(a, &s->attachments, of_session)
	if (a->input_blocked)
		attachment_wake(a, WAKE_WRITABLE);
}

/* ---- whether memory ran out */

#define OOM_FRESH_NS NS_PER_SEC

struct oom_question {
	struct id session;
	struct hub *hub;
};

static void oom_ask(struct session *s, sandbox_done *done, struct oom_question *q)
{
	q->session = s->id;
	q->hub = s->hub;
	sandbox_ask(hub_provider(s->hub), &(struct sandbox_ask){.op = SANDBOX_STAT, .agent = s->agent->name}, done, q);
}

/* NULL: the hub ends, or the session has gone. */
static struct session *oom_session(struct oom_question *q, const struct sandbox_answer *r)
{
	struct session *s = r->rc == ERR_CANCELLED ? NULL : hub_session_find(q->hub, &q->session);

	free(q);
	if (s && r->rc == 0 && r->info) {
		kill_tally_heard(&s->agent->oom, r->info->oom_kills);
		s->agent->oom_heard_ns = clock_boot_ns();
	}
	return s;
}

/* An exit that came first may be of a kill in this answer. */
static void oom_on_begin(void *arg, const struct sandbox_answer *r)
{
	struct session *s = oom_session(arg, r);

	if (s && s->end == END_NOT_YET)
		s->oom_base = s->agent->oom.count;
}

/* The count of a moment ago will do: a question takes the monitor and net as long as a third of a round. */
void session_oom_begin(struct session *s)
{
	const struct agent *a = s->agent;
	struct oom_question *q;

	s->oom_base = a->oom.count;
	if (a->info.backend != SANDBOX_LOCAL || !a->info.memory_enforced ||
	    (a->oom_heard_ns && clock_boot_ns() - a->oom_heard_ns < OOM_FRESH_NS))
		return;
	if ((q = malloc(sizeof(*q))) != NULL)
		oom_ask(s, oom_on_begin, q);
}

static void oom_checked(void *arg, const struct sandbox_answer *r)
{
	struct hub *h = ((struct oom_question *)arg)->hub;
	struct session *s = oom_session(arg, r);

	if (!s || s->end >= END_KNOWN)
		return;
	if (r->rc == 0 && kill_tally_take(&s->agent->oom, s->oom_base))
		s->exit.cause = EXIT_OOM;
	end_known(s);
	session_pump(s);
	hub_flush(h);
}

void session_on_exit(struct session *s, const struct link_exit *x)
{
	if (s->end >= END_KNOWN)
		return;
	s->exit = *x;
	if (s->killing && s->kill_cause != EXIT_EXITED &&
	    (x->cause == EXIT_EXITED || x->cause == EXIT_KILLED || x->cause == EXIT_OOM))
		s->exit.cause = s->kill_cause; /* but what was lost or is not known stays so */
	if (x->cause == EXIT_EXITED && x->signal == 9 && !s->killing && !s->kill_sent) {
		struct oom_question *q = malloc(sizeof(*q));

		if (s->end != END_ASKED)
			s->end_asked = clock_boot_ns();
		session_set_end(s, END_ASKED);
		if (q) { /* a KILL that nobody here sent: ask whether the kernel was out of memory */
			oom_ask(s, oom_checked, q);
			return;
		}
	}
	end_known(s);
	session_pump(s);
}

/*
 * What has no process any more does not stay open: its exit came, so it ends, whoever still owes an answer; its end
 * waits for room in the record, so it is tried again, though nothing moves there. A link that is down ends nothing.
 */
void session_sweep(struct session *s, uint64_t now)
{
	if (s->end == END_ASKED && now - s->end_asked >= EXIT_ASK_NS) {
		struct log_ids ids = session_ids(s);

		log_warn(&ids,
			 "it ended by signal 9, and whether memory ran out was not answered: it ends without that");
		(void)audit_event(s->hub, "session.sweep", NULL, s->agent->name, "ok",
				  json_pack("{s:s,s:s}", "session", s->id_text, "why",
					    "its exit came, and the question about it was not answered"));
		end_known(s);
	}
	if (s->end >= END_KNOWN && (s->end != END_TOLD || s->audit_due))
		session_pump(s);
}
