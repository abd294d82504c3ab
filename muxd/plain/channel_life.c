/*
 * A channel's life: from OPEN over its turn to its exec; its input and output; and its end.
 *
 * Ending what a channel runs, honestly: no call of the cluster does it. Processes are looked for and signalled by a
 * second exec (sweep.c says how they are found), until a look finds nobody. The steps: HUP (a terminal's) or TERM; for
 * a terminal TERM half a grace later; KILL when the grace is over, again and again with growing pauses. What is told:
 * killed when a look found nobody, else left_running, or unknown where nobody could look.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/ids.h"
#include "base/text.h"
#include "muxd/plain/peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EOF_CHAR       4 /* ^D: VEOF, unless somebody changed it */
#define EOF_AGAIN      4
#define HUP_AHEAD_NS   (500 * NS_PER_MS)
#define KILL_TRIES     9
#define KILL_PAUSE_NS  (50 * NS_PER_MS) /* doubling, up to a second */
#define LOOKS_FAILED   3
#define LOOKS_SLOW     4                  /* doublings of the pause between counts */
#define STATUS_NS      (2 * NS_PER_SEC)   /* for the exec to say how the program ended, once nobody is left */
#define LOST_NS        (120 * NS_PER_SEC) /* how long a lost program is looked for */
#define LOST_PAUSE_NS  (2 * NS_PER_SEC)
#define BEGUN_MS       1000 /* without a shell nobody says that the program began: it is taken for begun after so long */
#define PARK_MS        300  /* how long a start waits for what its input will be, where there is no end of input */
#define TIMEOUT_MAX_MS (UINT64_C(366) * 86400 * 1000)
#define GRACE_MAX_MS   60000

/* ---- input: taken from the hub, handed to the exec, as it is or in pieces with their lengths */

static const char no_end[] = "no_end_of_input: this cluster's protocol has no end of input";

static void tell_consumed(struct plain_channel *c, uint64_t before)
{
	if (c->consumed != before && !c->told && !c->forgotten)
		wire_put(c->peer, &(struct frame){.type = FRAME_CONSUMED, .channel = c->number, .offset = c->consumed});
}

static void feed_direct(struct plain_channel *c)
{
	while (buf_len(&c->input)) {
		ssize_t done = plain_exec_input(c->exec, buf_ptr(&c->input), buf_len(&c->input));

		if (done <= 0)
			return;
		c->last_byte = buf_ptr(&c->input)[done - 1];
		buf_consume(&c->input, (size_t)done);
		c->consumed += (uint64_t)done;
		c->accepted += (uint64_t)done;
	}
}

/* "LENGTH\n", then so many bytes. */
static int frame_piece(struct plain_channel *c)
{
	size_t n = buf_len(&c->input) < FRAME_DATA_MAX ? buf_len(&c->input) : FRAME_DATA_MAX;

	if (buf_printf(&c->framed, "%zu\n", n) || buf_append(&c->framed, buf_ptr(&c->input), n))
		return -1;
	buf_consume(&c->input, n);
	c->consumed += n;
	c->accepted += n;
	return 0;
}

static void feed_pieces(struct plain_channel *c)
{
	for (;;) {
		ssize_t done;

		if (!buf_len(&c->framed) && (!buf_len(&c->input) || frame_piece(c)))
			return;
		done = plain_exec_input(c->exec, buf_ptr(&c->framed), buf_len(&c->framed));
		if (done <= 0)
			return;
		buf_consume(&c->framed, (size_t)done);
		if (buf_len(&c->framed))
			return;
	}
}

/*
 * A shell that was between two modes of its terminal at that moment reads a NUL instead. So it is typed a few times
 * more, with growing pauses, unless more input comes.
 */
static void type_again(struct plain_channel *c)
{
	if (c->eof_typed++ >= EOF_AGAIN)
		return;
	c->eof_at_ns = clock_boot_ns() + (NS_PER_SEC << (c->eof_typed - 1));
	peer_timer(c->peer);
}

static void feed_eof(struct plain_channel *c)
{
	static const uint8_t keys[2] = {EOF_CHAR, EOF_CHAR};
	bool begun = c->last_byte && c->last_byte != '\n' && c->last_byte != '\r';

	if (!c->eof || c->eof_sent || buf_len(&c->input))
		return;
	if (c->open.flags & OPEN_PTY) {
		/* typed: how the terminal stands is not known here */
		if (plain_exec_room(c->exec) < 2 || plain_exec_input(c->exec, keys, begun ? 2 : 1) <= 0)
			return;
		c->eof = false;
		c->last_byte = 0;
		type_again(c);
		return;
	}
	c->eof_sent = true;
	if (c->feed != FEED_DIRECT) {
		(void)buf_append_str(&c->framed, "0\n"); /* there is room: twice a piece */
		feed_pieces(c);
	} else if (plain_exec_eof(c->exec)) {
		text_format(c->verdict, sizeof(c->verdict), "%s: the program was not told", no_end);
		wire_error(c->peer, c->number, CODE_INVALID, c->verdict);
	}
}

static void channel_feed(struct plain_channel *c)
{
	uint64_t before = c->consumed;

	if (!c->exec || c->state != CHANNEL_RUNNING || !plain_exec_version(c->exec))
		return;
	if (c->dropped)
		return;
	if (c->feed == FEED_DIRECT)
		feed_direct(c);
	else
		feed_pieces(c);
	feed_eof(c);
	tell_consumed(c, before);
}

static void channel_drop_input(struct plain_channel *c)
{
	uint64_t before = c->consumed;

	c->dropped = true;
	c->eof_at_ns = 0;
	c->consumed = c->received;
	buf_finish(&c->input);
	buf_finish(&c->framed);
	tell_consumed(c, before);
}

int channel_input(struct plain_channel *c, const struct frame *f, const char **why)
{
	size_t skip;

	if (f->stream != 0 || f->offset > c->received || f->offset + f->n > c->consumed + PLAIN_INPUT) {
		*why = "input with a gap, or beyond its window";
		return -1;
	}
	if (f->offset + f->n <= c->received)
		return 0;
	skip = (size_t)(c->received - f->offset);
	if (!c->dropped && !c->told && (c->open.flags & (OPEN_STDIN | OPEN_PTY)) && !c->eof) {
		if (buf_append(&c->input, f->p + skip, f->n - skip)) {
			*why = "no memory for input";
			return -1;
		}
		c->received += f->n - skip;
		c->eof_at_ns = c->eof_typed = 0;
		channel_feed(c);
		return 0;
	}
	c->received += f->n - skip;
	channel_drop_input(c);
	return 0;
}

/* The start waited for this: without input the program gets none; else its end cannot be said. */
static void end_parked(struct plain_channel *c)
{
	if (c->received == 0) {
		c->eof_sent = true;
		c->deadline_ns = clock_boot_ns(); /* it starts with the next look at the time */
		peer_timer(c->peer);
	} else {
		channel_refuse(c, "no_end_of_input", 0, no_end);
	}
}

int channel_input_eof(struct plain_channel *c, const struct frame *f, const char **why)
{
	if (f->stream != 0 || f->offset > c->received) {
		*why = "end of input after a gap";
		return -1;
	}
	if (c->dropped || c->told)
		return 0;
	c->eof = true;
	if (c->parked)
		end_parked(c);
	else
		channel_feed(c);
	return 0;
}

/* ---- ending what it runs */

/* The end is decided: the exec is let go, should it still be there, and EXIT is told. */
static void done(struct plain_channel *c)
{
	c->ending = ENDING_DONE;
	c->next_ns = c->deadline_ns = 0;
	if (!c->over) {
		c->over = true;
		c->end = (struct rc_exit){.cause = RC_UNKNOWN, .code = -1};
		channel_release(c);
		channel_drop_input(c);
	}
	peer_kick(c->peer);
}

static void verdict(struct plain_channel *c, bool survived, const char *text)
{
	if (c->told)
		wire_error(c->peer, c->number, CODE_STATE, text); /* for the log: its EXIT said left_running */
	c->survived = survived;
	text_put(c->verdict, sizeof(c->verdict), text);
	done(c);
}

static void wait_until(struct plain_channel *c, uint64_t at)
{
	c->next_ns = at ? at : 1;
	peer_timer(c->peer);
}

static void nobody_left(struct plain_channel *c)
{
	uint64_t now = clock_boot_ns();

	if (c->over || (c->give_up_ns && now >= c->give_up_ns)) {
		verdict(c, false, "");
		return;
	}
	if (!c->give_up_ns)
		c->give_up_ns = now + STATUS_NS;
	wait_until(c, c->give_up_ns);
}

static void look_failed(struct plain_channel *c)
{
	uint64_t now = clock_boot_ns();
	bool lost = c->told; /* its EXIT went: there is time */

	if (lost ? now < c->kill_ns + LOST_NS : ++c->failures < LOOKS_FAILED)
		wait_until(c, now + (lost ? LOST_PAUSE_NS : KILL_PAUSE_NS * 4));
	else
		verdict(c, true, "unknown: its processes could not be looked for");
}

/* Somebody was there. The exec's end will tell of the leader's; once it has ended, the others are counted now and then.
 */
static void wait_for_them(struct plain_channel *c, uint64_t now)
{
	uint64_t at = c->step == 1 && c->term_ns ? c->term_ns : c->kill_ns;

	if (c->over && now + (KILL_PAUSE_NS << c->looks) < at)
		at = now + (KILL_PAUSE_NS << c->looks);
	c->looks += c->looks < LOOKS_SLOW;
	wait_until(c, at);
}

static void channel_end_on_sweep(void *arg, int64_t found)
{
	struct plain_channel *c = arg;
	uint64_t now = clock_boot_ns(), pause;
	char text[80];

	if (c->ending != ENDING_ASKED)
		return;
	c->give_up_ns = 0;
	if (found < 0) {
		look_failed(c);
	} else if (found == 0) {
		nobody_left(c);
	} else if (now < c->kill_ns) {
		wait_for_them(c, now);
	} else if (++c->tries < KILL_TRIES) {
		pause = KILL_PAUSE_NS << c->tries;
		wait_until(c, now + (pause < NS_PER_SEC ? pause : NS_PER_SEC));
	} else {
		snprintf(text, sizeof(text), "left_running: %lld of its processes did not end", (long long)found);
		verdict(c, true, text);
	}
}

static void channel_end_look(struct plain_channel *c, const char *signals)
{
	struct sweep *s = &c->sweep;

	c->next_ns = 0;
	text_put(s->target.mark, sizeof(s->target.mark), c->mark);
	text_put(s->target.start, sizeof(s->target.start), c->leader.start);
	s->target.pid = c->leader.pid;
	s->target.signals = signals;
	s->done = channel_end_on_sweep;
	s->arg = c;
	sweep_ask(c->peer, s);
}

/* Called when the exec ended, when next_ns came, and when the program was seen to begin. */
static void channel_end_step(struct plain_channel *c)
{
	uint64_t now = clock_boot_ns();
	bool pty = c->open.flags & OPEN_PTY;

	if (c->ending != ENDING_ASKED || c->sweep.queued || c->sweep.out)
		return;
	if (c->state == CHANNEL_STARTING && !c->over && now < c->kill_ns) {
		wait_until(c, c->kill_ns); /* it begins any moment, and then is there to be found */
		return;
	}
	if (c->give_up_ns) {
		nobody_left(c);
	} else if (now >= c->kill_ns) {
		channel_end_look(c, "9");
	} else if (c->step == 0) {
		c->step = 1;
		channel_end_look(c, pty ? "1 18" : "15 18");
	} else if (c->term_ns && c->step == 1 && now >= c->term_ns) {
		c->step = 2;
		channel_end_look(c, "15 18");
	} else if (c->over) {
		channel_end_look(c, ""); /* it ended: did all of it? */
	} else {
		wait_until(c, c->step == 1 && c->term_ns ? c->term_ns : c->kill_ns);
	}
}

/* Nobody can look for it. */
static void channel_end_let_go(struct plain_channel *c)
{
	bool shell = c->peer->look == LOOK_SHELL;

	verdict(c, true,
		shell ? "left_running: this container has no /proc to look for its processes"
		      : "left_running: there is no shell in this image to end it with");
}

void channel_kill(struct plain_channel *c, uint8_t cause)
{
	uint64_t now = clock_boot_ns(), grace = c->open.grace_ms * NS_PER_MS;

	if (c->ending != ENDING_NOT || (c->over && c->end.cause != RC_LOST))
		return;
	c->cause = cause;
	c->deadline_ns = 0;
	if (!c->exec && !c->over) {
		channel_refuse(c, "cancelled", 0, "it was ended while it waited for its turn");
		return;
	}
	c->ending = ENDING_ASKED;
	c->kill_ns = now + grace;
	if (c->open.flags & OPEN_PTY)
		c->term_ns = now + (grace / 2 < HUP_AHEAD_NS ? grace / 2 : HUP_AHEAD_NS);
	if (c->visits)
		verdict(c, false, ""); /* muxlet ends with its stream */
	else if (!c->scripted || !c->peer->has.proc)
		channel_end_let_go(c);
	else
		channel_end_step(c);
}

/* ---- output: the script's line, then the program's bytes, as far as the hub's window and the peer let them */

static void channel_begun(struct plain_channel *c)
{
	if (c->state == CHANNEL_RUNNING || c->told)
		return;
	channel_set_state(c, CHANNEL_RUNNING);
	channel_put_opened(c, CODE_OK, "");
	if ((c->open.flags & OPEN_PTY) &&
	    !c->forgotten) /* how its terminal stands cannot be seen: all input is masked */
		wire_put(c->peer,
			 &(struct frame){.type = FRAME_ECHO, .channel = c->number, .u.number = ECHO_CANONICAL});
	if (c->exec && (c->open.flags & OPEN_PTY) && c->open.cols && c->open.rows)
		plain_exec_resize(c->exec, c->open.cols, c->open.rows); /* what came meanwhile */
	c->deadline_ns = c->open.timeout_ms && !c->over ? clock_boot_ns() + c->open.timeout_ms * NS_PER_MS : 0;
	peer_timer(c->peer);
	if (c->ending == ENDING_ASKED)
		channel_end_step(c);
}

/* Bytes that went; who was forgotten is not listened to. */
static size_t channel_output_put_data(struct plain_channel *c, int stream, const uint8_t *p, size_t n)
{
	size_t done = 0;

	if (c->forgotten || c->told)
		return n;
	if (c->state != CHANNEL_RUNNING)
		return 0;
	while (done < n && c->sent[stream] < c->window[stream] && buf_len(&c->peer->out) < PLAIN_OUT_HIGH) {
		uint64_t credit = c->window[stream] - c->sent[stream];
		struct frame f = {.type = FRAME_DATA, .channel = c->number, .stream = (uint8_t)stream};

		f.offset = c->sent[stream];
		f.p = p + done;
		f.n = n - done < FRAME_DATA_MAX ? n - done : FRAME_DATA_MAX;
		f.n = credit < f.n ? (size_t)credit : f.n;
		wire_put(c->peer, &f);
		c->sent[stream] += f.n;
		done += f.n;
	}
	return done;
}

/* The exec may send as much as there is room to hold: what of it goes on at once makes room for more. */
static void grant(struct plain_channel *c)
{
	size_t held = buf_len(&c->held[1]) + buf_len(&c->held[2]);

	if (c->exec && held < PLAIN_HELD)
		plain_exec_window(c->exec, c->got + PLAIN_HELD - held);
}

void channel_pump(struct plain_channel *c)
{
	for (int i = 1; i < 3; i++) {
		struct buf *b = &c->held[i];

		if (!buf_len(b) || (c->scripted && !c->answered && !c->over))
			continue;
		buf_consume(b, channel_output_put_data(c, i, buf_ptr(b), buf_len(b)));
		if (!buf_len(b)) {
			buf_finish(b);
			buf_init(b, (size_t)2 * PLAIN_HELD);
		}
	}
	grant(c);
}

/* Bytes that nobody can take end the exec: better an end that is told than a hole. */
static void channel_output_give_up(struct plain_channel *c, const char *why)
{
	c->over = true;
	c->end = (struct rc_exit){.cause = RC_UNKNOWN, .code = -1};
	err_set(&c->end.err, ERR_SANDBOX_CREATE, "left_running: %s", why);
	channel_release(c);
	channel_drop_input(c);
}

static void channel_output_read_answer(struct plain_channel *c)
{
	size_t used = 0;

	switch (answer_start(buf_ptr(&c->held[1]), buf_len(&c->held[1]), &c->leader, &used)) {
	case ANSWER_MORE:
		break;
	case ANSWER_STARTED:
		buf_consume(&c->held[1], used);
		c->answered = true;
		channel_begun(c);
		channel_feed(c);
		break;
	case ANSWER_REFUSED:
		channel_refuse(c, c->leader.at, c->leader.error, strerror(c->leader.error));
		break;
	case ANSWER_NONE:
		buf_clear(&c->held[1]);
		buf_clear(&c->held[2]);
		channel_output_give_up(c, "the shell in the container did not answer as asked");
		break;
	}
}

static void channel_data(void *arg, int stream, const uint8_t *p, size_t n)
{
	struct plain_channel *c = arg;
	struct buf *b;
	size_t done = 0;

	if (stream < 1 || stream > 2)
		return;
	b = &c->held[stream];
	c->got += n;
	if (!c->scripted)
		channel_begun(c);
	if (!buf_len(b) && (c->answered || !c->scripted))
		done = channel_output_put_data(c, stream, p, n);
	if (done < n && buf_append(b, p + done, n - done))
		channel_output_give_up(c, "its output could not be held");
	else if (c->scripted && !c->answered && stream == 1)
		channel_output_read_answer(c);
	if (c->exec)
		grant(c);
	peer_kick(c->peer);
}

/* ---- the end */

static void refuse_with(struct plain_channel *c, const struct err *e)
{
	if (c->visits && (e->code == ERR_NO_PROGRAM || e->code == ERR_NOT_EXECUTABLE))
		channel_refuse(c, "unsupported", 0, e->message);
	else if (!c->scripted && e->code == ERR_NO_PROGRAM)
		channel_refuse(c, "exec", ENOENT, e->message);
	else if (!c->scripted && e->code == ERR_NOT_EXECUTABLE)
		channel_refuse(c, "exec", EACCES, e->message);
	else
		channel_refuse(c, err_name(e->code ? e->code : ERR_SANDBOX_CREATE), 0, e->message);
}

/* The script said nothing: its shell could not do what it was asked to. */
static void refuse_mute(struct plain_channel *c)
{
	size_t n = buf_len(&c->held[2]) < 100 ? buf_len(&c->held[2]) : 100;
	char text[FRAME_TEXT_MAX];

	text_format(text, sizeof(text), "the shell in the container ended with code %d before the program began: %.*s",
		    c->end.code, (int)n, n ? (const char *)buf_ptr(&c->held[2]) : "");
	channel_refuse(c, "sandbox_create_failed", 0, text);
}

static void fill_exit(const struct plain_channel *c, struct frame_exit *x, char *text, size_t size)
{
	const char *words = c->end.err.message;

	*x = (struct frame_exit){.cause = CAUSE_UNKNOWN, .code = -1};
	if (c->end.cause == RC_EXITED && c->end.code >= 0 && c->end.code <= 255) {
		x->cause = CAUSE_EXITED;
		x->code = c->end.code;
		words = "";
		if (x->code > 128 && x->code < 192 && c->signals >> (x->code - 128) & 1) {
			x->signal = (uint8_t)(x->code - 128);
			x->code = -1;
		}
	} else if (c->end.cause == RC_LOST) {
		x->cause = CAUSE_LOST;
	}
	if (c->ending == ENDING_DONE && (x->cause == CAUSE_EXITED || !c->survived))
		x->cause = c->cause;
	text_format(text, size, "%s%s%s", c->verdict, c->verdict[0] && words[0] ? "; " : "", words);
}

/* The program may run still, and nobody will ever reach it: it is looked for and ended, as soon as the cluster lets us.
 */
static void end_the_lost(struct plain_channel *c)
{
	if (c->end.cause == RC_LOST && c->ending == ENDING_NOT && c->leader.pid)
		channel_kill(c, CAUSE_KILLED);
}

static void tell_exit(struct plain_channel *c)
{
	char text[FRAME_TEXT_MAX];
	struct frame_exit x;

	if (c->end.cause == RC_LOST && c->ending == ENDING_NOT)
		snprintf(c->verdict, sizeof(c->verdict), "left_running: the connection was lost");
	if (c->state != CHANNEL_RUNNING)
		channel_begun(c); /* it may have run: that is all that is known */
	fill_exit(c, &x, text, sizeof(text));
	channel_put_exit(c, &x, text);
	end_the_lost(c);
}

void channel_settle(struct plain_channel *c)
{
	bool waits = !c->over || c->ending == ENDING_ASKED;

	if (c->told || (c->forgotten && !waits)) {
		if (c->forgotten && c->ending != ENDING_ASKED)
			plain_channel_destroy(c);
		return;
	}
	if (waits)
		return;
	if (c->end.cause == RC_NOT_STARTED)
		refuse_with(c, &c->end.err);
	else if (c->scripted && !c->answered && c->end.cause == RC_EXITED)
		refuse_mute(c);
	else if (c->state != CHANNEL_RUNNING || (!buf_len(&c->held[1]) && !buf_len(&c->held[2])))
		tell_exit(c);
}

/* ---- the exec */

static void channel_start_on_exec_opened(void *arg, int version)
{
	struct plain_channel *c = arg;

	(void)version;
	queue_begun(c->peer);
	if (c->visits && c->state == CHANNEL_STARTING) { /* nobody has to look for it: it waits for its input */
		channel_begun(c);
	} else if (!c->scripted && c->state == CHANNEL_STARTING) {
		c->deadline_ns = clock_boot_ns() + BEGUN_MS * NS_PER_MS;
		peer_timer(c->peer);
	}
	channel_feed(c);
	peer_kick(c->peer);
}

static void channel_start_on_exec_writable(void *arg, size_t room)
{
	struct plain_channel *c = arg;

	(void)room;
	channel_feed(c);
	peer_kick(c->peer);
}

static void channel_start_on_exec_exited(void *arg, const struct rc_exit *x)
{
	struct plain_channel *c = arg;

	if (queue_again(c, x))
		return;
	c->over = true;
	c->end = *x;
	c->deadline_ns = 0;
	channel_release(c);
	channel_drop_input(c);
	if (c->ending == ENDING_ASKED)
		channel_end_step(c);
	peer_kick(c->peer); /* settles it once its output has gone */
}

static const struct rc_ops exec_ops = {channel_start_on_exec_opened, channel_data, channel_start_on_exec_writable,
				       channel_start_on_exec_exited};

static int make_words(struct plain_channel *c, struct script_words *w)
{
	const struct plain_peer *p = c->peer;
	struct script_start s = {
	    .shell = p->shell, .login = p->login, .mark = c->mark, .owner = p->owner, .feed = c->feed};

	if (c->visits)
		return script_visit(p->muxlet, &c->open, w);
	return c->scripted ? script_start(&s, &c->open, w) : script_bare(&c->open, w);
}

static int start_exec(struct plain_channel *c, bool with_input)
{
	bool pty = c->open.flags & OPEN_PTY;
	struct rc_params params = {.container = c->visits ? c->peer->visitor : NULL,
				   .in = with_input,
				   .out = true,
				   .err = !pty,
				   .tty = pty,
				   .cols = c->open.cols,
				   .rows = c->open.rows,
				   .window = PLAIN_HELD};
	struct script_words words;

	c->parked = false;
	if (make_words(c, &words) || plain_exec_start(c->peer, &params, &words, &exec_ops, c, &c->exec)) {
		channel_refuse(c, "out_of_memory", 0, "no memory for an exec");
		return -1;
	}
	c->deadline_ns = c->state == CHANNEL_RUNNING && c->open.timeout_ms
			     ? clock_boot_ns() + c->open.timeout_ms * NS_PER_MS
			     : 0; /* the first: it was parked */
	peer_timer(c->peer);
	return 0;
}

/* Does the channel need a shell? A plain pod may have none. */
static bool needs_shell(const struct plain_channel *c)
{
	const char *at = c->open.strings;

	if (c->open.cwd[0] || !c->open.strings[0] || (c->open.flags & OPEN_LOGIN))
		return true;
	for (uint32_t i = 0; i < c->open.argc; i++)
		at += strlen(at) + 1;
	for (uint32_t i = 0; i < c->open.envc; i++, at += strlen(at) + 1)
		if (strncmp(at, "TERM=", 5) != 0) /* the runtime sets one of its own */
			return true;
	return false;
}

static const char *bad_name(const struct plain_channel *c)
{
	const char *at = c->open.strings;

	for (uint32_t i = 0; i < c->open.argc + c->open.envc; i++, at += strlen(at) + 1)
		if (i >= c->open.argc && !script_name_ok(at))
			return at;
	return NULL;
}

static bool may_start(struct plain_channel *c)
{
	const char *name = c->scripted ? bad_name(c) : NULL;
	char text[FRAME_TEXT_MAX];

	if (c->visits)
		return true;
	if (!c->scripted && needs_shell(c)) {
		channel_refuse(c, "no_shell", 0,
			       "no shell in this image: neither a shell, a directory nor an environment of one's own");
		return false;
	}
	if (name) {
		text_format(text, sizeof(text), "the shell in this container cannot set the variable %.*s",
			    (int)strcspn(name, "="), name);
		channel_refuse(c, "unsupported", 0, text);
		return false;
	}
	return true;
}

static void channel_start_start(struct plain_channel *c)
{
	const struct plain_peer *p = c->peer;
	bool pipe_in = (c->open.flags & (OPEN_STDIN | OPEN_PTY)) == OPEN_STDIN, v4 = p->version < 5;

	c->visits = c->open.flags & OPEN_SELF;
	c->scripted = p->look == LOOK_SHELL && !c->visits;
	c->deadline_ns = 0;
	if (!may_start(c))
		return;
	channel_set_state(c, CHANNEL_STARTING);
	c->slot = true;
	c->peer->running++;
	if (pipe_in && c->visits)
		c->feed = FEED_HEAD;
	else if (pipe_in && v4 && c->scripted)
		c->feed = p->has.head ? FEED_HEAD : p->has.dd ? FEED_DD : FEED_DIRECT;
	if (pipe_in && v4 && c->feed == FEED_DIRECT) {
		c->parked = true;
		channel_begun(c); /* or no input would ever be shown to us */
		c->deadline_ns = clock_boot_ns() + PARK_MS * NS_PER_MS;
		peer_timer(c->peer);
		return;
	}
	(void)start_exec(c, pipe_in || (c->open.flags & OPEN_PTY));
}

void channel_start_waiting(struct plain_peer *p)
{
	struct plain_channel *c;

	while ((c = queue_next(p)))
		channel_start_start(c);
	peer_timer(p);
}

/* ---- OPEN */

static size_t strings_len(const struct frame_open *o)
{
	const char *at = o->strings;

	for (uint32_t i = 0; i < o->argc + o->envc; i++)
		at += strlen(at) + 1;
	return (size_t)(at - o->cwd);
}

static struct plain_channel *new_channel(struct plain_peer *p, const struct frame *f)
{
	struct plain_channel *c = calloc(1, sizeof(*c));
	size_t n = strings_len(&f->u.open);
	struct id id;

	if (!c || !(c->strings = malloc(n))) {
		free(c);
		return NULL;
	}
	memcpy(c->strings, f->u.open.cwd, n);
	c->peer = p;
	c->number = f->channel;
	c->open = f->u.open;
	c->open.cwd = (const char *)c->strings;
	c->open.strings = c->open.cwd + strlen(c->open.cwd) + 1;
	if (c->open.grace_ms > GRACE_MAX_MS)
		c->open.grace_ms = GRACE_MAX_MS;
	if (c->open.timeout_ms >= TIMEOUT_MAX_MS)
		c->open.timeout_ms = 0;
	memcpy(id.b, f->u.open.session, sizeof(id.b));
	id_format(&id, c->mark);
	c->window[1] = c->window[2] = f->u.open.window;
	for (int i = 1; i < 3; i++)
		buf_init(&c->held[i], (size_t)2 * PLAIN_HELD);
	buf_init(&c->input, PLAIN_INPUT);
	buf_init(&c->framed, (size_t)2 * FRAME_DATA_MAX);
	TAILQ_INSERT_TAIL(&p->channels, c, entry);
	p->waiting++; /* CHANNEL_WAITING */
	return c;
}

static bool session_known(const struct plain_peer *p, const uint8_t session[16])
{
	const struct plain_channel *c;

	TAILQ_FOREACH(c, &p->channels, entry)
	if (memcmp(c->open.session, session, sizeof(c->open.session)) == 0)
		return true;
	return false;
}

static void refuse_new(struct plain_peer *p, uint32_t channel, uint16_t code, const char *where, const char *text)
{
	struct frame f = {.type = FRAME_OPENED, .channel = channel, .p = (const uint8_t *)text, .n = strlen(text)};

	f.u.opened.code = code;
	wire_put(p, &f);
	f.type = FRAME_EXIT;
	f.u.exit = (struct frame_exit){.cause = CAUSE_NOT_STARTED, .code = -1};
	text_put(f.u.exit.at, sizeof(f.u.exit.at), where);
	wire_put(p, &f);
}

static void queue(struct plain_channel *c)
{
	struct plain_peer *p = c->peer;

	c->deadline_ns = c->wait_until_ns = clock_boot_ns() + p->plain->wait_ns;
	if (p->look == LOOK_UNKNOWN)
		look_begin(p);
	else
		channel_start_waiting(p);
	peer_timer(p);
}

void channel_open(struct plain_peer *p, const struct frame *f)
{
	struct plain_channel *c = NULL;

	if (channel_find(p, f->channel))
		wire_put(p,
			 &(struct frame){.type = FRAME_OPENED, .channel = f->channel, .u.opened.code = CODE_CONFLICT});
	else if (session_known(p, f->u.open.session))
		refuse_new(p, f->channel, CODE_CONFLICT, "conflict", "the session runs or ran on another channel");
	else if (p->secret_for == f->channel)
		refuse_new(p, f->channel, CODE_INVALID, "unsupported",
			   "without muxlet no secret can be handed to a program");
	else if (f->u.open.flags & OPEN_SELF && (!p->visitor || !script_may_visit(&f->u.open)))
		refuse_new(p, f->channel, CODE_INVALID, "unsupported",
			   "there is no muxlet in this container"); /* HELLO says so */
	else if (p->waiting >= PLAIN_WAITING)
		refuse_new(p, f->channel, CODE_LIMIT, "limit_reached",
			   "too many programs wait for their turn in this container");
	else if (!(c = new_channel(p, f)))
		refuse_new(p, f->channel, CODE_SYSTEM, "out_of_memory", "no memory for a channel");
	if (c)
		queue(c);
}

/* ---- time */

static void refuse_late(struct plain_channel *c)
{
	const struct plain_peer *p = c->peer;
	char text[FRAME_TEXT_MAX];

	text_format(text, sizeof(text),
		    "its turn did not come within %u s, %u programs run in this container (of %u: "
		    "kubernetes.plain_programs)%s%.100s",
		    (unsigned)(p->plain->wait_ns / NS_PER_SEC), p->running, p->plain->programs,
		    p->busy[0] ? "; the server is busy: " : "", p->busy);
	channel_refuse(c, "limit_reached", 0, text);
}

void channel_tick(struct plain_channel *c, uint64_t now)
{
	if (c->next_ns && now >= c->next_ns) {
		c->next_ns = 0;
		channel_end_step(c);
	}
	if (c->eof_at_ns && now >= c->eof_at_ns) {
		c->eof_at_ns = 0;
		c->eof = true;
		channel_feed(c);
	}
	if (!c->deadline_ns || now < c->deadline_ns)
		return;
	c->deadline_ns = 0;
	if (c->state == CHANNEL_WAITING)
		refuse_late(c);
	else if (c->parked)
		(void)start_exec(c, !c->eof_sent);
	else if (c->state == CHANNEL_STARTING)
		channel_begun(c);
	else if (c->state == CHANNEL_RUNNING)
		channel_kill(c, CAUSE_TIMEOUT);
}
