#include "muxd/ctl/relay.h"

#include "base/between.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/sock.h"
#include "base/tamer.h"
#include "base/text.h"
#include "muxd/ctl/escape.h"
#include "muxd/ctl/recall.h"
#include "muxd/ctl/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#define INPUT_STEP        (32 * 1024)
#define INPUT_HIGH        (256 * 1024) /* towards the daemon */
#define OUTPUT_HIGH       (2 * MSG_MAX)
#define OUTPUT_HIGH_TAMED ((size_t)(TAMER_GROWTH + 1) * MSG_MAX)
#define COLLECT_MAX       (1024 * 1024)    /* per stream, for -o json */
#define PIPE_STEP         4096             /* what a writable pipe takes without blocking */
#define TERM_WAIT_NS      (5 * NS_PER_SEC) /* how long a SIGTERM leaves the session to end */
#define GOODBYE_NS        NS_PER_SEC
#define PIPE_WAIT_NS      (2 * NS_PER_SEC) /* the same when nobody reads the output any more */
#define RETURN_NS         (60 * NS_PER_SEC)
#define RETURN_STEP       (300 * NS_PER_MS)
#define INTERRUPTS        3 /* Ctrl-C so often gives up waiting */

enum relay_state { RELAY_OPENING, RELAY_RUNNING, RELAY_RETURNING, RELAY_ENDED, RELAY_DETACHED, RELAY_LOST };

struct relay_out {
	struct buf buf;
	int fd;
	bool at_once; /* a file: writes do not block for long */
	bool broken;  /* nobody reads it any more */
	struct buf kept;
	uint64_t total;
	struct relay *relay;
};

struct relay {
	struct ctl *c;
	struct ctl_peer *peer;
	const struct relay_options *o;
	enum relay_state state;
	struct buf to_daemon;
	struct relay_out out[2]; /* stdout, stderr */
	struct tamer tamer[2];   /* of a watcher's terminal */
	struct escape escape;
	struct signals signals;
	char session[ID_STR_LEN];
	json_t *exit; /* the whole exit event */
	struct err err;
	bool input_open, tty, recalled;
	bool ended_away;                  /* while the connection was gone: the end of its output was not seen */
	struct between between;           /* what our terminal was sent */
	char title[BETWEEN_TITLE_MAX];    /* a notice that waits for its place in there; "" = none */
	bool titled, title_over;          /* one of ours stands in the title; the waiting one takes it away */
	uint64_t return_until, return_at; /* 0: not on the way back; when it is tried next */
	int interrupts, died_by;          /* signal to end by, 0 = none */
	int give_up_by;
	uint64_t give_up_ns; /* 0 = never */
};

static void relay_set_state(struct relay *r, enum relay_state s)
{
	r->state = s;
}

static void relay_fail(struct relay *r)
{
	if (r->err.code == 0)
		err_set(&r->err, ERR_INTERNAL, "the session ended for an unknown reason");
	relay_set_state(r, RELAY_LOST);
}

/* A line for the person, on a terminal in raw mode too. */
static void relay_say(struct relay *r, const char *text)
{
	char *clean = ctl_clean(text);
	const char *end = r->tty && terminal_is_raw() ? "\r\n" : "\n";

	if (clean && *clean)
		fprintf(stderr, "%smuxctl: %s%s", r->tty && terminal_is_raw() ? "\r\n" : "", clean, end);
	free(clean);
}

/*
 * In the title of the window: the screen is the program's. text NULL: what is said there is over. Only where our
 * terminal's output is between two sequences; until then it waits.
 */
static void set_title(struct relay *r, const char *text)
{
	r->title[0] = '\0';
	if (!text && !r->titled)
		return;
	between_title(r->title, text, !r->titled, "muxctl");
	r->title_over = !text;
}

static void show_title(struct relay *r)
{
	if (!r->title[0] || !between_now(&r->between) || r->out[0].broken)
		return;
	if (buf_append_str(&r->out[0].buf, r->title) == 0)
		r->titled = !r->title_over;
	r->title[0] = '\0';
}

static bool has_window(const struct relay *r)
{
	return r->tty && isatty(1) && between_has_title(getenv("TERM"));
}

static void say_notice(struct relay *r, const char *text, bool over)
{
	if (has_window(r))
		set_title(r, over ? NULL : text);
	else
		relay_say(r, text);
}

static void queue_json(struct relay *r, json_t *o)
{
	int rc = o ? msg_put_json(&r->to_daemon, o) : ERR_NOMEM;

	if (rc < 0 && r->state < RELAY_ENDED) {
		err_set(&r->err, rc, "no room for a message to the daemon");
		relay_fail(r);
	}
	json_decref(o);
}

static void queue_size(struct relay *r)
{
	unsigned cols, rows, x, y;

	if (!r->o->observer && terminal_size(0, &cols, &rows, &x, &y))
		queue_json(r, json_pack("{s:s,s:i,s:i,s:i,s:i}", "op", "resize", "cols", (int)cols, "rows", (int)rows,
					"xpixel", (int)x, "ypixel", (int)y));
}

static void queue_signal(struct relay *r, const char *name)
{
	if (!r->o->observer)
		queue_json(r, json_pack("{s:s,s:s}", "op", "signal", "signal", name));
}

/* The session was told to end: wait for that, but not for ever. */
static void relay_give_up(struct relay *r, int signum, uint64_t wait_ns)
{
	r->give_up_by = signum;
	r->give_up_ns = clock_boot_ns() + wait_ns;
}

/* --- from the daemon */

static int show_bytes(struct relay *r, unsigned stream, const uint8_t *p, size_t n)
{
	struct buf *to = &r->out[stream == 2].buf;
	size_t before = buf_len(to);
	int rc = r->o->tame ? tamer_feed(&r->tamer[stream == 2], p, n, to) : buf_append(to, p, n);

	if (rc == 0 && r->tty && stream == 1 && buf_len(to) > before)
		between_feed(&r->between, buf_ptr(to) + before, buf_len(to) - before);
	return rc;
}

static void take_bytes(struct relay *r, const struct msg *m)
{
	unsigned stream = m->payload[0];
	struct relay_out *out = &r->out[stream == 2];

	if (stream != 1 && stream != 2)
		return;
	out->total += m->len - 1;
	if (r->o->collect) {
		size_t room = buf_room(&out->kept), n = m->len - 1 < room ? m->len - 1 : room;
		buf_append(&out->kept, m->payload + 1, n);
	} else if (!out->broken && show_bytes(r, stream, m->payload + 1, m->len - 1) < 0) {
		err_set(&r->err, ERR_NOMEM, "no memory for output");
		relay_fail(r);
	}
}

/* The same exec_id as before: the round ran already, and this is what became of it; its output is in the record. */
static void take_round(struct relay *r, json_t *round)
{
	const char *id = "", *state = "";

	json_opt_str(round, "round_id", &id, NULL);
	json_opt_str(round, "state", &state, NULL);
	text_put(r->session, sizeof(r->session), id);
	if (!json_is_object(json_object_get(round, "exit"))) {
		err_set(&r->err, ERR_BAD_STATE, "round %s with this exec id is %s", id, state);
		relay_fail(r);
	} else {
		r->exit = json_incref(round);
		r->recalled = true;
		relay_set_state(r, RELAY_ENDED);
	}
}

/* The daemon is not all there yet. */
static bool may_pass(int code)
{
	return code == ERR_UNAVAILABLE || code == ERR_RECORD_UNAVAILABLE || code == ERR_AGAIN || code == ERR_EOF;
}

/*
 * The connection is gone, and the session most likely not: it is attached to again, unless that has been tried for long
 * enough. What is typed meanwhile goes nowhere; the escape key works.
 */
static bool relay_go_back(struct relay *r)
{
	uint64_t now = clock_boot_ns();

	if (!r->tty || !r->o->comeback || !r->session[0] || (r->return_until && now >= r->return_until))
		return false;
	if (!r->return_until) {
		r->return_until = now + RETURN_NS;
		say_notice(r, "the connection to the daemon is gone; this terminal comes back by itself", false);
	}
	ctl_peer_close(r->peer);
	buf_clear(&r->to_daemon);
	r->return_at = now + RETURN_STEP;
	relay_set_state(r, RELAY_RETURNING);
	return true;
}

static void returned(struct relay *r)
{
	r->return_until = 0;
	r->err = (struct err){0};
	tcflush(0, TCIFLUSH); /* nobody wants an old Enter */
	say_notice(r, "the connection to the daemon is back", true);
	queue_size(r);
}

static void try_return(struct relay *r)
{
	unsigned cols, rows, x, y;
	int rc = ctl_peer_open(r->c, "hub.sock", r->peer, &r->err);

	terminal_size(0, &cols, &rows, &x, &y);
	if (rc == 0 && (json_object_set_new(r->o->comeback, "session", json_string(r->session)) < 0 ||
			json_object_set_new(r->o->comeback, "cols", json_integer(cols)) < 0 ||
			json_object_set_new(r->o->comeback, "rows", json_integer(rows)) < 0))
		rc = err_set(&r->err, ERR_NOMEM, "no memory for the question");
	if (rc == 0)
		rc = msg_send_json(r->peer->fd, r->o->comeback, &r->err);
	if (rc == 0)
		relay_set_state(r, RELAY_OPENING);
	else if (!relay_go_back(r))
		relay_fail(r);
}

/* The session ended while nobody was connected: its exit and its last output are in the record. */
static bool ended_meanwhile(struct relay *r)
{
	struct err e = {0};

	if (!r->return_until || r->err.code != ERR_ENDED || recall_exit(r->c, r->session, &r->exit, &e))
		return false;
	r->err = (struct err){0};
	r->ended_away = true;
	relay_set_state(r, RELAY_ENDED);
	return true;
}

static void relay_take_event(struct relay *r, json_t *o)
{
	const char *event = "", *text = "";

	json_opt_str(o, "event", &event, NULL);
	if (strcmp(event, "opened") == 0) {
		json_opt_str(o, "session", &text, NULL);
		text_put(r->session, sizeof(r->session), text);
		if (r->state == RELAY_OPENING)
			relay_set_state(r, RELAY_RUNNING);
		if (r->return_until)
			returned(r);
	} else if (strcmp(event, "notice") == 0) {
		bool over = false;
		json_opt_str(o, "text", &text, NULL);
		json_opt_bool(o, "over", &over, NULL);
		say_notice(r, text, over);
	} else if (strcmp(event, "result") == 0 && json_object_get(o, "round")) {
		take_round(r, json_object_get(o, "round"));
	} else if (strcmp(event, "exit") == 0) {
		r->exit = json_incref(o);
		relay_set_state(r, RELAY_ENDED);
	} else if (strcmp(event, "error") == 0 || json_object_get(o, "error")) {
		ctl_remote_error(r->c, json_object_get(o, "error"), &r->err);
		if (!ended_meanwhile(r) && (!r->return_until || !may_pass(r->err.code) || !relay_go_back(r)))
			relay_fail(r);
	}
}

static void take_message(struct relay *r, const struct msg *m)
{
	json_t *o = NULL;

	if (m->kind == 'B') {
		take_bytes(r, m);
		return;
	}
	if (json_parse(m->payload, m->len, MSG_MAX, &o, NULL) < 0) {
		err_set(&r->err, ERR_PROTOCOL, "the daemon sent a message that is not JSON");
		relay_fail(r);
		return;
	}
	relay_take_event(r, o);
	json_decref(o);
}

/* Is there no room for what one more message may become? */
static bool output_full(const struct relay *r)
{
	size_t most = r->o->tame ? (size_t)MSG_MAX * TAMER_GROWTH : MSG_MAX;

	return buf_room(&r->out[0].buf) < most || buf_room(&r->out[1].buf) < most;
}

static void take_messages(struct relay *r)
{
	struct msg m;
	size_t size;
	int rc;

	while (r->state < RELAY_ENDED && !output_full(r) && (rc = msg_next(&r->peer->in, &m, &size)) != 0) {
		if (rc < 0) {
			err_set(&r->err, rc, "the daemon broke the message format");
			relay_fail(r);
			return;
		}
		take_message(r, &m);
		if (r->state == RELAY_RETURNING)
			return; /* that connection is closed, and its buffer with it */
		buf_consume(&r->peer->in, size);
	}
}

static void daemon_gone(struct relay *r)
{
	if (r->state >= RELAY_ENDED || relay_go_back(r))
		return;
	text_format(r->c->hint, sizeof(r->c->hint),
		    r->tty && r->session[0] ? "Come back to it: muxctl attach %s"
					    : "See what became of it: muxctl session show %s",
		    r->session[0] ? r->session : "ID");
	err_set(&r->err, ERR_UNAVAILABLE, "the daemon closed the connection before the end was known");
	relay_fail(r);
}

static void read_daemon(struct relay *r)
{
	struct buf *in = &r->peer->in;
	size_t room = buf_room(in) < INPUT_STEP * 4 ? buf_room(in) : INPUT_STEP * 4;
	uint8_t *p;

	if (room == 0 || buf_reserve(in, room, &p) < 0)
		return;
	ssize_t n = recv(r->peer->fd, p, room, MSG_DONTWAIT);
	if (n > 0) {
		buf_commit(in, (size_t)n);
		take_messages(r);
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		take_messages(r);
		daemon_gone(r);
	}
}

static void write_daemon(struct relay *r)
{
	ssize_t n = send(r->peer->fd, buf_ptr(&r->to_daemon), buf_len(&r->to_daemon), MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n > 0)
		buf_consume(&r->to_daemon, (size_t)n);
	else if (n < 0 && errno != EAGAIN && errno != EINTR)
		buf_clear(&r->to_daemon); /* the reading side will tell what happened */
}

/* --- from the caller */

static void pass_input(struct relay *r, const uint8_t *p, size_t n)
{
	uint8_t pass[INPUT_STEP + 1];

	while (n && r->state < RELAY_ENDED) {
		size_t taken = 0, len = 0;
		enum escape_action action = escape_feed(&r->escape, p, n, &taken, pass, &len);
		if (len && !r->return_until && msg_put_bytes(&r->to_daemon, 0, pass, len) < 0) {
			err_set(&r->err, ERR_NOMEM, "no memory for input");
			relay_fail(r);
		}
		if (action == ESCAPE_DETACH)
			relay_set_state(r, RELAY_DETACHED);
		else if (action == ESCAPE_HELP)
			relay_say(r, "escape key, then: d detach, ? this line, the escape key itself: send it");
		p += taken;
		n -= taken;
	}
}

static void read_input(struct relay *r)
{
	uint8_t p[INPUT_STEP];
	ssize_t n = read(0, p, sizeof(p));

	if (n > 0) {
		pass_input(r, p, (size_t)n);
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		r->input_open = false;
		if (!r->o->observer)
			queue_json(r, json_pack("{s:s}", "op", "eof"));
	}
	explicit_bzero(p, n > 0 ? (size_t)n : 0);
}

static void take_signal(struct relay *r, int signum)
{
	switch (signum) {
	case SIGWINCH:
		if (r->o->terminal)
			queue_size(r);
		return;
	case SIGTSTP:
		signals_stop(0, false);
		if (r->o->terminal)
			queue_size(r);
		return;
	case SIGINT:
	case SIGQUIT:
		/* On a terminal of the session these are keys; here somebody sent them, or there is none. */
		queue_signal(r, signum == SIGINT ? "INT" : "QUIT");
		if (++r->interrupts < INTERRUPTS && !r->o->observer)
			return;
		break;
	default:
		if (!r->o->terminal)
			queue_signal(r, signum == SIGHUP ? "HUP" : "TERM");
		/* The program may end by the signal, and its end is worth waiting for; a daemon that is stuck is not.
		 */
		if (signum == SIGTERM && !r->o->terminal && !r->give_up_ns) {
			relay_give_up(r, SIGTERM, TERM_WAIT_NS);
			return;
		}
	}
	r->died_by = signum;
	relay_set_state(r, RELAY_DETACHED);
}

/* --- to the caller */

static bool can_write(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};

	return poll(&p, 1, 0) == 1;
}

/* As much as it takes; never blocks on a pipe whose reader is slow. */
static void flush_out(struct relay *r, struct relay_out *out)
{
	while (buf_len(&out->buf) && (out->at_once || can_write(out->fd))) {
		size_t n = buf_len(&out->buf);
		if (!out->at_once && n > PIPE_STEP)
			n = PIPE_STEP;
		ssize_t done = write(out->fd, buf_ptr(&out->buf), n);
		if (done > 0) {
			buf_consume(&out->buf, (size_t)done);
		} else if (done < 0 && errno == EAGAIN) {
			return;
		} else if (done < 0 && errno != EINTR) {
			out->broken = true;
			buf_clear(&out->buf);
			if (errno == EPIPE && r->state < RELAY_ENDED && !r->give_up_ns) {
				/* As a program in a pipe would: its reader is gone, so it goes. */
				queue_signal(r, "PIPE");
				relay_give_up(r, SIGPIPE, r->o->observer ? 0 : PIPE_WAIT_NS);
			} else if (errno != EPIPE && r->err.code == 0) {
				err_sys(&r->err, errno, "write the output");
				relay_fail(r);
			}
		}
	}
}

static void flush_both(struct relay *r)
{
	show_title(r);
	flush_out(r, &r->out[0]);
	flush_out(r, &r->out[1]);
	take_messages(r);
}

/* --- the loop */

static void relay_turn(struct relay *r)
{
	struct pollfd p[5] = {
	    {.fd = r->peer->fd,
	     .events = (short)((output_full(r) ? 0 : POLLIN) | (buf_len(&r->to_daemon) ? POLLOUT : 0))},
	    {.fd = r->input_open && buf_len(&r->to_daemon) < INPUT_HIGH ? 0 : -1, .events = POLLIN},
	    {.fd = r->signals.fd, .events = POLLIN},
	    {.fd = buf_len(&r->out[0].buf) ? 1 : -1, .events = POLLOUT},
	    {.fd = buf_len(&r->out[1].buf) ? 2 : -1, .events = POLLOUT},
	};
	int signum, wait_ms = -1;

	if (r->give_up_ns || r->state == RELAY_RETURNING) {
		uint64_t now = clock_boot_ns(), until = r->give_up_ns ? r->give_up_ns : r->return_at;
		wait_ms = now < until ? (int)((until - now) / NS_PER_MS) + 1 : 0;
	}
	int n = poll(p, 5, wait_ms);
	if (r->give_up_ns && clock_boot_ns() >= r->give_up_ns) {
		queue_signal(r, "KILL");
		r->died_by = r->give_up_by;
		relay_set_state(r, RELAY_DETACHED);
		return;
	}
	if (n < 0 && errno != EINTR) {
		err_sys(&r->err, errno, "wait for the session");
		relay_fail(r);
		return;
	}
	if (r->state == RELAY_RETURNING && clock_boot_ns() >= r->return_at) {
		try_return(r);
		return;
	}
	if (p[2].revents)
		while ((signum = signals_next(&r->signals)))
			take_signal(r, signum);
	if (p[0].revents & POLLOUT)
		write_daemon(r);
	if (p[0].revents & ~POLLOUT && r->state < RELAY_ENDED && !output_full(r))
		read_daemon(r);
	if (p[1].revents && r->state < RELAY_ENDED)
		read_input(r);
	flush_both(r);
}

/*
 * The last words to the daemon. It closes when it has read them; closing first, with its output unread here, would take
 * them out of its hands again.
 */
static void say_goodbye(struct relay *r)
{
	uint64_t until = clock_boot_ns() + GOODBYE_NS, now;
	struct pollfd p = {.fd = r->peer->fd};
	uint8_t waste[INPUT_STEP];
	ssize_t n = 1;

	queue_json(r, json_pack("{s:s}", "op", "detach"));
	while (n != 0 && (now = clock_boot_ns()) < until) {
		p.events = (short)(POLLIN | (buf_len(&r->to_daemon) ? POLLOUT : 0));
		if (poll(&p, 1, (int)((until - now) / NS_PER_MS) + 1) < 0 && errno != EINTR)
			return;
		if (p.revents & POLLOUT)
			write_daemon(r);
		if (p.revents & ~POLLOUT)
			n = recv(r->peer->fd, waste, sizeof(waste), MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return;
	}
}

/* What is left for a slow reader; false: a signal, and the rest is dropped. */
static bool drain_out(struct relay *r)
{
	while (buf_len(&r->out[0].buf) + buf_len(&r->out[1].buf)) {
		struct pollfd p[3] = {
		    {.fd = buf_len(&r->out[0].buf) ? 1 : -1, .events = POLLOUT},
		    {.fd = buf_len(&r->out[1].buf) ? 2 : -1, .events = POLLOUT},
		    {.fd = r->signals.fd, .events = POLLIN},
		};
		if (poll(p, 3, -1) < 0 && errno != EINTR)
			return false;
		flush_out(r, &r->out[0]);
		flush_out(r, &r->out[1]);
		int signum = p[2].revents ? signals_next(&r->signals) : 0;
		if (signum && signum != SIGWINCH && signum != SIGTSTP)
			return false;
	}
	return true;
}

static int take_recalled(void *arg, const uint8_t *p, size_t n)
{
	struct relay_out *out = arg;

	if (!out->relay->o->collect)
		return out->broken || buf_append(&out->buf, p, n) < 0 || !drain_out(out->relay) ? ERR_CANCELLED : 0;
	if (n > buf_room(&out->kept))
		n = buf_room(&out->kept);
	return buf_append(&out->kept, p, n);
}

/* What a round printed that ran before. */
static void recall(struct relay *r)
{
	for (int i = 0, rc = 0; i < 2 && rc == 0; i++) {
		const char *name = i ? "stderr" : "stdout";
		uint64_t missing = 0;
		rc = ctl_recall_stream(r->c, r->exit, name, take_recalled, &r->out[i], &missing, &r->err);

		json_opt_int(json_object_get(r->exit, name), "total_bytes", 0, INT64_MAX, (int64_t *)&r->out[i].total,
			     NULL);
		if (missing)
			fprintf(stderr, "muxctl: the record left out %llu bytes of %s\n", (unsigned long long)missing,
				name);
		if (rc < 0 && rc != ERR_CANCELLED)
			r->state = RELAY_LOST;
	}
}

static void relay_drain(struct relay *r)
{
	if (r->titled || r->title[0]) {
		set_title(r, NULL);
		r->between = (struct between){0}; /* nothing follows any more */
		show_title(r);
	}
	drain_out(r);
	if (r->state == RELAY_ENDED && r->recalled)
		recall(r);
	if (r->state == RELAY_DETACHED && r->peer->fd >= 0)
		say_goodbye(r);
}

static void out_init(struct relay *r, struct relay_out *out, int fd)
{
	struct stat st;

	out->relay = r;
	buf_init(&out->buf, r->o->tame ? OUTPUT_HIGH_TAMED : OUTPUT_HIGH);
	tamer_init(&r->tamer[fd == 2]);
	buf_init(&out->kept, COLLECT_MAX);
	out->fd = fd;
	out->at_once = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static int relay_start(struct relay *r)
{
	static const int list[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, 0};
	struct sigaction ignore = {.sa_handler = SIG_IGN};

	sigaction(SIGPIPE, &ignore, NULL);
	buf_init(&r->to_daemon, INPUT_HIGH + MSG_MAX);
	out_init(r, &r->out[0], 1);
	out_init(r, &r->out[1], 2);
	int rc = signals_open(&r->signals, list, &r->err);
	if (rc == 0 && r->tty)
		rc = terminal_raw(0, false, &r->err);
	return rc;
}

static json_t *relay_stream_json(struct relay *r, const char *name, struct relay_out *out)
{
	json_t *o = json_object();
	const json_t *sha = json_object_get(json_object_get(r->exit, name), "sha256");

	if (!o || json_set_bytes(o, "data", "encoding", buf_ptr(&out->kept), buf_len(&out->kept)) < 0)
		return o;
	json_object_set_new(o, "total_bytes", json_integer((json_int_t)out->total));
	json_object_set_new(o, "truncated", json_boolean(out->total > buf_len(&out->kept)));
	if (sha)
		json_object_set(o, "sha256", (json_t *)(uintptr_t)sha);
	return o;
}

static void print_collected(struct relay *r)
{
	json_t *o =
	    json_pack("{s:s,s:o,s:o}", "session", r->session, "stdout", relay_stream_json(r, "stdout", &r->out[0]),
		      "stderr", relay_stream_json(r, "stderr", &r->out[1]));

	if (o && json_object_get(r->exit, "exit"))
		json_object_set(o, "exit", json_object_get(r->exit, "exit"));
	if (o && json_object_get(r->exit, "duration_ms"))
		json_object_set(o, "duration_ms", json_object_get(r->exit, "duration_ms"));
	ctl_print_json(r->c, o);
	json_decref(o);
}

static int relay_result(struct relay *r)
{
	char line[512];
	int status;

	if (r->state == RELAY_LOST)
		return ctl_fail(r->c, &r->err);
	if (r->state == RELAY_DETACHED) {
		if (r->o->terminal && r->session[0])
			fprintf(stderr, "muxctl: detached; come back with: muxctl attach %s\n", r->session);
		return r->died_by ? 128 + r->died_by : 0;
	}
	status = relay_status(json_object_get(r->exit, "exit"), r->o->timeout_ns, line, sizeof(line));
	if (r->o->collect)
		print_collected(r);
	if (line[0])
		relay_say(r, line);
	if (r->ended_away)
		fprintf(stderr, "muxctl: it ended while the connection was gone; muxctl replay %s shows all of it\n",
			r->session);
	return status;
}

int relay_run(struct ctl *c, struct ctl_peer *p, const struct relay_options *o)
{
	struct relay r = {.c = c,
			  .peer = p,
			  .o = o,
			  .state = RELAY_OPENING,
			  .escape = {.key = o->terminal ? o->escape_key : -1},
			  .signals = {.fd = -1},
			  .input_open = o->input,
			  .tty = o->terminal && o->input && isatty(0)};

	if (!r.tty)
		r.escape.key = -1;
	if (relay_start(&r) < 0)
		relay_fail(&r);
	else
		take_messages(&r);
	while (r.state < RELAY_ENDED)
		relay_turn(&r);
	relay_drain(&r);
	if (r.tty && r.state != RELAY_ENDED)
		terminal_reset_modes(1);
	terminal_restore();
	signals_close(&r.signals);
	int status = relay_result(&r);
	json_decref(r.exit);
	buf_finish_secret(&r.to_daemon);
	for (int i = 0; i < 2; i++) {
		buf_finish(&r.out[i].buf);
		buf_finish(&r.out[i].kept);
	}
	return status;
}
