#include "muxd/ctl/relay.h"

#include "base/between.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/tamer.h"
#include "base/text.h"
#include "muxd/ctl/escape.h"
#include "muxd/ctl/recall.h"
#include "muxd/ctl/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#define INPUT_STEP        (32 * 1024)
#define INPUT_HIGH        (256 * 1024) /* towards the daemon */
#define OUTPUT_HIGH       (2 * MSG_MAX)
#define OUTPUT_HIGH_TAMED ((size_t)(TAMER_GROWTH + 1) * MSG_MAX)
#define READS_PER_TURN    16
#define COLLECT_MAX       (1024 * 1024)    /* per stream, for -o json */
#define PIPE_STEP         4096             /* what a writable pipe takes without blocking */
#define TERM_WAIT_NS      (5 * NS_PER_SEC) /* how long a SIGTERM leaves the session to end */
#define GOODBYE_NS        NS_PER_SEC
#define PIPE_WAIT_NS      (2 * NS_PER_SEC) /* the same when nobody reads the output any more */
#define RETURN_NS         (60 * NS_PER_SEC)
#define RETURN_STEP       (300 * NS_PER_MS)
#define RETURN_ANSWER_S   2 /* until then no key is heard */
#define INTERRUPTS        3 /* Ctrl-C so often gives up waiting */

enum relay_state { RELAY_OPENING, RELAY_RUNNING, RELAY_RETURNING, RELAY_ENDED, RELAY_DETACHED, RELAY_LOST };

struct relay_out {
	struct buf buf;
	int fd;
	bool at_once; /* a file: writes do not block for long */
	size_t pipe;  /* bytes that an empty pipe holds; 0: it is none */
	bool broken;  /* nobody reads it any more */
	struct buf kept;
	uint64_t total;
	struct relay *relay;
};

struct relay {
	struct ctl *c;
	struct api_socket *socket;
	const struct relay_options *o;
	enum relay_state state;
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

/* --- a session's end as an exit status */

/* A signal's number from 9, "KILL" or "SIGKILL"; 0 when there is none. */
static int signal_number(const json_t *v)
{
	const char *name = json_string_value(v);

	if (json_is_integer(v) && json_integer_value(v) > 0 && json_integer_value(v) < 128)
		return (int)json_integer_value(v);
	if (name && strncasecmp(name, "SIG", 3) == 0)
		name += 3;
	for (int i = 1; name && i < NSIG; i++) {
		const char *known = sigabbrev_np(i);
		if (known && strcasecmp(known, name) == 0)
			return i;
	}
	return 0;
}

static const char *signal_text(int signum)
{
	const char *name = sigabbrev_np(signum);

	return name ? name : "?";
}

static int killed_status(const char *why, int signum, char *line, size_t size)
{
	text_format(line, size, "%s%s%s", why, signum ? " by signal " : "", signum ? signal_text(signum) : "");
	return signum ? 128 + signum : 128 + SIGKILL;
}

int relay_status(const json_t *exit, unsigned long long timeout_ns, char *line, size_t size)
{
	const char *cause = "unknown", *message = "";
	int signum = signal_number(json_object_get(exit, "signal"));
	const json_t *code = json_object_get(exit, "code");
	char limit[64] = "";

	line[0] = '\0';
	json_opt_str(exit, "cause", &cause, NULL);
	json_opt_str(exit, "message", &message, NULL);
	if (strcmp(cause, "exit") == 0 && signum)
		return 128 + signum;
	if (strcmp(cause, "exit") == 0 && json_is_integer(code))
		return (int)(json_integer_value(code) & 255);
	if (strcmp(cause, "timeout") == 0) {
		if (timeout_ns)
			clock_format_duration(timeout_ns, limit, sizeof(limit));
		text_format(line, size, "command timed out%s%s and was killed [%s]", *limit ? " after " : "", limit,
			    err_name(ERR_EXEC_TIMEOUT));
		return 124;
	}
	if (strcmp(cause, "idle_timeout") == 0) {
		text_format(line, size, "command was killed: %s [%s]", *message ? message : "no output",
			    err_name(ERR_EXEC_TIMEOUT));
		return 124;
	}
	if (strcmp(cause, "killed") == 0)
		return killed_status(*message ? message : "it was ended", signum, line, size);
	if (strcmp(cause, "oom") == 0)
		return killed_status("it ran out of memory and was ended", signum, line, size);
	if (strcmp(cause, "not_started") == 0) {
		text_format(line, size, "it did not start: %s", *message ? message : "no reason was given");
		/* As shells do: 126 found and refused, 127 not found. */
		return json_is_integer(code) && json_integer_value(code) > 0 ? (int)(json_integer_value(code) & 255)
									     : 127;
	}
	text_format(line, size, "its outcome is %s%s%s", cause, *message ? ": " : "", message);
	return err_exit_code(ERR_LINK_LOST);
}

/* --- what a relay says */

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

static void queue(struct relay *r, enum web_type type, const void *p, size_t n)
{
	int rc = r->socket->fd >= 0 ? api_socket_put(r->socket, type, p, n) : 0;

	if (rc < 0 && r->state < RELAY_ENDED) {
		err_set(&r->err, rc, "no room for a message to the daemon");
		relay_fail(r);
	}
}

static void queue_size(struct relay *r)
{
	unsigned cols, rows, x, y;
	uint8_t p[8];

	if (r->o->observer || !terminal_size(0, &cols, &rows, &x, &y))
		return;
	put_u16(p, (uint16_t)cols);
	put_u16(p + 2, (uint16_t)rows);
	put_u16(p + 4, (uint16_t)x);
	put_u16(p + 6, (uint16_t)y);
	queue(r, WIRE_RESIZE, p, sizeof(p));
}

static void queue_signal(struct relay *r, int signum)
{
	uint8_t number = (uint8_t)signum;

	if (!r->o->observer)
		queue(r, WIRE_SIGNAL, &number, 1);
}

/* The connection itself holds output back: the socket, and what waits here for whoever reads it. */
static void queue_windows(struct relay *r)
{
	uint8_t p[9];

	for (uint8_t stream = 1; stream <= 2; stream++) {
		p[0] = stream;
		put_u64(p + 1, INT64_MAX);
		queue(r, WIRE_WINDOW, p, sizeof(p));
	}
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

static void relay_take_bytes(struct relay *r, unsigned stream, const uint8_t *p, size_t n)
{
	struct relay_out *out = &r->out[stream == 2];

	out->total += n;
	if (r->o->collect) {
		size_t room = buf_room(&out->kept), most = n < room ? n : room;

		buf_append(&out->kept, p, most);
	} else if (!out->broken && show_bytes(r, stream, p, n) < 0) {
		err_set(&r->err, ERR_NOMEM, "no memory for output");
		relay_fail(r);
	}
}

/* Shown, and put into commands to be copied: an id, or none. */
static void name_session(struct relay *r, const char *id)
{
	if (strspn(id, "0123456789abcdefABCDEF-") == strlen(id))
		text_put(r->session, sizeof(r->session), id);
}

/* The same exec_id as before: the round ran already, and this is what became of it; its output is in the record. */
static void take_round(struct relay *r, json_t *round)
{
	const char *id = "", *state = "";

	json_opt_str(round, "round_id", &id, NULL);
	json_opt_str(round, "state", &state, NULL);
	name_session(r, id);
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

	if (!r->tty || !r->o->token || !r->session[0] || (r->return_until && now >= r->return_until))
		return false;
	if (!r->return_until) {
		r->return_until = now + RETURN_NS;
		say_notice(r, "the connection to the daemon is gone; this terminal comes back by itself", false);
	}
	api_socket_close(r->socket);
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
	char size[2][16];

	terminal_size(0, &cols, &rows, &x, &y);
	snprintf(size[0], sizeof(size[0]), "%u", cols);
	snprintf(size[1], sizeof(size[1]), "%u", rows);
	int rc = api_socket_open(
	    r->c, r->o->token,
	    &(struct api_call){.path = "/v1/sessions/*/attach",
			       .names = {r->session},
			       .patience_s = RETURN_ANSWER_S,
			       .query = json_pack("{s:s,s:s,s:s}", "role", r->o->observer ? "observer" : "driver",
						  "cols", size[0], "rows", size[1])},
	    r->socket, &r->err);

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

static void take_opened(struct relay *r, const json_t *o)
{
	const char *text = "";

	json_opt_str(o, "session", &text, NULL);
	name_session(r, text);
	if (r->state == RELAY_OPENING)
		relay_set_state(r, RELAY_RUNNING);
	queue_windows(r);
	if (r->return_until)
		returned(r);
}

static void take_notice(struct relay *r, const json_t *o)
{
	const char *text = "";
	bool over = false;

	json_opt_str(o, "text", &text, NULL);
	json_opt_bool(o, "over", &over, NULL);
	say_notice(r, text, over);
}

static void take_json(struct relay *r, enum web_type type, json_t *o)
{
	switch (type) {
	case WIRE_OPENED:
		take_opened(r, o);
		break;
	case WIRE_NOTICE:
		take_notice(r, o);
		break;
	case WIRE_ROUND:
		take_round(r, o);
		break;
	case WIRE_EXIT:
		r->exit = json_incref(o);
		relay_set_state(r, RELAY_ENDED);
		break;
	default: /* WIRE_ERROR */
		ctl_remote_error(r->c, o, &r->err);
		if (!ended_meanwhile(r) && (!r->return_until || !may_pass(r->err.code) || !relay_go_back(r)))
			relay_fail(r);
	}
}

static void relay_on_message(void *arg, enum web_type type, const uint8_t *p, size_t n)
{
	struct relay *r = arg;
	size_t head = type == WIRE_SCREEN ? WEB_SCREEN_HEAD - 1 : WIRE_OUTPUT_HEAD - 1;
	json_t *o = NULL;

	if (r->state >= RELAY_ENDED)
		return;
	switch (type) {
	case WIRE_OUTPUT:
	case WIRE_STDERR:
	case WIRE_SCREEN:
		if (n > head)
			relay_take_bytes(r, type == WIRE_STDERR ? 2 : 1, p + head, n - head);
		return;
	case WIRE_OPENED:
	case WIRE_NOTICE:
	case WIRE_ROUND:
	case WIRE_EXIT:
	case WIRE_ERROR:
		if (json_parse(p, n, MSG_MAX, &o, NULL) < 0) {
			err_set(&r->err, ERR_PROTOCOL, "the daemon sent a message that is not JSON");
			relay_fail(r);
			return;
		}
		take_json(r, type, o);
		json_decref(o);
		return;
	default:
		return; /* of a page's concern */
	}
}

/* Is there no room for what one more message may become? */
static bool output_full(const struct relay *r)
{
	size_t most = r->o->tame ? (size_t)MSG_MAX * TAMER_GROWTH : MSG_MAX;

	return buf_room(&r->out[0].buf) < most || buf_room(&r->out[1].buf) < most;
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
	int rc = 1;

	for (int i = 0; i < READS_PER_TURN && rc == 1 && r->state < RELAY_RETURNING && !output_full(r); i++)
		rc = api_socket_read(r->socket, relay_on_message, r, &r->err);
	if (rc == ERR_EOF) {
		daemon_gone(r);
	} else if (rc < 0 && r->state < RELAY_ENDED) {
		err_set(&r->err, rc, "the daemon broke the WebSocket");
		relay_fail(r);
	}
}

/* --- from the caller */

static void pass_input(struct relay *r, const uint8_t *p, size_t n)
{
	uint8_t pass[INPUT_STEP + 1];

	while (n && r->state < RELAY_ENDED) {
		size_t taken = 0, len = 0;
		enum escape_action action = escape_feed(&r->escape, p, n, &taken, pass, &len);
		if (len && !r->return_until && api_socket_put(r->socket, WIRE_INPUT, pass, len) < 0) {
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
			queue(r, WIRE_EOF, "", 0);
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
		queue_signal(r, signum);
		if (++r->interrupts < INTERRUPTS && !r->o->observer)
			return;
		break;
	default:
		if (!r->o->terminal)
			queue_signal(r, signum == SIGHUP ? SIGHUP : SIGTERM);
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

/* A pipe that is ready takes a page; one that is empty takes all it holds. */
static size_t pipe_room(const struct relay_out *out)
{
	int waiting = 0;

	return out->pipe > PIPE_STEP && ioctl(out->fd, FIONREAD, &waiting) == 0 && waiting == 0 ? out->pipe : PIPE_STEP;
}

/* As much as it takes; never blocks on a pipe whose reader is slow. */
static void flush_out(struct relay *r, struct relay_out *out)
{
	while (buf_len(&out->buf) && (out->at_once || can_write(out->fd))) {
		size_t n = buf_len(&out->buf), most = out->at_once ? n : pipe_room(out);
		if (n > most)
			n = most;
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
				queue_signal(r, SIGPIPE);
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
}

/* --- the loop */

static void relay_turn(struct relay *r)
{
	struct pollfd p[5] = {
	    {.fd = r->socket->fd,
	     .events = (short)((output_full(r) ? 0 : POLLIN) | (buf_len(&r->socket->out) ? POLLOUT : 0))},
	    {.fd = r->input_open && buf_len(&r->socket->out) < INPUT_HIGH ? 0 : -1, .events = POLLIN},
	    {.fd = r->signals.fd, .events = POLLIN},
	    {.fd = buf_len(&r->out[0].buf) ? 1 : -1, .events = POLLOUT},
	    {.fd = buf_len(&r->out[1].buf) ? 2 : -1, .events = POLLOUT},
	};
	int signum, wait_ms = -1;

	if (r->give_up_ns || r->state == RELAY_RETURNING) {
		uint64_t now = clock_boot_ns(), until = r->give_up_ns ? r->give_up_ns : r->return_at;
		wait_ms = now < until ? (int)((until - now) / NS_PER_MS) + 1 : 0;
	}
	bool more = buf_len(&r->socket->in) && !output_full(r); /* came with the answer to the upgrade */
	int n = poll(p, 5, more ? 0 : wait_ms);
	if (r->give_up_ns && clock_boot_ns() >= r->give_up_ns) {
		queue_signal(r, SIGKILL);
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
	if ((more || p[0].revents & ~POLLOUT) && r->state < RELAY_ENDED && !output_full(r))
		read_daemon(r);
	if (p[1].revents && r->state < RELAY_ENDED)
		read_input(r);
	if (r->state != RELAY_RETURNING)
		(void)api_socket_write(r->socket); /* the reading side tells what happened */
	flush_both(r);
}

/*
 * The last words to the daemon. It closes when it has read them; closing first, with its output unread here, would take
 * them out of its hands again.
 */
static void relay_pass_over(void *arg, enum web_type type, const uint8_t *p, size_t n)
{
	(void)arg, (void)type, (void)p, (void)n;
}

static void say_goodbye(struct relay *r)
{
	uint64_t until = clock_boot_ns() + GOODBYE_NS, now;
	struct pollfd p = {.fd = r->socket->fd};
	struct err e = {0};
	int rc = 1;

	api_socket_leave(r->socket);
	while (rc >= 0 && (now = clock_boot_ns()) < until && api_socket_write(r->socket) == 0) {
		p.events = (short)(POLLIN | (buf_len(&r->socket->out) ? POLLOUT : 0));
		if (rc == 0 && poll(&p, 1, (int)((until - now) / NS_PER_MS) + 1) < 0 && errno != EINTR)
			return;
		rc = api_socket_read(r->socket, relay_pass_over, NULL, &e);
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
	if (r->state == RELAY_DETACHED && r->socket->fd >= 0)
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
	if (fstat(fd, &st))
		return;
	out->at_once = S_ISREG(st.st_mode) || (S_ISCHR(st.st_mode) && !isatty(fd));
	if (S_ISFIFO(st.st_mode))
		out->pipe = (size_t)fcntl(fd, F_GETPIPE_SZ);
}

static int relay_start(struct relay *r)
{
	static const int list[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, 0};
	struct sigaction ignore = {.sa_handler = SIG_IGN};

	sigaction(SIGPIPE, &ignore, NULL);
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

int relay_run(struct ctl *c, struct api_socket *socket, const struct relay_options *o)
{
	struct relay r = {.c = c,
			  .socket = socket,
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
	while (r.state < RELAY_ENDED)
		relay_turn(&r);
	relay_drain(&r);
	if (r.tty && r.state != RELAY_ENDED)
		terminal_reset_modes(1);
	terminal_restore();
	signals_close(&r.signals);
	int status = relay_result(&r);
	json_decref(r.exit);
	for (int i = 0; i < 2; i++) {
		buf_finish(&r.out[i].buf);
		buf_finish(&r.out[i].kept);
	}
	return status;
}
