/* A channel's way from OPEN over its turn to its exec, what the exec tells, and the end once all of it has gone. */
#define LOG_SUBSYS "plain"
#include "base/clock.h"
#include "base/err.h"
#include "base/ids.h"
#include "base/text.h"
#include "muxd/plain/peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEGUN_MS       1000 /* without a shell nobody says that the program began: it is taken for begun after so long */
#define PARK_MS        300  /* how long a start waits for what its input will be, where there is no end of input */
#define TIMEOUT_MAX_MS (UINT64_C(366) * 86400 * 1000)
#define GRACE_MAX_MS   60000

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
	} else if (c->end.cause == RC_LOST) {
		x->cause = CAUSE_LOST;
	}
	if (c->ending == ENDING_DONE && (x->cause == CAUSE_EXITED || !c->survived))
		x->cause = c->cause;
	if (snprintf(text, size, "%s%s%s", c->verdict, c->verdict[0] && words[0] ? "; " : "", words) < 0)
		text[0] = '\0'; /* what does not fit is cut */
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

/* What a shell would have to do, and there is none. */
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
