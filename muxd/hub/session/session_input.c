/* The way of a key stroke: journal, then the sandbox. */
#define LOG_SUBSYS "session"
#include "muxd/hub/session/session_input.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/record/record_share.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/launch.h"
#include "muxd/hub/session/session_output.h"
#include "muxd/hub/session/session_share.h"
#include "muxd/hub/session/session_state.h"
#include "muxd/hub/session/wake.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define INPUT_CHUNK     (32 * 1024)
#define STDIN_QUEUE_MAX (1024 * 1024)
#define FLIGHT_KEPT     (16 * 1024)       /* memory kept for the next input once all is taken */
#define TYPIST_AGAIN_NS (60 * NS_PER_SEC) /* so that who plays the record from the middle learns it, too */

/* Where the input stands as the link counts it. */
static uint64_t link_at(const struct session *s)
{
	return s->in_offset - s->in_lost + s->in_extra;
}

static int journal_input(struct session *s, const void *p, size_t n)
{
	char stars[INPUT_CHUNK];
	bool mask = s->launch.pty && s->echo_off && hub_conf(s->hub)->mask_input;
	/* What is typed always finds room, what is sent to a pipe may be much: it waits like output. */
	struct journal_data d = {.session = s->id,
				 .stream = STREAM_INPUT,
				 .offset = s->in_offset,
				 .flags = mask ? RING_MASKED : 0,
				 .keys = s->launch.pty,
				 .also = s->share_also};

	if (mask)
		memset(stars, '*', n);
	return journal_data(hub_journal(s->hub), &d, &s->share, mask ? stars : p, n);
}

/* ---- what is on its way */

static int keep_in_flight(struct session *s, const void *p, size_t n)
{
	if (s->in_flight.max == 0)
		buf_init(&s->in_flight, LINK_INPUT_WINDOW);
	return buf_append(&s->in_flight, p, n);
}

/* To the program, at `at`. Keys that a break swallows are not sent again, what a program reads from a pipe is. */
static void deliver(struct session *s, uint64_t at, const void *p, size_t n)
{
	struct link *l = s->agent->link;
	ssize_t sent;

	if (!s->launch.pty && keep_in_flight(s, p, n)) {
		session_doom(s, EXIT_LOST, "no memory for its input");
		return;
	}
	session_ack(s, true); /* in one write with the input */
	sent = link_input(l, s->channel, at, p, n);
	if (sent == (ssize_t)n)
		return;
	if (!s->launch.pty) { /* room was asked for: the stream broke in between, or there is no memory */
		if (link_state(l) == LINK_UP)
			session_doom(s, EXIT_LOST, "its input could not be sent");
		return;
	}
	log_debug(NULL, "session %s: input at %llu not sent", s->id_text, (unsigned long long)at);
	n -= sent > 0 ? (size_t)sent : 0;
	s->in_lost += n;
	session_event(s, "undelivered", json_pack("{s:I}", "bytes", (json_int_t)n));
}

void session_input_landed(struct session *s, uint64_t consumed)
{
	uint64_t held = buf_len(&s->in_flight), base = link_at(s) - held;

	if (consumed <= base)
		return;
	buf_consume(&s->in_flight, (size_t)(consumed - base < held ? consumed - base : held));
	if (!buf_len(&s->in_flight) && s->in_flight.cap > FLIGHT_KEPT) {
		buf_finish(&s->in_flight);
		buf_init(&s->in_flight, LINK_INPUT_WINDOW);
	}
}

uint64_t session_input_settle(struct session *s, const struct link_channel_info *info)
{
	uint64_t base = link_at(s) - buf_len(&s->in_flight), lost;

	if (info->input_consumed >= base) {
		session_input_landed(s, info->input_consumed);
		return link_at(s) - buf_len(&s->in_flight);
	}
	lost = base - info->input_consumed;
	session_event(s, "undelivered", json_pack("{s:I}", "bytes", (json_int_t)lost));
	s->in_lost += lost;
	if (s->kind == SESSION_ROUND && !s->launch.pty) /* the hub that had it still was another one */
		session_doom(s, EXIT_LOST, "the daemon was restarted, and a part of its input is lost");
	return info->input_consumed;
}

void session_input_again(struct session *s, uint64_t from)
{
	struct link *l = s->agent->link;
	size_t n = buf_len(&s->in_flight);

	if (n && link_input(l, s->channel, from, buf_ptr(&s->in_flight), n) != (ssize_t)n)
		session_doom(s, EXIT_LOST, "its input could not be sent again");
	if (s->in_eof && s->in_eof != UINT64_MAX)
		(void)link_input_eof(l, s->channel, link_at(s));
}

/* ---- new input */

/* A transfer takes as much content as was announced, and as a grant lets a file have, and no more. */
static int check_transfer(struct session *s, size_t n)
{
	struct transfer *t = s->launch.transfer;

	if (s->kind != SESSION_FILE)
		return 0;
	if (!t || !t->row->takes || t->trailer_due)
		return ERR_ENDED;
	if (t->size_max && n > t->size_max - t->content.total) {
		t->over = true;
		session_doom(s, EXIT_KILLED, "more content came than a file may have here");
		return ERR_TOO_LARGE;
	}
	if (t->size == UINT64_MAX || n <= t->size - t->content.total)
		return 0;
	session_doom(s, EXIT_KILLED, "more content came than was announced");
	return ERR_TOO_LARGE;
}

/* What the way to its program takes now. */
static size_t input_room(struct session *s)
{
	const struct link *l = s->agent->link;

	if (s->state != SESSION_RUNNING || s->echo_due || journal_state(hub_journal(s->hub)) != RECORD_OK ||
	    link_queued(l) > LINK_OUT_HIGH || !session_share_lets_in(s))
		return 0;
	return link_input_room(l, s->channel, link_at(s));
}

static const char *called_by(const struct session *s)
{
	return s->caller ? s->caller : s->grant->principal;
}

/* At each change of hands, before the first byte: the input that follows in the record is theirs. */
static int name_typist(struct session *s, const struct attachment *by)
{
	static const struct id nobody;
	const struct id *id = by ? &by->id : &nobody;
	char text[ID_STR_LEN];
	json_t *o;
	int rc;

	if (id_equal(&s->typist, id) && (by ? clock_boot_ns() - s->typist_ns < TYPIST_AGAIN_NS : !s->caller_changed))
		return 0;
	o = json_pack("{s:s,s:s,s:I}", "event", "input", "principal", by ? by->grant->principal : called_by(s),
		      "offset", (json_int_t)s->in_offset);
	if (o && by) {
		id_format(id, text);
		json_object_set_new(o, "attachment", json_string(text));
	}
	rc = o ? journal_json(hub_journal(s->hub), RING_EVENT, &s->id, o) : ERR_NOMEM;
	if (!rc)
		record_share_note(s, json_dumpb(o, NULL, 0, JSON_COMPACT));
	json_decref(o);
	if (!rc) {
		s->typist = *id;
		s->typist_ns = clock_boot_ns();
		s->caller_changed = by && s->caller_changed;
	}
	return rc;
}

/*
 * Into the record, then on its way, as much as there is room for. Bytes, 0: none now. Whose it is the record is told at
 * the first byte; of an attachment's that had to wait it has been, and nobody else's came in between.
 */
static ssize_t put_input(struct session *s, const struct attachment *by, const void *p, size_t n)
{
	uint64_t at = link_at(s);
	size_t take = n < INPUT_CHUNK ? n : INPUT_CHUNK, room = input_room(s);
	int rc = 0;

	take = take < room ? take : room;
	if (!take)
		return 0;
	if (by || id_is_nil(&s->in_owner))
		rc = name_typist(s, by);
	if (!rc)
		rc = journal_input(s, p, take);
	if (rc == ERR_AGAIN)
		return 0;
	if (!rc && s->kind == SESSION_FILE)
		rc = transfer_input(s->launch.transfer, p, take);
	if (rc)
		return rc;
	s->in_offset += take;
	if (!s->share_apart)
		session_share_moved(s, STREAM_INPUT, s->in_offset, take);
	hub_counters(s->hub)->bytes_in += take;
	deliver(s, at, p, take);
	if (!launch_is_inside(
		&s->launch)) /* else a server's ping would keep its sandbox awake; requests do (inside_call.c) */
		agent_touch(s->agent);
	return (ssize_t)take;
}

/* ---- what is typed ahead of its prompt (typeahead.h) */

static void session_input_on_ahead(uv_timer_t *t);

static uint64_t ahead_wait(const struct session *s)
{
	const struct hub *h = s->hub;

	return s->launch.pty && hub_conf(h)->mask_input && !hub_stopping(h) ? hub_conf(h)->typed_ahead_ns : 0;
}

static void ahead_arm(struct aheads *all, uint64_t until)
{
	uint64_t now = clock_boot_ns(), ms = until > now ? (until - now) / NS_PER_MS + 1 : 1;

	uv_update_time(all->timer->loop);
	if (!uv_is_active((uv_handle_t *)all->timer) || uv_timer_get_due_in(all->timer) > ms)
		uv_timer_start(all->timer, session_input_on_ahead, ms, 0);
}

static void ahead_hold(struct session *s, uint64_t now)
{
	struct aheads *all = hub_aheads(s->hub);

	typeahead_hold(&s->ahead, now);
	TAILQ_INSERT_TAIL(&all->held, s, of_ahead);
	ahead_arm(all, typeahead_until(&s->ahead, ahead_wait(s)));
}

static void ahead_let_go(struct session *s, bool for_good)
{
	if (s->ahead.state == TYPEAHEAD_HELD)
		TAILQ_REMOVE(&hub_aheads(s->hub)->held, s, of_ahead);
	typeahead_let_go(&s->ahead, clock_boot_ns(), ahead_wait(s), for_good);
}

/* The same for what may wait for the terminal: if that is so once the first line of it went, the session is held. */
static ssize_t session_put_line(struct session *s, const struct attachment *by, const void *p, size_t n)
{
	uint64_t wait = ahead_wait(s), now = clock_boot_ns();
	size_t cut = wait ? typeahead_cut(&s->ahead, p, n, now, wait) : n;
	ssize_t took = put_input(s, by, p, cut);

	if (took <= 0 || !wait)
		return took;
	typeahead_went(&s->ahead, p, (size_t)took, n, now, wait);
	if ((size_t)took == cut && cut < n)
		ahead_hold(s, now);
	return took;
}

/* ---- the one queue: whatever was taken and has not gone on. All input comes behind it */

static void queue_forget(struct session *s)
{
	static const struct id nobody;

	buf_finish_secret(&s->in_queue);
	s->in_owner = nobody;
}

void session_input_forget(struct session *s)
{
	ahead_let_go(s, false);
	queue_forget(s);
}

/* True: nothing of it is left, and what comes now may go. */
static bool pump_queue(struct session *s)
{
	struct buf *q = &s->in_queue;

	if (s->state == SESSION_ENDED || s->end >= END_KNOWN) { /* what came by calls its caller may still ask about */
		if (!id_is_nil(&s->in_owner))
			session_input_forget(s);
		return false;
	}
	while (buf_len(q) && s->ahead.state == TYPEAHEAD_FREE) {
		ssize_t n = session_put_line(s, NULL, buf_ptr(q), buf_len(q));

		if (n <= 0)
			return false;
		buf_consume(q, (size_t)n);
	}
	if (buf_len(q))
		return false;
	queue_forget(s);
	return true;
}

static int queue_add(struct session *s, const struct id *owner, const void *p, size_t n)
{
	int rc;

	session_queue_room(s, 0);
	rc = buf_append(&s->in_queue, p, n);
	if (!rc)
		s->in_owner = *owner;
	return rc;
}

/* Room for more of who typed what is held. */
static bool ahead_fits(const struct session *s, const void *p, size_t n)
{
	return s->ahead.state == TYPEAHEAD_HELD && buf_len(&s->in_queue) + n <= TYPEAHEAD_MAX &&
	       !typeahead_interrupts(p, n);
}

static void ahead_go_on(struct session *s, bool for_good)
{
	ahead_let_go(s, for_good);
	session_pump_input(s);
	session_wake_input(s);
}

void session_ahead_flush(struct session *s)
{
	if (s->ahead.state == TYPEAHEAD_HELD)
		ahead_go_on(s, true);
}

static void session_input_on_ahead(uv_timer_t *t)
{
	struct hub *h = t->data;
	struct aheads *all = hub_aheads(h);
	uint64_t now = clock_boot_ns(), next = UINT64_MAX;
	struct session *s, *after;

	for (s = TAILQ_FIRST(&all->held); s; s = after) {
		uint64_t until = typeahead_until(&s->ahead, ahead_wait(s));

		after = TAILQ_NEXT(s, of_ahead);
		if (until <= now)
			ahead_go_on(s, true);
		else if (until < next)
			next = until;
	}
	if (next != UINT64_MAX)
		ahead_arm(all, next);
	hub_flush(h);
}

void session_on_echo(struct session *s, enum link_echo mode)
{
	bool was_due = s->echo_due != 0;

	s->echo_off = mode == LINK_ECHO_OFF;
	s->echo_due = 0;
	if (typeahead_mode(&s->ahead, mode)) {
		ahead_go_on(s, false);
	} else if (was_due) {
		session_pump_input(s);
		session_wake_input(s);
	}
}

void session_ahead_output(struct session *s, const void *p, size_t n)
{
	if (ahead_wait(s) && typeahead_output(&s->ahead, p, n))
		ahead_go_on(s, false);
}

int aheads_create(struct hub *h, struct aheads **out)
{
	struct aheads *all = calloc(1, sizeof(*all));

	if (!all || !(all->timer = malloc(sizeof(*all->timer)))) {
		free(all);
		return ERR_NOMEM;
	}
	TAILQ_INIT(&all->held);
	uv_timer_init(hub_loop(h), all->timer);
	all->timer->data = h;
	*out = all;
	return 0;
}

static void session_input_free_timer(uv_handle_t *t)
{
	free(t);
}

void aheads_flush(struct hub *h)
{
	struct session *s;

	while ((s = TAILQ_FIRST(&hub_aheads(h)->held)))
		session_ahead_flush(s);
}

void aheads_destroy(struct aheads *all)
{
	if (all)
		uv_close((uv_handle_t *)all->timer, session_input_free_timer);
	free(all);
}

/* ---- all input */

static bool takes_none(const struct session *s)
{
	return s->state == SESSION_ENDED || s->state == SESSION_ENDING || s->end >= END_KNOWN;
}

/*
 * Behind what is queued. Of the same person a little more is queued, too; others wait until it has gone, and a paste
 * or an interrupt makes it go. Bytes, 0: none now, -1: nothing is queued any more.
 */
static ssize_t input_behind(struct session *s, const struct attachment *by, const void *p, size_t n)
{
	bool same = id_equal(&s->in_owner, &by->id);

	if (same && ahead_fits(s, p, n) && !queue_add(s, &by->id, p, n))
		return (ssize_t)n;
	if (same || typeahead_interrupts(p, n))
		ahead_let_go(s, true);
	if (!pump_queue(s))
		return 0;
	session_wake_input(s);
	return -1;
}

static ssize_t input_at_once(struct session *s, const struct attachment *by, const void *p, size_t n)
{
	ssize_t took = session_put_line(s, by, p, n);

	if (s->ahead.state != TYPEAHEAD_HELD)
		return took;
	if (!queue_add(s, &by->id, (const char *)p + took, n - (size_t)took))
		return (ssize_t)n;
	ahead_let_go(s, false); /* no memory: whose it is keeps it */
	return took;
}

/* Its program reads from /dev/null: it was neither given input with the call nor started to be sent some. */
static bool has_no_input(const struct session *s)
{
	return (s->kind == SESSION_ROUND || s->kind == SESSION_EXEC) && !s->launch.pty && !s->launch.stdin_open &&
	       !s->in_offset && !buf_len(&s->in_queue);
}

/* Bytes taken; 0 = not now: session_wake_input() tells when. */
ssize_t session_input(struct session *s, struct attachment *by, const void *p, size_t n)
{
	ssize_t taken = -1;
	int rc;

	if (takes_none(s) || (s->in_eof && s->in_eof != UINT64_MAX))
		return ERR_ENDED;
	if (s->in_eof) /* an end waits for what is before it; a terminal's is a character, and more may come behind it
			*/
		return s->launch.pty ? 0 : ERR_ENDED;
	if (has_no_input(s)) /* the record would have what nobody read */
		return ERR_BAD_STATE;
	rc = check_transfer(s, n);
	if (rc)
		return rc;
	if (buf_len(&s->in_queue))
		taken = input_behind(s, by, p, n);
	if (taken < 0)
		taken = input_at_once(s, by, p, n);
	if (taken > 0)
		by->typed += (uint64_t)taken;
	return taken;
}

/* Size and digest behind a put's content: muxlet's to check, no content and so not journaled. True: none is left. */
static bool pump_trailer(struct session *s)
{
	struct transfer *t = s->launch.transfer;
	size_t n, room;

	if (!t || !t->trailer_due || t->trailer_sent == TRANSFER_TRAILER_LEN)
		return true;
	if (s->state != SESSION_RUNNING)
		return false;
	n = TRANSFER_TRAILER_LEN - t->trailer_sent;
	room = link_input_room(s->agent->link, s->channel, link_at(s));
	n = n < room ? n : room;
	if (n) {
		uint64_t at = link_at(s);

		/* Counted first: what is in flight is reckoned from the end. */
		s->in_extra += n;
		deliver(s, at, t->trailer + t->trailer_sent, n);
		t->trailer_sent += n;
	}
	return t->trailer_sent == TRANSFER_TRAILER_LEN;
}

static int send_eof(struct session *s)
{
	int rc = link_input_eof(s->agent->link, s->channel, link_at(s));

	if (rc)
		return rc;
	if (!s->launch.pty) /* a terminal's end of file is a character: it can be typed again */
		s->in_eof = 1 + s->in_offset;
	session_event(s, "eof", json_pack("{s:I}", "offset", (json_int_t)s->in_offset));
	return 0;
}

static int complete_transfer(struct session *s)
{
	struct transfer *t = s->launch.transfer;
	int rc;

	if (!t || !t->row->takes || t->trailer_due)
		return 0;
	rc = transfer_complete(t);
	if (rc)
		session_doom(s, EXIT_KILLED, rc == ERR_EOF ? "less content came than was announced" : "no digest");
	return rc;
}

int session_input_eof(struct session *s)
{
	if (s->state == SESSION_ENDED || s->end >= END_KNOWN)
		return ERR_ENDED;
	if (s->in_eof || has_no_input(s) || complete_transfer(s))
		return 0;
	if (s->state == SESSION_RUNNING && pump_queue(s) && pump_trailer(s))
		return send_eof(s);
	s->in_eof = UINT64_MAX; /* wanted: session_pump_input() sends it once what is queued has gone */
	return 0;
}

void session_queue_room(struct session *s, size_t n)
{
	size_t need = buf_len(&s->in_queue) + n;

	if (s->in_queue.max == 0)
		buf_init(&s->in_queue, STDIN_QUEUE_MAX);
	if (s->in_queue.max < need)
		s->in_queue.max = need;
}

bool session_input_by(struct session *s, const char *principal)
{
	char *name = NULL;

	if (strcmp(called_by(s), principal) == 0)
		return true;
	if (buf_len(&s->in_queue) && id_is_nil(&s->in_owner) && !pump_queue(s))
		return false;
	if (strcmp(s->grant->principal, principal) != 0 && !(name = strdup(principal)))
		return false; /* nobody's name would be better than another's */
	free(s->caller);
	s->caller = name;
	s->caller_changed = true;
	return true;
}

bool session_queue_fits(struct session *s, size_t n)
{
	session_queue_room(s, 0);
	return buf_room(&s->in_queue) >= n;
}

/* Input that comes by calls is queued (bounded) and sent as the program takes it. */
int session_queue_input(struct session *s, const void *p, size_t n, size_t *out_taken)
{
	static const struct id nobody;
	size_t room, take;
	int rc;

	if (takes_none(s) || s->in_eof)
		return ERR_ENDED;
	if (s->ahead.state == TYPEAHEAD_HELD && !ahead_fits(s, p, n))
		ahead_let_go(s, true);
	if (!id_is_nil(&s->in_owner) && !pump_queue(s)) {
		*out_taken = 0; /* what somebody typed goes first */
		return 0;
	}
	session_queue_room(s, 0);
	room = buf_room(&s->in_queue);
	take = n < room ? n : room;
	rc = queue_add(s, &nobody, p, take);
	if (rc)
		return rc;
	*out_taken = take;
	session_pump_input(s);
	return 0;
}

void session_pump_input(struct session *s)
{
	if (!pump_queue(s))
		return;
	if (s->in_eof == UINT64_MAX && s->state == SESSION_RUNNING && pump_trailer(s)) {
		s->in_eof = 0;
		if (send_eof(s) && !s->launch.pty)
			s->in_eof = UINT64_MAX;
	}
}

/* The ring, the session's share of it and the link's queue say nothing when they have room again. */
void session_wake_input(struct session *s)
{
	struct attachment *a;

	if (buf_len(&s->in_queue))
		return;
	TAILQ_FOREACH(a, &s->attachments, of_session)
	if (a->input_blocked && input_room(s))
		attachment_wake(a, WAKE_WRITABLE);
}
