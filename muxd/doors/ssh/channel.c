/* A channel as it is asked for: requests of the client, and events of the hub on their way to it. */
#define LOG_SUBSYS "ssh"
#include "muxd/doors/ssh/channel.h"

#include "base/conf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/doors/ssh/conn.h"
#include "muxd/hub/core/hub.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define ENV_VALUE_MAX 256
#define COMMAND_MAX   (128 * 1024)
#define SIDE_MAX      4096 /* columns or rows; what the hub takes */

/* `ssh -T host`: a login shell without a terminal, as sshd runs it. */
static const char plain_shell[] = "exec \"${SHELL:-/bin/sh}\" -l";

static bool wants_program(const struct ssh_chan *ch)
{
	return ch->state == SSH_CHAN_IDLE && !ch->remote_closed;
}

static unsigned side(int n, unsigned otherwise)
{
	if (n <= 0)
		return otherwise;
	return n > SIDE_MAX ? SIDE_MAX : (unsigned)n;
}

static void size_set(struct ssh_chan *ch, int cols, int rows, int xpixel, int ypixel)
{
	ch->cols = side(cols, 80);
	ch->rows = side(rows, 24);
	ch->xpixel = xpixel > 0 && xpixel <= UINT16_MAX ? (unsigned)xpixel : 0;
	ch->ypixel = ypixel > 0 && ypixel <= UINT16_MAX ? (unsigned)ypixel : 0;
}

static void size_tell(struct ssh_chan *ch)
{
	int rc = attachment_resize(ch->att, ch->cols, ch->rows, ch->xpixel, ch->ypixel);

	if (rc)
		log_debug(NULL, "resize to %ux%u: %s", ch->cols, ch->rows, err_name(rc));
}

static int channel_on_pty(ssh_session s, ssh_channel c, const char *term, int cols, int rows, int px, int py, void *arg)
{
	struct ssh_chan *ch = arg;

	(void)s;
	(void)c;
	if (!wants_program(ch) || ch->pty)
		return -1;
	/* TERM names a file of the terminfo database inside: nothing but such a name goes through. */
	for (const char *p = term; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("-_.+", *p))
			term = "";
	text_put(ch->term, sizeof(ch->term), strlen(term) < sizeof(ch->term) ? term : "");
	ch->pty = true;
	size_set(ch, cols, rows, px, py);
	return 0;
}

static int channel_on_window(ssh_session s, ssh_channel c, int cols, int rows, int px, int py, void *arg)
{
	struct ssh_chan *ch = arg;

	(void)s;
	(void)c;
	if (!ch->pty)
		return -1;
	size_set(ch, cols, rows, px, py);
	if (ch->att)
		size_tell(ch);
	else
		ch->sized = true;
	return 0;
}

/* Languages only, and printable: what a program inside is told, and the record keeps the names of. */
static bool env_allowed(const char *name, const char *value)
{
	if (strcmp(name, "LANG") != 0 && strncmp(name, "LC_", 3) != 0)
		return false;
	if (strlen(name) > 32 || strlen(value) > ENV_VALUE_MAX)
		return false;
	for (const char *p = name; *p; p++)
		if (!isupper((unsigned char)*p) && !isdigit((unsigned char)*p) && *p != '_')
			return false;
	for (const char *p = value; *p; p++)
		if (!isgraph((unsigned char)*p))
			return false;
	return true;
}

static int channel_on_env(ssh_session s, ssh_channel c, const char *name, const char *value, void *arg)
{
	struct ssh_chan *ch = arg;
	char *pair;

	(void)s;
	(void)c;
	if (!wants_program(ch) || ch->nenv == SSH_CHAN_ENV_MAX || !env_allowed(name, value))
		return -1;
	if (asprintf(&pair, "%s=%s", name, value) < 0)
		return -1;
	ch->env[ch->nenv++] = pair;
	return 0;
}

/* A program's screen is the program's: on a terminal a notice stands in the title of the window. */
static void set_title(struct ssh_chan *ch, const char *text)
{
	char bytes[BETWEEN_TITLE_MAX];
	size_t n;

	if (ch->title_begun || (!text && !ch->titled && buf_len(&ch->title) == 0))
		return;
	buf_clear(&ch->title); /* an older one that is not out yet */
	if (!text && !ch->titled)
		return;
	ch->titled_over = !text;
	n = between_title(bytes, text, !ch->titled, ch->conn->auth.login.agent);
	if (buf_append(&ch->title, bytes, n) == 0)
		ch->conn->again = true;
}

static void channel_on_readable(void *arg)
{
	struct ssh_chan *ch = arg;
	struct ssh_conn *c = ch->conn;

	ssh_conn_enter(c);
	ch->out_ready = true;
	ssh_conn_leave(c);
}

static void channel_on_writable(void *arg)
{
	struct ssh_chan *ch = arg;
	struct ssh_conn *c = ch->conn;

	ssh_conn_enter(c);
	ch->in_blocked = false;
	ssh_conn_leave(c);
}

static void channel_on_notice(void *arg, const char *text, bool over)
{
	struct ssh_chan *ch = arg;
	struct ssh_conn *c = ch->conn;

	ssh_conn_enter(c);
	/* What waits for its turn draws nothing that a line could spoil. */
	if (ch->pty && between_has_title(ch->term) && session_state(attachment_session(ch->att)) != SESSION_OPENING)
		set_title(ch, over ? NULL : text);
	else
		ssh_chan_say(ch, "%s", text);
	ssh_conn_leave(c);
}

static void channel_on_shot(void *arg, const struct screen_shot *shot)
{
	struct ssh_chan *ch = arg;
	struct ssh_conn *c = ch->conn;

	ssh_conn_enter(c);
	buf_clear(&ch->shot); /* an older one that is not out yet */
	if (buf_append(&ch->shot, shot->bytes, shot->len))
		ssh_chan_say(ch, "the screen could not be kept: no memory");
	c->again = true;
	ssh_conn_leave(c);
}

static void channel_on_skipped(void *arg, int stream, uint64_t n)
{
	struct ssh_chan *ch = arg;
	struct ssh_conn *c = ch->conn;

	(void)stream;
	ssh_conn_enter(c);
	ssh_chan_say(ch, "%llu bytes left out: this client reads too slowly", (unsigned long long)n);
	ssh_conn_leave(c);
}

static void channel_on_ended(void *arg, const struct session_result *result)
{
	struct ssh_chan *ch = arg;
	struct ssh_conn *c = ch->conn;
	struct ssh_exit x;

	ssh_conn_enter(c);
	ssh_exit_of(result, &x);
	ssh_chan_finish(ch, &x);
	ssh_conn_leave(c);
}

static void channel_on_cut(void *arg, enum cut_cause cause, const char *text)
{
	struct ssh_chan *ch = arg;
	struct ssh_conn *c = ch->conn;

	ssh_conn_enter(c);
	c->last = c->last || cause == CUT_EXPIRED || cause == CUT_REVOKED || cause == CUT_SHUTDOWN;
	ssh_chan_part(ch, text, cause != CUT_TERMINATED && cause != CUT_SANDBOX);
	ssh_conn_leave(c);
}

static const struct attachment_ops chan_terminal_ops = {
    .readable = channel_on_readable,
    .writable = channel_on_writable,
    .notice = channel_on_notice,
    .screen = channel_on_shot,
    .skipped = channel_on_skipped,
    .ended = channel_on_ended,
    .cut = channel_on_cut,
};

/* What is no terminal cannot be brought to a screen: it gets the bytes. */
static const struct attachment_ops chan_ops = {
    .readable = channel_on_readable,
    .writable = channel_on_writable,
    .notice = channel_on_notice,
    .skipped = channel_on_skipped,
    .ended = channel_on_ended,
    .cut = channel_on_cut,
};

static void attached(struct ssh_chan *ch, struct attachment *a)
{
	char id[ID_STR_LEN];
	struct log_ids ids = {.peer = ch->conn->peer, .agent = ch->conn->auth.login.agent, .session = id};

	id_format(session_id(attachment_session(a)), id);
	log_debug(&ids, "attached");
	ch->att = a;
	ch->out_ready = true;
	ssh_chan_set_state(ch, SSH_CHAN_ATTACHED);
}

static void channel_on_started(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			       const struct id *seen)
{
	struct ssh_chan *ch = arg;
	struct ssh_conn *c = ch->conn;

	(void)s;
	(void)seen;
	ch->answer_due = false;
	if (!c) { /* the transport went away meanwhile */
		attachment_detach(a);
		ssh_chan_abandon(ch);
		return;
	}
	ssh_conn_enter(c);
	if (ch->state != SSH_CHAN_STARTING) {
		attachment_detach(a);
	} else if (rc) {
		const char *begun = e->begun.id[0] ? " Session: " : "";
		ssh_chan_refuse(ch, "%s (%s). %s%s%s", e->message, err_name(rc), err_hint(rc), begun, e->begun.id);
	} else {
		attached(ch, a);
		if (ch->sized)
			size_tell(ch);
	}
	ssh_conn_leave(c);
}

static void start_new(struct ssh_chan *ch, const char *command)
{
	struct ssh_conn *c = ch->conn;
	struct request rq;
	struct exec_spec spec = {
	    .kind = command || !ch->pty ? SESSION_EXEC : SESSION_TERMINAL,
	    .agent = c->auth.login.agent,
	    .command = command,
	    .env = (const char *const *)ch->env,
	    .term = ch->pty && ch->term[0] ? ch->term : NULL,
	    .pty = ch->pty,
	    .cols = ch->cols,
	    .rows = ch->rows,
	    .xpixel = ch->xpixel,
	    .ypixel = ch->ypixel,
	    .stdin_open = true,
	    .head = UINT64_MAX,
	    .tail = UINT64_MAX,
	};

	if (!command && !ch->pty)
		spec.command = plain_shell;
	ssh_chan_set_state(ch, SSH_CHAN_STARTING);
	ch->answer_due = true;
	request_again(c->auth.in, command ? "exec" : "shell", &rq);
	broker_open(c->door->hub, &rq, &spec, &chan_ops, ch, channel_on_started, ch);
	request_finish(&rq);
}

static void start_return(struct ssh_chan *ch)
{
	struct ssh_conn *c = ch->conn;
	struct attachment *a = NULL;
	struct request rq;
	struct err e = {0};
	int rc;

	request_again(c->auth.in, "attach", &rq);
	rc = broker_attach(c->door->hub, &rq, c->auth.login.agent, c->auth.login.session, ROLE_DRIVER,
			   ch->pty ? &chan_terminal_ops : &chan_ops, ch, &a, &e);
	request_finish(&rq);
	if (rc) {
		ssh_chan_refuse(ch, "%s (%s). %s", e.message, err_name(rc), err_hint(rc));
		return;
	}
	attached(ch, a);
	if (ch->pty)
		size_tell(ch);
}

/* A shell or a command. It is always accepted: a refusal comes as a sentence on stderr and exit status 255. */
static int ssh_channel_start(struct ssh_chan *ch, const char *command)
{
	struct ssh_conn *c = ch->conn;

	if (!wants_program(ch))
		return -1;
	ssh_conn_enter(c);
	if (command && strlen(command) > COMMAND_MAX)
		ssh_chan_refuse(ch, "the command is longer than %d bytes", COMMAND_MAX);
	else if (c->auth.login.attach && command)
		ssh_chan_refuse(ch, "%s+... comes back to a session and runs no command; for one, log in as %s",
				c->auth.login.agent, c->auth.login.agent);
	else if (c->auth.login.attach)
		start_return(ch);
	else
		start_new(ch, command);
	ssh_conn_leave(c);
	return 0;
}

static int channel_on_shell(ssh_session s, ssh_channel c, void *arg)
{
	(void)s;
	(void)c;
	return ssh_channel_start(arg, NULL);
}

static int channel_on_exec(ssh_session s, ssh_channel c, const char *command, void *arg)
{
	(void)s;
	(void)c;
	return ssh_channel_start(arg, command ? command : "");
}

/*
 * Not offered. A bare refusal would reach the person as "subsystem request failed":
 * OpenSSH's client leaves before it shows what came on stderr. So it is taken, told
 * why, and ended with status 255.
 */
static int channel_on_subsystem(ssh_session s, ssh_channel c, const char *name, void *arg)
{
	struct ssh_chan *ch = arg;
	struct request rq;
	struct err e;
	char what[32];

	(void)s;
	(void)c;
	if (!wants_program(ch))
		return -1;
	ssh_login_printable(what, sizeof(what), name ? name : "");
	request_again(ch->conn->auth.in, "subsystem", &rq);
	err_set(&e, ERR_UNSUPPORTED, "subsystem %s is not offered", what);
	(void)broker_verdict(ch->conn->door->hub, &rq, "subsystem", &e);
	request_finish(&rq);
	ssh_chan_refuse(ch, "%s is not offered yet; ssh AGENT@host cat FILE and scp -O work", what);
	ch->conn->again = true;
	return 0;
}

static void channel_on_signal(ssh_session s, ssh_channel c, const char *name, void *arg)
{
	struct ssh_chan *ch = arg;
	struct err e;
	int signum, rc;

	(void)s;
	(void)c;
	if (!ch->att || !name)
		return;
	rc = signal_parse(name, &signum, &e);
	if (rc == 0)
		rc = attachment_signal(ch->att, signum);
	if (rc)
		log_debug(NULL, "signal: %s", err_name(rc));
}

static void channel_on_close(ssh_session s, ssh_channel c, void *arg)
{
	struct ssh_chan *ch = arg;

	(void)s;
	(void)c;
	ch->remote_closed = true;
	ch->conn->again = true;
}

static void chan_callbacks(struct ssh_chan *ch)
{
	ch->callbacks.userdata = ch;
	ch->callbacks.channel_pty_request_function = channel_on_pty;
	ch->callbacks.channel_pty_window_change_function = channel_on_window;
	ch->callbacks.channel_env_request_function = channel_on_env;
	ch->callbacks.channel_shell_request_function = channel_on_shell;
	ch->callbacks.channel_exec_request_function = channel_on_exec;
	ch->callbacks.channel_subsystem_request_function = channel_on_subsystem;
	ch->callbacks.channel_signal_function = channel_on_signal;
	ch->callbacks.channel_close_function = channel_on_close;
	ssh_chan_io_callbacks(ch);
	ssh_callbacks_init(&ch->callbacks);
}

ssh_channel ssh_chan_create(struct ssh_conn *c)
{
	struct ssh_chan *ch;

	if (c->nchans >= hub_conf(c->door->hub)->ssh_max_channels)
		return NULL;
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return NULL;
	ch->conn = c;
	buf_init(&ch->words, SSH_CHAN_SLICE);
	buf_init(&ch->shot, SSH_CHAN_SHOT_MAX);
	buf_init(&ch->title, BETWEEN_TITLE_MAX);
	chan_callbacks(ch);
	ch->ssh = ssh_channel_new(c->ssh);
	if (!ch->ssh || ssh_set_channel_callbacks(ch->ssh, &ch->callbacks) != SSH_OK) {
		ssh_channel_free(ch->ssh);
		free(ch);
		return NULL;
	}
	c->nchans++;
	TAILQ_INSERT_TAIL(&c->chans, ch, link);
	return ch->ssh;
}
