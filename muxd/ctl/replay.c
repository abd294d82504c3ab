/* muxctl replay: a recording on the caller's terminal, or plain onto any output. */
#include "base/bytes.h"
#include "base/clock.h"
#include "muxd/ctl/nouns.h"
#include "muxd/ctl/record.h"
#include "muxd/ctl/replay_screen.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TURN_BYTES (256 * 1024) /* between two looks at the keyboard */
#define TICK_NS    (200 * NS_PER_MS)

static const struct ctl_option options[] = {
    {"speed", 's', "N", "Times the recorded speed, 0.125 to 64; 0: at once (default 1)."},
    {"instant", 0, NULL, "Everything at once, without timing."},
    {"idle-limit", 'i', "DURATION", "Play silences longer than this as this long."},
    {"from", 0, "DURATION", "Begin so far into the recording."},
    {"no-status", 0, NULL, "No status line."},
    {"raw", 0, NULL, "The recorded bytes as they are: what they say to a terminal, yours obeys and answers."},
    {"reason", 0, "TEXT", "Reason in the audit log (default: muxctl replay)."},
    {"unverified", 0, NULL, "Also of a recording that does not verify."},
    {NULL, 0, NULL, NULL},
};

struct replay_options {
	double speed; /* 0: at once */
	unsigned long long idle_limit, from;
	bool status;
};

static int replay_parse(const struct ctl_args *a, struct replay_options *o, struct err *e)
{
	const char *speed = args_get(a, "speed");
	char *end = NULL;

	*o = (struct replay_options){.speed = 1, .status = !args_has(a, "no-status")};
	if (speed) {
		o->speed = strtod(speed, &end);
		if (!*speed || *end ||
		    (o->speed != 0 && !(o->speed >= PLAYER_SPEED_MIN && o->speed <= PLAYER_SPEED_MAX)))
			return err_set(e, ERR_INVAL, "--speed is \"%.20s\": 0, or 0.125 to 64", speed);
	}
	if (args_has(a, "instant"))
		o->speed = 0;
	int rc = args_duration(a, "idle-limit", &o->idle_limit, e);
	return rc < 0 ? rc : args_duration(a, "from", &o->from, e);
}

/* The next event that is seen: output, a new size, a gap, the end. 1, 0 at the end. */
static int next_visible(struct replay *r, struct err *e)
{
	int rc;

	while ((rc = record_next(r->record, &r->next, e)) == 1)
		if (replay_visible(&r->next))
			break;
	replay_typist(r, &r->next);
	r->have_next = rc == 1;
	r->at_end = rc == 0;
	return rc;
}

/* The one pass that tells how long it is and where a screen begins. */
static int replay_scan(struct replay *r, struct err *e)
{
	struct ring_record rec;
	int rc;

	while ((rc = record_next(r->record, &rec, e)) == 1) {
		bool out = replay_is_output(&rec);
		if (rec.type == RING_RESIZE && rec.len >= 4)
			replay_index_resize(&r->index, get_u16(rec.payload), get_u16(rec.payload + 2));
		rc = replay_index_add(&r->index, rec.boot_ns, out ? rec.payload : NULL, out ? rec.len : 0);
		if (rc < 0)
			return err_set(e, rc, "no memory for the index of the recording");
	}
	return rc < 0 ? rc : record_seek(r->record, 0, e);
}

static int draw(struct replay *r, uint64_t to, struct err *e);

/* Everything up to `to`, at once. */
static int push_until(struct replay *r, uint64_t to, struct err *e)
{
	int rc = 1;

	if (!r->have_next && !r->at_end)
		rc = next_visible(r, e);
	while (rc == 1 && r->have_next && r->next.boot_ns <= to) {
		if (replay_covers(r)) /* the terminal's spare line became the picture's */
			return draw(r, to, e);
		replay_show(r, &r->next);
		rc = next_visible(r, e);
	}
	return rc < 0 ? rc : 0;
}

/* The screen as it was at `to`, from where a clean one begins. The player's time is left alone, and nothing is said
 * of what is shown again. */
static int draw(struct replay *r, uint64_t to, struct err *e)
{
	uint64_t from = replay_index_from(&r->index, to), until = r->notice_until;
	char notice[sizeof(r->notice)];
	int rc;

	memcpy(notice, r->notice, sizeof(notice));
	replay_typist(r, NULL);
	replay_index_size(&r->index, from, &r->cols, &r->rows);
	replay_screen_reset(r);
	r->have_next = r->at_end = false;
	rc = record_seek(r->record, from == r->index.first ? 0 : from, e);
	if (rc == 0)
		rc = push_until(r, to, e);
	memcpy(r->notice, notice, sizeof(notice));
	r->notice_until = until;
	return rc;
}

static int seek(struct replay *r, uint64_t to, struct err *e)
{
	uint64_t from = replay_index_from(&r->index, to);
	int rc;

	r->notice[0] = '\0';
	/* Forward from where it stands, unless a later clean screen makes that needless. */
	if (to < r->player.pos || from > r->player.pos || r->player.state == PLAYER_DONE || replay_covers(r))
		rc = draw(r, to, e);
	else
		rc = push_until(r, to, e);
	if (rc == 0)
		player_sought(&r->player, to, clock_boot_ns());
	return rc;
}

/* Before anything moves: what is under the line comes back. */
static int uncover(struct replay *r, struct err *e)
{
	return replay_covers(r) ? draw(r, r->player.pos, e) : 0;
}

static int obey(struct replay *r, enum player_order order, struct err *e)
{
	switch (order) {
	case ORDER_SEEK:
		return seek(r, r->player.target, e);
	case ORDER_STEP:
		if (uncover(r, e) < 0)
			return e->code;
		if (!r->have_next)
			return 0;
		replay_show(r, &r->next);
		player_sought(&r->player, r->next.boot_ns, clock_boot_ns());
		return next_visible(r, e) < 0 ? e->code : 0;
	case ORDER_HELP:
		replay_notice(
		    r, "space pause  +- speed  . step  arrows 5s 60s  0-9 %%  g G ends  i idle  s status  q quit");
		return 0;
	case ORDER_STOP:
		replay_stop(r);
		return draw(r, r->player.pos, e);
	case ORDER_REDRAW:
		r->notice[0] = '\0';
		/* A line that goes leaves the screen under it to be drawn again. */
		return r->player.status ? 0 : draw(r, r->player.pos, e);
	default:
		return 0;
	}
}

static int read_keys(struct replay *r, struct err *e)
{
	uint8_t bytes[64];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
	int rc = 0;

	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
		r->player.state = PLAYER_QUIT;
	for (ssize_t i = 0; i < n && rc == 0 && r->player.state != PLAYER_QUIT; i++) {
		int key = keys_feed(&r->keys, bytes[i]);
		if (key == KEY_NONE)
			continue;
		replay_keep_line(r);
		rc = obey(r, player_key(&r->player, key, clock_boot_ns()), e);
	}
	return rc;
}

/* What is due now, but not for longer than a turn. */
static int show_due(struct replay *r, struct err *e)
{
	size_t shown = 0;
	int rc = 1;

	while (rc == 1 && r->have_next && shown < TURN_BYTES) {
		uint64_t now = clock_boot_ns();
		if (player_wait(&r->player, r->next.boot_ns, now) > 0)
			return 0;
		if (replay_covers(r)) { /* what is next may be another one then */
			if ((rc = uncover(r, e)) == 0)
				rc = 1;
			continue;
		}
		replay_show(r, &r->next);
		shown += r->next.len + 1;
		player_shown(&r->player, r->next.boot_ns, now);
		rc = next_visible(r, e);
	}
	if (r->at_end && r->player.state != PLAYER_DONE)
		player_done(&r->player);
	return rc < 0 ? rc : 0;
}

static int play_turn(struct replay *r, struct err *e)
{
	struct pollfd p[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = r->signals.fd, .events = POLLIN}};
	int rc = show_due(r, e);

	if (rc < 0)
		return rc;
	if (replay_uncovers(r) && (rc = draw(r, r->player.pos, e)) < 0)
		return rc;
	replay_screen_status(r);
	uint64_t wait = r->have_next ? player_wait(&r->player, r->next.boot_ns, clock_boot_ns()) : UINT64_MAX;
	if (wait > TICK_NS)
		wait = TICK_NS;
	struct timespec ts = {.tv_sec = (time_t)(wait / NS_PER_SEC), .tv_nsec = (long)(wait % NS_PER_SEC)};
	int n = ppoll(p, 2, &ts, NULL);
	if (n < 0 && errno != EINTR)
		return err_sys(e, errno, "wait for a key");
	if (n == 0)
		keys_idle(&r->keys);
	if (n > 0 && p[1].revents)
		rc = replay_signals(r) ? draw(r, r->player.pos, e) : 0;
	if (n > 0 && p[0].revents && rc == 0)
		rc = read_keys(r, e);
	return rc;
}

static int play(struct replay *r, const struct replay_options *o, struct err *e)
{
	int rc = replay_scan(r, e);

	if (rc == 0)
		rc = replay_screen_open(r, e);
	if (rc < 0)
		return rc;
	player_init(&r->player, r->index.first, r->index.last, o->speed, o->idle_limit, clock_boot_ns());
	r->player.status = o->status;
	rc = next_visible(r, e) < 0 ? e->code : 0;
	if (rc == 0 && o->from)
		rc = seek(r, r->index.first + o->from < r->index.last ? r->index.first + o->from : r->index.last, e);
	while (rc == 0 && r->player.state != PLAYER_QUIT)
		rc = play_turn(r, e);
	replay_screen_close(r);
	return rc;
}

/* Without keys: wait, write, on to the next. */
static int play_plain(struct replay *r, const struct replay_options *o, struct err *e)
{
	uint64_t start = 0;
	int rc;

	while ((rc = next_visible(r, e)) == 1) {
		if (start == 0) {
			start = r->next.boot_ns + o->from;
			player_init(&r->player, start, UINT64_MAX, o->speed, o->idle_limit, clock_boot_ns());
		}
		if (r->next.boot_ns < start)
			player_sought(&r->player, start, clock_boot_ns());
		uint64_t wait = o->speed != 0 && r->next.boot_ns >= start
				    ? player_wait(&r->player, r->next.boot_ns, clock_boot_ns())
				    : 0;
		struct timespec ts = {.tv_sec = (time_t)(wait / NS_PER_SEC), .tv_nsec = (long)(wait % NS_PER_SEC)};
		if (wait)
			nanosleep(&ts, NULL);
		if ((rc = replay_write_plain(r, &r->next, e)) < 0)
			return rc;
		player_shown(&r->player, r->next.boot_ns, clock_boot_ns());
	}
	return rc;
}

static int replay_run(struct ctl *c, const struct ctl_args *a)
{
	struct replay r;
	struct replay_options o;
	struct err e = {0};
	int rc = replay_parse(a, &o, &e);

	replay_init(&r, args_has(a, "raw"));
	/* -o json is for programs: the events themselves. */
	if (rc == 0 && c->json)
		rc = err_set(&e, ERR_INVAL, "replay draws; muxctl export --format json prints the events");
	if (rc == 0)
		rc = record_open(c, a->operands[0], args_get_or(a, "reason", "muxctl replay"), &r.record, &e);
	if (rc == 0)
		rc = record_check(r.record, args_has(a, "unverified"), &e);
	if (rc == 0) {
		bool keys = o.speed != 0 && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
		replay_describe(&r);
		replay_index_resize(&r.index, r.cols, r.rows);
		rc = keys ? play(&r, &o, &e) : play_plain(&r, &o, &e);
		if (rc == 0 && record_facts(r.record)->partial)
			fprintf(stderr,
				"muxctl: the session is not sealed and no daemon answers: its newest part is not "
				"here\n");
	}
	replay_finish(&r);
	return rc < 0 ? ctl_fail(c, &e) : 0;
}

const struct ctl_command replay_commands[] = {
    {"replay", "ID", 1, 1, "Play a recording (id or file) in this terminal.", options, .run = replay_run,
     .more = "Keys: space pause, + and - speed, . one event, left and right 5 s, down and up 60 s, g and G\n"
	     "start and end, 0 to 9 tenths, i skip silences, s status line, ? help, q quit.\n"
	     "Without a terminal it plays plain, with the recorded timing unless --instant.\n"
	     "What draws is shown. Sequences that talk to your terminal are removed: queries, clipboard, links,\n"
	     "titles, printing. --raw passes everything: a hostile recording then controls your terminal.\n",
     .any_bytes = true},
    {0},
};
