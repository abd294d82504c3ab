#define LOG_SUBSYS "session"
#include "muxd/hub/session/session.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/life/life.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/agent/quiesce.h"
#include "muxd/hub/core/grant_news.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/request.h"
#include "muxd/hub/core/shelf.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/launch.h"
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
#include <stdlib.h>
#include <string.h>

#define ECHO_WAIT_NS (2 * NS_PER_SEC) /* for the mode of a terminal that was resumed */
#define WAITS_SIZE   200
#define WAITS_NS     (500 * NS_PER_MS) /* between two words about its place, whatever the sandbox sends */

static void init_streams(struct session *s, const uint64_t at[STREAM_COUNT])
{
	for (int i = 0; i < STREAM_COUNT; i++) {
		stream_init(&s->stream[i], at[i]);
		buf_init(&s->backlog[i], 2 * SESSION_WINDOW);
		s->window[i] = s->acked[i] = at[i];
	}
	s->in_offset = at[STREAM_INPUT];
}

static struct session *allocate(struct agent *a, const struct id *id, enum session_kind kind, const struct grant *g)
{
	struct session *s = calloc(1, sizeof(*s));
	struct keep *keep = kind == SESSION_ROUND ? calloc(STREAM_COUNT, sizeof(*keep)) : NULL;

	if (!s || (kind == SESSION_ROUND && !keep) || !(s->grant = hub_grant_share(a->hub, g))) {
		free(keep);
		free(s);
		return NULL;
	}
	s->kind = kind;
	s->keep = keep;
	s->hub = a->hub;
	s->agent = a;
	s->id = *id;
	s->oom_base = SESSION_NO_BASE;
	id_format(id, s->id_text);
	TAILQ_INIT(&s->attachments);
	LIST_INIT(&s->waiters);
	LIST_INIT(&s->listeners);
	return s;
}

static void enlist(struct session *s)
{
	shelf_put(s);
	HASH_ADD(hh_channel, s->agent->channels, channel, sizeof(s->channel), s);
	hub_counters(s->hub)->sessions_live[s->kind]++;
	hub_stir(s->hub);
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

	if (id_new(&id) || !(s = allocate(a, &id, kind, &rq->grant)))
		return err_set(e, ERR_NOMEM, "no memory for a session");
	s->state = SESSION_OPENING;
	s->door = rq->door;
	memcpy(s->peer, rq->peer, sizeof(s->peer));
	memcpy(s->snapshot_id, a->info.snapshot_id, sizeof(s->snapshot_id));
	if (hub_life(s->hub)) { /* one may have been taken since the stream was asked for */
		s->life = agent_life(s->hub, a->name);
		memcpy(s->snapshot_id, a->current.snapshot, sizeof(s->snapshot_id));
	}
	s->channel = agent_new_channel(a);
	s->opened_wall_ns = hub_now_wall(s->hub);
	s->opened_boot_ns = clock_boot_ns();
	s->begun_unsaid = true;
	init_streams(s, zero);
	s->launch = *launch;
	memset(launch, 0, sizeof(*launch));
	enlist(s);
	session_note_size(s);
	hub_counters(s->hub)->sessions_opened[kind]++;
	session_share_take(s);
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
	listeners_release(s);
	if (s->state != SESSION_ENDED)
		hub_counters(s->hub)->sessions_live[s->kind]--;
	session_share_give(s);
	shelf_take(s);
	HASH_DELETE(hh_channel, s->agent->channels, s);
	for (int i = 0; i < STREAM_COUNT; i++) {
		stream_finish(&s->stream[i]);
		buf_finish(&s->backlog[i]);
		if (s->keep)
			keep_finish(&s->keep[i]);
	}
	free(s->keep);
	free(s->result);
	free(s->waits);
	session_forget_trail(s);
	regain_forget(s);
	session_input_forget(s);
	given_destroy(s->given);
	free(s->caller);
	buf_finish(&s->in_flight);
	json_decref(s->artifacts);
	launch_finish(&s->launch);
	free(s->kill_text);
	session_forget_begun(s);
	free(s->sizes);
	hub_grant_unshare(s->hub, s->grant);
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
			      .idle_ms = l->idle_ns / NS_PER_MS,
			      .grace_ms = hub_conf(s->hub)->round_kill_grace_ns / NS_PER_MS,
			      .stdin_open = l->pty || l->stdin_open || l->stdin_len,
			      .login_shell = l->login,
			      .self = l->transfer || l->port || l->serves,
			      .reserve = s->grant->kind == GRANT_STAFF,
			      .tree = l->service[0],
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
		(void)link_resize(s->agent->link, s->channel, (uint16_t)l->cols, (uint16_t)l->rows, (uint16_t)l->xpixel,
				  (uint16_t)l->ypixel);
	return rc;
}

/* The intent stands in the journal before anything else of the session, and before the sandbox hears of it. */
int session_intend(struct session *s, struct err *e)
{
	json_t *o;
	int rc;

	s->mark = link_mark(s->agent->link);
	s->mark.opens += s->mark.life != 0;
	o = session_open_json(s);
	rc = o ? journal_json(hub_journal(s->hub), RING_OPEN, &s->id, o) : ERR_NOMEM;
	json_decref(o);
	return rc ? err_set(e, rc == ERR_AGAIN ? ERR_RECORD_UNAVAILABLE : rc, "the session cannot be journaled: %s",
			    err_name(rc))
		  : 0;
}

int session_start(struct session *s, struct err *e)
{
	int rc;

	s->linger_at = 0;
	session_oom_begin(s);
	rc = send_open(s, e);
	if (rc)
		session_finish(s, EXIT_NOT_STARTED, -1, 0, e ? e->message : "the link refused");
	return rc;
}

/* All that came with the start, however much the door let in: nobody would send the rest. */
static void feed_stdin(struct session *s)
{
	struct launch *l = &s->launch;
	size_t taken = 0;

	session_queue_room(s, l->stdin_len);
	if (l->stdin_len && session_queue_input(s, l->stdin_data, l->stdin_len, &taken))
		session_kill(s, EXIT_LOST, "its input could not be queued");
	free(l->stdin_data);
	l->stdin_data = NULL;
	if (l->stdin_len && !l->stdin_open)
		(void)session_input_eof(s);
	l->stdin_len = 0;
	session_settle(s);
}

/* What the terminal has already is not sent: programs would draw again. */
static void send_size_due(struct session *s)
{
	const struct launch *l = &s->launch;

	if (s->size_due && link_resize(s->agent->link, s->channel, (uint16_t)l->cols, (uint16_t)l->rows,
				       (uint16_t)l->xpixel, (uint16_t)l->ypixel) == 0)
		s->size_due = false;
}

static void session_run_say(struct session *s, const char *text, bool over)
{
	struct attachment *a;

	TAILQ_FOREACH(a, &s->attachments, of_session)
	attachment_notice(a, text, over);
}

/* The terminal was begun by a process made ahead, for no other could be made: nor can its shell make any. */
static void say_full(struct session *s)
{
	char text[256];

	text_format(
	    text, sizeof(text),
	    "%.64s is at its limit of processes: this shell can start none, its own commands work; muxctl sandbox "
	    "kill ends everything inside",
	    s->agent->name);
	session_run_say(s, text, false);
}

void session_on_waits(struct session *s, const char *why)
{
	uint64_t now = clock_boot_ns();
	char text[256];

	if (s->state != SESSION_OPENING)
		return;
	text_put(text, WAITS_SIZE, why);
	free(s->waits);
	s->waits = strdup(text);
	if (!s->waits) {
		struct log_ids ids = session_ids(s);

		log_error(&ids, "it waits for its place, and nobody is told: no memory");
		return;
	}
	if (s->waits_ns && now - s->waits_ns < WAITS_NS)
		return;
	s->waits_ns = now;
	if (s->kind == SESSION_TERMINAL || s->kind == SESSION_EXEC)
		session_opened(s, 0, NULL); /* its client is shown the wait; a round's caller awaits its answer */
	text_format(text, sizeof(text), "%s%s", s->waits, s->launch.pty ? "; Ctrl-C gives up" : "");
	session_run_say(s, text, false);
}

bool session_gives_up(struct session *s, const void *p, size_t n)
{
	if (s->state != SESSION_OPENING || !s->waits || !s->launch.pty || !memchr(p, 3, n))
		return false;
	session_kill(s, EXIT_KILLED, "given up while it waited for its turn");
	return true;
}

void session_on_opened(struct session *s, int rc, const char *why)
{
	struct attachment *a;

	s->heard_ns = clock_boot_ns();
	if (rc == 0) {
		s->started = true;
		if (s->state == SESSION_OPENING)
			session_set_state(s, SESSION_RUNNING);
		send_size_due(s);
		feed_stdin(s);
	}
	if (rc == 0)
		session_opened(s, 0, why); /* else the EXIT that follows says more than `why` */
	if (s->waits)
		session_run_say(s, rc ? "" : "its turn has come", true);
	free(s->waits);
	s->waits = NULL;
	if (rc == 0 && strcmp(why, "spare") == 0)
		say_full(s);
	TAILQ_FOREACH(a, &s->attachments, of_session)
	if (a->input_blocked)
		attachment_wake(a, WAKE_WRITABLE);
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

void session_unlisted(struct session *s)
{
	struct link_mark now = link_mark(s->agent->link);

	if (link_mark_never_came(&s->mark, &now))
		session_never_came(s);
	else
		session_finish(s, EXIT_UNKNOWN, -1, 0, "the sandbox does not know it: whether it ran is not known");
}

bool session_start_unsure(const struct session *s)
{
	bool silent = !s->stream[STREAM_OUTPUT].end && !s->stream[STREAM_STDERR].end;

	return s->kind == SESSION_ROUND && s->state == SESSION_SUSPENDED && s->end == END_NOT_YET && s->mark.life &&
	       !s->started && silent;
}

void session_resume(struct session *s, const struct link_channel_info *info)
{
	uint64_t have[STREAM_COUNT];

	for (int i = 0; i < STREAM_COUNT; i++)
		have[i] = s->stream[i].end + buf_len(&s->backlog[i]);
	have[STREAM_INPUT] = info->exited ? info->input_consumed : session_input_settle(s, info);
	if (s->oom_base == SESSION_NO_BASE)
		s->oom_base = s->agent->oom.count;
	session_settle(s);
	if (link_resume(s->agent->link, s->channel, have, SESSION_WINDOW)) {
		session_finish(s, EXIT_LOST, -1, 0, "the sandbox no longer has the output from where the record ends");
		(void)link_kill(s->agent->link, s->channel, EXIT_KILLED);
		return;
	}
	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++)
		s->window[i] = have[i] + SESSION_WINDOW;
	s->started = true;
	s->echo_due = s->launch.pty && !info->exited ? clock_boot_ns() + ECHO_WAIT_NS : 0;
	s->heard_ns = clock_boot_ns();
	session_event(s, "link_up", NULL);
	session_set_state(s, s->killing ? SESSION_ENDING : SESSION_RUNNING);
	if (!info->exited)
		session_input_again(s, have[STREAM_INPUT]);
	send_size_due(s);
	if (s->killing)
		(void)link_kill(s->agent->link, s->channel, EXIT_KILLED);
	session_opened(s, 0, NULL);
	session_on_consumed(s, have[STREAM_INPUT]);
}

static bool session_run_wanted(const struct session *s)
{
	return !TAILQ_EMPTY(&s->attachments) || !LIST_EMPTY(&s->waiters) || s->audit_due;
}

void sessions_trim(struct hub *h)
{
	struct session *s, *next;

	for (s = shelf_oldest(h); s && shelf_is_full(h); s = next) {
		next = TAILQ_NEXT(s, of_ended);
		if (!session_run_wanted(s))
			session_free(s);
	}
}

/* Nothing came of a program that could have sent something. Who runs it watches for that itself, where it can: then it
 * has the first word. */
static bool is_silent(const struct session *s, uint64_t now)
{
	uint64_t limit = s->launch.idle_ns;

	if (!limit || s->state != SESSION_RUNNING || session_backlog(s))
		return false;
	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++)
		if (s->stream[i].end >= s->window[i])
			return false;
	return now - s->heard_ns >= limit + (link_has_idle(s->agent->link) ? SESSION_KILL_DEADLINE_NS : 0);
}

/* Ends that do not wait for the sandbox's word. What merely lost its link is none of them: it may come back. */
static void end_in_time(struct session *s, uint64_t now)
{
	bool cannot_hear = s->state == SESSION_ENDING || s->state == SESSION_SUSPENDED;

	bool in_vain = s->on_opened && now - s->opened_boot_ns >= agent_patience(s->agent);

	if (in_vain && s->launch.exec_id && session_start_unsure(s)) /* who asks again hears what the link shows */
		session_opened(s, ERR_LINK_LOST, "its sandbox does not answer: ask again whether it began");
	else if (in_vain)
		session_finish(s, EXIT_UNKNOWN, -1, 0, "its sandbox did not answer: whether it began is not known");
	else if (s->kill_deadline && now >= s->kill_deadline && cannot_hear)
		session_finish(s, EXIT_UNKNOWN, -1, 0, "it was told to end and did not report back");
	else if (s->state == SESSION_RUNNING && quiesce_stills(s->agent))
		return; /* a kill would have it write behind the snapshot, and silence is not its own */
	else if (is_silent(s, now))
		session_kill(s, EXIT_IDLE_TIMEOUT, "");
	else if (!s->launch.timeout_ns || now - s->opened_boot_ns < s->launch.timeout_ns + SESSION_KILL_DEADLINE_NS)
		return;
	else if (s->state == SESSION_RUNNING)
		session_kill(s, EXIT_TIMEOUT, "timed out");
	else if (s->kind == SESSION_FILE) /* its client need not wait until the sandbox is there again */
		session_finish(s, EXIT_TIMEOUT, -1, 0, NULL);
}

void session_tick(struct session *s, uint64_t now)
{
	screen_tick(s, now);
	session_sweep(s, now);
	if (s->state == SESSION_ENDED) {
		if (now >= s->forget_at && s->end == END_TOLD && !session_run_wanted(s))
			session_free(s);
		return;
	}
	if (now >= s->echo_due) /* a terminal that was closed tells none: what was before the break holds */
		s->echo_due = 0;
	session_share_tick(s, now);
	session_pump_input(s); /* the link's queue had no room, and nothing tells when it has */
	session_ack(s, true);  /* the rest of a burst */
	session_pace(s, now);
	session_wake_input(s);
	session_settle(s);
	if (s->linger_at && now >= s->linger_at) {
		s->linger_at = 0;
		session_kill(s, EXIT_KILLED, "nobody came back to it");
	}
	end_in_time(s, now);
}

struct session *session_restore_alloc(struct agent *a, const struct id *id, enum session_kind kind, uint32_t channel,
				      const uint64_t at[STREAM_COUNT], const struct grant *g)
{
	struct session *s = allocate(a, id, kind, g);

	if (!s)
		return NULL;
	s->state = SESSION_SUSPENDED;
	s->channel = channel;
	s->door = "record";
	init_streams(s, at);
	s->given_from = at[STREAM_INPUT];
	if (channel > a->next_channel)
		a->next_channel = channel;
	enlist(s);
	return s;
}
