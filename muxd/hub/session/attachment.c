#define LOG_SUBSYS "attach"
#include "muxd/hub/session/attachment.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/core/grant_news.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/record/record_share.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/launch.h"
#include "muxd/hub/session/port.h"
#include "muxd/hub/session/screen.h"
#include "muxd/hub/session/session_end.h"
#include "muxd/hub/session/session_input.h"
#include "muxd/hub/session/session_output.h"
#include "muxd/hub/session/session_run.h"
#include "muxd/hub/session/session_state.h"
#include "muxd/hub/session/wake.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_MAX_CELLS 4096

/* Who came to a session and who left it, for the audit log; a transfer or a forwarded connection has events of its own.
 */
static int attachment_audit(const struct attachment *a, const char *event, const struct policy_mark *mark, bool left)
{
	const struct session *s = a->session;
	struct request rq = {.grant = *a->grant, .id = a->request, .door = a->door};
	char id[ID_STR_LEN];
	json_t *d;

	if (s->kind == SESSION_FILE || s->kind == SESSION_PORT)
		return 0;
	text_put(rq.peer, sizeof(rq.peer), a->peer);
	if (mark)
		rq.policy = *mark;
	id_format(&a->id, id);
	d = json_pack("{s:s,s:s,s:s}", "session", s->id_text, "attachment", id, "role", attachment_role_name(a->role));
	if (d && left) {
		uint64_t ms = (clock_boot_ns() - a->since_ns) / NS_PER_MS;

		json_object_set_new(d, "attached_ms", json_integer((json_int_t)ms));
		json_object_set_new(d, "typed_bytes", json_integer((json_int_t)a->typed));
	}
	return audit_event(s->hub, event, &rq, s->agent->name, "ok", d);
}

static void tell_recording(struct attachment *a, const char *event)
{
	char id[ID_STR_LEN], grant[ID_STR_LEN];

	id_format(&a->id, id);
	id_format(&a->grant->id, grant);
	session_event(a->session, event,
		      json_pack("{s:s,s:s,s:s,s:s,s:s,s:s}", "attachment", id, "role", attachment_role_name(a->role),
				"principal", a->grant->principal, "grant_id", grant, "door", a->door, "peer", a->peer));
}

static void attachment_free(struct hub *h, struct attachment *a)
{
	if (!a)
		return;
	hub_grant_unshare(h, a->grant);
	free(a->text);
	free(a);
}

int attachment_create(struct session *s, const struct request *rq, enum attachment_role role,
		      const struct attachment_ops *ops, void *arg, bool held, struct attachment **out)
{
	struct attachment *a = calloc(1, sizeof(*a));
	int rc = a ? id_new(&a->id) : ERR_NOMEM;

	if (rc)
		goto out;
	a->session = s;
	a->ops = ops;
	a->arg = arg;
	a->role = role;
	a->grant = hub_grant_share(s->hub, &rq->grant);
	if (!a->grant) {
		rc = ERR_NOMEM;
		goto out;
	}
	a->request = rq->id;
	a->since_ns = clock_boot_ns();
	a->door = rq->door;
	memcpy(a->peer, rq->peer, sizeof(a->peer));
	rc = attachment_audit(a, "session.attach", &rq->policy, false);
	if (rc) { /* nobody sees what is not told of */
		rc = ERR_RECORD_UNAVAILABLE;
		goto out;
	}
	for (int i = 0; i < STREAM_COUNT; i++)
		a->cursor[i] = s->stream[i].start;
	a->armed = true;
	a->held = held;
	TAILQ_INSERT_TAIL(&s->attachments, a, of_session);
	s->observers += role == ROLE_OBSERVER;
	pace_begin(a);
	clients_put(a);
	hub_stir(s->hub);
	s->linger_at = 0;
	session_pace(s, a->since_ns);
	hub_counters(s->hub)->attachments_live++;
	tell_recording(a, "attach");
	session_touch(s);
	*out = a;
	attachment_wake(a, WAKE_READABLE);
	attachment_check_end(a);
	if (s->stream[STREAM_OUTPUT].end && screen_want(a, rq))
		; /* what was before comes as one screen */
	/* After a restart there is no recent output to show: whoever draws the screen is asked to draw it again. */
	else if (s->kind == SESSION_TERMINAL && s->state == SESSION_RUNNING && s->started &&
		 !s->stream[STREAM_OUTPUT].cap)
		(void)link_signal(s->agent->link, s->channel, SIGWINCH);
	return 0;
out:
	attachment_free(s->hub, a);
	return rc;
}

/* Instead of the bytes that are gone: the current screen. Who waited for one in vain is told what it lost, and shown
 * bytes before it waits for the next: a worker that is always late must not leave it with nothing. */
static bool screen_behind(struct attachment *a)
{
	return !a->screen_missed && screen_want(a, NULL);
}

/* An observer who has had its share, or who is too far behind to be shown every byte. True: it is told when it may go
 * on. */
static bool observer_waits(struct attachment *a, int stream)
{
	const struct stream *st = &a->session->stream[stream];

	if (a->cursor[stream] >= st->visible)
		return false;
	if (!pace_allows(a))
		return true;
	if (stream != STREAM_OUTPUT)
		return false;
	if (a->cursor[stream] < st->start)
		return screen_behind(a);
	return pace_behind(a) && screen_behind(a);
}

static size_t peek(struct attachment *a, int stream, const uint8_t **out_p)
{
	const struct stream *st = &a->session->stream[stream];
	size_t n;

	if (a->role == ROLE_OBSERVER && observer_waits(a, stream))
		return 0;
	if (a->cursor[stream] < st->start) { /* fell behind by more than the buffer holds */
		a->armed = true;
		attachment_wake(a, WAKE_SKIPPED);
		return 0;
	}
	n = stream_peek(st, a->cursor[stream], out_p);
	return a->role == ROLE_OBSERVER && n > a->share ? a->share : n;
}

size_t attachment_peek(struct attachment *a, int stream, const uint8_t **out_p)
{
	struct session *s = a->session;
	size_t n = 0;

	if (a->over || stream < STREAM_OUTPUT || stream >= STREAM_COUNT)
		return 0;
	if (a->screening || (s->launch.transfer && !s->launch.transfer->head_known)) {
		a->armed = true; /* a screen is on its way; of the content of a file nothing is there */
		return 0;
	}
	if (journal_state(hub_journal(s->hub)) == RECORD_OK || s->state == SESSION_ENDED)
		n = peek(a, stream, out_p);
	if (!n) {
		a->armed = true;
		attachment_check_end(a);
	}
	return n;
}

void attachment_consume(struct attachment *a, int stream, size_t n)
{
	a->cursor[stream] += n;
	if (stream == STREAM_OUTPUT && n)
		a->screen_missed = false;
	if (a->role == ROLE_DRIVER)
		session_update_window(a->session);
	else
		pace_took(a, n);
	attachment_check_end(a);
}

void attachment_want_screen(struct attachment *a)
{
	if (!a->over && screen_want(a, NULL))
		a->screen_by = clock_boot_ns() + SCREEN_WAIT_EMPTY_NS;
}

uint64_t attachment_offset(const struct attachment *a, int stream)
{
	return a->cursor[stream];
}
int attachment_seek(struct attachment *a, int stream, uint64_t offset, uint64_t *out_missing)
{
	const struct stream *st = &a->session->stream[stream];

	if (offset > st->end)
		return ERR_INVAL;
	screen_unwant(a);
	*out_missing = offset < a->cursor[stream] ? a->cursor[stream] - offset : 0;
	if (offset > a->cursor[stream])
		a->cursor[stream] = offset;
	attachment_check_end(a);
	return 0;
}

struct session *attachment_session(const struct attachment *a)
{
	return a->session;
}

ssize_t attachment_input(struct attachment *a, const void *p, size_t n)
{
	ssize_t taken;

	if (a->role != ROLE_DRIVER)
		return ERR_FORBIDDEN;
	if (n && session_gives_up(a->session, p, n))
		return (ssize_t)n;
	taken = n ? session_input(a->session, a, p, n) : 0;
	session_settle(a->session);
	if (taken >= 0 && (size_t)taken < n)
		a->input_blocked = true;
	return taken;
}

int attachment_input_eof(struct attachment *a)
{
	int rc = a->role == ROLE_DRIVER ? session_input_eof(a->session) : ERR_FORBIDDEN;

	session_settle(a->session);
	return rc;
}

int session_resize(struct session *s, const struct attachment *by, unsigned cols, unsigned rows, unsigned xpixel,
		   unsigned ypixel)
{
	struct launch *l = &s->launch;
	struct attachment *other;
	uint8_t wire[8];
	int rc;

	if (cols < 1 || rows < 1 || cols > SIZE_MAX_CELLS || rows > SIZE_MAX_CELLS || xpixel > 65535 || ypixel > 65535)
		return ERR_INVAL;
	if (s->state == SESSION_ENDED)
		return ERR_ENDED;
	if (!l->pty ||
	    (!s->size_unsure && l->cols == cols && l->rows == rows && l->xpixel == xpixel && l->ypixel == ypixel))
		return 0;
	wire[0] = (uint8_t)cols, wire[1] = (uint8_t)(cols >> 8), wire[2] = (uint8_t)rows,
	wire[3] = (uint8_t)(rows >> 8);
	wire[4] = (uint8_t)xpixel, wire[5] = (uint8_t)(xpixel >> 8), wire[6] = (uint8_t)ypixel;
	wire[7] = (uint8_t)(ypixel >> 8);
	rc = journal_bytes(hub_journal(s->hub), RING_RESIZE, &s->id, wire, sizeof(wire));
	if (rc)
		return rc; /* not taken: the same size again is not one that it has */
	record_share_note(s, sizeof(wire));
	l->cols = cols, l->rows = rows, l->xpixel = xpixel, l->ypixel = ypixel;
	session_note_size(s);
	s->size_unsure = false;
	agent_touch(s->agent);
	TAILQ_FOREACH(other, &s->attachments, of_session)
	if (other != by)
		attachment_wake(other, WAKE_RESIZED);
	s->size_due = s->state != SESSION_RUNNING; /* then it is sent when the session is taken up again */
	if (s->size_due)
		return 0;
	return link_resize(s->agent->link, s->channel, (uint16_t)cols, (uint16_t)rows, (uint16_t)xpixel,
			   (uint16_t)ypixel);
}

int attachment_resize(struct attachment *a, unsigned cols, unsigned rows, unsigned xpixel, unsigned ypixel)
{
	return a->role == ROLE_DRIVER ? session_resize(a->session, a, cols, rows, xpixel, ypixel) : ERR_FORBIDDEN;
}

int attachment_signal(struct attachment *a, int signum)
{
	struct session *s = a->session;

	if (a->role != ROLE_DRIVER)
		return ERR_FORBIDDEN;
	if (s->state == SESSION_ENDED || s->end >= END_KNOWN)
		return ERR_ENDED;
	if (s->state != SESSION_RUNNING)
		return ERR_AGAIN;
	session_ahead_flush(s);
	session_event(s, "signal",
		      json_pack("{s:s,s:s}", "signal", signal_name(signum), "principal", a->grant->principal));
	s->kill_sent = s->kill_sent || signum == SIGKILL;
	return link_signal(s->agent->link, s->channel, signum);
}

static void leave(struct session *s)
{
	if (!TAILQ_EMPTY(&s->attachments) || s->state == SESSION_ENDED)
		return;
	if (hub_stopping(s->hub) && !s->agent->link) /* the daemon ends, and the session does not by that */
		return;
	if (s->state == SESSION_OPENING && s->waits)
		session_kill(s, EXIT_KILLED, "its client went away while it waited for its turn");
	else if (s->kind == SESSION_TERMINAL)
		s->linger_at = clock_boot_ns() + hub_conf(s->hub)->session_linger_ns;
	else if (s->kind != SESSION_ROUND)
		session_kill(s, EXIT_KILLED, s->kind == SESSION_PORT ? PORT_CLOSED : "its client went away");
}

void attachment_detach(struct attachment *a)
{
	struct session *s;

	if (!a)
		return;
	s = a->session;
	screen_unwant(a);
	clients_take(a);
	s->observers -= a->role == ROLE_OBSERVER;
	TAILQ_REMOVE(&s->attachments, a, of_session);
	hub_counters(s->hub)->attachments_live--;
	tell_recording(a, "detach");
	(void)attachment_audit(a, "session.detach", NULL,
			       true); /* where the journal is full it says so in the daemon's log */
	session_touch(s);
	attachment_free(s->hub, a);
	leave(s);
	session_update_window(s);
}
